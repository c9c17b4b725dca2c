//! MPI between buffers on GPUs: a machine made by hand, closed forms, conservation.

use crate::machine;
use fabriscope_catalog::{GpuDirect, GpuPeers, GpuProtocol, Mpi, Nearness, RailPolicy, Registration, ResolvedCluster, Sourced};
use fabriscope_engine::{Cluster, Engine, Inside, Job, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexKind};
use fabriscope_mpi::{Buffer, Rank, World};
use fabriscope_node::{CopyEngines, DeviceCosts, GpuCalls, Main, Managed, Mapped, Pages, Process, ProgramError, Record, Toucher};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Span, Time};
use machine::{ri2, target};

const COSTS: DeviceCosts = DeviceCosts {
    calls: GpuCalls {
        copy: Span::from_us(6),
        copy_async: Span::from_us(2),
        copy_start: Span::from_us(1),
        kernel_launch: Span::from_us(3),
        kernel_start: Span::from_us(2),
        event_record: Span::ZERO,
        event_query: Span::from_ns(100),
        stream_synchronize: Span::ZERO,
        pointer_query: Span::from_ns(50),
        ipc_open: Span::from_us(100),
        ipc_use: Span::from_ns(200),
    },
    copy_engines: CopyEngines { count: 2, rate: Some(Rate::from_gbps(1000)), own_rate: None },
    coherent: false,
    pageable: None,
    managed: Some(Managed { gpu_batch: Span::from_us(30), batch: 256, core_fault: Span::from_us(12), prefetch: Span::from_us(7) }),
    mapped: Some(MAPPED),
};

const CALLS: GpuCalls = COSTS.calls;

const MAPPED: Mapped = Mapped {
    store_call: Span::from_ns(88),
    store_rate: Rate::from_gbps(128),
    store_buffer: Bytes(640),
    store_drain: Rate::from_gbps(80),
    load_call: Span::from_ns(100),
    load_trip: Span::from_ns(800),
    load_width: Bytes(16),
    load_stream: Bytes(256),
    load_rate: Rate::from_gbps(4),
    map: Span::ZERO,
};

/// Two GPUs with 80 Gb/s (10 B/ns) each to the host bridge and 400 Gb/s between them, `nics` adapters beside them.
fn inside(nics: u32) -> Inside {
    let mut b = Machine::builder();
    let numa = b.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
    let memory = b.vertex(Vertex::new(VertexKind::HostMemory, "memory0"));
    b.link(Link::new(numa, memory, LinkKind::Memory, Rate::from_gbps(8000), Span::ZERO));
    let bridge = b.vertex(Vertex::new(VertexKind::HostBridge, "bridge0"));
    b.link(Link::new(numa, bridge, LinkKind::Die, Rate::from_gbps(8000), Span::ZERO));
    let pcie = LinkKind::Pcie { generation: 3, lanes: 16 };
    let gpus: Vec<_> = (0..2)
        .map(|index| {
            let gpu = b.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{index}")));
            let hbm = b.vertex(Vertex::new(VertexKind::DeviceMemory, format!("hbm{index}")));
            b.link(Link::new(gpu, hbm, LinkKind::Memory, Rate::from_gbps(8000), Span::ZERO));
            b.link(Link::new(bridge, gpu, pcie, Rate::from_gbps(80), Span::ZERO));
            gpu
        })
        .collect();
    b.link(Link::new(gpus[0], gpus[1], LinkKind::NvLink { generation: 2, links: 2 }, Rate::from_gbps(400), Span::ZERO));
    for index in 0..nics {
        let nic = b.vertex(Vertex::new(VertexKind::Nic, format!("mlx5_{index}")));
        b.link(Link::new(bridge, nic, pcie, Rate::from_gbps(126), Span::ZERO));
    }
    Inside { machine: b.build().unwrap(), costs: COSTS }
}

fn assumed<T>(like: &Sourced<T>, value: T) -> Sourced<T>
where
    Sourced<T>: Clone,
{
    let mut sourced = like.clone();
    sourced.value = value;
    sourced
}

