//! Operations on one element of 4 or 8 bytes in a peer's memory: fetch-and-add, swap, compare-and-swap.
//!
//! Source: IBA vol. 1 §9.4.5; extended atomics of mlx5 (masks, 32 bits); UCX `ucp_atomic_op_nbx`, which posts them as they are.
//! Modelled: an atomic of the adapter, which reads and writes the target's memory without its core; within a node an atomic of the core,
//! which takes the line from whoever had it; an active message where there are no atomics. Old values, where contents are kept.
//! Not modelled: adapters whose atomics are atomic among themselves only; UCX would then send those to its own node through the adapter, too.

use fabriscope_node::{Awaited, ProgramError};
use fabriscope_verbs::{Remote, SendWr, Sge};

use super::active_message::Question;
use super::atomic_op::{AtomicOp, Width};
use super::buffer::Buffer;
use super::layout::{SLOT_COUNT, SLOTS};
use super::protocol::Piece;
use super::rank::Rank;
use super::request::{Carried, Request};
use super::trace::note;

/// An outstanding operation, and where its old value will be.
#[derive(Debug)]
#[must_use = "an operation that nobody waits for is never freed"]
pub struct Fetch {
    request: Option<Request>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    /// Here.
    Known(u64),
    /// In this word of the own memory, so many bits up.
    Word { addr: u64, shift: u32, mask: u64 },
    /// In the answer of this rank with this number; it goes to so many bytes from `result` on in the own window, if it is wanted there.
    Answer { target: u32, number: u64, result: Option<(u64, u32)> },
    /// In the own window from `result` on, when the old vector that comes with this answer is there.
    Vector { target: u32, number: u64, result: u64, bytes: u32 },
}

impl Fetch {
    /// One that is over.
    pub(super) fn over(value: u64) -> Fetch {
        Fetch { request: None, value: Value::Known(value) }
    }
    /// One that ends with the answer `request` of `target`, its message with this `number`: the old element of so many bytes, or the first
    /// of the old vector, will be at `result` of the own window.
    pub(super) fn with(request: Request, (target, number): (u32, u64), (result, bytes): (u64, u32), vector: bool) -> Fetch {
        let value = if vector {
            Value::Vector { target, number, result, bytes }
        } else {
            Value::Answer { target, number, result: Some((result, bytes)) }
        };
        Fetch { request: Some(request), value }
    }
}

impl Rank {
    /// Begins `operation` on the element at `offset` of the window of `target`, by the adapter where `by_adapter`.
    ///
    /// # Errors
    /// No connection to `target`; an element that is not aligned; a queue pair in error.
    pub async fn atomic(
        &self,
        operation: AtomicOp,
        target: u32,
        (offset, width): (u64, Width),
        by_adapter: bool,
    ) -> Result<Fetch, ProgramError> {
        let me = self.rank();
        if !offset.is_multiple_of(u64::from(width.bytes())) {
            return Err(ProgramError(format!("rank {me}: an atomic of {} bytes at offset {offset}, which is not aligned", width.bytes())));
        }
        if self.shares_node_with(target)? || target == me {
            return self.atomic_here(operation, target, offset, width).await;
        }
        if by_adapter && self.has_atomics() {
            return self.atomic_by_adapter(operation, target, offset, width);
        }
        self.compute(self.state.borrow().protocol.call_overhead);
        let payload = if matches!(operation, AtomicOp::CompareSwap { .. }) { 2 * width.bytes() } else { width.bytes() };
        let (request, number) = self.ask(target, Question::Element { operation, width, offset }, payload)?;
        Ok(Fetch { request: Some(request), value: Value::Answer { target, number, result: None } })
    }

    /// Waits for the end of an operation; gives the old value, zero where contents are not kept.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn fetched(&self, fetch: Fetch) -> Result<u64, ProgramError> {
        if let Some(request) = fetch.request {
            if let Carried::Own(id) = request.0 {
                let peer = self.state.borrow_mut().requests.at(id).peer;
                self.process.awaits(Awaited::Answer { of: peer });
            }
            self.wait(request).await?;
            self.process.awaits(Awaited::Unsaid);
        }
        Ok(match fetch.value {
            Value::Known(value) => value,
            Value::Word { addr, shift, mask } => self.contents().map_or(0, |contents| (contents.word(addr) >> shift) & mask),
            Value::Answer { target, number, result } => {
                let old = self.answered(target, number);
                if let Some((result, bytes)) = result {
                    self.store(result, &old.to_ne_bytes()[..bytes.min(8) as usize])?;
                }
                old
            }
            Value::Vector { target, number, result, bytes } => {
                if let Some(old) = self.world.0.vectors.take_answer(self.rank(), target, number) {
                    self.store(result, &old)?;
                }
                let mut first = [0; 8];
                self.load(result, &mut first[..bytes.min(8) as usize])?;
                u64::from_ne_bytes(first)
            }
        })
    }

    /// Whether `peer` is reached through the memory of the node.
    pub(crate) fn shares_node_with(&self, peer: u32) -> Result<bool, ProgramError> {
        if peer == self.rank() {
            return Ok(true);
        }
        Ok(self.state.borrow_mut().connection(peer)?.local)
    }
    /// Whether the connections of this job have atomics.
    pub(super) fn has_atomics(&self) -> bool {
        self.world.0.atomics && self.onload.is_none()
    }

    /// By the core, on memory that both share.
    async fn atomic_here(&self, operation: AtomicOp, target: u32, offset: u64, width: Width) -> Result<Fetch, ProgramError> {
        let begun = self.now();
        let there = self.state.borrow().domain_of(&self.process, target);
        let away = self.process.crossing(there);
        self.compute(self.state.borrow().protocol.call_overhead + self.process.cpu().detect + away);
        note(&self.process, begun, &[], || "atomic of the core, on the line of the other".to_owned());
        self.process.catch_up().await;
        let old = match self.contents() {
            Some(contents) => operation.carry_out(contents, self.peer_user(target)? + offset, width),
            None => 0,
        };
        if target != self.rank() {
            self.process.tell(target, self.now() + away);
        }
        Ok(Fetch::over(old))
    }

    fn atomic_by_adapter(&self, operation: AtomicOp, target: u32, offset: u64, width: Width) -> Result<Fetch, ProgramError> {
        let state = &mut *self.state.borrow_mut();
        self.process.compute(state.protocol.call_overhead);
        let request = state.requests.open(target, WORD, Buffer::Host);
        state.requests.at(request).left = 1;
        let make: fn(u64, Sge, Remote) -> SendWr = |id, sge, remote| SendWr::fetch_add(id, sge, remote, 0);
        let piece = Piece { rail: 0, offset: 0, length: WORD };
        let mut transfer = state.move_between(target, piece, request, (Buffer::Host, Buffer::Host), make, None)?;
        let slot = SLOTS + u64::from(WORD) * u64::from(request.0 % SLOT_COUNT);
        transfer.shift(slot, offset & !7);
        let addr = transfer.wr.sge.first().map_or(0, |sge| sge.addr);
        let (adds, atomic) = operation.request(offset, width);
        if !adds {
            transfer.wr.opcode = fabriscope_verbs::WrOpcode::AtomicCmpAndSwp;
        }
        transfer.wr.atomic = Some(atomic);
        state.transfer(target, transfer)?;
        state.flush_one(&self.process, target)?;
        let value = Value::Word { addr, shift: width.shift(offset), mask: width.mask() };
        Ok(Fetch { request: Some(Request(Carried::Own(request))), value })
    }
}

/// Bytes that an atomic works on (basis: standard, InfiniBand).
const WORD: u32 = 8;
