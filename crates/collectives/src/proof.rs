//! Carries out an algorithm on symbols instead of data, and says whether every rank ends with what it has to have.
//!
//! Each byte is the set of ranks that contributed to it. A reduction joins two sets that have no rank in common; whether lower ranks
//! always stood before higher ones is noted, since operators that do not commute need it. Sends end when they are received: an algorithm that
//! needs the network to hold messages is found out. Ranks take their rounds as soon as they can.
//!
//! Modelled: all orders that MPI promises (messages between two ranks do not overtake). Not modelled: more than 64 ranks.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use fabriscope_units::Bytes;
use fabriscope_wire::Collective;

use crate::operation::Operation;
use crate::piece::{Action, Buffer, Message, Move, Piece};
use crate::round::{Joint, Round};

/// What is known of an algorithm that does what it has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Every reduction had lower ranks before higher ones.
    pub ordered: bool,
    /// The most rounds of a rank that had messages.
    pub rounds: u32,
    /// Messages of all ranks.
    pub messages: u64,
    /// The most bytes that a rank sent.
    pub most_sent: Bytes,
    /// The most bytes that a rank reduced.
    pub most_reduced: Bytes,
}

/// Why an algorithm is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum Flaw {
    /// Ranks wait for each other without end.
    #[error("nobody can go on: {}", waits(.0))]
    #[diagnostic(help("make each send meet a receive in the same order"))]
    Stuck(Vec<Waiting>),
    /// A message is longer or shorter than what was posted for it.
    #[error("rank {from} sends {sent} to rank {to}, which expects {expected}")]
    #[diagnostic(help("give both the same piece"))]
    Length {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// What comes.
        sent: Bytes,
        /// What was posted.
        expected: Bytes,
    },
    /// A piece is used before anything was put there.
    #[error("rank {rank} reads byte {offset} of its {buffer:?} buffer, where nothing was put")]
    #[diagnostic(help("receive or copy it first"))]
    Undefined {
        /// Where.
        rank: u32,
        /// Of which buffer.
        buffer: Buffer,
        /// Which byte.
        offset: u64,
    },
    /// A contribution goes in twice, or two different bytes are added.
    #[error("rank {rank} reduces byte {offset} of its {buffer:?} buffer from {left} and {right}")]
    #[diagnostic(help("each rank's byte counts once"))]
    Twice {
        /// Where.
        rank: u32,
        /// Of which buffer.
        buffer: Buffer,
        /// Which byte.
        offset: u64,
        /// One operand.
        left: Symbol,
        /// The other.
        right: Symbol,
    },
    /// A round uses a piece for two messages, one of which is received.
    #[error("rank {rank} posts two messages over the same bytes of its {buffer:?} buffer in one round")]
    #[diagnostic(help("use another buffer or another round"))]
    Overlap {
        /// Where.
        rank: u32,
        /// Of which buffer.
        buffer: Buffer,
    },
    /// The end is not what the operation says.
    #[error("rank {rank} ends with {} at byte {offset} of its result instead of {wanted}", .found.map_or("nothing".to_owned(), |found| found.to_string()))]
    Wrong {
        /// Where.
        rank: u32,
        /// Which byte.
        offset: u64,
        /// What is there.
        found: Option<Symbol>,
        /// What should be.
        wanted: Symbol,
    },
    /// A rank leaves a barrier too early.
    #[error("rank {rank} leaves without knowing that rank {missing} has come")]
    Early {
        /// Who leaves.
        rank: u32,
        /// Who may not have come.
        missing: u32,
    },
    /// Members of a group that the network serves disagree.
    #[error("rank {rank} asks the network for something else than the others")]
    #[diagnostic(help("give all members the same operation, root and length"))]
    Disagree {
        /// Who differs.
        rank: u32,
    },
    /// A rank that is not there.
    #[error("rank {rank} talks to rank {peer}, which is itself or not there")]
    Peer {
        /// Who.
        rank: u32,
        /// To whom.
        peer: u32,
    },
    /// More ranks than symbols have room for.
    #[error("{0} ranks are more than the 64 that a proof can follow")]
    #[diagnostic(help("prove a smaller number"))]
    TooMany(u32),
}

