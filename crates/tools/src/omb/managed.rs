//! What the benchmarks and the library do with managed buffers (`MH`, `MD`).
//!
//! Source: OMB 7.4, `osu_latency.c`, `osu_bw.c` (`touch_managed_src`, `touch_managed_dst`, `calculate_total`) and the reading of its operands:
//! M is MH; every message of a window has a buffer of its own.
//! Modelled: before it sends or receives a program touches the buffer it sends from, and after receiving the one it received into: with MH a
//! core fills it, or above 128 KiB has it prefetched to the host, with MD a kernel goes through it; all that is measured, less what empty
//! kernels take. The library's first copy has the pages where it works.
//! Not modelled: what the kernel reads and writes; the library brings the pages of a receive when it is posted.

use fabriscope_mpi::Rank;
use fabriscope_node::{Pages, ProgramError, Toucher};

/// A rank's managed buffers.
#[derive(Debug)]
pub(super) struct Managed {
    /// Who touches them in the program.
    pub by: Toucher,
    /// Who does in the library: its core, where it knows nothing of GPUs.
    pub library: Toucher,
    /// A buffer for each message of a window.
    pub sent: Vec<Pages>,
    pub received: Vec<Pages>,
}

impl Managed {
    pub fn new(by: Toucher, staged: bool, buffers: u32) -> Managed {
        let library = if staged { Toucher::Core } else { Toucher::Gpu };
        let pages = || (0..buffers).map(|_| Pages::default()).collect();
        Managed { by, library, sent: pages(), received: pages() }
    }

    /// What the program does with `buffers`, one after the other.
    pub async fn touch(&self, rank: &Rank, buffers: &[Pages], size: u32) -> Result<(), ProgramError> {
        for pages in buffers {
            self.touch_one(rank, pages, size).await?;
        }
        Ok(())
    }
    async fn touch_one(&self, rank: &Rank, pages: &Pages, size: u32) -> Result<(), ProgramError> {
        match self.by {
            Toucher::Gpu => {
                rank.run_kernel()?;
                rank.touch_managed(pages, Toucher::Gpu, size).await
            }
            Toucher::Core if size > PREFETCHED => rank.fetch_managed(pages, size).await,
            Toucher::Core => {
                rank.touch_managed(pages, Toucher::Core, size).await?;
                rank.fill(size);
                Ok(())
            }
        }
    }
    /// What the library does with a buffer before bytes move.
    pub async fn pass(&self, rank: &Rank, pages: Option<&Pages>, size: u32) -> Result<(), ProgramError> {
        let Some(pages) = pages else { return Ok(()) };
        rank.touch_managed(pages, self.library, size).await
    }
}

/// Above so many bytes a program with MH has its buffer prefetched (basis: OMB, PREFETCH_THRESHOLD).
const PREFETCHED: u32 = 128 << 10;
