//! How work requests end: completions, errors, flushing.
//!
//! Source: IBA vol. 1 §10.3.1 (states), §10.8.6, §9.9.2 and §9.9.3 (error behaviour of requester and responder).
//! Modelled: the failed request completes with its status, everything after it is flushed, in order.
//! Not modelled: errors of the device itself.

use crate::attr::{QpState, QpType};
use crate::event::AsyncEvent;
use crate::ids::{Lid, QpNum, WqeIndex};
use crate::packet::{Packet, PacketFlags};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::responder::Kind;
use crate::srq::RecvWqe;
use crate::wc::{Wc, WcOpcode, WcStatus};
use crate::words::WordsId;

impl Qp {
    /// A completion with nothing but its request.
    fn wc(&self, wr_id: u64, status: WcStatus, opcode: WcOpcode, wqe: WqeIndex) -> Wc {
        Wc::of(self.home, wr_id, status, opcode, wqe)
    }

    /// The front request is done.
    #[inline]
    pub(crate) fn complete_front(&mut self, port: &mut Port) {
        let index = WqeIndex(self.requester.front);
        let Some(wqe) = self.requester.pop_front() else { return };
        if let Some(route) = wqe.route.as_ref().filter(|route| route.owner != self.num) {
            return route.complete(&wqe, WcStatus::Success, port);
        }
        if wqe.signaled {
            let wc = Wc { byte_len: wqe.length, ..self.wc(wqe.wr_id, WcStatus::Success, wqe.opcode.completion(), index) };
            port.completions.push_back((self.init.send_cq, wc));
        }
    }

    /// The front request ended in an error: it completes, signalled or not.
    pub(crate) fn fail_front(&mut self, status: WcStatus, port: &mut Port) {
        let index = WqeIndex(self.requester.front);
        let Some(wqe) = self.requester.pop_front() else { return };
        if let Some(route) = wqe.route.as_ref().filter(|route| route.owner != self.num) {
            if status != WcStatus::WrFlushErr {
                port.failed.push(route.owner);
            }
            return route.complete(&wqe, status, port);
        }
        let wc = self.wc(wqe.wr_id, status, wqe.opcode.completion(), index);
        port.completions.push_back((self.init.send_cq, wc));
    }

    /// Flushes the send requests that were rung.
    pub(crate) fn flush_sends(&mut self, port: &mut Port) {
        while self.requester.front < self.requester.ready {
            self.fail_front(WcStatus::WrFlushErr, port);
        }
        self.requester.assigned = self.requester.front;
        self.requester.cursor = self.requester.front;
        let psn = self.requester.next_psn;
        self.requester.start(psn);
        self.requester.reads = 0;
    }

    /// Flushes the receives; those of a shared queue stay there for others.
    pub(crate) fn flush_receives(&mut self, port: &mut Port) {
        self.recv_queue.end_supply();
        while let Some(wqe) = self.recv_queue.take() {
            self.fail_receive(wqe, WcStatus::WrFlushErr, port);
        }
    }

    /// A receive ended in an error.
    pub(crate) fn fail_receive(&mut self, wqe: RecvWqe, status: WcStatus, port: &mut Port) {
        let wc = Wc { srq: self.init.srq, ..self.wc(wqe.wr_id, status, WcOpcode::Recv, wqe.index) };
        port.completions.push_back((self.init.recv_cq, wc));
    }

    /// To the error state: everything is flushed. A NAK that is owed still goes out, after the responses before it.
    pub(crate) fn enter_error(&mut self, port: &mut Port) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.timer.stop();
        if !self.responder.owes_nak() {
            self.responder.responses.clear();
            self.responder.ack = None;
        }
        self.forget_early(port);
        self.responder.inbound.kind = Kind::None;
        self.flush_sends(port);
        if let Some(wqe) = self.responder.inbound.recv.take() {
            self.fail_receive(wqe, WcStatus::WrFlushErr, port);
        }
        if let Some(stream) = &mut self.stream {
            for wqe in stream.give_up() {
                self.fail_receive(wqe, WcStatus::WrFlushErr, port);
            }
            self.want_requests(port);
        }
        self.flush_receives(port);
        if self.init.srq.is_some() {
            port.events.push_back(AsyncEvent::LastWqeReached(self.num));
        }
    }

    /// The front request failed for good, and the queue pair with it.
    pub(crate) fn fail(&mut self, status: WcStatus, port: &mut Port) {
        self.fail_front(status, port);
        if self.qp_type == QpType::Eec && status != WcStatus::RetryExcErr {
            return self.skip_failed();
        }
        self.enter_error(port);
    }

    /// After the front request of an end-to-end context failed: others of other queue pairs go on behind its packet numbers.
    fn skip_failed(&mut self) {
        let requester = &mut self.requester;
        let psn = requester.next_psn;
        (requester.assigned, requester.cursor, requester.reads) = (requester.front, requester.front, 0);
        requester.start(psn);
        self.timer.stop();
    }

    /// A local error on an unreliable queue pair: sending stops, receiving goes on.
    pub(crate) fn enter_send_error(&mut self, status: WcStatus, port: &mut Port) {
        self.fail_front(status, port);
        self.state = QpState::Sqe;
        self.flush_sends(port);
    }

    /// The receive of the message that just ended completes.
    pub(crate) fn complete_receive(
        &mut self,
        opcode: WcOpcode,
        byte_len: u32,
        (imm, words): (Option<u32>, WordsId),
        packet: &Packet,
        port: &mut Port,
    ) {
        let Some(wqe) = self.responder.inbound.recv.take() else { return };
        let srq = self.init.srq;
        let solicited = packet.flags.contains(PacketFlags::SE);
        // Whoever works for others says who sent it: their number alone does not.
        let (slid, src_qp) = if self.home == self.num { (Lid(0), QpNum(0)) } else { (self.dest, QpNum(self.dest_qp)) };
        let wc = Wc { byte_len, imm, solicited, slid, src_qp, srq, words, ..self.wc(wqe.wr_id, WcStatus::Success, opcode, wqe.index) };
        port.completions.push_back((self.init.recv_cq, wc));
    }

    /// The send queue drained, if that was asked for.
    pub(crate) fn check_drained(&mut self, port: &mut Port) {
        if self.state == QpState::Sqd && !self.requester.drained && self.requester.front == self.requester.assigned {
            self.requester.drained = true;
            port.events.push_back(AsyncEvent::SendQueueDrained(self.num));
        }
    }

    /// Drops the packets that arrived early; what they carry is freed when the slab is at hand.
    pub(crate) fn forget_early(&mut self, port: &mut Port) {
        port.orphans.extend(self.responder.early.drain(..).map(|packet| packet.ext).filter(|ext| !ext.is_none()));
    }
}
