//! What the GPUs of each stage do in a step, operation by operation, and what each operation waits for.
//!
//! All GPUs of a stage do the same, each with its own neighbours and groups, so a step is as many lists as there are stages. Who knows the
//! cluster makes schedules, traces and programs of them.
//!
//! Source: as [`mod@crate::step`]: order of passes by [`pipeline::order`], kernels and operations by [`layer`], what copies exchange by
//! [`Layout::sharding`]; buckets of gradients of a layer each: Megatron-LM, megatron/core/distributed (40 million parameters by default).
//! Modelled: a stream of kernels, in which operations of groups stand that all kernels wait for; a stream of what copies exchange; sends that
//! kernels wait for or not ([`Layout::overlap_pipeline`]); parameters that come back while the first micro-batch goes forward, those of the step
//! before; gradients of weights put off as [`mod@crate::step`] does it.
//! Not modelled: kernels of the same stream beside each other. Waits for the host are at the end of each layer.

mod pieces;

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Span, Time};

use crate::layer::{self, Passes, Work};
use crate::layout::{Layout, Schedule, Sharding};
use crate::memory;
use crate::pipeline::{self, Pass, StageLine};
use crate::roofline::Roofline;
use crate::shape;
use crate::step::{self, Step, StepError};
use crate::times::{CommunicationTimes, Group, Operation};
use pieces::{Direction, Exchange, Maker, Piece};

/// What an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Kernels of passes, with what lies within nodes.
    Computing,
    /// Activations of tensor groups between nodes.
    Tensor,
    /// Keys and values between nodes.
    Context,
    /// Tokens to experts and back between nodes.
    Expert,
    /// Messages of the pipeline.
    Pipeline,
    /// Gradients and parameters of copies.
    Data,
    /// The optimizer.
    Optimizer,
}

/// Whom a message of the pipeline goes to or comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// The stage behind, of the last one the first.
    Next,
    /// The stage before.
    Previous,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Kernels.
    Compute(Span),
    /// An operation of all ranks of a group.
    Together(Operation, Bytes, Group),
    /// A message of the pipeline, with a number that no other between two stages has.
    Send(Neighbour, Bytes, u32),
    /// The other side of it.
    Receive(Neighbour, Bytes, u32),
}

/// An operation of a GPU of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub action: Action,
    /// What for.
    pub part: Use,
    /// Its stream: 0 are kernels, 1 is what copies exchange, 2 what goes beside kernels, 3 messages.
    pub stream: u32,
    /// Tasks of the list that have to have ended.
    pub after: Vec<u32>,
    /// What it belongs to, as `forward 3`.
    pub name: String,
}

/// The stream of kernels.
pub const KERNELS: u32 = 0;
/// The stream of what copies exchange.
const COPIES: u32 = 1;
/// What goes beside a kernel.
const BESIDE: u32 = 2;
/// Messages of the pipeline that kernels do not wait for, and what comes.
const MESSAGES: u32 = 3;

/// What the GPUs of each stage do in a step. `inside` says of which groups an operation is but a time, and counts as computing.
///
/// # Errors
/// A layout that does not fit, or what the cluster cannot do.
pub fn operations<T: CommunicationTimes>(
    model: &Transformer,
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
    inside: &dyn Fn(Group) -> bool,
) -> Result<Vec<Vec<Task>>, StepError<T::Error>> {
    let step = step::step(model, layout, roofline, times)?;
    let mut maker = Maker { layout, roofline, times, inside };
    let costs = Costs::of(model, &mut maker, &step).map_err(StepError::Times)?;
    let mut all = Vec::new();
    for (stage, line) in (0..).zip(&step.lines) {
        let copies = Copies::of(model, layout, stage, maker.times, roofline).map_err(StepError::Times)?;
        let mut of_stage = Stage { model, layout, roofline, costs: &costs, copies, stage, gathering: None, list: List::default() };
        of_stage.step(line);
        all.push(of_stage.list.tasks);
    }
    Ok(all)
}

