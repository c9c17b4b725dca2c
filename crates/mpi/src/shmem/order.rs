//! `shmem_fence` and `shmem_quiet`.
//!
//! Source: OpenSHMEM 1.5, §9.11; UCX `ucp_worker_fence`, `ucp_ep_flush_nbx`; Open MPI `spml/ucx`.
//! Modelled: quiet waits until everything outstanding is in the memory of its target, as completions say. Fence costs nothing where one reliable connection carries all puts to a PE in order;
//! where they may overtake each other (SRD, adaptive routing that adapters let through, requests that take several adapters in turn) it waits as quiet does.
//! Not modelled: adapters that take a fence bit with a request.

use fabriscope_node::ProgramError;

use super::pe::Pe;

impl Pe {
    /// `shmem_fence`: puts and atomics to a PE behind it arrive after those before it.
    ///
    /// # Errors
    /// A queue pair in error.
    pub async fn fence(&self) -> Result<(), ProgramError> {
        if self.may_be_overtaken() { self.drain().await } else { Ok(()) }
    }
    /// `shmem_quiet`: all puts, atomics and non-blocking gets are complete.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub async fn quiet(&self) -> Result<(), ProgramError> {
        self.drain().await
    }
}
