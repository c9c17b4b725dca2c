//! Barriers of all ranks over the parts of a fabric: all go on when the last has come, neither sooner nor later, with packets in flight
//! meanwhile.

use fabriscope_engine::{EngineError, Prepared, ProgramsWork, Run};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Access, Lid, Mtu, Peer, QpInit, QpNum, QpType, Remote, Rkey, SendWr, Sge};

use crate::Scenario;
use crate::scenario::Started;
use crate::tests::cluster;

/// Sixteen nodes, which make four parts: below four leaves, and below one switch.
const NODES: u32 = 16;
const TREE: &str = "topology.leaf_spine = { leaves = 4, down = 4, spines = 4 }";
const SWITCH: &str = "topology.single_switch = {}";
const ROUNDS: usize = 12;
const SIZE: u32 = 100_000;

/// What the ranks note, by rank.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Notes {
    ends: Vec<Option<(Lid, QpNum, Rkey)>>,
    /// When it came to the barrier of each round, and when it went on.
    rounds: Vec<Vec<(Time, Time)>>,
}

/// A rank that computes so long before the barrier of each round; every other round it leaves a write to `peer` in flight. In the end
/// it waits for all of these, and for `more` that it never posted.
fn rank(notes: Record<Notes>, peer: usize, spans: Vec<Span>, more: usize) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            let me = process.rank() as usize;
            let (cq, qp, mr) = process.nic(0, |nic| {
                let pd = nic.alloc_pd();
                let cq = nic.create_cq(64).expect("a CQ");
                let mr = nic.reg_mr(pd, 0, Bytes(u64::from(SIZE)), Access::ALL).expect("an MR");
                (cq, nic.create_qp(&QpInit::new(pd, QpType::Rc, cq)).expect("a QP"), mr)
            });
            notes.lock().ends[me] = Some((process.lid(0), qp, mr.rkey));
            process.barrier().await;
            let (lid, peer_qp, rkey) = notes.lock().ends[peer].expect("all have written their line");
            let peer = Peer { lid, qp: peer_qp, sl: 0, mtu: Mtu::B4096 };
            process.nic(0, |nic| nic.connect(qp, &peer, Access::ALL)).expect("connected");
            process.barrier().await;
            let mut left = spans.len().div_ceil(2) + more;
            for (round, span) in spans.into_iter().enumerate() {
                if round % 2 == 0 {
                    let sge = Sge { addr: 0, length: SIZE, lkey: mr.lkey };
                    let write = SendWr::write(round as u64, sge, Remote { addr: 0, rkey }).signaled();
                    process.post_send(0, qp, &write).map_err(ProgramError::from)?;
                }
                process.compute(span);
                process.catch_up().await;
                let came = process.now();
                process.barrier().await;
                notes.lock().rounds[me].push((came, process.now()));
            }
            while left > 0 {
                left -= process.wait_cq(0, cq, 16).await.len();
            }
            Ok(())
        })
    })
}

/// Ranks of all nodes, each with a peer in another part; the first `stops` have fewer rounds than the others, the last `waits` never end.
fn run(topology: &str, threads: usize, ties: Ties, (stops, waits): (usize, usize)) -> (Result<Run, EngineError>, Notes, bool) {
    let cluster = cluster(topology, NODES, "infiniband", "d_mod_k");
    let ranks = NODES as usize;
    let notes = Record::new(Notes { ends: vec![None; ranks], rounds: vec![Vec::new(); ranks] });
    let mut draw = Streams::new(5).stream("barriers", 0);
    let mains = (0..ranks).map(|me| {
        let rounds = if me < stops { ROUNDS / 2 } else { ROUNDS };
        let mut spans: Vec<Span> = (0..ROUNDS).map(|_| Span::from_ns(draw.below(4000))).collect();
        // What is in flight takes some ten microseconds: of some rounds all of it, of others nothing.
        spans.iter_mut().step_by(3).for_each(|span| *span += Span::from_us(30));
        spans.truncate(rounds);
        rank(notes.clone(), (me + ranks / 2) % ranks, spans, usize::from(me >= ranks - waits))
    });
    let work = ProgramsWork { mains: mains.collect(), ties, beside: 0 };
    let started = Scenario { threads, ..Scenario::default() }.start(&cluster, (0..NODES).collect(), work, 1).expect("it is sound");
    let apart = matches!(&started, Started::Apart { parts, .. } if parts.len() == 4);
    let run = Box::new(started).run();
    (run, notes.take(), apart)
}

#[test]
fn all_go_on_when_the_last_has_come() {
    for topology in [TREE, SWITCH] {
        let (one, notes, apart) = run(topology, 1, Ties::Fences, (0, 0));
        let (one, (whole, together, _)) = (one.expect("it ends"), run(topology, 1, Ties::Any, (0, 0)));
        assert!(apart, "the fabric is divided");
        for round in 0..ROUNDS {
            let rounds = || notes.rounds.iter().map(|rounds| rounds[round]);
            let last = rounds().map(|(came, _)| came).max().expect("there are ranks");
            assert!(rounds().all(|(_, went)| went == last), "round {round}: {:?}", rounds().collect::<Vec<_>>());
        }
        // No packet of these ranks meets another: parts change nothing.
        assert_eq!((&notes, &one.ranks), (&together, &whole.expect("it ends").ranks));
        for threads in [2, 3, 4] {
            let (other, noted, _) = run(topology, threads, Ties::Fences, (0, 0));
            assert_eq!((&one, &notes), (&other.expect("it ends"), &noted), "{threads} threads");
        }
    }
}

/// Ranks that end are not waited for: all of a part, and some of another.
#[test]
fn nobody_waits_for_ranks_that_have_ended() {
    for threads in [1, 2] {
        let (run, notes, _) = run(TREE, threads, Ties::Fences, (5, 0));
        run.expect("it ends");
        assert_eq!(notes.rounds.iter().map(Vec::len).collect::<Vec<_>>(), [vec![ROUNDS / 2; 5], vec![ROUNDS; 11]].concat());
        let last = |round: usize| notes.rounds.iter().filter_map(|rounds| rounds.get(round)).map(|(came, _)| *came).max();
        assert!((0..ROUNDS).all(|round| last(round) == Some(notes.rounds[15][round].1)), "{notes:?}");
    }
}

/// Ranks that wait for ever are named, whatever part they are in.
#[test]
fn who_never_ends_is_named() {
    let stalled = |threads| run(TREE, threads, Ties::Fences, (0, 6)).0.expect_err("six ranks wait").to_string();
    let one = stalled(1);
    assert!(one.contains("6 of 16") && one.contains("rank 10 on node 10") && one.contains("rank 15 on node 15"), "{one}");
    assert_eq!(one, stalled(4));
}
