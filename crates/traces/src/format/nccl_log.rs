//! What NCCL prints with `NCCL_DEBUG=INFO` and `NCCL_DEBUG_SUBSYS=INIT,COLL`.
//!
//! Source: NCCL, `enqueue.cc` and `init.cc`: `HOST:PID:TID [DEV] NCCL INFO AllReduce: opCount 0 sendbuff 0x… recvbuff 0x… count 1024 datatype 7
//! op 0 root 0 comm 0x… [nranks=8] stream 0x…`, followed by `task` and `globalrank` from NCCL 2.22 on; `comm 0x… rank 0 nranks 8 … commId 0x…`.
//! Modelled: calls in the order of their streams, with their communicators; logs of several processes in one file or in several.
//! Not modelled: when the calls were made (the log has no times), groups of calls.

use std::collections::BTreeMap;

use fabriscope_units::Bytes;

use super::{at_line, utf8};
use crate::draft::{Draft, RankDraft};
use crate::error::{Position, TraceError};
use crate::open::Part;
use crate::{After, Collective, Element, Group, GroupId, Kind, Message, Operation, Record, RecordId};

/// A communicator as one process sees it: its process, its address.
type Key = (String, String);

/// What the log says of a communicator.
#[derive(Debug, Clone, Default)]
struct Communicator {
    rank: Option<u32>,
    ranks: Option<u32>,
    /// The same on all its ranks.
    id: Option<String>,
}

/// A call before it is known which rank made it.
struct Call {
    process: String,
    communicator: Key,
    stream: String,
    global_rank: Option<u32>,
    ranks: Option<u32>,
    name: String,
    root: u64,
    bytes: Bytes,
    element: Element,
    file: String,
    line: usize,
}

/// Reads the logs of all processes.
pub(crate) fn read(parts: &[(Part, Option<u32>)]) -> Result<Draft, TraceError> {
    let mut draft = Draft::default();
    let mut communicators: BTreeMap<Key, Communicator> = BTreeMap::new();
    let mut calls = Vec::new();
    for (part, _) in parts {
        draft.reading.files += 1;
        for (text, line) in utf8(part)?.lines().zip(1..) {
            let Some((prefix, message)) = text.split_once(" NCCL INFO ") else { continue };
            let process = Process::of(prefix);
            if let Some(call) = call(&part.name, line, &process, message)? {
                calls.push(call);
                draft.reading.used();
            } else if let Some((key, known)) = communicator(&part.name, line, &process, message)? {
                let entry = communicators.entry(key).or_default();
                entry.rank = known.rank.or(entry.rank);
                entry.ranks = known.ranks.or(entry.ranks);
                entry.id = known.id.or(entry.id.take());
                draft.reading.used();
            } else {
                draft.reading.left("lines about no call and no communicator");
            }
        }
    }
    let ranks = ranks_of(&calls, &communicators, &mut draft);
    records(calls, &communicators, &ranks, &mut draft)?;
    Ok(draft)
}

/// The value after a word of the line.
fn value<'a>(message: &'a str, word: &str) -> Option<&'a str> {
    let mut words = message.split_ascii_whitespace();
    words.find(|other| *other == word)?;
    words.next()
}

/// What stands before a line: `HOST:PID:TID [DEV]`.
struct Process {
    /// `HOST:PID`; threads of a process share its addresses.
    name: String,
    /// `HOST:PID [DEV]`: a rank, as a process may have several.
    device: String,
}

impl Process {
    fn of(prefix: &str) -> Process {
        let mut words = prefix.split_ascii_whitespace();
        let thread = words.find(|word| word.matches(':').count() >= 2).unwrap_or(prefix.trim());
        let name = thread.rsplit_once(':').map_or(thread, |(process, _)| process).to_owned();
        let device = words.find(|word| word.starts_with('[')).unwrap_or_default();
        Process { device: format!("{name} {device}"), name }
    }
}

