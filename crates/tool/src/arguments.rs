//! Command lines as the tools read them: short, long, joined and bundled options.
//!
//! Source: POSIX Utility Syntax Guidelines; the GNU conventions for long options, which perftest and OMB rely on
//! (`-s 4096`, `-s4096`, `-ab`, `--size=4096`, `--size 4096`, a unique beginning of a long name, `--`).
//! Modelled: every form above, required and optional values, the nearest known option in the error.
//! Not modelled: reordering by `POSIXLY_CORRECT`; operands may stand anywhere.

use fabriscope_units::Bytes;

use crate::UsageError;

/// Whether an option carries a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A switch.
    Nothing,
    /// `-s 4096`; the text names the value in help and errors.
    Value(&'static str),
    /// `-z` or `-z50,99`: only joined to its option.
    Optional(&'static str),
}

/// What an option does in a simulated run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It has its usual effect.
    Usual,
    /// It is accepted and changes nothing, for a reason worth printing in the help.
    Harmless(&'static str),
    /// It is refused, with the reason and the remedy.
    Refused(&'static str),
}

/// One option of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// The letter, or `'\0'` when there is none.
    pub short: char,
    /// The long name without dashes; it is also the option's identity.
    pub long: &'static str,
    /// Its value.
    pub takes: Takes,
    /// What it does here.
    pub meaning: Meaning,
    /// One line of the help page.
    pub help: &'static str,
}

/// A line of a table of options.
#[must_use]
pub const fn opt(short: char, long: &'static str, takes: Takes, meaning: Meaning, help: &'static str) -> Opt {
    Opt { short, long, takes, meaning, help }
}

/// A line with a value that has its usual meaning.
#[must_use]
pub const fn value(short: char, long: &'static str, what: &'static str, help: &'static str) -> Opt {
    opt(short, long, Takes::Value(what), Meaning::Usual, help)
}

/// An option as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The option's long name.
    pub name: &'static str,
    /// The option as typed, for errors.
    pub typed: String,
    /// Its value, if it has one.
    pub value: Option<String>,
}

/// Options in order, then operands in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options, in order.
    pub options: Vec<Given>,
    /// The other words, in order.
    pub operands: Vec<String>,
}

impl Parsed {
    /// Nothing but options was given.
    ///
    /// # Errors
    /// The first operand.
    pub fn no_operands(&self, tool: &str) -> Result<(), UsageError> {
        match self.operands.first() {
            Some(operand) => Err(UsageError::Operand { tool: tool.to_owned(), operand: operand.clone() }),
            None => Ok(()),
        }
    }
}

/// Reads `args` against `known`.
///
/// # Errors
/// Options that are not known or refused, values that are missing or too many.
pub fn parse(tool: &str, known: &[Opt], args: &[String]) -> Result<Parsed, UsageError> {
    let mut parsed = Parsed::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            parsed.operands.extend(rest.by_ref().cloned());
        } else if let Some(long) = arg.strip_prefix("--") {
            let (name, joined) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            let option = find_long(tool, known, name)?;
            let typed = format!("--{name}");
            let value = match (option.takes, joined) {
                (Takes::Nothing, Some(value)) => return Err(UsageError::UnwantedValue { option: typed, value }),
                (Takes::Value(what), None) => Some(rest.next().cloned().ok_or(UsageError::MissingValue { option: typed.clone(), what })?),
                (_, joined) => joined,
            };
            push(&mut parsed, option, typed, value)?;
        } else if arg.len() > 1 && arg.starts_with('-') {
            bundle(tool, known, &arg[1..], &mut rest, &mut parsed)?;
        } else {
            parsed.operands.push(arg.clone());
        }
    }
    Ok(parsed)
}

