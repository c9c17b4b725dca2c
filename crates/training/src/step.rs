//! The time line of a step, and what each part of it is for.
//!
//! Source: Narayanan et al., SC 2021; Zhao et al., "PyTorch FSDP" (VLDB 2023, arXiv 2304.11277), §3.3: gathering ahead ([`gathering`]), §3.2.2:
//! shares within some ranks, copies of them among the others.
//! Modelled: passes in the pipeline; gradients behind the backward pass or while it goes on, layer by layer; gathered parameters; the
//! optimizer as bytes of memory; processors and memory bandwidth that collectives keep from computing while both run ([`contention`]).
//! Not modelled: clipping across the pipeline.

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Span, Time};

use crate::contention;
use crate::gathering::{self, Gathered, Lost};
use crate::launches;
use crate::layer::{self, Entry, Passes, Purpose, Spans, What};
use crate::layout::{Layout, LayoutError, Schedule, Sharding};
use crate::memory::{self, Memory};
use crate::pipeline::{self, Pass, PassSpans, StageLine};
use crate::roofline::{Kernel, Roofline, Taken};
use crate::shape;
use crate::times::{CommunicationTimes, Cost, Group, Operation};

/// Parts of a step at one GPU, which add up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Multiplications.
    pub matrix: Span,
    /// Attention in one kernel.
    pub attention: Span,
    /// Kernels that stream through memory.
    pub memory: Span,
    /// The host that launches kernels is late.
    pub host: Span,
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
    pub fn parts(&self) -> [(&'static str, Span); 12] {
        [
            ("multiplications", self.matrix),
            ("attention", self.attention),
            ("memory-bound kernels", self.memory),
            ("waits for the host", self.host),
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
#[derive(Debug, Clone, PartialEq)]
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
    /// What the stages are made of.
    pub pieces: Pieces,
    /// What each part of the model, in their order, is made of and loses.
    pub content: Vec<PartContent>,
    /// What ranks of each stage exchange behind the passes.
    pub copies: Vec<Copies>,
    /// From a stage to the next.
    pub message: Vec<Exchanged>,
    pub(crate) costs: Costs,
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

/// An operation outside the layers, with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchanged {
    /// What it is.
    pub operation: Operation,
    /// Bytes of the larger buffer of a rank.
    pub bytes: Bytes,
    /// Among whom.
    pub group: Group,
    /// What it takes.
    pub cost: Cost,
}

/// A layer, or what an end of the pipeline does besides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    /// Kernels and operations of a micro-batch, forward, in order.
    pub forward: Vec<Entry>,
    /// The same backward, with what is computed again.
    pub backward: Vec<Entry>,
    /// Their sums.
    pub passes: Passes,
    /// How its parameters are gathered, and its gradients scattered and, where shares have copies, summed.
    pub gather: Option<Exchanged>,
    /// Gradients.
    pub scatter: Vec<Exchanged>,
    /// What its kernels take alone, and beside that.
    slower: [(Span, Span); 2],
}

impl Piece {
    /// Sums what it is made of anew.
    pub(crate) fn sum(&mut self) {
        self.passes = Passes::of(&self.forward, &self.backward);
    }
}

/// What parts of the model are made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pieces {
    /// A layer without experts.
    pub plain: Piece,
    /// A layer with them.
    pub expert: Piece,
    /// What the first part does besides.
    pub first: Piece,
    /// What the last part does besides.
    pub last: Piece,
}

/// What a part of the model is made of, and what its passes lose to gathering and scattering.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartContent {
    /// Layers without experts.
    pub plain: u64,
    /// Layers with them.
    pub experts: u64,
    /// It is the first part.
    pub first: bool,
    /// It is the last part.
    pub last: bool,
    /// Forward.
    pub forward: Lost,
    /// Backward.
    pub backward: Lost,
}

impl PartContent {
    /// Its pieces in the order of the forward pass, and how often each is there.
    #[must_use]
    pub fn pieces<'a>(&self, pieces: &'a Pieces) -> [(&'a Piece, u64); 4] {
        [
            (&pieces.first, u64::from(self.first)),
            (&pieces.plain, self.plain),
            (&pieces.expert, self.experts),
            (&pieces.last, u64::from(self.last)),
        ]
    }
}

