//! What queue pairs take: contexts at an adapter, and memory of processes and nodes, by transport.
//!
//! Source: IBA vol. 1 §9.8 and annex A14 (XRC); the counts M²N, MN and M of the transports for M processes on each of N nodes,
//! all of which talk to all others; processes of one node talk through memory, so that N is N − 1 here.
//! Modelled: contexts, send rings, receive entries and their buffers; datagrams and connections with the queues of the library.
//! Not modelled: completion queues, address handles, registration tables, connections that are made on demand.

use fabriscope_units::Bytes;

/// Processes and what their queues take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Processes on each node, M.
    pub per_node: u32,
    /// Nodes, N.
    pub nodes: u32,
    /// Bytes of a context.
    pub context: Bytes,
    /// Bytes of an entry of a send queue.
    pub send_entry: Bytes,
    /// Queues of connections; receives are shared by all of a process.
    pub connections: Queues,
    /// Queues of the one queue pair of datagrams, if the library has them.
    pub datagrams: Option<Queues>,
}

/// Lengths of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Entries of a send queue.
    pub send: u32,
    /// Receives that are posted.
    pub receives: u32,
    /// Bytes of the buffer of each.
    pub buffer: Bytes,
}

/// What a transport takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// Its name.
    pub transport: &'static str,
    /// How contexts grow.
    pub growth: &'static str,
    /// Contexts of one process.
    pub contexts_per_process: u64,
    /// Contexts at the adapter of a node.
    pub contexts_per_adapter: u64,
    /// Memory of one process in bytes.
    pub process_bytes: u64,
    /// Memory of all processes of a node in bytes.
    pub node_bytes: u64,
}

impl Job {
    /// What each transport takes: RC, XRC, DC, UD, SRD.
    ///
    /// With M processes on each of N nodes, each process has
    /// - RC: M (N − 1) queue pairs, one for each process elsewhere;
    /// - XRC: N − 1 that send, one for each node elsewhere, and its share N − 1 of those of the node that receive;
    /// - DC: one that sends and one that receives; UD and SRD: one.
    #[must_use]
    pub fn footprints(&self) -> Vec<Footprint> {
        let (m, others) = (u64::from(self.per_node), u64::from(self.nodes.saturating_sub(1)));
        let connections = self.connections;
        let mut all = vec![
            self.footprint("RC", "M² (N − 1)", m * others, m * others, connections),
            self.footprint("XRC", "2 M (N − 1)", 2 * others, others, connections),
            self.footprint("DC", "2 M", 2, 1, connections),
        ];
        if let Some(datagrams) = self.datagrams {
            all.extend(["UD", "SRD"].map(|name| self.footprint(name, "M", 1, 1, datagrams)));
        }
        all
    }

    /// What one of the transports of MPI takes, with `initiators` of DC; none where the word names none.
    ///
    /// As [`footprints`](Self::footprints), and
    /// - rc: as RC, and each queue pair has `own` receives of its own;
    /// - dc: so many initiators and a target;
    /// - srd, uet: one queue pair, and a context of the adapter for each adapter elsewhere.
    #[must_use]
    pub fn of(&self, transport: &str, (own, initiators): (u32, u32)) -> Option<Footprint> {
        let (m, others) = (u64::from(self.per_node), u64::from(self.nodes.saturating_sub(1)));
        let shared = self.connections;
        let datagrams = self.datagrams.unwrap_or(shared);
        let each = u64::from(own).saturating_mul(m * others);
        let own = Queues { receives: u32::try_from(each).unwrap_or(u32::MAX), ..shared };
        Some(match transport {
            "rc" => self.footprint("rc", "M² (N − 1)", m * others, m * others, own),
            "rc-srq" => self.footprint("rc-srq", "M² (N − 1)", m * others, m * others, shared),
            "xrc" => self.footprint("xrc", "2 M (N − 1)", 2 * others, others, shared),
            "dc" => self.footprint("dc", "M (D + 1)", u64::from(initiators) + 1, initiators.into(), shared),
            "ud" => self.footprint("ud", "M", 1, 1, datagrams),
            "srd" | "uet" => {
                let name = if transport == "srd" { "srd" } else { "uet" };
                let one = self.footprint(name, "M + N − 1", 1, 1, datagrams);
                Footprint {
                    contexts_per_adapter: one.contexts_per_adapter + others,
                    node_bytes: one.node_bytes + others * self.context.0,
                    ..one
                }
            }
            _ => return None,
        })
    }

    /// A process with so many contexts and send queues, and one set of receives.
    fn footprint(&self, transport: &'static str, growth: &'static str, contexts: u64, sending: u64, queues: Queues) -> Footprint {
        let m = u64::from(self.per_node);
        let ring = u64::from(queues.send) * self.send_entry.0;
        let receives = u64::from(queues.receives) * (RECEIVE_ENTRY + queues.buffer.0);
        let process_bytes = contexts * self.context.0 + sending * ring + receives;
        let (contexts_per_adapter, node_bytes) = (m * contexts, m * process_bytes);
        Footprint { transport, growth, contexts_per_process: contexts, contexts_per_adapter, process_bytes, node_bytes }
    }
}

/// Bytes of an entry of a receive queue with one buffer. Basis: published, rdma-core providers/mlx5: struct mlx5_wqe_data_seg.
const RECEIVE_ENTRY: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        let queues = |send, receives, buffer| Queues { send, receives, buffer: Bytes(buffer) };
        let job = Job {
            per_node: 28,
            nodes: 32,
            context: Bytes(375),
            send_entry: Bytes(64),
            connections: queues(64, 512, 16_384),
            datagrams: Some(queues(2048, 4096, 2088)),
        };
        let found = job.footprints();
        let contexts: Vec<(&str, u64)> = found.iter().map(|f| (f.transport, f.contexts_per_adapter)).collect();
        // 28² · 31, 2 · 28 · 31, 2 · 28, 28, 28.
        assert_eq!(contexts, [("RC", 24_304), ("XRC", 1_736), ("DC", 56), ("UD", 28), ("SRD", 28)]);
        // RC: 868 · (375 + 64 · 64) B and 512 · (16 + 16384) B; UD: 375 + 2048 · 64 B and 4096 · (16 + 2088) B.
        assert_eq!((found[0].process_bytes, found[3].process_bytes), (868 * 4471 + 512 * 16_400, 375 + 131_072 + 4096 * 2104));
        assert!(found.iter().all(|f| f.node_bytes == 28 * f.process_bytes));
        // 868 connections with 64 receives of (16 + 16384) B each; 9 queue pairs of DC; 28 and 31 peers.
        let of = |transport| job.of(transport, (64, 8)).unwrap();
        assert_eq!(of("rc").process_bytes, 868 * (4471 + 64 * 16_400));
        assert_eq!((of("rc-srq"), of("xrc").contexts_per_adapter), (Footprint { transport: "rc-srq", ..found[0] }, 1736));
        assert_eq!((of("dc").contexts_per_adapter, of("uet").contexts_per_adapter, job.of("tcp", (64, 8))), (28 * 9, 59, None));
        assert_eq!(Job { datagrams: None, nodes: 1, ..job }.footprints().iter().map(|f| f.contexts_per_process).sum::<u64>(), 2);
    }
}
