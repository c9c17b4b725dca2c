//! Wireshark's dissector judges our frames: every opcode, on every link layer, without a malformed packet.
//!
//! The packets are those of two NICs that talk to each other, and one of each opcode made by hand.

use crate::pair;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::process::Command;

use fabriscope_capture::{Format, Framing, Interface, write};
use fabriscope_engine::{Seen, Sighting, Tap};
use fabriscope_tcp::Segment;
use fabriscope_tcp::kernel::Datagram;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::*;
use fabriscope_wire::{LinkLayer, Opcode, Operation, SackBlocks, Syndrome, Tcp, TcpFlags, Transport, icrc, vcrc};
use pair::{Faults, Pair};

const FIELDS: [&str; 11] = [
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.aeth.syndrome",
    "infiniband.immdt",
    "infiniband.reth.dmalen",
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "infiniband.bth.m",
    "infiniband.bth.p_key",
];

/// A file in a folder of the build, removed at the end.
struct File(std::path::PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Writes a capture and gives what tshark says, a line of the usual fields for each packet.
fn dissected(name: &str, framing: Framing, format: Format, sightings: &[Sighting]) -> Vec<Vec<String>> {
    told(name, (framing, format), sightings, &FIELDS)
}

/// The same with other fields.
pub(crate) fn told(name: &str, (framing, format): (Framing, Format), sightings: &[Sighting], fields: &[&str]) -> Vec<Vec<String>> {
    let file = File(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())));
    let mut bytes = Vec::new();
    let interface = Interface { name: "node 0".to_owned(), bits_per_s: 100_000_000_000 };
    write(&mut bytes, (format, framing, u32::MAX), &[interface], sightings, |_| (0, [6, 0, 0, 1, 0, 2])).unwrap();
    std::fs::write(&file.0, bytes).unwrap();
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    // Two guesses at the payload, RPC and Ethernet over InfiniBand, look at its first bytes without asking whether they are
    // there: shorter SENDs are "malformed" in captures of real adapters too.
    let options = [
        "--disable-protocol",
        "rpcordma",
        "--disable-protocol",
        "infiniband.eoib",
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
        "-T",
        "fields",
        "-E",
        "occurrence=f",
    ];
    let output = Command::new("tshark").arg("-r").arg(&file.0).args(options).args(fields).output();
    let output = output.expect("tshark judges the captures; install it: apt-get install tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Compares what tshark reads with what was written.
fn compare(layer: LinkLayer, sightings: &[Sighting], lines: &[Vec<String>]) {
    assert_eq!(lines.len(), sightings.len(), "{layer:?}");
    let number = |field: &str, text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        // The one field that is shown as bytes.
        None if field == "infiniband.immdt" => u64::from_str_radix(text, 16).ok(),
        None => text.parse().ok(),
    };
    for (sighting, line) in sightings.iter().zip(lines) {
        let Seen::Packet { packet, ext, .. } = &sighting.seen else { continue };
        let opcode = Opcode::decode(packet.opcode).unwrap();
        let ext = ext.as_deref().cloned().unwrap_or_default();
        assert_eq!(line[6], "", "{layer:?}: {opcode} is malformed");
        let aeth = opcode.has_aeth().then_some(u64::from(packet.syndrome));
        let imm = opcode.has_immediate().then_some(u64::from(ext.imm));
        let length = opcode.has_reth().then_some(u64::from(ext.dma_length));
        let expected = [Some(u64::from(packet.opcode)), Some(packet.dest_qp.into()), Some(packet.psn.into()), aeth, imm, length];
        for ((field, text), expected) in FIELDS.iter().zip(line).zip(expected) {
            assert_eq!(number(field, text), expected, "{layer:?}: {field} of {opcode}");
        }
        let migrated = ["1", "True"].contains(&line[9].as_str());
        let has_path = matches!(opcode.transport(), Transport::Rc | Transport::Uc | Transport::Rd | Transport::Xrc);
        assert_eq!(migrated, has_path && !packet.flags.contains(PacketFlags::UNMIGRATED), "{layer:?}: {opcode}");
        let pkey = if ext.pkey == 0 { 0xFFFF } else { ext.pkey };
        assert_eq!(number("p_key", &line[10]), Some(pkey.into()), "{layer:?}: the P_Key of {opcode}");
        if layer == LinkLayer::RoceV2Ipv4 {
            assert_eq!(line[7], "1", "the checksum of the IPv4 header");
        }
    }
}

