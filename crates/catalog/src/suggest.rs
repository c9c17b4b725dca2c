//! From what a reader of TOML says to what a person needs: the nearest name, the keys that exist.

/// The names nearest to `name`, best first, none that is far off.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    // Long input from outside is not worth comparing; its first letters decide.
    let lower: String = lower.chars().take(LONGEST).collect();
    let mut near: Vec<(f64, &str)> = known
        .into_iter()
        .map(|candidate| {
            let similar = strsim::jaro_winkler(&lower, &candidate.to_lowercase());
            // A part of a long name counts as near: `5` or `edr` find `connectx-5` and `hdr`'s kin.
            let inside = lower.len() >= 2 && candidate.to_lowercase().contains(&lower);
            (if inside { similar.max(0.9) } else { similar }, candidate)
        })
        .filter(|(similar, _)| *similar >= 0.75)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let best = near.first().map_or(0.0, |(similar, _)| *similar);
    near.into_iter().take_while(|(similar, _)| best - similar <= CLOSE).take(3).map(|(_, candidate)| candidate).collect()
}

/// The name of which `name` is another spelling: a letter or two apart.
pub(crate) fn alike<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // Long input from outside is not worth comparing.
    let is_short = name.len() <= LONGEST;
    known.iter().copied().find(|candidate| is_short && strsim::damerau_levenshtein(name, candidate) <= 2)
}

/// `did you mean …?`, or the names that exist.
pub(crate) fn help<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = nearest(name, known.clone());
    if let Some((first, rest)) = near.split_first() {
        let or = rest.iter().map(|other| format!(" or `{other}`")).collect::<String>();
        return format!("did you mean `{first}`{or}?");
    }
    let all = known.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    if all.is_empty() { "there are none".to_owned() } else { format!("there are {}", all.join(", ")) }
}

/// Turns the words of the deserializer into a message and a remedy.
pub(crate) fn explain(message: &str) -> (String, String) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (first, known) = (quoted.first().copied().unwrap_or_default(), quoted.get(1..).unwrap_or_default());
    if message.starts_with("unknown field `") {
        if known.is_empty() {
            return (format!("unknown key `{first}`"), "nothing may stand here".to_owned());
        }
        return (format!("unknown key `{first}`"), choice(first, known, "the keys here are"));
    }
    if message.starts_with("unknown variant `") {
        return (format!("unknown choice `{first}`"), choice(first, known, "the choices are"));
    }
    if message.starts_with("missing field `") {
        return (format!("the key `{first}` is missing"), format!("add `{first}`"));
    }
    if message == "invalid type: unit variant, expected newtype variant" {
        return ("this choice has keys of its own".to_owned(), "write it as a table, for example [topology.single_switch]".to_owned());
    }
    if let Some(wrong) = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: ")) {
        let (found, wanted) = wrong.split_once(", expected ").unwrap_or((wrong, "something else"));
        return (format!("found {found}"), format!("expected here: {}", plain(wanted)));
    }
    if message.starts_with("wanted exactly 1 element") {
        return ("a choice needs exactly one table below it".to_owned(), "keep one, for example [topology.fat_tree]".to_owned());
    }
    let (what, help) = remedy(message, "");
    (what.to_owned(), help.to_owned())
}

/// What is wrong, and what to do about it, in a text; one without a remedy gets `otherwise`.
///
/// Errors give their remedy themselves (`fabriscope_units::Remedy`). Only where they came through a reader of TOML or JSON, or ended
/// a program, are they text: their message, a semicolon and the remedy.
#[must_use]
pub fn remedy<'t>(message: &'t str, otherwise: &'t str) -> (&'t str, &'t str) {
    message.split_once("; ").unwrap_or((message, otherwise))
}

/// What a type is called by people.
fn plain(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" => "a whole number, not negative",
        "f64" => "a number",
        "a string" | "string" => "a text in quotes",
        "a sequence" => "a list, [ … ]",
        _ if wanted.starts_with("struct ") => "a table",
        _ => wanted.trim_end_matches('.'),
    }
}

fn choice(name: &str, known: &[&str], all: &str) -> String {
    let list = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    match nearest(name, known.iter().copied()).first() {
        Some(near) => format!("did you mean `{near}`? {} {list}", capital(all)),
        None => format!("{all} {list}"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Names within this distance of the best one are as good [0..1].
const CLOSE: f64 = 0.01;

/// Characters of a name that are compared.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let known = ["connectx-4", "connectx-5", "connectx-6", "connectx-7"];
        assert_eq!(nearest("conectx-5", known)[0], "connectx-5");
        assert_eq!(nearest("ConnectX-6", known)[0], "connectx-6");
        assert!(nearest("zzz", known).is_empty());
        assert_eq!(help("zzz", ["a", "b"]), "there are `a`, `b`");
    }

    #[test]
    fn the_words_of_the_deserializer_become_a_remedy() {
        let (message, help) = explain("unknown field `latncy`, expected one of `name`, `latency`");
        assert_eq!(message, "unknown key `latncy`");
        assert_eq!(help, "did you mean `latency`? The keys here are `name`, `latency`");
        assert_eq!(explain("missing field `nodes`").0, "the key `nodes` is missing");
        assert_eq!(explain("a; b"), ("a".to_owned(), "b".to_owned()));
    }
}
