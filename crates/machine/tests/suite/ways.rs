//! Ways through random nodes against an algorithm that looks at all of them, and what they carry against a division by hand.

use crate::drawn;
use drawn::{Drawing, SLOT, nodes};
use fabriscope_machine::{Access, Framing, Link, LinkKind, Machine, MachineError, PeerLimits, Purpose, Tlp, Vertex, VertexId, VertexKind};
use fabriscope_units::{Bytes, Rate, Remedy, Span, Time};
use proptest::prelude::*;

/// The least latency between any two vertices for DMA, by Floyd and Warshall: relays are what passes traffic on, links of GPUs are not used.
fn least(machine: &Machine) -> Vec<Vec<Option<u64>>> {
    let count = machine.vertices().len();
    let mut least = vec![vec![None; count]; count];
    for link in machine.links().iter().filter(|link| !matches!(link.kind, LinkKind::NvLink { .. })) {
        for (a, b) in [(link.a, link.b), (link.b, link.a)] {
            let known: &mut Option<u64> = &mut least[a.index()][b.index()];
            *known = Some(known.unwrap_or(u64::MAX).min(link.latency.as_ps()));
        }
    }
    (0..count).for_each(|at| least[at][at] = Some(0));
    for (relay, vertex) in machine.vertices().iter().enumerate() {
        if !matches!(vertex.kind, VertexKind::Numa { .. } | VertexKind::HostBridge | VertexKind::PcieSwitch) {
            continue;
        }
        for from in 0..count {
            for to in 0..count {
                if let (Some(one), Some(other)) = (least[from][relay], least[relay][to])
                    && least[from][to].is_none_or(|known| one + other < known)
                {
                    least[from][to] = Some(one + other);
                }
            }
        }
    }
    least
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn ways_are_the_shortest(machine in nodes()) {
        let least = least(&machine);
        let ends: Vec<VertexId> = machine.of(|kind| matches!(kind, VertexKind::Gpu | VertexKind::Nic | VertexKind::HostMemory)).collect();
        for from in &ends {
            for to in &ends {
                let path = machine.path(*from, *to, Purpose::Dma);
                let found = path.map(|path| path.latency(&machine).as_ps());
                prop_assert_eq!(found, least[from.index()][to.index()], "{:?} to {:?}", from, to);
            }
        }
    }

    /// A way carries what its narrowest link leaves for payload: rate · payload / (payload + overhead), and for reads also what their requests
    /// take of the other direction.
    #[test]
    fn ways_carry_what_their_framing_leaves(gbps in 1u64..800, payload in 64u64..512, overhead in 0u64..40, request in 128u64..4096, asking in 1u64..64) {
        let mut drawing = Drawing::new(1);
        let nic = drawing.builder.vertex(Vertex::new(VertexKind::Nic, "nic"));
        let tlp = |payload, overhead| Tlp { payload: Bytes(payload), overhead: Bytes(overhead) };
        let framing = Framing { write: tlp(payload, overhead), read: tlp(64, overhead), request: tlp(request, asking), ..Framing::NONE };
        let link = Link::new(drawing.bridges[0], nic, SLOT, Rate::from_gbps(gbps), Span::from_ns(100));
        drawing.builder.link(Link { framing, ..link });
        let machine = drawing.done();
        let memory = machine.find("memory0").unwrap();
        let near = |found: Rate, expected: f64| (found.as_bps() as f64 / (gbps as f64 * 1e9) / expected - 1.0).abs() < 1e-3;
        let write = machine.path(nic, memory, Purpose::Dma).unwrap().rate(&machine, Access::Write);
        prop_assert!(near(write, payload as f64 / (payload + overhead) as f64), "{write}");
        let read = machine.path(memory, nic, Purpose::Dma).unwrap().rate(&machine, Access::Read);
        let expected = (64.0 / (64 + overhead) as f64).min(request as f64 / asking as f64);
        prop_assert!(near(read, expected), "{read}, not {} of {gbps} Gb/s", expected);
    }
}

