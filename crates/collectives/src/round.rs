//! What a rank does between two waits, and the schedule that the rounds of all ranks make.

use std::ops::Range;

use fabriscope_schedule::{After, Builder, OpKind, Schedule, ScheduleError};
use fabriscope_units::Bytes;
use fabriscope_wire::Collective;

use crate::piece::{Action, Message, Move, Piece};

/// A round of one rank: it moves, posts all receives, posts all sends, waits for all of them, and moves again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Done first, in order.
    pub before: Vec<Move>,
    /// Received, in the order of posting.
    pub receives: Vec<Message>,
    /// Sent, in the order of posting.
    pub sends: Vec<Message>,
    /// What the network does meanwhile, for the members of a group of ranks.
    pub joint: Option<Joint>,
    /// Done when everything has come, in order.
    pub after: Vec<Move>,
}

/// An operation that the switches carry out. All members ask for the same ones, in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joint {
    /// What is done.
    pub collective: Collective,
    /// Which member this rank is.
    pub member: u32,
    /// How many there are.
    pub members: u32,
    /// The member that gives or gets, where there is one.
    pub root: u32,
    /// What this rank gives.
    pub from: Piece,
    /// Where it finds the result.
    pub to: Piece,
}

/// The rounds of a rank, made one at a time; whoever asks for them may be on any core.
pub type Rounds = Box<dyn Iterator<Item = Round> + Send>;

/// Rounds that are made by their number: those before one that is asked for are not made.
pub(crate) struct Numbered<F> {
    numbers: Range<u64>,
    make: F,
}

impl<F: FnMut(u64) -> Round> Numbered<F> {
    /// So many of them.
    pub(crate) fn new(count: u64, make: F) -> Numbered<F> {
        Numbered { numbers: 0..count, make }
    }
}

impl<F: FnMut(u64) -> Round> Iterator for Numbered<F> {
    type Item = Round;
    fn next(&mut self) -> Option<Round> {
        self.numbers.next().map(&mut self.make)
    }
    fn nth(&mut self, ahead: usize) -> Option<Round> {
        self.numbers.nth(ahead).map(&mut self.make)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

/// What the moves of a round amount to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Moves.
    pub moves: u64,
    /// Bytes copied.
    pub copied: Bytes,
    /// Bytes of one operand that reductions took in.
    pub reduced: Bytes,
}

impl Amount {
    /// Of these moves.
    #[must_use]
    pub fn of(moves: &[Move]) -> Amount {
        moves.iter().fold(Amount::default(), |mut sum, this| {
            sum.moves += 1;
            match this.action {
                Action::Copy => sum.copied += this.to.bytes,
                Action::ReduceBefore | Action::ReduceAfter => sum.reduced += this.to.bytes,
            }
            sum
        })
    }
}

/// A round with the sums of its moves in their place. Those of a round that reads slots stay: some of them are done where the slots are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The round without what is summed up.
    pub round: Round,
    /// What it moves first.
    pub before: Amount,
    /// What it moves when everything has come.
    pub after: Amount,
}

/// The rounds of a rank in outline.
pub type Outlines = Box<dyn Iterator<Item = Outline> + Send>;

impl From<Round> for Outline {
    fn from(mut round: Round) -> Outline {
        let before = Amount::of(&std::mem::take(&mut round.before));
        let reads = round.receives.iter().any(|message| message.slot);
        let after = if reads { Amount::default() } else { Amount::of(&std::mem::take(&mut round.after)) };
        Outline { round, before, after }
    }
}

