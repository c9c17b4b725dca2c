//! Two NICs over a channel with faults: whatever happens between them, every message is delivered once, in order, intact.

use crate::algorithms;
use crate::pair;
use fabriscope_units::{Bytes, Rate};
use fabriscope_verbs::*;
use pair::{Faults, Pair};
use proptest::prelude::*;

/// One request of end 0 or 1; lengths are in bytes.
#[derive(Clone, Copy, Debug)]
enum Op {
    Send { length: u32, imm: bool },
    Write { length: u32, imm: bool },
    Read { length: u32 },
    FetchAdd { add: u64 },
    CmpSwap { hit: bool },
}

#[derive(Clone, Copy, Debug)]
struct Request {
    end: usize,
    op: Op,
    signaled: bool,
    fence: bool,
    inline: bool,
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..600, 2 => Just(256u32), 2 => Just(512u32), 1 => 600u32..6000]
}

fn request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![
        (length(), any::<bool>()).prop_map(|(length, imm)| Op::Send { length, imm }),
        (length(), any::<bool>()).prop_map(|(length, imm)| Op::Write { length, imm }),
        length().prop_map(|length| Op::Read { length }),
        (1u64..1000).prop_map(|add| Op::FetchAdd { add }),
        any::<bool>().prop_map(|hit| Op::CmpSwap { hit }),
    ];
    (0usize..2, op, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
        .prop_map(|(end, op, signaled, fence, inline)| Request { end, op, signaled, fence, inline })
}

/// What a receive has to show.
struct Expected {
    length: u32,
    imm: Option<u32>,
    words: Option<AppWords>,
    /// Of SENDs; those of WRITEs are elsewhere.
    bytes: Option<Vec<u8>>,
}

/// Settings that must not matter.
#[derive(Clone, Copy, Debug)]
struct Setting {
    psn: u32,
    max_rd: u8,
    ack_interval: u32,
    window: u32,
    any_order: bool,
    late_receives: bool,
}

fn setting(any_order: bool) -> impl Strategy<Value = Setting> {
    (prop_oneof![Just(0u32), Just(0xff_fff8), any::<u32>().prop_map(|psn| psn & 0xff_ffff)], 1u8..5, 0u32..6, 6u32..9, any::<bool>())
        .prop_map(move |(psn, max_rd, ack_interval, window, late_receives)| Setting {
            psn,
            max_rd,
            ack_interval,
            window: 1 << window,
            any_order,
            late_receives,
        })
}

// Each end's memory: its own sources, what the peer may read, where the peer writes, receives, results, one counter.
const SOURCE: u64 = 0;
const READABLE: u64 = 0x20000;
const WRITTEN: u64 = 0x40000;
const RECEIVED: u64 = 0x80000;
const RESULT: u64 = 0xc0000;
const COUNTER: u64 = 0xff000;
/// Room for one message.
const STEP: u64 = 6144;

fn pattern(seed: u64, length: u32) -> Vec<u8> {
    (0..u64::from(length)).map(|i| (seed.wrapping_mul(31).wrapping_add(i.wrapping_mul(7)) >> 1) as u8).collect()
}

/// Runs the requests and checks everything that can be seen from outside.
fn check(requests: &[Request], setting: Setting, faults: Faults) -> Result<Pair, TestCaseError> {
    check_governed(requests, setting, faults, cc::Settings::default())
}

