//! Congestion windows against the equations of their RFCs: slow start and avoidance, CUBIC by time, DCTCP by the share of marks.

use fabriscope_tcp::control::{Acked, Control, Dctcp, Window, control};
use fabriscope_tcp::{Algorithm, Config};
use fabriscope_units::{Span, Time};
use proptest::prelude::*;

const MSS: u64 = 1000;

fn config(algorithm: Algorithm, initial_window: u32) -> Config {
    Config { mss: MSS as u32, algorithm, initial_window, ..Config::default() }
}
fn acked(bytes: u64) -> Acked {
    Acked { now: Time::ZERO, bytes, in_flight: 0, limited: true, rtt: None, marked: false }
}
fn segments(control: &dyn Control) -> f64 {
    control.window() as f64 / MSS as f64
}

#[test]
fn slow_start_grows_by_what_is_acknowledged() {
    // RFC 5681 §3.1: cwnd += min(N, SMSS) for each acknowledgement; ten segments at the start (RFC 6928), so that 10 · 2ⁿ leave in round n.
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Tahoe] {
        let mut window = control(&config(algorithm, 10));
        assert_eq!((window.window(), window.threshold()), (10_000, u64::MAX));
        for round in 1..6 {
            for _ in 0..10 << (round - 1) {
                window.acked(&acked(MSS));
            }
            assert_eq!(window.window(), 10_000 << round, "{algorithm:?}");
        }
    }
}

#[test]
fn avoidance_adds_a_segment_in_a_round_trip() {
    // RFC 5681 equation 3: cwnd += SMSS² / cwnd. With w in segments dw/dn = 1/w, so that w² = w₀² + 2 n after n acknowledgements.
    for algorithm in [Algorithm::NewReno, Algorithm::Tahoe, Algorithm::Dctcp] {
        let mut window = control(&config(algorithm, 1));
        window.timed_out(Time::ZERO, 20_000);
        (0..9).for_each(|_| window.acked(&acked(MSS)));
        assert_eq!((window.window(), window.threshold()), (10_000, 10_000), "{algorithm:?}: nine acknowledgements from one to ten");
        for n in 1..=2000 {
            window.acked(&acked(MSS));
            let expected = f64::from(100 + 2 * n).sqrt();
            assert!(
                (segments(&*window) / expected - 1.0).abs() < 0.01,
                "{algorithm:?}, {n}: {} segments, not {expected}",
                segments(&*window)
            );
        }
    }
}

#[test]
fn an_acknowledgement_across_the_threshold() {
    // From 8 segments with a threshold of 10: the first two of six segments double, the other four add 4 · 1000² / 10000 = 400 bytes.
    let mut window = control(&config(Algorithm::NewReno, 1));
    window.timed_out(Time::ZERO, 20_000);
    window.acked(&acked(7 * MSS));
    assert_eq!(window.window(), 8000);
    window.acked(&acked(6 * MSS));
    assert_eq!(window.window(), 10_400);
}

#[test]
fn a_loss_halves_what_is_in_flight() {
    // RFC 5681 equation 4: ssthresh = max(FlightSize / 2, 2 · SMSS); with fast recovery the window is the same, after a timeout one segment.
    for (in_flight, threshold) in [(100_000, 50_000), (7000, 3500), (3000, 2000), (0, 2000)] {
        for algorithm in [Algorithm::NewReno, Algorithm::Dctcp] {
            let mut window = control(&config(algorithm, 200));
            window.lost(Time::ZERO, in_flight);
            assert_eq!((window.window(), window.threshold()), (threshold, threshold), "{algorithm:?}");
            let mut window = control(&config(algorithm, 200));
            window.timed_out(Time::ZERO, in_flight);
            assert_eq!((window.window(), window.threshold()), (MSS, threshold), "{algorithm:?}");
        }
        // Tahoe begins again in either case, and sends everything behind the hole again.
        let mut window = control(&config(Algorithm::Tahoe, 200));
        window.lost(Time::ZERO, in_flight);
        assert_eq!((window.window(), window.threshold(), window.goes_back()), (MSS, threshold, true));
    }
    assert!([Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp].iter().all(|a| !control(&config(*a, 10)).goes_back()));
}

