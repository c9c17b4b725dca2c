//! Clocks of ranks beside each other: how far each is ahead, from what all ranks say of the same operations.
//!
//! Operations from which nobody leaves before all are there end together: the median of the differences of their ends is the offset of two
//! clocks, and what they vary by is its uncertainty. They overlap on all ranks, which bounds it. A message is not received before it is sent: messages both ways bound an offset, whose
//! middle is taken where there are no such operations. Ranks are compared along a tree of the pairs with the most operations in common.
//! An offset within its uncertainty is left.
//!
//! Where it matters: a replay has differences of one rank only and does not change; who comes last to an operation ([`Trace::waits`]) and when
//! ranks begin ([`Trace::skews`]) compares ranks.
//! Not modelled: clocks that run at different rates.

use std::collections::BTreeMap;

use fabriscope_units::{Span, Time};

use crate::{After, GroupId, Kind, Operation, RankTrace, Record, RecordId, Trace};

/// By what clocks were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Ends of so many operations of groups.
    Collectives(u64),
    /// So many messages.
    Messages(u64),
}

/// The clock of a rank beside that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The rank.
    pub rank: u32,
    /// Whose clock counts: the lowest rank that it could be compared with, directly or through others.
    pub of: u32,
    /// How far it is ahead (ps); less than zero where it is behind.
    pub ahead_ps: i128,
    /// How sure that is.
    pub within: Span,
    /// From what.
    pub by: Evidence,
}

/// What a rank waited for others, and they for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// The rank.
    pub rank: u32,
    /// Operations that it took part in, whose starts all its members tell.
    pub operations: u64,
    /// Those to which it came last.
    pub last: u64,
    /// What it waited in them until the last one came, in all.
    pub waited: Span,
    /// What it came later than the one before it where it was the last, in all: what others would save.
    pub late: Span,
}

impl Clock {
    /// Whether more is known than that it may be right.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.ahead_ps.unsigned_abs() > u128::from(self.within.as_ps())
    }
}

/// Two ranks whose clocks can be compared, the lower one first.
type Pair = (u32, u32);

/// What is known of two clocks: how far the second is ahead of the first.
#[derive(Debug, Default)]
struct Between {
    /// Of each operation that ends together.
    ends: Vec<i128>,
    /// At least and at most, by messages and by operations that overlap.
    least: Option<i128>,
    most: Option<i128>,
    messages: u64,
}

impl Between {
    /// At least and at most this much.
    fn bound(&mut self, least: Option<i128>, most: Option<i128>) {
        self.least = self.least.max(least);
        self.most = [self.most, most].into_iter().flatten().min();
    }

    /// Offset and uncertainty.
    fn estimate(&mut self) -> Option<(i128, u64, Evidence)> {
        let width = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
        if self.ends.is_empty() {
            let (least, most) = (self.least?, self.most?);
            return (least <= most).then(|| (least + (most - least) / 2, width((most - least) / 2), Evidence::Messages(self.messages)));
        }
        self.ends.sort_unstable();
        let count = self.ends.len();
        let middle = self.ends[(count - 1) / 2];
        let mut off: Vec<i128> = self.ends.iter().map(|end| (end - middle).abs()).collect();
        off.sort_unstable();
        let (ahead, room) = match (self.least, self.most) {
            (Some(least), Some(most)) if least <= most => {
                let ahead = middle.clamp(least, most);
                (ahead, (ahead - least).max(most - ahead))
            }
            _ => (middle, 0),
        };
        // A few do not say how much they vary: all that is possible is.
        let within = if count < FEW { off[count / 2].max(room) } else { off[count / 2] };
        Some((ahead, width(within), Evidence::Collectives(count as u64)))
    }
}

