//! JSON lines of NCCL Inspector: one operation of one rank each.
//!
//! Source: NCCL, `plugins/profiler/inspector` (format v4.0 to v4.2).
//! Modelled: collectives and messages with their sizes and durations, those of a communicator in the order of their sequence numbers.
//! Not modelled: when they started (the file says when it was written), computation between them, events of channels.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span};
use serde::Deserialize;

use super::{at_line, utf8};
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, TraceError};
use crate::open::Part;
use crate::{After, Collective, Group, Kind, Message, Operation, Record, RecordId};

#[derive(Deserialize)]
struct Line {
    header: Header,
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    coll_perf: Option<Performance>,
    #[serde(default)]
    p2p_perf: Option<Performance>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    id: String,
    rank: u64,
    n_ranks: u64,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "inspector_output_format_version", default)]
    version: Option<String>,
}

#[derive(Deserialize)]
struct Performance {
    #[serde(alias = "coll", alias = "p2p")]
    function: String,
    #[serde(alias = "coll_sn", alias = "p2p_sn", default)]
    number: u64,
    #[serde(alias = "coll_msg_size_bytes", alias = "p2p_msg_size_bytes")]
    bytes: u64,
    #[serde(alias = "coll_exec_time_us", alias = "p2p_exec_time_us", default)]
    us: f64,
    #[serde(rename = "p2p_peer", default)]
    peer: Option<u64>,
}

/// Reads the files of all processes; each line says its rank.
pub(crate) fn read(parts: &[(Part, Option<u32>)]) -> Result<Draft, TraceError> {
    let mut draft = Draft::default();
    let mut found: BTreeMap<u32, Vec<(String, u64, bool, Record)>> = BTreeMap::new();
    let mut file_of: BTreeMap<u32, String> = BTreeMap::new();
    for (part, _) in parts {
        draft.reading.files += 1;
        for (text, line) in utf8(part)?.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
            let read: Line = serde_json::from_str(text).map_err(|error| {
                let mut error = TraceError::json(&part.name, &error);
                error.at = Position::LineColumn(
                    line as u64,
                    match error.at {
                        Position::LineColumn(_, column) => column,
                        _ => 1,
                    },
                );
                error
            })?;
            let at = Position::Line(line as u64);
            let ranks = super::ranks(&part.name, at, "n_ranks", read.header.n_ranks)?;
            let rank = super::ranks(&part.name, at, "rank", read.header.rank)?;
            draft.world = draft.world.max(ranks);
            draft.version = read.metadata.and_then(|metadata| metadata.version).or(draft.version);
            let (performance, message) = match (read.coll_perf, read.p2p_perf) {
                (Some(performance), _) => (performance, false),
                (_, Some(performance)) => (performance, true),
                _ => {
                    draft.reading.left("lines about neither collectives nor messages");
                    continue;
                }
            };
            let group = draft.groups.add(Group::unknown(&read.header.id, Some(ranks)));
            let kind = if message {
                let peer = super::ranks(&part.name, at, "p2p_peer", performance.peer.unwrap_or(u64::MAX))?;
                let message = Message { peer: Some(peer), tag: Some(0), bytes: Bytes(performance.bytes), group: Some(group) };
                match performance.function.as_str() {
                    "Send" => Kind::Send(message),
                    "Recv" => Kind::Recv(message),
                    other => return Err(at_line(&part.name, line, other, "`Send` or `Recv`")),
                }
            } else {
                let Some(operation) = Operation::named(&performance.function) else {
                    return Err(at_line(&part.name, line, &performance.function, "a collective of NCCL"));
                };
                let whole = matches!(operation, Operation::AllGather | Operation::ReduceScatter);
                let bytes = Bytes(performance.bytes.saturating_mul(if whole { u64::from(ranks) } else { 1 }));
                Kind::Collective(Collective { operation, bytes: Some(bytes), element: None, group: Some(group), root: None })
            };
            let mut record = Record::new(0, performance.function, kind);
            record.duration = Some(Span::from_ps((performance.us.clamp(0.0, 1e12) * 1e6) as u64));
            found.entry(rank).or_default().push((read.header.id, performance.number, message, record));
            file_of.entry(rank).or_insert_with(|| part.name.clone());
            draft.reading.used();
        }
    }
    draft.reading.assume_all("operations of a rank run one after the other, those of a communicator in the order of their numbers");
    draft.reading.assume_all("there is no computation between them, as the file has no starts");
    if draft.groups.len() > 1 {
        draft.reading.note("several communicators: ranks are those within each");
    }
    for (rank, mut lines) in found {
        lines.sort_by(|a, b| (&a.0, a.2, a.1).cmp(&(&b.0, b.2, b.1)));
        let mut records: Vec<Record> = Vec::with_capacity(lines.len());
        // Messages of one group call run together: none waits for another of its number's neighbours.
        for (at, (_, _, _, mut record)) in lines.into_iter().enumerate() {
            record.id = RecordId(at as u64);
            let blocking = matches!(record.kind, Kind::Collective(_));
            let last = records.iter().rev().find(|other| !blocking || matches!(other.kind, Kind::Collective(_)));
            if let Some(last) = last {
                let both = matches!(last.kind, Kind::Collective(_)) || blocking;
                record.after.push(if both { After::End(last.id) } else { After::Start(last.id) });
            }
            records.push(record);
        }
        let file = file_of.remove(&rank).unwrap_or_default();
        draft.ranks.push(RankDraft { rank: Some(rank), file, records, epoch_ns: None });
    }
    Ok(draft)
}
