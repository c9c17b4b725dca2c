//! Lists of host names as Slurm reads them: `gpu[01-16,20],r[1-2]n[01-04]`.
//!
//! Source: the hostlist syntax of Slurm (`scontrol show hostnames`): commas outside brackets separate names, a range
//! keeps the zero padding of its first number, several brackets in a name multiply.
//! Read beyond it: brackets within brackets, such as `r[1n[1-2],2n[3-4]]`.

use super::Mistake;

/// The names in a list, in its order.
pub(super) fn expand(list: &str) -> Result<Vec<String>, Mistake> {
    let mut names = Vec::new();
    for item in parts(list, list)? {
        let more = expand_one(item.trim(), list, 0)?;
        if names.len() + more.len() > MOST_NAMES {
            return Err(wrong(list, "it has more names than a switch can have ports; is a range mistyped?"));
        }
        names.extend(more);
    }
    Ok(names)
}

/// The names that one item stands for; `list` is what messages show.
fn expand_one(item: &str, list: &str, depth: u32) -> Result<Vec<String>, Mistake> {
    if item.is_empty() {
        return Err(wrong(list, "a name between two commas is missing"));
    }
    if depth > MOST_NESTED {
        return Err(wrong(list, "its brackets are nested too deeply; write the names one by one"));
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((head, tail)) = rest.split_once('[') {
        let (inside, tail) = closed(tail).ok_or_else(|| wrong(list, UNCLOSED))?;
        let mut choices = Vec::new();
        for choice in parts(inside, list)? {
            let choice = choice.trim();
            if choice.contains('[') {
                choices.extend(expand_one(choice, list, depth + 1)?);
            } else {
                range(choice, list, &mut choices)?;
            }
        }
        if names.len().saturating_mul(choices.len()) > MOST_NAMES {
            return Err(wrong(list, "it has more names than a switch can have ports; is a range mistyped?"));
        }
        names = names.iter().flat_map(|name| choices.iter().map(move |choice| format!("{name}{head}{choice}"))).collect();
        rest = tail;
    }
    if rest.contains(']') {
        return Err(wrong(list, UNCLOSED));
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// `7` or `01-16`.
fn range(text: &str, list: &str, names: &mut Vec<String>) -> Result<(), Mistake> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number(first), number(last)) {
        (Some(low), Some(high)) if low > high => Err(wrong(list, "a range runs backwards; write the lower number first")),
        (Some(low), Some(high)) if high - low >= MOST_NAMES as u64 => {
            Err(wrong(list, "it has more names than a switch can have ports; is a range mistyped?"))
        }
        (Some(low), Some(high)) => {
            let width = first.len();
            names.extend((low..=high).map(|number| format!("{number:0width$}")));
            if names.len() > MOST_NAMES {
                Err(wrong(list, "it has more names than a switch can have ports; is a range mistyped?"))
            } else {
                Ok(())
            }
        }
        _ => Err(wrong(list, "between brackets stand numbers and ranges, such as `[01-16,20]`")),
    }
}

/// What stands before the bracket that closes one opened before `text`, and what follows it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `text` between the commas outside brackets.
fn parts<'a>(text: &'a str, list: &str) -> Result<Vec<&'a str>, Mistake> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0u32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(|| wrong(list, UNCLOSED))?,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    if depth > 0 { Err(wrong(list, UNCLOSED)) } else { Ok(parts) }
}

fn wrong(list: &str, why: &'static str) -> Mistake {
    Mistake::Hostlist { list: list.chars().take(60).collect(), why }
}

/// No list may name more than a switch has ports.
const MOST_NAMES: usize = 65_534;
/// Brackets within brackets.
const MOST_NESTED: u32 = 4;
const UNCLOSED: &str = "a bracket has no partner";

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::expand;

    #[test]
    fn as_slurm_reads_them() {
        for (list, names) in [
            ("gpu[01-03,20]", &["gpu01", "gpu02", "gpu03", "gpu20"][..]),
            ("n[8-11]", &["n8", "n9", "n10", "n11"]),
            ("n[008-010]x", &["n008x", "n009x", "n010x"]),
            ("r[1-2]n[1,03]", &["r1n1", "r1n03", "r2n1", "r2n03"]),
            ("login, a1", &["login", "a1"]),
            ("r[1n[1-2],2n[3-4]]", &["r1n1", "r1n2", "r2n3", "r2n4"]),
            ("é[7-8]", &["é7", "é8"]),
        ] {
            assert_eq!(expand(list).unwrap(), names, "{list}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (list, said) in [
            ("a[1-", "no partner"),
            ("a1]", "no partner"),
            ("a[1]]", "no partner"),
            ("a[[[[[[1]]]]]]", "nested"),
            ("a,,b", "missing"),
            ("", "missing"),
            ("a[3-1]", "backwards"),
            ("a[x]", "numbers and ranges"),
            ("a[]", "numbers and ranges"),
            ("a[-1]", "numbers and ranges"),
            ("a[0-99999999]", "more names"),
            ("a[0-65534]", "more names"),
            ("a[0-999][0-999]", "more names"),
            ("a[0-99999999999999999999999999]", "numbers and ranges"),
        ] {
            let message = expand(list).unwrap_err().in_full();
            assert!(message.contains(said), "{list}: {message}");
        }
    }

    #[test]
    fn folded_lists_are_expanded_again() {
        let names: Vec<String> = (0..200).map(|n| format!("r{:02}-n{:03}", n / 16, n % 16)).collect();
        assert_eq!(expand(&crate::export::fold(names.iter().map(String::as_str))).unwrap(), names);
    }
}
