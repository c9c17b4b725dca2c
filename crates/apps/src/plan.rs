//! An application on a machine: what its steps cost there, and how the library carries out its operations.
//!
//! Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009: computation takes the longer of its bytes at the rate of
//! memory and its arithmetic.
//! Modelled: memory that the cores of a node share (`fabriscope_platform::processor`); the computation of the whole job scaled to what was
//! measured on one machine, by one number; algorithms by the size of the communicator and its ranks on a node.
//! Not modelled: computation that differs from run to run, caches that hold a part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabriscope_catalog::Mpi;
use fabriscope_collectives::{Algorithm, Amount, Buffer, Call, Group, Kind, Message, Outline, Outlines, Round};
use fabriscope_mpi::{Packing, Protocol};
use fabriscope_platform::{Layout, Processor, Target};
use fabriscope_tool::{Data, UsageError, algorithm, mpi_for};
use fabriscope_units::{Bytes, Span};

use crate::options::{Common, conflict, per_byte};
use crate::step::{Collective, Exchange, OneSided, Phase, Program, Step, Work};

/// An application on a machine.
pub struct Plan {
    /// What it does.
    pub program: Arc<dyn Program>,
    /// Where its ranks are.
    pub layout: Layout,
    /// What collecting blocks costs.
    pub packing: Packing,
    /// What a rank goes through in an iteration, at most.
    pub footprint: Bytes,
    /// Sizes of messages between ranks.
    pub sizes: BTreeSet<u64>,
    /// Messages of all ranks in an iteration.
    pub messages: u64,
    pub(crate) common: Common,
    pub(crate) node_seconds: f64,
    /// Ends of connections of a node that are made on first use, and how long that takes.
    pub(crate) connecting: Option<(u64, Span)>,
    /// Calls and bytes of all ranks in an iteration, by phase.
    pub(crate) counts: Vec<(u64, u64)>,
    processor: Processor,
    /// How much longer computation takes than the memory's rate lets it.
    scale: f64,
    choices: BTreeMap<Key, (Call, Algorithm)>,
    one_sided: bool,
}

/// Operation, ranks, ranks on a node, root, size.
type Key = (Kind, u32, u32, u32, u64);

/// What a rank does, with its cost.
pub enum Act {
    /// Its cores are busy.
    Work(Span),
    /// Messages, and what is computed between post and wait.
    Exchange(Phase, Outline, Span),
    /// The rounds of an operation.
    Rounds(Phase, Outlines),
    /// Reads or writes of windows.
    OneSided(Phase, OneSided),
}

impl Plan {
    /// An application on a machine.
    ///
    /// # Errors
    /// A machine without a library, or of whose memory nothing is known; threads without cores; operations that the library does not have.
    pub(crate) fn new(tool: &str, program: Arc<dyn Program>, common: Common, target: &Target) -> Result<Plan, UsageError> {
        let processor = target.processor.clone().ok_or_else(|| {
            let what = "nothing is known of the memory of the processors here, and it decides how long computation takes".to_owned();
            conflict(what, "give the processor's part [memory] with copy_rate and caches")
        })?;
        common.check(target.layout, processor.all_cores())?;
        let mpi = mpi_for(tool, target)?;
        let mut plan = Plan {
            program,
            layout: target.layout,
            packing: Packing::from(mpi),
            footprint: Bytes::ZERO,
            sizes: BTreeSet::new(),
            messages: 0,
            common,
            node_seconds: 0.0,
            connecting: None,
            counts: vec![(0, 0); Phase::all().count()],
            processor,
            scale: 1.0,
            choices: BTreeMap::new(),
            one_sided: false,
        };
        plan.survey(tool, mpi)?;
        let others = u64::from(plan.program.meets().saturating_sub(target.layout.per_node));
        let ends = others * u64::from(target.layout.per_node);
        plan.connecting = Protocol::from(mpi).first_use.filter(|_| ends > 0).map(|each| (ends, each * ends));
        Ok(plan)
    }

