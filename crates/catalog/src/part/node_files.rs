//! What a node's links carry where a file about the node does not say it: XML of hwloc or NCCL, `nvidia-smi topo -m`.
//!
//! Source: NCCL, src/graph/topo.h and topo.cc, which has to know the same things.
//! Modelled: NVLink by what a GPU can do, links between sockets by the model of the processor, slots of unknown width.
//! Not modelled: links of which a file says nothing and NCCL knows nothing: they are never the bottleneck.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part, PcieSlot};
use crate::error::Problem;
use crate::sourced::Sourced;

/// NVLink of a family of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuFamily {
    /// What the GPUs can do (compute capability), 90 for 9.0; they and all abler ones that are not listed.
    pub compute_capability: u32,
    /// Name of their interconnect.
    pub interconnect: String,
    /// Links of a GPU.
    pub links: u32,
}

/// xGMI of GPUs of AMD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AmdFamily {
    /// Their architectures, such as `gfx90a`.
    pub architectures: Vec<String>,
    /// Name of their interconnect.
    pub interconnect: String,
}

/// The link between two processors of a family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorFamily {
    /// `x86_64`, `arm64` or `ppc64`; any if left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// As CPUID says it: `GenuineIntel`; any if left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    /// Families; any if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<u32>,
    /// Models, from and to; any if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<[u32; 2]>,
    /// What it carries each way.
    pub rate: Sourced<Rate>,
}

/// All that files about nodes leave out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeFiles {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// A slot whose width or generation is not known.
    pub unknown_slot: PcieSlot,
    /// Largest payload of a PCI Express packet that writes.
    pub max_payload: Sourced<Bytes>,
    /// Payload of a PCI Express completion.
    pub completion_payload: Sourced<Bytes>,
    /// Largest PCI Express read request.
    pub max_read_request: Sourced<Bytes>,
    /// One crossing of a PCI Express link with what lies behind it.
    pub pcie_latency: Sourced<Span>,
    /// Name of the coherent interconnect between processor and GPU.
    pub coherent: String,
    /// What carries the rest: within a processor, to memories.
    pub local: Sourced<Rate>,
    /// One crossing within a processor.
    pub local_latency: Sourced<Span>,
    /// From a processor or GPU to its memory.
    pub memory_latency: Sourced<Span>,
    /// One crossing of a link between sockets.
    pub socket_latency: Sourced<Span>,
    /// NVLink by what GPUs can do, the oldest first.
    pub gpus: Vec<GpuFamily>,
    /// xGMI by the architecture of GPUs of AMD, the oldest first; the last one also counts for those that are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amd_gpus: Vec<AmdFamily>,
    /// Links between sockets; the first that fits counts.
    pub processors: Vec<ProcessorFamily>,
}

impl Part for NodeFiles {
    const KIND: Kind = Kind::NodeFiles;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        self.unknown_slot.check(&["unknown_slot"])?;
        if self.local.as_bps() == 0 {
            return Err(Problem::at(&["local", "value"], "`local` is zero: nothing would reach a memory", "use a rate that never binds"));
        }
        for (number, family) in self.gpus.iter().enumerate() {
            let older = number > 0 && self.gpus[number - 1].compute_capability >= family.compute_capability;
            if older || family.links == 0 {
                let message = if older { "families of GPUs out of order" } else { "a family of GPUs without links" };
                return Err(Problem::at(&["gpus", &number.to_string()], message, "list them by compute capability, each with its links"));
            }
        }
        for (number, family) in self.processors.iter().enumerate() {
            if family.rate.as_bps() == 0 {
                let place = ["processors", &number.to_string(), "rate", "value"];
                return Err(Problem::at(&place, "a link between sockets that carries nothing", "use what it carries each way"));
            }
        }
        Ok(())
    }
}
