//! SimAI and AICB workloads (analytical): the layers of a model with their computation and communication, as text.
//!
//! Source: aliyun/SimAI, `astra-sim-alibabacloud`, `Workload.cc`; ASTRA-sim 1.0's workload files. Line 1: parallelism
//! and degrees; line 2: rows; a row:
//! `name dep fwd_ns fwd_comm fwd_bytes ig_ns ig_comm ig_bytes wg_ns wg_comm wg_bytes update_ns`.
//! Modelled: one pass forwards through the rows, one backwards in their reverse order (input gradient, then weight gradient). Forward and input
//! gradient wait for their communication; that of weight gradients overlaps, and is waited for at the end.
//! Not modelled: pipeline stages, checkpoints, repeated micro-batches (`ga`).

use std::fmt::Write as _;

use fabriscope_units::{Bytes, Span};

use super::{at_line, utf8};
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::open::Part;
use crate::{After, Collective, Group, GroupId, Kind, Operation, Record, RecordId, Trace};

/// Degrees of parallelism of the head.
struct Degrees {
    tensor: u32,
    expert: u32,
    data: u32,
    world: u32,
}

/// A column of a row: time, operation, bytes.
struct Phase<'a> {
    span: Span,
    word: &'a str,
    bytes: Bytes,
}

/// Reads a workload; it says what every rank does.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let text = utf8(part)?;
    let mut draft = Draft::of_file();
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let (head, _) = lines.next().ok_or_else(|| TraceError::new(&part.name, Position::Whole, Problem::Empty))?;
    let degrees = degrees(&part.name, head, &mut draft)?;
    let ended = || TraceError::new(&part.name, Position::Whole, Problem::Ended { what: "the head" });
    let (count, line) = lines.next().ok_or_else(ended)?;
    let rows: u64 = count.trim().parse().map_err(|_| at_line(&part.name, line, count, "the number of rows"))?;
    let mut layers = Vec::new();
    for (text, line) in lines {
        layers.push(layer(&part.name, line, text)?);
        draft.reading.used();
    }
    if layers.len() as u64 != rows {
        let found = format!("{} rows", layers.len());
        return Err(at_line(&part.name, line, &found, "as many rows as line 2 says"));
    }
    draft.version = head.split_ascii_whitespace().next().map(str::to_owned);
    draft.world = degrees.world;
    draft.every_rank = true;
    let mut chain = Chain { records: Vec::new(), last: None, weights: None };
    for (name, line, phases) in &layers {
        chain.phase(&part.name, *line, name, "forward", &phases[0], &degrees, &mut draft)?;
    }
    for (name, line, phases) in layers.iter().rev() {
        chain.phase(&part.name, *line, name, "input gradient", &phases[1], &degrees, &mut draft)?;
        chain.phase(&part.name, *line, name, "weight gradient", &phases[2], &degrees, &mut draft)?;
    }
    if let Some(weights) = chain.weights {
        let after = chain.last.into_iter().chain([weights]).map(After::End);
        let id = chain.records.len() as u64;
        chain.records.push(Record::new(id, "weight gradients", Kind::Wait).after(after));
    }
    draft.reading.assume_all("one pass forwards in the order of the rows, one backwards in the reverse order");
    draft.reading.assume_all("communication of weight gradients overlaps and is waited for at the end");
    draft.reading.assume_all("sizes are the whole buffer of a rank");
    draft.ranks.push(RankDraft { rank: Some(0), file: part.name.clone(), records: chain.records, epoch_ns: None });
    Ok(draft)
}

