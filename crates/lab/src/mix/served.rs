//! What a served model sends: keys and values from nodes that read prompts to nodes that generate, and tokens to experts and back.
//!
//! Source: [`fabriscope_inference`] for requests, iterations and who sends what to whom.
//! Modelled: each copy reads one prompt after the other and sends its keys and values behind it, or each layer's with it; of experts, iterations
//! whose layers wait for the tokens of all others, by chance as many from each to each.
//! Not modelled: batches of several prompts, tokens that go to a node once, operations of groups of tensors between nodes; `infer` has more.

use fabriscope_catalog::Transformer;
use fabriscope_inference::iteration::Costs;
use fabriscope_inference::layer::Load;
use fabriscope_inference::{Arrivals, Exchange, Lengths, Serving, ServingTimes, memory, request, transfer};
use fabriscope_schedule::{After, Builder, OpId, OpKind};
use fabriscope_training::{CommunicationTimes, Group, Operation, Precision};
use fabriscope_training_plan::Seats;
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::error::LabError;
use crate::training::job::{Job, told};
use crate::training::tenant::{Tenant, Timed};
use crate::training::times::{ClusterTimes, Network};
use crate::workload::mix::{ExpertRounds, Served};

/// The library's times, for what computing takes.
struct LibraryTimes<'a>(ClusterTimes<'a>);

impl CommunicationTimes for LibraryTimes<'_> {
    type Error = LabError;
    fn time(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<Span, LabError> {
        self.0.time(operation, bytes, group)
    }
    fn processors(&mut self, operation: Operation, bytes: Bytes, group: Group) -> Result<u32, LabError> {
        self.0.processors(operation, bytes, group)
    }
}

impl ServingTimes for LibraryTimes<'_> {
    fn exchange(&mut self, exchange: &Exchange) -> Result<Span, LabError> {
        let bytes = Bytes(exchange.tokens * exchange.per_token * exchange.hidden * exchange.width);
        self.0.time(Operation::AllToAll, bytes, exchange.group)
    }
    fn transfers(&mut self, active: &[(u32, u32)]) -> Result<Vec<Rate>, LabError> {
        Ok(vec![Rate::from_bps(u64::MAX); active.len()])
    }
}

/// An iteration, with what the network between nodes takes left out.
fn iteration(job: &Job, serving: &Serving, mut times: ClusterTimes<'_>, loads: &[Load]) -> Result<Span, LabError> {
    let model = &job.model.transformer;
    serving.check(model).map_err(|error| of_serving(&error))?;
    memory::room(model, serving, &job.gpu).map_err(|error| of_serving(&error))?;
    times.on(Network::None);
    let mut costs = Costs::new(model, serving, &job.gpu, LibraryTimes(times))
        .ok_or_else(|| told(format!("it is not known what `{}` computes", job.gpu.name), "add [compute] to its part"))?;
    Ok(costs.iteration(loads)?.total())
}

fn of_serving(error: &fabriscope_inference::ServingError) -> LabError {
    use fabriscope_units::Remedy;
    let (message, help) = error.halves("serve it otherwise");
    LabError::Training { message, help }
}

/// Requests whose keys and values go from nodes that read to nodes that generate.
pub struct KeysAndValues {
    /// When it comes, how long it is read, and how much its keys and values are.
    requests: Vec<(Time, Span, Bytes)>,
    /// Ranks of a copy that send, those that receive, and the share.
    paths: Vec<(u32, u32, f64)>,
    /// GPUs of a copy, and copies of each pool.
    each: u32,
    copies: (u32, u32),
    /// The first GPU of the second pool.
    second: u32,
}

/// What a served model sends, on nodes of its own.
pub struct Seated<'t, T> {
    /// What it sends.
    pub of: &'t T,
    /// Where its GPUs are.
    pub seats: Seats,
}

