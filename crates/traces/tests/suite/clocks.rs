//! Clocks of ranks: offsets that were put in are found again, and what compares ranks uses them.

use fabriscope_traces::{
    After, Collective, Evidence, Format, Gaps, Group, GroupId, Groups, Kind, LowerOptions, Message, Operation, Part, RankTrace, Reading,
    Record, RecordId, Trace, Unlowered, lower, read_parts,
};
use fabriscope_units::{Bytes, Span, Time};

/// A record from one time to another, in ns of the clock that counts.
fn record(id: u64, kind: Kind, (start, end): (u64, u64)) -> Record {
    let mut record = Record::new(id, "x", kind).lasting(Span::from_ns(end - start));
    record.start = Some(Time::ZERO.saturating_add(Span::from_ns(start)));
    record
}

fn collective(operation: Operation, group: u32) -> Kind {
    Kind::Collective(Collective { operation, bytes: Some(Bytes(8)), element: None, group: Some(GroupId(group)), root: None })
}

/// The records of ranks, whose clocks are ahead by so many ns.
fn trace(groups: &[&[u32]], ranks: Vec<(i64, Vec<Record>)>) -> Trace {
    let mut known = Groups::default();
    groups.iter().enumerate().for_each(|(number, members)| {
        known.add(Group::of(format!("g{number}"), members.to_vec()));
    });
    let ranks = ranks.into_iter().zip(0..).map(|((ahead, mut records), rank)| {
        for record in &mut records {
            let start = record.start.unwrap().as_ps() as i64 + ahead * 1000;
            record.start = Some(Time::from_ps(u64::try_from(start).expect("times begin late enough")));
        }
        RankTrace { rank, file: format!("{rank}"), records }
    });
    let ranks: Vec<RankTrace> = ranks.collect();
    Trace {
        name: "t".to_owned(),
        format: Format::Kineto,
        version: None,
        world: ranks.len() as u32,
        ranks,
        groups: known,
        every_rank: false,
        reading: Reading::default(),
    }
}

/// Rank, offset in ns, uncertainty in ns, and from how many operations or messages.
fn found(trace: &Trace) -> Vec<(u32, i64, u64, Evidence)> {
    let clocks = trace.clocks();
    clocks.iter().map(|clock| (clock.rank, (clock.ahead_ps / 1000) as i64, clock.within.as_ps() / 1000, clock.by)).collect()
}

const LATE: u64 = 10_000_000;

#[test]
fn offsets_are_found_exactly_by_operations_that_end_together() {
    let ahead = [0, 1_270_000, -3_000_000, 2_000];
    let of = |rank: u64| -> Vec<Record> {
        (0..5).map(|n| record(n, collective(Operation::AllReduce, 0), (LATE + n * 1000 + rank * 100, LATE + n * 1000 + 700))).collect()
    };
    let told = trace(&[&[0, 1, 2, 3]], ahead.iter().zip(0..).map(|(ahead, rank)| (*ahead, of(rank))).collect());
    let five = Evidence::Collectives(5);
    assert_eq!(found(&told), [(1, 1_270_000, 0, five), (2, -3_000_000, 0, five), (3, 2_000, 0, five)]);
    let mut set = told.clone();
    set.set_clocks(&told.clocks());
    let right = trace(&[&[0, 1, 2, 3]], (0..4).map(|rank| (-(LATE as i64), of(rank))).collect());
    assert_eq!(set.ranks, right.ranks);
    assert_eq!(found(&set), [1, 2, 3].map(|rank| (rank, 0, 0, five)));
}

#[test]
fn groups_that_share_ranks_are_a_chain() {
    // 0 and 1, 1 and 2 share an operation; 3 has none with anybody.
    let one = |id: u64, group: u32| record(id, collective(Operation::Barrier, group), (LATE, LATE + 50));
    let told =
        trace(&[&[0, 1], &[1, 2]], vec![(0, vec![one(0, 0)]), (500, vec![one(0, 0), one(1, 1)]), (-70, vec![one(0, 1)]), (9, vec![])]);
    let once = Evidence::Collectives(1);
    // A single one tells no more than that both were in it: 50 ns each way, and as much again for the next.
    assert_eq!(found(&told), [(1, 500, 50, once), (2, -70, 100, once)]);
}

