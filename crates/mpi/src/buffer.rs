//! Where the bytes of a message lie, and where a rank sits in its node.
//!
//! Source: Open MPI and Slurm bind ranks to the cores next to their GPU; UCX and Cray MPICH (MPICH_OFI_NIC_POLICY=GPU) take the
//! adapter next to it.
//! Modelled: local ranks take the GPUs in turn, or as a list says; host memory is that of the NUMA domain of the rank's core, which is
//! next to the GPU where nothing else is told; adapters are tried nearest first.
//! Not modelled: ranks that use several GPUs.

use fabriscope_machine::{Machine, PathClass, VertexId};
use fabriscope_node::{Devices, Memory, Process, ProgramError};
use fabriscope_platform::Binding;

/// Where a buffer of a rank lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// Host memory of the rank's NUMA domain.
    #[default]
    Host,
    /// The memory of the rank's GPU.
    Device,
    /// Memory that moves to whoever touches it (CUDA managed memory).
    Managed,
}

/// Where a rank sits in its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankLocation {
    /// Its NUMA domain.
    pub numa: u32,
    /// Its GPU.
    pub gpu: Option<u32>,
    /// The adapters, nearest first, with how far each is from the GPU.
    pub nics: Vec<(usize, PathClass)>,
}

impl RankLocation {
    /// The seat of rank `local_rank` of a node.
    pub fn of(process: &Process, binding: &Binding, local_rank: u32) -> RankLocation {
        RankLocation::on(process.devices().ok().map(Devices::machine), process.nics(), binding, local_rank)
    }

    /// The same on a node like `machine` with so many adapters in use.
    #[must_use]
    pub fn on(machine: Option<&Machine>, adapters: usize, binding: &Binding, local_rank: u32) -> RankLocation {
        let unknown = |index| (index, PathClass::Dis);
        let told = binding.domain(local_rank);
        let Some(machine) = machine else {
            return RankLocation { numa: told.unwrap_or(0), nics: (0..adapters).map(unknown).collect(), ..RankLocation::default() };
        };
        let used = adapters;
        let gpus = machine.gpus();
        let gpu = binding.gpu(local_rank, gpus.len() as u32);
        let Some(vertex) = gpu.and_then(|gpu| gpus.get(gpu as usize).copied()) else {
            return RankLocation { numa: told.unwrap_or(0), gpu, nics: (0..used).map(unknown).collect() };
        };
        let adapters = machine.nics();
        let from = |gpu: VertexId| {
            let class = |index: usize| (index, adapters.get(index).map_or(PathClass::Dis, |nic| machine.class(gpu, *nic)));
            let mut nics: Vec<(usize, PathClass)> = (0..used).map(class).collect();
            nics.sort_by_key(|(index, class)| (*class, *index));
            // Those of other trays of a rack are another system's.
            if nics.first().is_some_and(|(_, class)| *class != PathClass::Dis) {
                nics.retain(|(_, class)| *class != PathClass::Dis);
            }
            let equal = nics.iter().take_while(|(_, class)| Some(*class) == nics.first().map(|(_, class)| *class)).count();
            (nics, equal)
        };
        let (mut nics, equal) = from(vertex);
        if equal > 1 {
            // Ranks with the same adapters nearest to their GPUs take these in turn.
            let same: Vec<bool> =
                gpus.iter().map(|other| matches!(from(*other), (near, count) if near[..count] == nics[..equal])).collect();
            let before = (0..local_rank).filter_map(|rank| binding.gpu(rank, gpus.len() as u32));
            let before = before.filter(|gpu| same.get(*gpu as usize).copied().unwrap_or(false)).count();
            nics[..equal].rotate_left(before % equal);
        }
        let numa = told.unwrap_or_else(|| machine.home(vertex).unwrap_or(0) as u32);
        RankLocation { numa, gpu, nics }
    }

    /// The memory in which `buffer` lies; for a managed one that in which the library's copies have it.
    pub fn memory(&self, buffer: Buffer) -> Result<Memory, ProgramError> {
        let host = Memory::Host(self.numa);
        match self.gpu {
            _ if buffer == Buffer::Host => Ok(host),
            Some(gpu) => Ok(Memory::Device(gpu)),
            None => Err(ProgramError("a buffer on a device, and the node has no GPUs; use buffers in host memory".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_machine::{Link, LinkKind, Vertex, VertexKind};
    use fabriscope_units::{Rate, Span};

    use super::*;

    #[test]
    fn ranks_take_gpus_in_turn_or_as_told() {
        let free = Binding::default();
        assert_eq!([0, 1, 4, 5].map(|rank| free.gpu(rank, 4)), [0, 1, 0, 1].map(Some));
        let listed = Binding::new(vec![2, 0]);
        assert_eq!([0, 1, 2, 3].map(|rank| listed.gpu(rank, 4)), [2, 0, 2, 0].map(Some));
        assert_eq!((free.gpu(0, 0), listed.largest()), (None, Some(2)));
        let seated = Binding::default().at(vec![0, 1, 1]);
        assert_eq!([0, 2, 3].map(|rank| seated.domain(rank)), [Some(0), Some(1), Some(0)]);
        assert_eq!((RankLocation::on(None, 1, &seated, 1).numa, free.domain(1)), (1, None));
    }

    /// Two GPUs, each below a switch with two adapters: four ranks have the four adapters, whichever GPU has which number.
    #[test]
    fn adapters_that_are_equally_near_are_taken_in_turn() {
        let (rate, latency) = (Rate::from_gbps(256), Span::from_ns(100));
        let pcie = LinkKind::Pcie { generation: 5, lanes: 16 };
        let mut builder = Machine::builder();
        let numa = builder.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
        let bridge = builder.vertex(Vertex::new(VertexKind::HostBridge, "bridge0"));
        builder.link(Link::new(numa, bridge, LinkKind::Die, rate, latency));
        for place in 0..2 {
            let switch = builder.vertex(Vertex::new(VertexKind::PcieSwitch, format!("switch{place}")));
            builder.link(Link::new(bridge, switch, pcie, rate, latency));
            let gpu = builder.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{place}")));
            builder.link(Link::new(switch, gpu, pcie, rate, latency));
            for port in 0..2 {
                let nic = builder.vertex(Vertex::new(VertexKind::Nic, format!("nic{}", 2 * place + port)));
                builder.link(Link::new(switch, nic, pcie, rate, latency));
            }
        }
        let machine = builder.build().unwrap();
        let first = |rank| RankLocation::on(Some(&machine), 4, &Binding::default(), rank).nics[0].0;
        assert_eq!([0, 1, 2, 3, 4].map(first), [0, 2, 1, 3, 0]);
    }
}
