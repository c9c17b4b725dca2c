//! What the catalogue's parts mean for the models of `node`: the same for every engine.

use fabriscope_catalog::{BlueFlame, Interface, IpoibMode, Iwarp, Layer, NumaDistance, OffloadControl, ResolvedCluster, ResolvedSlot};
use fabriscope_machine::Machine;
use fabriscope_nic::NicCosts;
use fabriscope_node::sockets::Bandwidth;
use fabriscope_node::{
    Blueflame, CpuCosts, DeviceCosts, DoorbellPolicy, Managed, Mapped, Memory, Pageable, PcieTiming, Reach, Sockets, Wires,
};
use fabriscope_psm2::AdapterSettings;
use fabriscope_tcp::kernel::{Frames, Framing, KernelParameters, Settings};
use fabriscope_tcp::{Algorithm, Config};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::iwarp::{self, Mpa};

/// The PCIe link between each NIC and memory; where cores on the adapter share the way with the host, their switch is on it.
#[must_use]
pub fn pcie(parts: &ResolvedCluster) -> PcieTiming {
    bus(parts, &parts.sole().node.pcie)
}

/// The NIC's own port, which is the slot where no cores are on the adapter: how fast it is decides what host and cores get together.
#[must_use]
pub fn port(parts: &ResolvedCluster) -> PcieTiming {
    bus(parts, parts.sole().node.dpu.as_ref().map_or(&parts.sole().node.pcie, |dpu| &dpu.port))
}

fn bus(parts: &ResolvedCluster, slot: &ResolvedSlot) -> PcieTiming {
    let root = &parts.sole().node.cpu.root_complex;
    let switch = between(parts);
    let penalty = match parts.sole().node.numa {
        NumaDistance::Local => Span::ZERO,
        NumaDistance::Remote => root.numa_penalty.value,
    };
    let burst = slot.part.burst.as_ref().map(|burst| **burst);
    PcieTiming {
        tlp_rate: slot.part.tlp_rate(slot.lanes),
        read_latency: root.dma_read_latency.value + penalty + switch * 2,
        write_latency: root.dma_write_latency.value + penalty + switch,
        max_payload: burst.unwrap_or(root.max_payload.value),
        max_read_request: burst.unwrap_or(root.max_read_request.value),
        completion_payload: burst.unwrap_or(root.completion_payload.value),
        write_overhead: slot.part.write_overhead.value,
        read_overhead: slot.part.read_request.value,
        completion_overhead: slot.part.completion_overhead.value,
        wires: if slot.part.bus.is_some() { Wires::Shared } else { Wires::EachWay },
        tags: slot.tags,
    }
}

/// The memories of a node that its adapters reach.
#[must_use]
pub fn reach(parts: &ResolvedCluster, machine: &Machine, gpudirect: bool) -> Reach {
    let keeps_out = parts.sole().node.gpu.as_ref().is_some_and(|gpu| gpu.without_gpudirect);
    let mut reach = Reach::of(machine, &port(parts), gpudirect && !keeps_out);
    if let Some(dpu) = &parts.sole().node.dpu {
        let (root, switch) = (&dpu.cpu.root_complex, between(parts));
        for nic in 0..reach.nics() {
            reach.set_latencies(nic, Memory::Dpu(nic as u32), *root.dma_read_latency + switch * 2, *root.dma_write_latency + switch);
        }
    }
    reach
}

/// A read of host memory beside the adapter, apart from the bus's own time.
#[must_use]
pub fn local_read(parts: &ResolvedCluster) -> Span {
    *parts.sole().node.cpu.root_complex.dma_read_latency + between(parts) * 2
}

/// What the switch of an adapter with cores adds to each way of the host.
fn between(parts: &ResolvedCluster) -> Span {
    parts.sole().node.dpu.as_ref().map_or(Span::ZERO, |dpu| *dpu.part.switch_latency)
}

/// What a core of the cluster's hosts pays.
#[must_use]
pub fn cpu(parts: &ResolvedCluster) -> CpuCosts {
    let costs = parts.sole().node.cpu.core();
    CpuCosts { mmio_latency: costs.mmio_latency + between(parts), ..costs }
}

/// What copies by the GPUs of a node cost, where it has GPUs.
#[must_use]
pub fn devices(parts: &ResolvedCluster) -> Option<DeviceCosts> {
    let gpu = parts.sole().node.gpu.as_ref()?;
    Some(DeviceCosts {
        calls: gpu.calls.plain(),
        copy_engines: gpu.copy_engines.plain(),
        coherent: gpu.coherent,
        pageable: gpu.pageable.as_ref().map(Pageable::plain),
        managed: gpu.managed.as_ref().filter(|_| !gpu.coherent).map(Managed::plain),
        mapped: gpu.mapped.as_ref().map(Mapped::plain),
    })
}

/// The memories of a node whose cores run `programs` programs, and the links between them.
#[must_use]
pub fn sockets(parts: &ResolvedCluster, machine: &Machine, programs: u32) -> Sockets {
    let node = &parts.sole().node;
    let bandwidth = node.cpu.memory.as_ref().map(|memory| Bandwidth {
        rate: Rate::from_bps(memory.copy_rate.as_bps() / u64::from(node.layout.part.numa_per_socket.max(1))),
        cached: Bytes(memory.caches.0 * u64::from(node.sockets.max(1)) / u64::from(programs.max(1))),
    });
    // Where the cluster says how far the adapter is, programs are there.
    Sockets::new(machine, bandwidth, node.numa == NumaDistance::Local)
}

