//! From the names in a cluster to its parts, and whether they fit together.

use fabriscope_fabric::topology::TopologyError;
use fabriscope_fabric::{EndpointId, Fabric, Length, Route, Router, Topology, Vertex};
use fabriscope_units::Remedy;
use miette::Diagnostic;

use crate::catalog::{AnyPart, Catalog};
use crate::cluster::{Cluster, FlowControl, LinkLayer, ResolvedCluster};
use crate::copy_on_write::Shared;
use crate::error::{CatalogError, Problem};
use crate::group::{self, NodeGroup, Written};
use crate::imported::Chosen;
use crate::node::ResolvedNode;
use crate::part::{Cable, Congestion, Drive, Kind, LinkSpeed, Nic, Software, Switch};
use crate::qos::Qos;
use crate::sourced::Sourced;

/// The software part that holds the defaults of perftest.
const PERFTEST: &str = "perftest";

/// The cluster with its parts; a problem points at the key of the cluster that causes it.
pub(crate) fn resolve(catalog: &Catalog, cluster: &Cluster, nodes: Option<u32>) -> Result<ResolvedCluster, Problem> {
    let written = group::written(cluster, nodes)?;
    let told_in = |group: &Written<'_>, key: &str| {
        let (group, key) = (group.told(Problem::at(&[], "", "")).path, key.to_owned());
        move |problem: Problem| group.iter().rev().fold(problem.under(&key), |problem, key| problem.under(key))
    };
    let mut found = Vec::new();
    for group in &written {
        found.push(crate::resolve_node::resolve(catalog, group.node).map_err(told_in(group, "node"))?);
    }
    let link = catalog.link(&cluster.link).map_err(|error| missing(&["link"], &error))?;
    let trunk_key = if cluster.trunk_link.is_some() { "trunk_link" } else { "link" };
    let global_key = if cluster.global_link.is_some() { "global_link" } else { trunk_key };
    let trunk_name = cluster.trunk_link.as_ref().unwrap_or(&cluster.link);
    let trunk_link = catalog.link(trunk_name).map_err(|error| missing(&[trunk_key], &error))?;
    let global_name = cluster.global_link.as_ref().unwrap_or(trunk_name);
    let global_link = catalog.link(global_name).map_err(|error| missing(&[global_key], &error))?;
    let speeds = [("link", link), (trunk_key, trunk_link), (global_key, global_link)];
    let cable = catalog.cable(&cluster.cable.part).map_err(|error| missing(&["cable", "part"], &error))?;
    let congestion = congestion(catalog, cluster.congestion.as_ref())?;
    for (group, node) in written.iter().zip(&found) {
        let software = software_of(catalog, cluster, group)?;
        let told = |problem: Problem| if group.software.is_some() { group.told(problem) } else { problem };
        fits_software(catalog, &node.nic, software).map_err(told)?;
    }
    let perftest = catalog.software(PERFTEST).map_err(|error| missing(&["software"], &error))?;
    let switch = match &cluster.switch {
        Some(name) => Some(catalog.switch(name).map_err(|error| missing(&["switch"], &error))?),
        None => None,
    };
    let switch_levels = crate::resolve_switches::resolve(catalog, cluster)?;
    let mut links = Vec::new();
    for (group, node) in written.iter().zip(&found) {
        let leaf = switch_levels.first().and_then(Option::as_ref).or(switch);
        links.push(link_of(catalog, cluster, (group, &node.nic), (link, leaf))?);
    }
    fits_layer(catalog, cluster, &speeds)?;
    fits_switch(cluster, switch, &speeds)?;
    let (mut usual, mut switch_levels) = (switch.cloned(), switch_levels);
    crate::resolve_switches::agree(&mut usual, &mut switch_levels);
    let global_length = cluster.cable.global_length.as_ref().unwrap_or(&cluster.cable.trunk_length);
    let lengths =
        [("host_length", &cluster.cable.host_length), ("trunk_length", &cluster.cable.trunk_length), ("global_length", global_length)];
    for (key, length) in lengths {
        reaches(cable, length, key)?;
    }
    let mut topology = cluster.topology.clone();
    let nics: Vec<u32> = found.iter().map(|node| node.nics).collect();
    let chosen = crate::imported::load(&mut topology, &written, &nics)?;
    let mut groups: Vec<NodeGroup> = Vec::new();
    for (((group, node), link), Chosen { nodes, hosts }) in written.iter().zip(found).zip(links).zip(chosen) {
        let (cable, host_length) = cable_of(catalog, cluster, group)?;
        let nccl = nccl(catalog, cluster, &node)?;
        let software = as_gpus_allow(software_of(catalog, cluster, group)?, &node);
        let first_endpoint = groups.last().map_or(0, |before| before.endpoints().end);
        let name = group.name.to_owned();
        endpoints(first_endpoint, nodes, node.nics).map_err(|problem| group.told(problem))?;
        groups.push(NodeGroup { name, nodes, hosts, first_endpoint, node, link, cable, host_length, software, nccl });
    }
    let end = groups.last().map_or(0, |last| last.endpoints().end);
    let topology = topology.filled(end, rails(&cluster.topology, &groups)?);
    let mut resolved = ResolvedCluster {
        change: cluster.change.clone(),
        name: cluster.name.clone(),
        title: cluster.title.clone(),
        notes: cluster.notes.clone(),
        groups,
        trunk_link: trunk_link.clone(),
        global_link: global_link.clone(),
        link_layer: known_header(cluster.link_layer, switch)?,
        mtu: cluster.mtu,
        topology,
        routing: cluster.routing.unwrap_or(cluster.topology.usual_routing()),
        congestion,
        flow_control: flow_control(cluster.link_layer, cluster.flow_control, switch)?,
        qos: cluster.qos.clone(),
        multicast: cluster.multicast.clone(),
        partitions: cluster.partitions.clone(),
        partition_enforcement: cluster.partition_enforcement,
        subnet_nodes: cluster.subnet_nodes,
        iommu: cluster.iommu,
        line: cluster.line.clone(),
        noise: cluster.noise,
        switch: usual,
        switch_levels,
        cable: cable.clone(),
        trunk_length: cluster.cable.trunk_length.clone(),
        global_length: global_length.clone(),
        ip: crate::ip::resolve(catalog, cluster)?,
        identity: cluster.identity.clone(),
        placement: cluster.placement,
        perftest: perftest.clone(),
        experts: software(catalog, |software| software.experts.is_some()),
        services: software(catalog, |software| software.rpc.is_some() || software.shuffle.is_some() || software.nvme.is_some()),
        drives: drives(catalog),
        route_prototype: None,
        stop: catalog.stop.clone(),
    };
    place(&mut resolved, &written)?;
    check(&resolved, &cluster.topology)?;
    Ok(resolved)
}

