//! The receiving half of a connection: payload placed as it arrives, messages delivered in the order of the stream.
//!
//! Source: RFC 5041 §5 (placement and delivery, validation), §8.2 (errors), RFC 5040 §5 (semantics of operations), §7 (Terminate).
//! Modelled: a SEND takes the receive of its number, however early it comes; keys, bounds and rights of every segment; a segment that
//! is refused ends the stream when everything before it is delivered.
//! Not modelled: the copy of the headers in a Terminate.

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Ddp, Placement, RdmapOpcode, TerminateCode};

use super::frame::{Control, Frame};
use super::stream::{CloseReason, Delivery, Response, Stream};
use crate::access::Access;
use crate::memory;
use crate::packet::{Landed, Packet, PacketFlags, Received};
use crate::payload::PayloadBytes;
use crate::port::Port;
use crate::qp::Qp;
use crate::transport::inbound;
use crate::wc::{Wc, WcOpcode, WcStatus};
use crate::words::{AppWords, WordsId};
use crate::wr;

use Delivery::{Answered, GroupRequests, Refused, Terminated, Written};

impl Stream {
    /// A segment arrived.
    #[expect(clippy::too_many_arguments, reason = "what every transport hands on, and what the packet carried")]
    pub(super) fn arrived(
        &mut self,
        qp: &mut Qp,
        now: Time,
        port: &mut Port,
        packet: &Packet,
        frame: &Frame,
        (data, words): (Option<PayloadBytes>, Option<AppWords>),
        received: &mut Received,
    ) -> Option<CloseReason> {
        let segment = &frame.segment;
        let arrival = self.connection.handle_segment(now, segment, packet.flags.contains(PacketFlags::ECN_CE));
        self.acknowledged(arrival.acked, qp, port);
        let mut delivery = None;
        match &frame.ddp {
            Some(_) if self.ending || arrival.fresh == 0 => received.dropped = true,
            Some(ddp) => delivery = self.place(qp, port, packet, (ddp, frame.control), (data.as_deref(), words), received),
            None => {}
        }
        // Nobody reads the stream: what came is where it belongs.
        self.delivered += arrival.in_order;
        self.connection.read(arrival.in_order);
        let end = segment.offset + u64::from(segment.payload);
        let mut over = None;
        if let Some(delivery) = delivery {
            if end <= self.delivered {
                over = self.deliver(delivery, qp, port, received);
            } else {
                self.early.insert(end, delivery);
            }
        }
        while over.is_none()
            && let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.delivered)
        {
            let delivery = entry.remove();
            over = self.deliver(delivery, qp, port, received);
        }
        over.or((arrival.reset || arrival.ended).then_some(CloseReason::Closed))
    }

    /// Puts the payload of a segment where it belongs; says what it leads to.
    fn place(
        &mut self,
        qp: &mut Qp,
        port: &mut Port,
        packet: &Packet,
        (ddp, control): (&Ddp, Control),
        (data, words): (Option<&[u8]>, Option<AppWords>),
        received: &mut Received,
    ) -> Option<Delivery> {
        let length = u32::from(packet.payload);
        if data.is_some_and(|data| data.len() != length as usize) {
            return Some(Refused(TerminateCode::MpaCrc, None));
        }
        match (ddp.placement, control) {
            (_, Control::Read(request)) => Some(GroupRequests(request, packet.flags.contains(PacketFlags::TRACED))),
            (_, Control::Terminate(code)) => Some(Terminated(code)),
            (Placement::Untagged { message, offset, .. }, Control::Data) => {
                self.place_untagged(qp, port, ddp, (message, offset, length), (data, words), received)
            }
            (Placement::Tagged { stag, offset, .. }, Control::Data) => {
                let write = ddp.opcode == RdmapOpcode::Write;
                let allowed = !write || qp.attr.qp_access_flags.unwrap_or_default().contains(Access::REMOTE_WRITE);
                if !allowed || port.regions.check(stag, qp.init.pd, offset, u64::from(length), Access::REMOTE_WRITE).is_err() {
                    return Some(Refused(TerminateCode::BaseOrBounds, None));
                }
                if let (Some(memory), Some(data)) = (&mut port.memory, data) {
                    memory.write(qp.init.pd, offset, data);
                }
                (received.write, received.place) = (Bytes(length.into()), port.regions.place_of(stag));
                ddp.last.then_some(if write { Written { addr: offset, length, words } } else { Answered })
            }
        }
    }

    /// The same of a segment of a SEND: the message `number`, the place in it, its bytes.
    fn place_untagged(
        &mut self,
        qp: &mut Qp,
        port: &mut Port,
        ddp: &Ddp,
        (number, offset, length): (u32, u32, u32),
        (data, words): (Option<&[u8]>, Option<AppWords>),
        received: &mut Received,
    ) -> Option<Delivery> {
        let place = number.wrapping_sub(self.expected) as usize;
        while self.receives.len() <= place {
            let Some(wqe) = inbound::next_receive(qp, port) else { return Some(Refused(TerminateCode::UntaggedNoBuffer, None)) };
            received.recv_wqe_consumed = true;
            self.receives.push_back(wqe);
        }
        let list = &self.receives[place].sge;
        if port.regions.check_list(qp.init.pd, list, Access::LOCAL_WRITE).is_err() {
            return Some(Refused(TerminateCode::StreamCatastrophic, Some(WcStatus::LocProtErr)));
        }
        if u64::from(offset) + u64::from(length) > wr::total(list).0 {
            return Some(Refused(TerminateCode::UntaggedMessageTooLong, Some(WcStatus::LocLenErr)));
        }
        if let (Some(memory), Some(data)) = (&mut port.memory, data) {
            memory::scatter(memory.as_mut(), qp.init.pd, list, u64::from(offset), data);
        }
        received.write = Bytes(length.into());
        received.place = port.regions.place_in(list, u64::from(offset), length);
        let solicited = ddp.opcode == RdmapOpcode::SendSolicited;
        ddp.last.then_some(Delivery::Received { length: offset + length, solicited, words })
    }

    /// Everything before a segment is there, and so is the segment.
    fn deliver(&mut self, delivery: Delivery, qp: &mut Qp, port: &mut Port, received: &mut Received) -> Option<CloseReason> {
        match delivery {
            Delivery::Received { length, solicited, words } => {
                received.ended = true;
                self.expected = self.expected.wrapping_add(1);
                if let Some(wqe) = self.receives.pop_front() {
                    let wc = Wc::of(qp.home, wqe.wr_id, WcStatus::Success, WcOpcode::Recv, wqe.index);
                    let words = words.map_or(WordsId::NONE, |words| port.words.keep(words));
                    port.completions.push_back((qp.init.recv_cq, Wc { byte_len: length, solicited, srq: qp.init.srq, words, ..wc }));
                }
            }
            Written { addr, length, words } => {
                received.ended = true;
                if length > 0 {
                    let words = words.map_or(WordsId::NONE, |words| port.words.keep(words));
                    port.landed.push_back(Landed { addr, length, words });
                }
            }
            GroupRequests(request, traced) => {
                if self.responses.len() >= qp.responder.max_reads as usize {
                    return Some(CloseReason::Refused(TerminateCode::UntaggedNoBuffer, None));
                }
                let ((stag, addr), size) = (request.source, u64::from(request.size));
                let allowed = qp.attr.qp_access_flags.unwrap_or_default().contains(Access::REMOTE_READ);
                if !allowed || port.regions.check(stag, qp.init.pd, addr, size, Access::REMOTE_READ).is_err() {
                    return Some(CloseReason::Refused(TerminateCode::AccessRights, None));
                }
                self.responses.push_back(Response { request, traced });
            }
            Answered if qp.requester.reads == 0 => return Some(CloseReason::Refused(TerminateCode::UnexpectedOpcode, None)),
            Answered => {
                received.ended = true;
                self.answered += 1;
                qp.requester.reads -= 1;
                self.complete(qp, port);
            }
            Refused(code, status) => {
                let receive = status.and_then(|status| Some((self.receives.pop_front()?, status)));
                return Some(CloseReason::Refused(code, receive));
            }
            Terminated(code) => return Some(CloseReason::Terminated(code)),
        }
        None
    }
}