/// Pieces of passes of a layer.
#[derive(Debug, Clone, Default)]
struct OfLayer {
    forward: Vec<Piece>,
    backward: Vec<Piece>,
    /// Gradients of weights that are put off.
    weights: Span,
    /// What gathering its parameters or scattering its gradients slows it by.
    gathered: Option<Gathered>,
}

/// A layer whose parameters are gathered.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    bytes: Bytes,
    slowed: [Span; 2],
}

/// Pieces of all that stages do.
struct Costs {
    plain: OfLayer,
    expert: OfLayer,
    first: OfLayer,
    last: OfLayer,
    /// What follows on a message within the node.
    collected: Span,
    message: Bytes,
}

impl Costs {
    fn of<T: CommunicationTimes>(model: &Transformer, maker: &mut Maker<'_, T>, step: &Step) -> Result<Costs, T::Error> {
        let layout = maker.layout;
        let layer = |maker: &mut Maker<'_, T>, with_experts: bool, passes: &Passes| {
            let (work, again) = (layer::forward(model, layout, with_experts), layer::again(model, layout, with_experts));
            let mut of = OfLayer::of(maker, &work, &again)?;
            for (pieces, wait) in [(&mut of.forward, passes.forward.host), (&mut of.backward, passes.backward.host)] {
                pieces.extend((wait > Span::ZERO).then_some(Piece::Compute(wait)));
            }
            if layout.sharding == Sharding::Parameters && layout.data_group().size > 1 {
                of.gathered = Some(gathered(model, maker, with_experts, &of)?);
            }
            Ok(of)
        };
        let plain = layer(maker, false, &step.pieces.plain.passes)?;
        let expert = if model.experts.is_some() { layer(maker, true, &step.pieces.expert.passes)? } else { OfLayer::default() };
        let (first, last) = layer::ends(model, layout);
        let (first, last) = (OfLayer::of(maker, &first, &[])?, OfLayer::of(maker, &last, &[])?);
        let tokens = u64::from(layout.micro_batch) * u64::from(model.sequence) / u64::from(layout.context);
        let whole = Bytes(tokens * u64::from(model.hidden) * 2);
        let shared = layout.tensor > 1 && !layout.sequence_parallel && layout.pipeline > 1;
        let collected = if shared { maker.times.time(Operation::AllGather, whole, layout.tensor_group())? } else { Span::ZERO };
        Ok(Costs { plain, expert, first, last, collected, message: Bytes(whole.0 / u64::from(layout.tensor)) })
    }
}

impl OfLayer {
    fn of<T: CommunicationTimes>(maker: &mut Maker<'_, T>, work: &[Work], again: &[Work]) -> Result<OfLayer, T::Error> {
        let put_off = maker.layout.schedule == Schedule::ZeroBubble;
        let forward = maker.pieces(work, Direction::Forward)?;
        let mut backward = maker.pieces(again, Direction::Forward)?;
        backward.extend(maker.pieces(work, Direction::Backward { weights: !put_off })?);
        let weights = if put_off { maker.weights(work) } else { Span::ZERO };
        Ok(OfLayer { forward, backward, weights, gathered: None })
    }
    fn computing(pieces: &[Piece]) -> Span {
        let of = |piece: &Piece| match piece {
            Piece::Compute(span) | Piece::Beside(span, _) => *span,
            Piece::Together(_) => Span::ZERO,
        };
        pieces.iter().map(of).sum()
    }
}

fn gathered<T: CommunicationTimes>(
    model: &Transformer,
    maker: &mut Maker<'_, T>,
    with_experts: bool,
    of: &OfLayer,
) -> Result<Gathered, T::Error> {
    let layout = maker.layout;
    let bytes = Bytes(2 * shape::layer_parameters(model, with_experts) / u64::from(layout.tensor));
    let group = layout.data_group();
    let gather = maker.times.time(Operation::AllGather, bytes, group)?;
    let scatter = maker.times.time(Operation::ReduceScatter, bytes, group)?;
    let taken = maker.times.processors(Operation::AllGather, bytes, group)?;
    let slowed = |pieces: &[Piece], moved: Span| maker.roofline.slowed(moved.min(OfLayer::computing(pieces)), taken);
    Ok(Gathered { bytes, slowed: [slowed(&of.forward, gather), slowed(&of.backward, gather + scatter)] })
}

