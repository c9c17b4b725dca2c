//! Kernels and FIFOs from outside: pipelines of GPUs by their formulas, and slots that are neither lost nor found.

use fabriscope_catalog::StepParameters;
use fabriscope_machine::{ResourceId, Sharing, Use, Weight};
use fabriscope_nccl_runtime::{BlockPlan, Fifo, FifoEnd, FifoId, FifoPath, Kernels, Move};
use fabriscope_platform::nccl::Pace;
use fabriscope_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

const GB: u64 = 8_000_000_000;

/// A block that moves 10 GB/s: 1 MB in 100 us.
fn pace(begin: Span, end: Span) -> Pace {
    Pace {
        rate: Rate::from_bps(10 * GB),
        wave: Bytes::ZERO,
        taken: (1, 1),
        step: StepParameters { start: Span::ZERO, begin, end },
        fenced: false,
    }
}

const FREE: Pace = Pace {
    rate: Rate::from_bps(10 * GB),
    wave: Bytes::ZERO,
    taken: (1, 1),
    step: StepParameters { start: Span::ZERO, begin: Span::ZERO, end: Span::ZERO },
    fenced: false,
};

/// GPUs of a node, each with a link of `link` GB/s to the next one.
struct Chain {
    kernels: Kernels,
    fifos: Vec<FifoId>,
}

fn chain(gpus: u32, link: u64, latency: Span, slots: u32) -> Chain {
    let mut kernels = Kernels::new(Sharing::new(vec![Rate::from_bps(link * GB); gpus as usize]), vec![Vec::new(); gpus as usize]);
    let fifo = |from: u32| {
        let uses = vec![Use { resource: ResourceId(from), weight: Weight::ONE }];
        Fifo::new(FifoPath { uses, latency, back: latency, ..FifoPath::default() }, slots, FifoEnd::Block, FifoEnd::Block)
    };
    let fifos = (0..gpus).map(|from| kernels.add_fifo(fifo(from))).collect();
    Chain { kernels, fifos }
}

fn moves(pace: Pace, from: Option<FifoId>, to: Option<FifoId>, chunks: u32, bytes: u64) -> BlockPlan {
    let in_place = to.is_none();
    let step =
        Move { from: from.into_iter().collect(), to: to.into_iter().collect(), bytes: Bytes(bytes), slots: 1, in_place, ..Move::default() };
    BlockPlan { pace, moves: Box::new((0..chunks).map(move |_| step.clone())) }
}

fn finish(kernels: &mut Kernels) -> Time {
    let mut last = Time::ZERO;
    while let Some(next) = kernels.next_event() {
        assert!(next >= last, "time goes on");
        last = next;
        kernels.advance(next);
    }
    assert!(kernels.stuck().is_empty(), "nobody waits for ever");
    last
}

/// A broadcast along a chain: each GPU passes on what it gets. Gives the time at which the last one has all.
fn broadcast(gpus: u32, chunks: u32, bytes: u64, latency: Span, slots: u32) -> Time {
    let Chain { mut kernels, fifos } = chain(gpus, 100, latency, slots);
    let mut last = 0;
    for gpu in 0..gpus {
        let from = gpu.checked_sub(1).map(|before| fifos[before as usize]);
        let to = (gpu + 1 < gpus).then(|| fifos[gpu as usize]);
        last = kernels.launch(gpu, Time::ZERO, vec![moves(FREE, from, to, chunks, bytes)]);
    }
    finish(&mut kernels);
    assert!(fifos.iter().all(|fifo| kernels.is_empty(*fifo)));
    kernels.ended(gpus - 1, last).unwrap()
}

#[test]
fn a_pipeline_by_its_formula() {
    // k GPUs, m chunks of t each: the first chunk passes k − 1 copies, and one more chunk ends with each t after it:
    // (m + k − 2) t, and k − 1 latencies. The last GPU finds its bytes in place.
    let t = Span::from_us(100);
    for (gpus, chunks) in [(2, 1), (2, 10), (4, 1), (4, 10), (8, 32)] {
        for latency in [Span::ZERO, Span::from_ns(700)] {
            let expected = t * u64::from(chunks + gpus - 2) + latency * u64::from(gpus - 1);
            assert_eq!(broadcast(gpus, chunks, 1_000_000, latency, 8), Time::ZERO + expected, "{gpus} GPUs, {chunks} chunks");
        }
    }
}

#[test]
fn one_slot_makes_both_ends_wait_in_turn() {
    // With one slot the sender fills the next chunk when the credit is back: each chunk takes its copy, a latency there, and one back.
    let (t, latency) = (Span::from_us(100), Span::from_us(3));
    for chunks in [1u32, 2, 10] {
        let expected = t * u64::from(chunks) + latency * u64::from(2 * chunks - 1);
        assert_eq!(broadcast(2, chunks, 1_000_000, latency, 1), Time::ZERO + expected, "{chunks} chunks");
    }
    // With enough slots latencies count once.
    assert_eq!(broadcast(2, 10, 1_000_000, latency, 8), Time::ZERO + t * 10 + latency);
}

