//! Two interfaces joined by a line of constant delay.

use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_vswitch as vswitch;
use fabriscope_wire::AppWords;

use super::*;
use crate::config::{Algorithm, Config};

fn us(us: u64) -> Span {
    Span::from_us(us)
}

pub(super) fn kernel() -> KernelParameters {
    KernelParameters {
        syscall: Span::ZERO,
        send_segment: us(1),
        send_packet: us(1) / 10,
        receive_packet: us(1) / 10,
        receive_segment: us(2),
        interrupt: us(3),
        wake_up: us(5),
        send_datagram: us(1),
        receive_datagram: us(2),
        offload_send: us(1) / 2,
        offload_receive: us(1) / 2,
        page: Span::ZERO,
        checksum_rate: Rate::from_gbps(80),
        segmentation_offload: true,
        receive_offload: true,
        checksum_offload: true,
        interrupt_delay: us(0),
        interrupt_frames: 1,
        interrupt_adaptive: false,
        flow_steering: false,
        send_buffer: Bytes::from_mib(4),
        receive_buffer: Bytes::from_mib(6),
        datagram_buffer: Bytes(212_992),
        congestion: Algorithm::Cubic,
        ecn: false,
        initial_window: 10,
        delayed_ack: Span::from_us(40_000),
        min_rto: Span::from_us(200_000),
    }
}

fn with(kernel: KernelParameters) -> Settings {
    Settings { kernel, ..settings() }
}

fn settings() -> Settings {
    Settings {
        framing: Framing::Ethernet,
        mtu: 1500,
        kernel: kernel(),
        offload: false,
        doorbell: Span::from_ns(500),
        tcp: Config { quick_acks: 0, ..Config::default() },
        switching: None,
    }
}

/// What a packet carries, and what is said with the messages that end in it.
type Saying = (Carried, Vec<(u64, AppWords)>);

struct Pair {
    ends: [Interface; 2],
    now: Time,
    wire: Vec<(Time, usize, Saying, u32)>,
    packets: [u32; 2],
    bytes: u64,
    /// Every so many packets with payload one is lost; 0 loses none.
    lose: u32,
}

impl Pair {
    fn new(settings: Settings) -> Pair {
        Pair {
            ends: [0, 1].map(|end| Interface::new(end, settings.clone())),
            now: Time::ZERO,
            wire: Vec::new(),
            packets: [0; 2],
            bytes: 0,
            lose: 0,
        }
    }
    /// Runs until `until`: packets of a full rate of 100 Gb/s, 1 µs on the way.
    fn run(&mut self, until: Time) {
        loop {
            for end in 0..2 {
                while self.ends[end].poll_wake().is_some() {}
                while let Some(packet) = self.ends[end].poll_packet(self.now) {
                    self.packets[end] += 1;
                    self.bytes += u64::from(packet.wire);
                    let payload = |carried: &Carried| match carried {
                        Carried::Tcp(segment) => segment.payload,
                        Carried::Udp(datagram) => datagram.payload,
                    };
                    let lost = |carried: &Carried| payload(carried) > 0 && self.lose > 0 && self.packets[end].is_multiple_of(self.lose);
                    if let Some(carried) = packet.carried.filter(|carried| !lost(carried)) {
                        let busy = self.wire.iter().filter(|w| w.1 != end).map(|w| w.0).max().unwrap_or(Time::ZERO);
                        let at = (self.now + us(1)).max(busy) + Rate::from_gbps(100).time(Bytes(packet.wire.into()));
                        self.wire.push((at, 1 - end, (carried, packet.words), end as u32));
                    }
                }
            }
            let timers = self.ends.iter().filter_map(Interface::poll_timeout);
            let Some(next) = timers.chain(self.wire.iter().map(|w| w.0)).min().filter(|at| *at <= until) else { break };
            self.now = self.now.max(next);
            self.wire.sort_by_key(|w| w.0);
            while self.wire.first().is_some_and(|w| w.0 <= self.now) {
                let (at, to, (carried, words), from) = self.wire.remove(0);
                if let Carried::Tcp(segment) = &carried {
                    self.ends[to].handle_words(from, segment, &words);
                }
                self.ends[to].handle_packet(from, carried, false);
                self.ends[to].landed(at);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
                while end.poll_wake().is_some() {}
            }
        }
        self.now = until;
    }
    fn connect(settings: Settings) -> (Pair, SocketId, SocketId) {
        let mut pair = Pair::new(settings);
        pair.ends[1].listen(5201, SocketOptions::default()).unwrap();
        assert_eq!(pair.ends[1].listen(5201, SocketOptions::default()), Err(SocketError::PortInUse { port: 5201 }));
        let client = pair.ends[0].connect(Time::ZERO, 7, 1, 5201, SocketOptions::default()).unwrap();
        pair.run(Time::ZERO + us(100));
        assert!(pair.ends[0].ready_at(client, Awaited::Connected).is_some());
        assert!(pair.ends[1].acceptable_at(5201).is_some());
        let server = pair.ends[1].accept(8, 5201).unwrap();
        (pair, client, server)
    }
}

