//! Broadcasts by multicast into the memory of GPUs: right data under loss, a sender that does not notice, scale, the read limit.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Engine, Job, Loss, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Buffer, Casting, Multicast, MulticastSettings, Outcome, Rank, Step, World};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_platform::Layout;
use fabriscope_units::{Rate, Span, Time};

/// One broadcast after the other, between barriers out of band.
#[derive(Clone, Copy)]
struct Case<'a> {
    nodes: u32,
    per_node: u32,
    size: u32,
    messages: u32,
    /// The source of a message is the rank of its number, in turn among so many.
    sources: u32,
    from: Buffer,
    to: Buffer,
    algorithm: &'a str,
    /// Chunks of the pinned buffer, where not the usual number.
    depth: Option<u32>,
    loss: Loss,
}

const CASE: Case<'static> = Case {
    nodes: 4,
    per_node: 1,
    size: 1 << 20,
    messages: 3,
    sources: 1,
    from: Buffer::Device,
    to: Buffer::Device,
    algorithm: "",
    depth: None,
    loss: Loss::None,
};

struct Found {
    /// From the first call until the last rank has the data, by message.
    spans: Vec<Span>,
    outcome: Outcome,
    run: Run,
}

/// 10⁻⁴ on every link.
const RARE: Loss = Loss::Random(429_497);

fn run(parts: &ResolvedCluster, case: Case<'_>) -> Found {
    let layout = Layout { nodes: case.nodes, per_node: case.per_node };
    let target = fabriscope_platform::Target { layout, ..machine::target(parts) };
    let mpi = parts.sole().software.mpi.as_ref().unwrap();
    let mut settings = MulticastSettings::of(mpi, &target, true).unwrap().with(case.algorithm).unwrap();
    settings.depth = case.depth.unwrap_or(settings.depth);
    let (world, casting) = (World::new(mpi, &target, layout.ranks()), Casting::noting());
    let times: Record<Vec<(Time, Time)>> = Record::new(vec![(Time::MAX, Time::ZERO); case.messages as usize]);
    let main = |_| -> Main {
        let (world, casting, times) = (world.clone(), casting.clone(), times.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let rank = Rank::init(process, world, &[]).await?;
                let sources: Vec<u32> = (0..case.sources).collect();
                let multicast = Multicast::open(&rank, settings, &casting, &sources).await?;
                for message in 0..case.messages {
                    rank.synchronise().await?;
                    let (begun, source) = (rank.now(), message % case.sources);
                    let buffer = if rank.rank() == source { case.from } else { case.to };
                    multicast.broadcast(&rank, source, buffer, case.size).await?;
                    let (first, last) = &mut times.lock()[message as usize];
                    (*first, *last) = ((*first).min(begun), (*last).max(rank.now()));
                }
                rank.synchronise().await?;
                Ok::<(), ProgramError>(())
            })
        })
    };
    let job = Job::programs((0..layout.ranks()).map(|rank| rank / case.per_node).collect(), (0..layout.ranks()).map(main).collect());
    let options = RunOptions { loss: case.loss, ..RunOptions::default() };
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &options, 1).unwrap_or_else(|error| panic!("{error}"));
    let spans = times.lock().iter().map(|(first, last)| last.since(*first)).collect();
    Found { spans, outcome: casting.outcome(), run }
}

fn steps(outcome: &Outcome, wanted: Step) -> Vec<Time> {
    outcome.steps.iter().filter(|(_, step, ..)| *step == wanted).map(|(.., at)| *at).collect()
}