#[test]
fn a_ring_by_its_formula() {
    // All-gather of n GPUs: each sends its block of 1 MB, then passes on n − 2 others, and finds the last in place: n − 1 copies of
    // t = 100 us one after the other, in all GPUs at the same time.
    for gpus in [2u32, 3, 4, 8] {
        let Chain { mut kernels, fifos } = chain(gpus, 100, Span::ZERO, 8);
        let turns: Vec<u64> = (0..gpus)
            .map(|gpu| {
                let (from, to) = (fifos[((gpu + gpus - 1) % gpus) as usize], fifos[gpu as usize]);
                let step = |from: Vec<FifoId>, to: Vec<FifoId>| {
                    let in_place = to.is_empty();
                    Move { from: from.into(), to: to.into(), bytes: Bytes(1_000_000), slots: 1, in_place, ..Move::default() }
                };
                let first = std::iter::once(step(Vec::new(), vec![to]));
                let middle = (0..gpus - 2).map(move |_| step(vec![from], vec![to]));
                let last = std::iter::once(step(vec![from], Vec::new()));
                let plan = BlockPlan { pace: FREE, moves: Box::new(first.chain(middle).chain(last)) };
                kernels.launch(gpu, Time::ZERO, vec![plan])
            })
            .collect();
        finish(&mut kernels);
        let expected = Time::ZERO + Span::from_us(100) * u64::from(gpus - 1);
        for (gpu, turn) in turns.iter().enumerate() {
            assert_eq!(kernels.ended(gpu as u32, *turn), Some(expected), "GPU {gpu} of {gpus}");
        }
    }
}

#[test]
fn flags_beside_the_data_take_room_on_links() {
    // LL: 16 B on the way for 8 B of data. A block moves 10 GB/s of payload; over a link of 15 GB/s it gets 7.5 GB/s: 1 MB in 133.3 us.
    // Over one of 40 GB/s the block binds: 100 us.
    for (link, expected) in [(15, 133_333_333), (40, 100_000_000)] {
        let Chain { mut kernels, fifos } = chain(2, link, Span::ZERO, 8);
        let lines = Pace { taken: (16, 8), ..FREE };
        let turn = kernels.launch(0, Time::ZERO, vec![moves(lines, None, Some(fifos[0]), 1, 1_000_000)]);
        kernels.launch(1, Time::ZERO, vec![moves(lines, Some(fifos[0]), None, 1, 1_000_000)]);
        finish(&mut kernels);
        let ended = kernels.ended(0, turn).unwrap().as_ps();
        assert!(ended.abs_diff(expected) <= 1000, "{link} GB/s: {ended} ps, not {expected}");
    }
}

#[test]
fn steps_cost_what_the_protocol_costs() {
    // m chunks with a begin of 2 us and an end of 1 us each, of 1000 B (0.1 us): 3.1 us a chunk at the sender, one after the other.
    let Chain { mut kernels, fifos } = chain(2, 100, Span::ZERO, 8);
    let steps = pace(Span::from_us(2), Span::from_us(1));
    let sent = kernels.launch(0, Time::ZERO, vec![moves(steps, None, Some(fifos[0]), 5, 1000)]);
    kernels.launch(1, Time::ZERO, vec![moves(FREE, Some(fifos[0]), None, 5, 1000)]);
    finish(&mut kernels);
    assert_eq!(kernels.ended(0, sent), Some(Time::from_ps(5 * 3_100_000)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// However many chunks, GPUs and slots: all arrive, no slot is lost, and more slots or less latency never take longer.
    #[test]
    fn pipelines_end(gpus in 2u32..6, chunks in 1u32..20, kib in 1u64..512, ns in 0u64..5000, slots in 1u32..9) {
        let bytes = kib * 1000;
        let end = broadcast(gpus, chunks, bytes, Span::from_ns(ns), slots);
        let copy = Rate::from_bps(10 * GB).time(Bytes(bytes));
        prop_assert!(end >= Time::ZERO + copy * u64::from(chunks + gpus - 2) + Span::from_ns(ns) * u64::from(gpus - 1));
        prop_assert!(broadcast(gpus, chunks, bytes, Span::from_ns(ns), slots + 1) <= end);
        prop_assert!(broadcast(gpus, chunks, bytes, Span::ZERO, slots) <= end);
    }

    /// A FIFO is a queue with as many slots as it was made with: against a list of what is in it.
    #[test]
    fn slots_are_conserved(slots in 1u32..12, acts in prop::collection::vec((0u8..3, 1u32..4), 0..80)) {
        let path = FifoPath { latency: Span::from_ns(10), back: Span::from_ns(20), ..FifoPath::default() };
        let mut fifo = Fifo::new(path, slots, FifoEnd::Block, FifoEnd::Proxy(3));
        let (mut queue, mut taken, mut next) = (std::collections::VecDeque::new(), Vec::new(), 0u64);
        for (act, size) in acts {
            let occupied: u32 = queue.iter().chain(&taken).map(|(_, slots)| slots).sum();
            match act {
                0 if occupied + size <= slots => {
                    prop_assert!(fifo.room(size).is_some(), "{} of {} slots are taken, {} are asked for", occupied, slots, size);
                    fifo.occupy(size);
                    let seen = fifo.fill(Time::from_ps(next), Bytes(next), size, next);
                    prop_assert_eq!(seen, Time::from_ps(next) + Span::from_ns(10));
                    queue.push_back((next, size));
                    next += 1;
                }
                0 => prop_assert_eq!(fifo.room(size), None),
                1 => {
                    let (front, expected) = (fifo.take(), queue.pop_front());
                    prop_assert_eq!(front.map(|filled| (filled.contents, filled.slots)), expected);
                    taken.extend(expected);
                }
                _ => {
                    if let Some((_, size)) = taken.pop() {
                        prop_assert_eq!(fifo.release(Time::from_ps(next), size), Time::from_ps(next) + Span::from_ns(20));
                    }
                }
            }
            prop_assert_eq!(fifo.front().map(|filled| filled.contents), queue.front().map(|(number, _)| *number));
            prop_assert_eq!(fifo.is_empty(), queue.is_empty() && taken.is_empty());
        }
    }
}
