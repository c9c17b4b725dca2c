//! What an iteration takes, part by part.
//!
//! Source: Williams et al., "Roofline" (CACM 2009) for kernels, which is [`fabriscope_training::roofline`]; Shoeybi et al., Megatron-LM
//! (arXiv 1909.08053), §3: two all-reduces a layer; DeepEP's order of dispatch and combine; DeepSeek-V3 (arXiv 2412.19437), §3.4: two halves
//! of a batch beside each other.
//! Modelled: kernels one behind the other, with a gap between them that is shorter where they are launched as a graph; operations of tensor
//! groups, tokens to experts and back; messages between stages, which are sent in parts and gathered by the tensor group; the host between
//! iterations. Operations are asked for powers of two of tokens and interpolated between them.
//! Not modelled: kernels beside each other other than by two halves; memory that collectives take from kernels.

use std::collections::BTreeMap;

use fabriscope_catalog::{Gpu, Transformer};
use fabriscope_training::Operation;
use fabriscope_training::roofline::Roofline;
use fabriscope_units::{Bytes, Span};

use crate::layer::{self, Load, WIDTH, Work};
use crate::memory;
use crate::serving::Serving;
use crate::times::{Exchange, Mode, Phase, ServingTimes};

/// A kind of work, of which an iteration is the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Linear layers.
    Linear,
    /// Linear layers of experts.
    Experts,
    /// Attention of prompts.
    Prompts,
    /// Attention of generated tokens: their keys and values are read.
    Cache,
    /// Kernels that stream through memory.
    Memory,
    /// Between kernels.
    Gaps,
    /// Operations of tensor groups.
    Tensor,
    /// Tokens to experts.
    Dispatch,
    /// Their results back.
    Combine,
    /// Messages between stages.
    Stages,
    /// Rows of the vocabulary, the choice among them.
    Output,
    /// The host.
    Host,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 12] = [
        Part::Linear,
        Part::Experts,
        Part::Prompts,
        Part::Cache,
        Part::Memory,
        Part::Gaps,
        Part::Tensor,
        Part::Dispatch,
        Part::Combine,
        Part::Stages,
        Part::Output,
        Part::Host,
    ];
    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Part::Linear => "linear layers",
            Part::Experts => "experts",
            Part::Prompts => "attention of prompts",
            Part::Cache => "attention over the cache",
            Part::Memory => "memory-bound kernels",
            Part::Gaps => "launch gaps",
            Part::Tensor => "tensor parallelism",
            Part::Dispatch => "dispatch to experts, exposed",
            Part::Combine => "combine, exposed",
            Part::Stages => "pipeline messages",
            Part::Output => "logits and sampling",
            Part::Host => "host",
        }
    }
}

/// Spans by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts([Span; Part::ALL.len()]);

impl Parts {
    /// Of one part.
    #[must_use]
    pub const fn of(&self, part: Part) -> Span {
        self.0[part as usize]
    }
    /// More of a part.
    pub fn add(&mut self, part: Part, span: Span) {
        self.0[part as usize] += span;
    }
    /// All of another, so many times.
    pub fn add_all(&mut self, other: &Parts, times: u64) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other * times;
        }
    }
    /// The sum.
    #[must_use]
    pub fn total(&self) -> Span {
        self.0.into_iter().fold(Span::ZERO, |sum, span| sum + span)
    }
    /// What GPUs compute: all but messages and the host.
    #[must_use]
    fn computing(&self) -> Span {
        let others = [Part::Tensor, Part::Dispatch, Part::Combine, Part::Stages, Part::Host];
        others.into_iter().fold(self.total(), |left, part| left - self.of(part))
    }
}

/// An iteration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Iteration {
    /// How long each stage is busy with it.
    pub stages: Vec<Span>,
    /// From one stage to the next.
    pub hop: Span,
    /// All of it by parts.
    pub parts: Parts,
}

