//! From the workload of a lab to messages, and to the engine that carries them.

use std::sync::Arc;

use crate::training::of_lab::PreparedStep;
use crate::{Capture, EngineChoice, OpenPattern, ResolvedLab, Training, Workload};
use fabriscope_capture::{conversation, replay};
use fabriscope_catalog::{ResolvedCluster, remedy};
use fabriscope_engine::{
    Cluster, Connections, DeadlockPolicy, EngineError, FastForward, PacketOrder, RunOptions, Service, Spraying, library,
};
use fabriscope_fabric::{Coordinates, Fabric, Routing};
use fabriscope_schedule::Schedule;
use fabriscope_traffic::{Config, Dims, Pattern, PatternError, Sides, recursive_doubling, ring_all_reduce, schedule};
use fabriscope_units::{Bytes, Remedy};
use miette::Diagnostic;

use crate::error::LabError;

/// The messages of a workload, the service that carries them, and what a person should know of them.
pub struct Traffic {
    kind: Kind,
    /// Size of a message, or of the buffer of an operation.
    pub bytes: Bytes,
    /// The service that carries them.
    pub transport: Service,
    /// Receivers take packets in any order.
    pub any_order: bool,
    /// Messages that the busiest receiver gets, where that does not depend on chance.
    pub received: Option<u64>,
    /// What a person should know of them.
    pub notes: Vec<String>,
}

enum Kind {
    Pattern(Config),
    RingAllReduce,
    RecursiveDoubling,
    /// Worked out already.
    Ready(Arc<Schedule>),
}

impl Traffic {
    /// How many messages there are, and how many pairs of `nodes` hosts exchange some; nothing where they exist already.
    pub fn messages(&self, nodes: u32) -> Option<(u64, u64)> {
        let n = u64::from(nodes);
        Some(match &self.kind {
            Kind::Pattern(Config { pattern: Pattern::AllToAll, .. }) => (n * (n - 1), n * (n - 1)),
            Kind::Pattern(Config { pattern: Pattern::Incast { senders, .. }, .. }) => ((*senders).into(), (*senders).into()),
            Kind::Pattern(config) => {
                let each = u64::from(config.messages).max(self.received.unwrap_or(1));
                (n * each, n * each.min(n - 1))
            }
            Kind::RingAllReduce => (2 * n * (n - 1), n),
            Kind::RecursiveDoubling => (n * u64::from(n.ilog2() + 2), n * u64::from(n.ilog2() + 2)),
            Kind::Ready(_) => return None,
        })
    }
    /// Who sends what to whom.
    pub fn schedule(&self, nodes: u32, seed: u64) -> Result<Arc<Schedule>, PatternError> {
        Ok(Arc::new(match &self.kind {
            Kind::Pattern(config) => schedule(nodes, &Config { sides: sides(self.transport, config.sides), ..*config }, seed)?,
            Kind::RingAllReduce => ring_all_reduce(nodes, self.bytes)?,
            Kind::RecursiveDoubling => recursive_doubling(nodes, self.bytes)?,
            Kind::Ready(schedule) => return Ok(Arc::clone(schedule)),
        }))
    }
    /// The messages of a step of training.
    pub(crate) fn of_step(work: &Training, step: &PreparedStep) -> Traffic {
        let (transport, any_order) = (work.transport, work.any_order);
        Traffic { kind: Kind::Ready(step.schedule()), bytes: Bytes::ZERO, transport, any_order, received: None, notes: step.notes() }
    }
}

/// A library over datagrams has messages with two sides only.
pub fn sides(transport: Service, sides: Sides) -> Sides {
    if matches!(transport, Service::Ud | Service::UetUud) { Sides::Two } else { sides }
}

