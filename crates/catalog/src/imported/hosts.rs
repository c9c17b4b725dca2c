//! Which hosts of an imported fabric are the nodes of a cluster.
//!
//! A node with *n* adapters is a host with at least *n* ports in the fabric: its first *n*, as people sort names. A group takes
//! the hosts that it names, in that order; else those that have exactly *n*, then those that have more. Adapters that were never
//! told their host are no host. Where all nodes have one adapter and no host is named, each adapter is a node of its own.
//! Where not all hosts are asked for, those come first whose names are like those of nearly all: service hosts come last, wherever
//! their names stand ([`Host::usual_first`]).

use fabriscope_fabric::import::{Host, Plug};
use fabriscope_fabric::topology::Imported;
use fabriscope_units::Remedy;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Chosen;
use crate::cluster::ResolvedCluster;
use crate::error::Problem;
use crate::group::Written;
use crate::suggest::nearest;

/// The hosts of each group, and their ports in the order in which they are endpoints.
pub(super) fn choose(imported: &Imported, groups: &[Written<'_>], nics: &[u32]) -> Result<(Vec<Chosen>, Vec<Plug>), Problem> {
    let hosts = imported.subnet().map(fabriscope_fabric::import::Subnet::hosts).unwrap_or_default();
    if nics.iter().all(|nics| *nics == 1) && groups.iter().all(|group| group.hosts.is_none()) {
        return each_adapter(imported, &hosts, groups);
    }
    let usual = Host::usual_first(&hosts);
    let mut taken = vec![false; hosts.len()];
    let mut numbers: Vec<Vec<usize>> = Vec::new();
    for (group, nics) in groups.iter().zip(nics) {
        let named = group.hosts.map_or(Ok(Vec::new()), |list| named(list, &hosts, *nics, &mut taken));
        numbers.push(named.map_err(|problem| group.told(problem))?);
    }
    let mut chosen = Vec::new();
    let mut first = Vec::new();
    for ((group, nics), mut numbers) in groups.iter().zip(nics).zip(numbers) {
        if group.hosts.is_none() {
            numbers = of_size((&hosts, &usual), *nics, group.nodes, &mut taken);
        }
        let wanted = group.nodes.unwrap_or(numbers.len() as u32);
        if wanted as usize > numbers.len() || wanted == 0 {
            return Err(group.told(too_few(&hosts, group, wanted, *nics, numbers.len())));
        }
        numbers.truncate(wanted as usize);
        first.extend(numbers.iter().flat_map(|number| hosts[*number].ports.iter().take(*nics as usize).copied()));
        chosen.push(Chosen { nodes: wanted, hosts: numbers.iter().map(|number| hosts[*number].name.clone()).collect() });
    }
    Ok((chosen, first))
}

/// Nodes with one adapter each: every endpoint, named after its host, and after its adapter where the host has several.
fn each_adapter(imported: &Imported, hosts: &[Host], groups: &[Written<'_>]) -> Result<(Vec<Chosen>, Vec<Plug>), Problem> {
    let Some(subnet) = imported.subnet() else { return Ok((Vec::new(), Vec::new())) };
    let name = |(host, plug): (&Host, &Plug)| match host.ports.len() {
        1 => host.name.clone(),
        _ => subnet.device(*plug).name().to_owned(),
    };
    let all = hosts.iter().fold(0, |sum, host| sum + host.ports.len() as u32);
    let asked = groups.iter().try_fold(0u32, |sum, group| Some(sum.saturating_add(group.nodes?)));
    // Where all are asked for there is nothing to choose.
    let order = if asked == Some(all) { (0..hosts.len()).collect() } else { Host::usual_first(hosts) };
    let ports = || order.iter().flat_map(|&number| hosts[number].ports.iter().map(move |plug| (&hosts[number], plug)));
    let mut names = ports().map(name);
    let one = groups.len() == 1;
    let chosen = groups.iter().map(|group| match group.nodes {
        Some(nodes) => Ok(Chosen { nodes, hosts: names.by_ref().take(nodes as usize).collect() }),
        None if one => Ok(Chosen { nodes: all, hosts: names.by_ref().collect() }),
        None => Err(group.told(Problem::at(&[], "the key `nodes` is missing", "add `nodes`, or `hosts` with their names"))),
    });
    let chosen = chosen.collect::<Result<Vec<Chosen>, Problem>>()?;
    Ok((chosen, ports().map(|(_, plug)| *plug).collect()))
}

/// The hosts in a list.
fn named(list: &str, hosts: &[Host], nics: u32, taken: &mut [bool]) -> Result<Vec<usize>, Problem> {
    let wrong = |message: String, help: &str| Problem::at(&["hosts"], message, help);
    let numbered: FxHashMap<&str, usize> = hosts.iter().enumerate().rev().map(|(number, host)| (host.name.as_str(), number)).collect();
    let mut numbers = Vec::new();
    for name in listed(list)? {
        let Some(&number) = numbered.get(name.as_str()) else {
            let help = nearest_host(&name, hosts.iter().filter(|host| !host.unnamed).map(|host| host.name.as_str()));
            return Err(wrong(format!("there is no host `{name}` in the fabric"), &help));
        };
        let has = hosts[number].ports.len();
        if has < nics as usize {
            let help = format!("leave it out, or write nics = {has} in [node]");
            return Err(wrong(format!("`{name}` has {has} adapters in the fabric, and the node has {nics}"), &help));
        }
        if std::mem::replace(&mut taken[number], true) {
            return Err(wrong(format!("the host `{name}` is a duplicate entry"), "name each host once"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// The names in a list of hosts.
fn listed(list: &str) -> Result<Vec<String>, Problem> {
    Host::names(list).map_err(|error| {
        let (message, help) = error.halves("write for example \"gpu[01-16],gpu20\"");
        Problem::at(&["hosts"], message, help)
    })
}

/// The hosts with that many adapters; those with more where `nodes` are not found otherwise.
fn of_size((hosts, usual): (&[Host], &[usize]), nics: u32, nodes: Option<u32>, taken: &mut [bool]) -> Vec<usize> {
    let free = |more: bool| {
        let fits = move |host: &Host| if more { host.ports.len() > nics as usize } else { host.ports.len() == nics as usize };
        usual.iter().copied().filter(move |&number| !hosts[number].unnamed && fits(&hosts[number]))
    };
    let mut numbers: Vec<usize> = free(false).filter(|number| !taken[*number]).collect();
    if nodes.map_or(numbers.is_empty(), |nodes| (nodes as usize) > numbers.len()) {
        numbers.extend(free(true).filter(|number| !taken[*number]));
    }
    numbers.truncate(nodes.map_or(usize::MAX, |nodes| nodes as usize));
    numbers.iter().for_each(|number| taken[*number] = true);
    numbers
}

/// More nodes than the fabric has hosts for them.
fn too_few(hosts: &[Host], group: &Written<'_>, wanted: u32, nics: u32, found: usize) -> Problem {
    let mut counts: std::collections::BTreeMap<usize, u32> = std::collections::BTreeMap::new();
    hosts.iter().filter(|host| !host.unnamed).for_each(|host| *counts.entry(host.ports.len()).or_default() += 1);
    let several = |count: u32, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    let has = counts.iter().rev().map(|(ports, count)| format!("{} with {}", several(*count, "host"), several(*ports as u32, "adapter")));
    let has = has.collect::<Vec<_>>().join(", ");
    let message = match group.hosts {
        Some(_) => format!("{wanted} nodes, and `hosts` names {found}"),
        None if found == 0 => format!("no host of the fabric has {}: it has {has}", several(nics, "adapter")),
        None => format!("{wanted} nodes with {} each, and the fabric has {found} such hosts: {has}", several(nics, "adapter")),
    };
    match counts.iter().max_by_key(|(ports, count)| (**count, **ports)) {
        _ if found > 0 => Problem::at(&["nodes"], message, format!("use at most {found} nodes")),
        Some((ports, _)) => {
            let help = format!("write nics = {ports}; or nics = 1 without `hosts`: each adapter a node of its own");
            Problem::at(&["node"], message, help)
        }
        None => Problem::at(&["topology", "imported", "file"], message, "nobody told these adapters their hosts: write nics = 1 in [node]"),
    }
}

/// `did you mean …?`, or some of the names.
fn nearest_host<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let quoted = |names: &[&str], by: &str| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(by);
    let near = nearest(name, known.clone());
    if !near.is_empty() {
        return format!("did you mean {}?", quoted(&near, " or "));
    }
    let some: Vec<&str> = known.take(SHOWN).collect();
    if some.is_empty() { "its nodes have no names".to_owned() } else { format!("its hosts are {}, …", quoted(&some, ", ")) }
}

/// Names that are shown where none is near.
const SHOWN: usize = 4;

impl ResolvedCluster {
    /// The name of the host that a node is; nodes of a fabric that was not imported have none.
    pub fn host_name(&self, node: u32) -> Option<&str> {
        let (group, within) = self.group_of(node)?;
        self.groups[group].hosts.get(within as usize).map(String::as_str)
    }

    /// The nodes that are these hosts, in the order of the list: `gpu[01-04],gpu20`, as Slurm writes it.
    ///
    /// # Errors
    /// A list that is none, a host that is no node of the cluster, one that is named twice.
    pub fn nodes_named(&self, list: &str) -> Result<Vec<u32>, Problem> {
        let names: Vec<&str> = (0..self.nodes()).filter_map(|node| self.host_name(node)).collect();
        if names.is_empty() {
            let message = format!("the nodes of `{}` have no names", self.name);
            return Err(Problem::at(&["hosts"], message, "hosts have names on an imported fabric; elsewhere say how many: nodes"));
        }
        let numbered: FxHashMap<&str, u32> = (0..self.nodes()).rev().filter_map(|node| Some((self.host_name(node)?, node))).collect();
        let mut taken = FxHashSet::default();
        let mut nodes = Vec::new();
        for name in listed(list)? {
            let Some(&node) = numbered.get(name.as_str()) else {
                let message = format!("there is no host `{name}` among the nodes of `{}`", self.name);
                return Err(Problem::at(&["hosts"], message, nearest_host(&name, names.iter().copied())));
            };
            if !taken.insert(node) {
                return Err(Problem::at(&["hosts"], format!("the host `{name}` is a duplicate entry"), "name each host once"));
            }
            nodes.push(node);
        }
        Ok(nodes)
    }
}
