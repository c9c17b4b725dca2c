//! GOAL as text: one statement on each line, labels local to a rank.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fabriscope_schedule::{After as OpAfter, OpKind, Schedule};
use fabriscope_units::{Bytes, Span};

use super::{GoalError, check, nanoseconds};
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::format::{at_line, ranks, utf8};
use crate::open::Part;
use crate::{After, Kind, Message, Record, RecordId};

/// Reads a schedule.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let text = without_comments(&part.name, utf8(part)?)?;
    let mut reader = Reader { file: &part.name, draft: Draft::of_file(), ranks: BTreeMap::new(), open: None };
    for (line, number) in text.lines().zip(1..) {
        reader.line(number, line.trim())?;
    }
    if reader.open.is_some() {
        let line = text.lines().count() as u64;
        return Err(TraceError::new(&part.name, Position::Line(line), Problem::Ended { what: "the block of a rank" }));
    }
    if reader.draft.world == 0 {
        return Err(at_line(&part.name, 1, text.lines().next().unwrap_or_default(), "`num_ranks N`"));
    }
    reader.draft.reading.assume_all("operations run as their dependencies say, also those of one cpu");
    for (rank, block) in reader.ranks {
        reader.draft.ranks.push(RankDraft { rank: Some(rank), file: part.name.clone(), records: block, epoch_ns: None });
    }
    Ok(reader.draft)
}

/// The text with blanks instead of comments, line by line as it was.
fn without_comments(file: &str, text: &str) -> Result<String, TraceError> {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let line = clean.matches('\n').count() as u64 + 1;
            let end = comment.find("*/");
            let end = end.ok_or_else(|| TraceError::new(file, Position::Line(line), Problem::Ended { what: "a comment" }))?;
            clean.extend(comment[..end].chars().filter(|letter| *letter == '\n'));
            rest = &comment[end + 2..];
        } else {
            clean.push('/');
            rest = &rest[1..];
        }
    }
    clean.push_str(rest);
    Ok(clean)
}

/// The block of a rank while it is read.
struct Block {
    rank: u32,
    records: Vec<Record>,
    labels: BTreeMap<String, RecordId>,
    /// Dependencies with their lines: labels may stand further down.
    waits: Vec<(usize, String, bool, String)>,
}

struct Reader<'a> {
    file: &'a str,
    draft: Draft,
    ranks: BTreeMap<u32, Vec<Record>>,
    open: Option<Block>,
}

