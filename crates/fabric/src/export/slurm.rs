//! `topology.conf` and `topology.yaml` of Slurm's `topology/tree`.
//!
//! Slurm wants a tree; a fabric has several switches at the top of each subtree. All switches up to a level that are
//! connected with each other become one switch of that level, named after the first of them. Ports, cable counts and
//! speeds have no place in the format and are lost. A node with adapters at several leaves counts with its first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{fold, names};
use crate::import::{Kind, Subnet, natural};

/// One line: a switch over other switches, or over nodes.
struct Line {
    name: String,
    switches: Vec<String>,
    nodes: Vec<String>,
}

/// The text of `topology.conf`.
pub fn slurm_conf(subnet: &Subnet) -> String {
    let mut text = String::from("# topology.conf for TopologyPlugin=topology/tree, written by fabriscope\n");
    for line in lines(subnet) {
        let (key, list) = if line.nodes.is_empty() { ("Switches", &line.switches) } else { ("Nodes", &line.nodes) };
        let _ = writeln!(text, "SwitchName={} {key}={}", line.name, fold(list.iter().map(String::as_str)));
    }
    text
}

/// The text of `topology.yaml` (Slurm 25.05 and later).
pub fn slurm_yaml(subnet: &Subnet) -> String {
    let mut text =
        String::from("# topology.yaml, written by fabriscope\n- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n");
    for line in lines(subnet) {
        let (key, list) = if line.nodes.is_empty() { ("children", &line.switches) } else { ("nodes", &line.nodes) };
        let list = plain(&fold(list.iter().map(String::as_str)));
        let _ = write!(text, "      - switch: {}\n        {key}: {list}\n", plain(&line.name));
    }
    text
}

/// A text of YAML: between quotes where it might mean something else.
fn plain(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "-_.[],/".contains(c);
    if text.starts_with(char::is_alphanumeric) && text.chars().all(harmless) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn lines(subnet: &Subnet) -> Vec<Line> {
    let levels = subnet.levels();
    let switch = |device: u32| subnet.devices[device as usize].kind == Kind::Switch;
    let mut nodes: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    let mut placed = BTreeSet::new();
    let wiring = subnet.wiring();
    let leaf_of: BTreeMap<_, _> =
        subnet.cables.iter().flat_map(|cable| [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])]).collect();
    for plug in &wiring.endpoints {
        let (host, leaf) = (subnet.device(*plug).host(), leaf_of[plug].device);
        if placed.insert(host) {
            nodes.entry(leaf).or_default().insert(host);
        }
    }
    // Which group each switch is in at the level reached so far: its smallest member.
    let mut group: Vec<u32> = (0..subnet.devices.len() as u32).collect();
    let distinct = names::distinct(subnet);
    let plain = |name: &str| name.replace(|c: char| c.is_whitespace() || c.is_control() || ",=#\"[]\\".contains(c), "-");
    let clean = |device: u32| plain(&distinct[device as usize]);
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let mut text = Vec::new();
    for &leaf in wiring.switches.iter().filter(|leaf| nodes.contains_key(leaf)) {
        let name = clean(leaf);
        text.push(Line { name: name.clone(), switches: Vec::new(), nodes: nodes[&leaf].iter().map(|node| plain(node)).collect() });
        names.insert(leaf, name);
    }
    let depth = levels.iter().flatten().copied().max().unwrap_or(0);
    for level in 2..=depth {
        let at = |device: u32| levels[device as usize].unwrap_or(0);
        for cable in &subnet.cables {
            let [a, b] = cable.ends.map(|end| end.device);
            if switch(a) && switch(b) && at(a).max(at(b)) == level && at(a).min(at(b)) > 0 {
                let (a, b) = (root(&mut group, a), root(&mut group, b));
                group[a.max(b) as usize] = a.min(b);
            }
        }
        let mut children: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
        for (member, name) in &names {
            children.entry(root(&mut group, *member)).or_default().push((*member, name.clone()));
        }
        let mut above = BTreeMap::new();
        for &head in wiring.switches.iter().filter(|&&head| at(head) == level) {
            above.entry(root(&mut group, head)).or_insert_with(|| clean(head));
        }
        names.clear();
        let mut children: Vec<(u32, Vec<(u32, String)>)> = children.into_iter().collect();
        children.sort_by_cached_key(|(group, _)| above.get(group).map(|name| natural(name)));
        for (group, below) in children {
            match above.get(&group) {
                Some(name) => {
                    text.push(Line { name: name.clone(), switches: below.into_iter().map(|(_, name)| name).collect(), nodes: Vec::new() });
                    names.insert(group, name.clone());
                }
                None => names.extend(below),
            }
        }
    }
    text
}

/// The smallest member of a group.
fn root(group: &mut [u32], member: u32) -> u32 {
    let mut at = member;
    while group[at as usize] != at {
        group[at as usize] = group[group[at as usize] as usize];
        at = group[at as usize];
    }
    at
}
