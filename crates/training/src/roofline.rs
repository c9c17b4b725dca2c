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

/// The same in 32 bits. Basis: estimated, the names of cuBLAS's and cuDNN's kernels for Kepler to Pascal (128 × 128, 128 × 64, 128 × 32); an
/// operand goes through shared memory, which feeds a tile of 64 × 64.
const TILES_32: [(u64, u64, f64); 6] = [(128, 128, 1.0), (128, 64, 0.95), (64, 128, 0.95), (64, 64, 0.85), (128, 32, 0.8), (32, 128, 0.8)];

/// Into how many parts a sum is cut: by cuBLAS the first four, by cuDNN, whose sums run over all images of a batch, any.
const SPLITS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

impl Roofline {
    /// Of a GPU; none where its part does not say what it computes.
    #[must_use]
    pub fn of(gpu: &Gpu) -> Option<Roofline> {
        let compute = gpu.compute.clone()?;
        let eight = compute.matrix_8.as_ref().map_or(*compute.matrix, |rate| **rate);
        Some(Roofline { memory: gpu.memory.copy_rate(), eight, compute })
    }
    /// Processors of the GPU.
    #[must_use]
    pub fn processors(&self) -> u32 {
        *self.compute.processors
    }
    /// What computing takes longer while a collective has some of the processors for `span`.
    #[must_use]
    pub fn slowed(&self, span: Span, taken: u32) -> Span {
        let all = self.processors();
        let taken = taken.min(all.saturating_sub(1));
        // In `span` of the collective, `all − taken` processors do what all would have done in that share of it.
        Span::from_ps((u128::from(span.as_ps()) * u128::from(taken) / u128::from(all.max(1))) as u64)
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
                let size = if precision == Precision::Bits8 { 1 } else { precision.width() };
                // Operands as they are stored, the result in 16 bits or more.
                let bytes = batch * ((m * k + k * n) * size + m * n * precision.width());
                if precision == Precision::Bits32 {
                    return self.product((m, n, k, batch), Bytes(bytes), precision);
                }
                let rate = self.rate(precision).share(*self.compute.sustained);
                self.in_waves(rate, (m, n, k, batch), &TILES, &SPLITS[..4]).max(self.memory.time(Bytes(bytes))) + gap
            }
        }
    }
    /// The same of `batch` products (m, n, k, batch) that move so many bytes of memory: not those of their operands, where operands overlap, as
    /// the windows of a convolution do.
    #[must_use]
    pub fn product(&self, shape: (u64, u64, u64, u64), bytes: Bytes, precision: Precision) -> Span {
        let rate = self.rate(precision);
        // Units that keep all digits reach their rate with smaller tiles.
        let tiles: &[_] = if precision == Precision::Bits32 { &TILES_32 } else { &TILES };
        let computing = self.in_waves(rate.share(*self.compute.sustained), shape, tiles, &SPLITS);
        computing.max(self.memory.time(bytes)) + *self.compute.gap
    }
    fn rate(&self, precision: Precision) -> OperationRate {
        match precision {
            Precision::Bits16 => *self.compute.matrix,
            Precision::Bits8 => self.eight,
            Precision::Bits32 => self.compute.matrix_32.as_ref().map_or(*self.compute.matrix, |rate| **rate),
        }
    }
    /// Whether it is known what the GPU multiplies in 32 bits.
    #[must_use]
    pub fn has_single(&self) -> bool {
        self.compute.matrix_32.is_some()
    }
    /// The waves of a multiplication, with the best of the tiles. A processor writes its tile when the sum is done, and begins the next then.
    fn in_waves(&self, rate: OperationRate, (m, n, k, batch): (u64, u64, u64, u64), tiles: &[(u64, u64, f64)], splits: &[u64]) -> Span {
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
            splits.iter().copied().map(split).min().unwrap_or_default()
        };
        tiles.iter().copied().map(with).min().unwrap_or_default()
    }
}
