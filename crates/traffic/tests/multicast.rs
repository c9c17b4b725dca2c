//! Messages to groups on simulated clusters: whole, in parts, lost, and against a datagram to each.
#![allow(missing_docs)]

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Engine, Job, Loss, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_traffic::multicast::{Config, Sample, prepare};
use fabriscope_units::{Bytes, Span};

const GROUP: [u8; 16] = [0xFF, 0x12, 0xA0, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn config() -> Config {
    Config {
        group: Some(GROUP),
        receivers: 15,
        size: Bytes(1024),
        mtu: Bytes(4096),
        messages: 10,
        interval: Span::from_us(100),
        level: 0,
        pkey: None,
        rate: None,
        settle: Span::from_us(20_000),
    }
}

fn run(config: Config, loss: Loss) -> (Sample, Run) {
    let cluster = Cluster::new(Catalog::embedded().unwrap().target("lab-16").unwrap()).unwrap();
    let (mains, finish) = prepare(config);
    let nodes = (0..=config.receivers).collect();
    let run = PacketEngine.run(&cluster, Job::programs(nodes, mains), &RunOptions { loss, ..RunOptions::default() }, 1).unwrap();
    (finish(), run)
}

#[test]
fn everybody_has_every_message_at_the_same_time_whatever_their_number() {
    let last = |receivers: u32| {
        let (sample, run) = run(Config { receivers, ..config() }, Loss::None);
        assert_eq!((sample.complete(), sample.lost()), (u64::from(receivers) * 10, 0));
        assert_eq!((run.stats.messages, run.stats.copies), (u64::from(receivers) * 10, u64::from(receivers) * 10));
        let spans = sample.broadcasts();
        assert!(spans.windows(2).all(|pair| pair[0] == pair[1]), "an idle network: all messages take the same time");
        assert!((0..receivers as usize).all(|receiver| sample.latencies(receiver).eq(spans.iter().copied())), "one switch: all alike");
        spans[0]
    };
    assert_eq!(last(1), last(15));
}

/// With a datagram to each, the sender's core posts one after the other: the last receiver waits for 14 posts more.
#[test]
fn a_datagram_to_each_takes_longer_with_every_receiver() {
    let last = |receivers: u32| run(Config { group: None, receivers, ..config() }, Loss::None).0.broadcasts()[0];
    let (two, eight, fourteen) = (last(2), last(8), last(14));
    assert!(two < eight && eight < fourteen);
    let (first, second) = ((eight - two).as_ps(), (fourteen - eight).as_ps());
    assert!(first.abs_diff(second) * 20 < first, "six more cost the same: {first} and {second} ps");
    assert!(run(config(), Loss::None).0.broadcasts()[0] < two);
}

#[test]
fn long_messages_go_in_parts() {
    // 10,000 B: 4096, 4096 and 1808.
    let long = Config { size: Bytes(10_000), ..config() };
    let (sample, run) = run(long, Loss::None);
    assert_eq!((sample.complete(), sample.lost()), (150, 0));
    assert_eq!((run.stats.packets, run.stats.copies), (30, 30 * 15));
    assert_eq!(run.stats.bytes_delivered, 15 * 10 * (10_000 + 3 * 40), "each part behind a header");
    assert!(sample.received.iter().all(|received| received.repeated == 0 && received.late == 0));
}

#[test]
fn what_is_lost_is_counted_and_nothing_else_is_missing() {
    let long = Config { size: Bytes(10_000), messages: 200, interval: Span::from_us(20), ..config() };
    let (sample, run) = run(long, Loss::Random(u32::MAX / 200));
    // Every part that did not come to some receiver was lost on the sender's link for all 15, or on the receiver's link.
    assert!(sample.lost() > 0 && run.stats.drops > 0);
    let parts = 200 * 3 * 15;
    assert_eq!(run.stats.messages + sample.lost(), parts);
    let incomplete = sample.received.iter().map(|received| received.complete.iter().filter(|at| at.is_none()).count() as u64).sum::<u64>();
    assert!(incomplete <= sample.lost() && sample.complete() + incomplete == 200 * 15);
}

#[test]
fn messages_before_the_tables_are_written_are_missed() {
    // 16 requests of 100 us each, one table to be written for each: at once after the last answer the last is not there.
    let hasty = Config { settle: Span::ZERO, interval: Span::from_us(5), messages: 40, ..config() };
    let (sample, run) = run(hasty, Loss::None);
    assert!(sample.join >= Span::from_us(1500));
    assert!(sample.lost() > 0 && run.stats.drops == 0);
    let last = &sample.received[14].complete;
    assert!(last[0].is_none() && last[39].is_some(), "it hears of the group in time for the last message");
}
