//! Does the schedule make sense: ranks, partners, lengths, no cycle.
//!
//! A cycle counts only where it would stop every engine. Between ranks that is: a receive ends after its
//! send has started. Whether a send waits for its receive depends on the protocol, so it is not assumed here.

use crate::{After, At, OpId, OpKind, Schedule, ScheduleError};

/// A send and the receive that takes its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// The send.
    pub send: At,
    /// The receive.
    pub recv: At,
}

impl Schedule {
    /// Looks for nonsense: ranks that are not there, messages without partner or of two lengths, cycles.
    ///
    /// # Errors
    /// The first problem, with its rank and operation and what to do.
    pub fn check(&self) -> Result<(), ScheduleError> {
        self.check_peers()?;
        let matches = self.matches()?;
        Search::new(self, &matches).run()
    }

    /// Every send with its receive, ordered by send: the n-th send from one rank to another with one tag
    /// meets the n-th receive there.
    ///
    /// # Errors
    /// A send or receive without partner; a pair that disagrees on the length.
    pub fn matches(&self) -> Result<Vec<Match>, ScheduleError> {
        let (mut sends, mut recvs) = (Vec::new(), Vec::new());
        for rank in 0..self.ranks() {
            for op in self.ops(rank) {
                let at = At { rank, op: op.id };
                match op.kind {
                    OpKind::Send { to, tag, .. } => sends.push(((rank, to, tag), at)),
                    OpKind::Recv { from, tag, .. } => recvs.push(((from, rank, tag), at)),
                    _ => {}
                }
            }
        }
        // Stable: within one key the order of the operations stays.
        sends.sort_by_key(|(key, _)| *key);
        recvs.sort_by_key(|(key, _)| *key);
        let mut matches = Vec::with_capacity(sends.len());
        let mut waiting = recvs.iter().peekable();
        for (key, send) in &sends {
            match waiting.peek() {
                Some((other, _)) if other < key => break,
                Some((other, recv)) if other == key => {
                    matches.push(self.matched(*send, *recv)?);
                    waiting.next();
                }
                _ => return Err(self.unmatched(*send)),
            }
        }
        if let Some((_, recv)) = waiting.next() {
            return Err(self.unmatched(*recv));
        }
        matches.sort_unstable();
        Ok(matches)
    }

    fn matched(&self, send: At, recv: At) -> Result<Match, ScheduleError> {
        let (sent, expected) = (self.kind(send).bytes(), self.kind(recv).bytes());
        if sent == expected { Ok(Match { send, recv }) } else { Err(ScheduleError::Length { send, sent, recv, expected }) }
    }
    fn unmatched(&self, at: At) -> ScheduleError {
        let kind = self.kind(at);
        let (peer, missing) = match kind {
            OpKind::Recv { from, bytes, tag } => (from, OpKind::Send { to: at.rank, bytes, tag }),
            OpKind::Send { to, bytes, tag } => (to, OpKind::Recv { from: at.rank, bytes, tag }),
            other => (at.rank, other),
        };
        ScheduleError::Unmatched { at, kind, peer, missing }
    }

    fn check_peers(&self) -> Result<(), ScheduleError> {
        for rank in 0..self.ranks() {
            for op in self.ops(rank) {
                if let Some(peer) = op.kind.peer().filter(|peer| *peer >= self.ranks()) {
                    let at = At { rank, op: op.id };
                    return Err(ScheduleError::NoSuchPeer { at, kind: op.kind, peer, last: self.ranks() - 1 });
                }
            }
        }
        Ok(())
    }

    fn index(&self, at: At) -> usize {
        (self.first_op[at.rank as usize] + at.op.0) as usize
    }
    fn kind(&self, at: At) -> OpKind {
        self.kinds[self.index(at)]
    }
    /// The rank and number of the operation at `index` of all.
    fn at(&self, index: usize) -> At {
        let rank = self.first_op.partition_point(|first| *first as usize <= index) - 1;
        At { rank: rank as u32, op: OpId(index as u32 - self.first_op[rank]) }
    }
}

/// Depth-first search, backwards in time, over what each start and each end waits for.
struct Search<'a> {
    schedule: &'a Schedule,
    /// For each receive the operation that sends to it.
    sender: Vec<u32>,
    /// For each operation the first one of its rank.
    first: Vec<u32>,
    state: Vec<State>,
    /// From an end to the moment looked at; each waits for the next. With the number of moments before it looked at.
    path: Vec<(Moment, u32)>,
}

impl Search<'_> {
    fn new<'a>(schedule: &'a Schedule, matches: &[Match]) -> Search<'a> {
        let mut sender = vec![NOBODY; schedule.kinds.len()];
        for Match { send, recv } in matches {
            sender[schedule.index(*recv)] = schedule.index(*send) as u32;
        }
        let ranks = schedule.first_op.windows(2);
        let first = ranks.flat_map(|ends| std::iter::repeat_n(ends[0], (ends[1] - ends[0]) as usize)).collect();
        Search { schedule, sender, first, state: vec![State::New; schedule.kinds.len() * 2], path: Vec::new() }
    }

    fn run(mut self) -> Result<(), ScheduleError> {
        for op in 0..self.schedule.kinds.len() {
            self.path.push((Moment::end(op), 0));
            while let Some((moment, step)) = self.path.last_mut() {
                let (moment, here) = (*moment, *step);
                *step += 1;
                self.state[moment.0] = State::Open;
                match self.before(moment, here) {
                    None => {
                        self.state[moment.0] = State::Done;
                        self.path.pop();
                    }
                    Some(before) => match self.state[before.0] {
                        State::New => self.path.push((before, 0)),
                        State::Open => return Err(self.cycle(before)),
                        State::Done => {}
                    },
                }
            }
        }
        Ok(())
    }

    /// The `step`-th moment that has to come before `moment`.
    fn before(&self, moment: Moment, step: u32) -> Option<Moment> {
        let op = moment.op();
        if moment.is_end() {
            return match step {
                0 => Some(Moment::start(op)),
                1 if self.sender[op] != NOBODY => Some(Moment::start(self.sender[op] as usize)),
                _ => None,
            };
        }
        let after = self.schedule.after_of(op).get(step as usize)?;
        let other = (self.first[op] + after.op().0) as usize;
        Some(if matches!(after, After::End(_)) { Moment::end(other) } else { Moment::start(other) })
    }

    /// The operations of the path from `start` on; the last one waits for `start`.
    fn cycle(&self, start: Moment) -> ScheduleError {
        let from = self.path.iter().position(|(moment, _)| *moment == start).unwrap_or(0);
        let mut ops: Vec<usize> = self.path[from..].iter().map(|(moment, _)| moment.op()).collect();
        ops.dedup();
        if ops.len() > 1 && ops.first() == ops.last() {
            ops.pop();
        }
        ScheduleError::Cycle { path: ops.into_iter().map(|op| (self.schedule.at(op), self.schedule.kinds[op])).collect() }
    }
}

/// The start or the end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment(usize);

impl Moment {
    fn start(op: usize) -> Moment {
        Moment(op * 2)
    }
    fn end(op: usize) -> Moment {
        Moment(op * 2 + 1)
    }
    fn op(self) -> usize {
        self.0 / 2
    }
    fn is_end(self) -> bool {
        self.0 % 2 == 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// On the path.
    Open,
    /// Everything before it was looked at.
    Done,
}

/// No operation: there are fewer than this.
const NOBODY: u32 = u32::MAX;
