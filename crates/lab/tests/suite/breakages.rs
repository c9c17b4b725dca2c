//! Faults by their equals: the same outage said in two ways is the same run, hosts that stand alike suffer alike, and names that mean nothing are
//! refused with what would.

use crate::labs;
use fabriscope_engine::Run;
use labs::{one, read};
use miette::Diagnostic;

/// 16 hosts below one switch, and on four leaves with two spines.
const FLAT: &str = "cluster = \"lab-16\"\n";
const LEAVES: &str = "[cluster]\nbase = \"lab-16\"\ntopology.leaf_spine = { leaves = 4, down = 4, spines = 2 }\n";

fn fault(at: &str, kind: &str) -> String {
    format!("[[fault]]\nat = \"{at}\"\nkind.{kind}\n")
}

/// Host 1 sends 4 MiB to host 0.
fn sent(faults: &[String]) -> Run {
    sent_of("4 MiB", faults)
}

fn sent_of(size: &str, faults: &[String]) -> Run {
    one(&format!("{FLAT}recovery = {{ timeout = 4 }}\n{}[workload.incast]\nsenders = 1\nsize = \"{size}\"\n", faults.concat()))
}

/// What is the same in runs that are the same.
fn told(run: &Run) -> (u64, u64, u64, u64, u64) {
    let breakage = run.breakage.as_ref().unwrap();
    let lost = breakage.faults.iter().map(|fault| fault.packets_lost).sum();
    (run.end.as_ps(), run.stats.packets, lost, breakage.repeated, breakage.failed)
}

#[test]
fn an_outage_is_the_same_however_it_is_said() {
    let down = |at: &str, lasts: &str| fault(at, &format!("link_down = {{ link = \"node 0\", lasts = \"{lasts}\" }}"));
    // Down for 30 us, by its length or by an event that ends it.
    let by_length = sent(&[down("10 us", "30 us")]);
    let by_events = sent(&[fault("10 us", "link_down = { link = \"node 0\" }"), fault("40 us", "link_up = { link = \"node 0\" }")]);
    assert_eq!(told(&by_length), told(&by_events));
    assert!(told(&by_length).2 > 0, "{:?}", told(&by_length));
    // Down for 30 us in every 100 us, three times: a flapping link, or three outages.
    let flapping = sent(&[fault("10 us", "flapping = { link = \"node 0\", period = \"100 us\", duty = 0.7, count = 3 }")]);
    let outages = sent(&[down("10 us", "30 us"), down("110 us", "30 us"), down("210 us", "30 us")]);
    assert_eq!(told(&flapping), told(&outages));
    // The switch's end of the cable is the same cable.
    let port = sent(&[down("10 us", "30 us").replace("node 0", "switch 0:0")]);
    assert_eq!(told(&port), told(&by_length));
}

#[test]
fn hosts_that_stand_alike_suffer_alike() {
    // A shift by one on one switch looks the same from everywhere: the end does not say which of them lost its lanes.
    let ends: Vec<u64> = [0, 1, 7, 15]
        .map(|node| {
            let faults = fault("0 us", &format!("lane_loss = {{ link = \"node {node}\", lanes = 1 }}"));
            one(&format!("{FLAT}{faults}[workload.shift]\nby = 1\nsize = \"256 KiB\"\n")).end.as_ps()
        })
        .into();
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "{ends:?}");
}

#[test]
fn a_pause_holds_for_as_long_as_it_lasts() {
    // The port takes nothing for the first 50 us: the end is 50 us later, less the time before anything comes and what the switch has taken
    // by then: 128 KiB at 400 Gb/s are 2.62 us. The first comes before a message of 8 B is done, which waits for the acknowledgement as well,
    // and after half of that. A packet of 4 KiB takes 82 ns. The timer of 4.096 us · 2⁴ = 65.5 us does not run out.
    let nothing = [fault("0 us", "loss = { share = 0.0 }")];
    let end = |run: &Run| run.end.as_ps() as f64 / 1e6;
    let (whole, first) = (end(&sent(&nothing)), end(&sent_of("8 B", &nothing)));
    for lasts in [30.0, 50.0] {
        let taken = sent(&[fault("0 us", &format!("paused_port = {{ node = \"node 0\", lasts = \"{lasts} us\" }}"))]);
        let (later, earliest, latest) = (end(&taken) - whole, lasts - first - 2.62, lasts - first / 2.0 - 2.62);
        assert!(
            later > earliest - 0.082 && later < latest + 0.082,
            "{later} us later by a pause of {lasts} us, not {earliest} to {latest}"
        );
        assert_eq!((taken.stats.drops, told(&taken).2), (0, 0), "nobody drops anything");
    }
}

