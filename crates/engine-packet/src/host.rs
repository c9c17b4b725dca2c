//! A NIC and its PCIe link: when packets can be built, when what arrives is in memory.

use std::collections::VecDeque;

use fabriscope_engine::{HOST_MEMORY, Stage, StageSpan};
use fabriscope_node::pcie::Written;
use fabriscope_node::{ContextCache, ContextLimits, Pcie, ReadAhead, ReadStream, Way};
use fabriscope_prefetch::prefetch;
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Span, Time};

use fabriscope_verbs::{Body, Lid, Nic, PacketFlags, Place, QpNum, Transmit, WqeIndex};
use fabriscope_wire::{Opcode, Operation, Syndrome, Transport};

use crate::beyond::{Beyond, Hops};
use crate::event::{Event, Parcel};
use crate::qos::Plan;
use crate::trace::Log;
use crate::waiting::FROM_HOST;
use crate::world::{Client, World};

/// One NIC.
pub(crate) struct Host {
    /// Away while a program of its node runs.
    pub nic: Option<Box<Nic>>,
    pub pcie: Pcie,
    /// Lane 0 of the link into the fabric.
    pub uplink: u32,
    pub transmit_scheduled: bool,
    /// The queue pair that was served last.
    pub last_qp: u32,
    /// Bytes between fetch and wire.
    buffered: u32,
    /// The same by service level, where these have lanes of their own.
    pub buffered_at: Option<Box<[u32; LEVELS]>>,
    /// When the tails of packets leave, and how many bytes with them (16 bits, the service level above them), oldest first.
    departures: VecDeque<(u64, u32)>,
    /// The send engine of all queues is free.
    engine_free: u64,
    /// The queue that was fetched for last.
    last_stream: u32,
    /// Requester and responder side of each queue pair.
    streams: Vec<Stream>,
    timer_at: u64,
    /// Contexts on the chip, where there are more queue pairs than it holds.
    contexts: Option<Box<ContextCache>>,
    /// Memories beyond its own link.
    beyond: Option<Box<Beyond>>,
    /// The way to the host memory beside it crosses hops that other adapters share.
    shares: bool,
    /// Where payload was fetched last.
    place: Place,
    pub costs: NicCosts,
}

/// Timing of a NIC, resolved from the catalog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NicCosts {
    pub tx_latency: u64,
    /// What a packet of SRD takes beyond that; zero on adapters without it.
    pub srd_latency: u64,
    pub message_interval: u64,
    pub wqe_interval: u64,
    pub read_interval: u64,
    pub atomic_latency: u64,
    pub recv_latency: u64,
    pub read_ahead: ReadAhead,
    pub cqe: Bytes,
    /// Bytes that may be between fetch and wire when another packet is built.
    pub tx_window: u32,
    /// Contexts of queue pairs that the NIC holds; all of them where nothing is said.
    pub contexts: Option<ContextLimits>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    reads: ReadStream,
    /// The send engine of this queue is free.
    free: u64,
}

impl Host {
    pub fn new(nic: Nic, pcie: Pcie, uplink: u32, costs: NicCosts) -> Host {
        Host {
            nic: Some(Box::new(nic)),
            pcie,
            uplink,
            transmit_scheduled: false,
            last_qp: 0,
            buffered: 0,
            buffered_at: None,
            departures: VecDeque::with_capacity(16),
            engine_free: 0,
            last_stream: u32::MAX,
            streams: Vec::new(),
            timer_at: u64::MAX,
            contexts: None,
            beyond: None,
            shares: false,
            place: Place::HOST,
            costs,
        }
    }

    /// The memories beyond its own link.
    pub fn set_beyond(&mut self, beyond: Option<Box<Beyond>>) {
        self.shares = beyond.as_ref().is_some_and(|beyond| beyond.is_shared());
        self.beyond = beyond;
    }

