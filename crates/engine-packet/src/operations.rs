//! What the ranks of a part do: operations that are all known before the run, or those of rounds that ranks make when they get there.

use fabriscope_engine::Order;
use fabriscope_schedule::OpKind;

use crate::live_rounds::LiveRounds;

/// The operations of the ranks of a part; ranks by their index in it.
pub(crate) enum Operations {
    /// All of them, from a schedule.
    Listed(Listed),
    /// Those that have not ended, of rounds.
    Live(LiveRounds),
}

/// The operations of a schedule.
pub(crate) struct Listed {
    pub order: Order,
    finished: Vec<bool>,
    left: usize,
}

impl Listed {
    pub fn new(order: Order) -> Listed {
        Listed { finished: vec![false; order.len()], left: order.len(), order }
    }
    /// Operations of a rank that have not ended.
    pub fn left_of(&self, rank: usize) -> impl Iterator<Item = u32> + '_ {
        self.order.ops(rank).filter(|op| !self.finished[*op as usize])
    }
}

impl Operations {
    /// What an operation does that has not ended.
    #[inline]
    pub fn kind(&self, op: u32) -> OpKind {
        match self {
            Operations::Listed(listed) => listed.order.kind(op),
            Operations::Live(rounds) => rounds.kind(op),
        }
    }
    /// Whether everything has ended.
    #[inline]
    pub fn done(&self) -> bool {
        match self {
            Operations::Listed(listed) => listed.left == 0,
            Operations::Live(rounds) => rounds.done(),
        }
    }
    /// Whether anything waits for the start or the end of an operation.
    #[inline]
    pub fn has_followers(&self, op: u32, start: bool) -> bool {
        match self {
            Operations::Listed(listed) => listed.order.has_followers(op),
            Operations::Live(_) => !start,
        }
    }
    /// `op` has ended.
    #[inline]
    pub fn finish(&mut self, op: u32) {
        if let Operations::Listed(listed) = self {
            listed.left -= 1;
            listed.finished[op as usize] = true;
        }
    }
    /// Adds what may start as `op` of a rank has started, or ended, to `ready`.
    #[inline]
    pub fn release(&mut self, rank: usize, op: u32, start: bool, ready: &mut Vec<u32>) {
        match (self, start) {
            (Operations::Listed(listed), true) => listed.order.started(op, ready),
            (Operations::Listed(listed), false) => listed.order.ended(op, ready),
            (Operations::Live(_), true) => {}
            (Operations::Live(rounds), false) => rounds.ended(rank, op, ready),
        }
    }
    /// How many operations have not ended although nothing happens any more, where they are known.
    pub fn cut_off(&self) -> usize {
        match self {
            Operations::Listed(listed) => listed.left,
            Operations::Live(_) => 0,
        }
    }
    /// The first operation of each of `ranks` that has not ended, or its round.
    pub fn stuck(&self, ranks: usize) -> Vec<(usize, u32)> {
        match self {
            Operations::Listed(listed) if listed.left == 0 => Vec::new(),
            Operations::Listed(listed) => (0..ranks).filter_map(|rank| Some((rank, listed.left_of(rank).next()?))).collect(),
            Operations::Live(rounds) => rounds.stuck(),
        }
    }
    /// One of those in words.
    pub fn describe(&self, first_rank: u32, (rank, op): (usize, u32)) -> String {
        match self {
            Operations::Listed(listed) => {
                let (kind, number) = (listed.order.kind(op), op - listed.order.ops(rank).start);
                format!("  rank {}: operation {number} ({kind}) has not ended", first_rank as usize + rank)
            }
            Operations::Live(rounds) => rounds.describe((rank, op)),
        }
    }
}