impl Trace {
    /// How far the clocks of ranks are ahead of those that count, by the operations that ranks have in common; nothing of ranks that have none.
    #[must_use]
    pub fn clocks(&self) -> Vec<Clock> {
        let mut between: BTreeMap<Pair, Between> = BTreeMap::new();
        if self.every_rank || self.ranks.len() < 2 {
            return Vec::new();
        }
        self.compare_ends(&mut between);
        self.compare_messages(&mut between);
        let mut edges: Vec<(Pair, (i128, u64, Evidence))> =
            between.iter_mut().filter_map(|(pair, between)| Some((*pair, between.estimate()?))).collect();
        // Operations before messages, more before fewer.
        edges.sort_by_key(|(pair, (_, _, by))| match by {
            Evidence::Collectives(count) => (0, std::cmp::Reverse(*count), *pair),
            Evidence::Messages(count) => (1, std::cmp::Reverse(*count), *pair),
        });
        along_tree(&self.ranks.iter().map(|of| of.rank).collect::<Vec<_>>(), &edges)
    }

    /// Ends of operations from which nobody leaves before all are there.
    fn compare_ends(&self, between: &mut BTreeMap<Pair, Between>) {
        for ranks in self.calls(|record| Some((record.start?, record.end()?))).values() {
            let Some((first, theirs)) = ranks.iter().next() else { continue };
            for (rank, mine) in ranks.iter().skip(1) {
                let ends = theirs.iter().zip(mine).filter(|((operation, _), _)| is_together(*operation));
                let ps = |time: Time| i128::from(time.as_ps());
                for ((_, theirs), (_, mine)) in ends {
                    let (Some((their_start, their_end)), Some((start, end))) = (theirs, mine) else { continue };
                    let known = between.entry((*first, *rank)).or_default();
                    known.ends.push(ps(*end) - ps(*their_end));
                    known.bound(Some(ps(*start) - ps(*their_end)), Some(ps(*end) - ps(*their_start)));
                }
            }
        }
    }

    /// Messages that were not received before they were sent. Where receives of anybody take some, nobody knows which.
    fn compare_messages(&self, between: &mut BTreeMap<Pair, Between>) {
        type Lane = (u32, u32, Option<GroupId>, u32);
        let mut lanes: BTreeMap<Lane, [Vec<Option<Time>>; 2]> = BTreeMap::new();
        for of in &self.ranks {
            let ends = Receipts::of(of);
            for record in &of.records {
                let (Kind::Send(message) | Kind::Recv(message)) = &record.kind else { continue };
                let (Some(peer), Some(tag)) = (message.peer, message.tag) else { return };
                match record.kind {
                    Kind::Send(_) => lanes.entry((of.rank, peer, message.group, tag)).or_default()[0].push(record.start),
                    _ => lanes.entry((peer, of.rank, message.group, tag)).or_default()[1].push(ends.end(record)),
                }
            }
        }
        for ((from, to, ..), [sends, receives]) in lanes {
            if from == to || sends.len() != receives.len() {
                continue;
            }
            for (sent, received) in sends.into_iter().zip(receives).filter_map(|(sent, received)| Some((sent?, received?))) {
                let most = i128::from(received.as_ps()) - i128::from(sent.as_ps());
                let known = between.entry((from.min(to), from.max(to))).or_default();
                known.messages += 1;
                if from < to {
                    known.bound(None, Some(most));
                } else {
                    known.bound(Some(-most), None);
                }
            }
        }
    }

    /// The operations of each group by rank, in their order, where all ranks with a file call as many.
    fn calls<T>(&self, of: impl Fn(&Record) -> Option<T>) -> BTreeMap<Option<GroupId>, BTreeMap<u32, Calls<T>>> {
        let mut calls: BTreeMap<Option<GroupId>, BTreeMap<u32, Calls<T>>> = BTreeMap::new();
        for (rank, record) in self.all() {
            if let Kind::Collective(collective) = &record.kind {
                calls.entry(collective.group).or_default().entry(rank).or_default().push((collective.operation, of(record)));
            }
        }
        calls.retain(|_, ranks| {
            let alike = |own: &Calls<T>, other: &Calls<T>| own.len() == other.len() && own.iter().zip(other).all(|(a, b)| a.0 == b.0);
            ranks.len() > 1 && ranks.values().next().is_some_and(|first| ranks.values().all(|own| alike(first, own)))
        });
        calls
    }