/// `-ab`, `-s4096`, `-s 4096`: letters until one takes the rest of the word as its value.
fn bundle<'a>(
    tool: &str,
    known: &[Opt],
    letters: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    parsed: &mut Parsed,
) -> Result<(), UsageError> {
    for (at, letter) in letters.char_indices() {
        let typed = format!("-{letter}");
        let Some(option) = known.iter().find(|option| option.short == letter) else {
            return Err(UsageError::Unknown { tool: tool.to_owned(), nearest: nearest(known, letters), option: typed });
        };
        let joined = &letters[at + letter.len_utf8()..];
        let value = match option.takes {
            Takes::Nothing => {
                push(parsed, option, typed, None)?;
                continue;
            }
            Takes::Value(_) | Takes::Optional(_) if !joined.is_empty() => Some(joined.to_owned()),
            Takes::Value(what) => Some(rest.next().cloned().ok_or(UsageError::MissingValue { option: typed.clone(), what })?),
            Takes::Optional(_) => None,
        };
        return push(parsed, option, typed, value);
    }
    Ok(())
}

fn push(parsed: &mut Parsed, option: &Opt, typed: String, value: Option<String>) -> Result<(), UsageError> {
    if let Meaning::Refused(reason) = option.meaning {
        return Err(UsageError::NoMeaning { option: typed, reason });
    }
    parsed.options.push(Given { name: option.long, typed, value });
    Ok(())
}

fn find_long<'k>(tool: &str, known: &'k [Opt], name: &str) -> Result<&'k Opt, UsageError> {
    if let Some(exact) = known.iter().find(|option| option.long == name) {
        return Ok(exact);
    }
    let beginnings: Vec<&Opt> = known.iter().filter(|option| !name.is_empty() && option.long.starts_with(name)).collect();
    match beginnings[..] {
        [only] => Ok(only),
        [] => Err(UsageError::Unknown { tool: tool.to_owned(), option: format!("--{name}"), nearest: nearest(known, name) }),
        _ => Err(UsageError::Ambiguous {
            option: format!("--{name}"),
            candidates: beginnings.iter().map(|option| format!("--{}", option.long)).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// The known option whose name is most like `name`, written as it would be typed.
fn nearest(known: &[Opt], name: &str) -> String {
    let wanted = name.trim_start_matches('-');
    let same_letter = |option: &&Opt| wanted.len() == 1 && wanted.eq_ignore_ascii_case(&option.short.to_string());
    if let Some(option) = known.iter().find(same_letter) {
        return format!("-{} (--{})", option.short, option.long);
    }
    let score = |option: &Opt| strsim::jaro_winkler(option.long, wanted);
    match known.iter().max_by(|a, b| score(a).total_cmp(&score(b))) {
        Some(option) if wanted.len() > 1 => format!("--{}", option.long),
        _ => "--help".to_owned(),
    }
}

/// A whole number within `[low, high]`.
///
/// # Errors
/// No number, or one outside.
pub fn number(given: &Given, low: u64, high: u64) -> Result<u64, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let value: u64 = text.parse().map_err(|_| UsageError::NotANumber { option: given.typed.clone(), value: text.to_owned() })?;
    in_range(&given.typed, value, low, high)
}

/// A message size, as [`amount`] reads it.
///
/// # Errors
/// No size, or one outside `[low, high]`.
pub fn size(option: &str, text: &str, low: u64, high: u64) -> Result<u64, UsageError> {
    let not_a_size = || UsageError::NotASize { option: option.to_owned(), value: text.to_owned() };
    in_range(option, amount(text).ok_or_else(not_a_size)?, low, high)
}

/// A size in bytes as every command takes it: `65536`; `64K`, with the suffix K, M or G of the tools, powers of 1024; or `64KiB` and
/// `64kB` with the units of labs. `64KB`, which means two things, is none. What is beyond 64 bits is the largest.
#[must_use]
pub fn amount(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    match digits.parse::<u64>() {
        Ok(value) => Some(value.checked_shl(shift).filter(|v| v >> shift == value).unwrap_or(u64::MAX)),
        Err(_) => text.parse::<Bytes>().ok().map(Bytes::as_u64),
    }
}

fn in_range(option: &str, value: u64, low: u64, high: u64) -> Result<u64, UsageError> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(UsageError::OutOfRange { option: option.to_owned(), value, low, high }) }
}

