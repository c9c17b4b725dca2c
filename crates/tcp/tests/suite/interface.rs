//! What an interface makes of its MTU: headers, segments, bytes on the wire, against figures that people know from Linux.

use fabriscope_tcp::kernel::{Frames, Framing, KernelParameters, Settings, SettingsError};
use fabriscope_tcp::{Algorithm, Config};
use fabriscope_units::{Bytes, Rate, Remedy, Span};
use fabriscope_wire::Part;

fn settings(framing: Framing, mtu: u32, timestamps: bool) -> Settings {
    let none = Span::ZERO;
    Settings {
        framing,
        mtu,
        kernel: KernelParameters {
            syscall: none,
            send_segment: none,
            send_packet: none,
            receive_packet: none,
            receive_segment: none,
            interrupt: none,
            wake_up: none,
            send_datagram: none,
            receive_datagram: none,
            offload_send: none,
            offload_receive: none,
            page: Span::from_ns(100),
            checksum_rate: Rate::from_gbps(80),
            segmentation_offload: true,
            receive_offload: true,
            checksum_offload: true,
            interrupt_delay: none,
            interrupt_frames: 1,
            interrupt_adaptive: false,
            flow_steering: true,
            send_buffer: Bytes::from_mib(4),
            receive_buffer: Bytes::from_mib(6),
            datagram_buffer: Bytes(212_992),
            congestion: Algorithm::Cubic,
            ecn: false,
            initial_window: 10,
            delayed_ack: Span::from_us(40_000),
            min_rto: Span::from_us(200_000),
        },
        offload: false,
        doorbell: none,
        tcp: Config { timestamps, ..Config::default() },
        switching: None,
    }
}

#[test]
fn segments_of_ethernet() {
    // IPv4 20, TCP 20, timestamps 12: an MTU of 1500 carries 1448 or 1460 bytes, one of 9000 8948.
    for (mtu, timestamps, mss) in [(1500, true, 1448), (1500, false, 1460), (9000, true, 8948), (4200, true, 4148)] {
        assert_eq!(settings(Framing::Ethernet, mtu, timestamps).mss(), mss);
    }
    // Preamble 8, header 14, check 4, gap 12: 1538 bytes on the wire, of which a gigabit Ethernet gives TCP the well-known 941 Mb/s.
    assert_eq!(Framing::Ethernet.wire_bytes(1500, Part::Only), 1538);
    // AAL5 over ATM (RFC 2684): 8 B of LLC/SNAP and 8 B of trailer, filled up to cells of 48 B in 53: 9180 + 16 B are 192 cells.
    let atm = Framing::Framed(Frames { encapsulation: 16, payload: 48, overhead: 5, filled: true, mtu: 9180 });
    assert_eq!([40, 9180].map(|bytes| atm.wire_bytes(bytes, Part::Only)), [2 * 53, 192 * 53]);
    assert_eq!(1448 * 1000 / Framing::Ethernet.wire_bytes(1500, Part::Only), 941);
    assert_eq!(8948 * 1000 / Framing::Ethernet.wire_bytes(9000, Part::Only), 990);
    // A bare acknowledgement of 40 or 52 bytes: the shortest frame has 64, with preamble and gap 84; 52 + 38 = 90 is longer.
    assert_eq!([40, 46, 47, 52].map(|bytes| Framing::Ethernet.wire_bytes(bytes, Part::Only)), [84, 84, 85, 90]);
}

#[test]
fn segments_that_adapters_cut() {
    // Linux hands down at most 65535 bytes with headers, in whole segments: 45 · 1448 = 65160, and 7 · 8948 = 62636.
    assert_eq!(settings(Framing::Ethernet, 1500, true).longest(true), 65_160);
    assert_eq!(settings(Framing::Ethernet, 9000, true).longest(true), 62_636);
    for mtu in 100..9000 {
        let settings = settings(Framing::Ethernet, mtu, true);
        let (longest, mss) = (settings.longest(true), settings.mss());
        assert!(longest.is_multiple_of(mss) && longest + settings.headers() <= 65_535 && longest + mss + settings.headers() > 65_535);
        assert_eq!(settings.longest(false), mss);
    }
}

#[test]
fn ip_over_infiniband() {
    // RFC 4391 §6: four bytes in front of IP, in a datagram of UD: an MTU of 2044 on links of 2048 and 4092 on links of 4096. Delimiters 2,
    // LRH 8, BTH 12, DETH 8, ICRC 4, VCRC 2.
    let datagram = Framing::InfinibandDatagram;
    assert_eq!([2048, 4096].map(|mtu| datagram.largest_mtu(mtu)), [2044, 4092]);
    assert_eq!(datagram.wire_bytes(2044, Part::Only), 36 + 2048);
    assert_eq!(datagram.wire_bytes(41, Part::Only), 36 + 48, "45 bytes and three of pad");
    // RFC 4755: connected mode has an MTU of 65520 on any link, cut into packets of RC without more headers: delimiters 2, LRH 8, BTH 12,
    // ICRC 4, VCRC 2.
    let connected = Framing::InfinibandConnected { path_mtu: 2048 };
    assert_eq!(connected.largest_mtu(2048), 65_520);
    for part in [Part::Only, Part::First, Part::Middle, Part::Last] {
        assert_eq!(connected.wire_bytes(2048, part), 28 + 2048);
    }
    assert_eq!(settings(connected, 65_520, true).mss(), 65_468);
}

#[test]
fn impossible_mtus() {
    let check = |framing, mtu, link| settings(framing, mtu, true).check(link);
    assert_eq!(check(Framing::Ethernet, 1500, 4096), Ok(()));
    assert_eq!(check(Framing::Ethernet, 87, 4096), Err(SettingsError::SmallMtu { mtu: 87 }));
    assert_eq!(check(Framing::Ethernet, 88, 4096), Ok(()));
    assert_eq!(check(Framing::InfinibandDatagram, 4092, 4096), Ok(()));
    assert_eq!(check(Framing::InfinibandDatagram, 4093, 4096), Err(SettingsError::LargeMtu { mtu: 4093, most: 4092 }));
    let told = check(Framing::InfinibandConnected { path_mtu: 4096 }, 65_521, 4096).unwrap_err().in_full();
    assert!(told.contains("at most 65520 B"), "{told}");
}

#[test]
fn what_payload_costs_the_core() {
    // 100 ns for each page of 4096 bytes; checksums at 80 Gb/s, 10 bytes in a nanosecond, where the adapter does not compute them.
    let offloaded = settings(Framing::Ethernet, 1500, true);
    assert_eq!(offloaded.payload(65_536), Span::from_ns(1600));
    assert_eq!(offloaded.payload(1024), Span::from_ns(25));
    let by_the_core = Settings { kernel: KernelParameters { checksum_offload: false, ..offloaded.kernel }, ..offloaded };
    assert_eq!(by_the_core.payload(65_536), Span::from_ns(1600) + Rate::from_gbps(80).time(Bytes(65_536)));
    assert_eq!(by_the_core.payload(40_960), Span::from_ns(1000 + 4096));
}
