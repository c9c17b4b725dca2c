//! Routing by tables: the address that the entropy selects, one load for the port and one for its link.

use super::service_levels::ServiceLevels;
use super::skeleton::Plugs;
use super::tables::Tables;
use crate::graph::{EndpointId, LinkId, Node, SwitchId};
use crate::routing::{Head, Hop, Route, Routing, RoutingError, SwitchView};
use crate::topology::{Coordinates, Fabric};

/// Tables on one fabric, checked to lead from everywhere to everywhere.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Forward {
    tables: std::sync::Arc<Tables>,
    plugs: Plugs,
    longest: u32,
    proof: Option<&'static str>,
    /// Whether packets may come to a switch that has no entry for them.
    partial: bool,
    /// Service levels, where paths have some.
    levels: Option<Levels>,
}

/// Service levels, and where packets get theirs.
#[derive(Clone, Debug)]
struct Levels {
    levels: std::sync::Arc<ServiceLevels>,
    /// The switch of each endpoint.
    home: Vec<SwitchId>,
    /// By link: the endpoint that it comes from, and [`u32::MAX`] for those between switches.
    source: Vec<u32>,
}

impl Forward {
    /// Follows every address of the endpoints in use from every switch that has some.
    pub(super) fn new(
        fabric: &Fabric,
        routing: Routing,
        tables: std::sync::Arc<Tables>,
        proof: Option<&'static str>,
    ) -> Result<Forward, RoutingError> {
        let in_use = match &fabric.coordinates {
            Coordinates::Irregular(irregular) => irregular.in_use,
            _ => fabric.graph.endpoint_count(),
        };
        let survey = survey_among(fabric, &tables, in_use);
        if let Some(fault) = survey.faults.first() {
            let remedy = "compare the tables with the fabric, or choose min_hop or up_down to make new ones";
            return Err(RoutingError::Cannot { routing, what: format!("its tables do not lead {}", fault.tell(fabric)), remedy });
        }
        Ok(Forward {
            plugs: Plugs::new(fabric),
            tables,
            longest: survey.longest,
            proof,
            partial: in_use < fabric.graph.endpoint_count(),
            levels: None,
        })
    }
    /// The same with tables that lead to some places only.
    pub(super) fn partial(fabric: &Fabric, tables: std::sync::Arc<Tables>) -> Forward {
        let longest = survey(fabric, &tables).longest;
        Forward { plugs: Plugs::new(fabric), tables, longest, proof: None, partial: true, levels: None }
    }
    /// The same with service levels.
    pub(super) fn with_levels(mut self, fabric: &Fabric, levels: ServiceLevels) -> Forward {
        let graph = &fabric.graph;
        let home = graph.endpoints().map(|endpoint| match graph.node(graph.link(graph.uplink(endpoint)).to) {
            Node::Switch(at) => at,
            // Back to back, which no tables are made for.
            Node::Endpoint(_) => SwitchId(0),
        });
        let source = graph.links().iter().map(|link| match graph.node(link.from) {
            Node::Endpoint(endpoint) => endpoint.0,
            Node::Switch(_) => u32::MAX,
        });
        self.levels = Some(Levels { levels: std::sync::Arc::new(levels), home: home.collect(), source: source.collect() });
        self
    }
    #[inline]
    fn hop(&self, at: SwitchId, head: Head, path: u32) -> Hop {
        let link = match self.tables.port(at, head.dest, path) {
            Some(port) => self.plugs.link(at, u32::from(port.0)),
            // Switches that no packet for this destination can come to have no entry; going back is a link that is there.
            None => head.input.reverse(),
        };
        let Some(levels) = &self.levels else { return Hop { link, vl: head.vl, via: 0 } };
        // The level is in the packet's header from its source on.
        let level = match levels.source[head.input.index()] {
            u32::MAX => head.via as u8,
            _ => levels.levels.level(at, head.dest),
        };
        let leaves = levels.home[head.dest.index()] == at;
        Hop { link, vl: if leaves { 0 } else { levels.levels.lane(level, link) }, via: u16::from(level) }
    }
}

