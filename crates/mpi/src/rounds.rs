//! Collective operations: a rank carries out the rounds of an algorithm, at once or beside other work.
//!
//! Modelled: receives before sends, one wait per round, copies of blocks with a cost per block, per byte and per message that is
//! made of several; a reduction goes through
//! three streams of memory (two operands, one result) where a copy goes through two, and takes as much longer; a non-blocking operation goes
//! on only while the rank is inside the library ([`Rank::test`], [`Rank::complete`]).
//! Not modelled: reductions on GPUs through host memory, as libraries do short ones, communicators other than all ranks, derived data types of the program's own, threads of progress.

use fabriscope_catalog::{Mpi, Sourced};
use fabriscope_collectives::{Amount, Message, Move, Outline, Outlines, Round};
use fabriscope_node::{Awaited, ProgramError};
use fabriscope_units::{Bytes, Span};

use super::buffer::Buffer;
use super::in_network::NetworkOperation;
use super::rank::Rank;
use super::request::{Carried, Request};

/// A collective operation that has begun.
#[must_use = "an operation that nobody completes never ends"]
pub struct UnderWay {
    rounds: Outlines,
    posted: Option<Posted>,
    packing: Packing,
    /// Where the data is.
    buffer: Buffer,
    /// What it is called, for who asks why it does not end.
    called: Option<&'static str>,
}

impl UnderWay {
    /// The same under a name.
    pub(crate) fn called(self, name: &'static str) -> UnderWay {
        UnderWay { called: Some(name), ..self }
    }
}

/// A round whose messages are posted.
struct Posted {
    requests: Vec<Request>,
    /// What it asks of the network.
    asked: Option<NetworkOperation>,
    /// What it reads in slots of the node's memory.
    slots: Vec<Message>,
    /// What it moves when all that is over.
    after: Amount,
    /// The same where some of it happens in the slots.
    moves: Vec<Move>,
}

/// What it costs to collect blocks for a message, and to spread them, beside their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packing {
    /// Core time of each block that is moved.
    pub block: Span,
    /// Core time of telling the library which blocks a message is made of: a data type that is made, committed and freed.
    pub layout: Span,
}

impl From<&Mpi> for Packing {
    fn from(mpi: &Mpi) -> Packing {
        let span = |span: &Option<Sourced<Span>>| span.as_ref().map_or(Span::ZERO, |span| **span);
        Packing { block: span(&mpi.block_overhead), layout: span(&mpi.layout_overhead) }
    }
}

impl Rank {
    /// Carries out `rounds`; blocks that are moved cost `packing` beside their bytes.
    ///
    /// # Errors
    /// As [`isend`](Self::isend) and [`wait`](Self::wait); a round that needs a message of 4 GiB or more.
    pub async fn carry_out(&self, rounds: Outlines, packing: Packing) -> Result<(), ProgramError> {
        let under_way = self.begin(rounds, packing, Buffer::Host)?;
        self.complete(under_way).await
    }

    /// Begins to, on data in `buffer`: the first round is posted.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out); as [`isend_from`](Self::isend_from).
    pub fn begin(&self, rounds: Outlines, packing: Packing, buffer: Buffer) -> Result<UnderWay, ProgramError> {
        let mut under_way = UnderWay { rounds, posted: None, packing, buffer, called: None };
        self.post_next(&mut under_way)?;
        Ok(under_way)
    }

    /// `MPI_Test`: one turn of progress, without waiting; says whether the operation is over.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out).
    pub async fn test(&self, under_way: &mut UnderWay) -> Result<bool, ProgramError> {
        self.turn_until(self.now()).await?;
        while let Some(Posted { requests, asked, slots, .. }) = &under_way.posted {
            if !requests.iter().all(|request| self.is_done(request)) || !self.sees_slots(slots) {
                return Ok(false);
            }
            if asked.is_some_and(|asked| !self.is_answered(asked)) {
                return Ok(false);
            }
            self.end_round(under_way).await?;
        }
        Ok(true)
    }

