//! Managed buffers of a rank: whose touch brings their pages where.
//!
//! Source: CUDA C++ programming guide, "Unified memory": copies to and from a device have managed memory accessed from the device.
//! Modelled: a library that knows of GPUs copies with engines, which have the pages come to the GPU first; one that does not touches them
//! with its core.
//! Not modelled: preferred locations and other advice.

use fabriscope_node::{Pages, ProgramError, Toucher};
use fabriscope_units::{Bytes, Span};

use super::rank::Rank;

impl Rank {
    /// Has `by` touch the first `size` bytes of a managed buffer: faults, and pages that move.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub async fn touch_managed(&self, pages: &Pages, by: Toucher, size: u32) -> Result<(), ProgramError> {
        let (device, host) = self.memories()?;
        self.process.touch_pages(pages, by, [host, device], Bytes(size.into())).await
    }
    /// Asks for the first `size` bytes of a managed buffer to be brought to the host, and waits.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub async fn fetch_managed(&self, pages: &Pages, size: u32) -> Result<(), ProgramError> {
        let (device, host) = self.memories()?;
        self.process.prefetch_pages(pages, Toucher::Core, [host, device], Bytes(size.into())).await
    }
    /// A core fills `size` bytes of its own, as fast as it copies them.
    pub fn fill(&self, size: u32) {
        let bytes = Bytes(size.into());
        self.process.copy(bytes, bytes);
    }
    /// Starts a kernel on the rank's GPU and waits for it; what it does is not counted.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub fn run_kernel(&self) -> Result<(), ProgramError> {
        self.process.compute(self.kernel()?);
        Ok(())
    }
    /// What an empty kernel takes.
    ///
    /// # Errors
    /// The node has no GPUs.
    pub fn kernel(&self) -> Result<Span, ProgramError> {
        Ok(self.process.devices()?.costs().calls.kernel())
    }
}
