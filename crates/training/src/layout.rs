//! How a job is laid over its GPUs, and which GPUs form a group.
//!
//! Source: Megatron-LM, megatron/core/parallel_state.py (order of ranks: tensor, context, data, pipeline).

use fabriscope_catalog::Transformer;

use crate::times::Group;

/// What is computed a second time in the backward pass instead of being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recompute {
    /// Nothing.
    #[default]
    None,
    /// The core of attention (Korthikanti et al., §5).
    Selective,
    /// Every layer, from its input.
    Full,
}

/// What data-parallel ranks share instead of having copies (ZeRO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Sharding {
    /// Nothing: gradients are reduced by all.
    #[default]
    None,
    /// The optimizer's state (ZeRO-1, Megatron's distributed optimizer).
    Optimizer,
    /// The gradients as well (ZeRO-2).
    Gradients,
    /// The parameters as well (ZeRO-3, FSDP): gathered layer by layer, in both passes.
    Parameters,
}

/// In which order stages take micro-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// All forward passes, then all backward passes.
    GPipe,
    /// One forward, one backward; interleaved where a stage has several parts of the model.
    #[default]
    OneForwardOneBackward,
    /// The same, and gradients of weights are computed where a stage would wait (Qi et al., arXiv 2401.10241, ZB-H1).
    ZeroBubble,
}

/// How attention is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attention {
    /// In one kernel: the matrix of scores never leaves the processor (FlashAttention-2).
    #[default]
    Fused,
    /// The same by kernels written for this generation of GPUs (FlashAttention-3, cuDNN 9), where there are any.
    Latest,
    /// By multiplications, softmax and dropout, each through memory.
    Unfused,
}

/// Elements of multiplications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// 16 bits.
    #[default]
    Bits16,
    /// 8 bits in the linear layers, 16 elsewhere.
    Bits8,
    /// 32 bits, all digits of them kept.
    Bits32,
}

impl Precision {
    /// Bytes of an activation, and of a result.
    #[must_use]
    pub const fn width(self) -> u64 {
        match self {
            Precision::Bits16 | Precision::Bits8 => 2,
            Precision::Bits32 => 4,
        }
    }
}

/// How tokens get to their experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatcher {
    /// A copy for each expert, by an all-to-all of the collective library (Megatron-LM: `alltoall`).
    #[default]
    AllToAll,
    /// One for each node, and from there to its GPUs, by kernels of their own (Megatron-LM: `flex`, with DeepEP or HybridEP behind it).
    Flex,
}

/// What the host launches as graphs: one launch for all kernels of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Graphs {
    /// Attention.
    pub attention: bool,
    /// Feed-forward matrices of layers without experts.
    pub feed_forward: bool,
    /// The router, shared experts and counts of tokens.
    pub router: bool,
    /// Everything: the host is never late, and nobody waits for counts.
    pub iteration: bool,
}

