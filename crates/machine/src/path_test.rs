//! Paths of a machine as they are drawn in its manuals.

use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Span};

use crate::{Access, Framing, Link, LinkKind, Machine, MachineError, PathClass, PeerLimits, Purpose, Tlp, Vertex, VertexId, VertexKind};

const PCIE: LinkKind = LinkKind::Pcie { generation: 4, lanes: 16 };

/// Two sockets; at the first a switch with two GPUs and an adapter, at the second a GPU right at its host bridge. NVLink joins GPU 0 to
/// GPU 1 and GPU 1 to GPU 2.
fn machine(relays: bool) -> Machine {
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let numa = [0, 1].map(|package| add(VertexKind::Numa { package }, &format!("numa{package}")));
    let memory = [0, 1].map(|index| add(VertexKind::HostMemory, &format!("memory{index}")));
    let bridge = [0, 1].map(|index| add(VertexKind::HostBridge, &format!("bridge{index}")));
    let switch = add(VertexKind::PcieSwitch, "switch0");
    let gpu = [0, 1, 2].map(|index| add(VertexKind::Gpu, &format!("gpu{index}")));
    let hbm = [0, 1, 2].map(|index| add(VertexKind::DeviceMemory, &format!("hbm{index}")));
    let nic = add(VertexKind::Nic, "nic0");
    for end in gpu {
        b.vertex_mut(end).relays = relays;
    }
    for end in bridge {
        let limit = |gbps| Some(Rate::from_gbps(gbps));
        b.vertex_mut(end).peer = PeerLimits { read: limit(40), write: limit(80), read_across: limit(2), write_across: limit(10) };
    }
    let mut join = |a: VertexId, to: VertexId, kind, gbps, ns| {
        b.link(Link::new(a, to, kind, Rate::from_gbps(gbps), Span::from_ns(ns)));
    };
    for side in [0, 1] {
        join(numa[side], memory[side], LinkKind::Memory, 800, 80);
        join(numa[side], bridge[side], LinkKind::Die, 1000, 20);
    }
    join(numa[0], numa[1], LinkKind::Smp, 160, 60);
    join(bridge[0], switch, PCIE, 200, 100);
    join(switch, gpu[0], PCIE, 200, 100);
    join(switch, gpu[1], PCIE, 200, 100);
    join(switch, nic, PCIE, 200, 100);
    join(bridge[1], gpu[2], PCIE, 200, 100);
    for index in 0..3 {
        join(gpu[index], hbm[index], LinkKind::Memory, 8000, 50);
    }
    join(gpu[0], gpu[1], LinkKind::NvLink { generation: 3, links: 4 }, 800, 500);
    join(gpu[1], gpu[2], LinkKind::NvLink { generation: 3, links: 4 }, 800, 500);
    b.build().unwrap()
}

fn class(machine: &Machine, from: &str, to: &str) -> PathClass {
    machine.class(machine.find(from).unwrap(), machine.find(to).unwrap())
}
fn way(machine: &Machine, from: &str, to: &str, purpose: Purpose) -> Vec<String> {
    let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), purpose).unwrap();
    path.vertices(machine).into_iter().map(|id| machine.vertex(id).name.clone()).collect()
}

#[test]
fn classes_as_nvidia_smi_has_them() {
    let plain = machine(false);
    assert_eq!(class(&plain, "gpu0", "gpu0"), PathClass::Loc);
    assert_eq!(class(&plain, "gpu0", "gpu1"), PathClass::Nvl);
    assert_eq!(class(&plain, "gpu0", "gpu2"), PathClass::Sys);
    assert_eq!(class(&plain, "gpu0", "nic0"), PathClass::Pix);
    assert_eq!(class(&plain, "gpu2", "nic0"), PathClass::Sys);
    assert_eq!(class(&plain, "numa0", "nic0"), PathClass::Phb);
    assert_eq!(class(&machine(true), "gpu0", "gpu2"), PathClass::Nvb);
    // The same from memory to memory.
    let ends = |machine: &Machine, from: &str, to: &str| {
        let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), Purpose::Copy).unwrap();
        machine.class_of(&path)
    };
    assert_eq!(ends(&plain, "hbm0", "hbm1"), PathClass::Nvl);
    assert_eq!(ends(&machine(true), "hbm0", "hbm2"), PathClass::Nvb);
}

#[test]
fn adapters_take_pci_express_and_gpus_their_own_links() {
    let machine = machine(false);
    assert_eq!(way(&machine, "hbm0", "nic0", Purpose::Dma), ["hbm0", "gpu0", "switch0", "nic0"]);
    assert_eq!(way(&machine, "hbm0", "hbm1", Purpose::Copy), ["hbm0", "gpu0", "gpu1", "hbm1"]);
    assert_eq!(way(&machine, "hbm0", "hbm1", Purpose::Dma), ["hbm0", "gpu0", "switch0", "gpu1", "hbm1"]);
    let far = ["hbm2", "gpu2", "bridge1", "numa1", "numa0", "bridge0", "switch0", "nic0"];
    assert_eq!(way(&machine, "hbm2", "nic0", Purpose::Dma), far);
}

#[test]
fn a_path_has_the_rate_of_its_narrowest_part() {
    let machine = machine(false);
    let path = |from: &str, to: &str| machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), Purpose::Dma).unwrap();
    let (below, across) = (path("hbm0", "nic0"), path("hbm2", "nic0"));
    assert_eq!(below.rate(&machine, Access::Read), Rate::from_gbps(200));
    assert_eq!(below.latency(&machine), Span::from_ns(250));
    // Through two host bridges and the link between sockets the limits for peers bind, the worst first for reads.
    assert_eq!(across.rate(&machine, Access::Read), Rate::from_gbps(2));
    assert_eq!(across.rate(&machine, Access::Write), Rate::from_gbps(10));
    let (_, bound) = across.bound(&machine, Access::Read).unwrap();
    assert!(machine.describe(bound).starts_with("peer-to-peer reads across sockets through bridge"), "{}", machine.describe(bound));
    // To host memory none of them counts.
    assert_eq!(path("nic0", "memory1").rate(&machine, Access::Write), Rate::from_gbps(160));
}

