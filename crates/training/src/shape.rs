//! Counts of a model: parameters and operations.

use fabriscope_catalog::Transformer;

/// Dimensions of a head.
#[must_use]
pub fn head_size(model: &Transformer) -> u64 {
    u64::from(model.head_size.unwrap_or(model.hidden / model.heads.max(1)))
}

/// Dimensions of a head's query and key, and of its value.
#[must_use]
pub fn query_key_and_value(model: &Transformer) -> (u64, u64) {
    let head = head_size(model);
    model.latent.map_or((head, head), |latent| (u64::from(latent.content + latent.rotary), u64::from(latent.value)))
}

/// Heads of keys and values.
#[must_use]
pub fn kv_heads(model: &Transformer) -> u64 {
    u64::from(model.kv_heads.unwrap_or(model.heads))
}

/// Parameters of the attention of a layer, its norm left out.
#[must_use]
pub fn attention_parameters(model: &Transformer) -> u64 {
    let (hidden, heads) = (u64::from(model.hidden), u64::from(model.heads));
    if let Some(latent) = model.latent {
        let [query_rank, kv_rank, content, rotary, value] =
            [latent.query_rank, latent.kv_rank, latent.content, latent.rotary, latent.value].map(u64::from);
        let query = match query_rank {
            0 => hidden * heads * (content + rotary),
            rank => hidden * rank + rank * heads * (content + rotary),
        };
        return query + hidden * (kv_rank + rotary) + kv_rank * heads * (content + value) + heads * value * hidden;
    }
    let head = head_size(model);
    hidden * head * (heads + 2 * kv_heads(model)) + heads * head * hidden
}

/// Matrices of a feed-forward network.
#[must_use]
pub fn matrices(model: &Transformer) -> u64 {
    if model.gated { 3 } else { 2 }
}

/// Parameters of the feed-forward network of a layer without experts.
#[must_use]
pub fn feed_forward_parameters(model: &Transformer) -> u64 {
    matrices(model) * u64::from(model.hidden) * u64::from(model.feed_forward)
}

/// Parameters of one expert.
#[must_use]
pub fn expert_parameters(model: &Transformer) -> u64 {
    model.experts.map_or(0, |experts| matrices(model) * u64::from(model.hidden) * u64::from(experts.feed_forward))
}

/// Layers with experts.
#[must_use]
pub fn expert_layers(model: &Transformer) -> u64 {
    model.experts.map_or(0, |experts| u64::from(model.layers - experts.dense_layers.min(model.layers)))
}

/// Parameters of the embedding, positions included.
#[must_use]
pub fn embedding_parameters(model: &Transformer) -> u64 {
    let positions = if model.learned_positions { model.sequence } else { 0 };
    u64::from(model.hidden) * (u64::from(model.vocabulary) + u64::from(positions))
}

/// Parameters of a layer that every rank of a tensor group shares in, experts left out.
#[must_use]
pub fn layer_parameters(model: &Transformer, with_experts: bool) -> u64 {
    let norms = 2 * u64::from(model.hidden);
    let network = match model.experts {
        Some(experts) if with_experts => {
            u64::from(experts.shared) * expert_parameters(model) + u64::from(model.hidden) * u64::from(experts.count)
        }
        _ => feed_forward_parameters(model),
    };
    attention_parameters(model) + network + norms
}

/// Parameters of the model.
#[must_use]
pub fn parameters(model: &Transformer) -> u64 {
    let (layers, of_experts) = (u64::from(model.layers), expert_layers(model));
    let experts = model.experts.map_or(0, |experts| of_experts * u64::from(experts.count) * expert_parameters(model));
    let output = if model.tied_embeddings { 0 } else { u64::from(model.hidden) * u64::from(model.vocabulary) };
    of_experts * layer_parameters(model, true)
        + (layers - of_experts) * layer_parameters(model, false)
        + experts
        + embedding_parameters(model)
        + output
        + u64::from(model.hidden)
}

/// Floating-point operations of a step with `batch` sequences as publications count them: a forward pass and a backward pass of twice as
/// many, and a second forward pass where every layer is computed twice. Attention counts in full, not the half below the diagonal.
///
/// Source: Narayanan et al., SC 2021, §5.1: `96 B s l h² (1 + s / 6h + V / 16lh)` with recomputation; the same by matrices.
#[must_use]
pub fn operations(model: &Transformer, batch: u64, recomputed: bool) -> f64 {
    let (sequence, hidden) = (f64::from(model.sequence), f64::from(model.hidden));
    let tokens = batch as f64 * sequence;
    let active =
        model.experts.map_or(0.0, |experts| expert_layers(model) as f64 * f64::from(experts.per_token) * expert_parameters(model) as f64);
    let of_experts = expert_layers(model) as f64;
    let matrices = active
        + of_experts * layer_parameters(model, true) as f64
        + (f64::from(model.layers) - of_experts) * layer_parameters(model, false) as f64;
    let (query_key, value) = query_key_and_value(model);
    let scores = 2.0 * sequence * f64::from(model.heads) * (query_key + value) as f64 * f64::from(model.layers);
    let layers = tokens * (2.0 * matrices + scores);
    let output = tokens * 2.0 * hidden * f64::from(model.vocabulary);
    (if recomputed { 4.0 } else { 3.0 }) * layers + 3.0 * output
}
