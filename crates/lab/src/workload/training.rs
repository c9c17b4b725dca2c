//! A step of training, as a lab says it: the same words as the options of `fabriscope train`.

use fabriscope_training::{Attention, Dispatcher, Graphs, Layout, Precision, Recompute, Schedule, Sharding};
use fabriscope_wire::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::training::{Exchange, TrainingRequest};

/// A step of training of a model on GPUs of the cluster: the messages of all of them between nodes, or the time line alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a word of a file")]
pub struct Training {
    /// The model: a name of `fabriscope parts --kind models`.
    pub model: String,
    /// GPUs that share the matrices of a layer.
    #[serde(default = "super::one")]
    pub tp: u32,
    /// Stages of the pipeline.
    #[serde(default = "super::one")]
    pub pp: u32,
    /// Copies of the model.
    #[serde(default = "super::one")]
    pub dp: u32,
    /// GPUs that share a sequence.
    #[serde(default = "super::one")]
    pub cp: u32,
    /// GPUs that share the experts of a layer.
    #[serde(default = "super::one")]
    pub ep: u32,
    /// GPUs that share the matrices of an expert. Default: those of `tp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etp: Option<u32>,
    /// How tokens get to their experts.
    #[serde(default)]
    pub token_dispatcher: TokenDispatcher,
    /// Parts of the model at each stage, interleaved.
    #[serde(default = "super::one")]
    pub interleave: u32,
    /// Sequences of a step, of all copies. Default: 4 micro-batches for each stage of each copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_batch: Option<u32>,
    /// Sequences of a micro-batch.
    #[serde(default = "super::one")]
    pub micro_batch: u32,
    /// Tokens of a sequence. Default: those of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// Norms and dropout are shared by the tensor group, too.
    #[serde(default)]
    pub sequence_parallel: bool,
    /// What is computed again in the backward pass.
    #[serde(default)]
    pub recompute: Recomputed,
    /// What copies share instead of having it each.
    #[serde(default)]
    pub sharding: Shared,
    /// Among how many ranks each, which others have copies of. Default: all copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// Layers ahead of computing that shared parameters are gathered.
    #[serde(default = "super::one")]
    pub prefetch: u32,
    /// The order of micro-batches.
    #[serde(default)]
    pub schedule: Order,
    /// How attention is computed.
    #[serde(default)]
    pub attention: Scores,
    /// Linear layers multiply in 8 bits.
    #[serde(default)]
    pub fp8: bool,
    /// What the host launches as graphs, instead of kernel by kernel.
    #[serde(default)]
    pub cuda_graphs: Vec<Graphed>,
    /// Only low-rank adapters of so many dimensions beside the projections of attention are trained (LoRA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<u32>,
    /// Gradients are summed in 16 bits.
    #[serde(default)]
    pub narrow_gradients: bool,
    /// What goes on while GPUs compute.
    #[serde(default = "gradients")]
    pub overlap: Vec<Overlap>,
    /// How copies of a convolutional net exchange gradients.
    #[serde(default)]
    pub exchange: GradientExchange,
    /// Multiply in 16 bits in nets that are not transformers, instead of 32.
    #[serde(default)]
    pub mixed: bool,
    /// Where the weights are.
    #[serde(default)]
    pub strategy: Strategy,
    /// Go on where a GPU has too little memory.
    #[serde(default)]
    pub oversize: bool,
    /// Transport service of its messages.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// What is computed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recomputed {
    /// Nothing.
    #[default]
    None,
    /// The core of attention.
    Selective,
    /// Every layer.
    Full,
}

/// What copies share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shared {
    /// Nothing.
    #[default]
    None,
    /// The optimizer (ZeRO-1).
    Optimizer,
    /// Gradients as well (ZeRO-2).
    Gradients,
    /// Parameters as well (ZeRO-3, FSDP).
    Parameters,
}

/// The order of micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// All forward passes first.
    #[serde(rename = "gpipe")]
    GPipe,
    /// One forward, one backward.
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// The same, with gradients of weights put off.
    #[serde(rename = "zero_bubble")]
    ZeroBubble,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scores {
    /// In one kernel.
    #[default]
    Fused,
    /// In one kernel written for this generation of GPUs (FlashAttention-3, cuDNN 9).
    Latest,
    /// By multiplications and softmax, through memory.
    Unfused,
}

