//! Runs a job of rounds: each rank's next round is made when it gets there, and only outstanding messages are in memory.
//!
//! A round posts its receives, posts its sends and waits for all of them, as `collectives::schedule` has it; no rank waits for others
//! than those it receives from and sends to. Instead of all ranks, one of each class of a [`Fold`] may run: see `fold.rs`.
//!
//! Modelled: posting, NIC and links as for schedules (`run.rs`); copies within a node. Not modelled: what a rank does with its own memory
//! before and after messages.

use std::collections::VecDeque;

use fabriscope_collectives::{Round, Rounds};
use fabriscope_engine::{EngineError, RankRounds, Stats};
use fabriscope_units::{Bytes, Span, Time};
use rustc_hash::FxHashMap;

use crate::fluid::{Event, Fluid, Kind};
use crate::fold::Fold;
use crate::latency::Latency;
use crate::network::Network;
use crate::places::{MessagePath, Places};

/// Where a message is received: by whom, and in which receive, as far as that tells it from others.
type Receive = (u32, u32, u32);

/// A rank that runs, for itself or for its class.
struct Runner {
    rank: u32,
    rounds: Option<Rounds>,
    /// The number of the round in progress.
    round: u32,
    /// Messages of the round that are not over yet, and when the last of the others was.
    waiting: u32,
    until: Time,
    core: Time,
}

/// A message from its post to its arrival.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    from: u32,
    /// The rank that gets it.
    peer: u32,
    to: Receive,
    bytes: u64,
}

/// Messages that came before their receive, and receives that wait.
#[derive(Debug, Default)]
struct Mailbox {
    waiting: u32,
    came: VecDeque<Time>,
}

/// A run of rounds in progress.
pub(crate) struct Running<'a> {
    places: &'a Places<'a>,
    program: &'a dyn RankRounds,
    fold: Option<&'a Fold>,
    latency: Latency,
    fluid: Fluid<(u32, MessagePath)>,
    runners: Vec<Runner>,
    /// When each adapter takes the next message.
    nics: Vec<Time>,
    mailboxes: FxHashMap<Receive, Mailbox>,
    messages: Vec<Message>,
    free: Vec<u32>,
    ends: Vec<Time>,
    stats: Stats,
    followed: u64,
    path: Vec<(u32, f64)>,
    /// Runners whose round has ended at this instant.
    ready: Vec<u32>,
}

/// When each rank was done, and what was counted.
pub(crate) struct Finished {
    pub ends: Vec<Time>,
    pub stats: Stats,
    /// Messages that were followed.
    pub followed: u64,
}

