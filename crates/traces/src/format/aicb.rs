//! AICB workloads (physical): CSV with the calls of each rank in their order.
//!
//! Source: aliyun/aicb, `log_analyzer/log.py`; the files of its `workload/physical`. The first line may say which ranks (`[rank0 ~ rank127]`).
//! Modelled: collectives, `isend` and `irecv`, rows repeated `count` times, each after the one before it.
//! Not modelled: computation rows, whose time has no unit in the file; ends of epochs.

use fabriscope_units::Bytes;

use super::{at_line, utf8};
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::open::Part;
use crate::{After, Collective, Group, Kind, Message, Operation, Record};

/// The most times a row can be repeated. Basis: assumed, far above what a step of training repeats.
const MOST_REPEATS: u64 = 1 << 20;

/// Reads a workload; it says what every rank does.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let text = utf8(part)?;
    let mut draft = Draft::of_file();
    let (stated, skipped) = match text.lines().next() {
        Some(first) if first.trim_start().starts_with("[rank") => (Some(last_rank(&part.name, first)?), 1),
        _ => (None, 0),
    };
    let body = text.split_inclusive('\n').skip(skipped).collect::<String>();
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(body.as_bytes());
    let wrong = |error: &csv::Error| {
        let at = error.position().map_or(Position::Whole, |position| Position::Line(position.line() + skipped as u64));
        TraceError::new(&part.name, at, Problem::Damaged { container: "CSV file", what: error.to_string().replace(';', ",") })
    };
    let head: Vec<String> = reader.headers().map_err(|error| wrong(&error))?.iter().map(str::to_owned).collect();
    let expected = "columns comm_type, comm_group, comm_group_size, msg_size, dst, src, count";
    let column =
        |name: &str| head.iter().position(|other| other == name).ok_or_else(|| at_line(&part.name, skipped + 1, &head.join(","), expected));
    let columns = Columns {
        kind: column("comm_type")?,
        group: column("comm_group")?,
        group_size: column("comm_group_size")?,
        bytes: column("msg_size")?,
        to: column("dst")?,
        from: column("src")?,
        count: column("count").ok(),
    };
    let mut records: Vec<Record> = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let line = row.position().map_or(0, csv::Position::line) as usize + skipped;
        if row.len() != head.len() {
            let found = format!("{} columns", row.len());
            return Err(at_line(&part.name, line, &found, "as many columns as the head has"));
        }
        let row = Row { file: &part.name, line, row: &row };
        let Some(kind) = kind(&row, &columns, &mut draft)? else { continue };
        let count = columns.count.map_or(Ok(1), |at| row.number(at))?;
        if count > MOST_REPEATS {
            let problem = Problem::TooLarge { what: "the count of a row", value: count, most: MOST_REPEATS };
            return Err(TraceError::new(&part.name, Position::Line(line as u64), problem));
        }
        draft.reading.used();
        for _ in 0..count {
            let before = records.last().map(|last| After::End(last.id));
            records.push(Record::new(records.len() as u64, row.cell(columns.kind), kind.clone()).after(before));
        }
    }
    draft.world = draft.world.max(stated.unwrap_or(0));
    draft.every_rank = true;
    draft.reading.assume_all("every rank does the same, one call after the other");
    draft.reading.assume_all("msg_size is the whole buffer of a rank");
    draft.ranks.push(RankDraft { rank: Some(0), file: part.name.clone(), records, epoch_ns: None });
    Ok(draft)
}

struct Columns {
    kind: usize,
    group: usize,
    group_size: usize,
    bytes: usize,
    to: usize,
    from: usize,
    count: Option<usize>,
}

struct Row<'a> {
    file: &'a str,
    line: usize,
    row: &'a csv::StringRecord,
}

impl Row<'_> {
    fn cell(&self, at: usize) -> &str {
        self.row.get(at).unwrap_or_default()
    }
    /// A whole number; Python writes some as floats.
    fn number(&self, at: usize) -> Result<u64, TraceError> {
        let text = self.cell(at);
        let float = || text.parse::<f64>().ok().filter(|value| *value >= 0.0 && *value < 1.8e19).map(|value| value as u64);
        text.parse().ok().or_else(float).ok_or_else(|| at_line(self.file, self.line, text, "a whole number"))
    }
}

/// What a row is; None where it is left out, which is counted.
fn kind(row: &Row<'_>, columns: &Columns, draft: &mut Draft) -> Result<Option<Kind>, TraceError> {
    let word = row.cell(columns.kind).trim_start_matches("CommType.");
    match word {
        "epoch_end" => {
            draft.reading.left("ends of epochs");
            return Ok(None);
        }
        "computation" => {
            draft.reading.left("computation, whose time has no unit");
            return Ok(None);
        }
        _ => {}
    }
    let at = Position::Line(row.line as u64);
    let size = super::ranks(row.file, at, "comm_group_size", row.number(columns.group_size)?)?;
    let name = row.cell(columns.group).trim_start_matches("CommGroup.").to_owned();
    draft.world = draft.world.max(size);
    let group = draft.groups.add(Group::unknown(name, Some(size)));
    let bytes = Bytes(row.number(columns.bytes)?);
    if let "isend" | "irecv" | "send" | "recv" = word {
        let column = if word.ends_with("send") { columns.to } else { columns.from };
        let peer = super::ranks(row.file, at, "the peer of a message", row.number(column)?)?;
        let message = Message { peer: Some(peer), tag: Some(0), bytes, group: Some(group) };
        return Ok(Some(if word.ends_with("send") { Kind::Send(message) } else { Kind::Recv(message) }));
    }
    let operation = Operation::named(word).ok_or_else(|| at_line(row.file, row.line, word, "a CommType of AICB"))?;
    let root = (row.cell(columns.from) != "None").then(|| row.number(columns.from)).transpose()?;
    let root = root.map(|root| super::ranks(row.file, at, "src", root)).transpose()?;
    Ok(Some(Kind::Collective(Collective { operation, bytes: Some(bytes), element: None, group: Some(group), root })))
}

/// The number of ranks of `[rank0 ~ rank127]`.
fn last_rank(file: &str, line: &str) -> Result<u32, TraceError> {
    let digits = line.rsplit("rank").next().unwrap_or_default().trim_end().trim_end_matches(']');
    let last: u64 = digits.parse().map_err(|_| at_line(file, 1, line, "`[rank0 ~ rankN]`"))?;
    super::ranks(file, Position::Line(1), "the number of ranks", last.saturating_add(1))
}
