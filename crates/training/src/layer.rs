//! What a GPU does for a layer and a micro-batch: its kernels and the operations of its groups, forward and backward.
//!
//! Source: Narayanan et al., SC 2021, §2.3 (tensor parallelism: two all-reduces a layer and pass); Korthikanti et al., §4 (sequence
//! parallelism: all-gather and reduce-scatter in their place), §5 (recomputation); DeepSeek-V2 (arXiv 2405.04434) for latent attention;
//! Liu et al., "Ring Attention" (arXiv 2310.01889).
//! Modelled: multiplications with both gradients, narrowing to 8 bits, attention fused or through memory, norms, activations, dropout and residuals as bytes
//! of memory, routing to experts with all of them taking the same number of tokens.
//! Not modelled: tokens dropped or unevenly routed.

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Span};

use crate::layout::{Attention, Dispatcher, Layout, Precision, Recompute};
use crate::roofline::{Kernel, Roofline};
use crate::shape;
use crate::times::{CommunicationTimes, Group, Operation};

/// What a piece of work belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Activations of a tensor group.
    Tensor,
    /// Keys and values that go round among those who share a sequence.
    Context,
    /// Tokens to experts and back.
    Expert,
}

/// One piece of work of the forward pass; the backward pass is made from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// A multiplication.
    Matrix(Kernel),
    /// One by a matrix that is trained while all others are not.
    Adapter(Kernel),
    /// Attention in one kernel.
    Attention(Kernel),
    /// Bytes of memory: in the forward pass, in the backward pass.
    Memory(u64, u64),
    /// An operation of a group.
    Together(Purpose, Operation, Bytes),
}

/// Spans of a direction, by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spans {
    /// Multiplications.
    pub matrix: Span,
    /// Those of them that give the gradients of weights.
    pub weights: Span,
    /// Attention in one kernel.
    pub attention: Span,
    /// Kernels that stream through memory.
    pub memory: Span,
    /// Operations of tensor groups.
    pub tensor: Span,
    /// Keys and values, as far as attention does not hide them.
    pub context: Span,
    /// Tokens to experts and back.
    pub expert: Span,
    /// The host has not launched the next kernel yet.
    pub host: Span,
    /// Parameters that are gathered and gradients that are scattered, as far as nothing hides them.
    pub data: Span,
    /// What computing takes longer meanwhile.
    pub slowed: Span,
}

impl Spans {
    /// All of it but `data` and `slowed`, one behind the other.
    #[must_use]
    pub fn total(&self) -> Span {
        self.computing() + self.tensor + self.context + self.expert + self.host
    }
    /// What kernels compute.
    #[must_use]
    pub fn computing(&self) -> Span {
        self.matrix + self.attention + self.memory
    }
    /// The same `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Spans {
        self.each(Spans::default(), |own, _| own * count)
    }
    /// Both.
    #[must_use]
    pub fn plus(self, other: Spans) -> Spans {
        self.each(other, |own, other| own + other)
    }
    fn each(self, other: Spans, join: impl Fn(Span, Span) -> Span) -> Spans {
        Spans {
            matrix: join(self.matrix, other.matrix),
            weights: join(self.weights, other.weights),
            attention: join(self.attention, other.attention),
            memory: join(self.memory, other.memory),
            tensor: join(self.tensor, other.tensor),
            context: join(self.context, other.context),
            expert: join(self.expert, other.expert),
            host: join(self.host, other.host),
            data: join(self.data, other.data),
            slowed: join(self.slowed, other.slowed),
        }
    }
}

/// Forward and backward of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passes {
    /// The forward pass.
    pub forward: Spans,
    /// The backward pass, with what is computed again.
    pub backward: Spans,
}

impl Passes {
    /// The same `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Passes {
        Passes { forward: self.forward.times(count), backward: self.backward.times(count) }
    }
    /// Both.
    #[must_use]
    pub fn plus(self, other: Passes) -> Passes {
        Passes { forward: self.forward.plus(other.forward), backward: self.backward.plus(other.backward) }
    }
}

/// A micro-batch as a rank sees it.
struct Tokens {
    /// Tokens of the tensor group.
    all: u64,
    /// Those of which the rank keeps norms and residuals.
    own: u64,
    /// Tokens that a token attends to.
    keys: u64,
    sequences: u64,
}