/// A job over GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Layout {
    /// GPUs that share the matrices of a layer.
    pub tensor: u32,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Copies of the model.
    pub data: u32,
    /// GPUs that share a sequence, in a ring.
    pub context: u32,
    /// GPUs that share the experts of a layer, among those of `context` and `data`, and of `tensor` as far as they do not share matrices of experts.
    pub expert: u32,
    /// GPUs that share the matrices of an expert; those of `tensor` where nothing is said.
    pub expert_tensor: Option<u32>,
    /// How tokens get to their experts.
    pub dispatcher: Dispatcher,
    /// Parts of the model at each stage.
    pub interleave: u32,
    /// Sequences of a micro-batch.
    pub micro_batch: u32,
    /// Sequences of a step, of all copies.
    pub global_batch: u32,
    /// Norms and dropout are shared by the tensor group, too.
    pub sequence_parallel: bool,
    /// What is computed twice.
    pub recompute: Recompute,
    /// What data-parallel ranks share.
    pub sharding: Sharding,
    /// Of how many ranks each share; all that have the same parameters where nothing is said. The others have copies of the shares, whose
    /// gradients are summed behind (FSDP: hybrid sharding).
    pub shard: Option<u32>,
    /// Layers ahead of computing that parameters are gathered, where they are shared.
    pub prefetch: u32,
    /// Gradients leave while the backward pass goes on.
    pub overlap_gradients: bool,
    /// Stages compute while they send and receive.
    pub overlap_pipeline: bool,
    /// Gathers and scatters of tensor groups go piece by piece with the multiplications beside them, where sequences are shared.
    pub overlap_tensor: bool,
    /// Tokens go to experts and back while the layer computes the other direction of another micro-batch (Megatron-LM:
    /// `overlap_moe_expert_parallel_comm`; DeepSeek-V3, arXiv 2412.19437, §3.2.1).
    pub overlap_experts: bool,
    /// The order of micro-batches.
    pub schedule: Schedule,
    /// How attention is computed.
    pub attention: Attention,
    /// Elements of multiplications.
    pub precision: Precision,
    /// What the host launches as graphs, instead of kernel by kernel.
    pub graphs: Graphs,
    /// Gradients are summed in 32 bits.
    pub wide_gradients: bool,
    /// All that is trained: low-rank adapters of so many dimensions beside the projections of attention (LoRA; Hu et al., arXiv 2106.09685).
    pub adapters: Option<u32>,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            tensor: 1,
            pipeline: 1,
            data: 1,
            context: 1,
            expert: 1,
            expert_tensor: None,
            dispatcher: Dispatcher::AllToAll,
            interleave: 1,
            micro_batch: 1,
            global_batch: 1,
            sequence_parallel: false,
            recompute: Recompute::None,
            sharding: Sharding::None,
            shard: None,
            prefetch: 1,
            overlap_gradients: true,
            overlap_pipeline: false,
            overlap_tensor: false,
            overlap_experts: false,
            schedule: Schedule::OneForwardOneBackward,
            attention: Attention::Fused,
            precision: Precision::Bits16,
            graphs: Graphs::default(),
            wide_gradients: true,
            adapters: None,
        }
    }
}

/// A number of parts that does not divide a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{parts} {parts_are} do not divide {whole} {whole_are}")]
pub struct Indivisible {
    /// How many parts.
    pub parts: u32,
    /// What they are.
    pub parts_are: &'static str,
    /// What is divided.
    pub whole: u32,
    /// What it is.
    pub whole_are: &'static str,
}

impl Indivisible {
    /// Whether `parts` divide `whole`.
    ///
    /// # Errors
    /// They do not.
    pub fn check(parts: u32, parts_are: &'static str, whole: u32, whole_are: &'static str) -> Result<(), Indivisible> {
        if whole.is_multiple_of(parts) { Ok(()) } else { Err(Indivisible { parts, parts_are, whole, whole_are }) }
    }
    /// Numbers that do, the first of them.
    #[must_use]
    pub fn remedy(&self) -> String {
        let fitting = (1..=self.whole).filter(|count| self.whole.is_multiple_of(*count)).take(12);
        format!("use one of {}", fitting.map(|count| count.to_string()).collect::<Vec<_>>().join(", "))
    }
}

