//! What happens at a host: work, packets that leave and arrive, timers.

use crate::event::Event;
use crate::host::{Loopback, NO_LANE, TimerUse};
use crate::links::Scheduling;
use crate::packed_packet::PackedPacket;
use crate::queues::FROM_HOST;
use crate::world::{Client, World};
use fabriscope_engine::Stage;
use fabriscope_nic::{Built, ReceiveEntry, is_atomic_response};
use fabriscope_switch::channel::NONE;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{Body, Landed, Lid, Nic, PacketFlags, QpNum, Transmit, WqeIndex};
use fabriscope_wire::Syndrome;

impl World<'_> {
    /// Entries are in the NIC: it may send.
    pub(crate) fn work(&mut self, now: Time, host: u32, qp: QpNum, through: WqeIndex) {
        self.host(host).adapter().doorbell(now, qp, through);
        if qp == QpNum::TRIGGERED {
            return self.plan_triggered(host);
        }
        self.transmit(now, host);
    }

    /// Plans what counters have triggered.
    #[cold]
    fn plan_triggered(&mut self, host: u32) {
        while let Some(at) = self.host(host).nic().poll_triggered() {
            self.queue.push(at, Event::triggered(host));
        }
    }

    /// Commands that waited for counters are carried out.
    #[cold]
    pub(crate) fn triggered(&mut self, client: &mut impl Client, now: Time, host: u32) {
        self.host(host).nic().handle_triggered(now);
        while let Some(count) = self.host(host).nic().poll_write_back() {
            let h = self.host(host);
            let visible = h.pipeline.notify(now);
            h.nic().landed(visible, count);
            client.visible(self, host, None, visible);
        }
        self.transmit(now, host);
        self.flush_completions(client, now, host);
        self.plan_triggered(host);
    }

    /// A message of a peer is there, its last byte in memory at `visible`.
    fn landed(&mut self, client: &mut impl Client, host: u32, landed: Landed, (freed, visible): (Time, Time)) {
        let nic = self.host(host).nic();
        let counts = nic.counts_messages();
        if counts {
            nic.count_landed(freed, &landed);
        }
        nic.landed(visible, landed);
        client.visible(self, host, None, visible);
        if counts {
            self.plan_triggered(host);
        }
    }

    /// Builds packets while there is room between fetch and wire.
    pub(crate) fn transmit(&mut self, now: Time, host: u32) {
        loop {
            let h = &mut self.hosts[host];
            if !h.pipeline.window.has_room(now) {
                if self.links.levels > 1 && self.transmit_other_levels(now, host) {
                    continue;
                }
                self.transmit_later(host);
                break;
            }
            let Some(t) = h.adapter.as_mut().expect("the adapter is here").poll_transmit(now, &mut self.ext_headers) else { break };
            self.inject(now, host, &t);
        }
        if self.hosts.timers >= TimerUse::Sending || self.hosts[host].nic().paces() {
            self.arm_timer(host);
        }
    }

    /// Builds a packet of a class that has room, where others have none: each has a window of its own. False when there is no such packet.
    #[cold]
    fn transmit_other_levels(&mut self, now: Time, host: u32) -> bool {
        let h = &mut self.hosts[host];
        let closed = h.pipeline.window.closed_levels(|sl| self.links.qos.lane_out(sl));
        let Some(t) = h.adapter().poll_transmit_among(now, &mut self.ext_headers, closed) else { return false };
        self.inject(now, host, &t);
        true
    }

    fn inject(&mut self, now: Time, host: u32, t: &Transmit) {
        let (h, hops) = self.hosts.with_hops(host);
        if h.rnic().is_some_and(Nic::translates) {
            h.translate_next(now, t.fetch > Bytes::ZERO);
        }
        h.last_qp = t.qp.0;
        let Built { begun, complete, ready } = h.pipeline.build(now, t, hops);
        self.watch.stats.packets += 1;
        self.watch.stats.bytes_sent += u64::from(t.packet.payload);
        if self.watch.inspects() {
            self.observe_built(ready, host, t);
        }
        if t.packet.dest.0 >= Lid::MULTICAST {
            self.loop_back(host, PackedPacket::new(&t.packet), ready);
        }
        if t.packet.flags.contains(PacketFlags::TRACED) {
            self.trace_built(host, t, (begun, complete, ready));
        }
        if self.hosts.loopback == Loopback::InAdapter && t.packet.dest.0 == host {
            return self.turn_back(host, t, ready);
        }
        let out = self.host(host).uplink + self.links.lane_out(u32::from(t.packet.sl));
        // The usual case first: the words of the packed go from registers into the queue.
        let (_, place) = self.links.slots.of(out);
        let lane = &mut self.links.lanes[place];
        if self.links.scheduling == Scheduling::Reserved
            && lane.head == NONE
            && let Some(start) = lane.reserve(Bytes(u64::from(t.packet.wire_bytes)), ready)
        {
            self.depart(out, place, PackedPacket::new(&t.packet), FROM_HOST | host, (ready, start));
        } else {
            self.send(now, out, PackedPacket::new(&t.packet), FROM_HOST | host, ready);
        }
    }

    /// A packet between host and cores of an adapter, or between these: it never leaves the chip.
    #[cold]
    fn turn_back(&mut self, host: u32, t: &Transmit, ready: Time) {
        if t.packet.payload > 0 {
            self.sent(host, Bytes(u64::from(t.packet.wire_bytes)), u32::from(t.packet.sl), ready);
        }
        self.queue.push(ready + self.hosts.rx_latency.of(host), Event::looped(host, PackedPacket::new(&t.packet)));
    }

    /// A packet of `host` with payload leaves, its tail at `tail`; control packets take no place between fetch and wire.
    pub(crate) fn sent(&mut self, host: u32, amount: Bytes, sl: u32, tail: Time) {
        let h = &mut self.hosts[host];
        h.pipeline.window.handle_departure(tail, amount, sl);
        if h.pipeline.window.is_full() {
            self.transmit_later(host);
        }
    }

    /// Plans to build packets again when the oldest one has left; if that is not known, its departure will do it.
    fn transmit_later(&mut self, host: u32) {
        let h = &mut self.hosts[host];
        if let Some(at) = h.pipeline.window.poll_departure()
            && !h.transmit_scheduled
        {
            h.transmit_scheduled = true;
            self.queue.push(at, Event::transmit(host));
        }
    }

    /// A packet has passed the receive pipeline of a NIC.
    pub(crate) fn receive(&mut self, client: &mut impl Client, now: Time, lane: u32, host: u32, packed: PackedPacket) {
        if self.watch.inspects() && self.blocked(now, host, lane, packed) {
            return;
        }
        if self.watch.inspects() && self.arrives_damaged(now, lane, packed) {
            return self.lose(self.resynchronised(now, lane), lane, packed);
        }
        if self.links.backpressure.pauses() && !self.hold(now, lane, packed) {
            return;
        }
        if self.watch.inspects() {
            self.observe_receipt(now, host, packed);
            self.repaired(now, host, packed);
        }
        let known = self.host(host).pipeline.fetch_context(now, QpNum(packed.dest_qp()));
        if known > now {
            if packed.has(PacketFlags::TRACED) {
                self.watch.trace.mark(&packed.unpack(), Stage::NicRx, known, || format!("nic {host}"));
            }
            self.queue.push(known, Event::fetched(lane, packed));
            return;
        }
        self.accept(client, now, lane, host, packed);
    }

    /// The context that a packet waited for is in the NIC.
    #[inline(never)]
    pub(crate) fn fetched(&mut self, client: &mut impl Client, now: Time, lane: u32, packed: PackedPacket) {
        let host = self.links.ends[lane as usize];
        self.accept(client, now, lane, host, packed);
    }

    /// The NIC has all that it takes to handle a packet that arrived by `lane`, or by [`NO_LANE`]. Returns when its buffer is free.
    #[inline(always)]
    pub(crate) fn accept(&mut self, client: &mut impl Client, now: Time, lane: u32, host: u32, packed: PackedPacket) -> Time {
        let wire = packed.wire_bytes();
        let begun = if self.watch.inspects() { self.begins(now, host, packed.payload()) } else { now };
        let h = &mut self.hosts[host];
        let adapter = h.adapter.as_mut().expect("the adapter is here");
        let packet = packed.unpack();
        let received = adapter.handle_packet(now, &packet, &mut self.ext_headers);
        let begun = if adapter.rnic.translates() { h.translate(begun) } else { begun };
        let (mut freed, mut visible) = (begun, now);
        if received.write > Bytes::ZERO {
            let (h, hops) = self.hosts.with_hops(host);
            let written = h.pipeline.store(begun, received.write, received.place, hops);
            (freed, visible) = (written.sent, written.visible);
            self.watch.stats.bytes_delivered += received.write.0;
        }
        if lane != NO_LANE {
            self.release(lane, wire, freed);
        }
        let traced = packet.flags.contains(PacketFlags::TRACED);
        let mut log = if traced { self.watch.trace.take(&packet) } else { None };
        let asks = traced && packet.awaits_response();
        if let Some(log) = log.as_mut().filter(|_| !asks) {
            log.mark(Stage::PayloadWrite, visible, || self.hosts[host].memory(received.place));
        }
        if received.completions_sent > 0 {
            self.flush_completions(client, now, host);
        }
        if let Some(landed) = received.landed {
            self.landed(client, host, landed, (freed, visible));
        }
        while let Some(landed) = self.host(host).nic().poll_landed() {
            self.landed(client, host, landed, (freed, visible));
        }
        if let Some((cq, wc)) = received.completion {
            let h = &mut self.hosts[host];
            let entry = if received.recv_wqe_consumed { ReceiveEntry::Consumed } else { ReceiveEntry::None };
            let seen = h.pipeline.complete(freed, entry, visible);
            h.adapter().deliver(seen, cq, wc);
            if let Some(log) = &mut log {
                log.mark(Stage::Completion, seen, || "pcie".to_owned());
            }
            client.visible(self, host, Some(cq), seen);
        }
        if let Some(log) = log {
            if asks {
                self.watch.trace.answer(host, packet.dest_qp, log);
            } else if let Body::Psm2 { .. } = packet.body() {
                if received.completion.is_some() {
                    self.watch.trace.land_entry(host, log);
                } else {
                    self.watch.trace.rest(log);
                }
            } else if received.landed.is_some() || received.completion.is_some() {
                self.watch.trace.land((host, packet.dest_qp), log);
            } else {
                self.watch.trace.rest(log);
            }
        }
        if self.watch.inspects() {
            self.observe_nic(now, host);
        }
        if received.ended {
            self.watch.stats.messages += 1;
        }
        if received.transmit {
            self.transmit(now, host);
        }
        if self.hosts.timers == TimerUse::Everything || matches!(Syndrome::decode(packet.syndrome), Ok(Syndrome::RnrNak(_))) {
            // The requester waits for its timer, also where nothing is ever lost.
            self.arm_timer(host);
        }
        freed
    }

    pub(crate) fn flush_completions(&mut self, client: &mut impl Client, now: Time, host: u32) {
        loop {
            let h = &mut self.hosts[host];
            let Some((cq, wc)) = h.nic().poll_completion() else { break };
            let seen = h.pipeline.notify(now);
            h.adapter().deliver(seen, cq, wc);
            client.visible(self, host, Some(cq), seen);
        }
        if self.watch.inspects() {
            self.observe_nic(now, host);
        }
    }

    /// A transport timer may have run out.
    pub(crate) fn timer(&mut self, client: &mut impl Client, now: Time, host: u32) {
        let h = &mut self.hosts[host];
        if h.timer_behind == now {
            h.timer_behind = Time::MAX;
        }
        if h.timer_at != now {
            return; // another look was planned for an earlier time, and plans those after it
        }
        h.timer_at = Time::MAX;
        h.adapter().handle_timeout(now);
        while let Some(at) = self.host(host).adapter().poll_wake() {
            client.visible(self, host, None, at);
        }
        self.flush_completions(client, now, host);
        self.transmit(now, host);
        // Unreliable requests are complete once their last packet is built, and one that waited for its time is built here.
        self.flush_completions(client, now, host);
        self.arm_timer(host);
    }

    /// Plans the next look at the transport timers of `host`, unless an earlier one is planned.
    pub(crate) fn arm_timer(&mut self, host: u32) {
        let h = &mut self.hosts[host];
        if let Some(at) = h.adapter().poll_timeout() {
            let at = at.max(self.queue.now());
            if at < h.timer_at {
                if at != h.timer_behind {
                    self.queue.push(at, Event::timer(host));
                    if h.timer_behind == Time::MAX {
                        h.timer_behind = h.timer_at;
                    }
                }
                h.timer_at = at;
            }
        }
    }

    fn trace_built(&mut self, host: u32, t: &Transmit, (begun, complete, ready): (Time, Time, Time)) {
        let nic = || format!("nic {host}");
        let log = if t.responder {
            self.watch.trace.answered(host, t.qp.0, t.ends_message)
        } else {
            self.watch.trace.posted(host, t.qp.0, t.wr_id, t.ends_message)
        };
        let Some(mut log) = log else { return };
        log.mark(Stage::NicQueue, begun, nic);
        let fetch = if t.responder && is_atomic_response(t.packet.opcode) { Stage::Atomic } else { Stage::PayloadFetch };
        log.mark(fetch, complete, || self.hosts[host].memory(t.place));
        log.mark(Stage::NicTx, ready, nic);
        log.bytes = log.bytes.max(u64::from(t.message_bytes));
        log.to = log.to.or(Some(t.packet.dest.0));
        log.last = t.ends_message;
        if t.ends_message && !t.responder {
            self.watch.trace.build(host, log.bytes);
        }
        self.watch.trace.start(&t.packet, log);
    }
}
