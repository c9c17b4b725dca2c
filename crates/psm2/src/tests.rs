//! Processes on adapters whose packets a test carries, late, and not all of them.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Ratio, Span, Time};
use proptest::prelude::*;

use crate::adapter::Notice;
use crate::{Adapter, AdapterParameters, AdapterSettings, Buffer, Cpu, Endpoint, Header, Library, LibraryParameters, Psm2Error, RequestId};

pub(crate) fn adapter() -> AdapterSettings {
    AdapterSettings {
        parameters: AdapterParameters {
            pio_memory: Bytes::from_mib(1),
            pio_context_limit: Bytes::from_kib(64),
            kernel_contexts: 1,
            contexts: 40,
            credit_return: Ratio::new(1, 3).unwrap(),
            store_block: Span::from_ns(8),
            engines: 16,
            ring: 128,
            descriptors: Bytes(32),
            header_queue: 2048,
            eager_buffer: Bytes::from_mib(8),
            tid_flows: 32,
            mtu: 8192,
            overhead: 60,
            flit: 8,
        },
        credits: 431,
        credit_return: 142,
    }
}

fn with(parameters: AdapterParameters) -> AdapterSettings {
    AdapterSettings { parameters, ..adapter() }
}

pub(crate) fn library() -> Library {
    let ns = Span::from_ns;
    Library {
        parameters: LibraryParameters {
            tiny_limit: 8,
            sdma_limit: 16_000,
            sdma_limit_blocking: 34_000,
            eager_limit: 64_000,
            window: 131_072,
            tid: 4096,
            flow_credits: 64,
            timeout: Span::from_us(160),
            timeout_max: Span::from_us(640),
            send: ns(25),
            packet: ns(15),
            post: ns(25),
            receive: ns(30),
            matching: ns(20),
            entry: ns(3),
            system_call: ns(700),
            descriptor: ns(60),
            grant: ns(150),
            page: ns(100),
            replay: false,
        },
        eager_device: 32_000,
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
        (self.0, self.0 + LATENCY)
    }
    fn traces(&self) -> bool {
        false
    }
}

const LATENCY: Span = Span::from_ns(300);

enum Event {
    Arrived { node: usize, queue: u32, store: u64 },
    Packet(Header),
    Landed { node: usize, notice: Notice },
    Turn(usize),
}

struct Process {
    node: usize,
    endpoint: Endpoint,
    clock: Time,
}

/// Two nodes and what is between them.
struct Net {
    nodes: Vec<Adapter>,
    processes: Vec<Process>,
    events: BTreeMap<(Time, u64), Event>,
    order: u64,
    /// Packets out of 2³² that are lost.
    loss: u64,
    random: u64,
    lost: u64,
    sent: u64,
}

