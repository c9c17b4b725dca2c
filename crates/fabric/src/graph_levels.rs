//! The level of each switch of any graph, from its cables alone: 1 for leaves, one more for each step away from them.
//!
//! Distances from the hosts are nearly that, and wrong in three places: leaves without hosts look like the third level, a spine
//! with a service host looks like a leaf, and pods without hosts look like levels above the core. So the graph is looked at by
//! classes of switches that share most of their neighbours, such as the leaves of a pod.
//!
//! Method (this project's own; no source):
//! 1. Two switches are alike if more than half of the cables of the one with more lead to the same neighbours as those of the
//!    other, and both or neither are modules of a chassis. Classes are what that joins.
//! 2. A class with hosts is a leaf class, unless fewer than one in eight of its switches has hosts, or most of those with hosts
//!    have true leaves for neighbours: half of all and three quarters of those with hosts. A true leaf has at least twice as
//!    many hosts as any of its neighbours: grids and dragonflies have hardly any, and every switch with hosts is a leaf.
//! 3. Levels are distances from the leaf classes, from class to class.
//! 4. Classes from level 3 on fold down two levels if they look like a pod without hosts: their neighbours below are all those of
//!    one switch two levels down, or fewer than half of the level below has anything above it. What hangs below follows.
//!
//! Not modelled: trees whose levels the graph does not tell apart; a top switch that joins the spines of a single pod looks like
//! a leaf without hosts, and is one to every route.

use std::collections::BTreeMap;

/// Switches and the cables between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switches {
    /// The switches next to each, in order, once each.
    pub(crate) neighbours: Vec<Vec<u32>>,
    /// How many cables lead to each of these.
    pub(crate) cables: Vec<Vec<u32>>,
    /// Cables to hosts.
    pub(crate) hosts: Vec<u32>,
    /// Whether it is a module of a chassis.
    pub(crate) modules: Vec<bool>,
}

impl Switches {
    /// From the far end of each cable of each switch, and its cables to hosts.
    pub(crate) fn new(ends: Vec<Vec<u32>>, hosts: Vec<u32>) -> Switches {
        let mut switches = Switches { modules: vec![false; hosts.len()], hosts, ..Switches::default() };
        for mut far in ends {
            far.sort_unstable();
            let (mut near, mut cables): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            for far in far {
                match cables.last_mut().filter(|_| near.last() == Some(&far)) {
                    Some(count) => *count += 1,
                    None => {
                        near.push(far);
                        cables.push(1);
                    }
                }
            }
            switches.neighbours.push(near);
            switches.cables.push(cables);
        }
        switches
    }
}

/// By switch its level; `None` where no host is in reach.
pub(crate) fn levels(switches: &Switches) -> Vec<Option<u32>> {
    let (classes, neighbours, hosts) = (Classes::new(switches), &switches.neighbours[..], &switches.hosts[..]);
    let mut levels = vec![None; classes.members.len()];
    let mut front = classes.leaves(neighbours, hosts);
    front.iter().for_each(|&class| levels[class as usize] = Some(1));
    let mut order = Vec::new();
    while !front.is_empty() {
        let mut next = Vec::new();
        for &class in &front {
            let level = levels[class as usize];
            for far in classes.around(neighbours, class) {
                if levels[far as usize].is_none() {
                    levels[far as usize] = level.map(|level| level + 1);
                    next.push(far);
                }
            }
        }
        order.append(&mut front);
        front = next;
    }
    let folded = fold(&classes, neighbours, &levels, &order);
    (0..neighbours.len()).map(|switch| folded[classes.of[switch] as usize]).collect()
}

/// By switch its group: switches that are joined and share most of their neighbours, each other included, such as a group of a
/// dragonfly.
pub(crate) fn groups(mut switches: Switches) -> Vec<u32> {
    for (switch, (near, cables)) in (0..).zip(switches.neighbours.iter_mut().zip(&mut switches.cables)) {
        let at = near.partition_point(|&far| far < switch);
        near.insert(at, switch);
        cables.fill(1);
        cables.push(1);
    }
    Classes::new(&switches).of
}

/// Switches that share most of their neighbours.
struct Classes {
    /// The class of each switch.
    of: Vec<u32>,
    members: Vec<Vec<u32>>,
}