/// What copies exchange of a stage, and its optimizer.
struct Copies {
    /// Of a layer: the bytes of gradients, those of parameters, the group.
    layers: Vec<(Bytes, Bytes, Group)>,
    /// Of embeddings.
    embedding: Option<(Bytes, Bytes, Group)>,
    /// The sum of the embedding's two copies.
    tied: Option<(Bytes, Group)>,
    optimizer: Span,
    /// Processors that are taken from kernels meanwhile.
    taken: u32,
    /// How long parameters and gradients of a layer take.
    moved: [Span; 2],
}

impl Copies {
    fn of<T: CommunicationTimes>(
        model: &Transformer,
        layout: &Layout,
        stage: u32,
        times: &mut T,
        roofline: &Roofline,
    ) -> Result<Copies, T::Error> {
        let (common, experts) = memory::trained_of_stage(model, layout, stage);
        let at_end = stage == 0 || stage + 1 == layout.pipeline;
        let ends = if layout.adapters.is_some() { 0 } else { memory::ends_of_stage(model, layout, stage) };
        let embedding = ends / u64::from(layout.tensor);
        let width = if layout.wide_gradients { 4 } else { 2 };
        let bytes = |parameters: u64, group: Group| (Bytes(width * parameters), Bytes(2 * parameters), group);
        let parts = layout.layers_of_parts(model);
        let layers = (0..layout.interleave).map(|part| u64::from(parts[(part * layout.pipeline + stage) as usize])).sum::<u64>().max(1);
        let of_ends = if at_end { embedding } else { 0 };
        let mut exchanged = Vec::new();
        if layout.sharding < Sharding::Parameters && layout.data_group().size > 1 {
            exchanged.push(bytes(common.saturating_sub(of_ends) / layers, layout.data_group()));
        }
        if experts > 0 && layout.expert_data_group().size > 1 {
            exchanged.push(bytes(experts / layers, layout.expert_data_group()));
        }
        let pipeline = layout.pipeline_group();
        let ends = Group { size: 2, stride: pipeline.stride * (layout.pipeline - 1) };
        let words = u64::from(model.vocabulary) * u64::from(model.hidden) / u64::from(layout.tensor);
        let tied =
            (model.tied_embeddings && layout.adapters.is_none() && layout.pipeline > 1 && at_end).then_some((Bytes(width * words), ends));
        let parameters = common + experts;
        let sharded = layout.sharding >= Sharding::Optimizer;
        let own = if sharded { parameters.div_ceil(u64::from(layout.data_group().size.max(1))) } else { parameters };
        let mut taken = 0;
        let mut moved = [Span::ZERO; 2];
        for (gradients, parameters, group) in &exchanged {
            let operation = if sharded { Operation::ReduceScatter } else { Operation::AllReduce };
            taken = taken.max(times.processors(operation, *gradients, *group)?);
            moved[0] += times.time(Operation::AllGather, *parameters, *group)?;
            moved[1] += times.time(operation, *gradients, *group)?;
        }
        Ok(Copies {
            layers: exchanged,
            embedding: (at_end && layout.data_group().size > 1).then(|| bytes(embedding, layout.data_group())),
            tied,
            optimizer: roofline.stream(Bytes((step::ADAM_BYTES + width) * own)),
            taken,
            moved,
        })
    }
}

/// Tasks so far, and the last of each stream.
#[derive(Default)]
struct List {
    tasks: Vec<Task>,
    last: [Option<u32>; 4],
}

impl List {
    /// Adds a task behind the last of its stream.
    fn push(&mut self, stream: u32, (part, action): (Use, Action), after: &[u32], name: &str) -> u32 {
        let number = self.tasks.len() as u32;
        let before = if matches!(action, Action::Receive(..)) { None } else { self.last[stream as usize] };
        let mut all: Vec<u32> = before.into_iter().chain(after.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        if !matches!(action, Action::Receive(..)) {
            self.last[stream as usize] = Some(number);
        }
        self.tasks.push(Task { action, part, stream, after: all, name: name.to_owned() });
        number
    }
}

/// A stage whose list is being made.
struct Stage<'a> {
    model: &'a Transformer,
    layout: &'a Layout,
    roofline: &'a Roofline,
    costs: &'a Costs,
    copies: Copies,
    stage: u32,
    /// The gathering of the next layer's parameters, where that has begun.
    gathering: Option<u32>,
    list: List,
}

