//! Traces of requests as they are published.
//!
//! Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and 2024.md (`TIMESTAMP,ContextTokens,GeneratedTokens`); HPMLL/BurstGPT,
//! README (`Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, seconds); kvcache-ai/Mooncake, README (a JSON object on each
//! line: `timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`).
//! Modelled: times from the first request on, lengths; requests without an answer are left out and counted.
//! Not modelled: `hash_ids`, prompts that begin alike, sessions.

use fabriscope_units::Time;
use serde_json::Value;

use crate::request::Request;

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What it is.
    pub format: Format,
    /// Its requests, in the order of time.
    pub requests: Vec<Request>,
    /// Those left out because nothing was read or generated.
    pub empty: u64,
}

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Azure's traces of 2023 and 2024.
    Azure,
    /// BurstGPT.
    BurstGpt,
    /// Mooncake.
    Mooncake,
}

impl Format {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Azure => "Azure",
            Format::BurstGpt => "BurstGPT",
            Format::Mooncake => "Mooncake",
        }
    }
}

/// Why a trace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum TraceError {
    /// Nothing that looks like a trace.
    #[error("{file}, line 1: `{line}` begins no trace of requests")]
    #[diagnostic(
        code(infer::trace),
        help(
            "use a trace of Azure (TIMESTAMP,ContextTokens,GeneratedTokens), of BurstGPT (Timestamp,Model,Request tokens,Response tokens,…), or of Mooncake ({{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}} on each line)"
        )
    )]
    Unknown {
        /// The file.
        file: String,
        /// Its first line, cut.
        line: String,
    },
    /// A field that is missing or wrong.
    #[error("{file}, line {line}: {what}")]
    #[diagnostic(code(infer::trace), help("{help}"))]
    Field {
        /// The file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to write.
        help: &'static str,
    },
    /// Longer than the clock.
    #[error("{file}: its last request comes more than 100 days after the first")]
    #[diagnostic(code(infer::trace), help("cut the trace: some hours are enough"))]
    Long {
        /// The file.
        file: String,
    },
    /// Requests of which none can be run.
    #[error("{file}: no request with tokens to read and to generate, of {lines}")]
    #[diagnostic(code(infer::trace), help("use a trace with requests that were answered"))]
    Empty {
        /// The file.
        file: String,
        /// Its requests.
        lines: u64,
    },
}

/// Reads a trace; `file` is its name.
///
/// # Errors
/// Another format, fields that are missing or no numbers, no requests.
pub fn read(file: &str, text: &str) -> Result<Trace, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let head = text.lines().next().unwrap_or_default();
    let fields: Vec<&str> = columns(head);
    let column = |name: &str| fields.iter().position(|field| field.eq_ignore_ascii_case(name));
    let (format, rows) = if head.trim_start().starts_with('{') {
        (Format::Mooncake, mooncake(file, text)?)
    } else if let (Some(time), Some(input), Some(output)) = (column("TIMESTAMP"), column("ContextTokens"), column("GeneratedTokens")) {
        (Format::Azure, table(file, text, [time, input, output], date)?)
    } else if let (Some(time), Some(input), Some(output)) = (column("Timestamp"), column("Request tokens"), column("Response tokens")) {
        (Format::BurstGpt, table(file, text, [time, input, output], seconds)?)
    } else {
        return Err(TraceError::Unknown { file: file.to_owned(), line: head.chars().take(80).collect() });
    };
    let first = rows.iter().map(|row| row.0).min().unwrap_or_default();
    let lines = rows.len() as u64;
    let mut requests = Vec::with_capacity(rows.len());
    for (at, input, output) in rows.into_iter().filter(|(_, input, output)| *input > 0 && *output > 0) {
        let since = u64::try_from(at - first).ok().filter(|ps| *ps < u64::MAX / 2);
        let since = since.ok_or_else(|| TraceError::Long { file: file.to_owned() })?;
        requests.push(Request { arrival: Time::from_ps(since), input, output });
    }
    requests.sort_by_key(|request| request.arrival);
    if requests.is_empty() {
        return Err(TraceError::Empty { file: file.to_owned(), lines });
    }
    Ok(Trace { format, empty: lines - requests.len() as u64, requests })
}

/// The fields of a line; none of the formats has quotes around commas.
fn columns(line: &str) -> Vec<&str> {
    line.split(',').map(|field| field.trim().trim_matches('"')).collect()
}

/// Picoseconds since whenever the format counts from, tokens to read, tokens to generate.
type Row = (u128, u64, u64);

fn table(file: &str, text: &str, [time, input, output]: [usize; 3], clock: fn(&str) -> Option<u128>) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let fields = columns(line);
        let wrong = |what: String, help| TraceError::Field { file: file.to_owned(), line: number + 1, what, help };
        let field = |at: usize| {
            let missing = || wrong(format!("{} fields, and the head has more", fields.len()), "give each line all fields of the head");
            fields.get(at).copied().ok_or_else(missing)
        };
        let count = |at: usize| -> Result<u64, TraceError> {
            let text = field(at)?;
            let whole = text.parse().ok().filter(|count| *count <= MOST);
            whole.ok_or_else(|| wrong(format!("`{text}` is no number of tokens"), "use a whole number, at most 1000000000"))
        };
        let text = field(time)?;
        let at = clock(text).ok_or_else(|| {
            wrong(
                format!("`{text}` is no time"),
                "use a date as 2023-11-16 18:15:46.6805900 in traces of Azure, seconds in those of BurstGPT",
            )
        })?;
        rows.push((at, count(input)?, count(output)?));
    }
    Ok(rows)
}