impl Classes {
    fn new(switches: &Switches) -> Classes {
        let count = switches.neighbours.len();
        let all = |switch: u32| {
            let at = switch as usize;
            switches.neighbours[at].iter().copied().zip(switches.cables[at].iter().copied())
        };
        let total = |switch: u32| switches.cables[switch as usize].iter().sum::<u32>();
        // Most switches of a class have the very same cables: one stands for all of them.
        let mut same: BTreeMap<(&[u32], &[u32], bool), u32> = BTreeMap::new();
        let mut parent: Vec<u32> = (0..count as u32).collect();
        for (switch, parent) in parent.iter_mut().enumerate() {
            let key = (&switches.neighbours[switch][..], &switches.cables[switch][..], switches.modules[switch]);
            if !key.0.is_empty() {
                *parent = *same.entry(key).or_insert(switch as u32);
            }
        }
        let mut beside: Vec<Vec<(u32, u32)>> = vec![Vec::new(); count];
        for &switch in same.values() {
            all(switch).for_each(|(far, cables)| beside[far as usize].push((switch, cables)));
        }
        let mut common = vec![0u32; count];
        for &switch in same.values() {
            for (far, cables) in all(switch) {
                beside[far as usize].iter().for_each(|(other, theirs)| common[*other as usize] += cables.min(*theirs));
            }
            for other in all(switch).flat_map(|(far, _)| &beside[far as usize]).map(|(other, _)| *other) {
                let shared = std::mem::take(&mut common[other as usize]);
                let alike = 2 * shared > total(switch).max(total(other));
                if alike && switches.modules[switch as usize] == switches.modules[other as usize] {
                    let (a, b) = (root(&mut parent, switch), root(&mut parent, other));
                    parent[a.max(b) as usize] = a.min(b);
                }
            }
        }
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut classes = Classes { of: Vec::new(), members: Vec::new() };
        for switch in 0..count as u32 {
            let class = *numbers.entry(root(&mut parent, switch)).or_insert(classes.members.len() as u32);
            if class as usize == classes.members.len() {
                classes.members.push(Vec::new());
            }
            classes.of.push(class);
            classes.members[class as usize].push(switch);
        }
        classes
    }

    /// Classes next to one.
    fn around(&self, neighbours: &[Vec<u32>], class: u32) -> Vec<u32> {
        let near = self.members[class as usize].iter().flat_map(|&switch| &neighbours[switch as usize]);
        let mut around: Vec<u32> = near.map(|&far| self.of[far as usize]).filter(|&far| far != class).collect();
        around.sort_unstable();
        around.dedup();
        around
    }

    /// The classes that hosts are plugged into as a rule.
    fn leaves(&self, neighbours: &[Vec<u32>], hosts: &[u32]) -> Vec<u32> {
        let has = |switch: u32| hosts[switch as usize];
        let true_leaf = |switch: u32| has(switch) > 0 && neighbours[switch as usize].iter().all(|&far| 2 * has(far) <= has(switch));
        let over_leaves = |switch: u32| {
            let near = &neighbours[switch as usize];
            let (leaves, hosted) = (near.iter().filter(|&&far| true_leaf(far)), near.iter().filter(|&&far| has(far) > 0));
            let (leaves, hosted) = (leaves.count(), hosted.count());
            leaves > 0 && 2 * leaves >= near.len() && 4 * leaves >= 3 * hosted
        };
        let hosted: Vec<u32> =
            (0..self.members.len() as u32).filter(|&class| self.members[class as usize].iter().any(|&member| has(member) > 0)).collect();
        let is_leaf = |class: &u32| {
            let members = &self.members[*class as usize];
            let with_hosts: Vec<u32> = members.iter().copied().filter(|&member| has(member) > 0).collect();
            let over = with_hosts.iter().filter(|&&member| over_leaves(member)).count();
            RARE * with_hosts.len() >= members.len() && 2 * over <= with_hosts.len()
        };
        let leaves: Vec<u32> = hosted.iter().copied().filter(is_leaf).collect();
        if leaves.is_empty() { hosted } else { leaves }
    }
}

/// One in so many switches of a class with hosts is an exception: a service host at the core. Basis: assumed; a pod under
/// construction has more leaves in use.
const RARE: usize = 8;

/// The levels with pods without hosts at the place of their like; `order` has the classes by their distance.
fn fold(classes: &Classes, neighbours: &[Vec<u32>], distances: &[Option<u32>], order: &[u32]) -> Vec<Option<u32>> {
    let at = |switch: u32| distances[classes.of[switch as usize] as usize].unwrap_or(0);
    // Switches of each distance, and how many of them have something above.
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (switch, near) in (0..).zip(neighbours) {
        let count = counts.entry(at(switch)).or_default();
        count.0 += 1;
        count.1 += usize::from(near.iter().any(|&far| at(far) > at(switch)));
    }
    let mut levels = distances.to_vec();
    for &class in order {
        let Some(distance) = distances[class as usize].filter(|&distance| distance > 2) else { continue };
        let members = &classes.members[class as usize];
        let below = |switch: u32| neighbours[switch as usize].iter().copied().filter(move |&far| at(far) == distance - 1);
        let level_of = |switch: u32| levels[classes.of[switch as usize] as usize];
        let parents = members.iter().flat_map(|&member| below(member)).filter_map(level_of).min();
        if let Some(parents) = parents.filter(|&level| level < distance - 1) {
            levels[class as usize] = Some(parents.saturating_sub(1).max(1));
            continue;
        }
        let (all, under) = counts.get(&(distance - 1)).copied().unwrap_or_default();
        let like_one_below = |&member: &u32| {
            let Some(first) = below(member).next() else { return false };
            let like = neighbours[first as usize].iter().filter(|&&far| at(far) == distance - 2);
            like.into_iter().any(|&like| below(member).all(|far| neighbours[like as usize].binary_search(&far).is_ok()))
        };
        let alike = members.iter().filter(|member| like_one_below(member)).count();
        if 2 * under < all || 2 * alike > members.len() {
            levels[class as usize] = Some(distance - 2);
        }
    }
    levels
}

