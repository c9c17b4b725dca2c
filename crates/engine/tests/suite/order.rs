//! Dependencies between operations, and what is counted: any schedule can be worked off, no operation before its turn.

use std::collections::BTreeSet;

use fabriscope_engine::{Counter, CounterPlace, Counters, HOST_MEMORY, MessageTrace, Order, Stage, StageSpan, Stats};
use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_units::{Span, Time};
use proptest::prelude::*;

/// Computations of some ranks; each may wait for the start or the end of earlier ones of its rank.
fn schedules() -> impl Strategy<Value = Schedule> {
    let op = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4);
    prop::collection::vec(prop::collection::vec(op, 0..12), 1..4).prop_map(|ranks| {
        let mut builder = Builder::new(ranks.len() as u32);
        for (rank, ops) in ranks.iter().enumerate() {
            for (number, waits) in ops.iter().enumerate() {
                let earlier = |index: &prop::sample::Index| OpId(index.index(number) as u32);
                let waits = waits.iter().filter(|_| number > 0);
                let mut after: Vec<After> =
                    waits.map(|(index, start)| if *start { After::Start(earlier(index)) } else { After::End(earlier(index)) }).collect();
                after.sort_unstable();
                after.dedup();
                let _ = builder.op_after(rank as u32, OpKind::Compute { span: Span::from_ns(number as u64) }, &after);
            }
        }
        builder.build().unwrap()
    })
}