/// A rank that cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who waits.
    pub rank: u32,
    /// In which of its rounds.
    pub round: u32,
    /// For messages of these.
    pub from: Vec<u32>,
    /// For these to receive.
    pub to: Vec<u32>,
}

fn waits(waiting: &[Waiting]) -> String {
    let one = |w: &Waiting| format!("rank {} waits in round {} to receive from {:?} and to send to {:?}", w.rank, w.round, w.from, w.to);
    waiting.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A byte: which byte of their buffers the ranks contributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    offset: u64,
    ranks: u64,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<u32> = (0..u64::BITS).filter(|rank| self.ranks >> rank & 1 == 1).collect();
        write!(f, "byte {} of ranks {ranks:?}", self.offset)
    }
}

#[derive(Debug)]
struct Sent {
    symbols: Vec<Option<Symbol>>,
    /// Ranks that the sender knew of.
    known: u64,
}

/// An operation of the network, and what its members gave so far.
struct Meeting {
    joint: Joint,
    given: BTreeMap<u32, Vec<Option<Symbol>>>,
    known: u64,
}

/// All that is between the ranks.
#[derive(Default)]
struct Between {
    mail: BTreeMap<(u32, u32), VecDeque<Sent>>,
    meetings: Vec<Meeting>,
    messages: u64,
}

/// A rank and what it has.
struct Actor<I> {
    rank: u32,
    rounds: I,
    memory: BTreeMap<Buffer, Vec<Option<Symbol>>>,
    known: u64,
    /// The round whose messages are posted, and what of it is open: receives in order, and sends.
    round: Option<(Round, VecDeque<Message>, Vec<u32>)>,
    taken: u32,
    /// Operations of the network that it asked for.
    met: usize,
    sent: Bytes,
    reduced: Bytes,
    ordered: bool,
    done: bool,
}

/// Carries out `rounds` of every rank for `operation`.
///
/// # Errors
/// The first flaw that shows.
pub fn prove<I: Iterator<Item = Round>>(operation: &Operation, ranks: u32, rounds: impl Fn(u32) -> I) -> Result<Proof, Flaw> {
    if ranks > u64::BITS {
        return Err(Flaw::TooMany(ranks));
    }
    let actor = |rank: u32| {
        let mut memory = BTreeMap::new();
        if let Some(piece) = operation.given(rank) {
            let symbol = |offset| Some(Symbol { offset, ranks: 1 << rank });
            memory.insert(piece.buffer, (0..piece.bytes.0).map(symbol).collect::<Vec<_>>());
        }
        Actor {
            rank,
            rounds: rounds(rank),
            memory,
            known: 1 << rank,
            round: None,
            taken: 0,
            met: 0,
            sent: Bytes::ZERO,
            reduced: Bytes::ZERO,
            ordered: true,
            done: false,
        }
    };
    let mut actors: Vec<Actor<I>> = (0..ranks).map(actor).collect();
    let mut between = Between::default();
    loop {
        let mut moved = false;
        for actor in &mut actors {
            moved |= actor.go_on(ranks, &mut between)?;
        }
        // A send is over when its message has been taken.
        for actor in &mut actors {
            let rank = actor.rank;
            if let Some((_, _, to)) = &mut actor.round {
                to.retain(|peer| between.mail.get(&(rank, *peer)).is_some_and(|waiting| !waiting.is_empty()));
            }
        }
        if actors.iter().all(|actor| actor.done) {
            break;
        }
        if !moved {
            return Err(Flaw::Stuck(actors.iter().filter_map(Actor::waiting).collect()));
        }
    }
    for actor in &actors {
        actor.judge(operation, ranks)?;
    }
    Ok(Proof {
        ordered: actors.iter().all(|actor| actor.ordered),
        rounds: actors.iter().map(|actor| actor.taken).max().unwrap_or(0),
        messages: between.messages,
        most_sent: actors.iter().map(|actor| actor.sent).max().unwrap_or_default(),
        most_reduced: actors.iter().map(|actor| actor.reduced).max().unwrap_or_default(),
    })
}

