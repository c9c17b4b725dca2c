//! From a cluster to the flat arrays of a run.

use std::sync::Arc;

use fabriscope_catalog::{
    FlowControl, Forwarding, Line as LineOptions, LinkLayer, PartitionEnforcement, Pfc, ResolvedCluster, Switch, keys,
};
use fabriscope_engine::{Cluster, EngineError, Stats, timing};
use fabriscope_fabric::routing::deadlock;
use fabriscope_fabric::{EndpointId, Fabric, LinkId, Route, Router, Routing};
use fabriscope_kernel::EventQueue;
use fabriscope_node::{DmaPath, Pcie, ReadAhead};
use fabriscope_prefetch::large_pages;
use fabriscope_streams::Streams;
use fabriscope_switch::channel::MAX_BLOCKS;
use fabriscope_switch::headroom::{self, PAUSE_FRAME, headroom};
use fabriscope_switch::{Arbiter, Channel, Flow, PauseLimits};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::{Lid, Mtu, Nic, NicConfig, Side};
use rustc_hash::FxHashMap;

use crate::aggregation::Aggregation;
use crate::beyond::{self, Beyond, Hops};
use crate::divided::Mail;
use crate::enforcement::Enforcement;
use crate::host::{Host, NicCosts};
use crate::layout::Layout;
use crate::line::Line;
use crate::multicast::Multicast;
use crate::observe::observer;
use crate::paced::Wire;
use crate::qos::{Plan, marking};
use crate::sight::Routes;
use crate::trace::Tracer;
use crate::waiting::WaitingRoom;
use crate::world::{Room, World};
use crate::{Counting, Loss, Scenario};

/// An idle world for `cluster`, in one part.
pub(crate) fn world<'a>(engine: &Scenario, cluster: &'a Cluster, seed: u64) -> Result<World<'a>, EngineError> {
    let mut worlds = build(engine, cluster, seed, false)?;
    Ok(worlds.swap_remove(0))
}

/// An idle world for `cluster`, in as many parts as it is worth and its mechanisms allow.
pub(crate) fn worlds<'a>(engine: &Scenario, cluster: &'a Cluster, seed: u64) -> Result<Vec<World<'a>>, EngineError> {
    build(engine, cluster, seed, true)
}

