//! A run as Perfetto's trace: tracks, slices, flows and counters, written while the run goes.
//!
//! ```text
//! gpu01                       fabric
//!   rank 0                      leaf 0 port 3
//!   rank 0, core                  queue ▁▃▇▃▁
//!   gpu 0                         rate  ▇▇▇▇▁
//!   mlx5_0
//!     outstanding messages ▁▂▃
//!     QP 17 to gpu02   [ message: post | doorbell | … | poll ] ──flow──▶ on the adapter of gpu02: [ arrival ]
//! ```
//! Source: Perfetto, "TrackEvent" and protos/perfetto/trace.
//! Modelled: a process for each node and one for the fabric; a slice for each message with its stages as slices within; arrivals with the
//! stages behind the last cable; work of cores and GPUs; samples of queues, rates and what is outstanding. Perfetto counts nanoseconds:
//! begins and ends are rounded down, and each slice says its exact picoseconds, so that the stages of a message add up to its latency.
//! In memory are tracks and names, and nothing that grows with the length of the run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fabriscope_engine::{Followed, Moment, Recorder, Stage, StageSpan};
use fabriscope_node::{Activity, Doing, Kernel, Work};
use fabriscope_units::{Bytes, Span, Time};
use prost::Message;

use crate::lanes::Lanes;
use crate::places::Places;
use crate::proto::{
    CounterDescriptor, DebugAnnotation, InternedData, InternedString, ProcessDescriptor, TracePacket, TrackDescriptor, TrackEvent,
};

/// Writes a trace as it hears of a run.
pub struct PerfettoWriter<W> {
    writer: W,
    /// The first thing that went wrong: nothing is written after it.
    failed: Option<io::Error>,
    places: Places,
    /// From one sample of a link to the next.
    step: Span,
    tracks: BTreeMap<Track, u64>,
    lanes: BTreeMap<Row, Lanes>,
    names: BTreeMap<&'static str, u64>,
    labels: BTreeMap<String, u64>,
    /// Strings that the next packet has to bring.
    news: InternedData,
    begun: bool,
    messages: u64,
    packet: Vec<u8>,
}

/// Where something happens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Calls { node: u32, rank: u32 },
    Core { node: u32, rank: u32 },
    Work { node: u32, rank: u32 },
    Gpu { node: u32, gpu: u32 },
    Queue { adapter: u32, qp: u32, to: Option<u32> },
    Arrivals { adapter: u32 },
}

/// Everything that has a number of its own in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Fabric,
    Node(u32),
    Adapter(u32),
    Link(u32),
    Slices(Row, usize),
    LinkQueue(u32),
    LinkRate(u32),
    Messages(u32),
    InFlight(u32),
}

/// A slice to be written.
struct Slice<'a> {
    name: &'a str,
    from: u64,
    until: u64,
    values: Vec<DebugAnnotation>,
    /// The message that begins here, and the one that ends here.
    flow: Option<u64>,
    ends: Option<u64>,
}

impl<W: Write> PerfettoWriter<W> {
    /// A trace of a run on a cluster with these names, whose links are sampled at every `step`.
    pub fn new(writer: W, places: Places, step: Span) -> PerfettoWriter<W> {
        PerfettoWriter {
            writer,
            failed: None,
            places,
            step,
            tracks: BTreeMap::new(),
            lanes: BTreeMap::new(),
            names: BTreeMap::new(),
            labels: BTreeMap::new(),
            news: InternedData::default(),
            begun: false,
            messages: 0,
            packet: Vec::new(),
        }
    }

