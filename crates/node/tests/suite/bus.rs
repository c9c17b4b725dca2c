//! PCI Express by hand: TLPs counted by payload and request sizes, both directions as serial resources, reads ahead, ways beyond the link.

use std::sync::Arc;

use fabriscope_node::{Blueflame, Crossing, DmaHops, DmaPath, DoorbellPolicy, Pcie, PcieTiming, ReadAhead, ReadStream};
use fabriscope_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

/// 64 Gb/s of TLPs are 8 bytes in a nanosecond: a byte takes 125 ps. Payloads of 256 bytes with 24 more, requests for 512 bytes of 24,
/// completions of 128 bytes with 20 more.
fn timing() -> PcieTiming {
    PcieTiming {
        tlp_rate: Rate::from_gbps(64),
        read_latency: Span::from_ns(400),
        write_latency: Span::from_ns(150),
        max_payload: Bytes(256),
        max_read_request: Bytes(512),
        completion_payload: Bytes(128),
        write_overhead: Bytes(24),
        read_overhead: Bytes(24),
        completion_overhead: Bytes(20),
        wires: fabriscope_node::Wires::EachWay,
        tags: None,
    }
}

/// The time of so many bytes on the link.
fn bytes(count: u64) -> Span {
    Span::from_ps(125 * count)
}
fn ns(ns: u64) -> Time {
    Time::ZERO + Span::from_ns(ns)
}

#[test]
fn writes_are_cut_by_the_largest_payload() {
    // PCIe base specification §2.2.2: no TLP has more payload than MPS. 1 byte is one TLP, 257 are two, 4096 are sixteen; what has no payload
    // is one of header alone.
    for (amount, tlps) in [(0, 1), (1, 1), (256, 1), (257, 2), (512, 2), (4096, 16), (4097, 17)] {
        assert_eq!(timing().write_time(Bytes(amount)), bytes(amount + 24 * tlps), "{amount} B");
    }
}

#[test]
fn reads_are_cut_by_the_largest_request_and_come_in_completions() {
    // §2.2.7: no request asks for more than MRRS; §2.3.1.1: the root complex answers in pieces of its own.
    for (amount, requests, completions) in [(1, 1, 1), (128, 1, 1), (129, 1, 2), (512, 1, 4), (513, 2, 5), (4096, 8, 32)] {
        assert_eq!(timing().request_time(Bytes(amount)), bytes(24 * requests), "{amount} B");
        assert_eq!(timing().completion_time(Bytes(amount)), bytes(amount + 20 * completions), "{amount} B");
    }
}

#[test]
fn efficiency_of_well_known_sizes() {
    // Neugebauer et al., SIGCOMM 2018, §3: with MPS 256 and 24 bytes beside, writes of whole payloads get 256 / 280 = 91.4 % of the TLP rate;
    // of 64 bytes 64 / 88 = 72.7 %.
    for (amount, share) in [(4096u64, 256.0 / 280.0), (64, 64.0 / 88.0), (257, 257.0 / 305.0)] {
        let rate = Rate::of(Bytes(amount), timing().write_time(Bytes(amount))).as_bps() as f64;
        assert!((rate / 64e9 - share).abs() < 1e-4, "{amount} B: {rate}");
    }
}

#[test]
fn a_read_is_a_round_trip_and_its_completions() {
    // 400 ns until the first byte, 128 + 20 bytes in 18.5 ns.
    assert_eq!(Pcie::new(timing()).read(ns(100), Bytes(128), Span::ZERO), ns(500) + bytes(148));
    // Reads that are asked for together share the round trip: the second follows the first on the link.
    let mut link = Pcie::new(timing());
    let ends = [0; 3].map(|_| link.read(ns(0), Bytes(512), Span::ZERO));
    assert_eq!(ends, [1, 2, 3].map(|count| ns(400) + bytes(count * (512 + 80))));
    // The pause of the adapter between work requests counts only where the link would go on without one.
    let mut link = Pcie::new(timing());
    assert_eq!(link.read(ns(0), Bytes(128), Span::from_ns(50)), ns(400) + bytes(148), "an idle link makes no pause");
    assert_eq!(link.read(ns(0), Bytes(128), Span::from_ns(50)), ns(450) + bytes(2 * 148));
}

