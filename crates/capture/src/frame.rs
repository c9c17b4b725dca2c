//! From a packet of the model to the bytes on the wire.
//!
//! Packets of TCP and of iWARP are in `ip.rs`, those of Ultra Ethernet in `uet.rs`.
//!
//! Source: InfiniBand volume 1, §5.2 (packet format), §9.2 to §9.4 (headers), annexes A16 and A17; IEEE 802.1Q clause 36.
//! Modelled: LRH, GRH, Ethernet, IPv4, IPv6, UDP; BTH and all extended headers; payload and pad; ICRC and VCRC.
//! Not modelled: the Ethernet FCS (captures leave it out); bits of the message sequence number above the 16th, and the
//! payload where programs have no memory: both are zero.

use std::num::NonZeroU32;

use fabriscope_engine::{Seen, Sighting};
use fabriscope_verbs::{Ext, Lid, Packet, PacketFlags};
use fabriscope_wire::ultra::ULTRA_ETHERNET_PORT;
use fabriscope_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Delivery, Deth, Ethernet, Grh, Ieth, ImmDt, Ipv4, LinkLayer, Lrh, NextHeader, Opcode,
    PriorityPause, Psn, Reth, Syndrome, Transport, Udp, WireError, icrc, pad, vcrc,
};

use crate::address::Address;
use crate::ip::{self, TIME_TO_LIVE};
use crate::uet;

/// How the packets of a network are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The layers below the transport.
    pub layer: LinkLayer,
    /// The network is Slingshot, whose own layout is not published.
    pub slingshot: bool,
    /// Adapters of an InfiniBand subnet, where routers join several.
    pub subnet: Option<NonZeroU32>,
}

/// What stands in a capture in the place of packets whose layout is not published.
pub const STAND_IN_SRD: &str = "SRD (EFA) is in the form of RoCE version 2, with the transport 6 of the opcode that RoCE leaves to manufacturers: \
its own layout is not published. Sizes are those of the form, not of SRD.";
/// The same of Slingshot.
pub const STAND_IN_SLINGSHOT: &str = "Slingshot is in the form of RoCE version 2: the layout of its own packets is not published.";
/// The same of Ultra Ethernet on a link layer without UDP.
pub const STAND_IN_ULTRA_ETHERNET: &str =
    "Ultra Ethernet is in the form of a base transport header: this link layer has no UDP, by which it goes.";

/// The most adapters of an InfiniBand subnet: unicast LIDs are 1 to 0xBFFF. Basis: standard, volume 1 §4.1.3.
pub const LARGEST_SUBNET: u32 = 0xBFFF;

const ICRC_BYTES: usize = 4;

impl Framing {
    /// The packets of a link layer.
    #[must_use]
    pub const fn of(layer: LinkLayer) -> Framing {
        Framing { layer, slingshot: false, subnet: None }
    }

    /// The layers below the transport of a packet from one adapter to another: between subnets of InfiniBand with a global route header.
    fn layer_between(&self, from: Address, to: Address) -> LinkLayer {
        match (self.layer, self.subnet) {
            (LinkLayer::InfiniBand, Some(adapters)) => {
                let apart = |from, to| !Lid(from).shares_subnet(Lid(to), adapters);
                let routed = from.endpoint().zip(to.endpoint()).is_some_and(|(from, to)| apart(from, to));
                if routed { LinkLayer::InfiniBandGrh } else { LinkLayer::InfiniBand }
            }
            (layer, _) => layer,
        }
    }

    /// Whether packets that are delivered so are written with the headers of Ultra Ethernet.
    const fn is_uet(&self, delivery: Delivery) -> bool {
        delivery.is_ultra_ethernet() && matches!(self.layer, LinkLayer::RoceV2Ipv4 | LinkLayer::RoceV2Ipv6 | LinkLayer::RoceShort)
    }