fn build<'a>(engine: &Scenario, cluster: &'a Cluster, seed: u64, divide: bool) -> Result<Vec<World<'a>>, EngineError> {
    let parts = &cluster.parts;
    let graph = &cluster.fabric.graph;
    beyond::check(cluster)?;
    let streams = Streams::new(seed);
    let router = Router::new(&cluster.fabric, parts.routing).map_err(|error| EngineError::Setup(error.to_string()))?;
    if !engine.allow_deadlock {
        refuse_deadlock(&cluster.fabric, &router, parts.routing)?;
    }
    let plan = Arc::new(Plan::new(parts, graph, u32::from(router.lanes())));
    let vls = plan.levels * plan.per_level;
    let switch = parts.switch.as_ref();
    let ethernet = parts.link_layer != LinkLayer::InfiniBand;
    let lossy_fabric = parts.flow_control == FlowControl::Lossy;
    let drops = lossy_fabric || plan.drops();
    let pfc = switch.and_then(|s| s.pfc.as_ref()).filter(|_| ethernet && !lossy_fabric);
    let mut congestion = crate::congestion::settings(parts, &cluster.fabric, &router, drops);
    if let Some(timeout) = engine.transfers.recovery.timeout {
        // What a person asks for counts more than what suits the congestion control.
        congestion.timeout = fabriscope_wire::AckTimeout::from_code(timeout).ok().and_then(fabriscope_wire::AckTimeout::span);
    }
    // Packets of another partition are not answered.
    let partitioned = !parts.partitions.is_empty() || parts.partition_enforcement != PartitionEnforcement::Off;
    let enforcement = Enforcement::new(parts).map(Arc::new);
    let controlled = partitioned || enforcement.is_some() || congestion.algorithm.is_some();
    let ecn = (parts.congestion.as_ref())
        .and_then(|congestion| congestion.ecn.as_ref())
        .or_else(|| switch.and_then(|s| s.ecn.as_ref()).filter(|_| ethernet))
        // Packets without an IP header have no bits to mark.
        .filter(|_| parts.link_layer != LinkLayer::RoceV1)
        .map(marking);
    let ecn = plan.ecn(ecn);
    let marks = ecn.iter().any(Option::is_some);
    let rooms = plan.rooms(room(switch.filter(|_| drops)), pfc.is_some());
    let lossy = engine.loss != Loss::None || engine.faults.is_some();
    // Pause frames act at once, chance draws from one stream, and global knowledge knows no borders.
    let apart = divide
        && pfc.is_none()
        && !marks
        && parts.line.retry.is_none()
        && !lossy
        && !drops
        && !controlled
        && parts.routing != Routing::UgalG;
    let mut layout = if apart { Layout::divided(graph, vls, beyond::together(cluster)) } else { Layout::whole(graph, vls) };
    let rates: Vec<Rate> = graph.links().iter().map(|link| link.rate).collect();
    let slows = |plan: &fabriscope_engine::FaultPlan| {
        plan.faults.iter().any(|fault| matches!(fault.effect, fabriscope_engine::Effect::Lanes { .. }))
    };
    let same_pace = !engine.faults.as_ref().is_some_and(slows)
        && rates.windows(2).all(|pair| pair[0] == pair[1])
        && switch.is_none_or(|s| s.forwarding == Forwarding::CutThrough);
    if !same_pace {
        layout.paces = rates.iter().map(|&rate| pace(rate)).collect();
    }
    let layout = Arc::new(layout);
    let routes = Routes::new(router);
    // Marks and drops look at what waits for the wire.
    let paced = vls > 1 || plan.shaped || parts.line != LineOptions::default() || pfc.is_some() || drops || controlled;
    let endpoints = graph.endpoint_count();
    let count = layout.parts();
    let pairs: Arc<[((u32, u32), u8)]> = engine.levels.clone().into();
    let pkeys: Arc<[((u32, u32), u16)]> = engine.pkeys.clone().into();
    let limits: Arc<[((u32, u32), Rate)]> = engine.rates.clone().into();
    let mut worlds: Vec<World<'a>> = (0..count)
        .map(|part| World {
            queue: queue(endpoints.div_ceil(count)),
            layout: Arc::clone(&layout),
            ends: Arc::clone(&layout.ends),
            slots: layout.slots.clone(),
            part,
            lanes: Vec::new(),
            wires: Vec::new(),
            arbiters: Vec::new(),
            vls,
            levels: plan.levels,
            per_level: plan.per_level,
            plan: Arc::clone(&plan),
            pairs: Arc::clone(&pairs),
            pkeys: Arc::clone(&pkeys),
            rates: Arc::clone(&limits),
            line: None,
            paced,
            pauses: pfc.is_some(),
            same_pace,
            store_and_forward: switch.is_some_and(|s| s.forwarding != Forwarding::CutThrough),
            routes: routes.clone(),
            flows: FxHashMap::default(),
            cluster,
            endpoints,
            switch_latency: switch.map_or(0, |s| s.latency.value.as_ps()),
            rx_latency: parts.sole().node.nic.rx_latency.value.as_ps(),
            hosts: Vec::new(),
            hops: Hops::default(),
            first_host: layout.first_host[part as usize],
            waiting: WaitingRoom::new(),
            drains: Vec::new(),
            side: Side::new(),
            ecn: ecn.clone(),
            marks,
            mark_stream: streams.stream("ecn", 0),
            lossy: lossy || drops,
            inspects: lossy || enforcement.is_some() || engine.counting != Counting::Off,
            controlled,
            telemetry: congestion.telemetry,
            rooms: rooms.clone(),
            drops,
            trims: drops && switch.is_some_and(|s| s.trims),
            loops: parts.sole().node.dpu.is_some(),
            multicast: Multicast::new(cluster),
            aggregation: Aggregation::new(parts),
            enforcement: enforcement.clone(),
            faults: None,
            trace: Tracer::default(),
            stats: Stats::default(),
            observer: None,
            outbox: (0..count).map(|_| Mail::default()).collect(),
        })
        .collect();
    plug(&mut worlds, cluster, pfc, &plan);
    let link_rate = rates.first().copied().unwrap_or_default();
    // What an adapter turns back to its own cores and host takes its buffer as well.
    let link_rate = if parts.sole().node.dpu.is_some() { Rate::from_bps(link_rate.as_bps().saturating_mul(2)) } else { link_rate };
    let costs = nic_costs(parts, link_rate);
    let pcie = timing::port(parts);
    for world in &mut worlds {
        let links = world.lanes.len() / vls as usize;
        if paced {
            world.wires = vec![Wire::IDLE; links];
            world.line = Line::new(&parts.line, links, streams.stream("link retry", 0));
        }
        world.observer = observer(engine, parts.link_layer.wire(), links, graph.link_count(), &plan.numbers());
        let hosts = world.first_host..layout.first_host[world.part as usize + 1];
        world.hops = Hops::new(cluster, (hosts.end - hosts.start).div_ceil(parts.sole().node.nics.max(1)));
        let window = |path: &DmaPath| beyond::window(parts, link_rate, path.read_latency);
        world.hosts = hosts
            .map(|host| {
                let config = NicConfig { congestion, ..nic_config(parts, host) };
                let mut nic = Nic::new(config);
                if partitioned {
                    nic.set_pkeys(keys(&parts.partitions, host));
                }
                let beyond = Beyond::new(cluster, host - world.first_host, &mut nic, costs.tx_window, window);
                let mut host = Host::new(nic, Pcie::new(pcie), graph.uplink(EndpointId(host)).0 * vls, costs);
                host.set_beyond(beyond);
                host.buffered_at = (plan.levels > 1).then(Box::default);
                host
            })
            .collect();
        crate::faults::set_up(world, engine, streams.stream("loss", 0))?;
        large_pages(&world.lanes);
        large_pages(&world.wires);
        large_pages(&world.hosts);
    }
    Ok(worlds)
}

