//! Which memories of its node an adapter reaches, and over which hops: the machine's paths as tables.
//!
//! Modelled: the way with the least latency (`fabriscope_machine::path`); latencies as differences to the memory nearest to the adapter,
//! whose own are those of the bus ([`crate::pcie`]); limits of host bridges.
//! Not modelled: hops that all adapters of the node together cannot fill are left out, and with them the jitter that they make.

use std::collections::BTreeMap;

use fabriscope_machine::{Access, Machine, Path, Purpose, ResourceId, Use, VertexId, VertexKind};
use fabriscope_units::{Rate, Span};
use fabriscope_verbs::MemoryId;

use crate::device::Memory;
use crate::dma::{Crossing, DmaPath};
use crate::pcie::PcieTiming;

/// The ways from all adapters of a node to all its memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// What each place but the first one is.
    memories: Vec<Memory>,
    /// By adapter and place; the first place is the host memory nearest to the adapter.
    paths: Vec<Vec<Option<DmaPath>>>,
    /// What each hop is, for people.
    hops: Vec<String>,
}

/// The two ways of data, and what the adapter's own link carries of payload.
struct PathsByMemory {
    uses: [Vec<Use>; 2],
    own: [Rate; 2],
    /// What that link carries one way, framing included.
    wire: Rate,
    /// One way.
    latency: Span,
    /// What lies between the adapter and the memory's GPU or NUMA domain.
    through: Vec<String>,
    gpudirect: bool,
}

impl Reach {
    /// What the adapters of `machine` reach, each over a link like `bus`; the memory of GPUs only with `gpudirect`.
    #[must_use]
    pub fn of(machine: &Machine, bus: &PcieTiming, gpudirect: bool) -> Reach {
        let (gpus, numas, dpus) = (machine.gpus(), machine.numas(), machine.dpus());
        let devices = (0..gpus.len()).map(|index| Memory::Device(index as u32));
        let hosts = (0..numas.len()).map(|index| Memory::Host(index as u32));
        let cores = (0..dpus.len()).map(|index| Memory::Dpu(index as u32));
        let memories: Vec<Memory> = devices.chain(hosts).chain(cores).collect();
        let nics = machine.nics();
        let reachable = |memory: &Memory| gpudirect || !matches!(memory, Memory::Device(_));
        let ways: Vec<Vec<Option<PathsByMemory>>> = nics
            .iter()
            .map(|nic| {
                let near = machine.host_memory_of(*nic).and_then(|memory| PathsByMemory::between(machine, *nic, memory));
                let vertex = |memory: &Memory| match memory {
                    Memory::Device(gpu) => gpus[*gpu as usize],
                    Memory::Host(numa) => numas[*numa as usize],
                    Memory::Dpu(dpu) => dpus[*dpu as usize],
                };
                let further = memories.iter().map(|memory| {
                    let reached = Some(memory).filter(|memory| reachable(memory));
                    reached.and_then(|memory| PathsByMemory::between(machine, *nic, machine.own_memory(vertex(memory))))
                });
                std::iter::once(near).chain(further).collect()
            })
            .collect();
        let kept = tight(machine, &ways);
        let titles = std::iter::once("host memory".to_owned()).chain(memories.iter().map(|memory| match memory {
            Memory::Device(gpu) => machine.vertex(gpus[*gpu as usize]).name.clone(),
            Memory::Host(numa) => format!("memory of {}", machine.vertex(numas[*numa as usize]).name),
            Memory::Dpu(dpu) => format!("memory of {}", machine.vertex(dpus[*dpu as usize]).name),
        }));
        let titles: Vec<String> = titles.collect();
        let paths = ways.iter().map(|ways| {
            let near = ways.first().and_then(Option::as_ref).map_or(Span::ZERO, |near| near.latency);
            let path = |(ways, title): (&Option<PathsByMemory>, &String)| Some(ways.as_ref()?.path(machine, bus, near, &kept, title));
            ways.iter().zip(&titles).map(path).collect()
        });
        let paths = paths.collect();
        Reach { memories, paths, hops: kept.keys().map(|resource| machine.describe(*resource)).collect() }
    }

    /// Where a memory is.
    #[must_use]
    pub fn place_of(&self, memory: Memory) -> Option<MemoryId> {
        let index = self.memories.iter().position(|other| *other == memory)?;
        u8::try_from(index + 1).ok().map(MemoryId)
    }
    /// The way between an adapter and a place, if there is one.
    #[must_use]
    pub fn path(&self, nic: usize, place: MemoryId) -> Option<&DmaPath> {
        self.paths.get(nic)?.get(usize::from(place.0))?.as_ref()
    }
    /// Reads and writes of `memory` by an adapter take so long, apart from the bus's own time: where another processor's memory is at the end.
    pub fn set_latencies(&mut self, nic: usize, memory: Memory, read: Span, write: Span) {
        let Some(place) = self.place_of(memory) else { return };
        if let Some(path) = self.paths.get_mut(nic).and_then(|paths| paths.get_mut(usize::from(place.0))?.as_mut()) {
            (path.read_latency, path.write_latency) = (read, write);
        }
    }
    /// Adapters.
    #[must_use]
    pub fn nics(&self) -> usize {
        self.paths.len()
    }
    /// Places; not every adapter need reach every one.
    #[must_use]
    pub fn places(&self) -> usize {
        self.memories.len() + 1
    }
    /// What each hop is, for people.
    #[must_use]
    pub fn hops(&self) -> &[String] {
        &self.hops
    }
}

