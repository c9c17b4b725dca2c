//! The bus between adapter and memory, and the latencies of a core, as tables derived by hand from the parts.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::timing;
use fabriscope_node::PcieTiming;
use fabriscope_units::{Bytes, Span};

pub fn on(name: &str) -> ResolvedCluster {
    Catalog::embedded().unwrap().target(name).unwrap()
}

fn varied(text: &str) -> ResolvedCluster {
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.parse_cluster("varied.toml", text).unwrap();
    catalog.resolve(&cluster, None).unwrap()
}

/// A row of the table: what one direction carries in Mb/s; then ns of a read and of a write; then payloads in bytes.
fn row(timing: &PcieTiming) -> (u64, u64, u64, u64, u64, u64) {
    let ns = |span: Span| span.as_ps() / 1000;
    (
        timing.tlp_rate.as_bps() / 1_000_000,
        ns(timing.read_latency),
        ns(timing.write_latency),
        timing.max_payload.as_u64(),
        timing.max_read_request.as_u64(),
        timing.completion_payload.as_u64(),
    )
}

#[test]
fn buses_of_hosts() {
    // A lane of generation 3, 4, 5 has 8, 16, 32 Gb/s, of which 128/130 are data; acknowledgements and flow control take 8/168 of
    // that each, skip sets 4/1538. What is left is 1 − 2 · 0.047619 − 0.002601 = 0.902161:
    //   16 lanes: 128, 256, 512 Gb/s · 128/130 · 0.902161 = 113.700, 227.400, 454.800 Gb/s.
    // Latencies and payloads are those of the processor. An adapter with cores has a switch, which a read crosses twice and a write
    // once: 75 ns for BlueField-2 and 65 ns for BlueField-3.
    let table = [
        // cluster            Mb/s     read  write MPS MRRS completion
        ("ri2", (113_700, 450, 130, 256, 512, 108)),
        ("csd3-opa", (113_700, 450, 130, 256, 512, 108)),
        ("lab-iwarp-t6", (113_700, 450, 130, 256, 512, 108)),
        ("thor-roce-100g", (227_400, 450, 130, 512, 512, 128)),
        ("oci-optimized3", (227_400, 450, 130, 256, 512, 128)),
        ("frontier", (227_400, 450, 130, 512, 512, 128)),
        ("lab-16", (454_800, 450, 130, 512, 512, 256)),
        ("lab-bluefield-2", (113_700, 450 + 150, 130 + 75, 256, 512, 108)),
        ("lab-bluefield-3-broadwell", (113_700, 450 + 130, 130 + 65, 256, 512, 108)),
    ];
    for (name, expected) in table {
        assert_eq!(row(&timing::pcie(&on(name))), expected, "{name}");
    }
}

#[test]
fn the_port_of_an_adapter_with_cores_is_its_own() {
    // The host's slot is generation 3 (113.7 Gb/s), the adapter's own bus generation 4 and 5: twice and four times that. The way to
    // the host's memory is the same through either.
    for (name, factor) in [("lab-bluefield-2", 2), ("lab-bluefield-3-broadwell", 4)] {
        let parts = on(name);
        let (slot, port) = (timing::pcie(&parts), timing::port(&parts));
        let per_gbps = port.tlp_rate.as_bps() / (slot.tlp_rate.as_bps() / 1000);
        assert!((factor * 1000 - 1..=factor * 1000 + 1).contains(&per_gbps), "{name}: {per_gbps}");
        assert_eq!((port.read_latency, port.write_latency), (slot.read_latency, slot.write_latency), "{name}");
    }
    // Without cores there is one bus only.
    let plain = on("ri2");
    assert_eq!(timing::port(&plain), timing::pcie(&plain));
}

