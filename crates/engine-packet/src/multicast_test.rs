//! Groups on the engine: who gets what and when, credits, loss, joining and leaving.

use fabriscope_catalog::Sourced;
use fabriscope_engine::{Cluster, Run};
use fabriscope_node::{Main, Process, Record};
use fabriscope_switch::Channel;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{
    Access, AhAttr, Change, CqId, JoinState, Lid, Membership, QpAttr, QpInit, QpNum, QpType, RecvWr, SendWr, Sge, UdDestination, WcStatus,
};
use proptest::prelude::*;

use crate::programs::Programs;
use crate::tests::{Idle, cluster};
use crate::{Loss, Scenario, setup};

const QKEY: u32 = 7;
const MGID: [u8; 16] = [0xFF, 0x12, 0xA0, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3];

/// What a rank does.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Joins in this state, if at all, and listens.
    joins: Option<JoinState>,
    /// Sends so many messages, at 20 ms and later.
    sends: u32,
    /// Leaves at this time (us).
    leaves: Option<u64>,
    size: u32,
}

/// A completion: when, the number in the message, its bytes.
type Log = Record<Vec<(u64, u32, u32)>>;

async fn answer(process: &Process, cq: CqId, change: Change, mgid: [u8; 16]) -> Option<u16> {
    process.nic(0, |nic| nic.post_membership(Membership { mgid, change, cq, wr_id: 1 }));
    let wc = process.wait_cq(0, cq, 1).await[0];
    (wc.status == WcStatus::Success).then(|| wc.imm.expect("an answer names the group") as u16)
}

fn program(part: Part, mgid: [u8; 16], log: Log) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            let (control, cq, pd, mr) = process.nic(0, |nic| {
                let pd = nic.alloc_pd();
                let mr = nic.reg_mr(pd, 0, Bytes(1 << 20), Access::ALL).expect("an MR");
                (nic.create_cq(16).expect("a CQ"), nic.create_cq(4096).expect("a CQ"), pd, mr)
            });
            let mut init = QpInit::new(pd, QpType::Ud, cq);
            (init.cap.max_recv_wr, init.cap.max_send_wr) = (1024, 1024);
            let qp = process.nic(0, |nic| {
                let qp = nic.create_qp(&init).expect("a QP");
                for step in [QpAttr::init_ud(QKEY), QpAttr::rtr_ud(), QpAttr::rts(0)] {
                    nic.modify_qp(qp, &step).expect("the next state");
                }
                qp
            });
            let buffer = Sge { addr: 0, length: 8192, lkey: mr.lkey };
            let mut group = None;
            if let Some(state) = part.joins {
                (0..512).for_each(|at| process.post_recv(0, qp, &RecvWr::new(at, buffer)).expect("room"));
                group = answer(&process, control, Change::Join { state, qkey: QKEY }, mgid).await.map(Lid::multicast);
                if let Some(group) = group.filter(|_| matches!(state, JoinState::Full | JoinState::NonMember)) {
                    process.nic(0, |nic| nic.attach_mcast(qp, group)).expect("attached");
                }
            }
            if let Some(at) = part.leaves {
                process.sleep_until(Time::ZERO + Span::from_us(at)).await;
                answer(&process, control, Change::Leave, mgid).await;
            }
            process.sleep_until(Time::ZERO + Span::from_us(20_000)).await;
            let dlid = group.unwrap_or(Lid::multicast(0xC000));
            let ah = process.nic(0, |nic| nic.create_ah(pd, AhAttr { dlid, sl: 0 })).expect("an address");
            for number in 0..part.sends {
                let sge = Sge { addr: 0, length: part.size, lkey: mr.lkey };
                let to = UdDestination { ah, remote_qpn: QpNum::MULTICAST, remote_qkey: QKEY };
                process.post_send(0, qp, &SendWr::send(0, sge).with_imm(process.rank() << 16 | number).to(to)).expect("room");
            }
            process.sleep_until(Time::ZERO + Span::from_us(25_000)).await;
            while process.wait_any_until(&[(0, cq)], &[], Time::ZERO + Span::from_us(30_000)).await {
                for wc in process.poll_cq(0, cq, 64).await {
                    log.lock().push((process.now().as_ps(), wc.imm.expect("a number"), wc.byte_len));
                }
            }
            Ok(())
        })
    })
}

