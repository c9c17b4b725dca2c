//! Atomic memory operations of OpenSHMEM.
//!
//! Source: OpenSHMEM 1.5, §9.8; Open MPI `oshmem/mca/atomic/ucx`, `oshmem/shmem/c` (`shmem_fetch` is a fetch-and-add of nothing, `shmem_set` a swap).
//! Modelled: [`crate::AtomicOp`] by adapter, core or message; those that fetch wait, the others are complete with the next quiet; elements of 4
//! and 8 bytes, the former as masked atomics of 8.
//! Not modelled: bitwise operations.

use fabriscope_node::ProgramError;

use super::pe::Pe;
use crate::{AtomicOp, Width};

impl Pe {
    /// `shmem_fadd`: adds and gives what was there.
    ///
    /// # Errors
    /// No such PE; an element beyond the symmetric heap or not aligned.
    pub async fn fadd(&self, pe: u32, at: (u64, Width), value: u64) -> Result<u64, ProgramError> {
        self.fetching(pe, at, AtomicOp::Add(value)).await
    }
    /// `shmem_finc`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn finc(&self, pe: u32, at: (u64, Width)) -> Result<u64, ProgramError> {
        self.fetching(pe, at, AtomicOp::Add(1)).await
    }
    /// `shmem_add`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn add(&self, pe: u32, at: (u64, Width), value: u64) -> Result<(), ProgramError> {
        self.check(pe, at.0, at.1.bytes())?;
        if !self.rank.shares_node_with(pe)? {
            self.make_room(pe).await?;
        }
        let fetch = self.rank.atomic(AtomicOp::Add(value), pe, at, self.job.0.by_adapter).await?;
        self.leave(fetch);
        Ok(())
    }
    /// `shmem_inc`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn inc(&self, pe: u32, at: (u64, Width)) -> Result<(), ProgramError> {
        self.add(pe, at, 1).await
    }
    /// `shmem_cswap`: stores `value` where `condition` is; gives what was there.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn cswap(&self, pe: u32, at: (u64, Width), condition: u64, value: u64) -> Result<u64, ProgramError> {
        self.fetching(pe, at, AtomicOp::CompareSwap { compare: condition, swap: value }).await
    }
    /// `shmem_swap`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn swap(&self, pe: u32, at: (u64, Width), value: u64) -> Result<u64, ProgramError> {
        self.fetching(pe, at, AtomicOp::Swap(value)).await
    }
    /// `shmem_set`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn set(&self, pe: u32, at: (u64, Width), value: u64) -> Result<(), ProgramError> {
        self.swap(pe, at, value).await.map(|_| ())
    }
    /// `shmem_fetch`.
    ///
    /// # Errors
    /// As [`fadd`](Self::fadd).
    pub async fn fetch(&self, pe: u32, at: (u64, Width)) -> Result<u64, ProgramError> {
        self.fadd(pe, at, 0).await
    }

    async fn fetching(&self, pe: u32, at: (u64, Width), operation: AtomicOp) -> Result<u64, ProgramError> {
        self.check(pe, at.0, at.1.bytes())?;
        let fetch = self.rank.atomic(operation, pe, at, self.job.0.by_adapter).await?;
        self.rank.fetched(fetch).await
    }
}
