//! Laws of collective operations: longer messages take longer, more ranks take longer, no link is faster than it is.

use crate::gpus;
use fabriscope_machine::{Access, Purpose};
use fabriscope_nccl::{Algorithm, Operation, Protocol, Tuner};
use fabriscope_nccl_runtime::Exchange;
use fabriscope_units::{Bytes, Span};
use gpus::{Collective, Machine, collective, group, ring};
use proptest::prelude::*;

/// What a GPU's links to the switch carry one way, in bytes per microsecond.
fn link(machine: &Machine) -> f64 {
    let node = machine.library.machine();
    let memory = |index: usize| node.memory_of(node.gpus()[index]).unwrap();
    let path = node.path(memory(0), memory(1), Purpose::Copy).unwrap();
    path.rate(node, Access::Write).as_bps() as f64 / 8e6
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    /// With channels and protocol held, four times the elements never take less time.
    #[test]
    fn more_elements_take_longer(count in 64u64..300_000, protocol in prop::sample::select(Protocol::ALL.to_vec())) {
        let machine = Machine::of("azure-nda100v4", 1, 4).with("NCCL_MIN_NCHANNELS", 4).with("NCCL_MAX_NCHANNELS", 4);
        let of = |count| collective(&machine, ring(Operation::AllReduce, protocol, count)).slowest();
        prop_assert!(of(count) <= of(4 * count), "{} elements", count);
    }

    /// A ring all-reduce moves 2 (n − 1) / n of the message over the link of each GPU, and a message one way the whole.
    #[test]
    fn no_operation_is_faster_than_the_links(count in 1u64 << 12..1 << 20, gpus in 2u32..9) {
        let machine = Machine::of("azure-nda100v4", 1, gpus);
        let seen = collective(&machine, ring(Operation::AllReduce, Protocol::Simple, count));
        let least = 4.0 * count as f64 * 2.0 * f64::from(gpus - 1) / f64::from(gpus) / link(&machine);
        prop_assert!(seen.slowest().as_us_f64() > least, "{} in less than {} us", seen.slowest(), least);
        let message = group(&machine, |rank, _| match rank {
            0 => vec![Exchange::send(1, Bytes(4 * count))],
            1 => vec![Exchange::receive(0, Bytes(4 * count))],
            _ => Vec::new(),
        });
        let taken = message.unwrap().hosts[1].as_us_f64();
        prop_assert!(taken > 4.0 * count as f64 / link(&machine), "{} us", taken);
    }
}

#[test]
fn more_gpus_take_longer_in_a_ring() {
    // Steps of a short message: 2 (n − 1); each adds what a step takes.
    let taken = |gpus| collective(&Machine::of("azure-nda100v4", 1, gpus), ring(Operation::AllReduce, Protocol::Ll, 256)).slowest();
    let table: Vec<Span> = [2, 3, 4, 6, 8].map(taken).to_vec();
    assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{table:?}");
    // From 2 to 8 GPUs there are 2 and 14 steps: what three times four steps add is as much each time, to a tenth.
    let (first, second) = (table[2] - table[0], table[4] - table[2]);
    let ratio = second.as_us_f64() / first.as_us_f64();
    assert!((1.6..2.4).contains(&ratio), "8 steps more take {second}, 4 more {first}");
}

#[test]
fn trees_are_shorter_than_rings_between_many_nodes() {
    // Short messages on 8 nodes with one GPU each: a ring has 14 steps between nodes, a double binary tree at most 3 up and 3 down.
    let machine = Machine::of("azure-nda100v4", 8, 1);
    let case = ring(Operation::AllReduce, Protocol::Ll, 256);
    let (around, up_and_down) = (collective(&machine, case), collective(&machine, Collective { algorithm: Algorithm::Tree, ..case }));
    assert!(up_and_down.slowest() < around.slowest(), "{} by tree, {} by ring", up_and_down.slowest(), around.slowest());
    assert!(up_and_down.slowest() * 2 > around.slowest() * 6 / 14, "a tree has its steps as well");
}

#[test]
fn the_switch_of_the_links_saves_half_of_the_bytes() {
    // NVLS: each GPU sends its message once to the switch and gets the sum once, (n + 1) / n of it over each direction with what heads
    // spread; a ring sends 2 (n − 1) / n. For 8 GPUs: 1.125 against 1.75. The switch cannot use the whole link, so less than their ratio.
    let machine = Machine::of("azure-ndh100v5", 1, 8);
    let case = ring(Operation::AllReduce, Protocol::Simple, 1 << 24);
    let (around, switch) =
        (collective(&machine, case).slowest(), collective(&machine, Collective { algorithm: Algorithm::Nvls, ..case }).slowest());
    let ratio = around.as_us_f64() / switch.as_us_f64();
    assert!(ratio > 1.1 && ratio < 1.75 / 1.125, "{around} by ring, {switch} by the switch");
}

