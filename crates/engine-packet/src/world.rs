//! The state of a run in flat arrays, and the loop that hands out events.

use std::sync::Arc;

use fabriscope_engine::{Cluster, EngineError, Library};
use fabriscope_kernel::EventQueue;
use fabriscope_prefetch::prefetch_lines;
use fabriscope_streams::Streams;
use fabriscope_units::{Rate, Span, Time};
use fabriscope_verbs::{CqId, ExtHeaders};

use crate::boundary::BoundaryTraffic;
use crate::event::{Event, EventKind};
use crate::groups::Groups;
use crate::host::{Host, Hosts};
use crate::layout::Layout;
use crate::links::Links;
use crate::queues::UNHELD;
use crate::routes::Routes;
use crate::watch::Watch;

/// Everything but the workload: all of the fabric, or one part of it.
///
/// Links, lanes, hosts and switches go by their numbers in the whole fabric; `layout` knows where their state lies.
pub(crate) struct World<'a> {
    pub queue: EventQueue<Event>,
    pub layout: Arc<Layout>,
    pub cluster: &'a Cluster,
    pub links: Links<'a>,
    pub hosts: Hosts,
    pub routes: Routes,
    pub groups: Groups,
    pub watch: Watch,
    /// Extension headers of the packets that have some.
    pub ext_headers: ExtHeaders,
    /// Service levels of connections between two ranks; sorted.
    pub pairs: Arc<[((u32, u32), u8)]>,
    /// P_Keys of connections between two ranks; sorted.
    pub pkeys: Arc<[((u32, u32), u16)]>,
    /// Rates of connections between two ranks; sorted.
    pub rates: Arc<[((u32, u32), Rate)]>,
    /// Libraries of ranks that have one of their own, sorted.
    pub libraries: Arc<[(u32, Library)]>,
    /// Where random numbers come from.
    pub streams: Streams,
    /// What other parts have to know, by part.
    pub outbox: Vec<BoundaryTraffic>,
}

