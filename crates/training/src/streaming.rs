//! Weight streaming: weights come layer by layer from a memory outside, copies of the model are systems that keep activations alone.
//!
//! Source: Cerebras, "Weight streaming" white paper and Hot Chips 34 (2022): MemoryX keeps weights and runs the optimizer, SwarmX spreads weights
//! to all systems and sums their gradients on the way back, systems run in data parallelism only.
//! Modelled: each layer and micro-batch takes as long as the slower of computing and its stream, forward by its weights, backward by its weights
//! in and its gradients out; the spreading tree adds its latency, not its rate; the first layer of the next step waits for its gradient, the
//! optimizer and its weights.
//! Not modelled: zeros that cores skip, how a layer is laid over the cores (which `sustained` stands for), a MemoryX slower than its links.

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, OperationRate, Rate, Span};

use crate::layout::Layout;
use crate::{memory, shape};

/// A system and what it is joined to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Streaming {
    /// What a die of it keeps up.
    pub rate: OperationRate,
    /// Dies.
    pub dies: u32,
    /// Weights into it, and gradients out of it, each.
    pub link: Rate,
    /// From the memory outside to a system, through the tree.
    pub latency: Span,
    /// What it keeps of activations at most.
    pub room: Bytes,
}

/// A step's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamedStep {
    /// Computing, both ways.
    pub computing: Span,
    /// Weights and gradients, as far as computing does not hide them.
    pub streams: Span,
    /// From the last gradient to the first weights of the next step.
    pub turn: Span,
    /// Activations of a micro-batch.
    pub kept: Bytes,
    /// All streams, whole.
    pub streamed: Span,
}

impl StreamedStep {
    /// All parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Span); 3] {
        [("computing", self.computing), ("weights and gradients, exposed", self.streams), ("from step to step", self.turn)]
    }
    /// The step.
    #[must_use]
    pub fn total(&self) -> Span {
        self.parts().into_iter().map(|(_, span)| span).sum()
    }
}

/// A step of a system, whose copies are those of `layout`.
#[must_use]
pub fn step(model: &Transformer, layout: &Layout, of: &Streaming) -> StreamedStep {
    let micro = Layout { global_batch: layout.micro_batch, data: 1, ..layout.clone() };
    let mut step = StreamedStep { kept: memory::memory(model, &micro).activations, ..StreamedStep::default() };
    let layers = u64::from(model.layers);
    let in_layers = layers * shape::layer_parameters(model, false);
    let output = u64::from(model.hidden) * u64::from(model.vocabulary);
    // Forward operations of a micro-batch, by what publications count.
    let whole = shape::operations(model, layout.micro_batch.into(), false) / 3.0;
    let tokens = f64::from(layout.micro_batch) * f64::from(model.sequence);
    let at_end = 2.0 * tokens * output as f64;
    let batches = u64::from(layout.micro_batches());
    let mut add = |operations: f64, parameters: u64, times: u64| {
        let stream = of.link.time(Bytes(WEIGHT_BYTES * parameters));
        let of_die = operations / f64::from(of.dies.max(1));
        let (there, back) = (of.rate.time(of_die), of.rate.time(2.0 * of_die));
        step.computing += (there + back) * times;
        step.streams += (stream.saturating_sub(there) + stream.saturating_sub(back)) * times;
        step.streamed += stream * (2 * times);
    };
    add((whole - at_end) / layers as f64, in_layers / layers, layers * batches);
    add(at_end, output, batches);
    // The optimizer works as gradients come; what is left is a packet's way there and back.
    step.turn = of.latency * 2;
    step
}

/// Bytes of a weight, and of a gradient, on the way. Basis: published, 16-bit floating point.
const WEIGHT_BYTES: u64 = 2;