#[test]
fn directions_do_not_disturb_each_other() {
    // Writes and requests go to memory, completions and stores of cores to the adapter.
    let mut link = Pcie::new(timing());
    let written = link.write(ns(0), Bytes(4096));
    assert_eq!((written.sent, written.visible), (Time::ZERO + bytes(4480), Time::ZERO + bytes(4480) + Span::from_ns(150)));
    assert_eq!(link.read(ns(0), Bytes(128), Span::ZERO), ns(400) + bytes(148), "data comes back beside 560 ns of writes");
    // A store of the core is in the way of completions: 64 + 24 bytes.
    let mut link = Pcie::new(timing());
    link.read(ns(0), Bytes(128), Span::ZERO);
    assert_eq!(link.store(ns(410), Bytes(64)), ns(400) + bytes(148 + 88));
    // On an idle link a store is there when it is.
    assert_eq!(Pcie::new(timing()).store(ns(410), Bytes(64)), ns(410));
}

#[test]
fn posted_writes_keep_their_order() {
    let mut link = Pcie::new(timing());
    let ends: Vec<Time> = [256, 1, 4096, 0].map(|amount| link.write(ns(0), Bytes(amount)).visible).to_vec();
    let sums = [280, 280 + 25, 280 + 25 + 4480, 280 + 25 + 4480 + 24];
    assert_eq!(ends, sums.map(|sum| ns(150) + bytes(sum)));
}

#[test]
fn a_queue_that_was_idle_reads_ahead_little_by_little() {
    // 1024 bytes in flight at first, 1024 more with each packet of 4096. A round trip of 400 ns and one request's completions, 512 + 80 bytes
    // in 74 ns: 474 ns. The second packet comes 474 · 4096 / 2048 = 948 ns after the first, the third 632 ns after that, the fourth 474 …,
    // each less than the 592 ns that the link itself takes for 4096 + 32 · 20 bytes.
    let ahead = ReadAhead { initial: Bytes(1024), growth: Bytes(1024) };
    let (mut link, mut stream) = (Pcie::new(timing()), ReadStream::default());
    let ends = [0; 6].map(|_| stream.fetch(&mut link, ahead, ns(0), Bytes(4096), Span::ZERO));
    let apart: Vec<u64> = ends.windows(2).map(|pair| (pair[1] - pair[0]).as_ps()).collect();
    assert_eq!(ends[0], ns(400 + 592));
    assert_eq!(apart[..2], [948_000, 632_000]);
    // What the window made wait the link has in hand: it catches up, at a round trip for each window, and then goes at its own rate.
    assert!(apart[2] < 592_000 && apart[2..].iter().all(|step| *step <= 592_000), "{apart:?}");
    // After a pause of more than a round trip the window is small again.
    let later = ends[5] + Span::from_ns(1000);
    let first = stream.fetch(&mut link, ahead, later, Bytes(4096), Span::ZERO);
    let second = stream.fetch(&mut link, ahead, later, Bytes(4096), Span::ZERO);
    assert_eq!((first - later, second - first), (Span::from_ns(992), Span::from_ps(948_000)));
}

fn way(reads: &[(u16, u64)], latency: u64) -> DmaPath {
    let crossing = |(hop, gbps): &(u16, u64)| Crossing { hop: *hop, rate: Rate::from_gbps(*gbps) };
    let crossings: Vec<Crossing> = reads.iter().map(crossing).collect();
    DmaPath {
        title: "gpu0".to_owned(),
        read_latency: Span::from_ns(latency),
        write_latency: Span::from_ns(latency / 2),
        reads: crossings.clone(),
        writes: crossings,
        takes: [Arc::from([]), Arc::from([])],
        own: [Rate::from_gbps(64); 2],
    }
}

