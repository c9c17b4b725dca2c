use fabriscope_catalog::StepParameters;
use fabriscope_machine::{ResourceId, Weight};
use fabriscope_units::Rate;

use super::super::fifo::FifoPath;
use super::super::world::SLOTS;
use super::*;

const GB: u64 = 8_000_000_000;

/// Two GPUs with a link that carries `link` GB/s each way; `latency` is that of a way.
fn pair(link: u64, latency: Span) -> (Kernels, impl Fn(&mut Kernels, usize) -> FifoId) {
    let kernels = Kernels::new(Sharing::new(vec![Rate::from_bps(link * GB); 2]), vec![Vec::new(); 2]);
    let fifo = move |kernels: &mut Kernels, from: usize| {
        let uses = vec![Use { resource: ResourceId(from as u32), weight: Weight::ONE }];
        kernels.add_fifo(Fifo::new(FifoPath { uses, latency, back: latency, ..FifoPath::default() }, SLOTS, FifoEnd::Block, FifoEnd::Block))
    };
    (kernels, fifo)
}

/// A block moves 10 GB/s.
fn pace(begin: Span, end: Span, fenced: bool) -> Pace {
    Pace { rate: Rate::from_bps(10 * GB), wave: Bytes::ZERO, taken: (1, 1), step: StepParameters { start: Span::ZERO, begin, end }, fenced }
}

fn plan(pace: Pace, from: Vec<FifoId>, to: Vec<FifoId>, chunks: u32, bytes: u64, in_place: bool) -> BlockPlan {
    let step = Move { from: from.into(), to: to.into(), bytes: Bytes(bytes), slots: 1, in_place, ..Move::default() };
    BlockPlan { pace, moves: Box::new((0..chunks).map(move |_| step.clone())) }
}

/// Lets everything happen.
fn finish(kernels: &mut Kernels) -> Time {
    let mut last = Time::ZERO;
    while let Some(next) = kernels.next_event() {
        last = next;
        kernels.advance(next);
    }
    last
}

#[test]
fn channels_move_as_much_as_they_can_or_the_link() {
    // c blocks of 10 GB/s over a link of 100 GB/s, 64 chunks of 1 MB each: 64 MB / min(10, 100 / c GB/s).
    for (channels, expected) in [(1u64, 6_400_000_000u64), (8, 6_400_000_000), (20, 12_800_000_000)] {
        let (mut kernels, fifo) = pair(100, Span::ZERO);
        let free = pace(Span::ZERO, Span::ZERO, false);
        let fifos: Vec<FifoId> = (0..channels).map(|_| fifo(&mut kernels, 0)).collect();
        let sends = fifos.iter().map(|id| plan(free, Vec::new(), vec![*id], 64, 1_000_000, false)).collect();
        let takes = fifos.iter().map(|id| plan(free, vec![*id], Vec::new(), 64, 1_000_000, true)).collect();
        let sent = kernels.launch(0, Time::ZERO, sends);
        let taken = kernels.launch(1, Time::ZERO, takes);
        finish(&mut kernels);
        assert_eq!(kernels.ended(0, sent), Some(Time::from_ps(expected)), "{channels} channels");
        assert_eq!(kernels.ended(1, taken), Some(Time::from_ps(expected)), "{channels} channels");
    }
}

#[test]
fn a_step_is_the_sum_of_its_parts() {
    // Start 1 us, begin 2 us, 1,000 B at 10 GB/s 0.1 us, end 3 us; there 0.7 us, with the fence three ways; the receiver the same
    // without a fence, for nobody waits for its data.
    for (fenced, ways) in [(false, 1), (true, 3)] {
        let (mut kernels, fifo) = pair(100, Span::from_ns(700));
        let usual = pace(Span::from_us(2), Span::from_us(3), fenced);
        let steps = Pace { step: StepParameters { start: Span::from_us(1), ..usual.step }, ..usual };
        let id = fifo(&mut kernels, 0);
        kernels.launch(0, Time::ZERO, vec![plan(steps, Vec::new(), vec![id], 1, 1000, false)]);
        let taken = kernels.launch(1, Time::ZERO, vec![plan(steps, vec![id], Vec::new(), 1, 1000, false)]);
        finish(&mut kernels);
        let once = 2_000_000 + 100_000 + 3_000_000;
        assert_eq!(kernels.ended(1, taken), Some(Time::from_ps(1_000_000 + 2 * once + ways * 700_000)), "fenced: {fenced}");
    }
}

