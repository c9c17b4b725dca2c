//! Traces of messages under plain LogGP, without a cluster: what LogGOPSim says of them.
//!
//! Source: Alexandrov, Ionescu, Schauser, Scheiman, "LogGP" (SPAA 1995); Hoefler, Schneider, Lumsdaine, "LogGOPSim" (LSAP 2010), and its
//! program for what the paper leaves open; `S` is the longest message that a sender does not wait for.
//!
//! ```text
//!  send of s bytes at t:     core busy until t + o            adapter until t + g + (s − 1) G        first byte there at t + o + L
//!  its arrival at t':        core busy until t' + o + (s − 1) G   adapter until t' + g + (s − 1) G   the receive has ended when the core is free
//! ```
//!
//! Modelled: records of one lane (`cpu` of GOAL) one at a time; sends and arrivals each with their own gap; messages that come before their
//! receive take core and adapter all the same, and the receive ends when it is posted; longer messages than `S` end their send when the receive
//! takes them, and without a way back. What is free at the same time starts in the order in which it became so.
//! Not modelled: `O`, the core's time for a byte; noise; several adapters; collectives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fabriscope_units::{Bytes, Span, Time};

use crate::{After, Kind, Message, Trace};

/// The parameters of LogGP, and the limit of eager messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGp {
    /// `L`: from the end of the sender's overhead until the first byte is there.
    pub latency: Span,
    /// `o`: core time of a send, and of an arrival.
    pub overhead: Span,
    /// `g`: from message to message of an adapter.
    pub gap: Span,
    /// `G`: for each byte behind the first.
    pub per_byte: Span,
    /// `S`: senders wait for the receivers of longer messages; all are eager without it.
    pub eager: Option<Bytes>,
}

/// When ranks are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGpTimes {
    /// Each rank, in order.
    pub ranks: Vec<Time>,
    /// Messages that arrived.
    pub messages: u64,
}

impl LogGpTimes {
    /// When the last one is done.
    #[must_use]
    pub fn end(&self) -> Time {
        self.ranks.iter().copied().max().unwrap_or_default()
    }
}

/// Why a trace has no time under LogGP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum LogGpError {
    /// An operation that is no message.
    #[error("rank {rank}, record {id}: {operation} is no message")]
    #[diagnostic(help("LogGP knows sends and receives: give GOAL, or run the trace on a cluster with --on"))]
    Collective {
        /// The rank.
        rank: u32,
        /// The record.
        id: u64,
        /// What it is.
        operation: &'static str,
    },
    /// Ranks without records.
    #[error("{missing} of {world} ranks have no records")]
    #[diagnostic(help("give the files of all ranks, or extend the trace of one rank to all: --ranks N"))]
    Missing {
        /// How many.
        missing: u32,
        /// All ranks.
        world: u32,
    },
    /// A message to nobody.
    #[error("rank {rank}, record {id} sends to rank {peer}, and there are ranks 0 to {last}")]
    #[diagnostic(help("look at the trace: fabriscope trace FILE"))]
    Peer {
        /// The rank.
        rank: u32,
        /// The record.
        id: u64,
        /// To whom.
        peer: u32,
        /// The last rank.
        last: u32,
    },
    /// Something waits for ever.
    #[error("rank {rank}, record {id} (`{name}`) never ends, as {open} records in all do not")]
    #[diagnostic(help("look whether ranks agree: fabriscope trace FILE"))]
    Stuck {
        /// The rank.
        rank: u32,
        /// Its first record that does not end.
        id: u64,
        /// What it is called.
        name: String,
        /// Records that do not end.
        open: u64,
    },
}

/// When the ranks of a trace are done under LogGP.
///
/// # Errors
/// Collectives, ranks that are missing, messages that nobody takes or sends.
pub fn loggp(trace: &Trace, parameters: &LogGp) -> Result<LogGpTimes, LogGpError> {
    if trace.missing() > 0 {
        return Err(LogGpError::Missing { missing: trace.missing(), world: trace.world });
    }
    let mut run = Run::of(trace, *parameters)?;
    run.begin();
    while let Some(Reverse((at, _, event))) = run.agenda.pop() {
        run.event(at, event);
    }
    run.result()
}

/// A record by rank and place there.
type At = (usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A record may start.
    Start(At),
    /// A message is there that this record sent.
    Arrival(At),
}

