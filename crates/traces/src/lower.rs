//! A trace as a schedule: records become operations, collectives what the caller makes of them.
//!
//! A record that others wait for has an operation at which it begins and one at which it ends; a gap is a computation before it.
//! Modelled: messages matched by sender, receiver and tag; receives of anybody take the first message that nobody else takes, in the order of the
//! senders' records.
//! Not modelled: tags of several communicators apart where numbers collide beyond 2^32.

use std::collections::BTreeMap;

use fabriscope_schedule::{Builder, OpId, OpKind, Schedule, ScheduleError};
use fabriscope_units::{Bytes, Remedy, Span};

use crate::{After, CheckError, Collective, GroupId, Kind, Message, Record, RecordId, Trace};

/// What becomes of the computation that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// It takes as long as it did.
    #[default]
    Kept,
    /// It takes `numerator / denominator` of that, as on another processor.
    Scaled {
        /// Multiplies.
        numerator: u32,
        /// Divides; zero counts as one.
        denominator: u32,
    },
    /// It takes what [`Lowering::compute`] says.
    Replaced,
}

/// How a trace is lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LowerOptions {
    /// Computation and gaps.
    pub gaps: Gaps,
    /// Ranks begin as much later than the first as they did, and not together.
    pub skew: bool,
}

/// One collective of all its members, to be made of messages.
#[derive(Debug)]
pub struct Call<'a> {
    /// The operation; its length is known.
    pub collective: Collective,
    /// Its length.
    pub bytes: Bytes,
    /// The ranks in the order of the group.
    pub members: &'a [u32],
    /// Of each member the operation after whose end it may begin.
    pub entry: &'a [OpId],
    /// A tag that messages of no other operation have.
    pub tag: u32,
}

/// What makes operations of collectives and of computation; libraries for communication are above this crate.
pub trait Lowering {
    /// Adds the operations of a collective. Gives for each member the operation with whose end its part is over.
    ///
    /// # Errors
    /// Why it cannot be made, in words.
    fn collective(&mut self, builder: &mut Builder, call: &Call<'_>) -> Result<Vec<OpId>, String>;
    /// How long a computation takes under [`Gaps::Replaced`]; `recorded` is what it took.
    fn compute(&mut self, rank: u32, record: &Record, recorded: Span) -> Span {
        let _ = (rank, record);
        recorded
    }
}

/// Refuses collectives: for traces of messages only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlowered;

impl Lowering for Unlowered {
    fn collective(&mut self, _: &mut Builder, call: &Call<'_>) -> Result<Vec<OpId>, String> {
        Err(format!("nothing here makes messages of {}", call.collective.operation))
    }
}

/// A schedule, and how the records became it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The schedule.
    pub schedule: Schedule,
    /// Messages.
    pub messages: u64,
    /// Collectives.
    pub collectives: u64,
    /// Receives of anybody that were given a sender.
    pub any_source: u64,
    /// Receives whose room was longer than the message, which is what counts.
    pub shortened: u64,
}

/// Why a trace is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum LowerError {
    /// Ranks do not agree.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Check(#[from] CheckError),
    /// Ranks without records.
    #[error("{missing} of {world} ranks have no records")]
    #[diagnostic(help("give the files of all ranks, or extend the trace of one rank to all"))]
    Missing {
        /// How many.
        missing: u32,
        /// All ranks.
        world: u32,
    },
    /// A group of unknown members.
    #[error("nobody knows who is in group {group}")]
    #[diagnostic(help("give the file that lists its ranks beside the traces"))]
    Group {
        /// Its name.
        group: String,
    },
    /// A collective of unknown length.
    #[error("rank {rank}, record {id} (`{name}`): the length of the collective is not in the file")]
    #[diagnostic(help("record the trace with sizes"))]
    Length {
        /// The rank.
        rank: u32,
        /// The record.
        id: u64,
        /// What it is called.
        name: String,
    },
    /// A receive of anybody that no message is left for.
    #[error("rank {rank}, record {id} receives from anybody, but no message is left for it")]
    #[diagnostic(help("give the files of one run, and the whole of each"))]
    NoMessage {
        /// The rank.
        rank: u32,
        /// The record.
        id: u64,
    },
    /// A collective that the caller could not make.
    #[error("rank {rank}, record {id}: {what}")]
    #[diagnostic(help("lower the trace with a library for collectives"))]
    Collective {
        /// A rank of it.
        rank: u32,
        /// The record there.
        id: u64,
        /// What the caller said.
        what: String,
    },
    /// What came out is no schedule.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Schedule(#[from] ScheduleError),
}

