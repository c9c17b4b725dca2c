//! Small nodes whose bandwidths and orders can be worked out on paper: what NCCL takes links for, and what its search makes of them.

use crate::built;
use crate::catalogued::gigabytes;
use built::{Node, dgx_a100, facts, seen};
use fabriscope_machine::{LinkKind, VertexKind};
use fabriscope_nccl::{PathType, Processor};

/// GPUs at one host bridge each with so many of the given links between each pair.
fn pair(links: u32) -> fabriscope_machine::Machine {
    let mut node = Node::new(1);
    let bridge = node.bridges[0];
    (0..2).for_each(|_| {
        node.below(bridge, VertexKind::Gpu, 4);
    });
    if links > 0 {
        node.nvlink(0, 1, links);
    }
    node.done()
}

#[test]
fn what_nvlinks_are_taken_for() {
    // topo.h: SM60 18, SM70 20, SM80 20, SM86 12, SM90 20.6 GB/s for each link.
    for (sm, links, total) in [(60, 4, 72.0), (70, 6, 120.0), (80, 12, 240.0), (86, 4, 48.0), (90, 18, 370.8), (80, 1, 20.0)] {
        let (topology, _) = seen(&pair(links), facts(sm, Processor::Amd, 0, 0), true);
        let (class, rate) = topology.between(0, 1);
        assert_eq!(class, PathType::Nvl, "sm_{sm}");
        assert!((gigabytes(rate) - total).abs() < 1e-9, "sm_{sm}: {} GB/s, not {total}", gigabytes(rate));
    }
}

#[test]
fn classes_of_pci_express() {
    // topo.cc: PCIe 3.0 x16 is 12 GB/s, each generation twice that. One switch PIX, two PXB, the host bridge PHB, the link between sockets SYS.
    for (generation, rate) in [(3, 12.0f64), (4, 24.0), (5, 48.0)] {
        let mut node = Node::new(2);
        let [near, far] = [node.bridges[0], node.bridges[1]];
        let top = node.below(near, VertexKind::PcieSwitch, generation);
        let inner = [0; 2].map(|_| node.below(top, VertexKind::PcieSwitch, generation));
        // GPUs 0 and 1 below one switch, 2 below its neighbour, 3 at the bridge, 4 at the other socket.
        for above in [inner[0], inner[0], inner[1], near, far] {
            let _ = node.below(above, VertexKind::Gpu, generation);
        }
        let (topology, _) = seen(&node.done(), facts(80, Processor::Amd, 0, 0), true);
        // Between sockets of AMD 16 GB/s.
        let table = [(1, PathType::Pix, rate), (2, PathType::Pxb, rate), (3, PathType::Phb, rate), (4, PathType::Sys, rate.min(16.0))];
        for (to, class, expected) in table {
            let (found, carries) = topology.between(0, to);
            assert_eq!(found, class, "generation {generation}, GPU {to}");
            assert!((gigabytes(carries) - expected).abs() < 1e-9, "generation {generation}, GPU {to}: {} GB/s", gigabytes(carries));
            assert_eq!(topology.between(to, 0).0, class, "back");
        }
        assert_eq!(topology.between(3, 3).0, PathType::Loc);
    }
}

#[test]
fn sockets_by_their_makers() {
    // topo.cc, ncclTopoGetInterCpuBw: Intel 6 and since Skylake 10, AMD 16, POWER9 32, Arm 6 GB/s.
    let makers = [
        (Processor::IntelBroadwell, 6.0),
        (Processor::IntelSkylake, 10.0),
        (Processor::Amd, 16.0),
        (Processor::Power, 32.0),
        (Processor::Arm, 6.0),
    ];
    for (processor, expected) in makers {
        let mut node = Node::new(2);
        for bridge in node.bridges.clone() {
            let _ = node.below(bridge, VertexKind::Gpu, 5);
        }
        let (topology, _) = seen(&node.done(), facts(80, processor, 0, 0), true);
        let (class, rate) = topology.between(0, 1);
        assert_eq!(class, PathType::Sys, "{processor:?}");
        assert!((gigabytes(rate) - expected).abs() < 1e-9, "{processor:?}: {} GB/s", gigabytes(rate));
    }
}

#[test]
fn two_gpus_use_all_their_links() {
    // A ring of two goes there and back over the same links, each way once: its channels together are as fast as the links. Speeds that are tried
    // are 40, 30, 20, … GB/s: one link 20, two 40, three 2 · 30, four 2 · 40, six 3 · 40, twelve 6 · 40.
    for (links, total) in [(1, 20.0), (2, 40.0), (3, 60.0), (4, 80.0), (6, 120.0), (12, 240.0)] {
        let (_, graphs) = seen(&pair(links), facts(80, Processor::Amd, 0, 0), true);
        assert!((gigabytes(graphs.ring.total_intra()) - total).abs() < 1e-9, "{links} links: {}", gigabytes(graphs.ring.total_intra()));
        assert_eq!(graphs.ring.type_intra, PathType::Nvl, "{links} links");
        for channel in &graphs.ring.channels {
            let mut order = channel.gpus.clone();
            order.sort_unstable();
            assert_eq!((order, channel.adapters), (vec![0, 1], None));
        }
    }
}

