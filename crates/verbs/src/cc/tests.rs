//! Each algorithm by the formulas of its paper, step by step.

use super::*;

const LINE: Line = Line { rate: Rate::from_gbps(100), base_rtt: Span::from_us(8), mtu: Bytes(4096) };
/// 100 Gb/s · 8 us.
const PRODUCT: u64 = 100_000;

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}
fn told(now: Time, rtt: Span, marked: bool) -> Feedback<'static> {
    Feedback { now, bytes: Bytes(4096), rtt, marked, in_flight: Bytes(50_000), links: &[] }
}
fn gbps(control: &impl Control) -> f64 {
    control.allowance().rate.as_bps() as f64 / 1e9
}

#[test]
fn the_product_of_bandwidth_and_delay() {
    assert_eq!(LINE.product(), Bytes(PRODUCT));
}

#[test]
fn dcqcn_halves_and_recovers() {
    let p = dcqcn::Parameters {
        g: 1.0 / 256.0,
        alpha_interval: Span::from_us(55),
        increase_interval: Span::from_us(55),
        increase_bytes: Bytes(10_000_000),
        recovery_steps: 5,
        additive: Rate::from_bps(40_000_000),
        hyper: Rate::from_bps(200_000_000),
        least: Rate::from_bps(100_000_000),
        notification_interval: Span::from_us(50),
    };
    let mut control = Dcqcn::new(p, LINE);
    assert_eq!(control.wakes(), None, "nothing to recover");
    // α is 1 at first: the rate falls by α/2 = half, the target stays at what it was.
    control.notified(at(0));
    assert!((gbps(&control) - 50.0).abs() < 1e-6);
    // Fast recovery: half way to the target each time, 75 after one step, 87.5 after two …
    for expected in [75.0, 87.5, 93.75, 96.875, 98.4375] {
        let when = control.wakes().unwrap();
        control.wake(when);
        assert!((gbps(&control) - expected).abs() < 1e-6, "{} at {when}", gbps(&control));
    }
    // A second notification: α has decayed five times, (1 − g)^5, and is renewed after the cut.
    control.notified(at(500));
    let alpha = (1.0 - 1.0 / 256.0f64).powi(5);
    assert!((gbps(&control) - 98.4375 * (1.0 - alpha / 2.0)).abs() < 1e-6);
}

#[test]
fn dctcp_cuts_by_the_share_of_marks() {
    let mut control = Dctcp::new(dctcp::Parameters { g: 1.0 / 16.0 }, LINE);
    // A window of data, every packet marked: α stays 1, the window is halved.
    for _ in 0..PRODUCT.div_ceil(4096) {
        control.acknowledged(&told(at(8), Span::from_us(9), true));
    }
    assert_eq!(control.allowance().window, Bytes(PRODUCT / 2));
    // A window without marks: α falls to 15/16; one packet is added.
    for _ in 0..(PRODUCT / 2).div_ceil(4096) {
        control.acknowledged(&told(at(16), Span::from_us(8), false));
    }
    let window = control.allowance().window.0;
    assert!((54_000..54_400).contains(&window), "{window}: half a product and a packet, growing within the round");
}

