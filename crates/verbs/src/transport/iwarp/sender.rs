//! The sending half of a connection: requests and READ responses as frames, acknowledged bytes as completions.
//!
//! Source: RFC 5040 §5.5 (order of completion), §6.1 (limits of READs), RFC 5041 §5.3.
//! Modelled: one frame at a time is handed to TCP, when it can send; own requests and responses take turns by message; READs begin
//! within the limit that both ends agreed on.

use fabriscope_tcp::Segment;
use fabriscope_tcp::kernel::Framing;
use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Part, ReadRequest, TerminateCode};
use smallvec::smallvec;

use super::frame::{Control, Frame};
use super::message::{Kind, Message};
use super::stream::{Begun, CloseReason, Response, Stream};
use crate::attr::QpState;
use crate::ext_headers::{Ext, ExtHeaders, Foreign};
use crate::ids::{Lkey, QpNum, WqeIndex};
use crate::memory;
use crate::packet::{Body, IwarpKind, Packet, PacketFlags, Transmit};
use crate::payload::PayloadBytes;
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::{Extra, Wqe};
use crate::transport::outbound::{LONGEST_MESSAGE, local_error};
use crate::wr::{SendFlags, Sge, SgeList};

impl Stream {
    /// The next packet.
    pub(super) fn poll(&mut self, qp: &mut Qp, now: Time, port: &Port, side: &mut ExtHeaders) -> Result<Option<Transmit>, CloseReason> {
        if self.sent == self.posted {
            self.feed(qp, port)?;
        }
        let Some(segment) = self.connection.poll_transmit(now, 0) else { return Ok(None) };
        self.sent = self.sent.max(segment.offset + u64::from(segment.payload));
        qp.retransmissions += u64::from(segment.retransmission);
        Ok(Some(self.packet(segment, qp, port, side)))
    }

    /// Hands the next frame to TCP, if there is one and room for it.
    fn feed(&mut self, qp: &mut Qp, port: &Port) -> Result<(), CloseReason> {
        let unfinished = self.messages.back().is_some_and(|message| message.posted < message.segments);
        if !unfinished && (self.ending || !self.begin(qp, port)?) {
            return Ok(());
        }
        let Some(message) = self.messages.back_mut() else { return Ok(()) };
        let bytes = u64::from(message.frame_bytes(message.posted));
        if self.connection.send_space() < bytes {
            return Ok(());
        }
        self.connection.post_send(bytes);
        message.posted += 1;
        self.posted += bytes;
        if matches!(message.kind, Kind::Terminate(_)) {
            self.connection.close();
        }
        Ok(())
    }

    /// Begins the next message; false if there is none.
    fn begin(&mut self, qp: &mut Qp, port: &Port) -> Result<bool, CloseReason> {
        if (self.responding || self.responses.is_empty()) && self.begin_request(qp, port)? {
            self.responding = false;
            return Ok(true);
        }
        let Some(Response { request, traced }) = self.responses.pop_front() else { return Ok(false) };
        self.responding = true;
        let sge: SgeList = smallvec![Sge { addr: request.source.1, length: request.size, lkey: Lkey(request.source.0) }];
        let flags = if traced { SendFlags::TRACED } else { SendFlags::NONE };
        self.push(Kind::ReadResponse { sink: request.sink }, request.size, (sge, None, flags), (WqeIndex(0), 0));
        Ok(true)
    }