impl Iteration {
    /// From its start to its end where nothing is in its way.
    #[must_use]
    pub fn total(&self) -> Span {
        self.parts.total()
    }
}

/// What iterations of copies of a model take on a cluster.
pub struct Costs<'a, T> {
    model: &'a Transformer,
    serving: &'a Serving,
    roofline: Roofline,
    gaps: (Span, Span),
    times: T,
    layers: Vec<(u64, u64)>,
    plain: BTreeMap<(u64, bool), Parts>,
    experts: BTreeMap<(u64, Span), Parts>,
    output: BTreeMap<(u64, Span), Parts>,
    operations: BTreeMap<(Query, u64), Span>,
}

/// What is asked of the cluster for a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Query {
    AllReduce,
    ReduceScatter,
    AllGather,
    Logits,
    Stages,
    Exchange(Phase, Mode),
}

impl<'a, T: ServingTimes> Costs<'a, T> {
    /// Nothing where the GPU's part does not say what it computes.
    #[must_use]
    pub fn new(model: &'a Transformer, serving: &'a Serving, gpu: &Gpu, times: T) -> Option<Costs<'a, T>> {
        let compute = gpu.compute.as_ref()?;
        let gap = *compute.gap;
        let graph = compute.graph_gap.as_ref().map_or(gap, |gap| **gap);
        let mut first = 0;
        let mut layers = Vec::new();
        for count in serving.layers_of_stages(model) {
            layers.push(memory::kinds(model, first, count));
            first += count;
        }
        Some(Costs {
            model,
            serving,
            roofline: Roofline::reading(gpu)?,
            gaps: (graph, gap),
            times,
            layers,
            plain: BTreeMap::new(),
            experts: BTreeMap::new(),
            output: BTreeMap::new(),
            operations: BTreeMap::new(),
        })
    }
    /// Whoever knows the cluster.
    pub fn times(&mut self) -> &mut T {
        &mut self.times
    }
    /// Another network: what was known of it is asked again.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) {
        change(&mut self.times);
        self.operations.clear();
    }
    /// How it is served.
    #[must_use]
    pub const fn serving(&self) -> &'a Serving {
        self.serving
    }

    /// An iteration of copies that share experts, each with its load; of one copy where nothing is shared. The parts are those of the copy
    /// that takes longest.
    ///
    /// # Errors
    /// What the cluster cannot do.
    pub fn iteration(&mut self, loads: &[Load]) -> Result<Iteration, T::Error> {
        let all: u64 = loads.iter().map(Load::tokens).sum();
        let fullest = loads.iter().map(Load::tokens).max().unwrap_or_default();
        let halves = if self.serving.two_batches && self.serving.expert > 1 && fullest > 1 { 2 } else { 1 };
        let (mut stages, mut longest) = (Vec::new(), None);
        for (at, load) in loads.iter().enumerate() {
            // Most copies generate side by side, as much each.
            if at > 0 && loads[at - 1] == *load {
                continue;
            }
            let own = self.own(&half(load, halves))?;
            let span = own.iter().fold(Span::ZERO, |sum, parts| sum + parts.total());
            if longest.is_none_or(|known| span > known) {
                (stages, longest) = (own, Some(span));
            }
        }
        let mode = if loads.iter().all(|load| load.prompt == 0) { Mode::Latency } else { Mode::Throughput };
        self.add_experts(&mut stages, (all.div_ceil(halves), fullest.div_ceil(halves)), (halves, mode))?;
        let spans: Vec<Span> = stages.iter().map(Parts::total).collect();
        let mut parts = Parts::default();
        for stage in &stages {
            parts.add_all(stage, 1);
        }
        let hops = u64::from(self.serving.pipeline - 1);
        let message = if hops > 0 { self.asked(Query::Stages, fullest)? + self.asked(Query::AllGather, 2 * fullest)? } else { Span::ZERO };
        parts.add(Part::Stages, message * hops);
        parts.add(Part::Host, self.serving.host);
        Ok(Iteration { stages: spans, hop: message, parts })
    }

    /// What a copy does by itself, stage by stage.
    fn own(&mut self, load: &Load) -> Result<Vec<Parts>, T::Error> {
        let tokens = load.tokens();
        let gap = self.gap(tokens);
        let attention = self.parts(&layer::attention(self.model, self.serving, load), gap);
        let (dense, mixed) = (self.plain(tokens, false), self.plain(tokens, true));
        let reduced = self.asked(Query::AllReduce, tokens)?;
        let scattered = match self.serving.expert {
            1 => reduced * 2,
            // Tokens are shared out for the experts, and gathered behind them.
            _ => reduced + self.asked(Query::ReduceScatter, tokens)? + self.asked(Query::AllGather, tokens)?,
        };
        let layers = self.layers.clone();
        let mut stages = Vec::with_capacity(layers.len());
        for (at, (plain, with_experts)) in layers.iter().copied().enumerate() {
            let mut parts = Parts::default();
            parts.add_all(&attention, plain + with_experts);
            parts.add_all(&dense, plain);
            parts.add_all(&mixed, with_experts);
            parts.add(Part::Tensor, reduced * 2 * plain + scattered * with_experts);
            if at + 1 == layers.len() && load.outputs > 0 {
                parts.add_all(&self.output(load.outputs, gap), 1);
                parts.add(Part::Tensor, self.asked(Query::Logits, load.outputs)?);
            }
            stages.push(parts);
        }
        Ok(stages)
    }

    /// Experts of all layers, with tokens that go there and come back as far as nothing hides them.
    fn add_experts(&mut self, stages: &mut [Parts], (all, fullest): (u64, u64), (halves, mode): (u64, Mode)) -> Result<(), T::Error> {
        if self.model.experts.is_none() || all == 0 {
            return Ok(());
        }
        let gap = self.gap(fullest);
        let experts = self.experts(all, gap);
        let shared = self.serving.expert > 1;
        let each = fullest.div_ceil(u64::from(self.serving.tensor));
        let there = if shared { self.asked(Query::Exchange(Phase::Dispatch, mode), each)? } else { Span::ZERO };
        let back = if shared { self.asked(Query::Exchange(Phase::Combine, mode), each)? } else { Span::ZERO };
        for (stage, (_, with_experts)) in stages.iter_mut().zip(self.layers.clone()) {
            stage.add_all(&experts, with_experts);
            let once = *stage;
            stage.add_all(&once, halves - 1);
            let (there, back) = (there * with_experts * halves, back * with_experts * halves);
            let hidden = if halves > 1 { stage.computing() } else { Span::ZERO };
            // What computing hides is taken from the way there first.
            stage.add(Part::Dispatch, there.saturating_sub(hidden));
            stage.add(Part::Combine, back.saturating_sub(hidden.saturating_sub(there)));
        }
        Ok(())
    }

    fn gap(&self, tokens: u64) -> Span {
        if tokens <= u64::from(self.serving.graph_tokens) { self.gaps.0 } else { self.gaps.1 }
    }

    fn parts(&self, work: &[Work], gap: Span) -> Parts {
        let mut parts = Parts::default();
        for each in work {
            let (part, span) = match each {
                Work::Linear(kernel) => (Part::Linear, self.roofline.time(kernel)),
                Work::Experts(kernel) => (Part::Experts, self.roofline.time(kernel)),
                Work::Prompts(kernel) => (Part::Prompts, self.roofline.time(kernel)),
                Work::Cache(kernel) => (Part::Cache, self.roofline.time(kernel)),
                Work::Memory(bytes) => (Part::Memory, self.roofline.stream(Bytes(*bytes))),
            };
            parts.add(part, span);
            parts.add(Part::Gaps, gap);
        }
        parts
    }

    fn plain(&mut self, tokens: u64, with_experts: bool) -> Parts {
        if with_experts && self.model.experts.is_none() {
            return Parts::default();
        }
        if let Some(known) = self.plain.get(&(tokens, with_experts)) {
            return *known;
        }
        let made = self.parts(&layer::plain(self.model, self.serving, tokens, with_experts), self.gap(tokens));
        self.plain.insert((tokens, with_experts), made);
        made
    }

    fn experts(&mut self, tokens: u64, gap: Span) -> Parts {
        if let Some(known) = self.experts.get(&(tokens, gap)) {
            return *known;
        }
        let made = self.parts(&layer::experts(self.model, self.serving, tokens), gap);
        self.experts.insert((tokens, gap), made);
        made
    }

    fn output(&mut self, outputs: u64, gap: Span) -> Parts {
        if let Some(known) = self.output.get(&(outputs, gap)) {
            return *known;
        }
        let kernels = self.parts(&layer::output(self.model, self.serving, outputs), gap);
        let mut made = Parts::default();
        made.add(Part::Output, kernels.total());
        self.output.insert((outputs, gap), made);
        made
    }

    /// Between the powers of two below and above.
    fn asked(&mut self, what: Query, tokens: u64) -> Result<Span, T::Error> {
        let alone = self.serving.tensor == 1 && !matches!(what, Query::Stages | Query::Exchange(..));
        if tokens == 0 || alone {
            return Ok(Span::ZERO);
        }
        let below = 1 << tokens.ilog2();
        let least = self.at(what, below)?;
        if below == tokens {
            return Ok(least);
        }
        let most = self.at(what, 2 * below)?;
        let share = |span: Span, part: u64| u128::from(span.as_ps()) * u128::from(part) / u128::from(below);
        let sum = share(least, 2 * below - tokens) + share(most, tokens - below);
        Ok(Span::from_ps(u64::try_from(sum).unwrap_or(u64::MAX)))
    }

    fn at(&mut self, what: Query, tokens: u64) -> Result<Span, T::Error> {
        if let Some(known) = self.operations.get(&(what, tokens)) {
            return Ok(*known);
        }
        let (serving, model) = (self.serving, self.model);
        let bytes = Bytes(tokens * u64::from(model.hidden) * WIDTH);
        let span = match what {
            Query::AllReduce => self.times.time(Operation::AllReduce, bytes, serving.tensor_group())?,
            Query::ReduceScatter => self.times.time(Operation::ReduceScatter, bytes, serving.tensor_group())?,
            Query::AllGather => self.times.time(Operation::AllGather, bytes, serving.tensor_group())?,
            Query::Logits => {
                let bytes = Bytes(tokens * u64::from(model.vocabulary) * WIDTH);
                self.times.time(Operation::AllGather, bytes, serving.tensor_group())?
            }
            Query::Stages => {
                // Activations and residuals, a part by each rank.
                let part = Bytes((2 * bytes.0).div_ceil(u64::from(serving.tensor)));
                self.times.time(Operation::SendReceive, part, serving.pipeline_group())?
            }
            Query::Exchange(phase, mode) => {
                let width = match phase {
                    Phase::Dispatch => memory::width(serving.precision),
                    Phase::Combine => WIDTH,
                };
                let per_token = model.experts.map_or(0, |experts| u64::from(experts.per_token));
                let (hidden, nodes, group) = (u64::from(model.hidden), serving.expert_nodes, serving.expert_group());
                self.times.exchange(&Exchange { phase, mode, tokens, hidden, per_token, nodes, width, group })?
            }
        };
        self.operations.insert((what, tokens), span);
        Ok(span)
    }
}

/// One of so many like parts of a load, rounded up.
const fn half(load: &Load, parts: u64) -> Load {
    Load {
        prompt: load.prompt.div_ceil(parts),
        pairs: load.pairs.div_ceil(parts),
        prompt_context: load.prompt_context.div_ceil(parts),
        generating: load.generating.div_ceil(parts),
        context: load.context.div_ceil(parts),
        outputs: load.outputs.div_ceil(parts),
    }
}
