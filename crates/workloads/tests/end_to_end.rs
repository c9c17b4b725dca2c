//! The tools on simulated clusters, from the command line to the table.

use fabriscope_catalog::{Catalog, Layer, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Run};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_workloads::{LinkType, Target, Tool, ToolOutput};

fn parts(cluster: &str) -> ResolvedCluster {
    let catalog = Catalog::embedded().unwrap();
    catalog.target(cluster).unwrap()
}

fn target(parts: &ResolvedCluster) -> Target {
    let nic = &parts.node.nic;
    Target {
        nodes: parts.nodes,
        devices: (0..parts.node.nics).map(|nic| format!("mlx5_{nic}")).collect(),
        link: if parts.link_layer.layer() == Layer::InfiniBand { LinkType::InfiniBand } else { LinkType::Ethernet },
        mtu: parts.mtu.0 as u32,
        max_inline: nic.max_inline.0 as u32,
        max_outstanding_reads: *nic.max_rd_atomic as u8,
        mpi: parts.software.mpi.clone(),
        perftest: parts.perftest.perftest.clone(),
    }
}

fn run_on(parts: &ResolvedCluster, line: &str) -> (ToolOutput, Run) {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let prepared = tool.prepare(&words.collect::<Vec<_>>(), &target(parts)).unwrap_or_else(|error| panic!("{line}: {error}"));
    let cluster = Cluster::new(parts.clone()).unwrap();
    let pair = cluster.pair(false);
    let nodes = (0..prepared.mains.len() as u32).map(|rank| if prepared.placing.seat(rank).0 == 0 { pair.0 } else { pair.1 }).collect();
    let run = PacketEngine::default().execute(&cluster, Job { nodes, mains: prepared.mains }, 1);
    let run = run.unwrap_or_else(|error| panic!("{line}: {error}"));
    ((prepared.finish)(), run)
}

fn run(line: &str) -> ToolOutput {
    run_on(&parts("ri2"), line).0
}

/// Values of one column by size.
fn column(output: &ToolOutput, metric: &str) -> Vec<(u64, f64)> {
    output.points.iter().filter(|point| point.metric == metric).map(|point| (point.size.0, point.value)).collect()
}

#[test]
fn see() {
    for line in std::env::var("LINES_TO_RUN").unwrap_or_default().split(';').filter(|line| !line.is_empty()) {
        let cluster = std::env::var("ON").unwrap_or("ri2".to_owned());
        let start = std::time::Instant::now();
        let (output, run) = run_on(&parts(&cluster), line);
        println!("{line}\n{}", output.text);
        println!("{:?} {:?} {:?}", run.end, run.stats, start.elapsed());
    }
}