    /// Begins the request at the cursor; false if there is none or it has to wait.
    fn begin_request(&mut self, qp: &mut Qp, port: &Port) -> Result<bool, CloseReason> {
        let Some(wqe) = qp.requester.at_cursor().filter(|_| qp.state == QpState::Rts) else { return Ok(false) };
        let reads = qp.requester.reads;
        let full = wqe.opcode.is_read() && reads >= qp.requester.max_reads;
        if full || wqe.flags.contains(SendFlags::FENCE) && reads > 0 {
            return Ok(false);
        }
        if let Some(status) = local_error(qp, port, LONGEST_MESSAGE) {
            // What was begun before ends well first.
            return if qp.requester.cursor == qp.requester.front { Err(CloseReason::Local(status)) } else { Ok(false) };
        }
        let index = WqeIndex(qp.requester.cursor);
        let wqe = &mut qp.requester.queue[(qp.requester.cursor - qp.requester.front) as usize];
        let kind = self.kind_of(wqe);
        let (read, extra) = (wqe.opcode.is_read(), wqe.extra);
        let local = (wqe.sge.clone(), wqe.inline.take(), wqe.flags);
        self.push(kind, wqe.length, local, (index, wqe.wr_id));
        if let (Extra::Words(words), Some(message)) = (extra, self.messages.back_mut()) {
            message.words = Some(words);
        }
        let end = self.messages.back().map_or(0, Message::end);
        self.begun.push_back(if read { Begun::Read } else { Begun::Data { end } });
        qp.requester.reads += u32::from(read);
        qp.requester.cursor += 1;
        qp.requester.assigned = qp.requester.cursor;
        Ok(true)
    }

    /// What a request does; SENDs and READs take a number.
    fn kind_of(&mut self, wqe: &Wqe) -> Kind {
        if wqe.opcode.is_write() {
            return Kind::Write { to: wqe.remote };
        }
        if wqe.opcode.is_read() {
            self.reads = self.reads.wrapping_add(1);
            let sink = wqe.sge.first().map_or((0, 0), |piece| (piece.lkey.0, piece.addr));
            let request = ReadRequest { sink, size: wqe.length, source: (wqe.remote.rkey.0, wqe.remote.addr) };
            return Kind::ReadRequest { number: self.reads, request };
        }
        self.sends = self.sends.wrapping_add(1);
        Kind::Send { number: self.sends }
    }

    fn push(&mut self, kind: Kind, data: u32, local: (SgeList, Option<Box<[u8]>>, SendFlags), (wqe, wr_id): (WqeIndex, u64)) {
        let (sge, inline, flags) = local;
        let (header, length) = (kind.header(), kind.length(data));
        let most = self.longest - header;
        let segments = length.div_ceil(most).max(1);
        let rest = length - (segments - 1) * most;
        let (frame, last_frame) = (self.mpa.frame_bytes(header + most), self.mpa.frame_bytes(header + rest));
        let start = self.posted;
        self.messages.push_back(Message {
            kind,
            start,
            length,
            data,
            posted: 0,
            segments,
            most,
            frame,
            last_frame,
            sge,
            inline,
            flags,
            words: None,
            wqe,
            wr_id,
        });
    }

    /// Refuses what came: no more than the reason follows what was handed to TCP.
    pub(super) fn terminate(&mut self, code: TerminateCode) {
        self.cut();
        self.push(Kind::Terminate(code), 0, (SgeList::new(), None, SendFlags::NONE), (WqeIndex(0), 0));
    }

    /// Ends in order: what was handed to TCP still goes.
    pub(super) fn close(&mut self) {
        self.cut();
        self.connection.close();
    }

    fn cut(&mut self) {
        self.ending = true;
        match self.messages.back_mut() {
            Some(message) if message.posted == 0 => {
                self.messages.pop_back();
            }
            Some(message) => message.cut(),
            None => {}
        }
    }

    /// The peer has `bytes` more of the stream: requests complete.
    pub(super) fn acknowledged(&mut self, bytes: u64, qp: &mut Qp, port: &mut Port) {
        self.acked += bytes;
        while self.messages.front().is_some_and(|message| message.posted == message.segments && message.end() <= self.acked) {
            self.messages.pop_front();
        }
        self.complete(qp, port);
    }

    /// Completes what is done, in the order of the queue.
    pub(super) fn complete(&mut self, qp: &mut Qp, port: &mut Port) {
        while let Some(begun) = self.begun.front() {
            match begun {
                Begun::Data { end } if *end <= self.acked => {}
                Begun::Read if self.answered > 0 => self.answered -= 1,
                _ => break,
            }
            self.begun.pop_front();
            qp.complete_front(port);
        }
        qp.check_drained(port);
    }

