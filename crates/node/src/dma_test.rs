//! Closed forms of transfers between adapters and memories that they share.

use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::dma::{Crossing, DmaHops, DmaPath};
use crate::pcie::{Pcie, PcieTiming, ReadAhead, ReadStream};

/// A link of 25 GB/s without framing: 40 ps a byte.
fn link() -> Pcie {
    Pcie::new(PcieTiming {
        tlp_rate: Rate::from_gbps(200),
        read_latency: Span::from_ns(400),
        write_latency: Span::from_ns(200),
        max_payload: Bytes(256),
        max_read_request: Bytes(4096),
        completion_payload: Bytes(256),
        write_overhead: Bytes(0),
        read_overhead: Bytes(0),
        completion_overhead: Bytes(0),
        wires: crate::Wires::EachWay,
        tags: None,
    })
}

/// A way over hops of so many Gb/s, the same both ways, by number.
fn path(hops: &[(u16, u64)]) -> DmaPath {
    let crossings: Vec<Crossing> = hops.iter().map(|&(hop, gbps)| Crossing { hop, rate: Rate::from_gbps(gbps) }).collect();
    let (reads, writes) = (crossings.clone(), crossings);
    DmaPath {
        title: "gpu0".to_owned(),
        read_latency: Span::from_ns(900),
        write_latency: Span::from_ns(300),
        reads,
        writes,
        takes: Default::default(),
        own: Default::default(),
    }
}

const PACKET: Bytes = Bytes(4096);
const PACKETS: u64 = 1000;

/// Time of all packets at so many Gb/s.
fn all(gbps: u64) -> Span {
    Rate::from_gbps(gbps).time(PACKET) * PACKETS
}

#[test]
fn an_idle_way_adds_its_latency_alone() {
    let (mut link, path, mut hops) = (link(), path(&[(0, 400), (1, 800)]), [Time::ZERO; 2]);
    let mut way = DmaHops { path: &path, hops: &mut hops, meeting: None };
    // 4096 B at 25 GB/s = 163.84 ns behind the first byte.
    assert_eq!(link.read_over(&mut way, Time::ZERO, PACKET, Span::ZERO), Time::from_ps(900_000 + 163_840));
    let written = link.write_over(&mut way, Time::from_ps(1_000_000), PACKET);
    assert_eq!((written.sent, written.visible), (Time::from_ps(1_163_840), Time::from_ps(1_463_840)));
}

#[test]
fn the_limit_for_peers_binds() {
    // 28 Gb/s through the host bridge: reads and writes at 3.5 GB/s, whatever the links carry.
    let path = path(&[(0, 400), (1, 28), (2, 200)]);
    let (mut reading, mut writing, mut hops) = (link(), link(), [Time::ZERO; 3]);
    let mut end = Time::ZERO;
    for _ in 0..PACKETS {
        end = reading.read_over(&mut DmaHops { path: &path, hops: &mut hops, meeting: None }, Time::ZERO, PACKET, Span::ZERO);
    }
    assert_eq!(end, Time::ZERO + Span::from_ns(900) + all(28));
    hops = [Time::ZERO; 3];
    for _ in 0..PACKETS {
        end = writing.write_over(&mut DmaHops { path: &path, hops: &mut hops, meeting: None }, Time::ZERO, PACKET).sent;
    }
    assert_eq!(end, Time::ZERO + all(28));
    // Writes go in order: a completion entry to host memory waits behind them; a read from there does not wait for the slow reads.
    assert!(writing.write(Time::ZERO, Bytes(64)).sent >= end);
    assert!(reading.read(Time::ZERO, Bytes(64), Span::ZERO) < Time::ZERO + Span::from_ns(400) + all(199));
}

#[test]
fn two_adapters_share_the_link_of_a_gpu_and_one_has_it_alone() {
    // Both can have 200 Gb/s, and the GPU's link carries 256: 128 each.
    let (shared, own) = (path(&[(0, 256)]), path(&[(1, 256)]));
    let mut hops = [Time::ZERO; 2];
    let mut nics = [link(), link(), link()];
    let mut ends = [Time::ZERO; 3];
    for _ in 0..PACKETS {
        for (nic, path) in [(0, &shared), (1, &shared), (2, &own)] {
            ends[nic] = nics[nic].write_over(&mut DmaHops { path, hops: &mut hops, meeting: None }, Time::ZERO, PACKET).sent;
        }
    }
    let shares = all(128);
    assert_eq!(ends[1], Time::ZERO + shares);
    // The first is one packet ahead; the third is not disturbed.
    assert_eq!(ends[0], Time::ZERO + shares - Rate::from_gbps(256).time(PACKET));
    assert_eq!(ends[2], Time::ZERO + all(200));
}

#[test]
fn a_message_striped_over_adapters_is_bound_by_them_or_by_the_gpu() {
    // k adapters of 200 Gb/s, a GPU with 500: min(200 k, 500).
    for (k, bound) in [(1, 200), (2, 400), (3, 500), (4, 500)] {
        let (path, mut hops) = (path(&[(0, 500)]), [Time::ZERO]);
        let mut nics = vec![link(); k];
        let mut end = Time::ZERO;
        for packet in 0..1200 {
            let nic = &mut nics[packet % k];
            end = end.max(nic.read_over(&mut DmaHops { path: &path, hops: &mut hops, meeting: None }, Time::ZERO, PACKET, Span::ZERO));
        }
        let expected = Rate::from_gbps(bound).time(Bytes(1200 * PACKET.0)) + Span::from_ns(900);
        let off = (end - Time::ZERO).as_ps().abs_diff(expected.as_ps());
        assert!(off <= 1200, "{k} adapters: {} for {expected}", end - Time::ZERO);
    }
}

#[test]
fn the_window_of_reads_sees_the_longer_round_trip() {
    let ahead = ReadAhead { initial: Bytes(8192), growth: Bytes(0) };
    let (path, mut hops) = (path(&[(0, 400)]), [Time::ZERO]);
    let (mut near, mut far) = ((link(), ReadStream::default()), (link(), ReadStream::default()));
    let mut steps = [Span::ZERO; 2];
    let mut last = [Time::ZERO; 2];
    for _ in 0..4 {
        let here = near.1.fetch(&mut near.0, ahead, Time::ZERO, PACKET, Span::ZERO);
        let mut way = DmaHops { path: &path, hops: &mut hops, meeting: None };
        let there = far.1.fetch_over(&mut far.0, &mut way, ahead, Time::ZERO, PACKET, Span::ZERO);
        steps = [here - last[0], there - last[1]];
        last = [here, there];
    }
    // Two packets in flight in a round trip of latency + 163.84 ns: one every half of it.
    assert_eq!(steps, [(400_000 + 163_840) / 2, (900_000 + 163_840) / 2].map(Span::from_ps));
}