#[test]
fn every_message_arrives_around_a_dead_spine() {
    // Half of the ways between leaves die 5 us after the start. What was lost is sent again, over tables that the manager made anew.
    let text = format!(
        "recovery = {{ timeout = 10 }}\n{LEAVES}{}[workload.shift]\nby = 4\nsize = \"1 MiB\"\n",
        fault("5 us", "switch_death = { switch = \"spine 1\" }")
    );
    let run = one(&text);
    let breakage = run.breakage.unwrap();
    assert_eq!((run.stats.messages, breakage.failed, breakage.cut_off), (16, 0, 0), "{breakage:?}");
    assert!(breakage.faults[0].cuts && breakage.faults[0].packets_lost > 0 && !breakage.tables.is_empty(), "{breakage:?}");
    assert!(run.stats.bytes_delivered >= 16 << 20 && breakage.repeated > 0);
}

#[test]
fn names_that_mean_nothing_are_refused_with_what_would() {
    // Message, and a word of the remedy.
    let table = [
        ("loss = { share = 1.5 }", "`share` of 1.5 is not a share", "0.0 to 1.0"),
        ("bit_errors = { rate = -0.5 }", "`rate` of -0.5 is not a share", "0.0 to 1.0"),
        ("link_up = { link = \"node 0\" }", "`node 0` is not down at 1 us", "before this one"),
        ("flapping = { link = \"node 0\", period = \"0 us\", count = 1 }", "flaps without time or number", "1 ns"),
        ("flapping = { link = \"node 0\", period = \"1 us\", count = 2000000 }", "goes down 2000000 times", "at most 1000000"),
        ("flapping = { link = \"node 0\", period = \"1 us\", count = 1, duty = 2.0 }", "`duty` of 2 is not a share", "0.0 to 1.0"),
        ("flapping = { link = \"node 0\", period = \"1 us\", count = 1, duty = 1.0 }", "always up does not flap", "below 1.0"),
        ("lane_loss = { link = \"node 0\", lanes = 4 }", "4 of 4 lanes work", "1 to 3"),
        ("lane_loss = { link = \"leaf 0 -> spine 1\", lanes = 9 }", "9 of 4 lanes work", "1 to 3"),
        ("link_down = { link = \"leaf 0\" }", "which link of `leaf 0`?", "`leaf 0:PORT`"),
        ("link_down = { link = \"leaf 0:99\" }", "nothing is plugged into port `99` of `leaf 0`", "ports in use"),
        ("link_down = { link = \"node 16\" }", "there is no `node 16`", "nodes 0 to 15"),
        ("link_down = { link = \"node 0:1\" }", "there is no `node 0:1`", "1 adapters"),
        ("link_down = { link = \"node 0 -> node 1\" }", "no cable joins", "`leaf 0:3`"),
        ("switch_death = { switch = \"spine 7\" }", "the fabric has no `spine 7`", "did you mean"),
        ("slow_receiver = { node = \"leaf 0\", rate = \"1 Gb/s\" }", "`leaf 0` is no node", "`node 0` to `node 15`"),
        (
            "paused_port = { node = \"node 1\", lasts = \"1 ms\", watchdog = \"2 ms\" }",
            "the pause is over when the watchdog would bite",
            "shorter",
        ),
        ("link_down = { link = \"node 0\", lasts = \"400 s\" }", "later than time is counted", "leave `lasts` out"),
    ];
    for (kind, says, remedy) in table {
        let error = read(&format!("{LEAVES}{}[workload.shift]\nby = 1\nsize = \"1 KiB\"\n", fault("1 us", kind))).expect_err(kind);
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(error.to_string().contains(says), "{kind}: {error}");
        assert!(help.contains(remedy), "{kind}: {help}");
        // It lies in the table of the fault: lines 4 to 6 behind those of the cluster.
        let text = error.to_string();
        let line = text.strip_prefix("lab.toml:").and_then(|rest| rest.split(':').next()).and_then(|line| line.parse::<u32>().ok());
        assert!(line.is_some_and(|line| (4..=6).contains(&line)), "{kind}: {text}");
    }
}