    /// Goes through the steps of all ranks once.
    fn survey(&mut self, tool: &str, mpi: &Mpi) -> Result<(), UsageError> {
        let program = self.program.clone();
        let mut seconds = 0.0;
        let mut sends: BTreeMap<Key, u64> = BTreeMap::new();
        for rank in 0..self.layout.ranks() {
            for step in program.steps(rank) {
                match step {
                    Step::Work(work) => seconds += self.compute(work),
                    Step::Exchange(exchange) => {
                        seconds += exchange.meanwhile.map_or(0.0, |work| self.compute(work));
                        for (_, bytes) in &exchange.sends {
                            if bytes.0 > LARGEST {
                                let what = format!("a message of {} bytes", bytes.0);
                                return Err(conflict(what, "use more ranks, or a smaller problem: a message has less than 2 GiB"));
                            }
                            self.sizes.insert(bytes.0);
                        }
                        self.messages += exchange.sends.len() as u64;
                        let all = exchange.sends.iter().map(|(_, bytes)| bytes.0).sum();
                        self.count(phase_of(&exchange), all);
                    }
                    Step::Collective(collective) => {
                        let key = self.key(&collective);
                        self.choose(tool, mpi, key, collective.width)?;
                        let (call, algorithm) = &self.choices[&key];
                        let sizes = &mut self.sizes;
                        self.messages += *sends.entry(key).or_insert_with(|| {
                            let mut messages = 0;
                            for rank in [call.root, call.ranks / 2, call.ranks - 1] {
                                let mut own = 0;
                                for Outline { round, .. } in algorithm.outlines(call, rank) {
                                    own += round.sends.len() as u64;
                                    sizes.extend(round.sends.iter().filter(|message| !message.slot).map(|message| message.piece.bytes.0));
                                }
                                messages = messages.max(own);
                            }
                            messages
                        });
                        self.count(Phase::Collective(collective.operation), collective.size.0);
                    }
                    Step::OneSided(one_sided) => {
                        self.one_sided = true;
                        let all = one_sided.parts.iter().map(|(_, bytes)| bytes.0).sum();
                        self.count(phase_of_window(&one_sided), all);
                    }
                }
            }
        }
        let measured = seconds / f64::from(self.layout.per_node.max(1));
        self.node_seconds = self.common.node_seconds.unwrap_or(measured);
        if measured > 0.0 {
            self.scale = self.node_seconds * self.program.filled_up() / measured;
        }
        Ok(())
    }

    fn count(&mut self, phase: Phase, bytes: u64) {
        let (calls, sum) = &mut self.counts[phase.index()];
        (*calls, *sum) = (*calls + 1, *sum + bytes);
    }

    /// Notes a computation, and says how long it takes where memory bounds it, in s.
    fn compute(&mut self, work: Work) -> f64 {
        self.footprint = self.footprint.max(work.footprint);
        self.count(Phase::Compute, work.bytes.0);
        self.seconds(Work { footprint: Bytes(u64::MAX / 2), ..work })
    }

    /// How long a rank computes where nothing was measured, in s.
    fn seconds(&self, work: Work) -> f64 {
        let pace = self.processor.pace(self.layout.per_node, self.common.threads, work.footprint);
        (work.bytes.0 as f64 * per_byte(pace.rate)).max(self.common.arithmetic(work.flops))
    }

    fn span(&self, work: Work) -> Span {
        Span::from_ps((self.seconds(work) * self.scale * 1e12).round() as u64)
    }

    fn key(&self, collective: &Collective) -> Key {
        let ranks = collective.group.ranks();
        (collective.operation, ranks, on_a_node(&collective.group, self.layout), collective.root, collective.size.0)
    }

    fn choose(&mut self, tool: &str, mpi: &Mpi, key: Key, width: Bytes) -> Result<(), UsageError> {
        if self.choices.contains_key(&key) {
            return Ok(());
        }
        let (operation, ranks, per_node, root, size) = key;
        let call = Call { operation, ranks, per_node, root, size: Bytes(size), width };
        let chosen = algorithm(tool, None, &call, Data::OnHosts, mpi)?;
        if chosen.is_in_network() {
            let what = format!("{tool}: {chosen} is an in-network reduction, which is not modelled here");
            return Err(conflict(what, "take a library without switches that reduce"));
        }
        self.choices.insert(key, (call, chosen));
        Ok(())
    }

    /// Operations and how they are carried out.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = (&Call, &Algorithm)> {
        self.choices.values().map(|(call, algorithm)| (call, algorithm))
    }

    /// Iterations before those that are measured, and those.
    #[must_use]
    pub fn iterations(&self) -> (u32, u32) {
        (1, self.common.iterations)
    }

    /// Bytes of all ranks in an iteration, as the program hands them to the library.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.counts.iter().skip(1).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// What only packets can do of it, if anything.
    #[must_use]
    pub fn needs_packets(&self) -> Option<&'static str> {
        self.one_sided.then_some("one-sided operations")
    }

    /// What a rank does in an iteration, with its costs.
    pub fn acts(self: &Arc<Self>, rank: u32) -> Box<dyn Iterator<Item = Act> + Send> {
        let plan = self.clone();
        Box::new(self.program.steps(rank).filter_map(move |step| plan.act(step)))
    }

    fn act(&self, step: Step) -> Option<Act> {
        match step {
            Step::Work(work) => Some(Act::Work(self.span(work))),
            Step::Exchange(exchange) => {
                let meanwhile = exchange.meanwhile.map_or(Span::ZERO, |work| self.span(work));
                Some(Act::Exchange(phase_of(&exchange), outline(&exchange), meanwhile))
            }
            Step::Collective(collective) => {
                let phase = Phase::Collective(collective.operation);
                let (call, algorithm) = self.choices.get(&self.key(&collective)).filter(|(call, _)| call.ranks > 1)?;
                if call.size.0 == 0 && !call.works_on_nothing() {
                    return None;
                }
                let group = collective.group;
                let rounds = algorithm.outlines(call, collective.index);
                Some(Act::Rounds(phase, Box::new(rounds.map(move |outline| among(&group, outline)))))
            }
            Step::OneSided(one_sided) => Some(Act::OneSided(phase_of_window(&one_sided), one_sided)),
        }
    }

    /// The ranks that `rank` talks to, ascending.
    #[must_use]
    pub fn peers(&self, rank: u32) -> Vec<u32> {
        let mut peers = BTreeSet::new();
        let mut seen: BTreeSet<(Key, u32)> = BTreeSet::new();
        for step in self.program.steps(rank) {
            match step {
                Step::Work(_) => {}
                Step::Exchange(exchange) => peers.extend(exchange.sends.iter().chain(&exchange.receives).map(|(peer, _)| *peer)),
                Step::OneSided(one_sided) => peers.extend(one_sided.parts.iter().map(|(peer, _)| *peer)),
                Step::Collective(collective) => {
                    let key = self.key(&collective);
                    let Some((call, algorithm)) = self.choices.get(&key) else { continue };
                    if seen.insert((key, collective.group.rank(0))) {
                        let theirs = algorithm.peers(call, collective.index);
                        peers.extend(theirs.into_iter().map(|peer| collective.group.rank(peer)));
                    }
                }
            }
        }
        peers.remove(&rank);
        peers.into_iter().collect()
    }
}