    /// Sets the times of ranks to the clocks that count. The earliest record begins at zero again.
    pub fn set_clocks(&mut self, clocks: &[Clock]) {
        let off: BTreeMap<u32, i128> = clocks.iter().filter(|clock| clock.is_off()).map(|clock| (clock.rank, clock.ahead_ps)).collect();
        if off.is_empty() {
            return;
        }
        let true_of = |rank: u32, start: Time| i128::from(start.as_ps()) - off.get(&rank).copied().unwrap_or(0);
        let zero = self.all().filter_map(|(rank, record)| Some(true_of(rank, record.start?))).min().unwrap_or(0);
        for of in &mut self.ranks {
            for record in &mut of.records {
                record.start = record.start.map(|start| Time::from_ps(u64::try_from(true_of(of.rank, start) - zero).unwrap_or(u64::MAX)));
            }
        }
    }

    /// What each rank waited for others, and they for it, in operations from which nobody leaves before all are there; clocks should be
    /// [set](Self::set_clocks), which reading does.
    #[must_use]
    pub fn waits(&self) -> Vec<Waits> {
        let nothing = |rank: u32| Waits { rank, operations: 0, last: 0, waited: Span::ZERO, late: Span::ZERO };
        let mut waits: BTreeMap<u32, Waits> = BTreeMap::new();
        for ranks in self.calls(|record| record.start).values() {
            let count = ranks.values().next().map_or(0, Vec::len);
            for number in 0..count {
                let starts = ranks.iter().filter_map(|(rank, calls)| Some((calls.get(number)?.1?, *rank)));
                let mut starts: Vec<(Time, u32)> = starts.collect();
                let together =
                    ranks.values().next().and_then(|calls| calls.get(number)).is_some_and(|(operation, _)| is_together(*operation));
                if !together || starts.len() < ranks.len() {
                    continue;
                }
                starts.sort_unstable();
                let [.., (before, _), (latest, last)] = starts[..] else { continue };
                for (start, rank) in starts {
                    let of = waits.entry(rank).or_insert_with(|| nothing(rank));
                    of.operations += 1;
                    of.waited = of.waited.saturating_add(latest.since(start));
                    if rank == last && latest > before {
                        of.last += 1;
                        of.late = of.late.saturating_add(latest.since(before));
                    }
                }
            }
        }
        waits.into_values().collect()
    }

    /// How much later than the first each rank begins: its earliest record without the gap before it.
    #[must_use]
    pub fn skews(&self) -> BTreeMap<u32, Span> {
        let begin = |of: &RankTrace| {
            let first = of.records.iter().filter_map(|record| Some((record.start?, record.gap))).min_by_key(|(start, _)| *start)?;
            Some((of.rank, first.0.saturating_sub(first.1)))
        };
        let begins: Vec<(u32, Time)> = self.ranks.iter().filter_map(begin).collect();
        let zero = begins.iter().map(|(_, begin)| *begin).min().unwrap_or(Time::ZERO);
        begins.into_iter().map(|(rank, begin)| (rank, begin.since(zero))).collect()
    }

    /// Compares the clocks, sets them, and says so in the account.
    pub(crate) fn align(&mut self) {
        let clocks = self.clocks();
        self.set_clocks(&clocks);
        let off: Vec<&Clock> = clocks.iter().filter(|clock| clock.is_off()).collect();
        let notes = &mut self.reading.notes;
        if off.len() <= TOLD_EACH {
            for clock in &off {
                let (count, by) = clock.by.told();
                notes.insert(format!("clock of rank {} set: {} by {by}", clock.rank, clock.told()), count);
            }
        } else {
            let (least, most) =
                off.iter().fold((i128::MAX, i128::MIN), |(least, most), clock| (least.min(clock.ahead_ps), most.max(clock.ahead_ps)));
            notes.insert(format!("clocks of ranks set: {} to {} beside those that count", signed(least), signed(most)), off.len() as u64);
        }
        if clocks.len() > off.len() {
            notes.insert(
                "clocks of ranks left, as far as their operations tell they are right".to_owned(),
                (clocks.len() - off.len()) as u64,
            );
        }
        self.reading.clocks = clocks;
    }
}

