//! The state of a run in flat arrays, and the loop that hands out events.

use std::sync::Arc;

use fabriscope_engine::{Cluster, EngineError, Run, Stats};
use fabriscope_fabric::Memory;
use fabriscope_kernel::EventQueue;
use fabriscope_prefetch::prefetch_lines;
use fabriscope_streams::Stream;
use fabriscope_switch::{Arbiter, Channel, Ecn};
use fabriscope_units::{Rate, Time};
use fabriscope_verbs::{CqId, Side};
use rustc_hash::FxHashMap;

use crate::aggregation::Aggregation;
use crate::beyond::Hops;
use crate::divided::Mail;
use crate::enforcement::Enforcement;
use crate::event::{Event, Happening};
use crate::faults::Faults;
use crate::host::Host;
use crate::layout::{Layout, Slots};
use crate::line::Line;
use crate::multicast::Multicast;
use crate::observe::{self, Observer};
use crate::paced::Wire;
use crate::programs::Programs;
use crate::qos::Plan;
use crate::sight::Routes;
use crate::trace::Tracer;
use crate::transfer::Transferring;
use crate::waiting::{UNHELD, WaitingRoom};

/// Everything but the workload: all of the fabric, or one part of it.
///
/// Links, lanes, hosts and switches go by their numbers in the whole fabric; `layout` knows where their state lies.
pub(crate) struct World<'a> {
    pub queue: EventQueue<Event>,
    pub layout: Arc<Layout>,
    /// The vertex at the end of each lane of the whole fabric, and where the state of each lane lies.
    pub ends: Arc<[u32]>,
    pub slots: Slots,
    /// Which part this is.
    pub part: u32,
    /// Own lanes, by place.
    pub lanes: Vec<Channel>,
    /// Own links, by place, where links decide packet by packet.
    pub wires: Vec<Wire>,
    pub arbiters: Vec<Arbiter>,
    pub vls: u32,
    /// Lanes by service level, and lanes that the routing uses within one.
    pub levels: u32,
    pub per_level: u32,
    /// Which service level takes which lane, and how lanes share links.
    pub plan: Arc<Plan>,
    /// Service levels of connections between two ranks; sorted.
    pub pairs: Arc<[((u32, u32), u8)]>,
    /// P_Keys of connections between two ranks; sorted.
    pub pkeys: Arc<[((u32, u32), u16)]>,
    /// Rates of connections between two ranks; sorted.
    pub rates: Arc<[((u32, u32), Rate)]>,
    /// Links that retry or rest.
    pub line: Option<Box<Line>>,
    /// Links decide packet by packet (`paced.rs`).
    pub paced: bool,
    /// Buffers are guarded by pause frames.
    pub pauses: bool,
    /// All wires have the same rate and switches forward as soon as they know the way.
    pub same_pace: bool,
    pub store_and_forward: bool,
    pub routes: Routes,
    /// What switches remember of flows. Looked up, never iterated.
    pub flows: FxHashMap<(u32, u32), Memory>,
    pub cluster: &'a Cluster,
    /// Hosts of the whole fabric.
    pub endpoints: u32,
    /// Port to port (ps).
    pub switch_latency: u64,
    /// From the tail of a packet to the transport of the NIC (ps).
    pub rx_latency: u64,
    /// Own hosts, and the number of the first.
    pub hosts: Vec<Host>,
    pub first_host: u32,
    /// Hops between the adapters of own nodes and their memories.
    pub hops: Hops,
    pub waiting: WaitingRoom,
    /// Lanes whose waiting packets may go now.
    pub drains: Vec<u32>,
    pub side: Side,
    /// Marking by lane of a link, and whether there is any.
    pub ecn: Vec<Option<Ecn>>,
    pub marks: bool,
    pub mark_stream: Stream,
    pub lossy: bool,
    /// Arrivals are looked at: packets may be damaged, or are counted.
    pub inspects: bool,
    /// NICs have congestion control, or programs opened sockets: they want to be woken.
    pub controlled: bool,
    /// Links write their state into packets.
    pub telemetry: bool,
    /// What may wait for a link before packets for it are dropped or trimmed, by lane, and whether there is an end to it.
    pub rooms: Vec<Room>,
    pub drops: bool,
    pub trims: bool,
    /// Adapters turn packets to themselves back: those with cores.
    pub loops: bool,
    pub multicast: Multicast,
    pub aggregation: Aggregation,
    /// What switches keep apart, where they do.
    pub enforcement: Option<Arc<Enforcement>>,
    /// What breaks, where anything does.
    pub faults: Option<Box<Faults>>,
    pub trace: Tracer,
    pub stats: Stats,
    /// What watches the links.
    pub observer: Option<Box<Observer>>,
    /// What other parts have to know, by part.
    pub outbox: Vec<Mail>,
}

