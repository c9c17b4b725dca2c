//! What happens to packets of multicast groups, and to what joins and leaves.

use crate::event::Event;
use crate::faults::Epoch;
use crate::host::NO_LANE;
use crate::links::Scheduling;
use crate::multicast::{Plan, known};
use crate::packed_packet::PackedPacket;
use crate::queues::{COPY, UNHELD};
use crate::world::{Client, World};
use fabriscope_catalog::LinkLayer;
use fabriscope_engine::Stage;
use fabriscope_fabric::multicast::{GroupAttr, JoinState, Mgid, Mlid};
use fabriscope_fabric::{EndpointId, LinkId, Node, SwitchId};
use fabriscope_switch::snooping::Action;
use fabriscope_switch::{Report, Snooper};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Change, Lid, Membership, PacketFlags};

/// Copies.
impl World<'_> {
    /// A packet for a group has reached the end of `lane`.
    #[inline(never)]
    pub(crate) fn copies(&mut self, client: &mut impl Client, now: Time, lane: u32, packed: PackedPacket) {
        let end = self.links.ends[lane as usize];
        if self.watch.inspects() && self.arrives_damaged(now, lane, packed) {
            return self.lose(self.resynchronised(now, lane), lane, packed);
        }
        if self.links.backpressure.pauses() && !self.hold(now, lane, packed) {
            return;
        }
        if end >= self.links.endpoints && packed.dest() >= Lid::AGGREGATE {
            return self.aggregate(now, lane, end - self.links.endpoints, packed);
        }
        if end >= self.links.endpoints {
            return self.replicate(now, lane, end - self.links.endpoints, packed);
        }
        if self.watch.inspects() {
            self.observe_receipt(now, end, packed);
        }
        let freed = self.listen(client, now, end, packed);
        self.release(lane, packed.wire_bytes(), freed);
    }

    /// A copy for each port of the group but the one that `packed` came by.
    fn replicate(&mut self, now: Time, lane: u32, switch: u32, packed: PackedPacket) {
        let came_by = LinkId(lane / self.links.vls).reverse();
        let mlid = packed.unpack().dest.mlid().map_or(Mlid(0), Mlid);
        self.groups.multicast.outputs(self.cluster, mlid, switch);
        let mut links = std::mem::take(&mut self.groups.multicast.links);
        links.retain(|link| *link != came_by);
        let (_, vl) = self.links.input(lane);
        if links.is_empty() {
            // Nobody is behind this switch, or its table is not written yet.
            self.watch.stats.unwanted += 1;
            self.ext_headers.free(packed.ext());
            self.release(lane, packed.wire_bytes(), now);
        } else {
            let record = self.groups.multicast.arrived.add(lane, links.len() as u32);
            let last = links.len() - 1;
            for (number, link) in links.iter().enumerate() {
                let mut copy = packed;
                if number < last {
                    copy.set_ext(self.ext_headers.duplicate(packed.ext()));
                }
                let out = link.0 * self.links.vls + self.links.lane_across(switch, lane, link.0, packed.sl(), u32::from(vl));
                let wait = self.groups.multicast.replication * number as u64;
                self.copy(now, (lane, switch, record), out, copy, wait);
            }
            self.watch.stats.copies += links.len() as u64;
        }
        self.groups.multicast.links = links;
    }

    /// One copy, made `wait` after the first: from here on a packet like others.
    fn copy(&mut self, now: Time, (lane, switch, record): (u32, u32, u32), out: u32, mut packed: PackedPacket, wait: Span) {
        let earliest = self.leaves_at(now, lane, out, packed.wire_bytes()) + wait;
        if self.links.scheduling == Scheduling::Arbitrated {
            if self.groups.enforcement.is_some() && self.refused_out(now, out, packed) {
                self.ext_headers.free(packed.ext());
                return self.copy_left(record, packed.wire_bytes(), now);
            }
            self.links.comes(switch, out, packed.wire_bytes(), earliest.since(now));
            let depth = self.links.depth(now, out);
            self.watch.stats.deepest_queue = self.watch.stats.deepest_queue.max(depth.0);
            if self.links.is_full(now, switch, out, depth, packed.wire_bytes()) {
                if let Some(observer) = &mut self.watch.observer {
                    observer.overflow(out / self.links.vls, now, false);
                }
                self.watch.stats.drops += 1;
                self.ext_headers.free(packed.ext());
                return self.copy_left(record, packed.wire_bytes(), now);
            }
            self.mark(now, out, depth, &mut packed);
        }
        self.send(now, out, packed, COPY | record, earliest);
    }

    /// So many packets go on from the one that came by `lane`, and hold its buffer: the mark they carry.
    pub(crate) fn hold_copies(&mut self, lane: u32, count: u32) -> u32 {
        COPY | self.groups.multicast.arrived.add(lane, count)
    }

    /// A copy leaves: the last one frees the buffer.
    #[cold]
    pub(crate) fn copy_left(&mut self, record: u32, amount: Bytes, tail: Time) {
        if COPY | record == UNHELD {
            return;
        }
        if let Some((lane, tail)) = self.groups.multicast.arrived.leave(record, tail) {
            self.release(lane, amount, tail);
        }
    }

    /// An adapter gives a packet for a group to each queue pair that listens. Returns when its buffer is free.
    fn listen(&mut self, client: &mut impl Client, now: Time, host: u32, packed: PackedPacket) -> Time {
        let packet = packed.unpack();
        let mut listeners = std::mem::take(&mut self.groups.multicast.listeners);
        listeners.clear();
        let nic = self.hosts[host].rnic().expect("the adapter is here");
        nic.mcast_listeners(&packet, &self.ext_headers, &mut listeners);
        let mut freed = now;
        for (number, qp) in listeners.iter().enumerate() {
            let mut copy = packed;
            copy.set_dest_qp(qp.0);
            if number + 1 < listeners.len() {
                copy.set_ext(self.ext_headers.duplicate(packed.ext()));
            }
            freed = freed.max(self.accept(client, now, NO_LANE, host, copy));
        }
        if listeners.is_empty() {
            self.watch.stats.unwanted += 1;
            self.ext_headers.free(packed.ext());
        }
        self.groups.multicast.listeners = listeners;
        freed
    }

    /// `host` sends a packet to a group, ready at `ready`: its own queue pairs may listen.
    #[cold]
    pub(crate) fn loop_back(&mut self, host: u32, packed: PackedPacket, ready: Time) {
        if packed.dest() >= Lid::AGGREGATE {
            return;
        }
        let mut listeners = std::mem::take(&mut self.groups.multicast.listeners);
        listeners.clear();
        let nic = self.hosts[host].rnic().expect("the adapter is here");
        nic.mcast_listeners(&packed.unpack(), &self.ext_headers, &mut listeners);
        if !listeners.is_empty() {
            let mut copy = packed;
            copy.set_ext(self.ext_headers.duplicate(packed.ext()));
            self.queue.push(ready + self.hosts.rx_latency.of(host), Event::looped(host, copy));
        }
        self.groups.multicast.listeners = listeners;
    }

    /// A packet that never left its adapter is there.
    #[inline(never)]
    pub(crate) fn looped(&mut self, client: &mut impl Client, now: Time, host: u32, packed: PackedPacket) {
        if packed.dest() == host {
            if packed.has(PacketFlags::TRACED) {
                self.watch.trace.mark(&packed.unpack(), Stage::NicRx, now, || format!("nic {host}, within the adapter"));
            }
            self.accept(client, now, NO_LANE, host, packed);
            return;
        }
        self.listen(client, now, host, packed);
    }
}