#[test]
fn the_narrowest_hop_of_a_way_counts() {
    // 4096 bytes over hops of 32 and 16 Gb/s: 1024 and 2048 ns, cut through, so 2048 ns; latency 700 ns. The adapter's own link would have
    // taken 592 ns.
    let path = way(&[(0, 32), (1, 16)], 700);
    let mut hops = [Time::ZERO; 2];
    let mut link = Pcie::new(timing());
    let over = |link: &mut Pcie, hops: &mut [Time; 2]| {
        let mut way = DmaHops { path: &path, hops, meeting: None };
        link.read_over(&mut way, ns(0), Bytes(4096), Span::ZERO)
    };
    assert_eq!(over(&mut link, &mut hops), ns(700 + 2048));
    assert_eq!(over(&mut link, &mut hops), ns(700 + 2 * 2048));
    // Another adapter with a link of its own waits for the same hops.
    assert_eq!(over(&mut Pcie::new(timing()), &mut hops), ns(700 + 3 * 2048));
    // And writes in order keep their link waiting: the second begins when the first has passed.
    let mut hops = [Time::ZERO; 2];
    let mut link = Pcie::new(timing());
    let mut way = DmaHops { path: &path, hops: &mut hops, meeting: None };
    let written = link.write_over(&mut way, ns(0), Bytes(4096));
    assert_eq!((written.sent, written.visible), (ns(2048), ns(2048 + 350)));
    assert_eq!(link.write(ns(0), Bytes(256)).sent, ns(2048) + bytes(280));
}

#[test]
fn what_goes_inside_the_doorbell() {
    // BlueFlame takes one work request that fits; several are fetched, and so are those without inline data where only that is pushed.
    let policy = |blueflame| DoorbellPolicy { blueflame, blueflame_limit: Bytes(256) };
    for (blueflame, wqes, wqe, inline, pushed) in [
        (Blueflame::Always, 1, 64, false, true),
        (Blueflame::Always, 1, 256, true, true),
        (Blueflame::Always, 1, 257, true, false),
        (Blueflame::Always, 2, 64, true, false),
        (Blueflame::Inline, 1, 64, true, true),
        (Blueflame::Inline, 1, 64, false, false),
        (Blueflame::Never, 1, 64, true, false),
    ] {
        assert_eq!(policy(blueflame).pushes(wqes, Bytes(wqe), inline), pushed, "{blueflame:?}, {wqes} of {wqe} B, inline {inline}");
    }
}

proptest! {
    /// The link is never idle while somebody waits: a stream of writes ends when the sum of their TLPs has passed.
    #[test]
    fn streams_take_the_sum(amounts in prop::collection::vec(0u64..9000, 1..40)) {
        let mut link = Pcie::new(timing());
        let sum: u64 = amounts.iter().map(|amount| amount + 24 * amount.div_ceil(256).max(1)).sum();
        let last = amounts.iter().map(|amount| link.write(ns(0), Bytes(*amount)).sent).last().unwrap();
        prop_assert_eq!(last, Time::ZERO + bytes(sum));
        // The same of reads, after the first round trip; requests take less of the other direction than data of this.
        let mut link = Pcie::new(timing());
        let sum: u64 = amounts.iter().map(|amount| amount + 20 * amount.div_ceil(128).max(1)).sum();
        let last = amounts.iter().map(|amount| link.read(ns(0), Bytes(*amount), Span::ZERO)).last().unwrap();
        prop_assert_eq!(last, ns(400) + bytes(sum));
    }

    /// A window only ever makes data later, and a large one never does.
    #[test]
    fn reading_ahead_costs_time_or_nothing(amounts in prop::collection::vec(1u64..5000, 1..30), initial in 64u64..8192, growth in 0u64..4096) {
        let ends = |initial, growth| {
            let (mut link, mut stream) = (Pcie::new(timing()), ReadStream::default());
            let ahead = ReadAhead { initial: Bytes(initial), growth: Bytes(growth) };
            amounts.iter().map(|amount| stream.fetch(&mut link, ahead, ns(0), Bytes(*amount), Span::ZERO)).collect::<Vec<_>>()
        };
        let mut link = Pcie::new(timing());
        let free: Vec<Time> = amounts.iter().map(|amount| link.read(ns(0), Bytes(*amount), Span::ZERO)).collect();
        let paced = ends(initial, growth);
        prop_assert!(paced.iter().zip(&free).all(|(paced, free)| paced >= free));
        prop_assert!(paced.is_sorted());
        prop_assert_eq!(ends(1 << 40, 0), free);
    }
}