impl Route for Forward {
    #[inline]
    fn output(&self, at: SwitchId, head: Head, _: &mut impl SwitchView) -> Hop {
        self.hop(at, head, head.entropy)
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        let is_there = |&path: &u32| !self.partial || self.tables.port(at, head.dest, path).is_some();
        (0..1 << self.tables.lmc()).filter(is_there).for_each(|path| visit(self.hop(at, head, path)));
    }
    fn lanes(&self) -> u8 {
        self.levels.as_ref().map_or(1, |levels| levels.levels.lanes())
    }
    fn longest(&self) -> u32 {
        self.longest
    }
    fn proof(&self) -> Option<&'static str> {
        self.proof
    }
}

/// Where tables lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Links of the longest path, those of the endpoints included.
    pub longest: u32,
    /// Pairs of endpoints by the switches between them: at index *h*, those with *h* switches; over all addresses.
    pub pairs: Vec<u64>,
    /// Pairs without a path.
    pub unreachable: u64,
    /// The first places where packets do not get on.
    pub faults: Vec<Fault>,
}

/// Where packets do not get on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where they come from.
    pub from: SwitchId,
    /// Where they should go.
    pub dest: EndpointId,
    /// Where they stop or come by twice.
    pub at: SwitchId,
}

impl Fault {
    /// In words, with names.
    pub fn tell(&self, fabric: &Fabric) -> String {
        let name = |node| fabric.name(node);
        let (from, dest, at) = (name(Node::Switch(self.from)), name(Node::Endpoint(self.dest)), name(Node::Switch(self.at)));
        format!("from {from} to {dest}: packets get no further than {at}")
    }
}

/// Follows `tables` from every endpoint to every address.
#[must_use]
pub fn survey(fabric: &Fabric, tables: &Tables) -> Survey {
    survey_among(fabric, tables, fabric.graph.endpoint_count())
}

/// The same for the first endpoints only.
fn survey_among(fabric: &Fabric, tables: &Tables, in_use: u32) -> Survey {
    const UNSEEN: u16 = u16::MAX;
    const NOWHERE: u16 = u16::MAX - 1;
    let graph = &fabric.graph;
    let mut endpoints_at = vec![0u64; graph.switch_count() as usize];
    for endpoint in graph.endpoints().filter(|endpoint| endpoint.0 < in_use) {
        if let Node::Switch(at) = graph.node(graph.link(graph.uplink(endpoint)).to) {
            endpoints_at[at.index()] += 1;
        }
    }
    let mut survey = Survey::default();
    let mut steps = vec![UNSEEN; graph.switch_count() as usize];
    let mut trail: Vec<SwitchId> = Vec::new();
    for dest in graph.endpoints().filter(|endpoint| endpoint.0 < in_use) {
        let home = graph.uplink(dest).reverse();
        for path in 0..1 << tables.lmc() {
            steps.fill(UNSEEN);
            for start in graph.switches().filter(|at| endpoints_at[at.index()] > 0) {
                let mut at = start;
                trail.clear();
                let end = loop {
                    if steps[at.index()] != UNSEEN {
                        break steps[at.index()];
                    }
                    // Whoever comes by again before the end goes around a cycle.
                    steps[at.index()] = NOWHERE;
                    trail.push(at);
                    let link = tables.port(at, dest, path).and_then(|port| graph.out_link(at, port)).unwrap_or(LinkId(u32::MAX));
                    if link == home {
                        break 0;
                    }
                    match graph.links().get(link.index()).map(|link| graph.node(link.to)) {
                        Some(Node::Switch(next)) => at = next,
                        _ => break NOWHERE,
                    }
                };
                for (back, passed) in trail.iter().rev().enumerate() {
                    steps[passed.index()] = if end == NOWHERE { NOWHERE } else { end + back as u16 + 1 };
                }
                // The destination does not send to itself.
                let own = u64::from(graph.link(home).from == graph.vertex(Node::Switch(start)));
                let pairs = endpoints_at[start.index()] - own;
                match steps[start.index()] {
                    NOWHERE => {
                        survey.unreachable += pairs;
                        if pairs > 0 && survey.faults.len() < MOST_FAULTS {
                            survey.faults.push(Fault { from: start, dest, at });
                        }
                    }
                    switches => {
                        let switches = usize::from(switches);
                        survey.pairs.resize(survey.pairs.len().max(switches + 1), 0);
                        survey.pairs[switches] += pairs;
                        survey.longest = survey.longest.max(switches as u32 + 1);
                    }
                }
            }
        }
    }
    survey
}

/// Places that a survey names.
const MOST_FAULTS: usize = 16;
