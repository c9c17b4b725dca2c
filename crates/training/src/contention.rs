//! What kernels lose while operations of a communication library run beside them: processors, and bandwidth of the memory.
//!
//! Source: NCCL, src/device/all_reduce.h, all_gather.h, reduce_scatter.h, sendrecv.h and prims_simple.h: a block for each channel, which
//! keeps a processor; how often a byte passes the memory of a GPU, counted below. What others measured: "Characterizing
//! Compute-Communication Overlap in GPU-Accelerated Distributed Deep Learning" (arXiv 2507.03114): computing takes 18.9 % longer beside
//! collectives at the mean of their jobs on four GPUs, 40 % at the most.
//! Modelled: a kernel runs on the processors that are left (a multiplication in more waves, its tiles chosen for the whole GPU) and with the
//! memory bandwidth that is left.
//! Not modelled: operations that are slower while kernels compute; caches; clocks that fall when both take power.

use fabriscope_units::{Bytes, Rate, Span};

use crate::roofline::{Kernel, Roofline, Taken};
use crate::times::{Cost, Operation};

/// How often a byte that a rank sends on passes the memory of its GPU with the protocol `Simple`, within a node and between nodes.
///
/// Between nodes the adapter writes to a buffer, the kernel reads it, reads its own part or writes the result, writes to the buffer of the
/// adapter, which reads that: five. Within a node the neighbour writes, the kernel reads, reads its own or writes the result: three.
/// Messages of two ranks are copied at both ends: read, written, read by the adapter; written by it, read, written.
/// Basis: counted in the source.
const fn passes_of_memory(operation: Operation, leaves_node: bool) -> u64 {
    match (operation, leaves_node) {
        (Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter, true) => 5,
        (Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter, false) => 3,
        (Operation::AllToAll | Operation::Tokens { .. } | Operation::SendReceive, true) => 6,
        (Operation::AllToAll | Operation::Tokens { .. } | Operation::SendReceive, false) => 4,
    }
}

/// Bytes of memory that an operation moves at each GPU.
#[must_use]
pub fn memory_bytes(operation: Operation, bytes: Bytes, ranks: u32, leaves_node: bool) -> Bytes {
    let ranks = u64::from(ranks.max(1));
    let others = (u128::from(bytes.0) * u128::from(ranks - 1) / u128::from(ranks)) as u64;
    let sent = match operation {
        Operation::AllReduce => 2 * others,
        Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll | Operation::Tokens { .. } => others,
        Operation::SendReceive => bytes.0,
    };
    Bytes(sent * passes_of_memory(operation, leaves_node))
}

/// What operations one behind the other take of a GPU, at the mean of their time.
#[must_use]
pub fn taken_by(operations: &[(Operation, Bytes, u32, Cost)]) -> Taken {
    let (mut moved, mut span, mut blocks) = (0u128, 0u128, 0u128);
    for (operation, bytes, ranks, cost) in operations {
        moved += u128::from(memory_bytes(*operation, *bytes, *ranks, cost.leaves_node).0);
        span += u128::from(cost.span.as_ps());
        blocks += u128::from(cost.processors) * u128::from(cost.span.as_ps());
    }
    let span = span.max(1);
    // Bytes in picoseconds are 8 · 10¹² bits a second.
    let bps = u64::try_from(moved * 8_000_000_000_000 / span).unwrap_or(u64::MAX);
    Taken { processors: u32::try_from(blocks.div_ceil(span)).unwrap_or(u32::MAX), memory: Rate::from_bps(bps) }
}

/// What these kernels take alone, and what they take while something is taken of the GPU.
#[must_use]
pub fn slower(kernels: &[Kernel], roofline: &Roofline, taken: Taken) -> (Span, Span) {
    let left = roofline.without(taken);
    let sum = |roofline: &Roofline| kernels.iter().map(|kernel| roofline.time(kernel)).sum();
    (sum(roofline), sum(&left))
}

/// What is lost while an operation runs for `window` beside computing that it slows like this.
#[must_use]
pub fn lost(window: Span, (alone, beside): (Span, Span)) -> Span {
    let (alone, beside) = (u128::from(alone.as_ps()), u128::from(beside.as_ps().max(alone.as_ps()).max(1)));
    // In the window `alone / beside` of it is done.
    Span::from_ps((u128::from(window.as_ps()) * (beside - alone) / beside) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_catalog::Catalog;

    /// A ring of 8 GPUs on two nodes: 2 · 7/8 of the buffer is sent on, each byte five times through memory.
    #[test]
    fn bytes_of_memory_are_counted() {
        assert_eq!(memory_bytes(Operation::AllReduce, Bytes(800), 8, true), Bytes(2 * 700 * 5));
        assert_eq!(memory_bytes(Operation::AllGather, Bytes(800), 8, false), Bytes(700 * 3));
    }

    /// An operation that takes 10 us for 1,000 · 7/8 · 3 bytes and another of 30 us without bytes that are moved: 2,625 bytes in 40 us.
    #[test]
    fn operations_take_the_mean_of_their_time() {
        let cost = |us, processors| Cost {
            span: Span::from_us(us),
            latency: Span::ZERO,
            bound: crate::Bound::Unknown,
            leaves_node: false,
            processors,
        };
        let taken = taken_by(&[(Operation::AllGather, Bytes(1000), 8, cost(10, 24)), (Operation::AllReduce, Bytes(1000), 1, cost(30, 4))]);
        assert_eq!(taken, Taken { processors: 9, memory: Rate::from_bps(2625 * 8 * 25_000) });
    }

    /// Streaming beside something that takes half of the memory's rate takes twice as long, but for the gap; in a window half of it is lost.
    #[test]
    fn half_of_the_memory_is_half_the_pace() {
        let catalog = Catalog::embedded().unwrap();
        let gpu = catalog.gpu("a100-sxm4-80").unwrap();
        let roofline = Roofline::of(gpu).unwrap();
        let half = Taken { processors: 0, memory: Rate::from_bps(gpu.memory.copy_rate().as_bps() / 2) };
        let (alone, beside) = slower(&[Kernel::Stream { bytes: 1 << 30 }], &roofline, half);
        assert!((beside.as_s_f64() / alone.as_s_f64() - 2.0).abs() < 0.01, "{alone} {beside}");
        let lost = lost(Span::from_us(100), (alone, beside));
        assert!((lost.as_us_f64() - 50.0).abs() < 0.5, "{lost}");
    }

    /// 132 tiles on the 132 processors of an H100 are one wave; beside an all-gather with 24 blocks they are two. Measured: from 80 % of
    /// the peak to 47 % (forums.developer.nvidia.com, topic 337991), 1.7 times as long, as the all-gather ends before the product.
    #[test]
    fn fewer_processors_take_more_waves() {
        let catalog = Catalog::embedded().unwrap();
        let roofline = Roofline::of(catalog.gpu("h100-sxm5").unwrap()).unwrap();
        let product = Kernel::Matrix { m: 12 * 256, n: 11 * 128, k: 8192, batch: 1, precision: crate::Precision::Bits16 };
        let (alone, beside) = slower(&[product], &roofline, Taken { processors: 24, memory: Rate::default() });
        let ratio = beside.as_s_f64() / alone.as_s_f64();
        assert!((1.7..2.01).contains(&ratio), "{ratio}");
    }
}