impl Tokens {
    fn of(model: &Transformer, layout: &Layout) -> Tokens {
        let (sequences, keys) = (u64::from(layout.micro_batch), u64::from(model.sequence));
        let all = sequences * keys / u64::from(layout.context);
        let own = if layout.sequence_parallel { all / u64::from(layout.tensor) } else { all };
        Tokens { all, own: own.max(1), keys, sequences }
    }
}

/// A layer in the order of its forward pass, in the modules that frameworks capture as graphs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Modules {
    /// The norm before attention, attention, and the sum with the residual.
    pub attention: Vec<Work>,
    /// The norm behind it; feed-forward matrices, or the router, shared experts, and tokens in the order of their experts.
    pub second: Vec<Work>,
    /// Tokens to experts, these, and back; nothing in a layer without experts.
    pub experts: Vec<Work>,
}

impl Modules {
    /// All of it, in order.
    #[must_use]
    pub fn work(&self) -> Vec<Work> {
        [&self.attention[..], &self.second, &self.experts].concat()
    }
}

/// The forward pass of a layer, with experts or without.
#[must_use]
pub fn forward(model: &Transformer, layout: &Layout, with_experts: bool) -> Vec<Work> {
    modules(model, layout, with_experts).work()
}

/// The same by modules.
#[must_use]
pub fn modules(model: &Transformer, layout: &Layout, with_experts: bool) -> Modules {
    let tokens = Tokens::of(model, layout);
    let mut work = Vec::new();
    norm(model, layout, &tokens, true, &mut work);
    attention(model, layout, &tokens, &mut work);
    leave(model, layout, &tokens, true, &mut work);
    let first = std::mem::take(&mut work);
    let mut routed = None;
    // Experts that are whole at a GPU take its own tokens; shared ones do not.
    let whole = with_experts && layout.tensor_of_experts() == 1 && layout.sequence_parallel;
    let gathers = !(whole && model.experts.is_some_and(|experts| experts.shared == 0));
    norm(model, layout, &tokens, gathers, &mut work);
    match model.experts.filter(|_| with_experts) {
        None => feed_forward(model, layout, &tokens, u64::from(model.feed_forward), &mut work),
        Some(experts) => {
            if experts.shared > 0 {
                feed_forward(model, layout, &tokens, u64::from(experts.shared) * u64::from(experts.feed_forward), &mut work);
            }
            routed = Some(expert_layer(model, layout, &tokens, &mut work));
        }
    }
    leave(model, layout, &tokens, gathers, &mut work);
    let experts = routed.map_or_else(Vec::new, |from| work.split_off(from));
    Modules { attention: first, second: work, experts }
}

/// Who makes the input of a multiplication: a kernel that writes it as narrow as the multiplication reads it, or one that does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// A norm, which writes 8 bits at once.
    Narrowed,
    /// Anything else.
    Wide,
}

/// `batch` multiplications of m × k by k × n, with what narrows their operands: input and gradient of the output are read in 16 bits and written
/// twice in 8, as they are and transposed, for the multiplications of 8 bits sum along rows only.
///
/// Source: NVIDIA, Transformer Engine's documentation, "Using FP8 with Transformer Engine" (transposes for the backward pass).
/// Not modelled: a pass before it that finds the largest element, where scales are not those of the step before.
fn multiply([batch, m, n, k]: [u64; 4], precision: Precision, input: Input, work: &mut Vec<Work>) {
    let product = Work::Matrix(Kernel::Matrix { m, n, k, batch, precision });
    // A multiplication stays beside the operation of a group that brings its input or takes its output.
    match (precision, input) {
        (Precision::Bits16 | Precision::Bits32, _) => work.push(product),
        (Precision::Bits8, Input::Wide) => work.extend([Work::Memory(batch * m * k * (WIDTH + 2), batch * m * n * (WIDTH + 2)), product]),
        (Precision::Bits8, Input::Narrowed) => work.extend([product, Work::Memory(0, batch * m * n * (WIDTH + 2))]),
    }
}

/// Bytes of an activation.
const WIDTH: u64 = 2;

