//! The numbers are those of the face of the library and of labs, to the picosecond: there is one model.

use std::fs;
use std::sync::Arc;

use fabriscope_c::{Cluster, Collective, CollectiveKind, CollectiveLibrary, Engine, Flow, Message, Operation, Order, completions};
use fabriscope_engine::Watch;
use fabriscope_lab::run::RunSettings;

/// The value in µs of `metric` that a benchmark prints, in picoseconds.
fn benched(bench: fabriscope::Bench<'_>, metric: &str) -> u64 {
    let outcome = bench.outcome().unwrap();
    let points = outcome.get("points").unwrap().as_array().unwrap().clone();
    let point = points.iter().find(|point| point["metric"] == metric).unwrap();
    (point["value"].as_f64().unwrap() * 1e6).round() as u64
}

#[test]
fn messages_are_those_of_the_latency_tests() {
    for name in ["ri2", "thor-roce-100g", "lab-iwarp-t5"] {
        let cluster = Cluster::open(name).unwrap();
        for bytes in [1, 4096, 100_000] {
            let tools = ["ib_write_lat", "ib_send_lat", "ib_read_lat"];
            for (tool, operation) in tools.into_iter().zip(Operation::ALL) {
                // The tool's own thousand exchanges.
                let asked = benched(fabriscope::bench(tool, name).args(["-s", &bytes.to_string()]), "latency");
                let message = Message { from: 0, to: 1, bytes, operation };
                assert_eq!(message.picoseconds(&cluster), Ok(asked), "{tool} of {bytes} on {name}");
                assert_eq!(message.picoseconds(&cluster), Ok(asked), "asked again");
            }
            let size = format!("{bytes}:{bytes}");
            let asked = benched(fabriscope::bench("osu_latency", name).args(["-m", &size]), "latency");
            assert_eq!(Message { from: 0, to: 1, bytes, operation: Operation::Mpi }.picoseconds(&cluster), Ok(asked), "MPI on {name}");
        }
    }
}

#[test]
fn messages_of_efa_go_over_srd() {
    let cluster = Cluster::open("aws-p5").unwrap();
    let asked = benched(fabriscope::bench("ib_write_lat", "aws-p5").args(["-s", "64", "-c", "SRD"]), "latency");
    assert_eq!(Message { from: 0, to: 1, bytes: 64, operation: Operation::Write }.picoseconds(&cluster), Ok(asked));
}

/// Hops of a fat tree with three levels: 1, 3 and 5 switches.
#[test]
fn messages_to_farther_nodes_take_longer() {
    let cluster = Cluster::open("lab-1024").unwrap();
    let to = |to| Message { from: 0, to, bytes: 8, operation: Operation::Write }.picoseconds(&cluster).unwrap();
    assert!(to(1) < to(32) && to(32) < to(1023), "{} {} {}", to(1), to(32), to(1023));
    assert_eq!(to(1), to(2));
}

#[test]
fn collectives_of_mpi_are_those_of_the_osu_benchmarks() {
    let cluster = Cluster::open("azure-hc44rs").unwrap();
    let tools = ["osu_allreduce", "osu_bcast", "osu_reduce", "osu_allgather", "osu_reduce_scatter", "osu_alltoall", "osu_barrier"];
    for (tool, kind) in tools.into_iter().zip(CollectiveKind::ALL) {
        for (engine, word) in [(Engine::Auto, "auto"), (Engine::Packet, "packet"), (Engine::Flow, "flow")] {
            let bench = fabriscope::bench(tool, "azure-hc44rs").nodes(3).ranks_per_node(2).engine(word);
            let bench = if kind == CollectiveKind::Barrier { bench } else { bench.args(["-m", "2400:2400"]) };
            let library = CollectiveLibrary::Mpi;
            let asked = Collective { kind, library, nodes: 3, ranks_per_node: 2, bytes: 2400, engine };
            assert_eq!(asked.picoseconds(&cluster), Ok(benched(bench, "latency")), "{tool} {word}");
        }
    }
}

#[test]
fn collectives_of_nccl_are_those_of_nccl_tests() {
    let cluster = Cluster::open("azure-ndh100v5").unwrap();
    let tools = ["all_reduce_perf", "broadcast_perf", "reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf"];
    for (tool, kind) in tools.into_iter().zip(CollectiveKind::ALL) {
        // What one rank gives is a sixteenth of what nccl-tests count of an all-gather and an all-to-all.
        let blocks = if matches!(kind, CollectiveKind::Allgather | CollectiveKind::Alltoall) { 16 } else { 1 };
        let size = "65536";
        let bench = fabriscope::bench(tool, "azure-ndh100v5").nodes(2).args(["-b", size, "-e", size]);
        let asked = Collective {
            kind,
            library: CollectiveLibrary::Nccl,
            nodes: 2,
            ranks_per_node: 0,
            bytes: 65_536 / blocks,
            engine: Engine::Auto,
        };
        assert_eq!(asked.picoseconds(&cluster), Ok(benched(bench, "time")), "{tool}");
    }
}