fn root(parent: &mut [u32], member: u32) -> u32 {
    let mut at = member;
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Switches, levels};

    /// A graph from pairs, and its levels with so many hosts at each switch.
    fn of(pairs: &[(u32, u32)], hosts: &[u32]) -> Vec<u32> {
        let mut neighbours = vec![Vec::new(); hosts.len()];
        for &(a, b) in pairs {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        levels(&Switches::new(neighbours, hosts.to_vec())).into_iter().map(|level| level.unwrap_or(0)).collect()
    }

    /// Leaves 0 to `leaves`, spines after them, each joined to each.
    fn two_levels(leaves: u32, spines: u32) -> Vec<(u32, u32)> {
        (0..leaves).flat_map(|leaf| (leaves..leaves + spines).map(move |spine| (leaf, spine))).collect()
    }

    /// Four pods of two leaves and two spines, four cores: the fat tree of switches with four ports.
    fn three_levels() -> Vec<(u32, u32)> {
        let pods = (0..4).flat_map(|pod| (0..4).map(move |pair| (4 * pod + pair / 2, 4 * pod + 2 + pair % 2)));
        let cores = (0..4).flat_map(|pod| (0..4).map(move |core| (4 * pod + 2 + core / 2, 16 + core)));
        pods.chain(cores).collect()
    }

    #[test]
    fn trees_as_they_are_drawn() {
        assert_eq!(of(&two_levels(4, 2), &[2, 2, 2, 2, 0, 0]), [1, 1, 1, 1, 2, 2]);
        let hosts: Vec<u32> = (0..20).map(|switch| if switch < 16 && switch % 4 < 2 { 2 } else { 0 }).collect();
        let drawn: Vec<u32> = (0..20).map(|switch| if switch >= 16 { 3 } else { 1 + switch % 4 / 2 }).collect();
        assert_eq!(of(&three_levels(), &hosts), drawn);
        // One switch over the other: leaf, aggregation, core.
        assert_eq!(of(&[(0, 2), (1, 3), (2, 4), (3, 4)], &[4, 4, 0, 0, 0]), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn leaves_and_pods_without_hosts_stay_where_they_are() {
        assert_eq!(of(&two_levels(4, 2), &[2, 2, 2, 0, 0, 0]), [1, 1, 1, 1, 2, 2]);
        // The last pod has no hosts: its spines are as far as a level above the core would be.
        let hosts: Vec<u32> = (0..20).map(|switch| if switch < 12 && switch % 4 < 2 { 2 } else { 0 }).collect();
        let drawn: Vec<u32> = (0..20).map(|switch| if switch >= 16 { 3 } else { 1 + switch % 4 / 2 }).collect();
        assert_eq!(of(&three_levels(), &hosts), drawn);
    }

    #[test]
    fn service_hosts_at_spines_and_cores() {
        // One host at a spine, and at a core.
        assert_eq!(of(&two_levels(4, 2), &[8, 8, 8, 8, 1, 0]), [1, 1, 1, 1, 2, 2]);
        let mut hosts: Vec<u32> = (0..20).map(|switch| if switch < 16 && switch % 4 < 2 { 8 } else { 0 }).collect();
        hosts[2] = 1;
        let drawn: Vec<u32> = (0..20).map(|switch| if switch >= 16 { 3 } else { 1 + switch % 4 / 2 }).collect();
        assert_eq!(of(&three_levels(), &hosts), drawn);
    }

    #[test]
    fn every_switch_of_a_ring_is_a_leaf() {
        let ring: Vec<(u32, u32)> = (0..6).map(|at| (at, (at + 1) % 6)).collect();
        assert_eq!(of(&ring, &[4, 1, 4, 4, 4, 1]), [1; 6]);
        assert_eq!(of(&[(0, 1)], &[0, 0]), [0, 0]);
    }
}