/// Management.
impl World<'_> {
    /// A program of `host` asks for something at `now`.
    pub(crate) fn ask(&mut self, now: Time, host: u32, request: Membership) {
        let cluster = self.cluster;
        let settings = &cluster.parts.multicast;
        let at = if self.cluster.parts.link_layer == LinkLayer::InfiniBand {
            self.groups.multicast.manager_free = self.groups.multicast.manager_free.max(now) + settings.answer;
            self.groups.multicast.manager_free
        } else {
            // The host decides for itself, and tells its switch.
            now
        };
        self.plan(at, Plan::Decide { host, request });
    }

    /// The aggregation manager will answer a job.
    pub(crate) fn plan_group(&mut self, at: Time, job: u32) {
        self.plan(at, Plan::Answer { job });
    }

    fn plan(&mut self, at: Time, plan: Plan) {
        let number = self.groups.multicast.plan(plan);
        self.queue.push(at.max(self.queue.now()), Event::manage(number));
    }

    /// A plan is due.
    #[inline(never)]
    pub(crate) fn manage(&mut self, client: &mut impl Client, now: Time, plan: u32) {
        self.groups.multicast.free_plans.push(plan);
        match self.groups.multicast.plans[plan as usize] {
            Plan::Decide { host, request } => {
                let mlid = self.decide(now, host, &request);
                let h = self.host(host);
                let seen = h.pipeline.notify(now);
                h.nic().deliver(seen, request.cq, request.answer(mlid.map(|mlid| mlid.0)));
                client.visible(self, host, Some(request.cq), seen);
            }
            Plan::Repair { sweep } => self.repair_trees(now, sweep),
            Plan::Write { switch, mlid } => {
                let tree = self.groups.multicast.groups.at(mlid).and_then(|group| group.tree());
                let links = tree.map_or(&[][..], |tree| tree.outputs(SwitchId(switch))).to_vec();
                if links.is_empty() {
                    self.groups.multicast.tables.remove(&(mlid, switch));
                } else {
                    self.groups.multicast.tables.insert((mlid, switch), links);
                }
            }
            Plan::Hear { switch, port, mlid, report } => self.hear(now, switch, port, mlid, report),
            Plan::Prune { switch } => self.prune(now, switch),
            Plan::Answer { job } => self.answer_group(client, now, job),
        }
    }

    /// Carries a request out; the MLID of the group, or nothing where it is refused.
    fn decide(&mut self, now: Time, host: u32, request: &Membership) -> Option<Mlid> {
        let cluster = self.cluster;
        let graph = &cluster.fabric.graph;
        let (mgid, endpoint) = (Mgid(request.mgid), EndpointId(host));
        let groups = &mut self.groups.multicast.groups;
        let receives = groups.group(mgid).ok().and_then(|group| group.state(endpoint)).is_some_and(JoinState::receives);
        let (mlid, changed, report) = match request.change {
            Change::Join { state, qkey } => {
                let state = join_state(state);
                let known = groups.group(mgid).map(|group| group.mlid());
                let mlid = match known {
                    Ok(mlid) => mlid,
                    Err(_) if state.keeps_alive() => {
                        let attr = GroupAttr { qkey, mtu: self.cluster.parts.mtu, ..GroupAttr::default() };
                        groups.create(mgid, attr).ok()?
                    }
                    Err(_) => return None,
                };
                let changed = groups.join(graph, mgid, endpoint, state).ok()?;
                (mlid, changed, state.receives().then_some(Report::Member))
            }
            Change::Leave => {
                let mlid = groups.group(mgid).ok()?.mlid();
                (mlid, groups.leave(graph, mgid, endpoint).ok()?, receives.then_some(Report::Leave))
            }
        };
        self.write_tables(now, mlid, changed);
        self.plan_repairs(now);
        let settings = &cluster.parts.multicast;
        if let (Some(report), true) = (report, settings.snooping && self.groups.multicast.ethernet(self.cluster).is_some()) {
            let link = graph.link(graph.uplink(endpoint));
            if let Node::Switch(switch) = graph.node(link.to) {
                let at = now + link.delay + settings.report;
                self.plan(at, Plan::Hear { switch: switch.0, port: link.to_port.0, mlid, report });
            }
        }
        Some(mlid)
    }

    /// The manager writes the tables that a group has at these switches.
    fn write_tables(&mut self, now: Time, mlid: Mlid, switches: Vec<SwitchId>) {
        let settings = &self.cluster.parts.multicast;
        let (write, each) = (settings.table_write, settings.table_write / u64::from(settings.outstanding.max(1)));
        for switch in switches {
            // The first is written after one round trip, the others follow as fast as several at once allow.
            self.groups.multicast.tables_free = self.groups.multicast.tables_free.max(now) + each;
            let at = self.groups.multicast.tables_free + write - each;
            self.plan(at, Plan::Write { switch: switch.0, mlid });
        }
    }

    /// There is a group: what sweeps find from now on changes its tree, once they have written the tables of single receivers.
    fn plan_repairs(&mut self, now: Time) {
        if self.cluster.parts.link_layer != LinkLayer::InfiniBand || std::mem::replace(&mut self.groups.multicast.repairs_planned, true) {
            return;
        }
        let sweeps: Vec<Time> = self.sweeps().iter().map(Epoch::written).collect();
        let over = sweeps.partition_point(|written| *written <= now);
        if over > 0 {
            self.repair_trees(now, over as u32 - 1);
        }
        for (sweep, at) in (0..).zip(sweeps).skip(over) {
            self.plan(at, Plan::Repair { sweep });
        }
    }
    fn repair_trees(&mut self, now: Time, sweep: u32) {
        let cluster = self.cluster;
        let Some(dead) = self.sweeps().get(sweep as usize).map(|sweep| sweep.dead.clone()) else { return };
        for (mlid, switches) in self.groups.multicast.groups.repair(&cluster.fabric.graph, &dead) {
            self.write_tables(now, mlid, switches);
        }
    }
    /// What the manager finds after faults, sweep by sweep.
    fn sweeps(&self) -> &[Epoch] {
        let faults = self.watch.faults.as_deref().and_then(|faults| faults.reroute.as_ref());
        faults.map_or(&[], |reroute| &reroute.epochs)
    }

    /// A switch hears of a group.
    fn hear(&mut self, now: Time, switch: u32, port: u16, mlid: Mlid, report: Report) {
        let Some(snooper) = self.snooper(switch) else { return };
        match snooper.handle_report(now, mlid.index() as u32, port, report) {
            Action::Added { forward } => {
                self.learned(switch, mlid);
                if forward {
                    self.tell_querier(now, switch, mlid, Report::Member);
                }
            }
            Action::Asked { until } => self.plan(until, Plan::Prune { switch }),
            Action::None => {}
        }
    }

    fn prune(&mut self, now: Time, switch: u32) {
        let Some(snooper) = self.snooper(switch) else { return };
        let gone = snooper.handle_timeout(now);
        let here: Vec<Mlid> = self.groups.multicast.tables.keys().filter(|(_, at)| *at == switch).map(|(mlid, _)| *mlid).collect();
        for mlid in here {
            self.learned(switch, mlid);
        }
        for group in gone {
            if let Some(mlid) = Mlid::of(group) {
                self.tell_querier(now, switch, mlid, Report::Leave);
            }
        }
    }

    /// Sends a report on from `switch`.
    fn tell_querier(&mut self, now: Time, switch: u32, mlid: Mlid, report: Report) {
        let cluster = self.cluster;
        let graph = &cluster.fabric.graph;
        let Some(up) = self.groups.multicast.ethernet(self.cluster).and_then(|ethernet| ethernet.tree.towards_querier(SwitchId(switch)))
        else {
            return;
        };
        let link = graph.link(up);
        if let Node::Switch(next) = graph.node(link.to) {
            let at = now + link.delay + self.cluster.parts.multicast.report;
            self.plan(at, Plan::Hear { switch: next.0, port: link.to_port.0, mlid, report });
        }
    }

    /// What a switch has learned goes into its table.
    fn learned(&mut self, switch: u32, mlid: Mlid) {
        let cluster = self.cluster;
        let Some(snooper) = self.snooper(switch) else { return };
        let mut links: Vec<LinkId> = known(cluster, snooper, mlid, switch).collect();
        links.sort_unstable();
        self.groups.multicast.tables.insert((mlid, switch), links);
    }

    fn snooper(&mut self, switch: u32) -> Option<&mut Snooper> {
        self.groups.multicast.ethernet(self.cluster)?.snoopers.get_mut(switch as usize)
    }
}

/// The state of a request as the table of groups knows it.
fn join_state(state: fabriscope_verbs::JoinState) -> JoinState {
    match state {
        fabriscope_verbs::JoinState::Full => JoinState::Full,
        fabriscope_verbs::JoinState::NonMember => JoinState::NonMember,
        fabriscope_verbs::JoinState::SendOnly => JoinState::SendOnly,
        fabriscope_verbs::JoinState::SendOnlyFull => JoinState::SendOnlyFull,
    }
}
