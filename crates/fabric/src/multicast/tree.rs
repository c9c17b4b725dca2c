//! A tree of shortest paths from one switch, cut back to where members are.
//!
//! The root is the switch with the least sum of hops to the members, then the least distance to the farthest, then the
//! lowest number. All shortest paths from it take the first port that leads there, so that every group has one way and
//! the tree climbs and descends once on a fat tree. Members stand on the way from their switch to the root; what lies
//! above the lowest switch that all of them share is cut off, unless the tree is anchored.
//!
//! Source: OpenSM, `osm_mcast_mgr.c` and `osm_switch_recommend_mcast_path` (behaviour): the best switch by hops, then
//! the first port with the least hops, never spread over several.
//! Modelled: grafting and pruning without moving the paths of others.
//! Not modelled: OpenSM's new choice of the root at every join and leave (ask for it with [`super::Groups::reroot`]).

use std::collections::VecDeque;

use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// Which ports of which switches a group uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: SwitchId,
    anchored: bool,
    /// By switch: the link towards the root.
    up: Vec<LinkId>,
    /// By switch: the links that a copy goes to, in order of their numbers.
    outputs: Vec<Vec<LinkId>>,
}

impl Tree {
    /// The switch with the least sum of hops to the `switches`; `None` where there is none.
    ///
    /// Takes switches × links steps.
    #[must_use]
    pub fn best_root(graph: &Graph, switches: &[SwitchId]) -> Option<SwitchId> {
        Tree::best_root_where(graph, switches, |_| true)
    }
    /// The same over the links that `alive` says; a root that reaches more of the `switches` is better.
    pub(super) fn best_root_where(graph: &Graph, switches: &[SwitchId], alive: impl Fn(LinkId) -> bool) -> Option<SwitchId> {
        let count = graph.switch_count() as usize;
        let (mut sums, mut farthest) = (vec![0u64; count], vec![0u32; count]);
        let mut hops = vec![UNREACHED; count];
        for group in sorted(switches).chunk_by(|one, other| one == other) {
            hops.fill(UNREACHED);
            search(graph, group[0], &alive, |switch, _, distance| hops[switch.index()] = distance);
            for (switch, &distance) in hops.iter().enumerate() {
                sums[switch] = sums[switch].saturating_add(u64::from(distance) * group.len() as u64);
                farthest[switch] = farthest[switch].max(distance);
            }
        }
        graph.switches().filter(|_| !switches.is_empty()).min_by_key(|switch| (sums[switch.index()], farthest[switch.index()], *switch))
    }

    /// The tree of shortest paths from `root`, without members. An anchored tree always reaches up to its root.
    #[must_use]
    pub fn rooted(graph: &Graph, root: SwitchId, anchored: bool) -> Tree {
        Tree::rooted_where(graph, root, anchored, |_| true)
    }
    /// The same over the links that `alive` says.
    pub(super) fn rooted_where(graph: &Graph, root: SwitchId, anchored: bool, alive: impl Fn(LinkId) -> bool) -> Tree {
        let count = graph.switch_count() as usize;
        let mut up = vec![NONE; count];
        search(graph, root, alive, |switch, link, _| up[switch.index()] = link.map_or(NONE, LinkId::reverse));
        Tree { root, anchored, up, outputs: vec![Vec::new(); count] }
    }

