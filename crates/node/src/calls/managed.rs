//! What touching managed memory costs a program.

use crate::device::Memory;
use crate::managed::{Managed, Pages, Toucher};
use crate::process::Process;
use crate::program_error::ProgramError;
use crate::work::CALLING;
use fabriscope_units::{Bytes, Span};

impl Process {
    /// Has `by` touch the first `size` bytes of a managed buffer that belongs to the memories `host` and `gpu`: faults, and waits while pages
    /// move. Nothing happens where the GPU has no managed memory of this kind.
    ///
    /// # Errors
    /// The node does not have those memories.
    pub async fn touch_pages(&self, pages: &Pages, by: Toucher, [host, gpu]: [Memory; 2], size: Bytes) -> Result<(), ProgramError> {
        let Some(costs) = self.managed_costs() else { return Ok(()) };
        let (cost, what) = match by {
            Toucher::Core => (costs.core_fault, "pages come to the core that touches them"),
            Toucher::Gpu => (costs.gpu_batch, "pages come to the GPU that touches them"),
        };
        for bytes in pages.touch(by, size, costs.batch) {
            self.move_pages(cost, what, by, [host, gpu], bytes).await?;
        }
        Ok(())
    }

    /// Asks for the first `size` bytes to be moved to `by` ahead, and waits (cudaMemPrefetchAsync, cudaStreamSynchronize).
    ///
    /// # Errors
    /// As [`touch_pages`](Self::touch_pages).
    pub async fn prefetch_pages(&self, pages: &Pages, by: Toucher, memories: [Memory; 2], size: Bytes) -> Result<(), ProgramError> {
        let Some(costs) = self.managed_costs() else { return Ok(()) };
        let bytes = pages.prefetch(by, size);
        self.move_pages(costs.prefetch, "a prefetch of pages", by, memories, bytes).await
    }

    fn managed_costs(&self) -> Option<Managed> {
        self.devices().ok()?.costs().managed
    }

    async fn move_pages(&self, cost: Span, what: &str, by: Toucher, [host, gpu]: [Memory; 2], bytes: Bytes) -> Result<(), ProgramError> {
        let begun = self.now();
        self.compute(cost);
        if bytes > Bytes::ZERO {
            self.catch_up().await;
            let (from, to) = if by == Toucher::Gpu { (host, gpu) } else { (gpu, host) };
            let id = self.devices()?.start(self.now(), from, to, bytes)?;
            self.wait_copy(id).await?;
        }
        self.note_work(begun, &[(CALLING, cost)], || what.to_owned());
        Ok(())
    }
}