pub(crate) fn sighting(number: usize, source: u32, packet: Packet, ext: Option<Ext>) -> Sighting {
    let seen = Seen::Packet { source: Some(source), lane: 0, packet, ext: ext.map(Box::new) };
    Sighting { time: Time::ZERO + Span::from_ns(100) * number as u64, tap: Tap { link: 0, arrival: source != 0 }, seen }
}

/// Lets two NICs talk until nothing moves but by a timer, and notes every packet.
pub(crate) fn talk(pair: &mut Pair, seen: &mut Vec<Sighting>) {
    let mut moved = true;
    while moved {
        moved = false;
        for from in 0..2 {
            while let Some(transmit) = pair.ends[from].nic.poll_transmit(pair.now, &mut pair.side) {
                let ext = pair.side.at(transmit.packet.ext).cloned();
                seen.push(sighting(seen.len(), from as u32, transmit.packet, ext));
                pair.wires[1 - from].push_back(transmit.packet);
            }
            while pair.receive(1 - from).is_some() {
                moved = true;
            }
        }
    }
}

/// Everything that the work requests of a NIC can do, in one packet and in several.
fn everything() -> Vec<Sighting> {
    let mut seen = Vec::new();
    for transport in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::new(|init| init, transport, Faults::default());
        pair.connect(Mtu::B256, 0xFF_FFF0, |_| (), |_| ());
        pair.fill(0, 0, &(0..=255).cycle().take(4096).collect::<Vec<u8>>());
        for length in [61, 700] {
            for id in 0..4 {
                let sge = pair.sge(1, 8192, 1024);
                pair.post_recv(1, id, sge).unwrap();
            }
            let (source, target) = (pair.sge(0, 0, length), pair.remote(1, 4096));
            let plain = [SendWr::send(1, source), SendWr::write(2, source, target)];
            let marked = [SendWr::send(3, source).with_imm(0xABCD), SendWr::write(4, source, target).with_imm(77)];
            plain.iter().chain(&marked).for_each(|wr| pair.post(0, wr).unwrap());
            talk(&mut pair, &mut seen);
            if transport == QpType::Rc {
                pair.post(0, &SendWr::read(5, source, target)).unwrap();
            }
        }
        if transport == QpType::Rc {
            let (word, target) = (pair.sge(0, 0, 8), pair.remote(1, 64));
            pair.post(0, &SendWr::fetch_add(6, word, target, 5)).unwrap();
            pair.post(0, &SendWr::cmp_swap(7, word, target, 5, 6)).unwrap();
        }
        talk(&mut pair, &mut seen);
        if transport == QpType::Rc {
            // A key that is none: a NAK.
            let sge = pair.sge(0, 0, 16);
            pair.post(0, &SendWr::write(8, sge, Remote { addr: 0, rkey: Rkey(0xDEAD) })).unwrap();
            talk(&mut pair, &mut seen);
            // Nothing to receive it: "receiver not ready".
            let mut pair = Pair::rc();
            pair.post(0, &SendWr::send(1, pair.sge(0, 0, 16))).unwrap();
            talk(&mut pair, &mut seen);
        }
    }
    seen.extend(datagrams(seen.len()));
    seen
}

