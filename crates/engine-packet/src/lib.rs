//! The packet engine: verbs NICs, PCIe, links and switches wired to one event queue.
//!
//! It holds no protocol: transports live in `verbs`, credits and pauses in `switch`, the bus in `node`. What is here
//! is who hands what to whom, and when.
//!
//! One event per hop while nothing is congested: on arrival at a switch the output is reserved at once
//! (`network.rs`); credit returns are times on the link, not events. A packet whose credits are not even known to
//! come waits in a list and leaves when they are. Ports where several lanes compete, or that obey pause frames, take
//! one more event per packet (`paced.rs`).

mod aggregation;
mod barrier;
mod beyond;
mod congestion;
mod connect;
mod divided;
mod enforcement;
mod event;
mod faults;
mod host;
mod layout;
mod line;
mod multicast;
mod network;
mod observe;
mod paced;
mod process;
mod programs;
mod qos;
mod services;
mod setup;
mod sight;
mod tally;
mod trace;
mod transfer;
mod waiting;
mod world;

#[cfg(test)]
mod aggregation_test;
#[cfg(test)]
mod beyond_test;
#[cfg(test)]
mod faults_test;
#[cfg(test)]
mod lanes_test;
#[cfg(test)]
mod line_test;
#[cfg(test)]
mod multicast_test;
#[cfg(test)]
mod partition_test;
#[cfg(test)]
mod process_test;
#[cfg(test)]
mod qos_test;
#[cfg(test)]
mod reliability_test;
#[cfg(test)]
mod services_test;
#[cfg(test)]
mod tally_test;
#[cfg(test)]
mod tests;

use fabriscope_engine::{Cluster, Engine, EngineError, Job, Library, Run, Tap};
use fabriscope_engine::{FaultPlan, Recovery};
use fabriscope_schedule::Schedule;
use fabriscope_units::{Rate, Span};
use fabriscope_verbs::Delivery;

/// The packet engine and its options.
#[derive(Debug, Clone, Default)]
pub struct PacketEngine {
    /// Losses on purpose, for tests of recovery.
    pub loss: Loss,
    /// What breaks: [`Run::breakage`]. Such runs use one core.
    pub faults: Option<FaultPlan>,
    /// Count packets and bytes per link (a little slower).
    pub link_loads: bool,
    /// Places where every packet is noted: [`Run::sightings`].
    pub taps: Vec<Tap>,
    /// What ports and adapters count: [`Run::counters`].
    pub counting: Counting,
    /// Note when every operation of a schedule starts and ends: [`Run::ops`].
    pub times: bool,
    /// How queue pairs of schedules are set up.
    pub transfers: Transfers,
    /// Service levels of connections between two ranks that differ from the others: the lower rank first, sorted.
    pub levels: Vec<((u32, u32), u8)>,
    /// P_Keys of connections between two ranks that differ from the others, without the bit of membership: as `levels`.
    pub pkeys: Vec<((u32, u32), u16)>,
    /// Rates that connections between two ranks keep to: as `levels`.
    pub rates: Vec<((u32, u32), Rate)>,
    /// Run although the routing can deadlock, or nobody knows.
    pub allow_deadlock: bool,
    /// Cores to use for one run of a schedule on a large fabric; 0 and 1 both mean one. Results do not depend on it.
    pub threads: usize,
}

/// What ports and adapters count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// Nothing.
    #[default]
    Off,
    /// Sums over the whole run.
    Sums,
    /// Sums at the end of every interval of this length.
    Every(Span),
}

/// Losses on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Every packet is lost on each link with this probability, in 1/2³².
    Random(u32),
}