/// 88 GPUs, eight a node, one packet of ten thousand lost on each link: every rank has the right packet at every place (else the broadcast fails),
/// by reads of what was missing and copies of what landed elsewhere.
#[test]
fn everybody_has_the_right_data_under_loss() {
    let parts = machine::parts("cscs-88");
    let case = Case { nodes: 11, per_node: 8, size: 2 << 20, messages: 16, ..CASE };
    let (quiet, lossy) = (run(&parts, case), run(&parts, Case { loss: RARE, ..case }));
    let packets = u64::from(16 * (2u32 << 20).div_ceil(4080));
    assert_eq!((quiet.outcome.lost, quiet.outcome.gets, quiet.outcome.moved, quiet.outcome.probes), (0, 0, 0, 0));
    assert_eq!((quiet.outcome.messages, lossy.outcome.messages), (16 * 88, 16 * 88));
    let Outcome { lost, gets, moved, wrong, .. } = lossy.outcome;
    // Two links to each of ten receivers: of 82,240 copies about nine are lost, the first link's losses by all.
    assert!((1..60).contains(&lost) && gets <= lost && moved > 0 && wrong == 0, "{lost} of {packets} packets, {gets} gets");
    // Each copy of each packet of each link is drawn by itself, and the fabric counts what it dropped.
    assert!(lossy.run.stats.drops >= 1, "{:?}", lossy.run.stats);
}

/// The source copies and posts at the same times, lost packets or not: its core has nothing to do with them. Only its adapter, which answers reads,
/// may have packets of a later chunk wait for an answer.
#[test]
fn the_senders_timeline_is_that_of_a_run_without_losses() {
    let parts = machine::parts("cscs-88");
    // Room for all of it: what the receivers do later holds up nobody.
    let case = Case { nodes: 11, per_node: 1, size: 4 << 20, messages: 1, depth: Some(128), ..CASE };
    for loss in [RARE, Loss::Random(4_294_967)] {
        let (quiet, lossy) = (run(&parts, case), run(&parts, Case { loss, ..case }));
        assert_eq!(steps(&quiet.outcome, Step::Copy), steps(&lossy.outcome, Step::Copy));
        // A completion may be taken a turn earlier or later: its chunk left behind an answer, or another one was lost before it took a credit.
        let posted = steps(&quiet.outcome, Step::Post).into_iter().zip(steps(&lossy.outcome, Step::Post));
        let apart = posted.into_iter().map(|(quiet, lossy)| lossy.max(quiet).since(quiet.min(lossy))).max().unwrap();
        // Reads of the pinned buffer share host memory's way with the copies into it.
        assert!(apart <= Span::from_ns(100 + 50 * lossy.outcome.gets), "{apart} with {} packets lost", lossy.outcome.lost);
        // An answer takes 0.6 us of the link, and as long on the way into a GPU; packets for all wait for the slowest receiver.
        let most = Span::from_us(2 * lossy.outcome.gets + 1);
        let sent = steps(&quiet.outcome, Step::Sent).into_iter().zip(steps(&lossy.outcome, Step::Sent));
        let later = sent.into_iter().map(|(quiet, lossy)| lossy.since(quiet.min(lossy))).max().unwrap();
        assert!(later <= most, "{later} against {most} for {} bytes", lossy.outcome.got);
        assert!(lossy.outcome.gets > 0 || loss == RARE);
    }
    // With the usual buffer the sender may wait for the slowest receiver, and hardly does.
    let case = Case { depth: None, messages: 8, ..case };
    let (quiet, lossy) = (run(&parts, case), run(&parts, Case { loss: RARE, ..case }));
    let total = |found: &Found| found.spans.iter().copied().sum::<Span>().as_ps();
    assert!(lossy.outcome.lost > 0 && total(&lossy) < total(&quiet) * 103 / 100, "{} {}", total(&lossy), total(&quiet));
}

/// With one packet of a hundred lost, and of messages much longer than the pinned buffer, all is still right.
#[test]
fn heavy_loss_is_repaired() {
    let parts = machine::parts("ri2-gpu");
    for (from, to) in [(Buffer::Device, Buffer::Device), (Buffer::Host, Buffer::Device), (Buffer::Host, Buffer::Host)] {
        for algorithm in ["", "direct", "16 KiB"] {
            let case = Case { nodes: 6, size: 6_000_001, from, to, algorithm, loss: Loss::Random(42_949_673), ..CASE };
            let found = run(&parts, case);
            assert!(found.outcome.lost > 50 && found.outcome.wrong == 0, "{:?}", found.outcome.lost);
        }
    }
}