/// Whether everything fits together, now that it is at hand.
fn check(resolved: &ResolvedCluster, topology: &Topology) -> Result<(), Problem> {
    check_marks(resolved)?;
    crate::qos::check(resolved)?;
    crate::partitions::check(resolved)?;
    crate::link_retry::check(&resolved.line)?;
    crate::identity::check(resolved)?;
    crate::ip::check(resolved)?;
    crate::subnets::check(resolved)?;
    if let Some(maps) = resolved.iommu {
        maps.check(resolved.groups.iter().map(|group| &*group.node.cpu))?;
    }
    fits_topology(resolved, topology)?;
    crate::resolve_switches::check(resolved)
}

/// Every speed is one of the cluster's link layer.
fn fits_layer(catalog: &Catalog, cluster: &Cluster, speeds: &[(&str, &LinkSpeed)]) -> Result<(), Problem> {
    if let Some((key, link)) = speeds.iter().find(|(_, link)| link.layer != cluster.link_layer.layer()) {
        let message = format!("`{}` is a speed of {}, not of {}", link.name, link.layer, cluster.link_layer.layer());
        let fitting = catalog.parts().filter_map(|part| match part {
            AnyPart::Link(other) if other.layer == cluster.link_layer.layer() => Some(format!("`{}`", other.name)),
            _ => None,
        });
        return Err(Problem::at(&[key], message, format!("use one of {}", fitting.collect::<Vec<_>>().join(", "))));
    }
    Ok(())
}

