//! What the library itself thinks that a group of operations takes, as `ncclGroupSimulateEnd` says it.
//!
//! Operations of one kind whose sizes are within a factor of 4 are taken together as one of the sum of their bytes; each such part takes
//! `latency · n + bytes / bandwidth`, where n is the number of operations for each channel with rings, and of batches of them otherwise.
//!
//! Source: NCCL 2.22.3, src/enqueue.cc (ncclPrepareTasks, topoGetAlgoInfo), src/graph/tuning.cc (ncclTopoGetAlgoTime).
//! Modelled: the same parts and formula; the library gives the time of the part that it looks at last, which is kept beside the sum.
//! Not modelled: sends and receives, which the library leaves out of it, too.

use fabriscope_units::{Bytes, Span};

use super::{Choice, Tuner};
use crate::algorithm::{Algorithm, Operation};
use crate::error::NcclError;

/// Operations that the library takes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPart {
    /// How many.
    pub operations: u32,
    /// Bytes of all of them.
    pub bytes: Bytes,
    /// What is used for each, with what the library thinks that all of them take.
    pub choice: Choice,
}

/// What the library thinks of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEstimate {
    /// In the order in which the library looks at them.
    pub parts: Vec<GroupPart>,
}

impl GroupEstimate {
    /// `estimatedTime` of `ncclGroupSimulateEnd`: that of the last part.
    #[must_use]
    pub fn as_told(&self) -> Span {
        self.parts.last().map_or(Span::ZERO, |part| part.choice.estimate)
    }
    /// All parts one after the other.
    #[must_use]
    pub fn sum(&self) -> Span {
        self.parts.iter().fold(Span::ZERO, |sum, part| sum + part.choice.estimate)
    }
}

impl Tuner {
    /// What the library thinks that a group of operations of one type and one reduction takes; sizes are the larger buffers of a rank.
    ///
    /// # Errors
    /// What users set leaves nothing.
    pub fn estimate_group(&self, operations: &[(Operation, Bytes)]) -> Result<GroupEstimate, NcclError> {
        let each = (operations.len() as u32).div_ceil(self.channels.max(1)).max(1);
        // The largest first; kinds in the order in which they are met so, within a kind the smallest first.
        let traffic = |(operation, bytes): &(Operation, Bytes)| {
            u128::from(bytes.0) / u128::from(operation.blocks(self.ranks)) * u128::from(operation.traffic(self.ranks))
        };
        let mut sorted = operations.to_vec();
        sorted.sort_by_key(|one| std::cmp::Reverse(traffic(one)));
        let mut kinds: Vec<Operation> = Vec::new();
        for (kind, _) in &sorted {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        let mut parts = Vec::new();
        for kind in kinds {
            let mut left: Vec<(Operation, Bytes)> = sorted.iter().rev().filter(|(own, _)| *own == kind).copied().collect();
            while let Some(first) = left.first().copied() {
                let more = left[1..].iter().take_while(|one| traffic(one) < 4 * traffic(&first)).count();
                let taken: Vec<_> = left.drain(..=more).collect();
                let bytes = Bytes(taken.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.0)));
                parts.push(GroupPart {
                    operations: taken.len() as u32,
                    bytes,
                    choice: self.choose_of(kind, &Algorithm::ALL, bytes, each)?,
                });
            }
        }
        Ok(GroupEstimate { parts })
    }
}
