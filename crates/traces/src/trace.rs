//! The neutral form: what each rank did, and what each of its records waits for.

use fabriscope_units::{Bytes, Span, Time};

use crate::{Collective, Format, GroupId, Groups, Reading};

/// A record within its rank: the number that the file gives it, or its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u64);

/// Another record of the same rank that has to be over, or to have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum After {
    /// It has ended.
    End(RecordId),
    /// It has started: non-blocking calls, whose end a [`Kind::Wait`] waits for.
    Start(RecordId),
}

/// A two-sided message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The other rank, of all ranks of the job; a receive without one takes a message of anybody.
    pub peer: Option<u32>,
    /// The tag; a receive without one takes any.
    pub tag: Option<u32>,
    /// Its length; of a receive the room that it gives.
    pub bytes: Bytes,
    /// The communicator, where messages of several are told apart.
    pub group: Option<GroupId>,
}

/// What a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Work without communication, as long as the record's duration.
    Compute,
    /// An operation of all members of a group.
    Collective(Collective),
    /// A message to a rank.
    Send(Message),
    /// A message from a rank.
    Recv(Message),
    /// Nothing but the end of the records it waits for.
    Wait,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number, of no other record of its rank.
    pub id: RecordId,
    /// What the file calls it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What it waits for.
    pub after: Vec<After>,
    /// How long the rank computed between the last of these and this record, where the file has times.
    pub gap: Span,
    /// When it started, from the earliest record of the trace on; clocks that are apart are set where that is known.
    pub start: Option<Time>,
    /// How long it took when it was recorded.
    pub duration: Option<Span>,
    /// The stream or thread it ran on.
    pub lane: u32,
}

/// What one rank did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankTrace {
    /// The rank, of all ranks of the job.
    pub rank: u32,
    /// The file it comes from.
    pub file: String,
    /// Its records in the order of the file.
    pub records: Vec<Record>,
}

/// The trace of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What its files are called but for their rank.
    pub name: String,
    /// The format of the files.
    pub format: Format,
    /// The version that they state; several if ranks differ.
    pub version: Option<String>,
    /// Ranks of the job, at least one more than the highest that is named.
    pub world: u32,
    /// The ranks with records, in order.
    pub ranks: Vec<RankTrace>,
    /// Process groups and communicators.
    pub groups: Groups,
    /// Whether the one rank that is recorded stands for all: workload files say what every rank does.
    pub every_rank: bool,
    /// What was read, used, left out and assumed.
    pub reading: Reading,
}

impl Record {
    /// A record that waits for nothing and has no times.
    #[must_use]
    pub fn new(id: u64, name: impl Into<String>, kind: Kind) -> Record {
        Record { id: RecordId(id), name: name.into(), kind, after: Vec::new(), gap: Span::ZERO, start: None, duration: None, lane: 0 }
    }
    /// Lets it wait for others as well.
    #[must_use]
    pub fn after(mut self, after: impl IntoIterator<Item = After>) -> Record {
        self.after.extend(after);
        self
    }
    /// Gives it a duration.
    #[must_use]
    pub fn lasting(mut self, span: Span) -> Record {
        self.duration = Some(span);
        self
    }
    /// Puts it on a stream or thread.
    #[must_use]
    pub fn on(mut self, lane: u32) -> Record {
        self.lane = lane;
        self
    }
    /// When it ended, where the file says so.
    #[must_use]
    pub fn end(&self) -> Option<Time> {
        Some(self.start?.saturating_add(self.duration?))
    }
}

impl After {
    /// The record waited for.
    #[must_use]
    pub fn record(self) -> RecordId {
        match self {
            After::End(record) | After::Start(record) => record,
        }
    }
}

impl Trace {
    /// The records of `rank`; none where its file is missing.
    #[must_use]
    pub fn records(&self, rank: u32) -> &[Record] {
        self.ranks.binary_search_by_key(&rank, |of| of.rank).map_or(&[], |at| &self.ranks[at].records)
    }
    /// All records, with their ranks.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.ranks.iter().flat_map(|of| of.records.iter().map(|record| (of.rank, record)))
    }
    /// Ranks of the job without records.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.world.saturating_sub(self.ranks.len() as u32)
    }
}
