//! Switches that reduce: the arithmetic of each element against wider types, and one group's operations against sums made beforehand.

use fabriscope_switch::aggregation::{Arrival, Pace, Session, Unit, Verdict, join};
use fabriscope_units::{Bytes, Rate, Span, Time};
use fabriscope_wire::{Collective, Element, Psn, Reducer, Task};
use proptest::prelude::*;

const SUM: Task = Task { collective: Collective::Allreduce, reducer: Reducer::Sum, element: Element::I32, root: 0 };
const REDUCERS: [Reducer; 6] = [Reducer::Sum, Reducer::Min, Reducer::Max, Reducer::And, Reducer::Or, Reducer::Xor];
/// With bytes and sign.
const INTEGERS: [(Element, u32, bool); 8] = [
    (Element::I8, 1, true),
    (Element::U8, 1, false),
    (Element::I16, 2, true),
    (Element::U16, 2, false),
    (Element::I32, 4, true),
    (Element::U32, 4, false),
    (Element::I64, 8, true),
    (Element::U64, 8, false),
];

fn joined(reducer: Reducer, element: Element, a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut into = a.to_vec();
    join(reducer, element, &mut into, b);
    into
}

/// The integer in `bytes`, little-endian.
fn wide(bytes: &[u8], signed: bool) -> i128 {
    let unsigned = bytes.iter().rev().fold(0i128, |all, byte| all << 8 | i128::from(*byte));
    let bits = 8 * bytes.len();
    if signed && unsigned >> (bits - 1) & 1 == 1 { unsigned - (1 << bits) } else { unsigned }
}

/// Half precision by its definition (IEEE 754-2019 §3.4): (−1)^s · 2^(e − 15) · (1 + f / 2¹⁰), or 2⁻¹⁴ · f / 2¹⁰ where e is 0.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF) / 1024.0);
    let size = if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) };
    if bits >> 15 == 1 { -size } else { size }
}

