//! From a cluster to the flat arrays of a run.

use std::sync::Arc;

use fabriscope_catalog::{
    self as catalog, FlowControl, Line as LineOptions, LinkLayer, PartitionEnforcement, Pfc, ResolvedCluster, ResolvedNode, Switch, keys,
};
use fabriscope_engine::{Cluster, Effect, EngineError, FaultPlan, Library};
use fabriscope_fabric::routing::deadlock;
use fabriscope_fabric::{EndpointId, Fabric, Graph, Link, LinkId, Route, Router, Routing, distances_to_endpoints};
use fabriscope_kernel::EventQueue;
use fabriscope_prefetch::large_pages;
use fabriscope_streams::Streams;
use fabriscope_switch::headroom::{self, PAUSE_FRAME, headroom};
use fabriscope_switch::{self as switch, Arbiter, Channel, Ecn, PauseLimits, PauseThresholds};
use fabriscope_units::{Bytes, Pace, Rate, Remedy, Span};
use fabriscope_verbs::ExtHeaders;
use fabriscope_verbs::cc::Settings;
use rustc_hash::FxHashMap;

use crate::aggregation::Aggregation;
use crate::arbitrated::Wire;
use crate::boundary::{BoundaryTraffic, Guards};
use crate::enforcement::Enforcement;
use crate::event::PLACES;
use crate::groups::Groups;
use crate::host::{Host, Hosts, Loopback, TimerUse};
use crate::host_groups::{self, HostGroups};
use crate::layout::{ARBITRATED, Borders, GUARDED, Layout, RANKS_OF_A_PART, RANKS_OF_AN_ADAPTER, RESERVED};
use crate::link_level::LinkLevel;
use crate::links::{Backpressure, Forwarding, Links, Marking, Overflow, QueueLimit, Scheduling, Telemetry};
use crate::multicast::Multicast;
use crate::observe::observer;
use crate::per_host::PerHost;
use crate::qos::{QosPlan, marking};
use crate::queues::PacketQueues;
use crate::routes::{RouteTable, Routes};
use crate::watch::{Arrivals, Watch};
use crate::world::World;
use crate::{Counting, Loss, Peers, Scenario};

/// An idle world for `cluster`, in one part.
pub(crate) fn world<'a>(engine: &Scenario, cluster: &'a Cluster, seed: u64) -> Result<World<'a>, EngineError> {
    let (blueprint, router) = Blueprint::new(engine, cluster, seed)?;
    let layout = Layout::whole(&cluster.fabric.graph, blueprint.vls());
    let mut worlds = blueprint.build(layout, router)?;
    Ok(worlds.swap_remove(0))
}

/// An idle world for `cluster`, in as many parts as it is worth and its mechanisms allow.
pub(crate) fn worlds<'a>(engine: &Scenario, cluster: &'a Cluster, seed: u64) -> Result<Vec<World<'a>>, EngineError> {
    let (blueprint, router) = Blueprint::new(engine, cluster, seed)?;
    let (graph, vls) = (&cluster.fabric.graph, blueprint.vls());
    if blueprint.indivisible().is_none() {
        let worth = match (blueprint.scheduling(), blueprint.backpressure) {
            (Scheduling::Reserved, _) => RESERVED,
            (Scheduling::Arbitrated, Backpressure::Credit) => ARBITRATED,
            (Scheduling::Arbitrated, _) => GUARDED,
        };
        let layout = Layout::divided(graph, vls, blueprint.adapters.together(), worth);
        // Links without delay between parts leave no time to run apart.
        if layout.has_windows(graph) {
            return blueprint.build(layout, router);
        }
    }
    blueprint.build(Layout::whole(graph, vls), router)
}