    /// Writes what is left; how many messages there are.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(&mut self) -> io::Result<u64> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.writer.flush()?;
        Ok(self.messages)
    }

    fn write(&mut self, mut packet: TracePacket) {
        if self.failed.is_some() {
            return;
        }
        packet.trusted_packet_sequence_id = Some(1);
        packet.sequence_flags = Some(if std::mem::replace(&mut self.begun, true) { NEEDS_STATE } else { CLEARS_STATE });
        if self.news != InternedData::default() {
            packet.interned_data = Some(std::mem::take(&mut self.news));
        }
        self.packet.clear();
        // Tag of `Trace.packet`: field 1, length-delimited.
        self.packet.push(0x0a);
        let written = packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other);
        if let Err(error) = written.and_then(|()| self.writer.write_all(&self.packet)) {
            self.failed = Some(error);
        }
    }

    /// The number of a track, which is described the first time.
    fn track(&mut self, track: Track) -> u64 {
        if let Some(uuid) = self.tracks.get(&track) {
            return *uuid;
        }
        let described = self.describe(&track);
        let uuid = self.tracks.len() as u64 + 1;
        self.tracks.insert(track, uuid);
        self.write(TracePacket { track_descriptor: Some(TrackDescriptor { uuid: Some(uuid), ..described }), ..TracePacket::default() });
        uuid
    }

    fn describe(&mut self, track: &Track) -> TrackDescriptor {
        let process = |pid: u32, name: String| {
            // Of 2³¹ nodes nobody draws a timeline.
            let pid = i32::try_from(pid).unwrap_or(i32::MAX);
            let process = ProcessDescriptor { pid: Some(pid), process_name: Some(name) };
            TrackDescriptor { process: Some(process), ..TrackDescriptor::default() }
        };
        let (parent, name, counter) = match track {
            Track::Fabric => return process(FABRIC, format!("fabric of {}", self.places.cluster)),
            // A process has a number above zero: zero is the idle task of Linux.
            Track::Node(node) => return process(node + 1, self.places.node(*node)),
            Track::Adapter(adapter) => {
                let (node, name) = self.places.adapter(*adapter);
                (Track::Node(node), name, None)
            }
            Track::Link(link) => (Track::Fabric, self.places.link(*link), None),
            Track::Slices(row, lane) => {
                let (parent, mut name) = self.row(row);
                if *lane > 0 {
                    name += &format!(", lane {}", lane + 1);
                }
                (parent, name, None)
            }
            Track::LinkQueue(link) => (Track::Link(*link), format!("{} queue", self.places.link(*link)), Some("B")),
            Track::LinkRate(link) => (Track::Link(*link), format!("{} rate", self.places.link(*link)), Some("bit/s")),
            Track::Messages(adapter) => (Track::Adapter(*adapter), "outstanding messages".to_owned(), Some("messages")),
            Track::InFlight(adapter) => (Track::Adapter(*adapter), "bytes in flight".to_owned(), Some("B")),
        };
        let counter = counter.map(|unit| CounterDescriptor { unit_name: Some(unit.to_owned()), ..CounterDescriptor::default() });
        let parent = self.track(parent);
        TrackDescriptor { name: Some(name), parent_uuid: Some(parent), counter, ..TrackDescriptor::default() }
    }

    fn row(&self, row: &Row) -> (Track, String) {
        match row {
            Row::Calls { node, rank } => (Track::Node(*node), format!("rank {rank}")),
            Row::Core { node, rank } => (Track::Node(*node), format!("rank {rank}, core")),
            Row::Work { node, rank } => (Track::Node(*node), format!("rank {rank}, copies")),
            Row::Gpu { node, gpu } => (Track::Node(*node), format!("gpu {gpu}")),
            Row::Queue { adapter, qp, to: Some(to) } => {
                let node = self.places.adapter(*to).0;
                (Track::Adapter(*adapter), format!("QP {qp} to {}", self.places.node(node)))
            }
            Row::Queue { adapter, qp, to: None } => (Track::Adapter(*adapter), format!("QP {qp}")),
            Row::Arrivals { adapter } => (Track::Adapter(*adapter), "arrivals".to_owned()),
        }
    }

    fn value(&mut self, name: &'static str) -> DebugAnnotation {
        let next = self.names.len() as u64 + 1;
        let iid = *self.names.entry(name).or_insert_with(|| {
            self.news.debug_annotation_names.push(InternedString { iid: Some(next), name: Some(name.to_owned()) });
            next
        });
        DebugAnnotation { name_iid: Some(iid), ..DebugAnnotation::default() }
    }
    fn number(&mut self, name: &'static str, value: u64) -> DebugAnnotation {
        DebugAnnotation { uint_value: Some(value), ..self.value(name) }
    }
    fn words(&mut self, name: &'static str, value: impl Into<String>) -> DebugAnnotation {
        DebugAnnotation { string_value: Some(value.into()), ..self.value(name) }
    }

    fn label(&mut self, name: &str) -> u64 {
        if let Some(iid) = self.labels.get(name) {
            return *iid;
        }
        let iid = self.labels.len() as u64 + 1;
        self.labels.insert(name.to_owned(), iid);
        self.news.event_names.push(InternedString { iid: Some(iid), name: Some(name.to_owned()) });
        iid
    }

    /// A slice in a free lane of `row`, whose end is left to [`close`](Self::close): slices within come between.
    fn open(&mut self, row: Row, slice: Slice<'_>) -> u64 {
        let lane = self.lanes.entry(row.clone()).or_default().place(slice.from, slice.until);
        let track = self.track(Track::Slices(row, lane));
        self.begin(track, slice);
        track
    }

    fn begin(&mut self, track: u64, slice: Slice<'_>) {
        let event = TrackEvent {
            debug_annotations: slice.values,
            r#type: Some(BEGIN),
            name_iid: Some(self.label(slice.name)),
            track_uuid: Some(track),
            flow_ids: slice.flow.into_iter().collect(),
            terminating_flow_ids: slice.ends.into_iter().collect(),
            ..TrackEvent::default()
        };
        self.write(TracePacket { timestamp: Some(slice.from / PS), track_event: Some(event), ..TracePacket::default() });
    }

    fn close(&mut self, track: u64, until: u64) {
        let event = TrackEvent { r#type: Some(END), track_uuid: Some(track), ..TrackEvent::default() };
        self.write(TracePacket { timestamp: Some(until / PS), track_event: Some(event), ..TracePacket::default() });
    }

    fn counter(&mut self, track: Track, time: Time, value: u64) {
        let event = TrackEvent {
            r#type: Some(VALUE),
            track_uuid: Some(self.track(track)),
            // No queue and no rate has so many.
            counter_value: Some(i64::try_from(value).unwrap_or(i64::MAX)),
            ..TrackEvent::default()
        };
        self.write(TracePacket { timestamp: Some(time.as_ps() / PS), track_event: Some(event), ..TracePacket::default() });
    }

    fn slice(&mut self, row: Row, slice: Slice<'_>) {
        let until = slice.until;
        let track = self.open(row, slice);
        self.close(track, until);
    }

    /// Slices one behind the other within an open one.
    fn parts<'a>(&mut self, track: u64, mut at: u64, parts: impl Iterator<Item = (&'a str, Span, Option<&'a str>)>) {
        for (name, span, place) in parts {
            let until = at + span.as_ps();
            let mut values = vec![self.number("ps", span.as_ps())];
            values.extend(place.map(|place| self.words("place", place)));
            self.begin(track, Slice { name, from: at, until, values, flow: None, ends: None });
            self.close(track, until);
            at = until;
        }
    }

    fn message(&mut self, followed: &Followed) {
        let Followed { trace, qp, to, rank } = followed;
        self.messages += 1;
        let number = self.messages;
        let (from, until) = (trace.posted_ps, trace.done_ps);
        let mut values = vec![
            self.number("message", number),
            self.number("bytes", trace.bytes),
            self.number("posted_ps", from),
            self.number("latency_ps", trace.latency().as_ps()),
        ];
        values.extend(rank.map(|rank| self.number("rank", u64::from(rank))));
        let name = format!("{}", Bytes(trace.bytes));
        let row = Row::Queue { adapter: trace.node, qp: *qp, to: *to };
        let track = self.open(row, Slice { name: &name, from, until, values, flow: Some(number), ends: None });
        self.parts(track, from, trace.stages.iter().map(|part| (part.stage.name(), part.span, Some(part.place.as_str()))));
        self.close(track, until);
        let Some((adapter, behind)) = to.zip(arrival(&trace.stages)) else { return };
        let first = behind.first().map_or(until, |_| until - behind.iter().map(|part| part.span.as_ps()).sum::<u64>());
        let values = vec![self.number("message", number), self.number("bytes", trace.bytes)];
        let row = Row::Arrivals { adapter };
        let track = self.open(row, Slice { name: &name, from: first, until, values, flow: None, ends: Some(number) });
        self.parts(track, first, behind.iter().map(|part| (part.stage.name(), part.span, Some(part.place.as_str()))));
        self.close(track, until);
    }

    fn work(&mut self, work: &Work) {
        let (from, until) = (work.begun.as_ps(), work.done.as_ps());
        let name = work.parts.last().map_or("work", |(name, _)| name.as_str());
        let values = vec![self.number("ps", until - from)];
        let row = Row::Work { node: work.node, rank: work.rank };
        let track = self.open(row, Slice { name, from, until, values, flow: None, ends: None });
        self.parts(track, from, work.parts.iter().map(|(name, span)| (name.as_str(), *span, None)));
        self.close(track, until);
    }

    fn activity(&mut self, activity: &Activity) {
        let Activity { rank, node, begun, done, doing } = activity;
        let (from, until) = (begun.as_ps(), done.as_ps());
        match doing {
            Doing::Call { name, bytes } => {
                let values = vec![self.number("bytes", bytes.0), self.number("ps", until.saturating_sub(from))];
                self.slice(Row::Calls { node: *node, rank: *rank }, Slice { name, from, until, values, flow: None, ends: None });
            }
            Doing::Kernel(kernel) => {
                let Kernel { gpu, operation, choice, datatype, element, count, sequence, .. } = kernel;
                let mut values = vec![
                    self.number("rank", u64::from(*rank)),
                    self.number("sequence", *sequence),
                    self.number("count", *count),
                    self.words("datatype", *datatype),
                    self.number("bytes", count * element),
                    self.number("ps", until.saturating_sub(from)),
                ];
                if let Some((algorithm, protocol)) = choice {
                    values.extend([self.words("algorithm", *algorithm), self.words("protocol", *protocol)]);
                }
                self.slice(Row::Gpu { node: *node, gpu: *gpu }, Slice { name: operation, from, until, values, flow: None, ends: None });
            }
        }
    }
}