/// How queue pairs of schedules are set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfers {
    /// The transport service.
    pub service: Service,
    /// Receivers accept packets in any order.
    pub any_order: bool,
    /// Senders give every packet of a message its own path.
    pub spray: bool,
    /// The service level of all connections, but for those of [`PacketEngine::levels`].
    pub level: u8,
    /// How lost packets are repeated, where it is not as usual.
    pub recovery: Recovery,
    /// The P_Key of all connections but for those of [`PacketEngine::pkeys`], without the bit of membership; 0 for the default
    /// partition.
    pub pkey: u16,
    /// The rate that connections keep to, but for those of [`PacketEngine::rates`].
    pub rate: Option<Rate>,
    /// Ranks that share an adapter, each with a core of its own; 0 and 1 both mean one. Rank *r* is at adapter *r* / `per_host`.
    pub per_host: u32,
    /// The library that carries the messages, with its costs; without one, ranks post to the verbs themselves.
    pub library: Option<Library>,
}

impl Transfers {
    fn per_host(&self) -> u32 {
        self.per_host.max(1)
    }
}

/// The transport service of a schedule's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Service {
    /// Reliable connections; on adapters of iWARP over TCP.
    #[default]
    Reliable,
    /// Unreliable connections: a lost packet is a lost message.
    Unreliable,
    /// Unreliable datagrams that a library makes reliable.
    Datagrams,
    /// Extended reliable connections: receives come from one shared queue.
    Extended,
    /// Reliable datagrams over an end-to-end context to each peer.
    ReliableDatagram,
    /// Dynamically connected transport: a pool of initiators and one target.
    Dynamic,
    /// Scalable reliable datagrams: one queue pair, a context for each peer; SENDs of one packet.
    Scalable,
    /// Ultra Ethernet transport: one queue pair, a context for each peer; how its packets are delivered.
    UltraEthernet(Delivery),
}

impl Service {
    /// Whether packets may come in any order without being asked for: contexts and libraries take them as they arrive.
    #[must_use]
    pub const fn any_order(self) -> bool {
        matches!(self, Service::Datagrams | Service::Scalable | Service::UltraEthernet(Delivery::Rud | Delivery::Rudi | Delivery::Uud))
    }
    /// Whether its queue pairs are more than one for each peer, or one without a library.
    pub(crate) const fn is_shared(self) -> bool {
        !matches!(self, Service::Reliable | Service::Unreliable | Service::Datagrams)
    }
}

/// A schedule whose queue pairs are connected and whose receives are posted.
pub struct Prepared<'a> {
    parts: Vec<(world::World<'a>, transfer::Transferring)>,
    threads: usize,
}

impl Prepared<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// What never ends, and transfers that fail.
    pub fn run(self) -> Result<Run, EngineError> {
        let Prepared { mut parts, threads } = self;
        match parts.len() {
            1 => {
                let (world, transfers) = parts.swap_remove(0);
                world::run_schedule(world, transfers)
            }
            _ => divided::run(parts, threads),
        }
    }
}

impl PacketEngine {
    /// Everything that comes before the first event, for callers that measure the run alone.
    ///
    /// # Errors
    /// What the engine does not model and what cannot run.
    pub fn prepare<'a>(&self, cluster: &'a Cluster, schedule: &Schedule, seed: u64) -> Result<Prepared<'a>, EngineError> {
        // What a packet of a library holds, its receiver looks up at its sender: both are in one part.
        let mut worlds = match self.transfers.service {
            Service::Datagrams => vec![setup::world(self, cluster, seed)?],
            // The same holds of the tags of messages that carry none.
            _ if cluster.parts.sole().node.nic.iwarp.is_some() => vec![setup::world(self, cluster, seed)?],
            _ => setup::worlds(self, cluster, seed)?,
        };
        let transfers = transfer::Transferring::new(&mut worlds, schedule, self.transfers, self.times)?;
        Ok(Prepared { parts: worlds.into_iter().zip(transfers).collect(), threads: self.threads.max(1) })
    }
}

impl Engine for PacketEngine {
    fn run(&self, cluster: &Cluster, schedule: &Schedule, seed: u64) -> Result<Run, EngineError> {
        self.prepare(cluster, schedule, seed)?.run()
    }

    fn execute(&self, cluster: &Cluster, job: Job, seed: u64) -> Result<Run, EngineError> {
        let world = setup::world(self, cluster, seed)?;
        let programs = programs::Programs::new(&world, cluster, job)?;
        world::run_programs(world, programs)
    }
}