impl<'a> Running<'a> {
    pub fn new(places: &'a Places<'a>, program: &'a dyn RankRounds, fold: Option<&'a Fold>, latency: Latency) -> Running<'a> {
        let network = match fold {
            None => Network::new(places.links(&latency).map(|(capacity, _)| capacity), places.stride()),
            Some(fold) => Network::new(fold.capacities.iter().copied(), places.stride()),
        };
        let ranks: Vec<u32> = fold.map_or_else(|| (0..places.ranks).collect(), |fold| fold.leads.clone());
        let adapters = fold.map_or_else(|| places.nodes() as usize * places.nics(), |fold| fold.adapters as usize);
        let runner = |rank| Runner { rank, rounds: Some(program.rounds(rank)), round: 0, waiting: 0, until: Time::ZERO, core: Time::ZERO };
        Running {
            places,
            program,
            fold,
            latency,
            fluid: Fluid::new(network),
            ends: vec![Time::ZERO; ranks.len()],
            runners: ranks.into_iter().map(runner).collect(),
            nics: vec![Time::ZERO; adapters],
            mailboxes: FxHashMap::default(),
            messages: Vec::new(),
            free: Vec::new(),
            stats: Stats::default(),
            followed: 0,
            path: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Runs until nothing is left to happen.
    ///
    /// # Errors
    /// Ranks that wait for messages that never come.
    pub fn run(mut self) -> Result<Finished, EngineError> {
        self.ready = (0..self.runners.len() as u32).collect();
        self.advance(Time::ZERO);
        while let Some((now, event)) = self.fluid.queue.pop() {
            self.places.cluster.go_on(now)?;
            self.event(now, event);
            let end = now + Span::from_ps(1);
            loop {
                while let Some((_, event)) = self.fluid.queue.pop_before(end) {
                    self.event(now, event);
                }
                if self.ready.is_empty() {
                    break;
                }
                self.advance(now);
            }
            self.fluid.settle(now);
        }
        self.finished()
    }

    fn event(&mut self, now: Time, event: Event) {
        self.stats.events += 1;
        match event.kind {
            Kind::Inject => self.inject(now, event.what),
            Kind::Drain => {
                if let Some(((message, way), tail)) = self.fluid.drained(now, event) {
                    self.landed(tail, message, way);
                }
            }
            Kind::Done => self.ready.push(event.what),
        }
    }

    /// Next rounds of all whose round has ended. Ranks of one adapter post in their order, whoever was ready first at this instant.
    fn advance(&mut self, now: Time) {
        let mut ready = std::mem::take(&mut self.ready);
        if ready.len() > 1 {
            let (runners, places) = (&self.runners, self.places);
            ready.sort_unstable_by_key(|&index| (places.turn(runners[index as usize].rank), index));
        }
        for index in ready.drain(..) {
            self.next(now, index);
        }
        ready.append(&mut self.ready);
        self.ready = ready;
    }

    fn next(&mut self, now: Time, index: u32) {
        loop {
            let runner = &mut self.runners[index as usize];
            let Some(round) = runner.rounds.as_mut().and_then(Iterator::next) else {
                runner.rounds = None;
                self.ends[index as usize] = now;
                return;
            };
            runner.until = now;
            runner.waiting = (round.receives.len() + round.sends.len()) as u32;
            self.post(now, index, &round);
            let runner = &mut self.runners[index as usize];
            runner.round += 1;
            if runner.waiting > 0 {
                return;
            }
            if runner.until > now {
                let until = runner.until;
                self.fluid.queue.push(until, Event { kind: Kind::Done, rank: 0, what: index });
                return;
            }
        }
    }

    fn post(&mut self, now: Time, index: u32, round: &Round) {
        let (rank, number) = (self.runners[index as usize].rank, self.runners[index as usize].round);
        for (place, receive) in (0..).zip(&round.receives) {
            let key = match self.fold {
                None => (rank, receive.peer, 0),
                Some(_) => (index, number, place),
            };
            let mailbox = self.mailboxes.entry(key).or_default();
            match mailbox.came.pop_front() {
                Some(came) => {
                    if mailbox.came.is_empty() && mailbox.waiting == 0 {
                        self.mailboxes.remove(&key);
                    }
                    let runner = &mut self.runners[index as usize];
                    runner.until = runner.until.max(came);
                    runner.waiting -= 1;
                }
                None => mailbox.waiting += 1,
            }
        }
        for (place, send) in (0..).zip(&round.sends) {
            let to = match self.fold {
                None => (send.peer, rank, 0),
                Some(fold) => fold.receive(index, number, place, send.peer),
            };
            let message = Message { from: index, peer: send.peer, to, bytes: send.piece.bytes.0 };
            self.send(now, index, rank, message);
        }
    }

    /// The core asks for the message; the NIC takes messages one after the other.
    fn send(&mut self, now: Time, index: u32, rank: u32, message: Message) {
        let inside = self.places.node(rank) == self.places.node(message.peer);
        let posted = now.max(self.runners[index as usize].core);
        let busy = if inside { self.places.costs.call } else { self.latency.cpu.wqe_build + self.latency.cpu.mmio_busy };
        self.runners[index as usize].core = posted + busy;
        let at = if inside {
            posted + self.places.costs.call + self.places.costs.start
        } else {
            let adapter = self.fold.map_or_else(|| self.places.adapter(rank), |fold| fold.adapter[index as usize]);
            let nic = &mut self.nics[adapter as usize];
            let begin = (posted + self.latency.rung()).max(*nic);
            *nic = begin + self.latency.message_interval();
            begin + self.latency.ends(message.bytes).out + if message.bytes > 0 { self.places.read(rank) } else { Span::ZERO }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.messages.push(Message::default());
            self.messages.len() as u32 - 1
        });
        self.messages[slot as usize] = message;
        self.fluid.queue.push(at, Event { kind: Kind::Inject, rank: 0, what: slot });
    }