/// What goes on while GPUs compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing.
    None,
    /// Gradients of copies, while the backward pass goes on.
    Gradients,
    /// Messages of the pipeline.
    Pipeline,
    /// Gathers and scatters of tensor groups that share sequences.
    Tensor,
    /// Tokens to experts and back, beside the other direction of another micro-batch.
    Experts,
}

/// How tokens get to their experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenDispatcher {
    /// A copy for each expert, by an all-to-all.
    #[default]
    Alltoall,
    /// One to each node, and from there to its GPUs (DeepEP, HybridEP).
    Flex,
}

/// What the host launches as a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Graphed {
    /// Attention.
    Attn,
    /// Feed-forward matrices of layers without experts.
    Mlp,
    /// The router, shared experts and counts of tokens.
    MoeRouter,
    /// Everything.
    FullIteration,
}

/// How gradients of a net come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GradientExchange {
    /// All-reduces of buckets by the library of the GPUs.
    #[default]
    AllReduce,
    /// Stripes to their owners and broadcasts from them, by the MPI library (CNTK).
    Broadcast,
}

/// Where the weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// On the accelerators.
    #[default]
    Resident,
    /// In a memory outside, from which they stream layer by layer (Cerebras).
    WeightStreaming,
}

fn gradients() -> Vec<Overlap> {
    vec![Overlap::Gradients]
}

impl Training {
    /// The same as the model of training takes it.
    #[must_use]
    pub fn request(&self) -> TrainingRequest {
        TrainingRequest {
            layout: self.layout(),
            sequence: self.sequence,
            exchange: match self.exchange {
                GradientExchange::AllReduce => Exchange::AllReduce,
                GradientExchange::Broadcast => Exchange::Broadcast,
            },
            mixed: self.mixed,
            streamed: self.strategy == Strategy::WeightStreaming,
            oversized: self.oversize,
            ..TrainingRequest::new(&self.model)
        }
    }

    fn layout(&self) -> Layout {
        let overlaps = |what| self.overlap.contains(&what);
        let graphed = |module| self.cuda_graphs.contains(&module);
        let usual = || 4u32.saturating_mul(self.pp).saturating_mul(self.micro_batch).saturating_mul(self.dp);
        Layout {
            tensor: self.tp,
            pipeline: self.pp,
            data: self.dp,
            context: self.cp,
            expert: self.ep,
            expert_tensor: self.etp,
            dispatcher: match self.token_dispatcher {
                TokenDispatcher::Alltoall => Dispatcher::AllToAll,
                TokenDispatcher::Flex => Dispatcher::Flex,
            },
            interleave: self.interleave,
            micro_batch: self.micro_batch,
            global_batch: self.global_batch.unwrap_or_else(usual),
            sequence_parallel: self.sequence_parallel,
            recompute: match self.recompute {
                Recomputed::None => Recompute::None,
                Recomputed::Selective => Recompute::Selective,
                Recomputed::Full => Recompute::Full,
            },
            sharding: match self.sharding {
                Shared::None => Sharding::None,
                Shared::Optimizer => Sharding::Optimizer,
                Shared::Gradients => Sharding::Gradients,
                Shared::Parameters => Sharding::Parameters,
            },
            shard: self.shard,
            prefetch: self.prefetch,
            overlap_gradients: overlaps(Overlap::Gradients),
            overlap_pipeline: overlaps(Overlap::Pipeline),
            overlap_tensor: overlaps(Overlap::Tensor),
            overlap_experts: overlaps(Overlap::Experts),
            schedule: match self.schedule {
                Order::GPipe => Schedule::GPipe,
                Order::OneForwardOneBackward => Schedule::OneForwardOneBackward,
                Order::ZeroBubble => Schedule::ZeroBubble,
            },
            attention: match self.attention {
                Scores::Fused => Attention::Fused,
                Scores::Latest => Attention::Latest,
                Scores::Unfused => Attention::Unfused,
            },
            precision: if self.fp8 { Precision::Bits8 } else { Precision::Bits16 },
            graphs: Graphs {
                attention: graphed(Graphed::Attn),
                feed_forward: graphed(Graphed::Mlp),
                router: graphed(Graphed::MoeRouter),
                iteration: graphed(Graphed::FullIteration),
            },
            wide_gradients: !self.narrow_gradients,
            adapters: self.lora,
        }
    }
}
