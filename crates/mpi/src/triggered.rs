//! Barriers that the adapters carry out by triggered operations: a rank hands over all rounds at once and looks at a counter in memory.
//!
//! ```text
//!  rank ── sends of the first round, commands of the others ─▶ adapter
//!  adapter: messages of round r are there (counter r) ─▶ sends of round r + 1, counter r + 1 goes on ─▶ … ─▶ count in memory
//! ```
//!
//! Source: Open MPI, ompi/mca/coll/portals4 (barrier: puts triggered by a counter for each operation); K. D. Underwood et al., "Enabling
//! Flexible Collective Communication Offload with Triggered Operations", HOTI 2011 (chains of counters, no core between rounds).
//! Modelled: any algorithm of `fabriscope_collectives` whose rounds are messages; a counter for each round, which the round before moves
//! on too, so that a message of a faster rank releases nothing early; two sets of counters in turn: nobody is two barriers ahead.
//! Not modelled: operations that move data or reduce (atomics in the adapter); more than one adapter of a rank.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_collectives::{Algorithm, Call};
use fabriscope_node::exchange::Exchange;
use fabriscope_node::{Process, ProgramError, exchange_keys};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, CounterId, CqId, Lid, Mr, Mtu, Nic, Peer, QpCap, QpInit, QpNum, QpType, Remote, Rkey, SendFlags, SendWr, Sge, TriggeredAction,
    TriggeredWr, VerbsError, WatchId,
};

use super::rank::Rank;
use super::request::{Carried, Request};

/// What a job shares out of band. Clones are the same.
#[derive(Clone)]
pub struct TriggeredState(Arc<Shared>);

struct Shared {
    mtu: Mtu,
    exchange: Exchange<Tables>,
}

exchange_keys! {
    /// The memory of a rank in which messages are counted.
    regions: RegionOf { rank: u32 } => (u64, Rkey);
    /// One side of a connection to another rank.
    contacts: ContactOf { from: u32, to: u32 } => (Lid, QpNum);
}

impl TriggeredState {
    /// An empty one for a job on a machine like `target`.
    #[must_use]
    pub fn new(target: &Target) -> TriggeredState {
        TriggeredState(Arc::new(Shared { mtu: path_mtu(target.mtu), exchange: Exchange::default() }))
    }
}

/// What a rank does in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TriggeredRound {
    /// To whom it sends, and in which of the receiver's rounds that is awaited.
    sends: Vec<(u32, usize)>,
    /// Messages that it awaits.
    receives: u64,
}

/// A rank's barriers in its adapter.
pub(crate) struct TriggeredBarrier {
    nic: usize,
    cq: CqId,
    own: Mr,
    rounds: Vec<TriggeredRound>,
    connections: BTreeMap<u32, Connection>,
    sets: [CounterSet; 2],
    begun: Cell<u64>,
    /// Counts in memory that were seen, by set.
    seen: [Cell<u64>; 2],
}

/// A connection to another rank.
struct Connection {
    qp: QpNum,
    there: Remote,
    posted: Cell<u64>,
}

/// The counters of every other barrier.
struct CounterSet {
    /// By round, with what they have counted when the barriers begun so far are over.
    rounds: Vec<(CounterId, Cell<u64>)>,
    watch: WatchId,
    word: u64,
}