/// RI2 whose library knows of GPUs.
fn with_gpus(nics: u32, change: impl FnOnce(&mut Mpi, &mut GpuProtocol)) -> ResolvedCluster {
    let mut parts = ri2(2, nics);
    let mpi = parts.sole_mut().software.mpi.as_mut().unwrap();
    let bytes = |value| assumed(&mpi.header, Bytes(value));
    let mut gpu = GpuProtocol {
        aware: true,
        on_request: false,
        overhead: None,
        mapping_overhead: None,
        load_limit: bytes(32),
        store_limit: bytes(8192),
        eager_limit: bytes(8192),
        local_load_limit: None,
        local_eager_limit: bytes(4096),
        direct: None,
        chunk: bytes(262_144),
        depth: assumed(&mpi.window, 8),
        peers: Some(GpuPeers { from: bytes(8192), by_kernels: false, overhead: assumed(&mpi.send_overhead, Span::ZERO) }),
        registration: None,
    };
    change(mpi, &mut gpu);
    mpi.gpu = Some(gpu);
    parts
}

fn at(parts: &ResolvedCluster, nodes: [u32; 2], mains: Vec<Main>) -> Run {
    on(parts, inside(parts.sole().node.nics), nodes, mains)
}

fn on(parts: &ResolvedCluster, inside: Inside, nodes: [u32; 2], mains: Vec<Main>) -> Run {
    let cluster = Cluster::new(parts.clone()).unwrap().with(inside);
    PacketEngine.run(&cluster, Job::programs(nodes.into(), mains), &RunOptions::default(), 1).unwrap_or_else(|error| panic!("{error}"))
}

/// A round trip of `size` bytes in its steady state, halved; and the run.
fn ping_pong(parts: &ResolvedCluster, nodes: [u32; 2], buffers: [Buffer; 2], size: u32) -> (Span, Run) {
    ping_pong_on(parts, inside(parts.sole().node.nics), nodes, buffers, size)
}

fn ping_pong_on(parts: &ResolvedCluster, inside: Inside, nodes: [u32; 2], [sender, receiver]: [Buffer; 2], size: u32) -> (Span, Run) {
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target(parts), 2);
    let taken = Record::new(Span::ZERO);
    let main = || -> Main {
        let (world, taken) = (world.clone(), taken.clone());
        Box::new(move |process: Process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                for _ in 0..3 {
                    rank.synchronise().await?;
                    let begun = rank.now();
                    if rank.rank() == 0 {
                        rank.send_from(sender, 1, 1, size).await?;
                        rank.recv_into(sender, Some(1), Some(2), size).await?;
                        *taken.lock() = rank.now().since(begun) / 2;
                    } else {
                        rank.recv_into(receiver, Some(0), Some(1), size).await?;
                        rank.send_from(receiver, 0, 2, size).await?;
                    }
                }
                Ok::<(), ProgramError>(())
            })
        })
    };
    let run = on(parts, inside, nodes, vec![main(), main()]);
    let span = *taken.lock();
    (span, run)
}

const D: Buffer = Buffer::Device;
const H: Buffer = Buffer::Host;

fn close(found: Span, expected: Span, within: Span) {
    let (found, expected) = (found.as_ps() as i64, expected.as_ps() as i64);
    assert!((found - expected).abs() <= within.as_ps() as i64, "{} ns, expected {} ns", found / 1000, expected / 1000);
}

#[test]
fn a_pipeline_takes_its_slowest_step_for_every_chunk_but_the_first() {
    // 10 B/ns down from the GPU and up to the other; 100 Gb/s of wire between, less headers: 12 B/ns.
    // Chunks of 256 KiB take 26.2 us, 22 us, 26.2 us: T = d + w + u + (n − 1) · d, besides calls and hand-shakes of some us.
    let parts = with_gpus(1, |_, _| {});
    for n in [2u32, 8, 32] {
        let (time, _) = ping_pong(&parts, [0, 1], [D, D], n * 262_144);
        let step = Span::from_ps(26_214_400);
        let calls = CALLS.copy_async * 2 + CALLS.copy_start * 2;
        close(time, step * u64::from(n + 1) + Span::from_us(22) + calls, Span::from_us(6));
    }
}

