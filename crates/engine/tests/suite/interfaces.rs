//! IP interfaces, iWARP and host fabric interfaces of clusters: what headers leave of an MTU, what each mode can, what a context holds.

use crate::bus::on;
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::timing;
use fabriscope_tcp::Algorithm;
use fabriscope_tcp::kernel::{Framing, KernelParameters};
use fabriscope_units::{Bytes, Span};

/// A cluster with other IP interfaces.
fn with_ip(base: &str, ip: &str) -> ResolvedCluster {
    let catalog = Catalog::embedded().unwrap();
    let text = format!("name = \"varied\"\ntitle = \"Other interfaces\"\nbase = \"{base}\"\n[ip]\n{ip}\n");
    let cluster = catalog.parse_cluster("varied.toml", &text).unwrap();
    catalog.resolve(&cluster, None).unwrap()
}

#[test]
fn segments_are_what_headers_leave_of_the_mtu() {
    // IPv4 and TCP take 20 B each, the timestamps 12 B: 52 B of
    //   1500 B on Ethernet, 9000 B with jumbo frames,
    //   4096 − 4 = 4092 B in a datagram of InfiniBand (RFC 4391: 4 B of encapsulation), 2044 B where its MTU is 2048 B,
    //   65,520 B in connected mode (Linux, ipoib.rst).
    let table = [
        (on("thor-roce-100g"), 1500, 1448),
        (with_ip("thor-roce-100g", "mtu = \"9000 B\""), 9000, 8948),
        (on("ri2"), 4092, 4040),
        (with_ip("ri2", "mtu = \"2044 B\""), 2044, 1992),
        (with_ip("ri2", "mode = \"connected\""), 65_520, 65_468),
    ];
    for (parts, mtu, mss) in table {
        let settings = timing::ip(&parts);
        assert_eq!((settings.mtu, settings.tcp.mss), (mtu, mss), "{}", parts.name);
        // What it is set to is what its framing can carry.
        settings.check(4096).unwrap();
    }
}

#[test]
fn connected_mode_has_no_help_of_the_adapter() {
    // Inside a reliable connection an adapter sees no TCP: it cuts no segments and computes no checksums. The core still merges.
    let (datagram, connected) = (timing::ip(&on("ri2")), timing::ip(&with_ip("ri2", "mode = \"connected\"")));
    assert_eq!(datagram.framing, Framing::InfinibandDatagram);
    assert_eq!(connected.framing, Framing::InfinibandConnected { path_mtu: 4096 });
    let offloads = |kernel: KernelParameters| (kernel.segmentation_offload, kernel.checksum_offload, kernel.receive_offload);
    assert_eq!(offloads(datagram.kernel), (true, true, true));
    assert_eq!(offloads(connected.kernel), (false, false, true));
    // So the core sums up 64 KiB itself: at 80 Gb/s 6.5536 us, beside 16 pages of 180 ns.
    let pages = Span::from_ns(16 * 180);
    assert_eq!(datagram.payload(65_536), pages);
    assert_eq!(connected.payload(65_536), pages + Span::from_ps(6_553_600));
}

#[test]
fn the_kernel_of_the_catalogue() {
    // linux-tcp.toml: CUBIC, no ECN, ten segments at first (RFC 6928), 4 MiB to send and half of 6 MiB to receive, 40 ms and 200 ms.
    let settings = timing::ip(&on("thor-roce-100g"));
    assert_eq!((settings.framing, settings.kernel.flow_steering), (Framing::Ethernet, true));
    assert_eq!((settings.tcp.algorithm, settings.tcp.ecn, settings.tcp.initial_window), (Algorithm::Cubic, false, 10));
    assert_eq!((settings.tcp.send_buffer, settings.tcp.receive_buffer), (Bytes(4 << 20), Bytes(3 << 20)));
    assert_eq!((settings.tcp.delayed_ack, settings.tcp.min_rto), (Span::from_us(40_000), Span::from_us(200_000)));
    let costs = settings.kernel;
    assert_eq!((costs.interrupt_delay, costs.interrupt_frames, costs.interrupt_adaptive), (Span::from_us(64), 128, true));
    let costs = [costs.syscall, costs.send_segment, costs.send_packet, costs.receive_packet, costs.receive_segment, costs.interrupt];
    assert_eq!(costs.map(Span::as_ps), [200_000, 1_400_000, 120_000, 90_000, 1_600_000, 1_500_000]);
}

#[test]
fn iwarp_fills_the_packets_of_its_port() {
    // A port with an IP MTU of 1500 B; the driver turns timestamps off, so 40 B of headers remain: segments of 1460 B.
    // T6 and T5: no markers, no selective acknowledgements, Tahoe, windows of 128 KiB and 256 KiB (cxgb4/cm.c).
    for name in ["lab-iwarp-t5", "lab-iwarp-t6"] {
        let settings = timing::iwarp(&on(name)).unwrap();
        assert_eq!(settings.tcp.mss, 1460, "{name}");
        assert!(!settings.mpa.markers && !settings.tcp.sack && !settings.tcp.timestamps && !settings.tcp.ecn, "{name}");
        assert_eq!((settings.tcp.algorithm, settings.tcp.retries), (Algorithm::Tahoe, 15), "{name}");
        assert_eq!((settings.tcp.send_buffer, settings.tcp.receive_buffer), (Bytes(128 << 10), Bytes(256 << 10)), "{name}");
        assert_eq!(settings.tcp.min_rto, Span::from_us(250_000), "{name}");
    }
    // With jumbo frames 9000 − 40.
    assert_eq!(timing::iwarp(&with_ip("lab-iwarp-t6", "mtu = \"9000 B\"")).unwrap().tcp.mss, 8960);
    assert_eq!(timing::iwarp(&on("ri2")), None);
}

#[test]
fn contexts_of_omni_path_share_the_send_buffer() {
    // CSD3: two Xeons with 16 cores each, one context per core beside 6 of the kernel: 1 MiB / 38 = 27,594 B, that is 431 blocks of
    // 64 B. The driver wants credits back when 33 % are free: 142 of them.
    let adapter = timing::onload(&on("csd3-opa")).unwrap();
    assert_eq!((adapter.credits, adapter.credit_return), (431, 142));
    // A third of them, less the block of the header, for one packet: (143 − 1) · 64 = 9088 B, more than the 8 KiB of the largest.
    assert_eq!((adapter.parameters.mtu, adapter.pio_payload()), (8192, 8192));
    // A packet with 60 B around its payload in whole flits of 8 B: 60 + 1 = 61 → 64; 60 + 8192 = 8252 → 8256.
    assert_eq!((adapter.wire_bytes(1), adapter.wire_bytes(8192)), (64, 8256));
    assert_eq!(timing::onload(&on("ri2")), None);
}

#[test]
fn the_largest_packet_is_that_of_the_transport() {
    // Verbs cut at the MTU of the fabric; PSM2 sends expected packets of 8 KiB over links with an MTU of 4096 B for verbs; iWARP hands
    // over packets of IP.
    let table = [("ri2", 4096), ("lumi-c", 2048), ("csd3-opa", 8192), ("lab-iwarp-t6", 1500)];
    for (name, most) in table {
        assert_eq!(timing::largest_packet(&on(name)), Bytes(most), "{name}");
    }
}
