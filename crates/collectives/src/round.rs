//! What a rank does between two waits, and the schedule that the rounds of all ranks make.

use fabriscope_schedule::{After, Builder, OpKind, Schedule, ScheduleError};
use fabriscope_units::Bytes;

/// Blocks that a rank copies within its own memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copies {
    /// Pieces, each of which is contiguous.
    pub blocks: u64,
    /// All of them together.
    pub bytes: Bytes,
}

/// One message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The other rank.
    pub peer: u32,
    /// Its length.
    pub bytes: Bytes,
}

/// A round of one rank: it copies, posts all receives, posts all sends, waits for all of them, and copies again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Copied first.
    pub before: Copies,
    /// Received, in the order of posting.
    pub receives: Vec<Message>,
    /// Sent, in the order of posting.
    pub sends: Vec<Message>,
    /// Copied when everything has come.
    pub after: Copies,
}

/// The rounds of all ranks as a schedule: every operation of a round waits for all of the round before. Copies take no time in it.
///
/// # Errors
/// No ranks, or more operations than can be numbered.
pub fn schedule<R: Iterator<Item = Round>>(ranks: u32, rounds: impl Fn(u32) -> R) -> Result<Schedule, ScheduleError> {
    let mut builder = Builder::new(ranks);
    for rank in 0..ranks {
        let mut before: Vec<After> = Vec::new();
        for (tag, round) in rounds(rank).enumerate() {
            let tag = tag as u32;
            let receives = round.receives.iter().map(|m| OpKind::Recv { from: m.peer, bytes: m.bytes, tag });
            let sends = round.sends.iter().map(|m| OpKind::Send { to: m.peer, bytes: m.bytes, tag });
            let ops: Vec<OpKind> = receives.chain(sends).collect();
            if !ops.is_empty() {
                before = ops.into_iter().map(|op| After::End(builder.op_after(rank, op, &before))).collect();
            }
        }
    }
    builder.build()
}
