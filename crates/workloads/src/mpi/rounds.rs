//! Collective operations: a rank carries out the rounds of an algorithm.
//!
//! Modelled: receives before sends, one wait per round, copies of blocks with a cost per block and per byte; a reduction goes through
//! three streams of memory (two operands, one result) where a copy goes through two, and takes as much longer.
//! Not modelled: communicators other than all ranks, derived data types of the program's own.

use fabriscope_collectives::{Amount, Move, Round};
use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Span};

use super::rank::Rank;

impl Rank {
    /// Carries out `rounds`; each block that is copied costs `block_overhead` beside its bytes.
    ///
    /// # Errors
    /// As [`isend`](Self::isend) and [`wait`](Self::wait); a round that needs a message of 4 GiB or more.
    pub async fn carry_out(&self, rounds: impl Iterator<Item = Round>, block_overhead: Span) -> Result<(), ProgramError> {
        let go_through = |moves: &[Move]| {
            let amount = Amount::of(moves);
            self.compute(block_overhead * amount.moves);
            self.copy(amount.copied + Bytes(amount.reduced.0 * 3 / 2));
        };
        let length = |bytes: Bytes| {
            u32::try_from(bytes.0).map_err(|_| ProgramError(format!("a collective needs a message of {bytes}; use smaller blocks")))
        };
        for round in rounds {
            go_through(&round.before);
            let mut requests = Vec::with_capacity(round.receives.len() + round.sends.len());
            for message in &round.receives {
                requests.push(self.irecv(Some(message.peer), Some(TAG), length(message.piece.bytes)?)?);
            }
            for message in &round.sends {
                requests.push(self.isend(message.peer, TAG, length(message.piece.bytes)?)?);
            }
            self.wait_all(requests).await?;
            go_through(&round.after);
        }
        Ok(())
    }
}

/// The tag of every message of a collective: messages between two ranks keep their order. Basis: assumed.
const TAG: u32 = 1 << 24;
