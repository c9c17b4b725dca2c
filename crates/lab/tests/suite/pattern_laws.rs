//! Laws of patterns for any number of hosts and any size: how many messages there are, that all bytes arrive, how long links need.

use crate::labs;
use std::collections::BTreeSet;

use fabriscope_lab::{Job, JobPattern};
use fabriscope_units::Bytes;
use labs::{hosts, number, one, resolved, rows};
use proptest::prelude::*;

/// A workload on `n` hosts and the number of its messages.
fn workload(kind: u8, n: u32, size: u64, by: u32) -> (String, u64) {
    let (hosts, size) = (u64::from(n), format!("size = \"{size} B\""));
    match kind {
        0 => (format!("permutation]\n{size}"), hosts),
        // A shift by a multiple of n is none.
        1 => (format!("shift]\nby = {}\n{size}", 1 + by % (n - 1)), hosts),
        2 => (format!("all_to_all]\n{size}"), hosts * (hosts - 1)),
        3 => (format!("incast]\nsenders = {}\n{size}", 1 + by % (n - 1)), u64::from(1 + by % (n - 1))),
        // Each host sends as many as the others: rounded up.
        4 => (format!("uniform]\nmessages = {}\n{size}", by + 1), u64::from(by + 1).div_ceil(hosts) * hosts),
        5 => (format!("ring]\n{size}"), hosts),
        // A line of n processes: n − 1 pairs, both ways.
        6 => (format!("halo]\ngrid = [{n}]\n{size}"), 2 * (hosts - 1)),
        _ => (format!("hot_spot]\nshare = 0.5\nmessages = {}\n{size}", 1 + by % 4), hosts * u64::from(1 + by % 4)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Both engines deliver every byte of every message, once.
    #[test]
    fn every_byte_arrives(kind in 0u8..8, n in 2u32..17, size in 1u64..20_000, by in 0u32..50) {
        let (text, messages) = workload(kind, n, size, by);
        for engine in ["packet", "flow"] {
            let stats = one(&hosts(n, &format!("engine = \"{engine}\""), &text)).stats;
            prop_assert_eq!((stats.messages, stats.bytes_delivered, stats.drops), (messages, messages * size, 0), "{}: {}", engine, text);
        }
    }

    /// No pattern ends before the busiest host has put its bytes on its link of 400 Gb/s; each rank is done by the end.
    #[test]
    fn nothing_is_faster_than_the_link(kind in 0u8..8, n in 2u32..17, size in 1u64..200_000) {
        let (text, messages) = workload(kind, n, size, 5);
        let run = one(&hosts(n, "", &text));
        // Some host sends at least the mean of all.
        let least = (messages * size).div_ceil(u64::from(n)) as f64 * 8.0 / 0.4;
        prop_assert!(run.end.as_ps() as f64 > least, "{} ps, the bytes take {}", run.end.as_ps(), least);
        prop_assert!(run.ranks.iter().all(|done| *done <= run.end));
        prop_assert_eq!(run.ranks.iter().max(), Some(&run.end));
    }

    /// Longer messages never end earlier.
    #[test]
    fn longer_messages_end_later(kind in 0u8..7, n in 2u32..10, size in 300u64..50_000) {
        let end = |size: u64| one(&hosts(n, "", &workload(kind, n, size, 4).0)).end;
        prop_assert!(end(size) < end(2 * size + 4096));
    }
}

#[test]
fn hosts_are_alike_on_one_switch() {
    // A shift by any number is the same for all hosts, and all shifts are the same: one time for everybody.
    let mut ends = BTreeSet::new();
    for by in [1, 2, 7, 15] {
        let run = one(&hosts(16, "", &format!("shift]\nby = {by}\nsize = \"64 KiB\"")));
        assert_eq!(run.ranks.iter().collect::<BTreeSet<_>>().len(), 1, "a shift by {by}: {:?}", run.ranks);
        ends.insert(run.end);
    }
    assert_eq!(ends.len(), 1, "{ends:?}");
}

#[test]
fn an_incast_takes_the_time_of_all_its_senders() {
    // All bytes go over the receiver's link, and what its first message waits for is the same: each sender more adds its bytes, in packets of
    // 4096 B with 26 B of headers at 400 Gb/s, to a hundredth.
    let end = |senders: u32| one(&hosts(16, "", &format!("incast]\nsenders = {senders}\nsize = \"1 MiB\""))).end.as_ps() as f64;
    let each = 256.0 * 4122.0 * 8.0 / 0.4;
    for senders in [2u32, 5, 15] {
        let more = end(senders) - end(1);
        assert!((more / (f64::from(senders - 1) * each) - 1.0).abs() < 0.01, "{senders} senders: {more} ps more");
    }
}

fn job(pattern: JobPattern, hosts: &str) -> Job {
    let words = match pattern {
        JobPattern::Pairs => "pairs",
        JobPattern::Ring => "ring",
        JobPattern::Incast => "incast",
        JobPattern::AllToAll => "all_to_all",
    };
    let text = format!(
        "cluster = \"lab-16\"\n[[workload.jobs.jobs]]\nname = \"a\"\nhosts = \"{hosts}\"\npattern = \"{words}\"\nsize = \"1 KiB\"\nmessages = 1\n"
    );
    let fabriscope_lab::Workload::Jobs(work) = resolved(&text).lab.workload else { panic!("{text}") };
    work.jobs[0].clone()
}

#[test]
fn jobs_send_as_their_patterns_say() {
    // Hosts in the order of the list are ranks 0 to 3: 4, 9, 2 and 6.
    let streams = |pattern| job(pattern, "4, 9, 2, 6").streams(16);
    assert_eq!(streams(JobPattern::Pairs), [(4, 2), (9, 6)]);
    assert_eq!(streams(JobPattern::Ring), [(4, 9), (9, 2), (2, 6), (6, 4)]);
    assert_eq!(streams(JobPattern::Incast), [(9, 4), (2, 4), (6, 4)]);
    let all: BTreeSet<(u32, u32)> = streams(JobPattern::AllToAll).into_iter().collect();
    let expected = [4, 9, 2, 6].into_iter().flat_map(|from| [4, 9, 2, 6].map(|to| (from, to))).filter(|(from, to)| from != to);
    assert_eq!(all, expected.collect::<BTreeSet<_>>());
    // Of five hosts the last has no partner.
    assert_eq!(job(JobPattern::Pairs, "0-4").streams(16), [(0, 2), (1, 3)]);
}

#[test]
fn jobs_that_share_nothing_do_not_feel_each_other() {
    // Two rings on hosts of one switch: no link is in both. Alone and together each message takes the same, and the ratio is one.
    let job = |name: &str, hosts: &str| {
        format!("[[workload.jobs.jobs]]\nname = \"{name}\"\nhosts = \"{hosts}\"\npattern = \"ring\"\nsize = \"64 KiB\"\nmessages = 4\n")
    };
    let apart = rows(&format!("cluster = \"lab-16\"\n{}{}", job("a", "0-7"), job("b", "8-15")), "jobs");
    assert_eq!(apart.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    for row in &apart {
        assert_eq!(number(row, "alone_median_ps"), number(row, "one_class_median_ps"), "{row}");
        assert_eq!(number(row, "own_to_alone"), 1.0, "{row}");
    }
    // Two incasts into one switch port have to share it: twice the time.
    let incast = |name: &str, hosts: &str| job(name, hosts).replace("ring", "incast");
    let together = rows(&format!("cluster = \"lab-16\"\n{}{}", incast("a", "0-7"), incast("b", "0, 8-15")), "jobs");
    for row in &together {
        let ratio = number(row, "one_class_median_ps") / number(row, "alone_median_ps");
        assert!(ratio > 1.4, "{row}");
    }
}

#[test]
fn quantiles_of_sweeps_are_in_order() {
    // The 99th percentile is no less than the median; no message is faster than its bits; the sums are those of the file.
    let open = "cluster = \"lab-16\"\n[workload.open_loop]\npattern = \"uniform\"\nloads = [0.2, 0.5, 0.7]\nsize = \"4 KiB\"\nwarm_up = \"2 us\"\nwindow = \"20 us\"\n";
    let closed =
        "cluster = \"lab-16\"\n[workload.closed_loop]\npattern = \"uniform\"\noutstanding = [1, 2, 8]\nmessages = 50\nsize = \"4 KiB\"\n";
    let bits = 4122.0 * 8.0 / 0.4;
    for text in [open, closed] {
        let points = rows(text, "points");
        assert_eq!(points.len(), 3);
        for row in &points {
            let [median, p99, mean] = ["median_ps", "p99_ps", "mean_ps"].map(|key| number(row, key));
            assert!(bits < median && median <= p99 && mean <= p99 && mean > bits, "{row}");
        }
    }
    // An open loop of load a on 16 links for 20 us: a · 16 · 20 us / slot messages on average, give or take four deviations.
    for row in rows(open, "points") {
        let expected = number(&row, "load") * 16.0 * 20e6 / bits;
        let (messages, four) = (number(&row, "messages"), 4.0 * expected.sqrt());
        assert!((messages - expected).abs() < four + 0.05 * expected, "{messages} messages, {expected} are expected");
    }
}

#[test]
fn victims_are_no_faster_beside_an_incast() {
    let text = "cluster = \"lab-roce-128\"\n[workload.interference]\nsenders = 12\nsize = \"200 kB\"\nvictims = 2\nvictim_size = \"400 kB\"\nschemes = [{ flow_control = \"lossless\" }, { congestion = \"dcqcn\", flow_control = \"lossless\" }]\n";
    let schemes = rows(text, "schemes");
    assert_eq!(schemes.len(), 2);
    // 12 · 200 kB over one link of the receiver, whose rate the cluster says, take at least their bits.
    let parts = resolved(text).cluster;
    let least = parts.sole().link.data_rate().time(Bytes(12 * 200_000)).as_ps() as f64;
    for row in &schemes {
        assert!(number(row, "slowdown") >= 0.999, "{row}");
        assert!(number(row, "last_ps") > least, "{row}");
        assert_eq!(number(row, "drops"), 0.0, "lossless: {row}");
        assert_eq!(row["incast_ps"].as_array().unwrap().len(), 12);
        assert_eq!(row["victims_ps"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn endpoints_are_those_of_the_lab() {
    // Nodes of an inline cluster: as many endpoints, and none beyond.
    let lab = resolved(&hosts(5, "", "ring]\nsize = \"1 KiB\""));
    assert_eq!(lab.cluster.endpoints(), 5);
    assert_eq!(lab.cluster.hosts().collect::<Vec<_>>().len(), 5);
}