proptest! {
    /// However the operations in flight end: each is released once, after all that it waits for, and none is left.
    #[test]
    fn every_operation_gets_its_turn(schedule in schedules(), picks in prop::collection::vec(any::<prop::sample::Index>(), 200)) {
        let ranks = schedule.ranks();
        let mut order = Order::new(&schedule, 0..ranks);
        // What each operation waits for, by its number over all ranks.
        let bases: Vec<u32> = (0..ranks).map(|rank| order.ops(rank as usize).start).collect();
        let waits: Vec<Vec<(u32, bool)>> = (0..ranks)
            .flat_map(|rank| schedule.ops(rank).map(move |op| (rank, op.after.to_vec())))
            .map(|(rank, after)| after.iter().map(|one| (bases[rank as usize] + one.op().0, matches!(one, After::Start(_)))).collect())
            .collect();
        let mut ready: Vec<u32> = (0..order.len() as u32).filter(|op| order.is_ready(*op)).collect();
        let (mut started, mut ended, mut in_flight) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for pick in picks {
            let choices = ready.len() + in_flight.len();
            if choices == 0 {
                break;
            }
            let chosen = pick.index(choices);
            if chosen < ready.len() {
                let op = ready.swap_remove(chosen);
                for (earlier, start) in &waits[op as usize] {
                    prop_assert!(if *start { started.contains(earlier) } else { ended.contains(earlier) }, "{} began too early", op);
                }
                prop_assert!(started.insert(op), "{} began twice", op);
                in_flight.push(op);
                order.started(op, &mut ready);
            } else {
                let op = in_flight.swap_remove(chosen - ready.len());
                ended.insert(op);
                order.ended(op, &mut ready);
            }
        }
        prop_assert_eq!(ended.len(), order.len(), "all of them end");
    }

    /// Operations keep their numbers where only some ranks are taken.
    #[test]
    fn some_ranks_are_as_in_the_whole(schedule in schedules()) {
        for rank in 0..schedule.ranks() {
            let order = Order::new(&schedule, rank..rank + 1);
            prop_assert_eq!(order.len(), schedule.ops(rank).len());
            prop_assert_eq!(order.is_empty(), schedule.ops(rank).len() == 0);
            for op in schedule.ops(rank) {
                prop_assert_eq!(order.kind(op.id.0), op.kind);
                prop_assert_eq!(order.is_ready(op.id.0), op.after.is_empty());
            }
        }
    }

    /// What parts of a run count apart is what one part would have counted: the order does not matter.
    #[test]
    fn counts_of_parts_add_up(counts in prop::collection::vec((0u32..3, 0u64..40, 1u64..100), 1..60), cut in any::<prop::sample::Index>()) {
        let every = Some(Span::from_ns(10));
        let count = |counts: &[(u32, u64, u64)]| {
            let mut counters = Counters::new(every);
            for (port, ns, amount) in counts {
                let bin = counters.bin(Time::ZERO + Span::from_ns(*ns));
                counters.add(CounterPlace::Port(*port), Counter::XmitBytes, bin, *amount);
            }
            counters
        };
        let (left, right) = counts.split_at(cut.index(counts.len()));
        let (mut one, mut other) = (count(left), count(right));
        one.absorb(count(right));
        other.absorb(count(left));
        prop_assert_eq!(&one, &count(&counts));
        prop_assert_eq!(&one, &other);
        // Nothing is lost in bins: the last sum of each series is its total, and the totals are the sum.
        let bins = one.bins();
        prop_assert!((1..=4).contains(&bins));
        for series in one.series() {
            let sums: Vec<u64> = series.cumulative(bins).collect();
            prop_assert!(sums.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert_eq!(sums.last().copied(), Some(one.total(series.place, series.counter)));
        }
        prop_assert_eq!(one.sum(Counter::XmitBytes), counts.iter().map(|count| count.2).sum::<u64>());
        prop_assert_eq!(one.sum(Counter::RcvBytes), 0);
    }
}

#[test]
fn starts_and_ends_release_different_ones() {
    // o1 waits for the start of o0, o2 for its end, o3 for the end of both.
    let mut builder = Builder::new(1);
    let compute = |builder: &mut Builder, after: &[After]| builder.op_after(0, OpKind::Compute { span: Span::ZERO }, after);
    let first = compute(&mut builder, &[]);
    let second = compute(&mut builder, &[After::Start(first)]);
    let third = compute(&mut builder, &[After::End(first)]);
    let _ = compute(&mut builder, &[After::End(second), After::End(third)]);
    let mut order = Order::new(&builder.build().unwrap(), 0..1);
    let release = |order: &mut Order, op: u32, end: bool| {
        let mut ready = Vec::new();
        if end {
            order.ended(op, &mut ready)
        } else {
            order.started(op, &mut ready)
        }
        ready
    };
    assert_eq!((order.is_ready(0), order.is_ready(1), order.has_followers(0), order.has_followers(3)), (true, false, true, false));
    assert_eq!(release(&mut order, 0, false), [1]);
    assert_eq!(release(&mut order, 0, true), [2]);
    assert!(release(&mut order, 1, true).is_empty());
    assert_eq!(release(&mut order, 2, true), [3]);
}

#[test]
fn without_an_interval_there_is_one_bin() {
    for every in [None, Some(Span::ZERO)] {
        let mut counters = Counters::new(every);
        let (early, late) = (counters.bin(Time::ZERO), counters.bin(Time::from_ps(u64::MAX)));
        assert_eq!((early, late, counters.every), (0, 0, None));
        counters.add(CounterPlace::Adapter(0), Counter::CnpSent, late, 3);
        assert_eq!(counters.bins(), 1);
    }
}

#[test]
fn the_far_port_of_a_cable_is_that_of_the_way_back() {
    for link in [0, 1, 6, 7] {
        let CounterPlace::Port(back) = CounterPlace::far(link) else { panic!("not a port") };
        assert_ne!(back, link);
        assert_eq!(CounterPlace::far(back), CounterPlace::Port(link));
    }
}

#[test]
fn parts_of_a_run_join_by_sum_but_for_maxima() {
    // Depths of queues and numbers of queue pairs are maxima over parts; everything else adds up.
    let one = Stats { messages: 2, packets: 10, deepest_queue: 700, queue_pairs: 4, bytes_sent: 100, events: 5, ..Stats::default() };
    let other = Stats { messages: 3, packets: 1, deepest_queue: 300, queue_pairs: 9, bytes_sent: 11, drops: 1, ..Stats::default() };
    let (mut left, mut right) = (one, other);
    left.add(&other);
    right.add(&one);
    assert_eq!(left, right);
    let whole =
        Stats { messages: 5, packets: 11, deepest_queue: 700, queue_pairs: 9, bytes_sent: 111, drops: 1, events: 5, ..Stats::default() };
    assert_eq!(left, whole);
}

#[test]
fn stages_name_the_memory_that_is_not_beside_the_adapter() {
    let stage = |stage, place: &str, ns| StageSpan { stage, span: Span::from_ns(ns), place: place.to_owned() };
    let table = [
        (Stage::PayloadFetch, HOST_MEMORY, "payload fetch"),
        (Stage::PayloadFetch, "gpu 3", "payload fetch, gpu 3"),
        (Stage::PayloadWrite, "gpu 0", "payload write, gpu 0"),
        (Stage::Atomic, "gpu 1", "atomic, gpu 1"),
        // A switch is no memory.
        (Stage::Switch, "leaf 0", "switch"),
    ];
    for (kind, place, label) in table {
        assert_eq!(stage(kind, place, 1).label(), label);
    }
    // 40 + 170 + 690 = 900 ns from 100 ns to 1,000 ns.
    let stages = vec![stage(Stage::Post, "core", 40), stage(Stage::Doorbell, "pcie", 170), stage(Stage::Serialisation, "link", 690)];
    let trace = MessageTrace { node: 0, bytes: 8, posted_ps: 100_000, done_ps: 1_000_000, stages };
    assert_eq!((trace.total(), trace.latency()), (Span::from_ns(900), Span::from_ns(900)));
}
