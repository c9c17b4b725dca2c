//! The time of one message between two nodes of an idle fabric: what a latency test prints for its size.
//!
//! Source: perftest 6.29, OSU Micro-Benchmarks 7.4. The time is half of an exchange there and back; of reads, from the request to its
//! completion.
//! Modelled: `ib_write_lat`, `ib_send_lat`, `ib_read_lat` between the first adapters of two nodes, over a reliable connection (over SRD
//! where the adapters are EFA): the median of the exchanges; `osu_latency` between ranks of the cluster's MPI library: their mean.
//! Not modelled: messages within a node.

use fabriscope_catalog::Interface;

use crate::cluster::{Cluster, Question};
use crate::engine::Engine;
use crate::status::Failure;

/// What carries a message; `fabriscope_operation` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Operation {
    /// An RDMA write, until the receiver sees it in its memory.
    Write = 0,
    /// A send, until the receiver has its completion.
    Send = 1,
    /// An RDMA read, until the one who asked has the data.
    Read = 2,
    /// A message of MPI, until the receive returns.
    Mpi = 3,
}

impl Operation {
    /// Every operation, in the order of the codes.
    pub const ALL: [Operation; 4] = [Operation::Write, Operation::Send, Operation::Read, Operation::Mpi];

    fn tool(self) -> &'static str {
        match self {
            Operation::Write => "ib_write_lat",
            Operation::Send => "ib_send_lat",
            Operation::Read => "ib_read_lat",
            Operation::Mpi => "osu_latency",
        }
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The node that posts it.
    pub from: u32,
    /// The other one.
    pub to: u32,
    /// Payload.
    pub bytes: u64,
    /// What carries it.
    pub operation: Operation,
}

impl Message {
    /// Its time in picoseconds.
    ///
    /// # Errors
    /// Nodes that are not there, a node that sends to itself, a length that no message has, what the cluster does not do.
    pub fn picoseconds(self, cluster: &Cluster) -> Result<u64, Failure> {
        let Message { from, to, bytes, operation } = self;
        cluster.check_node(from)?;
        cluster.check_node(to)?;
        if from == to {
            let help = "give two nodes: messages within a node do not reach the fabric";
            return Err(Failure::argument(format!("a message from node {from} to itself"), help));
        }
        let most = if operation == Operation::Mpi { MOST_BYTES_OF_MPI } else { MOST_BYTES };
        if bytes == 0 || bytes > most {
            let help = format!("give 1 to {most} bytes");
            return Err(Failure::argument(format!("a message of {bytes} bytes cannot be sent"), help));
        }
        let ends = Some([from, to]);
        let question = Question { tool: operation.tool(), metric: "latency", size: bytes, ends, job: None, engine: Engine::Auto };
        cluster.answer(question, || match operation {
            Operation::Mpi => Ok(vec!["-m".to_owned(), format!("{bytes}:{bytes}")]),
            _ => self.perftest(cluster),
        })
    }

    /// The options of perftest, on clusters that it runs on.
    fn perftest(self, cluster: &Cluster) -> Result<Vec<String>, Failure> {
        let mut options = ["-s".to_owned(), self.bytes.to_string(), "-n".to_owned(), EXCHANGES.to_owned()].to_vec();
        for group in &cluster.parts().groups {
            match group.software.interface {
                Interface::Verbs | Interface::Iwarp => {}
                Interface::Efa => options.extend(["-c", "SRD"].map(str::to_owned)),
                other => {
                    let what = format!("the adapters of {} are driven through {other}, not through verbs", cluster.parts().name);
                    return Err(Failure::refused(what, "ask for FABRISCOPE_MPI_MESSAGE"));
                }
            }
        }
        Ok(options)
    }
}

/// The longest message of perftest, whose sizes have 31 bits.
const MOST_BYTES: u64 = i32::MAX as u64;
/// The longest message of the OSU benchmarks here, and the longest buffer. 2³⁰ bytes.
pub(crate) const MOST_BYTES_OF_MPI: u64 = 1 << 30;
/// Exchanges of which the median is taken. Basis: assumed; on an idle fabric all but the first few are alike.
const EXCHANGES: &str = "20";
