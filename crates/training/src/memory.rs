//! What a GPU keeps during a step.
//!
//! Source: Korthikanti et al. (arXiv 2205.05198), §4 (bytes of activations of a layer by parallelism and recomputation); Rajbhandari et al.,
//! SC 2020, §3 (states of Adam in mixed precision).
//! Modelled: parameters, gradients, optimizer, activations of the micro-batches in flight, scores of the output, layers gathered for a while.
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
    /// Whole layers whose parameters are gathered and whose gradient is made, where they are shared.
    pub gathered: Bytes,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer + self.activations + self.gathered
    }
}

/// What a GPU of a stage keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfStage {
    /// The stage.
    pub stage: u32,
    /// What it keeps.
    pub memory: Memory,
    /// Layers at the stage.
    pub layers: u32,
    /// Parameters of its ranks.
    pub parameters: u64,
    /// Micro-batches whose activations are kept at once, of its layers.
    pub in_flight: u64,
    /// Of the activations: the scores of the output.
    pub output: Bytes,
}

/// Parameters of a rank of the first stage: those that all its copies have, and those of experts.
#[must_use]
pub fn parameters_of_rank(model: &Transformer, layout: &Layout) -> (u64, u64) {
    parameters_of_stage(model, layout, 0)
}

/// Layers of a stage, and how many of them have experts.
fn layers_of_stage(model: &Transformer, layout: &Layout, stage: u32) -> (u64, u64) {
    let parts = layout.layers_of_parts(model);
    let dense = u64::from(model.layers) - shape::expert_layers(model);
    let (mut layers, mut with_experts, mut before) = (0, 0, 0);
    for (part, count) in (0..).zip(&parts) {
        let count = u64::from(*count);
        if part % layout.pipeline.max(1) == stage {
            layers += count;
            with_experts += count - dense.saturating_sub(before).min(count);
        }
        before += count;
    }
    (layers, with_experts)
}

/// Parameters of embedding and output at a stage, of all ranks of its tensor group.
#[must_use]
pub fn ends_of_stage(model: &Transformer, layout: &Layout, stage: u32) -> u64 {
    let (first, last) = (stage == 0, stage + 1 == layout.pipeline);
    let embedding = if first { shape::embedding_parameters(model) } else { 0 };
    let words = u64::from(model.hidden) * u64::from(model.vocabulary);
    embedding + if last && !(first && model.tied_embeddings) { words } else { 0 }
}

/// The same of any stage: the first has the embedding, the last the output, which is a copy of the embedding where it is tied to it.
#[must_use]
pub fn parameters_of_stage(model: &Transformer, layout: &Layout, stage: u32) -> (u64, u64) {
    let tensor = u64::from(layout.tensor);
    let (layers, of_experts) = layers_of_stage(model, layout, stage);
    let plain = layers - of_experts;
    let common = of_experts * shape::layer_parameters(model, true) + plain * shape::layer_parameters(model, false);
    let ends = ends_of_stage(model, layout, stage);
    let experts = model
        .experts
        .map_or(0, |experts| of_experts * (u64::from(experts.count) / u64::from(layout.expert)).max(1) * shape::expert_parameters(model));
    ((common + ends) / tensor, experts / u64::from(layout.tensor_of_experts()))
}

/// What of the same is trained: all of it, or the adapters, two matrices beside the product that gives queries, keys and values and two beside
/// the one behind attention.
#[must_use]
pub fn trained_of_stage(model: &Transformer, layout: &Layout, stage: u32) -> (u64, u64) {
    let Some(rank) = layout.adapters else { return parameters_of_stage(model, layout, stage) };
    let (hidden, head) = (u64::from(model.hidden), shape::head_size(model));
    let heads = u64::from(model.heads) * head;
    let ends = (hidden + heads + 2 * shape::kv_heads(model) * head) + (heads + hidden);
    (layers_of_stage(model, layout, stage).0 * u64::from(rank) * ends / u64::from(layout.tensor), 0)
}