fn degrees(file: &str, head: &str, draft: &mut Draft) -> Result<Degrees, TraceError> {
    let words: Vec<&str> = head.split_ascii_whitespace().collect();
    let value = |name: &'static str| -> Result<Option<u32>, TraceError> {
        let found = words.iter().position(|word| word.trim_end_matches(':') == name).and_then(|at| words.get(at + 1));
        let Some(text) = found else { return Ok(None) };
        let number = text.parse::<u64>().map_err(|_| at_line(file, 1, text, "a whole number"))?;
        super::ranks(file, Position::Line(1), name, number).map(|number| Some(number.max(1)))
    };
    let tensor = value("model_parallel_NPU_group")?.unwrap_or(1);
    let (expert, pipeline) = (value("ep")?.unwrap_or(1), value("pp")?.unwrap_or(1));
    let world = match value("all_gpus")? {
        Some(world) => world,
        None => {
            draft.reading.assume_all("the ranks of one model-parallel group are all, as the head has no all_gpus");
            tensor
        }
    };
    let data = (world / tensor.saturating_mul(pipeline)).max(1);
    draft.reading.assume_all("groups are laid out in the order tensor, data, pipeline, experts within data");
    Ok(Degrees { tensor, expert, data, world: world.max(tensor) })
}

type Layer<'a> = (&'a str, usize, [Phase<'a>; 3]);

fn layer<'a>(file: &str, line: usize, text: &'a str) -> Result<Layer<'a>, TraceError> {
    let cells: Vec<&str> = text.split_ascii_whitespace().collect();
    let [name, _, columns @ .., _] = cells.as_slice() else { return Err(at_line(file, line, text, COLUMNS)) };
    if columns.len() != 9 {
        return Err(at_line(file, line, text, COLUMNS));
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| at_line(file, line, text, "a whole number"));
    let phase = |at: usize| -> Result<Phase<'a>, TraceError> {
        let ns = number(columns[3 * at])?;
        Ok(Phase { span: Span::from_ps(ns.saturating_mul(1000)), word: columns[3 * at + 1], bytes: Bytes(number(columns[3 * at + 2])?) })
    };
    Ok((name, line, [phase(0)?, phase(1)?, phase(2)?]))
}

const COLUMNS: &str = "12 columns: name, dep, 3 times (ns, operation, bytes), update";

/// The records so far.
struct Chain {
    records: Vec<Record>,
    /// What the next one waits for.
    last: Option<RecordId>,
    /// The last communication of weight gradients, which wait for each other only.
    weights: Option<RecordId>,
}

impl Chain {
    #[expect(clippy::too_many_arguments, reason = "where the row stands is needed for messages only")]
    fn phase(
        &mut self,
        file: &str,
        line: usize,
        name: &str,
        what: &str,
        phase: &Phase<'_>,
        degrees: &Degrees,
        draft: &mut Draft,
    ) -> Result<(), TraceError> {
        if phase.span > Span::ZERO {
            let record = Record::new(self.records.len() as u64, format!("{name} {what}"), Kind::Compute).after(self.last.map(After::End));
            self.last = Some(record.id);
            self.records.push(record.lasting(phase.span));
        }
        let Some((operation, group)) = operation(phase.word, degrees, draft).ok_or_else(|| at_line(file, line, phase.word, OPERATIONS))?
        else {
            return Ok(());
        };
        if phase.bytes == Bytes::ZERO {
            draft.reading.note("communication of no bytes was left out");
            return Ok(());
        }
        let collective = Collective { operation, bytes: Some(phase.bytes), element: None, group, root: None };
        let mut record =
            Record::new(self.records.len() as u64, format!("{name} {what}"), Kind::Collective(collective)).after(self.last.map(After::End));
        if what == "weight gradient" {
            record = record.after(self.weights.map(After::End)).on(1);
            self.weights = Some(record.id);
        } else {
            self.last = Some(record.id);
        }
        self.records.push(record);
        Ok(())
    }
}

const OPERATIONS: &str = "NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST, with _EP, _DP_EP or _DP";

/// The operation and its group; Some(None) for none, None for a word that is not known.
#[expect(clippy::option_option, reason = "a word may be unknown, or say that there is none")]
fn operation(word: &str, degrees: &Degrees, draft: &mut Draft) -> Option<Option<(Operation, Option<GroupId>)>> {
    if word == "NONE" {
        return Some(None);
    }
    let (name, scope) = match word.split_once('_') {
        Some((name, scope)) => (name, scope),
        None => (word, ""),
    };
    let operation = Operation::named(name)?;
    let Degrees { tensor, expert, data, world } = *degrees;
    let group = match scope {
        "" => Group::regular("TP", 0, 1, tensor),
        "EP" => Group::regular("EP", 0, tensor, expert),
        "DP" => Group::regular("DP", 0, tensor, data),
        "DP_EP" => Group::regular("DP_EP", 0, tensor.saturating_mul(expert), (data / expert).max(1)),
        _ => return None,
    };
    let fits = group.ranks(world).is_some();
    if !fits {
        draft.reading.note(format!("group {} does not fit into {world} ranks", group.name));
    }
    let id = draft.groups.add(group);
    Some(Some((operation, Some(id))))
}

