//! How a model is served: over how many GPUs, within which limits of a server.
//!
//! Source: vLLM's arguments and their defaults (vllm/config, vllm/engine/arg_utils.py), which SGLang and TensorRT-LLM have alike.

use fabriscope_catalog::Transformer;
use fabriscope_training::{Group, Indivisible, Precision};
use fabriscope_units::{Bytes, Span};

/// How requests get room for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// As they grow; who came last gives its room up and is computed again (vLLM).
    #[default]
    Preempt,
    /// All that a request can ever need, before it starts (TensorRT-LLM, `GUARANTEED_NO_EVICT`).
    Reserve,
}

/// When keys and values leave for the other pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfer {
    /// Layer by layer, while later layers are computed.
    #[default]
    Layers,
    /// When the prompt is done.
    End,
}

/// Copies of a model over GPUs of a pool, and the limits of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Serving {
    /// GPUs that share the matrices of a layer.
    pub tensor: u32,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Copies of the model; of what is not an expert, where experts are shared.
    pub copies: u32,
    /// GPUs that share the experts of a layer, each with whole ones; 1 where experts are cut like other matrices.
    pub expert: u32,
    /// Experts that are there twice.
    pub redundant_experts: u32,
    /// Nodes that a token goes to at most.
    pub expert_nodes: Option<u32>,
    /// One half of a batch computes while the other is exchanged.
    pub two_batches: bool,
    /// Weights and operands of linear layers.
    pub precision: Precision,
    /// Keys and values.
    pub cache: Precision,
    /// Tokens of an iteration at most.
    pub batched_tokens: u32,
    /// Sequences of an iteration at most.
    pub sequences: u32,
    /// Prompts are read in pieces, beside tokens that are generated; else whole, and alone.
    pub chunked: bool,
    /// How requests get room.
    pub admission: Admission,
    /// Tokens of a block of keys and values.
    pub block: u32,
    /// Share of a GPU's memory that the server takes [0..1].
    pub memory_share: f64,
    /// What libraries, graphs and the driver keep of it.
    pub reserved: Bytes,
    /// Tokens of an iteration up to which its kernels are launched as one graph.
    pub graph_tokens: u32,
    /// What the host does between iterations while GPUs wait: to schedule, to prepare inputs, to take the tokens.
    pub host: Span,
}

impl Default for Serving {
    /// A server on one node, as vLLM is started without arguments.
    fn default() -> Serving {
        Serving {
            tensor: 1,
            pipeline: 1,
            copies: 1,
            expert: 1,
            redundant_experts: 0,
            expert_nodes: None,
            two_batches: false,
            precision: Precision::Bits16,
            cache: Precision::Bits16,
            // Basis: published, vLLM's defaults for a server on GPUs of 70 GB and more: 8,192 tokens, 1,024 sequences, blocks of 16, nine
            // tenths of the memory, graphs of up to 512 tokens.
            batched_tokens: 8192,
            sequences: 1024,
            chunked: true,
            admission: Admission::Preempt,
            block: 16,
            memory_share: 0.9,
            graph_tokens: 512,
            // Basis: estimated, contexts of CUDA and buffers of NCCL, some 0.5 GB each, and graphs.
            reserved: Bytes::from_mib(1536),
            // Basis: estimated, what is left beside GPUs of the host's 1 to 3 ms an iteration where inputs are prepared ahead.
            host: Span::from_us(500),
        }
    }
}

/// Why a model cannot be served so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ServingError {
    /// Nothing, or too much of something.
    #[error("{what} of {count}")]
    #[diagnostic(code(infer::impossible), help("use 1 to 1000000"))]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many.
        count: u32,
    },
    /// A number that does not divide another.
    #[error("{0}")]
    #[diagnostic(code(infer::impossible), help("{}", .0.remedy()))]
    Divide(Indivisible),
    /// More stages than layers.
    #[error("{stages} stages of the pipeline for {layers} layers")]
    #[diagnostic(code(infer::impossible), help("make --pp at most {layers}"))]
    Stages {
        /// Stages.
        stages: u32,
        /// Layers.
        layers: u32,
    },
    /// Experts are shared, and there are none.
    #[error("the experts of a layer shared by {expert} GPUs, and the model has none")]
    #[diagnostic(code(infer::impossible), help("leave --ep out, or take a model with experts: mixtral-8x7b, deepseek-v3"))]
    NoExperts {
        /// GPUs.
        expert: u32,
    },
    /// Experts shared by GPUs that are no whole copies.
    #[error("experts shared by {expert} GPUs, {tensor} GPUs a copy, {copies} copies, {stages} stages")]
    #[diagnostic(code(infer::impossible), help("make --ep 1, or whole copies that divide all: --tp times a divisor of --dp, with --pp 1"))]
    Experts {
        /// GPUs that share.
        expert: u32,
        /// GPUs of a copy.
        tensor: u32,
        /// Copies.
        copies: u32,
        /// Stages.
        stages: u32,
    },
    /// A share of memory that is none.
    #[error("{share} of the memory of each GPU")]
    #[diagnostic(code(infer::impossible), help("use more than 0 and at most 1, for example 0.9"))]
    Share {
        /// As given.
        share: String,
    },
    /// No room for keys and values beside the weights.
    #[error("{weights} of weights and {others} of activations and libraries on a GPU, {taken} of whose {size} the server takes")]
    #[diagnostic(code(infer::no_room), help("share more (--tp, --pp, --ep), use --fp8, or take more memory: --memory-share"))]
    NoRoom {
        /// Weights of the fullest GPU.
        weights: String,
        /// Activations, libraries, graphs.
        others: String,
        /// Of the server.
        taken: String,
        /// Of the GPU.
        size: String,
    },
    /// A request that no copy can ever hold.
    #[error("request {number} of {input} tokens with {output} to generate, and a copy has room for {room}")]
    #[diagnostic(code(infer::too_long), help("share more (--tp, --pp), use --fp8 or --fp8-cache, or take shorter requests"))]
    TooLong {
        /// Which, from 1.
        number: u64,
        /// Its prompt.
        input: u64,
        /// What it generates.
        output: u64,
        /// Tokens.
        room: u64,
    },
    /// A prompt that is read whole and does not fit an iteration.
    #[error("request {number} of {input} tokens, and an iteration takes {most}")]
    #[diagnostic(code(infer::too_long), help("leave --whole-prompts out, or raise --batched-tokens"))]
    Whole {
        /// Which, from 1.
        number: u64,
        /// Its prompt.
        input: u64,
        /// Tokens of an iteration.
        most: u32,
    },
    /// Nothing to do.
    #[error("no request has tokens to read and to generate")]
    #[diagnostic(code(infer::nothing), help("use at least one request of one token each way: --requests, --input-tokens, --output-tokens"))]
    Nothing,
}

