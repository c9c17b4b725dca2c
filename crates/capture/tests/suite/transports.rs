//! Packets that are no RoCE: Ultra Ethernet by its own headers, iWARP in the stream of TCP, and what is said of those without a
//! published layout.

use crate::dissector::{sighting, talk, told};
use crate::pair::{Faults, Pair};
use fabriscope_capture::{Format, Framing, Interface, STAND_IN_SLINGSHOT, STAND_IN_SRD, STAND_IN_ULTRA_ETHERNET, write};
use fabriscope_engine::{Seen, Sighting};
use fabriscope_verbs::*;
use fabriscope_wire::ultra::{NextSes, Pds, SesRequest, SesResponse, ULTRA_ETHERNET_PORT, nack};
use fabriscope_wire::{Ddp, Ethernet, Ipv4, LinkLayer, Mpa, Operation, Placement, RdmapOpcode, Syndrome, Tcp, Transport, Udp};

const ETHERNET: Framing = Framing::of(LinkLayer::RoceV2Ipv4);

/// Three packets of an MTU of 4096 B.
const LONG: u32 = 2 * 4096 + 188;

/// What two adapters say to each other: a message of three packets, one of one with immediate data, a READ, both atomics, as far as
/// the service has them.
fn exchange(kind: QpType) -> Vec<Sighting> {
    let mut pair = Pair::new(|init| init, kind, Faults::default());
    pair.connect(Mtu::B256, 5, |_| (), |_| ());
    pair.fill(0, 0, &(0..=255).cycle().take(LONG as usize).collect::<Vec<u8>>());
    for id in 0..4 {
        let sge = pair.sge(1, 32_768, LONG);
        pair.post_recv(1, id, sge).unwrap();
    }
    let mut seen = Vec::new();
    let whole = if matches!(kind, QpType::UetUud | QpType::Srd) { 700 } else { LONG };
    let (long, short, target) = (pair.sge(0, 0, whole), pair.sge(0, 0, 8), pair.remote(1, 16_384));
    let all = [
        SendWr::send(1, long),
        SendWr::send(2, short).with_imm(0xABCD),
        SendWr::write(3, long, target),
        SendWr::read(4, long, target),
        SendWr::fetch_add(5, short, target, 5),
        SendWr::cmp_swap(6, short, target, 5, 6),
    ];
    for mut wr in all.into_iter().filter(|wr| kind.has(wr.opcode)) {
        let (pd, dlid, remote_qpn) = (pair.ends[0].pd, pair.ends[1].nic.lid(), pair.ends[1].qp);
        let ah = pair.ends[0].nic.create_ah(pd, AhAttr { dlid, sl: 1 }).unwrap();
        wr.ud = (kind != QpType::Iwarp).then_some(UdDestination { ah, remote_qpn, remote_qkey: 7 });
        pair.post(0, &wr).unwrap();
        talk(&mut pair, &mut seen);
    }
    seen
}

fn packet(sighting: &Sighting) -> (&Packet, Ext) {
    let Seen::Packet { packet, ext, .. } = &sighting.seen else { panic!("a packet") };
    (packet, ext.as_deref().cloned().unwrap_or_default())
}

/// What is behind the UDP header.
fn behind_udp(frame: &[u8]) -> (Udp, &[u8]) {
    let (_, ethernet) = Ethernet::decode(frame).unwrap();
    let (ip, length) = Ipv4::decode(&frame[ethernet..]).unwrap();
    assert_eq!(ip.protocol, Udp::PROTOCOL);
    let rest = &frame[ethernet + length..];
    (Udp::decode(rest).unwrap(), &rest[Udp::BYTES..])
}

/// Bytes of the SES header: of requests 44, with 4 more for a sum and 36 for compare and swap; of responses 12, with data 20.
fn semantics(bytes: &[u8], next: NextSes) -> usize {
    match next {
        NextSes::None => 0,
        NextSes::Request if bytes[0] != 4 => SesRequest::BYTES,
        NextSes::Request => SesRequest::BYTES + if bytes[SesRequest::BYTES] == 0x0D { 36 } else { 4 },
        NextSes::Response => SesResponse::BYTES[0],
        NextSes::ResponseData => SesResponse::BYTES[1],
    }
}

