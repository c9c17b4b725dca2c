//! What a GPU keeps during a step.
//!
//! Source: Korthikanti et al. (arXiv 2205.05198), §4 (bytes of activations of a layer by parallelism and recomputation); Rajbhandari et al.,
//! SC 2020, §3 (states of Adam in mixed precision).
//! Modelled: parameters, gradients, optimizer, activations of the micro-batches in flight, scores of the output.
//! Not modelled: fragments, buffers of libraries and of kernels.

use fabriscope_catalog::Transformer;
use fabriscope_units::Bytes;

use crate::layout::{Attention, Layout, Recompute, Schedule, Sharding};
use crate::shape;

/// Bytes of the fullest GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Parameters in 16 bits.
    pub parameters: Bytes,
    /// Gradients.
    pub gradients: Bytes,
    /// Copies of the parameters in 32 bits and two moments.
    pub optimizer: Bytes,
    /// Activations of all micro-batches in flight.
    pub activations: Bytes,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer + self.activations
    }
}

/// Parameters of a rank of the first stage: those that all its copies have, and those of experts.
#[must_use]
pub fn parameters_of_rank(model: &Transformer, layout: &Layout) -> (u64, u64) {
    let (tensor, stages) = (u64::from(layout.tensor), u64::from(layout.pipeline));
    let of_experts = shape::expert_layers(model).div_ceil(stages);
    let layers = u64::from(model.layers).div_ceil(stages);
    let plain = layers.saturating_sub(of_experts);
    let common = of_experts * shape::layer_parameters(model, true) + plain * shape::layer_parameters(model, false);
    let output = if layout.pipeline == 1 && !model.tied_embeddings { u64::from(model.hidden) * u64::from(model.vocabulary) } else { 0 };
    let experts = model
        .experts
        .map_or(0, |experts| of_experts * (u64::from(experts.count) / u64::from(layout.expert)).max(1) * shape::expert_parameters(model));
    ((common + shape::embedding_parameters(model) + output) / tensor, experts / tensor)
}

/// What the fullest GPU keeps.
#[must_use]
pub fn memory(model: &Transformer, layout: &Layout) -> Memory {
    let (common, experts) = parameters_of_rank(model, layout);
    let shared = |sharding: Sharding, parameters: u64, copies: u32| {
        if layout.sharding >= sharding { parameters.div_ceil(u64::from(copies.max(1))) } else { parameters }
    };
    let kept = |sharding: Sharding| {
        shared(sharding, common, layout.data_group().size) + shared(sharding, experts, layout.expert_data_group().size)
    };
    let width = if layout.wide_gradients { 4 } else { 2 };
    Memory {
        parameters: Bytes(2 * kept(Sharding::Parameters)),
        gradients: Bytes(width * kept(Sharding::Gradients)),
        optimizer: Bytes(12 * kept(Sharding::Optimizer)),
        activations: activations(model, layout),
    }
}

fn activations(model: &Transformer, layout: &Layout) -> Bytes {
    let tokens = u64::from(layout.micro_batch) * u64::from(model.sequence) / u64::from(layout.context);
    let (hidden, tensor) = (u64::from(model.hidden), u64::from(layout.tensor));
    let own = if layout.sequence_parallel { tensor } else { 1 };
    let inside = model
        .experts
        .map_or(u64::from(model.feed_forward), |experts| u64::from(experts.feed_forward) * u64::from(experts.per_token + experts.shared));
    let queries = u64::from(model.heads) * shape::head_size(model);
    let keys = shape::kv_heads(model) * shape::head_size(model) * 2;
    // Norms, residuals and dropout; inputs and outputs of the matrices.
    let network = tokens * inside * 2 * (shape::matrices(model)) / tensor;
    let of_layer = tokens * hidden * 10 / own + tokens * (2 * queries + keys) * 2 / tensor + network;
    let scores = match layout.attention {
        Attention::Unfused if layout.recompute == Recompute::None => {
            5 * u64::from(model.heads) * tokens * u64::from(model.sequence) / tensor
        }
        _ => 0,
    };
    let input = tokens * hidden * 2 / own;
    let kept = if layout.recompute == Recompute::Full { input } else { of_layer + scores };
    let stages = u64::from(layout.pipeline);
    let per_stage = u64::from(model.layers).div_ceil(stages);
    let in_flight = match layout.schedule {
        Schedule::GPipe => u64::from(layout.micro_batches()) * per_stage,
        _ if layout.interleave > 1 => per_stage * stages + per_stage * (stages - 1) / u64::from(layout.interleave),
        _ => stages.min(u64::from(layout.micro_batches())) * per_stage,
    };
    // One layer is whole while it is computed again.
    let working = if layout.recompute == Recompute::Full { of_layer + scores } else { 0 };
    let output = if stages == 1 { tokens * u64::from(model.vocabulary).div_ceil(tensor) * 6 } else { 0 };
    Bytes(in_flight * kept + working + output)
}
