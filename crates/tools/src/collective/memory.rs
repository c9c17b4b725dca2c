//! What a collective benchmark takes of memory in the packet engine, before it runs.
//!
//! Modelled: ranks, connections to ranks on other nodes, and what is in flight on each; counted at some ranks, as all do about the same.
//! Not modelled: connections within a node, which cost little beside these; what the fabric takes.

use fabriscope_collectives::Call;
use fabriscope_platform::Target;
use fabriscope_tool::{UsageError, mpi_for};
use fabriscope_units::Bytes;

use super::plan::{Implementation, Plan};

impl Plan {
    /// An estimate of what its job takes.
    pub(super) fn memory(&self, tool: &str, target: &Target) -> Result<Bytes, UsageError> {
        let mpi = mpi_for(tool, target)?;
        self.check(target)?;
        let choices = self.choices(tool, mpi, target)?.each;
        let each = if target.unordered { UNORDERED } else { ORDERED };
        let of_row = |(call, way): &(Call, Implementation)| match way {
            Implementation::Rounds(algorithm) => {
                let packets = call.size.0.clamp(1, MOST_IN_FLIGHT).div_ceil(PACKET);
                connections(call, |rank| algorithm.peers(call, rank)).saturating_mul(each.connection + packets * each.packet)
            }
            Implementation::Multicast(_) => 0,
        };
        let most = choices.iter().map(of_row).max().unwrap_or(0);
        Ok(Bytes(most.saturating_add(u64::from(target.layout.ranks()) * RANK)))
    }
}

/// Connections of all ranks to ranks on other nodes.
fn connections(call: &Call, peers: impl Fn(u32) -> Vec<u32>) -> u64 {
    let node = |rank: u32| rank / call.per_node.max(1);
    let step = (call.ranks / ASKED).max(1);
    let asked = (0..call.ranks).step_by(step as usize);
    let (mut found, mut count) = (0u64, 0u64);
    for rank in asked {
        found += peers(rank).into_iter().filter(|peer| node(*peer) != node(rank)).count() as u64;
        count += 1;
    }
    found * u64::from(call.ranks) / count.max(1)
}

/// What each connection takes, and each packet of a message that is in flight.
struct Each {
    connection: u64,
    packet: u64,
}

/// Basis: measured, osu_alltoall of 4 KiB among 128 ranks on 8 nodes (4.2 KB with verbs, 1.4 KB with PSM2), 64 KiB among 32.
const ORDERED: Each = Each { connection: 4400, packet: 100 };
/// Basis: measured, the same over SRD (2.7 KB), and 8 KiB to 1 MiB among 32 ranks on 4 nodes.
const UNORDERED: Each = Each { connection: 2900, packet: 600 };
/// Bytes of a packet. Basis: the largest of the adapters these were measured with.
const PACKET: u64 = 8192;
/// Bytes of a message from which no more of it is in flight. Basis: measured, as above.
const MOST_IN_FLIGHT: u64 = 256 << 10;
/// Bytes of a rank. Basis: measured, osu_allreduce among 16,384.
const RANK: u64 = 45_000;
/// Ranks that are asked for their partners.
const ASKED: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_collectives::Kind;

    /// Each to each of 8 nodes with 16 ranks: 112 on other nodes; in a ring one of 16 ranks has a partner elsewhere to its right.
    #[test]
    fn connections_to_other_nodes_count() {
        let call = Call { operation: Kind::Alltoall, ranks: 128, per_node: 16, root: 0, size: Bytes(8), width: Bytes(1) };
        assert_eq!(connections(&call, |rank| (0..128).filter(|peer| *peer != rank).collect()), 128 * 112);
        let alone = Call { per_node: 1, ranks: 8, ..call };
        assert_eq!(connections(&alone, |rank| vec![(rank + 1) % 8]), 8);
    }
}