#[test]
fn swift_steers_to_its_target() {
    let p = swift::Parameters {
        target: Span::from_us(2),
        additive: 1.0,
        beta: 0.8,
        most_decrease: 0.5,
        scaling_range: Span::ZERO,
        scaling_least: 0.1,
        scaling_most: 100.0,
    };
    let mut control = Swift::new(p, LINE);
    let before = control.allowance().window.0 as f64;
    // Delay 20 us, target 10 us: 1 − 0.8 · (20 − 10) / 20 = 0.6 of the window.
    control.acknowledged(&told(at(20), Span::from_us(20), false));
    let after = control.allowance().window.0 as f64;
    assert!((after / before - 0.6).abs() < 1e-3, "{}", after / before);
    // Not twice in a round trip.
    control.acknowledged(&told(at(30), Span::from_us(20), false));
    assert_eq!(control.allowance().window.0 as f64, after);
    // Below the target it grows by one packet in a round trip.
    let packets = (after / 1.1 / 4096.0) as u64;
    (0..packets).for_each(|_| control.acknowledged(&told(at(60), Span::from_us(9), false)));
    let grown = (control.allowance().window.0 as f64 - after) / 1.1 / 4096.0;
    assert!((0.9..1.0).contains(&grown), "{grown}");
    // At the least it paces packets: a hundredth of a packet in a round trip.
    (0..200).for_each(|step| control.acknowledged(&told(at(1000 + 2000 * step), Span::from_us(1000), false)));
    let paced = control.allowance();
    assert_eq!(paced.window, Bytes(4096));
    assert!(paced.rate < Rate::from_bps(1_000_000), "{}", paced.rate);
}

#[test]
fn hpcc_follows_the_busiest_link() {
    let mut control = Hpcc::new(hpcc::Parameters { utilisation: 0.95, stages: 5, flows: 10.0 }, LINE);
    let link = |us: u64, sent: u64, queue: u64| LinkState { at: at(us), sent, queue: Bytes(queue), rate: LINE.rate };
    // A link that is full and has a queue of one product: U = queue / (B T) + rate / B = 1 + 1.
    let first = [link(0, 0, PRODUCT)];
    let second = [link(8, PRODUCT, PRODUCT)];
    control.acknowledged(&Feedback { links: &first, ..told(at(8), Span::from_us(16), false) });
    assert_eq!(control.allowance().window, Bytes(PRODUCT), "one report says nothing of rates");
    control.acknowledged(&Feedback { links: &second, ..told(at(16), Span::from_us(16), false) });
    // W = W · 0.95 / 2 + W_AI, W_AI = W · 0.05 / 10.
    let expected = PRODUCT as f64 * (0.95 / 2.0 + 0.005);
    let window = control.allowance().window.0 as f64;
    assert!((window - expected).abs() < 2.0, "{window}, expected {expected}");
    // Packets that left before that step do not move the reference, however late they come.
    let next = |window: f64| window * (0.95 / 2.0) + PRODUCT as f64 * 0.005;
    let told_late = |control: &mut Hpcc, us: u64| {
        // Full, with the same queue.
        let links = [link(us, us * 12_500, PRODUCT)];
        control.acknowledged(&Feedback { links: &links, ..told(at(us), Span::from_us(30), false) });
        control.allowance().window.0 as f64
    };
    for us in [40, 41] {
        assert!((told_late(&mut control, us) - next(expected)).abs() < 2.0);
    }
    // One that left after it does.
    assert!((told_late(&mut control, 46) - next(expected)).abs() < 2.0);
    assert!((told_late(&mut control, 47) - next(next(expected))).abs() < 2.0);
}

#[test]
fn infiniband_counts_up_and_down() {
    let p = infiniband::Parameters { increase: 1, limit: 127, timer: Span::from_us(150), step: 0.5, notification_interval: Span::ZERO };
    let mut control = InfiniBandCc::new(p, LINE);
    (0..3).for_each(|_| control.notified(at(0)));
    control.acknowledged(&told(at(0), Span::from_us(8), true));
    control.acknowledged(&told(at(0), Span::from_us(8), false));
    // Index 4: 1 / (1 + 4 · 0.5) of the rate.
    assert!((gbps(&control) - 100.0 / 3.0).abs() < 1e-6);
    for index in (0..4).rev() {
        control.wake(control.wakes().unwrap());
        assert!((gbps(&control) - 100.0 / (1.0 + 0.5 * f64::from(index))).abs() < 1e-6);
    }
    assert_eq!(control.wakes(), None);
}

