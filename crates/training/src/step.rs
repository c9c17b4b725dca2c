//! The time line of a step, and what each part of it is for.
//!
//! Source: Narayanan et al., SC 2021; Zhao et al., "PyTorch FSDP" (VLDB 2023, arXiv 2304.11277), §3.3: gathering ahead by a layer.
//! Modelled: passes in the pipeline; gradients behind the backward pass or while it goes on, layer by layer; gathered parameters; the
//! optimizer as bytes of memory; processors that collectives keep from computing while both run.
//! Not modelled: memory bandwidth that collectives take from kernels, clipping across the pipeline.

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Span, Time};

use crate::layer::{self, Passes, Spans};
use crate::layout::{Layout, LayoutError, Schedule, Sharding};
use crate::memory::{self, Memory};
use crate::pipeline::{self, Pass, PassSpans, StageLine};
use crate::roofline::Roofline;
use crate::shape;
use crate::times::{CommunicationTimes, Group, Operation};

/// Parts of a step at one GPU, which add up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Multiplications.
    pub matrix: Span,
    /// Attention in one kernel.
    pub attention: Span,
    /// Kernels that stream through memory.
    pub memory: Span,
    /// Operations of the tensor group.
    pub tensor: Span,
    /// Keys and values, as far as attention does not hide them.
    pub context: Span,
    /// Tokens to experts and back.
    pub expert: Span,
    /// Sending to the neighbours in the pipeline.
    pub messages: Span,
    /// Waiting for them.
    pub bubble: Span,
    /// Gradients and parameters of copies, as far as computing does not hide them.
    pub data: Span,
    /// What computing takes longer while collectives have some of the processors.
    pub slowed: Span,
    /// The optimizer.
    pub optimizer: Span,
}

impl Breakdown {
    /// All parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Span); 11] {
        [
            ("multiplications", self.matrix),
            ("attention", self.attention),
            ("memory-bound kernels", self.memory),
            ("tensor parallelism, exposed", self.tensor),
            ("context parallelism, exposed", self.context),
            ("expert parallelism, exposed", self.expert),
            ("pipeline messages, exposed", self.messages),
            ("pipeline bubble", self.bubble),
            ("data parallelism, exposed", self.data),
            ("slowed by collectives", self.slowed),
            ("optimizer", self.optimizer),
        ]
    }
    /// The step.
    #[must_use]
    pub fn total(&self) -> Span {
        self.parts().into_iter().map(|(_, span)| span).sum()
    }
    /// What of it is communication that nothing hides, waits for the pipeline left out.
    #[must_use]
    pub fn communication(&self) -> Span {
        self.tensor + self.context + self.expert + self.messages + self.data + self.slowed
    }
}

/// A step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The stage that ends last.
    pub stage: u32,
    /// Its parts.
    pub parts: Breakdown,
    /// What each stage does when.
    pub lines: Vec<StageLine>,
    /// What the fullest GPU keeps.
    pub memory: Memory,
    /// One layer and micro-batch, without experts and with them where there are any.
    pub layers: [Passes; 2],
}

/// Why there is no step.
#[derive(Debug, thiserror::Error)]
pub enum StepError<E> {
    /// The layout does not fit the model.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The cluster cannot say how long messages take.
    #[error("messages of the step")]
    Times(E),
}

/// What passes cost at each stage and part of it.
struct Costs {
    /// By stage and part.
    of: Vec<Vec<Passes>>,
    message: Span,
    put_off: bool,
}

impl PassSpans for Costs {
    fn span(&self, stage: u32, pass: Pass) -> Span {
        let passes = &self.of[stage as usize][pass.part as usize];
        if pass.forward { whole(&passes.forward) } else { whole(&passes.backward).saturating_sub(self.later(stage, pass)) }
    }
    fn later(&self, stage: u32, pass: Pass) -> Span {
        if self.put_off && !pass.forward { self.of[stage as usize][pass.part as usize].backward.weights } else { Span::ZERO }
    }
    fn message(&self) -> Span {
        self.message
    }
}

fn whole(spans: &Spans) -> Span {
    spans.total() + spans.data + spans.slowed
}