#[test]
fn the_costs_of_one_byte_add_up() {
    let (mut pair, client, server) = Pair::connect(settings());
    let begin = pair.now;
    let cost = pair.ends[0].write(begin, client, 1);
    assert_eq!(cost, us(1));
    pair.run(begin + us(50));
    // Sent 1, doorbell 0.5, wire 1 + 84 · 8 / 100 ns, interrupt 3, packet 0.1, segment 2.
    let expected = us(7) + Span::from_ns(600) + Rate::from_gbps(100).time(Bytes(38 + 20 + 32 + 1));
    assert_eq!(pair.ends[1].ready_at(server, Awaited::Readable), Some(begin + expected));
    assert_eq!(pair.ends[1].readable(server), 1);
    pair.ends[1].read(pair.now, server, 1);
    assert_eq!((pair.ends[1].readable(server), pair.ends[1].ready_at(server, Awaited::Readable)), (0, None));
}

fn throughput(settings: Settings) -> (f64, Pair) {
    let (mut pair, client, server) = Pair::connect(settings);
    let (begin, mut got) = (pair.now, 0);
    for _ in 0..4000 {
        let space = pair.ends[0].space(client);
        if space > 100_000 {
            pair.ends[0].write(pair.now, client, 65_000.min(space));
        }
        let ready = pair.ends[1].readable(server);
        if ready > 0 {
            pair.ends[1].read(pair.now, server, ready);
            got += ready;
        }
        pair.run(pair.now + us(5));
    }
    (got as f64 * 8.0 / pair.now.since(begin).as_s_f64() / 1e9, pair)
}

#[test]
fn offloads_and_large_packets_make_it_fast() {
    let (all, _) = throughput(settings());
    let (no_gro, _) = throughput(with(KernelParameters { receive_offload: false, ..kernel() }));
    let (jumbo, pair) = throughput(Settings { mtu: 9000, ..with(KernelParameters { receive_offload: false, ..kernel() }) });
    let (core_sums, _) = throughput(with(KernelParameters { checksum_offload: false, ..kernel() }));
    // Without GRO each packet costs 2.1 µs: 1448 · 8 / 2.1 µs = 5.5 Gb/s; with jumbo frames 8948 · 8 / 2.1 = 34 Gb/s, less the
    // acknowledgement of every second one.
    assert!((3.5..5.6).contains(&no_gro), "{no_gro}");
    assert!((20.0..34.2).contains(&jumbo), "{jumbo}");
    assert!(all > 50.0, "{all}");
    assert!(core_sums < 0.9 * all, "{core_sums} against {all}");
    assert!(pair.packets[0] > 100);
}

#[test]
fn ip_over_infiniband_has_its_own_headers() {
    // Start and end 2, LRH 8, BTH 12, DETH 8, header 4, IP 20, TCP 32, 1 byte and pad 3, ICRC 4, VCRC 2.
    assert_eq!(Framing::InfinibandDatagram.wire_bytes(53, fabriscope_wire::Part::Only), 2 + 8 + 12 + 8 + 4 + 53 + 3 + 4 + 2);
    let connected = Framing::InfinibandConnected { path_mtu: 4096 };
    let alone = KernelParameters { segmentation_offload: false, checksum_offload: false, ..kernel() };
    let settings = Settings { framing: connected, mtu: 65_520, ..with(alone) };
    assert_eq!((settings.check(4096), settings.mss()), (Ok(()), 65_468));
    let (mut pair, client, server) = Pair::connect(settings.clone());
    let before = pair.packets[0];
    pair.ends[0].write(pair.now, client, 65_468);
    pair.run(pair.now + us(200));
    // 65,520 and 4 bytes in pieces of 4096.
    assert_eq!(pair.packets[0] - before, 16);
    assert_eq!(pair.ends[1].readable(server), 65_468);
    let wrong = Settings { framing: Framing::InfinibandDatagram, mtu: 9000, ..settings };
    assert_eq!(wrong.check(4096), Err(SettingsError::LargeMtu { mtu: 9000, most: 4092 }));
    assert!(Settings { mtu: 60, ..wrong.clone() }.check(4096).unwrap_err().in_full().contains("at least"));
}