#[test]
fn lanes_and_generation_of_the_slot_bound_the_bus() {
    // 16 lanes of generation 3 carry 113.700 Gb/s; 8 lanes carry half, 4 a quarter, and generation 4 with 8 lanes as much as 16 lanes
    // of generation 3. ConnectX-5 takes generation 4 and Broadwell's slot is what the cluster says.
    let slot = |generation: u32, lanes: u32| {
        let pcie = format!("pcie = {{ generation = {generation}, lanes = {lanes} }}");
        let node = format!("[node]\ncpu = \"xeon-e5-2680v4\"\nsockets = 2\nnic = \"connectx-5\"\n{pcie}\n");
        let parts = varied(&format!("name = \"varied\"\ntitle = \"A slot of its own\"\nbase = \"ri2\"\n{node}"));
        timing::pcie(&parts).tlp_rate.as_bps() / 1_000_000
    };
    assert_eq!([slot(3, 16), slot(3, 8), slot(3, 4), slot(4, 8)], [113_700, 56_850, 28_425, 113_700]);
}

#[test]
fn a_remote_socket_costs_its_penalty_once_on_each_way() {
    // Neugebauer et al.: 100 ns more where memory is at the other socket. 450 + 100 and 130 + 100.
    let node = "[node]\ncpu = \"xeon-e5-2680v4\"\nsockets = 2\nnic = \"connectx-5\"\nnuma = \"remote\"\n";
    let parts = varied(&format!("name = \"varied\"\ntitle = \"Programs at the far socket\"\nbase = \"ri2\"\n{node}"));
    let bus = timing::pcie(&parts);
    assert_eq!((bus.read_latency, bus.write_latency), (Span::from_ns(550), Span::from_ns(230)));
    // What the adapter reads beside itself knows no sockets.
    assert_eq!(timing::local_read(&parts), Span::from_ns(450));
}

#[test]
fn headers_of_the_bus() {
    // A 64-bit write or read: framing and link layer 8 B, header 4 B, address 12 B; a completion has 8 B instead of the address.
    for name in ["ri2", "thor-roce-100g", "lab-16"] {
        let bus = timing::pcie(&on(name));
        assert_eq!((bus.write_overhead, bus.read_overhead, bus.completion_overhead), (Bytes(24), Bytes(24), Bytes(20)), "{name}");
    }
}

#[test]
fn cores_of_adapters_reach_their_memory_past_one_switch() {
    // From the adapter to the memory of its cores: 320 ns and 90 ns of the Cortex-A72, and the switch of 75 ns twice and once.
    let parts = on("lab-bluefield-2");
    let machine = parts.sole().node.machine().unwrap();
    let reach = timing::reach(&parts, &machine, false);
    let place = reach.place_of(fabriscope_node::Memory::Dpu(0)).unwrap();
    let path = reach.path(0, place).unwrap();
    assert_eq!((path.read_latency, path.write_latency), (Span::from_ns(320 + 150), Span::from_ns(90 + 75)));
    // Its caches of 10 MiB are shared by the programs that run there.
    assert!(timing::on_adapter(&parts, &reach, 0, 4).is_some());
    assert!(timing::on_adapter(&on("ri2"), &reach, 0, 4).is_none());
}

#[test]
fn stores_to_an_adapter_with_cores_cross_its_switch() {
    // A doorbell takes 170 ns on Broadwell; the switch of BlueField-2 adds its 75 ns once. All that a core does by itself stays.
    let (plain, with_cores) = (timing::cpu(&on("ri2")), timing::cpu(&on("lab-bluefield-2")));
    assert_eq!((plain.mmio_latency, with_cores.mmio_latency), (Span::from_ns(170), Span::from_ns(245)));
    assert_eq!(fabriscope_node::CpuCosts { mmio_latency: plain.mmio_latency, ..with_cores }, plain);
    // The kernel's doorbell takes the same way.
    assert_eq!(timing::ip(&on("lab-bluefield-2")).doorbell, Span::from_ns(245));
    // Its own cores are right at it: 120 ns of the Cortex-A72, no switch.
    let parts = on("lab-bluefield-2");
    let core = parts.sole().node.dpu.as_ref().unwrap().cpu.core();
    assert_eq!((core.mmio_latency, core.wqe_build), (Span::from_ns(120), Span::from_ns(100)));
}
