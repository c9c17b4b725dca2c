//! Copies among the memories of a node, in closed form.

use std::rc::Rc;

use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexKind};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::copies::CopyId;
use crate::device::{CopyEngines, DeviceCosts, Devices, GpuCalls, Mapped, Memory, Mover};

pub(crate) const COSTS: DeviceCosts = DeviceCosts {
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
    managed: None,
    mapped: Some(MAPPED),
};

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

/// Two GPUs, each with 8 Gb/s (1 B/ns) to the NUMA domain, or one switch with an uplink of 8 Gb/s.
fn devices(shared: bool) -> Devices {
    let mut b = Machine::builder();
    let numa = b.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
    let memory = b.vertex(Vertex::new(VertexKind::HostMemory, "memory0"));
    b.link(Link::new(numa, memory, LinkKind::Memory, Rate::from_gbps(800), Span::ZERO));
    let pcie = LinkKind::Pcie { generation: 3, lanes: 1 };
    let above = if shared {
        let switch = b.vertex(Vertex::new(VertexKind::PcieSwitch, "switch0"));
        b.link(Link::new(numa, switch, pcie, Rate::from_gbps(8), Span::ZERO));
        switch
    } else {
        numa
    };
    for index in 0..2 {
        let gpu = b.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{index}")));
        let hbm = b.vertex(Vertex::new(VertexKind::DeviceMemory, format!("hbm{index}")));
        b.link(Link::new(gpu, hbm, LinkKind::Memory, Rate::from_gbps(8000), Span::ZERO));
        b.link(Link::new(above, gpu, pcie, Rate::from_gbps(8), Span::ZERO));
    }
    Devices::new(Rc::new(b.build().unwrap()), COSTS)
}
fn at(ns: u64) -> Time {
    Time::ZERO + Span::from_ns(ns)
}
const HOST: Memory = Memory::Host(0);
const A: Memory = Memory::Device(0);
const B: Memory = Memory::Device(1);

#[test]
fn an_engine_serves_in_turn_and_directions_do_not_disturb_each_other() {
    let d = devices(false);
    let go = |from, to| d.start(Time::ZERO, from, to, Bytes(1000)).unwrap();
    let ids = [go(A, HOST), go(A, HOST), go(HOST, A), go(HOST, B)];
    assert_eq!(ids.map(|id| d.end(Time::ZERO, id).unwrap()), [1000, 2000, 1000, 1000].map(at));
}

#[test]
fn m_copies_share_an_uplink() {
    let d = devices(true);
    let ids = [A, B].map(|to| d.start(Time::ZERO, HOST, to, Bytes(1000)).unwrap());
    assert_eq!(ids.map(|id| d.end(Time::ZERO, id).unwrap()), [2000, 2000].map(at));
    // Who asks later finds the rest: at 2,000 ns the first two are over.
    let late = d.start(at(3000), HOST, A, Bytes(500)).unwrap();
    assert_eq!(d.end(at(3000), late), Some(at(3500)));
}

#[test]
fn a_pipeline_of_n_chunks_takes_n_plus_one_steps() {
    // Down from one GPU, up to the other, a chunk after the other: the first chunk's way down, then n chunks up.
    for n in [1u64, 2, 5, 16] {
        let d = devices(false);
        let down: Vec<CopyId> = (0..n).map(|_| d.start(Time::ZERO, A, HOST, Bytes(1000)).unwrap()).collect();
        let mut up = Vec::new();
        for id in down {
            let here = d.end(Time::ZERO, id).unwrap();
            up.push(d.start(here, HOST, B, Bytes(1000)).unwrap());
        }
        assert_eq!(d.end(at(1000 * n), up[up.len() - 1]), Some(at(1000 * (n + 1))));
    }
}

#[test]
fn within_a_gpu_a_byte_is_read_and_written() {
    // 8,000 Gb/s each way of the memory's link, but 1,000 Gb/s of the engine.
    let d = devices(false);
    let id = d.start(Time::ZERO, A, A, Bytes(1_000_000)).unwrap();
    assert_eq!(d.end(Time::ZERO, id), Some(at(8000)));
}

#[test]
fn stores_are_posted_and_loads_are_round_trips() {
    assert_eq!(MAPPED.store(Bytes(64)), Span::from_ns(88 + 4));
    assert_eq!(MAPPED.store(Bytes(10_640)), Span::from_ns(88 + 1000));
    assert_eq!([1, 16, 17, 64].map(|n| MAPPED.load(Bytes(n))), [1, 1, 2, 4].map(|trips| Span::from_ns(100 + 800 * trips)));
    assert_eq!(MAPPED.load(Bytes(1000)), Span::from_ns(100 + 800 + 2000));
}

#[test]
fn what_is_not_there_is_said() {
    let d = devices(false);
    let message = |from, to| d.start(Time::ZERO, from, to, Bytes(1)).unwrap_err().to_string();
    assert_eq!(message(A, Memory::Device(2)), "Device(2): the node has 2 GPUs, counted from 0");
    assert_eq!(message(Memory::Host(1), A), "Host(1): the node has 1 NUMA domains, counted from 0");
    assert!(message(HOST, HOST).contains("a core does that"));
}

#[test]
fn kernels_are_not_bound_by_engines_and_homes_are_near() {
    let d = devices(false);
    let kernel = d.start_on(Time::ZERO, Mover::Kernel(0), A, A, Bytes(1_000_000)).unwrap();
    // 8,000 Gb/s of the memory are read and written at half of it.
    assert_eq!(d.end(Time::ZERO, kernel), Some(at(2000)));
    // The kernel and the engine run side by side; two kernels of one GPU do not.
    let ids = [Mover::Kernel(0), Mover::Engine(0), Mover::Kernel(0)].map(|m| d.start_on(at(3000), m, A, HOST, Bytes(1000)).unwrap());
    assert_eq!(ids.map(|id| d.end(at(3000), id).unwrap()), [5000, 5000, 6000].map(at));
    assert_eq!((d.home(0).unwrap(), d.home(1).unwrap()), (HOST, HOST));
    assert!(d.home(2).is_err());
}