/// A window of `w_max` segments that loses one at time 0, and then is full all the time: its size after each round trip.
fn cubic_after_a_loss(w_max: u32, rtt: Span, until: Span) -> Vec<(f64, f64)> {
    let mut cubic = control(&config(Algorithm::Cubic, w_max));
    cubic.lost(Time::ZERO, 0);
    sizes_of(cubic, rtt, until)
}

/// A window that is full from time 0 to `until`: its size after each round trip.
fn sizes_of(mut cubic: Box<dyn Control>, rtt: Span, until: Span) -> Vec<(f64, f64)> {
    let (mut now, mut sizes) = (Time::ZERO, vec![(0.0, segments(&*cubic))]);
    while now.since(Time::ZERO) < until {
        let acks = (cubic.window() / MSS).max(1);
        for ack in 0..acks {
            cubic.acked(&Acked { now: now + rtt * ack / acks, rtt: Some(rtt), ..acked(MSS) });
        }
        now += rtt;
        sizes.push((now.since(Time::ZERO).as_s_f64(), segments(&*cubic)));
    }
    sizes
}

/// Whether a window of `w_max` segments is that of RFC 9438 at every time from `from` to `until` seconds: W(t) = C (t − K)³ + W_max with
/// C = 0.4 (equation 1) and K = ∛(W_max (1 − β) / C) with β = 0.7 (equation 2). Round trips of 200 ms are long enough that this is more than
/// Reno's. W is that of one round trip ahead (§4.4), which the window reaches within the round.
fn follows_the_cubic(w_max: u32, k: f64, from: f64, until: f64) {
    let sizes = cubic_after_a_loss(w_max, Span::from_us(200_000), Span::from_us(12_000_000));
    assert!((sizes[0].1 - 0.7 * f64::from(w_max)).abs() < 1.0, "β = 0.7");
    for (t, found) in sizes.iter().filter(|(t, _)| (from..until).contains(t)) {
        let w = |t: f64| 0.4 * (t - k) * (t - k) * (t - k) + f64::from(w_max);
        let (least, most) = (0.995 * w(t - 0.2), 1.005 * w(t + 0.2));
        assert!((least..=most).contains(found), "{w_max}, {t} s: {found} outside {least} to {most}");
    }
}

#[test]
fn cubic_returns_to_where_it_was() {
    // For 1000 segments K = ∛750 = 9.086 s, for 400 segments ∛300 = 6.694 s.
    for (w_max, k) in [(1000, 9.086), (400, 6.694)] {
        follows_the_cubic(w_max, k, 0.6, k);
        // A plateau at W_max: in the second around K the window moves by less than 0.4 · 0.5³ · 2, and a step.
        let sizes = cubic_after_a_loss(w_max, Span::from_us(200_000), Span::from_us(12_000_000));
        let near: Vec<f64> = sizes.iter().filter(|(t, _)| (t - k).abs() < 0.5).map(|(_, w)| *w).collect();
        assert!(near.last().unwrap() - near[0] < 1.5, "{near:?}");
    }
}

#[test]
fn cubic_goes_on_behind_it() {
    for (w_max, k) in [(1000, 9.086), (400, 6.694)] {
        follows_the_cubic(w_max, k, k, 12.0);
    }
}

