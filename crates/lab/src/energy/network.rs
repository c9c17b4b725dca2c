//! The parts of a network that draw power, and what they draw while nothing happens and at full load.

use std::collections::BTreeMap;

use fabriscope_catalog::{BitsCounted, Catalog, DevicePower, Kind, LinkRest, ResolvedCluster};
use fabriscope_fabric::{EndpointId, Fabric, LinkId, Node, distances_to_endpoints};
use fabriscope_units::{EnergyPerBit, Power, Rate, Ratio};

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A switch.
    Switch,
    /// A network adapter.
    Adapter,
    /// A cable with the optics in it.
    Cable,
}

impl PartKind {
    /// What several of them are called.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            PartKind::Switch => "switches",
            PartKind::Adapter => "adapters",
            PartKind::Cable => "cables",
        }
    }
}

/// What a network does, to ask what it draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All links are up and carry nothing; they rest where links of the cluster do.
    Idle,
    /// All links carry as much as they can, both ways.
    Full,
}

/// All parts of a network that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPower {
    /// What they are.
    pub kind: PartKind,
    /// The name of the part; of cables with their rate.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// Ports of all of them that have a cable.
    pub ports_up: u64,
    /// Ports of all of them.
    pub ports: u64,
    /// What one of them draws; nothing where no figures are known.
    pub figures: Option<Figures>,
    /// What their ports can carry, one way: the rates of those that are up.
    rate: Rate,
}

/// The figures of a part, ready to compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Whatever its ports do.
    pub base: Power,
    /// One direction of a port that is up.
    pub direction: Power,
    /// The same at rest.
    pub rests: Power,
    /// What a bit costs.
    pub per_bit: EnergyPerBit,
    /// Which bits.
    pub bits: BitsCounted,
}

/// The parts of a network, and where each is.
#[derive(Debug, Clone)]
pub struct NetworkPower {
    /// The parts.
    pub parts: Vec<PartPower>,
    /// Nodes of the cluster.
    pub nodes: u32,
    /// What all adapters can send.
    pub injection: Rate,
    /// What links do while nothing is to be sent.
    pub rest: Option<LinkRest>,
    /// The parts of each link: who sends, who receives, the cable; none where an endpoint has no node.
    links: Vec<Option<Joined>>,
}

/// The parts that a link joins, as places in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) cable: u32,
}

impl NetworkPower {
    /// The network of a cluster, with the figures of a catalogue.
    #[must_use]
    pub fn of(catalog: &Catalog, cluster: &ResolvedCluster, fabric: &Fabric) -> NetworkPower {
        let graph = &fabric.graph;
        let mut parts = Parts { catalog, rest: cluster.line.rest.as_ref(), by_name: BTreeMap::new(), all: Vec::new() };
        let distances = distances_to_endpoints(graph);
        let mut of_vertex = Vec::new();
        for endpoint in 0..graph.endpoint_count() {
            let part = cluster.adapter_at(endpoint).map(|(group, ..)| {
                let nic = &cluster.groups[group].node.nic;
                parts.device((PartKind::Adapter, Kind::Nic), &nic.name, 1)
            });
            of_vertex.push(part);
        }
        for switch in graph.switches() {
            let distance = distances.get((graph.endpoint_count() + switch.0) as usize).copied().unwrap_or(1);
            // Where nodes are wired to each other, what switches is a part of them that nobody has figures for.
            let (name, ports) =
                cluster.switch_at(distance).map_or((BUILT_IN, u32::from(graph.port_count(switch))), |part| (&part.name, part.ports));
            let part = Some(parts.device((PartKind::Switch, Kind::Switch), name, ports));
            of_vertex.push(part);
        }
        let mut links = vec![None; graph.links().len()];
        for cable in 0..graph.cable_count() {
            let link = graph.link(LinkId(2 * cable));
            let (Some(Some(a)), Some(Some(b))) = (of_vertex.get(link.from.0 as usize), of_vertex.get(link.to.0 as usize)) else { continue };
            let host = [link.from, link.to].into_iter().find_map(|vertex| match graph.node(vertex) {
                Node::Endpoint(EndpointId(endpoint)) => cluster.adapter_at(endpoint),
                Node::Switch(_) => None,
            });
            let part = host.map_or(&cluster.cable, |(group, ..)| &cluster.groups[group].cable);
            let (a, b, cable_part) = (*a, *b, parts.cable(&part.name, link.rate));
            for (number, from, to) in [(2 * cable, a, b), (2 * cable + 1, b, a)] {
                let sender = &mut parts.all[from as usize];
                sender.ports_up += 1;
                sender.rate = Rate::from_bps(sender.rate.as_bps().saturating_add(link.rate.as_bps()));
                links[number as usize] = Some(Joined { from, to, cable: cable_part });
            }
        }
        let injection = |part: &&PartPower| part.kind == PartKind::Adapter;
        let injection = Rate::from_bps(parts.all.iter().filter(injection).map(|part| part.rate.as_bps()).sum());
        NetworkPower { parts: parts.all, nodes: cluster.nodes(), injection, rest: cluster.line.rest.clone(), links }
    }