/// A norm, and all tokens of the tensor group behind it.
fn norm(model: &Transformer, layout: &Layout, tokens: &Tokens, gathers: bool, work: &mut Vec<Work>) {
    let (own, hidden) = (tokens.own, u64::from(model.hidden));
    // Read and written; backward the input, its gradient and that of the residual.
    work.push(Work::Memory(own * hidden * 2 * WIDTH, own * hidden * 4 * WIDTH));
    if layout.sequence_parallel && layout.tensor > 1 && gathers {
        work.push(Work::Together(Purpose::Tensor, Operation::AllGather, Bytes(tokens.all * hidden * WIDTH)));
    }
}

/// The sum over the tensor group, bias, dropout and residual.
fn leave(model: &Transformer, layout: &Layout, tokens: &Tokens, sums: bool, work: &mut Vec<Work>) {
    let (own, hidden) = (tokens.own, u64::from(model.hidden));
    if layout.tensor > 1 && sums {
        let operation = if layout.sequence_parallel { Operation::ReduceScatter } else { Operation::AllReduce };
        work.push(Work::Together(Purpose::Tensor, operation, Bytes(tokens.all * hidden * WIDTH)));
    }
    // Input, residual, output and a byte of mask; backward gradient, mask, gradient.
    work.push(Work::Memory(own * hidden * (3 * WIDTH + 1), own * hidden * (2 * WIDTH + 1)));
}

fn attention(model: &Transformer, layout: &Layout, tokens: &Tokens, work: &mut Vec<Work>) {
    let (all, hidden, tensor) = (tokens.all, u64::from(model.hidden), u64::from(layout.tensor));
    let (heads, precision) = (u64::from(model.heads) / tensor, layout.precision);
    let (query_key, value) = shape::query_key_and_value(model);
    let kv_bytes = match model.latent {
        Some(latent) => {
            let [query_rank, kv_rank, content, rotary, value] =
                [latent.query_rank, latent.kv_rank, latent.content, latent.rotary, latent.value].map(u64::from);
            if query_rank > 0 {
                multiply([1, all, query_rank, hidden], precision, Input::Narrowed, work);
            }
            let from = if query_rank > 0 { query_rank } else { hidden };
            multiply([1, all, heads * (content + rotary), from], precision, Input::Narrowed, work);
            multiply([1, all, kv_rank + rotary, hidden], precision, Input::Narrowed, work);
            multiply([1, all, heads * (content + value), kv_rank], precision, Input::Narrowed, work);
            heads * (content + rotary + value) * WIDTH
        }
        None => {
            let (head, kv) = (shape::head_size(model), shape::kv_heads(model).div_ceil(tensor));
            multiply([1, all, (heads + 2 * kv) * head, hidden], precision, Input::Narrowed, work);
            beside_product(layout, [all, (heads + 2 * kv) * head, hidden], work);
            2 * kv * head * WIDTH
        }
    };
    let context = u64::from(layout.context);
    match layout.attention {
        Attention::Fused | Attention::Latest => {
            // A token attends to those before it: half of the scores.
            let operations = (all * tokens.keys * heads * (query_key + value)) as f64;
            let bytes = all * heads * (query_key + 2 * value) * WIDTH + all * context * kv_bytes;
            work.push(Work::Attention(Kernel::Attention { latest: layout.attention == Attention::Latest, operations, bytes }));
        }
        Attention::Unfused => {
            work.extend(core(tokens, heads, (query_key, value)));
        }
    }
    if context > 1 {
        work.push(Work::Together(Purpose::Context, Operation::SendReceive, Bytes((context - 1) * all * kv_bytes)));
    }
    beside_product(layout, [all, hidden, heads * value], work);
    multiply([1, all, hidden, heads * value], precision, Input::Wide, work);
}

/// The adapters beside a product of m × k by k × n.
fn beside_product(layout: &Layout, [m, n, k]: [u64; 3], work: &mut Vec<Work>) {
    if let Some(rank) = layout.adapters.map(u64::from) {
        let product = |n, k| Work::Adapter(Kernel::Matrix { m, n, k, batch: 1, precision: Precision::Bits16 });
        work.extend([product(rank, k), product(n, rank)]);
    }
}

