//! `topology.conf` and `topology.yaml` of Slurm's `topology/tree`.
//!
//! Source: topology.conf(5), topology.yaml(5) of Slurm 25.05, and its `switch_record.c`: a switch has switches or nodes below it,
//! never both.
//! Modelled: a tree that was read from Slurm's own files is written as it was: every switch, every root, leaves at any depth.
//! Of cables a tree is made. All switches up to a level that are connected with each other become one switch of that level,
//! named after the first of them; what cables within a level join gets a switch above it (`group-of-…` for switches that share
//! most of their neighbours, such as a group of a dragonfly, `all-of-…` for the rest). Nodes at a switch that has switches
//! below it get a leaf of their own (`…-nodes`). A node with adapters at several leaves counts with its first.
//! Not modelled: ports, cable counts and speeds, for which the format has no place; switches without nodes below them and
//! adapters that no host has named are left out, which [`slurm_notes`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::fold;
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
    let tree = tree(subnet);
    text.extend(tree.notes.iter().map(|note| format!("# {note}\n")));
    for line in tree.lines {
        let _ = write!(text, "SwitchName={}", line.name);
        if let Some((key, list)) = line.below(["Switches", "Nodes"]) {
            let _ = write!(text, " {key}={list}");
        }
        text.push('\n');
    }
    text
}

/// The text of `topology.yaml` (Slurm 25.05 and later).
pub fn slurm_yaml(subnet: &Subnet) -> String {
    let tree = tree(subnet);
    let mut text = String::from("# topology.yaml, written by fabriscope\n");
    text.extend(tree.notes.iter().map(|note| format!("# {note}\n")));
    text += "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n";
    for line in tree.lines {
        let _ = writeln!(text, "      - switch: {}", plain(&line.name));
        if let Some((key, list)) = line.below(["children", "nodes"]) {
            let _ = writeln!(text, "        {key}: {}", plain(&list));
        }
    }
    text
}

/// What the two files leave out; the same stands in them as comments.
pub fn slurm_notes(subnet: &Subnet) -> Vec<String> {
    tree(subnet).notes
}

impl Line {
    /// The key and the list of what is below.
    fn below<'k>(&self, [switches, nodes]: [&'k str; 2]) -> Option<(&'k str, String)> {
        let (key, list) = if self.nodes.is_empty() { (switches, &self.switches) } else { (nodes, &self.nodes) };
        (!list.is_empty()).then(|| (key, fold(list.iter().map(String::as_str))))
    }
}

/// A text of YAML: between quotes where it might mean something else.
fn plain(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "-_.[],/".contains(c);
    if text.starts_with(char::is_alphanumeric) && text.chars().all(harmless) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What is written.
struct Tree {
    lines: Vec<Line>,
    notes: Vec<String>,
}

fn tree(subnet: &Subnet) -> Tree {
    let nodes = Nodes::new(subnet);
    let mut names = Names::new(subnet);
    let mut notes = nodes.notes(subnet);
    let lines = if subnet.structure_only { as_read(subnet, &nodes, &mut names) } else { merged(subnet, &nodes, &mut names, &mut notes) };
    Tree { lines, notes }
}

/// Names as the format allows them, each once.
struct Names {
    of: Vec<String>,
    taken: BTreeSet<String>,
}

impl Names {
    fn new(subnet: &Subnet) -> Names {
        let mut names = Names { of: Vec::new(), taken: BTreeSet::new() };
        for (name, device) in subnet.distinct_switch_names().iter().zip(&subnet.devices) {
            let name = if device.kind == Kind::Switch { names.new_one(clean(name)) } else { String::new() };
            names.of.push(name);
        }
        names
    }
    /// The name, with a number where it was given before.
    fn new_one(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut number = 1;
        while !self.taken.insert(free.clone()) {
            number += 1;
            free = format!("{name}-{number}");
        }
        free
    }
}

/// Without what has a meaning in the files.
fn clean(name: &str) -> String {
    name.replace(|c: char| c.is_whitespace() || c.is_control() || ",=#\"[]\\".contains(c), "-")
}

/// The nodes at each switch, and adapters without a host.
struct Nodes<'a> {
    at: BTreeMap<u32, BTreeSet<&'a str>>,
    unnamed: Vec<u32>,
}

impl<'a> Nodes<'a> {
    fn new(subnet: &'a Subnet) -> Nodes<'a> {
        let (mut nodes, mut placed) = (Nodes { at: BTreeMap::new(), unnamed: Vec::new() }, BTreeSet::new());
        let ends = subnet.cables.iter().flat_map(|cable| [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])]);
        let leaf_of: BTreeMap<_, _> = ends.collect();
        for plug in subnet.wiring().endpoints {
            let adapter = subnet.device(plug);
            if adapter.is_unnamed() {
                nodes.unnamed.push(plug.device);
            } else if placed.insert(adapter.host()) {
                nodes.at.entry(leaf_of[&plug].device).or_default().insert(adapter.host());
            }
        }
        nodes
    }
    fn of(&self, switch: u32) -> Vec<String> {
        self.at.get(&switch).into_iter().flatten().map(|node| clean(node)).collect()
    }
    fn notes(&self, subnet: &Subnet) -> Vec<String> {
        let Some(&first) = self.unnamed.first() else { return Vec::new() };
        let (count, first) = (self.unnamed.len(), &subnet.devices[first as usize]);
        let what = format!("left out: {count} adapters that no host has named, such as {} ({})", first.id, first.name());
        vec![what]
    }
}