    /// The parts of a link.
    pub(super) fn joined(&self, link: usize) -> Option<Joined> {
        self.links.get(link).copied().flatten()
    }

    /// How many links there are, those without a node at an end included.
    pub(super) fn link_count(&self) -> usize {
        self.links.len()
    }

    /// What all parts of which figures are known draw.
    #[must_use]
    pub fn draws(&self, state: State) -> Power {
        let known = self.parts.iter().filter_map(|part| part.draws(state, self.rest.is_some()));
        known.fold(Power::ZERO, Power::saturating_add)
    }

    /// The parts without figures.
    pub fn unknown(&self) -> impl Iterator<Item = &PartPower> {
        self.parts.iter().filter(|part| part.figures.is_none())
    }
}

impl PartPower {
    /// What all of them draw; nothing where that is not known.
    #[must_use]
    pub fn draws(&self, state: State, rests: bool) -> Option<Power> {
        let figures = self.figures?;
        let direction = if state == State::Idle && rests { figures.rests } else { figures.direction };
        // Both directions of each port; of a cable each of its two ends is such a port.
        let ports = direction.saturating_mul(2).saturating_mul(self.ports_up);
        let traffic = match (state, figures.bits) {
            (State::Idle, _) => Power::ZERO,
            (State::Full, BitsCounted::Sent) => figures.per_bit.at(self.rate),
            (State::Full, BitsCounted::Both) => figures.per_bit.at(self.rate).saturating_mul(2),
        };
        Some(figures.base.saturating_mul(self.count).saturating_add(ports).saturating_add(traffic))
    }
}

/// The parts found so far.
struct Parts<'a> {
    catalog: &'a Catalog,
    rest: Option<&'a LinkRest>,
    by_name: BTreeMap<(PartKind, String), u32>,
    all: Vec<PartPower>,
}

impl Parts<'_> {
    fn place(&mut self, kind: PartKind, name: String, figures: impl FnOnce(&Self) -> Option<Figures>) -> u32 {
        if let Some(place) = self.by_name.get(&(kind, name.clone())) {
            return *place;
        }
        let figures = figures(self);
        let place = self.all.len() as u32;
        self.all.push(PartPower { kind, name: name.clone(), count: 0, ports_up: 0, ports: 0, figures, rate: Rate::default() });
        self.by_name.insert((kind, name), place);
        place
    }

    /// One more switch or adapter of this name.
    fn device(&mut self, (kind, of): (PartKind, Kind), name: &str, ports: u32) -> u32 {
        let place = self.place(kind, name.to_owned(), |parts| {
            let found = parts.catalog.power_of(of, name)?;
            figures(found.device.as_ref()?, found.bits(), parts.rest)
        });
        let part = &mut self.all[place as usize];
        part.count += 1;
        part.ports += u64::from(ports);
        place
    }

    /// One more cable: it has two ends, each of which is half a port of nothing else.
    fn cable(&mut self, name: &str, rate: Rate) -> u32 {
        let place = self.place(PartKind::Cable, format!("{name}, {rate}"), |parts| {
            let power = parts.catalog.power_of(Kind::Cable, name)?.at_end(rate)?;
            // Optics do not rest with the link.
            let direction = power.share(HALF);
            Some(Figures { base: Power::ZERO, direction, rests: direction, per_bit: EnergyPerBit::default(), bits: BitsCounted::Sent })
        });
        let part = &mut self.all[place as usize];
        part.count += 1;
        part.ports += 2;
        part.ports_up += 2;
        place
    }
}

/// The figures of a device whose links rest as these do.
fn figures(device: &DevicePower, bits: BitsCounted, rest: Option<&LinkRest>) -> Option<Figures> {
    let direction = device.port.share(HALF);
    let asleep = direction.share(*device.at_rest);
    let rests = match rest.and_then(|rest| rest.lanes) {
        // Some lanes stay awake, the others sleep: asleep + lanes · (awake − asleep).
        Some(lanes) => asleep.saturating_add(direction.checked_sub(asleep).unwrap_or_default().share(lanes)),
        None => asleep,
    };
    Some(Figures { base: device.base(bits)?, direction, rests, per_bit: *device.per_bit, bits })
}

/// What switches where a cluster names no switch.
const BUILT_IN: &str = "built into nodes";

/// A direction of a port is half of it.
const HALF: Ratio = match Ratio::new(1, 2) {
    Some(half) => half,
    None => unreachable!(),
};
