//! `MPI_Alltoallv` of many processes at few adapters: one run for each job, size and transport.

use std::sync::Arc;

use crate::{AllToAllV as Workload, EngineChoice, ResolvedLab};
use fabriscope_engine::{Cluster, Connections, Placement, RunOptions, Stats, Watch, Work, library};
use fabriscope_report::{Cell, Column, Footprint, Grid, Job, Outcome, Queues};
use fabriscope_traffic::alltoallv;
use fabriscope_units::{Bytes, Remedy, Span};
use fabriscope_verbs::Service;

use super::head;
use crate::engines::engine;
use crate::error::LabError;
use crate::traffic::{connections, options};

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
pub fn run(lab: &ResolvedLab, exchange: &Workload, seed: u64) -> Result<Outcome, LabError> {
    if lab.lab.engine != EngineChoice::Packet {
        let message = format!("{}: the flow engine has no queue pairs", lab.name());
        return Err(LabError::refused(message, "write engine = \"packet\""));
    }
    let cluster = Cluster::new(lab.cluster.clone()).map_err(|e| LabError::refused(e.in_full(), "correct the topology of the cluster"))?;
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
    Ok(outcome(lab, exchange, &results, seed))
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
    let exchanges = alltoallv(processes, lengths, exchange.iterations).map_err(|error| error.in_full())?;
    let options = RunOptions { op_times: Watch::On, ..options(lab) };
    let (placement, work) = (Placement::PerAdapter(exchange.processes_per_node), Work::Schedule(Arc::new(exchanges.schedule.clone())));
    let run = engine(lab.lab.engine)
        .run(cluster, fabriscope_engine::Job { placement, connections, work }, &options, seed)
        .map_err(|error| error.in_full())?;
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

fn outcome(lab: &ResolvedLab, exchange: &Workload, results: &[(Setting, Sample)], seed: u64) -> Outcome {
    let Workload { processes_per_node: each, iterations, .. } = exchange;
    let library = &lab.cluster.sole().software.name;
    let what = format!("alltoallv, {each} processes per node, library {library}, {iterations} iterations after one, seed {seed}");
    let mut outcome = head(lab, &what);
    outcome.set("library", library.clone()).set("processes_per_node", *each).set("iterations", *iterations).set("seed", seed);
    let footprint = |processes: &u32| serde_json::json!({ "processes": processes, "transports": footprints(lab, exchange, *processes) });
    outcome.set("memory", exchange.processes.iter().map(footprint).collect::<Vec<_>>());
    outcome.table(memory(lab, exchange));
    if let Some(contexts) = &lab.cluster.sole().node.nic.contexts {
        let nic = &lab.cluster.sole().node.nic.name;
        outcome.note(format!("{nic} holds {} contexts on the chip; {each} = M processes on each of N nodes", *contexts.cached));
    }
    outcome.text("\n").keyed_table("points", points(exchange, results));
    for line in verdicts(exchange, results) {
        outcome.note(line);
    }
    outcome
}

/// What queue pairs take, by the number of processes.
fn memory(lab: &ResolvedLab, exchange: &Workload) -> Grid {
    let mut grid = Grid::new([
        Column::words("processes", "processes"),
        Column::words("transport", "transport"),
        Column::words("contexts", "growth"),
        Column::number("per process", "contexts_per_process"),
        Column::number("per adapter", "contexts_per_adapter"),
        Column::number("process (MB)", "process_bytes").unit("B"),
        Column::number("node (MB)", "node_bytes").unit("B"),
    ]);
    for &processes in &exchange.processes {
        for f in footprints(lab, exchange, processes) {
            grid.push([
                Cell::count(processes),
                Cell::word(f.transport),
                Cell::word(f.growth),
                Cell::count(f.contexts_per_process),
                Cell::count(f.contexts_per_adapter),
                Cell::told(format!("{:.2}", f.process_bytes as f64 / 1e6), f.process_bytes),
                Cell::told(format!("{:.1}", f.node_bytes as f64 / 1e6), f.node_bytes),
            ]);
        }
    }
    grid.named("memory")
}

fn points(exchange: &Workload, results: &[(Setting, Sample)]) -> Grid {
    let mut grid = Grid::new([
        Column::words("processes", "processes"),
        Column::number("size (B)", "bytes"),
        Column::words("transport", "transport"),
        Column::number("mean (us)", "mean_ps").unit("ps"),
        Column::number("least (us)", "least_ps").unit("ps"),
        Column::number("most (us)", "most_ps").unit("ps"),
        Column::number("queue pairs", "queue_pairs"),
        Column::number("misses/message", "misses_per_message"),
        Column::data("counts"),
    ]);
    for ((processes, size, transport), sample) in results {
        let messages = sample.exchanges * u64::from(*processes) * u64::from(processes - 1);
        let bytes = exchange.sizes.get(*size).map(|size| size.as_u64());
        let counts = serde_json::to_value(sample.stats).unwrap_or_default();
        grid.push([
            Cell::count(*processes),
            Cell::told(size_of(exchange, *size), bytes),
            Cell::told(transport.name(), serde_json::to_value(transport).unwrap_or_default()),
            Cell::us(sample.mean),
            Cell::us(sample.least),
            Cell::us(sample.most),
            Cell::count(sample.stats.queue_pairs),
            Cell::number(sample.stats.context_misses as f64 / messages as f64, 3),
            Cell::data(counts),
        ]);
    }
    grid
}

/// Which transport is ahead, where there are two.
fn verdicts(exchange: &Workload, results: &[(Setting, Sample)]) -> Vec<String> {
    let mut lines = Vec::new();
    for pair in results.chunks(2).filter(|_| exchange.transports.len() == 2) {
        let [((processes, size, first), a), ((_, _, second), b)] = pair else { continue };
        let (ahead, behind) = if a.mean <= b.mean { ((first, a), (second, b)) } else { ((second, b), (first, a)) };
        let ratio = behind.1.mean.as_ps() as f64 / ahead.1.mean.as_ps().max(1) as f64;
        let (ahead, behind, size) = (ahead.0.name(), behind.0.name(), size_of(exchange, *size));
        lines.push(format!("{processes} processes, {size} B: {ahead} is ahead, {behind} takes {ratio:.2} times as long"));
    }
    lines
}
