//! Loads against closed forms.

use fabriscope_catalog::CxlFlit;
use fabriscope_platform::loads::{Cxl, Dram, Expander, PlainLink, Pool};
use fabriscope_units::Rate;

use super::*;

/// 8 channels of 40 GB/s, 64 B in 1.6 ns each, whose banks are never busy for long; no refresh.
fn dram(channels: u32) -> Dram {
    Dram {
        channels,
        line: Span::from_ps(1600),
        banks: 64,
        access: Span::from_ns(40),
        row_cycle: Span::from_ps(1),
        refresh_interval: Span::ZERO,
        refresh_time: Span::ZERO,
        turnaround: Span::from_ns(10),
        write_batch: 16,
    }
}

fn loads(pool: Option<Pool>) -> Loads {
    let link =
        Cxl { flit: CxlFlit::Small, rate: Rate::from_gbps(252), host_port: Span::from_ns(20), retimers: Span::ZERO, credits: [64; 4] };
    Loads {
        sockets: 2,
        domains: 1,
        cores: 8,
        clock: fabriscope_units::Frequency::parse("2 GHz").unwrap(),
        fill_buffers: 16,
        prefetch_lines: 48,
        on_die: Span::from_ns(30),
        dram: dram(8),
        socket_link: Some(PlainLink { line: Span::from_ps(750), request: Span::from_ps(100), latency: Span::from_ns(30) }),
        expander: Some(Expander { under: vec![0], link, controller: Span::from_ns(25), dram: dram(2), pool }),
    }
}

fn latency(loads: &Loads, from: u32, to: u32) -> f64 {
    idle(loads, 1, |system| Some(system.access(0, from, to, false))).unwrap().latency()
}

#[test]
fn an_idle_load_is_the_sum_of_its_stages() {
    let loads = loads(None);
    // On the die 2 · 30, DRAM 40 and the line 1.6.
    assert!((latency(&loads, 0, 0) - 101.6).abs() < 0.05);
    // And across: a request of 0.1 and a line of 0.75 on the link, 30 each way.
    assert!((latency(&loads, 1, 0) - 162.45).abs() < 0.05);
    // CXL: 2 · 20 at the port, 2 · 25 in the expander, one flit of 68 B there (2.159 ns) and two back: the header with three slots, the fourth.
    let flit = 68.0 * 8.0 / 252.0;
    assert!((latency(&loads, 0, 2) - (101.6 + 90.0 + 3.0 * flit)).abs() < 0.05, "{}", latency(&loads, 0, 2));
}

#[test]
fn a_core_gets_its_lines_outstanding_over_the_latency() {
    let loads = loads(None);
    for (outstanding, to) in [(16, 0), (16, 2)] {
        let mut system = System::new(&loads, 1);
        let mut threads = streams(&system, &loads, (0, 0, to), (1, 0), outstanding);
        threads.truncate(1);
        let measured = simulate(&mut system, &threads, WARM, WINDOW);
        // 16 lines of 64 B in the time that each takes under this load itself: Little's law, exactly.
        let law = 16.0 * 64.0 / measured[0].latency() * 1000.0;
        let rate = measured[0].megabytes(WINDOW);
        assert!((rate / law - 1.0).abs() < 0.02, "{rate} {law}");
    }
}

#[test]
fn streams_reach_the_flits_of_the_link_and_no_more() {
    let loads = loads(None);
    let mut system = System::new(&loads, 1);
    let threads = streams(&system, &loads, (0, 0, 2), (1, 0), 48);
    let rate = simulate(&mut system, &threads, WARM, WINDOW).iter().map(|one| one.megabytes(WINDOW)).sum::<f64>() / 1000.0;
    // 31.5 GB/s of flits; a line needs between 4 1/3 slots (three headers in one) and five of the four in 68 B.
    let (least, most) = (31.5 * 64.0 / (68.0 * 1.25), 31.5 * 64.0 / (68.0 * 13.0 / 12.0));
    assert!((least..most).contains(&rate), "{rate}: {least} to {most}");
    // Reads and writes use both directions: more together than either alone.
    let mut system = System::new(&loads, 1);
    let threads = streams(&system, &loads, (0, 0, 2), (1, 1), 48);
    let mixed = simulate(&mut system, &threads, WARM, WINDOW).iter().map(|one| one.megabytes(WINDOW)).sum::<f64>() / 1000.0;
    assert!(mixed > 1.2 * rate, "{mixed} {rate}");
}

#[test]
fn hosts_share_the_link_of_an_expander_and_its_switch_is_on_the_way() {
    let pool = Pool {
        hosts: 4,
        devices: 2,
        switch: Some(Span::from_ns(50)),
        levels: 1,
        sharing: Some((Span::from_ns(5), Span::from_ns(60))),
        peer: Some((256, Span::from_ns(80), Span::from_ns(200))),
    };
    let (alone, pooled) = (loads(None), loads(Some(pool)));
    // 50 ns each way, and one flit more there and two more back.
    let added = latency(&pooled, 0, 2) - latency(&alone, 0, 2);
    assert!((100.0..107.0).contains(&added), "{added}");
    let each = |hosts: u32| {
        let mut system = System::new(&pooled, hosts);
        let threads: Vec<Thread> = (0..hosts).flat_map(|host| streams(&system, &pooled, (host, 0, 2), (1, 0), 48)).collect();
        let measured = simulate(&mut system, &threads, WARM, WINDOW);
        measured[..8].iter().map(|one| one.megabytes(WINDOW)).sum::<f64>()
    };
    let (one, four) = (each(1), each(4));
    assert!((one / four - 4.0).abs() < 0.4, "{one} {four}");
    // What another host has written comes later than what nobody has, and what others have read in between.
    let of = |way: fn(&System) -> Option<Vec<Hop>>| idle(&pooled, 2, way).unwrap().latency();
    let (clean, modified) = (of(|system| system.shared(1, false)), of(|system| system.shared(1, true)));
    assert!(latency(&pooled, 0, 2) < clean && clean < modified, "{clean} {modified}");
    // Straight through the switch an accelerator saves the turn in the host.
    let (straight, host) = (of(|system| system.peer(true)), of(|system| system.peer(false)));
    assert!(host - straight > 300.0, "{straight} {host}");
}

#[test]
fn refresh_and_rows_take_their_share_of_a_channel() {
    // One channel, one core with 48 lines; refresh takes 295 of 3900 ns: 92.4 % of 40 GB/s at most.
    let mut only = loads(None);
    only.dram = Dram { refresh_interval: Span::from_ns(3900), refresh_time: Span::from_ns(295), ..dram(1) };
    let rate = |loads: &Loads| {
        let mut system = System::new(loads, 1);
        let threads = streams(&system, loads, (0, 0, 0), (1, 0), 48);
        simulate(&mut system, &threads, WARM, WINDOW).iter().map(|one| one.megabytes(WINDOW)).sum::<f64>() / 40_000.0
    };
    assert!((rate(&only) - 0.924).abs() < 0.01, "{}", rate(&only));
    // Four banks of 48 ns each: a line every 12 ns at most, 5.3 of 40 GB/s less refresh.
    only.dram = Dram { banks: 4, row_cycle: Span::from_ns(48), ..only.dram };
    assert!((0.105..0.134).contains(&rate(&only)), "{}", rate(&only));
}
