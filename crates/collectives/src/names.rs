//! Names of algorithms with their parameters, as people write them: `k_nomial(4)`, `chain(8 KiB, 4)`, `two(k_nomial(4), ring)`.

use std::fmt;

use fabriscope_units::Bytes;

/// A name that is being read; parameters are taken one after the other, and those that are not written have their defaults.
#[derive(Debug)]
pub struct Name<'a> {
    /// What stands before the parameters.
    pub word: &'a str,
    parameters: std::vec::IntoIter<&'a str>,
}

impl<'a> Name<'a> {
    /// Reads a name; `None` where parentheses do not match.
    #[must_use]
    pub fn read(text: &'a str) -> Option<Name<'a>> {
        let (word, parameters) = match text.trim().split_once('(') {
            None => (text.trim(), Vec::new()),
            Some((word, rest)) => (word.trim(), split(rest.strip_suffix(')')?)?),
        };
        (!word.is_empty() && !word.contains([')', ','])).then_some(Name { word, parameters: parameters.into_iter() })
    }
    /// The next parameter, a number that is `least` or more.
    pub fn number(&mut self, least: u32, default: u32) -> Option<u32> {
        self.parameters.next().map_or(Some(default), |text| text.parse().ok()).filter(|number| *number >= least)
    }
    /// The next parameter, an amount of data with its unit.
    pub fn size(&mut self, default: Bytes) -> Option<Bytes> {
        self.parameters.next().map_or(Some(default), |text| Bytes::parse(text).ok())
    }
    /// The next parameter, a name of its own.
    pub fn inner<T>(&mut self, named: impl Fn(&str) -> Option<T>, default: T) -> Option<T> {
        self.parameters.next().map_or(Some(default), named)
    }
    /// What was read, unless a parameter is left over.
    #[must_use]
    pub fn end<T>(mut self, read: T) -> Option<T> {
        self.parameters.next().is_none().then_some(read)
    }
}

/// Names with their parameters, as help shows them: `ring, tree(shape, segment)`.
pub(crate) fn listed(names: &[(&str, &[&str])], others: &[&str]) -> String {
    let written = |(name, parameters): &(&str, &[&str])| match parameters {
        [] => (*name).to_owned(),
        _ => format!("{name}({})", parameters.join(", ")),
    };
    names.iter().map(written).chain(others.iter().map(|other| (*other).to_owned())).collect::<Vec<_>>().join(", ")
}

/// A parameter as it is written; `None` where it is one of those that are left out.
pub(crate) fn parameter<T: fmt::Display + PartialEq>(value: &T, omitted: &[T]) -> Option<String> {
    (!omitted.contains(value)).then(|| value.to_string())
}

/// A name with its parameters.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, name: &str, parameters: &[Option<String>]) -> fmt::Result {
    let parameters: Vec<&str> = parameters.iter().flatten().map(String::as_str).collect();
    if parameters.is_empty() { f.write_str(name) } else { write!(f, "{name}({})", parameters.join(", ")) }
}

/// The parts between commas that stand in no parentheses.
pub(crate) fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    (depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_in_order() {
        let mut name = Name::read("chain(8 KiB, 4)").unwrap();
        assert_eq!((name.word, name.size(Bytes::ZERO), name.number(1, 2)), ("chain", Some(Bytes(8192)), Some(4)));
        assert_eq!(name.end(7), Some(7));
        let mut name = Name::read("two(a(1, b(2)), 3)").unwrap();
        assert_eq!(name.inner(|text| (text == "a(1, b(2))").then_some(1), 0), Some(1));
        assert_eq!(name.end(0), None);
    }

    #[test]
    fn defaults_and_mistakes() {
        let mut name = Name::read("chain").unwrap();
        assert_eq!((name.size(Bytes(5)), name.number(1, 2), name.end(())), (Some(Bytes(5)), Some(2), Some(())));
        assert_eq!(Name::read("tree(1)").unwrap().number(2, 2), None);
        assert_eq!(Name::read("tree(x)").unwrap().size(Bytes::ZERO), None);
        for text in ["tree(1", "tree(1))", "tree)", "(1)", "", "tree((1)", "tree(1)(2)"] {
            assert!(Name::read(text).is_none(), "{text}");
        }
    }
}