#[test]
fn nscc_has_four_cases() {
    let p = nscc::Parameters { target: 0.5, most_decrease: 0.5, gamma: 0.8, fair: 0.25, proportional: 0.25, timeout: Span::from_us(100) };
    let fresh = || {
        let mut control = Nscc::new(p, LINE);
        control.window = PRODUCT as f64;
        control.round_at = at(1_000_000);
        control
    };
    let grown = |rtt: u64, marked: bool| {
        let mut control = fresh();
        control.acknowledged(&told(at(100), Span::from_us(rtt), marked));
        control.window - PRODUCT as f64
    };
    let fair = 0.25 * 4096.0 * 4096.0 / PRODUCT as f64;
    // No mark, no delay: a quarter of the packet and the fair share; half the target: half of that quarter.
    assert!((grown(8, false) - (1024.0 + fair)).abs() < 1.0);
    assert!((grown(10, false) - (512.0 + fair)).abs() < 1.0);
    // No mark, above the target of 4 us: the fair share alone. A mark below the target: nothing.
    assert!((grown(14, false) - fair).abs() < 1e-6);
    assert_eq!(grown(9, true), 0.0);
    // Both: shrinks once the smoothed delay is above the target too, and not twice in a round trip.
    let mut control = fresh();
    (0..40).for_each(|_| control.acknowledged(&told(at(100), Span::from_us(24), true)));
    // The smoothed delay passes 4 us at its third value, 16 (1 − (7/8)³) = 5.28 us: 1 − 0.8 · 1.28 / 5.28.
    let expected = PRODUCT as f64 * (1.0 - 0.8 * (5.28125 - 4.0) / 5.28125);
    assert!((control.window - expected).abs() < 1.0, "{} {expected}", control.window);
}

#[test]
fn nscc_adapts_at_once_to_what_arrives() {
    let p = nscc::Parameters { target: 0.5, most_decrease: 0.5, gamma: 0.8, fair: 0.25, proportional: 0.25, timeout: Span::from_us(100) };
    let mut control = Nscc::new(p, LINE);
    control.round_at = at(12);
    control.acknowledged(&told(at(10), Span::from_us(8), true));
    (0..20).for_each(|_| control.lost(at(11), Loss::Trimmed));
    control.lost(at(12), Loss::Trimmed);
    // One packet arrived in the round trip, 21 were cut off: the window is what arrived.
    assert_eq!(control.allowance().window, Bytes(4096));
}

#[test]
fn slingshot_holds_back_the_sources_of_a_full_port_only() {
    let mut control = Slingshot::new(slingshot::Parameters { threshold: 0.5, release: 0.1 }, LINE);
    let full = control.allowance().window;
    let link = |queue: u64| [LinkState { at: at(0), sent: 0, queue: Bytes(queue), rate: LINE.rate }];
    control.acknowledged(&Feedback { links: &link(10_000), ..told(at(10), Span::from_us(9), false) });
    assert_eq!(control.allowance().window, full, "a short queue is none of its business");
    // Four products wait: (1 + 0.25) / (1 + 4) of the window.
    control.acknowledged(&Feedback { links: &link(4 * PRODUCT), ..told(at(20), Span::from_us(9), false) });
    assert_eq!(control.allowance().window.0, full.0 / 4);
}

#[test]
fn srd_keeps_the_round_trip_below_its_bound() {
    let mut control = Srd::new(srd::Parameters { bound: 0.5, additive: 1.0, beta: 0.8, timeout: Span::from_us(100) }, LINE);
    // A round trip of 24 us, the bound is 12: 1 − 0.8 · (1 − 1/2) = 0.6.
    control.acknowledged(&told(at(24), Span::from_us(24), false));
    assert_eq!(control.allowance().window, Bytes(PRODUCT * 6 / 10));
}

fn told_of(congestion: &mut Congestion, us: u64, end: Psn, asked: Psn) -> usize {
    congestion.acknowledged(at(us), AckInfo::of(end, Some(asked), false), &[], true)
}

