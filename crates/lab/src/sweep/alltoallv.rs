//! `MPI_Alltoallv` of many processes at few adapters: one run for each job, size and transport.

use std::sync::Arc;

use crate::{AllToAllV as Workload, EngineChoice, ResolvedLab};
use fabriscope_engine::{Cluster, Connections, Placement, RunOptions, Stats, Watch, Work, library};
use fabriscope_report::{Footprint, Job, Queues, Table};
use fabriscope_traffic::alltoallv;
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::Service;

use super::{Swept, head, us};
use crate::error::LabError;
use crate::traffic::{connections, engine, options};

/// One run: processes, which of the sizes, the transport.
type Setting = (u32, usize, Service);

/// What a run measured, by exchange and process.
#[derive(Clone)]
struct Sample {
    mean: Span,
    least: Span,
    most: Span,
    stats: Stats,
    exchanges: u64,
}

/// Runs all jobs, sizes and transports.
pub fn run(lab: &ResolvedLab, exchange: &Workload, seed: u64) -> Result<Swept, LabError> {
    if lab.lab.engine == EngineChoice::Flow {
        let message = format!("{}: the flow engine has no queue pairs", lab.name());
        return Err(LabError::refused(message, "write engine = \"packet\""));
    }
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| LabError::refused(e.to_string(), "correct the topology of the cluster"))?;
    let library = library(&lab.cluster);
    let mut settings: Vec<(Setting, Connections)> = Vec::new();
    for &processes in &exchange.processes {
        for size in 0..exchange.sizes.len().max(1) {
            for &transport in &exchange.transports {
                let connections = connections(lab, transport, false)?;
                settings.push(((processes, size, transport), Connections { library, ..connections }));
            }
        }
    }
    let samples = super::samples(&settings, |(setting, connections)| sample(&cluster, lab, exchange, *setting, connections.clone(), seed))?;
    let results: Vec<(Setting, Sample)> = settings.into_iter().map(|(setting, _)| setting).zip(samples).collect();
    Ok(Swept { text: text(lab, exchange, &results, seed), json: value(lab, exchange, &results, seed), curve: None })
}

fn sample(
    cluster: &Cluster,
    lab: &ResolvedLab,
    exchange: &Workload,
    (processes, size, _): Setting,
    connections: Connections,
    seed: u64,
) -> Result<Sample, String> {
    let lengths = exchange.sizes.get(size).map_or(exchange.vector.as_slice(), std::slice::from_ref);
    let exchanges = alltoallv(processes, lengths, exchange.iterations).map_err(|error| error.to_string())?;
    let options = RunOptions { op_times: Watch::On, ..options(lab) };
    let (placement, work) = (Placement::PerAdapter(exchange.processes_per_node), Work::Schedule(Arc::new(exchanges.schedule.clone())));
    let run = engine(lab.lab.engine)
        .run(cluster, fabriscope_engine::Job { placement, connections, work }, &options, seed)
        .map_err(|error| error.to_string())?;
    let mut times = Vec::with_capacity(processes as usize * exchange.iterations as usize);
    let mut first = 0;
    for rank in 0..processes {
        let ended = |end: &fabriscope_schedule::OpId| run.ops.get(first + end.0 as usize).map(|op| op.ended).unwrap_or_default();
        times.extend(exchanges.ends.windows(2).map(|pair| ended(&pair[1]) - ended(&pair[0])));
        first += exchanges.schedule.kinds(rank).len();
    }
    let sum: u128 = times.iter().map(|time| u128::from(time.as_ps())).sum();
    Ok(Sample {
        mean: Span::from_ps((sum / times.len().max(1) as u128) as u64),
        least: times.iter().copied().min().unwrap_or_default(),
        most: times.iter().copied().max().unwrap_or_default(),
        stats: run.stats,
        exchanges: exchanges.ends.len() as u64,
    })
}

/// What queue pairs take when so many processes talk to each other.
fn footprints(lab: &ResolvedLab, exchange: &Workload, processes: u32) -> Vec<Footprint> {
    let (Some(library), nic) = (library(&lab.cluster), &lab.cluster.sole().node.nic) else { return Vec::new() };
    let queues = |q: fabriscope_engine::Queues| Queues { send: q.send, receives: q.receives, buffer: q.buffer };
    let job = Job {
        per_node: exchange.processes_per_node.min(processes),
        nodes: processes.div_ceil(exchange.processes_per_node),
        context: nic.contexts.as_ref().map_or(Bytes::ZERO, |contexts| contexts.size.value),
        send_entry: nic.wqe_size.value,
        connections: queues(library.queues),
        datagrams: library.datagrams.map(|datagrams| queues(datagrams.queues)),
    };
    job.footprints()
}

