//! What an operation waits for, and how often: a number of the library is raised, and the time rises by as often as it is on the way.

use crate::gpus;
use fabriscope_nccl::{Operation, Protocol};
use fabriscope_nccl_runtime::Exchange;
use fabriscope_units::{Bytes, Span};
use gpus::{Machine, collective, group, ring};

const MORE: Span = Span::from_us(10);

/// How much longer a short all-reduce takes with a library that `change` has changed, in picoseconds.
fn rise(machine: &Machine, change: impl Fn(&mut Machine)) -> u64 {
    let mut changed = machine.clone();
    change(&mut changed);
    let case = ring(Operation::AllReduce, Protocol::Ll, 64);
    collective(&changed, case).slowest().saturating_sub(collective(machine, case).slowest()).as_ps()
}

#[test]
fn a_call_its_kernel_and_its_end_count_once() {
    // The host calls, the kernel starts, the host sees the end: once each, within a node and between nodes.
    for (nodes, per_node) in [(1, 8), (2, 1)] {
        let machine = Machine::of("azure-nda100v4", nodes, per_node);
        let near = |ps: u64| ps.abs_diff(MORE.as_ps()) < 100_000;
        let call = rise(&machine, |machine| machine.library.call += MORE);
        let start = rise(&machine, |machine| machine.library.kernel_start += MORE);
        let end = rise(&machine, |machine| machine.library.synchronise += MORE);
        assert!(near(call) && near(start) && near(end), "{nodes} nodes: {call}, {start} and {end} ps");
    }
}

#[test]
fn proxies_count_between_nodes_alone() {
    // Within a node no proxy has part. Between two nodes with one GPU each an all-reduce is two messages one after the other: half of the data
    // to be added, and half of the sum. The plugin sends each of them at one end and finds it at the other: four calls on the way.
    let within = Machine::of("azure-nda100v4", 1, 8);
    assert_eq!(rise(&within, |machine| machine.library.proxy_step += MORE), 0);
    assert_eq!(rise(&within, |machine| machine.library.plugin += MORE), 0);
    let between = Machine::of("azure-nda100v4", 2, 1);
    let calls = rise(&between, |machine| machine.library.plugin += MORE);
    assert!(calls.abs_diff(4 * MORE.as_ps()) < 500_000, "{calls} ps");
    // A proxy has a step for each of these, and it is one thread: what it does beside, such as giving slots back, may come before one of
    // them, once for each message at the most.
    let steps = rise(&between, |machine| machine.library.proxy_step += MORE);
    assert!(steps >= calls && steps <= 6 * MORE.as_ps() + 500_000, "{steps} ps");
}

#[test]
fn a_longer_ring_has_more_steps() {
    // LL of 64 elements on n GPUs. Each rank sends its own, reduces and passes on n − 2 chunks, reduces and passes on the last, passes on n − 2
    // sums and keeps the last one: 2 n − 1 steps, each of which begins when the one before it has come. With 10 us more for each beginning the
    // operation takes 10 (2 n − 1) us more.
    for gpus in [2u32, 4, 8] {
        let machine = Machine::of("azure-nda100v4", 1, gpus);
        let longer = rise(&machine, |machine| {
            let part = machine.parts.sole_mut().nccl.as_mut().unwrap().nccl.as_mut().unwrap();
            part.ll.begin.value += MORE;
            machine.library = fabriscope_platform::nccl::Library::of(&machine.parts).unwrap();
        });
        let expected = u64::from(2 * gpus - 1) * MORE.as_ps();
        assert!(longer.abs_diff(expected) < 500_000, "{gpus} GPUs: {longer} ps, not {expected}");
    }
}

#[test]
fn protocols_pay_for_latency_or_for_bytes() {
    // 64 elements: LL has no fences and its flags come with the data, LL128 about the same, Simple waits for a fence at each step. 16 Mi
    // elements: LL sends two bytes for one, LL128 sixteen for fifteen, Simple one for one.
    let machine = Machine::of("azure-nda100v4", 1, 8);
    let of = |count: u64| Protocol::ALL.map(|protocol| collective(&machine, ring(Operation::AllReduce, protocol, count)).slowest());
    let [ll, ll128, simple] = of(64);
    assert!(ll < simple && ll128 < simple, "{ll}, {ll128} and {simple}");
    let [ll, ll128, simple] = of(1 << 24);
    assert!(simple < ll128.max(ll) && ll128 < ll, "{ll}, {ll128} and {simple}");
    let ratio = ll.as_us_f64() / simple.as_us_f64();
    assert!(ratio > 1.6, "{ll} and {simple}");
}

#[test]
fn one_channel_moves_what_its_block_moves() {
    // One channel: one block for each GPU, which moves `pace.rate`. A ring all-reduce of S moves 2 (n − 1) / n S through each block. It
    // takes no less, and twice the channels take half as long until the links bind.
    let (count, gpus) = (1u64 << 23, 4u32);
    let with = |channels: u32| {
        let machine = Machine::of("azure-nda100v4", 1, gpus).with("NCCL_MIN_NCHANNELS", channels).with("NCCL_MAX_NCHANNELS", channels);
        let seen = collective(&machine, ring(Operation::AllReduce, Protocol::Simple, count));
        assert_eq!(seen.channels, channels as usize);
        (seen.slowest().as_us_f64(), machine.library.pace(Protocol::Simple).rate)
    };
    let (one, rate) = with(1);
    let moved = Bytes(2 * 3 * 4 * count / 4);
    let least = rate.time(moved).as_us_f64();
    assert!(one >= least && one < 1.35 * least, "{one} us, at least {least}");
    let (two, _) = with(2);
    assert!((1.8..2.05).contains(&(one / two)), "{one} and {two} us");
}

#[test]
fn sends_and_receives_of_a_group_go_at_a_time() {
    // Rank 0 sends 8 MB to rank 1 and gets 8 MB from it. Links are duplex and each message has blocks of its own: both take little longer
    // than one alone (blocks share what a GPU's memory moves), and far from twice as long.
    let machine = Machine::of("azure-nda100v4", 1, 2);
    let bytes = Bytes(8_000_000);
    let one = group(&machine, |rank, _| vec![if rank == 0 { Exchange::send(1, bytes) } else { Exchange::receive(0, bytes) }]).unwrap();
    let both = group(&machine, |rank, _| vec![Exchange::send(1 - rank, bytes), Exchange::receive(1 - rank, bytes)]).unwrap();
    let ratio = both.slowest().as_us_f64() / one.slowest().as_us_f64();
    assert!((0.99..1.3).contains(&ratio), "{} and {}", one.slowest(), both.slowest());
}

#[test]
fn equal_ranks_end_together() {
    // All GPUs of a DGX are alike behind their switches: in a ring all-gather of one block each, no rank is a step ahead of another by more
    // than a tenth, and twice the same call takes the same time to the picosecond.
    let machine = Machine::of("azure-nda100v4", 1, 8);
    let case = ring(Operation::AllGather, Protocol::Simple, 1 << 18);
    let first = collective(&machine, case);
    let (least, most) = (first.hosts.iter().min().unwrap().as_us_f64(), first.slowest().as_us_f64());
    assert!(most < 1.1 * least, "{:?}", first.hosts);
    assert_eq!(first, collective(&machine, case));
}