/// What each rank got, in order of arrival, and the run; credits must be back at its end.
fn run(engine: &Scenario, cluster: &Cluster, mgid: [u8; 16], parts: &[Part]) -> (Vec<Vec<(u32, u32)>>, Run) {
    let logs: Vec<Log> = parts.iter().map(|_| Record::default()).collect();
    let mains = parts.iter().zip(&logs).map(|(part, log)| program(*part, mgid, log.clone())).collect();
    let mut world = setup::world(engine, cluster, 1).expect("a world");
    let before: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    let mut programs = Programs::new(&world, cluster, &(0..parts.len() as u32).collect::<Vec<_>>(), mains).expect("programs");
    programs.begin(&mut world);
    world.run(&mut programs).expect("it ends");
    programs.check(&world).expect("all programs end");
    world.run(&mut Idle).expect("the rest");
    let after: Vec<i64> = world.links.lanes.iter().map(Channel::settled).collect();
    assert_eq!(before, after, "credits are conserved");
    assert!(world.ext_headers.is_empty(), "no packet is forgotten");
    let got = logs.iter().map(|log| log.lock().iter().map(|(_, number, bytes)| (*number, *bytes)).collect()).collect();
    (got, world.into_run())
}

fn listener() -> Part {
    Part { joins: Some(JoinState::Full), ..Part::default() }
}

const TREE: &str = "[topology.fat_tree]\nlevels = 3\nradix = 4";

#[test]
fn every_member_gets_every_message_once() {
    for (topology, layer) in [("[topology.single_switch]", "infiniband"), (TREE, "infiniband"), (TREE, "roce_v2")] {
        let cluster = cluster(topology, 16, layer, "d_mod_k");
        let mgid = if layer == "infiniband" { MGID } else { IPV4 };
        let mut parts = vec![Part::default(); 16];
        [0, 1, 2, 5, 9, 14, 15].iter().for_each(|rank| parts[*rank] = listener());
        (parts[0].sends, parts[0].size) = (100, 1024);
        let (got, run) = run(&Scenario::default(), &cluster, mgid, &parts);
        let all: Vec<(u32, u32)> = (0..100).map(|number| (number, 1024 + 40)).collect();
        for (rank, got) in got.iter().enumerate() {
            // The sender is a member too: what it sends comes back inside its adapter.
            let expected = if parts[rank].joins.is_some() { &all[..] } else { &[] };
            assert_eq!(got, expected, "{topology} {layer}: rank {rank}");
        }
        assert_eq!(run.stats.drops, 0);
        assert!(layer == "roce_v2" || run.stats.unwanted == 0, "{}", run.stats.unwanted);
    }
}

#[test]
fn without_snooping_packets_go_everywhere_and_adapters_drop_them() {
    let mut cluster = cluster(TREE, 16, "roce_v2", "d_mod_k");
    let mut parts = vec![Part::default(); 16];
    (parts[0], parts[9]) = (listener(), listener());
    (parts[0].sends, parts[0].size) = (10, 512);
    let snooped = run(&Scenario::default(), &cluster, IPV4, &parts);
    cluster.parts.multicast.snooping = false;
    let flooded = run(&Scenario::default(), &cluster, IPV4, &parts);
    assert_eq!(snooped.0, flooded.0);
    assert_eq!(flooded.1.stats.unwanted, 10 * 14, "14 adapters get what they did not ask for");
    assert!(snooped.1.stats.unwanted <= 10, "at most the querier has nobody behind it: {}", snooped.1.stats.unwanted);
}

