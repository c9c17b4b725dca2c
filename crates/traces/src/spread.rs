//! The trace of one rank extended to all: every rank does the same within its own groups.
//!
//! Modelled: groups of equal distances (tensor, data, expert parallel) are moved to each rank; a group of all ranks stays.
//! Not modelled: ranks that do otherwise, such as stages of a pipeline: messages are refused.

use std::collections::BTreeMap;

use crate::{Group, GroupId, Groups, Kind, Members, RankTrace, Trace};

/// Why a trace cannot be extended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum SpreadError {
    /// Several ranks, which already say what they do.
    #[error("the trace has records of {ranks} ranks")]
    #[diagnostic(help("extend the trace of one rank, or give the files of all"))]
    Ranks {
        /// How many have records.
        ranks: usize,
    },
    /// A message to one rank.
    #[error("record {id} (`{name}`) is a message, of which nobody knows what it is on another rank")]
    #[diagnostic(help("give the files of all ranks"))]
    Message {
        /// The record.
        id: u64,
        /// What it is called.
        name: String,
    },
    /// A group that cannot be moved.
    #[error("group {group} has no pattern that can be moved to other ranks of {world}")]
    #[diagnostic(help("give a number of ranks that its size and stride divide, or the files of all ranks"))]
    Group {
        /// Its name.
        group: String,
        /// All ranks.
        world: u32,
    },
    /// More records than memory should hold.
    #[error("{ranks} ranks of {records} records each are more than {most} records")]
    #[diagnostic(help("take fewer ranks, or a part of the file"))]
    Large {
        /// The number of ranks asked for.
        ranks: u32,
        /// Records of one.
        records: usize,
        /// The most of all together.
        most: u64,
    },
    /// Too many ranks.
    #[error("{ranks} ranks are fewer than the {needed} that the file speaks of, or more than {most}")]
    #[diagnostic(help("choose a number between"))]
    World {
        /// The number asked for.
        ranks: u32,
        /// The least.
        needed: u32,
        /// The most.
        most: u32,
    },
}

impl Trace {
    /// The trace of a job of `ranks` ranks that all do what the one recorded rank does. What was assumed for it stands in the reading.
    ///
    /// # Errors
    /// A trace of several ranks, of messages, or with groups that cannot be moved.
    pub fn spread(&self, ranks: u32) -> Result<Trace, SpreadError> {
        let [of] = self.ranks.as_slice() else { return Err(SpreadError::Ranks { ranks: self.ranks.len() }) };
        let most = fabriscope_schedule::Schedule::MOST_RANKS;
        let needed = of.rank.saturating_add(1);
        if ranks < needed || ranks > most {
            return Err(SpreadError::World { ranks, needed, most });
        }
        if let Some(record) = of.records.iter().find(|record| matches!(record.kind, Kind::Send(_) | Kind::Recv(_))) {
            return Err(SpreadError::Message { id: record.id.0, name: record.name.chars().take(60).collect() });
        }
        if u64::from(ranks).saturating_mul(of.records.len() as u64) > MOST_RECORDS {
            return Err(SpreadError::Large { ranks, records: of.records.len(), most: MOST_RECORDS });
        }
        let used = of.records.iter().filter_map(|record| match &record.kind {
            Kind::Collective(collective) => collective.group,
            _ => None,
        });
        let patterns: BTreeMap<GroupId, Pattern> = used.map(|id| Ok((id, self.pattern(id, ranks)?))).collect::<Result<_, SpreadError>>()?;
        let mut groups = Groups::default();
        let mut spread = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let moved: BTreeMap<GroupId, GroupId> = patterns.iter().map(|(id, pattern)| (*id, groups.add(pattern.around(rank)))).collect();
            let mut records = of.records.clone();
            for record in &mut records {
                if let Kind::Collective(collective) = &mut record.kind {
                    collective.group = collective.group.and_then(|id| moved.get(&id).copied());
                }
            }
            spread.push(RankTrace { rank, file: of.file.clone(), records });
        }
        let mut reading = self.reading.clone();
        reading.assume_all(format!("all {ranks} ranks do what rank {} does, each within its own groups", of.rank));
        if ranks != self.world {
            reading.assume_all(format!(
                "the file is of {} ranks: groups of all of them are of all {ranks} now, others keep their size",
                self.world
            ));
        }
        Ok(Trace {
            world: ranks,
            ranks: spread,
            groups,
            every_rank: false,
            reading,
            name: self.name.clone(),
            format: self.format,
            version: self.version.clone(),
        })
    }

    fn pattern(&self, id: GroupId, world: u32) -> Result<Pattern, SpreadError> {
        let missing = || SpreadError::Group { group: self.groups.name(Some(id)).to_owned(), world };
        let group = self.groups.get(id).ok_or_else(missing)?;
        // A group of all ranks of the file is one of all ranks; others keep their size, as degrees of a model do that stand in a workload.
        let degree = self.every_rank && matches!(group.members, Members::Regular { .. });
        let all = !degree && group.size.is_some_and(|size| size == self.world);
        let (stride, count) = match group.pattern(self.world) {
            _ if all => (1, world),
            Some((_, stride, count)) => (stride, count),
            // Without members, a group of known size is taken as neighbours.
            None if group.members == Members::Unknown => (1, group.size.ok_or_else(missing)?),
            None => return Err(missing()),
        };
        let block = stride.checked_mul(count).filter(|block| *block > 0 && world.is_multiple_of(*block));
        block.map(|_| Pattern { name: group.name.clone(), stride, count }).ok_or_else(missing)
    }
}

/// Records of all ranks together. Basis: estimated, three gigabytes.
const MOST_RECORDS: u64 = 1 << 24;

/// A group by its form: which of them a rank is in follows from its number.
struct Pattern {
    name: String,
    stride: u32,
    count: u32,
}

impl Pattern {
    fn around(&self, rank: u32) -> Group {
        let first = rank - (rank / self.stride) % self.count * self.stride;
        Group::regular(self.name.clone(), first, self.stride, self.count)
    }
}
