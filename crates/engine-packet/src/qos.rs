//! From `[qos]` of a cluster to lanes, arbiters and thresholds of a run.
//!
//! Lanes of a link are numbered level by level: lane `level · r + v` is what the routing, which has `r` lanes of its own, calls
//! `v`. A packet's service level chooses the level at every port anew, by the table of the switch, or of the adapter.

use std::sync::Arc;

use fabriscope_catalog::{
    Ecn as EcnPart, EthernetQos, FlowControl, FullTables, Pfc, PortPairs, Qos, ResolvedCluster, SlingshotQos, VlQos, VlWeight,
};
use fabriscope_fabric::{Graph, LinkId};
use fabriscope_switch::arbiter::{Class, Classes, Ets, Policy, Selection, VlEntry, VlTables};
use fabriscope_switch::{Ecn, SharedBuffer};
use fabriscope_units::Bytes;

use crate::links::QueueLimit;

/// The level of each service level.
type Map = [u8; 16];

/// What a run knows of quality of service; one level of all where the cluster says nothing.
#[derive(Debug, Clone)]
pub(crate) struct QosPlan {
    /// How many levels there are, and how many lanes the routing has within each.
    pub levels: u32,
    pub per_level: u32,
    /// Tables of adapters, of switches, and of switches with tables of their own.
    ports: Vec<Port>,
    /// Which of these each switch has, where some have their own.
    of_switch: Vec<u8>,
    /// What differs from level to level.
    classes: Vec<Level>,
    /// Some class has a largest rate or a guaranteed one.
    pub shaped: bool,
    /// How the buffer of a port is divided among the levels; without it each has all of it.
    buffers: Option<VlQos>,
}

#[derive(Debug, Clone)]
struct Port {
    map: Map,
    policy: Policy,
    /// Where packets between two ports go another way.
    pairs: Vec<PortPairs>,
}

/// What is set for one level.
#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    /// The priority, virtual lane or traffic class that people know it as.
    pub number: u8,
    /// Its lanes obey pause frames, with these thresholds where they are not the switch's.
    pub pauses: bool,
    pub pfc: Option<Pfc>,
    /// Its marking, where it is not the switch's.
    pub ecn: Option<Ecn>,
    /// Its part of a shared buffer, where it is not the switch's.
    pub alpha: Option<f64>,
}

/// Places in `ports`.
const ADAPTERS: usize = 0;
const SWITCHES: usize = 1;

impl QosPlan {
    /// The plan of a cluster whose routing has `per_level` lanes.
    pub fn new(parts: &ResolvedCluster, graph: &Graph, per_level: u32) -> QosPlan {
        let lossless = parts.flow_control != FlowControl::Lossy;
        match &parts.qos {
            Some(Qos::InfiniBand(qos)) => vls(qos, graph, per_level),
            Some(Qos::Ethernet(qos)) => ethernet(qos, per_level, lossless),
            Some(Qos::Slingshot(qos)) => slingshot(qos, per_level, lossless),
            _ => QosPlan::single(per_level, lossless),
        }
    }

    fn single(per_level: u32, lossless: bool) -> QosPlan {
        QosPlan::uniform([0; 16], Policy::even(per_level as u8), vec![Level { pauses: lossless, ..Level::default() }], per_level)
    }

    /// The same tables at all ports.
    fn uniform(map: Map, policy: Policy, classes: Vec<Level>, per_level: u32) -> QosPlan {
        let port = Port { map, policy, pairs: Vec::new() };
        let levels = classes.len() as u32;
        QosPlan { levels, per_level, ports: vec![port.clone(), port], of_switch: Vec::new(), classes, shaped: false, buffers: None }
    }

    fn port(&self, switch: Option<u32>) -> &Port {
        match switch {
            None => &self.ports[ADAPTERS],
            Some(switch) => &self.ports[self.of_switch.get(switch as usize).map_or(SWITCHES, |&port| usize::from(port))],
        }
    }
    /// The lane at an adapter of a packet with service level `sl`.
    #[inline]
    pub fn lane_out(&self, sl: u32) -> u32 {
        u32::from(self.port(None).map[(sl & 15) as usize]) * self.per_level
    }
    /// The same, where the routing chose `vl`, of a packet that crosses a switch from the link `input` to the link `output`.
    #[inline]
    pub fn lane_across(&self, graph: &Graph, switch: u32, [input, output]: [LinkId; 2], sl: u32, vl: u32) -> u32 {
        let port = self.port(Some(switch));
        let level = match &port.pairs[..] {
            [] => port.map[(sl & 15) as usize],
            pairs => {
                let (from, to) = (graph.link(input).to_port.0, graph.link(output).from_port.0);
                let own = pairs.iter().find(|pair| pair.covers(u32::from(from), u32::from(to)));
                own.map_or(port.map, PortPairs::map)[(sl & 15) as usize]
            }
        };
        u32::from(level) * self.per_level + vl
    }
    /// What a lane has of a port's buffer.
    pub fn buffer(&self, buffer: Bytes, lane: u32) -> Bytes {
        self.buffers.as_ref().map_or(buffer, |qos| qos.buffer(buffer, lane / self.per_level))
    }
    /// How the lanes of a port of a switch, or of an adapter, share its wire.
    pub fn policy(&self, switch: Option<u32>) -> &Policy {
        &self.port(switch).policy
    }
    /// What is set for the level of a lane.
    pub fn level(&self, lane: u32) -> &Level {
        &self.classes[((lane / self.per_level) as usize).min(self.classes.len() - 1)]
    }
    /// Marking by lane of a link, `usual` where nothing else is said.
    pub fn ecn(&self, usual: Option<Ecn>) -> Vec<Option<Ecn>> {
        (0..self.levels * self.per_level).map(|lane| self.level(lane).ecn.or(usual)).collect()
    }
    /// What may wait by lane of a link, `usual` for lanes that drop.
    pub fn queue_limits(&self, usual: QueueLimit, pauses: bool) -> Vec<QueueLimit> {
        let room = |lane: u32| match (self.level(lane), usual) {
            (level, _) if pauses && level.pauses => QueueLimit::Unlimited,
            (Level { alpha: Some(alpha), .. }, QueueLimit::Shared(buffer)) => QueueLimit::Shared(SharedBuffer { alpha: *alpha, ..buffer }),
            _ => usual,
        };
        (0..self.levels * self.per_level).map(room).collect()
    }
    /// The number of each level, as people know it.
    pub fn numbers(&self) -> Vec<u8> {
        self.classes.iter().map(|level| level.number).collect()
    }
    /// Whether some level drops what does not fit.
    pub fn drops(&self) -> bool {
        self.classes.iter().any(|level| !level.pauses)
    }
}

