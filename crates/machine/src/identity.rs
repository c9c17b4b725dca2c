//! What tells one device from another: what files about real nodes say beside how it is wired.

use fabriscope_units::{Bytes, Rate};
use serde::Serialize;

use crate::cpu_set::CpuSet;

/// What a vertex is as a piece of hardware, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Class of a PCI device with subclass and interface: 0x020700 is an InfiniBand adapter.
    pub class: Option<u32>,
    /// Vendor and device of a PCI device.
    pub part: Option<[u16; 2]>,
    /// Vendor and device of the board it is on.
    pub board: Option<[u16; 2]>,
    /// Its number among its like: of a GPU that of the driver, of a NUMA domain that of the operating system.
    pub number: Option<u32>,
    /// What an NVIDIA GPU can do, 90 for 9.0.
    pub compute_capability: Option<u32>,
    /// Processors of a NUMA domain; of a GPU those near it, where the file says so and not where it is.
    pub cpus: CpuSet,
    /// Cores of a NUMA domain.
    pub cores: u32,
    /// The processor of a NUMA domain.
    pub processor: Processor,
    /// Size of a memory.
    pub size: Option<Bytes>,
    /// Ports of an adapter.
    pub ports: Vec<Port>,
    /// Links of a GPU to chips that are told apart: to each NVSwitch, to the processor.
    pub bundles: Vec<Bundle>,
    /// What else a file says of it, name and value, as it stands there.
    pub said: Vec<(String, String)>,
}

impl Identity {
    /// What a file says under `name` beyond the rest.
    #[must_use]
    pub fn said(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
    /// The GUID of an adapter: that of its first port that has one.
    #[must_use]
    pub fn guid(&self) -> Option<u64> {
        self.ports.iter().find_map(|port| port.guid)
    }
}

/// A model of processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// `x86_64`, `arm64`, `ppc64`.
    pub architecture: String,
    /// As CPUID says it: `GenuineIntel`.
    pub vendor: String,
    /// Family.
    pub family: Option<u32>,
    /// Model.
    pub model: Option<u32>,
}

/// A port or function of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Port {
    /// What the operating system calls it: `mlx5_0`.
    pub name: String,
    /// Its GUID, or that of the adapter.
    pub guid: Option<u64>,
    /// Its rate.
    pub rate: Option<Rate>,
    /// What else a file says of it.
    pub said: Vec<(String, String)>,
}

/// Links to one chip.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bundle {
    /// Address of the chip on the bus; empty where it is not told.
    pub target: String,
    /// Class of the chip, as PCI has it.
    pub class: Option<u32>,
    /// How many links.
    pub links: u32,
    /// What each carries, where the file says so.
    pub each: Option<Rate>,
}

impl Bundle {
    /// What NCCL takes for a processor: the class of the bridge by which a POWER9 shows each of its NVLinks. Basis: NCCL,
    /// src/graph/topo.cc; skiboot, hw/npu2.c.
    pub(crate) const POWER_CPU: u32 = 0x06_8001;
}
