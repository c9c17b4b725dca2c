//! How long a kernel takes on a GPU: as long as its slower half, computing or memory.
//!
//! Source: Williams, Waterman, Patterson, "Roofline" (CACM 2009); tiles and waves: NVIDIA, "Matrix Multiplication Background User's Guide",
//! §3 (tile and wave quantisation).
//! Modelled: a multiplication is cut into tiles, one processor each at a time, which writes its tile behind the sum; the last wave is as long
//! as the others; the share of the
//! rate that large ones keep up; bytes at the rate of copies of the GPU's memory; the gap between kernels.
//! Not modelled: caches between kernels, clocks that fall under load other than in the sustained share.

use fabriscope_catalog::{Compute, Gpu};
use fabriscope_units::{Bytes, OperationRate, Rate, Ratio, Span};

use crate::layout::Precision;

/// A GPU as kernels see it.
#[derive(Debug, Clone)]
pub struct Roofline {
    compute: Compute,
    memory: Rate,
    eight: OperationRate,
    /// Processors that nothing else has.
    left: u32,
    /// So many times as fast as its part says.
    pace: u64,
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
        /// By kernels written for this generation of GPUs.
        latest: bool,
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

/// What a kernel's time is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelCost {
    /// Floating-point operations.
    pub operations: f64,
    /// Bytes of memory.
    pub bytes: u64,
    /// At the sustained rate, or at that of memory, whichever is longer.
    pub ideal: Span,
    /// Until the next kernel is at work.
    pub gap: Span,
    /// All of it.
    pub span: Span,
    /// Memory is what it waits for.
    pub by_memory: bool,
}

/// What others take of a GPU while kernels run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Processors.
    pub processors: u32,
    /// Of the rate of memory.
    pub memory: Rate,
}

