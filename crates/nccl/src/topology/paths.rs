//! The ways between all devices, and what the library does not want to use of them.
//!
//! Source: NCCL 2.22.3, src/graph/paths.cc (ncclTopoSetPaths, ncclTopoComputePaths, ncclTopoCheckP2p, ncclTopoCheckGdr).
//! Modelled: fewest links first, and rate among those the search meets in turn; one GPU may relay over NVLink; copies through the
//! processor where peers are refused; PXN; adapters without GPUDirect through host memory.
//! RCCL lets adapters reach GPUs through the host bridge of the same NUMA domain (its paths.cc, for processors of AMD).

use super::{Kind, LinkType, Path, PathType, Topology, bits};
use crate::architecture::Processor;
use crate::settings::{Set, Settings};
use crate::tables;

pub(super) fn compute(topology: &mut Topology, settings: &Settings) {
    let targets = topology.cpus.iter().chain(&topology.gpus).chain(&topology.nets).chain(&topology.nvswitch);
    let targets: Vec<usize> = targets.copied().collect();
    topology.slots = vec![None; topology.vertices.len()];
    for (slot, target) in targets.iter().enumerate() {
        topology.slots[*target] = Some(slot);
    }
    topology.paths = targets.iter().map(|target| lead(topology, *target, settings)).collect();
    refuse_peers(topology, settings);
    for net in 0..topology.nets.len() {
        for gpu in 0..topology.gpus.len() {
            if settings.relays(topology.facts.architecture.is_amd()) {
                relay(topology, gpu, net);
            }
            let near = topology.path(topology.gpus[gpu], topology.nets[net]).class < PathType::Phb;
            if near && !gpudirect(topology, settings, gpu, net, false) {
                let (gpu, net) = (topology.gpus[gpu], topology.nets[net]);
                let cpu = local_cpu(topology, gpu);
                through(topology, cpu, net, gpu);
                through(topology, cpu, gpu, net);
            }
        }
    }
}

/// Ways from all vertices to one.
fn lead(topology: &Topology, target: usize, settings: &Settings) -> Vec<Path> {
    let none = Path { links: Vec::new(), rate: 0, class: PathType::Dis };
    let mut paths = vec![none; topology.vertices.len()];
    paths[target] = Path { links: Vec::new(), rate: bits(tables::LOCAL), class: PathType::Loc };
    let mut here = vec![target];
    while !here.is_empty() {
        let mut next: Vec<usize> = Vec::new();
        for &vertex in &here {
            for link in &topology.vertices[vertex].links {
                let end = link.to;
                let (kind, end_kind) = (topology.vertices[vertex].kind, topology.vertices[end].kind);
                let gpus = matches!(kind, Kind::Gpu(_)) && matches!(end_kind, Kind::Gpu(_));
                let relays = gpus && settings.nvb && link.kind == LinkType::NvLink && paths[vertex].links.len() <= 1;
                if vertex != target && matches!(kind, Kind::Gpu(_)) && !relays {
                    continue;
                }
                let rate = paths[vertex].rate.min(link.room);
                let (known, links) = (&paths[end], paths[vertex].links.len());
                if !((known.rate == 0 || known.links.len() > links) && known.rate < rate) {
                    continue;
                }
                let back = topology.vertices[end].links.iter().position(|back| back.to == vertex && back.kind == link.kind);
                let Some(back) = back else { continue };
                let class = match link.kind {
                    LinkType::Net => PathType::Loc,
                    LinkType::NvLink if gpus && paths[vertex].class == PathType::Nvl && links > 0 => PathType::Nvb,
                    LinkType::NvLink => PathType::Nvl,
                    LinkType::Pci if kind == Kind::Switch && end_kind == Kind::Switch => PathType::Pxb,
                    LinkType::Pci if matches!(kind, Kind::Cpu(_)) || matches!(end_kind, Kind::Cpu(_)) => PathType::Phb,
                    LinkType::Pci => PathType::Pix,
                    LinkType::Sockets => PathType::Sys,
                };
                let class = class.max(paths[vertex].class);
                let mut links = vec![(end, back)];
                links.extend_from_slice(&paths[vertex].links);
                paths[end] = Path { links, rate, class };
                if !next.contains(&end) {
                    next.push(end);
                }
            }
        }
        here = next;
    }
    paths
}