/// The core of attention through memory: scores, softmax, dropout, and the sum of values.
fn core(tokens: &Tokens, heads: u64, (query_key, value): (u64, u64)) -> [Work; 4] {
    let (batch, rows) = (tokens.sequences * heads, tokens.all / tokens.sequences);
    let scores = batch * rows * tokens.keys;
    let precision = Precision::Bits16;
    [
        Work::Matrix(Kernel::Matrix { m: rows, n: tokens.keys, k: query_key, batch, precision }),
        // Softmax with scale and mask, then dropout with a byte of mask.
        Work::Memory(scores * 2 * WIDTH, scores * 3 * WIDTH),
        Work::Memory(scores * (2 * WIDTH + 1), scores * (2 * WIDTH + 1)),
        Work::Matrix(Kernel::Matrix { m: rows, n: value, k: tokens.keys, batch, precision }),
    ]
}

/// What of a layer is computed a second time in the backward pass.
#[must_use]
pub fn again(model: &Transformer, layout: &Layout, with_experts: bool) -> Vec<Work> {
    match (layout.recompute, layout.attention) {
        (Recompute::Full, _) => forward(model, layout, with_experts),
        (Recompute::Selective, Attention::Unfused) => {
            let heads = u64::from(model.heads / layout.tensor);
            core(&Tokens::of(model, layout), heads, shape::query_key_and_value(model)).to_vec()
        }
        // Fused attention computes its scores again by itself.
        _ => Vec::new(),
    }
}

fn feed_forward(model: &Transformer, layout: &Layout, tokens: &Tokens, inside: u64, work: &mut Vec<Work>) {
    let (all, hidden, inside) = (tokens.all, u64::from(model.hidden), inside / u64::from(layout.tensor));
    let first = shape::matrices(model) - 1;
    multiply([1, all, first * inside, hidden], layout.precision, Input::Narrowed, work);
    work.push(Work::Memory(all * inside * (first + 1) * WIDTH, all * inside * (2 * first + 1) * WIDTH));
    multiply([1, all, hidden, inside], layout.precision, Input::Wide, work);
}

/// Adds the router and the experts; gives where the tokens leave for these.
fn expert_layer(model: &Transformer, layout: &Layout, tokens: &Tokens, work: &mut Vec<Work>) -> usize {
    let Some(experts) = model.experts else { return work.len() };
    let (hidden, group) = (u64::from(model.hidden), u64::from(layout.expert));
    let [count, per_token, inside] = [experts.count, experts.per_token, experts.feed_forward].map(u64::from);
    multiply([1, tokens.own, count, hidden], Precision::Bits16, Input::Wide, work);
    let copies = tokens.own * per_token;
    let bytes = copies * hidden * WIDTH;
    let exchange = match layout.dispatcher {
        Dispatcher::AllToAll => Operation::AllToAll,
        Dispatcher::Flex => Operation::Tokens { experts: experts.count, per_token: experts.per_token },
    };
    // Tokens are put in the order of their experts.
    work.push(Work::Memory(2 * bytes, 2 * bytes));
    let routed = work.len();
    if group > 1 {
        work.push(Work::Together(Purpose::Expert, exchange, Bytes(bytes)));
    }
    let (local, first) = (count / group, shape::matrices(model) - 1);
    // As many come from the others of the group as go to them; those who share an expert gather theirs.
    let tensor = u64::from(layout.tensor_of_experts());
    let gathered = if layout.sequence_parallel { tensor } else { 1 };
    let each = (copies * gathered / local.max(1)).max(1);
    let inside = (inside / tensor).max(1);
    multiply([local, each, first * inside, hidden], layout.precision, Input::Wide, work);
    work.push(Work::Memory(each * local * inside * (first + 1) * WIDTH, each * local * inside * (2 * first + 1) * WIDTH));
    multiply([local, each, hidden, inside], layout.precision, Input::Wide, work);
    if group > 1 {
        work.push(Work::Together(Purpose::Expert, exchange, Bytes(bytes)));
    }
    work.push(Work::Memory(2 * bytes, 2 * bytes));
    routed
}

