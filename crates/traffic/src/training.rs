//! One iteration of training a transformer on GPUs in three kinds of parallelism, as a schedule of what passes between nodes.
//!
//! Source: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC21: the
//! one-forward-one-backward schedule without interleaving (§2.2), operations of a layer (appendix), tensor-parallel ranks
//! that each send their part of what a stage hands on (§4.1); M. Shoeybi et al., "Megatron-LM", arXiv 1909.08053 (tensor parallelism).
//!
//! Rank r of t·p·d GPUs has the tensor rank r mod t, the data rank r / t mod d and the stage r / (t·d): ranks of one node share the tensors.
//!
//! | what | how much |
//! |---|---|
//! | operations of the forward pass of a layer, of b sequences of s words in h dimensions | 24·b·s·h² + 4·b·s²·h |
//! | and of the last stage, for a vocabulary of V | 2·b·s·h·V |
//! | operations of the backward pass | twice as many: nothing is computed again |
//! | time of a stage | operations of its l / p layers / (t · rate) |
//! | message to the next stage, and back | 2·b·s·h / t bytes a micro-batch |
//! | gradients of a GPU | 2·(12·h² + 13·h)·(l / p) / t bytes, and 2·V·h / t at the first and the last stage |
//!
//! Modelled: computations one after the other on each GPU; messages beside them; after the last backward pass a ring
//! all-reduce of the gradients among the d GPUs of the same part (d - 1 steps of reduce-scatter, d - 1 of all-gather).
//! Not modelled: messages of tensor parallelism, which stay in a node: the rate of a GPU is what it reaches with them; the optimiser;
//! buckets of gradients that go while the backward pass runs; the sum of the embedding's two copies; interleaved stages.

use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule};
use fabriscope_units::{Bytes, Span};

use crate::PatternError;

/// A model and how it is laid out on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    /// GPUs that share the tensors of a layer.
    pub tensor: u32,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Copies of the model.
    pub data: u32,
    /// Transformer layers.
    pub layers: u32,
    /// Dimensions of a word.
    pub hidden: u32,
    /// Words of a sequence.
    pub sequence: u32,
    /// Words that there are.
    pub vocabulary: u32,
    /// Micro-batches of an iteration, for each copy of the model.
    pub micro_batches: u32,
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// 10⁹ operations per second that a GPU reaches.
    pub gigaflops: u64,
}

/// Bytes of a number in 16 bits. Basis: standard (bfloat16).
const NUMBER: u64 = 2;

impl Training {
    /// GPUs that it takes.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        u64::from(self.tensor) * u64::from(self.pipeline) * u64::from(self.data)
    }

    /// The time of the forward pass of a micro-batch through a stage.
    #[must_use]
    pub fn forward(&self, stage: u32) -> Span {
        let [b, s, h, v] = [self.micro_batch, self.sequence, self.hidden, self.vocabulary].map(u128::from);
        let layers = u128::from(self.layers / self.pipeline.max(1));
        let mut operations = layers * (24 * b * s * h * h + 4 * b * s * s * h);
        if stage + 1 == self.pipeline {
            operations += 2 * b * s * h * v;
        }
        let rate = u128::from(self.tensor.max(1)) * u128::from(self.gigaflops.max(1));
        // 10⁹ operations in a second are one in a nanosecond.
        Span::from_ps(u64::try_from(operations * 1000 / rate).unwrap_or(u64::MAX))
    }

    /// What a GPU hands to that of the next stage for a micro-batch, and gets back.
    #[must_use]
    pub fn activation(&self) -> Bytes {
        let [b, s, h] = [self.micro_batch, self.sequence, self.hidden].map(u64::from);
        Bytes((NUMBER * b * s * h).div_ceil(self.tensor.max(1).into()))
    }

    /// Gradients of a GPU of a stage.
    #[must_use]
    pub fn gradients(&self, stage: u32) -> Bytes {
        let [h, v] = [self.hidden, self.vocabulary].map(u64::from);
        let mut weights = u64::from(self.layers / self.pipeline.max(1)) * (12 * h * h + 13 * h);
        if stage == 0 || stage + 1 == self.pipeline {
            weights += v * h;
        }
        Bytes((NUMBER * weights).div_ceil(self.tensor.max(1).into()))
    }

    /// The rank of a GPU.
    fn rank(&self, tensor: u32, data: u32, stage: u32) -> u32 {
        (stage * self.data + data) * self.tensor + tensor
    }

    /// Messages of an iteration: two for each micro-batch between two stages, and those of the rings.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let [t, p, d, m] = [self.tensor, self.pipeline, self.data, self.micro_batches].map(u64::from);
        2 * m * (p - 1) * t * d + t * p * d * 2 * (d - 1)
    }

    /// Pairs of GPUs that exchange messages, one way.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        let [t, p, d] = [self.tensor, self.pipeline, self.data].map(u64::from);
        2 * (p - 1) * t * d + if d > 1 { t * p * d } else { 0 }
    }

    /// The iteration.
    ///
    /// # Errors
    /// More operations than can be numbered.
    pub fn schedule(&self) -> Result<Schedule, PatternError> {
        let mut builder = Builder::new(self.ranks().try_into().unwrap_or(u32::MAX));
        for stage in 0..self.pipeline {
            for data in 0..self.data {
                for tensor in 0..self.tensor {
                    let last = self.passes(&mut builder, (tensor, data, stage));
                    self.reduce(&mut builder, (tensor, data, stage), last);
                }
            }
        }
        Ok(builder.build()?)
    }

    /// Forward and backward passes of a GPU, in the order of one forward, one backward. Gives the last of them.
    fn passes(&self, builder: &mut Builder, (tensor, data, stage): (u32, u32, u32)) -> Option<OpId> {
        let rank = self.rank(tensor, data, stage);
        let ahead = (self.pipeline - stage - 1).min(self.micro_batches);
        let mut last: Option<OpId> = None;
        for (forward, batch) in order(self.micro_batches, ahead) {
            let span = if forward { self.forward(stage) } else { self.forward(stage) * 2 };
            let (from, to) = if forward {
                (stage.checked_sub(1), Some(stage + 1).filter(|next| *next < self.pipeline))
            } else {
                (Some(stage + 1).filter(|next| *next < self.pipeline), stage.checked_sub(1))
            };
            let tag = 2 * batch + u32::from(!forward);
            let mut after: Vec<After> = last.into_iter().map(After::End).collect();
            if let Some(from) = from {
                after.push(After::End(builder.recv(rank, self.rank(tensor, data, from), self.activation(), tag)));
            }
            let pass = builder.op_after(rank, OpKind::Compute { span }, &after);
            if let Some(to) = to {
                let kind = OpKind::Send { to: self.rank(tensor, data, to), bytes: self.activation(), tag };
                builder.op_after(rank, kind, &[After::End(pass)]);
            }
            last = Some(pass);
        }
        last
    }

    /// The ring all-reduce of the gradients of a GPU, after `last`.
    fn reduce(&self, builder: &mut Builder, (tensor, data, stage): (u32, u32, u32), last: Option<OpId>) {
        let (rank, d) = (self.rank(tensor, data, stage), self.data);
        let [next, before] = [(data + 1) % d, (data + d - 1) % d].map(|data| self.rank(tensor, data, stage));
        let whole = self.gradients(stage).0;
        // The first parts take what is left over.
        let part = |number: u32| Bytes(whole / u64::from(d) + u64::from(u64::from(number) < whole % u64::from(d)));
        let mut ready = last;
        for step in 0..2 * (d - 1) {
            let (sent, got) = ((data + 2 * d - step) % d, (data + 2 * d - step - 1) % d);
            let tag = 2 * self.micro_batches + step;
            let after: Vec<After> = ready.into_iter().map(After::End).collect();
            builder.op_after(rank, OpKind::Send { to: next, bytes: part(sent), tag }, &after);
            ready = Some(builder.recv(rank, before, part(got), tag));
        }
    }
}

