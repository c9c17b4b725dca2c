//! DMA of an adapter and copies by a GPU on one link, in closed form.

use std::rc::Rc;

use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexKind};
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_verbs::MemoryId;

use crate::copies::CopyId;
use crate::device::{Devices, Memory};
use crate::device_test::COSTS;
use crate::dma::DmaHops;
use crate::pcie::{Pcie, PcieTiming};
use crate::reach::Reach;
use crate::traffic::{EPOCH, Traffic};

const HOST: Memory = Memory::Host(0);
const GPU: Memory = Memory::Device(0);
/// What the uplink and the link of the GPU carry, each way.
const LINK: Rate = Rate::from_gbps(200);
const PACKET: Bytes = Bytes(4096);

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Host memory, a switch with a GPU and an adapter below it, and the adapter at work.
struct Node {
    devices: Devices,
    reach: Reach,
    traffic: Traffic,
    bus: Pcie,
    hops: Vec<Time>,
    /// When the adapter can go on.
    now: Time,
}

/// With an adapter of so many Gb/s. Nothing is framed.
fn node(gbps: u64) -> Node {
    let mut b = Machine::builder();
    let mut add = |kind, name: &str| b.vertex(Vertex::new(kind, name));
    let (numa, memory) = (add(VertexKind::Numa { package: 0 }, "numa0"), add(VertexKind::HostMemory, "memory0"));
    let (switch, gpu) = (add(VertexKind::PcieSwitch, "switch0"), add(VertexKind::Gpu, "gpu0"));
    let (hbm, nic) = (add(VertexKind::DeviceMemory, "hbm0"), add(VertexKind::Nic, "nic0"));
    let pcie = LinkKind::Pcie { generation: 4, lanes: 16 };
    let mut join = |a, to, kind, rate| b.link(Link::new(a, to, kind, rate, Span::ZERO));
    join(numa, memory, LinkKind::Memory, LINK * 10);
    join(numa, switch, pcie, LINK);
    join(switch, gpu, pcie, LINK);
    join(gpu, hbm, LinkKind::Memory, LINK * 100);
    join(switch, nic, pcie, Rate::from_gbps(gbps));
    let machine = b.build().unwrap();
    let timing = PcieTiming {
        tlp_rate: Rate::from_gbps(gbps),
        read_latency: Span::ZERO,
        write_latency: Span::ZERO,
        max_payload: Bytes(256),
        max_read_request: Bytes(4096),
        completion_payload: Bytes(256),
        write_overhead: Bytes(0),
        read_overhead: Bytes(0),
        completion_overhead: Bytes(0),
        wires: crate::Wires::EachWay,
        tags: None,
    };
    let reach = Reach::of(&machine, &timing, true);
    let devices = Devices::new(Rc::new(machine), COSTS);
    let traffic = Traffic::new(&devices, reach.nics(), reach.places());
    let hops = vec![Time::ZERO; reach.hops().len()];
    Node { devices, reach, traffic, bus: Pcie::new(timing), hops, now: Time::ZERO }
}

impl Node {
    /// The adapter writes to a memory, packet after packet, until `until`; how many GB/s from now on.
    fn write(&mut self, to: Memory, until: Time) -> f64 {
        let (begun, mut packets) = (self.now, 0);
        let place = if to == HOST { MemoryId::HOST } else { self.reach.place_of(to).unwrap() };
        while self.now < until {
            let path = self.reach.path(0, place).unwrap();
            let meeting = Some(self.traffic.meeting(0, usize::from(place.0)));
            let mut way = DmaHops { path, hops: &mut self.hops, meeting };
            self.now = self.bus.write_over(&mut way, self.now, PACKET).sent;
            packets += 1;
        }
        Rate::of(PACKET * packets, self.now - begun).as_bytes_per_s_f64() / 1e9
    }
    /// Begins a copy of so many bytes when the adapter is where it is.
    fn copy(&mut self, from: Memory, to: Memory, bytes: u64) -> CopyId {
        self.traffic.look_again();
        self.devices.start(self.now, from, to, Bytes(bytes)).unwrap()
    }
    /// How long the copy takes from `begun` on, while the adapter writes or rests.
    fn time_of(&mut self, id: CopyId, begun: Time, writes: Option<Memory>) -> f64 {
        loop {
            let end = self.devices.end(self.now, id).unwrap();
            if end <= self.now {
                return (end - begun).as_us_f64();
            }
            match writes {
                Some(to) => drop(self.write(to, end)),
                None => self.now = end,
            }
        }
    }
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value / expected - 1.0).abs() <= within, "{value} instead of {expected}");
}

#[test]
fn a_copy_and_a_stream_get_half_of_a_link_each() {
    for memory in [GPU, HOST] {
        // To the GPU both come down its link; to the host both go up the switch's uplink.
        let (from, to) = if memory == GPU { (HOST, GPU) } else { (GPU, HOST) };
        let mut node = node(200);
        near(node.write(memory, at(100)), 25.0, 0.001);
        let begun = node.now;
        // 25 MB would take 1 ms alone.
        let id = node.copy(from, to, 25_000_000);
        near(node.write(memory, at(1100)), 12.5, 0.005);
        near(node.time_of(id, begun, Some(memory)), 2000.0, 0.005);
        // The stream has the link to itself again, and so has a copy when the stream has gone.
        node.write(memory, node.now + EPOCH);
        near(node.write(memory, node.now + Span::from_us(100)), 25.0, 0.001);
        node.now += EPOCH * 3;
        let (begun, id) = (node.now, node.copy(from, to, 2_500_000));
        assert_eq!(node.time_of(id, begun, None), 100.0);
    }
}

#[test]
fn a_slow_stream_is_not_slowed_and_leaves_the_rest() {
    // 12.5 of 25 GB/s are what a stream of 100 Gb/s wants: it goes on, and the copy has as much; with 40 Gb/s it leaves 20 GB/s.
    for (gbps, rest) in [(100, 12.5), (40, 20.0)] {
        let mut node = node(gbps);
        node.write(GPU, at(100));
        let begun = node.now;
        let id = node.copy(HOST, GPU, 25_000_000);
        near(node.write(GPU, at(600)), gbps as f64 / 8.0, 0.005);
        near(node.time_of(id, begun, Some(GPU)), 25_000.0 / rest, 0.01);
    }
}

#[test]
fn other_directions_and_other_links_do_not_meet() {
    // The copy goes up from the GPU while writes come down to it.
    let mut up = node(200);
    up.write(GPU, at(100));
    let (begun, id) = (up.now, up.copy(GPU, HOST, 2_500_000));
    near(up.write(GPU, at(150)), 25.0, 0.001);
    assert_eq!(up.time_of(id, begun, Some(GPU)), 100.0);
    // Writes to the host go up the uplink; a copy within the GPU stays there.
    let mut within = node(200);
    within.write(HOST, at(100));
    let id = within.copy(GPU, GPU, 2_500_000);
    near(within.write(HOST, at(150)), 25.0, 0.001);
    assert!(within.devices.end(within.now, id).unwrap() < at(150));
}

#[test]
fn a_stream_that_stopped_is_forgotten() {
    let mut node = node(200);
    node.write(GPU, at(100));
    let (begun, id) = (node.now, node.copy(HOST, GPU, 2_500_000));
    // Half the rate until the stream lapses, two epochs after it was last looked at; what it took of that is missing.
    let time = node.time_of(id, begun, None);
    assert!((100.0 + 0.5 * EPOCH.as_us_f64()..=100.0 + EPOCH.as_us_f64()).contains(&time), "{time} us");
}