/// What may wait for a link of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Room {
    /// Whatever comes: senders are held back.
    Endless,
    /// So many bytes.
    Own(u64),
    /// `alpha` times what the queues of the switch leave of `total` (dynamic thresholds; A. Choudhury and E. Hahne, IEEE/ACM
    /// Trans. Networking 6(2), 1998).
    Shared { total: u64, alpha: f64 },
}

/// What the NICs tell: work requests end, messages arrive.
pub(crate) trait Client {
    /// A completion in `cq`, or a landed message where there is none, will be visible to the programs of `host` at `visible`.
    fn visible(&mut self, world: &mut World<'_>, host: u32, cq: Option<CqId>, visible: u64);
    /// An event that belongs to the workload.
    fn event(&mut self, world: &mut World<'_>, now: u64, event: Happening) -> Result<(), EngineError>;
    /// Whether everything is done.
    fn finished(&self) -> bool;
}

impl World<'_> {
    /// Hands out events until the workload is done or nothing is left.
    pub(crate) fn run(&mut self, client: &mut impl Client) -> Result<(), EngineError> {
        while let Some((time, event)) = self.queue.pop() {
            self.step(client, time.as_ps(), event)?;
            if client.finished() {
                break;
            }
        }
        Ok(())
    }

    /// Hands out the events before `end`.
    pub(crate) fn run_before(&mut self, client: &mut impl Client, end: Time) -> Result<(), EngineError> {
        while let Some((time, event)) = self.queue.pop_before(end) {
            self.step(client, time.as_ps(), event)?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, client: &mut impl Client, now: u64, event: Event) -> Result<(), EngineError> {
        self.stats.events += 1;
        self.look_ahead();
        match event.unpack() {
            Happening::Arrive { lane, parcel } => {
                let end = self.ends[lane as usize];
                if end < self.endpoints {
                    self.receive(client, now, lane, end, parcel);
                } else {
                    self.forward(now, lane, end - self.endpoints, parcel);
                }
            }
            Happening::Transmit { host } => {
                self.host(host).transmit_scheduled = false;
                self.transmit(now, host);
                self.flush_completions(client, now, host);
            }
            Happening::Pump { link } => self.pump(now, link),
            Happening::Work { host, qp, through } => {
                self.work(now, host, qp, through);
                self.flush_completions(client, now, host);
            }
            Happening::Fault { change } => self.change_pace(now, change),
            Happening::Timer { host } => self.timer(client, now, host),
            Happening::Copies { lane, parcel } => self.copies(client, now, lane, parcel),
            Happening::Looped { host, parcel } => self.looped(client, now, host, parcel),
            Happening::Manage { plan } => self.manage(client, now, plan),
            Happening::Emit { lane, parcel } => self.send(now, lane, parcel, UNHELD, now),
            Happening::Fetched { lane, parcel } => self.fetched(client, now, lane, parcel),
            other => client.event(self, now, other)?,
        }
        if !self.drains.is_empty() {
            self.drain(now);
        }
        Ok(())
    }

    /// An own lane.
    #[inline(always)]
    pub(crate) fn lane(&mut self, lane: u32) -> &mut Channel {
        let (_, place) = self.slots.of(lane);
        &mut self.lanes[place]
    }
    /// An own host.
    #[inline(always)]
    pub(crate) fn host(&mut self, host: u32) -> &mut Host {
        &mut self.hosts[(host - self.first_host) as usize]
    }

    /// Fetches what coming events will touch. At scale nearly every hop misses the caches; this hides most of it.
    ///
    /// Links and ports are asked for once, some events ahead. A NIC lies behind pointers, so it takes three looks.
    #[inline(always)]
    fn look_ahead(&self) {
        if let Some(event) = self.queue.peek_ahead(FAR) {
            match event.arrival() {
                Some((lane, parcel)) => {
                    let end = self.ends[lane as usize];
                    self.prefetch_lane(lane);
                    if end < self.endpoints {
                        prefetch_lines::<_, 5>(&self.hosts[(end - self.first_host) as usize]);
                    } else if self.routes.oblivious {
                        let hop = self.routes.idle(end - self.endpoints, &parcel, self.input(lane));
                        let out = self.lane_across(end - self.endpoints, lane, hop.link.0, parcel.sl(), u32::from(hop.vl));
                        self.prefetch_lane(hop.link.0 * self.vls + out);
                    }
                }
                None => {
                    if let Some(host) = event.transmits() {
                        prefetch_lines::<_, 5>(&self.hosts[(host - self.first_host) as usize]);
                    }
                }
            }
        }
        if let Some((host, _)) = self.queue.peek_ahead(MIDDLE).and_then(|event| self.host_of(event)) {
            host.prefetch();
        }
        if let Some((host, qp)) = self.queue.peek_ahead(NEAR).and_then(|event| self.host_of(event))
            && let Some(nic) = &host.nic
        {
            nic.prefetch_qp(qp);
        }
        if let Some((host, qp)) = self.queue.peek_ahead(NEXT).and_then(|event| self.host_of(event))
            && let Some(nic) = &host.nic
        {
            nic.prefetch_request(qp);
        }
    }

    #[inline(always)]
    fn prefetch_lane(&self, lane: u32) {
        let (part, place) = self.slots.of(lane);
        if part == self.part {
            prefetch_lines::<_, 2>(&self.lanes[place]);
        }
    }

    /// The link of a lane, and the lane within the service level: what routing sees of it.
    #[inline(always)]
    pub(crate) fn input(&self, lane: u32) -> (u32, u8) {
        if self.vls == 1 { (lane, 0) } else { (lane / self.vls, (lane % self.vls % self.per_level) as u8) }
    }

    /// The host that an event goes to, and the queue pair there.
    #[inline(always)]
    fn host_of(&self, event: &Event) -> Option<(&Host, u32)> {
        match event.arrival() {
            Some((lane, parcel)) => {
                Some((self.hosts.get(self.ends[lane as usize].wrapping_sub(self.first_host) as usize)?, parcel.dest_qp()))
            }
            None => {
                let host = &self.hosts[(event.transmits()? - self.first_host) as usize];
                Some((host, host.last_qp))
            }
        }
    }

    /// The result, but for what the workload knows.
    pub(crate) fn into_run(mut self) -> Run {
        let senders = observe::senders(std::iter::once(&mut self));
        self.into_run_with(&senders)
    }

    /// The same of one of several parts; `senders` are those of all of them.
    pub(crate) fn into_run_with(mut self, senders: &FxHashMap<(u32, u32), u32>) -> Run {
        self.observe_outages();
        let (links, sightings, breakage) = (self.link_loads(), self.sightings(senders), self.breakage());
        self.stats.queue_pairs = self.hosts.iter_mut().map(|host| u64::from(host.nic().queue_pairs())).max().unwrap_or(0);
        self.stats.context_misses = self.hosts.iter().map(Host::context_misses).sum();
        self.stats.pkey_violations += self.hosts.iter().map(Host::pkey_violations).sum::<u64>();
        let counters = self.observer.and_then(|observer| observer.into_counters());
        Run {
            end: self.queue.now(),
            stats: self.stats,
            links,
            traces: self.trace.into_traces(),
            breakage,
            sightings,
            counters,
            ..Run::default()
        }
    }
}

pub(crate) fn run_schedule(mut world: World<'_>, mut transfers: Transferring) -> Result<Run, EngineError> {
    transfers.begin(&mut world)?;
    world.run(&mut transfers)?;
    Transferring::join(vec![transfers], world.queue.now(), world.into_run())
}

pub(crate) fn run_programs(mut world: World<'_>, mut programs: Programs) -> Result<Run, EngineError> {
    programs.begin(&mut world);
    world.run(&mut programs)?;
    programs.check(&world)?;
    let (ranks, works) = (programs.ends(), programs.works());
    Ok(Run { end: ranks.iter().copied().max().unwrap_or(Time::ZERO), ranks, works, ..world.into_run() })
}

/// How many events ahead links and hosts, NICs, queue pairs, and work requests are fetched. Basis: measured (docs/performance.md).
const FAR: usize = 10;
const MIDDLE: usize = 6;
const NEAR: usize = 3;
const NEXT: usize = 1;
