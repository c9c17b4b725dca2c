//! A GPU as programs and adapters see it: its memory, its ways out, and what its driver's calls cost the core.
//!
//! Source: the interfaces of CUDA, HIP and Level Zero; GDRCopy (<https://github.com/NVIDIA/gdrcopy>) for the memory that is mapped
//! through PCI Express; "GPUDirect RDMA" (CUDA toolkit documentation) for adapters that read and write it.
//! Modelled: constant times of calls and of page faults, the rate of the memory, engines that copy, stores and loads of a core through PCI
//! Express, rates and first-byte latencies of peers.
//! Not modelled: managed memory that is oversubscribed, clocks and power.

use fabriscope_node as node;
use fabriscope_units::{Bytes, OperationRate, Rate, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GpuDgemm, Kind, Part, PcieSlot};
use crate::error::Problem;
use crate::sourced::{Sourced, Stated};

/// The memory of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuMemory {
    /// What it is made of.
    pub kind: MemoryKind,
    /// Its size.
    pub size: Sourced<Bytes>,
    /// Bits of the bus times their rate; reads and writes share it.
    pub peak: Sourced<Rate>,
    /// Share of the peak that a kernel reaches which only reads.
    pub read_efficiency: Sourced<Ratio>,
    /// What a byte written costs beyond a byte read, as a share of it: the bus turns round.
    pub write_cost: Sourced<Ratio>,
}

impl GpuMemory {
    /// What a kernel reads that writes nothing.
    pub fn read_rate(&self) -> Rate {
        self.read_efficiency.of(*self.peak)
    }
    /// What a copy moves, read and written bytes counted: `2 / (2 + c)` of what is read alone, where `c` is `write_cost`.
    pub fn copy_rate(&self) -> Rate {
        let (read, cost) = (u128::from(self.read_rate().as_bps()), u128::from(self.write_cost.of_count(1000)));
        Rate::from_bps(u64::try_from(read * 2000 / (2000 + cost)).unwrap_or(u64::MAX))
    }
}

/// What a memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// DDR3 modules.
    Ddr3,
    /// DDR4 modules.
    Ddr4,
    /// DDR5 modules.
    Ddr5,
    /// Low-power DDR4, soldered.
    Lpddr4x,
    /// Low-power DDR5, soldered.
    Lpddr5x,
    /// Graphics DDR5.
    Gddr5,
    /// Graphics DDR6.
    Gddr6,
    /// Stacks of the second generation.
    Hbm2,
    /// The same, faster.
    Hbm2e,
    /// Stacks of the third generation.
    Hbm3,
    /// The same, faster.
    Hbm3e,
    /// Static memory on the chip.
    Sram,
    /// An expander behind CXL.
    Cxl,
}

/// The links of a GPU to its like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleUpPorts {
    /// Name of the interconnect.
    pub interconnect: String,
    /// Number of its links at each GPU.
    pub links: u32,
}

/// Engines that copy without the cores of the GPU.
pub type CopyEngines = node::CopyEngines<Stated>;
/// What calls of the driver cost.
pub type GpuCalls = node::GpuCalls<Stated>;
/// The memory as a core reads and writes it through PCI Express or a coherent link.
pub type Mapped = node::Mapped<Stated>;
/// Copies to and from host memory that is not pinned.
pub type Pageable = node::Pageable<Stated>;
/// Managed memory: what the driver takes for pages that move to whoever touches them.
pub type Managed = node::Managed<Stated>;

/// What one block of a kernel moves by loads and stores, by protocol of NCCL: payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// With a flag in every line of 8 bytes.
    pub ll: Sourced<Rate>,
    /// With a flag in every line of 128 bytes.
    pub ll128: Sourced<Rate>,
    /// Without flags among the data.
    pub simple: Sourced<Rate>,
    /// What is left of the links where their switch reduces and spreads (NVLS); all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_share: Option<Sourced<Ratio>>,
}

/// What kernels compute that multiply matrices or stream through memory.
///
/// Modelled: tiles of a multiplication on the processors, wave by wave, at the sustained share of the peak.
/// Not modelled: clocks that change with load and temperature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Processors that run one tile of a multiplication at a time: streaming multiprocessors, compute units.
    pub processors: Sourced<u32>,
    /// Dense multiplication of 16-bit matrices, by the datasheet.
    pub matrix: Sourced<OperationRate>,
    /// The same of 8-bit floating point; none where there is no such unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_8: Option<Sourced<OperationRate>>,
    /// The same of 32-bit floating point, by the units that keep all of its digits; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_32: Option<Sourced<OperationRate>>,
    /// Share of the rate that large multiplications keep up.
    pub sustained: Sourced<Ratio>,
    /// Share of it that attention in one kernel reaches.
    pub attention: Sourced<Ratio>,
    /// The same of kernels written for this generation; none where there are no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_latest: Option<Sourced<Ratio>>,
    /// Share of the rate of copies that kernels reach which stream through memory: norms, activations, dropout, softmax. What they read twice, and
    /// what their rows leave of the rate.
    pub streaming: Sourced<Ratio>,
    /// The same of attention that only goes forward; where nothing is said, the same share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_forward: Option<Sourced<Ratio>>,
    /// From the last block of a kernel until the next kernel's blocks are at work.
    pub gap: Sourced<Span>,
    /// The same where kernels are launched together as a graph; where nothing is said, as long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_gap: Option<Sourced<Span>>,
    /// What the host takes from one launch to the next, in a framework that runs kernel by kernel; where nothing is said, it is never late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Sourced<Span>>,
}

