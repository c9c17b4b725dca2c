//! Collective operations: a rank carries out the rounds of an algorithm.
//!
//! Modelled: receives before sends, one wait per round, copies of blocks with a cost per block and per byte.
//! Not modelled: communicators other than all ranks, derived data types of the program's own.

use fabriscope_collectives::{Copies, Round};
use fabriscope_node::ProgramError;
use fabriscope_units::Span;

use super::rank::Rank;

impl Rank {
    /// Carries out `rounds`; each block that is copied costs `block_overhead` beside its bytes.
    ///
    /// # Errors
    /// As [`isend`](Self::isend) and [`wait`](Self::wait); a round that needs a message of 4 GiB or more.
    pub async fn carry_out(&self, rounds: impl Iterator<Item = Round>, block_overhead: Span) -> Result<(), ProgramError> {
        let copy = |copies: Copies| {
            self.compute(block_overhead * copies.blocks);
            self.copy(copies.bytes);
        };
        let length = |bytes: fabriscope_units::Bytes| {
            u32::try_from(bytes.0).map_err(|_| ProgramError(format!("a collective needs a message of {bytes}; use smaller blocks")))
        };
        for round in rounds {
            copy(round.before);
            let mut requests = Vec::with_capacity(round.receives.len() + round.sends.len());
            for message in &round.receives {
                requests.push(self.irecv(Some(message.peer), Some(TAG), length(message.bytes)?)?);
            }
            for message in &round.sends {
                requests.push(self.isend(message.peer, TAG, length(message.bytes)?)?);
            }
            self.wait_all(requests).await?;
            copy(round.after);
        }
        Ok(())
    }
}

/// The tag of every message of a collective: messages between two ranks keep their order. Basis: assumed.
const TAG: u32 = 1 << 24;
