//! The operations: who sends what to whom, and what counts as bandwidth.
//!
//! Source: nccl-tests, src/*.cu.

use fabriscope_collectives::Kind;
use fabriscope_nccl as nccl;
use fabriscope_nccl_runtime::Exchange;
use fabriscope_tool::{Data, Operation as Carried, PerNode, Ranks, SizeOption, Suite, Traits};
use fabriscope_units::Bytes;

/// One test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `all_reduce_perf`.
    AllReduce,
    /// `all_gather_perf`.
    AllGather,
    /// `reduce_scatter_perf`.
    ReduceScatter,
    /// `broadcast_perf`.
    Broadcast,
    /// `reduce_perf`.
    Reduce,
    /// `alltoall_perf`.
    AllToAll,
    /// `gather_perf`.
    Gather,
    /// `scatter_perf`.
    Scatter,
    /// `sendrecv_perf`.
    SendRecv,
    /// `hypercube_perf`.
    Hypercube,
}

/// Every test, in the order of a list.
pub const TOOLS: [Operation; 10] = [
    Operation::AllReduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::AllToAll,
    Operation::Gather,
    Operation::Scatter,
    Operation::SendRecv,
    Operation::Hypercube,
];

impl Operation {
    /// The program's name.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce_perf",
            Operation::AllGather => "all_gather_perf",
            Operation::ReduceScatter => "reduce_scatter_perf",
            Operation::Broadcast => "broadcast_perf",
            Operation::Reduce => "reduce_perf",
            Operation::AllToAll => "alltoall_perf",
            Operation::Gather => "gather_perf",
            Operation::Scatter => "scatter_perf",
            Operation::SendRecv => "sendrecv_perf",
            Operation::Hypercube => "hypercube_perf",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Operation::AllReduce => "ncclAllReduce on GPUs (nccl-tests)",
            Operation::AllGather => "ncclAllGather on GPUs (nccl-tests)",
            Operation::ReduceScatter => "ncclReduceScatter on GPUs (nccl-tests)",
            Operation::Broadcast => "ncclBroadcast on GPUs (nccl-tests)",
            Operation::Reduce => "ncclReduce on GPUs (nccl-tests)",
            Operation::AllToAll => "every GPU to every other by ncclSend and ncclRecv (nccl-tests)",
            Operation::Gather => "all GPUs to one by ncclSend and ncclRecv (nccl-tests)",
            Operation::Scatter => "one GPU to all by ncclSend and ncclRecv (nccl-tests)",
            Operation::SendRecv => "every GPU to the next by ncclSend and ncclRecv (nccl-tests)",
            Operation::Hypercube => "an all-gather in rounds of a hypercube by ncclSend and ncclRecv (nccl-tests)",
        }
    }
    /// What the program is.
    #[must_use]
    pub fn traits(self) -> Traits {
        let operation = match self {
            Operation::AllReduce => Carried::Collective(Kind::Allreduce),
            Operation::AllGather => Carried::Collective(Kind::Allgather),
            Operation::ReduceScatter => Carried::Collective(Kind::ReduceScatter),
            Operation::Broadcast => Carried::Collective(Kind::Bcast),
            Operation::Reduce => Carried::Collective(Kind::Reduce),
            Operation::AllToAll => Carried::Collective(Kind::Alltoall),
            Operation::Gather => Carried::Collective(Kind::Gather),
            Operation::Scatter => Carried::Collective(Kind::Scatter),
            Operation::SendRecv | Operation::Hypercube => Carried::Exchange,
        };
        Traits {
            ranks: Ranks::Job(PerNode::Gpus),
            sizes: SizeOption::BeginEnd,
            data: Data::OnGpus,
            ..Traits::new(Suite::NcclTests, operation)
        }
    }
    /// What the library has for it; the others are groups of sends and receives.
    pub(super) fn planned(self) -> Option<nccl::Operation> {
        match self {
            Operation::AllReduce => Some(nccl::Operation::AllReduce),
            Operation::AllGather => Some(nccl::Operation::AllGather),
            Operation::ReduceScatter => Some(nccl::Operation::ReduceScatter),
            Operation::Broadcast => Some(nccl::Operation::Broadcast),
            Operation::Reduce => Some(nccl::Operation::Reduce),
            _ => None,
        }
    }
    /// The size printed is that of all ranks' blocks together.
    pub(super) fn divides(self) -> bool {
        !matches!(self, Operation::AllReduce | Operation::Broadcast | Operation::Reduce | Operation::SendRecv)
    }
    /// It adds up.
    pub(super) fn reduces(self) -> bool {
        matches!(self, Operation::AllReduce | Operation::ReduceScatter | Operation::Reduce)
    }
    /// It has a root.
    pub(super) fn rooted(self) -> bool {
        matches!(self, Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter)
    }
    /// Bytes that count as the algorithm's, and what a byte of them is on the links.
    pub(super) fn counted(self, ranks: u32, bytes: u64) -> (f64, f64) {
        let (n, all) = (f64::from(ranks), bytes as f64);
        match self {
            Operation::AllReduce => (all, 2.0 * (n - 1.0) / n),
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll | Operation::Gather | Operation::Scatter => {
                (all, (n - 1.0) / n)
            }
            Operation::Broadcast | Operation::Reduce | Operation::SendRecv => (all, 1.0),
            Operation::Hypercube => (all / n * (n - 1.0), 1.0),
        }
    }

    /// The sends and receives of a rank, group by group.
    pub(super) fn groups(self, rank: u32, ranks: u32, root: u32, block: Bytes, in_place: bool) -> Vec<Vec<Exchange>> {
        let all = |sends: bool| {
            let one = move |peer| if sends { Exchange::send(peer, block) } else { Exchange::receive(peer, block) };
            // What stays in place is not copied.
            (0..ranks).filter(move |peer| !(in_place && *peer == rank)).map(one)
        };
        match self {
            Operation::AllToAll => vec![all(true).chain(all(false)).collect()],
            Operation::Gather | Operation::Scatter => {
                let to_root = self == Operation::Gather;
                let mut group = Vec::new();
                if !(in_place && rank == root) {
                    group.push(if to_root { Exchange::send(root, block) } else { Exchange::receive(root, block) });
                }
                if rank == root {
                    group.extend(all(!to_root));
                }
                vec![group]
            }
            Operation::SendRecv => {
                vec![vec![Exchange::send((rank + 1) % ranks, block), Exchange::receive((rank + ranks - 1) % ranks, block)]]
            }
            Operation::Hypercube => {
                let masks = (0..32).map(|bit| 1u32 << bit).take_while(|mask| *mask < ranks);
                let met = masks.filter(|mask| (rank ^ mask) < ranks);
                met.map(|mask| {
                    let (peer, bytes) = (rank ^ mask, Bytes(block.0 * u64::from(mask)));
                    vec![Exchange::send(peer, bytes), Exchange::receive(peer, bytes)]
                })
                .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Who sends to whom, and the lengths that there are.
    pub(super) fn senders(self, ranks: u32, root: u32, block: Bytes) -> (Vec<(u32, u32)>, Vec<Bytes>) {
        let mut pairs = Vec::new();
        let mut lengths = Vec::new();
        for rank in 0..ranks {
            for exchange in self.groups(rank, ranks, root, block, true).into_iter().flatten() {
                if exchange.sends {
                    pairs.push((rank, exchange.peer));
                }
                if !lengths.contains(&exchange.bytes) {
                    lengths.push(exchange.bytes);
                }
            }
        }
        (pairs, lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_send_has_its_receive() {
        for operation in TOOLS.into_iter().filter(|operation| operation.planned().is_none()) {
            for ranks in [2u32, 4, 8] {
                for in_place in [false, true] {
                    let groups: Vec<_> = (0..ranks).map(|rank| operation.groups(rank, ranks, 1, Bytes(8), in_place)).collect();
                    for (rank, rounds) in groups.iter().enumerate() {
                        for (round, exchange) in rounds.iter().enumerate().flat_map(|(round, group)| group.iter().map(move |e| (round, e)))
                        {
                            let twin = Exchange { peer: rank as u32, sends: !exchange.sends, ..*exchange };
                            let there = &groups[exchange.peer as usize][round];
                            let count = |list: &[Exchange], one: &Exchange| list.iter().filter(|other| *other == one).count();
                            assert_eq!(count(there, &twin), count(&rounds[round], exchange), "{} {ranks} {rank}", operation.tool());
                        }
                    }
                }
            }
        }
        // A hypercube gathers: each round sends all that came before, 1 + 2 + 4 blocks for 8 ranks.
        let sent: u64 = Operation::Hypercube.groups(3, 8, 0, Bytes(8), true).iter().flatten().filter(|e| e.sends).map(|e| e.bytes.0).sum();
        assert_eq!(sent, 7 * 8);
    }
}