/// A tree of Slurm, as it was read: switches in the order of the file.
fn as_read(subnet: &Subnet, nodes: &Nodes<'_>, names: &mut Names) -> Vec<Line> {
    let levels = subnet.levels();
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cable in &subnet.cables {
        let [a, b] = cable.ends.map(|end| end.device);
        let (low, high) = if levels[a as usize] < levels[b as usize] { (a, b) } else { (b, a) };
        if subnet.devices[low as usize].kind == Kind::Switch {
            below.entry(high).or_default().push(low);
        }
    }
    let mut lines = Vec::new();
    for (switch, _) in subnet.of_kind(Kind::Switch) {
        let children = below.get(&switch).into_iter().flatten().map(|&child| names.of[child as usize].clone());
        let mut line = Line { name: names.of[switch as usize].clone(), switches: children.collect(), nodes: nodes.of(switch) };
        line.switches.dedup();
        lines.push(line);
    }
    lines
}

/// Groups of switches that are written as one, and what is at the top of each so far.
#[derive(Clone)]
struct Groups {
    parent: Vec<u32>,
    tops: BTreeMap<u32, String>,
}

impl Groups {
    fn join(&mut self, [a, b]: [u32; 2]) {
        let (a, b) = (root(&mut self.parent, a), root(&mut self.parent, b));
        self.parent[a.max(b) as usize] = a.min(b);
    }
    /// Puts a switch above all tops of each group that has one by now, or several tops.
    fn rise(&mut self, lines: &mut Vec<Line>, mut head: impl FnMut(u32, &[String]) -> Option<String>) {
        let mut children: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (member, name) in std::mem::take(&mut self.tops) {
            children.entry(root(&mut self.parent, member)).or_default().push(name);
        }
        let mut named: Vec<(u32, Vec<String>, Option<String>)> = Vec::new();
        for (group, mut below) in children {
            below.sort_by_cached_key(|name| natural(name));
            let name = head(group, &below);
            named.push((group, below, name));
        }
        named.sort_by_cached_key(|(_, _, name)| name.as_ref().map(|name| natural(name)));
        for (group, switches, name) in named {
            match name {
                Some(name) => {
                    lines.push(Line { name: name.clone(), switches, nodes: Vec::new() });
                    self.tops.insert(group, name);
                }
                // Nothing above: at most one top, since what is joined gets a switch.
                None => self.tops.extend(switches.into_iter().map(|name| (group, name))),
            }
        }
    }
}

/// A tree made of cables.
fn merged(subnet: &Subnet, nodes: &Nodes<'_>, names: &mut Names, notes: &mut Vec<String>) -> Vec<Line> {
    let (levels, together) = (subnet.levels(), subnet.switch_groups());
    let at = |device: u32| if together[device as usize].is_some() { levels[device as usize].unwrap_or(0) } else { 0 };
    let mut groups = Groups { parent: (0..subnet.devices.len() as u32).collect(), tops: BTreeMap::new() };
    let mut lines = Vec::new();
    let switches = subnet.wiring().switches;
    for &switch in switches.iter().filter(|switch| nodes.at.contains_key(switch)) {
        let own = names.of[switch as usize].clone();
        let name = if at(switch) > 1 { names.new_one(format!("{own}-nodes")) } else { own };
        lines.push(Line { name: name.clone(), switches: Vec::new(), nodes: nodes.of(switch) });
        groups.tops.insert(switch, name);
    }
    let cables: Vec<[u32; 2]> = subnet.cables.iter().map(|cable| cable.ends.map(|end| end.device)).collect();
    for level in 2..=switches.iter().map(|&switch| at(switch)).max().unwrap_or(0) {
        let up = |&&[a, b]: &&[u32; 2]| at(a) != at(b) && at(a).max(at(b)) == level && at(a).min(at(b)) > 0;
        cables.iter().filter(up).for_each(|ends| groups.join(*ends));
        let mut heads: BTreeMap<u32, u32> = BTreeMap::new();
        for &head in switches.iter().filter(|&&head| at(head) == level) {
            heads.entry(root(&mut groups.parent, head)).or_insert(head);
        }
        groups.rise(&mut lines, |group, _| heads.get(&group).map(|&head| names.of[head as usize].clone()));
    }
    // What is left is joined by cables within a level, if at all: groups first, then all.
    for (prefix, all) in [("group-of", false), ("all-of", true)] {
        let beside = |&&[a, b]: &&[u32; 2]| at(a) > 0 && at(b) > 0 && (all || together[a as usize] == together[b as usize]);
        let mut joined = groups.clone();
        cables.iter().filter(beside).for_each(|ends| joined.join(*ends));
        // Groups that are one are no groups.
        let tops: BTreeSet<u32> = groups.tops.keys().map(|&top| root(&mut joined.parent, top)).collect();
        if !all && tops.len() == 1 {
            continue;
        }
        groups = joined;
        groups.rise(&mut lines, |_, below| (below.len() > 1).then(|| names.new_one(format!("{prefix}-{}", below[0]))));
    }
    let written: BTreeSet<&str> = lines.iter().flat_map(|line| &line.nodes).map(String::as_str).collect();
    let idle = switches.iter().filter(|switch| at(**switch) <= 1 && !nodes.at.contains_key(switch)).count();
    if idle > 0 && !written.is_empty() {
        notes.push(format!("left out: {idle} leaf switches without a node of their own; a node counts with the first of its adapters"));
    }
    lines
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
