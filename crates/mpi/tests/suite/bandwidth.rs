//! Streams of messages: no faster than the link and the bus, faster with longer messages, twice as fast over two adapters.

use crate::job;
use crate::machine;
use fabriscope_catalog::{RailPolicy, ResolvedCluster};
use fabriscope_mpi::Rank;
use fabriscope_units::{Bytes, Span};
use job::Notes;
use proptest::prelude::*;

/// From the first send to the last receive of `count` messages of `size` bytes, both sides posting all of them at once.
fn stream(parts: &ResolvedCluster, (count, size): (u32, u32), both: bool) -> Span {
    let notes = Notes::default();
    let times = notes.clone();
    job::ranks(parts, (2, 1), move |rank: Rank| {
        let times = times.clone();
        async move {
            // One message first, so that what is set up once is set up.
            for turn in [1, count] {
                rank.synchronise().await?;
                let (begun, peer) = (rank.now(), 1 - rank.rank());
                let mut requests = Vec::new();
                for _ in 0..turn {
                    if both || rank.rank() == 1 {
                        requests.push(rank.irecv(Some(peer), Some(0), size)?);
                    }
                    if both || rank.rank() == 0 {
                        requests.push(rank.isend(peer, 0, size)?);
                    }
                }
                rank.wait_all(requests).await?;
                times.add(rank.now().since(begun));
            }
            rank.synchronise().await
        }
    })
    .unwrap_or_else(|error| panic!("{count} of {size} B: {error}"));
    // Two of the four notes are of the first message; the longest is that of the stream.
    notes.take().into_iter().max().unwrap()
}

/// Payload in Gb/s.
fn rate((count, size): (u32, u32), taken: Span) -> f64 {
    f64::from(count) * f64::from(size) * 8.0 / taken.as_ns_f64()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn no_stream_is_faster_than_its_link(size in 1u32..400_000, count in 1u32..24) {
        // EDR: 100 Gb/s for packets of 4096 B payload in 4122 B.
        let parts = machine::parts("ri2");
        let most = 100.0 * 4096.0 / 4122.0;
        let measured = rate((count, size), stream(&parts, (count, size), false));
        prop_assert!(measured < most, "{} of {} Gb/s", measured, most);
    }

    #[test]
    fn more_messages_take_longer(size in 1u32..200_000, count in 1u32..16) {
        let parts = machine::parts("ri2");
        let (fewer, more) = (stream(&parts, (count, size), false), stream(&parts, (count + 4, size), false));
        prop_assert!(fewer < more, "{} of {} B take {}, four more {}", count, size, fewer, more);
    }
}

#[test]
fn long_messages_fill_the_link() {
    // 16 messages of 1 MiB. The bus of RI2 (PCIe 3.0 x16 with completions of 128 B) carries a little less than EDR: 108 B of payload in 128 B
    // at 113.7 Gb/s are 95.9 Gb/s. At least 95 % of it remain after the first round trip: 1.4 ms against some microseconds.
    let measured = rate((16, 1 << 20), stream(&machine::parts("ri2"), (16, 1 << 20), false));
    let bus = 113.7 * 108.0 / 128.0;
    assert!(measured > 0.95 * bus && measured < bus * 1.005, "{measured} of {bus} Gb/s");
}

#[test]
fn both_directions_share_no_link() {
    // Links and buses are duplex: twice the payload in nearly the same time. Headers, requests to read and acknowledgements of one direction
    // are the traffic of the other: an eighth at most.
    let parts = machine::parts("ri2");
    let (one, both) = (stream(&parts, (16, 1 << 20), false), stream(&parts, (16, 1 << 20), true));
    let ratio = both.as_us_f64() / one.as_us_f64();
    assert!((0.99..1.125).contains(&ratio), "{one} and {both}");
}

#[test]
fn two_adapters_carry_twice_as_much_where_messages_are_cut() {
    // Striped, each message of 1 MiB is on both links at a time. With one rail only the second adapter lies idle.
    let with = |nics: u32, rails: RailPolicy| {
        let mut parts = machine::ri2(2, nics);
        job::library(&mut parts).rails = rails;
        stream(&parts, (16, 1 << 20), false).as_us_f64()
    };
    let one = with(1, RailPolicy::Stripe);
    let two = with(2, RailPolicy::Stripe);
    assert!((1.85..=2.0).contains(&(one / two)), "{one} and {two} us");
    let first = with(2, RailPolicy::First);
    assert!((first / one - 1.0).abs() < 0.01, "{one} and {first} us");
}

#[test]
fn short_messages_are_bound_by_the_core() {
    // 256 messages of 8 B: each costs the sender's core its send overhead and a post at least. 1 us more of each, and the whole takes 256 us
    // more: nothing else has to be waited for, since a microsecond is longer than what the adapter takes for one.
    let parts = machine::parts("ri2");
    let mut slower = parts.clone();
    job::library(&mut slower).send_overhead.value += Span::from_us(1);
    let (fast, slow) = (stream(&parts, (256, 8), false), stream(&slower, (256, 8), false));
    let more = slow.as_us_f64() - fast.as_us_f64();
    assert!((226.0..=256.5).contains(&more), "{fast} and {slow}");
}

#[test]
fn a_window_of_one_message_makes_each_wait_for_the_last() {
    // Credits: with room for one message at the receiver, the next leaves when the last has been taken out and its credit is back. That is a
    // crossing there and one back for each message: at least two times switch (90 ns) and cables for each of 32.
    let mut parts = machine::parts("ri2");
    let wide = stream(&parts, (32, 1024), false);
    job::library(&mut parts).window.value = 1;
    let narrow = stream(&parts, (32, 1024), false);
    let hop = parts.switch.as_ref().unwrap().latency.value + parts.sole().host_delay() * 2;
    assert!(narrow.as_ps() > wide.as_ps() && narrow.as_ps() > 31 * 2 * hop.as_ps(), "{wide} and {narrow}, a crossing is {hop}");
}

#[test]
fn what_is_striped_is_longer_than_the_limit() {
    // A message at the limit stays whole on one of the adapters, one above it goes over both: 64 KiB more take half the time of 64 KiB
    // when both links carry them.
    let alone = |limit: u64, size: u32| {
        let mut parts = machine::ri2(2, 2);
        job::library(&mut parts).stripe_limit.value = Bytes(limit);
        job::ping(&parts, (2, 1), size).as_us_f64()
    };
    let size = 1 << 20;
    let (cut, whole) = (alone(u64::from(size) - 1, size), alone(u64::from(size), size));
    // 84 us of wire become 42; what is before and behind stays.
    assert!(whole - cut > 38.0 && whole - cut < 46.0, "{whole} us whole, {cut} us cut");
}