impl Net {
    fn new(settings: AdapterSettings, library: Library, per_node: usize, (loss, seed): (f64, u64)) -> Net {
        let mut nodes: Vec<Adapter> = (0..2).map(|lid| Adapter::new(lid, settings)).collect();
        let open = |rank: usize| {
            let endpoint = Endpoint::open(&mut nodes[rank / per_node], library).unwrap();
            Process { node: rank / per_node, endpoint, clock: Time::ZERO }
        };
        let mut processes: Vec<Process> = (0..2 * per_node).map(open).collect();
        let addresses: Vec<_> = processes.iter().map(|process| process.endpoint.address()).collect();
        for (me, process) in processes.iter_mut().enumerate() {
            for (rank, address) in addresses.iter().enumerate().filter(|(rank, _)| *rank != me) {
                process.endpoint.connect(rank as u32, *address);
            }
        }
        let loss = (loss * 4_294_967_296.0) as u64;
        Net { nodes, processes, events: BTreeMap::new(), order: 0, loss, random: seed | 1, lost: 0, sent: 0 }
    }
    fn at(&mut self, time: Time, event: Event) {
        self.events.insert((time, self.order), event);
        self.order += 1;
    }
    fn call<R>(&mut self, rank: usize, now: Time, call: impl FnOnce(&mut Endpoint, &mut Adapter, &mut Core) -> R) -> R {
        let process = &mut self.processes[rank];
        let mut core = Core(process.clock.max(now));
        let node = process.node;
        let result = call(&mut process.endpoint, &mut self.nodes[node], &mut core);
        process.clock = core.0;
        while let Some(store) = self.nodes[node].poll_store() {
            self.at(store.times.2, Event::Arrived { node, queue: store.queue, store: store.store });
        }
        if let Some(at) = self.processes[rank].endpoint.poll_timeout() {
            self.at(at, Event::Turn(rank));
        }
        result
    }
    fn send(&mut self, from: usize, to: u32, tag: u32, size: u32) -> RequestId {
        let began = self.processes[from].clock;
        self.call(from, Time::ZERO, |e, adapter, cpu| e.send(adapter, cpu, (to, tag), (size, Buffer::Host), (false, began))).unwrap()
    }
    fn receive(&mut self, at: usize, from: Option<u32>, tag: Option<u32>, size: u32) -> RequestId {
        self.call(at, Time::ZERO, |e, adapter, cpu| e.receive(adapter, cpu, (from, tag), (size, Buffer::Host))).unwrap()
    }
    /// Runs until all sent packets are acknowledged, or until `end`.
    fn run(&mut self, end: Time) -> Result<Time, Psm2Error> {
        let mut now = Time::ZERO;
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > end || self.processes.iter().all(|process| process.endpoint.is_idle()) {
                return Ok(now);
            }
            now = time;
            match event {
                Event::Arrived { node, queue, store } => {
                    self.nodes[node].arrived(queue, store);
                    self.drain(now, node);
                }
                Event::Packet(header) => {
                    let node = header.to.lid as usize;
                    if self.nodes[node].handle(header).entry {
                        self.at(now + LATENCY, Event::Landed { node, notice: Notice::Entry(header.to.context) });
                    }
                }
                Event::Landed { node, notice } => {
                    self.nodes[node].landed(now, notice);
                    for rank in (0..self.processes.len()).filter(|rank| self.processes[*rank].node == node).collect::<Vec<_>>() {
                        let at = self.processes[rank].clock.max(now);
                        self.at(at, Event::Turn(rank));
                    }
                }
                Event::Turn(rank) => self.call(rank, now, |e, adapter, cpu| e.progress(adapter, cpu))?,
            }
        }
        Ok(now)
    }
    fn drain(&mut self, now: Time, node: usize) {
        let mut at = now;
        while let Some(out) = self.nodes[node].poll() {
            // 100 Gb/s.
            at += Span::from_ps(80 * u64::from(out.wire));
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.sent += 1;
            if self.random >> 32 < self.loss {
                self.lost += 1;
            } else {
                self.at(at + LATENCY, Event::Packet(out.header));
            }
            while let Some(notice) = self.nodes[node].poll_notice() {
                self.at(at + LATENCY, Event::Landed { node, notice });
            }
        }
    }
    /// All blocks of the send buffers are free again.
    fn blocks_in_use(&self) -> u64 {
        self.nodes.iter().map(|node| node.counts().blocks_in_use).sum()
    }
}

const LONG: Time = Time::from_ps(60_000_000_000_000);

/// Sizes of all kinds: tiny, short, eager by either way, one window, several.
const SIZES: [u32; 9] = [0, 8, 9, 4096, 15_999, 40_000, 64_000, 100_000, 500_001];

/// A thousand messages of random sizes with one tag. A message that took the place of another would be too long for some
/// receive: the sum of the sizes is what the receives hold.
fn exchange(loss: f64, seed: u64, messages: u32) -> Net {
    exchange_by(library(), loss, seed, messages)
}