/// A network that can stand still for ever is not worth simulating, unless that is what is to be seen.
fn refuse_deadlock(fabric: &Fabric, router: &Router, routing: Routing) -> Result<(), EngineError> {
    let verdict = deadlock::verdict(fabric, router);
    if verdict.is_free() {
        return Ok(());
    }
    Err(EngineError::Deadlock { routing: routing.to_string(), verdict: verdict.describe(fabric) })
}

/// Gives each part the lanes of the links that leave it.
fn plug(worlds: &mut [World<'_>], cluster: &Cluster, pfc: Option<&Pfc>, plan: &Plan) {
    let parts = &cluster.parts;
    let graph = &cluster.fabric.graph;
    let switch = parts.switch.as_ref();
    let (layout, vls) = (Arc::clone(&worlds[0].layout), worlds[0].vls);
    for (number, link) in graph.links().iter().enumerate() {
        let pace = pace(link.rate);
        let delay = small(link.delay);
        let flow = |vl: u32| match pfc {
            Some(pfc) if plan.level(vl).pauses => {
                let pfc = plan.level(vl).pfc.as_ref().unwrap_or(pfc);
                // The pause frame on the wire and its propagation; the sender obeys at once.
                let reaction = small(link.rate.time(PAUSE_FRAME) + link.delay);
                // What the switch has, and at least what the standard asks for and two packets that are begun meanwhile.
                let needed = headroom(&headroom::Line { rate: link.rate, delay: link.delay, frame: parts.mtu, response: Span::ZERO });
                let headroom = bytes(pfc.headroom.value).max(bytes(Bytes(needed.0 + 2 * parts.mtu.0 + 1024)));
                Flow::Pause(PauseLimits { xoff: bytes(pfc.xoff.value), xon: bytes(pfc.xon.value), headroom, reaction })
            }
            Some(_) => Flow::Credit(MAX_BLOCKS),
            None if parts.flow_control == FlowControl::Lossy => Flow::Credit(MAX_BLOCKS),
            None => {
                let buffer = if link.to.0 >= graph.endpoint_count() {
                    switch.map_or(parts.sole().node.nic.rx_buffer.value, |s| s.buffer.value)
                } else {
                    parts.sole().node.nic.rx_buffer.value
                };
                Flow::Credit((plan.buffer(buffer, vl).0 / 64).min(u64::from(u32::MAX)) as u32)
            }
        };
        let id = LinkId(number as u32);
        let (owner, _) = layout.slots.of(id.0 * vls);
        if vls > 1 || plan.shaped {
            let switch = link.from.0.checked_sub(graph.endpoint_count());
            worlds[owner as usize].arbiters.push(Arbiter::new(plan.policy(switch), link.rate));
        }
        for vl in 0..vls {
            let mut lane = Channel::new(pace, delay, link.to.0, flow(vl));
            lane.part = layout.part_of_end(id) as u8;
            worlds[owner as usize].lanes.push(lane);
        }
    }
}

/// What may wait for a link of a switch that drops; nothing is dropped without one.
fn room(switch: Option<&Switch>) -> Room {
    match switch {
        None => Room::Endless,
        Some(switch) => match &switch.shared {
            Some(shared) => Room::Shared { total: shared.total.value.0, alpha: shared.alpha.value },
            None => Room::Own(switch.buffer.value.0),
        },
    }
}

/// Buckets so narrow that few events share one: with `endpoints` busy NICs an event happens every few picoseconds.
fn queue<E: Copy + Default>(endpoints: u32) -> EventQueue<E> {
    let width = (1u64 << 22) / u64::from(endpoints.max(1)).next_power_of_two();
    EventQueue::new(Span::from_ps(width.clamp(1 << 9, 1 << 16)), 8192)
}

fn pace(rate: Rate) -> u32 {
    ((8_000_000_000_000u128 << 16) / u128::from(rate.as_bps().max(1))).min(u128::from(u32::MAX)) as u32
}

fn small(span: Span) -> u32 {
    u32::try_from(span.as_ps()).unwrap_or(u32::MAX)
}

fn bytes(amount: Bytes) -> u32 {
    u32::try_from(amount.0).unwrap_or(u32::MAX)
}

fn nic_config(parts: &ResolvedCluster, host: u32) -> NicConfig {
    // Adapters with larger packets have them for other services only, where they do not say so.
    let standard = Mtu::from_bytes(parts.mtu).unwrap_or(Mtu::B4096).bytes();
    let datagram_mtu = parts.sole().node.nic.datagram_max.as_ref().map_or(standard, |most| **most);
    NicConfig {
        lid: Lid(host),
        link_layer: parts.link_layer.wire(),
        datagram_mtu,
        ip: Some(timing::ip(parts)),
        iwarp: timing::iwarp(parts),
        hfi: timing::onload(parts),
        ..NicConfig::default()
    }
}

fn nic_costs(parts: &ResolvedCluster, rate: Rate) -> NicCosts {
    let nic = &parts.sole().node.nic;
    NicCosts {
        tx_latency: nic.tx_latency.value.as_ps(),
        srd_latency: nic.srd_latency.as_ref().map_or(0, |latency| latency.as_ps()),
        message_interval: nic.message_interval.value.as_ps(),
        wqe_interval: nic.wqe_interval.value.as_ps(),
        read_interval: nic.read_interval.value.as_ps(),
        atomic_latency: nic.atomic_latency.value.as_ps(),
        recv_latency: nic.recv_latency.value.as_ps(),
        read_ahead: ReadAhead { initial: nic.read_ahead.value, growth: nic.read_ahead_growth.value },
        cqe: nic.cqe_size.value,
        tx_window: beyond::window(parts, rate, timing::local_read(parts)),
        contexts: timing::contexts(nic),
    }
}
