//! What a lab can do between unlike nodes.
//!
//! Messages, jobs and benchmark programs run between nodes of any kind. What lays its ranks out on nodes that are alike, or takes
//! its loads from the one rate of all links, says so and names the groups.

use fabriscope_catalog::{NodeGroup, Problem, ResolvedCluster};

use crate::lab::Lab;
use crate::workload::Workload;

/// Whether what a lab does can happen between unlike nodes, and on a fabric with endpoints that have no node.
pub(crate) fn suits(lab: &Lab, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let name = lab.workload.name();
    if cluster.uniform().is_none() {
        let alike = match &lab.workload {
            Workload::Collective(_) => Some("its ranks are laid out on nodes that are alike"),
            Workload::AllToAllV(_) => Some("its processes share nodes that are alike"),
            Workload::OpenLoop(_) => Some("its loads are shares of the one rate that all hosts have"),
            Workload::ClosedLoop(_) => Some("its throughput is a share of the one rate that all hosts have"),
            Workload::Interference(_) => Some("it compares slowdowns with hosts that are alike"),
            Workload::Compare(_) | Workload::Flows(_) => Some("its loads and bounds are shares of the one rate that all hosts have"),
            _ => None,
        };
        if let Some(why) = alike {
            let message = format!("{name} on `{}`, which has groups of unlike nodes: {why}", cluster.name);
            return Err(Problem::at(&["cluster"], message, format!("name one group: {}", one_group(cluster))));
        }
    }
    let holes = cluster.hosts().zip(0..).find(|(host, number)| host != number);
    let named = matches!(lab.workload, Workload::Jobs(_) | Workload::Bench(_) | Workload::Multicast(_));
    if let (Some((_, empty)), false) = (holes, named) {
        let message = format!("{name} takes all hosts, and host {empty} of `{}` has no node in use", cluster.name);
        let help = "use [workload.jobs] or [workload.bench], which name theirs; or a cluster without `first_leaf` and with all its groups";
        return Err(Problem::at(&["cluster"], message, help));
    }
    Ok(())
}

/// How each group of a cluster is named by itself.
fn one_group(cluster: &ResolvedCluster) -> String {
    cluster.groups.iter().map(|group| format!("\"{}:{}\"", cluster.name, group.name)).collect::<Vec<_>>().join(" or ")
}

/// A line for each group of nodes; nothing where all are alike.
#[must_use]
pub fn groups(parts: &ResolvedCluster) -> Vec<String> {
    if parts.uniform().is_some() {
        return Vec::new();
    }
    let several = |count: u32, name: &str| if count > 1 { format!("{count} × {name}") } else { name.to_owned() };
    let line = |group: &NodeGroup| {
        let (nics, rate, hosts) = (several(group.node.nics, &group.node.nic.name), group.link.data_rate(), group.endpoints());
        let last = hosts.end.saturating_sub(1);
        let library = &group.software.name;
        format!("group {}: {} nodes, {nics}, {rate} links, hosts {} to {last}, {library}", group.name, group.nodes, hosts.start)
    };
    parts.groups.iter().map(line).collect()
}