impl Rank {
    /// Prepares barriers like `call` in the adapters: all ranks of the job have to.
    ///
    /// # Errors
    /// An adapter without counters, or with too few; an algorithm whose rounds are more than messages.
    pub async fn open_triggered(&self, state: &TriggeredState, call: &Call, algorithm: &Algorithm) -> Result<(), ProgramError> {
        let (me, process, exchange) = (self.rank(), &self.process, &state.0.exchange);
        let rail = self.state.borrow().rails.first().cloned();
        let rail = rail.ok_or_else(|| ProgramError(format!("rank {me} has no adapter with counters of its own")))?;
        let rounds = rounds(call, algorithm, me)?;
        let (base, nic, near) = (COUNTED + (u64::from(me) << 16), rail.nic, process.place(rail.nic));
        let peers = algorithm.peers(call, me);
        let open = |n: &mut Nic| -> Result<(CqId, Mr, [CounterSet; 2]), VerbsError> {
            let cq = n.create_cq(DEPTH * (peers.len().max(1) as u32))?;
            let own = n.reg_mr_at(rail.pd, base, Bytes(1 << 16), Access::ALL, near)?;
            Ok((cq, own, [CounterSet::open(n, base, 0, rounds.len())?, CounterSet::open(n, base, 1, rounds.len())?]))
        };
        let (cq, own, sets) = process.nic(nic, open)?;
        exchange.put(me, RegionOf { rank: me }, (base, own.rkey));
        let mut pairs = Vec::new();
        for &peer in &peers {
            let cap = QpCap { max_send_wr: DEPTH, max_inline_data: Bytes(u64::from(MESSAGE)), ..QpCap::default() };
            let qp = process.nic(nic, |n| n.create_qp(&QpInit { cap, ..QpInit::new(rail.pd, QpType::Rc, cq) }))?;
            exchange.put(me, ContactOf { from: me, to: peer }, (process.lid(nic), qp));
            pairs.push((peer, qp));
        }
        exchange.fence(process).await;
        let mut connections = BTreeMap::new();
        for (peer, qp) in pairs {
            let found = exchange.get(me, ContactOf { from: peer, to: me }).zip(exchange.get(me, RegionOf { rank: peer }));
            let ((lid, remote), (addr, rkey)) =
                found.ok_or_else(|| ProgramError(format!("rank {peer} takes no part in the barrier of rank {me}")))?;
            process.nic(nic, |n| n.connect(qp, &Peer { lid, qp: remote, sl: 0, mtu: state.0.mtu }, Access::ALL))?;
            connections.insert(peer, Connection { qp, there: Remote { addr, rkey }, posted: Cell::new(0) });
        }
        process.barrier().await;
        let (begun, seen) = Default::default();
        *self.triggered.borrow_mut() = Some(TriggeredBarrier { nic, cq, own, rounds, connections, sets, begun, seen });
        Ok(())
    }

    /// `MPI_Ibarrier`, handed over to the adapter. No more than two are outstanding: it waits for the one before the last.
    ///
    /// # Errors
    /// [`open_triggered`](Self::open_triggered) was not called; a queue pair in error.
    pub async fn triggered_barrier(&self) -> Result<Request, ProgramError> {
        let number = self.triggered.borrow().as_ref().map(|own| own.begun.get());
        let number = number.ok_or_else(|| ProgramError(format!("rank {} has prepared no triggered barrier", self.rank())))?;
        while number.checked_sub(2).is_some_and(|before| !self.is_counted(before)) {
            self.turn().await?;
        }
        self.process.compute(self.state.borrow().protocol.send_overhead);
        self.free_sends().await;
        if let Some(own) = self.triggered.borrow().as_ref() {
            own.begin(&self.process)?;
        }
        Ok(Request(Carried::Triggered(number)))
    }

    /// Takes the completions that are there: requests before them make room in the send queues.
    async fn free_sends(&self) {
        let Some((nic, cq)) = self.triggered.borrow().as_ref().map(|own| (own.nic, own.cq)) else { return };
        while self.process.earliest(&[(nic, cq)], &[]).is_some_and(|at| at <= self.process.now()) {
            self.process.poll_cq(nic, cq, POLL_BATCH).await;
        }
    }