    /// What it takes from and brings to host memory meets copies by GPUs of its node.
    pub fn meet_copies(&mut self) {
        self.shares = self.beyond.is_some();
    }

    /// The NIC, which is here whenever an event is handled.
    pub fn nic(&mut self) -> &mut Nic {
        self.nic.as_mut().expect("programs give the NIC back before the next event")
    }

    /// Fetches what lies behind pointers; to be called some time after the host itself was fetched. Speed only.
    #[inline(always)]
    pub fn prefetch(&self) {
        if let Some(stream) = self.streams.get(self.last_stream as usize) {
            prefetch(stream);
        }
        if let Some(departure) = self.departures.front() {
            prefetch(departure);
        }
        if let Some(nic) = &self.nic {
            nic.prefetch();
        }
    }

    /// Keeps account of contexts from now on if there are more queue pairs than the NIC holds; to be called when some were created.
    pub fn watch_contexts(&mut self) {
        let Some(limits) = self.costs.contexts.filter(|_| self.contexts.is_none()) else { return };
        let pairs = self.nic().queue_pairs();
        if pairs > limits.entries {
            self.contexts = Some(Box::new(ContextCache::new(limits, pairs)));
        }
    }

    /// When the context of `qp` is in the NIC for a packet that comes at `now`.
    #[inline]
    fn context(&mut self, now: u64, qp: QpNum) -> u64 {
        match &mut self.contexts {
            None => now,
            Some(contexts) => contexts.touch(Time::from_ps(now), qp.slot(), &mut self.pcie).as_ps(),
        }
    }

    /// Packets of another partition.
    pub fn pkey_violations(&self) -> u64 {
        self.nic.as_ref().map_or(0, |nic| nic.counts().pkey_violations)
    }

    /// Packets that waited for a context.
    pub fn context_misses(&self) -> u64 {
        self.contexts.as_ref().map_or(0, |contexts| contexts.counts().misses)
    }

    fn forget_departed(&mut self, now: u64) {
        while let Some(&(at, bytes)) = self.departures.front()
            && at <= now
        {
            self.buffered -= bytes & BYTES;
            if let Some(at) = &mut self.buffered_at {
                at[(bytes >> SL_SHIFT) as usize] -= bytes & BYTES;
            }
            self.departures.pop_front();
        }
    }

    /// The service levels that have no room between fetch and wire; those that share a lane share its room.
    fn closed(&self, plan: &Plan) -> u16 {
        let Some(at) = &self.buffered_at else { return 0 };
        let sharing = |lane: u32| (0..LEVELS as u32).filter(move |sl| plan.lane_out(*sl) == lane);
        let full = |sl: &u32| sharing(plan.lane_out(*sl)).map(|sl| at[sl as usize]).sum::<u32>() >= self.costs.tx_window;
        (0..LEVELS as u32).filter(full).fold(0, |closed, sl| closed | 1 << sl)
    }

