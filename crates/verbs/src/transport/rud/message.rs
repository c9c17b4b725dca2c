//! Messages of reliable unordered delivery, and the packets they are cut into.

use fabriscope_units::Bytes;
use fabriscope_wire::{Operation, Part, Psn, Transport};

use super::headers::more;
use crate::attr::QpType;
use crate::ext_headers::{ExtHeaders, ExtId};
use crate::ids::{CqId, Lid, QpNum, WqeIndex};
use crate::memory;
use crate::packet::{Packet, PacketFlags, Transmit};
use crate::payload::PayloadBytes;
use crate::port::Port;
use crate::qp::requester::Extra;
use crate::transport::outbound::operation;
use crate::wc::{Wc, WcOpcode, WcStatus};
use crate::wr::{Remote, SendFlags, SgeList, WrOpcode};

/// Whose request it is: where its completion goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) qp: QpNum,
    pub(crate) cq: CqId,
    pub(crate) index: WqeIndex,
    pub(crate) wr_id: u64,
    pub(crate) signaled: bool,
    pub(crate) opcode: WcOpcode,
    pub(crate) length: u32,
}

/// How a packet is sent.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    /// It asks for an acknowledgement.
    pub(crate) ask: bool,
    /// It was sent before.
    pub(crate) repeated: bool,
}

impl Origin {
    /// Completes the request; its place in the queue of its queue pair is free when the completion is polled, or at once if
    /// there is none.
    pub(crate) fn complete(&self, status: WcStatus, port: &mut Port) {
        if !self.signaled && status == WcStatus::Success {
            port.silent.push(self.qp);
            return;
        }
        let byte_len = if status == WcStatus::Success { self.length } else { 0 };
        let wc = Wc { byte_len, ..Wc::of(self.qp, self.wr_id, status, self.opcode, self.index) };
        port.completions.push_back((self.cq, wc));
    }
}

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// SEND, WRITE: complete when all of it is acknowledged.
    Data(WrOpcode),
    /// READ, atomic: complete when the answer is here.
    Request(WrOpcode),
    /// The bytes of a READ, for the request with this number.
    ReadResponse { request: Psn },
    /// The old value of an atomic, for the request with this number.
    AtomicResponse { request: Psn, old: u64 },
    /// Nothing any more: its packets keep their numbers.
    Void,
}

/// A message to a peer.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// None of answers, and of requests whose queue pair is gone.
    pub(crate) origin: Option<Origin>,
    /// The type decides the size of the headers.
    pub(crate) qp_type: QpType,
    /// The queue pair that it comes from, and the one it is for.
    pub(crate) from: QpNum,
    pub(crate) to: QpNum,
    pub(crate) qkey: u32,
    pub(crate) remote: Remote,
    pub(crate) imm: Option<u32>,
    /// Operands of an atomic, words of a SEND or WRITE.
    pub(crate) extra: Extra,
    pub(crate) length: u32,
    /// Local memory.
    pub(crate) sge: SgeList,
    pub(crate) inline: Option<Box<[u8]>>,
    pub(crate) flags: SendFlags,
    /// The number of its first packet, once it has begun.
    pub(crate) first: Psn,
    /// How many packets it is, once it has begun.
    pub(crate) packets: u32,
    /// What all its packets say, while some of them were not sent.
    pub(crate) headers: ExtId,
    /// How many of them arrived.
    pub(crate) arrived: u32,
    /// It has completed, or there is nothing to complete.
    pub(crate) done: bool,
    /// How often it may find no receive, and still may; 7 never ends.
    pub(crate) receiver_retries: u8,
}