/// An idle world for programs on `cluster`, in as many parts as these are worth and its mechanisms allow; `homes` has the node of each rank.
pub(crate) fn worlds_of_programs<'a>(
    engine: &Scenario,
    cluster: &'a Cluster,
    homes: &[u32],
    seed: u64,
) -> Result<Vec<World<'a>>, EngineError> {
    let (blueprint, router) = Blueprint::new(engine, cluster, seed)?;
    let (graph, vls) = (&cluster.fabric.graph, blueprint.vls());
    if blueprint.indivisible().is_none() {
        let nics = cluster.parts.groups[0].node.nics.max(1);
        let mut before = vec![0u64; graph.endpoint_count().div_ceil(nics) as usize + 1];
        for node in homes {
            before.get_mut(*node as usize + 1).into_iter().for_each(|ranks| *ranks += 1);
        }
        for node in 1..before.len() {
            let least = if before[node] > 0 { RANKS_OF_AN_ADAPTER * u64::from(nics) } else { 0 };
            before[node] = before[node].max(least) + before[node - 1];
        }
        let before = |host: u32| before[host.div_ceil(nics) as usize];
        let parts = u32::try_from(before(graph.endpoint_count()) / RANKS_OF_A_PART).unwrap_or(u32::MAX);
        for borders in [Borders::Switches, Borders::Hosts].into_iter().filter(|_| parts > 1) {
            let layout = Layout::in_parts(graph, vls, (nics, parts), borders, before);
            let most = layout.first_host.windows(2).map(|part| before(part[1]) - before(part[0])).max().unwrap_or(0);
            // Where nearly all ranks are in one part, nothing is gained.
            if 4 * most <= 3 * before(graph.endpoint_count()) && layout.has_windows(graph) {
                return blueprint.build(layout, router);
            }
        }
    }
    blueprint.build(Layout::whole(graph, vls), router)
}

/// Why a run is not divided over several parts, each of which sees its own state alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indivisible {
    /// The routing looks at queues of other switches.
    GlobalRouting,
    /// Nodes are not all alike, or not the first ones: parts end at a multiple of their adapters.
    UnlikeNodes,
    /// An algorithm from outside may share what it knows among senders or switches: it is asked in the order of time.
    Prototype,
}

/// What a run is built from: a cluster, and what follows from it for all parts.
struct Blueprint<'e, 'a> {
    engine: &'e Scenario,
    cluster: &'a Cluster,
    streams: Streams,
    qos: Arc<QosPlan>,
    /// Thresholds of pause frames, where these guard the buffers.
    pfc: Option<&'a Pfc>,
    backpressure: Backpressure,
    congestion: Settings,
    adapters: HostGroups<'a>,
    /// Adapters have keys of partitions.
    partitioned: bool,
    enforcement: Option<Arc<Enforcement>>,
    /// How far each vertex is from the endpoints, where switches are unlike.
    distances: Option<Vec<u32>>,
    /// Marking by lane of a link.
    ecn: Vec<Option<Ecn>>,
}

impl<'e, 'a> Blueprint<'e, 'a> {
    /// What follows from `cluster`, and its routing.
    fn new(engine: &'e Scenario, cluster: &'a Cluster, seed: u64) -> Result<(Blueprint<'e, 'a>, Router), EngineError> {
        let parts = &cluster.parts;
        let graph = &cluster.fabric.graph;
        host_groups::check_reach(cluster)?;
        let router = Router::new(&cluster.fabric, parts.routing).map_err(|error| EngineError::Setup(error.in_full()))?;
        let router = parts.route_prototype.iter().cloned().fold(router, Router::chosen_by);
        if !engine.allow_deadlock {
            refuse_deadlock(&cluster.fabric, &router, parts.routing)?;
        }
        let qos = Arc::new(QosPlan::new(parts, graph, u32::from(router.lanes())));
        check_size(graph, qos.levels * qos.per_level)?;
        let ethernet = parts.link_layer != LinkLayer::InfiniBand;
        let lossy_fabric = parts.flow_control == FlowControl::Lossy;
        let drops = lossy_fabric || qos.drops();
        let pauses = ethernet && parts.flow_control == FlowControl::Lossless;
        let pfc = parts.switch.as_ref().and_then(|s| s.pfc.as_ref()).filter(|_| pauses);
        let adapters = HostGroups::new(engine, cluster, &router, drops);
        let blueprint = Blueprint {
            engine,
            cluster,
            streams: Streams::new(seed),
            pfc,
            backpressure: match (pfc.is_some(), drops) {
                (false, false) => Backpressure::Credit,
                (true, false) => Backpressure::Pause,
                (false, true) => Backpressure::Drop,
                (true, true) => Backpressure::PauseAndDrop,
            },
            congestion: adapters.congestion(),
            adapters,
            partitioned: !parts.partitions.is_empty() || parts.partition_enforcement != PartitionEnforcement::Off,
            distances: (!parts.switch_levels.is_empty()).then(|| distances_to_endpoints(graph)),
            enforcement: Enforcement::new(parts).map(Arc::new),
            ecn: qos.ecn(usual_marking(parts)),
            qos,
        };
        Ok((blueprint, router))
    }