/// A record in progress.
#[derive(Debug, Clone, Default)]
struct Open {
    /// What it still waits for.
    unmet: u32,
    /// When the last of that had ended.
    ready: Time,
    /// Who waits for its start, and who for its end.
    starts: Vec<usize>,
    ends: Vec<usize>,
    done: bool,
}

/// A rank: when cores and the two directions of its adapter are free, receives and messages that wait.
#[derive(Debug, Clone, Default)]
struct Rank {
    cores: BTreeMap<u32, Time>,
    sends: Time,
    arrivals: Time,
    receives: Vec<usize>,
    messages: Vec<At>,
    end: Time,
}

struct Run<'a> {
    trace: &'a Trace,
    by: LogGp,
    records: Vec<Vec<Open>>,
    ranks: Vec<Rank>,
    agenda: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    arrived: u64,
}

impl<'a> Run<'a> {
    fn of(trace: &'a Trace, by: LogGp) -> Result<Run<'a>, LogGpError> {
        let mut records = Vec::with_capacity(trace.ranks.len());
        for of in &trace.ranks {
            let places: BTreeMap<_, usize> = of.records.iter().enumerate().map(|(place, record)| (record.id, place)).collect();
            let mut open = vec![Open::default(); of.records.len()];
            for (place, record) in of.records.iter().enumerate() {
                match &record.kind {
                    Kind::Collective(collective) => {
                        let operation = collective.operation.name();
                        return Err(LogGpError::Collective { rank: of.rank, id: record.id.0, operation });
                    }
                    Kind::Send(Message { peer: Some(peer), .. }) if *peer >= trace.world => {
                        return Err(LogGpError::Peer { rank: of.rank, id: record.id.0, peer: *peer, last: trace.world.saturating_sub(1) });
                    }
                    _ => {}
                }
                for after in &record.after {
                    let Some(before) = places.get(&after.record()) else { continue };
                    open[place].unmet += 1;
                    match after {
                        After::End(_) => open[*before].ends.push(place),
                        After::Start(_) => open[*before].starts.push(place),
                    }
                }
            }
            records.push(open);
        }
        let ranks = vec![Rank::default(); trace.ranks.len()];
        Ok(Run { trace, by, records, ranks, agenda: BinaryHeap::new(), order: 0, arrived: 0 })
    }

    fn begin(&mut self) {
        for rank in 0..self.records.len() {
            for place in 0..self.records[rank].len() {
                if self.records[rank][place].unmet == 0 {
                    self.plan(Time::ZERO, Event::Start((rank, place)));
                }
            }
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.agenda.push(Reverse((at, self.order, event)));
        self.order += 1;
    }

    fn event(&mut self, at: Time, event: Event) {
        match event {
            Event::Start(record) => self.start(at, record),
            Event::Arrival(sent) => self.arrival(at, sent),
        }
    }

    fn start(&mut self, at: Time, (rank, place): At) {
        let record = &self.trace.ranks[rank].records[place];
        let (o, g) = (self.by.overhead, self.by.gap);
        let core = self.core(rank, record.lane);
        match &record.kind {
            Kind::Collective(_) => {}
            Kind::Wait => {
                self.started(at, (rank, place));
                self.done(at, (rank, place));
            }
            Kind::Compute => {
                let span = record.gap + record.duration.unwrap_or(Span::ZERO);
                if core > at {
                    return self.plan(core, Event::Start((rank, place)));
                }
                self.ranks[rank].cores.insert(record.lane, at + span);
                self.started(at, (rank, place));
                self.done(at + span, (rank, place));
            }
            Kind::Send(message) => {
                let free = core.max(self.ranks[rank].sends);
                if free > at {
                    return self.plan(free, Event::Start((rank, place)));
                }
                let own = &mut self.ranks[rank];
                own.cores.insert(record.lane, at + o);
                own.sends = at + g + self.by.bytes(message.bytes);
                self.started(at, (rank, place));
                self.plan(at + o + self.by.latency, Event::Arrival((rank, place)));
                if self.by.is_eager(message.bytes) {
                    self.done(at + o, (rank, place));
                }
            }
            Kind::Recv(_) => {
                // Posting takes no time, but those who receive have come that far.
                if core > at {
                    return self.plan(core, Event::Start((rank, place)));
                }
                self.started(at, (rank, place));
                let found = self.ranks[rank].messages.iter().position(|sent| self.matches(*sent, (rank, place)));
                match found {
                    Some(number) => {
                        let sent = self.ranks[rank].messages.remove(number);
                        self.answer(at, sent);
                        self.done(at, (rank, place));
                    }
                    None => self.ranks[rank].receives.push(place),
                }
            }
        }
    }

    /// The first byte of a message is there, and takes core and adapter when both are free.
    fn arrival(&mut self, at: Time, sent: At) {
        let record = &self.trace.ranks[sent.0].records[sent.1];
        let Kind::Send(Message { peer: Some(peer), bytes, .. }) = &record.kind else { return };
        let rank = *peer as usize;
        let free = self.core(rank, record.lane).max(self.ranks[rank].arrivals);
        if free > at {
            return self.plan(free, Event::Arrival(sent));
        }
        let end = at + self.by.overhead + self.by.bytes(*bytes);
        let own = &mut self.ranks[rank];
        own.cores.insert(record.lane, end);
        own.arrivals = at + self.by.gap + self.by.bytes(*bytes);
        self.arrived += 1;
        let found = self.ranks[rank].receives.iter().position(|place| self.matches(sent, (rank, *place)));
        match found {
            Some(number) => {
                let place = self.ranks[rank].receives.remove(number);
                self.answer(at, sent);
                self.done(end, (rank, place));
            }
            None => self.ranks[rank].messages.push(sent),
        }
    }

    /// A receive takes a message: a sender that waited for that goes on.
    fn answer(&mut self, at: Time, (rank, place): At) {
        let record = &self.trace.ranks[rank].records[place];
        let Kind::Send(message) = &record.kind else { return };
        if !self.by.is_eager(message.bytes) {
            let own = &mut self.ranks[rank];
            let core = own.cores.entry(record.lane).or_default();
            *core = (*core).max(at);
            own.sends = own.sends.max(at);
            self.done(at, (rank, place));
        }
    }

    fn core(&self, rank: usize, lane: u32) -> Time {
        self.ranks[rank].cores.get(&lane).copied().unwrap_or_default()
    }

    fn matches(&self, (from, sent): At, (rank, place): At) -> bool {
        let (sent, taken) = (&self.trace.ranks[from].records[sent].kind, &self.trace.ranks[rank].records[place].kind);
        let (Kind::Send(sent), Kind::Recv(taken)) = (sent, taken) else { return false };
        let from_whom = taken.peer.is_none_or(|peer| peer as usize == from);
        from_whom && (taken.tag.is_none() || sent.tag.is_none() || taken.tag == sent.tag) && taken.group == sent.group
    }

    fn started(&mut self, at: Time, (rank, place): At) {
        let waiting = std::mem::take(&mut self.records[rank][place].starts);
        self.release(at, rank, &waiting);
    }

    fn done(&mut self, at: Time, (rank, place): At) {
        let record = &mut self.records[rank][place];
        record.done = true;
        let waiting = std::mem::take(&mut record.ends);
        let own = &mut self.ranks[rank];
        own.end = own.end.max(at);
        self.release(at, rank, &waiting);
    }

    fn release(&mut self, at: Time, rank: usize, waiting: &[usize]) {
        for place in waiting {
            let record = &mut self.records[rank][*place];
            record.unmet -= 1;
            record.ready = record.ready.max(at);
            if record.unmet == 0 {
                let ready = record.ready;
                self.plan(ready, Event::Start((rank, *place)));
            }
        }
    }

    fn result(self) -> Result<LogGpTimes, LogGpError> {
        let open = self.records.iter().flatten().filter(|record| !record.done).count() as u64;
        for (of, records) in self.trace.ranks.iter().zip(&self.records) {
            if let Some(place) = records.iter().position(|record| !record.done) {
                let record = &of.records[place];
                return Err(LogGpError::Stuck { rank: of.rank, id: record.id.0, name: record.name.clone(), open });
            }
        }
        Ok(LogGpTimes { ranks: self.ranks.iter().map(|rank| rank.end).collect(), messages: self.arrived })
    }
}

impl LogGp {
    /// (s − 1) G.
    fn bytes(&self, bytes: Bytes) -> Span {
        Span::from_ps(self.per_byte.as_ps().saturating_mul(bytes.0.saturating_sub(1)))
    }
    fn is_eager(&self, bytes: Bytes) -> bool {
        self.eager.is_none_or(|most| bytes <= most)
    }
}
