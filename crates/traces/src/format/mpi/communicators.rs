//! Who is in each communicator: what all ranks say of their making, put together.

use std::collections::BTreeMap;

use super::{Action, Process};
use crate::{Group, Reading};

/// A communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Context {
    /// Apart from others of the same ranks: how it was made from all ranks.
    name: String,
    /// Its ranks, where they are known.
    members: Option<Ranks>,
}

/// The ranks of a communicator in its order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Ranks {
    /// As many, from 0 on.
    All(u32),
    Listed(Vec<u32>),
}

impl Ranks {
    fn len(&self) -> usize {
        match self {
            Ranks::All(count) => *count as usize,
            Ranks::Listed(ranks) => ranks.len(),
        }
    }
    fn get(&self, at: u32) -> Option<u32> {
        match self {
            Ranks::All(count) => (at < *count).then_some(at),
            Ranks::Listed(ranks) => ranks.get(at as usize).copied(),
        }
    }
    fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter_map(|at| self.get(at))
    }
}

impl Context {
    pub(super) fn world(ranks: u32) -> Context {
        Context { name: "MPI_COMM_WORLD".to_owned(), members: Some(Ranks::All(ranks)) }
    }
    pub(super) fn of(name: &str, members: Vec<u32>) -> Context {
        Context { name: name.to_owned(), members: Some(Ranks::Listed(members)) }
    }
    pub(super) fn unknown(handle: u64) -> Context {
        Context { name: format!("communicator {handle}"), members: None }
    }
    /// As a group of the trace; all ranks are one group, however they are listed.
    pub(super) fn group(&self) -> Group {
        match &self.members {
            None => Group::unknown(if self.name.is_empty() { "communicator of unknown ranks" } else { &self.name }, None),
            Some(Ranks::All(count)) => Group::regular(&self.name, 0, 1, *count),
            Some(Ranks::Listed(ranks)) => Group::of(&self.name, ranks.clone()),
        }
    }
}

/// One rank on its way through the calls that make communicators.
struct Walker<'a> {
    rank: u32,
    /// Those calls, and calls about groups.
    actions: Vec<&'a Action>,
    at: usize,
    comms: BTreeMap<u64, Context>,
    groups: BTreeMap<u64, Ranks>,
    /// How many communicators were made from each so far.
    made: BTreeMap<String, u32>,
    contexts: Vec<Context>,
}

/// Ranks that split one communicator: color and key of each.
type Votes = BTreeMap<String, BTreeMap<u32, (i64, i64)>>;

/// The communicators that each process makes, in the order of its calls.
pub(super) fn contexts(processes: &[Process], world: u32, reading: &mut Reading) -> Vec<Vec<Context>> {
    let mut walkers: Vec<Walker<'_>> = processes.iter().map(|process| Walker::new(process, world)).collect();
    let files: Vec<u32> = walkers.iter().map(|walker| walker.rank).collect();
    let mut votes = Votes::new();
    loop {
        let mut moved = false;
        for walker in &mut walkers {
            while walker.step(&files, &mut votes, false) {
                moved = true;
            }
        }
        if !moved {
            // Splits in which ranks are missing or wait for each other have unknown members.
            let stuck = walkers.iter_mut().find(|walker| walker.at < walker.actions.len());
            match stuck {
                Some(walker) => {
                    reading.note("communicators whose ranks are not known, as not all ranks say how they were made");
                    walker.step(&files, &mut votes, true);
                }
                None => return walkers.into_iter().map(|walker| walker.contexts).collect(),
            }
        }
    }
}

impl<'a> Walker<'a> {
    fn new(process: &'a Process, world: u32) -> Walker<'a> {
        let rank = process.rank.unwrap_or(0);
        let actions = process.calls.iter().map(|call| &call.action).filter(|action| {
            matches!(
                action,
                Action::Dup { .. } | Action::Split { .. } | Action::Create { .. } | Action::GroupOf { .. } | Action::Include { .. }
            )
        });
        let actions: Vec<&Action> = actions.collect();
        let mut comms = BTreeMap::new();
        if let (Some(handle), false) = (process.world, actions.is_empty()) {
            comms.insert(handle, Context::world(world));
        }
        if let Some(handle) = process.alone {
            comms.insert(handle, Context::of("MPI_COMM_SELF", vec![rank]));
        }
        Walker { rank, actions, at: 0, comms, groups: BTreeMap::new(), made: BTreeMap::new(), contexts: Vec::new() }
    }

    fn old(&self, handle: u64) -> Context {
        self.comms.get(&handle).cloned().unwrap_or_else(|| Context::unknown(handle))
    }
    /// The name of the next communicator made from another: that, and how many were made from it before.
    fn next_name(&self, old: &Context) -> String {
        format!("{}.{}", old.name, self.made.get(&old.name).copied().unwrap_or(0))
    }
    fn make(&mut self, old: &Context, new: u64, context: Context) {
        *self.made.entry(old.name.clone()).or_default() += 1;
        self.comms.insert(new, context.clone());
        self.contexts.push(context);
    }

    /// Goes over the next call; false where it has to wait for other ranks, or there is none. `give_up` takes unknown members instead.
    fn step(&mut self, files: &[u32], votes: &mut Votes, give_up: bool) -> bool {
        let Some(action) = self.actions.get(self.at) else { return false };
        match action {
            Action::Dup { old, new } => {
                let old = self.old(*old);
                let context = Context { name: self.next_name(&old), members: old.members.clone() };
                self.make(&old, *new, context);
            }
            Action::GroupOf { comm, group } => {
                if let Some(members) = self.old(*comm).members {
                    self.groups.insert(*group, members);
                }
            }
            Action::Include { group, ranks, new } => {
                let listed = self.groups.get(group).and_then(|all| ranks.iter().map(|rank| all.get(*rank)).collect());
                if let Some(members) = listed {
                    self.groups.insert(*new, Ranks::Listed(members));
                }
            }
            Action::Create { old, group, new } => {
                let old = self.old(*old);
                let members = self.groups.get(group).cloned();
                let context = Context { name: self.next_name(&old), members };
                self.make(&old, *new, context);
            }
            Action::Split { old, color, key, new } => {
                let old = self.old(*old);
                let name = self.next_name(&old);
                let all = votes.entry(name.clone()).or_default();
                all.insert(self.rank, (*color, *key));
                let complete = old
                    .members
                    .as_ref()
                    .is_some_and(|ranks| ranks.len() <= files.len() && ranks.iter().all(|rank| all.contains_key(&rank)));
                if !complete && !give_up {
                    return false;
                }
                let members = complete.then(|| {
                    let mut chosen: Vec<(i64, u32)> =
                        all.iter().filter(|(_, (other, _))| other == color).map(|(rank, (_, key))| (*key, *rank)).collect();
                    let order =
                        old.members.iter().flat_map(Ranks::iter).enumerate().map(|(at, rank)| (rank, at)).collect::<BTreeMap<_, _>>();
                    chosen.sort_by_key(|(key, rank)| (*key, order.get(rank).copied()));
                    Ranks::Listed(chosen.into_iter().map(|(_, rank)| rank).collect())
                });
                self.make(&old, *new, Context { name: format!("{name}:{color}"), members });
            }
            _ => {}
        }
        self.at += 1;
        true
    }
}
