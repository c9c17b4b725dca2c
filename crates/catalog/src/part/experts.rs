//! Libraries that exchange tokens among the experts of a model: who posts messages, how kernels are laid out, what their steps cost.
//!
//! Source: DeepEP (<https://github.com/deepseek-ai/DeepEP>), csrc/kernels; UCCL-EP (<https://github.com/uccl-project/uccl>), ep; pplx-kernels
//! (<https://github.com/perplexityai/pplx-kernels>), csrc/all_to_all; NVSHMEM. The parts say which.
//! Modelled: the cost of a post by a GPU or by a thread of the CPU, queue pairs and how long a post holds one, the roles of warps.
//! Not modelled: time to connect, registration of buffers.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Who posts work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Poster {
    /// Warps of the kernel write them and ring the doorbell (IBGDA).
    Gpu,
    /// Threads of the CPU take commands from a queue in host memory.
    Proxy,
}

/// The kernels of long exchanges: a token goes once to each node, to the GPU of the same number, and from there over the links of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenForwarding {
    /// Processors of the GPU that take part, where the command line says nothing.
    pub processors: Sourced<u32>,
    /// Processors of a channel: one that sends and one that forwards, or one that does both.
    pub processors_per_channel: Sourced<u32>,
    /// Tokens of a message between nodes.
    pub chunk: Sourced<u32>,
    /// Tokens that the receiver of a channel has room for, by node.
    pub buffer: Sourced<u32>,
    /// Warps of a channel that forward to one GPU of the node.
    pub forwarders: Sourced<u32>,
    /// Warps of a channel that send to one GPU where all experts are on one node.
    pub senders: Sourced<u32>,
    /// Warps of a channel that add up tokens that come back.
    pub reducers: Sourced<u32>,
    /// Time of a warp to find out whether a token is for its GPU.
    pub look: Sourced<Span>,
    /// Bytes of a token that a warp has in flight.
    pub in_flight: Sourced<Bytes>,
    /// From asking for them until they have been written.
    pub trip: Sourced<Span>,
    /// Time of a warp to add up a token of 16 bits and 7168 elements, in proportion for others.
    pub reduce: Sourced<Span>,
    /// What a processor writes at most.
    pub write_rate: Sourced<Rate>,
}

/// What a library of experts costs beside the bytes that it moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertLibrary {
    /// Who posts.
    pub poster: Poster,
    /// How many of them post at the same time, for each GPU.
    pub posters: Sourced<u32>,
    /// Time of one for a message, beside the verbs where it is a thread of the CPU.
    pub post: Sourced<Span>,
    /// The same for a signal, which has no data.
    pub signal: Sourced<Span>,
    /// From the kernel's command until the poster sees it.
    pub handoff: Sourced<Span>,
    /// Queue pairs to each peer; as many as a GPU has experts where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_pairs: Option<Sourced<u32>>,
    /// How long a post keeps others from a queue pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Sourced<Span>>,
    /// Time of a thread at the receiver for each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<Sourced<Span>>,
    /// Short exchanges use the links of the node, not adapters, between its GPUs.
    pub within_node: bool,
    /// Tokens per expert are told by signals before the tokens, by as many blocks; behind them where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting_blocks: Option<Sourced<u32>>,
    /// From the start of a kernel to its first token, and from the last one to its end.
    pub begin: Sourced<Span>,
    /// Time from one kernel to the next that the host takes to call it: no kernel is measured as shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Sourced<Span>>,
    /// Time of a block to copy a token out of a buffer, where that is not hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Sourced<Span>>,
    /// What one block moves within a node in the library's own all-to-all, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_rate: Option<Sourced<Rate>>,
    /// The kernels of long exchanges, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<TokenForwarding>,
}

impl ExpertLibrary {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let counts = [("posters", Some(&self.posters)), ("queue_pairs", self.queue_pairs.as_ref())];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| count.is_some_and(|count| **count == 0)) {
            return Err(Problem::at(&["experts", key, "value"], format!("no {key}"), "use 1 or more"));
        }
        let Some(forwarding) = &self.forwarding else { return Ok(()) };
        let TokenForwarding { processors, processors_per_channel, chunk, buffer, forwarders, senders, reducers, in_flight, .. } =
            forwarding;
        let counts = [
            ("processors_per_channel", **processors_per_channel),
            ("chunk", **chunk),
            ("forwarders", **forwarders),
            ("senders", **senders),
            ("reducers", **reducers),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Problem::at(&["experts", "forwarding", key, "value"], format!("no {key}"), "use 1 or more"));
        }
        if **buffer < **chunk {
            let message = format!("a message of {} tokens does not fit into a buffer of {}", **chunk, **buffer);
            return Err(Problem::at(&["experts", "forwarding", "buffer", "value"], message, "use at least as many as `chunk`"));
        }
        if **processors < **processors_per_channel {
            let message = format!("{} processors are less than a channel takes", **processors);
            return Err(Problem::at(&["experts", "forwarding", "processors", "value"], message, "use more"));
        }
        if **in_flight == Bytes::ZERO {
            return Err(Problem::at(&["experts", "forwarding", "in_flight", "value"], "no bytes in flight", "use for example \"2560 B\""));
        }
        Ok(())
    }
}
