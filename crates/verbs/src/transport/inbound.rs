//! Reassembly: packets of SEND and WRITE, in order, become messages in memory.
//!
//! Source: IBA vol. 1 §9.7.4.1 (validation of requests), §9.9.3 (what the responder refuses).
//! Modelled: order of opcodes, payload lengths, keys, bounds and rights, receive buffers, immediate data.
//! Not modelled: SEND with invalidate on transports other than RC (refused as invalid).

use fabriscope_wire::Opcode;

use crate::access::{Access, MemoryId};
use crate::attr::QpType;
use crate::event::AsyncEvent;
use crate::ext_headers::Ext;
use crate::ids::{PdId, QpNum};
use crate::memory;
use crate::packet::{Landed, Packet, Received};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::responder::Kind;
use crate::srq::RecvWqe;
use crate::wc::WcOpcode;
use crate::words::WordsId;
use crate::wr;

/// Why a packet was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// No receive is posted.
    NoReceive,
    /// The receive is too small.
    TooLong,
    /// The memory of the receive is not ours to write.
    LocalProtection,
    /// The peer has no right to the memory.
    RemoteAccess,
    /// The request makes no sense.
    Invalid,
}

/// Takes the next packet of a SEND or WRITE; true when it ends the message.
#[inline]
pub(crate) fn accept(qp: &mut Qp, port: &mut Port, packet: &Packet, ext: Option<&Ext>, received: &mut Received) -> Result<bool, Refusal> {
    let Ok(opcode) = Opcode::decode(packet.opcode) else { return Err(Refusal::Invalid) };
    if opcode.has_invalidate() && qp.qp_type != QpType::Rc || ext.is_some_and(|ext| !ext.holds(packet.payload)) {
        return Err(Refusal::Invalid);
    }
    let kind = if opcode.is_send() { Kind::Send } else { Kind::Write };
    let running = qp.responder.inbound.kind;
    if opcode.is_first() != (running == Kind::None) || running != Kind::None && running != kind {
        return Err(Refusal::Invalid);
    }
    check_payload(qp, packet, opcode)?;
    if opcode.takes_receive() || kind == Kind::Send && opcode.is_first() {
        take_receive(qp, port, received)?;
    }
    if opcode.is_first() {
        begin(qp, port, kind, ext)?;
    }
    let inbound = &mut qp.responder.inbound;
    let end = inbound.offset + u32::from(packet.payload);
    match kind {
        Kind::Send if end > inbound.total => return Err(Refusal::TooLong),
        Kind::Write if end > inbound.total || opcode.is_last() && end != inbound.total => return Err(Refusal::Invalid),
        _ => {}
    }
    if let (Some(memory), Some(data)) = (&mut port.memory, ext.and_then(|ext| ext.data.as_ref()).filter(|data| !data.is_empty())) {
        match kind {
            Kind::Write => memory.write(qp.init.pd, inbound.addr + u64::from(inbound.offset), data),
            _ => {
                let list = inbound.recv.as_ref().map_or(&[][..], |wqe| &wqe.sge);
                memory::scatter(memory.as_mut(), qp.init.pd, list, u64::from(inbound.offset), data);
            }
        }
    }
    if port.regions.is_watched() {
        received.place = match kind {
            Kind::Write => {
                port.regions.use_pages(inbound.addr + u64::from(inbound.offset), packet.payload.into());
                inbound.place
            }
            _ => landing(port, &inbound.recv, u64::from(inbound.offset), packet.payload.into()),
        };
    }
    inbound.offset = end;
    if opcode.has_invalidate() && !closes(port, qp.init.pd, ext) {
        return Err(Refusal::RemoteAccess);
    }
    if opcode.is_last() {
        finish(qp, port, packet, opcode, ext);
    }
    Ok(opcode.is_last())
}

/// All packets but the last are full; the last of several is not empty.
#[inline]
fn check_payload(qp: &Qp, packet: &Packet, opcode: Opcode) -> Result<(), Refusal> {
    let payload = u32::from(packet.payload);
    let fits = match (opcode.is_first(), opcode.is_last()) {
        (_, false) => payload == qp.mtu(),
        (false, true) => payload > 0 && payload <= qp.mtu(),
        (true, true) => payload <= qp.mtu(),
    };
    if fits { Ok(()) } else { Err(Refusal::Invalid) }
}

/// Makes sure the message has a receive.
#[inline]
pub(crate) fn take_receive(qp: &mut Qp, port: &mut Port, received: &mut Received) -> Result<(), Refusal> {
    if qp.responder.inbound.recv.is_some() {
        return Ok(());
    }
    let wqe = next_receive(qp, port);
    received.recv_wqe_consumed |= wqe.is_some();
    qp.responder.inbound.recv = wqe;
    if qp.responder.inbound.recv.is_some() { Ok(()) } else { Err(Refusal::NoReceive) }
}

