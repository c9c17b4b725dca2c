//! Collective operations on an idle network take what α and β say, to the picosecond.
//!
//! Every rank of a node of its own posts one message and receives one in each round, and nobody shares a link with anybody. A round of
//! m bytes over k links then takes
//!
//! ```text
//!   step(m, k) = α(k) + W(m) / C
//!   α(k)       = rung + fetch of the first packet + tx                              before the first byte
//!              + k · cable + (k − 1) · switch                                       the way
//!              + max( rx + write + completion,  rx + tx + ACK + rx + completion + the way back ) + detection
//! ```
//!
//! with W(m) bytes on the wire at C bytes a second, for whole packets. All of it follows from the parts below, not from the engine.

use crate::agrees;
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Engine, Folding, Job, RunOptions, timing};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_fabric::Routing;
use fabriscope_node::Pcie;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::Opcode;

fn cluster(target: &str) -> Cluster {
    agrees::cluster(target, Routing::DModK)
}

/// Times of one round, from the parts.
struct Step<'c>(&'c Cluster);

impl Step<'_> {
    /// Until the receiver has the message, and until the sender knows; over `links` links.
    fn sides(&self, bytes: u64, links: u64) -> (Span, Span) {
        let parts = &self.0.parts;
        let (cpu, nic, layer) = (timing::cpu(parts), &parts.sole().node.nic, parts.link_layer.wire());
        let link = self.0.fabric.graph.links()[0];
        let (mtu, bus) = (parts.mtu.0, timing::pcie(parts));
        assert!(bytes.is_multiple_of(mtu), "whole packets");
        // A work request of one segment of 64 bytes is pushed by the core, or fetched.
        let fetched = if timing::doorbell(parts).pushes(1, Bytes(64), false) {
            Span::ZERO
        } else {
            bus.read_latency + bus.completion_time(Bytes(64))
        };
        let posted = cpu.wqe_build + cpu.mmio_latency + fetched;
        let first = if bytes == 0 { Span::ZERO } else { Pcie::new(bus).read(Time::ZERO, Bytes(mtu), Span::ZERO) - Time::ZERO };
        let on_wire = if bytes == 0 {
            u64::from(layer.wire_bytes(Opcode::RC_WRITE_LAST, 0))
        } else {
            bytes / mtu * u64::from(layer.wire_bytes(Opcode::RC_WRITE_MIDDLE, mtu as u32))
        };
        let sent = posted + first + nic.tx_latency.value + link.rate.time(Bytes(on_wire));
        let way = link.delay * links + parts.switch.as_ref().unwrap().latency.value * (links - 1);
        let mut port = Pcie::new(bus);
        let (after, landed) = if bytes == 0 {
            (Time::ZERO, Time::ZERO)
        } else {
            let written = port.write(Time::ZERO, Bytes(mtu));
            (written.sent, written.visible)
        };
        let completion = (port.write(after, nic.cqe_size.value).visible + nic.recv_latency.value).max(landed) - Time::ZERO;
        let received = sent + way + nic.rx_latency.value + completion + cpu.detect;
        let acknowledgement = link.rate.time(Bytes(u64::from(layer.wire_bytes(Opcode::RC_ACKNOWLEDGE, 0))));
        let told = Pcie::new(bus).write(Time::ZERO, nic.cqe_size.value).visible - Time::ZERO;
        let back = nic.rx_latency.value * 2 + nic.tx_latency.value + acknowledgement + way;
        (received, sent + way + back + told + cpu.detect)
    }
    fn time(&self, bytes: u64, links: u64) -> Span {
        let (received, told) = self.sides(bytes, links);
        received.max(told)
    }
}

fn run(cluster: &Cluster, call: &Call, name: &str, folding: Folding) -> Span {
    let algorithm = Algorithm::named(call.operation, name).unwrap();
    let job = Job::rounds((*call, algorithm), 1, folding);
    FlowEngine.run(cluster, job, &RunOptions::default(), 1).unwrap().end - Time::ZERO
}

fn call(operation: Kind, ranks: u32, size: u64) -> Call {
    Call { operation, ranks, per_node: 1, root: 0, size: Bytes(size), width: Bytes(4) }
}

/// The same but for rounding up to a picosecond at the end of each message.
fn same(found: Span, expected: Span, rounds: u64, what: &str) {
    assert!(found.as_ps().abs_diff(expected.as_ps()) <= rounds, "{what}: {found}, expected {expected}");
}

const PACKET: u64 = 4096;

/// One switch, any number of ranks: two links between any two.
#[test]
fn alpha_and_beta_on_one_switch() {
    let cluster = cluster("lab-16");
    let step = Step(&cluster);
    let time = |bytes| step.time(bytes, 2);
    let sum = |spans: &mut dyn Iterator<Item = Span>| spans.fold(Span::ZERO, |sum, span| sum + span);
    for folding in [Folding::Never, Folding::Always] {
        for n in [2u64, 3, 5, 7, 8, 12, 16] {
            let of = |operation, name, size| run(&cluster, &call(operation, n as u32, size), name, folding);
            let levels = u64::from(n.next_power_of_two().trailing_zeros());
            let m = 12 * PACKET;
            // n − 1 blocks go round for the sums and n − 1 for the results: 2 (n − 1) (α + W(m / n) / C).
            same(of(Kind::Allreduce, "ring", m * n), time(m) * (2 * (n - 1)), 2 * n, "ring");
            same(of(Kind::Allgather, "ring", m), time(m) * (n - 1), n, "allgather, ring");
            same(of(Kind::Alltoall, "pairwise", m), time(m) * (n - 1), n, "pairwise");
            same(of(Kind::Barrier, "dissemination", 0), time(0) * levels, 0, "dissemination");
            // The root sends to subtrees of half, a quarter … of all, one after the other; who has got it does so with its own.
            let (received, told) = step.sides(m, 2);
            same(of(Kind::Bcast, "binomial", m), binomial(n, received, told), levels + 1, "binomial");
            if !n.is_power_of_two() {
                continue;
            }
            let big = m * n;
            same(of(Kind::Allreduce, "recursive_doubling", big), time(big) * levels, levels, "recursive doubling");
            // Half, a quarter … of the vector on the way down, the same on the way up.
            let halves = sum(&mut (1..=levels).map(|level| time(big >> level) * 2));
            same(of(Kind::Allreduce, "rabenseifner", big), halves, 2 * levels, "Rabenseifner");
            same(of(Kind::Allgather, "bruck", m), sum(&mut (0..levels).map(|level| time(m << level))), levels, "allgather, Bruck");
            // Half of the n blocks in each round.
            same(of(Kind::Alltoall, "bruck", m), time(m * n / 2) * levels, levels, "alltoall, Bruck");
        }
    }
}

