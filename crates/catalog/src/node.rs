//! The node of a cluster: a part of the catalogue, or a processor and an adapter; and the same with all its parts at hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copy_on_write::Shared;
use crate::dpu::ResolvedDpu;
use crate::error::Problem;
use crate::part::{Cpu, Gpu, Interconnect, Nic, NodePart, Pcie, PcieSlot};

/// Where the adapter sits as seen from the core and memory that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NumaDistance {
    /// At the same socket.
    #[default]
    Local,
    /// At the other socket.
    Remote,
}

/// What one node is made of: a node of the catalogue (`part`), or a processor (`cpu`, `sockets`) and an adapter (`nic`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name of the node; it says its processors, GPUs and slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Name of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Number of processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Name of the GPU, where it is not the one that the node names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Number of GPUs; the first ones of the node are in use. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Name of the adapter; beside `part` where it is not the one that the node names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Number of adapters, each with one port in use; the first ones of the node. Default: all that the node has, or one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<u32>,
    /// The slot, where it is narrower or slower than the adapter's connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieSlot>,
    /// Where the adapter sits as seen from the process.
    #[serde(default)]
    pub numa: NumaDistance,
}

impl Node {
    /// What is wrong before any part is looked up; paths start at the node.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.nics == Some(0) {
            return Err(Problem::at(&["nics"], "nodes without an adapter", "give each at least 1"));
        }
        if self.sockets == Some(0) {
            return Err(Problem::at(&["sockets"], "nodes without a processor", "give each at least 1"));
        }
        let Some(part) = &self.part else {
            let needed = [("cpu", self.cpu.is_some()), ("sockets", self.sockets.is_some()), ("nic", self.nic.is_some())];
            if let Some((key, _)) = needed.iter().find(|(_, said)| !said) {
                let help = format!("add `{key}`; or write part = \"…\" alone: the name of a node that says all of it");
                return Err(Problem::at(&[], format!("the key `{key}` is missing"), help));
            }
            let gpus = [("gpu", self.gpu.is_some()), ("gpus", self.gpus.is_some())];
            if let Some((key, _)) = gpus.iter().find(|(_, said)| *said) {
                let help = "write part = \"…\", the name of a node that says where its GPUs are";
                return Err(Problem::at(&[key], format!("`{key}` of a node without `part`"), help));
            }
            return self.pcie.map_or(Ok(()), |slot| slot.check(&["pcie"]));
        };
        let said = [("cpu", self.cpu.is_some()), ("sockets", self.sockets.is_some()), ("pcie", self.pcie.is_some())];
        match said.iter().find(|(_, said)| *said) {
            Some((key, _)) => {
                let message = format!("`{key}` beside `part`: the node `{part}` says it itself");
                Err(Problem::at(&[key], message, format!("remove `{key}`, or `part`; or rest a node of your own on `{part}`")))
            }
            None => Ok(()),
        }
    }
}

/// Which devices a node has, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Devices {
    /// The GPU; none in nodes without.
    pub gpu: Option<String>,
    /// Number of GPUs in use.
    pub gpus: u32,
    /// The adapter.
    pub nic: String,
    /// Number of adapters in use.
    pub nics: u32,
}

/// A slot, with its generation at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedSlot {
    /// The generation.
    pub part: Pcie,
    /// The number of lanes in use.
    pub lanes: u32,
    /// Reads outstanding at most.
    pub tags: Option<u32>,
}

/// Some links of one interconnect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedBundle {
    /// The interconnect.
    pub part: Interconnect,
    /// How many of its links.
    pub links: u32,
}

/// What is wired to what in a node, with the parts of its links at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeLayout {
    /// The node; made up where the cluster names only a processor and an adapter.
    pub part: NodePart,
    /// Between each two processors.
    pub socket_link: Option<ResolvedBundle>,
    /// The ways up of the groups of PCI Express switches.
    pub uplinks: Vec<ResolvedSlot>,
    /// The slot of each GPU; none where other links lead to it.
    pub gpu_slot: Option<ResolvedSlot>,
    /// The links between processor and GPU.
    pub gpu_link: Option<ResolvedBundle>,
    /// The links of each GPU to its like.
    pub scale_up: Option<ResolvedBundle>,
    /// The links to adapters on the chip.
    pub nic_link: Option<ResolvedBundle>,
    /// The links to memory behind CXL.
    pub expander_link: Option<ResolvedBundle>,
}

/// What one node is made of, with the parts at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedNode {
    /// The processor.
    pub cpu: Shared<Cpu>,
    /// Number of processors.
    pub sockets: u32,
    /// The GPU; none in nodes without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Shared<Gpu>>,
    /// Number of GPUs in use.
    pub gpus: u32,
    /// The adapter.
    pub nic: Shared<Nic>,
    /// Number of adapters, each with one port in use.
    pub nics: u32,
    /// The cores on each adapter, where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpu: Option<ResolvedDpu>,
    /// The slot of each adapter: the lesser of connector and slot.
    pub pcie: ResolvedSlot,
    /// Where the adapter sits as seen from the process.
    pub numa: NumaDistance,
    /// What is wired to what.
    pub layout: NodeLayout,
}
