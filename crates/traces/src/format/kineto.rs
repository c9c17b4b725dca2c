//! Kineto, the traces of the PyTorch profiler: kernels and copies on the streams of GPUs, NCCL's with their arguments.
//!
//! Source: pytorch/kineto, `output_json.cpp`; Chrome's trace event format. NCCL kernels carry `Collective name`, `In msg nelems`, `Out msg nelems`,
//! `dtype`, `Process Group Name` and `Process Group Ranks`; `distributedInfo` has the rank and all groups.
//! Modelled: each stream in order; a record that started after one of another stream had ended waits for it, as the file does not say
//! which events were waited for; the time until it started beyond that is a gap (the host was late).
//! Not modelled: what the host does, but for these gaps; events of CUDA; clocks of several hosts.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_units::{Bytes, Span, Time};
use serde::Deserialize;
use serde_json::Value as Json;

use super::chakra;
use crate::draft::{Draft, RankDraft};
use crate::error::TraceError;
use crate::open::Part;
use crate::{After, Collective, Element, Group, GroupId, Kind, Message, Operation, Record};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    schema_version: Option<Json>,
    #[serde(default)]
    distributed_info: Option<Distributed>,
    trace_events: Vec<Event>,
    #[serde(default)]
    base_time_nanoseconds: Option<u64>,
}

#[derive(Deserialize)]
struct Distributed {
    #[serde(default)]
    rank: Option<u32>,
    #[serde(default)]
    world_size: Option<u32>,
    #[serde(default)]
    pg_config: Json,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: Json,
    #[serde(default)]
    dur: Json,
    #[serde(default)]
    tid: Json,
    #[serde(default)]
    args: Option<Arguments>,
}

/// Arguments of a kernel, each in whatever form a version writes it: numbers are text in some.
#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    stream: Json,
    #[serde(rename = "Collective name", default)]
    collective: Option<String>,
    #[serde(rename = "In msg nelems", default)]
    sent: Json,
    #[serde(rename = "Out msg nelems", default)]
    received: Json,
    #[serde(rename = "Group size", default)]
    group_size: Json,
    #[serde(default)]
    dtype: Json,
    #[serde(rename = "Process Group Name", default)]
    group: Json,
    #[serde(rename = "Process Group Ranks", default)]
    ranks: Json,
    #[serde(rename = "Src Rank", default)]
    source: Json,
    #[serde(rename = "Dst Rank", default)]
    destination: Json,
}

/// A whole number that is not negative: as such, or as text in digits, also hexadecimal ones.
fn whole(value: &Json) -> Option<u64> {
    match value {
        Json::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        other => other.as_u64(),
    }
}

/// A kernel or copy with its times (picoseconds since the earliest).
struct Run<'a> {
    event: &'a Event,
    lane: u32,
    start: u64,
    end: u64,
}

/// Reads the trace of one process.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let file: File = if part.bytes.trim_ascii_start().starts_with(b"[") {
        let trace_events = serde_json::from_slice(&part.bytes).map_err(|error| TraceError::json(&part.name, &error))?;
        File { schema_version: None, distributed_info: None, trace_events, base_time_nanoseconds: None }
    } else {
        serde_json::from_slice(&part.bytes).map_err(|error| TraceError::json(&part.name, &error))?
    };
    let mut draft = Draft::of_file();
    draft.version = file.schema_version.as_ref().map(|version| format!("schema {version}"));
    let mut of = RankDraft { file: part.name.clone(), ..RankDraft::default() };
    if let Some(info) = &file.distributed_info {
        of.rank = info.rank.filter(|rank| *rank < fabriscope_schedule::Schedule::MOST_RANKS);
        draft.world = info.world_size.filter(|ranks| *ranks <= fabriscope_schedule::Schedule::MOST_RANKS).unwrap_or(0);
        groups(&info.pg_config, &mut draft);
    }
    let (runs, earliest_us) = runs(&file.trace_events, &mut draft);
    of.epoch_ns = earliest_us.map(|us| ((us * 1e3) as u64).saturating_add(file.base_time_nanoseconds.unwrap_or(0)));
    of.records = records(&runs, &mut draft);
    if !of.records.iter().any(|record| matches!(record.kind, Kind::Collective(_) | Kind::Send(_) | Kind::Recv(_))) {
        draft.reading.note("no communication in this file");
    }
    draft.ranks.push(of);
    Ok(draft)
}

/// The groups that the file lists, so that those are known which no kernel names.
fn groups(config: &Json, draft: &mut Draft) {
    for group in config.as_array().into_iter().flatten() {
        let name = group.get("pg_name").and_then(Json::as_str).unwrap_or_default();
        let listed = group.get("ranks").and_then(|ranks| serde_json::from_value::<Vec<u32>>(ranks.clone()).ok());
        if let Some(ranks) = listed.filter(|ranks| !ranks.is_empty()) {
            draft.groups.add(Group::of(name, ranks));
        }
    }
}

