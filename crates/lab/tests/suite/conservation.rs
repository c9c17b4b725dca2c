//! What is counted and what is seen agree: nothing appears on a link that did not enter it, and taps see what counters count.

use crate::labs::catalog;
use std::collections::BTreeMap;

use fabriscope_engine::{Counter, CounterPlace, Counting, Run, Seen};
use fabriscope_fabric::{EndpointId, LinkId, Node};
use fabriscope_lab::memory::{Memory, rounded};
use fabriscope_lab::run::{LabRun, RunSettings, SingleRun, run};
use fabriscope_lab::tap::CaptureRequest;
use fabriscope_lab::{Job, JobPattern, parse, published};
use fabriscope_units::Bytes;

fn watched(text: &str, taps: &[&str]) -> SingleRun {
    let lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let capture = CaptureRequest {
        file: (!taps.is_empty()).then(|| "not-written.pcap".into()),
        taps: taps.iter().map(|tap| (*tap).to_owned()).collect(),
        snap: None,
    };
    let settings = RunSettings { counting: Counting::Sums, capture, ..RunSettings::default() };
    match run(catalog(), &lab, &settings).unwrap_or_else(|error| panic!("{error}\n{text}")) {
        LabRun::One(single) => *single,
        LabRun::Sweep(_) => panic!("a sweep: {text}"),
    }
}

const LEAVES: &str = "[cluster]\nbase = \"lab-16\"\ntopology.leaf_spine = { leaves = 4, down = 4, spines = 2 }\n";

fn labs() -> Vec<String> {
    let workloads = [
        "all_to_all]\nsize = \"10 KiB\"",
        "permutation]\nsize = \"100 KiB\"",
        "incast]\nsenders = 12\nsize = \"64 KiB\"",
        "halo]\ngrid = [4, 4]\nsize = \"5 KiB\"",
        "ring_all_reduce]\nsize = \"64 KiB\"",
    ];
    workloads.iter().map(|workload| format!("{LEAVES}[workload.{workload}\n")).collect()
}

fn total(run: &Run, place: CounterPlace, counter: Counter) -> u64 {
    run.counters.as_ref().unwrap().total(place, counter)
}

#[test]
fn what_leaves_one_end_of_a_link_reaches_the_other() {
    for text in labs() {
        let single = watched(&text, &[]);
        let (run, graph) = (&single.run, &single.cluster.fabric.graph);
        for link in 0..graph.link_count() {
            for (sent, received) in [(Counter::XmitPackets, Counter::RcvPackets), (Counter::XmitBytes, Counter::RcvBytes)] {
                let there = total(run, CounterPlace::far(link), received);
                assert_eq!(total(run, CounterPlace::Port(link), sent), there, "{text}: link {link}");
            }
        }
    }
}

#[test]
fn switches_keep_nothing() {
    // Every packet that comes into a switch leaves it; adapters send what they built and get what is for them.
    for text in labs() {
        let single = watched(&text, &[]);
        let (run, graph) = (&single.run, &single.cluster.fabric.graph);
        let mut through: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for link in 0..graph.link_count() {
            if let Node::Switch(switch) = graph.node(graph.link(LinkId(link)).from) {
                let (came, left) = through.entry(switch.0).or_default();
                *came += total(run, CounterPlace::Port(link), Counter::RcvPackets);
                *left += total(run, CounterPlace::Port(link), Counter::XmitPackets);
            }
        }
        for (switch, (came, left)) in &through {
            assert_eq!(came, left, "{text}: switch {switch}");
        }
        for endpoint in 0..16 {
            let port = CounterPlace::Port(graph.uplink(EndpointId(endpoint)).0);
            let adapter = CounterPlace::Adapter(endpoint);
            assert_eq!(total(run, adapter, Counter::TxPackets), total(run, port, Counter::XmitPackets), "{text}: adapter {endpoint}");
            assert_eq!(total(run, adapter, Counter::RxPackets), total(run, port, Counter::RcvPackets), "{text}: adapter {endpoint}");
        }
        let counters = run.counters.as_ref().unwrap();
        assert_eq!(counters.sum(Counter::TxPayload), run.stats.bytes_sent, "{text}");
        assert_eq!(counters.sum(Counter::RxPayload), run.stats.bytes_delivered, "{text}");
        assert_eq!(counters.sum(Counter::XmitPackets), run.stats.packet_hops, "{text}");
        assert_eq!(counters.sum(Counter::TxPackets), run.stats.packets, "{text}");
        // Nothing went wrong on an idle network: no repetition, no error.
        for counter in
            [Counter::Retransmissions, Counter::OutOfSequence, Counter::RcvErrors, Counter::LocalAckTimeoutErr, Counter::ReqCqeError]
        {
            assert_eq!(counters.sum(counter), 0, "{text}: {counter:?}");
        }
    }
}