/// What passes cost at each stage and part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    /// By stage and part.
    pub of: Vec<Vec<Passes>>,
    pub message: Span,
    pub put_off: bool,
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

pub(crate) fn whole(spans: &Spans) -> Span {
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
    let pieces = PieceBuilder { model, layout, roofline, times }.pieces().map_err(StepError::Times)?;
    let in_parts = layout.layers_of_parts(model);
    let dense = u64::from(model.layers) - shape::expert_layers(model);
    let (mut content, mut before) = (Vec::new(), 0u64);
    for (part, layers) in in_parts.iter().enumerate() {
        let layers = u64::from(*layers);
        let plain = dense.saturating_sub(before).min(layers);
        before += layers;
        let bare =
            PartContent { plain, experts: layers - plain, first: part == 0, last: part + 1 == in_parts.len(), ..PartContent::default() };
        content.push(with_lost(bare, &pieces, layout));
    }
    let of_part = |part: u32| {
        let content = &content[part as usize];
        let sum = content.pieces(&pieces).into_iter().fold(Passes::default(), |sum, (piece, count)| sum.plus(piece.passes.times(count)));
        let with = |spans: Spans, lost: Lost| Spans { data: lost.gather + lost.scatter, slowed: lost.slowed, ..spans };
        Passes { forward: with(sum.forward, content.forward), backward: with(sum.backward, content.backward) }
    };
    let of = (0..layout.pipeline).map(|stage| (0..layout.interleave).map(|part| of_part(part * layout.pipeline + stage)).collect());
    let message = message(model, layout, times)?;
    let costs = Costs {
        of: of.collect(),
        message: message.iter().map(|sent| sent.cost.span).sum(),
        put_off: layout.schedule == Schedule::ZeroBubble,
    };
    let lines = pipeline::lines(layout, &costs);
    let mut worst: Option<(Span, u32, Breakdown)> = None;
    let mut copies = Vec::new();
    for (stage, line) in (0..).zip(&lines) {
        let of_stage = self::copies(model, layout, roofline, times, (stage, line, &pieces))?;
        let parts = breakdown((stage, line, &costs), &of_stage);
        copies.push(of_stage);
        if worst.as_ref().is_none_or(|(total, ..)| parts.total() > *total) {
            worst = Some((parts.total(), stage, parts));
        }
    }
    let (_, stage, parts) = worst.unwrap_or_default();
    let layers = [pieces.plain.passes, pieces.expert.passes];
    Ok(Step { stage, parts, lines, memory: memory::memory(model, layout), layers, pieces, content, copies, message, costs })
}

/// What pieces of the model are asked of.
struct PieceBuilder<'a, T> {
    model: &'a Transformer,
    layout: &'a Layout,
    roofline: &'a Roofline,
    times: &'a mut T,
}