    /// `MPI_Test` of an operation that others carry out: one turn of progress, without waiting.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn look(&self) -> Result<(), ProgramError> {
        self.turn_until(self.now()).await
    }

    /// `MPI_Wait`: carries out the rest.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out).
    pub async fn complete(&self, mut under_way: UnderWay) -> Result<(), ProgramError> {
        while under_way.posted.is_some() {
            self.end_round(&mut under_way).await?;
        }
        if under_way.called.is_some() {
            self.process.awaits(Awaited::Unsaid);
        }
        Ok(())
    }

    /// Waits for the messages of the round that is posted, does its moves and posts the next.
    async fn end_round(&self, under_way: &mut UnderWay) -> Result<(), ProgramError> {
        if let Some(Posted { requests, asked, slots, after, mut moves }) = under_way.posted.take() {
            let arrival = |of: u32| {
                if let Some(at) = under_way.called {
                    self.process.awaits(Awaited::Arrival { at, of });
                }
            };
            self.state.borrow_mut().waits_for.begin(&requests);
            for request in requests {
                if let Carried::Own(id) = request.0 {
                    arrival(self.state.borrow_mut().requests.at(id).peer);
                }
                self.wait_one_of_set(request).await?;
            }
            self.state.borrow_mut().waits_for.end();
            if let Some(asked) = asked {
                self.wait_for_network(asked).await?;
            }
            slots.first().into_iter().for_each(|message| arrival(message.peer));
            self.read_slots(&slots, &mut moves).await?;
            let after = if slots.is_empty() { after } else { Amount::of(&moves) };
            self.go_through(after, under_way.packing, under_way.buffer)?;
        }
        self.post_next(under_way)
    }

    /// Posts the next round; rounds without messages are over at once.
    fn post_next(&self, under_way: &mut UnderWay) -> Result<(), ProgramError> {
        let length = |bytes: Bytes| {
            u32::try_from(bytes.0).map_err(|_| ProgramError(format!("a collective needs a message of {bytes}; use smaller blocks")))
        };
        let (buffer, packing) = (under_way.buffer, under_way.packing);
        for Outline { round, before, after } in under_way.rounds.by_ref() {
            let Round { mut receives, mut sends, joint, after: moves, .. } = round;
            self.go_through(before, packing, buffer)?;
            if before.moves > 1 && !sends.is_empty() {
                self.compute(packing.layout);
            }
            let slots: Vec<Message> = receives.extract_if(.., |message| message.slot).collect();
            let written: Vec<Message> = sends.extract_if(.., |message| message.slot).collect();
            if buffer != Buffer::Host && !(slots.is_empty() && written.is_empty()) {
                return Err(ProgramError(
                    "slots of shared memory hold data of the host; take another algorithm for that of GPUs".to_owned(),
                ));
            }
            let mut requests = Vec::with_capacity(receives.len() + sends.len());
            for message in &receives {
                requests.push(self.irecv_into(buffer, Some(message.peer), Some(TAG), length(message.piece.bytes)?)?);
            }
            // An exchange is a receive that is posted and a send that is waited for, in libraries to which that is another send
            // (ompi_coll_base_sendrecv).
            let waits = sends.len() == 1 && receives.len() == 1 && self.world.0.protocol.tells_waiting();
            for message in &sends {
                let send = (message.peer, TAG, length(message.piece.bytes)?);
                requests.push(self.isend_saying(buffer, send, None, waits)?);
            }
            let asked = joint.map(|joint| self.ask_network(&joint)).transpose()?;
            self.write_slots(&written)?;
            if asked.is_some() || !requests.is_empty() || !slots.is_empty() {
                under_way.posted = Some(Posted { requests, asked, slots, after, moves });
                return Ok(());
            }
            self.go_through(after, packing, buffer)?;
        }
        Ok(())
    }

    /// Copies and reductions of a round: by the core in host memory; in that of a GPU a copy within it, and a kernel that reads two operands
    /// and writes one.
    pub(crate) fn go_through(&self, amount: Amount, packing: Packing, buffer: Buffer) -> Result<(), ProgramError> {
        self.compute(packing.block * amount.moves);
        let reduced = reduction_streams(amount.reduced);
        if buffer == Buffer::Host {
            self.copy(amount.copied + reduced);
            return Ok(());
        }
        let memory = self.state.borrow().home.memory(buffer)?;
        if amount.copied > Bytes::ZERO {
            self.process.memcpy_at_once(memory, memory, amount.copied)?;
        }
        if reduced > Bytes::ZERO {
            self.process.kernel_at_once(memory, reduced)?;
        }
        Ok(())
    }
}

/// What a reduction of `reduced` bytes moves, as bytes of a copy: three streams in place of two.
#[must_use]
pub fn reduction_streams(reduced: Bytes) -> Bytes {
    Bytes(reduced.0 * 3 / 2)
}

/// The tag of every message of a collective: messages between two ranks keep their order. Basis: assumed.
const TAG: u32 = 1 << 24;