fn size_of(exchange: &Workload, size: usize) -> String {
    exchange.sizes.get(size).map_or_else(|| "vector".to_owned(), |size| size.as_u64().to_string())
}

fn text(lab: &ResolvedLab, exchange: &Workload, results: &[(Setting, Sample)], seed: u64) -> String {
    let Workload { processes_per_node: each, iterations, .. } = exchange;
    let what = format!(
        "alltoallv, {each} processes per node, library {}, {iterations} iterations after one, seed {seed}",
        lab.cluster.sole().software.name
    );
    let mut text = head(lab, &what);
    let mut table =
        Table::new(["processes", "transport", "contexts", "per process", "per adapter", "process (MB)", "node (MB)"]).words(1).words(2);
    for &processes in &exchange.processes {
        for f in footprints(lab, exchange, processes) {
            table.push([
                processes.to_string(),
                f.transport.to_owned(),
                f.growth.to_owned(),
                f.contexts_per_process.to_string(),
                f.contexts_per_adapter.to_string(),
                format!("{:.2}", f.process_bytes as f64 / 1e6),
                format!("{:.1}", f.node_bytes as f64 / 1e6),
            ]);
        }
    }
    text += &table.to_string();
    if let Some(contexts) = &lab.cluster.sole().node.nic.contexts {
        text += &format!(
            "# {} holds {} contexts on the chip; {each} = M processes on each of N nodes\n",
            lab.cluster.sole().node.nic.name,
            *contexts.cached
        );
    }
    let mut table =
        Table::new(["processes", "size (B)", "transport", "mean (us)", "least (us)", "most (us)", "queue pairs", "misses/message"])
            .words(2);
    for ((processes, size, transport), sample) in results {
        let messages = sample.exchanges * u64::from(*processes) * u64::from(processes - 1);
        table.push([
            processes.to_string(),
            size_of(exchange, *size),
            transport.name().to_owned(),
            us(sample.mean),
            us(sample.least),
            us(sample.most),
            sample.stats.queue_pairs.to_string(),
            format!("{:.3}", sample.stats.context_misses as f64 / messages as f64),
        ]);
    }
    text += &format!("\n{table}");
    text + &verdict(exchange, results)
}

/// Which transport is ahead, where there are two.
fn verdict(exchange: &Workload, results: &[(Setting, Sample)]) -> String {
    let mut text = String::new();
    for pair in results.chunks(2).filter(|_| exchange.transports.len() == 2) {
        let [((processes, size, first), a), ((_, _, second), b)] = pair else { continue };
        let (ahead, behind) = if a.mean <= b.mean { ((first, a), (second, b)) } else { ((second, b), (first, a)) };
        let ratio = behind.1.mean.as_ps() as f64 / ahead.1.mean.as_ps().max(1) as f64;
        let (ahead, behind) = (ahead.0.name(), behind.0.name());
        text += &format!(
            "# {processes} processes, {} B: {ahead} is ahead, {behind} takes {ratio:.2} times as long\n",
            size_of(exchange, *size)
        );
    }
    text
}

fn value(lab: &ResolvedLab, exchange: &Workload, results: &[(Setting, Sample)], seed: u64) -> serde_json::Value {
    let point = |((processes, size, transport), sample): &(Setting, Sample)| {
        serde_json::json!({
            "processes": processes,
            "bytes": exchange.sizes.get(*size).map(|size| size.as_u64()),
            "transport": transport,
            "mean_ps": sample.mean.as_ps(),
            "least_ps": sample.least.as_ps(),
            "most_ps": sample.most.as_ps(),
            "counts": sample.stats,
        })
    };
    let footprint = |processes: &u32| serde_json::json!({ "processes": processes, "transports": footprints(lab, exchange, *processes) });
    serde_json::json!({
        "title": lab.lab.title,
        "cluster": lab.cluster.name,
        "library": lab.cluster.sole().software.name,
        "processes_per_node": exchange.processes_per_node,
        "iterations": exchange.iterations,
        "seed": seed,
        "memory": exchange.processes.iter().map(footprint).collect::<Vec<_>>(),
        "points": results.iter().map(point).collect::<Vec<_>>(),
    })
}
