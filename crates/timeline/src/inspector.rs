//! Kernels of NCCL programs as the profiler plugin NCCL Inspector writes them: JSON lines, and metrics for Prometheus.
//!
//! Source: NCCL, plugins/profiler/inspector: inspector_json.cc (format v4.2), inspector_prom.cc, inspector.cc (bandwidths), grafana.
//! Modelled: a record for each collective of each rank, one for each message of a group of sends and receives; the metrics of NVIDIA's
//! dashboard, means over all records of a bucket as the plugin takes them. Times are those of the kernels, as with GPU timers.
//! Not modelled: verbose events of channels, records about lost records: none are lost.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::kernel_log::KernelRun;
use crate::places::Places;

/// One operation of a rank.
struct Record<'a> {
    run: &'a KernelRun,
    /// A collective, or a message with its peer: the name of the function.
    function: &'static str,
    peer: Option<u32>,
    bytes: u64,
    number: u64,
}

impl Record<'_> {
    fn microseconds(&self) -> f64 {
        self.run.span().as_us_f64()
    }
    /// Bandwidth of the algorithm and of the bus (GB/s).
    fn bandwidths(&self) -> (f64, f64) {
        let ranks = f64::from(self.run.kernel.ranks.max(1));
        // The call counts the elements of one rank; what moves is what all have together.
        let (times, factor) = match self.function {
            "AllReduce" => (1.0, 2.0 * (ranks - 1.0) / ranks),
            "AllGather" | "ReduceScatter" => (ranks, (ranks - 1.0) / ranks),
            _ => (1.0, 1.0),
        };
        let seconds = self.run.span().as_ps() as f64 / 1e12;
        let algorithm = if seconds > 0.0 { self.bytes as f64 * times / 1e9 / seconds } else { 0.0 };
        (algorithm, algorithm * factor)
    }
}

/// The operations of the kernels, those of each rank with their numbers.
fn records(runs: &[KernelRun]) -> Vec<Record<'_>> {
    let mut found = Vec::new();
    let mut numbers: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    let mut next = |rank, message| {
        let number = numbers.entry((rank, message)).or_default();
        *number += 1;
        *number
    };
    for run in runs {
        let kernel = &run.kernel;
        if kernel.choice.is_some() {
            let (bytes, number) = (kernel.count * kernel.element, next(run.rank, false));
            found.push(Record { run, function: kernel.operation, peer: None, bytes, number });
        }
        for (peer, sends, bytes) in kernel.exchanges.iter().filter(|(peer, ..)| *peer != run.rank) {
            let function = if *sends { "Send" } else { "Recv" };
            found.push(Record { run, function, peer: Some(*peer), bytes: bytes.0, number: next(run.rank, true) });
        }
    }
    found
}

/// Writes a line for each operation.
///
/// # Errors
/// What cannot be written.
pub fn json_lines(runs: &[KernelRun], places: &Places, out: &mut dyn Write) -> io::Result<()> {
    let end = runs.iter().map(|run| run.done.as_ps()).max().unwrap_or(0) / 1_000_000;
    for record in records(runs) {
        let (run, kernel) = (record.run, &record.run.kernel);
        let (algorithm, bus) = record.bandwidths();
        let mut line = json!({
            "header": { "id": COMMUNICATOR, "comm_name": COMMUNICATOR_NAME, "rank": run.rank, "n_ranks": kernel.ranks, "nnodes": kernel.nodes },
            "metadata": {
                "inspector_output_format_version": "v4.2", "git_rev": concat!("fabriscope ", env!("CARGO_PKG_VERSION")),
                "rec_mechanism": "simulated", "dump_timestamp_us": end, "hostname": places.node(run.node), "pid": run.rank + 1,
            },
        });
        // The plugin counts whole microseconds; bandwidths are those of the exact time.
        let us = record.microseconds().round() as u64;
        let (key, mut performance) = match (record.peer, kernel.choice) {
            (Some(peer), _) => ("p2p_perf", json!({ "p2p": record.function, "p2p_sn": record.number, "p2p_peer": peer })),
            (None, choice) => {
                let (how, protocol) = choice.unwrap_or(("unknown", "unknown"));
                let algorithm = json!({ "coll": record.function, "coll_algo": algorithm_name(how), "coll_proto": protocol.to_uppercase(), "coll_sn": record.number });
                ("coll_perf", algorithm)
            }
        };
        let prefix = if record.peer.is_some() { "p2p" } else { "coll" };
        let more: [(&str, Value); 5] = [
            ("msg_size_bytes", record.bytes.into()),
            ("exec_time_us", us.into()),
            ("timing_source", "kernel_gpu".into()),
            ("algobw_gbs", algorithm.into()),
            ("busbw_gbs", bus.into()),
        ];
        for (name, value) in more {
            performance[format!("{prefix}_{name}")] = value;
        }
        line[key] = performance;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What the plugin calls an algorithm.
fn algorithm_name(name: &str) -> &'static str {
    match name {
        "Tree" => "TREE",
        "Ring" => "RING",
        "CollNetDirect" => "COLLNET_DIRECT",
        "CollNetChain" => "COLLNET_CHAIN",
        "NVLS" => "NVLS",
        "NVLSTree" => "NVLS_TREE",
        "PAT" => "PAT",
        _ => "Unknown",
    }
}

/// The operations that count as one in the metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    message: bool,
    node: u32,
    gpu: u32,
    function: &'static str,
    size: (u32, u64),
    choice: String,
    nodes: u32,
    ranks: u32,
}