/// What the first and the last part of the pipeline do besides.
#[must_use]
pub fn ends(model: &Transformer, layout: &Layout) -> (Vec<Work>, Vec<Work>) {
    let tokens = Tokens::of(model, layout);
    let (all, hidden, tensor) = (tokens.all, u64::from(model.hidden), u64::from(layout.tensor));
    let mut first = vec![Work::Memory(tokens.own * hidden * 3 * WIDTH, tokens.own * hidden * 3 * WIDTH)];
    let mut last = Vec::new();
    norm(model, layout, &tokens, true, &mut last);
    let words = u64::from(model.vocabulary).div_ceil(tensor);
    multiply([1, all, words, hidden], Precision::Bits16, Input::Wide, &mut last);
    last.push(Work::Memory(all * words * LOSS_BYTES.0, all * words * LOSS_BYTES.1));
    if tensor > 1 {
        first.push(Work::Together(Purpose::Tensor, Operation::AllReduce, Bytes(all * hidden * WIDTH)));
        last.push(Work::Together(Purpose::Tensor, Operation::AllReduce, Bytes(3 * all * 4)));
    }
    (first, last)
}

/// Bytes of a score that the loss moves, forward and backward: to 32 bits (6), maximum (4), difference (8), exponential (8), sum (4), quotient
/// (8); the gradient in place (8) and to 16 bits (6).
///
/// Source: Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py, a kernel for each operation.
const LOSS_BYTES: (u64, u64) = (38, 14);

/// Kernels and operations of work in both directions, each in the order in which they run, with their times.
///
/// # Errors
/// What the cluster cannot do.
pub fn entries<T: CommunicationTimes>(
    work: &[Work],
    layout: &Layout,
    roofline: &Roofline,
    times: &mut T,
) -> Result<[Vec<Entry>; 2], T::Error> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let kernel = |kind, kernel: Kernel| Entry::alone(What::Kernel(kind, kernel), roofline.time(&kernel));
    // What hides an exchange of keys and values.
    let (mut hides, mut hides_back) = (Span::ZERO, Span::ZERO);
    for (index, each) in work.iter().enumerate() {
        match *each {
            Work::Matrix(product) | Work::Adapter(product) => {
                forward.push(kernel(KernelKind::Product, product));
                // Gradients of inputs first: what follows waits for them. The list is turned round below.
                let (input, weights) = gradients(product);
                if layout.adapters.is_none() || matches!(each, Work::Adapter(_)) {
                    backward.push(kernel(KernelKind::WeightGradient, weights));
                }
                backward.push(kernel(KernelKind::InputGradient, input));
            }
            Work::Attention(core) => {
                let Kernel::Attention { latest, operations, bytes } = core else { continue };
                // Scores are computed again: five multiplications for two.
                let back = Kernel::Attention { latest, operations: 2.5 * operations, bytes: 2 * bytes };
                (hides, hides_back) = (roofline.time(&core), roofline.time(&back));
                forward.push(kernel(KernelKind::Attention, core));
                backward.push(kernel(KernelKind::Attention, back));
            }
            Work::Memory(there, back) => {
                forward.push(kernel(KernelKind::Memory, Kernel::Stream { bytes: there }));
                backward.push(kernel(KernelKind::Memory, Kernel::Stream { bytes: back }));
            }
            Work::Together(purpose, operation, bytes) => {
                let (there, back) = (operation, mirrored(operation));
                let group = group(layout, purpose);
                let span = times.time(there, bytes, group)?;
                let add = |list: &mut Vec<Entry>, operation, whole: Span, exposed: Span| {
                    list.push(Entry { what: What::Together(purpose, operation, bytes, group), span: whole, exposed, again: false });
                };
                match purpose {
                    Purpose::Tensor => {
                        let span_back = times.time(back, bytes, group)?;
                        let beside = beside(work, index, operation).filter(|_| layout.overlap_tensor);
                        let exposed = |whole: Span, product: Option<Kernel>| match product {
                            None => whole,
                            Some(kernel) => piecewise(whole, roofline.time(&kernel), layout.tensor),
                        };
                        add(&mut forward, there, span, exposed(span, beside));
                        add(&mut backward, back, span_back, exposed(span_back, beside.map(|kernel| gradients(kernel).0)));
                    }
                    Purpose::Expert => {
                        add(&mut forward, there, span, span);
                        add(&mut backward, there, span, span);
                    }
                    Purpose::Context => {
                        add(&mut forward, there, span, span.saturating_sub(hides));
                        // Their gradients go round with them.
                        add(&mut backward, there, span * 2, (span * 2).saturating_sub(hides_back));
                    }
                }
            }
        }
    }
    backward.reverse();
    Ok([forward, backward])
}