/// Why a trace cannot be written as a SimAI workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum WriteError {
    /// Something that the format has no word for.
    #[error("record {id} of rank {rank}, {what}, has no form in a SimAI workload")]
    #[diagnostic(help("write collectives and computation of one rank, or write GOAL or Chakra instead"))]
    NoForm {
        /// The rank.
        rank: u32,
        /// The record.
        id: u64,
        /// What it is.
        what: String,
    },
    /// No rank to write.
    #[error("the trace has no records")]
    #[diagnostic(help("write a trace with records"))]
    Empty,
}

/// The text of a SimAI workload from the first rank of a trace: a row for each collective, with the computation before it. Times are rounded to
/// whole nanoseconds; collectives of groups other than TP, EP, DP and DP_EP are written without a suffix.
///
/// # Errors
/// Messages, and collectives that the format has not.
pub fn write(trace: &Trace) -> Result<String, WriteError> {
    let of = trace.ranks.first().filter(|of| !of.records.is_empty()).ok_or(WriteError::Empty)?;
    let mut rows = Vec::new();
    let mut computed = Span::ZERO;
    for record in &of.records {
        computed = computed.saturating_add(record.gap);
        match &record.kind {
            Kind::Wait => {}
            Kind::Compute => computed = computed.saturating_add(record.duration.unwrap_or(Span::ZERO)),
            Kind::Collective(collective) => {
                let Some(word) = word(collective, trace) else {
                    let what = collective.operation.name().to_owned();
                    return Err(WriteError::NoForm { rank: of.rank, id: record.id.0, what });
                };
                rows.push((row_name(&record.name), std::mem::take(&mut computed), word, collective.bytes.unwrap_or(Bytes::ZERO)));
            }
            Kind::Send(_) | Kind::Recv(_) => {
                return Err(WriteError::NoForm { rank: of.rank, id: record.id.0, what: "a message".to_owned() });
            }
        }
    }
    if computed > Span::ZERO {
        rows.push(("compute".to_owned(), computed, "NONE".to_owned(), Bytes::ZERO));
    }
    let degree = |name: &str| trace.groups.iter().find(|(_, group)| group.name == name).and_then(|(_, group)| group.size).unwrap_or(1);
    let mut text = format!(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {} ep: {} pp: 1 vpp: 1 ga: 1 all_gpus: {} checkpoints: 0 \
         checkpoint_initiates: 0\n{}\n",
        degree("TP"),
        degree("EP"),
        trace.world,
        rows.len(),
    );
    for (name, span, word, bytes) in rows {
        let ns = span.as_ps().saturating_add(500) / 1000;
        writeln!(text, "{name}\t-1\t{ns}\t{word}\t{}\t0\tNONE\t0\t0\tNONE\t0\t0", bytes.0).expect("text takes all that is written");
    }
    Ok(text)
}

fn row_name(name: &str) -> String {
    let short: String = name.chars().take(60).map(|letter| if letter.is_whitespace() { '_' } else { letter }).collect();
    if short.is_empty() { "layer".to_owned() } else { short }
}

fn word(collective: &Collective, trace: &Trace) -> Option<String> {
    let name = match collective.operation {
        Operation::AllReduce => "ALLREDUCE",
        Operation::AllGather => "ALLGATHER",
        Operation::ReduceScatter => "REDUCESCATTER",
        Operation::AllToAll => "ALLTOALL",
        Operation::Broadcast => "BROADCAST",
        _ => return None,
    };
    let suffix = match trace.groups.name(collective.group) {
        "EP" => "_EP",
        "DP" => "_DP",
        "DP_EP" => "_DP_EP",
        _ => "",
    };
    Some(format!("{name}{suffix}"))
}
