//! Operations on one element of 4 or 8 bytes in a peer's memory: fetch-and-add, swap, compare-and-swap.
//!
//! Source: IBA vol. 1 §9.4.5; extended atomics of mlx5 (masks, 32 bits); UCX `ucp_atomic_op_nbx`, which posts them as they are.
//! Modelled: an atomic of the adapter, which reads and writes the target's memory without its core; within a node an atomic of the core,
//! which takes the line from whoever had it; an active message where there are no atomics. Old values, where contents are kept.
//! Not modelled: adapters whose atomics are atomic among themselves only; UCX would then send those to its own node through the adapter, too.

use fabriscope_node::{Awaited, ProgramError};
use fabriscope_verbs::{Atomic, Remote, SendWr, Sge};

use super::buffer::Buffer;
use super::contents::Contents;
use super::local::note;
use super::protocol::Piece;
use super::rank::Rank;
use super::request::{Carried, Request};
use super::service::{Asked, What};

/// An operation on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds; of nothing, it reads.
    Add(u64),
    /// Stores.
    Swap(u64),
    /// Stores `swap` where `compare` is.
    CompareSwap {
        /// What has to be there.
        compare: u64,
        /// What is stored.
        swap: u64,
    },
}

/// Bytes of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Four.
    Four,
    /// Eight.
    Eight,
}

impl Width {
    /// How many bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        if self == Width::Four { 4 } else { 8 }
    }
    fn mask(self) -> u64 {
        if self == Width::Four { u64::from(u32::MAX) } else { u64::MAX }
    }
    /// Bits between the element at `addr` and the beginning of its word.
    fn shift(self, addr: u64) -> u32 {
        (addr % 8 * 8) as u32
    }
}

impl AtomicOp {
    /// As a request: whether it adds, and its operands and masks for the element at `addr`.
    fn request(self, addr: u64, width: Width) -> (bool, Atomic) {
        let (shift, mask) = (width.shift(addr), width.mask());
        let placed = |value: u64| (value & mask) << shift;
        let keep = !(mask << shift);
        match self {
            AtomicOp::Add(value) => (true, Atomic { compare_add: placed(value), swap: 0, ignore: 0, keep }),
            AtomicOp::Swap(value) => (false, Atomic { compare_add: 0, swap: placed(value), ignore: u64::MAX, keep }),
            AtomicOp::CompareSwap { compare, swap } => {
                (false, Atomic { compare_add: placed(compare), swap: placed(swap), ignore: keep, keep })
            }
        }
    }
    /// Changes the element at `addr`; gives what was there.
    pub(super) fn carry_out(self, contents: &Contents, addr: u64, width: Width) -> u64 {
        let (adds, atomic) = self.request(addr, width);
        let old = contents.word(addr & !7);
        contents.store(addr & !7, &atomic.apply(adds, old).to_ne_bytes());
        (old >> width.shift(addr)) & width.mask()
    }
}

/// An operation under way, and where its old value will be.
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
    /// In the answer of this rank with this number.
    Answer(u32, u64),
}

impl Fetch {
    /// One that is over.
    pub(super) fn over(value: u64) -> Fetch {
        Fetch { request: None, value: Value::Known(value) }
    }
    /// One that ends with `request`; the old element will be at `addr`.
    pub(super) fn with(request: Request, addr: u64, bytes: u32) -> Fetch {
        let mask = if bytes < 8 { (1 << (8 * bytes)) - 1 } else { u64::MAX };
        Fetch { request: Some(request), value: Value::Word { addr, shift: 0, mask } }
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
        let asked =
            Asked { what: What::Atomic(operation, width), offset, size: width.bytes(), operand: Vec::new(), fetch: (0, width.bytes()) };
        let (request, number) = self.ask(target, asked, payload)?;
        Ok(Fetch { request: Some(request), value: Value::Answer(target, number) })
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
            Value::Word { addr, shift, mask } => self.world.0.contents.as_ref().map_or(0, |contents| (contents.word(addr) >> shift) & mask),
            Value::Answer(target, number) => self.world.0.answers.borrow_mut().remove(&(self.rank(), target, number)).unwrap_or_default(),
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
        let old = match &self.world.0.contents {
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
        state.flush_one(&self.process, &self.world.0.wires, target)?;
        let value = Value::Word { addr, shift: width.shift(offset), mask: width.mask() };
        Ok(Fetch { request: Some(Request(Carried::Own(request))), value })
    }
}

/// Bytes that an atomic works on (basis: standard, InfiniBand).
const WORD: u32 = 8;
/// Where in the window old values of atomics go. Basis: assumed; above all that programs use.
pub(super) const SLOTS: u64 = 5 << 30;
/// How many words there are. Basis: assumed; more than can be outstanding.
pub(super) const SLOT_COUNT: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_of_four_bytes_leaves_its_neighbour_alone() {
        let memory = Contents::default();
        memory.expose(64, 8);
        memory.store(64, &0x0000_0005_ffff_ffffu64.to_ne_bytes());
        // The lower one wraps to 0, the upper one stays 5.
        assert_eq!(AtomicOp::Add(1).carry_out(&memory, 64, Width::Four), 0xffff_ffff);
        assert_eq!(memory.word(64), 5 << 32);
        assert_eq!(AtomicOp::CompareSwap { compare: 5, swap: 9 }.carry_out(&memory, 68, Width::Four), 5);
        assert_eq!(AtomicOp::CompareSwap { compare: 5, swap: 1 }.carry_out(&memory, 68, Width::Four), 9);
        assert_eq!(AtomicOp::Swap(3).carry_out(&memory, 64, Width::Four), 0);
        assert_eq!(memory.word(64), 9 << 32 | 3);
        assert_eq!((AtomicOp::Swap(1).carry_out(&memory, 64, Width::Eight), memory.word(64)), (9 << 32 | 3, 1));
    }
}