fn exchange_by(library: Library, loss: f64, seed: u64, messages: u32) -> Net {
    let mut net = Net::new(adapter(), library, 1, (loss, seed));
    let sizes: Vec<u32> = (0..messages).map(|at| SIZES[(at.wrapping_mul(2_654_435_761) >> 8) as usize % SIZES.len()] + at % 7).collect();
    let mut receives = Vec::new();
    // Half of the receives are there before, half come late.
    for &size in &sizes[..sizes.len() / 2] {
        receives.push(net.receive(1, Some(0), Some(5), size));
    }
    let sends: Vec<RequestId> = sizes.iter().map(|&size| net.send(0, 1, 5, size)).collect();
    net.run(Time::from_ps(200_000_000)).unwrap();
    for &size in &sizes[sizes.len() / 2..] {
        receives.push(net.receive(1, None, Some(5), size));
    }
    net.run(LONG).unwrap();
    assert!(receives.iter().all(|request| net.processes[1].endpoint.is_done(*request)), "a receive is not done");
    assert!(sends.iter().all(|request| net.processes[0].endpoint.is_done(*request)), "a send is not done");
    assert!(net.processes[1].endpoint.incoming.is_empty() && net.processes[1].endpoint.sessions.is_empty());
    assert_eq!(net.processes[1].endpoint.peers[0].announced, messages);
    net
}

#[test]
fn all_messages_come_once_and_in_order() {
    let net = exchange(0.0, 1, 1000);
    assert_eq!((net.lost, net.blocks_in_use()), (0, 0));
}

#[test]
fn also_where_one_packet_in_a_thousand_is_lost() {
    let net = exchange(1e-3, 3, 1000);
    assert!(net.lost > 10, "{} lost of {}", net.lost, net.sent);
    assert_eq!(net.blocks_in_use(), 0);
}

#[test]
fn also_where_one_packet_in_a_hundred_is_lost() {
    let net = exchange(1e-2, 5, 1000);
    assert!(net.lost > 100, "{} lost of {}", net.lost, net.sent);
    assert_eq!(net.blocks_in_use(), 0);
}

/// What the core keeps copies of is done when it is stored, is acknowledged by the 64 and arrives all the same.
#[test]
fn a_sender_with_copies_waits_for_nothing() {
    let parameters = LibraryParameters { replay: true, sdma_limit: 16_384, eager_limit: 16_384, flow_credits: 256, ..library().parameters };
    let opx = Library { parameters, ..library() };
    for (size, at_once) in [(8, true), (4096, true), (16_384, true), (16_385, false)] {
        for (library, done) in [(opx, at_once), (library(), size == 8)] {
            let mut net = Net::new(adapter(), library, 1, (0.0, 1));
            let receive = net.receive(1, Some(0), Some(5), size);
            let send = net.send(0, 1, 5, size);
            assert_eq!(net.processes[0].endpoint.is_done(send), done, "{size} B, copies: {}", library.parameters.replay);
            net.run(LONG).unwrap();
            assert!(net.processes[1].endpoint.is_done(receive));
        }
    }
    // A hundred messages of one packet each: PSM2 answers them all, OPX the last of 64 and whoever asks in the end.
    let [answered, silent] = [library(), opx].map(|library| {
        let mut net = Net::new(adapter(), library, 1, (0.0, 1));
        (0..100).for_each(|_| {
            net.receive(1, Some(0), Some(5), 4096);
        });
        for _ in 0..100 {
            net.send(0, 1, 5, 4096);
            let now = net.processes[0].clock;
            net.run(now + Span::from_us(3)).unwrap();
        }
        net.run(LONG).unwrap();
        net.sent
    });
    assert!(answered > silent + 50, "{answered} and {silent} packets");
    let net = exchange_by(opx, 1e-2, 5, 1000);
    assert!(net.lost > 100 && net.blocks_in_use() == 0, "{} lost of {}", net.lost, net.sent);
}