proptest! {
    /// Integers: as in 128 bits, cut to the width of the element. So sums wrap, and signs count where there are any.
    #[test]
    fn integers_are_those_of_a_wider_type(a: [u8; 8], b: [u8; 8]) {
        for (element, width, signed) in INTEGERS {
            let width = width as usize;
            let (left, right) = (wide(&a[..width], signed), wide(&b[..width], signed));
            for reducer in REDUCERS {
                let expected = match reducer {
                    Reducer::Sum => left + right,
                    Reducer::Min => left.min(right),
                    Reducer::Max => left.max(right),
                    Reducer::And => left & right,
                    Reducer::Or => left | right,
                    Reducer::Xor => left ^ right,
                };
                let found = joined(reducer, element, &a[..width], &b[..width]);
                prop_assert_eq!(&found, &expected.to_le_bytes()[..width], "{:?} of {:?}", reducer, element);
            }
        }
    }

    /// Whatever the order of children: both ways the same, and any grouping of three where nothing is rounded.
    #[test]
    fn operands_may_change_places(a: [u8; 16], b: [u8; 16], c: [u8; 16]) {
        for (element, ..) in INTEGERS {
            for reducer in REDUCERS {
                let all = |x: &[u8], y: &[u8]| joined(reducer, element, x, y);
                prop_assert_eq!(all(&a, &b), all(&b, &a), "{:?} of {:?}", reducer, element);
                prop_assert_eq!(all(&all(&a, &b), &c), all(&a, &all(&b, &c)), "{:?} of {:?}", reducer, element);
                // Joining a thing with itself adds nothing, but to a sum and an exclusive or.
                if !matches!(reducer, Reducer::Sum | Reducer::Xor) {
                    prop_assert_eq!(all(&a, &a), a.to_vec());
                }
            }
        }
    }

    /// Sums of halves: the exact sum, which a double holds, rounded to the nearest half; of two as near the even one.
    #[test]
    fn halves_are_rounded_to_the_nearest(a in 0u16..0x7C00, b in 0u16..0x7C00, signs in 0u16..4) {
        let (a, b) = (a | (signs & 1) << 15, b | (signs >> 1) << 15);
        let exact = half(a) + half(b);
        let found = joined(Reducer::Sum, Element::F16, &a.to_le_bytes(), &b.to_le_bytes());
        let found = u16::from_le_bytes([found[0], found[1]]);
        // §4.3.1: from 2¹⁵ · (2 − 2⁻¹¹) on it is infinity.
        if exact.abs() >= 65_520.0 {
            prop_assert_eq!(found & 0x7FFF, 0x7C00);
            return Ok(());
        }
        let size = found & 0x7FFF;
        let off = (half(found) - exact).abs();
        for neighbour in [size.checked_sub(1), Some(size + 1).filter(|next| *next < 0x7C00)].into_iter().flatten() {
            let other = (half(neighbour | found & 0x8000) - exact).abs();
            prop_assert!(off < other || (off == other && size.is_multiple_of(2)), "{} for {}, not {}", half(found), exact, half(neighbour));
        }
    }

    /// Sums of bfloat16, whose exact sum need not fit a single: within half a unit in the last place of the operand that is larger, and never
    /// farther than the sum of singles rounded once more.
    #[test]
    fn brain_floats_keep_eight_bits(a in -1e30f32..1e30, b in -1e30f32..1e30) {
        let cut = |value: f32| f32::from_bits(value.to_bits() & 0xFFFF_0000);
        let (a, b) = (cut(a), cut(b));
        let bytes = |value: f32| ((value.to_bits() >> 16) as u16).to_le_bytes();
        let found = joined(Reducer::Sum, Element::Bf16, &bytes(a), &bytes(b));
        let found = f32::from_bits(u32::from(u16::from_le_bytes([found[0], found[1]])) << 16);
        let sum = a + b;
        prop_assert!((f64::from(found) - f64::from(sum)).abs() <= f64::from(sum.abs()) / 256.0, "{} and {}", found, sum);
    }

    /// Floats: as the machine adds and compares them.
    #[test]
    fn floats_are_the_machine_s(a in -1e30f64..1e30, b in -1e30f64..1e30) {
        for (reducer, expected) in [(Reducer::Sum, a + b), (Reducer::Min, a.min(b)), (Reducer::Max, a.max(b))] {
            prop_assert_eq!(joined(reducer, Element::F64, &a.to_le_bytes(), &b.to_le_bytes()), expected.to_le_bytes());
        }
        let (a, b) = (a as f32, b as f32);
        for (reducer, expected) in [(Reducer::Sum, a + b), (Reducer::Min, a.min(b)), (Reducer::Max, a.max(b))] {
            prop_assert_eq!(joined(reducer, Element::F32, &a.to_le_bytes(), &b.to_le_bytes()), expected.to_le_bytes());
        }
    }

    /// A unit joins one operation after the other: n that come at once leave at latency, latency + interval, … However they come, none leaves
    /// before its latency, none sooner than an interval after the one before, and the unit never rests while one waits.
    #[test]
    fn a_unit_is_a_server(gaps in prop::collection::vec(0u64..60, 1..40), latency in 1u64..500, interval in 1u64..50) {
        let pace = Pace { latency: Span::from_ns(latency), interval: Span::from_ns(interval), payload: Bytes(1024), rate: None };
        let (mut unit, mut now, mut free) = (Unit::default(), 0, 0);
        for gap in gaps {
            now += gap;
            let begin = now.max(free);
            let leaves = unit.join(&pace, Time::ZERO + Span::from_ns(now), Bytes(64), Bytes(64));
            prop_assert_eq!(leaves, Time::ZERO + Span::from_ns(begin + latency));
            free = begin + interval;
        }
    }
}

#[test]
fn long_messages_take_their_bytes_and_short_ones_their_turn() {
    // 1024 B is an operation of its own (25 ns apart), one byte more streams at 400 Gb/s: 64 KiB in 1310.72 ns. Without a rate nothing streams.
    let pace = Pace { latency: Span::from_ns(100), interval: Span::from_ns(25), payload: Bytes(1024), rate: Some(Rate::from_gbps(400)) };
    for (length, rate, apart) in [(1024, pace.rate, 25_000), (1025, pace.rate, 1_310_720), (1025, None, 25_000)] {
        let mut unit = Unit::default();
        let leaves = [0; 2].map(|_| unit.join(&Pace { rate, ..pace }, Time::ZERO, Bytes(65_536), Bytes(length)));
        assert_eq!((leaves[0], leaves[1] - leaves[0]), (Time::from_ps(100_000), Span::from_ps(apart)), "{length} B");
    }
}

/// What child `child` brings to packet `packet` of operation `operation`.
fn operand(child: u32, operation: u64, packet: u32) -> i32 {
    (child as i32 + 1) * 1_000_003 + operation as i32 * 17 + packet as i32
}