#[test]
fn a_single_chunk_in_flight_is_no_pipeline() {
    // Each chunk goes down, over and up before the next one of it is granted: n times the sum, where both ends hold one.
    let parts = with_gpus(1, |mpi, gpu| gpu.depth = assumed(&mpi.window, 1));
    let deep = with_gpus(1, |_, _| {});
    let size = 16 * 262_144;
    let (alone, many) = (ping_pong(&parts, [0, 1], [D, D], size).0, ping_pong(&deep, [0, 1], [D, D], size).0);
    let ratio = alone.as_us_f64() / many.as_us_f64();
    // (d + w) per chunk at the sender, while the receiver copies up: about 48 us against 26 us.
    assert!((1.6..2.9).contains(&ratio), "{ratio}");
}

#[test]
fn what_one_end_has_on_the_host_is_not_staged_there() {
    let parts = with_gpus(1, |_, _| {});
    let size = 8 * 262_144;
    let times = [[D, D], [D, H], [H, D], [H, H]].map(|buffers| ping_pong(&parts, [0, 1], buffers, size).0);
    assert!(times[0] > times[1] && times[1] > times[3] && times[2] > times[3], "{times:?}");
    // One way each of D H and H D is staged at one end; the means of both directions agree.
    close(times[1], times[2], Span::from_us(3));
}

#[test]
fn every_byte_crosses_the_wire_once() {
    let parts = with_gpus(1, |_, _| {});
    for size in [1u32, 32, 33, 8192, 8193, 100_000, 262_144, 1_000_001] {
        for buffers in [[D, D], [D, H], [H, D], [Buffer::Managed, D]] {
            let (_, run) = ping_pong(&parts, [0, 1], buffers, size);
            let payload = 6 * u64::from(size);
            // Headers and hand-shakes: less than 200 bytes for each of the six messages and each of their chunks.
            let most = payload + 6 * 400 * (2 + u64::from(size / 262_144));
            assert!((payload..most).contains(&run.stats.bytes_delivered), "{size} {buffers:?}: {}", run.stats.bytes_delivered);
        }
    }
}

#[test]
fn pages_cost_their_faults_and_their_way() {
    let parts = with_gpus(1, |_, _| {});
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target(&parts), 2);
    let spans = Record::new(Vec::new());
    let main = || -> Main {
        let (world, spans) = (world.clone(), spans.clone());
        Box::new(move |process: Process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                let pages = Pages::default();
                let mut took = Vec::new();
                for (by, size) in [(Toucher::Gpu, 1), (Toucher::Gpu, 65_536), (Toucher::Core, 9), (Toucher::Gpu, 4 << 20)] {
                    let begun = rank.now();
                    rank.touch_managed(&pages, by, size).await?;
                    took.push(rank.now().since(begun));
                }
                let begun = rank.now();
                rank.fetch_managed(&pages, 4 << 20).await?;
                took.push(rank.now().since(begun));
                *spans.lock() = took;
                Ok::<(), ProgramError>(())
            })
        })
    };
    at(&parts, [0, 1], vec![main(), main()]);
    // 10 B/ns: 64 KiB in 6.5536 us, which is the least that moves; a batch of 256 faults brings 1 MiB, 4 of them 4 MiB.
    let leaf = Span::from_ps(6_553_600);
    let expected =
        [Span::from_us(30) + leaf, Span::ZERO, Span::from_us(12) + leaf, Span::from_us(120) + leaf * 64, Span::from_us(7) + leaf * 64];
    for (found, expected) in spans.lock().iter().zip(expected) {
        close(*found, expected, Span::from_ns(1));
    }
    assert_eq!(spans.lock().len(), expected.len());
}

#[test]
fn rails_share_the_chunks() {
    // Two adapters, GPUs with ways as fast as both: the wire binds, and two wires carry twice as much.
    let rate = |nics: u32| {
        let parts = with_gpus(nics, |mpi, _| mpi.rails = RailPolicy::RoundRobin);
        let (time, _) = ping_pong(&parts, [0, 1], [D, H], 64 * 262_144);
        f64::from(64 * 262_144) / time.as_us_f64() / 1000.0
    };
    let (one, two) = (rate(1), rate(2));
    // The GPU's 10 B/ns bind either way here: no second rail helps where the GPU's link is the slower one.
    assert!((9.0..10.0).contains(&one) && (9.0..10.0).contains(&two), "{one} and {two}");
}

