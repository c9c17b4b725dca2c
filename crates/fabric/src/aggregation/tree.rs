//! The lowest tree of switches over some endpoints.
//!
//! The root is the switch whose farthest leaf is nearest, then the one with the least sum of hops to the leaves, then the one that
//! fewest trees have as theirs, then the lowest number. Leaves go up by shortest paths: to a switch that is on the tree already,
//! else by the cable with the fewest trees, else by the first port.
//!
//! Takes leaf switches × links steps.

use std::collections::{BTreeMap, VecDeque};

use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// A switch of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The switch.
    pub switch: SwitchId,
    /// The link to its parent; none at the root.
    pub up: Option<LinkId>,
    /// The links to its children, switches and endpoints, in the order of their numbers.
    pub children: Vec<LinkId>,
}

/// A tree of switches, the root first, parents before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<TreeNode>,
    depth: u32,
}

/// A member that no usable path joins to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart(pub EndpointId);

impl Tree {
    /// The tree over `members` by links that are `usable`; `load` says how many trees a cable has, `roots` how many a switch is the root of.
    ///
    /// # Errors
    /// A member without a way to the others.
    pub fn over(
        graph: &Graph,
        members: &[EndpointId],
        usable: impl Fn(LinkId) -> bool,
        load: impl Fn(LinkId) -> u32,
        roots: impl Fn(SwitchId) -> u32,
    ) -> Result<Tree, Apart> {
        let mut leaves: BTreeMap<SwitchId, Vec<LinkId>> = BTreeMap::new();
        for &member in members {
            let uplink = graph.uplink(member);
            match graph.node(graph.link(uplink).to) {
                Node::Switch(switch) if usable(uplink) => leaves.entry(switch).or_default().push(uplink.reverse()),
                _ => return Err(Apart(member)),
            }
        }
        let count = graph.switch_count() as usize;
        let (mut sums, mut farthest) = (vec![0u64; count], vec![0u32; count]);
        for leaf in leaves.keys() {
            for (switch, hops) in distances(graph, *leaf, &usable).into_iter().enumerate() {
                sums[switch] = sums[switch].saturating_add(hops.into());
                farthest[switch] = farthest[switch].max(hops);
            }
        }
        let best = graph.switches().min_by_key(|s| (farthest[s.index()], sums[s.index()], roots(*s), *s));
        let first = members.first().copied().unwrap_or(EndpointId(0));
        let root = best.ok_or(Apart(first))?;
        let hops = distances(graph, root, &usable);
        if let Some((_, links)) = leaves.iter().find(|(leaf, _)| hops[leaf.index()] == UNREACHED) {
            let cut = links.first().map(|link| graph.node(graph.link(*link).to));
            return Err(Apart(if let Some(Node::Endpoint(endpoint)) = cut { endpoint } else { first }));
        }
        let mut up: BTreeMap<SwitchId, LinkId> = BTreeMap::new();
        let mut children = leaves.clone();
        for leaf in leaves.keys() {
            let mut at = *leaf;
            while at != root && !up.contains_key(&at) {
                let nearer = |link: LinkId| match graph.node(graph.link(link).to) {
                    Node::Switch(next) if usable(link) && hops[next.index()] + 1 == hops[at.index()] => Some((next, link)),
                    _ => None,
                };
                let ways = graph.outputs(at).filter_map(|(_, link)| nearer(link));
                let best = ways.min_by_key(|(next, link)| (!children.contains_key(next), load(*link), *link));
                let Some((next, link)) = best else { return Err(Apart(first)) };
                up.insert(at, link);
                children.entry(next).or_default().push(link.reverse());
                at = next;
            }
        }
        let mut nodes = Vec::with_capacity(children.len());
        let mut queue = VecDeque::from([(root, 1)]);
        let mut depth = 0;
        while let Some((switch, level)) = queue.pop_front() {
            let mut below = children.remove(&switch).unwrap_or_default();
            below.sort_unstable();
            depth = depth.max(level);
            for link in &below {
                if let Node::Switch(child) = graph.node(graph.link(*link).to) {
                    queue.push_back((child, level + 1));
                }
            }
            nodes.push(TreeNode { switch, up: up.get(&switch).copied(), children: below });
        }
        Ok(Tree { nodes, depth })
    }

    /// The switches of the tree, the root first.
    #[must_use]
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }
    /// The switch at which everything comes together.
    #[must_use]
    pub fn root(&self) -> SwitchId {
        self.nodes[0].switch
    }
    /// Switches between an endpoint and the end of the way up, the root included.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }
    /// The cables of the tree, those of the endpoints included.
    pub fn cables(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().flat_map(|node| node.children.iter().map(|link| link.cable()))
    }
}

/// Hops from `start` to every switch by usable links.
fn distances(graph: &Graph, start: SwitchId, usable: &impl Fn(LinkId) -> bool) -> Vec<u32> {
    let mut hops = vec![UNREACHED; graph.switch_count() as usize];
    hops[start.index()] = 0;
    let mut queue = VecDeque::from([start]);
    while let Some(switch) = queue.pop_front() {
        for (_, link) in graph.outputs(switch) {
            if let Node::Switch(next) = graph.node(graph.link(link).to)
                && hops[next.index()] == UNREACHED
                && usable(link)
            {
                hops[next.index()] = hops[switch.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    hops
}

/// Farther than any switch.
const UNREACHED: u32 = u32::MAX;
