//! Ranks whose messages a library carries: over connections and over datagrams, one and several at an adapter.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, EngineError, Library, Run, library, timing};
use fabriscope_schedule::{After, Builder, OpKind, Schedule};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span, Time};
use proptest::prelude::*;

use fabriscope_verbs::Service;

use crate::{Loss, Scenario, Transfers};

fn ri2(nodes: u32) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let parsed = catalog.cluster("ri2").expect("it is there");
    Cluster::new(catalog.resolve(parsed, Some(nodes)).expect("its parts are there")).expect("it can be wired")
}

fn carried(cluster: &Cluster, service: Service, per_host: u32) -> Scenario {
    let transfers = Transfers { service, per_host, library: library(&cluster.parts), ..Transfers::default() };
    Scenario { transfers, ..Scenario::default() }
}

fn costs(engine: &Scenario) -> Library {
    engine.transfers.library.expect("the library has connections")
}

/// `messages` between random ranks, each of a random size up to `most`.
fn messages(ranks: u32, messages: u32, most: u64, seed: u64) -> Schedule {
    let mut stream = Streams::new(seed).stream("test messages", 0);
    let mut builder = Builder::new(ranks);
    for tag in 0..messages {
        let from = stream.below(u64::from(ranks)) as u32;
        let to = (from + 1 + stream.below(u64::from(ranks) - 1) as u32) % ranks;
        let bytes = Bytes(stream.below(most + 1));
        builder.send(from, to, bytes, tag);
        builder.recv(to, from, bytes, tag);
    }
    builder.build().expect("sound")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every message ends, whatever carries it and however many ranks share an adapter; nothing is lost, and runs repeat.
    #[test]
    fn every_message_arrives(seed in 0u64..1000, per_host in 1u32..5, count in 1u32..60, most in 0u64..60_000, datagrams: bool) {
        let cluster = ri2(4);
        let service = if datagrams { Service::Ud } else { Service::Rc };
        let engine = carried(&cluster, service, per_host);
        let schedule = messages(4 * per_host, count, most.min(if datagrams { most } else { 16_000 }), seed);
        let run = engine.run(&cluster, &schedule, seed).expect("it ends");
        prop_assert_eq!(run.stats.drops, 0);
        prop_assert!(run.ranks.iter().all(|end| *end <= run.end));
        prop_assert_eq!(&run, &engine.run(&cluster, &schedule, seed).expect("it ends"));
        let threads = Scenario { threads: 2, ..engine };
        prop_assert_eq!(run, threads.run(&cluster, &schedule, seed).expect("it ends"));
    }

    /// What is lost, data or acknowledgement, is sent again: all operations end, and not before the timeout.
    #[test]
    fn datagrams_recover_from_loss(seed in 0u64..1000, loss in 1u32..30) {
        let cluster = ri2(3);
        let plain = carried(&cluster, Service::Ud, 2);
        let schedule = messages(6, 30, 40_000, seed);
        let engine = Scenario { loss: Loss::Random(loss * (u32::MAX / 1000)), ..plain.clone() };
        let run = engine.run(&cluster, &schedule, seed).expect("it ends");
        let whole = plain.run(&cluster, &schedule, seed).expect("it ends");
        let retry = costs(&engine).datagrams.expect("it has datagrams").window.retry;
        prop_assert!(run.stats.packets >= whole.stats.packets);
        if run.end > Time::ZERO + retry {
            prop_assert!(run.stats.drops > 0);
        }
    }
}

/// One core posts and copies: a stream of small messages takes what each costs it, and one latency at the end.
#[test]
fn a_core_bounds_the_messages_it_sends() {
    let cluster = ri2(2);
    let cpu = timing::cpu(&cluster.parts);
    // Fewer than the window of datagrams: the sender never waits for an acknowledgement.
    let count = 350;
    let mut builder = Builder::new(2);
    for tag in 0..count {
        builder.send(0, 1, Bytes(64), tag);
        builder.recv(1, 0, Bytes(64), tag);
    }
    let schedule = builder.build().expect("sound");
    for service in [Service::Rc, Service::Ud] {
        let engine = carried(&cluster, service, 1);
        let l = costs(&engine);
        let d = l.datagrams.expect("it has datagrams");
        let copied = |bytes: Bytes| cpu.copy(bytes, bytes);
        // At the sender: call, copy, work request, doorbell. At the receiver: a turn, a completion, a receive, the message, a copy.
        let post = l.wqe_build + cpu.mmio_busy;
        let poll = l.progress + l.poll_hit + cpu.dma_touch + cpu.post_recv + l.receive;
        let (send, receive) = match service {
            Service::Ud => {
                let bytes = Bytes(64) + l.header;
                (l.send + d.packet + copied(bytes) + post, poll + d.packet + copied(bytes))
            }
            _ => (l.send + copied(Bytes(64)) + post, poll + copied(Bytes(64))),
        };
        let each = send.max(receive);
        let run = engine.run(&cluster, &schedule, 1).expect("it ends");
        let (took, least) = ((run.end - Time::ZERO).as_ps(), each.as_ps() * u64::from(count));
        // A latency of some microseconds, and for datagrams the acknowledgements.
        assert!(took >= least && took < least + least / 25 + 4_000_000, "{service:?}: {took} ps, least {least} ps");
    }
}