#[test]
fn within_a_node_short_messages_are_stored_and_long_ones_copied_from_the_peer() {
    let parts = with_gpus(1, |_, _| {});
    let (short, _) = ping_pong(&parts, [0, 0], [D, D], 8);
    // A load, a store and a line between two cores.
    close(short, MAPPED.load(Bytes(8)) + MAPPED.store(Bytes(8)) + CALLS.pointer_query * 2, Span::from_ns(700));
    for size in [1u32 << 20, 64 << 20] {
        let (long, _) = ping_pong(&parts, [0, 0], [D, D], size);
        let calls = CALLS.ipc_use + CALLS.copy_async + CALLS.copy_start + CALLS.pointer_query * 2;
        close(long, Rate::from_gbps(400).time(Bytes(size.into())) + calls, Span::from_us(2));
    }
}

/// What the sends of 1 MiB from GPU to GPU took, in order; and when the run ended.
/// Two trays with a processor, a GPU and an adapter each; only the link between the GPUs joins them.
fn trays() -> Inside {
    let mut b = Machine::builder();
    let pcie = LinkKind::Pcie { generation: 3, lanes: 16 };
    let gpus = [0, 1].map(|tray| {
        let numa = b.vertex(Vertex::new(VertexKind::Numa { package: tray }, format!("numa{tray}")));
        let memory = b.vertex(Vertex::new(VertexKind::HostMemory, format!("memory{tray}")));
        b.link(Link::new(numa, memory, LinkKind::Memory, Rate::from_gbps(8000), Span::ZERO));
        let bridge = b.vertex(Vertex::new(VertexKind::HostBridge, format!("bridge{tray}")));
        b.link(Link::new(numa, bridge, LinkKind::Die, Rate::from_gbps(8000), Span::ZERO));
        let gpu = b.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{tray}")));
        let hbm = b.vertex(Vertex::new(VertexKind::DeviceMemory, format!("hbm{tray}")));
        b.link(Link::new(gpu, hbm, LinkKind::Memory, Rate::from_gbps(8000), Span::ZERO));
        b.link(Link::new(bridge, gpu, pcie, Rate::from_gbps(80), Span::ZERO));
        let nic = b.vertex(Vertex::new(VertexKind::Nic, format!("mlx5_{tray}")));
        b.link(Link::new(bridge, nic, pcie, Rate::from_gbps(126), Span::ZERO));
        gpu
    });
    b.link(Link::new(gpus[0], gpus[1], LinkKind::NvLink { generation: 5, links: 2 }, Rate::from_gbps(400), Span::ZERO));
    Inside { machine: b.build().unwrap(), costs: COSTS }
}

#[test]
fn between_trays_the_network_carries_all_but_long_messages_from_gpu_to_gpu() {
    let parts = direct(2, None);
    let size = 4 << 20;
    // 50 B/ns between the GPUs: 83.9 us; the announcement and the answer cross the network, payload does not.
    let (time, run) = ping_pong_on(&parts, trays(), [0, 0], [D, D], size);
    close(time, Span::from_ps(83_886_080), Span::from_us(15));
    assert!(run.stats.bytes_delivered < 10_000, "{}", run.stats.bytes_delivered);
    // No memory is shared: short ones and those of the host are packets. Within a tray neither is.
    for (buffers, size) in [([D, D], 100), ([H, H], 100), ([H, H], size), ([D, H], size)] {
        let (_, run) = ping_pong_on(&parts, trays(), [0, 0], buffers, size);
        assert!(run.stats.bytes_delivered >= 6 * u64::from(size), "{buffers:?} {size}: {}", run.stats.bytes_delivered);
    }
    assert_eq!(ping_pong(&parts, [0, 0], [H, H], 100).1.stats.bytes_delivered, 0);
}