/// The NUMA domain with the fewest links to a device.
fn local_cpu(topology: &Topology, device: usize) -> usize {
    let reached = topology.cpus.iter().filter(|cpu| topology.path(device, **cpu).rate > 0);
    reached.min_by_key(|cpu| topology.path(device, **cpu).links.len()).copied().unwrap_or(topology.cpus[0])
}

/// From `from` to `to` by `over`.
fn through(topology: &mut Topology, over: usize, from: usize, to: usize) {
    let (first, second) = (topology.path(from, over).clone(), topology.path(over, to).clone());
    let mut links = first.links;
    links.extend(second.links);
    let gpu = matches!(topology.vertices[over].kind, Kind::Gpu(_));
    let class = if gpu { PathType::Pxn } else { first.class.max(second.class) };
    *topology.path_mut(from, to) = Path { links, rate: first.rate.min(second.rate), class };
}

/// How near GPUs must be to copy from one to the other.
pub(crate) fn peer_level(topology: &Topology, settings: &Settings) -> PathType {
    let processor = topology.facts.processor;
    settings.p2p_level.unwrap_or(match processor {
        Processor::Arm | Processor::IntelBroadwell | Processor::IntelSkylake => PathType::Pxb,
        Processor::Amd | Processor::Power | Processor::Other => PathType::Sys,
    })
}

/// Peers that are too far copy through the memory of the host.
fn refuse_peers(topology: &mut Topology, settings: &Settings) {
    let level = peer_level(topology, settings);
    for to in topology.gpus.clone() {
        for from in topology.gpus.clone() {
            if from != to && topology.path(from, to).class > level {
                let cpu = local_cpu(topology, to);
                through(topology, cpu, from, to);
            }
        }
    }
}

/// Another GPU at the same NVLink may be nearer to the adapter.
fn relay(topology: &mut Topology, gpu: usize, net: usize) {
    let Some(near) = topology.local_gpu(net).filter(|near| *near != gpu) else { return };
    let (from, peer, to) = (topology.gpus[gpu], topology.gpus[near], topology.nets[net]);
    let (direct, last, first) = (topology.path(from, to), topology.path(peer, to), topology.path(peer, from));
    let same_host = host(topology, from) == host(topology, peer);
    let gains = last.rate > direct.rate || direct.class > PathType::Pxb;
    if last.class <= PathType::Pxb && first.class <= PathType::Nvl && same_host && gains {
        through(topology, peer, from, to);
    }
}

/// The host that a GPU is in.
fn host(topology: &Topology, gpu: usize) -> u32 {
    topology.vertices[local_cpu(topology, gpu)].host
}

/// Whether an adapter reads (`read`) or writes the memory of a GPU.
pub(crate) fn gpudirect(topology: &Topology, settings: &Settings, gpu: usize, net: usize, read: bool) -> bool {
    let Kind::Net(number) = topology.vertices[topology.nets[net]].kind else { return false };
    if !topology.facts.adapters[number].gpudirect {
        return false;
    }
    if read {
        let linked = || {
            let others = (0..topology.gpus.len()).filter(|peer| *peer != gpu);
            topology.gpus.len() == 1 || others.into_iter().any(|peer| topology.between(gpu, peer).0 == PathType::Nvl)
        };
        let refused = match settings.gdr_read {
            Set::Off => true,
            Set::On => false,
            // Before Ampere only where PCI Express has nothing else to carry.
            Set::Auto => topology.capability() < 80 && !linked(),
        };
        if refused {
            return false;
        }
    }
    let usual = if topology.facts.architecture.is_amd() { PathType::Phb } else { PathType::Pxb };
    let near = topology.relay(gpu, net);
    let mut class = topology.path(topology.gpus[near], topology.nets[net]).class;
    if class == PathType::Pxn {
        class = PathType::Pxb;
    }
    class <= settings.gdr_level.unwrap_or(usual)
}
