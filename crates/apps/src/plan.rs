//! An application on a machine: what its steps cost there, and how the library carries out its operations.
//!
//! Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009: computation takes the longer of its bytes at the rate of
//! memory and its arithmetic. H. Stengel et al., ICS 2015, arXiv 1410.5010: the time of a core and that of transfers add up.
//! Modelled: memory that the cores of a node share, and the part of the last caches that a rank has (`fabriscope_platform::processor`); the
//! computation of the whole job as measured on one machine, by one number: what it is above the time of all bytes out of memory is the
//! cores' own, whether or not data lie in caches; algorithms by the size of the communicator and its ranks on a node, those of workers on
//! a DPU for what begins and is handed over.
//! Not modelled: computation that differs from run to run, caches that hold a part of what a rank goes through,
//! transfers that computation hides, caches before the last two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabriscope_catalog::Mpi;
use fabriscope_collectives::{Algorithm, Amount, Buffer, Call, Group, Kind, Message, Outline, Outlines, Round};
use fabriscope_mpi::{OffloadSettings, OffloadState, Packing, Protocol};
use fabriscope_platform::{Layout, Processor, Target};
use fabriscope_tool::offload::needs_keys;
use fabriscope_tool::{Data, UsageError, algorithm, mpi_for};
use fabriscope_units::{Bytes, Span};

use crate::options::{Common, conflict, per_byte};
use crate::step::{Begun, Collective, Exchange, Handed, OneSided, Phase, Product, Program, Step, Work};

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
    /// Workers on DPUs that carry out what begins, if any, with what they and the ranks share.
    pub(crate) workers: Option<(OffloadSettings, OffloadState)>,
    processor: Processor,
    /// The cores on the adapters.
    adapter: Option<Processor>,
    /// How much longer computation takes than the memory's rate lets it.
    scale: f64,
    choices: BTreeMap<Key, (Call, Algorithm)>,
    one_sided: bool,
    begins: bool,
}

/// Operation, ranks, ranks on a node, root, size, whether it begins and is waited for later.
type Key = (Kind, u32, u32, u32, u64, bool);

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
    /// Something begins.
    Begin(Phase, Start),
    /// What began first is waited for.
    Finish,
    /// What workers compute, with the time of each on its core.
    Products(Vec<(Product, Span)>),
}

