//! What programs call: posting requests, polling completions, watching memory.
//!
//! Source: IBA vol. 1 §11.4 (posting and polling); man pages ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3).

use fabriscope_units::{Bytes, Time};

use crate::attr::{QpState, QpType};
use crate::error::PostError;
use crate::event::AsyncEvent;
use crate::ids::{CqId, QpNum, SrqId, WatchId, WqeIndex, slot_number};
use crate::memory;
use crate::nic::Nic;
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::{Extra, Wqe};
use crate::transport;
use crate::wc::Wc;
use crate::words::AppWords;
use crate::wr::{self, Posted, RecvWr, SendFlags, SendWr, WrOpcode};

/// Posting and polling: called by programs.
impl Nic {
    /// Puts a request into the send queue. The NIC sees it after `doorbell`.
    ///
    /// # Errors
    /// The queue is full, the state or transport does not allow the request, or a field is missing or too large.
    pub fn post_send(&mut self, _now: Time, qp: QpNum, wr: &SendWr) -> Result<Posted, PostError> {
        let slot = self.awaken(qp).ok_or(PostError::NoSuchQp { qp })?;
        self.run_errands();
        check_send(&self.qps[slot], wr)?;
        let route = transport::route(self, &self.qps[slot], wr)?;
        let qp = &mut self.qps[slot];
        let extra = match (wr.opcode.is_atomic(), qp.qp_type, &route) {
            (true, ..) => Extra::Atomic(wr.atomic.ok_or(PostError::MissingField { opcode: wr.opcode, field: "atomic" })?),
            (false, kind, Some(route))
                if kind.sends_datagrams() && route.dest.mlid().is_some() != (QpNum(route.to) == QpNum::MULTICAST) =>
            {
                return Err(PostError::MulticastQp { dest: route.dest, qp: QpNum(route.to) });
            }
            (false, kind, Some(route)) if kind.sends_datagrams() => {
                Extra::Datagram { dest: route.dest, sl: route.sl, qp: QpNum(route.to), qkey: route.qkey, words: wr.words }
            }
            _ if wr.opcode == WrOpcode::BindMw => Extra::Window(wr.window.unwrap_or_default()),
            _ => wr.words.map_or(Extra::Nothing, Extra::Words),
        };
        let route = route.filter(|_| !qp.qp_type.sends_datagrams()).map(Box::new);
        let inline = wr.flags.contains(SendFlags::INLINE);
        let bytes = wr.length();
        let length = bytes.saturating_u32();
        let copy = match &self.port.memory {
            Some(memory) if inline => Some(memory::gather(memory.as_ref(), qp.init.pd, &wr.sge, 0, length as usize).into_boxed_slice()),
            _ => None,
        };
        let index = WqeIndex(qp.requester.posted());
        qp.requester.queue.push_back(Wqe {
            opcode: wr.opcode,
            flags: wr.flags,
            signaled: qp.init.sq_sig_all || wr.flags.contains(SendFlags::SIGNALED),
            tells: wr.opcode.has_immediate() || wr.words.is_some() || wr.opcode == WrOpcode::SendWithInv,
            imm: wr.imm.unwrap_or(0),
            length,
            first_psn: qp.requester.next_psn,
            packets: 0,
            wr_id: wr.wr_id,
            remote: wr.remote.unwrap_or_default(),
            sge: wr.sge.clone(),
            extra,
            inline: copy,
            route,
        });
        Ok(Posted { wqe: index, bytes, inline, sges: wr.sge.len() as u32 })
    }

    /// Puts a request into the receive queue.
    ///
    /// # Errors
    /// The queue is full or shared, the state does not allow it, or the list is too long.
    pub fn post_recv(&mut self, _now: Time, qp: QpNum, wr: &RecvWr) -> Result<(), PostError> {
        let slot = self.slot_of(qp).ok_or(PostError::NoSuchQp { qp })?;
        let state = self.qps[slot].state;
        if self.qps[slot].init.srq.is_some() {
            return Err(PostError::UsesSrq { qp });
        }
        if state == QpState::Reset {
            return Err(PostError::WrongState { qp, state });
        }
        self.qps[slot].recv_queue.post(wr)?;
        if state == QpState::Err {
            self.qps[slot].flush_receives(&mut self.port);
        }
        Ok(())
    }

    /// Puts a request into a shared receive queue.
    ///
    /// # Errors
    /// The queue is full or does not exist, or the list is too long.
    pub fn post_srq_recv(&mut self, _now: Time, srq: SrqId, wr: &RecvWr) -> Result<(), PostError> {
        let queue = self.port.srqs.get_mut(srq.0 as usize).and_then(Option::as_mut);
        queue.ok_or(PostError::NoSuchSrq { srq })?.queue.post(wr)
    }

    /// Appends completions visible by `now`, at most `max`, and returns how many. Slots of their queues become free.
    pub fn poll_cq(&mut self, now: Time, cq: CqId, max: usize, into: &mut Vec<Wc>) -> usize {
        let Some(Some(queue)) = self.cqs.get_mut(cq.0 as usize) else { return 0 };
        queue.forget_read(&mut self.port.words);
        let mut count = 0;
        while count < max {
            let Some(wc) = queue.poll(now) else { break };
            match self.reserved.as_ref().filter(|_| wc.srq.is_none()).and_then(|reserved| reserved.slot(wc.qp_num)) {
                Some(slot) => free(&mut self.qps[slot], &wc),
                None => release(&mut self.qps, &mut self.port, &wc),
            }
            into.push(wc);
            count += 1;
        }
        count
    }