#[test]
fn lines_are_taken_on_while_later_ones_are_written() {
    // Three GPUs, a chunk of 1 MB at 10 GB/s, threads that carry 100 kB at once: 100 us each. A line takes 0.7 us to the next GPU, so
    // the last one is two ways behind the first; with slices it would wait for two whole chunks.
    let chain = |wave: u64| {
        let mut kernels = Kernels::new(Sharing::new(vec![Rate::from_bps(100 * GB); 3]), vec![Vec::new(); 3]);
        let fifos = [0, 1].map(|from| {
            let uses = vec![Use { resource: ResourceId(from), weight: Weight::ONE }];
            let way = FifoPath { uses, latency: Span::from_ns(700), back: Span::from_ns(700), ..FifoPath::default() };
            kernels.add_fifo(Fifo::new(way, SLOTS, FifoEnd::Block, FifoEnd::Block))
        });
        let pace = Pace { wave: Bytes(wave), ..pace(Span::ZERO, Span::ZERO, false) };
        kernels.launch(0, Time::ZERO, vec![plan(pace, Vec::new(), vec![fifos[0]], 1, 1_000_000, false)]);
        kernels.launch(1, Time::ZERO, vec![plan(pace, vec![fifos[0]], vec![fifos[1]], 1, 1_000_000, false)]);
        let last = kernels.launch(2, Time::ZERO, vec![plan(pace, vec![fifos[1]], Vec::new(), 1, 1_000_000, false)]);
        finish(&mut kernels);
        kernels.ended(2, last).unwrap().as_ps()
    };
    assert_eq!(chain(0), 3 * 100_000_000 + 2 * 700_000);
    assert_eq!(chain(100_000), 100_000_000 + 2 * 700_000);
    // Of the eleventh round a tenth is in use.
    let (of_rounds, expected) = (chain(99_000), 108_900_000 + 2 * 700_000);
    assert!(of_rounds.abs_diff(expected) < 1000, "{of_rounds} ps");
}

#[test]
fn a_sender_runs_ahead_by_the_slots() {
    // The receiver's kernel starts at 1 ms: until then 8 chunks are filled, 0.1 ms each.
    let (mut kernels, fifo) = pair(100, Span::ZERO);
    let free = pace(Span::ZERO, Span::ZERO, false);
    let id = fifo(&mut kernels, 0);
    let sent = kernels.launch(0, Time::ZERO, vec![plan(free, Vec::new(), vec![id], 10, 1_000_000, false)]);
    kernels.launch(1, Time::ZERO + Span::from_us(1000), vec![plan(free, vec![id], Vec::new(), 10, 1_000_000, true)]);
    kernels.advance(Time::ZERO + Span::from_us(999));
    assert_eq!((kernels.ended(0, sent), kernels.stuck().len()), (None, 1));
    finish(&mut kernels);
    assert_eq!(kernels.ended(0, sent), Some(Time::ZERO + Span::from_us(1200)));
}

#[test]
fn both_send_first_and_neither_waits_for_ever() {
    // More than the slots hold, both ways, in one kernel each: sends and receives are blocks of their own.
    let (mut kernels, fifo) = pair(100, Span::from_ns(700));
    let steps = pace(Span::from_ns(650), Span::from_ns(650), true);
    let there = fifo(&mut kernels, 0);
    let back = fifo(&mut kernels, 1);
    let mut both = |gpu, out, into| {
        let plans = vec![plan(steps, Vec::new(), vec![out], 100, 4096, false), plan(steps, vec![into], Vec::new(), 100, 4096, false)];
        kernels.launch(gpu, Time::ZERO, plans)
    };
    let turns = [both(0, there, back), both(1, back, there)];
    finish(&mut kernels);
    assert!(kernels.ended(0, turns[0]).is_some() && kernels.ended(0, turns[0]) == kernels.ended(1, turns[1]));
    assert!(kernels.stuck().is_empty() && kernels.is_empty(there) && kernels.is_empty(back));
}

#[test]
fn kernels_of_a_stream_run_in_turn() {
    let (mut kernels, _) = pair(100, Span::ZERO);
    let free = pace(Span::ZERO, Span::ZERO, false);
    let at = |us| Time::ZERO + Span::from_us(us);
    // Each moves 1 MB within its GPU, 100 us; the third is asked for when the second has ended.
    let turns = [0, 10, 500].map(|us| kernels.launch(0, at(us), vec![plan(free, Vec::new(), Vec::new(), 1, 1_000_000, false)]));
    finish(&mut kernels);
    assert_eq!(turns.map(|turn| kernels.ended(0, turn)), [100, 200, 600].map(|us| Some(at(us))));
}

#[test]
fn what_is_kept_is_compared_with_what_it_should_be() {
    // Two contributions make the sum; a third, or none of the second, does not.
    for (adds, wrong) in [(5, 0), (0, 4096), (10, 4096)] {
        let (mut kernels, fifo) = pair(100, Span::ZERO);
        let id = fifo(&mut kernels, 0);
        let pace = pace(Span::ZERO, Span::ZERO, false);
        let step = |from: Vec<FifoId>, to: Vec<FifoId>, contents| {
            let step = Move { from: from.into(), to: to.into(), bytes: Bytes(4096), slots: 1, contents, ..Move::default() };
            BlockPlan { pace, moves: Box::new(std::iter::once(step)) }
        };
        kernels.launch(0, Time::ZERO, vec![step(Vec::new(), vec![id], Contents { adds: 7, expects: None })]);
        kernels.launch(1, Time::ZERO, vec![step(vec![id], Vec::new(), Contents { adds, expects: Some(12) })]);
        finish(&mut kernels);
        assert_eq!(kernels.wrong(), Bytes(wrong));
    }
}

