//! From the names in a cluster to its parts, and whether they fit together.

use fabriscope_fabric::topology::TopologyError;
use fabriscope_fabric::{Fabric, Route, Router, Topology};

use crate::catalog::{AnyPart, Catalog};
use crate::cluster::{Cluster, FlowControl, LinkLayer, ResolvedCluster};
use crate::error::{CatalogError, Problem};
use crate::group::NodeGroup;
use crate::node::ResolvedNode;
use crate::part::{Congestion, Interface, Kind, LinkSpeed, Nic, Software, Switch};
use crate::qos::Qos;

/// The software part that holds the defaults of perftest.
const PERFTEST: &str = "perftest";

/// The cluster with its parts; a problem points at the key of the cluster that causes it.
pub(crate) fn resolve(catalog: &Catalog, cluster: &Cluster, nodes: Option<u32>) -> Result<ResolvedCluster, Problem> {
    let node = crate::node::resolve(catalog, &cluster.node).map_err(|problem| problem.under("node"))?;
    let (nic, nics) = (&node.nic, node.nics);
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
    let nccl = nccl(catalog, &node);
    let software = catalog.software(&cluster.software).map_err(|error| missing(&["software"], &error))?;
    fits_software(catalog, nic, software)?;
    let perftest = catalog.software(PERFTEST).map_err(|error| missing(&["software"], &error))?;
    let switch = match &cluster.switch {
        Some(name) => Some(catalog.switch(name).map_err(|error| missing(&["switch"], &error))?),
        None => None,
    };
    fits_nic(cluster, nic)?;
    if let Some((key, link)) = speeds.iter().find(|(_, link)| link.layer != cluster.link_layer.layer()) {
        let message = format!("`{}` is a speed of {}, not of {}", link.name, link.layer, cluster.link_layer.layer());
        let fitting = catalog.parts().filter_map(|part| match part {
            AnyPart::Link(other) if other.layer == cluster.link_layer.layer() => Some(format!("`{}`", other.name)),
            _ => None,
        });
        return Err(Problem::at(&[key], message, format!("use one of {}", fitting.collect::<Vec<_>>().join(", "))));
    }
    fits_switch(cluster, switch, &speeds)?;
    let global_length = cluster.cable.global_length.as_ref().unwrap_or(&cluster.cable.trunk_length);
    let lengths =
        [("host_length", &cluster.cable.host_length), ("trunk_length", &cluster.cable.trunk_length), ("global_length", global_length)];
    for (key, length) in lengths {
        if **length > *cable.max_length {
            let message = format!("{} of `{}` are more than the {} it is made for", **length, cable.name, *cable.max_length);
            return Err(Problem::at(&["cable", key, "value"], message, "use an optical cable, or a shorter one"));
        }
    }
    let nodes = nodes.unwrap_or(cluster.nodes);
    let mut topology = cluster.topology.clone().filled(endpoints(nodes, nics)?, nics);
    crate::imported::load(&mut topology, nodes, nics)?;
    let group = NodeGroup {
        name: String::new(),
        nodes,
        first_endpoint: 0,
        node,
        link: link.clone(),
        cable: cable.clone(),
        host_length: cluster.cable.host_length.clone(),
        software: software.clone(),
        nccl,
    };
    let resolved = ResolvedCluster {
        name: cluster.name.clone(),
        title: cluster.title.clone(),
        notes: cluster.notes.clone(),
        groups: vec![group],
        trunk_link: trunk_link.clone(),
        global_link: global_link.clone(),
        link_layer: cluster.link_layer,
        mtu: cluster.mtu,
        topology,
        routing: cluster.routing.unwrap_or(cluster.topology.usual_routing()),
        congestion,
        flow_control: flow_control(cluster.link_layer, cluster.flow_control, switch)?,
        qos: cluster.qos.clone(),
        multicast: cluster.multicast.clone(),
        partitions: cluster.partitions.clone(),
        partition_enforcement: cluster.partition_enforcement,
        line: cluster.line.clone(),
        switch: switch.cloned(),
        cable: cable.clone(),
        trunk_length: cluster.cable.trunk_length.clone(),
        global_length: global_length.clone(),
        ip: crate::ip::resolve(catalog, cluster)?,
        placement: cluster.placement,
        perftest: perftest.clone(),
    };
    check_marks(&resolved)?;
    crate::qos::check(&resolved)?;
    crate::partitions::check(&resolved)?;
    crate::line::check(&resolved.line)?;
    fits_topology(&resolved, &cluster.topology)?;
    Ok(resolved)
}

/// The problem of a name that the catalogue does not have.
pub(crate) fn missing(path: &[&str], error: &CatalogError) -> Problem {
    match error {
        CatalogError::UnknownPart { help, .. } => Problem::at(path, error.to_string(), help),
        _ => Problem::at(path, error.to_string(), ""),
    }
}

fn endpoints(nodes: u32, nics: u32) -> Result<u32, Problem> {
    nodes.checked_mul(nics).ok_or_else(|| {
        Problem::at(&["nodes"], format!("{nodes} nodes with {nics} adapters each are more than can be numbered"), "use fewer nodes")
    })
}