    /// What the sender said with the message of a completion, until its queue is polled again.
    #[must_use]
    pub fn words(&self, wc: &Wc) -> Option<AppWords> {
        self.port.words.at(wc.words)
    }

    /// When the next completion becomes visible, if one was delivered; of [`CqId::events`] the next event.
    pub fn cq_next_visible(&self, cq: CqId) -> Option<Time> {
        match cq.raised_by() {
            None => self.cqs.get(cq.0 as usize)?.as_ref()?.next_visible(),
            Some(cq) => self.cqs.get(cq.0 as usize)?.as_ref()?.next_event(),
        }
    }

    /// Takes the first event of a queue (`ibv_get_cq_event`), if it can be seen by `now`.
    pub fn take_cq_event(&mut self, now: Time, cq: CqId) -> bool {
        self.cqs.get_mut(cq.0 as usize).and_then(Option::as_mut).is_some_and(|queue| queue.take_event(now))
    }

    /// Counts, from now on, the messages of peers (WRITE, atomics) whose last byte falls into the range.
    pub fn create_watch(&mut self, addr: u64, length: Bytes) -> WatchId {
        self.watches.create(addr, length)
    }

    /// Messages counted by `watch` and visible by `now`; `now` should not fall from one question to the next.
    pub fn watch_count(&mut self, watch: WatchId, now: Time) -> u64 {
        self.watches.count(watch, now)
    }

    /// What was said with the next message that `watch` counts by `now` and that said anything; each is given once.
    pub fn watch_words(&mut self, watch: WatchId, now: Time) -> Option<AppWords> {
        self.watches.words(watch, now)
    }

    /// When the count of `watch` reaches `count`, if that is known already; `Time::ZERO` if that was seen before.
    pub fn watch_reaches(&self, watch: WatchId, count: u64) -> Option<Time> {
        self.watches.reaches(watch, count)
    }

    /// The oldest asynchronous event not yet taken.
    pub fn poll_async_event(&mut self) -> Option<AsyncEvent> {
        self.port.events.pop_front()
    }
}

/// What `ibv_post_send` checks.
fn check_send(qp: &Qp, wr: &SendWr) -> Result<(), PostError> {
    if matches!(qp.state, QpState::Reset | QpState::Init | QpState::Rtr) {
        return Err(PostError::WrongState { qp: qp.num, state: qp.state });
    }
    if !qp.qp_type.has(wr.opcode) {
        return Err(PostError::OpcodeNotSupported { opcode: wr.opcode, qp_type: qp.qp_type });
    }
    let cap = &qp.init.cap;
    if qp.requester.posted() - qp.requester.freed >= u64::from(cap.max_send_wr) {
        return Err(PostError::QueueFull { depth: cap.max_send_wr });
    }
    // Saturated: more than 32 bits hold is more than any queue takes.
    let sges = u32::try_from(wr.sge.len()).unwrap_or(u32::MAX);
    // The response to a READ of iWARP names one place.
    let single = wr.opcode.is_atomic() || wr.opcode.is_read() && qp.qp_type == QpType::Iwarp;
    let max = if single { cap.max_send_sge.min(1) } else { cap.max_send_sge };
    if sges > max {
        return Err(PostError::TooManySges { sges, max });
    }
    if wr.flags.contains(SendFlags::INLINE) {
        let max = if wr.opcode.is_send() || wr.opcode.is_write() { cap.max_inline_data } else { Bytes::ZERO };
        let length = wr::total(&wr.sge);
        if length > max || max == Bytes::ZERO && !(wr.opcode.is_send() || wr.opcode.is_write()) {
            return Err(PostError::InlineTooLong { length, max });
        }
    }
    if (!wr.opcode.is_send() || wr.opcode == WrOpcode::SendWithInv) && wr.remote.is_none() {
        return Err(PostError::MissingField { opcode: wr.opcode, field: "remote" });
    }
    if wr.words.is_some() && !(qp.qp_type.carries_words() && (wr.opcode.is_send() || wr.opcode.is_write())) {
        return Err(PostError::NoWords { opcode: wr.opcode, qp_type: qp.qp_type });
    }
    if wr.opcode.has_immediate() && wr.imm.is_none() {
        return Err(PostError::MissingField { opcode: wr.opcode, field: "imm" });
    }
    Ok(())
}

/// A completion was polled: slots up to its request are free.
#[inline]
fn release(qps: &mut [Qp], port: &mut Port, wc: &Wc) {
    if let Some(srq) = wc.srq {
        if let Some(Some(srq)) = port.srqs.get_mut(srq.0 as usize) {
            srq.queue.free_one();
        }
        return;
    }
    let Some(qp) = qps.get_mut(slot_number(wc.qp_num.0)).filter(|qp| qp.num == wc.qp_num) else { return };
    free(qp, wc);
}

/// The same of the queue pair that it is of.
#[inline]
fn free(qp: &mut Qp, wc: &Wc) {
    if qp.qp_type.shares_contexts() && !wc.opcode.is_recv() {
        qp.requester.freed += 1; // they complete in any order
    } else if !wc.opcode.is_recv() {
        qp.requester.freed = qp.requester.freed.max(wc.wqe.0 + 1);
    } else {
        qp.recv_queue.free_one();
    }
}