/// A pass that is being made: kernels that are not in the list yet, and what the next of them waits for.
#[derive(Default)]
struct Open {
    span: Span,
    after: Vec<u32>,
    name: String,
}

impl<'a> Stage<'a> {
    fn step(&mut self, line: &StageLine) {
        let passes = pipeline::order(self.layout, self.stage);
        let ahead = self.parameters_ahead();
        let mut waiting = Span::ZERO;
        let mut ended = Time::ZERO;
        for (number, pass) in passes.iter().enumerate() {
            // What was put off fills the wait that the time line has here.
            let timed = line.passes.get(number);
            let filled = timed.map_or(Span::ZERO, |timed| timed.from.since(ended).min(waiting));
            if filled > Span::ZERO {
                waiting -= filled;
                self.list.push(KERNELS, (Use::Computing, Action::Compute(filled)), &[], "gradients of weights");
            }
            ended = timed.map_or(ended, |timed| timed.to + timed.sends);
            waiting += self.pass(*pass, passes.get(number + 1), &ahead);
        }
        if waiting > Span::ZERO {
            self.list.push(KERNELS, (Use::Computing, Action::Compute(waiting)), &[], "gradients of weights");
        }
        self.end();
    }

    fn part(&self, pass: Pass) -> u32 {
        pass.part * self.layout.pipeline + self.stage
    }