    /// The packet of a segment.
    fn packet(&mut self, mut segment: Segment, qp: &mut Qp, port: &Port, side: &mut ExtHeaders) -> Transmit {
        (segment.header.source, segment.header.destination) = (tcp_port(qp.num.0), tcp_port(qp.dest_qp));
        let position = self.messages.partition_point(|message| message.posted_end() <= segment.offset);
        let message = self.messages.get(position).filter(|_| segment.payload > 0);
        let ip = IP + segment.header.header_bytes() + segment.payload;
        let asks = message.is_some_and(|message| matches!(message.kind, Kind::ReadRequest { .. }));
        let kind = if asks { IwarpKind::ReadRequest } else { IwarpKind::Segment };
        let mut packet = Packet {
            dest: qp.dest,
            psn: segment.offset as u32 & 0xff_ffff,
            wire_bytes: Framing::Ethernet.wire_bytes(ip, Part::Only) as u16,
            sl: qp.sl,
            entropy: qp.next_entropy(),
            ..Packet::of(Body::Iwarp { kind, qp: QpNum(qp.dest_qp) })
        };
        let Some(message) = message else {
            packet.ext = side
                .alloc(Ext { foreign: Foreign::Iwarp(Box::new(Frame { segment, ddp: None, control: Control::Data })), ..Ext::default() });
            return Transmit { responder: true, ..Transmit::plain(packet, qp.num) };
        };
        let number = message.number_at(segment.offset);
        let control = message.kind.control();
        let data = if control == Control::Data { message.part(number).1 } else { 0 };
        let frame = Frame { segment, ddp: Some(message.ddp(number)), control };
        let mut ext = Ext { foreign: Foreign::Iwarp(Box::new(frame)), data: bytes(message, number, data, port), ..Ext::default() };
        if let Some(words) = message.words.filter(|_| number + 1 == message.segments) {
            ext.say(words);
        }
        packet.ext = side.alloc(ext);
        packet.payload = data as u16;
        if message.flags.contains(SendFlags::TRACED) {
            packet.flags.insert(PacketFlags::TRACED);
        }
        let inline = message.flags.contains(SendFlags::INLINE);
        let answers = matches!(message.kind, Kind::ReadResponse { .. });
        Transmit {
            fetch: if inline { Bytes::ZERO } else { Bytes(u64::from(data)) },
            place: port.regions.place_in(&message.sge, u64::from(message.part(number).0), data),
            responder: answers || matches!(message.kind, Kind::Terminate(_)),
            read_response: answers,
            starts_message: number == 0,
            ends_message: number + 1 == message.segments,
            inline,
            retransmission: segment.retransmission,
            wqe: message.wqe,
            wr_id: message.wr_id,
            message_bytes: message.data,
            ..Transmit::plain(packet, qp.num)
        }
    }
}

/// The bytes of a segment, where there is memory to take them from.
fn bytes(message: &Message, number: u32, data: u32, port: &Port) -> Option<PayloadBytes> {
    let offset = message.part(number).0 as usize;
    match (&message.inline, &port.memory) {
        _ if data == 0 => None,
        (Some(inline), _) => Some(inline[offset..offset + data as usize].into()),
        (None, Some(memory)) => {
            let pd = port.regions.domain_of(&message.sge);
            Some(memory::gather(memory.as_ref(), pd, &message.sge, offset as u64, data as usize).into())
        }
        (None, None) => None,
    }
}

/// The header of IP version 4. Basis: standard.
const IP: u32 = 20;

/// The port of TCP by which a queue pair is known: its number, in the range of ports that are handed out. Basis: assumed.
const fn tcp_port(qp: u32) -> u16 {
    0xC000 | (qp & 0x3FFF) as u16
}