#[test]
fn a_small_send_buffer_holds_the_sender_back_and_its_credits_return() {
    // Nine blocks: three packets of three blocks at most, so 128 B of payload each.
    let settings = AdapterSettings { credits: 9, credit_return: 3, ..adapter() };
    assert_eq!(settings.pio_payload(), 128);
    let mut net = Net::new(settings, library(), 1, (0.0, 1));
    let requests: Vec<RequestId> = (0..50).map(|_| net.receive(1, Some(0), None, 10_000)).collect();
    for _ in 0..50 {
        net.send(0, 1, 1, 10_000);
    }
    assert!(!net.processes[0].endpoint.blocked.is_empty());
    net.run(LONG).unwrap();
    assert!(requests.iter().all(|request| net.processes[1].endpoint.is_done(*request)));
    assert_eq!(net.blocks_in_use(), 0);
    let free = net.nodes[0].free_blocks(0, LONG);
    assert!(free > 6, "{free} of 9 blocks are known to be free: less than the threshold is kept back");
}

#[test]
fn a_full_header_queue_drops_and_the_flow_sends_again() {
    let settings = with(AdapterParameters { header_queue: 4, ..adapter().parameters });
    let mut net = Net::new(settings, library(), 1, (0.0, 1));
    let requests: Vec<RequestId> = (0..40).map(|_| net.receive(1, Some(0), None, 8)).collect();
    // The receiver is busy elsewhere while the messages come.
    net.processes[1].clock = Time::from_ps(100_000_000);
    for _ in 0..40 {
        net.send(0, 1, 1, 8);
    }
    net.run(LONG).unwrap();
    assert!(net.nodes[1].counts().overflows > 0);
    assert!(requests.iter().all(|request| net.processes[1].endpoint.is_done(*request)));
}

#[test]
fn a_message_that_is_too_long_is_an_error() {
    for size in [8, 5000, 30_000, 100_000] {
        let mut net = Net::new(adapter(), library(), 1, (0.0, 1));
        net.receive(1, None, None, size - 1);
        net.send(0, 1, 0, size);
        assert_eq!(net.run(LONG), Err(Psm2Error::Truncated { length: size, size: size - 1 }));
    }
}

#[test]
fn contexts_come_to_an_end() {
    let mut node = Adapter::new(0, with(AdapterParameters { contexts: 2, ..adapter().parameters }));
    assert!((0..2).all(|_| Endpoint::open(&mut node, library()).is_ok()));
    assert_eq!(Endpoint::open(&mut node, library()).map(|_| ()), Err(Psm2Error::NoContext { contexts: 2 }));
}

#[test]
fn three_packets_fit_into_the_send_buffer_of_a_process() {
    // 1 MiB for 32 cores and six contexts of the kernel: 431 blocks, a third of them are 143, one of which is for headers.
    assert_eq!(with(AdapterParameters { mtu: 10_240, ..adapter().parameters }).pio_payload(), 142 * 64);
    assert_eq!(adapter().pio_payload(), 8192);
    // 60 B in front of 8 B of payload in whole flits: 72 B.
    assert_eq!((adapter().wire_bytes(0), adapter().wire_bytes(8), AdapterSettings::blocks(65)), (64, 72, 3));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn many_processes_on_lossy_wires(seed in 1u64.., loss in 0.0f64..0.05, plan in prop::collection::vec((0usize..8, 0u32..8, 0usize..9), 1..120)) {
        let mut net = Net::new(adapter(), library(), 4, (loss, seed));
        let mut requests = Vec::new();
        for (from, to, size) in plan.into_iter().filter(|(from, to, _)| *from != *to as usize) {
            let size = SIZES[size];
            requests.push((to as usize, net.receive(to as usize, Some(from as u32), None, size)));
            requests.push((from, net.send(from, to, 0, size)));
        }
        net.run(LONG).unwrap();
        for (rank, request) in requests {
            prop_assert!(net.processes[rank].endpoint.is_done(request));
        }
        prop_assert_eq!(net.blocks_in_use(), 0);
    }
}