#[test]
fn interrupts_on_the_same_core_take_its_time() {
    for (flow_steering, taken) in [(false, Span::ZERO), (true, us(2) + us(1) / 10)] {
        let (mut pair, client, server) = Pair::connect(with(KernelParameters { flow_steering, ..kernel() }));
        assert_eq!(pair.ends[1].busy_until(server, pair.now + us(100)), Span::ZERO);
        pair.ends[0].write(pair.now, client, 1);
        pair.run(pair.now + us(50));
        assert_eq!(pair.ends[1].busy_until(server, pair.now), taken);
    }
}

/// Messages of any size, over segments that an adapter cuts and the core merges; what is lost with its packet comes again with it.
#[test]
fn words_come_in_order_whatever_is_lost() {
    for lose in [0, 7] {
        let (mut pair, client, server) = Pair::connect(settings());
        pair.lose = lose;
        let (mut written, mut read, mut heard) = (0, 0, Vec::new());
        for n in 0..60u64 {
            let bytes = 1 + n * 977 % 9000;
            written += bytes;
            pair.ends[0].say(client, written, AppWords([n, bytes, 0, 0]));
            pair.ends[0].write(pair.now, client, bytes);
            pair.run(pair.now + us(if n % 3 == 0 { 40 } else { 1 }));
        }
        let mut ends = 0;
        while read < written && pair.now < Time::ZERO + us(20_000_000) {
            pair.run(pair.now + us(100));
            // Odd pieces: messages end within them.
            let there = pair.ends[1].readable(server).min(1333);
            pair.ends[1].read(pair.now, server, there);
            read += there;
            while let Some(AppWords([n, bytes, ..])) = pair.ends[1].words(server, read) {
                ends += bytes;
                assert!(ends <= read, "message {n} ends at {ends}, and {read} bytes were read");
                heard.push(n);
            }
        }
        assert_eq!((read, heard), (written, (0..60).collect()));
        assert_eq!(pair.ends[0].view(client).retransmissions > 0, lose > 0);
    }
}

/// Two sockets of UDP on a pair.
fn datagrams(settings: Settings) -> (Pair, DatagramSocketId, DatagramSocketId) {
    let mut pair = Pair::new(settings);
    let to = pair.ends[1].bind(8, Some(5201), None).unwrap();
    assert_eq!(pair.ends[1].bind(9, Some(5201), None), Err(SocketError::PortInUse { port: 5201 }));
    let from = pair.ends[0].bind(7, None, None).unwrap();
    (pair, from, to)
}

#[test]
fn a_datagram_costs_its_way_and_asks_for_nothing_back() {
    let (mut pair, from, to) = datagrams(settings());
    let words = AppWords([1, 2, 3, 4]);
    let cost = pair.ends[0].send_to(Time::ZERO, from, (1, 5201), 100, Some(words)).unwrap();
    assert_eq!(cost, us(1));
    pair.run(Time::ZERO + us(50));
    // Sent 1, doorbell 0.5, wire 1 and 38 + 20 + 8 + 100 B, interrupt 3, packet 0.1, datagram 2.
    let expected = Time::ZERO + us(7) + Span::from_ns(600) + Rate::from_gbps(100).time(Bytes(38 + 20 + 8 + 100));
    assert_eq!(pair.ends[1].datagrams_ready_at(to, Awaited::Readable), Some(expected));
    assert_eq!(pair.ends[1].receive_from(expected - Span::from_ns(1), to), None, "not there yet");
    let message = pair.ends[1].receive_from(expected, to).unwrap();
    let port = pair.ends[0].port(from);
    assert_eq!(message, Message { from: 0, port, bytes: 100, words: Some(words) });
    assert_eq!((pair.packets, pair.ends[1].receive_from(pair.now, to)), ([1, 0], None));
    let long = pair.ends[0].send_to(Time::ZERO, from, (1, 5201), 65_508, None).unwrap_err().in_full();
    assert!(long.contains("65507"), "{long}");
}