#[test]
fn flights_are_accounted_in_any_order() {
    let parameters = srd::Parameters { bound: 10.0, additive: 0.0, beta: 0.5, timeout: Span::from_us(100) };
    let settings = Settings::of(Algorithm::Srd(parameters), LINE);
    let mut congestion = Congestion::new(&settings).unwrap();
    let psn = |number: u32| Psn::new(0xff_fffe) + number;
    for number in 0..8 {
        congestion.sent(at(number.into()), psn(number), 4000);
    }
    assert_eq!(congestion.in_flight, 32_000);
    // The fifth arrives first; the first, which left four microseconds earlier, is not missing yet.
    assert_eq!(told_of(&mut congestion, 10, psn(0), psn(4)), 0);
    assert!(congestion.has_arrived(psn(4)) && !congestion.has_arrived(psn(3)));
    assert_eq!(congestion.in_flight, 28_000);
    // One that left more than a round trip after it makes it missing; once.
    congestion.sent(at(20), psn(8), 4000);
    assert_eq!(told_of(&mut congestion, 30, psn(0), psn(8)), 7);
    assert_eq!(congestion.missing().next(), Some(psn(0)));
    assert_eq!(told_of(&mut congestion, 31, psn(0), psn(8)), 0);
    // Everything: nothing is on its way.
    assert_eq!(told_of(&mut congestion, 40, psn(9), psn(8)), 0);
    assert_eq!((congestion.in_flight, congestion.flights.len()), (0, 0));
}

#[test]
fn the_name_of_an_algorithm_is_its_tag() {
    let parameters = dctcp::Parameters { g: 1.0 / 16.0 };
    let algorithm = Algorithm::Dctcp(parameters);
    let text = serde_json::to_string(&algorithm).unwrap();
    assert_eq!(text, format!(r#"{{"{}":{{"g":0.0625}}}}"#, algorithm.name()));
    assert_eq!(serde_json::from_str::<Algorithm>(&text).unwrap(), algorithm);
    assert!(serde_json::from_str::<Algorithm>(r#"{"dctcp":{"g":0.5,"h":1}}"#).is_err(), "an unknown parameter");
}

#[test]
fn a_parameter_outside_its_range_is_named() {
    for g in [0.0, -0.5, 1.5, f64::NAN] {
        let error = Algorithm::Dctcp(dctcp::Parameters { g }).check().unwrap_err();
        assert_eq!(error.parameter, "g");
    }
    assert_eq!(Algorithm::Dctcp(dctcp::Parameters { g: 2.0 }).check().unwrap_err().to_string(), "`g` of 2 is no share");
}

/// What stands in a prototype is told and asked as it would be without one.
#[test]
fn a_prototype_stands_where_an_algorithm_stands() {
    let parameters = dctcp::Parameters { g: 1.0 / 16.0 };
    let prototype = Prototype::new(parameters.signals(), move |line| Box::new(parameters.control(line)));
    let [own, library] = [Settings::of_prototype(prototype.clone(), LINE), Settings::of(Algorithm::Dctcp(parameters), LINE)];
    assert!(own.controls() && !own.gives_credit());
    assert_eq!((own.echo, own.ack_interval), (library.echo, library.ack_interval));
    assert_eq!(own, Settings::of_prototype(prototype, LINE), "copies are the same one");
    let [mut own, mut library] = [own, library].map(|settings| Congestion::new(&settings).unwrap());
    for (number, marked) in [true, true, false, true, false].into_iter().cycle().take(200).enumerate() {
        for congestion in [&mut own, &mut library] {
            congestion.sent(at(number as u64), Psn::new(number as u32), 4096);
            let ack = AckInfo::of(Psn::new(number as u32 + 1), Some(Psn::new(number as u32)), marked);
            congestion.acknowledged(at(number as u64 + 9), ack, &[], false);
        }
        assert_eq!(own.allowance(), library.allowance());
    }
    assert_ne!(own.allowance().window, Bytes(PRODUCT));
}
