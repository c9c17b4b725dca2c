//! perftest with buffers in the memory of GPUs: RI2 with a machine made by hand.

use crate::machine;
use std::sync::Arc;

use fabriscope_engine::{Cluster, Engine, EngineError, Job, RunOptions, timing};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_machine::{Link, LinkKind, Machine, PeerLimits, Vertex, VertexKind};
use fabriscope_node::Reach;
use fabriscope_platform::{GpuTarget, Target};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Remedy;
use fabriscope_units::{Rate, Span};
use machine::{column, ri2, target};

/// What a host bridge of Broadwell lets devices read and write of each other (docs/models/gpudirect.md), and across sockets.
const READ: f64 = 3.5;
const WRITE: f64 = 6.4;
const ACROSS: f64 = 1.5;

/// Two sockets with a GPU each; an adapter at the first, and one at the second where there are two.
fn inside(nics: u32) -> Machine {
    let mut b = Machine::builder();
    let rate = |gigabytes: f64| Rate::from_bps((gigabytes * 8e9) as u64);
    let pcie = LinkKind::Pcie { generation: 3, lanes: 16 };
    let sides = [0, 1].map(|side| {
        let numa = b.vertex(Vertex::new(VertexKind::Numa { package: side }, format!("numa{side}")));
        let memory = b.vertex(Vertex::new(VertexKind::HostMemory, format!("memory{side}")));
        let mut bridge = Vertex::new(VertexKind::HostBridge, format!("bridge{side}"));
        let limit = |gigabytes| Some(rate(gigabytes));
        bridge.peer = PeerLimits { read: limit(READ), write: limit(WRITE), read_across: limit(ACROSS), write_across: limit(ACROSS) };
        let bridge = b.vertex(bridge);
        let gpu = b.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{side}")));
        let hbm = b.vertex(Vertex::new(VertexKind::DeviceMemory, format!("hbm{side}")));
        b.link(Link::new(numa, memory, LinkKind::Memory, rate(60.0), Span::ZERO));
        b.link(Link::new(numa, bridge, LinkKind::Die, rate(60.0), Span::from_ns(65)));
        b.link(Link::new(bridge, gpu, pcie, rate(15.7), Span::from_ns(65)));
        b.link(Link::new(gpu, hbm, LinkKind::Memory, rate(500.0), Span::from_ns(280)));
        if side < nics {
            let nic = b.vertex(Vertex::new(VertexKind::Nic, format!("mlx5_{side}")));
            b.link(Link::new(bridge, nic, pcie, rate(15.7), Span::from_ns(65)));
        }
        numa
    });
    b.link(Link::new(sides[0], sides[1], LinkKind::Smp, rate(19.2), Span::from_ns(100)));
    b.build().unwrap()
}

fn try_run(line: &str, gpudirect: bool) -> Result<ToolOutput, EngineError> {
    let parts = ri2(2, 2);
    let gpu = GpuTarget {
        title: "NVIDIA K80".to_owned(),
        count: 2,
        own: 2,
        switches: None,
        buses: Vec::new(),
        read_rate: Rate::from_gbps(2000),
        write_cost: 0,
        launch: Span::ZERO,
    };
    let target = Target { gpu: Some(gpu), ..target(&parts) };
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut cluster = Cluster::new(parts).unwrap();
    cluster.groups[0].reach = Some(Arc::new(Reach::of(&inside(2), &timing::pcie(&cluster.parts), gpudirect)));
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    PacketEngine.run(&cluster, Job::programs(nodes, prepared.mains), &RunOptions::default(), 1)?;
    Ok((prepared.finish)())
}
fn run(line: &str) -> ToolOutput {
    try_run(line, true).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn every_program_that_the_tool_has_for_gpus_runs() {
    for line in [
        "ib_write_bw -n 20 -a --use_cuda=0",
        "ib_read_bw -n 20 --use_cuda=1",
        "ib_send_bw -n 20 -b --use_cuda=0",
        "ib_send_bw -n 20 -c UD --use_cuda=0",
        "ib_send_lat -n 20 -a --use_cuda=0",
        "ib_read_lat -n 20 --use_cuda=1",
        "ib_atomic_lat -n 20 --use_cuda=0",
        "ib_atomic_bw -n 20 --use_cuda=0",
    ] {
        let output = run(line);
        let metric = if line.contains("_lat") { "latency" } else { "bandwidth" };
        assert!(column(&output, metric).iter().all(|(_, value)| *value > 0.0 && value.is_finite()), "{line}\n{}", output.text);
        assert!(output.text.contains("Picking device No."), "{}", output.text);
    }
}

#[test]
fn bandwidth_is_that_of_the_host_bridge() {
    let gigabytes = |line: &str| column(&run(&format!("{line} -s 1M -n 200 --report_gbits")), "bandwidth")[0].1 / 8.0;
    let host = gigabytes("ib_write_bw");
    assert!(host > 11.5, "EDR carries 12 GB/s: {host}");
    // The slower of reading at one end and writing at the other; the nearest adapter against one at the other socket.
    let (near, far) = (gigabytes("ib_write_bw --use_cuda=0"), gigabytes("ib_write_bw --use_cuda=1"));
    assert!((near / READ - 1.0).abs() < 0.02, "{near} GB/s");
    assert!((far / ACROSS - 1.0).abs() < 0.02, "{far} GB/s");
    let other = gigabytes("ib_write_bw --use_cuda=1 -d mlx5_1");
    assert!((other / READ - 1.0).abs() < 0.02, "{other} GB/s");
    // Writes into a GPU have another limit, so both directions at once are twice the slower of the two.
    let both = gigabytes("ib_write_bw -b --use_cuda=0");
    assert!((both / (2.0 * READ) - 1.0).abs() < 0.02, "{both} GB/s");
}

#[test]
fn latency_grows_by_the_way_to_the_gpu() {
    let latency = |line: &str| column(&run(&format!("{line} -n 20 -s 8")), "latency")[0].1;
    // A GPU is 65 + 65 + 280 ns away and host memory 65 + 65: 560 ns more for a read, 280 ns for a write, one each in half a round trip
    // of SENDs and in a READ; but in host memory the completion entry comes 6 ns behind the bytes, and 20 ns more behind those of a SEND.
    let (send, read) = (latency("ib_send_lat -I 0"), latency("ib_read_lat"));
    let gpu = [latency("ib_send_lat --use_cuda=0") - send, latency("ib_read_lat --use_cuda=0") - read];
    assert!(gpu.iter().all(|more| (0.81..0.84).contains(more)), "{gpu:?} us");
    // Across sockets 65 + 100 + 65 ns more one way, three times, and 8 bytes at 1.5 GB/s.
    let far = latency("ib_read_lat --use_cuda=1") - latency("ib_read_lat --use_cuda=0");
    assert!((far - 3.0 * 0.230).abs() < 0.02, "{far} us");
}

#[test]
fn without_gpudirect_registration_fails() {
    let error = try_run("ib_write_bw --use_cuda=0", false).unwrap_err().in_full();
    assert!(error.contains("does not reach memory 1 of its node; register host memory"), "{error}");
}