impl Message {
    /// Packets that it takes at this MTU.
    pub(crate) fn packets_at(&self, mtu: u32) -> u32 {
        match self.kind {
            Kind::Request(_) if self.qp_type.repeats() => self.length.div_ceil(mtu).max(1),
            Kind::Request(_) | Kind::AtomicResponse { .. } | Kind::Void => 1,
            Kind::Data(_) | Kind::ReadResponse { .. } => self.length.div_ceil(mtu).max(1),
        }
    }
    /// Packets of the answer that it asks for at this MTU.
    pub(crate) fn answer_packets(&self, mtu: u32) -> u32 {
        match self.kind {
            Kind::Request(_) if self.qp_type.repeats() => 0, // each packet is answered by one, as its acknowledgement
            Kind::Request(opcode) if opcode.is_read() => self.length.div_ceil(mtu).max(1),
            Kind::Request(_) => 1,
            Kind::Data(_) | Kind::ReadResponse { .. } | Kind::AtomicResponse { .. } | Kind::Void => 0,
        }
    }
    /// Bytes of payload of packet `number`.
    pub(crate) fn payload(&self, number: u32, mtu: u32) -> u16 {
        match self.kind {
            Kind::Request(_) | Kind::AtomicResponse { .. } | Kind::Void => 0,
            Kind::Data(_) | Kind::ReadResponse { .. } => (self.length - number * mtu).min(mtu) as u16,
        }
    }
    /// There was no receive: whether it asks again.
    pub(crate) fn ask_again(&mut self) -> bool {
        if self.done || self.receiver_retries == 0 {
            return false;
        }
        self.receiver_retries -= u8::from(self.receiver_retries != FOR_EVER);
        true
    }
    /// Completes the request, once.
    pub(crate) fn finish(&mut self, status: WcStatus, port: &mut Port) {
        if !self.headers.is_none() {
            port.orphans.push(std::mem::replace(&mut self.headers, ExtId::NONE));
        }
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Some(origin) = self.origin {
            origin.complete(status, port);
        }
    }

    fn operation(&self, part: Part) -> Operation {
        match (self.kind, part) {
            (Kind::Data(opcode), part) => operation(opcode, part),
            (Kind::Request(WrOpcode::AtomicCmpAndSwp), _) => Operation::CompareSwap,
            (Kind::Request(WrOpcode::AtomicFetchAndAdd), _) => Operation::FetchAdd,
            (Kind::Request(_), _) => Operation::ReadRequest,
            (Kind::AtomicResponse { .. }, _) => Operation::AtomicAcknowledge,
            (Kind::Void, _) => Operation::Resync,
            (Kind::ReadResponse { .. }, Part::Only) => Operation::ReadResponseOnly,
            (Kind::ReadResponse { .. }, Part::First) => Operation::ReadResponseFirst,
            (Kind::ReadResponse { .. }, Part::Last) => Operation::ReadResponseLast,
            (Kind::ReadResponse { .. }, Part::Middle) => Operation::ReadResponseMiddle,
        }
    }

    /// The extension headers of packet `number`: one entry for all packets of a message where they say the same.
    fn headers(
        &mut self,
        number: u32,
        route: Route,
        data: Option<PayloadBytes>,
        repeated: bool,
        port: &Port,
        side: &mut ExtHeaders,
    ) -> ExtId {
        let last = number + 1 == self.packets;
        let says = last && matches!(self.extra, Extra::Words(_));
        let alike = matches!(self.kind, Kind::Data(_) | Kind::ReadResponse { .. }) && self.packets > 1 && route.wanted == 0;
        let own = !alike || repeated || says || data.is_some() || self.qp_type.repeats() || port.congestion.telemetry;
        if own {
            let ext = self.write_headers(number, route, data, port, side);
            if last {
                side.free(std::mem::replace(&mut self.headers, ExtId::NONE));
            }
            return ext;
        }
        if self.headers.is_none() {
            self.headers = self.write_headers(number, route, None, port, side);
        }
        // The last packet takes the place of the message.
        if last { std::mem::replace(&mut self.headers, ExtId::NONE) } else { side.share(self.headers) }
    }

