//! Packets for groups: copies at switches and adapters, and the tables that say where they go.
//!
//! A copy is a packet of its own, with its own credits and its own place in a queue. The buffer in which the packet arrived
//! is free when the last copy has left; a small record counts them. Tables change when the subnet manager has written them, or
//! when a switch has heard a report; a packet follows those it finds.
//!
//! Source: InfiniBand vol. 1 §10.5 and §18.2.4.3 (multicast forwarding: every port of the table but the one it came by);
//! the trees: `fabriscope_fabric::multicast`, the times: `[multicast]` of the cluster.
//! Modelled: time between copies (`replication` of the switch), loss and marks of each copy, several queue pairs of one
//! adapter, loopback, a subnet manager that serves one request after the other and writes some tables at once.
//! Not modelled: trimming of copies (they are dropped whole), the management packets themselves (their time counts, their
//! bytes do not), periodic queries (runs are shorter than the 260 s after which silence prunes), context misses for copies,
//! new trees when links or switches die.

use std::collections::BTreeMap;

use fabriscope_catalog::LinkLayer;
use fabriscope_engine::{Cluster, Stage};
use fabriscope_fabric::multicast::{GroupAttr, Groups, JoinState, Mgid, Mlid, Snooping};
use fabriscope_fabric::{EndpointId, LinkId, Node, PortId, SwitchId};
use fabriscope_switch::snooping::Action;
use fabriscope_switch::{Report, Snooper, Timing};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{Change, Lid, Membership, PacketFlags, QpNum};

use crate::event::Event;
use crate::host::NO_LANE;
use crate::links::Scheduling;
use crate::packed_packet::PackedPacket;
use crate::queues::{COPY, UNHELD};
use crate::world::{Client, World};

/// What a run knows of groups.
pub(crate) struct Multicast {
    groups: Groups,
    /// The links that a group has at a switch, as the switch knows them now.
    tables: BTreeMap<(Mlid, u32), Vec<LinkId>>,
    /// Where Ethernet sends packets of groups that its switches know nothing of.
    ethernet: Option<Ethernet>,
    /// Between two copies.
    replication: Span,
    /// When the subnet manager has done what it was asked, and written what it has decided.
    manager_free: Time,
    tables_free: Time,
    /// What will happen: an event names its number.
    plans: Vec<Plan>,
    free_plans: Vec<u32>,
    arrived: Arrived,
    // For use while copying.
    links: Vec<LinkId>,
    listeners: Vec<QpNum>,
}

/// Switches of an Ethernet.
struct Ethernet {
    tree: Snooping,
    /// By switch; none where they do not snoop.
    snoopers: Vec<Snooper>,
}

/// Something that will happen to a group.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// The subnet manager decides about a request.
    Decide { host: u32, request: Membership },
    /// A switch gets the ports that the tree has there by now.
    Write { switch: u32, mlid: Mlid },
    /// A switch hears a report by a port.
    Hear { switch: u32, port: u16, mlid: Mlid, report: Report },
    /// A switch prunes what nobody answered for.
    Prune { switch: u32 },
    /// The aggregation manager answers a job.
    Answer { job: u32 },
}

/// Packets of which copies wait: a record for each.
#[derive(Debug, Default)]
struct Arrived {
    records: Vec<Record>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    /// The lane it came in by.
    lane: u32,
    /// Copies that have not left.
    left: u32,
    /// When the last one's tail leaves.
    tail: Time,
}