#[test]
fn four_gpus_in_a_full_mesh() {
    // Three links between each two of four A100: 60 GB/s in each of three directions of a GPU. Every ring leaves a GPU once, so rings together have
    // at most the 180 GB/s that leave it; six directed rings of 30 GB/s, each of the twelve directed pairs in two of them, have all of it.
    let mut node = Node::new(1);
    let bridge = node.bridges[0];
    (0..4).for_each(|_| {
        node.below(bridge, VertexKind::Gpu, 4);
    });
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        node.nvlink(a, b, 3);
    }
    let (topology, graphs) = seen(&node.done(), facts(80, Processor::Amd, 0, 0), true);
    assert!(topology.all_linked() && !topology.switched());
    let total = gigabytes(graphs.ring.total_intra());
    assert!((total - 180.0).abs() < 1e-9, "{total} GB/s in {} channels", graphs.ring.channels.len());
    // No direction of a pair of GPUs is used by more than it carries.
    for from in 0..4u32 {
        for to in (0..4).filter(|to| *to != from) {
            let uses = graphs.ring.channels.iter().filter(|channel| {
                let at = channel.gpus.iter().position(|gpu| *gpu == from).unwrap();
                channel.gpus[(at + 1) % 4] == to
            });
            let load = uses.count() as f64 * gigabytes(graphs.ring.intra);
            assert!(load <= 60.0 + 1e-9, "{load} GB/s from {from} to {to}");
        }
    }
}

#[test]
fn a_chain_of_nvlinks_folds_into_a_ring() {
    // GPUs 0 - 1 - 2 - 3 in a row, four links between neighbours. No link leads from 3 back to 0, but GPUs pass traffic on over one step (NVB):
    // 0 → 1 → 3 → 2 → 0 goes 1 → 2 → 3 and 2 → 1 → 0 on the way, and so uses each direction of each link once: all of 80 GB/s.
    let mut node = Node::new(1);
    let switch = {
        let bridge = node.bridges[0];
        node.below(bridge, VertexKind::PcieSwitch, 4)
    };
    (0..4).for_each(|_| {
        node.below(switch, VertexKind::Gpu, 4);
    });
    for gpu in 0..3 {
        node.nvlink(gpu, gpu + 1, 4);
    }
    let (topology, graphs) = seen(&node.done(), facts(80, Processor::Amd, 0, 0), true);
    assert_eq!((topology.between(0, 1).0, topology.between(0, 3).0), (PathType::Nvl, PathType::Pix));
    assert_eq!(topology.between(0, 2).0, PathType::Nvb);
    assert_eq!((graphs.ring.type_intra, gigabytes(graphs.ring.total_intra())), (PathType::Nvb, 80.0));
    // No two ends of the row are neighbours in it.
    for channel in &graphs.ring.channels {
        let at = |gpu: u32| channel.gpus.iter().position(|other| *other == gpu).unwrap();
        assert!((at(0) + 4 - at(3)) % 4 == 2, "{:?}", channel.gpus);
    }
}

#[test]
fn a_dgx_a100() {
    // Twelve links of 20 GB/s to the switches: 240 GB/s, in channels of 20 (or of 40 taken twice). Every GPU sees every other by NVLink at all of
    // them, and the two adapters of its switch by PIX at 24 GB/s of PCIe 4.0, those of 200 Gb/s at 25: 24 is less.
    let machine = dgx_a100();
    let (topology, graphs) = seen(&machine, facts(80, Processor::Amd, 8, 200), true);
    assert_eq!((topology.gpus(), topology.switched(), topology.all_linked()), (8, true, true));
    for from in 0..8 {
        for to in (0..8).filter(|to| *to != from) {
            let (class, rate) = topology.between(from, to);
            assert_eq!((class, gigabytes(rate)), (PathType::Nvl, 240.0));
        }
    }
    assert!((gigabytes(graphs.ring.total_intra()) - 240.0).abs() < 1e-9);
    let (topology, graphs) = seen(&machine, facts(80, Processor::Amd, 8, 200), false);
    for gpu in 0..8 {
        for adapter in 0..8 {
            let (class, rate) = topology.to_adapter(gpu, adapter);
            // Below one switch, and nowhere else; the others by a GPU that is nearer (PXN), a host bridge or the other socket.
            assert_eq!(class == PathType::Pix, gpu / 2 == adapter / 2, "GPU {gpu}, adapter {adapter}: {class}");
            assert!(class <= PathType::Sys, "GPU {gpu}, adapter {adapter}: {class}");
            assert!(gigabytes(rate) <= 25.0 + 1e-9);
        }
    }
    // Between nodes a ring enters and leaves by one adapter, and all eight are used alike: what they carry together, 8 · 24 GB/s.
    let mut used = [0u32; 8];
    for channel in &graphs.ring.channels {
        let [first, last] = channel.adapters.unwrap();
        assert_eq!(first, last, "a ring does not cross adapters");
        used[first as usize] += 1;
    }
    assert!(used.iter().all(|count| *count == used[0]) && used[0] > 0, "{used:?}");
    let total = graphs.ring.inter.as_bytes_per_s_f64() / 1e9 * graphs.ring.channels.len() as f64;
    assert!((total - 192.0).abs() < 1e-9, "{total} GB/s");
}

#[test]
fn gpus_of_a_power9_by_their_processor() {
    // Two V100 with three NVLinks to each other and three to the processor: neighbours by NVLink, 60 GB/s.
    let mut node = Node::new(1);
    let numa = node.numas[0];
    for _ in 0..2 {
        let gpu = node.vertex(VertexKind::Gpu);
        node.gpus.push(gpu);
        node.join(gpu, numa, LinkKind::HostNvLink { generation: 2, links: 3 });
    }
    node.nvlink(0, 1, 3);
    let (topology, graphs) = seen(&node.done(), facts(70, Processor::Power, 0, 0), true);
    let (class, rate) = topology.between(0, 1);
    assert_eq!((class, gigabytes(rate)), (PathType::Nvl, 60.0));
    assert!((gigabytes(graphs.ring.total_intra()) - 60.0).abs() < 1e-9);
}
