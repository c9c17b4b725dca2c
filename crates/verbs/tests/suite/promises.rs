//! Every transport keeps what its row in the table of services promises, on channels that lose, repeat and reorder.
#![expect(clippy::disallowed_methods, reason = "PROPTEST_CASES is an option of proptest")]

use crate::algorithms;
use crate::fleet;
use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::*;
use fleet::{Faults, Fleet};
use proptest::prelude::*;

const NODES: usize = 3;
/// Each message has a slot of this size in the memory of its source, and one in that of its destination.
const STEP: u64 = 6144;
const SOURCES: u64 = 0;
const TARGETS: u64 = 0x80000;
const RECEIVES: u64 = 0x100000;
const COUNTER: u64 = 0x1ff000;

/// What the test posts to: the sending end of every service.
const KINDS: [QpType; Service::ALL.len()] = {
    let mut kinds = [QpType::Rc; Service::ALL.len()];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at] = QpType::sender_of(Service::ALL[at]);
        at += 1;
    }
    kinds
};

#[derive(Clone, Copy, Debug)]
struct Message {
    from: usize,
    to: usize,
    opcode: WrOpcode,
    length: u32,
    signaled: bool,
}

fn message() -> impl Strategy<Value = Message> {
    let opcode = prop::sample::select(WrOpcode::ALL.to_vec());
    let length = prop_oneof![3 => 8u32..256, 1 => Just(256u32), 3 => 257u32..3000];
    (0..NODES, 1..NODES, opcode, length, any::<bool>()).prop_map(|(from, step, opcode, length, signaled)| Message {
        from,
        to: (from + step) % NODES,
        opcode,
        length,
        signaled,
    })
}

fn faults() -> impl Strategy<Value = Faults> {
    (0u32..80, 0u32..80, 0u32..300, 0u32..50, any::<u64>()).prop_map(|(lose, duplicate, reorder, trim, seed)| Faults {
        lose,
        duplicate,
        reorder,
        trim,
        seed,
    })
}

/// Bytes of message `id`; its first four tell which it is.
fn pattern(id: u32, length: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (id.wrapping_mul(31).wrapping_add(i.wrapping_mul(7)) >> 1) as u8).collect();
    bytes[..4].copy_from_slice(&id.to_le_bytes());
    bytes
}

/// What a transport makes of the requests; those that it does not have are left out.
fn check(kind: QpType, requests: &[Message], faults: Faults, congestion: cc::Settings) -> Result<Fleet, TestCaseError> {
    let mtu = Mtu::B256;
    let mut fleet = Fleet::new(kind, NODES as u32, mtu, faults, congestion);
    let grh = if kind == QpType::Ud { 40 } else { 0 };
    let mut posted: BTreeMap<u32, Message> = BTreeMap::new();
    let mut adds = [0u64; NODES];
    for (id, message) in requests.iter().enumerate() {
        let (id, Message { from, to, opcode, signaled, .. }) = (id as u32, *message);
        if !kind.has(opcode) {
            continue;
        }
        let most = if kind.message_is_packet(opcode) { mtu.bytes().0 as u32 } else { u32::MAX };
        let length = if opcode.is_atomic() { 8 } else { message.length.min(most) };
        let (source, target) = (SOURCES + u64::from(id) * STEP, TARGETS + u64::from(id) * STEP);
        let side = if opcode.is_read() { to } else { from };
        fleet.nodes[side].ram.write(if opcode.is_read() { target } else { source }, &pattern(id, length.max(8)));
        let (sge, remote) = (fleet.sge(from, source, length), fleet.remote(to, target));
        let counter = fleet.remote(to, COUNTER);
        let wr = match opcode {
            WrOpcode::Send => SendWr::send(u64::from(id), sge),
            WrOpcode::SendWithImm => SendWr::send(u64::from(id), sge).with_imm(id),
            WrOpcode::RdmaWrite => SendWr::write(u64::from(id), sge, remote),
            WrOpcode::RdmaWriteWithImm => SendWr::write(u64::from(id), sge, remote).with_imm(id),
            WrOpcode::RdmaRead => SendWr::read(u64::from(id), sge, remote),
            WrOpcode::AtomicFetchAndAdd => {
                adds[to] += 1 << (id % 48);
                SendWr::fetch_add(u64::from(id), sge, counter, 1 << (id % 48))
            }
            _ => SendWr::cmp_swap(u64::from(id), sge, fleet.remote(to, target), 0, u64::from(id) + 1),
        };
        if opcode.is_send() || opcode.has_immediate() {
            let buffer = fleet.sge(to, RECEIVES + u64::from(id) * STEP, STEP as u32);
            fleet.post_recv(from, to, u64::from(id), buffer).unwrap();
        }
        // Only completions free places; so many requests fit anyway.
        fleet.post(from, to, if signaled { wr.signaled() } else { wr }).unwrap();
        posted.insert(id, Message { length, ..*message });
        if id % 4 == 0 {
            fleet.run(20);
        }
    }
    prop_assert!(fleet.run(500_000), "nothing may stay outstanding");
    verify(&fleet, &posted, grh, adds)?;
    prop_assert_eq!(fleet.side.len(), 0, "every extension is freed");
    Ok(fleet)
}