#[test]
fn ultra_ethernet_has_its_own_headers_behind_its_own_port() {
    let modes = [(QpType::Uet, 4), (QpType::UetRod, 4), (QpType::UetRudi, 2), (QpType::UetUud, 2)];
    for (kind, least) in modes {
        let seen = exchange(kind);
        let mut types = std::collections::BTreeSet::new();
        for sighting in &seen {
            let frame = ETHERNET.frame(&sighting.seen, [0; 6]).unwrap();
            let (udp, bytes) = behind_udp(&frame);
            assert_eq!((udp.destination, usize::from(udp.length)), (ULTRA_ETHERNET_PORT, Udp::BYTES + bytes.len()));
            let (pds, length) = Pds::decode(bytes).unwrap();
            let (packet, ext) = packet(sighting);
            let next = match pds {
                Pds::Request { ordered, next, psn, syn, ack_request, .. } => {
                    assert_eq!((ordered, psn), (kind == QpType::UetRod, packet.psn));
                    assert_eq!((syn.is_some(), ack_request), (packet.psn == ext.start, packet.flags.contains(PacketFlags::ACK_REQ)));
                    next
                }
                Pds::Idempotent { next, response, id } => {
                    let answers = (Operation::ReadResponseFirst as u8..=Operation::Acknowledge as u8).contains(&(packet.opcode & 0x1F));
                    assert_eq!((kind, response, id), (QpType::UetRudi, answers, packet.psn));
                    next
                }
                Pds::Unreliable { next } => {
                    assert_eq!(kind, QpType::UetUud);
                    next
                }
                Pds::Ack { next, cumulative, ack_offset, .. } => {
                    assert_eq!((cumulative, cumulative.wrapping_add_signed(ack_offset.into())), (packet.psn, ext.context));
                    next
                }
                Pds::Nack { .. } => panic!("nothing was refused"),
            };
            types.insert(format!("{:?} {next:?}", std::mem::discriminant(&pds)));
            let header = length + semantics(&bytes[length..], next);
            let operand = matches!(packet.opcode & 0x1F, op if op == Operation::FetchAdd as u8 || op == Operation::AtomicAcknowledge as u8);
            let payload = usize::from(packet.payload) + if operand { 8 } else { 0 };
            assert_eq!(bytes.len(), header + payload, "{kind:?} {pds:?}");
            if let Some(data) = ext.data.as_ref().filter(|data| !operand && data.len() == payload) {
                assert_eq!(&bytes[header..], &data[..]);
            }
        }
        assert!(types.len() >= least / 2 && seen.len() >= least, "{kind:?}: {types:?}");
        assert!(ETHERNET.stand_ins(&seen).is_empty());
        // A program that is not ours sees whole datagrams with right checksums and no BTH.
        let fields = ["udp.dstport", "udp.length", "ip.checksum.status", "_ws.malformed", "infiniband.bth.opcode"];
        let lines = told("uet", (ETHERNET, Format::PcapNg), &seen, &fields);
        assert_eq!(lines.len(), seen.len());
        for line in lines {
            assert_eq!((line[0].as_str(), line[2].as_str(), &line[3..]), ("4793", "1", &[String::new(), String::new()][..]), "{line:?}");
        }
    }
}

/// A message of three packets: where each belongs, and what it is part of.
#[test]
fn messages_of_ultra_ethernet_in_several_packets() {
    let seen = exchange(QpType::Uet);
    let writes: Vec<Vec<u8>> = seen
        .iter()
        .filter(|sighting| (6..=10).contains(&(packet(sighting).0.opcode & 0x1F)))
        .map(|sighting| behind_udp(&ETHERNET.frame(&sighting.seen, [0; 6]).unwrap()).1[12..56].to_vec())
        .collect();
    assert_eq!(writes.len(), 3);
    // Opcode, flags: SOM; nothing; EOM. Payload and offset of those behind the first; the length of the message is theirs.
    assert_eq!(writes.iter().map(|ses| (ses[0], ses[1])).collect::<Vec<_>>(), [(1, 1), (1, 0), (1, 2)]);
    let word = |ses: &[u8], at: usize| u32::from_be_bytes([ses[at], ses[at + 1], ses[at + 2], ses[at + 3]]);
    assert_eq!(writes[1..].iter().map(|ses| (word(ses, 32), word(ses, 36))).collect::<Vec<_>>(), [(4096, 4096), (188, 8192)]);
    assert!(writes.iter().all(|ses| word(ses, 40) == LONG && ses[2..4] == writes[0][2..4] && word(ses, 16) == 16_384));
    // Immediate data is header data.
    let sends = seen.iter().filter(|sighting| packet(sighting).0.opcode & 0x1F == Operation::SendOnlyImm as u8);
    let imm: Vec<Vec<u8>> = sends.map(|sighting| behind_udp(&ETHERNET.frame(&sighting.seen, [0; 6]).unwrap()).1[12..56].to_vec()).collect();
    assert_eq!((imm.len(), imm[0][1], word(&imm[0], 36)), (1, 7, 0xABCD));
}

