//! Programs whose buffers lie in the memory of GPUs: rates and latencies by closed forms, and the trace that names the memory.

use std::sync::Arc;

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Inside, MessageTrace, Run, Stage, timing};
use fabriscope_machine::{Link, LinkKind, Machine, PeerLimits, Vertex, VertexKind};
use fabriscope_node::{CopyEngines, DeviceCosts, Main, Memory, Process, ProgramError, Reach, Record};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_verbs::{Access, Lid, MemoryId, Mr, Mtu, Peer, QpCap, QpInit, QpNum, QpType, Remote, SendWr, Sge};

use crate::Scenario;
use crate::tests::cluster;

/// What GPU 0's own link carries, and the limits of the host bridge to GPU 1, which stands behind it; in Gb/s.
const GPU: u64 = 600;
const READS: u64 = 40;
const WRITES: u64 = 80;

/// Nodes of two adapters of 400 Gb/s and GPU 0 below a switch, GPU 1 behind the host bridge.
fn nodes(count: u32) -> Cluster {
    let mut parts = cluster("topology.single_switch = {}", 4, "infiniband", "d_mod_k").parts;
    let group = parts.sole_mut();
    (group.nodes, group.node.nics) = (count, 2);
    let cluster = Cluster::new(parts).expect("it can be wired");
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let (numa, memory) = (add(VertexKind::Numa { package: 0 }, "numa0"), add(VertexKind::HostMemory, "memory0"));
    let (bridge, switch) = (add(VertexKind::HostBridge, "bridge0"), add(VertexKind::PcieSwitch, "switch0"));
    let gpus = ["gpu0", "gpu1"].map(|name| add(VertexKind::Gpu, name));
    let hbm = ["hbm0", "hbm1"].map(|name| add(VertexKind::DeviceMemory, name));
    let nics = ["nic0", "nic1"].map(|name| add(VertexKind::Nic, name));
    let limit = |gbps| Some(Rate::from_gbps(gbps));
    b.vertex_mut(bridge).peer = PeerLimits { read: limit(READS), write: limit(WRITES), ..PeerLimits::default() };
    let mut join = |a, to, kind, gbps, ns| b.link(Link::new(a, to, kind, Rate::from_gbps(gbps), Span::from_ns(ns)));
    let pcie = LinkKind::Pcie { generation: 5, lanes: 16 };
    join(numa, memory, LinkKind::Memory, 4000, 80);
    join(numa, bridge, LinkKind::Die, 4000, 20);
    join(bridge, switch, pcie, 1200, 100);
    join(switch, gpus[0], pcie, GPU, 100);
    join(bridge, gpus[1], pcie, 1200, 100);
    for gpu in [0, 1] {
        join(gpus[gpu], hbm[gpu], LinkKind::Memory, 8000, 200);
        join(switch, nics[gpu], pcie, 504, 100);
    }
    let machine = b.build().expect("it is sound");
    // Copies cost what they do with an A100, whose engines are no limit here.
    let a100 = Catalog::embedded().unwrap().target("azure-nda100v4").expect("it is in the catalogue");
    let costs = DeviceCosts {
        copy_engines: CopyEngines { count: 2, rate: Some(Rate::from_gbps(4000)), own_rate: None },
        ..timing::devices(&a100).expect("it has GPUs")
    };
    cluster.with(Inside { machine, costs })
}

/// One connection from an adapter of node 0 to the same one of node 1: where the bytes come from, where they go, how they move.
#[derive(Clone, Copy)]
struct Transfer {
    nic: usize,
    from: MemoryId,
    to: MemoryId,
    reads: bool,
}

/// What both ends of each transfer put up for the other.
type Board = Record<Vec<Option<(Mr, QpNum)>>>;

/// Everything of one size; returns when each transfer took place and the run.
fn run(transfers: &[Transfer], messages: u64, size: u32, traced: bool) -> (Vec<(Time, Time)>, Run) {
    run_beside(transfers, messages, size, traced, None)
}