    /// What of a capture is not in its own form, in words.
    #[must_use]
    pub fn stand_ins(&self, sightings: &[Sighting]) -> Vec<&'static str> {
        let delivery = |sighting: &Sighting| match &sighting.seen {
            Seen::Packet { packet, ext, .. } if packet.opcode >> 5 == Transport::Rud as u8 => {
                // Packets without a base transport header have tags of their own in the place of the opcode.
                let foreign = ext.as_ref().is_some_and(|ext| ext.segment().is_some() || ext.frame().is_some() || ext.datagram().is_some());
                (!foreign).then(|| ext.as_ref().map_or(Delivery::Rud, |ext| ext.delivery))
            }
            _ => None,
        };
        let has = |wanted: &dyn Fn(Delivery) -> bool| sightings.iter().filter_map(delivery).any(wanted);
        let mut notes = Vec::new();
        if self.slingshot {
            notes.push(STAND_IN_SLINGSHOT);
        }
        if has(&|delivery| delivery == Delivery::Srd) {
            notes.push(STAND_IN_SRD);
        }
        if has(&|delivery| delivery.is_ultra_ethernet() && !self.is_uet(delivery)) {
            notes.push(STAND_IN_ULTRA_ETHERNET);
        }
        notes
    }

    /// The bytes of what was seen; `sender` is the Ethernet address of the port that a pause frame comes from.
    ///
    /// # Errors
    /// An opcode or syndrome that the standard does not define.
    pub fn frame(&self, seen: &Seen, sender: [u8; 6]) -> Result<Vec<u8>, WireError> {
        match seen {
            Seen::Pause { priority, quanta } => Ok(pause(*priority, *quanta, sender)),
            Seen::Packet { source, lane, packet, ext } => {
                let none = Ext::default();
                self.packet(*source, *lane, packet, ext.as_deref().unwrap_or(&none))
            }
        }
    }

    /// A packet of IP, around what the program's or the adapter's TCP or UDP made.
    fn around_ip(&self, datagram: Vec<u8>, ends: (Address, Address), lane: u8, packet: &Packet, ext: &Ext) -> Result<Vec<u8>, WireError> {
        if self.layer.is_ethernet() {
            return Ok([&ethernet_header(Ethernet::IPV4, ends.0, ends.1)[..], &datagram].concat());
        }
        self.wrap(ip::over_infiniband(&datagram, partition(ext)), ends, lane, packet)
    }

    fn packet(&self, source: Option<u32>, lane: u8, packet: &Packet, ext: &Ext) -> Result<Vec<u8>, WireError> {
        let segment = ext.segment().or_else(|| ext.frame().map(|frame| &frame.segment));
        let ends = (source.map_or(Address::UNKNOWN, Address::of), Address::of(packet.dest.0));
        let ecn = if packet.flags.contains(PacketFlags::ECN_CE) { Ipv4::CE } else { 0 };
        let dscp = (packet.sl & 7) << 3;
        if let Some(segment) = segment {
            let data = match ext.frame() {
                Some(frame) => ip::iwarp(frame, packet.payload.into(), ext.data.as_deref())?,
                None => vec![0; segment.payload as usize],
            };
            return self.around_ip(ip::datagram(&segment.header, &data, ends, dscp, ecn), ends, lane, packet, ext);
        }
        if let Some(datagram) = ext.datagram() {
            return self.around_ip(ip::fragment(datagram, ends, dscp, ecn), ends, lane, packet, ext);
        }
        let opcode = Opcode::decode(packet.opcode)?;
        if opcode.transport() == Transport::Rud && self.is_uet(ext.delivery) {
            let transport = uet::transport(source, opcode, packet, ext)?;
            let mut frame = Vec::with_capacity(transport.len() + 64);
            self.envelope(&mut frame, ends, (lane, ULTRA_ETHERNET_PORT), packet, transport.len());
            frame.extend(transport);
            return Ok(frame);
        }
        self.wrap(transport(self.layer, packet, ext)?, ends, lane, packet)
    }

    /// What goes around a packet from its BTH on.
    fn wrap(&self, transport: Vec<u8>, (from, to): (Address, Address), lane: u8, packet: &Packet) -> Result<Vec<u8>, WireError> {
        let length = transport.len() + ICRC_BYTES;
        let mut frame = Vec::with_capacity(length + 64);
        let covered = self.envelope(&mut frame, (from, to), (lane, Udp::ROCE_V2), packet, length);
        frame.extend(transport);
        let crc = icrc(self.layer_between(from, to), &frame[covered..])?;
        frame.extend(crc.to_le_bytes());
        if !self.layer.is_ethernet() {
            let crc = vcrc(&frame);
            frame.extend(crc.to_le_bytes());
        }
        Ok(frame)
    }

    /// Everything before the transport, of which `length` bytes follow with the ICRC; gives where the ICRC begins to count.
    fn envelope(
        &self,
        frame: &mut Vec<u8>,
        (from, to): (Address, Address),
        (lane, port): (u8, u16),
        packet: &Packet,
        length: usize,
    ) -> usize {
        let ecn = if packet.flags.contains(PacketFlags::ECN_CE) { Ipv4::CE } else { Ipv4::ECT };
        // A class selector: the priority in the upper three bits.
        let dscp = (packet.sl & 7) << 3;
        let ethernet = |ethertype| ethernet_header(ethertype, from, to);
        let grh = |traffic_class, next_header, payload_length: usize| Grh {
            traffic_class,
            flow_label: u32::from(packet.entropy),
            payload_length: payload_length as u16,
            next_header,
            hop_limit: TIME_TO_LIVE,
            sgid: from.gid(),
            dgid: to.gid(),
        };
        let udp = Udp { source: FIRST_PORT | packet.entropy & !FIRST_PORT, destination: port, length: (Udp::BYTES + length) as u16 };
        match self.layer_between(from, to) {
            layer @ (LinkLayer::InfiniBand | LinkLayer::InfiniBandGrh) => {
                let global = layer == LinkLayer::InfiniBandGrh;
                let bytes = Lrh::BYTES + if global { Grh::BYTES } else { 0 } + length;
                let next = if global { NextHeader::Grh } else { NextHeader::Bth };
                let lrh = Lrh { vl: lane & 0xF, sl: packet.sl & 0xF, next, dlid: to.lid(), words: (bytes / 4) as u16, slid: from.lid() };
                frame.extend(lrh.encode());
                if global {
                    frame.extend(grh(packet.sl << 4, Grh::NEXT_BTH, length).encode());
                }
                0
            }
            LinkLayer::RoceV1 => {
                frame.extend(ethernet(Ethernet::ROCE_V1));
                frame.extend(grh(dscp << 2, Grh::NEXT_BTH, length).encode());
                Ethernet::BYTES
            }
            // Hosts have the headers for which the short one stands.
            LinkLayer::RoceV2Ipv4 | LinkLayer::RoceShort => {
                frame.extend(ethernet(Ethernet::IPV4));
                frame.extend(ip::header(Udp::PROTOCOL, Udp::BYTES + length, (from, to), (dscp, ecn)).encode());
                frame.extend(udp.encode());
                Ethernet::BYTES
            }
            LinkLayer::RoceV2Ipv6 => {
                frame.extend(ethernet(Ethernet::IPV6));
                frame.extend(grh(dscp << 2 | ecn, Udp::PROTOCOL, Udp::BYTES + length).encode());
                frame.extend(udp.encode());
                Ethernet::BYTES
            }
        }
    }
}