fn fits_nic(cluster: &Cluster, nic: &Nic) -> Result<(), Problem> {
    let layer = cluster.link_layer.layer();
    if !nic.layers.contains(&layer) {
        let known = nic.layers.iter().map(|layer| format!("`{layer}`")).collect::<Vec<_>>().join(", ");
        let message = format!("the adapter `{}` does not speak {layer}", nic.name);
        return Err(Problem::at(&["link_layer"], message, format!("it speaks {known}")));
    }
    if !nic.speeds.contains(&cluster.link) {
        let message = format!("the adapter `{}` does not run at `{}`", nic.name, cluster.link);
        return Err(Problem::at(&["link"], message, format!("it runs at {}", list(&nic.speeds))));
    }
    if cluster.mtu > *nic.mtu_max {
        let message = format!("an MTU of {} is more than the {} of the adapter `{}`", cluster.mtu, *nic.mtu_max, nic.name);
        return Err(Problem::at(&["mtu"], message, format!("use at most \"{}\"", *nic.mtu_max)));
    }
    Ok(())
}

/// The collective library of the node's GPUs over its adapters, if there is one.
fn nccl(catalog: &Catalog, node: &ResolvedNode) -> Option<Software> {
    let gpu = node.gpu.as_ref()?;
    let fits = |software: &Software| {
        let ours = software.nccl.as_ref().is_some_and(|nccl| gpu.title.contains(nccl.vendor.name()));
        ours && software.interface == node.nic.interface
    };
    let software = catalog.parts().filter_map(|part| if let AnyPart::Software(software) = part { Some(&**software) } else { None });
    software.filter(|software| fits(software)).min_by(|one, other| one.name.cmp(&other.name)).cloned()
}

fn fits_software(catalog: &Catalog, nic: &Nic, software: &Software) -> Result<(), Problem> {
    if software.interface == nic.interface || software.interface == Interface::Sockets {
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

/// InfiniBand never drops; an Ethernet switch does unless it has thresholds for pauses.
pub(crate) fn flow_control(layer: LinkLayer, given: Option<FlowControl>, switch: Option<&Switch>) -> Result<FlowControl, Problem> {
    let pauses = switch.is_none_or(|switch| switch.pfc.is_some());
    match (layer, given) {
        (LinkLayer::InfiniBand, Some(FlowControl::Lossy)) => {
            Err(Problem::at(&["flow_control"], "InfiniBand that drops packets", "remove `flow_control`: InfiniBand has credits"))
        }
        (LinkLayer::InfiniBand, _) => Ok(FlowControl::Lossless),
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
    let (nodes, nics, wanted) = (cluster.nodes(), cluster.sole().node.nics, cluster.endpoints());
    let need = match nics {
        1 => format!("{nodes} nodes"),
        _ => format!("{nodes} nodes with {nics} adapters each"),
    };
    let too_many = |has: u64| {
        let help = format!("use at most {} nodes, or a larger topology or switch", has / u64::from(nics));
        Problem::at(&["nodes"], format!("{need} do not fit: the topology holds {has} endpoints"), help)
    };
    // Where the topology leaves its endpoints open, their number is that of the nodes.
    let open = cluster.topology != *written && !matches!(written, Topology::Imported(_));
    let fabric = cluster.fabric().map_err(|error| match error {
        TopologyError::TooManyEndpoints { fits, .. } if open => too_many(fits),
        TopologyError::TooFewPorts { radix, .. } if open && matches!(written, Topology::SingleSwitch(_)) => {
            too_many(u64::from(cluster.radix().min(radix)))
        }
        other => told_by_fabric(&["topology"], &other.to_string()),
    })?;
    let has = fabric.counts().endpoints;
    if has < wanted {
        return Err(too_many(u64::from(has)));
    }
    routed(cluster, &fabric)
}

/// Whether the routing of a cluster, changed since it was resolved, suits its topology and its switches.
pub(crate) fn routes(cluster: &ResolvedCluster) -> Result<(), Problem> {
    let fabric = cluster.fabric().map_err(|error| told_by_fabric(&["topology"], &error.to_string()))?;
    routed(cluster, &fabric)
}

fn routed(cluster: &ResolvedCluster, fabric: &Fabric) -> Result<(), Problem> {
    let router = Router::new(fabric, cluster.routing).map_err(|error| told_by_fabric(&["routing"], &error.to_string()))?;
    let (lanes, levels) = (u32::from(router.lanes()), cluster.qos.as_ref().map_or(1, Qos::lanes));
    if let Some(qos) = &cluster.qos {
        crate::qos::check_fabric(qos, fabric)?;
    }
    let needed = lanes.saturating_mul(levels);
    match &cluster.switch {
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

/// Messages of the fabric carry their remedy after a semicolon.
fn told_by_fabric(path: &[&str], text: &str) -> Problem {
    let (message, help) = text.split_once("; ").unwrap_or((text, "see `[topology]` of the clusters in the catalogue"));
    Problem::at(path, message, help)
}

/// More than the headers of any packet, in bytes (standard: LRH 8, GRH 40, BTH 12, RETH 16, ICRC 4, VCRC 2, or Ethernet, IPv6 and UDP).
const LARGEST_HEADERS: u64 = 128;
