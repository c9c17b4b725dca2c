//! One broadcast at one rank: what it sends, receives and passes on, in one loop that waits for any of it.

use std::cell::RefMut;
use std::collections::BTreeMap;

use fabriscope_node::{CopyId, Process, ProgramError};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{WatchId, Wc, WcStatus};

use super::arrivals::Landing;
use super::broadcast_state::BroadcastState;
use super::open::{Multicast, Role, Stream};
use super::receiver::Incoming;
use super::relay::Passing;
use super::sender::{Outgoing, SENT};
use crate::Rank;
use crate::buffer::Buffer;

/// What a copy by a GPU is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyOf {
    /// The next chunk is in the pinned buffer.
    Staged,
    /// A rank of the node has a chunk.
    Passed { child: u32, chunk: u32 },
}

/// What is the same for all of it.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
    pub multicast: &'a Multicast,
    pub rank: &'a Rank,
    pub process: &'a Process,
    pub source: u32,
    pub buffer: Buffer,
    pub size: u32,
    pub packets: u32,
    pub chunks: u32,
    /// Numbers of the first packet, the first chunk and of the broadcast.
    pub first: (u64, u64, u64),
}

impl Course<'_> {
    /// Bytes of `count` packets from `packet` on.
    pub fn bytes(&self, packet: u32, count: u32) -> Bytes {
        let payload = u64::from(self.multicast.settings.payload);
        let end = (u64::from(packet + count) * payload).min(self.size.into());
        Bytes(end.saturating_sub(u64::from(packet) * payload))
    }
    /// The packets of a chunk: the first, and how many.
    pub fn packets_of(&self, chunk: u32) -> (u32, u32) {
        let first = chunk * self.multicast.settings.chunk;
        (first, self.multicast.settings.chunk.min(self.packets - first))
    }
    /// What the memory of the source says.
    pub fn books<R>(&self, look: impl FnOnce(&mut super::broadcast_state::Books) -> R) -> R {
        look(self.multicast.board.sources.lock().entry(self.source).or_default())
    }
    /// What rank `rank` of this node says.
    pub fn seat(&self, rank: u32) -> RefMut<'_, BroadcastState> {
        self.multicast.seats.of(self.source, rank)
    }
    /// Where the source's data stays until everybody has it, if that is not its pinned buffer: headers say so.
    pub fn stays(&self) -> Option<Buffer> {
        self.books(|books| books.stays.iter().rev().find(|(message, _)| *message == self.first.2).and_then(|(_, stays)| *stays))
    }
    pub fn outcome(&self, change: impl FnOnce(&mut super::Outcome)) {
        change(&mut self.multicast.board.outcome.lock());
    }
    /// Another core of the node can see from now on what this one has written.
    pub fn tell(&self, rank: u32) {
        self.process.tell(rank, self.process.now());
    }
    /// Takes the lines that other cores wrote; those that may be of the library's messages stay known to it.
    fn look_around(&self) {
        let state = &mut *self.rank.state.borrow_mut();
        let known = self.process.take_notes().into_iter().filter(|rank| state.connections.contains_key(rank));
        state.news.extend(known);
    }
}

impl Multicast {
    /// `MPI_Bcast` of `size` bytes from rank `source`, whose data is in `buffer`; at the others `buffer` is where it goes.
    ///
    /// # Errors
    /// A source that was not opened; an adapter that does not reach the buffer; a queue pair in error.
    pub async fn broadcast(&self, rank: &Rank, source: u32, buffer: Buffer, size: u32) -> Result<(), ProgramError> {
        let stream = self.streams.borrow_mut().remove(&source);
        let mut stream = stream.ok_or_else(|| ProgramError(format!("rank {source} was not opened as a source of multicasts")))?;
        let ended = self.run(rank, source, &mut stream, (buffer, size)).await;
        self.streams.borrow_mut().insert(source, stream);
        ended
    }

    async fn run(&self, rank: &Rank, source: u32, stream: &mut Stream, (buffer, size): (Buffer, u32)) -> Result<(), ProgramError> {
        let process = &rank.process;
        let packets = self.settings.packets(size);
        let chunks = packets.div_ceil(self.settings.chunk);
        let course = Course {
            multicast: self,
            rank,
            process,
            source,
            buffer,
            size,
            packets,
            chunks,
            first: (stream.packets, stream.chunks, stream.messages),
        };
        (stream.messages, stream.packets, stream.chunks) =
            (stream.messages + 1, stream.packets + u64::from(packets), stream.chunks + u64::from(chunks));
        let (parent, children) = stream.neighbours(self.settings.within, chunks);
        course.enter(stream, parent)?;
        let mut turns = Turns {
            sends: match &stream.end {
                Role::Source(sending) => Some(Outgoing::begin(&course, sending)?),
                _ => None,
            },
            receives: match &stream.end {
                Role::Leader(receiving) => Some(Incoming::begin(&course, receiving)?),
                _ => None,
            },
            passing: Passing::new(parent, &children, matches!(stream.end, Role::Source(_)).then_some(chunks)),
            copies: BTreeMap::new(),
        };
        turns.go(&course).await?;
        course.leave(turns.receives.map(|receives| receives.landing))
    }
}