/// The memory as another device reads and writes it (GPUDirect RDMA, GPUDirect P2P).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerAccess {
    /// From a read request at the GPU to the first byte of the completion.
    pub read_latency: Sourced<Span>,
    /// From a write at the GPU until its cores see it.
    pub write_latency: Sourced<Span>,
    /// What it gives to readers at most; where nothing is said, as much as its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_rate: Option<Sourced<Rate>>,
    /// What it takes from writers at most; where nothing is said, as much as its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_rate: Option<Sourced<Rate>>,
}

/// Whose GPUs: libraries of collectives run on those of one vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// NVIDIA: NCCL.
    Nvidia,
    /// AMD: RCCL.
    Amd,
    /// Intel.
    Intel,
    /// Any other, and accelerators of no real vendor.
    Other,
}

/// One model of GPU, or of another accelerator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Who makes it.
    pub vendor: Vendor,
    /// What its compiler calls it: `sm_90`, `gfx90a`; libraries of collectives go by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The connector; none where only other links lead to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieSlot>,
    /// Its links to its like; none where PCI Express is all it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUpPorts>,
    /// The processor and the GPU see each other's memory as their own, through caches that agree.
    #[serde(default)]
    pub coherent: bool,
    /// Neither adapters nor mapped loads and stores of cores reach its memory, as drivers keep that for other models.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_gpudirect: bool,
    /// Its memory.
    pub memory: GpuMemory,
    /// Engines that copy.
    pub copy_engines: CopyEngines,
    /// What calls of the driver cost.
    pub calls: GpuCalls,
    /// Copies to and from host memory that is not pinned; as if it were, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pageable: Option<Pageable>,
    /// Managed memory; where nothing is said, its pages move for nothing. Not used where the GPU is coherent: nothing moves there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Managed>,
    /// The memory as a core reads and writes it; none where it cannot be mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Mapped>,
    /// What one block of a kernel moves; where nothing is said, NCCL does not run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
    /// What its kernels compute; where nothing is said, no job trains on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Compute>,
    /// How it multiplies matrices of double precision; where nothing is said, HPL does not run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dgemm: Option<GpuDgemm>,
    /// The memory as another device reads and writes it; none where the driver does not allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerAccess>,
}

impl Part for Gpu {
    const KIND: Kind = Kind::Gpu;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if let Some(slot) = self.pcie {
            slot.check(&["pcie"])?;
        }
        if self.scale_up.as_ref().is_some_and(|ports| ports.links == 0) {
            return Err(Problem::at(&["scale_up", "links"], "an interconnect without links", "remove [scale_up], or give it at least 1"));
        }
        if *self.copy_engines.count == 0 {
            let message = "no engine copies: a copy would never start";
            return Err(Problem::at(&["copy_engines", "count", "value"], message, "give it at least 1"));
        }
        if self.pageable.as_ref().is_some_and(|pageable| *pageable.chunk == Bytes::ZERO) {
            return Err(Problem::at(&["pageable", "chunk", "value"], "chunks without room", "use for example \"4 MiB\""));
        }
        let memory = &self.memory;
        for (key, rate) in [("read_efficiency", memory.read_rate()), ("peak", *memory.peak)] {
            if rate.as_bps() == 0 {
                return Err(Problem::at(&["memory", key, "value"], "nothing is left of the memory's rate", "check `peak` and the share"));
            }
        }
        let rates = [
            (["copy_engines", "rate"], self.copy_engines.rate.as_ref()),
            (["mapped", "store_rate"], self.mapped.as_ref().map(|mapped| &mapped.store_rate)),
            (["mapped", "store_drain"], self.mapped.as_ref().map(|mapped| &mapped.store_drain)),
            (["mapped", "load_rate"], self.mapped.as_ref().map(|mapped| &mapped.load_rate)),
            (["block", "ll"], self.block.as_ref().map(|block| &block.ll)),
            (["block", "ll128"], self.block.as_ref().map(|block| &block.ll128)),
            (["block", "simple"], self.block.as_ref().map(|block| &block.simple)),
            (["peer", "read_rate"], self.peer.as_ref().and_then(|peer| peer.read_rate.as_ref())),
            (["peer", "write_rate"], self.peer.as_ref().and_then(|peer| peer.write_rate.as_ref())),
        ];
        for ([table, key], rate) in rates {
            if rate.is_some_and(|rate| rate.as_bps() == 0) {
                let message = format!("`{key}` is zero: a transfer would never end");
                return Err(Problem::at(&[table, key, "value"], message, format!("use a rate, or remove [{table}]")));
            }
        }
        if let Some(compute) = &self.compute {
            if *compute.processors == 0 {
                return Err(Problem::at(&["compute", "processors", "value"], "no processors", "give it at least 1"));
            }
            for (key, share) in [("sustained", *compute.sustained), ("attention", *compute.attention), ("streaming", *compute.streaming)] {
                if compute.matrix.share(share).as_f64() == 0.0 {
                    return Err(Problem::at(&["compute", key, "value"], "nothing is left of the rate", "check `matrix` and the share"));
                }
            }
        }
        if self.mapped.as_ref().is_some_and(|mapped| mapped.load_width.as_u64() == 0) {
            return Err(Problem::at(&["mapped", "load_width", "value"], "a load that brings nothing", "use 1 B to 64 B"));
        }
        Ok(())
    }
}
