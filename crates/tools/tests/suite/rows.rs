//! Every tool of the list runs: the smallest case of each, on a cluster that has what it needs. A row of a table that lacks its loop, or
//! whose traits do not say what it prints, fails here.

use crate::machine;
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_node::Record;
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::{Data, Exchange, Measures, Operation, PerNode, Ranks, SizeOption, Suite, Tool, ToolOutput, Traits};

/// A cluster that has what the tools of a suite need, and how many of its nodes take part.
fn place(name: &str, traits: &Traits) -> (&'static str, u32) {
    match (traits.suite, traits.data) {
        (Suite::Gpu, _) if traits.operation == Operation::Exchange => ("lab-ualink", 1),
        (Suite::Gpu, _) => ("gdrcopy-v100", 1),
        (Suite::Experts, _) => ("azure-ndh100v5", 2),
        (Suite::Hccl, _) => ("gaudi2-1024", 1),
        (Suite::Wafer, _) => ("cs-2-16", 1),
        (Suite::Memory, _) => ("lab-cxl-3", 1),
        (Suite::Dpu, _) => ("lab-bluefield-2", 1),
        (Suite::NcclTests, _) => ("azure-nda100v4", 1),
        (Suite::OmbXccl, _) => ("azure-ndh100v5", 2),
        (_, Data::OnGpus) => ("olivia-gh200-ss11", 1),
        (Suite::Perftest | Suite::OmbShmem, _) if !name.starts_with("raw") => ("ri2", 2),
        _ => ("alaska-roce25", 2),
    }
}

/// The smallest case.
fn line(tool: Tool, traits: &Traits) -> String {
    let counts = match (traits.suite, traits.operation) {
        (Suite::Perftest, _) => "-n 5",
        (Suite::Omb | Suite::OmbShmem | Suite::OmbXccl, _) => "-i 1 -x 0",
        (Suite::Single, Operation::Message | Operation::Exchange) => "-i 1 -x 0",
        (Suite::Single, Operation::Read) => "--drive nvme-gen3 -d 4",
        (Suite::Single, Operation::Iteration) => match tool.name() {
            "rpc" => "--over tcp -n 1 -c 20",
            "spark-shuffle" => "--over tcp -d 64M",
            "lammps-reax" => "--cells 4 -i 1",
            "castep" => "--gvectors 500 --grid 16 --bands 8 -i 1",
            "gromacs" => "--atoms 20000 --gcom 1 -i 1",
            "vasp" => "--kpar 1 --ncore 1 --bands 8 --occupied 8 --grid 16 -i 1",
            _ => "-n 16 -i 1",
        },
        (Suite::Single, _) if traits.sizes == SizeOption::Range => "-n 2",
        (Suite::Single, _) => "--model resnet50 --batch 1",
        (Suite::Imb, _) => "Bcast",
        (Suite::NcclTests, _) => "-g 8 -n 1 -w 0",
        (Suite::Sockets, Operation::Stream) if traits.measures == Measures::Bandwidth => "-t 0.001",
        (Suite::Sockets, _) => "-l 0.001",
        (Suite::Experts, _) if traits.measures == Measures::Bandwidth && tool.name() == "efa_alltoall" => "--msgs 4",
        (Suite::Experts, _) => "--num-tokens 8",
        (Suite::Hccl, _) => "--size 1m --loop 2",
        (Suite::Gpu, Operation::Exchange) => "-b 8 -e 8",
        (Suite::Gpu | Suite::Wafer, _) => "",
        (Suite::Dpu, _) => "--input-file Cargo.toml",
        (Suite::Memory, _) => {
            if tool.name() == "mlc" {
                "--idle_latency -j 2"
            } else {
                "-n 1 -k 1"
            }
        }
    };
    let size = match traits.sizes {
        SizeOption::One if tool.name().starts_with("raw") => "-s 64",
        SizeOption::One => "-s 8",
        SizeOption::Range => "-m 8:8",
        SizeOption::Powers => "-msglog 3:3",
        SizeOption::BeginEnd => "-b 256 -e 256",
        SizeOption::Fixed => "",
    };
    let operand = if traits.suite == Suite::OmbShmem && !traits.is_collective() { "heap" } else { "" };
    format!("{} {counts} {size} {operand}", tool.name())
}

fn run(tool: Tool) -> ToolOutput {
    heard(tool, &line(tool, &tool.traits())).0
}

