//! How long a kernel takes on a GPU: as long as its slower half, computing or memory.
//!
//! Source: Williams, Waterman, Patterson, "Roofline" (CACM 2009); tiles and waves: NVIDIA, "Matrix Multiplication Background User's Guide",
//! §3 (tile and wave quantisation).
//! Modelled: a multiplication is cut into tiles, one processor each at a time, which writes its tile behind the sum; the last wave is as long
//! as the others; the share of the
//! rate that large ones keep up; bytes at the rate of copies of the GPU's memory; the gap between kernels.
//! Not modelled: caches between kernels, clocks that fall under load other than in the sustained share.

use fabriscope_catalog::{Compute, Gpu};
use fabriscope_units::{Bytes, OperationRate, Rate, Span};

use crate::layout::Precision;

/// A GPU as kernels see it.
#[derive(Debug, Clone)]
pub struct Roofline {
    compute: Compute,
    memory: Rate,
    eight: OperationRate,
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// `batch` products of m × k by k × n matrices.
    Matrix {
        /// Rows of the result.
        m: u64,
        /// Columns of the result.
        n: u64,
        /// What is summed over.
        k: u64,
        /// Products.
        batch: u64,
        /// Its elements.
        precision: Precision,
    },
    /// Attention in one kernel.
    Attention {
        /// Operations.
        operations: f64,
        /// Bytes of memory.
        bytes: u64,
    },
    /// Anything that only moves bytes of memory.
    Stream {
        /// Read and written.
        bytes: u64,
    },
}

/// Tiles of multiplications: rows, columns, and the share of a processor's rate that they reach (the smaller, the more operands for each
/// operation).
///
/// Basis: estimated, CUTLASS's tiles; an operand of a tile of a × b is read (a + b) / ab times for each operation.
const TILES: [(u64, u64, f64); 5] = [(256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (128, 64, 0.8), (64, 64, 0.65)];

impl Roofline {
    /// Of a GPU; none where its part does not say what it computes.
    #[must_use]
    pub fn of(gpu: &Gpu) -> Option<Roofline> {
        let compute = gpu.compute.clone()?;
        let eight = compute.matrix_8.as_ref().map_or(*compute.matrix, |rate| **rate);
        Some(Roofline { memory: gpu.memory.copy_rate(), eight, compute })
    }
    /// The same for inference: kernels that hardly write, whose bytes come at the rate of reads; attention without a backward pass; gaps are left
    /// to who calls.
    #[must_use]
    pub fn reading(gpu: &Gpu) -> Option<Roofline> {
        let mut roofline = Roofline::of(gpu)?;
        roofline.memory = gpu.memory.read_rate();
        roofline.compute.gap.value = Span::ZERO;
        if let Some(forward) = roofline.compute.attention_forward.clone() {
            roofline.compute.attention = forward;
        }
        Some(roofline)
    }
    /// Processors of the GPU.
    #[must_use]
    pub fn processors(&self) -> u32 {
        *self.compute.processors
    }
    /// How long streaming so many bytes takes, one kernel.
    #[must_use]
    pub fn stream(&self, bytes: Bytes) -> Span {
        self.memory.time(bytes) + *self.compute.gap
    }
    /// How long a kernel takes, with the gap behind it.
    #[must_use]
    pub fn time(&self, kernel: &Kernel) -> Span {
        let gap = *self.compute.gap;
        match *kernel {
            Kernel::Stream { bytes } => self.stream(Bytes(bytes)),
            Kernel::Attention { operations, bytes } => {
                let computing = self.compute.matrix.share(*self.compute.attention).time(operations);
                computing.max(self.memory.time(Bytes(bytes))) + gap
            }
            Kernel::Matrix { m, n, k, batch, precision } => {
                let (rate, size) = match precision {
                    Precision::Bits16 => (*self.compute.matrix, 2),
                    Precision::Bits8 => (self.eight, 1),
                };
                let computing = self.in_waves(rate.share(*self.compute.sustained), (m, n, k, batch));
                // Operands as they are stored, the result in 16 bits.
                let bytes = batch * ((m * k + k * n) * size + m * n * 2);
                computing.max(self.memory.time(Bytes(bytes))) + gap
            }
        }
    }
    /// The waves of a multiplication, with the best of the tiles. A processor writes its tile when the sum is done, and begins the next then.
    fn in_waves(&self, rate: OperationRate, (m, n, k, batch): (u64, u64, u64, u64)) -> Span {
        let processors = u64::from(*self.compute.processors).max(1);
        let with = |(rows, columns, share): (u64, u64, f64)| {
            let tiles = m.div_ceil(rows) * n.div_ceil(columns) * batch;
            // A sum that is too long for too few tiles is cut into parts; each is written, in 32 bits.
            let split = |parts: u64| {
                let waves = (tiles * parts).div_ceil(processors);
                let summed = (processors * rows * columns * 2 * k.div_ceil(parts)) as f64 / share;
                let width = if parts > 1 { 8 } else { 2 };
                (rate.time(summed) + self.memory.time(Bytes(processors * rows * columns * width))) * waves
            };
            [1, 2, 4, 8].into_iter().map(split).min().unwrap_or_default()
        };
        TILES.into_iter().map(with).min().unwrap_or_default()
    }
}