/// What the NICs tell: work requests end, messages arrive.
pub(crate) trait Client {
    /// A completion in `cq`, or a landed message where there is none, will be visible to the programs of `host` at `visible`.
    fn visible(&mut self, world: &mut World<'_>, host: u32, cq: Option<CqId>, visible: Time);
    /// An event that belongs to the workload.
    fn event(&mut self, world: &mut World<'_>, now: Time, event: EventKind) -> Result<(), EngineError>;
    /// Whether everything is done.
    fn finished(&self) -> bool;
    /// Whether a part has to stop here, before the end of its window, until others have come as far.
    fn pauses(&mut self) -> bool {
        false
    }
}

impl World<'_> {
    /// Hands out events until the workload is done or nothing is left.
    pub(crate) fn run(&mut self, client: &mut impl Client) -> Result<(), EngineError> {
        loop {
            self.is_wanted()?;
            for _ in 0..EVENTS_OF_A_LOOK {
                let Some((time, event)) = self.queue.pop() else { return Ok(()) };
                self.step(client, time, event)?;
                if client.finished() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether nobody has stopped the run.
    pub(crate) fn is_wanted(&self) -> Result<(), EngineError> {
        self.cluster.go_on(self.queue.now())
    }

    /// Hands out the events before `end`, or until the workload pauses.
    pub(crate) fn run_before(&mut self, client: &mut impl Client, end: Time) -> Result<(), EngineError> {
        while let Some((time, event)) = self.queue.pop_before(end) {
            self.step(client, time, event)?;
            if client.pauses() {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, client: &mut impl Client, now: Time, event: Event) -> Result<(), EngineError> {
        self.watch.stats.events += 1;
        self.look_ahead();
        match event.unpack() {
            EventKind::Arrive { lane, packed } => {
                let end = self.links.ends[lane as usize];
                if end < self.links.endpoints {
                    self.receive(client, now, lane, end, packed);
                } else {
                    self.forward(now, lane, end - self.links.endpoints, packed);
                }
            }
            EventKind::Transmit { host } => {
                self.host(host).transmit_scheduled = false;
                self.transmit(now, host);
                self.flush_completions(client, now, host);
            }
            EventKind::Pump { link } => self.pump(now, link),
            EventKind::Work { host, qp, through } => {
                self.work(now, host, qp, through);
                self.flush_completions(client, now, host);
            }
            EventKind::Fault { change } => self.change_pace(now, change),
            EventKind::Timer { host } => self.timer(client, now, host),
            EventKind::Triggered { host } => self.triggered(client, now, host),
            EventKind::Copies { lane, packed } => self.copies(client, now, lane, packed),
            EventKind::Looped { host, packed } => self.looped(client, now, host, packed),
            EventKind::Manage { plan } => self.manage(client, now, plan),
            EventKind::Emit { lane, packed } => {
                if let Some(switch) = self.links.switch_before(lane) {
                    self.links.comes(switch, lane, packed.wire_bytes(), Span::ZERO);
                }
                self.send(now, lane, packed, UNHELD, now);
            }
            EventKind::Sample => self.sample(now),
            EventKind::Fetched { lane, packed } => self.fetched(client, now, lane, packed),
            other => client.event(self, now, other)?,
        }
        if !self.links.drains.is_empty() {
            self.drain(now);
        }
        Ok(())
    }

    /// An own host.
    #[inline(always)]
    pub(crate) fn host(&mut self, host: u32) -> &mut Host {
        &mut self.hosts[host]
    }

    /// Fetches what coming events will touch. At scale nearly every hop misses the caches; this hides most of it.
    ///
    /// Links and ports are asked for once, some events ahead. A NIC lies behind pointers, so it takes three looks.
    #[inline(always)]
    fn look_ahead(&self) {
        if let Some(event) = self.queue.peek_ahead(FAR) {
            match event.arrival() {
                Some((lane, packed)) => {
                    let end = self.links.ends[lane as usize];
                    self.links.prefetch_lane(lane);
                    if end < self.links.endpoints {
                        prefetch_lines::<_, 5>(&self.hosts[end]);
                        self.ext_headers.prefetch(packed.ext());
                    } else if self.routes.table.oblivious {
                        let hop = self.routes.table.idle(end - self.links.endpoints, &packed, self.links.input(lane));
                        let out = self.links.lane_across(end - self.links.endpoints, lane, hop.link.0, packed.sl(), u32::from(hop.vl));
                        self.links.prefetch_lane(hop.link.0 * self.links.vls + out);
                    }
                }
                None => {
                    if let Some(host) = event.transmits() {
                        prefetch_lines::<_, 5>(&self.hosts[host]);
                    } else if let Some(link) = event.pumps() {
                        self.links.prefetch_lane(link * self.links.vls);
                    }
                }
            }
        }
        if let Some(event) = self.queue.peek_ahead(MIDDLE) {
            match self.host_of(event) {
                Some((host, _)) => host.prefetch(),
                None => self.links.prefetch_first(event.pumps()),
            }
        }
        if let Some(event) = self.queue.peek_ahead(NEAR) {
            match self.host_of(event) {
                Some((host, qp)) => {
                    if let Some(nic) = host.rnic() {
                        nic.prefetch_qp(qp);
                        nic.prefetch_peers();
                    }
                }
                None => self.links.prefetch_second(event.pumps()),
            }
        }
        if let Some(event) = self.queue.peek_ahead(NEXT)
            && let Some((host, qp)) = self.host_of(event)
            && let Some(nic) = host.rnic()
        {
            nic.prefetch_request(qp);
            if nic.has_contexts() {
                nic.prefetch_context(event.arrival().and_then(|(_, packed)| self.ext_headers.at(packed.ext())));
            }
        }
    }

    /// The host that an event goes to, and the queue pair there.
    #[inline(always)]
    fn host_of(&self, event: &Event) -> Option<(&Host, u32)> {
        match event.arrival() {
            Some((lane, packed)) => Some((self.hosts.get(self.links.ends[lane as usize])?, packed.dest_qp())),
            None => {
                let host = &self.hosts[event.transmits()?];
                Some((host, host.last_qp))
            }
        }
    }
}

/// How many events ahead links and hosts, NICs, queue pairs, and work requests are fetched. Basis: measured (docs/performance.md).
const FAR: usize = 10;
const MIDDLE: usize = 6;
const NEAR: usize = 3;
const NEXT: usize = 1;
/// After how many events a run looks whether it was stopped: some milliseconds.
pub(crate) const EVENTS_OF_A_LOOK: usize = 1 << 14;