/// What a tool printed in the end, and what it said before: text, rows that were done, rows that there are.
fn heard(tool: Tool, line: &str) -> (ToolOutput, Vec<(String, usize, usize)>) {
    let traits = tool.traits();
    let (cluster, nodes) = place(tool.name(), &traits);
    let parts = machine::parts(cluster);
    let per_node = match traits.ranks {
        Ranks::Job(PerNode::Gpus) => parts.sole().node.gpus,
        Ranks::Two if nodes == 1 => 2,
        _ => 1,
    };
    let target = Target::of(&parts, Layout { nodes, per_node }, Binding::default());
    let words: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
    let prepared = tool.prepare(&words, &target).unwrap_or_else(|error| panic!("{line}: {error}"));
    let nodes: Vec<u32> = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let said = Record::default();
    let note: Record<Vec<_>> = said.clone();
    prepared.rows.listen(Box::new(move |said| note.lock().push((said.text.to_owned(), said.done, said.all))));
    let job = Job::programs(nodes, prepared.mains);
    let run = PacketEngine.run(&Cluster::new(parts).unwrap(), job, &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{line}: {error}"));
    ((prepared.finish)(), said.take())
}

/// Rows are told in turn, and what is told is the begin of what is printed in the end.
#[test]
fn rows_are_told_as_they_are_done() {
    for line in [
        "osu_latency -i 1 -x 0 -m 1:8",
        "osu_mbw_mr -i 1 -x 0 -m 1:8",
        "osu_put_latency -i 1 -x 0 -m 1:8",
        "osu_allreduce -i 1 -x 0 -m 4:32",
        "osu_oshm_put -i 1 -x 0 -m 1:8 heap",
        "osu_oshm_barrier -i 1 -x 0",
        "osu_xccl_bw -i 1 -x 0 -m 1:8",
        "IMB-MPI1 Bcast -iter 2 -msglog 3:5",
        "all_reduce_perf -b 256 -e 4096 -f 4 -n 1 -w 0",
        "ib_write_lat -a -n 5",
        "ib_read_bw -s 8 -n 5 --report_gbits",
    ] {
        let (output, said) = heard(Tool::by_name(line.split(' ').next().unwrap()).unwrap(), line);
        let text: String = said.iter().map(|(text, ..)| text.as_str()).collect();
        assert!(output.text.starts_with(&text), "{line}: {text}");
        // The head comes before the first row, and each row with a line of its own.
        let all = said[0].2;
        assert_eq!(
            said.iter().map(|(_, done, of)| (*done, *of)).collect::<Vec<_>>(),
            (0..=all).map(|done| (done, all)).collect::<Vec<_>>()
        );
        assert!(said.iter().skip(1).all(|(text, ..)| text.lines().count() > 0), "{line}");
        assert!(output.text.len() - text.len() < 100, "{line}: the last row is told too");
    }
}

#[test]
fn every_row_runs_and_prints_what_it_measures() {
    for tool in Tool::all() {
        let (name, traits, output) = (tool.name(), tool.traits(), run(tool));
        assert!(!output.text.is_empty() && !output.points.is_empty(), "{name}: {}", output.text);
        let measured = |metric: &str| output.points.iter().any(|point| point.metric == metric);
        let expected = match (traits.suite, traits.measures) {
            (Suite::Perftest | Suite::Omb | Suite::OmbShmem | Suite::OmbXccl | Suite::Imb, Measures::Latency) => "latency",
            (Suite::Perftest | Suite::Omb | Suite::OmbXccl, Measures::Bandwidth) => "bandwidth",
            (Suite::Omb, Measures::Rate) => "message_rate",
            _ => continue,
        };
        assert!(measured(expected), "{name} measures {:?}, and prints no {expected}: {}", traits.measures, output.text);
    }
}

#[test]
fn traits_fit_each_other() {
    for tool in Tool::all() {
        let (name, traits) = (tool.name(), tool.traits());
        assert!(!traits.is_exchange() || traits.measures == Measures::Latency, "{name}: only times are followed from end to end");
        assert!(traits.exchange != Exchange::RoundTrip || traits.is_one_sided(), "{name}: an answer without a request of one side");
        assert_eq!(
            traits.is_collective(),
            matches!(traits.ranks, Ranks::Job(_)) && traits.operation != Operation::Exchange && traits.operation != Operation::Iteration,
            "{name}"
        );
    }
}