fn ethernet_header(ethertype: u16, from: Address, to: Address) -> [u8; Ethernet::BYTES] {
    Ethernet { destination: to.mac(), source: from.mac(), ethertype }.encode()
}

/// The P_Key of a packet; that of the default partition where ports have no table of them.
fn partition(ext: &Ext) -> u16 {
    if ext.pkey == 0 { Bth::DEFAULT_PKEY } else { ext.pkey }
}

/// UDP source ports of flows begin here. Basis: annex A17 recommends 0xC000 to 0xFFFF.
const FIRST_PORT: u16 = 0xC000;

/// The queue pair that the BTH names: of reliable datagrams the one behind the end-to-end context.
fn destination(opcode: Opcode, packet: &Packet, ext: &Ext) -> u32 {
    let behind = opcode.transport() == Transport::Rd && !opcode.is_response();
    if behind { ext.context & 0xff_ffff } else { packet.dest_qp }
}

/// From the BTH to the pad.
fn transport(layer: LinkLayer, packet: &Packet, ext: &Ext) -> Result<Vec<u8>, WireError> {
    let opcode = Opcode::decode(packet.opcode)?;
    let marked = packet.flags.contains(PacketFlags::ECN_CE);
    let bth = Bth {
        solicited: packet.flags.contains(PacketFlags::SE),
        pad: pad(u32::from(packet.payload)) as u8,
        // Ethernet has the mark in the IP header.
        fecn: marked && !layer.is_ethernet(),
        becn: packet.flags.contains(PacketFlags::BECN) || opcode == Opcode::CNP,
        ack_request: packet.flags.contains(PacketFlags::ACK_REQ),
        pkey: partition(ext),
        // Connections without a second path are in the state MIGRATED; datagrams have no such state.
        migrated: matches!(opcode.transport(), Transport::Rc | Transport::Uc | Transport::Rd | Transport::Xrc)
            && !packet.flags.contains(PacketFlags::UNMIGRATED),
        ..Bth::new(opcode, destination(opcode, packet, ext), Psn::new(packet.psn))
    };
    let mut bytes = Vec::with_capacity(usize::from(packet.payload) + 64);
    bytes.extend(bth.encode());
    extended(&mut bytes, opcode, packet, ext)?;
    let payload = usize::from(packet.payload);
    match &ext.data {
        Some(data) if data.len() == payload && opcode.has_payload() => bytes.extend_from_slice(data),
        _ => bytes.resize(bytes.len() + payload, 0),
    }
    bytes.resize(bytes.len() + usize::from(bth.pad), 0);
    Ok(bytes)
}