#[test]
fn taps_see_what_counters_count() {
    for text in labs() {
        let single = watched(&text, &["node 0", "node 5"]);
        let (run, graph) = (&single.run, &single.cluster.fabric.graph);
        for node in [0, 5] {
            let link = graph.uplink(EndpointId(node));
            let seen = |number: u32, arrival: bool| {
                let here = run.sightings.iter().filter(|seen| seen.tap.link == number && seen.tap.arrival == arrival);
                here.filter(|seen| matches!(seen.seen, Seen::Packet { .. })).count() as u64
            };
            let port = CounterPlace::Port(link.0);
            assert_eq!(seen(link.0, false), total(run, port, Counter::XmitPackets), "{text}: node {node}");
            assert_eq!(seen(link.reverse().0, true), total(run, port, Counter::RcvPackets), "{text}: node {node}");
        }
        // In the order of time, and none after the end of the run but acknowledgements on their way.
        assert!(run.sightings.windows(2).all(|pair| pair[0].time <= pair[1].time), "{text}");
    }
}

#[test]
fn watching_changes_nothing() {
    for text in labs() {
        let lab = parse(catalog(), "lab.toml", &text).unwrap();
        let LabRun::One(plain) = run(catalog(), &lab, &RunSettings::default()).unwrap() else { panic!("a sweep") };
        let watched = watched(&text, &["nodes"]);
        assert_eq!(
            (plain.run.end, plain.run.stats.packets, &plain.run.ranks),
            (watched.run.end, watched.run.stats.packets, &watched.run.ranks),
            "{text}"
        );
    }
}

#[test]
fn sweeps_are_not_captured() {
    let text = "cluster = \"lab-16\"\n[workload.closed_loop]\npattern = \"uniform\"\noutstanding = [1]\nmessages = 1\nsize = \"1 KiB\"\n";
    let lab = parse(catalog(), "lab.toml", text).unwrap();
    let capture = CaptureRequest { file: Some("x.pcap".into()), ..CaptureRequest::default() };
    for settings in [RunSettings { capture, ..RunSettings::default() }, RunSettings { counting: Counting::Sums, ..RunSettings::default() }]
    {
        let error = run(catalog(), &lab, &settings).unwrap_err();
        assert!(error.to_string().contains("a sweep has several runs"), "{error}");
    }
}

#[test]
fn places_of_taps() {
    let lab = parse(catalog(), "lab.toml", &format!("{LEAVES}[workload.shift]\nby = 1\nsize = \"1 KiB\"\n")).unwrap();
    let cluster = fabriscope_engine::Cluster::new(lab.cluster).unwrap();
    let taps = |places: &[&str]| {
        let request =
            CaptureRequest { file: Some("x.pcap".into()), taps: places.iter().map(|place| (*place).to_owned()).collect(), snap: None };
        request.taps(&cluster).map(|taps| taps.unwrap().list().len())
    };
    // A port has two directions; without a place it is that of node 0; all adapters are 16 of them; all links 2 · (16 + 4 · 2).
    assert_eq!([taps(&[]).unwrap(), taps(&["node 3"]).unwrap(), taps(&["nodes"]).unwrap()], [2, 2, 32]);
    assert_eq!(taps(&["all"]).unwrap(), 2 * (16 + 8));
    // The same place twice is one.
    assert_eq!(taps(&["node 3", "node 3"]).unwrap(), 2);
    for (place, says) in [("node 16", "nodes 0 to 15"), ("leaf 9:0", "leaf 9"), ("node 0:x", "no port number")] {
        let error = taps(&[place]).unwrap_err().to_string();
        assert!(error.contains(says), "{place}: {error}");
    }
}