/// The messages of a workload; `None` for those that are no messages of a pattern.
pub fn traffic(workload: &Workload, cluster: &Cluster) -> Option<Traffic> {
    let nodes = cluster.ranks();
    let of = |kind, bytes, transport, any_order, received| Traffic { kind, bytes, transport, any_order, received, notes: Vec::new() };
    let plain = |pattern, bytes, transport, any_order, received| {
        of(Kind::Pattern(Config::new(pattern, bytes)), bytes, transport, any_order, received)
    };
    Some(match workload {
        Workload::Permutation(w) => plain(Pattern::Permutation, w.size, w.transport, w.any_order, Some(1)),
        Workload::Incast(w) => {
            let pattern = Pattern::Incast { target: 0, senders: w.senders };
            plain(pattern, w.size, w.transport, w.any_order, Some(w.senders.into()))
        }
        Workload::AllToAll(w) => plain(Pattern::AllToAll, w.size, w.transport, w.any_order, Some(u64::from(nodes) - 1)),
        Workload::Shift(w) => plain(Pattern::Shift { distance: w.by }, w.size, w.transport, w.any_order, Some(1)),
        Workload::Ring(w) => plain(Pattern::Shift { distance: 1 }, w.size, w.transport, w.any_order, Some(1)),
        Workload::Tornado(w) => {
            plain(Pattern::Tornado { dims: dims(&cluster.fabric, cluster.ranks()) }, w.size, w.transport, w.any_order, Some(1))
        }
        Workload::Transpose(w) => plain(Pattern::Transpose, w.size, w.transport, w.any_order, Some(1)),
        Workload::BitComplement(w) => plain(Pattern::BitComplement, w.size, w.transport, w.any_order, Some(1)),
        Workload::Adversarial(w) => {
            let mut traffic = plain(Pattern::Adversarial { group: group(&cluster.fabric) }, w.size, w.transport, w.any_order, None);
            traffic.notes.push(format!("groups of {} hosts, each sends to the next", group(&cluster.fabric)));
            traffic
        }
        Workload::Halo(w) => {
            let pattern = Pattern::Halo { dims: Dims::new(&w.grid), periodic: w.periodic };
            let neighbours = w.grid.iter().map(|&size| if size > 2 { 2 } else { u64::from(size > 1) }).sum();
            plain(pattern, w.size, w.transport, w.any_order, Some(neighbours))
        }
        Workload::HotSpot(w) => {
            // 2³² · share, and never more than certainty.
            let share = (w.share.clamp(0.0, 1.0) * 4_294_967_295.0) as u32;
            let config = Config { messages: w.messages, ..Config::new(Pattern::HotSpot { targets: w.targets, share }, w.size) };
            of(Kind::Pattern(config), w.size, w.transport, w.any_order, None)
        }
        Workload::Uniform(w) => {
            let config = Config { messages: w.messages.div_ceil(nodes), ..Config::new(Pattern::Uniform, w.size) };
            let mut uniform = of(Kind::Pattern(config), w.size, w.transport, w.any_order, None);
            if !w.messages.is_multiple_of(nodes) {
                let (all, each) = (w.messages, config.messages);
                uniform.notes.push(format!("{all} messages do not divide evenly among {nodes} hosts: each sends {each}"));
            }
            uniform
        }
        Workload::RingAllReduce(w) => of(Kind::RingAllReduce, w.size, w.transport, w.any_order, None),
        Workload::RecursiveDoubling(w) => of(Kind::RecursiveDoubling, w.size, w.transport, w.any_order, None),
        _ => return None,
    })
}

/// The messages of a capture.
pub fn captured(capture: &Capture, cluster: &Cluster) -> Result<Traffic, LabError> {
    let file = capture.file.display();
    let unread = |error: std::io::Error| LabError::refused(format!("{file}: {error}"), "see [workload.capture] of the lab");
    let refused = |error: &dyn Diagnostic| {
        let (message, help) = error.halves("see [workload.capture] of the lab");
        LabError::refused(format!("{file}: {message}"), help)
    };
    let size = std::fs::metadata(&capture.file).map_err(unread)?.len();
    if size > LARGEST_CAPTURE {
        let message = format!("{file}: it has {size} bytes, and {LARGEST_CAPTURE} can be read");
        return Err(LabError::refused(message, "shorten its packets: editcap -s 128"));
    }
    let bytes = std::fs::read(&capture.file).map_err(unread)?;
    let found = conversation(&bytes).map_err(|error| refused(&error))?;
    let schedule = replay(&found, &capture.hosts, cluster.ranks()).map_err(|error| refused(&error))?;
    let mut notes = vec![format!("{} messages of {} hosts in {} RoCE packets", found.messages.len(), found.hosts.len(), found.packets)];
    for (count, what) in [
        (found.repeats, "packets were seen before: sent again, or at a second port"),
        (found.incomplete, "messages are incomplete and left out"),
        (found.others, "packets are not RoCE version 2"),
    ] {
        notes.extend((count > 0).then(|| format!("{count} {what}")));
    }
    let bytes = found.messages.iter().map(|message| message.bytes).max().unwrap_or_default();
    let kind = Kind::Ready(Arc::new(schedule));
    Ok(Traffic { kind, bytes, transport: capture.transport, any_order: capture.any_order, received: None, notes })
}

/// Basis: assumed; what fits into memory three times.
const LARGEST_CAPTURE: u64 = 1 << 32;

