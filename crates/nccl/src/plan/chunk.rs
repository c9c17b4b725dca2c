//! How a message is split over channels, and into which chunks.
//!
//! Source: NCCL 2.22.3, src/enqueue.cc (scheduleCollTasksToPlan, calcCollChunking), src/include/collectives.h.

use fabriscope_units::Bytes;

use super::{Part, Plan};
use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::communicator::Communicator;
use crate::settings::Release;
use crate::tables;
use crate::tuner::Choice;

/// Slots of a chunk and of a slice: rings of Simple pipeline within a chunk, where the operation does not pipeline by itself.
pub(super) const fn slots(choice: Choice) -> (u32, u32) {
    match (choice.algorithm, choice.protocol, choice.operation) {
        (Algorithm::Ring, Protocol::Simple, Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter) => {
            (tables::SLOTS as u32 / 2, tables::SLOTS as u32 / 4)
        }
        _ => (1, 1),
    }
}

/// The channels in use: all but the first and the last have equal shares, in cells of 16 bytes.
pub(super) fn parts(communicator: &Communicator, plan: &Plan, count: u64, element: u64) -> Vec<Part> {
    let Choice { operation, algorithm, channels, .. } = plan.choice;
    let ranks = communicator.ranks();
    let nvls = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
    let most = u64::from(if nvls { communicator.nvls_channels() } else { communicator.channels() });
    let channels = u64::from(channels).clamp(1, most);
    let global = operation.blocks(ranks);
    let block = count * element;
    let reduced_outside = matches!(algorithm, Algorithm::CollnetDirect | Algorithm::CollnetChain)
        || (algorithm == Algorithm::Nvls && communicator.nodes() > 1);
    if reduced_outside || in_turns(communicator, plan) {
        let chunk = Bytes(chunk(communicator, plan, channels, block));
        let part = |channel: u64| Part { channel: channel as u32, offset: Bytes::ZERO, bytes: Bytes(block), chunk, number: channel as u32 };
        return (0..channels).map(part).collect();
    }
    let per_byte = operation.traffic(ranks);
    let traffic = (block * per_byte / channels).max(tables::LEAST_TRAFFIC);
    let cells = block.div_ceil(CELL);
    let per_cell = CELL * per_byte;
    let mut middle = cells.min(traffic.div_ceil(per_cell));
    let first = if most == 1 { cells } else { cells.min(traffic / per_cell) };
    let mut between = (cells - first) / middle;
    let mut last = (cells - first) % middle;
    let used = u64::from(first > 0) + between + u64::from(last > 0);
    if used > most {
        between = most - 2;
        middle = (cells - first) / (between + 1);
        last = middle + (cells - first) % (between + 1);
    }
    let mut shares: Vec<u64> = Vec::with_capacity(most as usize);
    let skipped = first == 0;
    shares.extend((first > 0).then_some(first));
    shares.extend(std::iter::repeat_n(middle, between as usize));
    shares.extend((last > 0).then_some(last));
    let mut offset = 0;
    let mut parts = Vec::with_capacity(shares.len());
    for (number, cells) in shares.into_iter().enumerate() {
        let bytes = (cells * CELL).min(block - offset);
        let channel = (number + usize::from(skipped)) as u32 % most as u32;
        let chunk = Bytes(chunk(communicator, plan, 1, global * bytes));
        parts.push(Part { channel, offset: Bytes(offset), bytes: Bytes(bytes), chunk, number: number as u32 });
        offset += bytes;
    }
    parts
}

/// Whether channels of NVLS take whole chunks of the message in turn, as in 2.18, and have no shares of it.
pub(super) fn in_turns(communicator: &Communicator, plan: &Plan) -> bool {
    let Choice { operation, algorithm, .. } = plan.choice;
    let old = communicator.settings().release == Release::V2_18;
    old && operation == Operation::AllReduce && matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree)
}

/// Shares are whole multiples of it.
pub(super) const CELL: u64 = 16;

/// The largest chunk of a part, where `bytes` counts all blocks.
fn chunk(communicator: &Communicator, plan: &Plan, channels: u64, bytes: u64) -> u64 {
    let Choice { algorithm, protocol, .. } = plan.choice;
    let mut chunk = plan.slot.0 * u64::from(plan.chunk_slots);
    match protocol {
        Protocol::Ll => chunk /= 2,
        Protocol::Ll128 => chunk = chunk / 16 * 15,
        Protocol::Simple => {}
    }
    let nodes = u64::from(communicator.nodes());
    match algorithm {
        Algorithm::CollnetDirect => {
            let heads = communicator.collnet_heads(0).len().max(1) as u64;
            let depth = if communicator.locals().0 == 1 { 1 } else { 2 };
            for (loops, least) in [(64, 131_072), (8, 65_536), (8, 32_768)] {
                while chunk > least && bytes / (channels * heads * chunk) < depth * loops {
                    chunk /= 2;
                }
            }
        }
        Algorithm::CollnetChain => {
            chunk = chunk.min(256 << 10);
            let depth = u64::from(communicator.ranks()) / nodes;
            for (loops, least) in [(64, 131_072), (8, 65_536), (1, 32_768)] {
                while chunk > least && bytes / (channels * chunk) < depth * loops {
                    chunk /= 2;
                }
            }
        }
        Algorithm::Nvls => {
            chunk = chunk.min(communicator.settings().nvls_chunk.0);
            let together = channels * u64::from(communicator.nvls_heads());
            for (loops, size) in [(64, 65_536), (8, 32_768), (2, 16_384)] {
                if bytes < loops * together * chunk && chunk > size {
                    chunk = size;
                }
            }
        }
        Algorithm::NvlsTree => {
            let settings = communicator.settings();
            let most = settings.nvls_tree_chunk.map_or(if nodes >= 4 { 65_536 } else { u64::MAX }, |most| most.0);
            chunk = settings.nvls_chunk.0.min(most);
            let together = channels * u64::from(communicator.nvls_heads());
            for (loops, size) in [(32, 262_144), (16, 131_072), (4, 65_536), (1, 32_768)] {
                if bytes < loops * together * chunk && chunk > size {
                    chunk = size;
                }
            }
        }
        Algorithm::Tree if protocol == Protocol::Ll128 => {
            // 1 + log2(nodes) + ranks of a node / 10 steps, in tenths; and loops times nodes by ranks.
            let ranks = u64::from(communicator.ranks());
            let steps = nodes * (10 + 10 * u64::from(nodes.ilog2())) + ranks;
            for (loops, least) in [(64, 131_072), (16, 32_768)] {
                while chunk > least && bytes / (channels * chunk) * 10 * ranks < steps * loops {
                    chunk /= 2;
                }
            }
        }
        Algorithm::Tree if protocol == Protocol::Simple => {
            let depth = u64::from(communicator.locals().0 - 1 + communicator.nodes().ilog2());
            for (loops, least) in [(8, 131_072), (4, 65_536), (1, 32_768)] {
                while chunk > least && bytes / (channels * chunk) < depth * loops {
                    chunk /= 2;
                }
            }
        }
        Algorithm::Tree | Algorithm::Ring => {}
    }
    let grain = protocol.grain();
    (chunk / grain * grain).max(grain)
}
