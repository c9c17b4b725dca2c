//! Ways of adapters in a machine with a switch at one socket and a GPU alone at the other.

use fabriscope_machine::{Framing, Link, LinkKind, Machine, PeerLimits, Tlp, Vertex, VertexId, VertexKind};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::MemoryId;

use crate::device::Memory;
use crate::dma::DmaPath;
use crate::pcie::PcieTiming;
use crate::reach::Reach;

fn bus() -> PcieTiming {
    PcieTiming {
        tlp_rate: Rate::from_gbps(252),
        read_latency: Span::from_ns(600),
        write_latency: Span::from_ns(250),
        max_payload: Bytes(256),
        max_read_request: Bytes(512),
        completion_payload: Bytes(256),
        write_overhead: Bytes(24),
        read_overhead: Bytes(24),
        completion_overhead: Bytes(20),
        wires: crate::Wires::EachWay,
        tags: None,
    }
}

/// Two sockets; below a switch of the first two adapters and a GPU, at the second another GPU. Links of PCI Express carry 252 Gb/s in
/// packets of 256 + 24 bytes, those between sockets 160 Gb/s.
fn machine() -> Machine {
    with(2, 0)
}

/// The same with so many adapters, and requests of reads that take so many bytes.
fn with(adapters: usize, request: u64) -> Machine {
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let numa = [0, 1].map(|package| add(VertexKind::Numa { package }, &format!("numa{package}")));
    let memory = [0, 1].map(|index| add(VertexKind::HostMemory, &format!("memory{index}")));
    let bridge = [0, 1].map(|index| add(VertexKind::HostBridge, &format!("bridge{index}")));
    let switch = add(VertexKind::PcieSwitch, "switch0");
    let gpu = [0, 1].map(|index| add(VertexKind::Gpu, &format!("gpu{index}")));
    let hbm = [0, 1].map(|index| add(VertexKind::DeviceMemory, &format!("hbm{index}")));
    let nics: Vec<VertexId> = (0..adapters).map(|index| add(VertexKind::Nic, &format!("nic{index}"))).collect();
    for end in bridge {
        let limit = |gbps| Some(Rate::from_gbps(gbps));
        b.vertex_mut(end).peer = PeerLimits { read: limit(40), write: limit(80), read_across: limit(2), write_across: limit(10) };
    }
    let mut join = |a: VertexId, to: VertexId, kind, gbps, ns| {
        b.link(Link::new(a, to, kind, Rate::from_gbps(gbps), Span::from_ns(ns)));
    };
    for side in [0, 1] {
        join(numa[side], memory[side], LinkKind::Memory, 1600, 80);
        join(numa[side], bridge[side], LinkKind::Die, 1000, 20);
        join(gpu[side], hbm[side], LinkKind::Memory, 8000, 200);
    }
    join(numa[0], numa[1], LinkKind::Smp, 160, 60);
    let tlp = |payload, overhead| Tlp { payload: Bytes(payload), overhead: Bytes(overhead) };
    let framing = Framing { write: tlp(256, 24), read: tlp(256, 24), request: tlp(512, request), ..Framing::NONE };
    let slots = [(bridge[0], switch), (switch, gpu[0]), (bridge[1], gpu[1])];
    for (a, to) in slots.into_iter().chain(nics.into_iter().map(|nic| (switch, nic))) {
        let kind = LinkKind::Pcie { generation: 4, lanes: 16 };
        b.link(Link { framing, ..Link::new(a, to, kind, Rate::from_gbps(252), Span::from_ns(100)) });
    }
    b.build().unwrap()
}

/// What each hop of a way is, and what it carries of payload in Gb/s.
fn hops(reach: &Reach, path: &DmaPath) -> [Vec<(String, u64)>; 2] {
    [&path.reads, &path.writes].map(|crossings| {
        let name = |hop: u16| reach.hops()[usize::from(hop)].split(" (").next().unwrap_or_default().to_owned();
        crossings.iter().map(|c| (name(c.hop), (c.rate.as_bps() + 500_000_000) / 1_000_000_000)).collect()
    })
}