fn datagrams(before: usize) -> Vec<Sighting> {
    let mut pair = Pair::new(|init| init, QpType::Ud, Faults::default());
    pair.connect(Mtu::B256, 5, |_| (), |_| ());
    let mut seen = Vec::new();
    for (id, imm) in [(1, None), (2, Some(9))] {
        let (pd, dlid, qp) = (pair.ends[0].pd, pair.ends[1].nic.lid(), pair.ends[1].qp);
        let ah = pair.ends[0].nic.create_ah(pd, AhAttr { dlid, sl: 0 }).unwrap();
        let mut wr = SendWr::send(id, pair.sge(0, 0, 33));
        wr.ud = Some(UdDestination { ah, remote_qpn: qp, remote_qkey: 7 });
        if let Some(imm) = imm {
            wr = wr.with_imm(imm);
        }
        pair.post(0, &wr).unwrap();
    }
    talk(&mut pair, &mut seen);
    seen.iter_mut().enumerate().for_each(|(n, one)| one.time += Span::from_ns(100) * (before + n) as u64);
    seen
}

#[test]
fn two_nics_on_both_link_layers() {
    let seen = everything();
    let mut opcodes: BTreeMap<String, u32> = BTreeMap::new();
    let mut syndromes = BTreeSet::new();
    for sighting in &seen {
        if let Seen::Packet { packet, .. } = &sighting.seen {
            let opcode = Opcode::decode(packet.opcode).unwrap();
            *opcodes.entry(opcode.to_string()).or_default() += 1;
            if opcode.is_ack() {
                syndromes.insert(packet.syndrome >> 5);
            }
        }
    }
    for opcode in Opcode::NAMED {
        // No work request of the NIC invalidates a key.
        if !opcode.has_invalidate() && *opcode != Opcode::CNP {
            assert!(opcodes.contains_key(&opcode.to_string()), "no {opcode} among {opcodes:?}");
        }
    }
    assert_eq!(Vec::from_iter(syndromes), [0, 1, 3], "an ACK, a receiver that is not ready and a NAK");
    for layer in [LinkLayer::InfiniBand, LinkLayer::RoceV2Ipv4] {
        for format in [Format::Pcap, Format::PcapNg] {
            compare(layer, &seen, &dissected("nics", Framing::of(layer), format, &seen));
        }
    }
}

#[test]
fn every_opcode_on_every_link_layer() {
    let all = (0..=255).filter_map(|byte| Opcode::decode(byte).ok());
    // The dissector knows neither reliable datagrams' context nor the two opcodes that XRC adds to them; the layouts of RUD and
    // DC are not published.
    let foreign = |transport| matches!(transport, Transport::Rd | Transport::Xrc | Transport::Rud | Transport::Dc);
    let known: Vec<Opcode> = all.filter(|opcode| !foreign(opcode.transport())).collect();
    assert_eq!(known.len(), 38);
    for layer in LinkLayer::ALL {
        let mut seen = Vec::new();
        for (number, opcode) in known.iter().enumerate() {
            for payload in if opcode.has_payload() { &[0, 1, 2, 3, 4, 4096][..] } else { &[0][..] } {
                let atomic = matches!(opcode.operation(), Some(Operation::AtomicAcknowledge));
                let packet = Packet {
                    dest: Lid(1),
                    dest_qp: 0x12_3456,
                    psn: 0xFF_FF00 + number as u32,
                    payload: *payload,
                    opcode: opcode.as_u8(),
                    flags: PacketFlags::ECN_CE | if number % 2 == 0 { PacketFlags::UNMIGRATED } else { PacketFlags::NONE },
                    syndrome: if atomic { Syndrome::ACK.encode() } else { 0x60 },
                    sl: 3,
                    entropy: 0x1234,
                    msn: 7,
                    ..Packet::default()
                };
                let ext = Ext {
                    imm: 0xDEAD_BEEF,
                    dma_length: 99,
                    remote_addr: 1 << 40,
                    qkey: 5,
                    src_qp: QpNum(9),
                    pkey: 0x8123,
                    ..Ext::default()
                };
                seen.push(sighting(seen.len(), 0, packet, Some(ext)));
            }
        }
        compare(layer, &seen, &dissected("opcodes", Framing::of(layer), Format::Pcap, &seen));
    }
}