/// The help page: one option a line, with what it means here.
#[must_use]
pub fn help(tool: &str, about: &str, known: &[Opt], notes: &str) -> String {
    let mut text = format!("{tool}: {about}\n\nUsage: {tool} [options]\n\nOptions:\n");
    let refused = |option: &&Opt| matches!(option.meaning, Meaning::Refused(_));
    for option in known.iter().filter(|option| !refused(option)) {
        let short = if option.short == '\0' { "    ".to_owned() } else { format!("-{}, ", option.short) };
        let value = match option.takes {
            Takes::Nothing => String::new(),
            Takes::Value(what) => format!(" <{what}>"),
            Takes::Optional(what) => format!("[{what}]"),
        };
        let harmless = if let Meaning::Harmless(why) = option.meaning { format!(" (no effect: {why})") } else { String::new() };
        text += &format!("  {:<34} {}{harmless}\n", format!("{short}--{}{value}", option.long), option.help);
    }
    if known.iter().any(|option| refused(&option)) {
        text += "\nRefused, because they would change nothing or are not modelled:\n";
    }
    for option in known.iter().filter(refused) {
        let short = if option.short == '\0' { String::new() } else { format!("-{}, ", option.short) };
        if let Meaning::Refused(reason) = option.meaning {
            text += &format!("  {:<34} {reason}\n", format!("{short}--{}", option.long));
        }
    }
    text + notes
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    const KNOWN: &[Opt] = &[
        opt('s', "size", Takes::Value("bytes"), Meaning::Usual, ""),
        opt('a', "all", Takes::Nothing, Meaning::Usual, ""),
        opt('b', "bidirectional", Takes::Nothing, Meaning::Usual, ""),
        opt('z', "tail", Takes::Optional("list"), Meaning::Usual, ""),
        opt('R', "rdma_cm", Takes::Nothing, Meaning::Refused("connections need no set-up"), ""),
        opt('\0', "report_gbits", Takes::Nothing, Meaning::Usual, ""),
        opt('\0', "report-counters", Takes::Nothing, Meaning::Usual, ""),
    ];

    fn run(line: &str) -> Result<Parsed, UsageError> {
        parse("tool", KNOWN, &line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }
    fn names(line: &str) -> Vec<(&'static str, Option<String>)> {
        run(line).unwrap().options.into_iter().map(|given| (given.name, given.value)).collect()
    }

    #[test]
    fn every_form_of_an_option_means_the_same() {
        for line in ["-s 4096", "-s4096", "--size 4096", "--size=4096", "--si=4096"] {
            assert_eq!(names(line), [("size", Some("4096".to_owned()))], "{line}");
        }
        assert_eq!(names("-ab"), names("-a --bidirectional"));
        assert_eq!(names("-abs64"), [("all", None), ("bidirectional", None), ("size", Some("64".to_owned()))]);
        assert_eq!(names("-z"), [("tail", None)]);
        assert_eq!(names("-z50,99"), [("tail", Some("50,99".to_owned()))]);
        assert_eq!(run("host -a -- -s").unwrap().operands, ["host", "-s"]);
    }

    #[test]
    fn errors_name_the_remedy() {
        let message = |line: &str| run(line).unwrap_err().in_full();
        assert!(message("--sizes 3").contains("--size"), "{}", message("--sizes 3"));
        assert!(message("--reprot_gbits").contains("--report_gbits"));
        assert!(message("-S").contains("-s (--size)"), "{}", message("-S"));
        assert!(message("--report").contains("--report_gbits, --report-counters"));
        assert!(message("-s").contains("bytes"));
        assert!(message("--all=3").contains("takes no value"));
        assert!(message("-R").starts_with("-R has no meaning here: connections"), "{}", message("-R"));
    }

    #[test]
    fn sizes_have_suffixes_and_a_range() {
        assert_eq!(size("-s", "4K", 1, 1 << 31).unwrap(), 4096);
        assert_eq!(size("-s", "2m", 1, 1 << 31).unwrap(), 2 << 20);
        for text in ["0", "1099511627776", "99999999999G"] {
            let message = size("-s", text, 1, (1 << 31) - 1).unwrap_err().in_full();
            assert!(message.contains("1 to 2147483647"), "{message}");
        }
        assert!(size("-s", "4 KB", 1, 10).is_err() && size("-s", "", 1, 10).is_err() && size("-s", "-2", 1, 10).is_err());
    }
}
