//! One iteration of each benchmark.
//!
//! Source: OMB 7.4.
//! Modelled: the calls and tags of the tools, in their order.
//! Not modelled: filling the buffers, which happens outside the measured time.

use fabriscope_node::ProgramError;

use crate::mpi::{Rank, Request};

/// A rank and the one that it talks to.
pub(super) struct Pair {
    pub rank: Rank,
    pub peer: u32,
    /// Whether this rank belongs to the half that sends.
    pub sends: bool,
    /// Messages in flight.
    pub window: u32,
}

impl Pair {
    /// `osu_latency`: there and back.
    pub async fn ping_pong(&self, size: u32) -> Result<(), ProgramError> {
        if self.sends {
            self.rank.send(self.peer, PING, size).await?;
            self.rank.recv(Some(self.peer), Some(PING), size).await
        } else {
            self.rank.recv(Some(self.peer), Some(PING), size).await?;
            self.rank.send(self.peer, PING, size).await
        }
    }

    /// `osu_bw` and `osu_mbw_mr`: a window of messages one way, then four bytes back.
    pub async fn window(&self, size: u32) -> Result<(), ProgramError> {
        if self.sends {
            self.rank.wait_all(self.start_sends(size, WINDOW)?).await?;
            self.rank.recv(Some(self.peer), Some(ACKNOWLEDGEMENT), ACKNOWLEDGEMENT_BYTES).await
        } else {
            self.rank.wait_all(self.start_receives(size, WINDOW)?).await?;
            self.rank.send(self.peer, ACKNOWLEDGEMENT, ACKNOWLEDGEMENT_BYTES).await
        }
    }

    /// `osu_bibw`: a window of messages each way.
    pub async fn both_ways(&self, size: u32) -> Result<(), ProgramError> {
        let (mine, theirs) = if self.sends { (THERE, BACK) } else { (BACK, THERE) };
        let receives = self.start_receives(size, theirs)?;
        let sends = self.start_sends(size, mine)?;
        self.rank.wait_all(sends).await?;
        self.rank.wait_all(receives).await
    }

    fn start_sends(&self, size: u32, tag: u32) -> Result<Vec<Request>, ProgramError> {
        (0..self.window).map(|_| self.rank.isend(self.peer, tag, size)).collect()
    }
    fn start_receives(&self, size: u32, tag: u32) -> Result<Vec<Request>, ProgramError> {
        (0..self.window).map(|_| self.rank.irecv(Some(self.peer), Some(tag), size)).collect()
    }
}

// Tags and sizes of the tools (basis: OMB).
const PING: u32 = 1;
const WINDOW: u32 = 100;
const ACKNOWLEDGEMENT: u32 = 101;
const ACKNOWLEDGEMENT_BYTES: u32 = 4;
const THERE: u32 = 100;
const BACK: u32 = 10;
