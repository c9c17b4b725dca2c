//! The groups of a subnet.
//!
//! Source: InfiniBand vol. 1 §15.2.5.17.2 (create, join), .3 (leave, delete): a group comes with its first full member
//! and goes with its last.
//! Modelled: create, join in every state, change of state, leave, delete; trees without cables that are dead ([`Groups::repair`]).
//! Not modelled: components of the record that a request leaves open; leases.

use std::collections::BTreeMap;

use super::address::{Mgid, Mlid};
use super::error::MulticastError;
use super::group::{Group, GroupAttr, JoinState};
use super::tree::Tree;
use crate::graph::{EndpointId, Graph, LinkId, Node, SwitchId};

/// All groups, by name and by number.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    numbers: BTreeMap<Mgid, Mlid>,
    groups: Vec<Option<Group>>,
    /// Groups have no trees of their own: something else decides where their packets go.
    treeless: bool,
    /// Cables that trees leave out, in order.
    dead: Vec<u32>,
}

impl Groups {
    /// No group.
    #[must_use]
    pub fn new() -> Groups {
        Groups::default()
    }
    /// No group, and none that comes will have a tree of its own: members only.
    #[must_use]
    pub fn treeless() -> Groups {
        Groups { treeless: true, ..Groups::default() }
    }

    /// Makes a group without members and numbers it.
    ///
    /// # Errors
    /// The address is not that of a group, the group exists, all numbers are taken.
    pub fn create(&mut self, mgid: Mgid, attr: GroupAttr) -> Result<Mlid, MulticastError> {
        if !mgid.is_multicast() {
            return Err(MulticastError::NotMulticast { mgid });
        }
        if let Some(&mlid) = self.numbers.get(&mgid) {
            return Err(MulticastError::Exists { mgid, mlid });
        }
        let free = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
        let mlid = u32::try_from(free).ok().and_then(Mlid::of).ok_or(MulticastError::Full)?;
        if free == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[free] = Some(Group { mgid, mlid, attr, members: BTreeMap::new(), tree: None });
        self.numbers.insert(mgid, mlid);
        Ok(mlid)
    }

    /// Ends a group. Returns the switches that forget it, in order.
    ///
    /// # Errors
    /// There is no such group.
    pub fn delete(&mut self, mgid: Mgid) -> Result<Vec<SwitchId>, MulticastError> {
        let mlid = self.numbers.remove(&mgid).ok_or(MulticastError::NoSuchGroup { mgid })?;
        let group = self.groups[mlid.index()].take();
        Ok(group.and_then(|group| group.tree).map_or_else(Vec::new, |tree| tree.switches().collect()))
    }

    /// Lets an endpoint join, or changes how it belongs. Returns the switches whose tables change, in order.
    ///
    /// # Errors
    /// No such group or endpoint, the same state as before, no full member to live by, no path.
    pub fn join(&mut self, graph: &Graph, mgid: Mgid, endpoint: EndpointId, state: JoinState) -> Result<Vec<SwitchId>, MulticastError> {
        self.join_all(graph, mgid, &[(endpoint, state)])
    }

    /// Lets several endpoints join at once: the tree of a group without members is rooted for all of them.
    ///
    /// # Errors
    /// As [`Groups::join`]; then nobody has joined.
    pub fn join_all(&mut self, graph: &Graph, mgid: Mgid, joining: &[(EndpointId, JoinState)]) -> Result<Vec<SwitchId>, MulticastError> {
        let treeless = self.treeless;
        let dead = self.dead.clone();
        let group = self.group_mut(mgid)?;
        let mut members = group.members.clone();
        for &(endpoint, state) in joining {
            if endpoint.0 >= graph.endpoint_count() {
                return Err(MulticastError::NoSuchEndpoint { endpoint, endpoints: graph.endpoint_count() });
            }
            if members.insert(endpoint, state) == Some(state) {
                return Err(MulticastError::AlreadyJoined { endpoint, state, mgid });
            }
        }
        if !members.values().any(|state| state.keeps_alive())
            && let Some(&(endpoint, state)) = joining.first()
        {
            return Err(MulticastError::NoFullMember { mgid, endpoint, state });
        }
        if treeless {
            group.members = members;
            return Ok(Vec::new());
        }
        let tree = match &group.tree {
            Some(tree) => tree.clone(),
            None => match rooted(graph, &switches(graph, members.keys()), &dead) {
                Some(tree) => tree,
                None => {
                    group.members = members;
                    return Ok(Vec::new());
                }
            },
        };
        // Members of before may have been cut off since.
        let apart = joining.iter().find(|(endpoint, _)| !switches(graph, [endpoint]).iter().all(|switch| tree.reaches(*switch)));
        if let Some(&(endpoint, _)) = apart {
            return Err(MulticastError::Apart { endpoint, root: tree.root() });
        }
        group.members = members;
        group.tree = Some(tree);
        Ok(group.span(graph))
    }

