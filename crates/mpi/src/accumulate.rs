//! `MPI_Accumulate`, `MPI_Get_accumulate`, `MPI_Fetch_and_op` and `MPI_Compare_and_swap`, as libraries do them.
//!
//! Source: MPI 4.1, §12.3; Open MPI `ompi/mca/osc/ucx/osc_ucx_comm.c` (lock, get, compute, put, unlock; atomics under the lock for a single
//! element); MVAPICH2 2.3.7 `ch3_rma` (active messages; `MPIDI_CH3I_RDMA_try_rma_op_fast` for a single element).
//! Modelled: which way the library's part says; taking and giving back the accumulate lock as atomics that are waited for; the get and the
//! put of the whole operand; arithmetic by the core of whoever applies it, two operands and a result through memory; within a node a lock
//! and the arithmetic of the origin's core on the shared window.
//! Not modelled: memory of GPUs; segments of long operands that overlap with arithmetic; origins that try in vain to take the lock back off
//! as Open MPI does (they try again at once).

use fabriscope_catalog::{Accumulate, SingleElement};
use fabriscope_node::ProgramError;
use fabriscope_units::Bytes;

use super::active_message::{Question, Vector};
use super::atomic::Fetch;
use super::atomic_op::{AtomicOp, Width};
use super::element::{Datatype, Reduction};
use super::layout::LOCK;
use super::one_sided::OneSided;
use super::rank::Rank;
use super::service::reduced;
use super::trace::note;

/// One of the four calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// `MPI_Accumulate`.
    Accumulate,
    /// `MPI_Get_accumulate`.
    GetAccumulate,
    /// `MPI_Fetch_and_op`.
    FetchAndOp,
    /// `MPI_Compare_and_swap`.
    CompareAndSwap,
}

impl Update {
    /// As MPI calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Update::Accumulate => "MPI_Accumulate",
            Update::GetAccumulate => "MPI_Get_accumulate",
            Update::FetchAndOp => "MPI_Fetch_and_op",
            Update::CompareAndSwap => "MPI_Compare_and_swap",
        }
    }
    /// Whether it is of one element.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, Update::FetchAndOp | Update::CompareAndSwap)
    }
}

/// The operands of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// What the elements are.
    pub datatype: Datatype,
    /// What is done with them; a comparison swaps.
    pub reduction: Reduction,
    /// Bytes.
    pub size: u32,
    /// Where the operand is in the own window.
    pub here: u64,
    /// Where the old contents go there.
    pub result: u64,
    /// Where the target's elements are in its memory.
    pub there: u64,
    /// What a comparison compares with; the first element of the operand is what it stores.
    pub compare: u64,
}

impl Rank {
    /// Begins `update` on the window of `target`. Where the origin applies it, all is over when this returns; otherwise a flush waits for the
    /// end: [`fetched`](Self::fetched).
    ///
    /// # Errors
    /// A library whose part says nothing of accumulates; no connection to `target`, or none with RDMA where the origin applies it.
    pub async fn update(&self, update: Update, target: u32, operands: Operands) -> Result<Fetch, ProgramError> {
        let Some(rules) = self.world.0.one_sided else {
            let me = self.rank();
            return Err(ProgramError(format!("rank {me}: nothing is known of how the library does {}", update.name())));
        };
        if self.shares_node_with(target)? {
            return self.update_here(update, target, operands).await;
        }
        let known =
            update == Update::CompareAndSwap || matches!(operands.reduction, Reduction::Sum | Reduction::Replace | Reduction::Nothing);
        let by_adapter = update.is_single() && operands.datatype.is_atomic() && known && self.has_atomics();
        match rules.single {
            SingleElement::Adapter if by_adapter => return self.single_update(update, target, operands).await,
            SingleElement::LockedAdapter if by_adapter => {
                self.take_lock(target).await?;
                let fetch = self.single_update(update, target, operands).await?;
                let old = self.fetched(fetch).await?;
                self.give_lock(target).await?;
                return Ok(Fetch::over(old));
            }
            _ => {}
        }
        match rules.accumulate {
            Accumulate::ActiveMessage => self.update_there(update, target, operands),
            Accumulate::LockGetPut => self.update_by_lock(update, target, operands).await,
        }
    }

    fn single_of(&self, update: Update, operands: &Operands) -> Result<(AtomicOp, Width), ProgramError> {
        let width = if operands.datatype.bytes() == 4 { Width::Four } else { Width::Eight };
        let value = match &self.memory.contents {
            Some(contents) => contents.word(self.user()? + operands.here),
            None => 0,
        };
        let single = match (update, operands.reduction) {
            (Update::CompareAndSwap, _) => AtomicOp::CompareSwap { compare: operands.compare, swap: value },
            (_, Reduction::Replace) => AtomicOp::Swap(value),
            (_, Reduction::Nothing) => AtomicOp::Add(0),
            _ => AtomicOp::Add(value),
        };
        Ok((single, width))
    }
    async fn single_update(&self, update: Update, target: u32, operands: Operands) -> Result<Fetch, ProgramError> {
        let (single, width) = self.single_of(update, &operands)?;
        self.atomic(single, target, (operands.there, width), true).await
    }