fn phase_of(exchange: &Exchange) -> Phase {
    if exchange.is_alltoallv { Phase::Alltoallv } else { Phase::Waitall }
}

fn phase_of_window(one_sided: &OneSided) -> Phase {
    if one_sided.is_get { Phase::Get } else { Phase::Put }
}

/// The messages of an exchange as a round. What a rank has for itself is copied.
fn outline(exchange: &Exchange) -> Outline {
    let message = |(peer, bytes): &(u32, Bytes)| Buffer::Send.piece(Bytes::ZERO, *bytes).with(*peer);
    let copies = Amount { moves: u64::from(exchange.packed.0 > 0), copied: exchange.packed, reduced: Bytes::ZERO };
    let round = Round {
        receives: exchange.receives.iter().map(|(peer, bytes)| Buffer::Recv.piece(Bytes::ZERO, *bytes).with(*peer)).collect(),
        sends: exchange.sends.iter().map(message).collect(),
        ..Round::default()
    };
    Outline { round, before: copies, after: copies }
}

/// A round of the ranks of a group with their numbers in the job.
fn among(group: &Group, mut outline: Outline) -> Outline {
    let place = |message: &mut Message| message.peer = group.rank(message.peer);
    outline.round.receives.iter_mut().for_each(place);
    outline.round.sends.iter_mut().for_each(place);
    outline
}

/// Ranks of a group on each node, where it fills nodes one after the other with as many; else one, as if no two shared a node.
fn on_a_node(group: &Group, layout: Layout) -> u32 {
    let (ranks, per_node) = (group.ranks(), layout.per_node.max(1));
    let node = |index: u32| group.rank(index) / per_node;
    let first = node(0);
    // Members are asked for in steps, not each: those of a grid's rows and columns are regular.
    if node(ranks - 1) == first && group.rank(0) <= group.rank(ranks - 1) {
        return ranks;
    }
    let mut count = 1;
    while count < ranks && node(count) == first {
        count += 1;
    }
    let blocks = ranks / count;
    let fills = |block: u32| {
        let begin = block * count;
        node(begin) == node(begin + count - 1) && (block + 1 == blocks || node(begin + count) != node(begin))
    };
    let looked = [0, blocks / 2, blocks.saturating_sub(1)];
    if ranks.is_multiple_of(count) && looked.into_iter().all(fills) { count } else { 1 }
}

/// Bytes of a message, at most. Basis: standard (an int counts the elements of a message of MPI, and InfiniBand ends there).
const LARGEST: u64 = (1 << 31) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and columns of a grid of 4 x 8 processes, 8 on a node: a row fills a node, a column has one on each of four.
    #[test]
    fn communicators_know_their_nodes() {
        let layout = Layout { nodes: 4, per_node: 8 };
        assert_eq!(on_a_node(&Group::regular(0, 1, 32), layout), 8);
        assert_eq!(on_a_node(&Group::regular(8, 1, 8), layout), 8);
        assert_eq!(on_a_node(&Group::regular(3, 8, 4), layout), 1);
        assert_eq!(on_a_node(&Group::regular(1, 4, 8), layout), 2);
        // Three and three of eight: unlike parts count as apart.
        assert_eq!(on_a_node(&Group::regular(5, 1, 6), layout), 3);
        assert_eq!(on_a_node(&Group::regular(6, 1, 6), layout), 1);
    }

    #[test]
    fn rounds_of_a_group_have_the_numbers_of_the_job() {
        let call = Call { operation: Kind::Allreduce, ranks: 4, per_node: 1, root: 0, size: Bytes(8), width: Bytes(8) };
        let doubling = Algorithm::named(Kind::Allreduce, "recursive_doubling").unwrap();
        let group = Group::regular(2, 8, 4);
        let peers: Vec<u32> =
            doubling.outlines(&call, 1).map(|outline| among(&group, outline)).flat_map(|o| o.round.sends).map(|m| m.peer).collect();
        // The second of 2, 10, 18, 26: with its neighbour, then with the one two away.
        assert_eq!(peers, [2, 26]);
    }
}
