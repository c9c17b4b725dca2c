//! The text that `dumpi2ascii` prints: `NAME entering at walltime S.NS, …`, a line for each argument, `NAME returning at walltime S.NS, …`.
//!
//! Source: sst-dumpi, `bin/dumpi2ascii-callbacks.c`; the pair of files that sst-dumpi publishes.

use super::dumpi::{SELF, WORLD};
use super::layout::CALLS;
use super::values::{ANY, Sizes, Values, action};
use super::{Action, Call, Process, Status};
use crate::Reading;
use crate::error::{Position, Problem, TraceError};
use crate::format::{at_line, utf8};
use crate::open::Part;

/// Reads the calls of a rank.
pub(super) fn read(part: &Part, reading: &mut Reading) -> Result<Process, TraceError> {
    let text = utf8(part)?;
    let sizes = sizes(&part.name, text)?;
    if sizes.0.is_empty() {
        reading.assume_all("datatypes have the sizes of a 64-bit machine, the file lists none");
    }
    let mut process = Process { file: part.name.clone(), world: Some(WORLD), alone: Some(SELF), ..Process::default() };
    let mut open: Option<Open<'_>> = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_end();
        if let Some((name, rest)) = line.split_once(" entering at walltime ") {
            if open.is_some() {
                return Err(at_line(&part.name, number, line, "the end of the call before"));
            }
            open = Some(Open { name, line: number, start: time(&part.name, number, rest)?, values: Values::default() });
        } else if let Some((name, rest)) = line.split_once(" returning at walltime ") {
            let Some(call) = open.take().filter(|call| call.name == name) else {
                return Err(at_line(&part.name, number, line, "the beginning of this call before its end"));
            };
            let end = time(&part.name, number, rest)?;
            close(part, call, end, &sizes, &mut process, reading)?;
        } else if let Some(call) = &mut open {
            argument(&part.name, number, line, &mut call.values)?;
        } else if let Some(version) = line.strip_prefix("version=") {
            process.version = Some(version.to_owned());
        }
    }
    if let Some(call) = open {
        return Err(TraceError::new(&part.name, Position::Line(call.line as u64), Problem::Ended { what: "a call" }));
    }
    // After the calls stand how often each was called, then the datatypes.
    if sizes.0.is_empty() && text.lines().any(|line| line.contains(" called ") && line.starts_with("MPI_")) {
        let line = text.lines().count() as u64;
        return Err(TraceError::new(&part.name, Position::Line(line), Problem::Ended { what: "the list after the calls" }));
    }
    if !process.calls.iter().any(|call| call.name == "MPI_Finalize") {
        reading.note("files that end before MPI_Finalize");
    }
    Ok(process)
}

/// A call while its arguments are read.
struct Open<'a> {
    name: &'a str,
    line: usize,
    start: u64,
    values: Values<'a>,
}

fn close(part: &Part, call: Open<'_>, end: u64, sizes: &Sizes, process: &mut Process, reading: &mut Reading) -> Result<(), TraceError> {
    // Names of all calls are known, but for those that no program uses.
    let name = CALLS.iter().map(|(name, _)| *name).find(|name| *name == call.name);
    let action = match name {
        Some(name) => action(name, &call.values, sizes, reading).map_err(|missing| {
            let found = format!("{name} without a right `{missing}`");
            TraceError::new(&part.name, Position::Line(call.line as u64), Problem::Unexpected { found, expected: "its arguments" })
        })?,
        None => Action::Nothing,
    };
    if name == Some("MPI_Comm_rank") && call.values.number("comm") == Ok(WORLD as i64) {
        let rank = call.values.number("rank").ok().and_then(|rank| u64::try_from(rank).ok());
        let at = Position::Line(call.line as u64);
        let rank = rank.map(|rank| crate::format::ranks(&part.name, at, "a rank", rank)).transpose()?;
        process.rank = process.rank.or(rank);
    }
    process.calls.push(Call { name: name.unwrap_or("other calls of MPI"), start_ns: Some(call.start), end_ns: Some(end), action });
    Ok(())
}

/// `1296777956.737669000, …` in nanoseconds.
fn time(file: &str, line: usize, text: &str) -> Result<u64, TraceError> {
    let wrong = || at_line(file, line, text, "a time `seconds.nanoseconds`");
    let (seconds, rest) = text.split_once('.').ok_or_else(wrong)?;
    let digits = rest.get(..9).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit())).ok_or_else(wrong)?;
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(digits.parse().map_err(|_| wrong())?))
}

/// `int count=1`, `MPI_Datatype datatype=9 (MPI_INT)`, `MPI_Request requests[2]=[4, 5]`, `MPI_Status status=[{bytes=4, …}]`.
fn argument<'a>(file: &str, line: usize, text: &'a str, values: &mut Values<'a>) -> Result<(), TraceError> {
    // Lists of lists go on over several lines.
    if text.starts_with("Perfcounters:") || text.starts_with([',', ']']) {
        return Ok(());
    }
    let wrong = || at_line(file, line, text, "an argument `TYPE NAME=VALUE`");
    let (left, value) = text.split_once('=').ok_or_else(wrong)?;
    let (kind, name) = left.rsplit_once(' ').ok_or_else(wrong)?;
    let name = name.split('[').next().unwrap_or(name);
    if kind.starts_with("string") || kind.starts_with("char") {
        return Ok(());
    }
    if kind.starts_with("MPI_Status") {
        for status in value.split('{').skip(1) {
            let field = |name: &str| {
                let found = status.split([',', '}']).find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
                found.map(|number| number.parse::<i64>().map_err(|_| wrong())).transpose()
            };
            values.statuses.push(Status { source: field("source")?.ok_or_else(wrong)?, tag: field("tag")?.unwrap_or(ANY) });
        }
        return Ok(());
    }
    if value.starts_with("[[") {
        return Ok(());
    }
    if let Some(list) = value.strip_prefix('[') {
        // A name may stand behind a number: `2 (MPI_COMM_WORLD)`.
        let inner = list.strip_suffix(']').ok_or_else(wrong)?;
        let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
        let numbers = items.map(|item| item.split(' ').next().unwrap_or(item).trim_matches(['[', ']']).parse::<i64>().map_err(|_| wrong()));
        values.lists.push((name, numbers.collect::<Result<_, _>>()?));
        return Ok(());
    }
    if let Ok(number) = value.split(' ').next().unwrap_or(value).parse::<i64>() {
        values.numbers.push((name, number));
    } else if value.starts_with('<') {
        // `<IGNORED>` is a list of nothing.
        values.lists.push((name, Vec::new()));
    } else if !value.starts_with('[') {
        return Err(wrong());
    }
    Ok(())
}

/// `Datatype 9 (MPI_INT) has size 4`, after the calls.
fn sizes(file: &str, text: &str) -> Result<Sizes, TraceError> {
    let mut sizes = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| line.starts_with("Datatype ")) {
        let wrong = || at_line(file, number, line, "`Datatype N (NAME) has size BYTES`");
        let size = line.rsplit_once(" has size ").ok_or_else(wrong)?.1.trim().parse().map_err(|_| wrong())?;
        let listed: usize = line.split(' ').nth(1).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
        if listed != sizes.len() {
            return Err(wrong());
        }
        sizes.push(size);
    }
    Ok(Sizes(sizes))
}