#[test]
fn framing_lowers_the_rate_and_requests_load_the_other_way() {
    let mut b = Machine::builder();
    let ends = [b.vertex(Vertex::new(VertexKind::Gpu, "gpu0")), b.vertex(Vertex::new(VertexKind::Nic, "nic0"))];
    let tlp = |payload, overhead| Tlp { payload: Bytes(payload), overhead: Bytes(overhead) };
    let framing = Framing { write: tlp(256, 24), read: tlp(128, 20), request: tlp(512, 24), ..Framing::NONE };
    b.link(Link { framing, ..Link::new(ends[0], ends[1], PCIE, Rate::from_gbps(200), Span::ZERO) });
    let machine = b.build().unwrap();
    let path = machine.path(ends[0], ends[1], Purpose::Dma).unwrap();
    let gbps = |access| path.rate(&machine, access).as_bps() as f64 / 1e9;
    assert!((gbps(Access::Write) - 200.0 * 256.0 / 280.0).abs() < 0.01);
    assert!((gbps(Access::Read) - 200.0 * 128.0 / 148.0).abs() < 0.01);
    assert_eq!(machine.uses(&path, Access::Read).len(), 2);
}

#[test]
fn wrong_machines_are_refused() {
    let two = |rate: u64, name: &str| {
        let mut b = Machine::builder();
        let ends = [b.vertex(Vertex::new(VertexKind::Gpu, "gpu0")), b.vertex(Vertex::new(VertexKind::Nic, name))];
        b.link(Link::new(ends[0], ends[1], PCIE, Rate::from_bps(rate), Span::ZERO));
        b
    };
    assert_eq!(two(1, "gpu0").build().unwrap_err(), MachineError::Twice("gpu0".to_owned()));
    assert_eq!(two(0, "nic0").build().unwrap_err(), MachineError::Still("gpu0".to_owned(), "nic0".to_owned()));
    let mut apart = two(1, "nic0");
    apart.vertex(Vertex::new(VertexKind::Nic, "nic1"));
    assert_eq!(apart.build().unwrap_err(), MachineError::Apart("gpu0".to_owned(), "nic1".to_owned()));
    let machine = two(1, "nic0").build().unwrap();
    assert_eq!(machine.find("gpu9").unwrap_err().in_full(), "the machine has no vertex `gpu9`; it has gpu0, nic0");
}

#[test]
fn a_gpu_limits_who_reads_it_over_pci_express() {
    let rate = |limited: bool, from: &str, to: &str, purpose, access| {
        let machine = machine(false);
        let mut b = Machine::builder();
        for vertex in machine.vertices() {
            let mut vertex = vertex.clone();
            if limited && vertex.name == "gpu0" {
                vertex.peer = PeerLimits { read: Some(Rate::from_gbps(30)), ..PeerLimits::default() };
            }
            b.vertex(vertex);
        }
        for link in machine.links() {
            b.link(link.clone());
        }
        let machine = b.build().unwrap();
        let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), purpose).unwrap();
        path.rate(&machine, access)
    };
    let gbps = Rate::from_gbps;
    assert_eq!(rate(false, "hbm0", "nic0", Purpose::Dma, Access::Read), gbps(200));
    assert_eq!(rate(true, "hbm0", "nic0", Purpose::Dma, Access::Read), gbps(30));
    // Neither what is written to it, nor what the host reads, nor NVLink.
    assert_eq!(rate(true, "nic0", "hbm0", Purpose::Dma, Access::Write), gbps(200));
    assert_eq!(rate(true, "hbm0", "memory0", Purpose::Copy, Access::Write), gbps(200));
    assert_eq!(rate(true, "hbm0", "hbm1", Purpose::Copy, Access::Read), gbps(800));
}

#[test]
fn peers_copy_over_their_own_links_and_not_through_a_coherent_processor() {
    // Two GPUs that NVLink-C2C joins to one processor, 20 ns each, and NVLinks to a switch, 300 ns each: fewer nanoseconds are no way.
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let numa = add(VertexKind::Numa { package: 0 }, "numa0");
    let switch = add(VertexKind::ScaleUpSwitch, "nvswitch0");
    let gpus = ["gpu0", "gpu1"].map(|name| add(VertexKind::Gpu, name));
    let memories = ["hbm0", "hbm1"].map(|name| add(VertexKind::DeviceMemory, name));
    for (gpu, memory) in gpus.into_iter().zip(memories) {
        b.link(Link::new(gpu, memory, LinkKind::Memory, Rate::from_gbps(8000), Span::from_ns(50)));
        b.link(Link::new(gpu, switch, LinkKind::NvLink { generation: 5, links: 18 }, Rate::from_gbps(7200), Span::from_ns(300)));
        b.link(Link::new(numa, gpu, LinkKind::Coherent, Rate::from_gbps(1600), Span::from_ns(20)));
    }
    let machine = b.build().unwrap();
    assert_eq!(way(&machine, "hbm0", "hbm1", Purpose::Copy), ["hbm0", "gpu0", "nvswitch0", "gpu1", "hbm1"]);
    assert_eq!(way(&machine, "hbm0", "numa0", Purpose::Copy), ["hbm0", "gpu0", "numa0"]);
}