impl Course<'_> {
    /// The rank is ready for the broadcast: it looks where the buffer is, registers it, and tells who passes on to it.
    fn enter(&self, stream: &Stream, parent: Option<u32>) -> Result<(), ProgramError> {
        let memory = {
            let mut state = self.rank.state.borrow_mut();
            state.look_at_pointer(self.process);
            if !matches!(stream.end, Role::Member) {
                self.multicast.user(self.buffer)?;
                state.register(self.process, self.buffer, self.size);
            }
            state.home.memory(self.buffer)?
        };
        let now = self.process.now();
        *self.seat(self.process.rank()) = BroadcastState {
            entered: (self.first.2 + 1, now),
            given: Vec::new(),
            landing: matches!(stream.end, Role::Member).then(|| Landing::new(self.packets, self.multicast.settings.chunk)),
            memory: Some(memory),
        };
        if let Some(parent) = parent {
            self.tell(parent);
        }
        Ok(())
    }

    /// The broadcast is over here: what lies at another place than its own is counted.
    fn leave(&self, own: Option<Landing>) -> Result<(), ProgramError> {
        let landing = own.or_else(|| self.seat(self.process.rank()).landing.take());
        let (wrong, repeated) = landing.map_or((0, 0), |landing| (landing.wrong(), landing.repeated));
        self.outcome(|outcome| {
            outcome.messages += 1;
            outcome.wrong += wrong;
            outcome.repeated += repeated;
        });
        match wrong {
            0 => Ok(()),
            _ => Err(ProgramError(format!("rank {} ends a broadcast with {wrong} packets of wrong data", self.process.rank()))),
        }
    }
}

/// What a rank does at once.
struct Turns<'a> {
    sends: Option<Outgoing<'a>>,
    receives: Option<Incoming<'a>>,
    passing: Passing,
    copies: BTreeMap<CopyId, CopyOf>,
}

impl Turns<'_> {
    async fn go(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        let (process, queue) = (course.process, (course.multicast.nic, course.multicast.cq));
        loop {
            course.look_around();
            if let Some(sends) = &mut self.sends {
                sends.advance(course, &mut self.copies)?;
            }
            if let Some(receives) = &mut self.receives {
                receives.advance(course, &mut self.passing).await?;
            }
            let goes_on = self.passing.advance(course, &mut self.copies)?;
            if self.is_over() {
                return Ok(());
            }
            let watches: Vec<(usize, WatchId, u64)> = {
                let sends = self.sends.iter().flat_map(|sends| sends.awaited(course));
                sends.chain(self.receives.iter().filter_map(|receives| receives.awaited(course))).collect()
            };
            let deadline = self.receives.as_ref().map_or(Time::MAX, |receives| receives.deadline(course));
            let until = if goes_on { process.now() } else { deadline };
            if !process.wait_any_until(&[queue], &watches, until).await
                && let Some(receives) = self.receives.as_mut().filter(|_| process.now() >= deadline)
            {
                receives.ask(course)?;
            }
            if process.earliest(&[queue], &[]).is_some_and(|visible| visible <= process.now()) {
                for wc in process.poll_cq(queue.0, queue.1, BATCH).await {
                    self.handle(course, &wc)?;
                }
            }
            if !self.copies.is_empty() {
                for id in process.take_copies().await {
                    match self.copies.remove(&id) {
                        Some(CopyOf::Staged) => self.sends.iter_mut().for_each(Outgoing::staged),
                        Some(CopyOf::Passed { child, chunk }) => self.passing.passed(course, child, chunk),
                        None => {}
                    }
                }
            }
        }
    }

    fn handle(&mut self, course: &Course<'_>, wc: &Wc) -> Result<(), ProgramError> {
        if wc.status != WcStatus::Success {
            let (text, name) = (wc.status.text(), wc.status.name());
            return Err(ProgramError(format!("rank {}: a broadcast got a completion with error: {text} ({name})", course.process.rank())));
        }
        match (&mut self.sends, &mut self.receives) {
            (Some(sends), _) if wc.wr_id >= SENT => sends.handle(course, wc),
            (_, Some(receives)) => receives.handle(course, wc)?,
            // Of an earlier broadcast.
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.sends.as_ref().is_none_or(Outgoing::is_over) && self.receives.as_ref().is_none_or(Incoming::is_over) && self.passing.is_over()
    }
}

/// Completions taken at a time. Basis: assumed.
const BATCH: usize = 16;