/// Why a layout does not fit a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum LayoutError {
    /// Nothing, or too much of something.
    #[error("{what} of {count}")]
    #[diagnostic(code(train::impossible), help("use 1 to 1000000"))]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many.
        count: u32,
    },
    /// A number that does not divide another.
    #[error("{0}")]
    #[diagnostic(code(train::impossible), help("{}", .0.remedy()))]
    Divide(Indivisible),
    /// More parts than there are layers, embedding and output.
    #[error("{parts} parts of the pipeline for {layers} layers, embedding and output among them")]
    #[diagnostic(code(train::impossible), help("make stages times parts of a stage at most {layers}"))]
    Parts {
        /// Parts of all stages.
        parts: u32,
        /// Layers.
        layers: u32,
    },
    /// Interleaved stages take micro-batches in groups of as many as there are stages.
    #[error("{micro_batches} micro-batches for {stages} interleaved stages")]
    #[diagnostic(code(train::impossible), help("make the micro-batches of a copy a multiple of the stages, or leave --interleave out"))]
    Interleaved {
        /// Micro-batches of a copy.
        micro_batches: u32,
        /// Stages.
        stages: u32,
    },
    /// Some ranks of copies share what is shared, and nothing is.
    #[error("shares among {shard} ranks, and copies share nothing")]
    #[diagnostic(code(train::impossible), help("say what they share: --sharding parameters, gradients or optimizer"))]
    NothingShared {
        /// Ranks.
        shard: u32,
    },
    /// Adapters where something else expects that all parameters are trained.
    #[error("adapters with {with}")]
    #[diagnostic(
        code(train::impossible),
        help("train adapters with fused attention, and share at most gradients: --attention fused, --sharding gradients")
    )]
    Adapters {
        /// What.
        with: &'static str,
    },
    /// Experts are shared, and there are none.
    #[error("the experts of a layer shared by {expert} GPUs, and the model has none")]
    #[diagnostic(code(train::impossible), help("leave --ep out, or take a model with experts"))]
    NoExperts {
        /// GPUs.
        expert: u32,
    },
}

