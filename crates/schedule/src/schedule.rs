//! The schedule itself: all operations in flat arrays.

use fabriscope_units::{Bytes, Remedy, Span};
use serde::{Deserialize, Serialize};

use crate::plain::Plain;
use crate::{After, Op, OpId, OpKind};

/// What every rank does, and in which order. One that exists has passed [`check`](Schedule::check).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Plain", try_from = "Plain")]
pub struct Schedule {
    /// The first operation of each rank, and the end of all.
    pub(crate) first_op: Vec<u32>,
    pub(crate) kinds: Vec<OpKind>,
    /// The first dependency of each operation, and the end of all.
    pub(crate) first_after: Vec<u32>,
    pub(crate) after: Vec<After>,
}

/// No ranks, which do nothing.
impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { first_op: vec![0], kinds: Vec::new(), first_after: vec![0], after: Vec::new() }
    }
}

/// Totals of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Ranks.
    pub ranks: u32,
    /// Operations of every kind.
    pub ops: u64,
    /// Dependencies.
    pub dependencies: u64,
    /// Sends; there are as many receives.
    pub sends: u64,
    /// One-sided writes.
    pub puts: u64,
    /// One-sided reads.
    pub gets: u64,
    /// Computations.
    pub computes: u64,
    /// Messages between ranks: sends, puts and gets.
    pub messages: u64,
    /// Their bytes; the largest number there is when they exceed it.
    pub bytes: Bytes,
    /// The longest message.
    pub longest: Bytes,
    /// Time computed by all ranks together; the largest number there is when it exceeds it.
    pub computed: Span,
}

impl Schedule {
    /// The most ranks a schedule can have. Basis: assumed, sixty times the largest machine of today.
    pub const MOST_RANKS: u32 = 1 << 24;

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.first_op.len() as u32 - 1
    }
    /// What `rank` does, by [`OpId`]; nothing for a rank that is not there.
    #[must_use]
    pub fn kinds(&self, rank: u32) -> &[OpKind] {
        &self.kinds[self.range(rank)]
    }
    /// An operation of `rank`, if there is one with this number.
    #[must_use]
    pub fn op(&self, rank: u32, id: OpId) -> Option<Op<'_>> {
        let index = self.range(rank).nth(id.0 as usize)?;
        Some(Op { id, kind: self.kinds[index], after: self.after_of(index) })
    }
    /// The operations of `rank` in the order they were added; none for a rank that is not there.
    pub fn ops(&self, rank: u32) -> impl ExactSizeIterator<Item = Op<'_>> {
        let range = self.range(rank);
        let first = range.start;
        range.map(move |index| Op { id: OpId((index - first) as u32), kind: self.kinds[index], after: self.after_of(index) })
    }
    /// Counts and sums.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats =
            Stats { ranks: self.ranks(), ops: self.kinds.len() as u64, dependencies: self.after.len() as u64, ..Stats::default() };
        for kind in &self.kinds {
            match kind {
                OpKind::Send { .. } => stats.sends += 1,
                OpKind::Put { .. } => stats.puts += 1,
                OpKind::Get { .. } => stats.gets += 1,
                OpKind::Recv { .. } => continue,
                OpKind::Compute { span } => {
                    stats.computes += 1;
                    stats.computed = Span::from_ps(stats.computed.as_ps().saturating_add(span.as_ps()));
                }
            }
            stats.bytes = Bytes(stats.bytes.0.saturating_add(kind.bytes().0));
            stats.longest = stats.longest.max(kind.bytes());
        }
        stats.messages = stats.sends + stats.puts + stats.gets;
        stats
    }

    /// Where the operations of `rank` lie.
    pub(crate) fn range(&self, rank: u32) -> std::ops::Range<usize> {
        match self.first_op.get(rank as usize..) {
            Some([first, end, ..]) => *first as usize..*end as usize,
            _ => 0..0,
        }
    }
    pub(crate) fn after_of(&self, index: usize) -> &[After] {
        &self.after[self.first_after[index] as usize..self.first_after[index + 1] as usize]
    }
}

impl TryFrom<Plain> for Schedule {
    /// As text, with the remedy: readers of JSON and TOML keep nothing else.
    type Error = String;
    fn try_from(plain: Plain) -> Result<Schedule, String> {
        plain.into_builder().build().map_err(|error| error.in_full())
    }
}