/// What a kernel is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelKind {
    /// A multiplication of the forward pass.
    Product,
    /// One that gives the gradient of an input.
    InputGradient,
    /// One that gives the gradient of weights.
    WeightGradient,
    /// Attention in one kernel.
    Attention,
    /// Bytes through memory.
    Memory,
}

impl KernelKind {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KernelKind::Product => "multiplications",
            KernelKind::InputGradient => "gradients of inputs",
            KernelKind::WeightGradient => "gradients of weights",
            KernelKind::Attention => "attention",
            KernelKind::Memory => "memory-bound kernels",
        }
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// A kernel.
    Kernel(KernelKind, Kernel),
    /// An operation of a group.
    Together(Purpose, Operation, Bytes, Group),
    /// A wait for the host that launches.
    Host,
}

/// A kernel or an operation of a group in one direction, with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// What it is.
    pub what: What,
    /// How long it takes.
    pub span: Span,
    /// What of that nothing hides.
    pub exposed: Span,
    /// Whether it is computed a second time in the backward pass.
    pub again: bool,
}

impl Entry {
    pub(crate) const fn alone(what: What, span: Span) -> Entry {
        Entry { what, span, exposed: span, again: false }
    }
}

impl Spans {
    fn of(entries: &[Entry]) -> Spans {
        let mut spans = Spans::default();
        for entry in entries {
            let part = match entry.what {
                What::Kernel(KernelKind::WeightGradient, _) => {
                    spans.weights += entry.exposed;
                    &mut spans.matrix
                }
                What::Kernel(KernelKind::Product | KernelKind::InputGradient, _) => &mut spans.matrix,
                What::Kernel(KernelKind::Attention, _) => &mut spans.attention,
                What::Kernel(KernelKind::Memory, _) => &mut spans.memory,
                What::Together(Purpose::Tensor, ..) => &mut spans.tensor,
                What::Together(Purpose::Context, ..) => &mut spans.context,
                What::Together(Purpose::Expert, ..) => &mut spans.expert,
                What::Host => &mut spans.host,
            };
            *part += entry.exposed;
        }
        spans
    }
}

impl Passes {
    /// The sums of both directions.
    #[must_use]
    pub fn of(forward: &[Entry], backward: &[Entry]) -> Passes {
        Passes { forward: Spans::of(forward), backward: Spans::of(backward) }
    }
}

/// The multiplication that reads what a group gathers, or makes what it scatters; an all-reduce waits for all of it.
pub(crate) fn beside(work: &[Work], index: usize, operation: Operation) -> Option<Kernel> {
    let neighbour = match operation {
        Operation::AllGather => work.get(index + 1),
        Operation::ReduceScatter => index.checked_sub(1).and_then(|before| work.get(before)),
        _ => None,
    };
    neighbour.and_then(|work| if let Work::Matrix(kernel) = work { Some(*kernel) } else { None })
}

/// What of a group's operation is left where it goes in as many pieces as there are ranks, each beside a piece of a multiplication: one piece
/// that nothing is beside, and what is longer than the multiplication.
pub(crate) fn piecewise(whole: Span, product: Span, ranks: u32) -> Span {
    let piece = whole / u64::from(ranks.max(1));
    piece + (whole - piece).saturating_sub(product - product / u64::from(ranks.max(1)))
}

/// The multiplications that give the gradients of the input and of the weights.
pub(crate) fn gradients(kernel: Kernel) -> (Kernel, Kernel) {
    match kernel {
        Kernel::Matrix { m, n, k, batch, precision } => {
            (Kernel::Matrix { m, n: k, k: n, batch, precision }, Kernel::Matrix { m: k, n, k: m, batch, precision })
        }
        other => (other, other),
    }
}

/// What a group does backward where it does this forward.
pub(crate) const fn mirrored(operation: Operation) -> Operation {
    match operation {
        Operation::AllGather => Operation::ReduceScatter,
        Operation::ReduceScatter => Operation::AllGather,
        other => other,
    }
}

pub(crate) fn group(layout: &Layout, purpose: Purpose) -> Group {
    match purpose {
        Purpose::Tensor => layout.tensor_group(),
        Purpose::Context => layout.context_group(),
        Purpose::Expert => layout.expert_group(),
    }
}
