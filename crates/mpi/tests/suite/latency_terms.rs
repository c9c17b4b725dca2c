//! What a message waits for, and how often: one number of the parts is raised by 1 us, and the one-way latency of a ping rises by as many
//! microseconds as the protocol has steps of that kind on its critical path.
//!
//! RI2, two nodes with one switch between, MVAPICH2 with the protocol that a case asks for.

use crate::job;
use crate::machine;
use fabriscope_catalog::{EagerChannel, Length, Rendezvous, ResolvedCluster};
use fabriscope_units::{Bytes, Span};

const MORE: Span = Span::from_us(1);

/// How much longer a ping takes when `change` has been made, in picoseconds.
fn rise(parts: &ResolvedCluster, size: u32, change: impl Fn(&mut ResolvedCluster)) -> u64 {
    let mut changed = parts.clone();
    change(&mut changed);
    let (before, after) = (job::ping(parts, (2, 1), size), job::ping(&changed, (2, 1), size));
    after.saturating_sub(before).as_ps()
}

/// Crossings of the network on the critical path: the switch takes 1 us longer.
fn crossings(parts: &ResolvedCluster, size: u32) -> u64 {
    rise(parts, size, |parts| parts.switch.as_mut().unwrap().latency.value += MORE)
}

/// What is close to a whole number of microseconds: cores look at times that are multiples of a turn, so steps may shift by one.
fn whole(ps: u64) -> u64 {
    let us = (ps + 500_000) / 1_000_000;
    assert!(ps.abs_diff(us * 1_000_000) < 150_000, "{ps} ps is no whole number of microseconds");
    us
}

fn library(change: impl Fn(&mut fabriscope_catalog::Mpi)) -> ResolvedCluster {
    let mut parts = machine::parts("ri2");
    change(job::library(&mut parts));
    parts
}

#[test]
fn an_eager_message_crosses_the_network_once() {
    // Copied into a buffer, written or sent there, copied out: nothing goes back before the receiver has it, whichever channel carries it.
    for channel in [EagerChannel::RdmaWrite, EagerChannel::Send] {
        let parts = library(|mpi| mpi.eager_channel = channel);
        for size in [0, 8, 4096, 16_000] {
            assert_eq!(whole(crossings(&parts, size)), 1, "{channel:?}, {size} B");
        }
    }
}

#[test]
fn a_rendezvous_adds_a_round_trip() {
    // By write: request to send, clear to send, data. By read: request to send, read request, read response. By send: as by write. The end of
    // either is told by a message that the next ping does not wait for, where the receiver knows the end by itself: by read and by send.
    // By write the receiver learns the end from FIN, which follows the data at once.
    for rendezvous in [Rendezvous::Write, Rendezvous::Read, Rendezvous::Send] {
        let parts = library(|mpi| mpi.rendezvous = rendezvous);
        for size in [20_000, 100_000] {
            assert_eq!(whole(crossings(&parts, size)), 3, "{rendezvous:?}, {size} B");
        }
    }
}

#[test]
fn the_limit_decides_between_them() {
    // The largest eager message is one of `eager_limit` bytes; a byte more, and there are two crossings more.
    let limit = |bytes: u64| {
        library(|mpi| {
            mpi.eager_limit.value = Bytes(bytes);
            mpi.eager_copy_limit.value = Bytes(bytes);
        })
    };
    for bytes in [1000, 10_000] {
        let parts = limit(bytes);
        assert_eq!(whole(crossings(&parts, bytes as u32)), 1, "at the limit of {bytes} B");
        assert_eq!(whole(crossings(&parts, bytes as u32 + 1)), 3, "above the limit of {bytes} B");
    }
}

#[test]
fn cables_count_as_often_as_switches() {
    // Every crossing takes the cable to the switch and the one from it: 100 m more of each at 5 ns/m (copper) are 1 us more for a crossing.
    for (size, expected) in [(8, 1), (100_000, 3)] {
        let parts = machine::parts("ri2");
        let metre = parts.cable.propagation_per_metre.as_ps();
        let longer = rise(&parts, size, |parts| parts.sole_mut().host_length.value = Length::from_mm(102_000));
        assert_eq!(longer, expected * 200 * metre, "{size} B");
    }
}

#[test]
fn overheads_of_the_core_count_once_for_each_call() {
    // One send and one receive are on the way of a ping. A rendezvous has them too; what each side does for it besides is charged at
    // both: the receiver's before it answers, the sender's before it announces.
    for size in [8, 4096, 100_000] {
        let parts = machine::parts("ri2");
        let sends = rise(&parts, size, |parts| job::library(parts).send_overhead.value += MORE);
        assert_eq!(whole(sends), 1, "sending {size} B");
        let receives = rise(&parts, size, |parts| job::library(parts).recv_overhead.value += MORE);
        assert_eq!(whole(receives), 1, "receiving {size} B");
        let meetings = rise(&parts, size, |parts| job::library(parts).rendezvous_overhead.value += MORE);
        assert_eq!(whole(meetings), if size > 16_336 { 2 } else { 0 }, "meeting for {size} B");
    }
}

#[test]
fn a_header_takes_its_room_on_the_wire_and_nothing_else() {
    // 48 B of header more in front of 4096 B. They are on the host link, the wire to the switch and that from it; cut-through and pipelined
    // over the bus the slowest of these counts, and at least the wire's 48 B at 100 Gb/s, 3.84 ns; at most all of them one after another,
    // with two copies by cores: 48 B at 5 GB/s twice, thrice the wire, two buses at 50 Gb/s with 24 B of TLP overhead each.
    let parts = machine::parts("ri2");
    let longer = rise(&parts, 4000, |parts| job::library(parts).header.value = Bytes(96));
    let (wire, bus, copy) = (48.0 * 8.0 / 100.0, 72.0 * 8.0 / 50.0, 48.0 / 5.0);
    let most = 3.0 * wire + 2.0 * bus + 2.0 * copy;
    assert!(longer as f64 >= wire * 1000.0 && (longer as f64) < most * 1000.0, "{longer} ps, not {wire} to {most} ns");
}