fn call(file: &str, line: usize, process: &Process, message: &str) -> Result<Option<Call>, TraceError> {
    let Some((name, rest)) = message.split_once(": opCount ") else { return Ok(None) };
    let name = name.rsplit(' ').next().unwrap_or(name);
    let number = |word: &str| -> Result<u64, TraceError> {
        let text = value(rest, word).ok_or_else(|| at_line(file, line, rest, "count, datatype, root and comm of a call"))?;
        text.parse().map_err(|_| at_line(file, line, text, "a whole number"))
    };
    let element = Element::of_nccl(number("datatype")?).ok_or_else(|| at_line(file, line, rest, "a datatype from 0 to 11"))?;
    let communicator = value(rest, "comm").ok_or_else(|| at_line(file, line, rest, "the communicator of a call"))?;
    let ranks = rest.split("[nranks=").nth(1).and_then(|text| text.split(']').next()).map(|text| {
        let most = text.parse::<u64>().map_err(|_| at_line(file, line, text, "a whole number"))?;
        super::ranks(file, Position::Line(line as u64), "nranks", most)
    });
    let global_rank = value(rest, "globalrank").and_then(|text| text.parse::<u64>().ok());
    let global_rank = global_rank.map(|rank| super::ranks(file, Position::Line(line as u64), "globalrank", rank));
    Ok(Some(Call {
        process: process.device.clone(),
        communicator: (process.name.clone(), communicator.to_owned()),
        stream: value(rest, "stream").unwrap_or_default().to_owned(),
        global_rank: global_rank.transpose()?,
        ranks: ranks.transpose()?,
        name: name.to_owned(),
        root: number("root")?,
        bytes: Bytes(number("count")?.saturating_mul(element.bytes)),
        element,
        file: file.to_owned(),
        line,
    }))
}

fn communicator(file: &str, line: usize, process: &Process, message: &str) -> Result<Option<(Key, Communicator)>, TraceError> {
    let (Some(address), Some(rank), Some(ranks)) = (value(message, "comm"), value(message, "rank"), value(message, "nranks")) else {
        return Ok(None);
    };
    let number = |text: &str, what| {
        let value = text.parse::<u64>().map_err(|_| at_line(file, line, text, "a whole number"))?;
        super::ranks(file, Position::Line(line as u64), what, value)
    };
    let known = Communicator {
        rank: Some(number(rank, "rank")?),
        ranks: Some(number(ranks, "nranks")?),
        id: value(message, "commId").map(str::to_owned),
    };
    Ok(Some(((process.name.clone(), address.to_owned()), known)))
}

/// The rank of each line's process and device: stated, or that in its largest communicator, or the order in which they appear.
fn ranks_of(calls: &[Call], communicators: &BTreeMap<Key, Communicator>, draft: &mut Draft) -> BTreeMap<String, u32> {
    let mut found: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for call in calls {
        let size = call.ranks.or_else(|| communicators.get(&call.communicator)?.ranks).unwrap_or(0);
        draft.world = draft.world.max(size);
        let stated = call.global_rank.map(|rank| (u32::MAX, rank));
        let known = stated.or_else(|| Some((size, communicators.get(&call.communicator)?.rank?)));
        if let Some((weight, rank)) = known {
            let entry = found.entry(call.process.clone()).or_insert((weight, rank));
            if weight > entry.0 {
                *entry = (weight, rank);
            }
        }
    }
    let mut ranks: BTreeMap<String, u32> = found.into_iter().map(|(process, (_, rank))| (process, rank)).collect();
    let mut next = ranks.values().max().map_or(0, |most| most + 1);
    for call in calls {
        if !ranks.contains_key(&call.process) {
            ranks.insert(call.process.clone(), next);
            next += 1;
            draft.reading.assume_all("no line says the rank of a process: they are numbered in the order of the log");
        }
    }
    ranks
}