fn verify(fleet: &Fleet, posted: &BTreeMap<u32, Message>, grh: u32, adds: [u64; NODES]) -> Result<(), TestCaseError> {
    let kind = fleet.kind;
    let mut ended: BTreeMap<u32, WcStatus> = BTreeMap::new();
    let mut delivered: BTreeMap<u32, u32> = BTreeMap::new();
    let mut order: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
    for (at, node) in fleet.nodes.iter().enumerate() {
        for wc in &node.done {
            if !wc.opcode.is_recv() {
                prop_assert!(ended.insert(wc.wr_id as u32, wc.status).is_none(), "request {} completed twice", wc.wr_id);
                continue;
            }
            if wc.status != WcStatus::Success {
                continue;
            }
            // WRITEs say by their immediate data which they are, SENDs by their first bytes.
            let mut id = [0; 4];
            node.ram.read(RECEIVES + wc.wr_id * STEP + u64::from(grh), &mut id);
            let id = if wc.opcode == WcOpcode::RecvRdmaWithImm { wc.imm.unwrap() } else { u32::from_le_bytes(id) };
            let Some(message) = posted.get(&id) else { return Err(TestCaseError::fail(format!("{kind:?}: message {id} was never sent"))) };
            prop_assert_eq!((message.to, wc.byte_len), (at, message.length + grh));
            prop_assert_eq!(wc.imm, message.opcode.has_immediate().then_some(id));
            if message.opcode.is_send() {
                let mut bytes = vec![0; message.length as usize];
                node.ram.read(RECEIVES + wc.wr_id * STEP + u64::from(grh), &mut bytes);
                prop_assert!(bytes == pattern(id, message.length), "{:?}: contents of message {}", kind, id);
            }
            *delivered.entry(id).or_default() += 1;
            order.entry((message.from, at)).or_default().push(id);
        }
    }
    let failed = ended.values().any(|status| *status != WcStatus::Success);
    for (id, message) in posted {
        let times = delivered.get(id).copied().unwrap_or(0);
        let status = ended.get(id).copied();
        if kind.is_reliable() {
            prop_assert!(times <= 1, "{:?}: message {} came {} times", kind, id, times);
            prop_assert!(status.is_some() || !message.signaled, "{:?}: request {} never ended", kind, id);
            // An unsignalled request completes only if it fails.
            let well = status.map_or(!failed, |status| status == WcStatus::Success);
            let announced = message.opcode.is_send() || message.opcode.has_immediate();
            if well && announced {
                prop_assert_eq!(times, 1, "{:?}: message {} is done and was not delivered", kind, id);
            }
            if well && (message.opcode.is_write() || message.opcode.is_read()) {
                let (node, at) = if message.opcode.is_read() { (message.from, SOURCES) } else { (message.to, TARGETS) };
                let mut bytes = vec![0; message.length as usize];
                fleet.nodes[node].ram.read(at + u64::from(*id) * STEP, &mut bytes);
                prop_assert!(bytes == pattern(*id, message.length), "{:?}: bytes of {:?} {}", kind, message.opcode, id);
            }
        }
    }
    if !failed && kind.is_reliable() {
        for (node, sum) in adds.iter().enumerate() {
            let mut bytes = [0; 8];
            fleet.nodes[node].ram.read(COUNTER, &mut bytes);
            prop_assert_eq!(u64::from_ne_bytes(bytes), *sum, "{:?}: every addition happens once", kind);
        }
    }
    for ids in order.values() {
        let ascending = ids.windows(2).all(|pair| pair[0] < pair[1]);
        match kind.order() {
            Order::PerConnection | Order::PerDestination | Order::Gaps => prop_assert!(ascending, "{:?}: {:?}", kind, ids),
            _ => {}
        }
    }
    Ok(())
}

