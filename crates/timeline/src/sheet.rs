//! A plan over time that somebody else made, as a file: processes, their tracks, and slices within slices.
//!
//! Source: Perfetto, "TrackEvent" and protos/perfetto/trace; Chrome's "Trace Event Format" (complete events), which `ui.perfetto.dev` and
//! `chrome://tracing` read.
//! Modelled: slices of a track that follow each other or lie within each other, with numbers and words; exact lengths as `ps`.
//! Not modelled: flows, counters.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fabriscope_units::{Span, Time};
use prost::Message;
use serde_json::{Value, json};

use crate::proto::{DebugAnnotation, InternedData, InternedString, ProcessDescriptor, TracePacket, TrackDescriptor, TrackEvent};

/// Something that takes time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// What it is called.
    pub name: String,
    /// When it begins.
    pub from: Time,
    /// How long it takes.
    pub span: Span,
    /// What is known of it.
    pub values: Vec<(&'static str, u64)>,
    /// What happens within it, in order.
    pub within: Vec<Slice>,
}

/// Slices that follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Track {
    /// What it is called.
    pub name: String,
    /// In order.
    pub slices: Vec<Slice>,
}

/// Tracks that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// What it is called.
    pub name: String,
    /// From above.
    pub tracks: Vec<Track>,
}

/// Writes the processes as Perfetto's protobuf.
///
/// # Errors
/// What cannot be written.
pub fn perfetto(processes: &[Process], out: &mut dyn Write) -> io::Result<()> {
    let mut file = PerfettoFile { out, names: BTreeMap::new(), values: BTreeMap::new(), news: InternedData::default(), begun: false };
    let mut next = 0u64;
    let mut number = || {
        next += 1;
        next
    };
    for (process, pid) in processes.iter().zip(1..) {
        let of_process = number();
        let named = ProcessDescriptor { pid: Some(pid), process_name: Some(process.name.clone()) };
        file.describe(TrackDescriptor { uuid: Some(of_process), process: Some(named), ..TrackDescriptor::default() })?;
        for track in &process.tracks {
            let uuid = number();
            let (name, parent_uuid) = (Some(track.name.clone()), Some(of_process));
            file.describe(TrackDescriptor { uuid: Some(uuid), name, parent_uuid, ..TrackDescriptor::default() })?;
            for slice in &track.slices {
                file.slice(uuid, slice)?;
            }
        }
    }
    file.out.flush()
}

/// A file that is being written, with the strings that it has named.
struct PerfettoFile<'a> {
    out: &'a mut dyn Write,
    names: BTreeMap<String, u64>,
    values: BTreeMap<&'static str, u64>,
    news: InternedData,
    begun: bool,
}

impl PerfettoFile<'_> {
    fn write(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(1);
        packet.sequence_flags = Some(if std::mem::replace(&mut self.begun, true) { NEEDS_STATE } else { CLEARS_STATE });
        if self.news != InternedData::default() {
            packet.interned_data = Some(std::mem::take(&mut self.news));
        }
        // Tag of `Trace.packet`: field 1, length-delimited.
        let mut bytes = vec![0x0a];
        packet.encode_length_delimited(&mut bytes).map_err(io::Error::other)?;
        self.out.write_all(&bytes)
    }
    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }
    fn name(&mut self, name: &str) -> u64 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        self.news.event_names.push(InternedString { iid: Some(iid), name: Some(name.to_owned()) });
        iid
    }
    fn value(&mut self, name: &'static str, value: u64) -> DebugAnnotation {
        let next = self.values.len() as u64 + 1;
        let iid = *self.values.entry(name).or_insert_with(|| {
            self.news.debug_annotation_names.push(InternedString { iid: Some(next), name: Some(name.to_owned()) });
            next
        });
        DebugAnnotation { name_iid: Some(iid), uint_value: Some(value), ..DebugAnnotation::default() }
    }
    fn slice(&mut self, track: u64, slice: &Slice) -> io::Result<()> {
        let mut debug_annotations = vec![self.value("ps", slice.span.as_ps())];
        for (name, value) in &slice.values {
            debug_annotations.push(self.value(name, *value));
        }
        let name_iid = Some(self.name(&slice.name));
        let begin = TrackEvent { debug_annotations, r#type: Some(BEGIN), name_iid, track_uuid: Some(track), ..TrackEvent::default() };
        self.event(slice.from, begin)?;
        for within in &slice.within {
            self.slice(track, within)?;
        }
        self.event(slice.from + slice.span, TrackEvent { r#type: Some(END), track_uuid: Some(track), ..TrackEvent::default() })
    }
    fn event(&mut self, time: Time, event: TrackEvent) -> io::Result<()> {
        self.write(TracePacket { timestamp: Some(time.as_ps() / PS), track_event: Some(event), ..TracePacket::default() })
    }
}

/// Writes the processes as Chrome's trace events in JSON.
///
/// # Errors
/// What cannot be written.
pub fn chrome(processes: &[Process], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut comma = "\n";
    let mut event = |event: Value| {
        let written = write!(out, "{comma}{event}");
        comma = ",\n";
        written
    };
    for (process, pid) in processes.iter().zip(1..) {
        let meta =
            |what: &str, tid: usize, name: &str| json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } });
        event(meta("process_name", 0, &process.name))?;
        for (track, tid) in process.tracks.iter().zip(1..) {
            event(meta("thread_name", tid, &track.name))?;
            for slice in &track.slices {
                complete(slice, (pid, tid), &mut event)?;
            }
        }
    }
    writeln!(out, "\n]}}")
}