    /// Lets an endpoint leave; the group ends with its last full member. Returns the switches whose tables change, in order.
    ///
    /// # Errors
    /// No such group, no such member.
    pub fn leave(&mut self, graph: &Graph, mgid: Mgid, endpoint: EndpointId) -> Result<Vec<SwitchId>, MulticastError> {
        let group = self.group_mut(mgid)?;
        group.members.remove(&endpoint).ok_or(MulticastError::NotJoined { endpoint, mgid })?;
        if !group.members.values().any(|state| state.keeps_alive()) {
            return self.delete(mgid);
        }
        Ok(group.span(graph))
    }

    /// Chooses the root of the tree anew for the members there are, as OpenSM does at every change. Returns the switches
    /// whose tables change, in order.
    ///
    /// # Errors
    /// There is no such group.
    pub fn reroot(&mut self, graph: &Graph, mgid: Mgid) -> Result<Vec<SwitchId>, MulticastError> {
        let dead = self.dead.clone();
        Ok(self.group_mut(mgid)?.rebuild(graph, &dead))
    }

    /// From now on trees leave these cables out, which are dead, and no others: those of all groups are made anew. Returns the groups and the
    /// switches whose tables change, in order. Members that no path joins any more stay members, and get nothing.
    pub fn repair(&mut self, graph: &Graph, dead: &[u32]) -> Vec<(Mlid, Vec<SwitchId>)> {
        self.dead = dead.to_vec();
        self.dead.sort_unstable();
        let (groups, dead) = (&mut self.groups, &self.dead);
        let changed = groups.iter_mut().flatten().map(|group| (group.mlid, group.rebuild(graph, dead)));
        changed.filter(|(_, switches)| !switches.is_empty()).collect()
    }

    /// The group of that name.
    ///
    /// # Errors
    /// There is no such group.
    pub fn group(&self, mgid: Mgid) -> Result<&Group, MulticastError> {
        let number = self.numbers.get(&mgid).ok_or(MulticastError::NoSuchGroup { mgid })?;
        self.at(*number).ok_or(MulticastError::NoSuchGroup { mgid })
    }
    /// The group of that number.
    #[inline]
    #[must_use]
    pub fn at(&self, mlid: Mlid) -> Option<&Group> {
        self.groups.get(mlid.index())?.as_ref()
    }
    /// All groups by number.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten()
    }

    fn group_mut(&mut self, mgid: Mgid) -> Result<&mut Group, MulticastError> {
        let number = self.numbers.get(&mgid).ok_or(MulticastError::NoSuchGroup { mgid })?;
        self.groups[number.index()].as_mut().ok_or(MulticastError::NoSuchGroup { mgid })
    }
}

impl Group {
    /// A tree from the best root there is now; the switches whose tables change.
    fn rebuild(&mut self, graph: &Graph, dead: &[u32]) -> Vec<SwitchId> {
        let Some(old) = self.tree.take() else { return Vec::new() };
        let Some(new) = rooted(graph, &switches(graph, self.members.keys()), dead) else {
            self.tree = Some(old);
            return Vec::new();
        };
        self.tree = Some(new);
        self.span(graph);
        let new = self.tree.as_ref().unwrap_or(&old);
        graph.switches().filter(|switch| old.outputs(*switch) != new.outputs(*switch)).collect()
    }
    fn span(&mut self, graph: &Graph) -> Vec<SwitchId> {
        let (receivers, senders): (Vec<_>, Vec<_>) = self.members.iter().partition(|(_, state)| state.receives());
        let endpoints = |members: Vec<(&EndpointId, &JoinState)>| members.into_iter().map(|(endpoint, _)| *endpoint).collect::<Vec<_>>();
        let (receivers, senders) = (endpoints(receivers), endpoints(senders));
        self.tree.as_mut().map_or_else(Vec::new, |tree| tree.span(graph, receivers, senders))
    }
}

/// The tree from the best root for these switches, without the cables that are dead.
fn rooted(graph: &Graph, switches: &[SwitchId], dead: &[u32]) -> Option<Tree> {
    let alive = |link: LinkId| dead.binary_search(&link.cable()).is_err();
    let root = Tree::best_root_where(graph, switches, alive)?;
    Some(Tree::rooted_where(graph, root, false, alive))
}

/// The switch of each endpoint that has one.
fn switches<'a>(graph: &Graph, endpoints: impl IntoIterator<Item = &'a EndpointId>) -> Vec<SwitchId> {
    let switch = |endpoint: &EndpointId| match graph.node(graph.link(graph.uplink(*endpoint)).to) {
        Node::Switch(switch) => Some(switch),
        Node::Endpoint(_) => None,
    };
    endpoints.into_iter().filter_map(switch).collect()
}