    fn write_headers(&self, number: u32, route: Route, data: Option<PayloadBytes>, port: &Port, side: &mut ExtHeaders) -> ExtId {
        let mtu = port.packet_mtu();
        let (last, offset) = (number + 1 == self.packets, number * mtu);
        side.alloc_with(|ext| {
            (ext.remote_addr, ext.rkey, ext.dma_length) = (self.remote.addr, self.remote.rkey, self.length);
            (ext.imm, ext.qkey, ext.src_qp, ext.slid) = (self.imm.unwrap_or(0), self.qkey, self.from, port.lid);
            (ext.context, ext.start, ext.credit) = (self.first.as_u32(), route.start.as_u32(), route.wanted);
            (ext.delivery, ext.data) = (self.qp_type.delivery(), data);
            match (self.kind, self.extra) {
                (Kind::Request(_), Extra::Atomic(atomic)) => {
                    (ext.compare_add, ext.swap, ext.masks) = (atomic.compare_add, atomic.swap, (atomic.ignore, atomic.keep));
                }
                (Kind::Data(_), Extra::Words(words)) if last => ext.say(words),
                _ => {}
            }
            match self.kind {
                Kind::ReadResponse { request } => ext.swap = u64::from(request.as_u32()),
                Kind::AtomicResponse { request, old } => (ext.swap, ext.compare_add) = (u64::from(request.as_u32()), old),
                Kind::Data(_) | Kind::Request(_) | Kind::Void => {}
            }
            if self.qp_type.repeats() {
                // The receiver keeps nothing: every packet says where its bytes are.
                (ext.remote_addr, ext.dma_length) =
                    (self.remote.addr + u64::from(offset), (self.length - offset.min(self.length)).min(mtu));
            }
        })
    }

    /// Packet `number`.
    pub(crate) fn packet(
        &mut self,
        number: u32,
        route: Route,
        Sending { ask, repeated }: Sending,
        port: &Port,
        side: &mut ExtHeaders,
    ) -> Transmit {
        let mtu = port.packet_mtu();
        let (first, last) = (number == 0, number + 1 == self.packets);
        let payload = self.payload(number, mtu);
        let offset = number * mtu;
        let data = match (&self.inline, &port.memory) {
            (Some(inline), _) => Some(inline[offset as usize..][..usize::from(payload)].into()),
            (None, Some(memory)) if payload > 0 => {
                let pd = port.regions.domain_of(&self.sge);
                Some(memory::lend(memory.as_ref(), pd, &self.sge, u64::from(offset), usize::from(payload)))
            }
            _ => None,
        };
        let ext = self.headers(number, route, data, repeated, port, side);
        let opcode = (Transport::Rud as u8) << 5 | self.operation((first, last).into()) as u8;
        let mut flags = if ask { PacketFlags::ACK_REQ } else { PacketFlags::NONE };
        if self.flags.contains(SendFlags::TRACED) {
            flags |= PacketFlags::TRACED;
        }
        if last && self.flags.contains(SendFlags::SOLICITED) {
            flags |= PacketFlags::SE;
        }
        let inline = self.flags.contains(SendFlags::INLINE);
        let answers = matches!(self.kind, Kind::ReadResponse { .. } | Kind::AtomicResponse { .. });
        let (wqe, wr_id) = self.origin.map_or((WqeIndex(0), 0), |origin| (origin.index, origin.wr_id));
        Transmit {
            place: port.regions.place_in(&self.sge, u64::from(offset), self.length.saturating_sub(offset).min(mtu)),
            packet: Packet {
                dest: route.dest,
                dest_qp: self.to.0,
                psn: (self.first + number).as_u32(),
                ext,
                wire_bytes: port.wire_bytes_with(opcode, payload, more(self.qp_type, opcode)),
                payload,
                opcode,
                flags,
                syndrome: 0,
                sl: route.sl,
                entropy: route.entropy,
                msn: 0,
            },
            qp: self.from,
            fetch: if inline { Bytes::ZERO } else { Bytes(u64::from(payload)) },
            responder: answers,
            read_response: matches!(self.kind, Kind::ReadResponse { .. }),
            starts_message: first,
            ends_message: last,
            inline,
            retransmission: repeated,
            wqe,
            wr_id,
            message_bytes: self.length,
        }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) dest: Lid,
    pub(crate) sl: u8,
    pub(crate) entropy: u16,
    /// The number at which the context began.
    pub(crate) start: Psn,
    /// What the context wants of its peer, under receiver credits.
    pub(crate) wanted: u32,
}

/// The retry count that never runs out. Basis: standard.
const FOR_EVER: u8 = 7;
