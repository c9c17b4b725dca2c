//! `IMB-MPI1` on simulated clusters.

use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Remedy;

use crate::machine::{column, latency, parts, ri2};

/// `IMB-MPI1` with these words, on nodes as far apart as there are.
fn job(cluster: &str, nodes: u32, per_node: u32, line: &str) -> ToolOutput {
    let parts = if cluster == "ri2" { ri2(nodes, 1) } else { parts(cluster) };
    let target = Target::of(&parts, Layout { nodes, per_node }, Binding::default());
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let prepared = Tool::by_name("IMB-MPI1").unwrap().prepare(&words, &target).unwrap();
    let cluster = Cluster::new(parts).unwrap();
    let place = |rank: u32| prepared.placing.seat(rank).0 * (cluster.nodes() - 1) / (nodes - 1);
    let places = (0..prepared.mains.len() as u32).map(place).collect();
    let run = PacketEngine.run(&cluster, Job::programs(places, prepared.mains), &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {}", error.in_full()));
    (prepared.finish)()
}

fn refused(nodes: u32, per_node: u32, line: &str) -> String {
    let target = Target::of(&parts("ri2"), Layout { nodes, per_node }, Binding::default());
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Tool::by_name("IMB-MPI1").unwrap().prepare(&words, &target).unwrap_err().in_full()
}

/// The lines from the first rule on.
fn table(output: &ToolOutput) -> Vec<&str> {
    output.text.lines().skip_while(|line| !line.starts_with("#--")).collect()
}

/// Roots alone wait, so that others run ahead of them; the packets of two of them overtake each other where routing adapts.
#[test]
fn ranks_that_run_ahead_of_a_root_arrive() {
    for cluster in ["ri2", "lab-1024", "lab-dragonfly-72"] {
        for operation in ["Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv"] {
            let output = job(cluster, 3, 2, &format!("{operation} -iter 40 -msglog 3:4"));
            let rows = column(&output, "latency");
            assert!(rows.iter().filter(|(size, _)| *size > 0).all(|(_, value)| *value > 0.0), "{cluster} {operation}: {rows:?}");
        }
    }
}

/// The same exchange as that of osu_latency, which prints half a round trip as well.
#[test]
fn ping_pong_is_that_of_osu_latency() {
    let output = job("ri2", 2, 1, "PingPong -msglog 3:12");
    let rows = table(&output);
    assert_eq!(rows[0], "#---------------------------------------------------");
    assert_eq!(rows[1..4], ["# Benchmarking PingPong ", "# #processes = 2 ", rows[0]]);
    assert_eq!(rows[4], "       #bytes #repetitions      t[usec]   Mbytes/sec");
    let times = column(&output, "latency");
    assert_eq!(times.iter().map(|(size, _)| *size).collect::<Vec<_>>(), [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
    for size in [8u64, 4096] {
        let osu = latency(&parts("ri2"), &format!("osu_latency -m {size}:{size}"));
        let own = times.iter().find(|(other, _)| *other == size).unwrap().1;
        assert!((own / osu - 1.0).abs() < 0.02, "{size} B: {own} and {osu} us");
        // A Mbyte is a million bytes.
        let rate = column(&output, "bandwidth").iter().find(|(other, _)| *other == size).unwrap().1;
        assert!((rate - size as f64 / own).abs() < 1e-9 * rate);
    }
}

/// Both send at once, and neither waits for the other: as long as one way of PingPong, or a little longer.
#[test]
fn ping_ping_crosses_itself() {
    let time = |name: &str| column(&job("ri2", 2, 1, &format!("{name} -msglog 3:3")), "latency")[1].1;
    let (one, both) = (time("PingPong"), time("PingPing"));
    assert!((1.0..1.3).contains(&(both / one)), "{both} and {one}");
}

#[test]
fn transfers_of_two_ranks_leave_the_others_alone() {
    let output = job("ri2", 2, 2, "PingPing -npmin 2 -msglog 0:0 -iter 3");
    assert_eq!(table(&output)[2..4], ["# #processes = 2 ", "# ( 2 additional processes waiting in MPI_Barrier)"]);
    assert_eq!(output.remarks, ["PingPing: ranks 0 and 1 are on one node; with --ppn 1 they are on two"]);
    let alone = job("ri2", 3, 1, "PingPing -msglog 0:0 -iter 3");
    assert_eq!(table(&alone)[3], "# ( 1 additional process waiting in MPI_Barrier)");
}

/// A rank of Sendrecv has its message once each way, a rank of Exchange twice: so often the port counts.
#[test]
fn chains_count_what_each_rank_moves() {
    let bandwidth = |name: &str| {
        let output = job("ri2", 4, 1, &format!("{name} -msglog 22:22 -iter 3"));
        assert_eq!(table(&output)[0].len(), 6 * 13, "{}", output.text);
        assert_eq!(table(&output)[4], "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec");
        column(&output, "bandwidth")[1].1
    };
    // 100 Gb/s each way: 12,500 MB/s in and as many out, less what is not payload and what one after the other costs.
    for name in ["Sendrecv", "Exchange"] {
        let rate = bandwidth(name);
        assert!((20_000.0..25_000.0).contains(&rate), "{name}: {rate} MB/s");
    }
}

/// Windows of 64 messages fill the port one way. Both ways, the side that waits for the byte back finds the other's announcements
/// already there: its reads are in its queue before its own announcements, so that the two ways do not begin together. The rate of
/// messages is that of bytes by their size.
#[test]
fn windows_fill_the_port() {
    let run = |name: &str, per_node: u32| job("ri2", 2, per_node, &format!("{name} -msglog 20:20 -iter 2"));
    for (name, least, port) in [("Uniband", 0.9, 12_500.0), ("Biband", 0.7, 25_000.0)] {
        for per_node in [1, 2] {
            let output = run(name, per_node);
            assert_eq!(table(&output)[4], "       #bytes #repetitions   Mbytes/sec      Msg/sec");
            let (bytes, messages) = (column(&output, "bandwidth")[1].1, column(&output, "message_rate")[1].1);
            assert!((least * port..port).contains(&bytes), "{name} of {per_node}: {bytes} MB/s");
            assert!((messages * f64::from(1 << 20) / 1e6 - bytes).abs() < 1e-9 * bytes, "{name}: {messages} and {bytes}");
        }
    }
    assert!(refused(3, 1, "Uniband").contains("3 is odd; use an even number"), "{}", refused(3, 1, "Uniband"));
}

#[test]
fn what_is_refused_says_what_to_type() {
    assert!(refused(1, 1, "PingPong").contains("needs two ranks; add --nodes 2"), "{}", refused(1, 1, "PingPong"));
    assert!(refused(2, 2, "-npmin 2 Exchange").contains("smaller groups than the 4 ranks"), "{}", refused(2, 2, "-npmin 2 Exchange"));
    assert!(refused(2, 1, "PingPong Bcast").contains("asked for PingPong and for Bcast"), "{}", refused(2, 1, "PingPong Bcast"));
    assert!(refused(2, 1, "Window").contains("not modelled; name PingPong, Sendrecv"), "{}", refused(2, 1, "Window"));
}
