//! The CSV of NCCL's example tuner: measured times of each algorithm and protocol.
//!
//! Source: NCCL, `plugins/tuner/example`, `scripts/optimize_config.py`.
//! Modelled: each row as one collective of its ranks with its latency; [`choices`] gives algorithm and protocol as well.

use fabriscope_units::{Bytes, Span};

use super::at_line;
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::open::Part;
use crate::{Collective, Group, Kind, Operation, Record};

/// A row: how long a collective took with one algorithm and protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Which collective.
    pub operation: Operation,
    /// Size of the message.
    pub bytes: Bytes,
    /// `tree`, `ring`, `nvls`, ….
    pub algorithm: String,
    /// `ll`, `ll128`, `simple`.
    pub protocol: String,
    /// Channels.
    pub channels: u32,
    /// Nodes.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u32,
    /// Its time, where the file has one.
    pub latency: Option<Span>,
    /// Its bandwidth (GB/s), where the file has one.
    pub bandwidth: Option<f64>,
}

/// The rows of such a file; `file` is its name in messages.
///
/// # Errors
/// A row that is not of the form of the head, with its line.
pub fn choices(file: &str, bytes: &[u8]) -> Result<Vec<Choice>, TraceError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let wrong = |error: &csv::Error| {
        let at = error.position().map_or(Position::Whole, |position| Position::Line(position.line()));
        TraceError::new(file, at, Problem::Damaged { container: "CSV file", what: error.to_string().replace(';', ",") })
    };
    let head: Vec<String> = reader.headers().map_err(|error| wrong(&error))?.iter().map(str::to_owned).collect();
    let column = |name: &'static str| head.iter().position(|other| other == name);
    let need = |name: &'static str| {
        column(name).ok_or_else(|| {
            at_line(file, 1, &head.join(","), "a column for each of collective, size_bytes, algorithm, protocol, channels, nodes, ranks")
        })
    };
    let (collective, size, algorithm, protocol) = (need("collective")?, need("size_bytes")?, need("algorithm")?, need("protocol")?);
    let (channels, nodes, ranks) = (need("channels")?, need("nodes")?, need("ranks")?);
    let mut found = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| wrong(&error))?;
        let line = row.position().map_or(0, csv::Position::line) as usize;
        let cell = |at: usize| row.get(at).unwrap_or_default();
        let number = |at: usize| cell(at).parse::<u64>().map_err(|_| at_line(file, line, cell(at), "a whole number"));
        let float = |name| column(name).and_then(|at| cell(at).parse::<f64>().ok()).filter(|value| value.is_finite() && *value >= 0.0);
        let small = |at: usize, what| {
            let value = number(at)?;
            super::ranks(file, Position::Line(line as u64), what, value)
        };
        found.push(Choice {
            operation: Operation::named(cell(collective)).ok_or_else(|| at_line(file, line, cell(collective), "a collective"))?,
            bytes: Bytes(number(size)?),
            algorithm: cell(algorithm).to_owned(),
            protocol: cell(protocol).to_owned(),
            channels: small(channels, "channels")?,
            nodes: small(nodes, "nodes")?,
            ranks: small(ranks, "ranks")?,
            latency: float("latency_us").map(|us| Span::from_ps((us.min(1e12) * 1e6) as u64)),
            bandwidth: float("bandwidth_gbps"),
        });
    }
    Ok(found)
}

/// Reads the rows as a trace: each is one collective of rank 0, which stands for all.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let mut draft = Draft::of_file();
    let mut records = Vec::new();
    for (choice, id) in choices(&part.name, &part.bytes)?.into_iter().zip(0_u64..) {
        let group = draft.groups.add(Group::regular(format!("{} nodes, {} ranks", choice.nodes, choice.ranks), 0, 1, choice.ranks));
        draft.world = draft.world.max(choice.ranks);
        let collective =
            Collective { operation: choice.operation, bytes: Some(choice.bytes), element: None, group: Some(group), root: None };
        let name = format!("{}/{}", choice.algorithm, choice.protocol);
        let mut record = Record::new(id, name, Kind::Collective(collective));
        record.duration = choice.latency;
        if let Some(before) = id.checked_sub(1) {
            record.after.push(crate::After::End(crate::RecordId(before)));
        }
        records.push(record);
        draft.reading.used();
    }
    draft.reading.assume_all("rows are measurements: as a trace they run one after the other");
    draft.every_rank = true;
    draft.ranks.push(RankDraft { rank: Some(0), file: part.name.clone(), records, epoch_ns: None });
    Ok(draft)
}