fn mooncake(file: &str, text: &str) -> Result<Vec<Row>, TraceError> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: String, help| TraceError::Field { file: file.to_owned(), line: number + 1, what, help };
        let entry: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string(), "give each line one JSON object"))?;
        let count = |key: &str| {
            let whole = entry[key].as_u64().filter(|count| *count <= MOST);
            whole.ok_or_else(|| wrong(format!("`{key}` is {}", entry[key]), "use a whole number, at most 1000000000"))
        };
        let at = entry["timestamp"].as_f64().filter(|ms| (0.0..1e12).contains(ms));
        let at = at.ok_or_else(|| wrong(format!("`timestamp` is {}", entry["timestamp"]), "use milliseconds from the start on"))?;
        rows.push(((at * 1e9) as u128, count("input_length")?, count("output_length")?));
    }
    Ok(rows)
}

/// Seconds.
fn seconds(text: &str) -> Option<u128> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..1e12).contains(&seconds).then_some((seconds * 1e12) as u128)
}

/// A date with a time, by the proleptic Gregorian calendar, years beginning in March (Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `days_from_civil`).
fn date(text: &str) -> Option<u128> {
    let (day, clock) = text.split_once([' ', 'T'])?;
    let mut day = day.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (day.next()??, day.next()??, day.next()??);
    // A zone behind the time is the same for all of a trace.
    let clock = clock.split(['Z', '+']).next()?;
    let mut parts = clock.split(':');
    let (hours, minutes): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (whole, rest) = match parts.next()?.split_once('.') {
        Some((whole, rest)) => (whole, rest),
        None => (clock.rsplit(':').next()?, "0"),
    };
    let (whole, digits): (u64, &str) = (whole.parse().ok()?, rest.get(..rest.len().min(9))?);
    let nanoseconds: u64 = format!("{digits:0<9}").parse().ok()?;
    let known = (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !known || hours > 23 || minutes > 59 || whole > 60 {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(u128::from(((days * 24 + hours) * 60 + minutes) * 60 + whole) * 1_000_000_000_000 + u128::from(nanoseconds) * 1000)
}

/// Basis: assumed, more tokens than any request has.
const MOST: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    fn us(requests: &[Request]) -> Vec<(u64, u64, u64)> {
        requests.iter().map(|request| (request.arrival.as_ps() / Span::from_us(1).as_ps(), request.input, request.output)).collect()
    }

    #[test]
    fn traces_of_azure_begin_with_their_first_request() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 23:59:59.5000000,10,3\n2024-03-01 00:00:00.2500000,20,4\n";
        let trace = read("a.csv", text).unwrap();
        assert_eq!((trace.format, trace.empty), (Format::Azure, 0));
        assert_eq!(us(&trace.requests), [(0, 10, 3), (750_000, 20, 4)]);
    }

    #[test]
    fn failed_requests_of_burstgpt_are_left_out() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n\
                    45,ChatGPT,1087,0,1087,Conversation log\n118.5,GPT-4,417,276,693,API log\n";
        let trace = read("b.csv", text).unwrap();
        assert_eq!((trace.format, trace.empty), (Format::BurstGpt, 1));
        assert_eq!(us(&trace.requests), [(0, 472, 18), (113_500_000, 417, 276)]);
    }

    #[test]
    fn mooncake_has_an_object_on_each_line() {
        let text = "{\"timestamp\": 27, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\
                    {\"timestamp\": 3027, \"input_length\": 672, \"output_length\": 26, \"hash_ids\": []}\n";
        let trace = read("m.jsonl", text).unwrap();
        assert_eq!(trace.format, Format::Mooncake);
        assert_eq!(us(&trace.requests), [(0, 6955, 52), (3_000_000, 672, 26)]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| read("t.csv", text).unwrap_err().to_string();
        assert_eq!(told("a,b\n1,2\n"), "t.csv, line 1: `a,b` begins no trace of requests");
        let head = "TIMESTAMP,ContextTokens,GeneratedTokens";
        assert_eq!(told(&format!("{head}\nyesterday,1,2")), "t.csv, line 2: `yesterday` is no time");
        assert_eq!(
            told(&format!("{head}\n2023-11-16 18:15:46.68,1,2\n2023-11-16 18:15:47,-1,2")),
            "t.csv, line 3: `-1` is no number of tokens"
        );
        assert_eq!(told(&format!("{head}\n2023-11-16 18:15:46.68")), "t.csv, line 2: 1 fields, and the head has more");
        assert_eq!(told(&format!("{head}\n2023-11-16 18:15:46,0,2")), "t.csv: no request with tokens to read and to generate, of 1");
        assert_eq!(told("{\"timestamp\": 1, \"input_length\": 2}"), "t.csv, line 1: `output_length` is null");
    }
}
