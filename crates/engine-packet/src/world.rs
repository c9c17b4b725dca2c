//! The state of a run in flat arrays, and the loop that hands out events.

use fabriscope_engine::{Cluster, EngineError, LinkLoad, Run, Stats};
use fabriscope_kernel::memory::prefetch_lines;
use fabriscope_kernel::{EventQueue, Stream};
use fabriscope_switch::{Arbiter, Channel, Ecn};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{CqId, Side};

use crate::event::{Event, Happening};

use crate::host::Host;
use crate::programs::Programs;
use crate::setup::Routes;
use crate::trace::Tracer;
use crate::transfer::Transferring;
use crate::waiting::WaitingRoom;

/// Everything but the workload.
pub(crate) struct World<'a> {
    pub queue: EventQueue<Event>,
    /// Lanes of directed links: `link × vls + vl`.
    pub lanes: Vec<Channel>,
    /// The vertex at the end of each lane, apart from the lanes: small enough to stay in cache.
    pub ends: Vec<u32>,
    pub arbiters: Vec<Arbiter>,
    pub vls: u32,
    /// Lanes by service level, and lanes that the routing uses within one.
    pub levels: u32,
    pub per_level: u32,
    /// Links decide packet by packet (`paced.rs`).
    pub paced: bool,
    /// All wires have the same rate and switches forward as soon as they know the way.
    pub same_pace: bool,
    pub store_and_forward: bool,
    pub routes: Routes,
    pub cluster: &'a Cluster,
    pub endpoints: u32,
    /// Port to port (ps).
    pub switch_latency: u64,
    /// From the tail of a packet to the transport of the NIC (ps).
    pub rx_latency: u64,
    pub hosts: Vec<Host>,
    pub waiting: WaitingRoom,
    /// Lanes whose waiting packets may go now.
    pub drains: Vec<u32>,
    pub side: Side,
    pub ecn: Option<Ecn>,
    pub mark_stream: Stream,
    pub lossy: bool,
    pub loss: u32,
    pub loss_stream: Stream,
    pub trace: Tracer,
    pub stats: Stats,
    pub loads: Option<Vec<(u64, u64)>>,
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
            let now = time.as_ps();
            self.stats.events += 1;
            self.look_ahead();
            match event.unpack() {
                Happening::Arrive { lane, parcel } => {
                    if self.ends[lane as usize] < self.endpoints {
                        self.receive(client, now, lane, parcel);
                    } else {
                        self.forward(now, lane, parcel);
                    }
                }
                Happening::Transmit { host } => {
                    self.hosts[host as usize].transmit_scheduled = false;
                    self.transmit(now, host);
                    self.flush_completions(client, now, host);
                }
                Happening::Pump { link } => self.pump(now, link),
                Happening::Work { host, qp, through } => {
                    self.work(now, host, qp, through);
                    self.flush_completions(client, now, host);
                }
                Happening::Timer { host } => self.timer(client, now, host),
                other => client.event(self, now, other)?,
            }
            if !self.drains.is_empty() {
                self.drain(now);
            }
            if client.finished() {
                break;
            }
        }
        Ok(())
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
                    prefetch_lines::<_, 2>(&self.lanes[lane as usize]);
                    if end < self.endpoints {
                        prefetch_lines::<_, 5>(&self.hosts[end as usize]);
                    } else {
                        let (link, vl) = self.routes.output(end - self.endpoints, parcel.dest(), parcel.entropy(), lane / self.vls);
                        prefetch_lines::<_, 2>(&self.lanes[(link * self.vls + self.lane_of(parcel.sl(), vl)) as usize]);
                    }
                }
                None => {
                    if let Some(host) = event.transmits() {
                        prefetch_lines::<_, 5>(&self.hosts[host as usize]);
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

    /// The host that an event goes to, and the queue pair there.
    #[inline(always)]
    fn host_of(&self, event: &Event) -> Option<(&Host, u32)> {
        match event.arrival() {
            Some((lane, parcel)) => Some((self.hosts.get(self.ends[lane as usize] as usize)?, parcel.dest_qp())),
            None => {
                let host = &self.hosts[event.transmits()? as usize];
                Some((host, host.last_qp))
            }
        }
    }

    /// The result, but for what the workload knows.
    pub(crate) fn into_run(self) -> Run {
        let links = self.loads.map_or_else(Vec::new, |loads| {
            let load = |(link, (packets, bytes)): (usize, (u64, u64))| LinkLoad { link: link as u32, packets, bytes: Bytes(bytes) };
            loads.into_iter().enumerate().filter(|(_, (packets, _))| *packets > 0).map(load).collect()
        });
        Run { end: self.queue.now(), ranks: Vec::new(), stats: self.stats, links, traces: self.trace.done, ops: Vec::new() }
    }
}

pub(crate) fn run_schedule(mut world: World<'_>, mut transfers: Transferring) -> Result<Run, EngineError> {
    transfers.begin(&mut world)?;
    world.run(&mut transfers)?;
    transfers.check(world.queue.now())?;
    Ok(transfers.into_run(world.into_run()))
}

pub(crate) fn run_programs(mut world: World<'_>, mut programs: Programs) -> Result<Run, EngineError> {
    programs.begin(&mut world);
    world.run(&mut programs)?;
    programs.check(world.queue.now())?;
    let ranks = programs.ends();
    Ok(Run { end: ranks.iter().copied().max().unwrap_or(Time::ZERO), ranks, ..world.into_run() })
}

/// How many events ahead links and hosts, NICs, queue pairs, and work requests are fetched. Basis: measured (docs/performance.md).
const FAR: usize = 10;
const MIDDLE: usize = 6;
const NEAR: usize = 3;
const NEXT: usize = 1;