impl Arrived {
    fn add(&mut self, lane: u32, left: u32) -> u32 {
        let record = Record { lane, left, tail: Time::ZERO };
        match self.free.pop() {
            Some(at) => {
                self.records[at as usize] = record;
                at
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        }
    }
    /// A copy leaves at `tail`: the lane, and when its buffer is free, if it was the last.
    fn leave(&mut self, at: u32, tail: Time) -> Option<(u32, Time)> {
        let record = &mut self.records[at as usize];
        record.tail = record.tail.max(tail);
        record.left -= 1;
        if record.left > 0 {
            return None;
        }
        self.free.push(at);
        Some((record.lane, record.tail))
    }
}

impl Multicast {
    pub fn new(cluster: &Cluster) -> Multicast {
        let parts = &cluster.parts;
        let ethernet = parts.link_layer != LinkLayer::InfiniBand;
        Multicast {
            groups: if ethernet { Groups::treeless() } else { Groups::new() },
            tables: BTreeMap::new(),
            ethernet: None,
            replication: parts.switch.as_ref().and_then(|switch| switch.replication.as_ref()).map_or(Span::ZERO, |span| **span),
            manager_free: Time::ZERO,
            tables_free: Time::ZERO,
            plans: Vec::new(),
            free_plans: Vec::new(),
            arrived: Arrived::default(),
            links: Vec::new(),
            listeners: Vec::new(),
        }
    }

    /// The Ethernet of the cluster, worked out when it is first needed.
    fn ethernet(&mut self, cluster: &Cluster) -> Option<&mut Ethernet> {
        if cluster.parts.link_layer == LinkLayer::InfiniBand {
            return None;
        }
        if self.ethernet.is_none() {
            let graph = &cluster.fabric.graph;
            let tree = Snooping::new(graph)?;
            let settings = &cluster.parts.multicast;
            let timing = Timing { last_member_query: settings.last_member_query, ..Timing::default() };
            let snooper = |switch| {
                let mut snooper = Snooper::new(timing);
                if let Some(up) = tree.towards_querier(switch) {
                    snooper.handle_query(graph.link(up).from_port.0);
                }
                snooper
            };
            let snoopers = if settings.snooping { graph.switches().map(snooper).collect() } else { Vec::new() };
            self.ethernet = Some(Ethernet { tree, snoopers });
        }
        self.ethernet.as_mut()
    }

    /// Fills `links` with those that a packet of group `mlid` goes to at `switch`.
    fn outputs(&mut self, cluster: &Cluster, mlid: Mlid, switch: u32) {
        self.links.clear();
        if let Some(links) = self.tables.get(&(mlid, switch)) {
            self.links.extend_from_slice(links);
            return;
        }
        let mut links = std::mem::take(&mut self.links);
        if let Some(ethernet) = self.ethernet(cluster) {
            match ethernet.snoopers.get(switch as usize) {
                None => links.extend_from_slice(ethernet.tree.flood().outputs(SwitchId(switch))),
                Some(snooper) => links.extend(known(cluster, snooper, mlid, switch)),
            }
        }
        self.links = links;
    }

    fn plan(&mut self, plan: Plan) -> u32 {
        if let Some(at) = self.free_plans.pop() {
            self.plans[at as usize] = plan;
            return at;
        }
        self.plans.push(plan);
        self.plans.len() as u32 - 1
    }
}

/// The links of the ports that a switch has learned.
fn known<'a>(cluster: &'a Cluster, snooper: &'a Snooper, mlid: Mlid, switch: u32) -> impl Iterator<Item = LinkId> + 'a {
    let graph = &cluster.fabric.graph;
    snooper.ports(mlid.index() as u32).filter_map(move |port| graph.out_link(SwitchId(switch), PortId(port)))
}

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
        let settings = &cluster.parts.multicast;
        let each = settings.table_write / u64::from(settings.outstanding.max(1));
        for switch in changed {
            // The first is written after one round trip, the others follow as fast as several at once allow.
            self.groups.multicast.tables_free = self.groups.multicast.tables_free.max(now) + each;
            let at = self.groups.multicast.tables_free + settings.table_write - each;
            self.plan(at, Plan::Write { switch: switch.0, mlid });
        }
        if let (Some(report), true) = (report, settings.snooping && self.groups.multicast.ethernet(self.cluster).is_some()) {
            let link = graph.link(graph.uplink(endpoint));
            if let Node::Switch(switch) = graph.node(link.to) {
                let at = now + link.delay + settings.report;
                self.plan(at, Plan::Hear { switch: switch.0, port: link.to_port.0, mlid, report });
            }
        }
        Some(mlid)
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