/// When the last of `n` ranks of a binomial tree is done, if a message takes `received` and its sender goes on after `told`.
fn binomial(n: u64, received: Span, told: Span) -> Span {
    // Ranks first .. first + span, of which the first has the data at `at`.
    fn below(first: u64, span: u64, n: u64, at: Span, received: Span, told: Span) -> Span {
        let (mut now, mut half, mut last) = (at, span / 2, at);
        while half > 0 {
            if first + half < n {
                last = last.max(below(first + half, half, n, now + received, received, told));
                now += told;
            }
            half /= 2;
        }
        last.max(now)
    }
    below(0, n.next_power_of_two(), n, Span::ZERO, received, told)
}

/// Three levels of switches with static routing: in a round of exchanges all partners are equally far, and no two share a link.
#[test]
fn alpha_and_beta_on_a_fat_tree() {
    let cluster = cluster("lab-1024");
    let step = Step(&cluster);
    // Eight hosts below a switch, eight of those below a group of switches.
    let links = |distance: u64| match distance {
        0..8 => 2,
        8..64 => 4,
        _ => 6,
    };
    let n = 1024u64;
    let levels = 10;
    let big = PACKET * n;
    let of = |operation, name, size| run(&cluster, &call(operation, n as u32, size), name, Folding::Auto);
    let doubling = (0..levels).map(|level| step.time(big, links(1 << level))).fold(Span::ZERO, |sum, span| sum + span);
    same(of(Kind::Allreduce, "recursive_doubling", big), doubling, levels, "recursive doubling");
    // Half of the vector is exchanged with the next rank, a quarter with that two further on …, and the same backwards.
    let halves = (1..=levels).map(|level| step.time(big >> level, links(1 << (level - 1))) * 2).fold(Span::ZERO, |sum, span| sum + span);
    same(of(Kind::Allreduce, "rabenseifner", big), halves, 2 * levels, "Rabenseifner");
    let pairs = (1..n).map(|distance| step.time(PACKET, links(distance))).fold(Span::ZERO, |sum, span| sum + span);
    same(of(Kind::Alltoall, "pairwise", PACKET), pairs, n, "pairwise");
}

/// A ring sends 2 (n − 1) / n of the vector from every rank, which is the least that any all-reduce can send (Patarasuk, Yuan 2009):
/// what it takes beyond that on the wire is α for each step and the headers, and nothing else.
#[test]
fn a_ring_is_bandwidth_optimal() {
    let cluster = cluster("lab-16");
    let (step, n) = (Step(&cluster), 16u64);
    let rate = cluster.fabric.graph.links()[0].rate;
    let alpha = step.time(PACKET, 2).as_ps() - wire(&cluster, PACKET);
    for packets in [16u64, 256, 4096] {
        let m = packets * PACKET * n;
        let found = run(&cluster, &call(Kind::Allreduce, n as u32, m), "ring", Folding::Auto);
        let bound = rate.time(Bytes(2 * (n - 1) * m / n));
        assert!(found > bound, "{found}, bound {bound}");
        let headers = 2 * (n - 1) * wire(&cluster, m / n) - bound.as_ps();
        same(found, bound + Span::from_ps(headers + 2 * (n - 1) * alpha), 2 * n, "ring");
    }
}

/// Whole packets on the wire (ps).
fn wire(cluster: &Cluster, bytes: u64) -> u64 {
    let packet = cluster.parts.link_layer.wire().wire_bytes(Opcode::RC_WRITE_MIDDLE, PACKET as u32);
    cluster.fabric.graph.links()[0].rate.time(Bytes(bytes / PACKET * u64::from(packet))).as_ps()
}

/// Packets: a message of one packet meets nothing on its way either, so that each round takes what the first one takes.
#[test]
fn rounds_of_single_packets_are_equal_in_the_packet_engine() {
    let cluster = cluster("lab-16");
    let packets = |operation, name: &str, ranks: u32, size: u64| {
        let (call, algorithm) = (call(operation, ranks, size), Algorithm::named(operation, name).unwrap());
        let job = Job::rounds((call, algorithm), 1, Folding::Never);
        PacketEngine.run(&cluster, job, &RunOptions::default(), 1).unwrap().end - Time::ZERO
    };
    for (operation, name, size) in [(Kind::Barrier, "dissemination", 0), (Kind::Allreduce, "recursive_doubling", 512)] {
        let one = packets(operation, name, 2, size);
        for levels in 2..=4u64 {
            let found = packets(operation, name, 1 << levels, size);
            assert_eq!(found, one * levels, "{operation}, {} ranks", 1 << levels);
        }
    }
}