    /// Lanes of a link.
    fn vls(&self) -> u32 {
        self.qos.levels * self.qos.per_level
    }
    fn marks(&self) -> bool {
        self.ecn.iter().any(Option::is_some)
    }
    /// Whether packets are lost on links.
    fn loses(&self) -> bool {
        self.engine.loss != Loss::None || self.engine.faults.is_some()
    }
    /// Whether adapters want to be woken: packets of another partition are not answered.
    fn controls(&self) -> bool {
        self.partitioned || self.enforcement.is_some() || self.congestion.controls()
    }

    /// Why the run stays in one part, if it has to.
    fn indivisible(&self) -> Option<Indivisible> {
        let parts = &self.cluster.parts;
        let reasons = [
            (parts.routing == Routing::UgalG, Indivisible::GlobalRouting),
            (!self.adapters.in_order(), Indivisible::UnlikeNodes),
            (self.congestion.prototype.is_some() || parts.route_prototype.is_some(), Indivisible::Prototype),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
    }

    fn scheduling(&self) -> Scheduling {
        let lanes_compete = self.vls() > 1 || self.qos.shaped;
        // Marks and drops look at what waits for the wire.
        let looked_at = self.backpressure != Backpressure::Credit || self.controls();
        if lanes_compete || looked_at || self.cluster.parts.line != LineOptions::default() {
            Scheduling::Arbitrated
        } else {
            Scheduling::Reserved
        }
    }

    fn forwarding(&self) -> Forwarding {
        let switch = self.cluster.parts.switch.as_ref();
        let slows = |plan: &FaultPlan| plan.faults.iter().any(|fault| matches!(fault.effect, Effect::Lanes { .. }));
        if switch.is_some_and(|switch| switch.forwarding != catalog::Forwarding::CutThrough) {
            return Forwarding::StoreAndForward;
        }
        let links = self.cluster.fabric.graph.links();
        if self.engine.faults.as_ref().is_some_and(slows) || links.windows(2).any(|pair| pair[0].rate != pair[1].rate) {
            Forwarding::CutThrough
        } else {
            Forwarding::UniformCutThrough
        }
    }

    fn arrivals(&self) -> Arrivals {
        if self.loses() || self.enforcement.is_some() || self.engine.counting != Counting::Off || self.engine.series.is_some() {
            Arrivals::Inspected
        } else {
            Arrivals::Trusted
        }
    }

    /// Whether packets overtake each other at receivers that take them in order alone: what was sent again may come in the wrong order
    /// once more, and one gap is reported once.
    fn refuses_overtaken(&self) -> bool {
        let (parts, transfers) = (&self.cluster.parts, &self.engine.transfers);
        parts.routing.overtakes() && !transfers.any_order && !transfers.service.any_order() && !parts.takes_any_order()
    }

    fn timers(&self) -> TimerUse {
        if self.controls() {
            TimerUse::Everything
        } else if self.loses() || self.engine.peers == Peers::Passing || self.backpressure.drops() || self.refuses_overtaken() {
            TimerUse::Sending
        } else {
            TimerUse::Refusals
        }
    }

    /// The worlds of all parts.
    fn build(&self, mut layout: Layout, router: Router) -> Result<Vec<World<'a>>, EngineError> {
        let graph = &self.cluster.fabric.graph;
        if self.forwarding() != Forwarding::UniformCutThrough {
            layout.paces = graph.links().iter().map(|link| Pace::of(link.rate)).collect();
        }
        let layout = Arc::new(layout);
        let mut links: Vec<Links<'a>> = (0..layout.parts()).map(|part| self.no_links(&layout, part)).collect();
        self.plug(&layout, &mut links);
        let table = RouteTable::new(router);
        let pairs: Arc<[((u32, u32), u8)]> = self.engine.levels.clone().into();
        let pkeys: Arc<[((u32, u32), u16)]> = self.engine.pkeys.clone().into();
        let rates: Arc<[((u32, u32), Rate)]> = self.engine.rates.clone().into();
        let libraries: Arc<[(u32, Library)]> = self.engine.libraries.clone().into();
        let mut tables = None;
        let world = |mut links: Links<'a>| {
            let own = links.lanes.len() / links.vls as usize;
            if links.scheduling == Scheduling::Arbitrated {
                links.wires = vec![Wire::IDLE; own];
                links.link_level = LinkLevel::new(&self.cluster.parts.line, own, self.streams.stream("link retry", u64::from(links.part)));
            }
            let mut watch = Watch::new(self.arrivals(), self.engine.timeline.clone());
            watch.observer = observer(self.engine, self.cluster.parts.link_layer.wire(), own, graph.link_count(), &self.qos.numbers());
            watch.control = self.engine.control.clone();
            let ext_headers = ExtHeaders::of_part(links.part, layout.parts());
            let mut world = World {
                streams: self.streams,
                queue: queue(graph.endpoint_count(), layout.parts()),
                layout: Arc::clone(&layout),
                cluster: self.cluster,
                hosts: self.hosts(&layout, links.part),
                links,
                routes: Routes { table: table.clone(), flows: FxHashMap::default() },
                groups: self.groups(),
                watch,
                ext_headers,
                pairs: Arc::clone(&pairs),
                pkeys: Arc::clone(&pkeys),
                rates: Arc::clone(&rates),
                libraries: Arc::clone(&libraries),
                outbox: (0..layout.parts()).map(|_| BoundaryTraffic::default()).collect(),
            };
            let stream = self.streams.stream("loss", u64::from(world.links.part));
            crate::faults::set_up(&mut world, self.engine, stream, &mut tables)?;
            large_pages(&world.links.lanes);
            large_pages(&world.links.guards.buffers);
            large_pages(&world.links.wires);
            large_pages(&world.hosts.all);
            Ok(world)
        };
        links.into_iter().map(world).collect()
    }

    /// The links of a part before it has any.
    fn no_links(&self, layout: &Layout, part: u32) -> Links<'a> {
        let switch = self.cluster.parts.switch.as_ref();
        let drops = self.backpressure.drops();
        // Draws belong to a part: in which order parts run does not matter.
        let stream = self.streams.stream("ecn", u64::from(part));
        Links {
            graph: &self.cluster.fabric.graph,
            ends: Arc::clone(&layout.ends),
            slots: layout.slots.clone(),
            part,
            endpoints: self.cluster.fabric.graph.endpoint_count(),
            lanes: Vec::new(),
            guards: Guards::default(),
            wires: Vec::new(),
            arbiters: Vec::new(),
            vls: self.vls(),
            levels: self.qos.levels,
            per_level: self.qos.per_level,
            qos: Arc::clone(&self.qos),
            link_level: None,
            queues: PacketQueues::new(),
            drains: Vec::new(),
            marking: self.marks().then(|| Marking { by_lane: self.ecn.clone(), stream }),
            queue_limits: self.qos.queue_limits(queue_limit(switch.filter(|_| drops)), self.backpressure.pauses()),
            held_at_most: if drops { vec![Bytes::ZERO; self.cluster.fabric.graph.switch_count() as usize] } else { Vec::new() },
            scheduling: self.scheduling(),
            backpressure: self.backpressure,
            overflow: if drops && switch.is_some_and(|s| s.trims) { Overflow::Trim } else { Overflow::Drop },
            forwarding: self.forwarding(),
            telemetry: if self.congestion.telemetry { Telemetry::Stamped } else { Telemetry::Off },
            switch_latency: self.switch_latency(),
        }
    }

    /// Port to port of the switches.
    fn switch_latency(&self) -> PerHost<Span> {
        let (parts, each) = (&self.cluster.parts, self.cluster.parts.switch_latencies(&self.cluster.fabric));
        match each.is_empty() {
            true => PerHost::Same(parts.switch.as_ref().map_or(Span::ZERO, |switch| switch.latency.value)),
            false => PerHost::Each(each.into()),
        }
    }

    /// Gives each part the lanes of the links that leave it.
    fn plug(&self, layout: &Layout, parts: &mut [Links<'a>]) {
        let graph = &self.cluster.fabric.graph;
        for (number, link) in graph.links().iter().enumerate() {
            let id = LinkId(number as u32);
            let (owner, _) = layout.slots.of(id.0 * self.vls());
            let part = &mut parts[owner as usize];
            if self.vls() > 1 || self.qos.shaped {
                let switch = link.from.0.checked_sub(graph.endpoint_count());
                part.arbiters.push(Arbiter::new(self.qos.policy(switch), link.rate));
            }
            for vl in 0..self.vls() {
                let mut lane = Channel::new(Pace::of(link.rate), link.delay, link.to.0, self.flow_control(link, vl));
                lane.part = layout.part_of_end(id) as u8;
                part.lanes.push(lane);
            }
        }
        if self.pfc.is_some() && layout.parts() > 1 {
            self.guard(layout, parts);
        }
    }

    /// Gives each part the buffers with pause frames behind lanes of others.
    fn guard(&self, layout: &Layout, parts: &mut [Links<'a>]) {
        parts.iter_mut().for_each(|part| part.guards.make_room(part.lanes.len()));
        for (number, link) in self.cluster.fabric.graph.links().iter().enumerate() {
            let id = LinkId(number as u32);
            if layout.slots.of(id.0 * self.vls()).0 == layout.part_of_end(id) {
                continue;
            }
            for vl in 0..self.vls() {
                if let switch::FlowControl::Pause(limits) = self.flow_control(link, vl) {
                    let (owner, place) = layout.slots.of(id.0 * self.vls() + vl);
                    parts[owner as usize].lanes[place].guard_afar();
                    // That a pause lasts longer is known a window late: room for what comes meanwhile.
                    let late = Pace::of(link.rate).bytes_in(link.delay);
                    let thresholds = PauseThresholds { headroom: limits.thresholds.headroom + late, ..limits.thresholds };
                    let limits = switch::FlowControl::Pause(PauseLimits { thresholds, ..limits });
                    let (part, place) = layout.slots.of(id.reverse().0 * self.vls() + vl);
                    let buffer = Channel::new(Pace::of(link.rate), link.delay, link.to.0, limits);
                    parts[part as usize].guards.add(place, buffer);
                }
            }
        }
    }

    /// What guards the buffer behind lane `vl` of a link.
    fn flow_control(&self, link: &Link, vl: u32) -> switch::FlowControl {
        let parts = &self.cluster.parts;
        if let Some(pfc) = self.pfc.filter(|_| self.qos.level(vl).pauses) {
            let thresholds = self.qos.level(vl).pfc.as_ref().unwrap_or(pfc).plain();
            // The pause frame on the wire and its propagation; the sender obeys at once.
            let reaction = link.rate.time(PAUSE_FRAME) + link.delay;
            // What the switch has, and at least what the standard asks for and two packets that are begun meanwhile.
            let needed = headroom(&headroom::Line { rate: link.rate, delay: link.delay, frame: parts.mtu, response: Span::ZERO });
            let headroom = thresholds.headroom.max(needed + parts.mtu * 2 + Bytes(1024));
            return switch::FlowControl::Pause(PauseLimits { thresholds: PauseThresholds { headroom, ..thresholds }, reaction });
        }
        if self.pfc.is_some() || parts.flow_control == FlowControl::Lossy {
            return switch::FlowControl::None;
        }
        let at_switch = link.to.0 >= self.cluster.fabric.graph.endpoint_count();
        let end = if at_switch { link.from.0 } else { link.to.0 };
        let adapter = parts.groups[self.cluster.group_at(end)].node.nic.rx_buffer.value;
        let part = self.distances.as_ref().map_or(parts.switch.as_ref(), |distances| parts.switch_at(distances[link.to.index()]));
        let buffer = part.filter(|_| at_switch).map_or(adapter, |switch| switch.buffer.value);
        switch::FlowControl::Credit(self.qos.buffer(buffer, vl))
    }

    /// The adapters of a part.
    fn hosts(&self, layout: &Layout, part: u32) -> Hosts {
        let own = layout.first_host[part as usize]..layout.first_host[part as usize + 1];
        // What programs of one node send each other by the adapter: to cores on it, or by triggered operations.
        let turns_back = |node: &ResolvedNode| node.dpu.is_some() || node.nic.triggered.is_some();
        let turns_back = self.cluster.parts.groups.iter().any(|group| turns_back(&group.node));
        Hosts {
            first: own.start,
            hops: self.adapters.idle_hops(&own),
            all: own.clone().map(|host| self.host(host, own.start)).collect(),
            rx_latency: self.adapters.rx_latency(),
            loopback: if turns_back { Loopback::InAdapter } else { Loopback::ThroughFabric },
            timers: self.timers(),
        }
    }

    /// The adapter `host`; `first` is the first one of its part.
    fn host(&self, host: u32, first: u32) -> Host {
        let (mut adapter, mut pipeline) = self.adapters.adapter(host, first);
        if self.partitioned {
            adapter.rnic.set_pkeys(keys(&self.cluster.parts.partitions, host));
        }
        if self.qos.levels > 1 {
            pipeline.window.separate_levels();
        }
        Host::new(adapter, pipeline, self.cluster.fabric.graph.uplink(EndpointId(host)).0 * self.vls())
    }

    fn groups(&self) -> Groups {
        let enforcement = self.enforcement.clone();
        Groups { multicast: Multicast::new(self.cluster), aggregation: Aggregation::new(&self.cluster.parts), enforcement }
    }
}

/// The marking of queues that have none of their own.
fn usual_marking(parts: &ResolvedCluster) -> Option<Ecn> {
    let switch = parts.switch.as_ref().filter(|_| parts.link_layer != LinkLayer::InfiniBand);
    (parts.congestion.as_ref())
        .and_then(|congestion| congestion.ecn.as_ref())
        .or_else(|| switch.and_then(|switch| switch.ecn.as_ref()))
        // Packets without an IP header have no bits to mark.
        .filter(|_| parts.link_layer != LinkLayer::RoceV1)
        .map(marking)
}

/// Refuses fabrics with more lanes than events can name.
fn check_size(graph: &Graph, vls: u32) -> Result<(), EngineError> {
    let lanes = u64::from(graph.link_count()) * u64::from(vls);
    if lanes < u64::from(PLACES) {
        return Ok(());
    }
    Err(EngineError::Setup(format!(
        "the fabric has {lanes} lanes of links, and a run holds {PLACES}; use fewer lanes, or a smaller fabric"
    )))
}

/// A network that can stand still for ever is not worth simulating, unless that is what is to be seen. A routing that is free of
/// deadlock by its construction is believed; `fabriscope topo` and the tests of the routings look at all of its hops.
fn refuse_deadlock(fabric: &Fabric, router: &Router, routing: Routing) -> Result<(), EngineError> {
    if router.proof().is_some() {
        return Ok(());
    }
    let verdict = deadlock::verdict(fabric, router);
    if verdict.is_free() {
        return Ok(());
    }
    Err(EngineError::Deadlock { routing: routing.to_string(), verdict: verdict.describe(fabric) })
}

/// What may wait for a link of a switch that drops; nothing is dropped without one.
fn queue_limit(switch: Option<&Switch>) -> QueueLimit {
    match switch {
        None => QueueLimit::Unlimited,
        Some(switch) => match &switch.shared {
            Some(shared) => QueueLimit::Shared(shared.plain()),
            None => QueueLimit::Own(switch.buffer.value),
        },
    }
}

/// Buckets so narrow that few events share one: with busy NICs at all `endpoints` an event happens every few picoseconds. A part has few
/// buckets, some ten microseconds of them: a bucket with a single timer takes the room of several events.
fn queue<E: Copy + Default>(endpoints: u32, parts: u32) -> EventQueue<E> {
    let width = (1u64 << 22) / u64::from(endpoints.div_ceil(parts).max(1)).next_power_of_two();
    EventQueue::new(Span::from_ps(width.clamp(1 << 9, 1 << 16)), if parts > 1 { 1024 } else { 8192 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Transfers;
    use crate::tests::cluster;
    use fabriscope_catalog::LinkRetry;

    /// Why a run on four nodes below a switch stays in one part.
    fn reason(layer: &str, change: impl Fn(&mut ResolvedCluster), scenario: &Scenario) -> Option<Indivisible> {
        let mut cluster = cluster("topology.single_switch = {}", 4, layer, "d_mod_k");
        change(&mut cluster.parts);
        let (blueprint, _) = Blueprint::new(scenario, &cluster, 1).expect("it is sound");
        blueprint.indivisible()
    }

    #[test]
    fn what_looks_everywhere_keeps_a_run_in_one_part() {
        let plain = Scenario::default();
        assert_eq!(reason("infiniband", |_| {}, &plain), None);
        assert_eq!(reason("roce_v2", |_| {}, &plain), None);
        let lossy = Scenario { loss: Loss::Random(1), ..Scenario::default() };
        assert_eq!(reason("infiniband", |_| {}, &lossy), None);
        let retry = LinkRetry { bit_errors: 1e-9, latency: Span::from_ns(200) };
        assert_eq!(reason("infiniband", |parts| parts.line.retry = Some(retry.clone()), &plain), None);
        let dragonfly = cluster("topology.dragonfly = { groups = 5, switches = 2, endpoints = 2 }", 20, "infiniband", "ugal_g");
        let (blueprint, _) = Blueprint::new(&plain, &dragonfly, 1).expect("it is sound");
        assert_eq!(blueprint.indivisible(), Some(Indivisible::GlobalRouting));
    }

    #[test]
    fn receivers_of_one_order_need_timers_where_packets_overtake() {
        let spread = cluster("topology.fat_tree = { levels = 2 }", 20, "infiniband", "adaptive");
        let uses = |any_order| {
            let transfers = Transfers { any_order, ..Transfers::default() };
            let scenario = Scenario { transfers, ..Scenario::default() };
            let (blueprint, _) = Blueprint::new(&scenario, &spread, 1).expect("it is sound");
            blueprint.timers()
        };
        assert_eq!((uses(false), uses(true)), (TimerUse::Sending, TimerUse::Refusals));
    }

    #[test]
    fn lanes_that_compete_are_arbitrated() {
        let scenario = Scenario::default();
        let scheduling = |layer| {
            let cluster = cluster("topology.single_switch = {}", 4, layer, "d_mod_k");
            let (blueprint, _) = Blueprint::new(&scenario, &cluster, 1).expect("it is sound");
            (blueprint.scheduling(), blueprint.backpressure, blueprint.forwarding(), blueprint.timers())
        };
        let lossless = (Scheduling::Reserved, Backpressure::Credit, Forwarding::UniformCutThrough, TimerUse::Refusals);
        assert_eq!(scheduling("infiniband"), lossless);
        assert_eq!(scheduling("roce_v2").0, Scheduling::Arbitrated);
        assert_eq!(scheduling("roce_v2").1, Backpressure::Pause);
    }
}
