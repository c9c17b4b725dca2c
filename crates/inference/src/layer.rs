//! What a GPU does for a layer in an iteration: its kernels, and what its groups do together.
//!
//! Source: vLLM, model_executor/models/llama.py and deepseek_v2.py (order and fusion of kernels); DeepSeek-V2 (arXiv 2405.04434), §2.1.4:
//! the matrices that latent attention absorbs while it generates; Dao et al., "Flash-Decoding" (2023).
//! Modelled: one multiplication for queries, keys and values, and one for gate and value of the network; residuals added with the norms;
//! attention over the cache of prompts and of generated tokens, a kernel each; experts as multiplications in batches, of which those are read
//! that a token takes; the rows of the vocabulary for the last tokens only.
//! Not modelled: experts of which some have more tokens than others; conversions to 8 bits, which are part of the kernel before.

use fabriscope_catalog::Transformer;
use fabriscope_training::roofline::Kernel;
use fabriscope_training::{Precision, shape};

use crate::memory;
use crate::serving::Serving;

/// What an iteration of a copy works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Tokens of prompts.
    pub prompt: u64,
    /// Pairs of a token of a prompt and one that it attends to.
    pub pairs: u64,
    /// Tokens whose keys and values prompts read.
    pub prompt_context: u64,
    /// Sequences that generate a token.
    pub generating: u64,
    /// Tokens whose keys and values these read.
    pub context: u64,
    /// Tokens that come out.
    pub outputs: u64,
}

impl Load {
    /// Tokens that go through the layers.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.prompt + self.generating
    }
    /// A piece of a prompt of `tokens` behind `before`; the last one gives a token.
    pub fn read(&mut self, tokens: u64, before: u64, last: bool) {
        self.prompt += tokens;
        // Each token attends to those before it and itself.
        self.pairs += tokens * before + tokens * (tokens + 1) / 2;
        self.prompt_context += before + tokens;
        self.outputs += u64::from(last);
    }
    /// A token that is generated behind `before` others.
    pub fn generate(&mut self, before: u64) {
        self.generating += 1;
        self.context += before + 1;
        self.outputs += 1;
    }
}

/// A kernel, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Work {
    /// A linear layer.
    Linear(Kernel),
    /// A linear layer of experts.
    Experts(Kernel),
    /// Attention of prompts.
    Prompts(Kernel),
    /// Attention of tokens that are generated.
    Cache(Kernel),
    /// Bytes of memory.
    Memory(u64),
}

/// Bytes of an activation.
pub(crate) const WIDTH: u64 = 2;

const fn matrix(m: u64, n: u64, k: u64, batch: u64, precision: Precision) -> Kernel {
    Kernel::Matrix { m, n, k, batch, precision }
}

/// A norm with the residual: both read, both written.
fn norm(model: &Transformer, tokens: u64) -> Work {
    Work::Memory(4 * WIDTH * tokens * u64::from(model.hidden))
}

/// What a layer does for its tokens before attention and behind it, experts left out.
#[must_use]
pub fn plain(model: &Transformer, serving: &Serving, tokens: u64, with_experts: bool) -> Vec<Work> {
    let (hidden, tensor) = (u64::from(model.hidden), u64::from(serving.tensor));
    let (heads, precision) = (u64::from(model.heads) / tensor, serving.precision);
    let linear = |n: u64, k: u64| Work::Linear(matrix(tokens, n, k, 1, precision));
    let mut work = vec![norm(model, tokens)];
    let (_, value) = shape::query_key_and_value(model);
    match model.latent {
        Some(latent) => {
            let [query_rank, kv_rank, content, rotary] = [latent.query_rank, latent.kv_rank, latent.content, latent.rotary].map(u64::from);
            // Both ways down are one multiplication, and have their norms.
            work.push(linear(query_rank + kv_rank + rotary, hidden));
            work.push(Work::Memory(2 * WIDTH * tokens * (query_rank + kv_rank)));
            work.push(linear(heads * (content + rotary), if query_rank > 0 { query_rank } else { hidden }));
            work.push(Work::Memory(tokens * heads * rotary * 2 * WIDTH));
            work.push(Work::Memory(tokens * ((kv_rank + rotary) * WIDTH + memory::of_layer(model, serving.cache, serving.tensor))));
        }
        None => {
            let (head, kv) = (shape::head_size(model), shape::kv_heads(model).div_ceil(tensor));
            work.push(linear((heads + 2 * kv) * head, hidden));
            // Positions turn queries and keys; keys and values go to the cache.
            work.push(Work::Memory(tokens * (heads + kv) * head * 2 * WIDTH));
            work.push(Work::Memory(tokens * (2 * kv * head * WIDTH + memory::of_layer(model, serving.cache, serving.tensor))));
        }
    }
    work.push(linear(hidden, heads * value));
    work.push(norm(model, tokens));
    let inside = match model.experts.filter(|_| with_experts) {
        None => u64::from(model.feed_forward) / tensor,
        // Where experts are whole, the shared ones are as well.
        Some(experts) => u64::from(experts.shared) * u64::from(experts.feed_forward) / if serving.expert > 1 { 1 } else { tensor },
    };
    let tokens = if with_experts && serving.expert > 1 { tokens.div_ceil(tensor) } else { tokens };
    if inside > 0 {
        let first = shape::matrices(model) - 1;
        work.push(Work::Linear(matrix(tokens, first * inside, hidden, 1, precision)));
        work.push(Work::Memory(tokens * inside * (first + 1) * WIDTH));
        work.push(Work::Linear(matrix(tokens, hidden, inside, 1, precision)));
    }
    if let Some(experts) = model.experts.filter(|_| with_experts) {
        let (count, copies) = (u64::from(experts.count), tokens * u64::from(experts.per_token));
        work.push(Work::Linear(matrix(tokens, count, hidden, 1, Precision::Bits16)));
        // The best experts of each token; tokens in the order of experts; the sum of what comes back.
        work.push(Work::Memory(tokens * count * 4));
        work.push(Work::Memory(2 * copies * hidden * WIDTH));
        work.push(Work::Memory((copies + tokens) * hidden * WIDTH));
    }
    work
}