#[test]
fn what_ultra_ethernet_refuses() {
    let ack = |syndrome: u8, flags| {
        let opcode = (Transport::Rud as u8) << 5 | Operation::Acknowledge as u8;
        let packet = Packet { dest: Lid(1), psn: 9, opcode, syndrome, flags, ..Packet::default() };
        let seen = sighting(0, 0, packet, Some(Ext { context: 10, ..Ext::default() })).seen;
        Pds::decode(behind_udp(&ETHERNET.frame(&seen, [0; 6]).unwrap()).1).unwrap().0
    };
    let code = |pds| if let Pds::Nack { code, psn, .. } = pds { Some((code, psn)) } else { None };
    let fine = Syndrome::ACK.encode();
    assert_eq!(code(ack(fine, PacketFlags::TRIMMED)), Some((nack::TRIMMED, 10)));
    assert_eq!(code(ack(0x60, PacketFlags::NONE)), Some((nack::ROD_OOO, 10)));
    assert_eq!(code(ack(0x28, PacketFlags::NONE)), Some((nack::NO_RESOURCE, 10)));
    assert!(matches!(ack(fine, PacketFlags::BECN), Pds::Ack { marked: true, ack_offset: 1, cumulative: 9, .. }));
}

/// Each packet is a segment of TCP with one whole frame of MPA, whose CRC is right; the ports are those of the connection.
#[test]
fn frames_of_iwarp_in_their_stream() {
    let seen = exchange(QpType::Iwarp);
    let mut opcodes = std::collections::BTreeSet::new();
    let mut ends = std::collections::BTreeSet::new();
    for sighting in &seen {
        let bytes = ETHERNET.frame(&sighting.seen, [0; 6]).unwrap();
        let (_, ethernet) = Ethernet::decode(&bytes).unwrap();
        let (_, ip) = Ipv4::decode(&bytes[ethernet..]).unwrap();
        let (tcp, length) = Tcp::decode(&bytes[ethernet + ip..]).unwrap();
        ends.insert((tcp.source.min(tcp.destination), tcp.source.max(tcp.destination)));
        let stream = &bytes[ethernet + ip + length..];
        let (packet, ext) = packet(sighting);
        let frame = ext.frame().unwrap();
        assert_eq!(stream.len(), frame.segment.payload as usize);
        if stream.is_empty() {
            continue;
        }
        let (segment, whole) = Mpa::unframe(stream).unwrap();
        let ddp = Ddp::decode(segment).unwrap();
        assert_eq!((whole, Some(ddp)), (stream.len(), frame.ddp));
        opcodes.insert(ddp.opcode);
        if matches!(ddp.placement, Placement::Tagged { .. }) {
            assert_eq!(segment.len(), ddp.header_bytes() + usize::from(packet.payload));
        }
        if let (Some(data), RdmapOpcode::Write) = (&ext.data, ddp.opcode) {
            assert_eq!(&segment[ddp.header_bytes()..], &data[..]);
        }
    }
    let all = [RdmapOpcode::Write, RdmapOpcode::ReadRequest, RdmapOpcode::ReadResponse, RdmapOpcode::Send];
    assert!(all.iter().all(|opcode| opcodes.contains(opcode)), "{opcodes:?}");
    assert_eq!(ends.len(), 1, "one connection");
    for line in told("iwarp", (ETHERNET, Format::Pcap), &seen, &["ip.checksum.status", "tcp.checksum.status", "_ws.malformed"]) {
        assert_eq!(line, ["1", "1", ""]);
    }
}

/// SRD and Slingshot have no published layout: the file says what stands in their place.
#[test]
fn stand_ins_are_said_in_the_file() {
    let comments = |framing: Framing, seen: &[Sighting]| {
        let mut bytes = Vec::new();
        let interface = Interface { name: "node 0".to_owned(), bits_per_s: 1 };
        write(&mut bytes, (Format::PcapNg, framing, u32::MAX), &[interface], seen, |_| (0, [0; 6])).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        [STAND_IN_SRD, STAND_IN_SLINGSHOT, STAND_IN_ULTRA_ETHERNET].map(|comment| text.contains(comment))
    };
    let (srd, uet) = (exchange(QpType::Srd), exchange(QpType::Uet));
    assert_eq!(comments(ETHERNET, &srd), [true, false, false]);
    assert_eq!(comments(ETHERNET, &uet), [false; 3]);
    assert_eq!(comments(Framing { slingshot: true, ..ETHERNET }, &uet), [false, true, false]);
    assert_eq!(comments(Framing::of(LinkLayer::InfiniBand), &uet), [false, false, true]);
    // tshark shows the comment, and reads the packets as what they stand for.
    let lines = told("srd", (ETHERNET, Format::PcapNg), &srd, &["udp.dstport", "frame.comment"]);
    assert!(lines.iter().all(|line| line[0] == "4791"), "{lines:?}");
}