impl<I: Iterator<Item = Round>> Actor<I> {
    /// As far as this rank can go; whether it went anywhere.
    fn go_on(&mut self, ranks: u32, between: &mut Between) -> Result<bool, Flaw> {
        let mut moved = false;
        while !self.done {
            let Some((round, mut from, to)) = self.round.take() else {
                let Some(round) = self.rounds.next() else {
                    self.done = true;
                    return Ok(true);
                };
                self.post(ranks, round, between)?;
                moved = true;
                continue;
            };
            // Receives complete in any order; those from one rank in the order of posting.
            let mut open = VecDeque::new();
            while let Some(message) = from.pop_front() {
                let waits_behind = open.iter().any(|other: &Message| other.peer == message.peer);
                match between.mail.get_mut(&(message.peer, self.rank)).filter(|_| !waits_behind).and_then(VecDeque::pop_front) {
                    Some(sent) => {
                        self.take(message, sent)?;
                        moved = true;
                    }
                    None => open.push_back(message),
                }
            }
            let meeting = round.joint.map(|_| &between.meetings[self.met - 1]);
            let missing = meeting.is_some_and(|meeting| (meeting.given.len() as u32) < meeting.joint.members);
            if !open.is_empty() || !to.is_empty() || missing {
                self.round = Some((round, open, to));
                return Ok(moved);
            }
            if let (Some(meeting), Some(joint)) = (meeting, round.joint) {
                self.known |= meeting.known;
                self.take_joint(meeting, joint)?;
            }
            self.carry_out(&round.after)?;
            moved = true;
        }
        Ok(moved)
    }

    fn post(&mut self, ranks: u32, round: Round, between: &mut Between) -> Result<(), Flaw> {
        if let Some(peer) = round.peers().find(|peer| *peer == self.rank || *peer >= ranks) {
            return Err(Flaw::Peer { rank: self.rank, peer });
        }
        self.carry_out(&round.before)?;
        self.taken += u32::from(round.peers().next().is_some());
        let overlap = |a: &Message, b: &Message| a.piece.overlaps(&b.piece);
        for (at, receive) in round.receives.iter().enumerate() {
            if round.sends.iter().chain(&round.receives[at + 1..]).any(|other| overlap(receive, other)) {
                return Err(Flaw::Overlap { rank: self.rank, buffer: receive.piece.buffer });
            }
        }
        for send in &round.sends {
            let symbols = self.read(send.piece)?;
            self.sent += send.piece.bytes;
            between.messages += 1;
            between.mail.entry((self.rank, send.peer)).or_default().push_back(Sent { symbols, known: self.known });
        }
        if let Some(joint) = round.joint {
            self.ask(joint, &mut between.meetings)?;
        }
        let to = round.sends.iter().map(|message| message.peer).collect();
        let from = round.receives.iter().copied().collect();
        self.round = Some((round, from, to));
        Ok(())
    }

    /// Asks the network for the next operation.
    fn ask(&mut self, joint: Joint, meetings: &mut Vec<Meeting>) -> Result<(), Flaw> {
        let gives = match joint.collective {
            Collective::Barrier => false,
            Collective::Bcast => joint.member == joint.root,
            Collective::Reduce | Collective::Allreduce => true,
        };
        let given = if gives { self.read(joint.from)? } else { Vec::new() };
        if self.met == meetings.len() {
            meetings.push(Meeting { joint, given: BTreeMap::new(), known: 0 });
        }
        let meeting = &mut meetings[self.met];
        let same = |joint: &Joint| (joint.collective, joint.members, joint.root, joint.to.bytes);
        if same(&meeting.joint) != same(&joint) || joint.member >= joint.members || meeting.given.insert(joint.member, given).is_some() {
            return Err(Flaw::Disagree { rank: self.rank });
        }
        meeting.known |= self.known;
        self.met += 1;
        Ok(())
    }

    /// Takes the result of an operation of the network.
    fn take_joint(&mut self, meeting: &Meeting, joint: Joint) -> Result<(), Flaw> {
        let gets = match joint.collective {
            Collective::Barrier => false,
            Collective::Reduce => joint.member == joint.root,
            Collective::Bcast | Collective::Allreduce => true,
        };
        if !gets {
            return Ok(());
        }
        let mut given = meeting.given.values().filter(|given| !given.is_empty());
        let mut all = given.next().cloned().unwrap_or_default();
        for other in given {
            // Switches take operands in the order of their ports.
            self.ordered = false;
            for (index, (left, right)) in all.iter_mut().zip(other).enumerate() {
                let (Some(one), Some(two)) = (*left, *right) else { continue };
                if one.offset != two.offset || one.ranks & two.ranks != 0 {
                    let offset = joint.to.offset.0 + index as u64;
                    return Err(Flaw::Twice { rank: self.rank, buffer: joint.to.buffer, offset, left: one, right: two });
                }
                *left = Some(Symbol { offset: one.offset, ranks: one.ranks | two.ranks });
            }
        }
        self.write(joint.to, all);
        Ok(())
    }

