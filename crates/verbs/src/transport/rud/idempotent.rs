//! Idempotent delivery (RUDI): the receiver keeps nothing, each packet is carried out whenever it comes and answered alone.
//!
//! Source: Ultra Ethernet specification 1.0, §3.5 (RUDI: requests are numbered for the sender only, no context at the receiver,
//! every request has a response, writes and reads only).
//! Modelled: WRITE and READ, a packet of either with its own address; the answer to a READ carries the bytes and is repeated by
//! asking again; the sender's window, loss and congestion control are those of the other modes.
//! Not modelled: –

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Delivery, NakCode, Operation, Psn, Syndrome, Transport};

use super::context::{Context, receives, status_of};
use super::headers;
use super::receiver::{Refusal, check};
use crate::access::{Access, MemoryId};
use crate::attr::QpType;
use crate::cc::{AckInfo, Echo, Loss, Telemetry};
use crate::ext_headers::{Ext, ExtHeaders};
use crate::ids::{Lid, Lkey, QpNum};
use crate::memory;
use crate::packet::{Landed, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::wr::Sge;

/// The answer to one packet.
pub(super) struct Answer {
    dest: Lid,
    sl: u8,
    entropy: u16,
    asked: Psn,
    start: u32,
    syndrome: u8,
    flags: PacketFlags,
    target: QpNum,
    /// What a READ asks for.
    read: Option<Sge>,
    links: Telemetry,
}

impl Answer {
    /// On the wire: an acknowledgement, or the bytes that were asked for.
    pub(super) fn packet(self, port: &Port, side: &mut ExtHeaders) -> Transmit {
        let operation = if self.read.is_some() { Operation::ReadResponseOnly } else { Operation::Acknowledge };
        let opcode = (Transport::Rud as u8) << 5 | operation as u8;
        let payload = self.read.map_or(0, |sge| sge.length as u16);
        let data = match (&self.read, &port.memory) {
            (Some(sge), Some(memory)) if payload > 0 => {
                let list = std::slice::from_ref(sge);
                Some(memory::gather(memory.as_ref(), port.regions.domain_of(list), list, 0, usize::from(payload)).into())
            }
            _ => None,
        };
        let (context, links, delivery) = (self.asked.as_u32(), self.links, Delivery::Rudi);
        let ext = Ext { slid: port.lid, context, start: self.start, links, delivery, data, ..Ext::default() };
        let packet = Packet {
            dest: self.dest,
            dest_qp: 0,
            psn: self.asked.as_u32(),
            ext: side.alloc(ext),
            wire_bytes: port.wire_bytes_with(opcode, payload, headers::more(QpType::UetRudi, opcode)),
            payload,
            opcode,
            flags: self.flags,
            syndrome: self.syndrome,
            sl: self.sl,
            entropy: self.entropy,
            msn: 0,
        };
        Transmit {
            responder: true,
            read_response: self.read.is_some(),
            fetch: Bytes(u64::from(payload)),
            place: self.read.map_or(MemoryId::HOST, |sge| port.regions.place_of(sge.lkey.0)),
            starts_message: true,
            ends_message: true,
            message_bytes: u32::from(payload),
            ..Transmit::plain(packet, self.target)
        }
    }
}

/// Whether a packet answers one of ours.
pub(super) fn is_answer(packet: &Packet) -> bool {
    let operation = packet.opcode & 0x1f;
    operation == Operation::Acknowledge as u8 || operation == Operation::ReadResponseOnly as u8
}

/// Carries out what a packet asks for; gives the answer to it.
pub(super) fn execute(target: Option<&mut Qp>, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) -> Answer {
    let trimmed = packet.flags.contains(PacketFlags::TRIMMED);
    let mut flags = if trimmed { PacketFlags::TRIMMED } else { PacketFlags::NONE };
    if packet.flags.contains(PacketFlags::ECN_CE) && port.congestion.echo == Echo::Acknowledge {
        flags |= PacketFlags::BECN;
    }
    let outcome = if trimmed { Ok(None) } else { carry_out(target, port, packet, ext, received) };
    received.dropped = trimmed || outcome.is_err();
    let (read, syndrome) = match outcome {
        Ok(read) => (read, Syndrome::ACK),
        Err(Refusal::Refused(code)) => (None, Syndrome::Nak(code)),
        Err(Refusal::NoReceive) => (None, Syndrome::Nak(NakCode::InvalidRequest)),
    };
    Answer {
        dest: ext.slid,
        sl: packet.sl,
        entropy: packet.entropy,
        asked: Psn::new(packet.psn),
        start: ext.start,
        syndrome: syndrome.encode(),
        flags,
        target: QpNum(packet.dest_qp),
        read,
        links: ext.links.clone(),
    }
}

/// Writes the bytes of a packet, or says which it asks for.
fn carry_out(
    target: Option<&mut Qp>,
    port: &mut Port,
    packet: &Packet,
    ext: &Ext,
    received: &mut Received,
) -> Result<Option<Sge>, Refusal> {
    let operation = packet.opcode & 0x1f;
    if operation == Operation::Resync as u8 {
        return Ok(None);
    }
    let invalid = Refusal::Refused(NakCode::InvalidRequest);
    let Some(qp) = target.filter(|qp| receives(qp, Delivery::Rudi) && ext.holds(packet.payload)) else { return Err(invalid) };
    let length = u64::from(ext.dma_length);
    if operation == Operation::ReadRequest as u8 && length <= u64::from(port.packet_mtu()) {
        check(qp, port, ext, length, Access::REMOTE_READ)?;
        return Ok(Some(Sge { addr: ext.remote_addr, length: ext.dma_length, lkey: Lkey(ext.rkey.0) }));
    }
    let writes = (Operation::WriteFirst as u8..=Operation::WriteOnly as u8).contains(&operation);
    if !writes || length != u64::from(packet.payload) {
        return Err(invalid);
    }
    check(qp, port, ext, length, Access::REMOTE_WRITE)?;
    if let (Some(memory), Some(data)) = (&mut port.memory, &ext.data) {
        memory.write(qp.init.pd, ext.remote_addr, data);
    }
    (received.write, received.place) = (Bytes(length), port.regions.place_of(ext.rkey.0));
    received.ended = matches!(operation, op if op == Operation::WriteOnly as u8 || op == Operation::WriteLast as u8);
    if length > 0 {
        port.landed.push_back(Landed::silent(ext.remote_addr, ext.dma_length));
    }
    Ok(None)
}

/// Whether a packet is a message of its own.
pub(super) fn is_whole(packet: &Packet) -> bool {
    let operation = packet.opcode & 0x1f;
    let whole = operation == Operation::SendOnly as u8 || operation == Operation::SendOnlyImm as u8;
    whole && !packet.flags.contains(PacketFlags::TRIMMED)
}

impl Context {
    /// The answer to one packet of ours.
    pub(super) fn answered_alone(&mut self, now: Time, port: &mut Port, packet: &Packet, ext: &Ext, received: &mut Received) {
        let (sender, asked) = (&mut self.sender, Psn::new(ext.context));
        let known = !asked.is_before(sender.una) && asked.is_before(sender.next) && !sender.arrived.has(asked);
        let (Ok(syndrome), true) = (Syndrome::decode(packet.syndrome), known && Psn::new(ext.start) == sender.start) else {
            received.dropped = true;
            return;
        };
        let bytes = packet.opcode & 0x1f == Operation::ReadResponseOnly as u8;
        if packet.flags.contains(PacketFlags::TRIMMED) {
            // The request lost its payload, or the answer did: either goes again with the request.
            sender.congestion.lost(now, Loss::Trimmed);
            sender.congestion.gone(asked);
            self.again(asked);
            self.heard(now, port);
            return self.continue_sending(now, port);
        }
        if bytes && !ext.holds(packet.payload) {
            received.dropped = true;
            return;
        }
        if let Syndrome::Nak(code) = syndrome {
            self.fail(asked, status_of(code), port);
            self.again(asked);
            return self.continue_sending(now, port);
        }
        let (before, mtu) = (sender.una, port.packet_mtu());
        let told = AckInfo::of(before, Some(asked), packet.flags.contains(PacketFlags::BECN));
        if sender.congestion.acknowledged(now, told, &ext.links, true) > 0 {
            sender.congestion.lost(now, Loss::Gap);
            let missing: Vec<Psn> = sender.congestion.missing().collect();
            missing.into_iter().for_each(|psn| self.again(psn));
        }
        let sender = &mut self.sender;
        if let Some(message) = sender.position_of(asked).map(|place| &sender.messages[place]).filter(|message| bytes && !message.done) {
            let offset = u64::from(asked.distance(message.first) as u32) * u64::from(mtu);
            if let Some(memory) = &mut port.memory {
                let pd = port.regions.domain_of(&message.sge);
                memory::scatter(memory.as_mut(), pd, &message.sge, offset, ext.data.as_deref().unwrap_or_default());
            }
            received.write = Bytes(u64::from(packet.payload));
            received.place = port.regions.place_in(&message.sge, offset, packet.payload.into());
        }
        self.took(asked, port);
        self.advance(before, port);
        self.sender.congestion.settle(self.sender.una);
        self.sender.silent = 0;
        if self.sender.una != before {
            self.start_timer(now, port);
        }
        self.continue_sending(now, port);
    }
}
