//! From what is below each switch to a subnet: what the readers of Slurm's files have in common.
//!
//! Slurm's format has names alone: one cable is assumed for each switch or node below a switch, ports are numbered in the
//! order of the file. A switch may be below several, as fat trees are written by some; a node is below one. Who is above whom is
//! what the file says: a switch is one level above the highest below it, as Slurm counts, and leaves may be at any depth.

use std::collections::{BTreeMap, BTreeSet};

use super::subnet::{Kind, Subnet};
use super::{ImportError, Mistake};

/// A switch and what is below it.
pub(super) struct Entry {
    pub switch: String,
    /// Where it is described, counted from 1.
    pub line: u32,
    pub children: Vec<String>,
    pub nodes: Vec<String>,
    /// All nodes below, where the file lists those of the switches below as well.
    pub all: Option<Vec<String>>,
}

/// The entries of a file.
#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    names: usize,
}

impl Entries {
    /// Adds one, as long as the file does not name more than any machine has.
    pub(super) fn push(&mut self, entry: Entry) -> Result<(), ImportError> {
        self.names += entry.children.len() + entry.nodes.len();
        if self.names > MOST_NAMES {
            let mistake = Mistake::Malformed { what: format!("more than {MOST_NAMES} names"), remedy: "is a range of names mistyped?" };
            return Err(ImportError::Line { line: entry.line, mistake });
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Names in one file; the largest machines have some ten thousand nodes.
const MOST_NAMES: usize = 1 << 20;

/// Levels of switches; Slurm's reader gives up after twenty passes.
const MOST_LEVELS: u32 = 64;

/// The subnet of all entries.
pub(super) fn subnet(entries: &Entries) -> Result<Subnet, ImportError> {
    let entries = &entries.entries[..];
    let wrong = |line, mistake| ImportError::Line { line, mistake };
    let mut subnet = Subnet { structure_only: true, ..Subnet::default() };
    let mut switches: BTreeMap<&str, u32> = BTreeMap::new();
    for entry in entries {
        if let Some(before) = switches.insert(&entry.switch, subnet.devices.len() as u32) {
            let before = subnet.devices[before as usize].line;
            return Err(wrong(entry.line, Mistake::Twice { id: entry.switch.clone(), before }));
        }
        subnet.add(Kind::Switch, entry.switch.clone(), entry.line);
    }
    let below = |entry: &Entry| -> Result<Vec<u32>, ImportError> {
        let known = |child: &String| {
            let unknown = || Mistake::NoSuchChild { switch: entry.switch.clone(), child: child.clone() };
            switches.get(child.as_str()).copied().ok_or_else(|| wrong(entry.line, unknown()))
        };
        let mut children = entry.children.iter().map(known).collect::<Result<Vec<u32>, _>>()?;
        let named = children.len();
        children.sort_unstable();
        children.dedup();
        if children.len() < named {
            return Err(wrong(entry.line, Mistake::BelowTwice { switch: entry.switch.clone() }));
        }
        entry.children.iter().map(known).collect()
    };
    let children: Vec<Vec<u32>> = entries.iter().map(below).collect::<Result<_, _>>()?;
    let order = upwards(&children).map_err(|cycle| {
        let names: Vec<&str> = cycle.iter().map(|&at| entries[at as usize].switch.as_str()).collect();
        let first = cycle.first().map_or(0, |&at| entries[at as usize].line);
        wrong(first, Mistake::Cycle { path: names.join(" above ") })
    })?;
    let levels = levels(&children, &order);
    if let Some(at) = levels.iter().position(|level| *level > MOST_LEVELS) {
        let what = format!("`{}` as the top of {} levels of switches", entries[at].switch, levels[at]);
        return Err(wrong(entries[at].line, Mistake::Malformed { what, remedy: "Slurm itself ends at some twenty levels" }));
    }
    let mut leaf_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for node in &entry.nodes {
            if let Some(before) = leaf_of.insert(node, at) {
                let (other, before) = (entries[before].switch.clone(), entries[before].line);
                return Err(wrong(entry.line, Mistake::TwoLeaves { node: node.clone(), other, before }));
            }
            let named_alike = switches.contains_key(node.as_str());
            let id = if named_alike { format!("node {node}") } else { node.clone() };
            let number = subnet.add(Kind::Adapter, id, entry.line);
            subnet.devices[number as usize].description.clone_from(node);
            subnet.connect([at as u32, number], None, entry.line)?;
        }
        for &child in &children[at] {
            subnet.connect([at as u32, child], None, entry.line)?;
        }
    }
    for (at, entry) in entries.iter().enumerate() {
        let Some(all) = &entry.all else { continue };
        let found = nodes_below(entries, &children, at);
        let listed: BTreeSet<&str> = all.iter().map(String::as_str).collect();
        if let Some(other) = found.symmetric_difference(&listed).next() {
            let below = found.contains(other);
            let mistake = Mistake::NodesDiffer { switch: entry.switch.clone(), node: (*other).to_owned(), below };
            return Err(wrong(entry.line, mistake));
        }
    }
    let stated = |(device, index): (&super::Device, usize)| match device.kind {
        Kind::Switch => Some(levels[index]),
        _ => Some(0),
    };
    subnet.stated = subnet.devices.iter().zip(0..).map(stated).collect();
    if subnet.devices.is_empty() { Err(ImportError::Empty) } else { Ok(subnet) }
}

/// All nodes below a switch.
fn nodes_below<'a>(entries: &'a [Entry], children: &[Vec<u32>], at: usize) -> BTreeSet<&'a str> {
    let (mut open, mut seen, mut nodes) = (vec![at as u32], BTreeSet::new(), BTreeSet::new());
    while let Some(at) = open.pop() {
        if seen.insert(at) {
            nodes.extend(entries[at as usize].nodes.iter().map(String::as_str));
            open.extend(&children[at as usize]);
        }
    }
    nodes
}

/// The level of each switch: 1 for those without switches below, else one more than the highest below; `order` has each after
/// those below it.
fn levels(children: &[Vec<u32>], order: &[u32]) -> Vec<u32> {
    let mut levels = vec![1; children.len()];
    for &at in order {
        levels[at as usize] = children[at as usize].iter().map(|&child| levels[child as usize] + 1).max().unwrap_or(1);
    }
    levels
}

/// All switches, each after those below it; or switches that are above each other in a cycle: the first is also the last.
fn upwards(children: &[Vec<u32>]) -> Result<Vec<u32>, Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; children.len()];
    let mut order = Vec::with_capacity(children.len());
    for start in 0..children.len() as u32 {
        if state[start as usize] != State::New {
            continue;
        }
        // The way down from `start`, each with the child to look at next.
        let mut way = vec![(start, 0usize)];
        state[start as usize] = State::Open;
        while let Some((at, next)) = way.last_mut() {
            let Some(&child) = children[*at as usize].get(*next) else {
                state[*at as usize] = State::Done;
                order.push(*at);
                way.pop();
                continue;
            };
            *next += 1;
            match state[child as usize] {
                State::Done => {}
                State::New => {
                    state[child as usize] = State::Open;
                    way.push((child, 0));
                }
                State::Open => {
                    let from = way.iter().position(|(at, _)| *at == child).unwrap_or(0);
                    return Err(way[from..].iter().map(|(at, _)| *at).chain([child]).collect());
                }
            }
        }
    }
    Ok(order)
}
