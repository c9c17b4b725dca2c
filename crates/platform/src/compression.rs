//! The engine for compression of an adapter, and what reaches it, as plain numbers: its rates, the memories, the cores that post to it.
//!
//! Source: the parts; `fabriscope_catalog` says what each number is. The engine is part of the complex of the adapter's cores, so that their
//! memory is at hand and the host's lies behind the adapter's switch and slot.
//! Modelled: payload that the way to each memory carries, its latency for reads and writes, times of a core.
//! Not modelled: several adapters of a node; what else moves on these ways at the same time.

use fabriscope_catalog::{Cpu, NumaDistance, ResolvedNode};
use fabriscope_machine::{Access, Machine, Purpose, VertexId};
use fabriscope_node::CpuCosts;
use fabriscope_units::{Rate, Span};

/// An engine for compression and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionTarget {
    /// The adapter.
    pub adapter: String,
    /// The driver of DPDK that posts to it.
    pub driver: String,
    /// Bytes that it takes in where it compresses, if it can.
    pub compress: Option<Rate>,
    /// Bytes that it puts out where it decompresses, if it can.
    pub decompress: Option<Rate>,
    /// What an operation takes of it beside its bytes.
    pub interval: Span,
    /// From the last byte in to the last one out.
    pub latency: Span,
    /// Operations that a queue pair holds.
    pub queue: u32,
    /// Whether data of one operation may lie in several segments.
    pub scatter_gather: bool,
    /// Programs on the cores of the adapter.
    pub dpu: EngineUser,
    /// Programs on the host.
    pub host: EngineUser,
}

/// Cores that post to the engine, and the memory in which their data are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineUser {
    /// The processor.
    pub title: String,
    /// Its cores.
    pub cores: u32,
    /// What one takes to post and to poll; `mmio_latency` to the engine.
    pub costs: CpuCosts,
    /// What one takes in where it compresses by zlib at level 6, if that is known.
    pub deflate: Option<Rate>,
    /// The way between engine and memory.
    pub memory: EngineMemory,
}

/// The way between an engine and a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineMemory {
    /// Payload that the engine reads.
    pub read: Rate,
    /// Payload that it writes.
    pub write: Rate,
    /// What it reads and writes takes turns: one memory at hand. Otherwise each direction of a link has its own.
    pub shared: bool,
    /// From asking to the first byte.
    pub read_latency: Span,
    /// From the last byte to its being seen.
    pub write_latency: Span,
}

impl CompressionTarget {
    /// The engine on the adapters of a node, where there is one.
    #[must_use]
    pub fn of(node: &ResolvedNode) -> Option<CompressionTarget> {
        let engine = node.nic.engines.as_ref()?.compression.as_ref()?;
        let dpu = node.dpu.as_ref()?;
        let machine = node.machine().ok()?;
        let cores = *machine.dpus().first()?;
        let near = machine.own_memory(cores);
        let far = machine.host_memory_of(*machine.nics().first()?)?;
        let (own, host, switch) = (&dpu.cpu.root_complex, &node.cpu.root_complex, *dpu.part.switch_latency);
        let penalty = if node.numa == NumaDistance::Remote { *host.numa_penalty } else { Span::ZERO };
        let rates = |memory: VertexId| {
            Some((payload(&machine, (memory, cores), Access::Read)?, payload(&machine, (cores, memory), Access::Write)?))
        };
        let ((near_read, near_write), (far_read, far_write)) = (rates(near)?, rates(far)?);
        let near = EngineMemory {
            read: near_read,
            write: near_write,
            shared: true,
            read_latency: *own.dma_read_latency,
            write_latency: *own.dma_write_latency,
        };
        let far = EngineMemory {
            read: far_read,
            write: far_write,
            shared: false,
            read_latency: *host.dma_read_latency + penalty + switch * 2,
            write_latency: *host.dma_write_latency + penalty + switch,
        };
        Some(CompressionTarget {
            adapter: node.nic.name.clone(),
            driver: engine.driver.clone(),
            compress: engine.compress.as_deref().copied(),
            decompress: engine.decompress.as_deref().copied(),
            interval: *engine.interval,
            latency: *engine.latency,
            queue: *engine.queue,
            scatter_gather: *engine.scatter_gather,
            dpu: EngineUser::of(&dpu.cpu, dpu.part.cores, Span::ZERO, near),
            host: EngineUser::of(&node.cpu, node.cpu.cores * node.sockets, switch, far),
        })
    }
}

impl EngineUser {
    fn of(cpu: &Cpu, cores: u32, further: Span, memory: EngineMemory) -> EngineUser {
        let costs = cpu.core();
        EngineUser {
            title: cpu.title.clone(),
            cores,
            costs: CpuCosts { mmio_latency: costs.mmio_latency + further, ..costs },
            deflate: cpu.deflate.as_deref().copied(),
            memory,
        }
    }
}

fn payload(machine: &Machine, (from, to): (VertexId, VertexId), access: Access) -> Option<Rate> {
    Some(machine.path(from, to, Purpose::Dma)?.rate(machine, access))
}