#[test]
fn a_scatter_is_one_step_to_all_its_peers() {
    // 1 MB to each of two GPUs at 10 GB/s, 1 us before and after: one wait, one copy after the other, one flag to each at the end.
    let mut kernels = Kernels::new(Sharing::new(vec![Rate::from_bps(100 * GB); 3]), vec![Vec::new(); 3]);
    let fifos = [1, 2].map(|link| {
        let uses = vec![Use { resource: ResourceId(link), weight: Weight::ONE }];
        kernels.add_fifo(Fifo::new(FifoPath { uses, ..FifoPath::default() }, SLOTS, FifoEnd::Block, FifoEnd::Block))
    });
    let pace = pace(Span::from_us(1), Span::from_us(1), false);
    let piece = |adds| Piece { bytes: Bytes(1_000_000), contents: Contents { adds, expects: None } };
    let step = Move { to: fifos.into(), bytes: Bytes(2_000_000), slots: 1, pieces: [piece(7), piece(8)].into(), ..Move::default() };
    let sent = kernels.launch(0, Time::ZERO, vec![BlockPlan { pace, moves: Box::new(std::iter::once(step)) }]);
    let takes = |fifo: FifoId, expected| {
        let contents = Contents { adds: 0, expects: Some(expected) };
        let step = Move { from: [fifo].into(), bytes: Bytes(1_000_000), slots: 1, in_place: true, contents, ..Move::default() };
        vec![BlockPlan { pace, moves: Box::new(std::iter::once(step)) }]
    };
    let taken = [(1, fifos[0], 7), (2, fifos[1], 8)].map(|(gpu, fifo, what)| (gpu, kernels.launch(gpu, Time::ZERO, takes(fifo, what))));
    finish(&mut kernels);
    let at = |us| Some(Time::ZERO + Span::from_us(us));
    assert_eq!(kernels.ended(0, sent), at(202));
    assert_eq!(taken.map(|(gpu, turn)| kernels.ended(gpu, turn)), [at(204); 2]);
    assert_eq!(kernels.wrong(), Bytes::ZERO);
}

#[test]
fn kernels_of_several_streams_share_links_and_wait_for_each_other() {
    // Two streams of a GPU, each a block of 10 GB/s with 1 MB over a link of 10 GB/s: 100 us alone, 200 us side by side, one after the other
    // where one waits.
    let free = pace(Span::ZERO, Span::ZERO, false);
    let us = |us: u64| Some(Time::ZERO + Span::from_us(us));
    for (waits, ends) in [(false, [200, 200]), (true, [100, 200])] {
        let (mut kernels, fifo) = pair(10, Span::ZERO);
        let [first, second] = [0, 1].map(|stream| StreamId { gpu: 0, stream });
        let fifos = [fifo(&mut kernels, 0), fifo(&mut kernels, 0)];
        let send = |fifo| vec![plan(free, Vec::new(), vec![fifo], 1, 1_000_000, false)];
        let one = kernels.launch(first, Time::ZERO, send(fifos[0]));
        let after = if waits { vec![(first, one)] } else { Vec::new() };
        let other = kernels.launch_after(second, Time::ZERO, after, send(fifos[1]));
        finish(&mut kernels);
        assert_eq!([kernels.ended(first, one), kernels.ended(second, other)], ends.map(us), "waits: {waits}");
    }
}

#[test]
fn who_waits_for_an_aborted_kernel_goes_on() {
    let (mut kernels, fifo) = pair(10, Span::ZERO);
    let free = pace(Span::ZERO, Span::ZERO, false);
    let [first, second] = [0, 1].map(|stream| StreamId { gpu: 0, stream });
    let fifos = [fifo(&mut kernels, 0), fifo(&mut kernels, 0)];
    // Nobody sends what the first one takes.
    let stuck = kernels.launch(first, Time::ZERO, vec![plan(free, vec![fifos[0]], Vec::new(), 1, 1_000_000, true)]);
    let next =
        kernels.launch_after(second, Time::ZERO, vec![(first, stuck)], vec![plan(free, Vec::new(), vec![fifos[1]], 1, 1_000_000, false)]);
    finish(&mut kernels);
    assert_eq!((kernels.ended(first, stuck), kernels.ended(second, next)), (None, None));
    let at = Time::ZERO + Span::from_us(50);
    kernels.advance(at);
    kernels.abort(first, at);
    finish(&mut kernels);
    assert_eq!((kernels.ended(first, stuck), kernels.ended(second, next)), (Some(at), Some(at + Span::from_us(100))));
}