fn complete(slice: &Slice, (pid, tid): (u32, usize), event: &mut dyn FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    let us = |ps: u64| ps as f64 / 1e6;
    let mut args = serde_json::Map::from_iter([("ps".to_owned(), Value::from(slice.span.as_ps()))]);
    args.extend(slice.values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
    let (ts, dur) = (us(slice.from.as_ps()), us(slice.span.as_ps()));
    event(json!({ "ph": "X", "name": slice.name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args }))?;
    slice.within.iter().try_for_each(|within| complete(within, (pid, tid), event))
}

/// Picoseconds of Perfetto's unit.
const PS: u64 = 1000;
const BEGIN: i32 = 1;
const END: i32 = 2;
/// `TracePacket.SequenceFlags`.
const CLEARS_STATE: u32 = 1;
const NEEDS_STATE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Trace;

    fn plan() -> Vec<Process> {
        let slice = |name: &str, from: u64, span: u64, within: Vec<Slice>| Slice {
            name: name.to_owned(),
            from: Time::from_ps(from),
            span: Span::from_ps(span),
            values: vec![("bytes", 7)],
            within,
        };
        let passes =
            vec![slice("forward 0", 0, 3000, vec![slice("product", 1000, 2000, Vec::new())]), slice("backward 0", 3000, 4500, Vec::new())];
        vec![Process { name: "stage 0".to_owned(), tracks: vec![Track { name: "passes".to_owned(), slices: passes }] }]
    }

    /// Begins and ends alternate as slices lie within each other; names are told once; times are whole nanoseconds.
    #[test]
    fn a_plan_is_read_back_from_protobuf() {
        let mut bytes = Vec::new();
        perfetto(&plan(), &mut bytes).unwrap();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let events: Vec<_> =
            trace.packet.iter().filter_map(|packet| Some((packet.timestamp(), packet.track_event.as_ref()?.r#type()))).collect();
        assert_eq!(events, [(0, BEGIN), (1, BEGIN), (3, END), (3, END), (3, BEGIN), (7, END)]);
        let names: Vec<_> = trace.packet.iter().flat_map(|packet| &packet.interned_data).flat_map(|data| &data.event_names).collect();
        assert_eq!(names.iter().map(|name| name.name()).collect::<Vec<_>>(), ["forward 0", "product", "backward 0"]);
        let described = trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref());
        assert_eq!(described.map(|track| track.parent_uuid).collect::<Vec<_>>(), [None, Some(1)]);
    }

    #[test]
    fn a_plan_is_read_back_from_json() {
        let mut bytes = Vec::new();
        chrome(&plan(), &mut bytes).unwrap();
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        let slices: Vec<_> = read["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.len(), 3);
        assert_eq!(
            (slices[1]["ts"].as_f64(), slices[1]["dur"].as_f64(), slices[1]["args"]["ps"].as_u64()),
            (Some(0.001), Some(0.002), Some(2000))
        );
    }
}