/// Segments of sockets on Ethernet and over InfiniBand: whole, with right checksums, with their numbers and options.
#[test]
fn segments_of_sockets() {
    let mut sack = SackBlocks::default();
    sack.push(5000, 6000);
    let plain = Tcp { source: 40_000, destination: 5201, seq: 1000, ack: 77, flags: TcpFlags::ACK, window: 512, ..Tcp::default() };
    let headers = [
        Tcp { flags: TcpFlags::SYN, mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps: Some((9, 0)), ..plain },
        Tcp { timestamps: Some((10, 9)), ..plain },
        Tcp { sack, ..plain },
        Tcp { flags: TcpFlags::ACK.with(TcpFlags::PSH), ..plain },
    ];
    for layer in [LinkLayer::RoceV2Ipv4, LinkLayer::InfiniBand] {
        let mut seen = Vec::new();
        for (header, payload) in headers.iter().zip([0, 1448, 1, 517]) {
            let packet = Packet { dest: Lid(1), payload: 40 + payload as u16, ..Packet::of(Body::Tcp { port: header.destination }) };
            let segment = Segment { header: *header, payload, ..Segment::default() };
            seen.push(sighting(seen.len(), 0, packet, Some(Ext { foreign: Foreign::Tcp(Box::new(segment)), ..Ext::default() })));
        }
        for line in dissected("tcp", Framing::of(layer), Format::Pcap, &seen) {
            assert_eq!((line[6].as_str(), line[7].as_str(), line[8].as_str()), ("", "1", "1"), "{layer:?}: {line:?}");
        }
        let frame = Framing::of(layer).frame(&seen[1].seen, [0; 6]).unwrap();
        let before = if layer.is_ethernet() { 14 } else { 8 + 12 + 8 + 4 };
        let (tcp, length) = Tcp::decode(&frame[before + 20..]).unwrap();
        assert_eq!((tcp, length), (headers[1], 32));
    }
}

/// Datagrams of UDP and fragments of them.
#[test]
fn datagrams_of_sockets() {
    let whole = Datagram { source: 40_000, destination: 5201, identification: 9, length: 100, offset: 0, payload: 100, words: None };
    let long = Datagram { length: 3000, payload: 1472, ..whole };
    let datagrams = [whole, long, Datagram { offset: 1480, payload: 1480, ..long }, Datagram { offset: 2960, payload: 48, ..long }];
    for layer in [LinkLayer::RoceV2Ipv4, LinkLayer::InfiniBand] {
        let mut seen = Vec::new();
        for datagram in datagrams {
            let packet = Packet { dest: Lid(1), payload: 28 + datagram.payload as u16, ..Packet::of(Body::Tcp { port: 5201 }) };
            seen.push(sighting(seen.len(), 0, packet, Some(Ext { foreign: Foreign::Udp(Box::new(datagram)), ..Ext::default() })));
        }
        for line in dissected("udp", Framing::of(layer), Format::Pcap, &seen) {
            assert_eq!(line[6].as_str(), "", "{layer:?}: {line:?}");
        }
        // RFC 791: flags and offset in units of 8 bytes: alone, more follows, more follows 185 units on, the last one 370 on.
        let before = if layer.is_ethernet() { 14 } else { 8 + 12 + 8 + 4 };
        let words = seen.iter().map(|sighting| {
            let frame = Framing::of(layer).frame(&sighting.seen, [0; 6]).unwrap();
            (u16::from_be_bytes([frame[before + 2], frame[before + 3]]), u16::from_be_bytes([frame[before + 6], frame[before + 7]]))
        });
        assert_eq!(words.collect::<Vec<_>>(), [(128, 0), (1500, 0x2000), (1500, 0x2000 | 185), (68, 370)]);
    }
}