/// A copy at depth d is there d times (switch and cable) later, however many others there are.
#[test]
fn latency_grows_with_the_depth_of_the_tree_alone() {
    let cluster = cluster(TREE, 16, "infiniband", "d_mod_k");
    let arrival = |members: &[usize]| {
        let logs: Vec<Log> = (0..16).map(|_| Record::default()).collect();
        let mut parts = vec![Part::default(); 16];
        members.iter().for_each(|rank| parts[*rank] = listener());
        parts[0] = Part { joins: Some(JoinState::SendOnlyFull), sends: 1, size: 256, ..Part::default() };
        let mains = parts.iter().zip(&logs).map(|(part, log)| program(*part, MGID, log.clone())).collect();
        let engine = Scenario { taps: Vec::new(), ..Scenario::default() };
        let mut world = setup::world(&engine, &cluster, 1).expect("a world");
        let mut programs = Programs::new(&world, &cluster, &(0..16).collect::<Vec<_>>(), mains).expect("programs");
        programs.begin(&mut world);
        // The moment at which an adapter has the packet: its copy is the last event before the buffer is written.
        let mut arrivals = vec![None; 16];
        while let Some((time, event)) = world.queue.pop() {
            if let crate::event::EventKind::Copies { lane, .. } = event.unpack() {
                let end = world.links.ends[lane as usize];
                if end < 16 {
                    arrivals[end as usize] = Some(time.as_ps());
                }
            }
            world.step(&mut programs, time, event).expect("a step");
        }
        arrivals
    };
    let hop = {
        let switch = cluster.parts.switch.as_ref().expect("a switch");
        switch.latency.value.as_ps() + cluster.fabric.graph.links().last().expect("links").delay.as_ps()
    };
    // Two endpoints at a leaf, two leaves in a pod: 1 is at the leaf of 0, 2 and 3 in its pod, 4 and more elsewhere.
    let few = arrival(&[1, 2, 8]);
    let many = arrival(&(1..16).collect::<Vec<_>>());
    let at = |arrivals: &[Option<u64>], rank: usize| arrivals[rank].expect("it gets the packet");
    assert_eq!(at(&few, 2) - at(&few, 1), 2 * hop, "two switches more");
    assert_eq!(at(&few, 8) - at(&few, 1), 4 * hop, "four switches more");
    for rank in 1..16 {
        let alike = [1, 2, 8][usize::from(rank > 1) + usize::from(rank > 3)];
        assert_eq!(at(&many, rank), at(&few, alike), "rank {rank} among fifteen as rank {alike} among three");
    }
}

#[test]
fn one_copy_per_link_of_the_tree() {
    // 15 receivers at one switch: a packet goes up once and down fifteen times.
    let cluster = cluster("[topology.single_switch]", 16, "infiniband", "d_mod_k");
    let mut parts = vec![listener(); 16];
    parts[0] = Part { joins: Some(JoinState::SendOnlyFull), sends: 20, size: 64, ..Part::default() };
    let (_, run) = run(&Scenario::default(), &cluster, MGID, &parts);
    assert_eq!((run.stats.packets, run.stats.packet_hops, run.stats.copies), (20, 20 * 16, 20 * 15));
    // Each hop is an event of its own, and there is no other for packets.
    assert_eq!(run.stats.messages, 20 * 15);
}

#[test]
fn who_is_slow_to_make_copies_delays_the_later_ones() {
    let mut cluster = cluster("[topology.single_switch]", 16, "infiniband", "d_mod_k");
    let mut parts = vec![listener(); 16];
    parts[0] = Part { joins: Some(JoinState::SendOnlyFull), sends: 1, size: 64, ..Part::default() };
    let last = |cluster: &Cluster| {
        let logs: Vec<Log> = (0..16).map(|_| Record::default()).collect();
        let mains = parts.iter().zip(&logs).map(|(part, log)| program(*part, MGID, log.clone())).collect();
        let mut world = setup::world(&Scenario::default(), cluster, 1).expect("a world");
        let mut programs = Programs::new(&world, cluster, &(0..16).collect::<Vec<_>>(), mains).expect("programs");
        programs.begin(&mut world);
        let mut last = 0;
        while let Some((time, event)) = world.queue.pop() {
            if matches!(event.unpack(), crate::event::EventKind::Copies { .. }) {
                last = time.as_ps();
            }
            world.step(&mut programs, time, event).expect("a step");
        }
        last
    };
    let at_once = last(&cluster);
    let switch = cluster.parts.switch.as_mut().expect("a switch");
    switch.replication = Some(Sourced::assumed(Span::from_ns(10), "a slow crossbar"));
    assert_eq!(last(&cluster) - at_once, 14 * 10_000, "the fifteenth copy is made 14 times 10 ns after the first");
}

