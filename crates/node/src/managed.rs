//! Managed memory: pages that move to whoever touches them.
//!
//! Source: NVIDIA/open-gpu-kernel-modules, `uvm_gpu_replayable_faults.c` (batches of faults), `uvm_perf_prefetch.c` (which neighbours come along),
//! `uvm_va_block.h` (blocks of 2 MiB); T. Allen and R. Ge, "In-Depth Analyses of Unified Virtual Memory System for GPU Accelerated
//! Computing", SC 2021 (what a batch is).
//! Modelled: residency in leaves of 64 KiB; a core faults on one page at a time, a GPU on as many as a batch holds; with what faults the
//! driver moves the largest part of the block of which more than 51 % are wanted or there; prefetches by the program; an engine moves
//! the bytes over the machine's path while whoever faulted waits.
//! Not modelled: memory that is oversubscribed, pages read at both ends, access counters, thrashing, faults of several blocks in one batch,
//! what a kernel does besides faulting. Where caches of processor and GPU agree, nothing moves.

use std::cell::RefCell;

use fabriscope_units::{Bytes, Span, parameters};

parameters! {
    /// Managed memory: what the driver takes for pages that move to whoever touches them.
    pub struct Managed as "Managed" {
        /// A batch of faults of the GPU, from the first fault until its threads go on, beside moving bytes.
        pub gpu_batch: Span,
        /// Faults of 4 KiB pages that are looked at together.
        pub batch: u32,
        /// A fault of a core, beside moving bytes.
        pub core_fault: Span,
        /// Asking for a prefetch and waiting for its end, beside moving bytes.
        pub prefetch: Span,
    }
}

/// Who touches pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toucher {
    /// A core.
    Core,
    /// The GPU, by a kernel or an engine.
    Gpu,
}

/// A managed buffer: which of its leaves are in the memory of the GPU, a bit each, block by block. At first all are in host memory.
#[derive(Debug, Default)]
pub struct Pages(RefCell<Vec<u32>>);

impl Pages {
    /// Has `by` touch the first `size` bytes in order: what moves for each fault of a core, or each batch of a GPU that holds `batch` faults.
    pub(crate) fn touch(&self, by: Toucher, size: Bytes, batch: u32) -> Vec<Bytes> {
        let leaves_at_once = match by {
            Toucher::Core => 1,
            Toucher::Gpu => (u64::from(batch) * PAGE / LEAF).max(1) as u32,
        };
        let mut moves = Vec::new();
        self.each_block(size, |at_gpu, touched| {
            let mut here = if by == Toucher::Gpu { *at_gpu } else { !*at_gpu };
            while touched & !here != 0 {
                let moved = with_neighbours(here, lowest(touched & !here, leaves_at_once));
                here |= moved;
                moves.push(leaves(moved));
            }
            *at_gpu = if by == Toucher::Gpu { here } else { !here };
        });
        moves
    }

    /// Has the first `size` bytes at `by` without a fault; how much moves for it.
    pub(crate) fn prefetch(&self, by: Toucher, size: Bytes) -> Bytes {
        let mut moved = Bytes::ZERO;
        self.each_block(size, |at_gpu, touched| {
            let missing = touched & if by == Toucher::Gpu { !*at_gpu } else { *at_gpu };
            *at_gpu ^= missing;
            moved += leaves(missing);
        });
        moved
    }

    /// Every block of the first `size` bytes, with its leaves among them.
    fn each_block(&self, size: Bytes, mut f: impl FnMut(&mut u32, u32)) {
        let mut blocks = self.0.borrow_mut();
        let count = size.0.div_ceil(BLOCK) as usize;
        if blocks.len() < count {
            blocks.resize(count, 0);
        }
        for (block, start) in blocks.iter_mut().zip((0..size.0).step_by(BLOCK as usize)) {
            let touched = (size.0 - start).min(BLOCK).div_ceil(LEAF);
            f(block, ((1u64 << touched) - 1) as u32);
        }
    }
}