#[test]
fn fragments_come_together_or_not_at_all() {
    // RFC 791: of a packet of 1500 B 1480 are a fragment; 8 + 65,507 B are 44 of them and 395 B.
    for (lose, come) in [(0, 1), (7, 0)] {
        let (mut pair, from, to) = datagrams(settings());
        pair.lose = lose;
        let cost = pair.ends[0].send_to(Time::ZERO, from, (1, 5201), 65_507, None).unwrap();
        assert_eq!(cost, us(1) + us(44) / 10);
        pair.run(Time::ZERO + us(500));
        assert_eq!((pair.packets[0], pair.bytes), (45, 65_507 + 8 + 45 * (20 + 38)));
        let got = pair.ends[1].receive_from(pair.now, to).map_or(0, |message| message.bytes);
        assert_eq!(got, 65_507 * come);
    }
}

#[test]
fn a_full_buffer_drops_datagrams_and_senders_wait_for_room() {
    let (mut pair, from, to) = datagrams(settings());
    // 212,992 B hold 140 datagrams of 750 B, each of which counts 768 B more; half of that is where senders wait.
    let mut sent = 0;
    while pair.ends[0].datagrams_ready_at(from, Awaited::Writable).is_some() {
        pair.ends[0].send_to(Time::ZERO, from, (1, 5201), 750, None).unwrap();
        sent += 1;
    }
    assert_eq!(sent, 212_992 / 2 / (750 + 768) + 1);
    for _ in 0..5 {
        pair.run(pair.now + us(1000));
        for _ in 0..60 {
            pair.ends[0].send_to(pair.now, from, (1, 5201), 750, None).unwrap();
            sent += 1;
        }
    }
    pair.run(pair.now + us(1000));
    let mut got = 0;
    while pair.ends[1].receive_from(pair.now, to).is_some() {
        got += 1;
    }
    assert_eq!((got, pair.ends[1].dropped(to)), (140, sent - 140));
    assert!(pair.ends[0].datagrams_ready_at(from, Awaited::Writable).is_some_and(|at| at > Time::ZERO));
}

#[test]
fn an_adapter_that_does_tcp_leaves_the_core_requests_and_notices() {
    let offloaded = Settings { offload: true, ..settings() };
    let (mut pair, client, server) = Pair::connect(offloaded);
    let begin = pair.now;
    assert_eq!(pair.ends[0].write(begin, client, 1), us(1) / 2);
    pair.run(begin + us(50));
    // Asked 0.5, doorbell 0.5, wire 1 and its bytes, interrupt 3, notice 0.5; the acknowledgement needs no core.
    let expected = us(5) + us(1) / 2 + Rate::from_gbps(100).time(Bytes(38 + 20 + 32 + 1));
    assert_eq!(pair.ends[1].ready_at(server, Awaited::Readable), Some(begin + expected));
    // A stream: at least as fast, and a small part of the core time for interrupts.
    let moderate = |offload| {
        let kernel = KernelParameters { interrupt_delay: us(20), interrupt_frames: 128, ..kernel() };
        Settings { kernel, offload, ..settings() }
    };
    let [(slow, software), (fast, hardware)] = [moderate(false), moderate(true)].map(|settings| {
        let (rate, pair) = throughput(settings);
        (rate, pair.ends[1].interrupt_time(SocketId(0)))
    });
    assert!(fast >= slow, "{fast} against {slow}");
    assert!(hardware * 2 < software, "{hardware} against {software}");
}

#[test]
fn a_stream_through_the_adapters_tcp_ends_behind_its_last_byte() {
    let (mut pair, client, server) = Pair::connect(Settings { offload: true, ..settings() });
    pair.lose = 5;
    let cost = pair.ends[0].write(pair.now, client, 60_000);
    pair.ends[0].close(pair.now + cost, client);
    let (mut read, begin) = (0, pair.now);
    while !pair.ends[1].ended(server) && pair.now < begin + us(5_000_000) {
        pair.run(pair.now + us(100));
        let there = pair.ends[1].readable(server);
        pair.ends[1].read(pair.now, server, there);
        read += there;
    }
    assert_eq!(read, 60_000);
}