/// All that goes is lost: receivers wait, ask, and read everything; nothing came at all on one link.
#[test]
fn what_never_comes_is_asked_for() {
    let parts = machine::parts("ri2-gpu");
    let case = Case { nodes: 3, size: 4000, messages: 200, loss: Loss::Random(u32::MAX / 20), ..CASE };
    let found = run(&parts, case);
    assert!(found.outcome.probes > 0 && found.outcome.lost > 10 && found.outcome.wrong == 0);
}

/// From 2 to 16 nodes the latency hardly grows: the same packets, copied by the switch.
#[test]
fn latency_is_nearly_constant_in_scale() {
    let parts = machine::parts("ri2-gpu");
    for size in [4096, 1 << 20] {
        let last = |nodes| *run(&parts, Case { nodes, size, ..CASE }).spans.last().unwrap();
        let (two, sixteen) = (last(2), last(16));
        assert!(sixteen >= two && (sixteen.as_ps() - two.as_ps()) * 25 < two.as_ps(), "{two} {sixteen}");
    }
}

/// 4,096 nodes on three levels of switches: longer ways, credits up a tree of three levels, and still the same packets.
#[test]
#[ignore = "takes a minute"]
fn latency_is_nearly_constant_to_4096_nodes() {
    let parts = machine::parts("lab-gpus-4096");
    let case = Case { size: 1 << 20, messages: 2, ..CASE };
    let last = |nodes| *run(&parts, Case { nodes, ..case }).spans.last().unwrap();
    let (few, many) = (last(16), last(4096));
    assert!(many.as_ps() * 4 < few.as_ps() * 5, "{few} {many}");
}

fn limited(read: u64) -> ResolvedCluster {
    let mut parts = machine::parts("ri2-gpu");
    parts.sole_mut().node.cpu.root_complex.peer_to_peer.as_mut().unwrap().read.value = Rate::from_gbps(read);
    parts
}

/// The pipeline is there for the read limit: with 27 Gb/s it is faster for long messages and with 100 Gb/s it is not; for short ones it never is.
#[test]
fn the_pipeline_pays_where_adapters_read_gpus_slowly() {
    let last = |read, size, algorithm| *run(&limited(read), Case { size, algorithm, ..CASE }).spans.last().unwrap();
    for size in [1 << 20, 8 << 20] {
        assert!(last(27, size, "pipeline") * 5 < last(27, size, "direct") * 4);
        assert!(last(100, size, "pipeline") >= last(100, size, "direct"));
    }
    assert!(last(27, 4096, "pipeline") > last(27, 4096, "direct"));
}

/// 8 GPUs a node: through the leader or from one to the next, every GPU has it; the chain moves each byte once over each link.
#[test]
fn chunks_go_on_within_a_node() {
    let parts = machine::parts("cscs-88");
    let last =
        |algorithm| *run(&parts, Case { nodes: 2, per_node: 8, size: 4 << 20, messages: 1, algorithm, ..CASE }).spans.last().unwrap();
    let (leader, chain) = (last("leader"), last("chain"));
    assert!(chain * 2 < leader, "{chain} {leader}");
}

/// Every rank a source in turn, on its own node too.
#[test]
fn every_rank_is_a_source_in_turn() {
    let parts = machine::parts("cscs-88");
    let case = Case { nodes: 3, per_node: 2, sources: 6, messages: 18, size: 300_000, loss: Loss::Random(4_294_967), ..CASE };
    let found = run(&parts, case);
    assert_eq!((found.outcome.messages, found.outcome.wrong), (18 * 6, 0));
    assert!(found.outcome.lost > 0);
}