/// The pattern of an open loop on a cluster.
pub fn open_pattern(pattern: OpenPattern, cluster: &Cluster) -> Pattern {
    match pattern {
        OpenPattern::Uniform => Pattern::Uniform,
        OpenPattern::Permutation => Pattern::Permutation,
        OpenPattern::Adversarial => Pattern::Adversarial { group: group(&cluster.fabric) },
        OpenPattern::Tornado => Pattern::Tornado { dims: dims(&cluster.fabric, cluster.ranks()) },
        OpenPattern::Transpose => Pattern::Transpose,
        OpenPattern::BitComplement => Pattern::BitComplement,
    }
}

/// Endpoints in a group: of a dragonfly, of the largest subtree below the top of a tree, else half of them.
pub fn group(fabric: &Fabric) -> u32 {
    let endpoints = match &fabric.coordinates {
        Coordinates::Dragonfly(groups) => fabric.graph.endpoint_count() / groups.groups().max(1),
        Coordinates::Tree(tree) if tree.height() > 1 => tree.span(tree.height() - 1).min(u64::from(u32::MAX)) as u32,
        _ => fabric.graph.endpoint_count() / 2,
    };
    endpoints.max(1)
}

/// The dimensions that the first `endpoints` stand in, the fastest first; one where the topology has none.
pub fn dims(fabric: &Fabric, endpoints: u32) -> Dims {
    match &fabric.coordinates {
        Coordinates::Grid(grid) => {
            let switches = grid.dimensions().iter().map(|dimension| dimension.size);
            // Hosts of one switch stand beside each other; none of them turns round.
            let sizes: Vec<u32> = std::iter::once(grid.hosts()).filter(|&hosts| hosts > 1).chain(switches).collect();
            Dims::new(&sizes)
        }
        _ => Dims::new(&[endpoints]),
    }
}

/// How the runs of a lab are carried out.
#[must_use]
pub fn options(lab: &ResolvedLab) -> RunOptions {
    let deadlock = if lab.lab.allow_deadlock { DeadlockPolicy::Allow } else { DeadlockPolicy::Refuse };
    let fast_forward = if lab.lab.fast_forward { FastForward::Steady } else { FastForward::Never };
    RunOptions { deadlock, faults: lab.faults.clone(), fast_forward, ..RunOptions::default() }
}

/// Why an engine did not run a job, with what to do about it.
#[must_use]
pub fn refused(error: EngineError) -> LabError {
    match error {
        EngineError::Unsupported(refused) => LabError::refused(refused.to_string(), refused.help),
        error => {
            // Programs and set-up calls say what is wrong as text, with its remedy.
            let text = error.in_full();
            let (message, help) = remedy(&text, "see the workload and the cluster of the lab");
            LabError::refused(message, help)
        }
    }
}

/// Whether receivers take what a routing that reorders sends them.
pub fn keeps_up(lab: &ResolvedLab, routing: Routing, service: Service, any_order: bool) -> Result<(), String> {
    if any_order || service.any_order() || !routing.reorders() {
        return Ok(());
    }
    let name = lab.name();
    Err(format!("{name}: the routing `{routing}` sends packets of one flow over several paths, but the receivers want them in order"))
}

/// How connections are set up, if the routing of the lab and its receivers go together.
///
/// # Errors
/// Receivers that want packets in order, and a routing that reorders them.
pub fn connections(lab: &ResolvedLab, transport: Service, any_order: bool) -> Result<Connections, LabError> {
    let any_order = any_order || lab.cluster.takes_any_order();
    if lab.cluster.routing.reorders() && lab.lab.engine == EngineChoice::Packet {
        let name = lab.lab.workload.name();
        keeps_up(lab, lab.cluster.routing, transport, any_order).map_err(|message| {
            LabError::refused(message, format!("add any_order = true to [workload.{name}], or choose another routing"))
        })?;
    }
    Ok(Connections { order: order(any_order), ..settings(lab, transport) })
}

/// What a lab says of connections over a transport, but for the order of packets.
pub(crate) fn settings(lab: &ResolvedLab, transport: Service) -> Connections {
    Connections {
        recovery: lab.lab.recovery.unwrap_or_default(),
        level: lab.level,
        pkey: lab.pkey,
        rate: lab.lab.rate_limit,
        ..over(&lab.cluster, transport)
    }
}

/// How a transport is set up on a cluster where nothing else is asked for, but for the order of packets.
#[must_use]
pub fn over(parts: &ResolvedCluster, transport: Service) -> Connections {
    Connections {
        service: transport,
        spraying: spraying(parts.routing.reorders()),
        library: if transport == Service::Ud { library(parts) } else { None },
        ..Connections::default()
    }
}

/// The order in which receivers take packets.
pub fn order(any: bool) -> PacketOrder {
    if any { PacketOrder::Any } else { PacketOrder::Strict }
}

/// Whether each packet of a message takes its own path.
pub fn spraying(packets: bool) -> Spraying {
    if packets { Spraying::PerPacket } else { Spraying::PerFlow }
}
