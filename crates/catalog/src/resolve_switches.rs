//! The switches of the levels of a fabric: looked up, compared with the usual one and with the wired fabric, and asked for by distance.

use fabriscope_fabric::{Fabric, distances_to_endpoints};
use fabriscope_units::Span;

use crate::catalog::Catalog;
use crate::cluster::{Cluster, ResolvedCluster};
use crate::error::{CatalogError, Problem};
use crate::part::{LinkSpeed, Switch};
use crate::switch_levels::SwitchLevels;

/// The levels, from the nodes on.
const NAMES: [&str; 3] = ["leaf", "spine", "core"];
/// Room for headers beside the payload of a packet. Basis: as for the cluster's switch.
const LARGEST_HEADERS: u64 = 100;

/// The parts by level; nothing where all switches are alike.
pub(crate) fn resolve(catalog: &Catalog, cluster: &Cluster) -> Result<Vec<Option<Switch>>, Problem> {
    let Some(SwitchLevels { leaf, spine, core }) = &cluster.switch_levels else { return Ok(Vec::new()) };
    let Some(usual) = &cluster.switch else {
        return Err(Problem::at(&["switch_levels"], "levels of switches without a switch", "add switch = \"name\", the usual one"));
    };
    let usual = catalog.switch(usual).map_err(|error| Problem::at(&["switch"], error.to_string(), ""))?;
    let mut levels = Vec::new();
    for (key, name) in NAMES.into_iter().zip([leaf, spine, core]) {
        let Some(name) = name else {
            levels.push(None);
            continue;
        };
        let wrong = |message: String, help: &str| Problem::at(&["switch_levels", key], message, help);
        let part = catalog.switch(name).map_err(|error| match &error {
            CatalogError::UnknownPart { help, .. } => wrong(error.to_string(), help),
            _ => wrong(error.to_string(), ""),
        })?;
        if part.layer != usual.layer {
            return Err(wrong(format!("`{name}` speaks {}, and `{}` {}", part.layer, usual.name, usual.layer), "name another switch"));
        }
        let unlike = [
            ("forwarding", part.forwarding != usual.forwarding),
            ("replication", part.replication.as_ref().map(|r| r.value) != usual.replication.as_ref().map(|r| r.value)),
            ("shared", part.shared != usual.shared),
            ("trims", part.trims != usual.trims),
            ("pfc", part.pfc != usual.pfc),
            ("credits", part.credits != usual.credits),
            ("short_header", part.short_header != usual.short_header),
            ("ecn", part.ecn != usual.ecn),
        ];
        if let Some((what, _)) = unlike.iter().find(|(_, unlike)| *unlike) {
            let message = format!("`{name}` and `{}` differ in `{what}`, which is one for all switches of a fabric here", usual.name);
            return Err(wrong(message, "name a switch that differs in ports, speeds, latency, buffer and lanes alone"));
        }
        if part.buffer.as_u64() < cluster.mtu.as_u64() + LARGEST_HEADERS {
            return Err(wrong(format!("the buffer of `{name}` does not hold a packet of {}", cluster.mtu), "use a smaller MTU"));
        }
        levels.push(Some(part.clone()));
    }
    Ok(levels)
}

/// Trees that reduce span all levels: there are some where all parts reduce in the same way.
pub(crate) fn agree(usual: &mut Option<Switch>, levels: &mut [Option<Switch>]) {
    let one = usual.as_ref().and_then(|usual| usual.aggregation.clone());
    if levels.iter().flatten().any(|part| part.aggregation != one) {
        usual.iter_mut().chain(levels.iter_mut().flatten()).for_each(|part| part.aggregation = None);
    }
}

/// Whether the fabric has these levels, and its switches the ports and speeds of their parts.
pub(crate) fn check(cluster: &ResolvedCluster) -> Result<(), Problem> {
    if cluster.switch_levels.is_empty() {
        return Ok(());
    }
    let fabric = cluster.fabric().map_err(|error| Problem::at(&["topology"], error.to_string(), "correct the topology"))?;
    let (graph, distances) = (&fabric.graph, distances_to_endpoints(&fabric.graph));
    for (key, (level, part)) in NAMES.into_iter().zip(cluster.switch_levels.iter().enumerate()) {
        let Some(part) = part else { continue };
        let wrong = |message: String, help: &str| Err(Problem::at(&["switch_levels", key], message, help));
        let here =
            |switch: &fabriscope_fabric::SwitchId| place(distances.get((graph.endpoint_count() + switch.0) as usize).copied()) == level;
        let mut switches = graph.switches().filter(here).peekable();
        if switches.peek().is_none() {
            return wrong(format!("this topology has no {key} switches"), "leave the level out");
        }
        let used = switches.map(|switch| graph.outputs(switch).count()).max().unwrap_or(0);
        if used > part.ports as usize {
            let message = format!("{used} ports are used of a {key} switch, and `{}` has {}", part.name, part.ports);
            return wrong(message, "name a switch with more ports, or a smaller topology");
        }
        let runs = |link: &&LinkSpeed| !part.speeds.contains(&link.name);
        let hosts = cluster.groups.iter().map(|group| &group.link).filter(|_| level == 0);
        let trunks =
            [&cluster.trunk_link, &cluster.global_link].into_iter().filter(|_| level > 0 || distances.iter().any(|d| place(Some(*d)) > 0));
        if let Some(link) = hosts.chain(trunks).find(runs) {
            let message = format!("the {key} switch `{}` does not run at `{}`", part.name, link.name);
            return wrong(message, "use a speed that both ends have: `link` and `trunk_link`");
        }
    }
    Ok(())
}

/// The place among levels of a switch so far from the nodes.
fn place(distance: Option<u32>) -> usize {
    (distance.unwrap_or(1).max(1) as usize - 1).min(NAMES.len() - 1)
}

impl ResolvedCluster {
    /// The part of a switch so many links from the nodes: 1 for leaves.
    #[must_use]
    pub fn switch_at(&self, distance: u32) -> Option<&Switch> {
        self.switch_levels.get(place(Some(distance))).and_then(Option::as_ref).or(self.switch.as_ref())
    }
    /// The parts of all switches, the usual one first.
    pub fn switch_parts(&self) -> impl Iterator<Item = &Switch> {
        self.switch.iter().chain(self.switch_levels.iter().flatten())
    }
    /// What switches take from port to port, by the number of the switch; nothing where they are alike.
    #[must_use]
    pub fn switch_latencies(&self, fabric: &Fabric) -> Vec<Span> {
        if self.switch_levels.is_empty() {
            return Vec::new();
        }
        let distances = distances_to_endpoints(&fabric.graph);
        let first = fabric.graph.endpoint_count() as usize;
        let of = |distance: &u32| self.switch_at(*distance).map_or(Span::ZERO, |switch| switch.latency.value);
        let mut all: Vec<Span> = distances.iter().skip(first).map(of).collect();
        // Switches that nothing is plugged into.
        all.resize(fabric.graph.switch_count() as usize, Span::ZERO);
        all
    }
}