fn records(
    calls: Vec<Call>,
    communicators: &BTreeMap<Key, Communicator>,
    ranks: &BTreeMap<String, u32>,
    draft: &mut Draft,
) -> Result<(), TraceError> {
    // Who is in each communicator, as far as the log has its processes.
    let mut members: BTreeMap<String, BTreeMap<u32, u32>> = BTreeMap::new();
    let shared = |key: &Key, known: Option<&Communicator>| known.and_then(|known| known.id.clone()).unwrap_or_else(|| key.1.clone());
    for call in &calls {
        let known = communicators.get(&call.communicator);
        let (Some(rank), Some(inner)) = (ranks.get(&call.process), known.and_then(|known| known.rank)) else { continue };
        members.entry(shared(&call.communicator, known)).or_default().insert(inner, *rank);
    }
    let mut by_rank: BTreeMap<u32, RankDraft> = BTreeMap::new();
    let mut last: BTreeMap<(u32, String), RecordId> = BTreeMap::new();
    let mut lanes: BTreeMap<(u32, String), u32> = BTreeMap::new();
    for call in calls {
        let rank = ranks.get(&call.process).copied().unwrap_or(0);
        let known = communicators.get(&call.communicator);
        let size = call.ranks.or_else(|| known?.ranks);
        let name = shared(&call.communicator, known);
        let all = members.get(&name).filter(|listed| Some(listed.len() as u32) == size);
        let group = match (all, known.and_then(|known| known.id.as_ref())) {
            (Some(listed), _) => Group::of(name, listed.values().copied().collect()),
            (None, Some(_)) => Group::unknown(name, size),
            // An address means nothing to other processes: communicators of one size are taken as one.
            (None, None) => Group::unknown(format!("communicator of {} ranks", size.unwrap_or(0)), size),
        };
        if known.is_none_or(|known| known.id.is_none()) {
            draft.reading.assume("communicators of one size are the same on all ranks: no line says their commId");
        }
        let id = draft.groups.add(group);
        let kind = kind(&call, size, id, draft)?;
        let of = by_rank.entry(rank).or_insert_with(|| RankDraft { rank: Some(rank), file: call.file.clone(), ..RankDraft::default() });
        let record_id = RecordId(of.records.len() as u64);
        let stream = (rank, call.stream);
        let lane = lanes.len() as u32;
        let mut record = Record::new(record_id.0, call.name, kind).on(*lanes.entry(stream.clone()).or_insert(lane));
        if let Some(before) = last.insert(stream, record_id) {
            record.after.push(After::End(before));
        }
        of.records.push(record);
    }
    draft.reading.assume_all("calls of one stream run one after the other, streams do not wait for each other");
    draft.reading.assume_all("there is no computation between them, as the log has no times");
    draft.ranks = by_rank.into_values().collect();
    Ok(())
}

fn kind(call: &Call, size: Option<u32>, group: GroupId, draft: &mut Draft) -> Result<Kind, TraceError> {
    let at = Position::Line(call.line as u64);
    if matches!(call.name.as_str(), "Send" | "Recv") {
        let inner = super::ranks(&call.file, at, "the peer of a message", call.root)?;
        let listed = draft.groups.get(group).and_then(|of| of.ranks(draft.world));
        let peer = listed.and_then(|ranks| ranks.get(inner as usize).copied()).unwrap_or(inner);
        let message = Message { peer: Some(peer), tag: Some(0), bytes: call.bytes, group: Some(group) };
        return Ok(if call.name == "Send" { Kind::Send(message) } else { Kind::Recv(message) });
    }
    let Some(operation) = Operation::named(&call.name) else {
        return Err(at_line(&call.file, call.line, &call.name, "a call of NCCL"));
    };
    let whole = matches!(operation, Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll);
    let bytes = Bytes(call.bytes.0.saturating_mul(if whole { u64::from(size.unwrap_or(1)) } else { 1 }));
    let rooted = matches!(operation, Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter);
    let root = rooted.then(|| super::ranks(&call.file, at, "root", call.root)).transpose()?;
    Ok(Kind::Collective(Collective { operation, bytes: Some(bytes), element: Some(call.element), group: Some(group), root }))
}