/// What the fullest GPU keeps.
#[must_use]
pub fn memory(model: &Transformer, layout: &Layout) -> Memory {
    fullest(model, layout).memory
}

/// The stage whose GPUs keep most, the first of those.
#[must_use]
pub fn fullest(model: &Transformer, layout: &Layout) -> OfStage {
    // Stages between the ends differ by their layers and by what is in flight, which only falls.
    let stages = [0, 1, layout.pipeline.saturating_sub(1)].into_iter().filter(|stage| *stage < layout.pipeline);
    let kept = stages.map(|stage| of_stage(model, layout, stage));
    kept.reduce(|most, other| if other.memory.total() > most.memory.total() { other } else { most }).unwrap_or_default()
}

/// What a GPU of a stage keeps.
#[must_use]
pub fn of_stage(model: &Transformer, layout: &Layout, stage: u32) -> OfStage {
    let (common, experts) = parameters_of_stage(model, layout, stage);
    let shared = |sharding: Sharding, parameters: u64, group| {
        let ranks = u64::from(layout.shard_group(group).size.max(1));
        if layout.sharding >= sharding { parameters.div_ceil(ranks) } else { parameters }
    };
    let both = |sharding: Sharding, (common, experts): (u64, u64)| {
        shared(sharding, common, layout.data_group()) + shared(sharding, experts, layout.expert_data_group())
    };
    let trained = trained_of_stage(model, layout, stage);
    let width = if layout.wide_gradients { 4 } else { 2 };
    let (activations, in_flight, output) = activations(model, layout, stage);
    let memory = Memory {
        parameters: Bytes(2 * both(Sharding::Parameters, (common, experts))),
        gradients: Bytes(width * both(Sharding::Gradients, trained)),
        optimizer: Bytes(12 * both(Sharding::Optimizer, trained)),
        activations,
        gathered: Bytes(gathered(model, layout)),
    };
    let layers = layers_of_stage(model, layout, stage).0 as u32;
    OfStage { stage, memory, layers, parameters: common + experts, in_flight, output }
}

/// The layer that computes and those that are gathered ahead of it, and a gradient on its way.
fn gathered(model: &Transformer, layout: &Layout) -> u64 {
    if layout.sharding < Sharding::Parameters || layout.shard_group(layout.data_group()).size == 1 {
        return 0;
    }
    let largest = shape::layer_parameters(model, model.experts.is_some()).max(shape::layer_parameters(model, false));
    2 * largest / u64::from(layout.tensor) * (u64::from(layout.prefetch) + 2)
}

/// Bytes of activations at a stage, micro-batches in flight, and the bytes of the scores of the output.
fn activations(model: &Transformer, layout: &Layout, stage: u32) -> (Bytes, u64, Bytes) {
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
    let per_stage = layers_of_stage(model, layout, stage).0;
    let behind = stages - 1 - u64::from(stage);
    let batches = u64::from(layout.micro_batches());
    // Layers whose activations are kept at once: those of all passes that went forward and not yet back.
    let in_flight = match layout.schedule {
        Schedule::GPipe => batches * per_stage,
        _ if layout.interleave > 1 => {
            let parts = u64::from(layout.interleave);
            let passes = (2 * behind + (parts - 1) * stages + 1).min(batches * parts);
            (passes * per_stage).div_ceil(parts)
        }
        _ => (behind + 1).min(batches) * per_stage,
    };
    // One layer is whole while it is computed again.
    let working = if layout.recompute == Recompute::Full { of_layer + scores } else { 0 };
    let output = if u64::from(stage) + 1 == stages { tokens * u64::from(model.vocabulary).div_ceil(tensor) * 6 } else { 0 };
    (Bytes(in_flight * kept + working + output), in_flight / per_stage.max(1), Bytes(output))
}