    /// By a message that the target applies.
    fn update_there(&self, update: Update, target: u32, operands: Operands) -> Result<Fetch, ProgramError> {
        let Operands { datatype, reduction, size, result, there: offset, .. } = operands;
        if update == Update::CompareAndSwap {
            let (operation, width) = self.single_of(update, &operands)?;
            let (request, number) = self.ask(target, Question::Element { operation, width, offset }, 2 * size)?;
            return Ok(Fetch::with(request, (target, number), (result, size), false));
        }
        let vector = match self.contents() {
            Some(_) => Some(Vector { datatype, reduction, offset, operand: self.operand(&operands)? }),
            None => None,
        };
        let (request, number) = self.ask_vector(target, (update != Update::Accumulate, size), vector)?;
        Ok(Fetch::with(request, (target, number), (result, datatype.bytes()), true))
    }

    /// By the origin: lock, get, compute, put, unlock.
    async fn update_by_lock(&self, update: Update, target: u32, operands: Operands) -> Result<Fetch, ProgramError> {
        self.take_lock(target).await?;
        if operands.reduction != Reduction::Replace || update != Update::Accumulate {
            let get = self.move_at(OneSided::Get, target, (operands.result, operands.there), operands.size)?;
            self.wait(get).await?;
        }
        let begun = self.now();
        let writes = update != Update::CompareAndSwap || self.matches(&operands)?;
        if update != Update::CompareAndSwap && !matches!(operands.reduction, Reduction::Replace | Reduction::Nothing) {
            self.copy(reduced(operands.size));
            note(&self.process, begun, &[], || "arithmetic of the origin's core".to_owned());
        }
        if writes && operands.reduction != Reduction::Nothing {
            self.prepare(update, &operands)?;
            let put = self.move_at(OneSided::Put, target, (SCRATCH, operands.there), operands.size)?;
            self.wait(put).await?;
        }
        self.give_lock(target).await?;
        let mut old = [0; 8];
        self.load(operands.result, &mut old[..operands.datatype.bytes() as usize])?;
        Ok(Fetch::over(u64::from_le_bytes(old)))
    }

    /// By the core, on a window that both share.
    async fn update_here(&self, update: Update, target: u32, operands: Operands) -> Result<Fetch, ProgramError> {
        if update.is_single() && operands.datatype.is_atomic() {
            return self.single_update(update, target, operands).await;
        }
        let begun = self.now();
        let (overhead, there) = {
            let state = self.state.borrow();
            (state.protocol.call_overhead, state.domain_of(&self.process, target))
        };
        // The lock of the window is a line that the other core had last.
        self.compute(overhead + self.process.cpu().detect + self.process.crossing(there));
        self.process.copy_between(reduced(operands.size), Bytes(u64::MAX), (there, self.process.domain()));
        note(&self.process, begun, &[], || "takes the lock of the window and computes in shared memory".to_owned());
        self.process.catch_up().await;
        let Some(contents) = &self.memory.contents else { return Ok(Fetch::over(0)) };
        let (mut old, addr) = (vec![0; operands.size as usize], self.peer_user(target)? + operands.there);
        contents.load(addr, &mut old);
        let mut new = old.clone();
        operands.datatype.reduce(operands.reduction, &mut new, &self.operand(&operands)?);
        contents.store(self.user()? + operands.result, &old);
        contents.store(addr, &new);
        Ok(Fetch::over(0))
    }

    /// The operand's bytes, where contents are kept.
    fn operand(&self, operands: &Operands) -> Result<Vec<u8>, ProgramError> {
        let Some(contents) = &self.memory.contents else { return Ok(Vec::new()) };
        let mut bytes = vec![0; operands.size as usize];
        contents.load(self.user()? + operands.here, &mut bytes);
        Ok(bytes)
    }
    /// Whether what was got is what a comparison wants.
    fn matches(&self, operands: &Operands) -> Result<bool, ProgramError> {
        let Some(contents) = &self.memory.contents else { return Ok(true) };
        let mut old = vec![0; operands.size as usize];
        contents.load(self.user()? + operands.result, &mut old);
        Ok(operands.compare.to_ne_bytes().get(..old.len()).is_some_and(|wanted| wanted == old))
    }
    /// Puts the result of the arithmetic where the put takes it from.
    fn prepare(&self, update: Update, operands: &Operands) -> Result<(), ProgramError> {
        let Some(contents) = &self.memory.contents else { return Ok(()) };
        let mut bytes = vec![0; operands.size as usize];
        contents.load(self.user()? + operands.result, &mut bytes);
        let reduction = if update == Update::CompareAndSwap { Reduction::Replace } else { operands.reduction };
        operands.datatype.reduce(reduction, &mut bytes, &self.operand(operands)?);
        contents.expose(self.user()? + SCRATCH, SCRATCH_BYTES);
        contents.store(self.user()? + SCRATCH, &bytes);
        Ok(())
    }

    /// Takes the accumulate lock of the window of `target`: as often as it is not free.
    async fn take_lock(&self, target: u32) -> Result<(), ProgramError> {
        let lock = AtomicOp::CompareSwap { compare: 0, swap: 1 };
        loop {
            let fetch = self.atomic(lock, target, (LOCK, Width::Eight), true).await?;
            if self.fetched(fetch).await? == 0 {
                return Ok(());
            }
        }
    }
    /// Gives it back, and waits until that is done.
    async fn give_lock(&self, target: u32) -> Result<(), ProgramError> {
        let fetch = self.atomic(AtomicOp::Swap(0), target, (LOCK, Width::Eight), true).await?;
        self.fetched(fetch).await.map(|_| ())
    }
}

/// Where the result of arithmetic waits for its put, and how much of it is kept.
const SCRATCH: u64 = 9 << 29;
const SCRATCH_BYTES: usize = 4 << 20;