    fn inject(&mut self, now: Time, slot: u32) {
        let Message { from, peer, bytes, .. } = self.messages[slot as usize];
        let rank = self.runners[from as usize].rank;
        let (members, wire) = (self.fold.map_or(1, |fold| fold.members[from as usize]), self.latency.wire_bytes(bytes));
        self.stats.bytes_sent += bytes * u64::from(members);
        let mut path = std::mem::take(&mut self.path);
        let way = self.places.way(rank, peer, bytes, wire, &self.latency.switch, &mut path);
        let load = if way.inside { bytes } else { wire };
        if load == 0 || path.is_empty() {
            // To itself, or nothing to copy.
            self.landed(now, slot, way);
        } else {
            let floor = if way.inside { now } else { self.fetched(now, bytes) };
            if let Some(fold) = self.fold {
                fold.gather(members, &mut path);
            }
            self.fluid.start(now, &path, load, floor, (slot, way));
        }
        self.path = path;
    }

    /// When the last byte of a message can have left, of which the first one leaves at `now`.
    fn fetched(&mut self, now: Time, bytes: u64) -> Time {
        let ends = self.latency.ends(bytes);
        Time::from_ps((now + ends.fetched).as_ps().saturating_sub(ends.out.as_ps()))
    }

    /// The tail of a message left at `tail`.
    fn landed(&mut self, tail: Time, slot: u32, way: MessagePath) {
        let Message { from, to, bytes, .. } = self.messages[slot as usize];
        self.free.push(slot);
        let members = u64::from(self.fold.map_or(1, |fold| fold.members[from as usize]));
        self.followed += 1;
        self.stats.messages += members;
        self.stats.bytes_delivered += bytes * members;
        let arrived = tail + Span::from_ps(way.latency);
        let (received, told) = if way.inside {
            (arrived + self.places.costs.notice, arrived + self.places.costs.notice)
        } else {
            let write = if bytes > 0 { way.write } else { Span::ZERO };
            let seen = self.latency.cpu.detect;
            (
                arrived + self.latency.ends(bytes).received + write + seen,
                arrived + self.latency.acknowledged(&self.latency) + Span::from_ps(way.latency) + seen,
            )
        };
        self.deliver(received, to);
        self.over(told, from);
    }

    fn deliver(&mut self, at: Time, to: Receive) {
        let mailbox = self.mailboxes.entry(to).or_default();
        if mailbox.waiting == 0 {
            mailbox.came.push_back(at);
            return;
        }
        mailbox.waiting -= 1;
        if mailbox.waiting == 0 {
            self.mailboxes.remove(&to);
        }
        self.over(at, to.0);
    }

    /// A message of the round in progress will be over at `at`; with the last one, the round is.
    fn over(&mut self, at: Time, index: u32) {
        let runner = &mut self.runners[index as usize];
        runner.until = runner.until.max(at);
        runner.waiting -= 1;
        if runner.waiting == 0 {
            let until = runner.until;
            self.fluid.queue.push(until, Event { kind: Kind::Done, rank: 0, what: index });
        }
    }

    fn finished(self) -> Result<Finished, EngineError> {
        let stuck: Vec<&Runner> = self.runners.iter().filter(|runner| runner.rounds.is_some()).collect();
        if stuck.is_empty() {
            let ends = self.fold.map_or_else(|| self.ends.clone(), |fold| fold.spread(&self.ends));
            return Ok(Finished { ends, stats: self.stats, followed: self.followed });
        }
        let line = |runner: &&Runner| {
            let round = self.program.rounds(runner.rank).nth(runner.round.saturating_sub(1) as usize).unwrap_or_default();
            let from: Vec<String> = round.receives.iter().take(4).map(|receive| receive.peer.to_string()).collect();
            let rest = if round.receives.len() > 4 { " …" } else { "" };
            format!("  rank {}: round {} of messages from {}{rest} has not ended", runner.rank, runner.round, from.join(", "))
        };
        let who = stuck.iter().take(20).map(line).collect::<Vec<_>>().join("\n");
        Err(EngineError::Stalled { at: self.fluid.queue.now(), waiting: stuck.len(), ranks: self.runners.len(), who })
    }
}

/// Memory of a run without folding, beside the fabric: for people, before it starts.
pub(crate) fn footprint(ranks: u64, links: u64, under_way: u64, stride: u64) -> Bytes {
    let rank = size_of::<Runner>() as u64 + ROUNDS + 2 * size_of::<Time>() as u64;
    // A message with its flow, its uses of links, its events and its mailbox.
    let message = size_of::<Message>() as u64 + 96 + 48 + stride * 24 + 3 * 48 + 96;
    Bytes(ranks * rank + links * 32 + under_way * message)
}

/// What the rounds of a rank hold while they are made. Basis: measured, several leaders a node with Rabenseifner's among them.
const ROUNDS: u64 = 4000;
