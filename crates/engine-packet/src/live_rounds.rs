//! Operations of ranks that make their rounds as they go: what is in memory is what has not ended.
//!
//! A round is its receives, then its sends; when all of them have ended the next one begins, as in `collectives::schedule`. Operations
//! are numbered by the place that they have in memory while they last.
//! Not modelled: what a rank does with its own memory before and after messages.

use std::ops::Range;
use std::sync::Arc;

use fabriscope_collectives::Rounds;
use fabriscope_engine::RankRounds;
use fabriscope_schedule::OpKind;
use fabriscope_units::Span;

/// The ranks of a part.
pub(crate) struct LiveRounds {
    program: Arc<dyn RankRounds>,
    first_rank: u32,
    ranks: Vec<LiveRank>,
    kinds: Vec<OpKind>,
    /// Places of operations that have ended.
    free: Vec<u32>,
    /// Ranks that are not at their end.
    running: usize,
}

/// A rank at work.
struct LiveRank {
    /// What is to come; nothing when it is at its end.
    rounds: Option<Rounds>,
    /// Operations of the round that have not ended.
    waiting: u32,
    /// Rounds that have begun.
    round: u32,
}

impl LiveRounds {
    /// The ranks of `range`, before their first round.
    pub fn new(program: &Arc<dyn RankRounds>, range: Range<u32>) -> LiveRounds {
        let rank = |rank| LiveRank { rounds: Some(program.rounds(rank)), waiting: 0, round: 0 };
        LiveRounds {
            program: Arc::clone(program),
            first_rank: range.start,
            running: range.len(),
            ranks: range.map(rank).collect(),
            kinds: Vec::new(),
            free: Vec::new(),
        }
    }

    /// What an operation that has not ended does.
    #[inline]
    pub fn kind(&self, op: u32) -> OpKind {
        self.kinds[op as usize]
    }
    /// Whether all ranks are at their end.
    pub fn done(&self) -> bool {
        self.running == 0
    }
    /// Places of operations, that is the most that had not ended at one time.
    #[cfg(test)]
    pub fn most(&self) -> usize {
        self.kinds.len()
    }

    /// `op` of the rank with this index has ended: adds the operations of its next round to `ready`, if it was the last of its round.
    pub fn ended(&mut self, index: usize, op: u32, ready: &mut Vec<u32>) {
        self.kinds[op as usize] = ENDED;
        self.free.push(op);
        let rank = &mut self.ranks[index];
        rank.waiting -= 1;
        if rank.waiting == 0 {
            self.begin(index, ready);
        }
    }

    /// Adds the operations of the next round of a rank that has some to `ready`.
    pub fn begin(&mut self, index: usize, ready: &mut Vec<u32>) {
        let rank = &mut self.ranks[index];
        while rank.waiting == 0 {
            let Some(round) = rank.rounds.as_mut().and_then(Iterator::next) else {
                if rank.rounds.take().is_some() {
                    self.running -= 1;
                }
                return;
            };
            rank.round += 1;
            for kind in round.operations() {
                rank.waiting += 1;
                ready.push(match self.free.pop() {
                    Some(op) => {
                        self.kinds[op as usize] = kind;
                        op
                    }
                    None => {
                        self.kinds.push(kind);
                        self.kinds.len() as u32 - 1
                    }
                });
            }
        }
    }

    /// Indices of the ranks that are not at their end, with their rounds.
    pub fn stuck(&self) -> Vec<(usize, u32)> {
        let waits = |(index, rank): (usize, &LiveRank)| rank.rounds.is_some().then_some((index, rank.round));
        self.ranks.iter().enumerate().filter_map(waits).collect()
    }
    /// Whom a rank waits for in a round.
    pub fn describe(&self, (index, number): (usize, u32)) -> String {
        let rank = self.first_rank + index as u32;
        let round = self.program.rounds(rank).nth(number.saturating_sub(1) as usize).unwrap_or_default();
        let from: Vec<String> = round.receives.iter().take(4).map(|receive| receive.peer.to_string()).collect();
        let rest = if round.receives.len() > 4 { " …" } else { "" };
        format!("  rank {rank}: round {number} of messages from {}{rest} has not ended", from.join(", "))
    }
}

/// What stands where an operation was.
const ENDED: OpKind = OpKind::Compute { span: Span::ZERO };
