//! One operation of one rank in the hands of its worker.

use fabriscope_collectives::{Message, Round, Rounds};
use fabriscope_units::Span;

/// The rank and its own count of operations.
pub(super) type TaskId = (u32, u64);

/// Where a task is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The next round has not begun.
    Between,
    /// The copies before the messages are outstanding.
    Opening,
    /// The messages are.
    Exchange,
    /// The copies after them are.
    Closing,
}

/// An outstanding operation.
pub(super) struct Task {
    pub rank: u32,
    pub number: u64,
    /// What its peers call it.
    pub op: u64,
    pub rounds: Rounds,
    pub round: Round,
    pub step: Step,
    /// Own reads and writes that have not ended.
    pub pending: u32,
    /// Messages whose receiver was not ready.
    pub sends: Vec<Message>,
    /// Ranks from whom something is to come.
    pub receives: Vec<u32>,
    /// Computed when all that is read has come, and whose memory the result goes to.
    pub result: Option<(Span, (u32, u32))>,
}

impl Task {
    pub fn new(rank: u32, number: u64, op: u64, rounds: Rounds) -> Task {
        Task {
            rank,
            number,
            op,
            rounds,
            round: Round::default(),
            step: Step::Between,
            pending: 0,
            sends: Vec::new(),
            receives: Vec::new(),
            result: None,
        }
    }
    pub fn id(&self) -> TaskId {
        (self.rank, self.number)
    }
}