/// Makes a schedule of a trace.
///
/// # Errors
/// Ranks that disagree or are missing, groups and lengths that are not known, what `lowering` refuses, what is no schedule in the end (a cycle
/// over several ranks).
pub fn lower(trace: &Trace, options: &LowerOptions, lowering: &mut dyn Lowering) -> Result<Lowered, LowerError> {
    if trace.missing() > 0 {
        return Err(LowerError::Missing { missing: trace.missing(), world: trace.world });
    }
    trace.check()?;
    let messages = match_messages(trace)?;
    let mut work = Work {
        trace,
        options,
        lowering,
        builder: Builder::new(trace.world),
        begins: BTreeMap::new(),
        ends: BTreeMap::new(),
        tags: Tags::default(),
        calls: BTreeMap::new(),
        called: BTreeMap::new(),
        messages,
        lowered: (0, 0, 0),
        skews: if options.skew { trace.skews() } else { BTreeMap::new() },
    };
    work.messages.tags(&mut work.tags, trace);
    for of in &trace.ranks {
        for (at, record) in of.records.iter().enumerate() {
            work.record(of.rank, at, record)?;
        }
    }
    work.collectives()?;
    work.dependencies();
    let (messages, collectives, shortened) = work.lowered;
    let any_source = work.messages.any_source;
    Ok(Lowered { schedule: work.builder.build()?, messages, collectives, any_source, shortened })
}

/// A record of a rank.
type At = (u32, RecordId);
/// The ranks that call a collective: the record of each, and its place among the rank's.
type Callers = BTreeMap<u32, (RecordId, usize)>;

struct Work<'a> {
    trace: &'a Trace,
    options: &'a LowerOptions,
    lowering: &'a mut dyn Lowering,
    builder: Builder,
    begins: BTreeMap<At, OpId>,
    ends: BTreeMap<At, OpId>,
    tags: Tags,
    /// The calls of each collective: the n-th of a group, by rank.
    calls: BTreeMap<(Option<GroupId>, u64), Callers>,
    /// How many collectives of a group a rank has called so far.
    called: BTreeMap<(Option<GroupId>, u32), u64>,
    messages: Matches,
    lowered: (u64, u64, u64),
    /// What ranks begin later than the first.
    skews: BTreeMap<u32, Span>,
}

