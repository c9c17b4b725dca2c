//! How many packets of which kind a message of PSM2 takes, by its length: derived from the library's limits, seen on a wire between two
//! adapters that loses nothing.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use fabriscope_psm2::adapter::Notice;
use fabriscope_psm2::{
    Adapter, AdapterParameters, AdapterSettings, Buffer, Cpu, Endpoint, Flow, Header, Kind, Library, LibraryParameters, RequestId,
};
use fabriscope_units::{Bytes, Ratio, Span, Time};
use proptest::prelude::*;

/// Round limits: a packet of 4096 bytes at most, and of 1024 through a send buffer of 51 blocks, a third of which are 17.
fn adapter() -> AdapterSettings {
    AdapterSettings {
        parameters: AdapterParameters {
            pio_memory: Bytes::from_mib(1),
            pio_context_limit: Bytes::from_kib(64),
            kernel_contexts: 1,
            contexts: 4,
            credit_return: Ratio::new(1, 3).unwrap(),
            store_block: Span::from_ns(8),
            engines: 2,
            ring: 128,
            descriptors: Bytes(32),
            header_queue: 2048,
            eager_buffer: Bytes::from_mib(8),
            tid_flows: 4,
            mtu: 4096,
            overhead: 60,
            flit: 8,
        },
        credits: 51,
        credit_return: 17,
    }
}

/// Tiny up to 8 bytes, by the core up to 10000, eager up to 40000, windows of 65536.
fn library() -> Library {
    let ns = Span::from_ns;
    Library {
        parameters: LibraryParameters {
            tiny_limit: 8,
            sdma_limit: 10_000,
            sdma_limit_blocking: 20_000,
            eager_limit: 40_000,
            window: 65_536,
            tid: 4096,
            flow_credits: 64,
            timeout: Span::from_us(160),
            timeout_max: Span::from_us(640),
            send: ns(20),
            packet: ns(10),
            post: ns(20),
            receive: ns(30),
            matching: ns(20),
            entry: ns(3),
            system_call: ns(700),
            descriptor: ns(60),
            grant: ns(150),
            page: ns(100),
            replay: false,
        },
        eager_device: 30_000,
        prefetch: 2,
    }
}

struct Core(Time);

impl Cpu for Core {
    fn now(&self) -> Time {
        self.0
    }
    fn spend(&mut self, span: Span) {
        self.0 += span;
    }
    fn copy(&mut self, amount: Bytes, _: Bytes) {
        self.0 += Span::from_ps(100 * amount.0);
    }
    fn store(&mut self, blocks: u32, block: Span) -> (Time, Time) {
        self.0 += block * u64::from(blocks);
        (self.0, self.0 + WAY)
    }
    fn traces(&self) -> bool {
        false
    }
}

const WAY: Span = Span::from_ns(300);

enum Event {
    Store { node: usize, queue: u32, store: u64 },
    Packet(Header),
    Landed { node: usize, notice: Notice },
    Turn(usize),
}

/// Two nodes with a process each, and every packet that was on the wire.
struct Wire {
    adapters: Vec<Adapter>,
    ends: Vec<Endpoint>,
    clocks: Vec<Time>,
    events: BTreeMap<(Time, u64), Event>,
    order: u64,
    log: Vec<Header>,
    bytes: u64,
    fetched: u64,
    /// When the wire from each node is free: packets do not overtake each other.
    free: [Time; 2],
}