/// One step of a model in a layout.
///
/// # Errors
/// A layout that does not fit, or what the cluster cannot do.
pub fn step<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
) -> Result<Step, StepError<T::Error>> {
    layout.check(model)?;
    let mut of_layer = |with_experts: bool| {
        let work = layer::forward(model, layout, with_experts);
        let again = layer::again(model, layout, with_experts);
        let again = layer::passes(&again, layout, roofline, times).map_err(StepError::Times)?.forward;
        let mut passes = layer::passes(&work, layout, roofline, times).map_err(StepError::Times)?;
        passes.backward = passes.backward.plus(again);
        if layout.sharding == Sharding::Parameters { gathered(model, layout, roofline, times, passes, with_experts) } else { Ok(passes) }
    };
    let plain = of_layer(false)?;
    let expert = if model.experts.is_some() { of_layer(true)? } else { Passes::default() };
    let (first, last) = layer::ends(model, layout);
    let mut at_end = |work: &[layer::Work]| layer::passes(work, layout, roofline, times).map_err(StepError::Times);
    let (first, last) = (at_end(&first)?, at_end(&last)?);
    let parts = layout.pipeline * layout.interleave;
    let in_parts = layout.layers_of_parts(model);
    let dense = model.layers - shape::expert_layers(model) as u32;
    let of_part = |part: u32| {
        let in_part = u64::from(in_parts[part as usize]);
        let from: u64 = in_parts[..part as usize].iter().map(|layers| u64::from(*layers)).sum();
        let plain_there = u64::from(dense).saturating_sub(from).min(in_part);
        let mut passes = plain.times(plain_there).plus(expert.times(in_part - plain_there));
        if part == 0 {
            passes = passes.plus(first);
        }
        if part + 1 == parts {
            passes = passes.plus(last);
        }
        passes
    };
    let of = (0..layout.pipeline).map(|stage| (0..layout.interleave).map(|part| of_part(part * layout.pipeline + stage)).collect());
    let costs = Costs { of: of.collect(), message: message(model, layout, times)?, put_off: layout.schedule == Schedule::ZeroBubble };
    let lines = pipeline::lines(layout, &costs);
    let mut worst: Option<(Span, u32, Breakdown)> = None;
    for (stage, line) in (0..).zip(&lines) {
        let parts = breakdown(model, layout, roofline, times, (stage, line, &costs))?;
        if worst.as_ref().is_none_or(|(total, ..)| parts.total() > *total) {
            worst = Some((parts.total(), stage, parts));
        }
    }
    let (_, stage, parts) = worst.unwrap_or_default();
    Ok(Step { stage, parts, lines, memory: memory::memory(model, layout), layers: [plain, expert] })
}

/// What a stage sends to the next: each rank of the tensor group a part of it, which is gathered behind the network where nobody shares it
/// anyhow (Narayanan et al., §4.1).
fn message<T: CommunicationTimes>(model: &Transformer, layout: &Layout, times: &mut T) -> Result<Span, StepError<T::Error>> {
    if layout.pipeline == 1 {
        return Ok(Span::ZERO);
    }
    let tokens = u64::from(layout.micro_batch) * u64::from(model.sequence) / u64::from(layout.context);
    let whole = tokens * u64::from(model.hidden) * 2;
    let part = Bytes(whole / u64::from(layout.tensor));
    let sent = times.time(Operation::SendReceive, part, layout.pipeline_group()).map_err(StepError::Times)?;
    if layout.tensor == 1 || layout.sequence_parallel {
        return Ok(sent);
    }
    Ok(sent + times.time(Operation::AllGather, Bytes(whole), layout.tensor_group()).map_err(StepError::Times)?)
}

/// Passes of a layer whose parameters are gathered before and whose gradients are scattered behind, a layer ahead.
fn gathered<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
    passes: Passes,
    with_experts: bool,
) -> Result<Passes, StepError<T::Error>> {
    let bytes = Bytes(2 * shape::layer_parameters(model, with_experts) / u64::from(layout.tensor));
    let group = layout.data_group();
    if group.size == 1 {
        return Ok(passes);
    }
    let gather = times.time(Operation::AllGather, bytes, group).map_err(StepError::Times)?;
    let scatter = times.time(Operation::ReduceScatter, bytes, group).map_err(StepError::Times)?;
    let taken = times.processors(Operation::AllGather, bytes, group).map_err(StepError::Times)?;
    let hidden = |spans: Spans, moved: Span| {
        let alone = spans.total();
        let slowed = slowed(moved.min(alone), taken, roofline);
        Spans { data: moved.saturating_sub(alone + slowed), slowed, ..spans }
    };
    Ok(Passes { forward: hidden(passes.forward, gather), backward: hidden(passes.backward, gather + scatter) })
}

/// What computing takes longer while a collective has some of the processors for `span`.
pub(crate) fn slowed(span: Span, taken: u32, roofline: &Roofline) -> Span {
    let all = roofline.processors();
    let taken = taken.min(all.saturating_sub(1));
    // In `span` of the collective, `all − taken` processors do what all would have done in that share of it.
    Span::from_ps((u128::from(span.as_ps()) * u128::from(taken) / u128::from(all.max(1))) as u64)
}