impl Layout {
    /// GPUs of the job.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        [self.tensor, self.context, self.data, self.pipeline].into_iter().map(u64::from).product()
    }
    /// Micro-batches of a step of one copy.
    #[must_use]
    pub fn micro_batches(&self) -> u32 {
        self.global_batch / self.data.max(1) / self.micro_batch.max(1)
    }
    /// Layers of each part of the pipeline, in order. Where they do not come out even, embedding and output count as one each
    /// (Megatron-LM, `account_for_embedding_in_pipeline_split`), and what is left goes to the parts behind the first.
    #[must_use]
    pub fn layers_of_parts(&self, model: &Transformer) -> Vec<u32> {
        let parts = self.pipeline.saturating_mul(self.interleave).max(1);
        if model.layers.is_multiple_of(parts) {
            return vec![model.layers / parts; parts as usize];
        }
        let all = model.layers + 2;
        let (each, left) = (all / parts, all % parts);
        // The ends have room for what they do besides.
        let given = |part: u32| each + u32::from(part > 0 && part <= left) - u32::from(part == 0) - u32::from(part + 1 == parts);
        (0..parts).map(given).collect()
    }
    /// The ranks that share tensors.
    #[must_use]
    pub fn tensor_group(&self) -> Group {
        Group { size: self.tensor, stride: 1 }
    }
    /// The ranks that share a sequence.
    #[must_use]
    pub fn context_group(&self) -> Group {
        Group { size: self.context, stride: self.tensor }
    }
    /// The ranks that have the same parameters: copies, and those that share a sequence.
    #[must_use]
    pub fn data_group(&self) -> Group {
        Group { size: self.data * self.context, stride: self.tensor }
    }
    /// The ranks that have a share each of what `group`, which has the same parameters, shares.
    #[must_use]
    pub fn shard_group(&self, group: Group) -> Group {
        Group { size: self.shard.map_or(group.size, |shard| shard.min(group.size)), ..group }
    }
    /// The ranks of `group` that have the same share: one where all have shares of their own.
    #[must_use]
    pub fn replica_group(&self, group: Group) -> Group {
        let shard = self.shard_group(group);
        Group { size: group.size / shard.size.max(1), stride: shard.stride.saturating_mul(shard.size) }
    }
    /// GPUs that share the matrices of an expert.
    #[must_use]
    pub fn tensor_of_experts(&self) -> u32 {
        self.expert_tensor.unwrap_or(self.tensor).max(1)
    }
    /// The ranks that share the experts of a layer (Megatron-LM: the order is expert tensor, expert, expert data, pipeline).
    #[must_use]
    pub fn expert_group(&self) -> Group {
        Group { size: self.expert, stride: self.tensor_of_experts() }
    }
    /// The ranks that have the same experts.
    #[must_use]
    pub fn expert_data_group(&self) -> Group {
        let (ranks, stride) = (self.ranks_of_experts(), self.tensor_of_experts().saturating_mul(self.expert));
        Group { size: (ranks / self.expert.max(1)).max(1), stride }
    }
    /// Ranks of a stage that have a part of each of some experts.
    fn ranks_of_experts(&self) -> u32 {
        self.tensor.saturating_mul(self.data).saturating_mul(self.context) / self.tensor_of_experts()
    }
    /// A rank and that of the next stage.
    #[must_use]
    pub fn pipeline_group(&self) -> Group {
        Group { size: self.pipeline, stride: self.tensor * self.context * self.data }
    }

    /// Whether the layout fits a model.
    ///
    /// # Errors
    /// The first number that does not.
    pub fn check(&self, model: &Transformer) -> Result<(), LayoutError> {
        let counts = [
            ("tensor parallelism", self.tensor),
            ("pipeline stages", self.pipeline),
            ("copies", self.data),
            ("context parallelism", self.context),
            ("expert parallelism", self.expert),
            ("GPUs of an expert", self.tensor_of_experts()),
            ("dimensions of adapters", self.adapters.unwrap_or(1)),
            ("parts of a stage", self.interleave),
            ("sequences of a micro-batch", self.micro_batch),
            ("sequences of a step", self.global_batch),
            ("ranks of a share", self.shard.unwrap_or(1)),
        ];
        if let Some((what, count)) = counts.into_iter().find(|(_, count)| !(1..=MOST).contains(count)) {
            return Err(LayoutError::Count { what, count });
        }
        let divides =
            |parts, parts_are, whole, whole_are| Indivisible::check(parts, parts_are, whole, whole_are).map_err(LayoutError::Divide);
        divides(self.tensor, "tensor-parallel GPUs", model.heads, "heads of attention")?;
        if self.adapters.is_some() && self.attention == Attention::Unfused {
            return Err(LayoutError::Adapters { with: "unfused attention" });
        }
        if self.adapters.is_some() && self.sharding == Sharding::Parameters {
            return Err(LayoutError::Adapters { with: "shared parameters" });
        }
        let parts = self.pipeline.saturating_mul(self.interleave);
        if parts > model.layers.saturating_add(2) {
            return Err(LayoutError::Parts { parts, layers: model.layers.saturating_add(2) });
        }
        divides(self.context, "context-parallel GPUs", model.sequence, "tokens of a sequence")?;
        divides(self.data, "copies", self.global_batch, "sequences of a step")?;
        divides(self.micro_batch, "sequences of a micro-batch", self.global_batch / self.data, "sequences of a copy")?;
        match model.experts {
            None if self.expert > 1 => return Err(LayoutError::NoExperts { expert: self.expert }),
            None => {}
            Some(experts) => {
                divides(self.expert, "expert-parallel GPUs", experts.count, "experts")?;
                divides(self.tensor_of_experts(), "GPUs of an expert", self.tensor, "tensor-parallel GPUs")?;
                divides(self.expert, "expert-parallel GPUs", self.ranks_of_experts(), "ranks with experts of their own")?;
            }
        }
        if let Some(shard) = self.shard {
            if self.sharding == Sharding::None {
                return Err(LayoutError::NothingShared { shard });
            }
            divides(shard, "ranks of a share", self.data_group().size, "ranks of copies")?;
            let experts = self.expert_data_group();
            if self.expert > 1 && shard < experts.size {
                divides(shard, "ranks of a share", experts.size, "ranks with the same experts")?;
            }
        }
        if self.interleave > 1 && !self.micro_batches().is_multiple_of(self.pipeline) {
            return Err(LayoutError::Interleaved { micro_batches: self.micro_batches(), stages: self.pipeline });
        }
        Ok(())
    }
}

/// Basis: assumed, more than any job has.
const MOST: u32 = 1_000_000;
