//! NCCL and RCCL as software: what their calls, kernels and proxy threads cost beside the bytes that they move.
//!
//! Source: NCCL (<https://github.com/NVIDIA/nccl>), src/graph/tuning.cc, src/transport; aws-ofi-nccl; the parts say which.
//! Modelled: the cost of a call, of a block's start and steps by protocol, of a proxy's turn.
//! Not modelled: time to connect, registration of users' buffers.
//!
//! What one block of a kernel moves depends on the GPU and stands in its part.

use fabriscope_units::{Bytes, Span, parameters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Nearness, Vendor};
use crate::error::Problem;
use crate::sourced::{Sourced, Stated};

parameters! {
    /// What a step costs a block with one protocol, beside its bytes and the way of its flags.
    pub struct StepParameters as "Step" {
        /// From the kernel's start until its blocks look for data: fetching the work, connections, barriers; and the way out.
        pub start: Span,
        /// From a flag's arrival until the block moves bytes: the loop that looks for it, the threads' agreement.
        pub begin: Span,
        /// From the last byte until the flag leaves, beside the round trip where the data must be there first.
        pub end: Span,
    }
}

impl Eq for StepParameters {}

/// What a step costs a block with one protocol, each number with its origin.
pub type Step = StepParameters<Stated>;

/// The costs of one collective communication library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nccl {
    /// Whose GPUs it runs on.
    pub vendor: Vendor,
    /// The release whose constants and rules it has, as `2.18`; the usual one where nothing is said. Only clusters that name the part get it
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Core time of a call and its group, beside starting the kernel.
    pub call: Sourced<Span>,
    /// Flags in every line of 8 bytes.
    pub ll: Step,
    /// Flags in every line of 128 bytes.
    pub ll128: Step,
    /// Flags behind slices.
    pub simple: Step,
    /// What an operation by the reduction of NVLink switches begins with, in the place of `simple.start`; as that if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvls_start: Option<Sourced<Span>>,
    /// Core time of the proxy thread for each step that it carries on, beside the verbs.
    pub proxy_step: Sourced<Span>,
    /// The plugin's own time for each message at each end, beside the proxy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_overhead: Option<Sourced<Span>>,
    /// The same with adapters that write remote memory, where its protocol is another one; as `plugin_overhead` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_write_overhead: Option<Sourced<Span>>,
    /// The latency of the network that the plugin tells the library, which chooses by it; where nothing is said, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_latency: Option<Sourced<Span>>,
    /// The farthest adapter that reads and writes a GPU's memory; farther ones go through host memory.
    pub gpudirect: Nearness,
    /// Whether the receiver's adapter reads the GPU's memory behind a message, so that it is in place before the flag.
    pub flush: bool,
    /// The queue pairs of messages between nodes, over verbs; adapters of EFA have SRD whatever is said.
    #[serde(default, skip_serializing_if = "NcclTransport::is_usual")]
    pub transport: NcclTransport,
    /// Control messages between proxies.
    pub control_bytes: Sourced<Bytes>,
    /// What the plugin wants where users say nothing: variables of the library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Variable>,
    /// Messages that are longer are shared by the adapters that the plugin uses as one, shorter ones go by one of them; all are shared where
    /// nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_from: Option<Sourced<Bytes>>,
    /// Lines of LL and LL128 do not go through adapters that only read remote memory, which deliver in any order: all is Simple there.
    #[serde(default)]
    pub lines_need_writes: bool,
}

/// The queue pairs that carry messages of a collective library between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NcclTransport {
    /// A reliable connection for each channel to a rank.
    #[default]
    Rc,
    /// One queue pair of Ultra Ethernet (RUD) for all that a rank sends and receives by an adapter.
    Uet,
}

impl NcclTransport {
    fn is_usual(&self) -> bool {
        *self == NcclTransport::default()
    }
}

/// A variable of the library that its plugin sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// Where to look that up.
    pub source: String,
}

impl Nccl {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.release.is_some() && self.vendor != Vendor::Nvidia {
            return Err(Problem::at(&["nccl", "release"], "releases are those of NCCL", "leave it out"));
        }
        if let Some(other) = self.release.as_deref().filter(|release| *release != "2.18") {
            let message = format!("the constants of release {other} are not here");
            return Err(Problem::at(&["nccl", "release"], message, "use \"2.18\", or leave it out for 2.22 (Blackwell: 2.27)"));
        }
        if *self.control_bytes == Bytes::ZERO {
            return Err(Problem::at(&["nccl", "control_bytes", "value"], "messages without bytes", "use for example \"64 B\""));
        }
        Ok(())
    }
}
