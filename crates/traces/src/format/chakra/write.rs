//! Chakra traces written: the protobuf file of each rank, and the process groups.
//!
//! Source: as the reader; version 0.0.4.
//! Not modelled: parts of a microsecond, which the format has no room for (durations are rounded); starts of non-blocking calls, for which what they
//! waited for stands.

use std::collections::BTreeMap;

use fabriscope_units::Span;

use super::node::{COMM_COLL, COMM_RECV, COMM_SEND, COMM_TYPES, COMP};
use crate::{After, Kind, Members, Operation, RankTrace, Record, RecordId, Trace};

/// What is written of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChakraFiles {
    /// The ranks, each with the content of `NAME.RANK.et`.
    pub ranks: Vec<(u32, Vec<u8>)>,
    /// The content of `comm_group.json`: process groups whose members are known.
    pub groups: String,
}

/// Writes the trace as Chakra 0.0.4. A time that a rank computed between two records is a node of its own.
#[must_use]
pub fn write(trace: &Trace) -> ChakraFiles {
    let ranks = trace.ranks.iter().map(|of| (of.rank, rank_file(trace, of))).collect();
    let groups: BTreeMap<&str, Vec<u32>> = trace
        .groups
        .iter()
        .filter(|(_, group)| !matches!(group.members, Members::Unknown))
        .filter_map(|(_, group)| Some((group.name.as_str(), group.ranks(trace.world)?)))
        .collect();
    let groups = serde_json::to_string(&groups).expect("names and numbers are JSON");
    ChakraFiles { ranks, groups }
}

fn rank_file(trace: &Trace, of: &RankTrace) -> Vec<u8> {
    let by_id: BTreeMap<RecordId, &Record> = of.records.iter().map(|record| (record.id, record)).collect();
    let mut next = by_id.keys().next_back().map_or(0, |id| id.0.saturating_add(1));
    let mut file = Vec::new();
    let mut metadata = Vec::new();
    put_bytes(&mut metadata, 1, b"0.0.4");
    put_message(&mut file, &metadata);
    for record in &of.records {
        let mut waits = ends(record, &by_id);
        if record.gap > Span::ZERO {
            let mut node = begin(next, "gap", COMP, &waits, Some(record.gap));
            put_attribute(&mut node, "is_cpu_op", 27, 1);
            put_message(&mut file, &node);
            waits = vec![next];
            next = next.saturating_add(1);
        }
        put_message(&mut file, &node(trace, record, &waits));
    }
    file
}

/// What a record waits for, all of it ends: for the start of another stands what that one waited for.
fn ends(record: &Record, by_id: &BTreeMap<RecordId, &Record>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut open: Vec<After> = record.after.iter().rev().copied().collect();
    // Each start is looked into once, so that records that start after each other end this.
    let mut looked = std::collections::BTreeSet::new();
    while let Some(after) = open.pop() {
        match after {
            After::End(id) if !found.contains(&id.0) => found.push(id.0),
            After::End(_) => {}
            After::Start(id) if looked.insert(id) => {
                open.extend(by_id.get(&id).into_iter().flat_map(|other| other.after.iter().rev().copied()));
            }
            After::Start(_) => {}
        }
    }
    found
}

fn begin(id: u64, name: &str, kind: u64, waits: &[u64], duration: Option<Span>) -> Vec<u8> {
    let mut node = Vec::new();
    put_number(&mut node, 1, id);
    put_bytes(&mut node, 2, name.as_bytes());
    put_number(&mut node, 3, kind);
    if !waits.is_empty() {
        let mut packed = Vec::new();
        waits.iter().for_each(|id| put_varint(&mut packed, *id));
        put_bytes(&mut node, 5, &packed);
    }
    if let Some(span) = duration {
        put_number(&mut node, 7, (span.as_ps().saturating_add(500_000)) / 1_000_000);
    }
    node
}

fn node(trace: &Trace, record: &Record, waits: &[u64]) -> Vec<u8> {
    let kind = match &record.kind {
        Kind::Compute | Kind::Wait => COMP,
        Kind::Collective(_) => COMM_COLL,
        Kind::Send(_) => COMM_SEND,
        Kind::Recv(_) => COMM_RECV,
    };
    let duration = if record.kind == Kind::Wait { Some(Span::ZERO) } else { record.duration };
    let mut node = begin(record.id.0, &record.name, kind, waits, duration);
    put_attribute(&mut node, "is_cpu_op", 27, 0);
    if record.lane > 0 {
        put_attribute(&mut node, "stream", 9, u64::from(record.lane));
    }
    match &record.kind {
        Kind::Compute | Kind::Wait => {}
        Kind::Collective(collective) => {
            put_attribute(&mut node, "comm_type", 9, comm_type(collective.operation));
            if let Some(bytes) = collective.bytes {
                put_attribute(&mut node, "comm_size", 9, bytes.0);
            }
            if let Some(root) = collective.root {
                put_attribute(&mut node, "root", 7, u64::from(root));
            }
            if let Some(element) = collective.element {
                put_text(&mut node, "dtype", element.name);
            }
            if let Some(group) = collective.group.and_then(|id| trace.groups.get(id)) {
                put_text(&mut node, "pg_name", &group.name);
            }
        }
        Kind::Send(message) | Kind::Recv(message) => {
            let peer = if matches!(record.kind, Kind::Send(_)) { "comm_dst" } else { "comm_src" };
            if let Some(rank) = message.peer {
                put_attribute(&mut node, peer, 7, u64::from(rank));
            }
            if let Some(tag) = message.tag {
                put_attribute(&mut node, "comm_tag", 7, u64::from(tag));
            }
            put_attribute(&mut node, "comm_size", 9, message.bytes.0);
        }
    }
    node
}

/// The number of an operation; operations with a length of each rank are written as those without, scans as reductions to all.
fn comm_type(operation: Operation) -> u64 {
    use Operation as O;
    let nearest = match operation {
        O::AllGatherV => O::AllGather,
        O::GatherV => O::Gather,
        O::ScatterV => O::Scatter,
        O::AllToAllV => O::AllToAll,
        O::ReduceScatterV => O::ReduceScatter,
        O::Scan | O::ExScan => O::AllReduce,
        other => other,
    };
    COMM_TYPES.iter().position(|known| *known == nearest).unwrap_or(0) as u64
}

fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}
/// Zero is what is meant without the field, so it is not written.
fn put_number(into: &mut Vec<u8>, field: u64, value: u64) {
    if value > 0 || field == 7 {
        put_varint(into, field << 3);
        put_varint(into, value);
    }
}
fn put_bytes(into: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(into, field << 3 | 2);
    put_message(into, bytes);
}
fn put_message(into: &mut Vec<u8>, message: &[u8]) {
    put_varint(into, message.len() as u64);
    into.extend_from_slice(message);
}
fn put_attribute(node: &mut Vec<u8>, name: &str, field: u64, value: u64) {
    let mut attribute = Vec::new();
    put_bytes(&mut attribute, 1, name.as_bytes());
    put_varint(&mut attribute, field << 3);
    put_varint(&mut attribute, value);
    put_bytes(node, 10, &attribute);
}
fn put_text(node: &mut Vec<u8>, name: &str, value: &str) {
    let mut attribute = Vec::new();
    put_bytes(&mut attribute, 1, name.as_bytes());
    put_bytes(&mut attribute, 29, value.as_bytes());
    put_bytes(node, 10, &attribute);
}