/// The same while something else happens on node 0, which waits for two barriers first.
fn run_beside(transfers: &[Transfer], messages: u64, size: u32, traced: bool, beside: Option<Main>) -> (Vec<(Time, Time)>, Run) {
    let cluster = nodes(2);
    let board: Board = Record::new(vec![None; transfers.len() * 2]);
    let spans = Record::new(vec![(Time::ZERO, Time::ZERO); transfers.len()]);
    let main = |index: usize, side: usize| -> Main {
        let (t, board, spans) = (transfers[index], board.clone(), spans.clone());
        Box::new(move |process| Box::pin(end(process, t, (index, side), board, spans, messages, size, traced)))
    };
    let nodes = (0..transfers.len() * 2).map(|rank| rank as u32 % 2).chain(beside.as_ref().map(|_| 0)).collect();
    let mains = (0..transfers.len() * 2).map(|rank| main(rank / 2, rank % 2)).chain(beside).collect();
    let job = (nodes, mains);
    let run = Scenario::default().execute(&cluster, job, 1).expect("it ends");
    let spans = spans.lock().clone();
    (spans, run)
}

#[expect(clippy::too_many_arguments, reason = "one rank of a test, called in one place")]
async fn end(
    process: Process,
    t: Transfer,
    (index, side): (usize, usize),
    board: Board,
    spans: Record<Vec<(Time, Time)>>,
    messages: u64,
    size: u32,
    traced: bool,
) -> Result<(), ProgramError> {
    let place = if side == 0 { t.from } else { t.to };
    let (mr, cq, qp) = process.nic(t.nic, |nic| {
        let pd = nic.alloc_pd();
        let mr = nic.reg_mr_at(pd, 1 << 30, Bytes(u64::from(size)), Access::ALL, place).expect("it is in reach");
        let cq = nic.create_cq(4096).expect("as many as one may have");
        let cap = QpCap { max_send_wr: 4096, ..QpCap::default() };
        let qp = nic.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Rc, cq) }).expect("it is sound");
        (mr, cq, qp)
    });
    board.lock()[index * 2 + side] = Some((mr, qp));
    process.barrier().await;
    let (far, peer) = board.lock()[index * 2 + 1 - side].expect("both have put theirs up");
    let lid = Lid((1 - side as u32) * 2 + t.nic as u32);
    let peer = Peer { lid, qp: peer, sl: 0, mtu: Mtu::B4096 };
    process.nic(t.nic, |nic| nic.connect(qp, &peer, Access::ALL)).expect("it connects");
    process.barrier().await;
    if side == 1 {
        return Ok(());
    }
    let (sge, remote) = (Sge { addr: mr.addr, length: size, lkey: mr.lkey }, Remote { addr: far.addr, rkey: far.rkey });
    process.trace(traced);
    let begun = process.now();
    for id in 0..messages {
        let wr = if t.reads { SendWr::read(id, sge, remote) } else { SendWr::write(id, sge, remote) };
        process.post_send(t.nic, qp, &wr.signaled())?;
    }
    let mut done = 0;
    while done < messages {
        done += process.wait_cq(t.nic, cq, 4096).await.len() as u64;
    }
    spans.lock()[index] = (begun, process.now());
    Ok(())
}

const NEAR: MemoryId = MemoryId(1);
const FAR: MemoryId = MemoryId(2);
const SIZE: u32 = 1 << 20;

/// Gb/s of payload from the first begin to the last end.
fn rate(transfers: &[Transfer]) -> f64 {
    let messages = 16;
    let (spans, _) = run(transfers, messages, SIZE, false);
    let (first, last) = (spans.iter().map(|span| span.0).min().unwrap(), spans.iter().map(|span| span.1).max().unwrap());
    Rate::of(Bytes(messages * u64::from(SIZE) * transfers.len() as u64), last - first).as_bps() as f64 / 1e9
}

fn write(nic: usize, from: MemoryId, to: MemoryId) -> Transfer {
    Transfer { nic, from, to, reads: false }
}

#[test]
fn limits_for_peers_bind_at_either_end() {
    // Read where the bytes are fetched, written where they land; 16 MiB at 40 Gb/s take 3.4 ms, so the start counts little. A WRITE is
    // acknowledged when the last of it is in the receive buffer, up to 256 KiB before they are in memory.
    for (transfer, limit) in [
        (write(0, FAR, NEAR), READS),
        (write(0, NEAR, FAR), WRITES),
        (write(0, FAR, FAR), READS),
        (Transfer { nic: 0, from: FAR, to: NEAR, reads: true }, WRITES),
        (Transfer { nic: 0, from: NEAR, to: FAR, reads: true }, READS),
    ] {
        let seen = rate(&[transfer]) / limit as f64;
        assert!((0.98..=1.016).contains(&seen), "{seen} of {limit} Gb/s from {:?} to {:?}", transfer.from, transfer.to);
    }
}