/// The memory of the cores on adapter `nic`, of which `programs` run programs; none where adapters have no cores.
#[must_use]
pub fn on_adapter(parts: &ResolvedCluster, reach: &Reach, nic: usize, programs: u32) -> Option<Sockets> {
    let dpu = parts.sole().node.dpu.as_ref()?;
    let caches = dpu.cpu.memory.as_ref().map_or(Bytes::ZERO, |memory| *memory.caches);
    let memory = Bandwidth { rate: dpu.memory_rate(), cached: Bytes(caches.0 / u64::from(programs.max(1))) };
    Some(Sockets::on_adapter(memory, reach.place_of(Memory::Dpu(nic as u32))?))
}

/// What the NIC takes for what it does.
#[must_use]
pub fn nic(parts: &ResolvedCluster) -> NicCosts {
    let nic = &parts.sole().node.nic;
    let costs = nic.costs();
    // Adapters without verbs have no contexts of queue pairs.
    let contexts = costs.contexts.filter(|_| matches!(nic.interface, Interface::Verbs | Interface::Iwarp));
    NicCosts { contexts, ..costs }
}

/// The payload of the largest packet that the adapters build.
#[must_use]
pub fn largest_packet(parts: &ResolvedCluster) -> Bytes {
    let nic = &parts.sole().node.nic;
    match &nic.onload {
        Some(onload) => onload.mtu.value.max(parts.mtu),
        None if nic.iwarp.is_some() => parts.ip.mtu,
        None => nic.datagram_max.as_ref().map_or(parts.mtu, |most| most.value.max(parts.mtu)),
    }
}

/// What a host fabric interface offers to the processes of a node.
#[must_use]
pub fn onload(parts: &ResolvedCluster) -> Option<AdapterSettings> {
    let node = &parts.sole().node;
    // The driver opens a context for each core.
    let cores = node.cpu.cores.saturating_mul(node.sockets);
    Some(AdapterSettings::new(node.nic.onload.as_ref()?.plain(), cores))
}

/// How the cluster's NICs are told about work.
#[must_use]
pub fn doorbell(parts: &ResolvedCluster) -> DoorbellPolicy {
    let nic = &parts.sole().node.nic;
    let blueflame = match nic.blueflame {
        BlueFlame::Always => Blueflame::Always,
        BlueFlame::Inline => Blueflame::Inline,
        BlueFlame::Never => Blueflame::Never,
    };
    DoorbellPolicy { blueflame, blueflame_limit: nic.blueflame_limit.value }
}

/// The IP interface of each adapter.
#[must_use]
pub fn ip(parts: &ResolvedCluster) -> Settings {
    let kernel = &parts.ip.kernel;
    let (small, path_mtu) = (Bytes::saturating_u32, parts.mtu);
    let frame = parts.sole().link.frame.as_ref().map(|frame| Frames {
        encapsulation: small(*frame.encapsulation),
        payload: small(*frame.payload),
        overhead: small(*frame.overhead),
        filled: frame.filled,
        mtu: small(*frame.mtu),
    });
    let framing = match (parts.link_layer.layer(), parts.ip.mode) {
        _ if frame.is_some() => frame.map_or(Framing::Ethernet, Framing::Framed),
        (Layer::Ethernet, _) => Framing::Ethernet,
        (Layer::InfiniBand, IpoibMode::Datagram) => Framing::InfinibandDatagram,
        (Layer::InfiniBand, IpoibMode::Connected) => Framing::InfinibandConnected { path_mtu: small(path_mtu) },
    };
    // Adapters do nothing for TCP inside reliable connections.
    let offloads = !matches!(framing, Framing::InfinibandConnected { .. });
    let kernel = KernelParameters {
        segmentation_offload: kernel.segmentation_offload && offloads,
        checksum_offload: kernel.checksum_offload && offloads,
        ..kernel.parameters()
    };
    let doorbell = *parts.sole().node.cpu.mmio_latency + between(parts);
    let tcp = match parts.sole().node.nic.iwarp.as_ref().filter(|_| parts.ip.offload) {
        // Buffers are those of the host's sockets.
        Some(engine) => {
            let Config { send_buffer, receive_buffer, .. } = kernel.connection();
            Config { send_buffer, receive_buffer, ..tcp_of_adapter(engine) }
        }
        None => kernel.connection(),
    };
    let switching = crate::switching::settings(parts);
    let mtu = small(parts.ip.mtu);
    let mtu = switching.as_ref().map_or(mtu, |switching| switching.encapsulation.inner_mtu(mtu));
    let mut settings = Settings { framing, mtu, kernel, offload: parts.ip.offload, doorbell, tcp, switching };
    settings.tcp.mss = settings.mss();
    settings
}

/// The iWARP of each adapter, if it does that: segments fill the IP packets of the port.
#[must_use]
pub fn iwarp(parts: &ResolvedCluster) -> Option<iwarp::Settings> {
    let part = parts.sole().node.nic.iwarp.as_ref()?;
    let tcp = tcp_of_adapter(part);
    let mss = Settings { tcp, ..ip(parts) }.mss();
    Some(iwarp::Settings { mpa: Mpa { markers: *part.markers }, tcp: Config { mss, ..tcp } })
}

/// What the TCP of an adapter begins with.
fn tcp_of_adapter(part: &Iwarp) -> Config {
    Config {
        mss: 0,
        send_buffer: *part.send_window,
        receive_buffer: *part.receive_window,
        sack: *part.sack,
        timestamps: *part.timestamps,
        ecn: *part.ecn,
        algorithm: match *part.congestion {
            OffloadControl::Tahoe => Algorithm::Tahoe,
            OffloadControl::NewReno => Algorithm::NewReno,
        },
        initial_window: *part.initial_window,
        // Nothing is gained by waiting where no core has to be woken (Linux, cxgb4: dack_mode 0).
        quick_acks: u32::MAX,
        min_rto: *part.min_rto,
        retries: *part.retries,
        ..Config::default()
    }
}