impl Wire {
    fn new() -> Wire {
        let mut adapters: Vec<Adapter> = (0..2).map(|lid| Adapter::new(lid, adapter())).collect();
        let mut ends: Vec<Endpoint> = adapters.iter_mut().map(|adapter| Endpoint::open(adapter, library()).unwrap()).collect();
        let addresses = [ends[0].address(), ends[1].address()];
        ends[0].connect(1, addresses[1]);
        ends[1].connect(0, addresses[0]);
        Wire {
            adapters,
            ends,
            clocks: vec![Time::ZERO; 2],
            events: BTreeMap::new(),
            order: 0,
            log: vec![],
            bytes: 0,
            fetched: 0,
            free: [Time::ZERO; 2],
        }
    }
    fn at(&mut self, time: Time, event: Event) {
        self.events.insert((time, self.order), event);
        self.order += 1;
    }
    fn call<R>(&mut self, rank: usize, now: Time, call: impl FnOnce(&mut Endpoint, &mut Adapter, &mut Core) -> R) -> R {
        let mut core = Core(self.clocks[rank].max(now));
        let result = call(&mut self.ends[rank], &mut self.adapters[rank], &mut core);
        self.clocks[rank] = core.0;
        while let Some(store) = self.adapters[rank].poll_store() {
            self.at(store.times.2, Event::Store { node: rank, queue: store.queue, store: store.store });
        }
        if let Some(at) = self.ends[rank].poll_timeout() {
            self.at(at, Event::Turn(rank));
        }
        result
    }
    fn send(&mut self, size: u32, buffer: Buffer, blocking: bool) -> RequestId {
        let began = self.clocks[0];
        self.call(0, Time::ZERO, |end, adapter, core| end.send(adapter, core, (1, 7), (size, buffer), (blocking, began))).unwrap()
    }
    fn receive(&mut self, size: u32) -> RequestId {
        self.call(1, Time::ZERO, |end, adapter, core| end.receive(adapter, core, (Some(0), Some(7)), (size, Buffer::Host))).unwrap()
    }
    fn run(&mut self) {
        while let Some(((now, _), event)) = self.events.pop_first() {
            if self.ends.iter().all(Endpoint::is_idle) && matches!(event, Event::Turn(_)) {
                continue;
            }
            match event {
                Event::Store { node, queue, store } => {
                    self.adapters[node].arrived(queue, store);
                    let mut at = now.max(self.free[node]);
                    while let Some(out) = self.adapters[node].poll() {
                        at += Span::from_ps(80 * u64::from(out.wire));
                        self.log.push(out.header);
                        self.bytes += u64::from(out.wire);
                        self.fetched += u64::from(out.fetch);
                        self.at(at + WAY, Event::Packet(out.header));
                        while let Some(notice) = self.adapters[node].poll_notice() {
                            self.at(at + WAY, Event::Landed { node, notice });
                        }
                    }
                    self.free[node] = at;
                }
                Event::Packet(header) => {
                    let node = header.to.lid as usize;
                    if self.adapters[node].handle(header).entry {
                        self.at(now + WAY, Event::Landed { node, notice: Notice::Entry(header.to.context) });
                    }
                }
                Event::Landed { node, notice } => {
                    self.adapters[node].landed(now, notice);
                    self.at(self.clocks[node].max(now), Event::Turn(node));
                }
                Event::Turn(rank) => self.call(rank, now, |end, adapter, core| end.progress(adapter, core)).unwrap(),
            }
        }
    }
    /// Packets of a kind, and the payload of all of them.
    fn count(&self, wanted: impl Fn(&Kind) -> bool) -> (usize, u64) {
        let found = self.log.iter().filter(|header| wanted(&header.kind));
        found.fold((0, 0), |(count, payload), header| (count + 1, payload + u64::from(header.payload)))
    }
}

/// A message of `size` bytes from rank 0 to rank 1, with its receive there before.
fn message(size: u32, buffer: Buffer, blocking: bool) -> Wire {
    let mut wire = Wire::new();
    let receive = wire.receive(size);
    let send = wire.send(size, buffer, blocking);
    wire.run();
    assert!(wire.ends[0].is_done(send) && wire.ends[1].is_done(receive), "{size} B");
    assert!(wire.ends.iter().all(Endpoint::is_idle), "{size} B: everything is acknowledged");
    assert_eq!(wire.adapters.iter().map(|adapter| adapter.counts().blocks_in_use).sum::<u64>(), 0, "{size} B: all blocks are free");
    wire
}

fn is_message(kind: &Kind) -> bool {
    matches!(kind, Kind::Message { .. })
}

#[test]
fn sizes_of_packets() {
    // A third of 51 blocks are 17, one of which is for the header: 16 · 64 = 1024 bytes. 60 bytes beside the payload, in flits of 8.
    assert_eq!(adapter().pio_payload(), 1024);
    for (payload, wire, blocks) in [(0, 64, 1), (1, 64, 2), (4, 64, 2), (5, 72, 2), (64, 128, 2), (65, 128, 3), (1024, 1088, 17)] {
        assert_eq!((adapter().wire_bytes(payload), AdapterSettings::blocks(payload)), (wire, blocks), "{payload} B");
    }
    // An acknowledgement is asked for in each quarter of the window.
    for (flow_credits, interval) in [(64, 15), (16, 3), (8, 1), (4, 1), (1, 1)] {
        let parameters = LibraryParameters { flow_credits, ..library().parameters };
        assert_eq!(Library { parameters, ..library() }.ack_interval(), interval);
    }
}

#[test]
fn tiny_messages_travel_in_a_header() {
    for size in [0, 1, 8] {
        let wire = message(size, Buffer::Host, false);
        assert_eq!(wire.count(is_message), (1, 0), "{size} B: no payload behind the header");
        assert_eq!(wire.fetched, 0);
    }
}

#[test]
fn short_messages_go_through_the_send_buffer() {
    // Packets of at most 1024 bytes, stored by the core: the adapter reads nothing.
    for (size, packets) in [(9u32, 1), (1024, 1), (1025, 2), (4096, 4), (10_000, 10)] {
        let wire = message(size, Buffer::Host, false);
        assert_eq!(wire.count(is_message), (packets, u64::from(size)), "{size} B");
        assert_eq!(wire.fetched, 0, "{size} B");
        assert!(wire.log.iter().filter(|header| is_message(&header.kind)).all(|header| header.flow == Flow::Pio));
    }
}

