//! What a GPU keeps: weights, activations, and keys and values in what is left.
//!
//! Source: Kwon et al., SOSP 2023, §3 (keys and values of a token), §4.3 (blocks); DeepSeek-V2 (arXiv 2405.04434), §2.1.4 (a latent vector
//! instead); vLLM's profile of memory at start.
//! Modelled: weights of the fullest stage; activations of the longest iteration and its scores of tokens; the rest in blocks of tokens.
//! Heads of keys and values are kept twice where there are fewer than GPUs that share them, latent vectors on all of these.
//! Not modelled: fragments, weights of quantisation.

use fabriscope_catalog::{Gpu, Transformer};
use fabriscope_training::{Precision, shape};
use fabriscope_units::Bytes;

use crate::serving::{Serving, ServingError};

/// Bytes of an element.
#[must_use]
pub const fn width(precision: Precision) -> u64 {
    match precision {
        Precision::Bits16 => 2,
        Precision::Bits8 => 1,
        Precision::Bits32 => 4,
    }
}

/// Bytes of the fullest GPU, and what fits beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Weights.
    pub weights: Bytes,
    /// Activations, libraries and graphs.
    pub others: Bytes,
    /// Keys and values.
    pub cache: Bytes,
    /// Blocks of them.
    pub blocks: u64,
    /// Tokens in all blocks.
    pub tokens: u64,
}

/// Keys and values of a token in all layers of a model, no head kept twice.
#[must_use]
pub fn cache_of_token(model: &Transformer, precision: Precision) -> Bytes {
    Bytes(u64::from(model.layers) * of_layer(model, precision, 1))
}

/// Keys and values of a token in a layer on each GPU of a tensor group.
#[must_use]
pub fn of_layer(model: &Transformer, precision: Precision, tensor: u32) -> u64 {
    match model.latent {
        Some(latent) => u64::from(latent.kv_rank + latent.rotary) * width(precision),
        None => 2 * shape::kv_heads(model).div_ceil(u64::from(tensor)) * shape::head_size(model) * width(precision),
    }
}

/// Weights of a stage on each of its GPUs.
#[must_use]
pub fn weights(model: &Transformer, serving: &Serving, stage: u32) -> Bytes {
    let tensor = u64::from(serving.tensor);
    let layers = serving.layers_of_stages(model);
    let first: u32 = layers.iter().take(stage as usize).sum();
    let (plain, with_experts) = kinds(model, first, layers.get(stage as usize).copied().unwrap_or_default());
    let experts = match model.experts {
        None => 0,
        Some(_) if serving.expert > 1 => serving.experts_of_gpu(model) * shape::expert_parameters(model),
        Some(experts) => u64::from(experts.count) * shape::expert_parameters(model) / tensor,
    };
    let linear = plain * shape::layer_parameters(model, false) + with_experts * shape::layer_parameters(model, true);
    let embedding = if stage == 0 { shape::embedding_parameters(model) } else { 0 };
    let last = stage + 1 == serving.pipeline;
    let output = match model.tied_embeddings {
        true if serving.pipeline == 1 => 0,
        _ if last => u64::from(model.hidden) * u64::from(model.vocabulary),
        _ => 0,
    };
    Bytes((linear / tensor + with_experts * experts) * width(serving.precision) + (embedding + output) / tensor * 2)
}

/// How many of `count` layers from `first` are plain, and how many have experts.
#[must_use]
pub fn kinds(model: &Transformer, first: u32, count: u32) -> (u64, u64) {
    let dense = model.experts.map_or(model.layers, |experts| experts.dense_layers);
    let plain = dense.saturating_sub(first).min(count);
    (u64::from(plain), u64::from(count - plain))
}

/// What fits.
///
/// # Errors
/// No room for a block beside the weights.
pub fn room(model: &Transformer, serving: &Serving, gpu: &Gpu) -> Result<Room, ServingError> {
    let size = *gpu.memory.size;
    let taken = Bytes((size.0 as f64 * serving.memory_share) as u64);
    let stages = serving.layers_of_stages(model);
    let kept = (0..serving.pipeline).map(|stage| weights(model, serving, stage)).max().unwrap_or_default();
    let others = activations(model, serving) + serving.reserved;
    let cache = taken.saturating_sub(kept).saturating_sub(others);
    let layers = u64::from(stages.into_iter().max().unwrap_or(1));
    let block = layers * of_layer(model, serving.cache, serving.tensor) * u64::from(serving.block);
    let blocks = cache.0 / block.max(1);
    if blocks == 0 {
        let [weights, others, taken, size] = [kept, others, taken, size].map(|bytes| format!("{:.1} GB", bytes.0 as f64 / 1e9));
        return Err(ServingError::NoRoom { weights, others, taken, size });
    }
    Ok(Room { weights: kept, others, cache, blocks, tokens: blocks * u64::from(serving.block) })
}

/// Activations of the longest iteration: residual, norm, the widest of the linear layers with what it makes, and scores of tokens in 32 bits.
fn activations(model: &Transformer, serving: &Serving) -> Bytes {
    let (tokens, tensor) = (u64::from(serving.batched_tokens), u64::from(serving.tensor));
    let inside = match model.experts {
        Some(experts) => u64::from(experts.feed_forward) * u64::from(experts.per_token) + u64::from(experts.per_token * model.hidden),
        None => u64::from(model.feed_forward) * shape::matrices(model) / tensor,
    };
    let scores = u64::from(serving.sequences) * u64::from(model.vocabulary) * 6;
    Bytes(tokens * (4 * u64::from(model.hidden) + inside) * 2 + scores)
}
