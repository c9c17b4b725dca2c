//! Links that retry and rest, and connections that keep to a rate: closed forms.

use fabriscope_catalog::{Catalog, Line, LinkRest, LinkRetry, Ratio};
use fabriscope_engine::{Cluster, Run};
use fabriscope_schedule::{After, Builder, OpKind};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::tests::run_and_settle;
use crate::{Scenario, Transfers};

/// Two nodes at one switch with links at 400 Gb/s.
fn cluster(line: Line) -> Cluster {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let mut parts = catalog.target("lab-16:2").expect("its parts are there");
    parts.line = line;
    Cluster::new(parts).expect("it can be wired")
}

/// Host 0 sends so many messages to host 1, one after the other.
fn run(line: Line, transfers: Transfers, bytes: u64, messages: usize) -> Run {
    let mut builder = Builder::new(2);
    let mut last = None;
    for _ in 0..messages {
        let after: Vec<After> = last.map(After::End).into_iter().collect();
        last = Some(builder.op_after(0, OpKind::Put { to: 1, bytes: Bytes(bytes) }, &after));
    }
    let engine = Scenario { transfers, times: true, ..Scenario::default() };
    engine.run(&cluster(line), &builder.build().expect("it is sound"), 1).expect("it ends")
}

fn span(run: &Run, message: usize) -> Span {
    run.ops[message].ended - run.ops[message].started
}

/// 64 MiB with a limit of 100 Gb/s on a link of 400 Gb/s take the time of their bytes on the wire at 100 Gb/s, to within a per mille;
/// their packets come apart, so that a slower link behind is not overrun.
#[test]
fn a_connection_keeps_to_its_rate() {
    let bytes = 64 << 20;
    for gbps in [25, 100, 200] {
        let transfers = Transfers { rate: Some(Rate::from_gbps(gbps)), ..Transfers::default() };
        let run = run(Line::default(), transfers, bytes, 1);
        // 16384 packets of 4096 B and 26 B of headers, the first one 16 B more.
        let expected = Rate::from_gbps(gbps).time(Bytes(bytes + 16384 * 26));
        let ratio = span(&run, 0).as_us_f64() / expected.as_us_f64();
        assert!((0.999..1.003).contains(&ratio), "{gbps} Gb/s: {ratio}");
    }
}

/// Damaged packets are repeated by the link: nothing is lost, the transport repeats nothing, and as many are repeated as the odds
/// say: p / (1 - p) of those that cross a link, p = 1 - (1 - 10⁻⁶)^(8 · 4122) = 0.03244.
#[test]
fn links_repeat_damaged_packets() {
    let line = Line { retry: Some(LinkRetry { bit_errors: 1e-6, latency: Span::from_ns(200) }), ..Line::default() };
    let mut builder = Builder::new(2);
    let _ = builder.put(0, 1, Bytes(32 << 20));
    let schedule = builder.build().expect("it is sound");
    let run = run_and_settle(&Scenario::default(), &cluster(line), &schedule, 1).expect("it ends");
    assert_eq!((run.stats.drops, run.stats.bytes_sent), (0, 32 << 20));
    assert_eq!(run.stats.bytes_delivered, 32 << 20);
    let expected = 2.0 * 8192.0 * 0.03244 / (1.0 - 0.03244);
    let ratio = run.stats.link_retries as f64 / expected;
    assert!((0.85..1.15).contains(&ratio), "{} of {expected}", run.stats.link_retries);
}

/// A message over two resting links, and its acknowledgement over two more, come four wake times later; the next one, at
/// once after it, finds the links awake.
#[test]
fn resting_links_wake() {
    let wake = Span::from_ns(4480);
    let rest = |lanes| Line { rest: Some(LinkRest { after: Span::from_us(20), wake, lanes }), ..Line::default() };
    let plain = run(Line::default(), Transfers::default(), 64, 2);
    let mut builder = Builder::new(2);
    // The links are awake at first: wait until they rest.
    let idle = builder.compute(0, Span::from_us(50));
    let put = OpKind::Put { to: 1, bytes: Bytes(64) };
    let first = builder.op_after(0, put, &[After::End(idle)]);
    let _ = builder.op_after(0, put, &[After::End(first)]);
    let schedule = builder.build().expect("it is sound");
    let engine = Scenario { times: true, ..Scenario::default() };
    let rested = engine.run(&cluster(rest(None)), &schedule, 1).expect("it ends");
    assert_eq!(span(&rested, 1), span(&plain, 0) + wake * 4);
    assert_eq!(span(&rested, 2), span(&plain, 1));
    assert_eq!(rested.stats.link_wakes, 4);
    // With a quarter of the lanes awake a packet takes four times as long on each link, of which cut-through hides nothing.
    let narrow = engine.run(&cluster(rest(Ratio::new(1, 4))), &schedule, 1).expect("it ends");
    let longer = span(&narrow, 1) - span(&plain, 0);
    assert!(longer > Span::ZERO && longer < wake, "{longer}");
    assert!(narrow.end > Time::ZERO && narrow.stats.link_wakes >= 4);
}