/// Between subnets a packet has a global route header, within one it has none.
#[test]
fn packets_between_subnets() {
    let framing = Framing { subnet: NonZeroU32::new(1), ..Framing::of(LinkLayer::InfiniBand) };
    let packet = Packet { dest: Lid(1), dest_qp: 3, payload: 64, opcode: Opcode::UD_SEND_ONLY.as_u8(), ..Packet::default() };
    let seen: Vec<Sighting> = vec![sighting(0, 0, packet, Some(Ext { qkey: 5, ..Ext::default() }))];
    let lines = dissected("subnets", framing, Format::Pcap, &seen);
    assert!(lines.len() == 1 && lines[0][6].is_empty(), "{lines:?}");
    let [far, near] =
        [framing, Framing { subnet: NonZeroU32::new(8), ..framing }].map(|framing| framing.frame(&seen[0].seen, [0; 6]).unwrap());
    assert_eq!(far.len(), near.len() + 40);
    // The local header says that a global one follows (LNH 3), which says version 6 and who sends.
    assert_eq!((far[1] & 3, near[1] & 3, far[8] >> 4), (3, 2, 6));
}

#[test]
fn pause_frames() {
    let seen: Vec<Sighting> = [(3, 0xFFFF), (3, 0)]
        .map(|(priority, quanta)| {
            let seen = Seen::Pause { priority, quanta };
            Sighting { time: Time::ZERO, tap: Tap { link: 0, arrival: true }, seen }
        })
        .into();
    let framing = Framing::of(LinkLayer::RoceV2Ipv4);
    let lines = dissected("pause", framing, Format::Pcap, &seen);
    assert!(lines.len() == 2 && lines.iter().all(|line| line.get(6).is_none_or(String::is_empty)), "{lines:?}");
    let frame = framing.frame(&seen[0].seen, [6, 0, 0, 1, 0, 2]).unwrap();
    let header = [1, 0x80, 0xC2, 0, 0, 1, 6, 0, 0, 1, 0, 2, 0x88, 0x08, 1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
    assert_eq!((frame.len(), &frame[..26]), (60, &header[..]));
}

/// The packet whose ICRC is known: an RDMA WRITE of 64 B from 10.0.0.1 to 10.0.0.2, checked with another implementation.
#[test]
fn the_known_packet() {
    let packet = Packet {
        dest: Lid(1),
        dest_qp: 0x12,
        psn: 100,
        payload: 64,
        opcode: Opcode::RC_WRITE_ONLY.as_u8(),
        flags: PacketFlags::ACK_REQ | PacketFlags::UNMIGRATED,
        entropy: 0x0123,
        ..Packet::default()
    };
    let data: Box<[u8]> = (0..64).collect();
    let ext = Ext { remote_addr: 0x7F00_0000_1000, rkey: Rkey(0x0020_0C00), dma_length: 64, data: Some(data.into()), ..Ext::default() };
    let seen = sighting(0, 0, packet, Some(ext)).seen;
    let frame = Framing::of(LinkLayer::RoceV2Ipv4).frame(&seen, [0; 6]).unwrap();
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "02000000000202000000000108004502007c00004000401126 6d0a0000010a000002c12312b7006800000a00ffff000000128000006400007f000000100000200c0000000040"
        .replace(' ', "");
    assert_eq!(&hex[..expected.len()], expected);
    assert_eq!((frame.len(), &hex[hex.len() - 8..]), (138, "d2f08978"));
}

/// A native packet ends with both checksums; the link may change the lane, and only the variant one notices.
#[test]
fn both_checksums_of_native_infiniband() {
    let packet = Packet { dest: Lid(1), dest_qp: 2, payload: 5, opcode: Opcode::RC_SEND_ONLY.as_u8(), ..Packet::default() };
    let frame = |lane| {
        let seen = Seen::Packet { source: Some(0), lane, packet, ext: None };
        Framing::of(LinkLayer::InfiniBand).frame(&seen, [0; 6]).unwrap()
    };
    let (zero, one) = (frame(0), frame(1));
    let body = zero.len() - 2;
    assert_eq!(zero[body - 4..body], one[body - 4..body]);
    assert_ne!(zero[body..], one[body..]);
    assert_eq!(icrc(LinkLayer::InfiniBand, &zero[..body - 4]).unwrap().to_le_bytes(), zero[body - 4..body]);
    assert_eq!(vcrc(&zero[..body]).to_le_bytes(), zero[body..]);
    // LRH to ICRC in words: 8 + 12 + 5 + 3 + 4 bytes.
    assert_eq!(zero[5], 8);
}