#[expect(clippy::too_many_lines, reason = "one model of a lossy path, told from the first packet to the last")]
fn check_governed(requests: &[Request], setting: Setting, faults: Faults, congestion: cc::Settings) -> Result<Pair, TestCaseError> {
    let cap = QpCap { max_send_wr: 64, max_recv_wr: 64, max_inline_data: Bytes(256), ..QpCap::default() };
    let mut pair = Pair::governed(|init| QpInit { cap, ..init }, QpType::Rc, faults, congestion);
    pair.connect(
        Mtu::B256,
        setting.psn,
        |attr| {
            attr.max_dest_rd_atomic = Some(setting.max_rd);
            attr.min_rnr_timer = Some(1);
            attr.any_order = Some(setting.any_order);
            attr.window = Some(setting.window);
        },
        |attr| {
            attr.max_rd_atomic = Some(setting.max_rd);
            attr.ack_interval = Some(setting.ack_interval);
            attr.timeout = Some(1);
        },
    );
    let mut receives = [0u64; 2];
    let mut fills = Vec::new();
    // Sources and readable memory are filled before anything runs, so a repeated READ sees the same bytes.
    for (n, request) in requests.iter().enumerate() {
        let (me, at, seed) = (request.end, n as u64 % 20 * STEP, n as u64 + 1);
        fills.push(seed);
        match request.op {
            Op::Send { length, .. } | Op::Write { length, .. } => pair.fill(me, SOURCE + at, &pattern(seed, length)),
            Op::Read { length } => pair.fill(1 - me, READABLE + at, &pattern(seed, length)),
            _ => {}
        }
    }
    let mut expected_receives: [Vec<Expected>; 2] = Default::default();
    let mut expected_sends: [Vec<(u64, u32)>; 2] = Default::default();
    let mut landed = [0u64; 2];
    let mut adds = [0u64; 2];
    let mut written: [Vec<AppWords>; 2] = Default::default();
    for (n, request) in requests.iter().enumerate() {
        let (me, at, seed) = (request.end, n as u64 % 20 * STEP, n as u64 + 1);
        let you = 1 - me;
        // Two of three SENDs and WRITEs say something.
        let words = (n % 3 > 0).then_some(AppWords([seed, !seed, seed << 32, n as u64]));
        let mut wr = match request.op {
            Op::Send { length, imm } => {
                let wr = SendWr::send(n as u64, pair.sge(me, SOURCE + at, length));
                expected_receives[you].push(Expected { length, imm: imm.then_some(n as u32), words, bytes: Some(pattern(seed, length)) });
                if imm { wr.with_imm(n as u32) } else { wr }
            }
            Op::Write { length, imm } => {
                let wr = SendWr::write(n as u64, pair.sge(me, SOURCE + at, length), pair.remote(you, WRITTEN + at));
                landed[you] += u64::from(length > 0);
                written[you].extend(words.filter(|_| length > 0 && !imm));
                if imm {
                    expected_receives[you].push(Expected { length, imm: Some(n as u32), words, bytes: None });
                    wr.with_imm(n as u32)
                } else {
                    wr
                }
            }
            Op::Read { length } => SendWr::read(n as u64, pair.sge(me, RESULT + at, length), pair.remote(you, READABLE + at)),
            Op::FetchAdd { add } => {
                adds[you] += add;
                landed[you] += 1;
                SendWr::fetch_add(n as u64, pair.sge(me, RESULT + at, 8), pair.remote(you, COUNTER), add)
            }
            Op::CmpSwap { hit } => {
                landed[you] += 1;
                let remote = pair.remote(you, COUNTER + 8 + n as u64 * 8);
                SendWr::cmp_swap(n as u64, pair.sge(me, RESULT + at, 8), remote, u64::from(!hit), seed)
            }
        };
        let length = wr.length().0 as u32;
        if matches!(request.op, Op::Send { .. } | Op::Write { .. }) {
            wr.words = words;
        }
        if request.signaled {
            wr = wr.signaled();
            expected_sends[me].push((n as u64, length));
        }
        if request.fence {
            wr = wr.with_flags(SendFlags::FENCE);
        }
        if request.inline && (wr.opcode.is_send() || wr.opcode.is_write()) && length <= 256 {
            wr = wr.with_flags(SendFlags::INLINE);
        }
        if !setting.late_receives && matches!(request.op, Op::Send { .. } | Op::Write { imm: true, .. }) {
            post_receive(&mut pair, you, &mut receives);
        }
        pair.post(me, &wr).unwrap();
        if n % 3 == 0 {
            pair.run(2);
        }
    }
    if setting.late_receives {
        pair.run(30);
        for (end, expected) in expected_receives.iter().enumerate() {
            for _ in expected {
                post_receive(&mut pair, end, &mut receives);
                pair.run(3);
            }
        }
    }
    prop_assert!(pair.run(200_000), "nothing may stay outstanding: {:?} {:?}", pair.ids(0), pair.ids(1));
    for end in 0..2 {
        verify(&pair, end, requests, &expected_receives[end], &expected_sends[end])?;
        let now = pair.now;
        let watch = pair.ends[end].watch;
        prop_assert_eq!(pair.ends[end].nic.watch_count(watch, now), landed[end], "messages that landed at {}", end);
        prop_assert_eq!(&pair.ends[end].written, &written[end], "each write says its words once, in order");
        let counter = u64::from_ne_bytes(pair.bytes(end, COUNTER, 8).try_into().unwrap());
        prop_assert_eq!(counter, adds[end], "each addition happens once");
        let status = pair.ends[end].nic.query_qp(pair.ends[end].qp).unwrap();
        prop_assert_eq!((status.state, status.send_outstanding, status.recv_posted), (QpState::Rts, 0, 0));
    }
    prop_assert_eq!(pair.side.len(), 0, "every extension is freed");
    Ok(pair)
}

fn post_receive(pair: &mut Pair, end: usize, receives: &mut [u64; 2]) {
    let n = receives[end];
    receives[end] += 1;
    let sge = pair.sge(end, RECEIVED + n * STEP, STEP as u32);
    pair.post_recv(end, n, sge).unwrap();
}