    /// The switch at which its paths meet.
    #[must_use]
    pub fn root(&self) -> SwitchId {
        self.root
    }
    /// Whether it always reaches up to its root.
    #[must_use]
    pub fn is_anchored(&self) -> bool {
        self.anchored
    }
    /// The links to which `switch` copies a packet of the group, but for the one it came from; empty where the switch is not on the tree.
    #[inline]
    #[must_use]
    pub fn outputs(&self, switch: SwitchId) -> &[LinkId] {
        &self.outputs[switch.index()]
    }
    /// The switches on the tree, in order.
    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.outputs.iter().enumerate().filter(|(_, outputs)| !outputs.is_empty()).map(|(switch, _)| SwitchId(switch as u32))
    }
    /// The link of `switch` towards the root; `None` at the root and where no path leads.
    #[must_use]
    pub fn up(&self, switch: SwitchId) -> Option<LinkId> {
        Some(self.up[switch.index()]).filter(|link| *link != NONE)
    }
    /// Whether a path leads from the root to `switch`.
    #[must_use]
    pub fn reaches(&self, switch: SwitchId) -> bool {
        switch == self.root || self.up[switch.index()] != NONE
    }
    /// Links of the longest path between two endpoints on the tree, those of the endpoints included.
    #[must_use]
    pub fn longest(&self, graph: &Graph) -> u32 {
        let leaves = self.switches().filter(|switch| self.outputs(*switch).iter().any(|link| ends_at_endpoint(graph, *link)));
        let Some(first) = leaves.into_iter().next() else { return 0 };
        // The farthest from anywhere is an end of the longest path of a tree.
        let (end, _) = self.farthest(graph, first);
        2 + self.farthest(graph, end).1
    }

    /// Serves these receivers and senders, and nobody else. Returns the switches whose ports changed, in order.
    pub fn span(
        &mut self,
        graph: &Graph,
        receivers: impl IntoIterator<Item = EndpointId>,
        senders: impl IntoIterator<Item = EndpointId>,
    ) -> Vec<SwitchId> {
        let mut outputs = vec![Vec::new(); self.outputs.len()];
        let mut below = vec![0u32; self.outputs.len()];
        let mut stands = vec![false; self.outputs.len()];
        for endpoint in receivers {
            let uplink = graph.uplink(endpoint);
            if let Some(switch) = self.place(graph, uplink, &mut below) {
                outputs[switch.index()].push(uplink.reverse());
                stands[switch.index()] = true;
            }
        }
        for endpoint in senders {
            if let Some(switch) = self.place(graph, graph.uplink(endpoint), &mut below) {
                stands[switch.index()] = true;
            }
        }
        let top = self.top(graph, &below, &stands);
        for switch in graph.switches().filter(|switch| below[switch.index()] > 0 && *switch != self.root) {
            let link = self.up[switch.index()];
            let Node::Switch(parent) = graph.node(graph.link(link).to) else { continue };
            if !self.above(graph, switch, top) {
                outputs[switch.index()].push(link);
                outputs[parent.index()].push(link.reverse());
            }
        }
        for links in &mut outputs {
            links.sort_unstable();
        }
        let changed = self.outputs.iter().zip(&outputs).enumerate().filter(|(_, (old, new))| old != new);
        let changed = changed.map(|(switch, _)| SwitchId(switch as u32)).collect();
        self.outputs = outputs;
        changed
    }

    /// Counts an endpoint in at its switch, and that switch at all those on its way to the root.
    fn place(&self, graph: &Graph, uplink: LinkId, below: &mut [u32]) -> Option<SwitchId> {
        let Node::Switch(switch) = graph.node(graph.link(uplink).to) else { return None };
        if !self.reaches(switch) {
            return None;
        }
        let mut at = switch;
        loop {
            below[at.index()] += 1;
            if below[at.index()] > 1 || at == self.root {
                return Some(switch);
            }
            let Node::Switch(parent) = graph.node(graph.link(self.up[at.index()]).to) else { return Some(switch) };
            at = parent;
        }
    }

    /// The lowest switch that the ways of all share.
    fn top(&self, graph: &Graph, below: &[u32], stands: &[bool]) -> SwitchId {
        let mut top = self.root;
        while !self.anchored && !stands[top.index()] {
            let mut children = graph.outputs(top).filter_map(|(_, link)| {
                let Node::Switch(child) = graph.node(graph.link(link).to) else { return None };
                (self.up[child.index()] == link.reverse() && below[child.index()] > 0).then_some(child)
            });
            let (Some(only), None) = (children.next(), children.next()) else { break };
            top = only;
        }
        top
    }

    /// Whether `switch` is `top` or stands between it and the root.
    fn above(&self, graph: &Graph, switch: SwitchId, top: SwitchId) -> bool {
        let mut at = top;
        loop {
            if at == switch {
                return true;
            }
            if at == self.root {
                return false;
            }
            let Node::Switch(parent) = graph.node(graph.link(self.up[at.index()]).to) else { return false };
            at = parent;
        }
    }

    /// The switch with endpoints that is farthest from `start` on the tree, and how far.
    fn farthest(&self, graph: &Graph, start: SwitchId) -> (SwitchId, u32) {
        let mut best = (start, 0);
        let mut stack = vec![(start, NONE, 0)];
        while let Some((switch, from, distance)) = stack.pop() {
            for &link in self.outputs(switch).iter().filter(|&&link| link != from) {
                match graph.node(graph.link(link).to) {
                    Node::Switch(next) => stack.push((next, link.reverse(), distance + 1)),
                    Node::Endpoint(_) if distance > best.1 => best = (switch, distance),
                    Node::Endpoint(_) => {}
                }
            }
        }
        best
    }
}

fn ends_at_endpoint(graph: &Graph, link: LinkId) -> bool {
    matches!(graph.node(graph.link(link).to), Node::Endpoint(_))
}

fn sorted(switches: &[SwitchId]) -> Vec<SwitchId> {
    let mut sorted = switches.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Visits the switches breadth first over links that are alive, ports in order: switch, link by which it was reached, hops.
fn search(graph: &Graph, root: SwitchId, alive: impl Fn(LinkId) -> bool, mut visit: impl FnMut(SwitchId, Option<LinkId>, u32)) {
    let mut seen = vec![false; graph.switch_count() as usize];
    let mut queue = VecDeque::from([(root, 0)]);
    seen[root.index()] = true;
    visit(root, None, 0);
    while let Some((switch, distance)) = queue.pop_front() {
        for (_, link) in graph.outputs(switch) {
            if let Node::Switch(next) = graph.node(graph.link(link).to)
                && !seen[next.index()]
                && alive(link)
            {
                seen[next.index()] = true;
                visit(next, Some(link), distance + 1);
                queue.push_back((next, distance + 1));
            }
        }
    }
}

/// No link.
const NONE: LinkId = LinkId(u32::MAX);
/// Farther than any switch.
const UNREACHED: u32 = u32::MAX;