impl<T: CommunicationTimes> PieceBuilder<'_, T> {
    fn pieces(&mut self) -> Result<Pieces, T::Error> {
        let (first, last) = layer::ends(self.model, self.layout);
        let expert = if self.model.experts.is_some() { self.of_layer(true)? } else { Piece::default() };
        Ok(Pieces { plain: self.of_layer(false)?, expert, first: self.piece(&first, &[])?, last: self.piece(&last, &[])? })
    }

    fn of_layer(&mut self, with_experts: bool) -> Result<Piece, T::Error> {
        let modules = layer::modules(self.model, self.layout, with_experts);
        let again = layer::again(self.model, self.layout, with_experts);
        let mut piece = self.piece(&modules.work(), &again)?;
        if with_experts && self.layout.overlap_experts && self.layout.micro_batches() > 1 {
            hide_tokens(&mut piece);
        }
        let [forward, backward] = launches::waits((&modules, &again), self.layout, self.roofline, [&piece.forward, &piece.backward]);
        for (entries, wait) in [(&mut piece.forward, forward), (&mut piece.backward, backward)] {
            entries.extend((wait > Span::ZERO).then(|| Entry::alone(What::Host, wait)));
        }
        piece.sum();
        if self.layout.sharding == Sharding::Parameters {
            self.share(&mut piece, with_experts)?;
        }
        Ok(piece)
    }

    /// Work with what of it is computed again in front of the backward pass.
    fn piece(&mut self, work: &[layer::Work], again: &[layer::Work]) -> Result<Piece, T::Error> {
        let [forward, mut backward] = layer::entries(work, self.layout, self.roofline, self.times)?;
        let [mut repeated, _] = layer::entries(again, self.layout, self.roofline, self.times)?;
        repeated.iter_mut().for_each(|entry| entry.again = true);
        backward.splice(0..0, repeated);
        let mut piece = Piece { forward, backward, ..Piece::default() };
        piece.sum();
        Ok(piece)
    }

    /// Parameters gathered in front of the passes, gradients scattered behind.
    fn share(&mut self, piece: &mut Piece, with_experts: bool) -> Result<(), T::Error> {
        let (layout, all) = (self.layout, self.layout.data_group());
        let group = layout.shard_group(all);
        if all.size == 1 {
            return Ok(());
        }
        let bytes = Bytes(2 * shape::layer_parameters(self.model, with_experts) / u64::from(layout.tensor));
        let mut ask = |operation, bytes, group| exchanged(self.times, operation, bytes, group);
        let gather = ask(Operation::AllGather, bytes, group)?;
        piece.scatter = vec![ask(Operation::ReduceScatter, bytes, group)?];
        let replicas = layout.replica_group(all);
        if replicas.size > 1 {
            piece.scatter.push(ask(Operation::AllReduce, Bytes(bytes.0 / u64::from(group.size)), replicas)?);
        }
        let back: Vec<Exchanged> = std::iter::once(gather).chain(piece.scatter.iter().copied()).collect();
        piece.gather = Some(gather);
        let slower = |entries: &[Entry], beside: &[Exchanged]| contention::slower(&kernels(entries), self.roofline, taken_by(beside));
        piece.slower = [slower(&piece.forward, &[gather]), slower(&piece.backward, &back)];
        Ok(())
    }
}

/// Tokens go to experts and back while the layer computes the other direction for another micro-batch.
fn hide_tokens(piece: &mut Piece) {
    let computing = [piece.passes.backward.computing(), piece.passes.forward.computing()];
    for (entries, mut hides) in [&mut piece.forward, &mut piece.backward].into_iter().zip(computing) {
        for entry in entries.iter_mut().filter(|entry| matches!(entry.what, What::Together(Purpose::Expert, ..))) {
            let hidden = entry.exposed.min(hides);
            entry.exposed -= hidden;
            hides -= hidden;
        }
    }
    piece.sum();
}

fn exchanged<T: CommunicationTimes>(times: &mut T, operation: Operation, bytes: Bytes, group: Group) -> Result<Exchanged, T::Error> {
    Ok(Exchanged { operation, bytes, group, cost: times.cost(operation, bytes, group)? })
}

fn taken_by(list: &[Exchanged]) -> Taken {
    contention::taken_by(&list.iter().map(|each| (each.operation, each.bytes, each.group.size, each.cost)).collect::<Vec<_>>())
}

/// The kernels among entries.
fn kernels(entries: &[Entry]) -> Vec<Kernel> {
    let kernel = |entry: &Entry| if let What::Kernel(_, kernel) = entry.what { Some(kernel) } else { None };
    entries.iter().filter_map(kernel).collect()
}

/// A part with what its passes lose to gathering and scattering.
fn with_lost(content: PartContent, pieces: &Pieces, layout: &Layout) -> PartContent {
    if layout.sharding < Sharding::Parameters {
        return content;
    }
    let layers = |direction: usize| -> Vec<Gathered> {
        let of = |piece: &Piece| Gathered {
            computing: if direction == 0 { piece.passes.forward.total() } else { piece.passes.backward.total() },
            gather: piece.gather.map_or(Span::ZERO, |gather| gather.cost.span),
            scatter: if direction == 0 { Span::ZERO } else { piece.scatter.iter().map(|scatter| scatter.cost.span).sum() },
            slower: piece.slower[direction],
        };
        content.pieces(pieces).into_iter().flat_map(|(piece, count)| std::iter::repeat_n(of(piece), count as usize)).collect()
    };
    let mut back = layers(1);
    back.reverse();
    PartContent { forward: gathering::pass(&layers(0), layout.prefetch), backward: gathering::pass(&back, layout.prefetch), ..content }
}