#[test]
fn near_memory_is_as_fast_as_host_memory() {
    let [host, gpu] = [MemoryId::HOST, NEAR].map(|place| rate(&[write(0, place, place)]));
    assert!((gpu / host - 1.0).abs() < 0.01, "{gpu} and {host} Gb/s");
}

#[test]
fn two_adapters_share_the_link_of_a_gpu() {
    let alone = rate(&[write(0, NEAR, NEAR)]);
    let both = rate(&[write(0, NEAR, NEAR), write(1, NEAR, NEAR)]);
    // Two adapters would carry twice as much, the GPU's link 600 Gb/s.
    assert!(alone * 2.0 > GPU as f64 * 1.15, "{alone} Gb/s");
    assert!((0.97..=1.0).contains(&(both / GPU as f64)), "{both} Gb/s");
    // One of them with its bytes in host memory is not disturbed, and does not disturb.
    let apart = rate(&[write(0, NEAR, NEAR), write(1, MemoryId::HOST, MemoryId::HOST)]);
    assert!((apart / (2.0 * alone) - 1.0).abs() < 0.02, "{apart} Gb/s, {alone} alone");
}

/// GPU 0's link carries 600 Gb/s to the switch: an adapter that reads and a copy to the host get 300 each; other ways do not meet.
#[test]
fn copies_and_adapters_share_a_link() {
    let (messages, bytes) = (24, Bytes(12 << 20));
    let both = |from: MemoryId, copied: (Memory, Memory)| {
        let took = Record::new(Span::ZERO);
        let copying = took.clone();
        let copy: Main = Box::new(move |process: Process| {
            Box::pin(async move {
                process.barrier().await;
                process.barrier().await;
                let begun = process.now();
                process.memcpy(copied.0, copied.1, bytes).await?;
                *copying.lock() = process.now() - begun;
                Ok(())
            })
        });
        let (spans, _) = run_beside(&[write(0, from, MemoryId::HOST)], messages, SIZE, false, Some(copy));
        (took.take(), spans[0].1 - spans[0].0)
    };
    let near = |span: Span, expected: Span| {
        assert!((span.as_us_f64() / expected.as_us_f64() - 1.0).abs() < 0.02, "{span} instead of {expected}");
    };
    let (gpu, host) = (Memory::Device(0), Memory::Host(0));
    let call = nodes(1).groups[0].inside.as_ref().map_or(Span::ZERO, |inside| inside.costs.calls.copy);
    let rate = Rate::from_gbps;
    let (up, reading) = both(NEAR, (gpu, host));
    let half = rate(GPU / 2).time(bytes);
    near(up, call + half);
    // The adapter alone before and behind, at what it reads from host memory.
    let all = Bytes(messages * u64::from(SIZE));
    let (down, alone) = both(NEAR, (host, gpu));
    near(down, call + rate(GPU).time(bytes));
    let lost = rate(GPU / 2).as_bps() as f64 / Rate::of(all, alone).as_bps() as f64;
    near(reading, alone + Span::from_ps((half.as_ps() as f64 * (1.0 - lost)) as u64));
    // From host memory down to the adapter: the copy has the GPU's link to itself, and so has the adapter its own.
    let (apart, elsewhere) = both(MemoryId::HOST, (gpu, host));
    near(apart, call + rate(GPU).time(bytes));
    near(elsewhere, alone);
}

fn only(run: &Run) -> &MessageTrace {
    assert_eq!(run.traces.len(), 1);
    &run.traces[0]
}

#[test]
fn the_trace_names_the_memory_and_adds_up() {
    let trace = |from, to| {
        let (_, run) = run(&[Transfer { nic: 0, from, to, reads: true }], 1, 4096, true);
        let trace = only(&run).clone();
        assert_eq!(trace.total(), trace.latency());
        trace
    };
    let of = |trace: &MessageTrace, stage| trace.stages.iter().find(|s| s.stage == stage).map(|s| (s.place.clone(), s.span)).unwrap();
    let (near, far, host) = (trace(NEAR, NEAR), trace(FAR, FAR), trace(MemoryId::HOST, MemoryId::HOST));
    assert_eq!(of(&host, Stage::PayloadFetch).0, "pcie");
    assert_eq!(of(&near, Stage::PayloadFetch).0, "gpu0 through switch0 (GPUDirect)");
    assert_eq!(of(&far, Stage::PayloadWrite).0, "gpu1 through bridge0, switch0 (GPUDirect)");
    // GPU 0 is 400 ns away and host memory 300; a read goes there and back.
    assert_eq!(of(&near, Stage::PayloadFetch).1, of(&host, Stage::PayloadFetch).1 + Span::from_ns(200));
    // The completion entry comes right behind the bytes in host memory, and with them in the GPU's.
    let timing = timing::pcie(&nodes(2).parts);
    assert_eq!(near.latency() - host.latency(), Span::from_ns(200 + 100) - timing.write_time(Bytes(64)));
    // Behind the host bridge: 100 ns more each way, and 4 KiB at the limits instead of the link.
    let fetch = of(&far, Stage::PayloadFetch).1;
    assert_eq!(fetch, timing.read_latency + Span::from_ns(2 * 200) + Rate::from_gbps(READS).time(Bytes(4096)));
}