/// The next packet of a child whose messages have `packets` packets each.
fn arrival(child: u32, sent: u32, packets: u32, at: Time) -> Arrival {
    let (operation, packet) = (u64::from(sent / packets), sent % packets);
    let data: Box<[u8]> = operand(child, operation, packet).to_le_bytes().into();
    Arrival {
        psn: Psn::new(sent),
        header: (packet == 0).then_some((SUM, 4 * packets)),
        last: packet == packets - 1,
        payload: 4,
        data: Some(data),
        at,
    }
}

proptest! {
    /// Children send in any order, some packets twice, some before one that was lost: the joined packets are those of the operations in order, each
    /// once, each the sum of all children, and no earlier than the last of its operands.
    #[test]
    fn every_packet_is_joined_once(
        children in 1u32..5, packets in 1u32..4, slots in 1u32..4,
        order in prop::collection::vec((0u32..5, 0u32..10), 1..200),
    ) {
        let mut session = Session::new(children, (0..children).map(Some).collect(), slots);
        let operations = 4u32;
        let mut sent = vec![0u32; children as usize];
        let mut came = vec![Time::ZERO; (operations * packets) as usize];
        let mut got = 0;
        // Then all send what is left, one after the other, until nothing is.
        let rest = (0..operations * packets * 4).flat_map(|_| (0..children).map(|child| (child, 9)));
        for (step, (child, mood)) in order.into_iter().chain(rest).enumerate() {
            let (child, now) = (child % children, Time::from_ps(1000 * step as u64));
            let at = sent[child as usize];
            if at == operations * packets {
                continue;
            }
            let verdict = match mood {
                0 if at > 0 => {
                    let verdict = session.handle(child, arrival(child, at - 1, packets, now));
                    prop_assert_eq!(verdict, Verdict::Repeated(Psn::new(at - 1)));
                    continue;
                }
                1 if at + 1 < operations * packets => {
                    let verdict = session.handle(child, arrival(child, at + 1, packets, now));
                    let known = at > 0 && verdict == Verdict::Repeated(Psn::new(at - 1));
                    prop_assert!(verdict == Verdict::Early(Psn::new(at)) || known || at == 0, "{:?}", verdict);
                    continue;
                }
                _ => session.handle(child, arrival(child, at, packets, now)),
            };
            // Slots are those of operations that have begun and are not over.
            let over = got / packets;
            prop_assert_eq!(verdict == Verdict::Full, at / packets >= over + slots, "{:?} of {} with {}", verdict, at, got);
            if verdict == Verdict::Full {
                continue;
            }
            prop_assert_eq!(verdict, Verdict::Taken);
            sent[child as usize] += 1;
            let place = (at / packets * packets + at % packets) as usize;
            came[place] = came[place].max(now);
            while let Some(joined) = session.poll_joined() {
                let (operation, packet) = (u64::from(got / packets), got % packets);
                let expected = (0..children).fold(0i32, |sum, child| sum.wrapping_add(operand(child, operation, packet)));
                prop_assert_eq!(joined.data.as_deref(), Some(&expected.to_le_bytes()[..]));
                prop_assert_eq!((joined.first, joined.last), (packet == 0, packet == packets - 1));
                prop_assert!(joined.at >= came[got as usize] && sent.iter().all(|sent| *sent > got));
                got += 1;
                if joined.last {
                    session.end();
                }
            }
            prop_assert!(session.under_way() <= slots as usize);
        }
        prop_assert_eq!((got, session.under_way(), session.waits_for()), (operations * packets, 0, None));
    }
}

#[test]
fn who_is_missing_is_named() {
    // Three children; the first two are an operation ahead.
    let mut session = Session::new(3, (0..3).map(Some).collect(), 4);
    assert_eq!(session.waits_for(), None, "nothing has begun");
    for sent in 0..2 {
        for child in 0..2 {
            assert_eq!(session.handle(child, arrival(child, sent, 1, Time::ZERO)), Verdict::Taken);
        }
    }
    assert_eq!(session.waits_for(), Some((0, vec![2])));
    assert_eq!(session.handle(2, arrival(2, 0, 1, Time::ZERO)), Verdict::Taken);
    assert!(session.poll_joined().is_some() && session.poll_joined().is_none());
    assert_eq!(session.waits_for(), Some((1, vec![2])));
    assert_eq!((session.towards(1), session.towards(3)), (Some(1), None));
}