/// The problem of a name that the catalogue does not have.
pub(crate) fn missing(path: &[&str], error: &CatalogError) -> Problem {
    match error {
        CatalogError::UnknownPart { help, .. } => Problem::at(path, error.to_string(), help),
        _ => Problem::at(path, error.to_string(), ""),
    }
}

fn endpoints(first: u32, nodes: u32, nics: u32) -> Result<u32, Problem> {
    nodes.checked_mul(nics).and_then(|count| count.checked_add(first)).ok_or_else(|| {
        Problem::at(&["nodes"], format!("{nodes} nodes with {nics} adapters each are more than can be numbered"), "use fewer nodes")
    })
}

/// The library as it runs there: past host memory only where the GPUs allow that.
fn as_gpus_allow(software: &Shared<Software>, node: &ResolvedNode) -> Shared<Software> {
    let mut software = software.clone();
    if node.gpu.as_ref().is_some_and(|gpu| gpu.without_gpudirect)
        && let Some(gpu) = software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut())
    {
        gpu.without_gpudirect();
    }
    software
}

/// The MPI library of a group.
fn software_of<'c>(catalog: &'c Catalog, cluster: &Cluster, group: &Written<'_>) -> Result<&'c Shared<Software>, Problem> {
    let told = |problem: Problem| if group.software.is_some() { group.told(problem) } else { problem };
    let name = group.software.unwrap_or(&cluster.software);
    catalog.software(name).map_err(|error| told(missing(&["software"], &error)))
}