/// Operations of a rank in a group, each with what is asked of its record.
type Calls<T> = Vec<(Operation, Option<T>)>;

impl Clock {
    fn told(&self) -> String {
        let sure = if self.within > Span::ZERO {
            format!(" (within {})", signed(i128::from(self.within.as_ps())).trim_start_matches('+'))
        } else {
            String::new()
        };
        format!("{} beside rank {}{sure}", signed(self.ahead_ps), self.of)
    }
}

impl Evidence {
    fn told(self) -> (u64, &'static str) {
        match self {
            Evidence::Collectives(count) => (count, "collectives"),
            Evidence::Messages(count) => (count, "messages"),
        }
    }
}

/// Picoseconds with their sign, in the unit that suits them.
fn signed(ps: i128) -> String {
    let sign = if ps < 0 { '-' } else { '+' };
    let value = ps.unsigned_abs() as f64;
    let (scale, unit) =
        [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")].into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, "ps"));
    format!("{sign}{:.2} {unit}", value / scale)
}

/// Whether nobody leaves before all are there.
const fn is_together(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::AllReduce
            | Operation::AllGather
            | Operation::AllGatherV
            | Operation::AllToAll
            | Operation::AllToAllV
            | Operation::ReduceScatter
            | Operation::ReduceScatterV
            | Operation::Barrier
    )
}

/// Offsets along the first edges that join ranks, beside the lowest rank that each is joined with.
fn along_tree(ranks: &[u32], edges: &[(Pair, (i128, u64, Evidence))]) -> Vec<Clock> {
    let mut root: BTreeMap<u32, u32> = ranks.iter().map(|rank| (*rank, *rank)).collect();
    let mut near: BTreeMap<u32, Vec<(u32, i128, u64, Evidence)>> = BTreeMap::new();
    for ((a, b), (ahead, within, by)) in edges {
        let (Some(one), Some(other)) = (root.get(a).copied(), root.get(b).copied()) else { continue };
        if one == other {
            continue;
        }
        root.values_mut().filter(|own| **own == one.max(other)).for_each(|own| *own = one.min(other));
        near.entry(*a).or_default().push((*b, *ahead, *within, *by));
        near.entry(*b).or_default().push((*a, -ahead, *within, *by));
    }
    let mut clocks = Vec::new();
    for first in ranks.iter().filter(|rank| root.get(rank) == Some(rank)) {
        let mut left = vec![(*first, *first, 0_i128, 0_u64)];
        while let Some((at, from, ahead, within)) = left.pop() {
            for (next, more, wider, by) in near.get(&at).into_iter().flatten().filter(|(next, ..)| *next != from) {
                let (ahead, within) = (ahead + more, within.saturating_add(*wider));
                clocks.push(Clock { rank: *next, of: *first, ahead_ps: ahead, within: Span::from_ps(within), by: *by });
                left.push((*next, at, ahead, within));
            }
        }
    }
    clocks.sort_by_key(|clock| clock.rank);
    clocks
}

/// When messages of a rank were there: with the end of the receive, or of the wait for it.
struct Receipts<'a> {
    /// Receives that do not block.
    started: std::collections::BTreeSet<RecordId>,
    waits: BTreeMap<RecordId, &'a Record>,
}

impl<'a> Receipts<'a> {
    fn of(of: &'a RankTrace) -> Receipts<'a> {
        let mut receipts = Receipts { started: std::collections::BTreeSet::new(), waits: BTreeMap::new() };
        for record in &of.records {
            for after in &record.after {
                match after {
                    After::Start(id) => drop(receipts.started.insert(*id)),
                    After::End(id) if record.kind == Kind::Wait => drop(receipts.waits.entry(*id).or_insert(record)),
                    After::End(_) => {}
                }
            }
        }
        receipts
    }
    fn end(&self, record: &Record) -> Option<Time> {
        if self.started.contains(&record.id) { self.waits.get(&record.id)?.end() } else { record.end() }
    }
}

/// Fewer operations than these do not show what they vary by. Basis: a median of three is no extreme.
const FEW: usize = 3;
/// Clocks that are told one by one.
const TOLD_EACH: usize = 8;
