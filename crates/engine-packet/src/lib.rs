//! The packet engine: verbs NICs, PCIe, links and switches wired to one event queue.
//!
//! It holds no protocol: transports live in `verbs`, credits and pauses in `switch`, the bus in `node`. What is here
//! is who hands what to whom, and when.
//!
//! One event per hop while nothing is congested: on arrival at a switch the output is reserved at once
//! (`network.rs`); credit returns are times on the link, not events. A packet whose credits are not even known to
//! come waits in a list and leaves when they are. Ports where several lanes compete, or that obey pause frames, take
//! one more event per packet (`arbitrated.rs`).

mod agenda;
mod aggregation;
mod arbitrated;
mod barrier;
mod boundary;
mod congestion;
mod connect;
mod counting;
mod enforcement;
mod event;
mod events;
mod fast_forward;
mod faults;
mod groups;
mod host;
mod host_groups;
mod layout;
mod link_level;
mod links;
mod live_rounds;
mod multicast;
mod network;
mod observe;
mod on_demand;
mod operations;
mod packed_packet;
mod partners;
mod per_host;
mod process;
mod programs;
mod qos;
mod queues;
mod routes;
mod run;
mod scenario;
mod series;
mod services;
mod setup;
mod steady;
mod support;
mod trace;
mod transfer;
mod watch;
mod windows;
mod workload;
mod world;

#[cfg(test)]
mod aggregation_test;
#[cfg(test)]
mod barriers_test;
#[cfg(test)]
mod counting_test;
#[cfg(test)]
mod dma_targets_test;
#[cfg(test)]
mod fast_forward_test;
#[cfg(test)]
mod faults_test;
#[cfg(test)]
mod lanes_test;
#[cfg(test)]
mod link_level_test;
#[cfg(test)]
mod live_rounds_test;
#[cfg(test)]
mod multicast_test;
#[cfg(test)]
mod partition_test;
#[cfg(test)]
mod parts_test;
#[cfg(test)]
mod process_test;
#[cfg(test)]
mod qos_test;
#[cfg(test)]
mod reliability_test;
#[cfg(test)]
mod services_test;
#[cfg(test)]
mod tests;

pub(crate) use fabriscope_engine::{Counting, Loss, Peers};
pub(crate) use scenario::{Scenario, Transfers};

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Connections, Demand, Engine, EngineError, Job, Prepared, RunOptions, Unsupported};
use fabriscope_units::Bytes;

/// The packet engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketEngine;

impl Engine for PacketEngine {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn supports(&self, parts: &ResolvedCluster, job: &Job, options: &RunOptions) -> Result<(), Unsupported> {
        support::supports(parts, job, options)
    }

    fn prepare<'a>(&self, cluster: &'a Cluster, job: Job, options: &RunOptions, seed: u64) -> Result<Box<dyn Prepared + 'a>, EngineError> {
        self.supports(&cluster.parts, &job, options)?;
        scenario::prepare(cluster, job, options, seed)
    }

    fn memory(&self, cluster: &Cluster, demand: &Demand<'_>) -> Result<Bytes, EngineError> {
        let (messages, pairs) = match demand {
            Demand::Messages { messages, pairs } => (*messages, *pairs),
            Demand::Rounds { work, placement, connections, options } => {
                let scenario = Scenario::new(placement, Connections::clone(connections), options);
                if on_demand::suits(&cluster.parts, &scenario) {
                    return Ok(on_demand::footprint(cluster.ranks(), work.program.as_ref()));
                }
                scenario::exchanged(work.program.as_ref())
            }
        };
        let sum = [(u64::from(cluster.ranks()), PER_HOST), (messages, PER_MESSAGE), (pairs, PER_PAIR)];
        Ok(Bytes(sum.into_iter().fold(0u64, |sum, (count, each)| sum.saturating_add(count.saturating_mul(each)))))
    }
}

/// Memory of a host, of a message of a schedule, and of a pair of hosts with a connection (B). Basis: measured, see docs/performance.md.
const PER_HOST: u64 = 12 << 10;
const PER_MESSAGE: u64 = 400;
const PER_PAIR: u64 = 2000;