#[test]
fn eager_messages_go_by_the_engines() {
    // Beyond 10000 bytes an engine takes packets of 4096 from memory; where the program waits, only beyond 20000.
    for (size, blocking, packets, flow) in
        [(10_001u32, false, 3, Flow::Dma), (40_000, false, 10, Flow::Dma), (10_001, true, 10, Flow::Pio), (20_001, true, 5, Flow::Dma)]
    {
        let wire = message(size, Buffer::Host, blocking);
        assert_eq!(wire.count(is_message), (packets, u64::from(size)), "{size} B");
        assert!(wire.log.iter().filter(|header| is_message(&header.kind)).all(|header| header.flow == flow), "{size} B");
        assert_eq!(wire.fetched, if flow == Flow::Dma { u64::from(size) } else { 0 }, "{size} B");
    }
    // From a GPU's memory a core stores nothing, however short it is.
    let wire = message(100, Buffer::Device(3), false);
    assert_eq!((wire.count(is_message), wire.fetched), ((1, 100), 100));
}

#[test]
fn long_messages_meet_first() {
    // One request, for each window of 65536 bytes a grant and a completion, and its packets of 4096.
    for size in [40_001u32, 65_536, 65_537, 200_000, 1_000_000] {
        let wire = message(size, Buffer::Host, false);
        let windows = size.div_ceil(65_536) as usize;
        let packets: u32 = (0..windows as u32).map(|window| (size - window * 65_536).min(65_536).div_ceil(4096)).sum();
        assert_eq!(wire.count(|kind| matches!(kind, Kind::RequestToSend { .. })), (1, 0), "{size} B");
        assert_eq!(wire.count(|kind| matches!(kind, Kind::Expected { .. })), (packets as usize, u64::from(size)), "{size} B");
        assert_eq!(wire.count(|kind| matches!(kind, Kind::Complete { .. })).0, windows, "{size} B");
        // A grant lists a TID of four bytes for each page.
        let pages: u64 = (0..windows as u32).map(|window| u64::from((size - window * 65_536).min(65_536).div_ceil(4096))).sum();
        assert_eq!(wire.count(|kind| matches!(kind, Kind::ClearToSend { .. })), (windows, 4 * pages), "{size} B");
        assert_eq!(wire.count(is_message).0, 0, "{size} B");
        assert_eq!(wire.count(|kind| matches!(kind, Kind::Expected { last: true, .. })).0, windows, "{size} B");
    }
}

#[test]
fn the_receiver_pays_for_pages_once() {
    // 16 pages of 100 ns behind a system call of 700 the first time; the next message of the same peer has its pages registered.
    let mut wire = Wire::new();
    let mut spent = Vec::new();
    for _ in 0..2 {
        let receive = wire.receive(65_536);
        let began = wire.clocks[1];
        let _ = wire.send(65_536, Buffer::Host, false);
        wire.run();
        assert!(wire.ends[1].is_done(receive));
        spent.push(wire.clocks[1] - began);
    }
    let saved = spent[0].as_ps() as i64 - spent[1].as_ps() as i64;
    // Clocks also wait for packets; what was registered is not on the way of the second.
    assert!(saved > 0, "{spent:?}");
}

#[test]
fn messages_without_a_receive_wait_in_their_order() {
    let mut wire = Wire::new();
    let sends: Vec<RequestId> = [8, 5000, 100_000, 20].into_iter().map(|size| wire.send(size, Buffer::Host, false)).collect();
    wire.run();
    assert!(!wire.ends[0].is_done(sends[2]), "a long one waits for its receive");
    // Receives with exactly the room for each, in order: one that took another's place would be too long.
    let receives: Vec<RequestId> = [8, 5000, 100_000, 20].into_iter().map(|size| wire.receive(size)).collect();
    wire.at(wire.clocks[1], Event::Turn(1));
    wire.run();
    assert!(receives.iter().all(|request| wire.ends[1].is_done(*request)));
    assert!(sends.iter().all(|request| wire.ends[0].is_done(*request)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every byte is on the wire once, whatever the length, with the bytes beside it that its packets have.
    #[test]
    fn every_byte_once(size in prop_oneof![0u32..64, 64u32..20_000, 20_000u32..400_000], blocking: bool) {
        let wire = message(size, Buffer::Host, blocking);
        let carried = wire.count(|kind| matches!(kind, Kind::Message { .. } | Kind::Expected { .. })).1;
        prop_assert_eq!(carried, if size <= 8 { 0 } else { u64::from(size) });
        let expected: u64 = wire.log.iter().map(|header| u64::from((60 + header.payload).next_multiple_of(8))).sum();
        prop_assert_eq!(wire.bytes, expected);
        // A sequenced flow numbers its packets one by one.
        for rank in 0..2 {
            for flow in Flow::ALL {
                let numbers: Vec<u32> = wire.log.iter().filter(|h| h.from.lid == rank && h.flow == flow && h.kind.sequenced()).map(|h| h.number).collect();
                prop_assert!(numbers.iter().copied().eq(0..numbers.len() as u32), "{:?}", numbers);
            }
        }
    }
}