#[test]
fn jobs_have_their_streams() {
    let job = |pattern, hosts: &str| Job {
        name: "job".to_owned(),
        hosts: fabriscope_catalog::HostSet::parse(hosts).unwrap(),
        pattern,
        size: Bytes(1),
        messages: 1,
        outstanding: 1,
        software: None,
        service_level: None,
        priority: None,
        dscp: None,
        traffic_class: None,
        rate_limit: None,
        partition: None,
    };
    // Six hosts of which the last is beyond the cluster of nine: five. The middle one of an odd number is in no pair.
    let hosts = "1, 3, 5, 7, 8, 9";
    let table = [
        (JobPattern::Pairs, vec![(1, 5), (3, 7)]),
        (JobPattern::Ring, vec![(1, 3), (3, 5), (5, 7), (7, 8), (8, 1)]),
        (JobPattern::Incast, vec![(3, 1), (5, 1), (7, 1), (8, 1)]),
    ];
    for (pattern, streams) in table {
        assert_eq!(job(pattern, hosts).streams(9), streams, "{pattern:?}");
    }
    let all = job(JobPattern::AllToAll, hosts).streams(9);
    let mut different = all.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((all.len(), different.len()), (20, 20));
    assert!(all.iter().all(|(from, to)| from != to));
}

#[test]
fn memory_is_told_and_refused() {
    // 1536 KiB are 1.5 MiB; from ten on without decimals.
    let table = [(512, "512 B"), (1536, "1.5 KiB"), (10 << 10, "10 KiB"), (3 << 20, "3.0 MiB"), (5 << 39, "2.5 TiB")];
    for (bytes, text) in table {
        assert_eq!(rounded(Bytes(bytes)), text);
    }
    let memory = Memory { limit: Some(Bytes(1 << 20)), ..Memory::default() };
    assert!(memory.allow(Bytes(1 << 20), "less").is_ok());
    let error = memory.allow(Bytes((1 << 20) + 1), "use less").unwrap_err();
    assert!(error.to_string().contains("--memory allows 1.0 MiB"), "{error}");
}

#[test]
fn published_tables_speak_of_what_there_is() {
    // Every value has a unit and a source. Values of the same size, job and variant are repetitions: no two of
    // them are apart by more than a factor of three, as a slip of a digit would be.
    let tables = published::tables().unwrap();
    assert!(tables.len() >= 40, "{} tables", tables.len());
    let mut rows = 0;
    for table in &tables {
        assert!(!table.rows().is_empty(), "{}", table.name());
        let mut known = BTreeMap::new();
        for row in table.rows() {
            assert!(row.value >= 0.0 && row.value.is_finite() && !row.unit.is_empty() && row.source.len() > 3, "{}: {row:?}", table.name());
            let key = (&row.table, &row.variant, row.message_bytes, row.nodes, row.ranks, &row.metric, &row.benchmark, &row.notes);
            let (least, most) = known.entry(key).or_insert((row.value, row.value));
            (*least, *most) = (least.min(row.value), most.max(row.value));
            assert!(*most <= 3.0 * *least, "{}: {least} and {most} of {row:?}", table.name());
            rows += 1;
        }
    }
    assert!(rows > 400, "{rows} rows");
    assert!(published::tolerances().is_ok());
}