/// The stages behind the last cable; none of a message that crossed none.
fn arrival(stages: &[StageSpan]) -> Option<&[StageSpan]> {
    let last = stages.iter().rposition(|part| part.stage == Stage::Propagation)?;
    stages.get(last + 1..).filter(|behind| !behind.is_empty())
}

impl<W: Write + Send> Recorder for PerfettoWriter<W> {
    fn record(&mut self, moment: Moment) {
        match moment {
            Moment::Message(followed) => self.message(&followed),
            Moment::Core { rank, node, from, until } => {
                let (from, until) = (from.as_ps(), until.as_ps());
                let values = vec![self.number("ps", until - from)];
                self.slice(Row::Core { node, rank }, Slice { name: "busy", from, until, values, flow: None, ends: None });
            }
            Moment::Work(work) => self.work(&work),
            Moment::Activity(activity) => self.activity(&activity),
            Moment::Link { time, link, queue, sent } => {
                self.counter(Track::LinkQueue(link), time, queue.0);
                // A value holds from its time on: what was sent in a step is that of its begin.
                let rate = u128::from(sent.0) * 8 * 1_000_000_000_000 / u128::from(self.step.as_ps().max(1));
                let begin = Time::from_ps(time.as_ps().saturating_sub(self.step.as_ps()));
                self.counter(Track::LinkRate(link), begin, u64::try_from(rate).unwrap_or(u64::MAX));
            }
            Moment::Adapter { time, adapter, messages, bytes } => {
                self.counter(Track::Messages(adapter), time, messages);
                self.counter(Track::InFlight(adapter), time, bytes.0);
            }
        }
    }
}

/// Picoseconds of Perfetto's unit.
const PS: u64 = 1000;
const BEGIN: i32 = 1;
const END: i32 = 2;
const VALUE: i32 = 4;
/// `TracePacket.SequenceFlags`.
const CLEARS_STATE: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// The number of the fabric among processes, behind all nodes. Basis: assumed.
const FABRIC: u32 = 1 << 30;