impl PathsByMemory {
    fn between(machine: &Machine, nic: VertexId, memory: VertexId) -> Option<PathsByMemory> {
        let read = machine.path(memory, nic, Purpose::Dma)?;
        let write = machine.path(nic, memory, Purpose::Dma)?;
        let own = read.steps.last()?.link;
        let of = |path: &Path, access| {
            let uses = machine.uses(path, access);
            let is_own = |used: &Use| [true, false].iter().any(|way| machine.resource_of_link(own, *way) == used.resource);
            let rate = uses.iter().filter(|used| is_own(used)).filter_map(|used| machine.payload(*used)).min().unwrap_or_default();
            (uses.into_iter().filter(|used| !is_own(used)).collect::<Vec<_>>(), rate)
        };
        let (reads, writes) = (of(&read, Access::Read), of(&write, Access::Write));
        let vertices = read.vertices(machine);
        let passed = vertices.get(2..vertices.len() - 1).unwrap_or_default();
        Some(PathsByMemory {
            uses: [reads.0, writes.0],
            own: [reads.1, writes.1],
            wire: machine.link(own).rate.into_iter().max().unwrap_or_default(),
            latency: read.latency(machine),
            through: passed.iter().map(|id| machine.vertex(*id).name.clone()).collect(),
            gpudirect: machine.vertex(memory).kind == VertexKind::DeviceMemory,
        })
    }

    fn path(&self, machine: &Machine, bus: &PcieTiming, near: Span, kept: &BTreeMap<ResourceId, u16>, title: &str) -> DmaPath {
        let crossings = |uses: &[Use]| {
            let crossing = |used: &Use| Some(Crossing { hop: *kept.get(&used.resource)?, rate: machine.payload(*used)? });
            uses.iter().filter_map(crossing).collect()
        };
        // The request of a read and its answer both cross the links.
        let further = |base: Span, crossings: u64| (base + self.latency * crossings).saturating_sub(near * crossings);
        DmaPath {
            title: match (self.through.is_empty(), self.gpudirect) {
                (true, true) => format!("{title} (GPUDirect)"),
                (false, true) => format!("{title} through {} (GPUDirect)", self.through.join(", ")),
                (true, false) => title.to_owned(),
                (false, false) => format!("{title} through {}", self.through.join(", ")),
            },
            read_latency: further(bus.read_latency, 2),
            write_latency: further(bus.write_latency, 1),
            reads: crossings(&self.uses[0]),
            writes: crossings(&self.uses[1]),
            takes: self.uses.each_ref().map(|uses| uses.as_slice().into()),
            own: self.own,
        }
    }
}

/// The hops that all adapters together can fill, with new numbers.
///
/// An adapter fills of a hop what its own link carries of payload that it reads and that it writes, with the requests; all of it together is
/// no more than what is on one direction of that link.
fn tight(machine: &Machine, ways: &[Vec<Option<PathsByMemory>>]) -> BTreeMap<ResourceId, u16> {
    let share = |of: Rate, carries: Rate| (u128::from(of.as_bps()) << SHARE_BITS) / u128::from(carries.as_bps().max(1));
    let mut filled: BTreeMap<ResourceId, u128> = BTreeMap::new();
    for nic in ways {
        let mut own: BTreeMap<ResourceId, [u128; 2]> = BTreeMap::new();
        let mut wire = Rate::default();
        for way in nic.iter().flatten() {
            wire = wire.max(way.wire);
            for (access, uses) in way.uses.iter().enumerate() {
                for used in uses {
                    let carries = machine.payload(*used).unwrap_or_default();
                    let most = &mut own.entry(used.resource).or_default()[access];
                    *most = share(way.own[access], carries).max(*most);
                }
            }
        }
        for (resource, both) in own {
            let all = share(wire, machine.capacity(resource).unwrap_or_default());
            *filled.entry(resource).or_default() += both.iter().sum::<u128>().min(all);
        }
    }
    let full = filled.into_iter().filter(|(_, share)| *share > 1 << SHARE_BITS);
    full.zip(0..).map(|((resource, _), number)| (resource, number)).collect()
}

/// Shares of a hop are counted in this many bits.
const SHARE_BITS: u32 = 32;
