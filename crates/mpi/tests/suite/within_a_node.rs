//! Messages through the memory of a node: what a copy, a line, a page and a call cost, and how often each of them counts.
//!
//! One node of RI2 with MVAPICH2, two ranks on one socket. A number is raised, and the one-way latency rises by as often as the mechanism has
//! that step.

use crate::job;
use crate::machine;
use fabriscope_catalog::{Mpi, ResolvedCluster};
use fabriscope_mpi::Rank;
use fabriscope_units::{Bytes, Rate, Span};
use job::Notes;
use proptest::prelude::*;

fn node() -> ResolvedCluster {
    machine::ri2(1, 1)
}

fn latency(parts: &ResolvedCluster, size: u32) -> Span {
    job::ping(parts, (1, 2), size)
}

/// How much longer a message takes with a library that `change` has changed.
fn rise(size: u32, change: impl Fn(&mut Mpi)) -> u64 {
    let mut changed = node();
    change(job::library(&mut changed));
    latency(&changed, size).saturating_sub(latency(&node(), size)).as_ps()
}

/// `times` spans of `each`, to a turn of the progress loop (0.15 us).
fn near(found: u64, each: Span, times: u64) -> bool {
    found.abs_diff(each.as_ps() * times) < 150_000
}

const MORE: Span = Span::from_us(1);

#[test]
fn a_single_copy_costs_a_call_and_its_pages() {
    // CMA above 32 KiB: the receiver calls the kernel once and pins ⌈size / 4096⌉ pages; 1 us more of each is 1 us, and 100 ns more of a page
    // is 100 ns for each of the pages. Below, neither is there.
    for (size, pages) in [(40_000u32, 10u64), (65_536, 16), (65_537, 17), (1 << 20, 256)] {
        let call = rise(size, |mpi| mpi.shared_memory.as_mut().unwrap().cma.as_mut().unwrap().call.value += MORE);
        assert!(near(call, MORE, 1), "{size} B: {call} ps");
        let page = Span::from_ns(100);
        let pinned = rise(size, |mpi| mpi.shared_memory.as_mut().unwrap().cma.as_mut().unwrap().page.value += page);
        assert!(near(pinned, page, pages), "{size} B: {pinned} ps for {pages} pages");
    }
    let below = rise(32_768, |mpi| mpi.shared_memory.as_mut().unwrap().cma.as_mut().unwrap().call.value += MORE);
    assert_eq!(below, 0);
}

#[test]
fn each_side_fetches_the_lines_of_a_message() {
    // `lines` lines of the queue at each end, each of them `detect` (60 ns) away: 10 more are 600 ns at the sender, before the receiver sees
    // anything, and 600 ns at the receiver.
    let longer = rise(8, |mpi| mpi.shared_memory.as_mut().unwrap().lines.value += 10);
    assert!(near(longer, Span::from_ns(60), 20), "{longer} ps");
}

#[test]
fn what_fits_the_line_of_its_message_comes_with_it() {
    // 16 B travel in the line that the receiver waits for; a 17th byte is in another one, which the other core had last: both sides fetch it,
    // 60 ns each.
    let (inside, outside) = (latency(&node(), 16), latency(&node(), 17));
    let more = outside.saturating_sub(inside);
    assert!(more >= Span::from_ns(60) && more <= Span::from_ns(180), "{inside} and {outside}");
    let wide = rise(17, |mpi| mpi.shared_memory.as_mut().unwrap().inline.value = Bytes(32));
    assert_eq!(wide, 0, "a wider line is no slower");
}

#[test]
fn one_copy_beats_two_where_messages_are_long() {
    // 4 MiB: the receiver alone copies it (CMA), or both copy in chunks that overlap: with chunks the message is through after a chunk more
    // than one copy, and the second one hides. Without overlap it would be twice the time. A copy of 4 MiB at 10 to 16 GB/s is 262 to
    // 419 us; pages cost 1024 · 50 ns = 51 us with CMA.
    let once = latency(&node(), 4 << 20);
    let copy = |rate: Rate| rate.time(Bytes(4 << 20)).as_us_f64();
    let cpu = node().sole().node.cpu.clone();
    let fastest = copy(*cpu.copy_rate_long) + 51.2;
    assert!(once.as_us_f64() > fastest && once.as_us_f64() < fastest * 1.05 + 2.0, "{once}, {fastest} us are expected");
}

#[test]
fn a_node_is_nearer_than_a_network() {
    // Two lines of 60 ns against two buses, two adapters of 210 ns twice and a switch.
    for size in [0, 8, 1024, 8192] {
        let (here, there) = (latency(&node(), size), job::ping(&machine::parts("ri2"), (2, 1), size));
        assert!(here < there, "{size} B: {here} here, {there} there");
    }
}

#[test]
fn an_eager_message_ends_without_its_receiver() {
    // Copied into shared memory: the sender goes on. Above the limit, the receiver has to copy before the sender's buffer is free.
    for (size, waits) in [(8, false), (32_768, false), (32_769, true), (1 << 20, true)] {
        let notes = Notes::default();
        let times = notes.clone();
        job::ranks(&node(), (1, 2), move |rank: Rank| {
            let times = times.clone();
            async move {
                rank.synchronise().await?;
                let begun = rank.now();
                if rank.rank() == 0 {
                    rank.send(1, 0, size).await?;
                    times.add(rank.now().since(begun));
                } else {
                    rank.sleep_until(begun + Span::from_us(2000)).await;
                    rank.recv(Some(0), Some(0), size).await?;
                }
                rank.synchronise().await
            }
        })
        .unwrap();
        let taken = notes.take()[0];
        assert_eq!(taken > Span::from_us(2000), waits, "{size} B: {taken}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// Within one protocol a longer message never arrives earlier.
    #[test]
    fn longer_messages_take_longer(size in 0u32..30_000, more in 1u32..2000, long in any::<bool>()) {
        let size = if long { size + 40_000 } else { size };
        let parts = node();
        prop_assert!(latency(&parts, size) <= latency(&parts, size + more));
    }
}