/// What a stage sends to the next: each rank of the tensor group a part of it, which is gathered behind the network where nobody shares it
/// anyhow (Narayanan et al., §4.1).
fn message<T: CommunicationTimes>(model: &Transformer, layout: &Layout, times: &mut T) -> Result<Vec<Exchanged>, StepError<T::Error>> {
    if layout.pipeline == 1 {
        return Ok(Vec::new());
    }
    let tokens = u64::from(layout.micro_batch) * u64::from(model.sequence) / u64::from(layout.context);
    let whole = tokens * u64::from(model.hidden) * 2;
    let part = Bytes(whole / u64::from(layout.tensor));
    let mut sent = vec![exchanged(times, Operation::SendReceive, part, layout.pipeline_group()).map_err(StepError::Times)?];
    if layout.tensor > 1 && !layout.sequence_parallel {
        sent.push(exchanged(times, Operation::AllGather, Bytes(whole), layout.tensor_group()).map_err(StepError::Times)?);
    }
    Ok(sent)
}

fn breakdown((stage, line, costs): (u32, &StageLine, &Costs), copies: &Copies) -> Breakdown {
    let mut sum = Spans::default();
    let mut messages = Span::ZERO;
    for timed in &line.passes {
        let passes = &costs.of[stage as usize][timed.pass.part as usize];
        sum = sum.plus(if timed.pass.forward { passes.forward } else { passes.backward });
        messages += timed.sends;
    }
    let passed = line.end.since(Time::ZERO);
    let bubble = passed.saturating_sub(whole(&sum) + messages);
    Breakdown {
        matrix: sum.matrix,
        attention: sum.attention,
        memory: sum.memory,
        host: sum.host,
        tensor: sum.tensor,
        context: sum.context,
        expert: sum.expert,
        messages,
        bubble,
        data: sum.data + copies.exposed(),
        slowed: sum.slowed + copies.slowed,
        optimizer: copies.optimizer,
    }
}

/// What copies of the model exchange behind the passes, and the optimizer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copies {
    /// Gradients, one behind the other.
    pub gradients: Vec<Exchanged>,
    /// What of them hides behind the backward pass.
    pub gradients_hidden: Span,
    /// Parameters, where optimizers are shared.
    pub parameters: Vec<Exchanged>,
    /// What of them hides behind the forward pass.
    pub parameters_hidden: Span,
    /// What computing takes longer meanwhile.
    pub slowed: Span,
    /// The optimizer.
    pub optimizer: Span,
    /// Bytes of memory that it reads and writes.
    pub optimizer_bytes: Bytes,
}

impl Copies {
    /// What nothing hides.
    #[must_use]
    pub fn exposed(&self) -> Span {
        let sum = |list: &[Exchanged]| -> Span { list.iter().map(|exchanged| exchanged.cost.span).sum() };
        sum(&self.gradients).saturating_sub(self.gradients_hidden) + sum(&self.parameters).saturating_sub(self.parameters_hidden)
    }
    /// All that it adds behind the passes.
    #[must_use]
    pub fn behind(&self) -> Span {
        self.exposed() + self.slowed + self.optimizer
    }
}