/// Passes of a stage with `ahead` stages behind it: whether forward, and the micro-batch.
fn order(batches: u32, ahead: u32) -> Vec<(bool, u32)> {
    let first = (0..ahead).map(|batch| (true, batch));
    let steady = (ahead..batches).flat_map(|batch| [(true, batch), (false, batch - ahead)]);
    let rest = (batches - ahead..batches).map(|batch| (false, batch));
    first.chain(steady).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Training {
        Training {
            tensor: 2,
            pipeline: 3,
            data: 4,
            layers: 6,
            hidden: 64,
            sequence: 32,
            vocabulary: 1000,
            micro_batches: 5,
            micro_batch: 2,
            gigaflops: 10,
        }
    }

    #[test]
    fn messages_and_bytes_are_those_of_the_formulas() {
        let training = small();
        let stats = training.schedule().unwrap().stats();
        // Between 3 stages twice 5 micro-batches, by 2 · 4 GPUs; rings of 4 on 24 GPUs with 2 · 3 steps.
        assert_eq!((stats.messages, training.messages()), (2 * 5 * 2 * 8 + 24 * 6, 2 * 5 * 2 * 8 + 24 * 6));
        // 2 B · 2 · 32 · 64 / 2 of activations; of gradients 2 (d - 1) / d leave each GPU, 2 · 3 times all of them each group.
        let activations = 160 * 4096;
        let layers = 2 * (12 * 64 * 64 + 13 * 64);
        let gradients = |weights: u64| 6 * 2 * weights; // of both tensor ranks, each of which has the half in 2 B
        let ends = layers + 1000 * 64;
        assert_eq!(stats.bytes, Bytes(activations + gradients(layers) + 2 * gradients(ends)));
    }

    #[test]
    fn spans_follow_the_operations() {
        let training = small();
        // 2 layers: 24 · 2 · 32 · 64² + 4 · 2 · 32² · 64 each; 2 GPUs at 10 operations a nanosecond.
        let layer = 24 * 2 * 32 * 64 * 64 + 4 * 2 * 32 * 32 * 64u64;
        assert_eq!(training.forward(0), Span::from_ps(2 * layer * 1000 / 20));
        assert_eq!(training.forward(2), Span::from_ps((2 * layer + 2 * 2 * 32 * 64 * 1000) * 1000 / 20));
    }

    #[test]
    fn one_forward_one_backward() {
        let plain = |batches, ahead| -> String {
            order(batches, ahead).iter().map(|(forward, batch)| format!("{}{batch}", if *forward { 'F' } else { 'B' })).collect()
        };
        assert_eq!(plain(4, 2), "F0F1F2B0F3B1B2B3");
        assert_eq!(plain(3, 0), "F0B0F1B1F2B2");
        assert_eq!(plain(1, 1), "F0B0");
    }

    #[test]
    fn one_copy_has_no_rings_and_one_stage_no_pipeline() {
        let alone = Training { data: 1, pipeline: 1, ..small() };
        assert_eq!((alone.messages(), alone.schedule().unwrap().stats().messages), (0, 0));
        let copies = Training { pipeline: 1, ..small() };
        assert_eq!(copies.schedule().unwrap().stats().messages, copies.messages());
    }
}