fn breakdown<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
    (stage, line, costs): (u32, &StageLine, &Costs),
) -> Result<Breakdown, StepError<T::Error>> {
    let mut sum = Spans::default();
    let mut messages = Span::ZERO;
    for timed in &line.passes {
        let passes = &costs.of[stage as usize][timed.pass.part as usize];
        sum = sum.plus(if timed.pass.forward { passes.forward } else { passes.backward });
        messages += timed.sends;
    }
    let passed = line.end.since(Time::ZERO);
    let bubble = passed.saturating_sub(whole(&sum) + messages);
    let copies = copies(model, layout, roofline, times, (stage, line))?;
    Ok(Breakdown {
        matrix: sum.matrix,
        attention: sum.attention,
        memory: sum.memory,
        tensor: sum.tensor,
        context: sum.context,
        expert: sum.expert,
        messages,
        bubble,
        data: sum.data + copies.exposed,
        slowed: sum.slowed + copies.slowed,
        optimizer: copies.optimizer,
    })
}

/// What copies of the model exchange behind the passes, and the optimizer.
struct Copies {
    exposed: Span,
    slowed: Span,
    optimizer: Span,
}

fn copies<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
    (stage, line): (u32, &StageLine),
) -> Result<Copies, StepError<T::Error>> {
    let (mut common, experts) = memory::parameters_of_rank(model, layout);
    let at_end = stage == 0 || stage + 1 == layout.pipeline;
    if !at_end {
        common -= shape::embedding_parameters(model) / u64::from(layout.tensor);
    }
    let width = if layout.wide_gradients { 4 } else { 2 };
    let sharded = layout.sharding >= Sharding::Optimizer;
    let mut exchanged = Span::ZERO;
    let mut collected = Span::ZERO;
    let mut taken = 0;
    let mut of_groups = Vec::new();
    if layout.sharding < Sharding::Parameters {
        of_groups.push((common, layout.data_group()));
    } else if layout.data_group().size > 1 {
        // Layers went by themselves; the embedding is gathered and scattered once.
        of_groups.push((shape::embedding_parameters(model) / u64::from(layout.tensor), layout.data_group()));
    }
    of_groups.push((experts, layout.expert_data_group()));
    for (parameters, group) in of_groups.into_iter().filter(|(parameters, group)| *parameters > 0 && group.size > 1) {
        let bytes = Bytes(width * parameters);
        let operation = if sharded { Operation::ReduceScatter } else { Operation::AllReduce };
        exchanged += times.time(operation, bytes, group).map_err(StepError::Times)?;
        taken = taken.max(times.processors(operation, bytes, group).map_err(StepError::Times)?);
        if sharded {
            collected += times.time(Operation::AllGather, Bytes(2 * parameters), group).map_err(StepError::Times)?;
        }
    }
    if model.tied_embeddings && layout.pipeline > 1 && at_end {
        let bytes = Bytes(width * u64::from(model.vocabulary) * u64::from(model.hidden) / u64::from(layout.tensor));
        let pipeline = layout.pipeline_group();
        let ends = Group { size: 2, stride: pipeline.stride * (layout.pipeline - 1) };
        exchanged += times.time(Operation::AllReduce, bytes, ends).map_err(StepError::Times)?;
    }
    let parameters = common + experts;
    let own = if sharded { parameters.div_ceil(u64::from(layout.data_group().size.max(1))) } else { parameters };
    let optimizer = roofline.stream(Bytes((ADAM_BYTES + width) * own));
    if !layout.overlap_gradients {
        return Ok(Copies { exposed: exchanged + collected, slowed: Span::ZERO, optimizer });
    }
    // Gradients of the last micro-batch leave from its first layer on; parameters come while the first one goes forward.
    let last = line.passes.iter().find(|timed| !timed.pass.forward && timed.pass.batch + 1 == layout.micro_batches());
    let window = last.map_or(Span::ZERO, |timed| line.end.since(timed.from));
    let layers = u64::from(model.layers / layout.pipeline).max(1);
    // The gradient of the layer that is computed last leaves alone.
    let tail = exchanged / layers;
    let hidden = exchanged.saturating_sub(tail).min(window);
    let forward = line.passes.first().map_or(Span::ZERO, |timed| timed.to.since(timed.from));
    let ahead = collected.saturating_sub(collected / layers).min(forward);
    let slowed = slowed(hidden + ahead, taken, roofline);
    Ok(Copies { exposed: exchanged - hidden + (collected - ahead), slowed, optimizer })
}

/// Bytes of a parameter that Adam reads and writes beside the gradient: master copy and two moments in 32 bits, there and back, and the
/// copy in 16 bits.
pub(crate) const ADAM_BYTES: u64 = 26;