fn copies<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
    (stage, line, pieces): (u32, &StageLine, &Pieces),
) -> Result<Copies, StepError<T::Error>> {
    let (common, experts) = memory::trained_of_stage(model, layout, stage);
    let at_end = stage == 0 || stage + 1 == layout.pipeline;
    let width = if layout.wide_gradients { 4 } else { 2 };
    let sharded = layout.sharding >= Sharding::Optimizer;
    let mut of_groups = Vec::new();
    if layout.sharding < Sharding::Parameters {
        of_groups.push((common, layout.data_group()));
    } else if layout.data_group().size > 1 && at_end {
        // Layers went by themselves; the embedding is gathered and scattered once.
        of_groups.push((shape::embedding_parameters(model) / u64::from(layout.tensor), layout.data_group()));
    }
    of_groups.push((experts, layout.expert_data_group()));
    let (mut gradients, mut parameters) = (Vec::new(), Vec::new());
    let mut ask = |operation, bytes, group| exchanged(times, operation, bytes, group).map_err(StepError::Times);
    for (count, all) in of_groups.into_iter().filter(|(parameters, group)| *parameters > 0 && group.size > 1) {
        let bytes = Bytes(width * count);
        if !sharded {
            gradients.push(ask(Operation::AllReduce, bytes, all)?);
            continue;
        }
        let (group, replicas) = (layout.shard_group(all), layout.replica_group(all));
        if group.size > 1 {
            gradients.push(ask(Operation::ReduceScatter, bytes, group)?);
            parameters.push(ask(Operation::AllGather, Bytes(2 * count), group)?);
        }
        if replicas.size > 1 {
            gradients.push(ask(Operation::AllReduce, Bytes(bytes.0.div_ceil(u64::from(group.size.max(1)))), replicas)?);
        }
    }
    if model.tied_embeddings && layout.adapters.is_none() && layout.pipeline > 1 && at_end {
        let bytes = Bytes(width * u64::from(model.vocabulary) * u64::from(model.hidden) / u64::from(layout.tensor));
        let pipeline = layout.pipeline_group();
        let ends = Group { size: 2, stride: pipeline.stride * (layout.pipeline - 1) };
        gradients.push(ask(Operation::AllReduce, bytes, ends)?);
    }
    let all = common + experts;
    let ranks = layout.shard_group(layout.data_group()).size.max(1);
    let own = if sharded { all.div_ceil(u64::from(ranks)) } else { all };
    let optimizer_bytes = Bytes((ADAM_BYTES + width) * own);
    let optimizer = roofline.stream(optimizer_bytes);
    let mut copies = Copies { gradients, parameters, optimizer, optimizer_bytes, ..Copies::default() };
    if layout.overlap_gradients {
        hide(&mut copies, model, layout, roofline, (line, pieces));
    }
    Ok(copies)
}

/// What of an exchange goes on while the first and the last micro-batch compute, and what these lose.
fn hide(copies: &mut Copies, model: &Transformer, layout: &Layout, roofline: &Roofline, (line, pieces): (&StageLine, &Pieces)) {
    let sum = |list: &[Exchanged]| -> Span { list.iter().map(|exchanged| exchanged.cost.span).sum() };
    let (exchanged, collected) = (sum(&copies.gradients), sum(&copies.parameters));
    // Gradients of the last micro-batch leave from its first layer on; parameters come while the first one goes forward.
    let last = line.passes.iter().find(|timed| !timed.pass.forward && timed.pass.batch + 1 == layout.micro_batches());
    let window = last.map_or(Span::ZERO, |timed| line.end.since(timed.from));
    let layers = u64::from(model.layers / layout.pipeline).max(1);
    // The gradient of the layer that is computed last leaves alone.
    let tail = exchanged / layers;
    copies.gradients_hidden = exchanged.saturating_sub(tail).min(window);
    let forward = line.passes.first().map_or(Span::ZERO, |timed| timed.to.since(timed.from));
    copies.parameters_hidden = collected.saturating_sub(collected / layers).min(forward);
    let piece = if pieces.expert.forward.is_empty() { &pieces.plain } else { &pieces.expert };
    let lost = |list: &[Exchanged], entries: &[Entry], hidden: Span| {
        if hidden == Span::ZERO {
            return Span::ZERO;
        }
        contention::lost(hidden, contention::slower(&kernels(entries), roofline, taken_by(list)))
    };
    copies.slowed = lost(&copies.gradients, &piece.backward, copies.gradients_hidden)
        + lost(&copies.parameters, &piece.forward, copies.parameters_hidden);
}

/// Bytes of a parameter that Adam reads and writes beside the gradient: master copy and two moments in 32 bits, there and back, and the
/// copy in 16 bits.
pub(crate) const ADAM_BYTES: u64 = 26;
