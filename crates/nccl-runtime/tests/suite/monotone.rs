//! Laws of collective operations: longer messages take longer, more ranks take longer, no link is faster than it is.

use crate::gpus;
use fabriscope_machine::{Access, Purpose};
use fabriscope_nccl::{Algorithm, Operation, Protocol};
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