/// Cases of each property: short unless the environment asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn promises_are_kept(requests in prop::collection::vec(message(), 1..60), faults in faults()) {
        for kind in KINDS {
            // A UC receiver takes any message that begins: late ones too, where the network lets packets overtake each other.
            let reorder = if kind == QpType::Uc { 0 } else { faults.reorder };
            let faults = if kind.is_reliable() { faults } else { Faults { duplicate: 0, trim: 0, reorder, ..faults } };
            check(kind, &requests, faults, cc::Settings::default())?;
        }
    }
}

/// Every algorithm that does, or does not, give credit, with parameters as published or near it.
fn governed(credit: cc::Credit) -> impl Strategy<Value = cc::Settings> {
    (algorithms::near(algorithms::with(credit)), 1u32..4, 1u64..8).prop_map(|(algorithm, interval, rtt)| {
        let line = cc::Line { rate: Rate::from_gbps(100), base_rtt: Span::from_us(rtt), mtu: Bytes(256) };
        let (echo, ack_interval, timeout) = (cc::Echo::Acknowledge, Some(interval), Some(Span::from_us(40)));
        cc::Settings { echo, ack_interval, timeout, telemetry: false, ..cc::Settings::of(algorithm, line) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn promises_are_kept_under_congestion_control(
        requests in prop::collection::vec(message(), 1..60), faults in faults(), settings in governed(cc::Credit::None)
    ) {
        // iWARP has the control of TCP; what is not reliable has none.
        for kind in KINDS.into_iter().filter(|kind| kind.is_reliable() && *kind != QpType::Iwarp) {
            check(kind, &requests, faults, settings.clone())?;
        }
    }

    #[test]
    fn promises_are_kept_on_credit(requests in prop::collection::vec(message(), 1..60), faults in faults(), settings in governed(cc::Credit::OfReceivers)) {
        for kind in KINDS.into_iter().filter(|kind| kind.service().takes_credit()) {
            check(kind, &requests, faults, settings.clone())?;
        }
    }
}

/// On a channel that does nothing wrong, everything arrives, unreliable or not.
#[test]
fn idle_channels_deliver_everything() {
    let requests: Vec<Message> = (0..56)
        .map(|n| Message {
            from: n % 3,
            to: (n + 1 + n / 3 % 2) % 3,
            opcode: WrOpcode::ALL[n / 3 % 7],
            length: 8 + 97 * n as u32 % 2900,
            signaled: true,
        })
        .filter(|message| message.from != message.to)
        .collect();
    for kind in KINDS {
        let fleet = check(kind, &requests, Faults::default(), cc::Settings::default()).unwrap();
        let wanted = |message: &&Message| kind.has(message.opcode) && (message.opcode.is_send() || message.opcode.has_immediate());
        let due = requests.iter().filter(wanted).count();
        let receives = fleet.nodes.iter().flat_map(|node| &node.done).filter(|wc| wc.opcode.is_recv() && wc.status == WcStatus::Success);
        assert_eq!(receives.count(), due, "{kind:?}");
    }
}