impl Work<'_> {
    fn span(&mut self, rank: u32, record: &Record, recorded: Span) -> Span {
        match self.options.gaps {
            Gaps::Kept => recorded,
            Gaps::Scaled { numerator, denominator } => {
                let scaled = u128::from(recorded.as_ps()) * u128::from(numerator) / u128::from(denominator.max(1));
                Span::from_ps(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
            Gaps::Replaced => self.lowering.compute(rank, record, recorded),
        }
    }

    /// Adds the operations of a record. Collectives get a beginning, and their end later.
    fn record(&mut self, rank: u32, place: usize, record: &Record) -> Result<(), LowerError> {
        let at = (rank, record.id);
        let gap = if record.gap > Span::ZERO { Some(self.span(rank, record, record.gap)) } else { None };
        let later = self.skews.get(&rank).copied().filter(|skew| *skew > Span::ZERO && record.after.is_empty());
        let gap =
            if gap.is_some() || later.is_some() { Some(gap.unwrap_or_default().saturating_add(later.unwrap_or_default())) } else { None };
        let gap = gap.map(|span| self.builder.compute(rank, span));
        let op = match &record.kind {
            Kind::Compute => {
                let span = self.span(rank, record, record.duration.unwrap_or(Span::ZERO));
                self.builder.compute(rank, span)
            }
            Kind::Wait => self.builder.compute(rank, Span::ZERO),
            Kind::Send(message) => {
                let (to, tag) = (message.peer.unwrap_or(0), self.tags.of(message));
                self.lowered.0 += 1;
                self.builder.op(rank, OpKind::Send { to, bytes: message.bytes, tag })
            }
            Kind::Recv(message) => {
                let send = self.messages.of.get(&at).copied().ok_or(LowerError::NoMessage { rank, id: record.id.0 })?;
                let sent = self.messages.sends.get(send).expect("matches name sends");
                self.lowered.2 += u64::from(sent.message.bytes < message.bytes);
                let (from, bytes, tag) = (sent.at.0, sent.message.bytes, self.tags.of(&sent.message));
                self.builder.op(rank, OpKind::Recv { from, bytes, tag })
            }
            Kind::Collective(collective) => {
                let number = self.called.entry((collective.group, rank)).or_default();
                self.calls.entry((collective.group, *number)).or_default().insert(rank, (record.id, place));
                *number += 1;
                self.builder.compute(rank, Span::ZERO)
            }
        };
        if let Some(gap) = gap {
            self.builder.requires(rank, op, gap);
        }
        self.begins.insert(at, gap.unwrap_or(op));
        self.ends.insert(at, op);
        Ok(())
    }

    fn collectives(&mut self) -> Result<(), LowerError> {
        let calls = std::mem::take(&mut self.calls);
        for group in calls.keys().map(|(group, _)| *group).collect::<std::collections::BTreeSet<_>>() {
            let known = group.and_then(|id| self.trace.groups.get(id));
            if known.is_some_and(|known| known.ranks(self.trace.world).is_none()) {
                return Err(LowerError::Group { group: self.trace.groups.name(group).to_owned() });
            }
        }
        for ((group, _), ranks) in calls {
            let listed = group.and_then(|id| self.trace.groups.get(id)).and_then(|known| known.ranks(self.trace.world));
            let members = listed.unwrap_or_else(|| (0..self.trace.world).collect());
            self.one(&members, &ranks)?;
        }
        Ok(())
    }

    fn one(&mut self, members: &[u32], ranks: &Callers) -> Result<(), LowerError> {
        let Some((first, (id, place))) = ranks.iter().next().map(|(rank, found)| (*rank, *found)) else { return Ok(()) };
        let record = &self.trace.records(first)[place];
        let Kind::Collective(collective) = record.kind else { return Ok(()) };
        let length = || LowerError::Length { rank: first, id: id.0, name: record.name.chars().take(60).collect() };
        let bytes = collective.bytes.ok_or_else(length)?;
        let absent =
            |rank: u32| LowerError::Collective { rank: first, id: id.0, what: format!("rank {rank} does not take part in its file") };
        let mut entry = Vec::with_capacity(members.len());
        for rank in members {
            let at = ranks.get(rank).map(|(id, _)| (*rank, *id)).ok_or_else(|| absent(*rank))?;
            entry.push(self.ends.get(&at).copied().ok_or_else(|| absent(*rank))?);
        }
        let call = Call { collective, bytes, members, entry: &entry, tag: self.tags.next() };
        let wrong = |what: String| LowerError::Collective { rank: first, id: id.0, what };
        let exits = self.lowering.collective(&mut self.builder, &call).map_err(wrong)?;
        if exits.len() != members.len() {
            return Err(LowerError::Collective {
                rank: first,
                id: id.0,
                what: format!("{} ends for {} members", exits.len(), members.len()),
            });
        }
        for (rank, exit) in members.iter().zip(exits) {
            if let Some((id, _)) = ranks.get(rank) {
                self.ends.insert((*rank, *id), exit);
            }
        }
        self.lowered.1 += 1;
        Ok(())
    }

    fn dependencies(&mut self) {
        for (rank, record) in self.trace.all() {
            let Some(begin) = self.begins.get(&(rank, record.id)).copied() else { continue };
            for after in &record.after {
                let other = (rank, after.record());
                match after {
                    After::End(_) => {
                        if let Some(end) = self.ends.get(&other) {
                            self.builder.requires(rank, begin, *end);
                        }
                    }
                    After::Start(_) => {
                        if let Some(start) = self.begins.get(&other) {
                            self.builder.requires_start(rank, begin, *start);
                        }
                    }
                }
            }
        }
    }
}

/// Tags of the schedule: each pair of communicator and tag has its own, small ones stay as they are where there is one communicator.
#[derive(Debug, Default)]
struct Tags {
    numbers: BTreeMap<(Option<GroupId>, u32), u32>,
    plain: bool,
    next: u32,
}

impl Tags {
    fn of(&mut self, message: &Message) -> u32 {
        let tag = message.tag.unwrap_or(0);
        if self.plain {
            return tag;
        }
        let count = self.numbers.len() as u32;
        *self.numbers.entry((message.group, tag)).or_insert(count)
    }
    /// A tag for a collective, above all others.
    fn next(&mut self) -> u32 {
        let tag = self.next;
        self.next = self.next.wrapping_add(1);
        tag
    }
}

/// A send.
struct Sent {
    at: At,
    message: Message,
}

/// Which send each receive takes.
struct Matches {
    sends: Vec<Sent>,
    of: BTreeMap<At, usize>,
    any_source: u64,
}

impl Matches {
    /// Decides how tags are numbered.
    fn tags(&self, tags: &mut Tags, trace: &Trace) {
        let groups: std::collections::BTreeSet<_> = self.sends.iter().map(|sent| sent.message.group).collect();
        let highest = self.sends.iter().filter_map(|sent| sent.message.tag).max().unwrap_or(0);
        let collectives = trace.all().filter(|(_, record)| matches!(record.kind, Kind::Collective(_))).count() as u64;
        tags.plain = groups.len() <= 1 && u64::from(highest) + collectives < u64::from(u32::MAX);
        let distinct =
            self.sends.iter().map(|sent| (sent.message.group, sent.message.tag)).collect::<std::collections::BTreeSet<_>>().len();
        tags.next = if tags.plain { highest.saturating_add(1) } else { distinct as u32 };
    }
}

fn match_messages(trace: &Trace) -> Result<Matches, LowerError> {
    type Lane = (u32, u32, Option<GroupId>, u32);
    let mut sends = Vec::new();
    // Sends that nobody has taken yet, by sender, receiver, communicator and tag, in the order of the sender's records.
    let mut open: BTreeMap<Lane, std::collections::VecDeque<usize>> = BTreeMap::new();
    for (rank, record) in trace.all() {
        if let Kind::Send(message) = &record.kind {
            let to = message.peer.unwrap_or(0);
            open.entry((rank, to, message.group, message.tag.unwrap_or(0))).or_default().push_back(sends.len());
            sends.push(Sent { at: (rank, record.id), message: message.clone() });
        }
    }
    let mut of = BTreeMap::new();
    let mut any_source = 0;
    // Receives that say from whom and with which tag first; the others take what is left.
    for exact in [true, false] {
        for (rank, record) in trace.all() {
            let Kind::Recv(message) = &record.kind else { continue };
            let found = match (message.peer, message.tag) {
                (Some(from), Some(tag)) if exact => {
                    open.get_mut(&(from, rank, message.group, tag)).and_then(std::collections::VecDeque::pop_front)
                }
                (Some(_), Some(_)) => continue,
                _ if exact => continue,
                (peer, tag) => {
                    any_source += 1;
                    let fits = |lane: &Lane| {
                        lane.1 == rank
                            && lane.2 == message.group
                            && peer.is_none_or(|from| from == lane.0)
                            && tag.is_none_or(|tag| tag == lane.3)
                    };
                    let lane = open
                        .iter_mut()
                        .filter(|(lane, queue)| fits(lane) && !queue.is_empty())
                        .min_by_key(|(_, queue)| queue.front().copied());
                    lane.and_then(|(_, queue)| queue.pop_front())
                }
            };
            let send = found.ok_or(LowerError::NoMessage { rank, id: record.id.0 })?;
            of.insert((rank, record.id), send);
        }
    }
    if any_source > 0 {
        in_order(&sends, &mut of, trace);
    }
    Ok(Matches { sends, of, any_source })
}

/// Messages of one sender, receiver, communicator and tag meet in order, also where receives of anybody took some of them.
fn in_order(sends: &[Sent], of: &mut BTreeMap<At, usize>, trace: &Trace) {
    let lane = |send: &Sent| (send.at.0, send.message.peer, send.message.group, send.message.tag);
    let mut taken: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for send in of.values() {
        taken.entry(lane(&sends[*send])).or_default().push(*send);
    }
    // The last one is taken first.
    taken.values_mut().for_each(|lane| lane.sort_unstable_by_key(|send| std::cmp::Reverse(*send)));
    for (rank, record) in trace.all() {
        if let Some(send) = of.get_mut(&(rank, record.id)) {
            *send = taken.get_mut(&lane(&sends[*send])).and_then(Vec::pop).unwrap_or(*send);
        }
    }
}

impl LowerError {
    /// What is wrong and what to do, on one line.
    #[must_use]
    pub fn in_full(&self) -> String {
        Remedy::in_full(self)
    }
}