/// Attention, by tokens of prompts and generated ones.
#[must_use]
pub fn attention(model: &Transformer, serving: &Serving, load: &Load) -> Vec<Work> {
    let heads = u64::from(model.heads) / u64::from(serving.tensor);
    let (query_key, value) = shape::query_key_and_value(model);
    let cached = memory::of_layer(model, serving.cache, serving.tensor);
    let mut work = Vec::new();
    if load.prompt > 0 {
        let read = match model.latent {
            Some(latent) => {
                // Keys and values of all heads are made from the latent vectors again.
                let [kv_rank, content] = [latent.kv_rank, latent.content].map(u64::from);
                work.push(Work::Linear(matrix(load.prompt_context, heads * (content + value), kv_rank, 1, serving.precision)));
                load.prompt_context * heads * (query_key + value) * WIDTH
            }
            None => load.prompt_context * cached,
        };
        let operations = 2.0 * load.pairs as f64 * (heads * (query_key + value)) as f64;
        let bytes = read + load.prompt * heads * (query_key + value) * WIDTH;
        work.push(Work::Prompts(Kernel::Attention { latest: false, operations, bytes }));
    }
    if load.generating > 0 {
        let each = match model.latent {
            Some(latent) => {
                // Queries go into the latent space, where heads attend to one key, and what they find comes back.
                let [kv_rank, content, rotary] = [latent.kv_rank, latent.content, latent.rotary].map(u64::from);
                work.push(Work::Linear(matrix(load.generating, kv_rank, content, heads, Precision::Bits16)));
                work.push(Work::Linear(matrix(load.generating, value, kv_rank, heads, Precision::Bits16)));
                2 * kv_rank + rotary
            }
            None => query_key + value,
        };
        let operations = 2.0 * load.context as f64 * (heads * each) as f64;
        let bytes = load.context * cached + load.generating * heads * each * WIDTH;
        work.push(Work::Cache(Kernel::Attention { latest: false, operations, bytes }));
        // Sequences are cut into parts for all processors; what these found is put together.
        work.push(Work::Memory(2 * load.generating * heads * value * 4));
    }
    work
}

/// The linear layers of experts on a GPU, where `tokens` of all copies that share them take some.
#[must_use]
pub fn experts(model: &Transformer, serving: &Serving, tokens: u64) -> Vec<Work> {
    let Some(experts) = model.experts.filter(|_| tokens > 0) else { return Vec::new() };
    let whole = serving.expert > 1;
    let local = if whole { serving.experts_of_gpu(model) } else { u64::from(experts.count) };
    let inside = u64::from(experts.feed_forward) / if whole { 1 } else { u64::from(serving.tensor) };
    let copies = tokens * u64::from(experts.per_token);
    let here = if whole { copies.div_ceil(u64::from(serving.expert)) } else { copies };
    // A token misses an expert with the share of those that it does not take.
    let missed = power(1.0 - f64::from(experts.per_token) / f64::from(experts.count), tokens);
    let taken = ((local as f64 * (1.0 - missed)).round() as u64).clamp(1, local);
    let (each, first) = (here.div_ceil(taken), shape::matrices(model) - 1);
    let product = |n, k| Work::Experts(matrix(each, n, k, taken, serving.precision));
    let hidden = u64::from(model.hidden);
    vec![product(first * inside, hidden), Work::Memory(here * inside * (first + 1) * WIDTH), product(hidden, inside)]
}

/// The rows of the vocabulary for tokens that come out, and the choice among them.
#[must_use]
pub fn output(model: &Transformer, serving: &Serving, outputs: u64) -> Vec<Work> {
    let (tensor, vocabulary) = (u64::from(serving.tensor), u64::from(model.vocabulary));
    vec![
        norm(model, outputs),
        Work::Linear(matrix(outputs, vocabulary / tensor, u64::from(model.hidden), 1, Precision::Bits16)),
        // To 32 bits, and the best of them.
        Work::Memory(outputs * vocabulary * (WIDTH + 4)),
        Work::Memory(outputs * vocabulary * 4),
    ]
}

/// A power by squares: the same bits on every machine.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pieces of a prompt see as many pairs as the whole: n (n + 1) / 2.
    #[test]
    fn pieces_of_a_prompt_are_as_much_as_the_whole() {
        let mut whole = Load::default();
        whole.read(1000, 0, true);
        let mut pieces = Load::default();
        pieces.read(300, 0, false);
        pieces.read(700, 300, true);
        assert_eq!(whole.pairs, 500_500);
        assert_eq!((pieces.pairs, pieces.prompt, pieces.outputs), (whole.pairs, whole.prompt, whole.outputs));
    }

    #[test]
    fn a_power_by_squares() {
        assert!((power(0.75, 3) - 0.421_875).abs() < 1e-15);
        assert!((power(0.5, 0) - 1.0).abs() < 1e-15);
    }
}