#[test]
fn cubic_is_convex_behind_a_timeout() {
    // §4.8: the first growth behind a timeout has K = 0 and W_max = cwnd at its begin, which is where slow start ends: 0.7 · 1000. So there is
    // no plateau at 1000: W(t) = 700 + 0.4 t³ passes it at t = ∛750 = 9.09 s. From 3 s on that is more than Reno's 2.6 segments a second.
    let mut cubic = control(&config(Algorithm::Cubic, 1000));
    cubic.timed_out(Time::ZERO, 0);
    cubic.acked(&acked(699 * MSS));
    assert_eq!((cubic.window(), cubic.threshold()), (700 * MSS, 700 * MSS));
    for (t, found) in sizes_of(cubic, Span::from_us(200_000), Span::from_us(12_000_000)) {
        let w = |t: f64| 700.0 + 0.4 * t * t * t;
        let (least, most) = (0.995 * w(t - 0.2), 1.005 * w(t + 0.2));
        assert!(t < 3.0 || (least..=most).contains(&found), "{t} s: {found} outside {least} to {most}");
    }
}

#[test]
fn cubic_is_never_slower_than_reno() {
    // §4.3: with round trips of 1 ms the cubic hardly moves, and W_est = β W_max + 3 (1 − β) / (1 + β) · t / RTT = 70 + 0.529 t / RTT holds
    // until W_max, 56.7 round trips; from then on one segment in each.
    let sizes = cubic_after_a_loss(100, Span::from_us(1000), Span::from_us(100_000));
    let expected = |round: usize| {
        let slow = 70.0 + 0.5294 * round as f64;
        if slow <= 100.0 { slow } else { 100.0 + (round as f64 - 56.7) }
    };
    for (round, (_, found)) in sizes.iter().enumerate() {
        let expected = expected(round);
        assert!((found - expected).abs() < 1.5, "round {round}: {found}, not {expected}");
    }
    // Until the window of the loss, and not only until W_max, which fast convergence may have put lower: a second loss at 70 segments leaves 49,
    // which are 70 again after 21 / 0.529 = 39.7 round trips (W_max is 59.5).
    let mut cubic = control(&config(Algorithm::Cubic, 100));
    cubic.lost(Time::ZERO, 0);
    cubic.lost(Time::ZERO, 0);
    for (round, (_, found)) in sizes_of(cubic, Span::from_us(1000), Span::from_us(35_000)).iter().enumerate() {
        let expected = 49.0 + 0.5294 * round as f64;
        assert!((found - expected).abs() < 1.5, "round {round}: {found}, not {expected}");
    }
}

#[test]
fn cubic_gives_room_to_newcomers() {
    // §4.7: a loss below the last W_max makes W_max (1 + β) / 2 of the window; so K is shorter than it would be.
    let mut cubic = control(&config(Algorithm::Cubic, 1000));
    cubic.lost(Time::ZERO, 0);
    assert_eq!(cubic.window(), 700_000);
    cubic.lost(Time::ZERO, 0);
    assert!(cubic.window().abs_diff(490_000) <= 1);
    // W_max is now 595 and not 700: K = ∛((595 − 490) / 0.4) = 6.4 s, where the window stands still at 595 and not at 700.
    let rtt = Span::from_us(200_000);
    let mut now = Time::ZERO;
    while now.since(Time::ZERO) < Span::from_us(6_400_000) {
        let acks = cubic.window() / MSS;
        (0..acks).for_each(|ack| cubic.acked(&Acked { now: now + rtt * ack / acks, rtt: Some(rtt), ..acked(MSS) }));
        now += rtt;
    }
    assert!((590.0..601.0).contains(&segments(&*cubic)), "{}", segments(&*cubic));
}

