//! What a rank does, step by step, and the messages that wait for it.

use std::collections::VecDeque;

use fabriscope_collectives::{Amount, Outline, Round};
use fabriscope_units::Span;

/// One step of a rank.
#[derive(Debug, Clone)]
pub enum Step {
    /// A round of messages.
    Round(Outline),
    /// What follows is timed.
    Begin,
    /// Until here.
    End,
    /// All ranks wait for each other, out of band.
    Meet,
    /// The core is busy.
    Work(Span),
    /// It moves data, as before a round, but lets others go on meanwhile.
    Move(Amount),
    /// It is so while the messages of the next round are outstanding: after their post, before the wait. Counts for this part.
    Beside(u8, Span),
    /// What passed since the last one, or since the begin, counts for this part of the time.
    Lap(u8),
}

/// The steps of a rank, made one at a time.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// A message that was sent, by a call at `called`, and that waited so long for others on its way. Times are in ps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Came {
    /// It can be taken from `at` on, which costs `take`, or `late` where it was there before its receive, or `found` where the library has
    /// looked at it before.
    Eager { at: u64, take: u64, late: u64, found: u64, called: u64, waited: u64 },
    /// The sender, who called at `call`, waits for the receiver, who can see that from `at` on, and has looked.
    Waits { from: u32, call: u64, size: u32, at: u64, looked: bool },
    /// It lies in slots: the first can be read from `first` on, the last from `last` on.
    Slots { first: u64, last: u64 },
}

/// What waits for its other side, between one sender and one receiver: messages, or receives with when they were posted.
#[derive(Debug, Clone)]
pub(super) enum Waiting {
    Came(VecDeque<Came>),
    Posted(VecDeque<u64>),
}

/// Where a rank is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the next step.
    Next,
    /// Sends are posted one by one.
    Sends,
    /// It computes before it waits.
    Works,
    /// All is posted.
    Waits,
    /// Everything has come.
    Ends,
    /// It waits for all ranks.
    Meets,
    Over,
}

/// A message that has come: when, and what it costs to take; when its sender called, and how long it waited for others on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Taken {
    pub at: u64,
    pub take: u64,
    pub called: u64,
    pub waited: u64,
}

/// What a core has done since the last part of the time ended, or waited for (ps).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub copies: u64,
    pub late: u64,
    pub contention: u64,
    pub transfer: u64,
}

impl Counted {
    /// A core that is free at `free` has nothing to do until `at`, when a message is there: while nobody had sent it, that is for a rank
    /// that is late; as long as it waited for others, for those; else for its way.
    pub fn waits(&mut self, free: u64, Taken { at, called, waited, .. }: Taken) {
        let gap = at.saturating_sub(free);
        let late = called.saturating_sub(free).min(gap);
        let contention = waited.min(gap - late);
        self.late += late;
        self.contention += contention;
        self.transfer += gap - late - contention;
    }
}

/// A rank.
pub(super) struct Runner {
    pub steps: Steps,
    pub phase: Phase,
    /// Until when its core is busy (ps).
    pub core: u64,
    /// When its core had posted the round (ps).
    pub free: u64,
    pub begun: u64,
    pub total: u64,
    /// When the last part ended, and what each took (ps).
    pub since: u64,
    pub laps: Vec<u64>,
    /// What of them passed with what, by part, and since the last one ended.
    pub causes: Vec<Counted>,
    pub counted: Counted,
    /// What it computes before it waits for its round, and for which part.
    pub beside: Option<(u8, u64)>,
    pub round: Round,
    /// What it moves when everything has come, where no slots are read.
    pub after: Amount,
    pub sent: usize,
    /// Receives that have not come, and sends that wait for their receivers.
    pub missing: u32,
    /// When the last of its sends is over, and why then.
    pub until: u64,
    pub over: Taken,
    /// What has come.
    pub came: Vec<Taken>,
    /// The same of slots, in the order of reading: first and last, by the place of the receive.
    pub slots: Vec<(u32, u64, u64)>,
    /// Messages whose senders wait, which the core turns to when it has posted all: from whom, when the sender called, and the size.
    pub pending: Vec<(u32, u64, u32)>,
    /// Messages that came before their receives: when, from whom, and what a look at them costs.
    pub early: Vec<(u64, u32, u64)>,
    /// Until when it copies out of others' memories.
    pub copying: u64,
}

impl Runner {
    /// `span` counts for this part.
    pub fn count(&mut self, part: u8, span: u64) {
        let part = usize::from(part);
        if self.laps.len() <= part {
            self.laps.resize(part + 1, 0);
        }
        self.laps[part] += span;
    }
    /// The part ends here: what was counted since the last one is its.
    pub fn lap(&mut self, part: u8) {
        self.count(part, self.core.saturating_sub(self.since));
        self.since = self.core;
        self.causes.resize(self.laps.len(), Counted::default());
        let (sum, now) = (&mut self.causes[usize::from(part)], std::mem::take(&mut self.counted));
        sum.copies += now.copies;
        sum.late += now.late;
        sum.contention += now.contention;
        sum.transfer += now.transfer;
    }
    /// The last of its sends is not over before that.
    pub fn holds(&mut self, over: Taken) {
        if over.at > self.until {
            (self.until, self.over) = (over.at, over);
        }
    }
    pub fn new(steps: Steps) -> Runner {
        Runner {
            steps,
            phase: Phase::Next,
            core: 0,
            free: 0,
            begun: 0,
            total: 0,
            since: 0,
            laps: Vec::new(),
            causes: Vec::new(),
            counted: Counted::default(),
            beside: None,
            round: Round::default(),
            after: Amount::default(),
            sent: 0,
            missing: 0,
            until: 0,
            over: Taken { at: 0, take: 0, called: 0, waited: 0 },
            came: Vec::new(),
            slots: Vec::new(),
            pending: Vec::new(),
            early: Vec::new(),
            copying: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core is free at 100 and a message there at 180: its sender called at 130, and it stood 20 behind others, so 30, 20 and 30 more
    /// on its way. Of one that came before nothing is waited for; of one that stood for longer than the wait, all of it.
    #[test]
    fn a_wait_is_divided_by_the_message_that_ends_it() {
        let of = |free, at, called, waited| {
            let mut counted = Counted::default();
            counted.waits(free, Taken { at, take: 5, called, waited });
            (counted.late, counted.contention, counted.transfer)
        };
        assert_eq!(of(100, 180, 130, 20), (30, 20, 30));
        assert_eq!(of(100, 90, 50, 20), (0, 0, 0));
        assert_eq!(of(100, 180, 10, 500), (0, 80, 0));
        assert_eq!(of(100, 180, 300, 20), (80, 0, 0));
    }
}