#[test]
fn the_switch_of_the_links_is_bound_by_the_links_for_any_number_of_gpus() {
    // Each byte of the message leaves every GPU once for a sum, and one of n again for all: S (1 + 1 / n) over each link, so S / t is
    // n / (n + 1) of a rate that does not depend on n. NVIDIA/nccl issue 1455 has 258, 265, 270 and 273 GB/s with 5 to 8 GPUs.
    let rate = |gpus: u32| {
        let case = Collective { algorithm: Algorithm::Nvls, ..ring(Operation::AllReduce, Protocol::Simple, 1 << 26) };
        let taken = collective(&Machine::of("azure-ndh100v5", 1, gpus), case).slowest().as_us_f64();
        (f64::from(4u32 << 26) / taken / 1e3, f64::from(gpus))
    };
    let rates = [4, 6, 8].map(rate);
    let of_links: Vec<f64> = rates.iter().map(|(rate, gpus)| rate * (gpus + 1.0) / gpus).collect();
    let most = of_links.iter().copied().fold(0.0, f64::max);
    assert!(of_links.iter().all(|rate| *rate > 0.9 * most), "{rates:?}");
}

#[test]
fn short_messages_take_as_long_as_their_steps() {
    // Threads carry a line each, so up to 8 B for each of 512 threads, 24 channels and 8 ranks the library adds channels and no time:
    // H100 nodes take 18.7 us at 32 KiB and 20.4 us at 512 KiB (kvcache-ai/Mooncake pull request 3484).
    let machine = Machine::of("azure-ndh100v5", 1, 8);
    let taken = |bytes: u64| collective(&machine, ring(Operation::AllReduce, Protocol::Ll, bytes / 4)).slowest().as_us_f64();
    let (short, long) = (taken(32 << 10), taken(512 << 10));
    assert!(long < 1.2 * short, "{short} us for 32 KiB, {long} us for 512 KiB");
}

#[test]
fn times_rise_with_the_size_and_the_choice_is_never_far_off() {
    times_rise_with_the_size(4);
}

#[test]
#[ignore = "a quarter of a minute: twice as many sizes"]
fn times_rise_with_every_size() {
    times_rise_with_the_size(2);
}

/// `octaves` between two sizes.
fn times_rise_with_the_size(octaves: usize) {
    // What the library takes by its own estimates, from 1 KiB to 64 MiB: the time does not fall by more than a tenth where it changes
    // its mind, and no algorithm that it knows is faster than half of it.
    for (cluster, gpus) in [("azure-nda100v4", 8), ("azure-ndh100v5", 8), ("lab-gb200-nvl72", 8), ("lumi-g", 8)] {
        let machine = Machine::of(cluster, 1, gpus);
        let tuner = Tuner::new(machine.world().plan());
        let mut before = 0.0;
        for bytes in (10..=26).step_by(octaves).map(|power| 1u64 << power) {
            let case = |algorithm, protocol| Collective { algorithm, ..ring(Operation::AllReduce, protocol, bytes / 4) };
            let choice = tuner.choose(Operation::AllReduce, Bytes(bytes)).unwrap();
            let taken = collective(&machine, case(choice.algorithm, choice.protocol)).slowest().as_us_f64();
            assert!(taken > 0.9 * before, "{cluster}, {bytes} B: {taken} us, and {before} us for less of it");
            before = taken;
            for (algorithm, protocol) in
                Algorithm::ALL.into_iter().flat_map(|algorithm| Protocol::ALL.map(|protocol| (algorithm, protocol)))
            {
                if tuner.entry(Operation::AllReduce, algorithm, protocol).is_some() {
                    let other = collective(&machine, case(algorithm, protocol)).slowest().as_us_f64();
                    let said = format!("{} {} in {taken} us, {algorithm} {protocol} in {other} us", choice.algorithm, choice.protocol);
                    assert!(taken < 2.0 * other, "{cluster}, {bytes} B: {said}");
                }
            }
        }
    }
}

#[test]
fn blocks_divide_the_time_of_what_divides() {
    // All-gather and reduce-scatter of blocks of S / n move (n − 1) / n S: half of what an all-reduce of S moves. Where bytes bind, they take
    // half as long; reductions read one operand more, which the links do not see.
    let machine = Machine::of("azure-nda100v4", 1, 8);
    let whole = collective(&machine, ring(Operation::AllReduce, Protocol::Simple, 1 << 24)).slowest().as_us_f64();
    for operation in [Operation::AllGather, Operation::ReduceScatter] {
        let half = collective(&machine, ring(operation, Protocol::Simple, 1 << 21)).slowest().as_us_f64();
        assert!((0.45..0.6).contains(&(half / whole)), "{operation:?}: {half} of {whole} us");
    }
}
