//! GOAL, the operation graphs of LogGOPSim and ATLAHS: text and binary.
//!
//! Source: T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly Language", ICPP 2009; spcl/LogGOPSim: the grammar of `txt2bin.re`,
//! the layout of `Parser.hpp`. Times are whole nanoseconds.
//! Modelled: `send`, `recv`, `calc`, `requires`, `irequires`, receives of any source and tag.
//! Not modelled: that operations of one `cpu` run one at a time; `nic`.

pub(crate) mod binary;
pub(crate) mod text;

pub use binary::write as binary;
pub use text::write as text;

use fabriscope_schedule::{At, OpKind, Schedule};

/// Why a schedule cannot be written as GOAL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum GoalError {
    /// One-sided operations.
    #[error("{at}, `{kind}`, has no form in GOAL, which is two-sided")]
    #[diagnostic(help("write it as a send and a receive"))]
    OneSided {
        /// The operation.
        at: At,
        /// What it does.
        kind: OpKind,
    },
    /// The tag that means any.
    #[error("{at}, `{kind}`: the tag {} means any tag in GOAL", u32::MAX)]
    #[diagnostic(help("use a smaller tag"))]
    Tag {
        /// The operation.
        at: At,
        /// What it does.
        kind: OpKind,
    },
}

/// The first operation that GOAL has no form for.
fn check(schedule: &Schedule) -> Result<(), GoalError> {
    for rank in 0..schedule.ranks() {
        for op in schedule.ops(rank) {
            let (at, kind) = (At { rank, op: op.id }, op.kind);
            match kind {
                OpKind::Put { .. } | OpKind::Get { .. } => return Err(GoalError::OneSided { at, kind }),
                OpKind::Send { tag, .. } | OpKind::Recv { tag, .. } if tag == u32::MAX => return Err(GoalError::Tag { at, kind }),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whole nanoseconds nearest to a computation.
fn nanoseconds(span: fabriscope_units::Span) -> u64 {
    span.as_ps().saturating_add(500) / 1000
}