impl Round {
    /// A round without messages. Copies of a piece to where it is are left out.
    #[must_use]
    pub fn local(mut moves: Vec<Move>) -> Round {
        moves.retain(|this| !this.is_idle());
        Round { before: moves, ..Round::default() }
    }
    /// A round of one message each way, or either.
    #[must_use]
    pub fn exchange(receive: Option<Message>, send: Option<Message>) -> Round {
        Round { receives: receive.into_iter().collect(), sends: send.into_iter().collect(), ..Round::default() }
    }
    /// The same, with moves afterwards.
    #[must_use]
    pub fn then(mut self, moves: impl IntoIterator<Item = Move>) -> Round {
        self.after.extend(moves);
        self
    }
    /// The same with other ranks and other pieces.
    #[must_use]
    pub fn renamed(self, peer: impl Fn(u32) -> u32, piece: impl Fn(Piece) -> Piece) -> Round {
        let message = |m: Message| Message { peer: peer(m.peer), piece: piece(m.piece), slot: m.slot };
        let this = |m: Move| Move { action: m.action, from: piece(m.from), to: piece(m.to) };
        Round {
            before: self.before.into_iter().map(this).collect(),
            receives: self.receives.into_iter().map(message).collect(),
            sends: self.sends.into_iter().map(message).collect(),
            joint: self.joint.map(|joint| Joint { from: piece(joint.from), to: piece(joint.to), ..joint }),
            after: self.after.into_iter().map(this).collect(),
        }
    }
    /// The same with all messages in slots of the node's memory.
    #[must_use]
    pub fn in_slots(mut self) -> Round {
        self.receives.iter_mut().chain(&mut self.sends).for_each(|message| message.slot = true);
        self
    }
    /// The ranks that it talks to; those behind the network are not known.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.receives.iter().chain(&self.sends).map(|message| message.peer)
    }
}

/// The distances from 1 on to the other ones of `ranks`, so many at a time; 0 is all at once.
pub(crate) fn batches(ranks: u32, at_a_time: u32) -> impl Iterator<Item = Range<u32>> {
    let step = if at_a_time == 0 { ranks.max(1) } else { at_a_time };
    (1..ranks).step_by(step as usize).map(move |first| first..first.saturating_add(step).min(ranks))
}

/// The rounds of all ranks as a schedule: every operation of a round waits for all of the round before. Moves take no time in it.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn schedule<R: Iterator<Item = Round>>(ranks: u32, rounds: impl Fn(u32) -> R) -> Result<Schedule, ScheduleError> {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        add_rounds(&mut builder, rank, rounds(rank).map(|round| round.operations().collect()), Vec::new());
    }
    builder.build()
}

/// Adds the operations of a rank's rounds, those of each behind all of the round before, the first ones behind `before`. Gives what waits for
/// the last ones.
pub fn add_rounds(builder: &mut Builder, rank: u32, rounds: impl Iterator<Item = Vec<OpKind>>, before: Vec<After>) -> Vec<After> {
    rounds
        .filter(|ops| !ops.is_empty())
        .fold(before, |before, ops| ops.into_iter().map(|op| After::End(builder.op_after(rank, op, &before))).collect())
}

/// The same by data alone: every operation of a round waits for what the last round before brought, and for no send.
///
/// # Errors
/// As [`schedule`].
pub fn data_schedule<R: Iterator<Item = Round>>(ranks: u32, rounds: impl Fn(u32) -> R) -> Result<Schedule, ScheduleError> {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let mut brought: Vec<After> = Vec::new();
        for round in rounds(rank) {
            round.send_ops().for_each(|send| {
                builder.op_after(rank, send, &brought);
            });
            let receives: Vec<After> = round.receive_ops().map(|receive| After::End(builder.op_after(rank, receive, &brought))).collect();
            if !receives.is_empty() {
                brought = receives;
            }
        }
    }
    builder.build()
}

// Messages between two ranks keep their order; one tag is enough.
impl Round {
    /// Its receives and its sends, in the order of posting, as operations of a schedule.
    pub fn operations(&self) -> impl Iterator<Item = OpKind> + '_ {
        self.receive_ops().chain(self.send_ops())
    }
    fn receive_ops(&self) -> impl Iterator<Item = OpKind> + '_ {
        self.receives.iter().map(|m| OpKind::Recv { from: m.peer, bytes: m.piece.bytes, tag: 0 })
    }
    fn send_ops(&self) -> impl Iterator<Item = OpKind> + '_ {
        self.sends.iter().map(|m| OpKind::Send { to: m.peer, bytes: m.piece.bytes, tag: 0 })
    }
}
