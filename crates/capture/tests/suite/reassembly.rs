//! Messages read back from captures of a connection that loses packets and whose sequence numbers wrap.

use crate::pair;
use std::net::IpAddr;

use fabriscope_capture::{CaptureError, Conversation, Format, Framing, Interface, Kind, ReplayError, conversation, replay, write};
use fabriscope_engine::{Seen, Sighting, Tap};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::*;
use fabriscope_wire::LinkLayer;
use pair::Pair;
use proptest::prelude::*;

const SIZES: [u32; 7] = [1, 61, 256, 257, 700, 0, 5000];

/// Two NICs exchange SENDs, WRITEs and READs of several sizes; of the packets each `lose`th is lost. What was sent, in order.
fn exchange(lose: usize) -> Vec<Sighting> {
    let mut pair = Pair::rc();
    for (id, size) in (0..).zip(SIZES) {
        let sge = pair.sge(1, 32_768, 8192);
        pair.post_recv(1, id, sge).unwrap();
        let (source, target) = (pair.sge(0, 0, size), pair.remote(1, 4096));
        for wr in [SendWr::send(id, source), SendWr::write(id, source, target), SendWr::read(id, source, target)] {
            pair.post(0, &wr).unwrap();
        }
    }
    let mut seen = Vec::new();
    loop {
        let mut moved = false;
        for from in 0..2 {
            while let Some(transmit) = pair.ends[from].nic.poll_transmit(pair.now, &mut pair.side) {
                moved = true;
                let packet = transmit.packet;
                let seen_now =
                    Seen::Packet { source: Some(from as u32), lane: 0, packet, ext: pair.side.at(packet.ext).cloned().map(Box::new) };
                let time = Time::ZERO + Span::from_ns(seen.len() as u64);
                seen.push(Sighting { time, tap: Tap { link: 0, arrival: from != 0 }, seen: seen_now });
                if lose > 0 && seen.len() % lose == 0 {
                    pair.side.free(packet.ext);
                } else {
                    pair.wires[1 - from].push_back(packet);
                }
            }
            while pair.receive(1 - from).is_some() {}
        }
        if !moved {
            let Some(at) = (0..2).filter_map(|end| pair.ends[end].nic.poll_timeout()).min() else { break };
            pair.now = pair.now.max(at);
            (0..2).for_each(|end| pair.ends[end].nic.handle_timeout(pair.now));
        }
    }
    // The harness counts its ends from 1, captures count adapters from 0.
    for sighting in &mut seen {
        if let Seen::Packet { packet, .. } = &mut sighting.seen {
            packet.dest.0 -= 1;
        }
    }
    seen
}

fn capture(layer: LinkLayer, format: Format, snap: u32, sightings: &[Sighting]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let interface = Interface { name: "node 0".to_owned(), bits_per_s: 100_000_000_000 };
    write(&mut bytes, (format, Framing::of(layer), snap), &[interface], sightings, |_| (0, [0; 6])).unwrap();
    bytes
}

fn sizes(found: &Conversation, kind: Kind) -> Vec<u32> {
    found.messages.iter().filter(|message| message.kind == kind).map(|message| message.bytes.0 as u32).collect()
}

#[test]
fn lost_packets_are_sent_again_and_counted_once() {
    for lose in [0, 5, 11] {
        let seen = exchange(lose);
        for layer in [LinkLayer::RoceV2Ipv4, LinkLayer::RoceV2Ipv6] {
            for (format, snap) in [(Format::Pcap, u32::MAX), (Format::PcapNg, 96)] {
                let found = conversation(&capture(layer, format, snap, &seen)).unwrap();
                for kind in [Kind::Send, Kind::Write] {
                    assert_eq!(sizes(&found, kind), SIZES, "{kind:?}, one of {lose} lost");
                }
                // A READ whose responses were lost is asked for again, from where they stopped.
                assert!(SIZES.iter().all(|size| sizes(&found, Kind::Read).contains(size)), "one of {lose} lost");
                assert_eq!((found.packets, found.incomplete, found.repeats > 0), (seen.len(), 0, lose > 0));
                assert!(replay(&found, &[], 2).is_ok());
            }
        }
    }
}

#[test]
fn parts_of_messages_are_left_out_and_counted() {
    let seen = exchange(0);
    let requests: Vec<Sighting> = seen.into_iter().filter(|one| !one.tap.arrival).collect();
    // The first SEND has one packet; without it nothing but that message is gone.
    let found = conversation(&capture(LinkLayer::RoceV2Ipv4, Format::Pcap, u32::MAX, &requests[1..])).unwrap();
    assert_eq!((sizes(&found, Kind::Send).len(), found.incomplete), (SIZES.len() - 1, 0));
    // Each packet in turn is missing.
    for gone in 0..requests.len() {
        let mut rest = requests.clone();
        rest.remove(gone);
        let found = conversation(&capture(LinkLayer::RoceV2Ipv4, Format::Pcap, u32::MAX, &rest)).unwrap();
        assert_eq!(found.messages.len() + 1, 3 * SIZES.len(), "packet {gone}");
        assert!(found.incomplete <= 1);
    }
}

#[test]
fn hosts_are_ranks_by_table_or_by_appearance() {
    let found = conversation(&capture(LinkLayer::RoceV2Ipv4, Format::Pcap, u32::MAX, &exchange(0))).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(found.hosts, [address("10.0.0.1"), address("10.0.0.2")]);
    let swapped = replay(&found, &[address("10.0.0.2"), address("10.0.0.1")], 2).unwrap();
    // All requests are made by 10.0.0.1, which is rank 1 by the table.
    assert!(swapped.kinds(0).is_empty() && !swapped.kinds(1).is_empty());
    let total: u64 = SIZES.iter().map(|size| 3 * u64::from(*size)).sum();
    assert_eq!(swapped.stats().bytes, Bytes(total));
    let error = replay(&found, &[address("10.0.0.1")], 2).unwrap_err();
    assert_eq!(error, ReplayError::UnknownHost { address: "10.0.0.2".to_owned() });
    assert_eq!(replay(&found, &[], 1).unwrap_err(), ReplayError::TooManyHosts { hosts: 2, ranks: 1 });
}

#[test]
fn native_infiniband_is_not_read_as_traffic() {
    let bytes = capture(LinkLayer::InfiniBand, Format::Pcap, u32::MAX, &exchange(0));
    let error = conversation(&bytes).unwrap_err();
    assert!(matches!(&error, CaptureError::NotEthernet { offset: 40, found } if found.contains("ERF")), "{error}");
    let error = conversation(&capture(LinkLayer::RoceV1, Format::Pcap, u32::MAX, &exchange(0))).unwrap_err();
    assert!(matches!(error, CaptureError::Nothing { .. }), "{error}");
}

proptest! {
    /// Any bytes behind any beginning of a capture: a result or a message.
    #[test]
    fn any_bytes(keep in 0usize..4000, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20), ng: bool) {
        let format = if ng { Format::PcapNg } else { Format::Pcap };
        let mut bytes = capture(LinkLayer::RoceV2Ipv4, format, 96, &exchange(0)[..20]);
        bytes.truncate(keep);
        for (place, value) in flips.iter().filter(|_| keep > 0) {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        match conversation(&bytes) {
            Ok(found) => drop(replay(&found, &[], 8).map_err(|error| error.in_full())),
            Err(error) => prop_assert!(error.in_full().contains(';')),
        }
    }
}