#[test]
fn dctcp_follows_the_share_of_marks() {
    // RFC 8257 §3.3: α = (1 − g) α + g M for each window of data, with g = 1/16 and α = 1 at first: α = M + (1 − M)(15/16)ⁿ. §3.3: a cut
    // multiplies the window by 1 − α / 2.
    for quarters in 0..=4u64 {
        let window = Window::new(&config(Algorithm::Dctcp, 40));
        let mut dctcp = Dctcp::new(window);
        let share = quarters as f64 / 4.0;
        for round in 1..=80 {
            for quarter in 0..4 {
                dctcp.acked(&Acked { limited: false, marked: quarter < quarters, ..acked(10 * MSS) });
            }
            let expected = share + (1.0 - share) * (15.0f64 / 16.0).powi(round);
            assert!((dctcp.alpha() - expected).abs() < 1e-9, "{quarters} quarters, round {round}: {} and {expected}", dctcp.alpha());
        }
        assert_eq!(dctcp.window(), 40_000, "a sender that is not held back by its window does not grow it");
        let cut = 40_000.0 * (1.0 - dctcp.alpha() / 2.0);
        dctcp.marked(Time::ZERO, 40_000);
        assert!((dctcp.window() as f64 - cut).abs() <= 1.0);
    }
}

#[test]
fn marks_of_the_others_are_losses() {
    // RFC 3168 §6.1.2: the reaction to a mark is that to a lost packet; RFC 9438 §4.6 has β for both.
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let [mut one, mut other] = [0; 2].map(|_| control(&config(algorithm, 100)));
        one.marked(Time::ZERO, 100_000);
        other.lost(Time::ZERO, 100_000);
        assert_eq!((one.window(), one.threshold()), (other.window(), other.threshold()), "{algorithm:?}");
        assert!(one.window() < 100_000);
    }
}

#[test]
fn names() {
    for (name, algorithm) in [("reno", Algorithm::NewReno), ("cubic", Algorithm::Cubic), ("dctcp", Algorithm::Dctcp)] {
        assert_eq!((Algorithm::by_name(name), algorithm.name()), (Some(algorithm), name));
    }
    // Linux has no Tahoe and no bare New Reno.
    assert_eq!([Algorithm::by_name("tahoe"), Algorithm::by_name("newreno"), Algorithm::by_name("")], [None; 3]);
}

#[derive(Clone, Debug)]
enum Event {
    Acked(u64, bool, bool),
    Lost,
    TimedOut,
    Marked,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (1u64..60_000, any::<bool>(), any::<bool>()).prop_map(|(bytes, limited, marked)| Event::Acked(bytes, limited, marked)),
        1 => Just(Event::Lost),
        1 => Just(Event::TimedOut),
        1 => Just(Event::Marked),
    ];
    prop::collection::vec(event, 1..120)
}

proptest! {
    /// Laws of all of them: at least one segment in flight, a threshold of at least two, growth by acknowledgements only and never by more
    /// than was acknowledged, and no growth beyond what is used.
    #[test]
    fn laws(events in events(), which in 0usize..4, initial in 1u32..100) {
        let algorithm = [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Tahoe][which];
        let mut window = control(&config(algorithm, initial));
        let mut now = Time::ZERO;
        for event in events {
            let before = window.window();
            now += Span::from_us(100);
            match event {
                Event::Acked(bytes, limited, marked) => {
                    window.acked(&Acked { now, limited, marked, rtt: Some(Span::from_us(100)), ..acked(bytes) });
                    prop_assert!(window.window() >= before, "{:?} fell by an acknowledgement", algorithm);
                    prop_assert!(window.window() - before <= bytes + 1, "{:?} grew by {} for {}", algorithm, window.window() - before, bytes);
                    prop_assert!(limited || window.window() == before);
                }
                Event::Lost => {
                    window.lost(now, before);
                    prop_assert!(window.window() <= before.max(2 * MSS) && window.threshold() >= 2 * MSS);
                }
                Event::TimedOut => {
                    window.timed_out(now, before);
                    prop_assert_eq!(window.window(), MSS);
                    prop_assert!(window.threshold() >= 2 * MSS);
                }
                Event::Marked => {
                    window.marked(now, before);
                    prop_assert!(window.window() <= before.max(2 * MSS));
                }
            }
            prop_assert!(window.window() >= MSS);
        }
    }
}