    fn take(&mut self, message: Message, sent: Sent) -> Result<(), Flaw> {
        if sent.symbols.len() as u64 != message.piece.bytes.0 {
            let sent = Bytes(sent.symbols.len() as u64);
            return Err(Flaw::Length { from: message.peer, to: self.rank, sent, expected: message.piece.bytes });
        }
        self.known |= sent.known;
        self.write(message.piece, sent.symbols);
        Ok(())
    }

    fn carry_out(&mut self, moves: &[Move]) -> Result<(), Flaw> {
        for this in moves {
            let from = self.read(this.from)?;
            if this.action == Action::Copy {
                self.write(this.to, from);
                continue;
            }
            let to = self.read(this.to)?;
            self.reduced += this.to.bytes;
            let mut joined = Vec::with_capacity(to.len());
            for (index, (from, to)) in from.into_iter().zip(to).enumerate() {
                let (Some(from), Some(to)) = (from, to) else { continue };
                let (left, right) = if this.action == Action::ReduceBefore { (from, to) } else { (to, from) };
                if left.offset != right.offset || left.ranks & right.ranks != 0 {
                    let offset = this.to.offset.0 + index as u64;
                    return Err(Flaw::Twice { rank: self.rank, buffer: this.to.buffer, offset, left, right });
                }
                self.ordered &= left.ranks.leading_zeros() > u64::BITS - 1 - right.ranks.trailing_zeros();
                joined.push(Some(Symbol { offset: left.offset, ranks: left.ranks | right.ranks }));
            }
            self.write(this.to, joined);
        }
        Ok(())
    }

    /// What is in a piece, all of which has to be there.
    fn read(&self, piece: Piece) -> Result<Vec<Option<Symbol>>, Flaw> {
        let range = piece.offset.0..piece.end();
        let memory = self.memory.get(&piece.buffer).map_or(&[][..], Vec::as_slice);
        let byte = |at: u64| memory.get(at as usize).copied().flatten();
        match range.clone().find(|at| byte(*at).is_none()) {
            Some(offset) => Err(Flaw::Undefined { rank: self.rank, buffer: piece.buffer, offset }),
            None => Ok(range.map(byte).collect()),
        }
    }

    fn write(&mut self, piece: Piece, symbols: Vec<Option<Symbol>>) {
        let memory = self.memory.entry(piece.buffer).or_default();
        let end = piece.end() as usize;
        memory.resize(memory.len().max(end), None);
        memory[piece.offset.0 as usize..end].copy_from_slice(&symbols);
    }

    fn waiting(&self) -> Option<Waiting> {
        let (_, from, to) = self.round.as_ref()?;
        Some(Waiting { rank: self.rank, round: self.taken, from: from.iter().map(|message| message.peer).collect(), to: to.clone() })
    }

    /// Whether the rank has what it should.
    fn judge(&self, operation: &Operation, ranks: u32) -> Result<(), Flaw> {
        if *operation == Operation::Barrier {
            let missing = (0..ranks).find(|rank| self.known >> rank & 1 == 0);
            return missing.map_or(Ok(()), |missing| Err(Flaw::Early { rank: self.rank, missing }));
        }
        let memory = self.memory.get(&Buffer::Recv).map_or(&[][..], Vec::as_slice);
        for wanted in operation.wanted(self.rank, ranks) {
            let set = wanted.ranks.fold(0, |set, rank| set | 1 << rank);
            for index in 0..wanted.piece.bytes.0 {
                let offset = wanted.piece.offset.0 + index;
                let symbol = Symbol { offset: wanted.offset.0 + index, ranks: set };
                let found = memory.get(offset as usize).copied().flatten();
                if found != Some(symbol) {
                    return Err(Flaw::Wrong { rank: self.rank, offset, found, wanted: symbol });
                }
            }
        }
        Ok(())
    }
}