fn sends(parts: &ResolvedCluster, nodes: [u32; 2]) -> (Vec<Span>, Time) {
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target(parts), 2);
    let spans = Record::new(Vec::new());
    let main = || -> Main {
        let (world, spans) = (world.clone(), spans.clone());
        Box::new(move |process: Process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                for _ in 0..3 {
                    rank.synchronise().await?;
                    let begun = rank.now();
                    if rank.rank() == 0 {
                        rank.send_from(D, 1, 1, 1 << 20).await?;
                        spans.lock().push(rank.now().since(begun));
                    } else {
                        rank.recv_into(D, Some(0), Some(1), 1 << 20).await?;
                    }
                }
                Ok::<(), ProgramError>(())
            })
        })
    };
    let run = at(parts, nodes, vec![main(), main()]);
    (spans.take(), run.end)
}

#[test]
fn the_first_copy_from_a_peer_maps_its_memory() {
    let (spans, _) = sends(&with_gpus(1, |_, _| {}), [0, 0]);
    close(spans[0], spans[1] + CALLS.ipc_open, Span::from_ns(500));
    assert_eq!(spans[1], spans[2]);
}

#[test]
fn the_first_use_of_a_buffer_registers_its_pages() {
    let plain = direct(1, None);
    let mut registering = plain.clone();
    let mpi = registering.sole_mut().software.mpi.as_mut().unwrap();
    let span = |value| assumed(&mpi.send_overhead, value);
    let (call, page, gpu_page) = (span(Span::from_us(10)), span(Span::from_ns(100)), span(Span::from_us(1)));
    mpi.gpu.as_mut().unwrap().registration = Some(Registration { call, page, gpu_page });
    let (first, rest) = (sends(&registering, [0, 1]).0, sends(&plain, [0, 1]).0);
    // 16 pages of 64 KiB at each end, one after the other: the receiver answers when it has done so.
    close(first[0], rest[0] + (Span::from_us(10) + Span::from_us(16)) * 2, Span::from_us(1));
    close(first[1], rest[1], Span::from_ns(200));
}

#[test]
fn runs_are_alike() {
    for nodes in [[0, 0], [0, 1]] {
        let parts = with_gpus(1, |_, _| {});
        assert_eq!(sends(&parts, nodes), sends(&parts, nodes));
    }
}

#[test]
fn a_library_without_gpus_says_so() {
    let parts = with_gpus(1, |_, gpu| gpu.aware = false);
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &target(&parts), 2);
    let main = |world: World| -> Main {
        Box::new(move |process: Process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                rank.send_from(D, 1 - rank.rank(), 1, 8).await
            })
        })
    };
    let cluster = Cluster::new(parts.clone()).unwrap().with(inside(1));
    let mains = vec![main(world.clone()), main(world)];
    let error = PacketEngine.run(&cluster, Job::programs(vec![0, 1], mains), &RunOptions::default(), 1).unwrap_err().in_full();
    assert!(error.contains("copy it to host memory first"), "{error}");
}

/// GPUDirect RDMA up to the host bridge.
fn direct(nics: u32, send_limit: Option<u64>) -> ResolvedCluster {
    with_gpus(nics, |mpi, gpu| {
        let send_limit = send_limit.map(|limit| assumed(&mpi.header, Bytes(limit)));
        gpu.direct = Some(GpuDirect { farthest: Nearness::Phb, send_limit, receive_limit: None });
    })
}

#[test]
fn an_adapter_that_reaches_the_gpu_needs_no_pipeline() {
    // The GPU's 10 B/ns bind: n bytes take n / 10 ns, once, where the pipeline takes a chunk more down, and one up.
    let size = 64 * 262_144u32;
    let (time, run) = ping_pong(&direct(1, None), [0, 1], [D, D], size);
    let wire = Rate::from_gbps(80).time(Bytes(size.into()));
    close(time, wire, Span::from_us(12));
    assert!(run.stats.bytes_delivered < 6 * u64::from(size) + 10_000);
    // Short ones go at once: neither a copy nor a handshake.
    let (staged, short) =
        (ping_pong(&with_gpus(1, |_, _| {}), [0, 1], [D, D], 4096).0, ping_pong(&direct(1, None), [0, 1], [D, D], 4096).0);
    assert!(short + CALLS.copy < staged, "{short} and {staged}");
}