/// What ran on the streams, in the order of time; all else is counted as left out.
fn runs<'a>(events: &'a [Event], draft: &mut Draft) -> (Vec<Run<'a>>, Option<f64>) {
    let mut found = Vec::new();
    for event in events {
        let reason = match (event.ph.as_str(), event.cat.as_str()) {
            ("X", "kernel" | "gpu_memcpy" | "gpu_memset") => {
                match (event.ts.as_f64(), event.dur.as_f64()) {
                    (Some(ts), Some(dur)) if ts >= 0.0 && dur >= 0.0 && ts < 1e16 && dur < 1e12 => found.push((event, ts, dur)),
                    _ => draft.reading.left("kernels without a time"),
                }
                continue;
            }
            ("X", "cpu_op" | "cuda_runtime" | "cuda_driver" | "python_function" | "hip_runtime" | "privateuse1_runtime") => {
                "calls on the host"
            }
            ("X", "user_annotation" | "gpu_user_annotation" | "Trace") => "annotations",
            ("s" | "f" | "t", _) => "arrows between calls and kernels",
            ("M", _) => "names of processes and threads",
            ("i" | "I", _) => "marks",
            _ => "events of another kind",
        };
        draft.reading.left(reason);
    }
    let earliest = found.iter().map(|(_, ts, _)| *ts).reduce(f64::min);
    let mut runs: Vec<Run<'_>> = found
        .into_iter()
        .map(|(event, ts, dur)| {
            let start = ((ts - earliest.unwrap_or(0.0)) * 1e6).round() as u64;
            let stream = event.args.as_ref().and_then(|args| whole(&args.stream)).or_else(|| whole(&event.tid)).unwrap_or(0);
            Run { event, lane: u32::try_from(stream).unwrap_or(0), start, end: start.saturating_add((dur * 1e6).round() as u64) }
        })
        .collect();
    runs.sort_by_key(|run| (run.start, run.lane, run.end));
    (runs, earliest)
}

/// The records, each after the one before it on its stream and after those of other streams that had ended.
fn records(runs: &[Run<'_>], draft: &mut Draft) -> Vec<Record> {
    let mut records = Vec::with_capacity(runs.len());
    // Of each stream its runs so far: when each ended, in order, and which record it is.
    let mut lanes: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    let mut waited: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (run, id) in runs.iter().zip(0_u64..) {
        let mut after = Vec::new();
        let mut ready = 0;
        for (lane, ended) in &lanes {
            let last = if *lane == run.lane { ended.last() } else { ended[..ended.partition_point(|(end, _)| *end <= run.start)].last() };
            let Some((end, other)) = last else { continue };
            ready = ready.max(*end);
            // What this stream has waited for already, it need not wait for again.
            if *lane == run.lane || waited.insert((run.lane, *lane), *other) != Some(*other) {
                after.push(After::End(crate::RecordId(*other)));
                if *lane != run.lane {
                    draft.reading.assume("a record waits for those of other streams that had ended when it started");
                }
            }
        }
        let kind = kind(run.event, draft);
        let mut record = Record::new(id, run.event.name.clone(), kind).after(after).on(run.lane);
        record.start = Some(Time::from_ps(run.start));
        record.duration = Some(Span::from_ps(run.end - run.start));
        record.gap = Span::from_ps(run.start.saturating_sub(ready));
        records.push(record);
        draft.reading.used();
        // Ends within a stream do not decrease, even if kernels of it overlap in a file.
        let ended = lanes.entry(run.lane).or_default();
        let end = ended.last().map_or(run.end, |(last, _)| run.end.max(*last));
        ended.push((end, id));
    }
    records
}

fn kind(event: &Event, draft: &mut Draft) -> Kind {
    let none = Arguments::default();
    let args = event.args.as_ref().unwrap_or(&none);
    let nccl = event.name.starts_with("nccl") || event.name.starts_with("rccl") || args.collective.is_some();
    if !nccl || event.cat != "kernel" {
        return Kind::Compute;
    }
    let named = args.collective.as_deref().or(Some(&event.name));
    let element = args.dtype.as_str().and_then(Element::named);
    let elements = whole(&args.sent).max(whole(&args.received));
    let bytes = elements.zip(element).map(|(elements, element)| Bytes(elements.saturating_mul(element.bytes)));
    let group = args.group.as_str().map(|name| group(name, args, draft));
    let word = named.unwrap_or_default().trim_start_matches("nccl:").trim_end_matches('_');
    if matches!(word, "send" | "recv") {
        let peer = whole(if word == "send" { &args.destination } else { &args.source });
        let peer = peer.and_then(|peer| u32::try_from(peer).ok()).filter(|peer| *peer < fabriscope_schedule::Schedule::MOST_RANKS);
        if let (Some(peer), Some(bytes)) = (peer, bytes) {
            let message = Message { peer: Some(peer), tag: Some(0), bytes, group };
            return if word == "send" { Kind::Send(message) } else { Kind::Recv(message) };
        }
        draft.reading.assume("messages without peer or size are computation of the recorded length");
        return Kind::Compute;
    }
    let Some(operation) = Operation::named(word).or_else(|| chakra::in_name(&event.name)) else {
        draft.reading.assume("NCCL kernels of no known collective are computation of the recorded length");
        return Kind::Compute;
    };
    if bytes.is_none() {
        draft.reading.note("collectives without a size");
    }
    Kind::Collective(Collective { operation, bytes, element, group, root: None })
}

fn group(name: &str, args: &Arguments, draft: &mut Draft) -> GroupId {
    let listed: Option<Vec<u32>> = args.ranks.as_str().and_then(|text| serde_json::from_str(text).ok());
    if let Some(ranks) = listed.filter(|ranks: &Vec<u32>| ranks.iter().collect::<BTreeSet<_>>().len() == ranks.len() && !ranks.is_empty()) {
        return draft.groups.add(Group::of(name, ranks));
    }
    // Long lists are shortened in kernels; the file's own list has them in full.
    let known = draft.groups.iter().find(|(_, group)| group.name == name).map(|(id, _)| id);
    known.unwrap_or_else(|| draft.groups.add(Group::unknown(name, whole(&args.group_size).and_then(|size| u32::try_from(size).ok()))))
}