#[test]
fn members_that_leave_get_nothing_more_and_strangers_never_did() {
    let cluster = cluster(TREE, 16, "infiniband", "d_mod_k");
    let mut parts = vec![Part::default(); 16];
    (parts[0], parts[4], parts[9]) = (listener(), listener(), listener());
    parts[4].leaves = Some(10_000);
    (parts[0].sends, parts[0].size) = (5, 64);
    // Rank 15 never joined, and its switch has no entry for the group.
    (parts[15].sends, parts[15].size) = (7, 64);
    let (got, run) = run(&Scenario::default(), &cluster, MGID, &parts);
    assert_eq!([got[0].len(), got[4].len(), got[9].len()], [5, 0, 5]);
    assert_eq!(run.stats.unwanted, 7, "the first switch drops what comes from a stranger");
}

#[test]
fn a_group_needs_a_full_member() {
    let cluster = cluster("[topology.single_switch]", 4, "infiniband", "d_mod_k");
    let mut parts = vec![Part { joins: Some(JoinState::NonMember), ..Part::default() }; 4];
    (parts[0].sends, parts[0].size) = (3, 64);
    let (got, run) = run(&Scenario::default(), &cluster, MGID, &parts);
    assert!(got.iter().all(Vec::is_empty));
    assert_eq!(run.stats.unwanted, 3);
}

#[test]
fn datagrams_for_a_group_go_back_to_back_as_well() {
    let cluster = cluster("[topology.back_to_back]", 2, "infiniband", "d_mod_k");
    let mut parts = vec![listener(); 2];
    (parts[0].sends, parts[0].size) = (3, 64);
    let (got, _) = run(&Scenario::default(), &cluster, MGID, &parts);
    assert_eq!([got[0].len(), got[1].len()], [3, 3]);
}

#[test]
fn losses_hit_copies_one_by_one() {
    // A packet is lost on 1 of 50 links; what one receiver misses another one gets.
    let cluster = cluster(TREE, 16, "infiniband", "d_mod_k");
    let mut parts = vec![listener(); 16];
    parts[0] = Part { joins: Some(JoinState::SendOnlyFull), sends: 400, size: 256, ..Part::default() };
    let engine = Scenario { loss: Loss::Random(u32::MAX / 50), ..Scenario::default() };
    let (got, run) = run(&engine, &cluster, MGID, &parts);
    assert!(run.stats.drops > 100);
    for got in &got[1..] {
        // 2 to 6 links: 0.98^2 = 0.96 to 0.98^6 = 0.886 of 400.
        assert!((320..400).contains(&got.len()), "{}", got.len());
        assert!(got.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, none twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Several senders at full speed, members at random, both link layers: everybody gets everything once on lossless
    /// networks, and all credits return.
    #[test]
    fn nothing_is_lost_or_repeated(
        topology in prop::sample::select(vec!["[topology.single_switch]", TREE]),
        ethernet in any::<bool>(),
        members in prop::collection::vec(any::<bool>(), 16),
        senders in prop::collection::vec(0usize..16, 1..4),
        size in prop::sample::select(vec![1u32, 700, 1024]),
    ) {
        let cluster = cluster(topology, 16, if ethernet { "roce_v2" } else { "infiniband" }, "d_mod_k");
        let mut parts: Vec<Part> = members.iter().map(|member| if *member { listener() } else { Part::default() }).collect();
        for &sender in &senders {
            let joins = parts[sender].joins.or(Some(JoinState::SendOnlyFull));
            parts[sender] = Part { joins, sends: 60, size, ..Part::default() };
        }
        let (got, run) = run(&Scenario::default(), &cluster, if ethernet { IPV4 } else { MGID }, &parts);
        let mut from: Vec<usize> = senders.clone();
        from.sort_unstable();
        from.dedup();
        let all: Vec<u32> = from.iter().flat_map(|sender| (0..60).map(|number| (*sender as u32) << 16 | number)).collect();
        for (rank, got) in got.iter().enumerate() {
            let mut got: Vec<u32> = got.iter().map(|(number, _)| *number).collect();
            got.sort_unstable();
            let expected = if members[rank] { all.clone() } else { Vec::new() };
            prop_assert_eq!(got, expected, "rank {}", rank);
        }
        prop_assert_eq!(run.stats.drops, 0);
    }
}