#[test]
fn places_are_gpus_then_numa_domains() {
    let reach = Reach::of(&machine(), &bus(), true);
    let of = |memory| reach.place_of(memory).map(|place| place.0);
    assert_eq!([of(Memory::Device(0)), of(Memory::Device(1)), of(Memory::Host(0)), of(Memory::Host(1))], [1, 2, 3, 4].map(Some));
    assert_eq!((of(Memory::Device(2)), reach.places(), reach.nics()), (None, 5, 2));
    assert_eq!(reach.path(0, MemoryId(1)).unwrap().title, "gpu0 through switch0 (GPUDirect)");
    assert_eq!(reach.path(1, MemoryId(4)).unwrap().title, "memory of numa1 through numa0, bridge0, switch0");
}

#[test]
fn latencies_differ_by_the_ways() {
    let reach = Reach::of(&machine(), &bus(), true);
    let latencies = |place| {
        let path = reach.path(0, MemoryId(place)).unwrap();
        [path.read_latency, path.write_latency].map(|span| span.as_ps() / 1000)
    };
    // Host memory: 300 ns one way are in what the bus has.
    assert_eq!([latencies(0), latencies(3)], [[600, 250]; 2]);
    // GPU 0: 100 + 100 + 200 ns, both ways for a read.
    assert_eq!(latencies(1), [600 + 2 * 100, 250 + 100]);
    // GPU 1: 100 + 100 + 20 + 60 + 20 + 100 + 200 = 600 ns.
    assert_eq!(latencies(2), [600 + 2 * 300, 250 + 300]);
    assert_eq!(latencies(4), [600 + 2 * 60, 250 + 60]);
}

#[test]
fn hops_that_cannot_be_filled_are_left_out() {
    let reach = Reach::of(&machine(), &bus(), true);
    let path = |place| hops(&reach, reach.path(1, MemoryId(place)).unwrap());
    let named = |name: &str, gbps| (name.to_owned(), gbps);
    // Two adapters of 252 · 256 / 280 = 230 Gb/s share the way up and the GPU; memory and the die carry more than both.
    let (up, down) = ("switch0 -> bridge0", "bridge0 -> switch0");
    assert_eq!(path(0), [vec![named(down, 230)], vec![named(up, 230)]]);
    assert_eq!(path(1), ["gpu0 -> switch0", "switch0 -> gpu0"].map(|hop| vec![named(hop, 230)]));
    // Across sockets the limits for peers are there too, and others for reads than for writes.
    let far = path(2);
    assert!(far[0].iter().any(|(name, gbps)| name.starts_with("peer-to-peer reads across sockets") && *gbps == 2), "{far:?}");
    assert!(far[1].iter().any(|(name, gbps)| name.starts_with("peer-to-peer writes across sockets") && *gbps == 10), "{far:?}");
    assert!(far[0].contains(&named("numa1 -> numa0", 160)));
    assert!(far[1].contains(&named("numa0 -> numa1", 160)));
}

#[test]
fn one_adapter_fills_no_link_like_its_own() {
    // Its writes and the requests of its reads are on its own link, too.
    let reach = Reach::of(&with(1, 24), &bus(), true);
    for place in [0, 1] {
        assert_eq!(hops(&reach, reach.path(0, MemoryId(place)).unwrap()), [vec![], vec![]]);
    }
    // Two fill the uplink with writes and requests: 230 Gb/s of payload, or 24 bytes for 512.
    let reach = Reach::of(&with(2, 24), &bus(), true);
    let [reads, writes] = hops(&reach, reach.path(0, MemoryId(0)).unwrap());
    let carries = |crossings: &[(String, u64)]| crossings.iter().map(|crossing| crossing.1).collect::<Vec<_>>();
    assert_eq!((carries(&reads), carries(&writes)), (vec![230, 252 * 512 / 24], vec![230]));
}

#[test]
fn without_gpudirect_the_memory_of_gpus_is_out_of_reach() {
    let reach = Reach::of(&machine(), &bus(), false);
    let reached: Vec<bool> = (0..5).map(|place| reach.path(0, MemoryId(place)).is_some()).collect();
    assert_eq!(reached, [true, false, false, true, true]);
    assert!(reach.path(2, MemoryId(0)).is_none() && reach.path(0, MemoryId(5)).is_none());
}