    /// What tells of the barriers that are outstanding.
    pub(super) fn counts(&self) -> Vec<(usize, WatchId, u64)> {
        let own = self.triggered.borrow();
        let Some(own) = own.as_ref() else { return Vec::new() };
        let outstanding = |number: &u64| !own.has_seen(*number);
        let begun = own.begun.get();
        let next = |number: u64| (own.nic, own.sets[set_of(number)].watch, number / 2 + 1);
        (begun.saturating_sub(2)..begun).filter(outstanding).map(next).collect()
    }
    /// Looks at the counts in memory.
    pub(super) fn look_at_counts(&self) {
        if let Some(own) = self.triggered.borrow().as_ref() {
            let now = self.process.now();
            for (set, seen) in own.sets.iter().zip(&own.seen) {
                seen.set(self.process.nic(own.nic, |n| n.watch_count(set.watch, now)));
            }
        }
    }
    /// Whether a barrier was over when they were looked at last.
    pub(super) fn is_counted(&self, number: u64) -> bool {
        self.triggered.borrow().as_ref().is_none_or(|own| own.has_seen(number))
    }
}

impl CounterSet {
    fn open(n: &mut Nic, base: u64, set: usize, rounds: usize) -> Result<CounterSet, VerbsError> {
        let length = Bytes(u64::from(MESSAGE));
        let counters = (0..rounds).map(|round| n.create_counter(base + offset(set, round), length));
        let rounds = counters.map(|counter| Ok((counter?, Cell::new(0)))).collect::<Result<Vec<_>, VerbsError>>()?;
        let word = base + offset(set, ROUNDS);
        Ok(CounterSet { rounds, watch: n.create_watch(word, length), word })
    }
}

impl TriggeredBarrier {
    /// Whether a barrier is over, as far as the counts in memory were looked at; a rank alone waits for nobody.
    fn has_seen(&self, number: u64) -> bool {
        self.rounds.is_empty() || self.seen[set_of(number)].get() > number / 2
    }

    fn begin(&self, process: &Process) -> Result<(), ProgramError> {
        let number = self.begun.get();
        self.begun.set(number + 1);
        let set = set_of(number);
        if let Some(first) = self.rounds.first() {
            for (peer, round) in &first.sends {
                let (qp, wr) = self.message(*peer, set, *round)?;
                process.post_send(self.nic, qp, &wr)?;
            }
        }
        let mut commands = Vec::new();
        for (at, ((counter, counted), round)) in self.sets[set].rounds.iter().zip(&self.rounds).enumerate() {
            counted.set(counted.get() + round.receives + u64::from(at > 0));
            let mut then = |action| commands.push(TriggeredWr { counter: *counter, threshold: counted.get(), action });
            let Some((next, _)) = self.sets[set].rounds.get(at + 1) else {
                then(TriggeredAction::WriteBack { addr: self.sets[set].word });
                continue;
            };
            for (peer, round) in self.rounds.get(at + 1).into_iter().flat_map(|round| &round.sends) {
                let (qp, wr) = self.message(*peer, set, *round)?;
                then(TriggeredAction::Send { qp, wr });
            }
            then(TriggeredAction::Count { counter: *next, by: 1 });
        }
        if commands.is_empty() { Ok(()) } else { Ok(process.post_triggered(self.nic, &commands)?) }
    }

    /// The message to a peer that counts for one of its rounds.
    fn message(&self, peer: u32, set: usize, round: usize) -> Result<(QpNum, SendWr), ProgramError> {
        let connection = self.connections.get(&peer).ok_or_else(|| ProgramError(format!("a barrier knows no rank {peer}")))?;
        let sge = Sge { addr: self.own.addr, length: MESSAGE, lkey: self.own.lkey };
        let there = Remote { addr: connection.there.addr + offset(set, round), ..connection.there };
        let mut wr = SendWr::write(0, sge, there).with_flags(SendFlags::INLINE);
        connection.posted.set(connection.posted.get() + 1);
        if connection.posted.get().is_multiple_of(SIGNALED) {
            wr = wr.signaled();
        }
        Ok((connection.qp, wr))
    }
}