    /// When the NIC has the packet's bytes, and what it waited for before fetching them.
    fn build(&mut self, now: u64, t: &Transmit, hops: &mut Hops) -> Built {
        let stream = t.qp.slot() as usize * 2 + usize::from(t.responder);
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, Stream::default());
        }
        let mut begun = now;
        let mut gap = 0;
        if t.starts_message && !(t.responder && t.message_bytes == 0) {
            begun = begun.max(self.engine_free);
            self.engine_free = begun + self.costs.message_interval;
            let interval = if t.read_response { self.costs.read_interval } else { self.costs.wqe_interval };
            begun = begun.max(self.streams[stream].free);
            self.streams[stream].free = begun + interval;
            gap = if self.last_stream == stream as u32 { interval } else { self.costs.message_interval };
        }
        let begin = Time::from_ps(begun);
        if t.responder && is_atomic_answer(t.packet.opcode) {
            // The operand is read from memory and changed in the NIC; it is written back beside the answer.
            let read = match self.way(t.place, hops) {
                None => self.pcie.read(begin, OPERAND, Span::ZERO),
                Some((pcie, mut way)) => pcie.read_over(&mut way, begin, OPERAND, Span::ZERO),
            };
            let done = read + Span::from_ps(self.costs.atomic_latency);
            return Built { begun, complete: done.as_ps() };
        }
        if t.fetch == Bytes::ZERO {
            return Built { begun, complete: begun };
        }
        self.last_stream = stream as u32;
        let ahead = self.costs.read_ahead;
        if t.place != self.place {
            self.turn_to(t.place);
        }
        let mut reads = self.streams[stream].reads;
        let complete = match self.way(t.place, hops) {
            None => reads.fetch(&mut self.pcie, ahead, begin, t.fetch, Span::from_ps(gap)),
            Some((pcie, mut way)) => reads.fetch_over(pcie, &mut way, ahead, begin, t.fetch, Span::from_ps(gap)),
        };
        self.streams[stream].reads = reads;
        Built { begun, complete: complete.as_ps() }
    }

    /// Writes payload to memory.
    #[inline(always)]
    fn store(&mut self, begun: u64, amount: Bytes, place: Place, hops: &mut Hops) -> Written {
        let begun = Time::from_ps(begun);
        match self.way(place, hops) {
            None => self.pcie.write(begun, amount),
            Some((pcie, mut way)) => pcie.write_over(&mut way, begun, amount),
        }
    }

    /// The way to a place where that is more than its own link, and that link.
    #[inline(always)]
    fn way<'a>(&'a mut self, place: Place, hops: &'a mut Hops) -> Option<(&'a mut Pcie, Way<'a>)> {
        if place == Place::HOST && !self.shares {
            return None;
        }
        let way = self.beyond.as_deref()?.way(place, hops)?;
        Some((&mut self.pcie, way))
    }

    /// From now on payload comes from `place`: the adapter reads as far ahead as that is away.
    #[cold]
    fn turn_to(&mut self, place: Place) {
        self.place = place;
        if let Some(window) = self.beyond.as_ref().and_then(|beyond| beyond.window(place)) {
            self.costs.tx_window = window;
        }
    }

    /// What payload crosses on its way, for people.
    fn memory(&self, place: Place) -> String {
        let title = self.beyond.as_ref().filter(|_| place != Place::HOST).and_then(|beyond| beyond.title(place));
        title.unwrap_or(HOST_MEMORY).to_owned()
    }
}

/// Service levels (standard: four bits).
pub(crate) const LEVELS: usize = 16;
/// Where bytes and service level of a departure stand: a packet has fewer than 2^16 bytes.
const SL_SHIFT: u32 = 16;
const BYTES: u32 = (1 << SL_SHIFT) - 1;
/// No lane: a packet whose buffer somebody else gives back.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// What an atomic operation works on. Basis: standard.
const OPERAND: Bytes = Bytes(8);

fn is_atomic_answer(opcode: u8) -> bool {
    opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE.as_u8()
}

struct Built {
    begun: u64,
    complete: u64,
}

impl Built {
    fn later(self, wait: u64) -> Built {
        Built { begun: self.begun + wait, complete: self.complete + wait }
    }
}

