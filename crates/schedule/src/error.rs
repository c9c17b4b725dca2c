//! What can be wrong with a schedule and with its text.

use fabriscope_units::{Bytes, UnitError};

use crate::{At, OpId, OpKind};

/// Why operations do not make a schedule; every message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No ranks, or more than ids reach.
    #[error("{ranks} ranks are not a schedule")]
    #[diagnostic(help("use 1 to {most}"))]
    Ranks {
        /// The number asked for.
        ranks: u32,
        /// The most there can be.
        most: u32,
    },
    /// More operations or dependencies than ids reach.
    #[error("the schedule has more than {most} operations or dependencies")]
    #[diagnostic(help("split it into parts that run one after the other"))]
    TooLarge {
        /// The most there can be.
        most: u32,
    },
    /// An operation was given to a rank that is not there.
    #[error("there is no rank {rank} to add `{kind}` to")]
    #[diagnostic(help("use 0 to {last} or make a schedule of more ranks"))]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The operation.
        kind: OpKind,
        /// The highest rank.
        last: u32,
    },
    /// An operation names a rank that is not there.
    #[error("{at}, `{kind}`: there is no rank {peer}")]
    #[diagnostic(help("use 0 to {last} or make a schedule of more ranks"))]
    NoSuchPeer {
        /// The operation.
        at: At,
        /// What it does.
        kind: OpKind,
        /// The rank it names.
        peer: u32,
        /// The highest rank.
        last: u32,
    },
    /// A dependency names an operation that is not there.
    #[error("{at} waits for {after}, but that rank has {count} operations")]
    #[diagnostic(help("add {after} or drop the dependency"))]
    NoSuchOp {
        /// The operation that waits.
        at: At,
        /// The operation waited for.
        after: OpId,
        /// Operations of that rank.
        count: u32,
    },
    /// A send without its receive, or the other way round.
    #[error("{at}, `{kind}`, has no partner: add `{missing}` to rank {peer}, or drop it")]
    Unmatched {
        /// The operation.
        at: At,
        /// What it does.
        kind: OpKind,
        /// The rank that should have the partner.
        peer: u32,
        /// The partner.
        missing: OpKind,
    },
    /// A send and its receive disagree.
    #[error("{send} sends {sent} to {recv}, which expects {expected}")]
    #[diagnostic(help("make both lengths equal (messages of one tag meet in order)"))]
    Length {
        /// The send.
        send: At,
        /// Its length.
        sent: Bytes,
        /// The receive.
        recv: At,
        /// Its length.
        expected: Bytes,
    },
    /// Operations that wait for each other.
    #[error("{} which closes the cycle: none of them can ever end", cycle(.path))]
    #[diagnostic(help("drop one of these dependencies, or receive without waiting first"))]
    Cycle {
        /// Each waits for the one after it, the last for the first.
        path: Vec<(At, OpKind)>,
    },
}

impl ScheduleError {
    /// The operation to look at first.
    #[must_use]
    pub fn at(&self) -> Option<At> {
        match self {
            ScheduleError::NoSuchPeer { at, .. } | ScheduleError::NoSuchOp { at, .. } | ScheduleError::Unmatched { at, .. } => Some(*at),
            ScheduleError::Length { recv, .. } => Some(*recv),
            ScheduleError::Cycle { path } => path.first().map(|(at, _)| *at),
            _ => None,
        }
    }
}

/// A cycle in words; long ones are shortened in the middle.
fn cycle(path: &[(At, OpKind)]) -> String {
    const SHOWN: usize = 6;
    let mut words: Vec<String> = path.iter().map(|(at, kind)| format!("{at} (`{kind}`)")).collect();
    if words.len() > SHOWN {
        let hidden = words.len() - SHOWN;
        words.splice(SHOWN / 2..words.len() - SHOWN / 2, [format!("{hidden} more")]);
    }
    if let Some((at, _)) = path.first() {
        words.push(format!("{at},"));
    }
    words.join(" waits for ")
}

/// An error in the text of a schedule, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("line {line}, column {column}: {problem}")]
#[diagnostic(forward(problem))]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong there.
    pub problem: TextProblem,
}

/// What is wrong at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum TextProblem {
    /// Something else was due.
    #[error("found {found}")]
    #[diagnostic(help("expected {expected}"))]
    Unexpected {
        /// The text there.
        found: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A quantity without a unit or with a wrong one.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Unit(#[from] UnitError),
    /// A label that no operation of the rank has.
    #[error("no operation of rank {rank} is labelled `{label}`")]
    #[diagnostic(help("label one with `{label}: …` within the same rank"))]
    UnknownLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
    },
    /// A label that two operations have.
    #[error("`{label}` already labels the operation in line {line}")]
    #[diagnostic(help("choose another label"))]
    LabelTwice {
        /// The label.
        label: String,
        /// Where it stands first.
        line: u32,
    },
    /// A rank that has two blocks.
    #[error("rank {rank} already has a block in line {line}")]
    #[diagnostic(help("write all its operations there"))]
    RankTwice {
        /// The rank.
        rank: u32,
        /// Where the first block starts.
        line: u32,
    },
    /// A rank beyond the number given at the top.
    #[error("there is no rank {rank} among {ranks}")]
    #[diagnostic(help("ranks count from 0, raise `num_ranks` or drop the block"))]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A comment without an end.
    #[error("this comment never ends")]
    #[diagnostic(help("close it with `*/`"))]
    OpenComment,
    /// The statements read well but do not make a schedule.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Schedule(#[from] ScheduleError),
}
