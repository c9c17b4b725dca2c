//! Quantities are exact: what is printed is read back to the last bit, rates and amounts agree with whole-number arithmetic of 128 bits, and
//! every unit is worth what the SI and IEC say.
#![allow(missing_docs)]

use fabriscope_units::{Bytes, Pace, Rate, Span, Time, UnitError};
use proptest::prelude::*;

/// Picoseconds in a second times bits in a byte: 8 · 10¹².
const BITS_PS: u128 = 8_000_000_000_000;

#[test]
fn units_of_amounts() {
    // Decimal prefixes are powers of 1000 (SI), binary ones of 1024 (IEC 80000-13).
    let thousand = |power| 1000u64.pow(power);
    for (power, decimal, binary) in [(1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB"), (4, "TB", "TiB")] {
        assert_eq!(Bytes::parse(&format!("3 {decimal}")), Ok(Bytes(3 * thousand(power))));
        assert_eq!(Bytes::parse(&format!("3 {binary}")), Ok(Bytes(3 << (10 * power))));
    }
    assert_eq!((Bytes::from_kib(3), Bytes::from_mib(3)), (Bytes(3072), Bytes(3 << 20)));
}

#[test]
fn units_of_rates() {
    // `b` is a bit and `B` eight of them.
    let thousand = |power| 1000u64.pow(power);
    for (power, prefix) in [(0, ""), (1, "k"), (2, "M"), (3, "G"), (4, "T")] {
        assert_eq!(Rate::parse(&format!("7 {prefix}b/s")), Ok(Rate::from_bps(7 * thousand(power))));
        assert_eq!(Rate::parse(&format!("7 {prefix}B/s")), Ok(Rate::from_bps(56 * thousand(power))));
    }
    for (power, prefix) in [(1, "Ki"), (2, "Mi"), (3, "Gi")] {
        assert_eq!(Rate::parse(&format!("7 {prefix}B/s")), Ok(Rate::from_bps(56 << (10 * power))));
    }
    assert_eq!(Rate::from_gbps(400).as_bytes_per_s_f64(), 50e9);
}

#[test]
fn units_of_times() {
    for (unit, ps) in [("ps", 1), ("ns", 1000), ("us", 1_000_000), ("µs", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)] {
        assert_eq!(Span::parse(&format!("5 {unit}")), Ok(Span::from_ps(5 * ps)));
        // Half of the unit, but of the smallest, of which there is no half.
        let half = Span::parse(&format!("0.5 {unit}"));
        assert_eq!(half.ok(), (ps > 1).then(|| Span::from_ps(ps / 2)));
    }
    assert_eq!((Span::from_ns(3), Span::from_us(3)), (Span::from_ps(3000), Span::from_ps(3_000_000)));
    let span = Span::from_ps(1_500_000);
    assert_eq!((span.as_ns_f64(), span.as_us_f64(), span.as_s_f64()), (1500.0, 1.5, 1.5e-6));
}

#[test]
fn mistakes_are_told_apart() {
    use UnitError::{Ambiguous, NoNumber, NoUnit, TooFine, TooLarge, UnknownUnit};
    assert!(matches!(Bytes::parse("64"), Err(NoUnit { .. })));
    assert!(matches!(Bytes::parse("64 KB"), Err(Ambiguous { .. })));
    assert!(matches!(Bytes::parse("64 ns"), Err(UnknownUnit { .. })));
    assert!(matches!(Rate::parse("64 Gbps"), Err(UnknownUnit { .. })));
    assert!(matches!(Rate::parse("1 gb/s"), Err(UnknownUnit { .. })));
    assert!(matches!(Span::parse("-4 ns"), Err(NoNumber { .. })));
    assert!(matches!(Span::parse(".5 ns"), Err(NoNumber { .. })));
    assert!(matches!(Span::parse("5. ns"), Err(NoNumber { .. })));
    assert!(matches!(Span::parse("1.2.3 ns"), Err(NoNumber { .. })));
    assert!(matches!(Span::parse("0.0001 ns"), Err(TooFine { .. })));
    assert!(matches!(Bytes::parse("0.3 B"), Err(TooFine { .. })));
    // 2⁶⁴ is one too many, whatever the unit.
    assert_eq!(Bytes::parse("18446744073709551615 B"), Ok(Bytes(u64::MAX)));
    assert!(matches!(Bytes::parse("18446744073709551616 B"), Err(TooLarge { .. })));
    assert!(matches!(Bytes::parse("16777216 TiB"), Err(TooLarge { .. })));
    assert!(matches!(Span::parse("99999999999999999999999999999999999999999 s"), Err(TooLarge { .. })));
    // Digits may be grouped, and blanks are free.
    assert_eq!(Bytes::parse("  1_048_576B "), Ok(Bytes::from_mib(1)));
}

#[test]
fn well_known_times_on_the_wire() {
    // A bit at 10 Gb/s takes 100 ps; the shortest frame of Ethernet with preamble and gap, 84 B, 67.2 ns there; 1538 B at 100 Gb/s 123.04 ns;
    // 4124 B (a full packet of InfiniBand) at 200 Gb/s 164.96 ns.
    for (gbps, bytes, ps) in [(10, 84, 67_200), (100, 1538, 123_040), (200, 4124, 164_960), (400, 4178, 83_560)] {
        assert_eq!(Rate::from_gbps(gbps).time(Bytes(bytes)), Span::from_ps(ps));
        assert_eq!(Pace::of(Rate::from_gbps(gbps)).time(Bytes(bytes)), Span::from_ps(ps));
    }
}

#[test]
fn instants_and_lengths() {
    let (early, late) = (Time::from_ps(1000), Time::from_ps(2500));
    assert_eq!((late - early, late.since(early), early.since(late)), (Span::from_ps(1500), Span::from_ps(1500), Span::ZERO));
    assert_eq!((early + Span::from_ps(1500), late - Span::from_ps(1500)), (late, early));
    assert_eq!([Span::from_ps(1), Span::from_ps(2)].into_iter().sum::<Span>(), Span::from_ps(3));
    assert_eq!((Span::from_ps(7) * 3, Span::from_ps(7) / 2), (Span::from_ps(21), Span::from_ps(3)));
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(value: u64, shift in 0u32..64) {
        // Small and large numbers alike.
        let value = value >> shift;
        prop_assert_eq!(Bytes::parse(&Bytes(value).to_string()), Ok(Bytes(value)));
        prop_assert_eq!(Rate::parse(&Rate::from_bps(value).to_string()), Ok(Rate::from_bps(value)));
        prop_assert_eq!(Span::parse(&Span::from_ps(value).to_string()), Ok(Span::from_ps(value)));
        // The same through a file.
        let text = serde_json::to_string(&(Bytes(value), Rate::from_bps(value), Span::from_ps(value))).unwrap();
        let read: (Bytes, Rate, Span) = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read, (Bytes(value), Rate::from_bps(value), Span::from_ps(value)));
    }

    /// A decimal fraction is worth its digits, without a rounding.
    #[test]
    fn decimals(whole in 0u64..1_000_000, thousandths in 0u64..1000) {
        prop_assert_eq!(Span::parse(&format!("{whole}.{thousandths:03} ns")), Ok(Span::from_ps(1000 * whole + thousandths)));
        prop_assert_eq!(Rate::parse(&format!("{whole}.{thousandths:03} Mb/s")), Ok(Rate::from_bps(1_000_000 * whole + 1000 * thousandths)));
        prop_assert_eq!(Bytes::parse(&format!("{whole}.{thousandths:03} kB")), Ok(Bytes(1000 * whole + thousandths)));
    }

    /// The time of an amount is the least in which the rate carries it.
    #[test]
    fn times_are_the_least(bps in 1u64..4_000_000_000_000, bytes in 0u64..1 << 44) {
        let exact = (u128::from(bytes) * BITS_PS).div_ceil(u128::from(bps));
        let span = Rate::from_bps(bps).time(Bytes(bytes));
        prop_assert_eq!(u128::from(span.as_ps()), exact.min(u128::from(u64::MAX)));
        if span < Span::MAX {
            prop_assert!(Rate::from_bps(bps).amount_in(span) >= Bytes(bytes));
            if bytes > 0 && bps < 8_000_000_000_000 {
                prop_assert!(Rate::from_bps(bps).amount_in(span - Span::from_ps(1)) < Bytes(bytes));
            }
        }
    }

    /// Splitting an amount costs at most a picosecond for each piece, and never saves any.
    #[test]
    fn pieces_take_no_less(bps in 1u64..1_000_000_000_000, pieces in prop::collection::vec(0u64..1 << 30, 1..20)) {
        let rate = Rate::from_bps(bps);
        let whole = rate.time(Bytes(pieces.iter().sum()));
        let apart: Span = pieces.iter().map(|piece| rate.time(Bytes(*piece))).sum();
        prop_assert!(whole <= apart && apart.as_ps() - whole.as_ps() <= pieces.len() as u64);
    }

    /// The rate that was measured is the rate there was: rounded down, and by less than a bit per second and one in the last picosecond.
    #[test]
    fn measured_rates(bytes in 1u64..1 << 40, ps in 1u64..1 << 50) {
        let rate = Rate::of(Bytes(bytes), Span::from_ps(ps));
        let exact = u128::from(bytes) * BITS_PS / u128::from(ps);
        prop_assert_eq!(u128::from(rate.as_bps()), exact.min(u128::from(u64::MAX)));
    }

    /// A pace is its rate within 2⁻¹⁶ ps a byte: for a packet less than a picosecond below, and never above.
    #[test]
    fn paces(mbps in 1u64..4_000_000, bytes in 0u64..65_536) {
        let rate = Rate::from_bps(mbps * 1_000_000);
        let (exact, quick) = (rate.time(Bytes(bytes)).as_ps(), Pace::of(rate).time(Bytes(bytes)).as_ps());
        prop_assert!(quick <= exact && exact - quick <= 2, "{} and {} ps", exact, quick);
        // Half of the lanes take twice the time.
        let half = Pace::of(rate).on_lanes(2, 4).time(Bytes(bytes)).as_ps();
        prop_assert!(half.abs_diff(2 * quick) <= 1, "{} and twice {}", half, quick);
    }

    #[test]
    fn multiples(ps in 0u64..1 << 60, period in 1u64..1 << 40) {
        let next = Time::from_ps(ps).next_multiple_of(Span::from_ps(period));
        prop_assert!(next.as_ps().is_multiple_of(period) && next.as_ps() >= ps && next.as_ps() - ps < period);
    }
}