impl KeysAndValues {
    /// Of a served model on nodes of so many GPUs.
    ///
    /// # Errors
    /// A layout that does not divide, too little memory, what the cluster cannot do.
    pub fn new(work: &Served, job: &Job, times: ClusterTimes<'_>, per_node: u32, seed: u64) -> Result<KeysAndValues, LabError> {
        let model = &job.model.transformer;
        let serving = Serving { tensor: work.tp, pipeline: work.pp, precision: precision(work.fp8), ..Serving::default() };
        let each = work.tp.saturating_mul(work.pp).max(1);
        let copies = (work.reading * per_node / each, work.generating * per_node / each);
        if copies.0 == 0 || copies.1 == 0 {
            return Err(told(
                format!("copies of {each} GPUs on pools of {} and {} nodes", work.reading, work.generating),
                "make tp times pp smaller",
            ));
        }
        let lengths = Lengths { input: work.input, output: 1, spread: 0.0 };
        let arrivals = if work.rate > 0.0 { Arrivals::Poisson(work.rate) } else { Arrivals::AtOnce };
        let mut load = Load::default();
        load.read(work.input, 0, true);
        let span = iteration(job, &serving, times, &[load])?;
        let made = request::requests(arrivals, lengths, work.requests, seed);
        let requests = made.iter().map(|made| (made.arrival, span, transfer::moved(model, &serving, made.input))).collect();
        let paths = transfer::ways(model, &serving, &serving, false);
        Ok(KeysAndValues { requests, paths, each, copies, second: work.reading * per_node })
    }
}

impl Tenant for Seated<'_, KeysAndValues> {
    fn add(&self, builder: &mut Builder) -> Result<Vec<Timed>, LabError> {
        let Seated { of, seats } = self;
        let mut read: Vec<Option<OpId>> = vec![None; of.copies.0 as usize];
        let mut all = Vec::new();
        for (number, (arrival, span, bytes)) in (0u32..).zip(&of.requests) {
            let (from, to) = (number % of.copies.0, number % of.copies.1);
            let head = seats.rank(from * of.each);
            let come = builder.op(head, OpKind::Compute { span: arrival.since(Time::ZERO) });
            let after: Vec<After> = [Some(come), read[from as usize]].into_iter().flatten().map(After::End).collect();
            let done = builder.op_after(head, OpKind::Compute { span: *span }, &after);
            read[from as usize] = Some(done);
            let mut timed = Timed { from: vec![(head, done)], ends: Vec::new() };
            for (sender, receiver, share) in &of.paths {
                let rank = seats.rank(from * of.each + sender);
                let peer = seats.rank(of.second + to * of.each + receiver);
                let part = Bytes(((bytes.0 as f64 * share) as u64).max(1));
                let ready = known(builder, (head, rank), done, number);
                builder.op_after(rank, OpKind::Send { to: peer, bytes: part, tag: TAG + number }, &[After::End(ready)]);
                timed.ends.push((peer, builder.recv(peer, rank, part, TAG + number)));
            }
            all.push(timed);
        }
        Ok(all)
    }
}

/// Ranks of a copy end a prompt together: each computes as long as its head.
fn known(builder: &mut Builder, (head, rank): (u32, u32), done: OpId, number: u32) -> OpId {
    if head == rank {
        return done;
    }
    // A word over the links of the node, or of the pipeline.
    builder.op_after(head, OpKind::Send { to: rank, bytes: WORD, tag: number }, &[After::End(done)]);
    builder.recv(rank, head, WORD, number)
}

/// What tells that a prompt is read. Basis: assumed, a word.
const WORD: Bytes = Bytes(8);
/// Tags of keys and values are behind those of words.
const TAG: u32 = 1 << 20;

const fn precision(fp8: bool) -> Precision {
    if fp8 { Precision::Bits8 } else { Precision::Bits16 }
}