/// The headers between BTH and payload, in the order of the standard (table 38).
fn extended(bytes: &mut Vec<u8>, opcode: Opcode, packet: &Packet, ext: &Ext) -> Result<(), WireError> {
    if opcode == Opcode::CNP {
        bytes.extend([0; CNP_RESERVED]);
        return Ok(());
    }
    let deth = Deth { qkey: ext.qkey, source_qp: ext.src_qp.0 }.encode();
    match (opcode.transport(), opcode.is_response()) {
        // SRD's layout is not published: what its packets hold of these stands as in a DETH.
        (Transport::Ud | Transport::Rud, _) => bytes.extend(deth),
        (Transport::Dc, false) => bytes.extend(u64::from(ext.qkey).to_be_bytes()),
        (Transport::Rd, response) => {
            bytes.extend((packet.dest_qp & 0xff_ffff).to_be_bytes());
            if !response {
                bytes.extend(deth);
            }
        }
        (Transport::Xrc, false) => bytes.extend((ext.context & 0xff_ffff).to_be_bytes()),
        _ => {}
    }
    if opcode.has_reth() {
        bytes.extend(Reth { address: ext.remote_addr, rkey: ext.rkey.0, length: ext.dma_length }.encode());
    }
    if opcode.is_atomic() {
        let swaps = matches!(opcode.operation(), Some(fabriscope_wire::Operation::CompareSwap));
        let (swap_add, compare) = if swaps { (ext.swap, ext.compare_add) } else { (ext.compare_add, 0) };
        bytes.extend(AtomicEth { address: ext.remote_addr, rkey: ext.rkey.0, swap_add, compare }.encode());
    }
    if opcode.has_aeth() {
        bytes.extend(Aeth { syndrome: Syndrome::decode(packet.syndrome)?, msn: u32::from(packet.msn) }.encode());
    }
    if matches!(opcode.operation(), Some(fabriscope_wire::Operation::AtomicAcknowledge)) {
        bytes.extend(AtomicAckEth { original: ext.compare_add }.encode());
    }
    if opcode.has_immediate() {
        bytes.extend(ImmDt { immediate: ext.imm }.encode());
    }
    if opcode.has_invalidate() {
        bytes.extend(Ieth { rkey: ext.rkey.0 }.encode());
    }
    Ok(())
}

/// Length in bytes. Basis: standard, annex A17.
const CNP_RESERVED: usize = 16;

fn pause(priority: u8, quanta: u16, source: [u8; 6]) -> Vec<u8> {
    let ethernet = Ethernet { destination: PriorityPause::DESTINATION, source, ethertype: Ethernet::MAC_CONTROL };
    let mut frame = ethernet.encode().to_vec();
    frame.extend(PriorityPause::of(priority, quanta).encode());
    frame.resize(PriorityPause::FRAME_BYTES, 0);
    frame
}