/// Upcalls 10 us, 0.4 us a packet, 0.6 us a ring, 3 us to a core that sleeps; stages of 50 and 150 ns.
fn switched(switcher: vswitch::Switcher) -> Settings {
    let host = switcher == vswitch::Switcher::Host;
    let costs = vswitch::CoreCosts {
        packet: Span::from_ns(400),
        ring: if host { Span::from_ns(600) } else { Span::ZERO },
        copy: None,
        cipher: None,
        upcall: us(10),
        crossing: if host { Span::ZERO } else { us(1) },
        wake_up: if host { us(3) } else { Span::ZERO },
    };
    let switching = vswitch::Settings {
        switcher,
        encapsulation: vswitch::Encapsulation::default(),
        granularity: vswitch::Granularity::Connection,
        software: vswitch::SoftwareCores { costs, cores: 2, handlers: 1, of_host: host },
        stages: [50, 150].map(|latency| vswitch::Stage::table(Span::from_ns(10), Span::from_ns(latency))).to_vec(),
        rules: 100,
        insertion: us(1),
        buffer: Bytes::from_kib(64),
    };
    Settings { switching: Some(std::sync::Arc::new(switching)), ..settings() }
}

/// What a byte takes longer than without a switch, on both nodes together.
#[test]
fn a_virtual_switch_adds_what_its_lanes_take() {
    let ready = |settings: Settings| {
        let (mut pair, client, server) = Pair::connect(settings);
        let begin = pair.now + us(200);
        pair.run(begin);
        pair.ends[0].write(begin, client, 1);
        pair.run(begin + us(100));
        let used = [0, 1].map(|end: usize| pair.ends[end].switching().unwrap_or_default());
        (pair.ends[1].ready_at(server, Awaited::Readable).unwrap().since(begin), used)
    };
    let (plain, _) = ready(settings());
    // Down: the worker wakes, looks up, hands over. Up: an interrupt, a packet brought up and looked up, the worker wakes and hands over.
    let (host, used) = ready(switched(vswitch::Switcher::Host));
    assert_eq!(host - plain, us(3) + us(1) + (us(3) + Span::from_ns(100 + 400)) + (us(3) + Span::from_ns(600)));
    assert!(used.iter().all(|used| used.host > us(20) && used.adapter == Span::ZERO && used.upcalls == 2), "{used:?}");
    // A core of the adapter on either side: 0.4 us and the way.
    let (cores, used) = ready(switched(vswitch::Switcher::AdapterCores));
    assert_eq!(cores - plain, Span::from_ns(400 + 1000) * 2);
    assert!(used.iter().all(|used| used.host == Span::ZERO && used.adapter > us(20)), "{used:?}");
    // The stages of either side; the handshake took an upcall for each direction, and nothing took a core after that.
    let (stages, used) = ready(switched(vswitch::Switcher::Pipeline));
    assert_eq!(stages - plain, Span::from_ns(200) * 2);
    assert!(used.iter().all(|used| used.host == Span::ZERO && used.adapter < us(23) && used.upcalls == 2), "{used:?}");
}

#[test]
fn every_byte_comes_in_order_through_every_switch() {
    for switcher in [vswitch::Switcher::Host, vswitch::Switcher::AdapterCores, vswitch::Switcher::Pipeline] {
        let (rate, pair) = throughput(switched(switcher));
        // 1448 B of an adapter's core are at most 29 Gb/s; whole segments and stages let the line or the kernels bound it.
        let bound = if switcher == vswitch::Switcher::AdapterCores { 29.0 } else { 100.0 };
        assert!(rate > 5.0 && rate < bound, "{switcher:?}: {rate} Gb/s");
        assert!(pair.ends.iter().all(|end| end.switching().is_some_and(|used| used.upcalls == 2)), "{switcher:?}");
    }
    // A tunnel takes its bytes from the MTU and adds them on the wire.
    let mut tunnelled = switched(vswitch::Switcher::Pipeline);
    let with = vswitch::Encapsulation { tunnel: vswitch::Tunnel::Vxlan, esp: false };
    tunnelled.switching =
        tunnelled.switching.map(|known| std::sync::Arc::new(vswitch::Settings { encapsulation: with, ..(*known).clone() }));
    tunnelled.mtu = with.inner_mtu(1500);
    assert_eq!((tunnelled.mss(), tunnelled.outer(1450)), (1398, 1500));
}