/// An incast as a lab runs it, message by message.
fn of_lab(cluster: &str, engine: &str, more: &str) -> Vec<(Flow, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    let text = format!("cluster = \"{cluster}\"\nengine = \"{engine}\"\n[workload.incast]\nsenders = 8\nsize = \"64 KiB\"\n{more}");
    fs::write(&file, text).unwrap();
    let settings = RunSettings { flows: Watch::On, ..RunSettings::default() };
    let outcome = fabriscope::run(&file).settings(settings).outcome().unwrap();
    let rows = outcome.recorded("flows").unwrap().json();
    let flow = |row: &serde_json::Value| {
        let number = |key: &str| row[key].as_u64().unwrap();
        let (from, to) = (number("from") as u32, number("to") as u32);
        let flow = Flow { from, to, bytes: number("bytes"), start_ps: number("arrival_ps"), ..Flow::default() };
        (flow, number("arrival_ps") + number("fct_ps"))
    };
    rows.as_array().unwrap().iter().map(flow).collect()
}

#[test]
fn flows_are_those_of_a_lab() {
    for (name, more, order) in [("lab-16", "", Order::AdapterOrder), ("lab-1024", "any_order = true\n", Order::AnyOrder)] {
        let cluster = Cluster::open(name).unwrap();
        for (engine, word) in [(Engine::Packet, "packet"), (Engine::Flow, "flow")] {
            let (flows, done): (Vec<Flow>, Vec<u64>) = of_lab(name, word, more).into_iter().unzip();
            assert_eq!(flows.len(), 8);
            assert_eq!(completions(&cluster, &flows, engine, order, 1), Ok(done), "{name} {word}");
        }
    }
}

/// A write of S bytes takes at least S / C of the link, here 400 Gb/s, and nothing else is there to wait for; a later start shifts it.
#[test]
fn a_flow_alone_takes_its_bytes_over_the_rate_and_a_latency() {
    let cluster = Cluster::open("lab-16").unwrap();
    let flow = Flow { from: 3, to: 9, bytes: 1 << 20, ..Flow::default() };
    for engine in [Engine::Packet, Engine::Flow] {
        let took = completions(&cluster, &[flow], engine, Order::AdapterOrder, 1).unwrap()[0];
        // 2²⁰ · 8 / 0.4 ps = 20.97 µs; then headers, 256 times some 60 bytes, are 0.3 µs, and post, way and completion some 2 µs.
        let serial = (1 << 20) * 8 * 10 / 4;
        assert!((serial..serial + 3_000_000).contains(&took), "{engine:?}: {took}");
        let later = Flow { start_ps: 5_000_000, ..flow };
        assert_eq!(completions(&cluster, &[later], engine, Order::AdapterOrder, 1), Ok(vec![took + 5_000_000]));
    }
}

/// The order in which flows are given decides nothing but that of the answers.
#[test]
fn flows_in_another_order_have_the_same_times() {
    let cluster = Cluster::open("lab-16").unwrap();
    let flow = |from| Flow { from, to: 0, bytes: 10_000, start_ps: u64::from(from % 3) * 1_000_000, ..Flow::default() };
    let flows: Vec<Flow> = (1..8).map(flow).collect();
    let backwards: Vec<Flow> = flows.iter().rev().copied().collect();
    let mut done = completions(&cluster, &backwards, Engine::Packet, Order::AdapterOrder, 1).unwrap();
    done.reverse();
    assert_eq!(completions(&cluster, &flows, Engine::Packet, Order::AdapterOrder, 1), Ok(done));
}

#[test]
fn threads_that_share_a_cluster_get_the_same_answers() {
    let cluster = Arc::new(Cluster::open("lab-16").unwrap());
    let ask = |cluster: &Cluster| -> Vec<u64> {
        let message = |to| Message { from: 0, to, bytes: 64, operation: Operation::Send }.picoseconds(cluster).unwrap();
        let flow = Flow { from: 1, to: 2, bytes: 4096, ..Flow::default() };
        (1..16).map(message).chain(completions(cluster, &[flow], Engine::Packet, Order::AdapterOrder, 1).unwrap()).collect()
    };
    let alone = ask(&Cluster::open("lab-16").unwrap());
    let threads: Vec<_> = (0..4).map(|_| Arc::clone(&cluster)).map(|cluster| std::thread::spawn(move || ask(&cluster))).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), alone);
    }
}