/// Tiles of multiplications: rows, columns, and the share of a processor's rate that they reach (the smaller, the more operands for each
/// operation).
///
/// Basis: estimated, CUTLASS's tiles; an operand of a tile of a × b is read (a + b) / ab times for each operation.
const TILES: [Tile; 5] = [(256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (128, 64, 0.8), (64, 64, 0.65)];

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
        Some(Roofline { memory: gpu.memory.copy_rate(), eight, left: *compute.processors, pace: 1, compute })
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
    /// What the host takes for a launch; nothing where nobody says.
    #[must_use]
    pub fn launch(&self) -> Option<Span> {
        self.compute.launch.as_deref().copied()
    }
    /// The GPU while others take some of it: what is left has to be something.
    #[must_use]
    pub fn without(&self, taken: Taken) -> Roofline {
        let mut left = self.clone();
        left.left = self.left.saturating_sub(taken.processors).max(1);
        // Nobody takes more than nine tenths of the memory's rate from kernels. Basis: assumed.
        let rest = self.memory.as_bps().saturating_sub(taken.memory.as_bps());
        left.memory = Rate::from_bps(rest.max(self.memory.as_bps() / 10));
        left
    }
    /// A GPU that multiplies, and moves bytes of its memory, so many times as fast.
    #[must_use]
    pub fn times_as_fast(&self, multiplies: u64, memory: u64) -> Roofline {
        let memory = Rate::from_bps(self.memory.as_bps().saturating_mul(memory));
        Roofline { pace: self.pace.saturating_mul(multiplies).max(1), memory, ..self.clone() }
    }
    /// What the time of a kernel is made of.
    #[must_use]
    pub fn cost(&self, kernel: &Kernel) -> KernelCost {
        let (gap, span) = (*self.compute.gap, self.time(kernel));
        let (operations, bytes, computing) = match *kernel {
            Kernel::Stream { bytes } => (0.0, bytes, Span::ZERO),
            Kernel::Attention { latest, operations, bytes } => (operations, bytes, self.attention(latest, operations)),
            Kernel::Matrix { m, n, k, batch, precision } => {
                let operations = 2.0 * m as f64 * n as f64 * k as f64 * batch as f64;
                let bytes = moved((m, n, k, batch), precision);
                (operations, bytes, self.multiplies(precision).share(*self.compute.sustained).time(operations) / self.pace)
            }
        };
        let rate = if matches!(kernel, Kernel::Stream { .. }) { self.compute.streaming.of(self.memory) } else { self.memory };
        let moving = rate.time(Bytes(bytes));
        let by_memory = moving >= span.saturating_sub(gap);
        KernelCost { operations, bytes, ideal: computing.max(moving).min(span.saturating_sub(gap)), gap, span, by_memory }
    }
    /// What computing takes longer while a collective has some of the processors for `span`.
    #[must_use]
    pub fn slowed(&self, span: Span, taken: u32) -> Span {
        let all = self.processors();
        let taken = taken.min(all.saturating_sub(1));
        // In `span` of the collective, `all − taken` processors do what all would have done in that share of it.
        Span::from_ps((u128::from(span.as_ps()) * u128::from(taken) / u128::from(all.max(1))) as u64)
    }
    /// How long streaming so many bytes takes, one kernel; nothing is no kernel.
    #[must_use]
    pub fn stream(&self, bytes: Bytes) -> Span {
        if bytes == Bytes(0) {
            return Span::ZERO;
        }
        self.compute.streaming.of(self.memory).time(bytes) + *self.compute.gap
    }
    /// How long a kernel takes, with the gap behind it.
    #[must_use]
    pub fn time(&self, kernel: &Kernel) -> Span {
        let gap = *self.compute.gap;
        match *kernel {
            Kernel::Stream { bytes } => self.stream(Bytes(bytes)),
            Kernel::Attention { latest, operations, bytes } => self.attention(latest, operations).max(self.memory.time(Bytes(bytes))) + gap,
            Kernel::Matrix { m, n, k, batch, precision } => {
                let (shape, bytes) = ((m, n, k, batch), Bytes(moved((m, n, k, batch), precision)));
                if precision == Precision::Bits32 {
                    return self.product(shape, bytes, precision);
                }
                let rate = self.multiplies(precision).share(*self.compute.sustained);
                self.in_waves(rate, shape, &TILES, &SPLITS[..4]).max(self.memory.time(bytes)) + gap
            }
        }
    }
    /// What attention in one kernel computes for.
    fn attention(&self, latest: bool, operations: f64) -> Span {
        let share = self.compute.attention_latest.as_ref().filter(|_| latest).unwrap_or(&self.compute.attention);
        let rate = self.compute.matrix.share(**share);
        // On fewer processors as much less.
        Ratio::new(self.left, self.processors().max(1)).map_or(rate, |left| rate.share(left)).time(operations) / self.pace
    }
    /// The same of `batch` products (m, n, k, batch) that move so many bytes of memory: not those of their operands, where operands overlap, as
    /// the windows of a convolution do.
    #[must_use]
    pub fn product(&self, shape: (u64, u64, u64, u64), bytes: Bytes, precision: Precision) -> Span {
        // Units that keep all digits reach their rate with smaller tiles.
        let tiles: &[_] = if precision == Precision::Bits32 { &TILES_32 } else { &TILES };
        let rate = self.multiplies(precision).share(*self.compute.sustained);
        self.in_waves(rate, shape, tiles, &SPLITS).max(self.memory.time(bytes)) + *self.compute.gap
    }
    /// Whether it is known what the GPU multiplies in 32 bits.
    #[must_use]
    pub fn has_single(&self) -> bool {
        self.compute.matrix_32.is_some()
    }
    fn multiplies(&self, precision: Precision) -> OperationRate {
        match precision {
            Precision::Bits16 => *self.compute.matrix,
            Precision::Bits8 => self.eight,
            Precision::Bits32 => self.compute.matrix_32.as_ref().map_or(*self.compute.matrix, |rate| **rate),
        }
    }
    /// The waves of a multiplication, with the tiles that are best on the whole GPU: who chooses them does not know what else runs. A
    /// processor writes its tile when the sum is done, and begins the next then.
    fn in_waves(&self, rate: OperationRate, size: (u64, u64, u64, u64), tiles: &[Tile], splits: &[u64]) -> Span {
        let all = self.processors();
        // A sum that is too long for too few tiles is cut into parts.
        let ways = tiles.iter().flat_map(|tile| splits.iter().map(|parts| (*tile, *parts)));
        let timed = ways.map(|(tile, parts)| (self.waves(rate, all, size, tile, parts), tile, parts));
        match timed.min_by_key(|(span, ..)| *span) {
            Some((_, tile, parts)) if self.left < all => self.waves(rate, self.left, size, tile, parts),
            best => best.map_or(Span::ZERO, |(span, ..)| span),
        }
    }
    /// On so many processors of those that together compute at `rate`.
    fn waves(&self, rate: OperationRate, processors: u32, (m, n, k, batch): (u64, u64, u64, u64), tile: Tile, parts: u64) -> Span {
        let ((rows, columns, share), all, processors) = (tile, u64::from(self.processors().max(1)), u64::from(processors.max(1)));
        let tiles = m.div_ceil(rows) * n.div_ceil(columns) * batch;
        let waves = (tiles * parts).div_ceil(processors);
        let summed = (all * rows * columns * 2 * k.div_ceil(parts)) as f64 / share;
        // Each part is written, in 32 bits.
        let width = if parts > 1 { 8 } else { 2 };
        (rate.time(summed) / self.pace + self.memory.time(Bytes(processors * rows * columns * width))) * waves
    }
}

/// Bytes of products (m, n, k, batch): operands as they are stored, the result in 16 bits or more.
fn moved((m, n, k, batch): (u64, u64, u64, u64), precision: Precision) -> u64 {
    let size = if precision == Precision::Bits8 { 1 } else { precision.width() };
    batch * ((m * k + k * n) * size + m * n * precision.width())
}

/// Rows, columns, and the share of a processor's rate.
type Tile = (u64, u64, f64);
