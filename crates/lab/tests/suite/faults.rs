//! Faults, limits and losses by their closed forms: what a lane, a slow memory or a limit takes away, and that everything arrives.

use crate::labs::one;


/// Host 1 sends 4 MiB to host 0, with these lines in the lab; microseconds.
fn to_host_0(lines: &str, tables: &str) -> (f64, fabriscope_engine::Run) {
    let run = one(&format!("cluster = \"lab-16\"\n{lines}\n{tables}\n[workload.incast]\nsenders = 1\nsize = \"4 MiB\"\n"));
    assert_eq!((run.stats.messages, run.stats.bytes_delivered >= 4 << 20), (1, true), "{lines}{tables}");
    (run.end.as_ps() as f64 / 1e6, run)
}

fn fault(kind: &str) -> String {
    format!("[[fault]]\nat = \"0 us\"\nkind.{kind}\n")
}

/// 4 MiB in packets of 4096 B with 26 B of headers at so many Gb/s, in us.
fn on_the_link(gbps: f64) -> f64 {
    1024.0 * (4096.0 + 26.0) * 8.0 / gbps / 1000.0
}

#[test]
fn lanes_that_are_lost_take_their_share_of_the_rate() {
    // NDR has four lanes of 100 Gb/s. With 4, 2 and 1 of them the difference is that of the time on the link; a hop's latency stays.
    let (whole, _) = to_host_0("", "");
    for lanes in [1, 2, 3] {
        let (taken, run) = to_host_0("", &fault(&format!("lane_loss = {{ link = \"node 0\", lanes = {lanes} }}")));
        let expected = on_the_link(100.0 * f64::from(lanes)) - on_the_link(400.0);
        assert!(((taken - whole) / expected - 1.0).abs() < 0.03, "{lanes} lanes: {taken} us, {whole} us with four");
        assert_eq!(run.stats.drops, 0);
    }
}

#[test]
fn a_slow_receiver_sets_the_pace() {
    // Its memory takes payload at 100 Gb/s. What the adapter's buffer of 256 KiB holds is acknowledged before it is in memory, so the end
    // says less; what 4 MiB more take is 335.5 us.
    let slow = fault("slow_receiver = { node = \"node 0\", rate = \"100 Gb/s\" }");
    let (taken, run) = to_host_0("", &slow);
    let text = format!("cluster = \"lab-16\"\n{slow}[workload.incast]\nsenders = 1\nsize = \"8 MiB\"\n");
    let (more, expected) = (one(&text).end.as_ps() as f64 / 1e6 - taken, f64::from(4 << 20) * 8.0 / 100e3);
    assert!((more / expected - 1.0).abs() < 0.01, "{more} us, not {expected} us");
    assert!(taken > expected - 262_144.0 * 8.0 / 100e3, "{taken} us");
    assert_eq!(run.stats.drops, 0, "credits hold the sender back");
}

#[test]
fn a_limit_holds_a_connection_back() {
    // 40 Gb/s of 400: ten times as long; the limit is of bits that are sent.
    let (taken, _) = to_host_0("rate_limit = \"40 Gb/s\"", "");
    assert!((on_the_link(40.0) * 0.97..on_the_link(40.0) * 1.03).contains(&taken), "{taken} us, not {} us", on_the_link(40.0));
}

#[test]
fn a_fault_costs_what_it_takes_while_it_lasts() {
    // Half of the lanes for 40 us: 20 us of the link are lost, less the first microsecond, in which nothing has come. What waits in the
    // switch when the fault ends has its time on the link already: a buffer of 128 KiB, 2.6 us more at half of the rate.
    let (whole, _) = to_host_0("", "");
    let (taken, run) = to_host_0("", &fault("lane_loss = { link = \"node 0\", lanes = 2, lasts = \"40 us\" }"));
    assert!((18.0..22.6).contains(&(taken - whole)), "{taken} us, {whole} us without");
    let breakage = run.breakage.unwrap();
    assert_eq!(breakage.faults[0].until.map(|until| until.as_ps()), Some(40_000_000));
    // A fault after the end changes nothing.
    let late = fault("lane_loss = { link = \"node 0\", lanes = 1 }").replace("0 us", "10 ms");
    assert_eq!(to_host_0("", &late).0, whole);
}