/// Nodes of four adapters below one uplink of 600 Gb/s, so many that the run is divided, and everyone sends to the node after the next.
#[test]
fn divided_runs_keep_the_adapters_of_a_node_together() {
    let mut parts = cluster("topology.fat_tree = { levels = 3, radix = 16 }", 600, "infiniband", "d_mod_k").parts;
    let group = parts.sole_mut();
    (group.nodes, group.node.nics) = (150, 4);
    let plain = Cluster::new(parts).expect("it can be wired");
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let (numa, memory) = (add(VertexKind::Numa { package: 0 }, "numa0"), add(VertexKind::HostMemory, "memory0"));
    let (bridge, switch) = (add(VertexKind::HostBridge, "bridge0"), add(VertexKind::PcieSwitch, "switch0"));
    let nics = ["nic0", "nic1", "nic2", "nic3"].map(|name| add(VertexKind::Nic, name));
    let mut join = |a, to, kind, gbps| b.link(Link::new(a, to, kind, Rate::from_gbps(gbps), Span::from_ns(50)));
    let pcie = LinkKind::Pcie { generation: 5, lanes: 16 };
    join(numa, memory, LinkKind::Memory, 4000);
    join(numa, bridge, LinkKind::Die, 4000);
    join(bridge, switch, pcie, GPU);
    for nic in nics {
        join(switch, nic, pcie, 504);
    }
    let machine = b.build().expect("it is sound");
    let mut shared = plain.clone();
    shared.groups[0].reach = Some(Arc::new(Reach::of(&machine, &timing::pcie(&plain.parts), true)));
    let mut schedule = fabriscope_schedule::Builder::new(600);
    let bytes = Bytes(256 << 10);
    for rank in 0..600 {
        schedule.put(rank, (rank + 8) % 600, bytes);
    }
    let schedule = schedule.build().expect("it is sound");
    let run = |cluster: &Cluster, threads| {
        let engine = Scenario { threads, ..Scenario::default() };
        assert!(engine.connect(cluster, &schedule, 1).expect("it is set up").parts.len() > 1, "it is divided");
        engine.run(cluster, &schedule, 1).expect("it ends")
    };
    let both = [1, 2].map(|threads| run(&shared, threads));
    assert_eq!(both[0], both[1]);
    // Four adapters of 400 Gb/s get 150 each of the uplink, and of the way down.
    let (alone, together) = (run(&plain, 2).end.as_ps() as f64, both[0].end.as_ps() as f64);
    let least = Rate::from_gbps(GPU).time(bytes * 4).as_ps() as f64;
    assert!(together > least && together < 1.3 * least, "{together} ps of at least {least}");
    assert!(together > 1.8 * alone, "{together} and {alone} ps");
}

#[test]
fn memory_out_of_reach_is_refused() {
    let mut cluster = nodes(2);
    let main: Main = Box::new(|process: Process| {
        Box::pin(async move {
            let error = process.nic(0, |nic| {
                let pd = nic.alloc_pd();
                nic.reg_mr_at(pd, 0, Bytes(64), Access::ALL, MemoryId(9)).unwrap_err()
            });
            Err(ProgramError(error.in_full()))
        })
    });
    let error = Scenario::default().execute(&cluster, (vec![0], vec![main]), 1).unwrap_err();
    assert!(error.in_full().contains("does not reach memory 9"), "{error}");
    cluster.parts.sole_mut().node.nics = 1;
    let job = (Vec::new(), Vec::new());
    let error = Scenario::default().execute(&cluster, job, 1).unwrap_err();
    assert!(error.in_full().contains("2 adapters, and a node has 1"), "{error}");
}