/// The lanes of a level.
fn lanes(level: usize, per_level: u32) -> impl Iterator<Item = u8> {
    (0..per_level).map(move |vl| (level as u32 * per_level + vl) as u8)
}

fn mask(level: usize, per_level: u32) -> u16 {
    lanes(level, per_level).fold(0, |mask, lane| mask | 1 << lane)
}

fn vls(qos: &VlQos, graph: &Graph, per_level: u32) -> QosPlan {
    // Each lane of a group has the weight of the group's entry.
    let entries = |table: &[VlWeight]| -> Vec<VlEntry> {
        table
            .iter()
            .flat_map(|entry| lanes(entry.vl as usize, per_level).map(|lane| VlEntry { lane, weight: entry.weight as u8 }))
            .collect()
    };
    let port = |full: &FullTables| {
        let tables = VlTables::new(&entries(&full.high), &entries(&full.low), full.high_limit, false);
        Port { map: full.sl2vl, policy: Policy::InfiniBand(Arc::new(tables)), pairs: Vec::new() }
    };
    let mut ports = vec![port(&qos.full(qos.ca.as_ref())), port(&qos.full(None))];
    let mut of_switch = Vec::new();
    for own in &qos.switches {
        of_switch.resize(graph.switch_count() as usize, SWITCHES as u8);
        own.switches.iter().for_each(|&switch| of_switch[switch as usize] = ports.len() as u8);
        ports.push(Port { pairs: own.pairs.clone(), ..port(&qos.full(Some(&own.tables))) });
    }
    let classes = (0..qos.max_vls).map(|vl| Level { number: vl as u8, pauses: true, ..Level::default() }).collect();
    QosPlan { levels: qos.max_vls, per_level, ports, of_switch, classes, shaped: false, buffers: Some(qos.clone()) }
}

fn ethernet(qos: &EthernetQos, per_level: u32, lossless: bool) -> QosPlan {
    let (mut map, mut masks, mut levels) = ([0; 16], vec![0u16; qos.classes.len()], Vec::new());
    for (lane, (priority, class)) in qos.priorities().enumerate() {
        (map[usize::from(priority)], map[usize::from(priority) + 8]) = (lane as u8, lane as u8);
        masks[class] |= mask(lane, per_level);
        let of = &qos.classes[class];
        levels.push(Level {
            number: priority,
            pauses: qos.pauses(priority, lossless),
            pfc: of.pfc.clone(),
            ecn: of.ecn.as_ref().map(marking),
            alpha: of.alpha,
        });
    }
    let selection = |share: Option<u32>| share.map_or(Selection::Strict, |share| Selection::Share(share as u8));
    let classes: Vec<(Selection, u16)> = qos.classes.iter().zip(masks).map(|(class, mask)| (selection(class.share), mask)).collect();
    QosPlan::uniform(map, Policy::Ethernet(Arc::new(Ets::new(&classes))), levels, per_level)
}

fn slingshot(qos: &SlingshotQos, per_level: u32, lossless: bool) -> QosPlan {
    let written = qos.classes();
    let class = |(number, class): (usize, &fabriscope_catalog::TrafficClass)| Class {
        priority: class.priority as u8,
        minimum: class.minimum as u8,
        maximum: class.maximum as u8,
        lanes: mask(number, per_level),
    };
    let classes: Vec<Class> = written.iter().enumerate().map(class).collect();
    let map = std::array::from_fn(|sl| if sl < classes.len() { sl as u8 } else { 0 });
    let levels = (0..classes.len()).map(|class| Level { number: class as u8, pauses: lossless, ..Level::default() }).collect();
    QosPlan { shaped: true, ..QosPlan::uniform(map, Policy::Slingshot(Arc::new(Classes::new(&classes))), levels, per_level) }
}

/// Thresholds of a part as the switch takes them.
pub(crate) fn marking(ecn: &EcnPart) -> Ecn {
    Ecn::new(ecn.plain())
}
