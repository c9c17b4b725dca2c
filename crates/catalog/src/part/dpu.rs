//! Cores on an adapter (DPU, SmartNIC, IPU): a processor with memory of its own behind a switch of PCI Express that it shares with the host.
//!
//! ```text
//!  host bridge ── slot ── switch ── the adapter's port ── adapter ── network
//!                           └── root port of the cores ── cores ── their memory
//! ```
//!
//! Source: NVIDIA BlueField-2 and -3 user manuals (block diagrams, modes of operation); X. Wei et al., "Characterizing Off-path SmartNIC
//! for Accelerating Distributed Systems", OSDI 2023 (the switch, and what it adds to every way).
//! Modelled: which processor the cores are, their memory, the ways between adapter, cores and host, whether the adapter accepts keys of
//! the host's memory from the cores (cross-registration, GVMI).
//! Not modelled: engines beside the cores for regular expressions, the data-path accelerator.

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HostMemory, PcieSlot, SwitchingCosts};
use crate::error::Problem;
use crate::sourced::Sourced;

/// Who manages the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DpuMode {
    /// The cores on it: the host's functions are below theirs, so that its memory can be registered across.
    Embedded,
    /// Cores and host alike, each with functions that know nothing of the other's.
    Separated,
}

/// The cores on an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dpu {
    /// Name of the processor; its `root_complex` tells of the way from the switch to the memory of the cores, its `mmio_latency` of
    /// that from a core to the switch.
    pub cpu: String,
    /// Cores that programs may use.
    pub cores: u32,
    /// Their memory.
    pub memory: HostMemory,
    /// The link between cores and switch.
    pub pcie: PcieSlot,
    /// What the switch adds to a way: between adapter and host, and between adapter and cores.
    pub switch_latency: Sourced<Span>,
    /// Who manages the adapter.
    pub mode: DpuMode,
    /// The cores may post work that reads and writes memory of the host, by keys of the host's registration (GVMI).
    pub cross_keys: Sourced<bool>,
    /// What a core pays that switches packets of virtual machines, or has those that the pipeline does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switching: Option<SwitchingCosts>,
}

impl Dpu {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.cores == 0 {
            return Err(Problem::at(&["dpu", "cores"], "a DPU without cores", "give it at least 1, or remove [dpu]"));
        }
        if self.memory.channels == 0 {
            return Err(Problem::at(&["dpu", "memory", "channels"], "a memory without channels", "give it at least 1"));
        }
        self.pcie.check(&["dpu", "pcie"])?;
        if let Some(switching) = &self.switching {
            switching.check(&["dpu", "switching"])?;
        }
        if self.mode == DpuMode::Separated && *self.cross_keys {
            let message = "keys of the host's memory on a DPU that is apart from its host";
            return Err(Problem::at(&["dpu", "cross_keys", "value"], message, "use mode = \"embedded\", or cross_keys with value = false"));
        }
        Ok(())
    }
}