impl World<'_> {
    /// Entries are in the NIC: it may send.
    pub(crate) fn work(&mut self, now: u64, host: u32, qp: QpNum, through: WqeIndex) {
        self.host(host).nic().doorbell(Time::from_ps(now), qp, through);
        self.transmit(now, host);
    }

    /// Builds packets while there is room between fetch and wire.
    pub(crate) fn transmit(&mut self, now: u64, host: u32) {
        loop {
            let h = &mut self.hosts[(host - self.first_host) as usize];
            h.forget_departed(now);
            if h.buffered >= h.costs.tx_window {
                if self.levels > 1 && self.transmit_beside(now, host) {
                    continue;
                }
                self.transmit_later(host);
                break;
            }
            let Some(t) = h.nic.as_mut().expect("the NIC is here").poll_transmit(Time::from_ps(now), &mut self.side) else { break };
            self.inject(now, host, &t);
        }
        if self.lossy || self.controlled || self.host(host).nic().paces() {
            self.arm_timer(host);
        }
    }

    /// Builds a packet of a class that has room, where others have none: each has a window of its own. False when there is no such packet.
    #[cold]
    fn transmit_beside(&mut self, now: u64, host: u32) -> bool {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        let closed = h.closed(&self.plan);
        let Some(t) = h.nic().poll_transmit_among(Time::from_ps(now), &mut self.side, closed) else { return false };
        self.inject(now, host, &t);
        true
    }

    fn inject(&mut self, now: u64, host: u32, t: &Transmit) {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        h.last_qp = t.qp.0;
        // The bus is asked for the payload now, so that nobody else waits for it meanwhile; it is worth that much later.
        let wait = h.context(now, t.qp) - now;
        let built = h.build(now, t, &mut self.hops).later(wait);
        let mut ready = built.complete + h.costs.tx_latency;
        if h.costs.srd_latency > 0 && t.packet.opcode >> 5 == Transport::Rud as u8 && t.packet.opcode & 31 != Operation::Acknowledge as u8 {
            ready += h.costs.srd_latency;
        }
        if t.packet.payload > 0 {
            h.buffered += u32::from(t.packet.wire_bytes);
            if let Some(at) = &mut h.buffered_at {
                at[usize::from(t.packet.sl & 15)] += u32::from(t.packet.wire_bytes);
            }
        }
        self.stats.packets += 1;
        self.stats.bytes_sent += u64::from(t.packet.payload);
        if self.inspects {
            self.observe_built(ready, host, t);
        }
        if t.packet.dest.0 >= Lid::MULTICAST {
            self.loop_back(host, Parcel::new(&t.packet), ready);
        }
        if t.packet.flags.contains(PacketFlags::TRACED) {
            self.trace_built(host, t, built.begun, built.complete, ready);
        }
        if self.loops && t.packet.dest.0 == host {
            return self.turn_back(host, t, ready);
        }
        let out = self.host(host).uplink + self.lane_out(u32::from(t.packet.sl));
        // The usual case first: the words of the parcel go from registers into the queue.
        let (_, place) = self.slots.of(out);
        let lane = &mut self.lanes[place];
        if !self.paced
            && lane.head == NONE
            && let Some(start) = lane.reserve(u32::from(t.packet.wire_bytes), ready)
        {
            self.depart(out, place, Parcel::new(&t.packet), FROM_HOST | host, (ready, start));
        } else {
            self.send(now, out, Parcel::new(&t.packet), FROM_HOST | host, ready);
        }
    }

    /// A packet between host and cores of an adapter, or between these: it never leaves the chip.
    #[cold]
    fn turn_back(&mut self, host: u32, t: &Transmit, ready: u64) {
        if t.packet.payload > 0 {
            self.sent(host, u32::from(t.packet.wire_bytes), u32::from(t.packet.sl), ready);
        }
        self.queue.push(Time::from_ps(ready + self.rx_latency), Event::looped(host, Parcel::new(&t.packet)));
    }

    /// A packet of `host` with payload leaves, its tail at `tail`; control packets take no place between fetch and wire.
    pub(crate) fn sent(&mut self, host: u32, bytes: u32, sl: u32, tail: u64) {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        h.departures.push_back((tail, bytes | (sl & 15) << SL_SHIFT));
        if h.buffered >= h.costs.tx_window {
            self.transmit_later(host);
        }
    }

    /// Plans to build packets again when the oldest one has left; if that is not known, its departure will do it.
    fn transmit_later(&mut self, host: u32) {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        if let Some(&(at, _)) = h.departures.front()
            && !h.transmit_scheduled
        {
            h.transmit_scheduled = true;
            self.queue.push(Time::from_ps(at), Event::transmit(host));
        }
    }

    /// A packet has passed the receive pipeline of a NIC.
    pub(crate) fn receive(&mut self, client: &mut impl Client, now: u64, lane: u32, host: u32, parcel: Parcel) {
        if self.inspects && self.blocked(now, host, lane, parcel) {
            return;
        }
        if self.inspects && self.arrives_damaged(now, lane, parcel) {
            return self.lose(self.resynchronised(now, lane), lane, parcel);
        }
        if self.pauses && !self.hold(now, lane, parcel) {
            return;
        }
        if self.inspects {
            self.observe_receipt(now, host, parcel);
            self.repaired(now, host, parcel);
        }
        let known = self.host(host).context(now, QpNum(parcel.dest_qp()));
        if known > now {
            if parcel.has(PacketFlags::TRACED) {
                self.trace.mark(&parcel.packet(), Stage::NicRx, known, || format!("nic {host}"));
            }
            self.queue.push(Time::from_ps(known), Event::fetched(lane, parcel));
            return;
        }
        self.accept(client, now, lane, host, parcel);
    }

    /// The context that a packet waited for is in the NIC.
    #[inline(never)]
    pub(crate) fn fetched(&mut self, client: &mut impl Client, now: u64, lane: u32, parcel: Parcel) {
        let host = self.ends[lane as usize];
        self.accept(client, now, lane, host, parcel);
    }

    /// The NIC has all that it takes to handle a packet that arrived by `lane`, or by [`NOWHERE`]. Returns when its buffer is free.
    #[inline(always)]
    pub(crate) fn accept(&mut self, client: &mut impl Client, now: u64, lane: u32, host: u32, parcel: Parcel) -> u64 {
        let wire = parcel.wire_bytes();
        let begun = if self.inspects { self.begins(now, host, u64::from(parcel.payload())) } else { now };
        let h = &mut self.hosts[(host - self.first_host) as usize];
        let nic = h.nic.as_mut().expect("the NIC is here");
        let packet = parcel.packet();
        let received = nic.handle_packet(Time::from_ps(now), &packet, &mut self.side);
        let (mut freed, mut visible) = (begun, now);
        if received.write > Bytes::ZERO {
            let written = h.store(begun, received.write, received.place, &mut self.hops);
            (freed, visible) = (written.sent.as_ps(), written.visible.as_ps());
            self.stats.bytes_delivered += received.write.0;
        }
        if lane != NOWHERE {
            self.release(lane, wire, freed);
        }
        let traced = packet.flags.contains(PacketFlags::TRACED);
        let mut log = if traced { self.trace.take(&packet) } else { None };
        let asks = traced && packet.awaits_response();
        if let Some(log) = log.as_mut().filter(|_| !asks) {
            log.mark(Stage::PayloadWrite, visible, || self.hosts[(host - self.first_host) as usize].memory(received.place));
        }
        if received.completions_sent > 0 {
            self.flush_completions(client, now, host);
        }
        if let Some((addr, length)) = received.landed {
            self.host(host).nic().landed(Time::from_ps(visible), addr, length);
            client.visible(self, host, None, visible);
        }
        while let Some((addr, length)) = self.host(host).nic().poll_landed() {
            self.host(host).nic().landed(Time::from_ps(visible), addr, length);
            client.visible(self, host, None, visible);
        }
        if let Some((cq, wc)) = received.completion {
            let h = &mut self.hosts[(host - self.first_host) as usize];
            let extra = if received.recv_wqe_consumed { h.costs.recv_latency } else { 0 };
            let written = h.pcie.write(Time::from_ps(freed), h.costs.cqe);
            let seen = (written.visible.as_ps() + extra).max(visible);
            h.nic().deliver(Time::from_ps(seen), cq, wc);
            if let Some(log) = &mut log {
                log.mark(Stage::Completion, seen, || "pcie".to_owned());
            }
            client.visible(self, host, Some(cq), seen);
        }
        if let Some(log) = log {
            if asks {
                self.trace.answer(host, packet.dest_qp, log);
            } else if let Body::Psm2 { .. } = packet.body() {
                if received.completion.is_some() {
                    self.trace.land_entry(host, log);
                }
            } else if received.landed.is_some() || received.completion.is_some() {
                self.trace.land(host, log);
            }
        }
        if self.inspects {
            self.observe_nic(now, host);
        }
        if received.ended {
            self.stats.messages += 1;
        }
        if received.transmit {
            self.transmit(now, host);
        }
        if self.controlled || matches!(Syndrome::decode(packet.syndrome), Ok(Syndrome::RnrNak(_))) {
            // The requester waits for its timer, also where nothing is ever lost.
            self.arm_timer(host);
        }
        freed
    }

    pub(crate) fn flush_completions(&mut self, client: &mut impl Client, now: u64, host: u32) {
        loop {
            let h = &mut self.hosts[(host - self.first_host) as usize];
            let Some((cq, wc)) = h.nic().poll_completion() else { break };
            let seen = h.pcie.write(Time::from_ps(now), h.costs.cqe).visible;
            h.nic().deliver(seen, cq, wc);
            client.visible(self, host, Some(cq), seen.as_ps());
        }
        if self.inspects {
            self.observe_nic(now, host);
        }
    }

    /// A transport timer may have run out.
    pub(crate) fn timer(&mut self, client: &mut impl Client, now: u64, host: u32) {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        h.timer_at = u64::MAX;
        h.nic().handle_timeout(Time::from_ps(now));
        while let Some(at) = self.host(host).nic().poll_wake() {
            client.visible(self, host, None, at.as_ps());
        }
        self.flush_completions(client, now, host);
        self.transmit(now, host);
        self.arm_timer(host);
    }

    /// Plans the next look at the transport timers of `host`, unless an earlier one is planned.
    pub(crate) fn arm_timer(&mut self, host: u32) {
        let h = &mut self.hosts[(host - self.first_host) as usize];
        if let Some(at) = h.nic().poll_timeout() {
            let at = at.as_ps().max(self.queue.now().as_ps());
            if at < h.timer_at {
                h.timer_at = at;
                self.queue.push(Time::from_ps(at), Event::timer(host));
            }
        }
    }

    fn trace_built(&mut self, host: u32, t: &Transmit, begun: u64, complete: u64, ready: u64) {
        let nic = || format!("nic {host}");
        let log = if t.responder {
            self.trace.answered(host, t.qp.0, t.ends_message)
        } else {
            self.trace.posted(host, t.qp.0, t.wr_id, t.ends_message)
        };
        let Some(mut log) = log else { return };
        log.mark(Stage::NicQueue, begun, nic);
        let fetch = if t.responder && is_atomic_answer(t.packet.opcode) { Stage::Atomic } else { Stage::PayloadFetch };
        log.mark(fetch, complete, || self.hosts[(host - self.first_host) as usize].memory(t.place));
        log.mark(Stage::NicTx, ready, nic);
        log.bytes = log.bytes.max(u64::from(t.message_bytes));
        self.trace.start(&t.packet, log);
    }
}

/// The beginning of a traced message: posted, rung, fetched.
pub(crate) fn posting(node: u32, posted: u64, built: u64, rung: u64, fetched: u64) -> Log {
    let mut log = Log { node, bytes: 0, posted, at: posted, stages: Vec::<StageSpan>::new() };
    log.mark(Stage::Post, built, || "core".to_owned());
    log.mark(Stage::Doorbell, rung, || "pcie".to_owned());
    log.mark(Stage::WqeFetch, fetched, || "pcie".to_owned());
    log
}
