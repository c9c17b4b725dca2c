//! Who gets a tree: the aggregation manager of a fabric.

use std::collections::BTreeMap;

use super::tree::{Apart, Tree};
use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// What every switch has for reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Trees of the whole fabric.
    pub trees: u32,
    /// Groups that go through a switch.
    pub groups: u32,
    /// Operations that a switch has outstanding, those of all groups together.
    pub slots: u32,
    /// Children of a switch in a tree.
    pub children: u32,
}

/// Why there is no reduction in the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody to reduce with.
    #[error("a group needs two members at least, and has {0}")]
    #[diagnostic(help("leave reductions to the hosts"))]
    TooFew(u32),
    /// The same endpoint twice.
    #[error("{0} is a member twice")]
    #[diagnostic(help("give each adapter one process that speaks for its node"))]
    Twice(EndpointId),
    /// No way.
    #[error("no path of switches that reduce leads to {0}")]
    #[diagnostic(help("repair its links, or leave it out"))]
    Apart(EndpointId),
    /// All trees are taken.
    #[error("all {0} trees of the fabric are taken")]
    #[diagnostic(help("wait for another job to end"))]
    Trees(u32),
    /// All groups of a switch are taken.
    #[error("all {groups} groups of switch {switch} are taken")]
    #[diagnostic(help("use fewer communicators"))]
    Groups {
        /// The switch.
        switch: SwitchId,
        /// Groups it has.
        groups: u32,
    },
    /// The operations of a switch are taken.
    #[error("switch {switch} has room for {left} of {wanted} operations outstanding")]
    #[diagnostic(help("ask for fewer"))]
    Slots {
        /// The switch.
        switch: SwitchId,
        /// Not taken.
        left: u32,
        /// Asked for.
        wanted: u32,
    },
    /// Too many below one switch.
    #[error("switch {switch} would have {children} children, and reduces {limit}")]
    #[diagnostic(help("spread the job over more switches"))]
    Children {
        /// The switch.
        switch: SwitchId,
        /// In this tree.
        children: u32,
        /// At the most.
        limit: u32,
    },
}

impl From<Apart> for Refusal {
    fn from(Apart(endpoint): Apart) -> Refusal {
        Refusal::Apart(endpoint)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    groups: u32,
    slots: u32,
    roots: u32,
}

#[derive(Debug)]
struct Grant {
    tree: usize,
    slots: u32,
}

/// The aggregation manager: trees, groups and operations that jobs hold.
#[derive(Debug)]
pub struct Manager {
    limits: Limits,
    /// Trees with the groups that use them.
    trees: Vec<(Tree, u32)>,
    used: BTreeMap<SwitchId, Used>,
    /// Trees by cable.
    load: BTreeMap<u32, u32>,
    grants: BTreeMap<u32, Grant>,
    next: u32,
}

impl Manager {
    /// Nothing is taken.
    #[must_use]
    pub fn new(limits: Limits) -> Manager {
        Manager { limits, trees: Vec::new(), used: BTreeMap::new(), load: BTreeMap::new(), grants: BTreeMap::new(), next: 0 }
    }

    /// A group over `members` with room for `slots` operations in each switch: its number.
    ///
    /// # Errors
    /// What is exhausted, who is cut off.
    pub fn grant(&mut self, graph: &Graph, members: &[EndpointId], slots: u32, usable: impl Fn(LinkId) -> bool) -> Result<u32, Refusal> {
        if members.len() < 2 {
            return Err(Refusal::TooFew(members.len() as u32));
        }
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refusal::Twice(pair[0]));
        }
        let load = |link: LinkId| self.load.get(&link.cable()).copied().unwrap_or(0);
        let roots = |switch: SwitchId| self.used.get(&switch).map_or(0, |used| used.roots);
        let mut tree = Tree::over(graph, &sorted, &usable, load, roots)?;
        let in_use = self.trees.iter().filter(|(_, groups)| *groups > 0);
        if in_use.clone().count() as u32 >= self.limits.trees {
            // A tree over the same members serves several groups.
            let (wanted, alive) = (leaves(graph, &tree), |tree: &Tree| tree.cables().all(|cable| usable(LinkId(cable * 2))));
            let same = in_use.map(|(tree, _)| tree).find(|other| leaves(graph, other) == wanted && alive(other));
            tree = same.cloned().ok_or(Refusal::Trees(self.limits.trees))?;
        }
        self.check(&tree, slots)?;
        let at = self.trees.iter().position(|(other, _)| *other == tree).unwrap_or_else(|| {
            self.trees.push((tree.clone(), 0));
            self.trees.len() - 1
        });
        self.trees[at].1 += 1;
        self.count(
            &tree,
            |used| *used += 1,
            |used| {
                used.groups += 1;
                used.slots += slots;
            },
        );
        self.used.entry(tree.root()).or_default().roots += 1;
        self.grants.insert(self.next, Grant { tree: at, slots });
        self.next += 1;
        Ok(self.next - 1)
    }

    /// The tree of a group.
    #[must_use]
    pub fn tree(&self, group: u32) -> Option<&Tree> {
        self.grants.get(&group).map(|grant| &self.trees[grant.tree].0)
    }

    /// The group is no longer needed; unknown ones are none.
    pub fn release(&mut self, group: u32) {
        let Some(Grant { tree: at, slots }) = self.grants.remove(&group) else { return };
        self.trees[at].1 -= 1;
        let tree = self.trees[at].0.clone();
        self.count(
            &tree,
            |used| *used -= 1,
            |used| {
                used.groups -= 1;
                used.slots -= slots;
            },
        );
        self.used.entry(tree.root()).or_default().roots -= 1;
    }

    fn check(&self, tree: &Tree, slots: u32) -> Result<(), Refusal> {
        for node in tree.nodes() {
            let (switch, used) = (node.switch, self.used.get(&node.switch).copied().unwrap_or_default());
            let children = node.children.len() as u32;
            if children > self.limits.children {
                return Err(Refusal::Children { switch, children, limit: self.limits.children });
            }
            if used.groups >= self.limits.groups {
                return Err(Refusal::Groups { switch, groups: self.limits.groups });
            }
            let left = self.limits.slots.saturating_sub(used.slots);
            if slots > left {
                return Err(Refusal::Slots { switch, left, wanted: slots });
            }
        }
        Ok(())
    }

    fn count(&mut self, tree: &Tree, cable: impl Fn(&mut u32), switch: impl Fn(&mut Used)) {
        for number in tree.cables() {
            cable(self.load.entry(number).or_default());
        }
        for node in tree.nodes() {
            switch(self.used.entry(node.switch).or_default());
        }
    }
}

/// The links of a tree to its members, in order.
fn leaves(graph: &Graph, tree: &Tree) -> Vec<LinkId> {
    let links = tree.nodes().iter().flat_map(|node| node.children.iter().copied());
    let mut leaves: Vec<LinkId> = links.filter(|link| matches!(graph.node(graph.link(*link).to), Node::Endpoint(_))).collect();
    leaves.sort_unstable();
    leaves
}