/// Iterations of a model whose experts are shared by all its GPUs.
pub struct Experts {
    gpus: u32,
    /// What a layer computes, its messages left out.
    layer: Span,
    layers: u64,
    iterations: u32,
    /// From each GPU to each other: there and back.
    parts: [Bytes; 2],
}

impl Experts {
    /// Of a served model on so many GPUs.
    ///
    /// # Errors
    /// A model without experts, too little memory, what the cluster cannot do.
    pub fn new(work: &ExpertRounds, job: &Job, times: ClusterTimes<'_>, gpus: u32) -> Result<Experts, LabError> {
        let model: &Transformer = &job.model.transformer;
        let Some(experts) = model.experts else {
            return Err(told(format!("`{}` has no experts", job.model.name), "take a model with experts: deepseek-v3"));
        };
        let precision = precision(work.fp8);
        let serving = Serving { copies: gpus, expert: gpus, precision, cache: precision, ..Serving::default() };
        let mut load = Load::default();
        (0..work.tokens).for_each(|_| load.generate(work.context));
        let span = iteration(job, &serving, times, &vec![load; gpus as usize])?;
        let layers = memory::kinds(model, 0, model.layers).1.max(1);
        let copies = u64::from(work.tokens) * u64::from(experts.per_token);
        let part = |width: u64| Bytes((copies * u64::from(model.hidden) * width).div_ceil(u64::from(gpus)));
        let there = if work.fp8 { 1 } else { 2 };
        Ok(Experts { gpus, layer: span / layers, layers, iterations: work.iterations, parts: [part(there), part(2)] })
    }
}

impl Seated<'_, Experts> {
    /// All GPUs send to all others on other nodes, and wait for what comes: what each goes on after.
    fn round(&self, builder: &mut Builder, before: &[OpId], bytes: Bytes, tag: u32) -> Vec<Vec<OpId>> {
        let rank = |gpu| self.seats.rank(gpu);
        let others = |gpu: u32| (0..self.of.gpus).filter(move |other| self.seats.node(*other) != self.seats.node(gpu));
        for gpu in 0..self.of.gpus {
            for to in others(gpu) {
                // The tag has the sender: GPUs can share an adapter.
                let kind = OpKind::Send { to: rank(to), bytes, tag: tag * self.of.gpus + gpu };
                builder.op_after(rank(gpu), kind, &[After::End(before[gpu as usize])]);
            }
        }
        (0..self.of.gpus)
            .map(|gpu| others(gpu).map(|from| builder.recv(rank(gpu), rank(from), bytes, tag * self.of.gpus + from)).collect())
            .collect()
    }
}

impl Tenant for Seated<'_, Experts> {
    fn add(&self, builder: &mut Builder) -> Result<Vec<Timed>, LabError> {
        let (mut all, mut tag) = (Vec::new(), 0);
        let rank = |gpu: u32| self.seats.rank(gpu);
        let mut after: Vec<Vec<OpId>> = vec![Vec::new(); self.of.gpus as usize];
        let half = self.of.layer / 2;
        let mut from: Vec<(u32, OpId)> = Vec::new();
        for _ in 0..self.of.iterations {
            for _ in 0..self.of.layers {
                for bytes in self.of.parts {
                    let ready: Vec<OpId> = (0..self.of.gpus)
                        .map(|gpu| {
                            let waits: Vec<After> = after[gpu as usize].iter().copied().map(After::End).collect();
                            builder.op_after(rank(gpu), OpKind::Compute { span: half }, &waits)
                        })
                        .collect();
                    after = self.round(builder, &ready, bytes, tag);
                    tag += 1;
                }
            }
            let ends: Vec<(u32, OpId)> =
                (0u32..).zip(&after).flat_map(|(gpu, ops)| ops.iter().map(move |op| (gpu, *op))).map(|(gpu, op)| (rank(gpu), op)).collect();
            all.push(Timed { from: std::mem::replace(&mut from, ends.clone()), ends });
        }
        Ok(all)
    }
}