fn verify(pair: &Pair, end: usize, requests: &[Request], receives: &[Expected], sends: &[(u64, u32)]) -> Result<(), TestCaseError> {
    let done = &pair.ends[end].done;
    prop_assert!(done.iter().all(|wc| wc.status == WcStatus::Success), "{:?}", pair.ids(end));
    let got: Vec<_> = done.iter().filter(|wc| !wc.opcode.is_recv()).map(|wc| (wc.wr_id, wc.byte_len)).collect();
    prop_assert_eq!(&got, sends, "one completion for each signalled request, in order");
    let said: Vec<_> = done.iter().zip(&pair.ends[end].said).filter(|(wc, _)| wc.opcode.is_recv()).map(|(_, words)| *words).collect();
    let expected: Vec<_> = receives.iter().map(|receive| receive.words).collect();
    prop_assert_eq!(said, expected, "words come with their message");
    let got: Vec<_> = done.iter().filter(|wc| wc.opcode.is_recv()).collect();
    prop_assert_eq!(got.len(), receives.len());
    for (n, (wc, Expected { length, imm, bytes, .. })) in got.iter().zip(receives).enumerate() {
        prop_assert_eq!((wc.wr_id, wc.byte_len, wc.imm), (n as u64, *length, *imm));
        if let Some(bytes) = bytes {
            prop_assert_eq!(&pair.bytes(end, RECEIVED + n as u64 * STEP, bytes.len()), bytes, "receive {}", n);
        }
    }
    let mut old_values = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        let (at, seed) = (n as u64 % 20 * STEP, n as u64 + 1);
        match request.op {
            Op::Write { length, .. } if request.end != end => {
                prop_assert_eq!(pair.bytes(end, WRITTEN + at, length as usize), pattern(seed, length), "write {}", n);
            }
            Op::Read { length } if request.end == end => {
                prop_assert_eq!(pair.bytes(end, RESULT + at, length as usize), pattern(seed, length), "read {}", n);
            }
            Op::CmpSwap { hit } if request.end != end => {
                let value = u64::from_ne_bytes(pair.bytes(end, COUNTER + 8 + n as u64 * 8, 8).try_into().unwrap());
                prop_assert_eq!(value, if hit { seed } else { 0 }, "compare and swap {}", n);
            }
            Op::FetchAdd { add } if request.end == end => {
                let old = u64::from_ne_bytes(pair.bytes(end, RESULT + at, 8).try_into().unwrap());
                old_values.push((old, add));
            }
            _ => {}
        }
    }
    // One queue pair: each addition finds the sum of those before it.
    let mut sum = 0;
    for (old, add) in old_values {
        prop_assert_eq!(old, sum);
        sum += add;
    }
    Ok(())
}

/// Requests that do not share memory slots: at most 20.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec(request(), 1..20)
}

/// Every algorithm that connections carry, with parameters as published or near it; its receivers tell of marks in any way.
fn governed() -> impl Strategy<Value = cc::Settings> {
    use cc::Echo;
    let span = fabriscope_units::Span::from_us;
    let echo = prop::sample::select(vec![Echo::Silent, Echo::Acknowledge, Echo::Notify(span(0)), Echo::Notify(span(50))]);
    let all = algorithms::near(algorithms::with(cc::Credit::None));
    (all, echo, prop::option::of(Just(1u32)), 1u64..20).prop_map(move |(algorithm, echo, ack_interval, rtt)| {
        let line = cc::Line { rate: Rate::from_gbps(100), base_rtt: span(rtt), mtu: Bytes(256) };
        cc::Settings { echo, ack_interval, timeout: None, ..cc::Settings::of(algorithm, line) }
    })
}

#[expect(clippy::fn_params_excessive_bools, reason = "what the channel may do, by the names of its faults")]
fn faults(duplicate: bool, reorder: bool) -> impl Strategy<Value = Faults> {
    (0u8..40, 0u8..40, 0u8..100, any::<u64>()).prop_map(move |(lose, twice, overtaken, seed)| Faults {
        lose,
        duplicate: if duplicate { twice } else { 0 },
        reorder: if reorder { overtaken } else { 0 },
        seed,
        ..Faults::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loss_is_repaired(requests in requests(), setting in setting(false), faults in faults(false, false)) {
        check(&requests, setting, faults)?;
    }

    #[test]
    fn duplicates_and_overtaking_are_repaired_in_strict_order_too(
        requests in requests(), setting in setting(false), faults in faults(true, true)
    ) {
        check(&requests, setting, Faults { lose: faults.lose / 4, duplicate: faults.duplicate / 4, reorder: faults.reorder / 8, ..faults })?;
    }

    #[test]
    fn any_order_takes_everything(requests in requests(), setting in setting(true), faults in faults(true, true)) {
        check(&requests, setting, faults)?;
    }

    #[test]
    fn congestion_control_loses_nothing(
        requests in requests(), setting in setting(false), any_order: bool, faults in faults(true, true), trim in 0u8..30, mark in 0u8..200,
        congestion in governed()
    ) {
        let (duplicate, reorder) = if any_order { (faults.duplicate, faults.reorder) } else { (faults.duplicate / 4, faults.reorder / 8) };
        let faults = Faults { lose: faults.lose / 4, duplicate, reorder, trim, mark, ..faults };
        check_governed(&requests, Setting { any_order, ..setting }, faults, congestion)?;
    }

    #[test]
    fn without_loss_nothing_is_sent_twice(requests in requests(), setting in setting(false), any_order: bool, seed: u64) {
        let setting = Setting { late_receives: false, any_order, ..setting };
        let reorder = if any_order { 80 } else { 0 };
        let pair = check(&requests, setting, Faults { seed, reorder, ..Faults::default() })?;
        prop_assert_eq!(pair.retransmitted, 0);
    }
}