impl Reader<'_> {
    fn line(&mut self, line: usize, text: &str) -> Result<(), TraceError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let wrong = |expected| Err(at_line(self.file, line, text, expected));
        match (words.as_slice(), &mut self.open) {
            ([], _) => Ok(()),
            (["num_ranks", count], None) => {
                let count = self.number(line, count)?;
                self.draft.world = ranks(self.file, Position::Line(line as u64), "num_ranks", count)?;
                if count == 0 { Err(at_line(self.file, line, text, "at least one rank")) } else { Ok(()) }
            }
            (["rank", rank, "{"], None) => {
                let rank = self.number(line, rank)?;
                if rank >= u64::from(self.draft.world) {
                    return wrong("a rank below num_ranks, which stands before");
                }
                if self.ranks.contains_key(&(rank as u32)) {
                    return wrong("one block for each rank");
                }
                self.open = Some(Block { rank: rank as u32, records: Vec::new(), labels: BTreeMap::new(), waits: Vec::new() });
                Ok(())
            }
            (["}"], Some(_)) => self.close(),
            ([later, word @ ("requires" | "irequires"), earlier], Some(block)) => {
                block.waits.push((line, (*later).to_owned(), *word == "requires", (*earlier).to_owned()));
                Ok(())
            }
            (_, Some(_)) => self.operation(line, text),
            _ => wrong("`num_ranks N` or `rank R {`"),
        }
    }

    fn number(&self, line: usize, text: &str) -> Result<u64, TraceError> {
        text.parse().map_err(|_| at_line(self.file, line, text, "a whole number"))
    }

    fn operation(&mut self, line: usize, text: &str) -> Result<(), TraceError> {
        let (label, statement) = match text.split_once(':') {
            Some((label, statement)) => (Some(label.trim()), statement),
            None => (None, text),
        };
        let words: Vec<&str> = statement.split_ascii_whitespace().collect();
        let wrong = || at_line(self.file, line, text, EXPECTED);
        let (kind, span, options) = match words.as_slice() {
            ["calc", ns, options @ ..] => (Kind::Compute, Some(Span::from_ps(self.number(line, ns)?.saturating_mul(1000))), options),
            [word @ ("send" | "recv"), bytes, direction @ ("to" | "from"), peer, options @ ..] => {
                let bytes = Bytes(self.number(line, bytes.strip_suffix('b').ok_or_else(wrong)?)?);
                let peer = if (*word, *peer) == ("recv", "-1") { None } else { Some(self.number(line, peer)?) };
                if (*word == "send") != (*direction == "to") || peer.is_some_and(|peer| peer >= u64::from(self.draft.world)) {
                    return Err(at_line(self.file, line, text, "`send … to` and `recv … from` ranks below num_ranks"));
                }
                let tag = match options {
                    ["tag", "-1", ..] if *word == "recv" => None,
                    ["tag", tag, ..] => Some(u32::try_from(self.number(line, tag)?).map_err(|_| wrong())?),
                    _ => Some(0),
                };
                let message = Message { peer: peer.map(|peer| peer as u32), tag, bytes, group: None };
                let rest = if options.first() == Some(&"tag") { options.get(2..).unwrap_or_default() } else { options };
                (if *word == "send" { Kind::Send(message) } else { Kind::Recv(message) }, None, rest)
            }
            _ => return Err(wrong()),
        };
        let (cpu, nic) = match options {
            [] => ("0", "0"),
            ["cpu", cpu] => (*cpu, "0"),
            ["nic", nic] => ("0", *nic),
            ["cpu", cpu, "nic", nic] => (*cpu, *nic),
            _ => return Err(wrong()),
        };
        let cpu = u8::try_from(self.number(line, cpu)?).map_err(|_| at_line(self.file, line, cpu, "a cpu below 256"))?;
        if self.number(line, nic)? > 0 {
            self.draft.reading.note("the nic of operations is not kept");
        }
        let Some(block) = &mut self.open else { return Err(at_line(self.file, line, text, "`rank R {` before")) };
        let mut record = Record::new(block.records.len() as u64, label.unwrap_or_default(), kind).on(u32::from(cpu));
        record.duration = span;
        if let Some(label) = label
            && block.labels.insert(label.to_owned(), record.id).is_some()
        {
            return Err(at_line(self.file, line, label, "a label that no other operation of the rank has"));
        }
        block.records.push(record);
        self.draft.reading.used();
        Ok(())
    }

    fn close(&mut self) -> Result<(), TraceError> {
        let Some(mut block) = self.open.take() else { return Ok(()) };
        for (line, later, end, earlier) in &block.waits {
            let find = |label: &String| {
                let known = block.labels.get(label).copied();
                known.ok_or_else(|| at_line(self.file, *line, label, "the label of an operation of this rank"))
            };
            let (later, earlier) = (find(later)?, find(earlier)?);
            let after = if *end { After::End(earlier) } else { After::Start(earlier) };
            block.records[later.0 as usize].after.push(after);
        }
        self.ranks.insert(block.rank, block.records);
        Ok(())
    }
}

const EXPECTED: &str = "`[label:] calc NS`, `send Nb to R [tag T]` or `recv Nb from R [tag T]`, then [cpu C] [nic K], or `A requires B`";

/// The schedule as GOAL, all operations on cpu 0. Computation is rounded to whole nanoseconds.
///
/// # Errors
/// One-sided operations, and the tag that means any.
pub fn write(schedule: &Schedule) -> Result<String, GoalError> {
    check(schedule)?;
    let mut text = format!("num_ranks {}\n", schedule.ranks());
    for rank in 0..schedule.ranks() {
        text += &format!("\nrank {rank} {{\n");
        for op in schedule.ops(rank) {
            let label = op.id.0 + 1;
            let written = match op.kind {
                OpKind::Send { to, bytes, tag } => writeln!(text, "l{label}: send {}b to {to} tag {tag} cpu 0 nic 0", bytes.0),
                OpKind::Recv { from, bytes, tag } => writeln!(text, "l{label}: recv {}b from {from} tag {tag} cpu 0 nic 0", bytes.0),
                OpKind::Compute { span } => writeln!(text, "l{label}: calc {} cpu 0", nanoseconds(span)),
                OpKind::Put { .. } | OpKind::Get { .. } => Ok(()),
            };
            written.expect("text takes all that is written");
        }
        for op in schedule.ops(rank) {
            for after in op.after {
                let (word, earlier) = match after {
                    OpAfter::End(earlier) => ("requires", earlier),
                    OpAfter::Start(earlier) => ("irequires", earlier),
                };
                writeln!(text, "l{} {word} l{}", op.id.0 + 1, earlier.0 + 1).expect("text takes all that is written");
            }
        }
        text += "}\n";
    }
    Ok(text)
}