/// What `me` does in each round.
fn rounds(call: &Call, algorithm: &Algorithm, me: u32) -> Result<Vec<TriggeredRound>, ProgramError> {
    let mut sent: BTreeMap<u32, usize> = BTreeMap::new();
    let mut rounds = Vec::new();
    for round in algorithm.rounds(call, me) {
        let moves = round.before.iter().chain(&round.after).any(|this| !this.is_idle());
        if round.joint.is_some() || moves || round.receives.iter().chain(&round.sends).any(|message| message.slot) {
            return Err(ProgramError(format!("{algorithm}: triggered operations send messages and do nothing else")));
        }
        let mut sends = Vec::new();
        for message in &round.sends {
            let before = sent.entry(message.peer).or_default();
            let awaited = algorithm.rounds(call, message.peer).enumerate().flat_map(|(at, round)| {
                let from_me = round.receives.iter().filter(|message| message.peer == me).count();
                std::iter::repeat_n(at, from_me)
            });
            let found = awaited.into_iter().nth(*before);
            let at =
                found.ok_or_else(|| ProgramError(format!("{algorithm}: rank {} awaits no such message of rank {me}", message.peer)))?;
            sends.push((message.peer, at));
            *before += 1;
        }
        rounds.push(TriggeredRound { sends, receives: round.receives.len() as u64 });
    }
    if rounds.len() > ROUNDS {
        return Err(ProgramError(format!("{algorithm}: {} rounds are more than the {ROUNDS} counters of a set", rounds.len())));
    }
    Ok(rounds)
}

/// Every other barrier has the same counters.
const fn set_of(number: u64) -> usize {
    (number % 2) as usize
}
/// Where the messages of a round land, from the beginning of a rank's region; behind the last the count is written.
const fn offset(set: usize, round: usize) -> u64 {
    (set * (ROUNDS + 1) + round) as u64 * MESSAGE as u64
}

/// A message, in bytes: a put of Portals carries none, a write of verbs at least some.
const MESSAGE: u32 = 8;
/// Most rounds of a barrier. Basis: assumed; up and down a tree of 2^31 ranks takes 62.
const ROUNDS: usize = 64;
/// Requests in a send queue. Basis: assumed.
const DEPTH: u32 = 256;
/// Every so many messages to a peer ask for a completion. Basis: assumed.
const SIGNALED: u64 = 32;
/// Completions taken per poll. Basis: assumed.
const POLL_BATCH: usize = 16;
/// Where the memory begins in which messages are counted. Basis: assumed; no bytes are moved.
const COUNTED: u64 = 0x3_0000_0000_0000;

#[cfg(test)]
mod tests {
    use fabriscope_collectives::Kind;

    use super::*;

    fn call(ranks: u32) -> Call {
        Call { operation: Kind::Barrier, ranks, per_node: 1, root: 0, size: Bytes::ZERO, width: Bytes(1) }
    }

    /// What ranks send for a round of a receiver is what that awaits in it, for every algorithm and odd numbers of ranks.
    #[test]
    fn every_message_is_awaited_in_its_round() {
        for name in ["dissemination", "dissemination(4)", "recursive_doubling", "tree", "tree(3)", "linear"] {
            let algorithm = Algorithm::named(Kind::Barrier, name).unwrap();
            for ranks in [1, 2, 3, 5, 8, 13, 32] {
                let all: Vec<_> = (0..ranks).map(|rank| rounds(&call(ranks), &algorithm, rank).unwrap()).collect();
                for (rank, own) in all.iter().enumerate() {
                    for (at, round) in own.iter().enumerate() {
                        let sent = all.iter().flatten().flat_map(|round| &round.sends).filter(|send| **send == (rank as u32, at)).count();
                        assert_eq!(sent as u64, round.receives, "{name}, {ranks} ranks: rank {rank}, round {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_more_than_messages_is_refused() {
        let slots = Algorithm::named(Kind::Barrier, "slots").unwrap();
        assert!(rounds(&Call { per_node: 4, ..call(4) }, &slots, 0).is_err());
    }
}
