//! Process groups and communicators: who takes part.

use std::collections::BTreeMap;

/// A group of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The ranks of a group, in the order of the group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Members {
    /// The file does not say who they are.
    Unknown,
    /// These, of all ranks of the job.
    Listed(Vec<u32>),
    /// `count` ranks from `first` on, `stride` apart.
    Regular {
        /// The first one.
        first: u32,
        /// From one to the next, at least 1.
        stride: u32,
        /// How many.
        count: u32,
    },
}

/// A group: its name, how many take part, who they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// What the file calls it.
    pub name: String,
    /// How many ranks it has, where the file says so.
    pub size: Option<u32>,
    /// Who they are.
    pub members: Members,
}

/// The groups of a trace. Equal groups of several ranks are one; a name that means other members on another rank is another group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Groups {
    groups: Vec<Group>,
    numbers: BTreeMap<Group, GroupId>,
}

impl Groups {
    /// The group's number; it is added if it is new.
    pub fn add(&mut self, group: Group) -> GroupId {
        if let Some(id) = self.numbers.get(&group) {
            return *id;
        }
        let id = GroupId(self.groups.len() as u32);
        self.numbers.insert(group.clone(), id);
        self.groups.push(group);
        id
    }
    /// A group, if there is one of this number.
    #[must_use]
    pub fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0 as usize)
    }
    /// All groups in the order in which they were met.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().enumerate().map(|(at, group)| (GroupId(at as u32), group))
    }
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// The name of a group, or what is meant without one.
    #[must_use]
    pub fn name(&self, id: Option<GroupId>) -> &str {
        id.and_then(|id| self.get(id)).map_or("all ranks", |group| group.name.as_str())
    }
}

impl Group {
    /// A group of known ranks.
    #[must_use]
    pub fn of(name: impl Into<String>, members: Vec<u32>) -> Group {
        Group { name: name.into(), size: Some(members.len() as u32), members: Members::Listed(members) }
    }
    /// A group of which the size may be known, but not the ranks.
    #[must_use]
    pub fn unknown(name: impl Into<String>, size: Option<u32>) -> Group {
        Group { name: name.into(), size, members: Members::Unknown }
    }
    /// A group of ranks at equal distances.
    #[must_use]
    pub fn regular(name: impl Into<String>, first: u32, stride: u32, count: u32) -> Group {
        Group { name: name.into(), size: Some(count), members: Members::Regular { first, stride: stride.max(1), count } }
    }
    /// Its ranks in the order of the group; `world` are all ranks of the job, which are meant if a group of unknown members has their number.
    #[must_use]
    pub fn ranks(&self, world: u32) -> Option<Vec<u32>> {
        match &self.members {
            Members::Listed(ranks) => Some(ranks.clone()),
            Members::Regular { first, stride, count } if last(*first, *stride, *count) < u64::from(world) => {
                Some((0..*count).map(|at| first + stride * at).collect())
            }
            Members::Regular { .. } => None,
            Members::Unknown if self.size == Some(world) => Some((0..world).collect()),
            Members::Unknown => None,
        }
    }
    /// The rank at a place of the group.
    #[must_use]
    pub fn member(&self, at: u32, world: u32) -> Option<u32> {
        match &self.members {
            Members::Listed(ranks) => ranks.get(at as usize).copied(),
            Members::Regular { first, stride, count } if at < *count => stride.checked_mul(at)?.checked_add(*first),
            Members::Unknown if self.size == Some(world) && at < world => Some(at),
            _ => None,
        }
    }
    /// First rank, stride and number of ranks, if the group has equal distances.
    #[must_use]
    pub fn pattern(&self, world: u32) -> Option<(u32, u32, u32)> {
        match &self.members {
            Members::Regular { first, stride, count } => Some((*first, *stride, *count)),
            Members::Unknown if self.size == Some(world) => Some((0, 1, world)),
            Members::Unknown => None,
            Members::Listed(ranks) => {
                let first = *ranks.first()?;
                let stride = ranks.get(1).map_or(Some(1), |second| second.checked_sub(first)).filter(|stride| *stride > 0)?;
                let equal = ranks.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride));
                equal.then_some((first, stride, ranks.len() as u32))
            }
        }
    }
}

/// The last rank of a regular group.
fn last(first: u32, stride: u32, count: u32) -> u64 {
    u64::from(first) + u64::from(stride) * u64::from(count.saturating_sub(1))
}
