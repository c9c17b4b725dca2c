//! Adapters: what their NICs and pipelines hand to the network, and what the network hands to them.

use std::ops::{Index, IndexMut};

use fabriscope_engine::{HOST_MEMORY, Stage};
use fabriscope_nic::{Hops, Pipeline};
use fabriscope_node::Adapter;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{MemoryId, MemoryUse, Nic, QpNum};

use crate::per_host::PerHost;
use crate::trace::Log;
use crate::world::World;

/// One adapter: its transports, its pipeline, and what the engine has planned for it.
pub(crate) struct Host {
    /// Away while a program of its node runs.
    pub adapter: Option<Box<Adapter>>,
    pub pipeline: Pipeline,
    /// Lane 0 of the link into the fabric.
    pub uplink: u32,
    pub transmit_scheduled: bool,
    /// The queue pair that was served last.
    pub last_qp: u32,
    /// When the one valid look at the transport timers comes.
    pub(crate) timer_at: Time,
    /// A later look that is planned too: timers that are far ahead are there again behind each time of pacing.
    pub(crate) timer_behind: Time,
}

impl Host {
    pub fn new(adapter: Adapter, pipeline: Pipeline, uplink: u32) -> Host {
        Host {
            adapter: Some(Box::new(adapter)),
            pipeline,
            uplink,
            transmit_scheduled: false,
            last_qp: 0,
            timer_at: Time::MAX,
            timer_behind: Time::MAX,
        }
    }

    /// The adapter, which is here whenever an event is handled.
    pub fn adapter(&mut self) -> &mut Adapter {
        self.adapter.as_mut().expect("programs give the adapter back before the next event")
    }
    /// Its RDMA NIC.
    pub fn nic(&mut self) -> &mut Nic {
        &mut self.adapter().rnic
    }
    /// The same to look at, if it is here.
    pub fn rnic(&self) -> Option<&Nic> {
        self.adapter.as_ref().map(|adapter| &adapter.rnic)
    }

    /// Fetches what lies behind pointers; to be called some time after the host itself was fetched. Speed only.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.pipeline.prefetch();
        if let Some(nic) = self.rnic() {
            nic.prefetch();
        }
    }

    /// Keeps account of contexts from now on if there are more queue pairs than the NIC holds; to be called when some were created.
    pub fn watch_contexts(&mut self) {
        let nic = &self.adapter.as_ref().expect("programs give the adapter back before the next event").rnic;
        self.pipeline.watch_contexts(|| (nic.queue_pairs(), nic.queue_pairs_left_out()));
    }

    fn memory_used(&mut self) -> (&mut MemoryUse, &mut Pipeline) {
        let adapter = self.adapter.as_mut().expect("programs give the adapter back before the next event");
        (adapter.rnic.memory_used(), &mut self.pipeline)
    }
    /// The packet that is built next waits for translations of what it reads.
    #[cold]
    pub fn translate_next(&mut self, now: Time, reads: bool) {
        let (memory, pipeline) = self.memory_used();
        if reads {
            pipeline.translate_next(now, memory);
        }
        memory.clear();
    }
    /// When what a packet that arrived needs is translated.
    #[cold]
    pub fn translate(&mut self, now: Time) -> Time {
        let (memory, pipeline) = self.memory_used();
        let ready = pipeline.translate_in_order(now, memory);
        memory.clear();
        ready
    }

    /// Packets of another partition.
    pub fn pkey_violations(&self) -> u64 {
        self.rnic().map_or(0, |nic| nic.counts().pkey_violations)
    }

    /// What payload crosses on its path, for reports.
    pub(crate) fn memory(&self, place: MemoryId) -> String {
        self.pipeline.title(place).unwrap_or(HOST_MEMORY).to_owned()
    }
}

/// The adapters of a part.
pub(crate) struct Hosts {
    pub all: Vec<Host>,
    /// The number of the first among those of the whole fabric.
    pub first: u32,
    /// Hops between the adapters of own nodes and their memories.
    pub hops: Hops,
    /// From the tail of a packet to the transport of the NIC.
    pub rx_latency: PerHost<Span>,
    pub loopback: Loopback,
    pub timers: TimerUse,
}

/// How a packet of an adapter to itself gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loopback {
    /// By its switch.
    ThroughFabric,
    /// It is turned back within the adapter: those with cores.
    InAdapter,
}

/// After what the transport timers of an adapter are looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerUse {
    /// After refusals alone: nothing is lost.
    Refusals,
    /// And after packets were sent: these may be lost.
    Sending,
    /// And after any packet came: congestion control and sockets want to be woken.
    Everything,
}

impl Hosts {
    /// Own adapters, in the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Host> {
        self.all.iter()
    }
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Host> {
        self.all.iter_mut()
    }
    /// An adapter, if it is an own one.
    #[inline(always)]
    pub fn get(&self, host: u32) -> Option<&Host> {
        self.all.get(host.wrapping_sub(self.first) as usize)
    }
    /// An own adapter, and the hops of all.
    #[inline(always)]
    pub fn with_hops(&mut self, host: u32) -> (&mut Host, &mut Hops) {
        (&mut self.all[(host - self.first) as usize], &mut self.hops)
    }
}

impl Index<u32> for Hosts {
    type Output = Host;
    #[inline(always)]
    fn index(&self, host: u32) -> &Host {
        &self.all[(host - self.first) as usize]
    }
}
impl IndexMut<u32> for Hosts {
    #[inline(always)]
    fn index_mut(&mut self, host: u32) -> &mut Host {
        &mut self.all[(host - self.first) as usize]
    }
}

/// No lane: a packet whose buffer somebody else gives back.
pub(crate) const NO_LANE: u32 = u32::MAX;

impl World<'_> {
    /// Follows a message that `rank` posts under an id, where there is a timeline: begun, built, rung and fetched at these times.
    pub(crate) fn follow(&mut self, rank: u32, (host, qp, id): (u32, QpNum, u64), [begun, built, rung, fetched]: [Time; 4]) {
        if self.watch.trace.timeline().is_some() {
            self.watch.trace.owns(host, qp.0, rank);
            self.watch.trace.post(host, qp.0, id, posting(host, begun, built, rung, fetched));
        }
    }
}

/// The beginning of a traced message: posted, rung, fetched.
pub(crate) fn posting(node: u32, posted: Time, built: Time, rung: Time, fetched: Time) -> Log {
    let mut log = Log::posted(node, posted);
    log.mark(Stage::Post, built, || "core".to_owned());
    log.mark(Stage::Doorbell, rung, || "pcie".to_owned());
    log.mark(Stage::WqeFetch, fetched, || "pcie".to_owned());
    log
}