impl Serving {
    /// GPUs of a copy.
    #[must_use]
    pub const fn gpus_of_copy(&self) -> u32 {
        self.tensor.saturating_mul(self.pipeline)
    }
    /// GPUs of all copies.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.gpus_of_copy()) * u64::from(self.copies)
    }
    /// Copies that share experts, and go from iteration to iteration together.
    #[must_use]
    pub const fn together(&self) -> u32 {
        if self.expert > self.tensor { self.expert / self.tensor } else { 1 }
    }
    /// Experts of a layer on a GPU, where they are whole.
    #[must_use]
    pub fn experts_of_gpu(&self, model: &Transformer) -> u64 {
        model.experts.map_or(0, |experts| u64::from(experts.count.saturating_add(self.redundant_experts).div_ceil(self.expert.max(1))))
    }
    /// Layers of each stage; what is left goes to the stages before the last, whose output is work besides (vLLM, `get_pp_indices`).
    #[must_use]
    pub fn layers_of_stages(&self, model: &Transformer) -> Vec<u32> {
        let (each, left) = (model.layers / self.pipeline, model.layers % self.pipeline);
        let more = |stage: u32| u32::from(stage + 1 < self.pipeline && stage + 1 + left >= self.pipeline);
        (0..self.pipeline).map(|stage| each + more(stage)).collect()
    }
    /// The ranks that share tensors.
    #[must_use]
    pub const fn tensor_group(&self) -> Group {
        Group { size: self.tensor, stride: 1 }
    }
    /// A rank and that of the next stage.
    #[must_use]
    pub const fn pipeline_group(&self) -> Group {
        Group { size: self.pipeline, stride: self.tensor }
    }
    /// The ranks that share the experts of a layer.
    #[must_use]
    pub const fn expert_group(&self) -> Group {
        Group { size: self.expert, stride: 1 }
    }

    /// Whether a model can be served so.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn check(&self, model: &Transformer) -> Result<(), ServingError> {
        let counts = [
            ("tensor parallelism", self.tensor),
            ("pipeline stages", self.pipeline),
            ("copies", self.copies),
            ("expert parallelism", self.expert),
            ("tokens of an iteration", self.batched_tokens),
            ("sequences of an iteration", self.sequences),
            ("tokens of a block", self.block),
        ];
        if let Some((what, count)) = counts.into_iter().find(|(_, count)| !(1..=MOST).contains(count)) {
            return Err(ServingError::Count { what, count });
        }
        if !(self.memory_share > 0.0 && self.memory_share <= 1.0) {
            return Err(ServingError::Share { share: self.memory_share.to_string() });
        }
        Indivisible::check(self.tensor, "tensor-parallel GPUs", model.heads, "heads of attention").map_err(ServingError::Divide)?;
        if self.pipeline > model.layers {
            return Err(ServingError::Stages { stages: self.pipeline, layers: model.layers });
        }
        if self.expert > 1 {
            if model.experts.is_none() {
                return Err(ServingError::NoExperts { expert: self.expert });
            }
            let whole = self.expert.is_multiple_of(self.tensor) && self.copies.is_multiple_of(self.together());
            if !whole || (self.together() > 1 && self.pipeline > 1) {
                return Err(ServingError::Experts { expert: self.expert, tensor: self.tensor, copies: self.copies, stages: self.pipeline });
            }
        }
        Ok(())
    }
}

/// Basis: assumed, more than any server has.
const MOST: u32 = 1_000_000;