/// What begins.
pub enum Start {
    /// The rounds of an operation.
    Rounds(Outlines),
    /// An operation of a communicator, in which the rank has this index, by the workers.
    Handed(Group, u32, Call, Algorithm),
    /// Reads or writes of windows.
    OneSided(OneSided),
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
        let workers = workers(tool, program.hands_over(), &common, mpi, target)?;
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
            workers,
            processor,
            adapter: target.cores.as_ref().map(|cores| cores.processor.clone()),
            scale: 1.0,
            choices: BTreeMap::new(),
            one_sided: false,
            begins: false,
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
        let mut sends: Sends = BTreeMap::new();
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
                    Step::Collective(collective) => self.survey_collective(tool, mpi, (&collective, false), &mut sends)?,
                    Step::Begin(Begun::Collective(collective)) => {
                        self.begins = true;
                        self.survey_collective(tool, mpi, (&collective, true), &mut sends)?;
                    }
                    Step::OneSided(one_sided) | Step::Begin(Begun::OneSided(one_sided)) => {
                        self.one_sided = true;
                        let all = one_sided.parts.iter().map(|(_, bytes)| bytes.0).sum();
                        self.count(phase_of_window(&one_sided), all);
                    }
                    Step::Finish => {}
                    Step::Products(products) => {
                        if self.workers.is_none() {
                            let what = format!("{tool}: workers on a DPU compute, and there are none");
                            return Err(conflict(what, "add --offload dpu"));
                        }
                        self.one_sided = true;
                        for product in products {
                            self.count(Phase::Wait, product.gets.iter().map(|(_, bytes)| bytes.0).sum::<u64>() + product.put.1.0);
                        }
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

    fn survey_collective(
        &mut self,
        tool: &str,
        mpi: &Mpi,
        (collective, begins): (&Collective, bool),
        sends: &mut Sends,
    ) -> Result<(), UsageError> {
        let key = self.key(collective, begins);
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
        self.seconds(work, Bytes::ZERO)
    }

    /// How long a rank computes where nothing was measured and caches hold so much of its data, in s.
    fn seconds(&self, work: Work, cache: Bytes) -> f64 {
        let (ranks, threads) = (self.layout.per_node, self.common.threads);
        let memory = per_byte(self.processor.pace(ranks, threads, Bytes(u64::MAX / 2)).rate);
        traffic(work, cache, (memory, per_byte(self.processor.cached_rate(threads)))).max(self.common.arithmetic(work.flops))
    }

    /// How long it computes. What was measured beyond the time of all bytes out of memory is the cores' own and stays, wherever data lie.
    fn span(&self, work: Work) -> Span {
        let here = self.seconds(work, self.processor.share(self.layout.per_node, self.common.threads));
        let seconds = if self.scale > 1.0 { here + (self.scale - 1.0) * self.seconds(work, Bytes::ZERO) } else { here * self.scale };
        Span::from_ps((seconds * 1e12).round() as u64)
    }

    /// How long the core of a worker computes, beside the other workers of its node.
    fn worker_span(&self, work: Work) -> Span {
        let (Some(adapter), Some((settings, _))) = (&self.adapter, &self.workers) else { return Span::ZERO };
        let memory = per_byte(adapter.pace(settings.workers, 1, Bytes(u64::MAX / 2)).rate);
        let bytes = traffic(work, adapter.share(settings.workers, 1), (memory, per_byte(adapter.cached_rate(1))));
        Span::from_ps((bytes.max(self.common.worker_arithmetic(work.flops)) * 1e12).round() as u64)
    }

    fn key(&self, collective: &Collective, begins: bool) -> Key {
        let ranks = collective.group.ranks();
        (collective.operation, ranks, on_a_node(&collective.group, self.layout), collective.root, collective.size.0, begins)
    }

    fn choose(&mut self, tool: &str, mpi: &Mpi, key: Key, width: Bytes) -> Result<(), UsageError> {
        if self.choices.contains_key(&key) {
            return Ok(());
        }
        let (operation, ranks, per_node, root, size, begins) = key;
        let call = Call { operation, ranks, per_node, root, size: Bytes(size), width };
        let handed = self.workers.as_ref().filter(|_| begins).and(mpi.offload.as_ref());
        let chosen = match handed.map(|part| part.algorithm(operation)) {
            None => algorithm(tool, None, &call, Data::OnHosts, mpi)?,
            Some(Some(own)) => algorithm(tool, Some(own), &call, Data::OnHosts, mpi)?,
            Some(None) => {
                let what = format!("{tool} --offload: the workers of the cluster's MPI library have no algorithm for {}", operation.word());
                return Err(conflict(what, "leave --offload out, or choose software whose [mpi.offload.operations] has one"));
            }
        };
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
        let begins = self.begins.then_some("operations that go on beside computation");
        self.one_sided.then_some("one-sided operations").or(begins)
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
                let (call, algorithm) = self.choices.get(&self.key(&collective, false)).filter(|(call, _)| call.ranks > 1)?;
                if call.size.0 == 0 && !call.works_on_nothing() {
                    return None;
                }
                Some(Act::Rounds(phase, rounds_of(collective.group, collective.index, call, algorithm)))
            }
            Step::OneSided(one_sided) => Some(Act::OneSided(phase_of_window(&one_sided), one_sided)),
            Step::Begin(Begun::OneSided(one_sided)) => Some(Act::Begin(phase_of_window(&one_sided), Start::OneSided(one_sided))),
            Step::Begin(Begun::Collective(collective)) => {
                let phase = Phase::Collective(collective.operation);
                let (call, algorithm) = self.choices.get(&self.key(&collective, true))?;
                let Collective { group, index, .. } = collective;
                let start = match &self.workers {
                    Some(_) => Start::Handed(group, index, *call, algorithm.clone()),
                    None => Start::Rounds(rounds_of(group, index, call, algorithm)),
                };
                Some(Act::Begin(phase, start))
            }
            Step::Finish => Some(Act::Finish),
            Step::Products(products) => {
                let timed = products.into_iter().map(|product| {
                    let span = self.worker_span(product.work);
                    (product, span)
                });
                Some(Act::Products(timed.collect()))
            }
        }
    }

    /// The ranks that `rank` talks to, ascending.
    #[must_use]
    pub fn peers(&self, rank: u32) -> Vec<u32> {
        let mut peers = BTreeSet::new();
        let mut seen: BTreeSet<(Key, u32)> = BTreeSet::new();
        for step in self.program.steps(rank) {
            match step {
                Step::Work(_) | Step::Finish | Step::Products(_) => {}
                Step::Exchange(exchange) => peers.extend(exchange.sends.iter().chain(&exchange.receives).map(|(peer, _)| *peer)),
                Step::OneSided(one_sided) | Step::Begin(Begun::OneSided(one_sided)) => {
                    peers.extend(one_sided.parts.iter().map(|(peer, _)| *peer));
                }
                // Workers have connections of their own.
                Step::Begin(Begun::Collective(_)) if self.workers.is_some() => {}
                Step::Collective(ref collective) | Step::Begin(Begun::Collective(ref collective)) => {
                    let key = self.key(collective, matches!(step, Step::Begin(_)));
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

/// Messages of operations, by what decides them.
type Sends = BTreeMap<Key, u64>;

/// Who carries out what begins, as the command line and the library say.
fn workers(
    tool: &str,
    handed: Handed,
    common: &Common,
    mpi: &Mpi,
    target: &Target,
) -> Result<Option<(OffloadSettings, OffloadState)>, UsageError> {
    if handed == Handed::Nothing {
        if common.offload.is_explicit() {
            let what = format!("{tool} --offload: nothing of it goes on beside computation");
            return Err(conflict(what, "let it begin something: --fields 2 or more for p3dfft; or leave --offload out"));
        }
        return Ok(None);
    }
    let one_sided = handed == Handed::OneSided;
    let settings = common.offload.settle(tool, (!one_sided, one_sided), target.layout.per_node, mpi, target)?;
    if settings.is_some_and(|settings| settings.staged) && one_sided {
        return Err(needs_keys(tool));
    }
    let inline = mpi.inline_limit.saturating_u32().min(target.max_inline);
    Ok(settings.map(|settings| (settings, OffloadState::new(settings, target, inline))))
}

/// How long the bytes of a computation take, in s, beside a cache that holds so much; a byte out of memory, and out of the cache.
fn traffic(work: Work, cache: Bytes, (memory, cached): (f64, f64)) -> f64 {
    work.bytes.0 as f64 * if work.footprint <= cache { cached } else { memory }
}

/// The rounds of a rank of a communicator.
fn rounds_of(group: Group, index: u32, call: &Call, algorithm: &Algorithm) -> Outlines {
    Box::new(algorithm.outlines(call, index).map(move |outline| among(&group, outline)))
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