#[test]
fn beyond_the_read_limit_the_sender_stages_and_the_receiver_does_not() {
    let size = 16 * 262_144u32;
    let time = |parts: &ResolvedCluster| ping_pong(parts, [0, 1], [D, D], size).0;
    let (all, limited, staged) = (time(&direct(1, None)), time(&direct(1, Some(65_536))), time(&with_gpus(1, |_, _| {})));
    // One chunk down more than direct, and one up less than through both hosts: 26 us each.
    close(limited, all + Span::from_us(26), Span::from_us(10));
    close(staged, limited + Span::from_us(26), Span::from_us(10));
}

#[test]
fn two_rails_carry_what_the_gpu_gives() {
    // 80 Gb/s of the GPU's link against 100 Gb/s of a wire and 200 of two.
    let rate = |nics: u32| {
        let size = 64 << 20;
        let (time, _) = ping_pong(&direct(nics, None), [0, 1], [D, D], size);
        f64::from(size) / time.as_us_f64() / 1000.0
    };
    let (one, two) = (rate(1), rate(2));
    assert!((9.5..10.0).contains(&one) && (9.5..10.0).contains(&two), "{one} and {two}");
}

/// Omni-Path nodes whose PSM2 has PSM2_CUDA=1, with PSM2_GPUDIRECT as told.
fn omni_path(gpudirect: bool) -> ResolvedCluster {
    let mut parts = machine::parts("csd3-opa:2");
    let mpi = parts.sole_mut().software.mpi.as_mut().unwrap();
    let gpu = with_gpus(1, |mpi, gpu| {
        let bytes = |value| assumed(&mpi.header, Bytes(value));
        gpu.chunk = bytes(131_072);
        gpu.eager_limit = bytes(32_000);
        if !gpudirect {
            (gpu.load_limit, gpu.store_limit) = (bytes(0), bytes(0));
        }
        gpu.direct = gpudirect.then_some(GpuDirect { farthest: Nearness::Phb, send_limit: None, receive_limit: None });
    });
    mpi.gpu = gpu.sole().software.mpi.clone().unwrap().gpu;
    parts
}

#[test]
fn psm2_takes_messages_of_a_gpu_through_host_memory_or_not() {
    let time = |gpudirect: bool, buffers, size| ping_pong(&omni_path(gpudirect), [0, 1], buffers, size);
    let (host, direct, staged) = (time(true, [H, H], 8).0, time(true, [D, D], 8).0, time(false, [D, D], 8).0);
    // A load and a store more than between hosts; without GPUDirect a rendezvous with two copies that nobody overlaps.
    close(direct, host + MAPPED.load(Bytes(8)) + MAPPED.store(Bytes(8)), Span::from_ns(300));
    let copies = (CALLS.copy_async + CALLS.copy_start) * 2;
    assert!(staged > direct + copies && staged < direct + copies + Span::from_us(8), "{staged} and {direct}");
    // Large ones: windows of 128 KiB on the way down, over and up at a time; the GPU's 10 B/ns bind, and one window is added at each end.
    // All 32 windows are granted together: the core asks for the 30 copies that were not asked for before it sends the first window.
    let size = 4 << 20;
    let (direct, staged) = (time(true, [D, D], size).0, time(false, [D, D], size).0);
    let window = Rate::from_gbps(80).time(Bytes(131_072));
    close(staged, direct + window * 2 + CALLS.copy_async * 30, Span::from_us(12));
    for gpudirect in [true, false] {
        for size in [9u32, 32, 33, 9000, 32_001, 131_073, 1_000_001] {
            let (_, run) = time(gpudirect, [D, D], size);
            let payload = 6 * u64::from(size);
            let overhead = 6 * (4000 + u64::from(size / 12));
            assert!((payload..payload + overhead).contains(&run.stats.bytes_delivered), "{size}: {}", run.stats.bytes_delivered);
        }
    }
}