/// A message alone over datagrams takes longer than over a connection, by its own work at both cores at least.
#[test]
fn one_message_pays_for_reliability_in_software() {
    let cluster = ri2(2);
    let one = |service, bytes: u64| {
        let mut builder = Builder::new(2);
        builder.send(0, 1, Bytes(bytes), 0);
        builder.recv(1, 0, Bytes(bytes), 0);
        let engine = carried(&cluster, service, 1);
        (engine.run(&cluster, &builder.build().expect("sound"), 1).expect("it ends"), costs(&engine))
    };
    // Longer ones are copied and sent piece by piece, which hides some of it.
    for bytes in [0, 8, 100, 1000] {
        let (connected, l) = one(Service::Rc, bytes);
        let (datagram, _) = one(Service::Ud, bytes);
        let d = l.datagrams.expect("it has datagrams");
        let packets = (bytes + l.header.0).div_ceil(d.payload.0);
        assert_eq!((packets, datagram.stats.packets), (1, 1), "no acknowledgement is sent by itself for a few packets");
        assert!(datagram.end - connected.end >= d.packet * 2, "{bytes} bytes");
    }
}

/// A receiver with fewer receives than arrive at once loses packets in its NIC; the library gets them there in the end.
#[test]
fn packets_without_a_receive_are_sent_again() {
    let cluster = ri2(9);
    let mut builder = Builder::new(9);
    for from in 1..9 {
        builder.send(from, 0, Bytes(40_000), 0);
        builder.recv(0, from, Bytes(40_000), 0);
    }
    let schedule = builder.build().expect("sound");
    let mut engine = carried(&cluster, Service::Ud, 1);
    let calm = engine.run(&cluster, &schedule, 1).expect("it ends");
    let mut short = costs(&engine);
    let mut d = short.datagrams.expect("it has datagrams");
    d.queues.receives = 4;
    short.datagrams = Some(d);
    engine.transfers.library = Some(short);
    let run = engine.run(&cluster, &schedule, 1).expect("it ends");
    assert!(calm.end < Time::ZERO + d.window.retry && run.end > Time::ZERO + d.window.retry, "{} and {}", calm.end, run.end);
    assert!(run.stats.packets > calm.stats.packets);
}

/// Ranks at one adapter talk through memory; others over the network.
#[test]
fn ranks_at_one_adapter_send_no_packets_to_each_other() {
    let cluster = ri2(2);
    for service in [Service::Rc, Service::Ud] {
        let run = |to: u32| {
            let mut builder = Builder::new(8);
            builder.send(0, to, Bytes(100), 0);
            builder.recv(to, 0, Bytes(100), 0);
            carried(&cluster, service, 4).run(&cluster, &builder.build().expect("sound"), 1).expect("it ends")
        };
        let (near, far) = (run(3), run(4));
        assert!(near.stats.packets == 0 && far.stats.packets > 0 && near.end < far.end);
    }
}

/// Ranks talk to all others: as many queue pairs as the closed forms say, and misses where they do not fit.
fn pairs(nodes: u32, per_host: u32, service: Service) -> (Run, u32) {
    let mut cluster = ri2(nodes);
    cluster.parts.sole_mut().node.nic.contexts.as_mut().expect("it has contexts").cached.value = per_host;
    let ranks = nodes * per_host;
    let mut builder = Builder::new(ranks);
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            builder.send(from, to, Bytes(8), 0);
            builder.recv(to, from, Bytes(8), 0);
        }
    }
    let schedule = builder.build().expect("sound");
    let engine = carried(&cluster, service, per_host);
    let mut worlds = vec![crate::setup::world(&engine, &cluster, 1).expect("sound")];
    let _ = crate::transfer::Transferring::new(&mut worlds, &schedule, engine.transfers, false).expect("sound");
    let counts: Vec<u32> = worlds[0].hosts.iter_mut().map(|host| host.nic().queue_pairs()).collect();
    assert!(counts.iter().all(|count| *count == counts[0]));
    (engine.run(&cluster, &schedule, 1).expect("it ends"), counts[0])
}

#[test]
fn contexts_follow_the_closed_forms() {
    for (nodes, per_host) in [(2, 3), (4, 5), (3, 1)] {
        // M² (N − 1) connections at each adapter; M datagram queue pairs.
        let (connected, count) = pairs(nodes, per_host, Service::Rc);
        assert_eq!(count, per_host * per_host * (nodes - 1));
        assert_eq!((connected.stats.context_misses > 0, connected.stats.queue_pairs), (count > per_host, u64::from(count)));
        let (datagrams, count) = pairs(nodes, per_host, Service::Ud);
        assert_eq!((count, datagrams.stats.context_misses), (per_host, 0));
    }
}

#[test]
fn what_a_library_cannot_carry_is_refused() {
    let cluster = ri2(2);
    let mut builder = Builder::new(2);
    builder.put(0, 1, Bytes(8));
    let put = builder.build().expect("sound");
    let refused = |engine: Scenario, schedule: &Schedule| match engine.run(&cluster, schedule, 1) {
        Err(EngineError::Unsupported(refused)) => refused.what,
        other => panic!("{other:?}"),
    };
    assert!(refused(carried(&cluster, Service::Ud, 1), &put).contains("one-sided"));
    let mut builder = Builder::new(3);
    let sent = builder.send(0, 2, Bytes(8), 0);
    builder.op_after(0, OpKind::Compute { span: Span::from_ns(1) }, &[After::End(sent)]);
    builder.recv(2, 0, Bytes(8), 0);
    let schedule = builder.build().expect("sound");
    let bare = |transfers| Scenario { transfers, ..Scenario::default() };
    assert!(refused(bare(Transfers { service: Service::Ud, ..Transfers::default() }), &schedule).contains("without a library"));
    assert!(refused(bare(Transfers { per_host: 2, ..Transfers::default() }), &schedule).contains("several ranks"));
    match carried(&cluster, Service::Ud, 1).run(&cluster, &schedule, 1) {
        Err(EngineError::TooManyRanks { ranks: 3, adapters: 2 }) => {}
        other => panic!("{other:?}"),
    }
}