/// What the driver moves when the leaves `faulted` are wanted where `here` are already: for each of them the largest aligned power of two of
/// leaves of which more than [`THRESHOLD`] percent are wanted or there.
fn with_neighbours(here: u32, faulted: u32) -> u32 {
    let mut wanted = here | faulted;
    for leaf in (0..LEAVES).filter(|leaf| faulted >> leaf & 1 == 1) {
        let regions = (0..=LEAVES.ilog2()).rev().map(|level| {
            let length = 1u32 << level;
            (length, (((1u64 << length) - 1) << (leaf & !(length - 1))) as u32)
        });
        for (length, region) in regions {
            if (wanted & region).count_ones() * 100 > THRESHOLD * length {
                wanted |= region;
                break;
            }
        }
    }
    wanted & !here
}

/// The `count` lowest of the set bits.
fn lowest(mut bits: u32, count: u32) -> u32 {
    let all = bits;
    for _ in 0..count {
        bits &= bits.wrapping_sub(1);
    }
    all & !bits
}

fn leaves(bits: u32) -> Bytes {
    Bytes(LEAF * u64::from(bits.count_ones()))
}

/// A page that faults, in bytes. Basis: standard, of x86; faults of GPUs count such pages in any case.
const PAGE: u64 = 4 << 10;
/// The least that moves, in bytes. Basis: published, `uvm_perf_prefetch.c`: pages of 64 KiB come whole.
const LEAF: u64 = 64 << 10;
/// What the driver looks at together, in bytes. Basis: published, `uvm_va_block.h`.
const BLOCK: u64 = 2 << 20;
const LEAVES: u32 = (BLOCK / LEAF) as u32;
/// More than so many percent of a region wanted or there, and all of it comes. Basis: published, `uvm_perf_prefetch_threshold`.
const THRESHOLD: u32 = 51;

#[cfg(test)]
mod tests {
    use super::*;

    fn kib(moves: Vec<Bytes>) -> Vec<u64> {
        moves.into_iter().map(|bytes| bytes.0 >> 10).collect()
    }

    #[test]
    fn a_core_that_sweeps_a_block_faults_ever_more_rarely() {
        let pages = Pages::default();
        assert_eq!(pages.prefetch(Toucher::Gpu, Bytes(BLOCK)), Bytes(BLOCK));
        // After 64 KiB, 64/128 are no more than 51 %; from the third leaf on, what is there and what faults outweigh the rest each time.
        assert_eq!(kib(pages.touch(Toucher::Core, Bytes(BLOCK), 256)), [64, 64, 128, 256, 512, 1024]);
        assert!(pages.touch(Toucher::Core, Bytes(BLOCK), 256).is_empty());
    }

    #[test]
    fn a_batch_of_a_gpu_brings_a_mebibyte() {
        let pages = Pages::default();
        // 256 faults of 4 KiB are 16 leaves: half of a block, which is no more than 51 %.
        assert_eq!(kib(pages.touch(Toucher::Gpu, Bytes(2 * BLOCK), 256)), [1024; 4]);
        // 17 leaves at once are more, and bring all.
        assert_eq!(kib(Pages::default().touch(Toucher::Gpu, Bytes(BLOCK), 17 * 16)), [2048]);
        assert_eq!(kib(Pages::default().touch(Toucher::Gpu, Bytes(1), 256)), [64]);
    }

    #[test]
    fn what_is_there_does_not_move_and_what_was_brought_along_is_there() {
        let pages = Pages::default();
        // 10 of 16 leaves: the half of the block comes.
        assert_eq!(kib(pages.touch(Toucher::Gpu, Bytes(10 * LEAF), 256)), [1024]);
        assert!(pages.touch(Toucher::Gpu, Bytes(16 * LEAF), 256).is_empty());
        assert_eq!(pages.prefetch(Toucher::Core, Bytes(BLOCK)), Bytes(1 << 20));
        assert_eq!(pages.prefetch(Toucher::Core, Bytes(BLOCK)), Bytes::ZERO);
    }
}