#[test]
fn what_a_dead_link_loses_is_sent_again() {
    // The only link to host 0 is down from 10 us to 110 us. The sender hears nothing and repeats after 4.096 us · 2⁷ = 524 us from its
    // last acknowledgement or later; nothing is lost for good.
    let down = fault("link_down = { link = \"node 0\", lasts = \"100 us\" }").replace("0 us\"\nkind", "10 us\"\nkind");
    let (taken, run) = to_host_0("recovery = { timeout = 7 }", &down);
    let breakage = run.breakage.unwrap();
    assert!(breakage.faults[0].packets_lost > 0 && breakage.repeated > 0 && breakage.failed == 0, "{breakage:?}");
    assert!(taken > 524.0 + on_the_link(400.0) - 10.0, "{taken} us");
    assert!(taken < 524.0 * 4.0, "{taken} us");
    assert_eq!(run.stats.bytes_delivered.min(4 << 20), 4 << 20);
}

#[test]
fn a_link_that_stays_down_ends_in_an_error() {
    // Without an alternate path: two repetitions, then the connection gives up. 4.096 us · 2⁴ = 65.5 us each.
    let down = fault("link_down = { link = \"node 0\" }").replace("0 us\"\nkind", "10 us\"\nkind");
    let text = format!(
        "cluster = \"lab-16\"\nrecovery = {{ timeout = 4, retry_cnt = 2 }}\n{down}[workload.incast]\nsenders = 1\nsize = \"4 MiB\"\n"
    );
    let run = one(&text);
    let breakage = run.breakage.unwrap();
    assert_eq!((breakage.failed, run.stats.bytes_delivered < 4 << 20), (1, true), "{breakage:?}");
}

#[test]
fn losses_grow_with_their_share() {
    // 1 MiB from each of 16 hosts: 4096 packets over two links each, 8192 chances. At a share s about 8192 s are lost.
    let lost = |share: f64| {
        let text =
            format!("cluster = \"lab-16\"\n{}[workload.permutation]\nsize = \"1 MiB\"\n", fault(&format!("loss = {{ share = {share} }}")));
        let run = one(&text);
        assert_eq!(run.stats.messages, 16, "{share}");
        run.breakage.unwrap().faults[0].packets_lost
    };
    let (none, few, more) = (lost(0.0), lost(0.001), lost(0.01));
    assert_eq!(none, 0);
    // Repetitions of whole windows add to the packets, and so to the losses: between the mean less three deviations and some times it.
    assert!((1..80).contains(&few) && few < more && more > 50, "{few}, {more}");
}

#[test]
fn incast_on_a_network_that_drops() {
    // Ethernet without pauses: 72 hosts send 1 MiB each into one port. The 64 ports of the switch have 128 MiB in common, of which
    // one queue takes at most half (alpha = 1): 72 MiB are more. The switch cuts payload off, or drops; all messages arrive all the same.
    let text = "cluster = \"lab-roce-128\"\nflow_control = \"lossy\"\n[workload.incast]\nsenders = 72\nsize = \"1 MiB\"\n";
    let run = one(text);
    assert_eq!(run.stats.messages, 72);
    assert!(run.stats.drops + run.stats.trims > 0 && run.stats.bytes_sent > 72 << 20 && run.stats.pauses == 0, "{:?}", run.stats);
    assert!(run.stats.deepest_queue <= 65 << 20, "{:?}", run.stats);
    // The same with pauses: nothing is dropped.
    let run = one(&text.replace("lossy", "lossless"));
    assert_eq!((run.stats.messages, run.stats.drops, run.stats.bytes_sent), (72, 0, 72 << 20));
}