#[test]
fn the_median_counts_and_what_is_within_the_spread_is_left() {
    // Ends of rank 1 are 2, 3 and 90 us later: 3 us, give or take 1 us. Those of rank 2 vary by more than they are apart.
    let of = |ends: [u64; 3]| {
        let all = ends
            .iter()
            .zip(0..)
            .map(|(end, n)| record(n, collective(Operation::AllGather, 0), (LATE + n * 200_000, LATE + n * 200_000 + end)));
        all.collect::<Vec<_>>()
    };
    let told = trace(&[&[0, 1, 2]], vec![(0, of([100_000; 3])), (0, of([102_000, 103_000, 190_000])), (0, of([98_000, 101_000, 190_000]))]);
    let three = Evidence::Collectives(3);
    assert_eq!(found(&told), [(1, 3_000, 1_000, three), (2, 1_000, 3_000, three)]);
    assert_eq!(told.clocks().iter().map(|clock| clock.is_off()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_broadcast_says_nothing_of_ends() {
    let one = |end: u64| vec![record(0, collective(Operation::Broadcast, 0), (LATE, LATE + end))];
    assert_eq!(found(&trace(&[&[0, 1]], vec![(0, one(10)), (0, one(900))])), []);
}

fn message(peer: u32, tag: u32) -> Message {
    Message { peer: Some(peer), tag: Some(tag), bytes: Bytes(8), group: None }
}

#[test]
fn messages_both_ways_bound_an_offset() {
    // 400 ns one way and the other: the middle is exact, give or take a way.
    let there = vec![record(0, Kind::Send(message(1, 1)), (LATE, LATE + 10)), record(1, Kind::Recv(message(1, 2)), (LATE, LATE + 900))];
    let back = |both: bool| {
        let mut all = vec![record(0, Kind::Recv(message(0, 1)), (LATE, LATE + 400))];
        all.extend(both.then(|| record(1, Kind::Send(message(0, 2)), (LATE + 500, LATE + 510))));
        all
    };
    assert_eq!(found(&trace(&[], vec![(0, there.clone()), (70_000, back(true))])), [(1, 70_000, 400, Evidence::Messages(2))]);
    // One way, it might be anything.
    assert_eq!(found(&trace(&[], vec![(0, there[..1].to_vec()), (70_000, back(false))])), []);
}

#[test]
fn a_receive_that_does_not_block_is_over_with_its_wait() {
    let sender = vec![record(0, Kind::Send(message(1, 1)), (LATE, LATE + 10)), record(1, Kind::Recv(message(1, 2)), (LATE, LATE + 900))];
    let posted = record(0, Kind::Recv(message(0, 1)), (LATE - 5000, LATE - 4900));
    let waited = record(1, Kind::Wait, (LATE - 4000, LATE + 400)).after([After::Start(RecordId(0)), After::End(RecordId(0))]);
    let receiver = vec![posted, waited, record(2, Kind::Send(message(0, 2)), (LATE + 500, LATE + 510))];
    assert_eq!(found(&trace(&[], vec![(0, sender), (-9_000, receiver)])), [(1, -9_000, 400, Evidence::Messages(2))]);
}

#[test]
fn messages_keep_operations_honest() {
    // By the ends rank 1 is 5 us ahead; but then a message that it received would have been sent 4.6 us later. It may be right, or 10 ns behind.
    let mut sender = vec![record(0, collective(Operation::Barrier, 0), (LATE, LATE + 10))];
    sender.push(record(1, Kind::Send(message(1, 1)), (LATE + 1000, LATE + 1010)));
    let mut receiver = vec![record(0, collective(Operation::Barrier, 0), (LATE, LATE + 5_010))];
    receiver.push(record(1, Kind::Recv(message(0, 1)), (LATE + 1000, LATE + 1_400)));
    assert_eq!(found(&trace(&[&[0, 1]], vec![(0, sender), (0, receiver)])), [(1, 400, 410, Evidence::Collectives(1))]);
}

#[test]
fn who_comes_last_is_seen_once_clocks_are_set() {
    // Rank 2 comes 600 ns after the others, but its clock is 5 us behind.
    let of = |late: u64| {
        (0..4).map(|n| record(n, collective(Operation::AllReduce, 0), (LATE + n * 1000 + late, LATE + n * 1000 + 900))).collect()
    };
    let mut told = trace(&[&[0, 1, 2]], vec![(0, of(0)), (0, of(100)), (-5_000, of(700))]);
    let rows = |trace: &Trace| {
        trace.waits().iter().map(|of| (of.rank, of.last, of.waited.as_ps() / 1000, of.late.as_ps() / 1000)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&told), [(0, 0, 400, 0), (1, 4, 0, 400), (2, 0, 4 * 4400, 0)]);
    told.set_clocks(&told.clocks());
    assert_eq!(rows(&told), [(0, 0, 4 * 700, 0), (1, 0, 4 * 600, 0), (2, 4, 0, 4 * 600)]);
}

#[test]
fn ranks_of_a_replay_begin_together_or_as_they_did() {
    let begins = |start: u64| vec![record(0, Kind::Compute, (LATE + start, LATE + start + 1000))];
    let told = trace(&[], vec![(0, begins(0)), (0, begins(2500))]);
    let end = |skew: bool| {
        let lowered = lower(&told, &LowerOptions { gaps: Gaps::Kept, skew }, &mut Unlowered).unwrap();
        lowered.schedule.stats().computed
    };
    assert_eq!([end(false), end(true)], [Span::from_ns(2000), Span::from_ns(4500)]);
}

#[test]
fn files_that_are_read_are_set_and_say_so() {
    let file = |rank: u32, base_ns: u64, start: u64| {
        let nccl = "\"Collective name\": \"allreduce\", \"In msg nelems\": 10, \"Out msg nelems\": 10, \"dtype\": \"Float\", \
                    \"Process Group Name\": \"1\", \"Process Group Ranks\": \"[0, 1]\"";
        let kernel = |n: u64| {
            let ts = 100 + n * 1000 + start;
            format!(
                "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"n\", \"ts\": {ts}, \"dur\": {}, \"args\": {{\"stream\": 1, {nccl}}}}}",
                500 - start
            )
        };
        let text = format!(
            "{{\"distributedInfo\": {{\"rank\": {rank}, \"world_size\": 2}}, \"baseTimeNanoseconds\": {base_ns}, \"traceEvents\": [{}, {}]}}",
            kernel(0),
            kernel(1)
        );
        Part::new(format!("x.{rank}.json"), text.into_bytes())
    };
    let trace = read_parts(vec![file(0, 1_000_000, 0), file(1, 1_000_000 + 1_270_000, 20)]).unwrap().remove(0);
    assert_eq!(trace.reading.notes["clock of rank 1 set: +1.27 ms beside rank 0 (within 500.00 us) by collectives"], 2);
    let starts: Vec<u64> = trace.all().map(|(_, record)| record.start.unwrap().as_ps() / 1_000_000).collect();
    assert_eq!(starts, [0, 1000, 20, 1020]);
    assert_eq!(trace.waits()[1].late, Span::from_us(40));
    // Equal clocks are left, which is said as well.
    let trace = read_parts(vec![file(0, 1_000_000, 0), file(1, 1_000_000, 20)]).unwrap().remove(0);
    assert_eq!(trace.reading.notes["clocks of ranks left, as far as their operations tell they are right"], 1);
}