    /// Layers of a part, and of them the ones with experts behind the others.
    fn layers(&self, part: u32) -> Vec<&'a OfLayer> {
        let costs = self.costs;
        let parts = self.layout.layers_of_parts(self.model);
        let dense = self.model.layers - shape::expert_layers(self.model) as u32;
        let from: u32 = parts[..part as usize].iter().sum();
        (from..from + parts[part as usize]).map(|layer| if layer < dense { &costs.plain } else { &costs.expert }).collect()
    }

    /// Parameters that come back while the first micro-batch goes forward, layer by layer of each part: the tasks that bring them.
    fn parameters_ahead(&mut self) -> Vec<Vec<Vec<u32>>> {
        let layout = self.layout;
        let brought = (Sharding::Optimizer..Sharding::Parameters).contains(&layout.sharding) && layout.overlap_gradients;
        let mut ahead = Vec::new();
        for part in 0..layout.interleave {
            let count = self.layers(part * layout.pipeline + self.stage).len();
            let mut of_part = vec![Vec::new(); count.max(1)];
            if brought {
                let embedding = self.copies.embedding.filter(|_| part == 0);
                for (number, of_layer) in of_part.iter_mut().enumerate() {
                    let first = embedding.filter(|_| number == 0).into_iter();
                    for (_, bytes, group) in first.chain(self.copies.layers.iter().copied()) {
                        let action = Action::Together(Operation::AllGather, bytes, group);
                        of_layer.push(self.list.push(COPIES, (Use::Data, action), &[], "parameters"));
                    }
                }
            }
            ahead.push(of_part);
        }
        ahead
    }

    /// Adds a pass; gives what of it is put off.
    fn pass(&mut self, pass: Pass, next: Option<&Pass>, ahead: &[Vec<Vec<u32>>]) -> Span {
        let (layout, costs, part) = (self.layout, self.costs, self.part(pass));
        let (stages, whole) = (layout.pipeline, layout.pipeline * layout.interleave);
        let name = format!("{} {}", if pass.forward { "forward" } else { "backward" }, pass.batch);
        let number = |forward: bool, part: u32| (u32::from(forward) * whole + part) * layout.micro_batches() + pass.batch;
        let mut open = Open { name: name.clone(), ..Open::default() };
        let comes = if pass.forward { part > 0 } else { part + 1 < whole };
        if comes && stages > 1 {
            let from = if pass.forward { Neighbour::Previous } else { Neighbour::Next };
            let action = Action::Receive(from, self.costs.message, number(pass.forward, part));
            open.after.push(self.list.push(MESSAGES, (Use::Pipeline, action), &[], &name));
            open.span += self.costs.collected;
        }
        let layers = self.layers(part);
        let mut later = Span::ZERO;
        if pass.forward {
            if part == 0 {
                self.pieces(&mut open, &costs.first.forward);
            }
            for (number, of) in layers.iter().enumerate() {
                let parameters = ahead[pass.part as usize].get(number).filter(|tasks| pass.batch == 0 && !tasks.is_empty());
                let waits = parameters.cloned().unwrap_or_default();
                let slowed = waits.first().map_or(Span::ZERO, |_| self.copies.moved[0]);
                self.layer(&mut open, (of, layers.get(number + 1).copied()), pass, (&waits, slowed));
            }
            if part + 1 == whole {
                self.pieces(&mut open, &costs.last.forward);
            }
        } else {
            let leaves = layout.overlap_gradients && pass.batch + 1 == layout.micro_batches();
            if part + 1 == whole {
                self.pieces(&mut open, &costs.last.backward);
                later += self.costs.last.weights;
            }
            let slowed = if leaves { self.copies.moved[1] } else { Span::ZERO };
            for (number, of) in layers.iter().enumerate().rev() {
                let next = number.checked_sub(1).map(|next| layers[next]);
                self.layer(&mut open, (of, next), pass, (&[], slowed));
                later += of.weights;
                if leaves {
                    self.gradients(&mut open, None);
                }
            }
            if part == 0 {
                self.pieces(&mut open, &costs.first.backward);
                later += self.costs.first.weights;
            }
            if leaves && (part == 0 || part + 1 == whole) {
                // The embedding's gradients are whole when the last pass of the stage is over.
                let last = next.is_none();
                self.gradients(&mut open, self.copies.embedding.filter(|_| last));
            }
        }
        self.flush(&mut open);
        let goes = if pass.forward { (part + 1 < whole).then(|| part + 1) } else { part.checked_sub(1) };
        if let Some(to) = goes.filter(|_| stages > 1) {
            let neighbour = if pass.forward { Neighbour::Next } else { Neighbour::Previous };
            let action = Action::Send(neighbour, self.costs.message, number(pass.forward, to));
            let stream = if layout.overlap_pipeline { MESSAGES } else { KERNELS };
            let after: Vec<u32> = self.list.last[KERNELS as usize].into_iter().collect();
            self.list.push(stream, (Use::Pipeline, action), &after, &name);
        }
        later
    }

    /// A layer of a pass, with its parameters gathered before and its gradients scattered behind where they are shared. It waits for `waits`,
    /// and something that takes as long as `beside` has some of the processors meanwhile.
    fn layer(&mut self, open: &mut Open, (of, next): (&OfLayer, Option<&OfLayer>), pass: Pass, (waits, beside): (&[u32], Span)) {
        let group = self.layout.data_group();
        let mut held = waits.to_vec();
        held.extend(self.gathering.take().or_else(|| of.gathered.map(|gathered| self.gather(gathered, &open.name))));
        // What was computed before does not wait for these.
        if !held.is_empty() {
            self.flush(open);
            open.after.extend(held);
        }
        // A layer ahead: the next one's parameters come while this one runs.
        self.gathering = next.and_then(|next| next.gathered).map(|gathered| self.gather(gathered, &open.name));
        let pieces = if pass.forward { &of.forward } else { &of.backward };
        self.pieces(open, pieces);
        if let Some(gathered) = of.gathered {
            open.span += gathered.slowed[usize::from(!pass.forward)];
            if !pass.forward {
                let after = self.flush(open);
                let action = Action::Together(Operation::ReduceScatter, gathered.bytes, group);
                self.list.push(COPIES, (Use::Data, action), &after, &open.name);
            }
        } else {
            open.span += self.roofline.slowed(beside.min(OfLayer::computing(pieces)), self.copies.taken);
        }
    }

    /// Gathers the parameters of a layer when the kernels so far have ended.
    fn gather(&mut self, gathered: Gathered, name: &str) -> u32 {
        let after: Vec<u32> = self.list.last[KERNELS as usize].into_iter().collect();
        let action = Action::Together(Operation::AllGather, gathered.bytes, self.layout.data_group());
        self.list.push(COPIES, (Use::Data, action), &after, name)
    }

    /// Gradients of a layer, or of embeddings, leave.
    fn gradients(&mut self, open: &mut Open, embedding: Option<(Bytes, Bytes, Group)>) {
        let all = match embedding {
            Some(embedding) => vec![embedding],
            None if self.copies.layers.is_empty() => return,
            None => self.copies.layers.clone(),
        };
        let after = self.flush(open);
        let operation = if self.layout.sharding >= Sharding::Optimizer { Operation::ReduceScatter } else { Operation::AllReduce };
        for (bytes, _, group) in all {
            let action = Action::Together(operation, bytes, group);
            self.list.push(COPIES, (Use::Data, action), &after, &open.name);
        }
    }

    /// Adds the pieces of a pass.
    fn pieces(&mut self, open: &mut Open, pieces: &[Piece]) {
        let together = |exchange: &Exchange| (exchange.part, Action::Together(exchange.operation, exchange.bytes, exchange.group));
        for piece in pieces {
            match piece {
                Piece::Compute(span) => open.span += *span,
                Piece::Together(exchange) => {
                    self.flush(open);
                    let after = std::mem::take(&mut open.after);
                    self.list.push(KERNELS, together(exchange), &after, &open.name);
                }
                Piece::Beside(span, exchange) => {
                    let after = self.flush(open);
                    let moved = self.list.push(BESIDE, together(exchange), &after, &open.name);
                    open.span += *span;
                    self.flush(open);
                    open.after.push(moved);
                }
            }
        }
    }

    /// Puts what was computed into the list; gives what has to have ended then.
    fn flush(&mut self, open: &mut Open) -> Vec<u32> {
        if open.span > Span::ZERO {
            let after = std::mem::take(&mut open.after);
            let span = std::mem::take(&mut open.span);
            self.list.push(KERNELS, (Use::Computing, Action::Compute(span)), &after, &open.name);
        }
        self.list.last[KERNELS as usize].into_iter().chain(open.after.iter().copied()).collect()
    }

    /// What comes behind all passes.
    fn end(&mut self) {
        let layout = self.layout;
        let sharded = layout.sharding >= Sharding::Optimizer;
        let layers: u32 = (0..layout.interleave).map(|part| self.layers(part * layout.pipeline + self.stage).len() as u32).sum();
        let after: Vec<u32> = self.list.last[KERNELS as usize].into_iter().collect();
        let all = |own: (Bytes, Bytes, Group)| (own.0 * u64::from(layers.max(1)), own.1 * u64::from(layers.max(1)), own.2);
        let whole: Vec<_> = self.copies.layers.iter().copied().map(all).chain(self.copies.embedding).collect();
        if !layout.overlap_gradients {
            let operation = if sharded { Operation::ReduceScatter } else { Operation::AllReduce };
            for (bytes, _, group) in whole.iter().copied().filter(|(bytes, ..)| *bytes > Bytes::ZERO) {
                self.list.push(COPIES, (Use::Data, Action::Together(operation, bytes, group)), &after, "gradients");
            }
        }
        if let Some((bytes, group)) = self.copies.tied {
            self.list.push(COPIES, (Use::Data, Action::Together(Operation::AllReduce, bytes, group)), &after, "tied embeddings");
        }
        let after: Vec<u32> = self.list.last[COPIES as usize].into_iter().collect();
        self.list.push(KERNELS, (Use::Optimizer, Action::Compute(self.copies.optimizer)), &after, "optimizer");
        let after: Vec<u32> = self.list.last[KERNELS as usize].into_iter().collect();
        let back = sharded && layout.sharding < Sharding::Parameters && !layout.overlap_gradients;
        for (_, bytes, group) in whole.into_iter().filter(|(_, bytes, _)| back && *bytes > Bytes::ZERO) {
            self.list.push(COPIES, (Use::Data, Action::Together(Operation::AllGather, bytes, group)), &after, "parameters");
        }
    }
}