/// Takes the next receive of the queue pair, of its own queue or of its shared one.
#[inline]
pub(crate) fn next_receive(qp: &mut Qp, port: &mut Port) -> Option<RecvWqe> {
    match qp.init.srq.and_then(|srq| port.srqs.get_mut(srq.0 as usize)) {
        None => qp.recv_queue.take(),
        // A receiving end of XRC does not keep alive what it was lent.
        Some(None) => None,
        Some(Some(queue)) => {
            let (wqe, due) = queue.take();
            if due {
                port.events.push_back(AsyncEvent::SrqLimitReached(qp.init.srq.expect("matched above")));
            }
            wqe
        }
    }
}

/// Checks where a new message goes.
#[inline]
fn begin(qp: &mut Qp, port: &Port, kind: Kind, ext: Option<&Ext>) -> Result<(), Refusal> {
    let inbound = &mut qp.responder.inbound;
    if kind == Kind::Send {
        inbound.total = check_receive(port, qp.init.pd, &inbound.recv)?;
    } else {
        let ext = ext.ok_or(Refusal::Invalid)?;
        let allowed = qp.attr.qp_access_flags.unwrap_or_default().contains(Access::REMOTE_WRITE);
        let length = u64::from(ext.dma_length);
        if !allowed || port.regions.check(ext.rkey.0, qp.init.pd, ext.remote_addr, length, Access::REMOTE_WRITE).is_err() {
            return Err(Refusal::RemoteAccess);
        }
        inbound.total = ext.dma_length;
        inbound.addr = ext.remote_addr;
        inbound.place = port.regions.place_of(ext.rkey.0);
    }
    inbound.kind = kind;
    inbound.offset = 0;
    Ok(())
}

/// The bytes a receive holds, if its memory is ours to write.
pub(crate) fn check_receive(port: &Port, pd: PdId, recv: &Option<RecvWqe>) -> Result<u32, Refusal> {
    let list = recv.as_ref().map_or(&[][..], |wqe| &wqe.sge);
    port.regions.check_list(pd, list, Access::LOCAL_WRITE).map_err(|_| Refusal::LocalProtection)?;
    Ok(wr::total(list).saturating_u32())
}

/// The memory that `length` bytes from `offset` on of a receive go to.
pub(crate) fn landing(port: &Port, recv: &Option<RecvWqe>, offset: u64, length: u32) -> MemoryId {
    recv.as_ref().map_or(MemoryId::HOST, |wqe| port.regions.place_in(&wqe.sge, offset, length))
}

/// The message is complete.
#[inline]
fn finish(qp: &mut Qp, port: &mut Port, packet: &Packet, opcode: Opcode, ext: Option<&Ext>) {
    let inbound = &mut qp.responder.inbound;
    let length = inbound.offset;
    let kind = std::mem::take(&mut inbound.kind);
    inbound.offset = 0;
    let (imm, words) = ext.map_or((None, WordsId::NONE), |ext| told(port, opcode, ext));
    if kind == Kind::Write && length > 0 {
        // Whoever gets a completion reads there what was said.
        let words = if opcode.takes_receive() { WordsId::NONE } else { words };
        port.landed.push_back(Landed { addr: inbound.addr, length, words });
    }
    if opcode.takes_receive() {
        let completed = if kind == Kind::Send { WcOpcode::Recv } else { WcOpcode::RecvRdmaWithImm };
        qp.complete_receive(completed, length, (imm, words), packet, port);
    }
}

/// Closes the window that a SEND with invalidate names; false if that cannot be.
fn closes(port: &mut Port, pd: PdId, ext: Option<&Ext>) -> bool {
    ext.is_some_and(|ext| port.regions.invalidate(ext.rkey.0, pd).is_ok())
}

/// What the last packet of a message tells: immediate data and words.
fn told(port: &mut Port, opcode: Opcode, ext: &Ext) -> (Option<u32>, WordsId) {
    let words = ext.words().map_or(WordsId::NONE, |words| port.words.keep(words));
    (opcode.has_immediate().then_some(ext.imm), words)
}

/// A packet for a queue pair that is ready to receive but not yet to send.
#[inline]
pub(crate) fn established(qp: &mut Qp, port: &mut Port) {
    if qp.state == crate::attr::QpState::Rtr && !qp.responder.established {
        qp.responder.established = true;
        port.events.push_back(AsyncEvent::CommunicationEstablished(QpNum(qp.num.0)));
    }
}