#[test]
fn transfers_share_what_they_have_in_common() {
    // Two adapters below one switch read from host memory: 256 Gb/s of the uplink are 128 for each; when one has its 16 MB after 1 ms, the other
    // has 256 for the rest of its 32 MB: 16 MB more in half a millisecond.
    let mut drawing = Drawing::new(1);
    let switch = drawing.switch(drawing.bridges[0]);
    let nics = [0; 2].map(|_| drawing.nic(switch));
    let machine = drawing.done();
    let memory = machine.find("memory0").unwrap();
    let mut sharing = machine.sharing();
    let mut start = |nic, megabytes: u64| {
        let path = machine.path(memory, nic, Purpose::Dma).unwrap();
        sharing.start(Time::ZERO, Bytes(megabytes * 1_000_000), machine.uses(&path, Access::Read), Rate::from_bps(u64::MAX))
    };
    let (short, long) = (start(nics[0], 16), start(nics[1], 32));
    assert_eq!((sharing.rate(short), sharing.rate(long)), (Some(Rate::from_gbps(128)), Some(Rate::from_gbps(128))));
    let near = |end: Option<Time>, us: u64| end.unwrap().as_ps().abs_diff(us * 1_000_000) < 1_000_000;
    assert!(near(sharing.end(short), 1000), "{:?}", sharing.end(short));
    assert!(near(sharing.end(long), 1500) || near(sharing.end(long), 2000), "{:?}", sharing.end(long));
}

#[test]
fn host_bridges_limit_peers_and_nobody_else() {
    // Adapter and GPU at one bridge: 40 Gb/s of reads and 80 of writes between devices, while memory has all 256.
    let mut drawing = Drawing::new(1);
    let bridge = drawing.bridges[0];
    let (gpu, nic) = (drawing.gpu(Some(bridge)), drawing.nic(bridge));
    let limit = |gbps| Some(Rate::from_gbps(gbps));
    drawing.builder.vertex_mut(bridge).peer = PeerLimits { read: limit(40), write: limit(80), ..PeerLimits::default() };
    let machine = drawing.done();
    let rate = |from, to, access| machine.path(from, to, Purpose::Dma).unwrap().rate(&machine, access);
    assert_eq!((rate(gpu, nic, Access::Read), rate(nic, gpu, Access::Write)), (Rate::from_gbps(40), Rate::from_gbps(80)));
    let memory = machine.find("memory0").unwrap();
    assert_eq!((rate(memory, nic, Access::Read), rate(nic, memory, Access::Write)), (Rate::from_gbps(256), Rate::from_gbps(256)));
    // What binds has a name.
    let path = machine.path(gpu, nic, Purpose::Dma).unwrap();
    let (_, bound) = path.bound(&machine, Access::Read).unwrap();
    assert_eq!(machine.describe(bound), "peer-to-peer reads through bridge0");
}

#[test]
fn machines_that_are_none() {
    let numa = |name: &str| Vertex::new(VertexKind::Numa { package: 0 }, name);
    let mut twice = Machine::builder();
    twice.vertex(numa("a"));
    twice.vertex(numa("a"));
    assert_eq!(twice.build(), Err(MachineError::Twice("a".to_owned())));
    let pair = || {
        let mut builder = Machine::builder();
        let ends = [builder.vertex(numa("a")), builder.vertex(numa("b"))];
        (builder, ends)
    };
    assert_eq!(pair().0.build(), Err(MachineError::Apart("a".to_owned(), "b".to_owned())));
    let (mut still, [a, b]) = pair();
    still.link(Link::new(a, b, LinkKind::Smp, Rate::default(), Span::ZERO));
    assert_eq!(still.build(), Err(MachineError::Still("a".to_owned(), "b".to_owned())));
    let (mut looped, [a, _]) = pair();
    looped.link(Link::new(a, a, LinkKind::Smp, Rate::from_gbps(1), Span::ZERO));
    assert_eq!(looped.build(), Err(MachineError::Loop("a".to_owned())));
    let (mut outside, [a, _]) = pair();
    outside.link(Link::new(a, VertexId(7), LinkKind::Smp, Rate::from_gbps(1), Span::ZERO));
    assert!(matches!(outside.build(), Err(MachineError::Unknown { .. })));
    let (mut whole, [a, b]) = pair();
    whole.link(Link::new(a, b, LinkKind::Smp, Rate::from_gbps(1), Span::ZERO));
    let told = whole.build().unwrap().find("c").unwrap_err().in_full();
    assert!(told.contains("no vertex `c`") && told.contains("a, b"), "{told}");
}
