//! What each operation of a schedule still waits for, and who waits for it: the same for every engine.

use std::ops::Range;

use fabriscope_schedule::{After, OpKind, Schedule};

/// The dependencies of the operations of some ranks, in flat arrays; operations are numbered through, rank by rank.
#[derive(Debug, Clone)]
pub struct Order {
    /// The first operation of each rank, and the end of all.
    first: Vec<u32>,
    kinds: Vec<OpKind>,
    /// What each operation still waits for.
    unmet: Vec<u32>,
    /// Operations that wait for this one: where they start in `followers`.
    first_follower: Vec<u32>,
    /// The operation that waits, and in the highest bit whether it waits for the start.
    followers: Vec<u32>,
}

/// Marks a follower that waits for the start, not for the end.
const START: u32 = 1 << 31;

impl Order {
    /// The operations of `ranks`. Linear in operations and dependencies.
    #[must_use]
    pub fn new(schedule: &Schedule, ranks: Range<u32>) -> Order {
        let mut first = vec![0u32];
        let mut kinds = Vec::new();
        for rank in ranks.clone() {
            kinds.extend_from_slice(schedule.kinds(rank));
            first.push(kinds.len() as u32);
        }
        let mut unmet = vec![0u32; kinds.len()];
        let mut first_follower = vec![0u32; kinds.len() + 1];
        let edges = |each: &mut dyn FnMut(u32, u32, bool)| {
            for (rank, &base) in ranks.clone().zip(&first) {
                for op in schedule.ops(rank) {
                    for after in op.after {
                        each(base + after.op().0, base + op.id.0, matches!(after, After::Start(_)));
                    }
                }
            }
        };
        edges(&mut |before, op, _| {
            first_follower[before as usize + 1] += 1;
            unmet[op as usize] += 1;
        });
        for op in 1..first_follower.len() {
            first_follower[op] += first_follower[op - 1];
        }
        let mut next = first_follower.clone();
        let mut followers = vec![0u32; first_follower.last().map_or(0, |&end| end as usize)];
        edges(&mut |before, op, start| {
            let place = &mut next[before as usize];
            followers[*place as usize] = if start { op | START } else { op };
            *place += 1;
        });
        Order { first, kinds, unmet, first_follower, followers }
    }

    /// How many operations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
    /// The operations of the `rank`-th of the ranks.
    #[must_use]
    pub fn ops(&self, rank: usize) -> Range<u32> {
        self.first[rank]..self.first[rank + 1]
    }
    /// What an operation does.
    #[inline]
    #[must_use]
    pub fn kind(&self, op: u32) -> OpKind {
        self.kinds[op as usize]
    }
    /// Whether an operation waits for nothing.
    #[inline]
    #[must_use]
    pub fn is_ready(&self, op: u32) -> bool {
        self.unmet[op as usize] == 0
    }
    /// Whether other operations wait for this one.
    #[inline]
    #[must_use]
    pub fn has_followers(&self, op: u32) -> bool {
        self.first_follower[op as usize] < self.first_follower[op as usize + 1]
    }
    /// `op` has started: adds what may start now to `ready`.
    #[inline]
    pub fn started(&mut self, op: u32, ready: &mut Vec<u32>) {
        self.release(op, START, ready);
    }
    /// `op` has ended: adds what may start now to `ready`.
    #[inline]
    pub fn ended(&mut self, op: u32, ready: &mut Vec<u32>) {
        self.release(op, 0, ready);
    }

    #[inline]
    fn release(&mut self, op: u32, what: u32, ready: &mut Vec<u32>) {
        let followers = self.first_follower[op as usize] as usize..self.first_follower[op as usize + 1] as usize;
        for &follower in &self.followers[followers] {
            if follower & START == what {
                let unmet = &mut self.unmet[(follower & !START) as usize];
                *unmet -= 1;
                if *unmet == 0 {
                    ready.push(follower & !START);
                }
            }
        }
    }
}