/// The speed of the links of a group: what it names, else that of the cluster where both ends run at it, else the fastest that both do.
fn link_of(
    catalog: &Catalog,
    cluster: &Cluster,
    (group, nic): (&Written<'_>, &Nic),
    (usual, switch): (&LinkSpeed, Option<&Switch>),
) -> Result<LinkSpeed, Problem> {
    let own = match group.link {
        Some(name) => Some(catalog.link(name).map_err(|error| group.told(missing(&["link"], &error)))?),
        None => None,
    };
    let both = |link: &LinkSpeed| nic.speeds.contains(&link.name) && switch.is_none_or(|switch| switch.speeds.contains(&link.name));
    let negotiated = || {
        let links = catalog.parts().filter_map(|part| if let AnyPart::Link(link) = part { Some(&**link) } else { None });
        let fitting = links.filter(|link| link.layer == cluster.link_layer.layer() && both(link));
        fitting.max_by(|one, other| one.data_rate().cmp(&other.data_rate()).then(other.name.cmp(&one.name)))
    };
    let link = own.or_else(|| if both(usual) { Some(usual) } else { negotiated() });
    fits_nic(cluster, nic, link).map_err(|problem| group.told(problem))?;
    let Some(link) = link else {
        let message = format!("the adapter `{}` and the switch have no speed in common", nic.name);
        let help = format!("the adapter runs at {}; choose another adapter or another switch", list(&nic.speeds));
        return Err(group.told(Problem::at(&["node"], message, help)));
    };
    if let Some(switch) = switch.filter(|switch| group.named() && !switch.speeds.contains(&link.name)) {
        let message = format!("the switch `{}` does not run at `{}`", switch.name, link.name);
        return Err(group.told(Problem::at(&["link"], message, format!("it runs at {}", list(&switch.speeds)))));
    }
    Ok(link.clone())
}

/// The cables of a group.
fn cable_of(catalog: &Catalog, cluster: &Cluster, group: &Written<'_>) -> Result<(Cable, Sourced<Length>), Problem> {
    let own = group.cable.and_then(|cable| cable.part.as_ref());
    let name = own.unwrap_or(&cluster.cable.part);
    let cable = catalog.cable(name).map_err(|error| group.told(missing(&["cable", "part"], &error)))?;
    let length = group.cable.and_then(|cable| cable.host_length.as_ref());
    if group.cable.is_some() {
        reaches(cable, length.unwrap_or(&cluster.cable.host_length), "host_length").map_err(|problem| group.told(problem))?;
    }
    Ok((cable.clone(), length.unwrap_or(&cluster.cable.host_length).clone()))
}

/// Whether a cable is made for a length.
fn reaches(cable: &Cable, length: &Sourced<Length>, key: &str) -> Result<(), Problem> {
    if **length > *cable.max_length {
        let message = format!("{} of `{}` are more than the {} it is made for", **length, cable.name, *cable.max_length);
        return Err(Problem::at(&["cable", key, "value"], message, "use an optical cable, or a shorter one"));
    }
    Ok(())
}

/// Adapters of a node, where the topology gives each a rail of its own.
fn rails(topology: &Topology, groups: &[NodeGroup]) -> Result<u32, Problem> {
    let nics = groups.first().map_or(1, |group| group.node.nics);
    match (topology, groups.iter().find(|group| group.node.nics != nics)) {
        (Topology::RailOptimised(_), Some(other)) => {
            let message = format!("nodes with {nics} adapters and nodes with {} on rails", other.node.nics);
            Err(Problem::at(&["topology"], message, "choose another topology, or give all nodes as many adapters as there are rails"))
        }
        _ => Ok(nics),
    }
}

/// Moves the groups that ask for it behind the leaf switches that they name.
fn place(cluster: &mut ResolvedCluster, written: &[Written<'_>]) -> Result<(), Problem> {
    if written.iter().all(|group| group.first_leaf.is_none()) {
        return Ok(());
    }
    let fabric = cluster.fabric().map_err(|error| told_by_fabric(&["topology"], &error))?;
    let graph = &fabric.graph;
    let leaf = |endpoint: EndpointId| graph.link(graph.uplink(endpoint)).to;
    let mut leaves: Vec<(Vertex, u32)> = Vec::new();
    for endpoint in graph.endpoints() {
        if leaves.last().is_none_or(|(last, _)| *last != leaf(endpoint)) {
            leaves.push((leaf(endpoint), endpoint.0));
        }
    }
    let mut next = 0;
    for (group, written) in cluster.groups.iter_mut().zip(written) {
        group.first_endpoint = next;
        let Some(number) = written.first_leaf else {
            next = group.endpoints().end;
            continue;
        };
        let wrong = |message: String, help: String| Err(written.told(Problem::at(&["first_leaf"], message, help)));
        let Some((vertex, first)) = leaves.get(number as usize) else {
            let help = format!("write 0 to {}, or make the topology larger", leaves.len().saturating_sub(1));
            return wrong(format!("there is no leaf switch {number} among {}", leaves.len()), help);
        };
        if leaves.iter().filter(|(other, _)| other == vertex).count() > 1 {
            let message = "the endpoints of a leaf switch are not side by side in this topology".to_owned();
            return wrong(message, "leave `first_leaf` out".to_owned());
        }
        if *first < next {
            let free = leaves.iter().position(|(_, first)| *first >= next);
            let help = free.map_or_else(|| "leave `first_leaf` out".to_owned(), |free| format!("write {free} or more"));
            return wrong(format!("leaf switch {number} has nodes of the group before"), help);
        }
        group.first_endpoint = *first;
        next = group.endpoints().end;
    }
    Ok(())
}

fn fits_nic(cluster: &Cluster, nic: &Nic, link: Option<&LinkSpeed>) -> Result<(), Problem> {
    let layer = cluster.link_layer.layer();
    if !nic.layers.contains(&layer) {
        let known = nic.layers.iter().map(|layer| format!("`{layer}`")).collect::<Vec<_>>().join(", ");
        let message = format!("the adapter `{}` does not speak {layer}", nic.name);
        return Err(Problem::at(&["link_layer"], message, format!("it speaks {known}")));
    }
    if let Some(link) = link.filter(|link| !nic.speeds.contains(&link.name)) {
        let message = format!("the adapter `{}` does not run at `{}`", nic.name, link.name);
        return Err(Problem::at(&["link"], message, format!("it runs at {}", list(&nic.speeds))));
    }
    if cluster.mtu > *nic.mtu_max {
        let message = format!("an MTU of {} is more than the {} of the adapter `{}`", cluster.mtu, *nic.mtu_max, nic.name);
        return Err(Problem::at(&["mtu"], message, format!("use at most \"{}\"", *nic.mtu_max)));
    }
    Ok(())
}

/// The collective library of the node's GPUs over its adapters, if there is one: that of the cluster, or else the usual release.
fn nccl(catalog: &Catalog, cluster: &Cluster, node: &ResolvedNode) -> Result<Option<Shared<Software>>, Problem> {
    let Some(gpu) = node.gpu.as_ref() else { return Ok(None) };
    let fits = |software: &Software| {
        let ours = software.nccl.as_ref().is_some_and(|nccl| nccl.vendor == gpu.vendor);
        ours && software.interface == node.nic.interface
    };
    if let Some(name) = &cluster.collectives {
        let software = catalog.software(name).map_err(|error| missing(&["collectives"], &error))?;
        if software.nccl.is_none() {
            let message = format!("`{name}` has no collectives on GPUs");
            return Err(Problem::at(&["collectives"], message, "use a part with a table [nccl], as \"nccl\""));
        }
        if !fits(software) {
            let message = format!("`{name}` does not drive `{}` over `{}`", gpu.name, node.nic.name);
            return Err(Problem::at(&["collectives"], message, "name the library of the GPUs' vendor, or leave it out"));
        }
        return Ok(Some(software.clone()));
    }
    let software = catalog.parts().filter_map(|part| if let AnyPart::Software(software) = part { Some(software) } else { None });
    let usual = |software: &&Shared<Software>| fits(software) && software.nccl.as_ref().is_some_and(|nccl| nccl.release.is_none());
    Ok(software.filter(usual).min_by(|one, other| one.name.cmp(&other.name)).cloned())
}

/// The software that is wanted, by name.
fn software(catalog: &Catalog, wanted: fn(&Software) -> bool) -> Vec<Shared<Software>> {
    let software = catalog.parts().filter_map(|part| if let AnyPart::Software(software) = part { Some(software) } else { None });
    let mut found: Vec<Shared<Software>> = software.filter(|software| wanted(software)).cloned().collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// All drives, by name.
fn drives(catalog: &Catalog) -> Vec<Shared<Drive>> {
    let drives = catalog.parts().filter_map(|part| if let AnyPart::Drive(drive) = part { Some(drive) } else { None });
    let mut found: Vec<Shared<Drive>> = drives.cloned().collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn fits_software(catalog: &Catalog, nic: &Nic, software: &Software) -> Result<(), Problem> {
    if software.drives(nic.interface) {
        return Ok(());
    }
    let fitting = catalog.parts().filter_map(|part| match part {
        AnyPart::Software(other) if other.interface == nic.interface && other.mpi.is_some() => Some(format!("`{}`", other.name)),
        _ => None,
    });
    let fitting = fitting.collect::<Vec<_>>();
    let message = format!(
        "`{}` drives adapters through {}, but the adapter `{}` through {}",
        software.name, software.interface, nic.name, nic.interface
    );
    let help = match fitting.is_empty() {
        true => format!("choose another adapter: what runs over {} is not modelled", nic.interface),
        false => format!("use one of {}", fitting.join(", ")),
    };
    Err(Problem::at(&["software"], message, help))
}

fn fits_switch(cluster: &Cluster, switch: Option<&Switch>, speeds: &[(&str, &LinkSpeed)]) -> Result<(), Problem> {
    let direct = matches!(cluster.topology, Topology::BackToBack(_));
    let Some(switch) = switch else {
        if direct {
            return Ok(());
        }
        return Err(Problem::at(&["topology"], "the topology needs switches, but the cluster names none", "add switch = \"name\""));
    };
    if direct {
        return Err(Problem::at(&["switch"], "nodes wired back to back have no switch", "remove `switch`, or choose another topology"));
    }
    if switch.layer != cluster.link_layer.layer() {
        let message = format!("the switch `{}` speaks {}, not {}", switch.name, switch.layer, cluster.link_layer.layer());
        return Err(Problem::at(&["switch"], message, "choose another switch, or another `link_layer`"));
    }
    if let Some((key, link)) = speeds.iter().find(|(_, link)| !switch.speeds.contains(&link.name)) {
        let message = format!("the switch `{}` does not run at `{}`", switch.name, link.name);
        return Err(Problem::at(&[if *key == "link" { "switch" } else { key }], message, format!("it runs at {}", list(&switch.speeds))));
    }
    if switch.buffer.as_u64() < cluster.mtu.as_u64() + LARGEST_HEADERS {
        let message = format!("the buffer of {} of `{}` does not hold a packet of {}", *switch.buffer, switch.name, cluster.mtu);
        return Err(Problem::at(&["mtu"], message, "use a smaller MTU, or give the switch a larger buffer"));
    }
    Ok(())
}

/// The congestion control of that name.
pub(crate) fn congestion(catalog: &Catalog, name: Option<&String>) -> Result<Option<Congestion>, Problem> {
    let Some(name) = name else { return Ok(None) };
    match catalog.part(Kind::Congestion, name).map_err(|error| missing(&["congestion"], &error))? {
        AnyPart::Congestion(congestion) => Ok(Some(Congestion::clone(congestion))),
        _ => Ok(None),
    }
}

/// Marks of congestion stand in the IP header, which packets of RoCE v1 do not have.
pub(crate) fn check_marks(cluster: &ResolvedCluster) -> Result<(), Problem> {
    let marked = cluster.congestion.as_ref().filter(|congestion| congestion.ecn.is_some());
    match (cluster.link_layer, marked) {
        (LinkLayer::RoceV1, Some(congestion)) => {
            let message = format!("`{}` on RoCE v1, whose packets have no IP header to mark", congestion.name);
            Err(Problem::at(&["congestion"], message, "use link_layer = \"roce_v2\", or no congestion control"))
        }
        _ => Ok(()),
    }
}

/// Short headers are of switches that forward by them.
fn known_header(layer: LinkLayer, switch: Option<&Switch>) -> Result<LinkLayer, Problem> {
    if layer == LinkLayer::RoceShort && switch.is_some_and(|switch| !switch.short_header) {
        let message = format!("the switch `{}` knows no short header", switch.map_or("", |switch| &switch.name));
        return Err(Problem::at(&["link_layer"], message, "use one with short_header, as tomahawk-ultra, or link_layer = \"roce_v2\""));
    }
    Ok(layer)
}

/// InfiniBand never drops; an Ethernet switch does unless it has thresholds for pauses, or grants credits and is asked for them.
pub(crate) fn flow_control(layer: LinkLayer, given: Option<FlowControl>, switch: Option<&Switch>) -> Result<FlowControl, Problem> {
    let pauses = switch.is_none_or(|switch| switch.pfc.is_some());
    match (layer, given) {
        (LinkLayer::InfiniBand, Some(FlowControl::Lossy)) => {
            Err(Problem::at(&["flow_control"], "InfiniBand that drops packets", "remove `flow_control`: InfiniBand has credits"))
        }
        (LinkLayer::InfiniBand, _) => Ok(FlowControl::Lossless),
        (_, Some(FlowControl::Credits)) if switch.is_some_and(|switch| !switch.credits) => {
            let message = format!("the switch `{}` grants no credits", switch.map_or("", |switch| &switch.name));
            Err(Problem::at(&["flow_control"], message, "choose one with credits, as tomahawk-ultra, or flow_control = \"lossless\""))
        }
        (_, Some(FlowControl::Lossless)) if !pauses => {
            let message = format!("the switch `{}` has no thresholds for pause frames", switch.map_or("", |switch| &switch.name));
            Err(Problem::at(&["flow_control"], message, "choose another switch, or flow_control = \"lossy\""))
        }
        (_, Some(given)) => Ok(given),
        (_, None) => Ok(if pauses { FlowControl::Lossless } else { FlowControl::Lossy }),
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Builds the fabric once: what it says is reported where the cluster says it.
fn fits_topology(cluster: &ResolvedCluster, written: &Topology) -> Result<(), Problem> {
    let wanted = cluster.endpoints();
    let need = |group: &NodeGroup| match group.node.nics {
        1 => format!("{} nodes", group.nodes),
        nics => format!("{} nodes with {nics} adapters each", group.nodes),
    };
    let need = cluster.groups.iter().map(need).collect::<Vec<_>>().join(", ");
    let too_many = |has: u64| {
        let (path, help) = match cluster.uniform() {
            Some(group) => ("nodes", format!("use at most {} nodes, or a larger topology or switch", has / u64::from(group.node.nics))),
            None => ("group", "use fewer nodes, or a larger topology or switch".to_owned()),
        };
        Problem::at(&[path], format!("{need} do not fit: the topology holds {has} endpoints"), help)
    };
    // Where the topology leaves its endpoints open, their number is that of the nodes.
    let open = cluster.topology != *written && !matches!(written, Topology::Imported(_));
    let fabric = cluster.fabric().map_err(|error| match error {
        TopologyError::TooManyEndpoints { fits, .. } if open => too_many(fits),
        TopologyError::TooFewPorts { radix, .. } if open && matches!(written, Topology::SingleSwitch(_)) => {
            too_many(u64::from(cluster.radix().min(radix)))
        }
        other => told_by_fabric(&["topology"], &other),
    })?;
    let has = fabric.counts().endpoints;
    if has < wanted {
        return Err(too_many(u64::from(has)));
    }
    routed(cluster, &fabric)
}

/// Whether the routing of a cluster, changed since it was resolved, suits its topology and its switches.
pub(crate) fn routes(cluster: &ResolvedCluster) -> Result<(), Problem> {
    let fabric = cluster.fabric().map_err(|error| told_by_fabric(&["topology"], &error))?;
    routed(cluster, &fabric)
}

fn routed(cluster: &ResolvedCluster, fabric: &Fabric) -> Result<(), Problem> {
    let router = Router::new(fabric, cluster.routing).map_err(|error| told_by_fabric(&["routing"], &error))?;
    let (lanes, levels) = (u32::from(router.lanes()), cluster.qos.as_ref().map_or(1, Qos::lanes));
    if let Some(qos) = &cluster.qos {
        crate::qos::check_fabric(qos, fabric)?;
    }
    let needed = lanes.saturating_mul(levels);
    match cluster.switch_parts().min_by_key(|switch| *switch.vls) {
        Some(switch) if needed > *switch.vls => {
            let (each, help) = match levels {
                1 => (String::new(), "choose a switch with more `vls`, or a routing that needs fewer lanes"),
                _ => (
                    format!(" for each of {levels} lanes of [qos]"),
                    "use fewer lanes in [qos], a routing that needs fewer, or a switch with more `vls`",
                ),
            };
            let message = format!(
                "`{}` needs {lanes} virtual lanes on this topology{each}; the switch `{}` has {}",
                cluster.routing, switch.name, *switch.vls
            );
            Err(Problem::at(&["routing"], message, help))
        }
        _ if needed > MOST_LANES => {
            let message = format!("`{}` needs {lanes} virtual lanes on this topology for each of {levels} lanes of [qos]", cluster.routing);
            Err(Problem::at(&["routing"], message, format!("a link has {MOST_LANES}: use fewer lanes in [qos]")))
        }
        _ => Ok(()),
    }
}

/// The most lanes that a link can have (standard).
const MOST_LANES: u32 = 16;

/// What the fabric says, and its remedy.
fn told_by_fabric(path: &[&str], error: &dyn Diagnostic) -> Problem {
    let (message, help) = error.halves("see `[topology]` of the clusters in the catalogue");
    Problem::at(path, message, help)
}

/// More than the headers of any packet, in bytes (standard: LRH 8, GRH 40, BTH 12, RETH 16, ICRC 4, VCRC 2, or Ethernet, IPv6 and UDP).
const LARGEST_HEADERS: u64 = 128;
