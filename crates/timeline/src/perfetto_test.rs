//! What is heard of a run, written and decoded again.

use std::collections::BTreeMap;

use fabriscope_engine::{Followed, MessageTrace, Moment, Recorder, Stage, StageSpan};
use fabriscope_units::{Bytes, Span, Time};
use prost::Message;

use crate::PerfettoWriter;
use crate::places::Places;
use crate::proto::{Trace, TrackDescriptor};

fn written(moments: Vec<Moment>) -> Trace {
    let places = Places {
        cluster: "two".to_owned(),
        nodes: vec!["gpu01".to_owned(), "gpu02".to_owned()],
        adapters: vec![(0, "mlx5_0".to_owned()), (1, "mlx5_0".to_owned())],
        links: vec!["gpu01 mlx5_0:1".to_owned()],
    };
    let mut bytes = Vec::new();
    let mut writer = PerfettoWriter::new(&mut bytes, places, Span::from_us(1));
    moments.into_iter().for_each(|moment| writer.record(moment));
    writer.finish().unwrap();
    drop(writer);
    Trace::decode(bytes.as_slice()).unwrap()
}

/// A message whose stages last so many picoseconds.
fn message(posted_ps: u64, stages: &[(Stage, u64)]) -> Moment {
    let stages: Vec<StageSpan> =
        stages.iter().map(|(stage, ps)| StageSpan { stage: *stage, span: Span::from_ps(*ps), place: "here".to_owned() }).collect();
    let done_ps = posted_ps + stages.iter().map(|part| part.span.as_ps()).sum::<u64>();
    let trace = MessageTrace { node: 0, bytes: 4096, posted_ps, done_ps, stages };
    Moment::Message(Followed { trace, qp: 17, to: Some(1), rank: Some(0) })
}

/// When a slice began, its track, and its values.
type Begun = (u64, u64, Vec<(String, u64)>);

fn tracks(trace: &Trace) -> BTreeMap<u64, &TrackDescriptor> {
    trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()).map(|track| (track.uuid(), track)).collect()
}

/// Fractions of a nanosecond: begins and ends are cut off, the exact values stand beside them, and slices of a track follow each other.
#[test]
fn stages_are_contiguous_and_exact() {
    let trace =
        written(vec![message(1_300, &[(Stage::Post, 700), (Stage::Propagation, 1_250), (Stage::PayloadWrite, 333), (Stage::Poll, 1)])]);
    let tracks = tracks(&trace);
    let mut strings = BTreeMap::new();
    let (mut open, mut slices): (Vec<Begun>, Vec<_>) = (Vec::new(), Vec::new());
    for packet in &trace.packet {
        for name in packet.interned_data.iter().flat_map(|data| &data.debug_annotation_names) {
            strings.insert(name.iid(), name.name().to_owned());
        }
        let Some(event) = &packet.track_event else { continue };
        match event.r#type() {
            1 => {
                let values = event.debug_annotations.iter().filter(|value| value.uint_value.is_some());
                let values = values.map(|value| (strings[&value.name_iid()].clone(), value.uint_value())).collect();
                open.push((packet.timestamp(), event.track_uuid(), values));
            }
            _ => slices.extend(open.pop().map(|(from, track, values)| (from, packet.timestamp(), track, values))),
        }
    }
    assert!(open.is_empty());
    let named = |track: u64| tracks[&track].name();
    let of = |values: &[(String, u64)], name: &str| values.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let sent: Vec<_> = slices.iter().filter(|(_, _, track, _)| named(*track) == "QP 17 to gpu02").collect();
    // 1.3, 2.0, 3.25, 3.583 and 3.584 ns.
    assert_eq!(sent.iter().map(|slice| (slice.0, slice.1)).collect::<Vec<_>>(), [(1, 2), (2, 3), (3, 3), (3, 3), (1, 3)]);
    let latency = of(&sent[4].3, "latency_ps").unwrap();
    assert_eq!((latency, sent[..4].iter().map(|slice| of(&slice.3, "ps").unwrap()).sum::<u64>()), (2_284, 2_284));
    // The stages behind the cable are an arrival at the other end.
    let arrived: Vec<_> = slices.iter().filter(|(_, _, track, _)| named(*track) == "arrivals").collect();
    assert_eq!(arrived.len(), 3);
    let above = |track: u64| tracks[&tracks[&track].parent_uuid()];
    assert_eq!(above(above(arrived[0].2).uuid()).process.as_ref().unwrap().process_name(), "gpu02");
    let flows: Vec<u64> =
        trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()).flat_map(|event| event.flow_ids.clone()).collect();
    let ends = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref()).flat_map(|event| event.terminating_flow_ids.clone());
    assert_eq!((flows.clone(), ends.collect::<Vec<_>>()), (vec![1], flows));
}

/// Two messages of a queue pair at the same time are drawn side by side.
#[test]
fn messages_that_overlap_have_lanes() {
    let trace = written(vec![
        message(0, &[(Stage::Post, 9_000)]),
        message(5_000, &[(Stage::Post, 9_000)]),
        message(9_000, &[(Stage::Post, 1_000)]),
    ]);
    let names: Vec<&str> = tracks(&trace).values().map(|track| track.name()).filter(|name| name.starts_with("QP")).collect();
    assert_eq!(names, ["QP 17 to gpu02", "QP 17 to gpu02, lane 2"]);
}

/// 2500 B in a microsecond are 20 Gb/s, of the time before the sample.
#[test]
fn rates_hold_from_the_begin_of_their_step() {
    let time = Time::ZERO + Span::from_us(3);
    let trace = written(vec![Moment::Link { time, link: 0, queue: Bytes(96), sent: Bytes(2500) }]);
    let tracks = tracks(&trace);
    let values = trace.packet.iter().filter_map(|packet| Some((packet.timestamp(), packet.track_event.as_ref()?)));
    let values: Vec<_> = values.map(|(time, event)| (tracks[&event.track_uuid()].name(), time, event.counter_value())).collect();
    assert_eq!(values, [("gpu01 mlx5_0:1 queue", 3_000, 96), ("gpu01 mlx5_0:1 rate", 2_000, 20_000_000_000)]);
}

/// A disk that is full: the run goes on, and the end says so.
#[test]
fn what_cannot_be_written_is_told_at_the_end() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = PerfettoWriter::new(Full, Places::default(), Span::from_us(1));
    writer.record(message(0, &[(Stage::Post, 1)]));
    writer.record(message(0, &[(Stage::Post, 1)]));
    assert_eq!(writer.finish().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}