#[derive(Debug, Default)]
struct Mean {
    count: u64,
    microseconds: f64,
    /// Natural logarithms of bandwidths that are not zero, and how many: the plugin takes geometric means.
    logarithms: f64,
    counted: u64,
}

/// Writes the metrics that NVIDIA's dashboard shows, for the text file collector of the node exporter.
///
/// # Errors
/// What cannot be written.
pub fn metrics(runs: &[KernelRun], places: &Places, out: &mut dyn Write) -> io::Result<()> {
    let mut buckets: BTreeMap<Bucket, Mean> = BTreeMap::new();
    for record in records(runs) {
        let (run, kernel) = (record.run, &record.run.kernel);
        let choice =
            kernel.choice.map_or_else(String::new, |(how, protocol)| format!("{}_{}", algorithm_name(how), protocol.to_uppercase()));
        let bucket = Bucket {
            message: record.peer.is_some(),
            node: run.node,
            gpu: kernel.gpu,
            function: record.function,
            size: size_class(record.bytes),
            choice,
            nodes: kernel.nodes,
            ranks: kernel.ranks,
        };
        let mean = buckets.entry(bucket).or_default();
        mean.count += 1;
        mean.microseconds += record.microseconds();
        let bus = record.bandwidths().1;
        if bus > 0.0 {
            mean.logarithms += libm::log(bus);
            mean.counted += 1;
        }
    }
    for (message, bandwidth, time) in [(false, METRICS[0], METRICS[1]), (true, METRICS[2], METRICS[3])] {
        let of_kind = || buckets.iter().filter(|(bucket, _)| bucket.message == message);
        if of_kind().next().is_none() {
            continue;
        }
        writeln!(out, "# HELP {bandwidth} Bus bandwidth, geometric mean (GB/s).\n# TYPE {bandwidth} gauge")?;
        for (bucket, mean) in of_kind() {
            let value = if mean.counted == 0 { 0.0 } else { libm::exp(mean.logarithms / mean.counted as f64) };
            writeln!(out, "{bandwidth}{{{}}} {value}", labels(bucket, places))?;
        }
        writeln!(out, "# HELP {time} Time of an operation, mean (us).\n# TYPE {time} gauge")?;
        for (bucket, mean) in of_kind() {
            writeln!(out, "{time}{{{}}} {}", labels(bucket, places), mean.microseconds / mean.count.max(1) as f64)?;
        }
    }
    Ok(())
}

fn labels(bucket: &Bucket, places: &Places) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let Bucket { message, node, gpu, function, size, choice, nodes, ranks } = bucket;
    let (cluster, host) = (quoted(&places.cluster), quoted(&places.node(*node)));
    let kind = match message {
        true => format!("p2p_operation=\"{function}\",message_size=\"{}\"", size_label(*size)),
        false => format!("collective=\"{function}\",message_size=\"{}\",algo_proto=\"{choice}\"", size_label(*size)),
    };
    // The dashboard asks for a job and a cluster, which others add where the plugin runs.
    format!(
        "version=\"v6.1\",slurm_job_id=\"unknown\",node=\"{host}\",gpu=\"GPU{gpu}\",comm_name=\"{COMMUNICATOR_NAME}\",n_nodes=\"{nodes}\",\
         nranks=\"{ranks}\",{kind},cluster=\"{cluster}\""
    )
}

/// The unit of a size by powers of 1024, and how many whole ones it has.
fn size_class(bytes: u64) -> (u32, u64) {
    let unit = if bytes == 0 { 0 } else { (bytes.ilog2() / 10).min(4) };
    (unit, bytes >> (10 * unit))
}

fn size_label((unit, whole): (u32, u64)) -> String {
    let name = ["B", "KB", "MB", "GB", "TB"][unit.min(4) as usize];
    if whole == 0 { "0B".to_owned() } else { format!("{whole}-{}{name}", whole + 1) }
}

/// Metrics of NVIDIA's dashboard: bandwidth and time of collectives, and of messages.
pub const METRICS: [&str; 4] =
    ["nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds", "nccl_p2p_bus_bandwidth_gbs", "nccl_p2p_exec_time_microseconds"];
/// The hash of the communicator: a run has one.
const COMMUNICATOR: &str = "0x1";
/// What the plugin says where the program gave no name.
const COMMUNICATOR_NAME: &str = "unknown";
