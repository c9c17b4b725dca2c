//! A benchmark program or a step of training beside a parallel file system: each alone, both together, and together with the file system in
//! a class of its own.
//!
//! Source: [`fabriscope_storage::beside`] for RPCs and servers.
//! Modelled: every packet of both (a step by `schedule_programs.rs`), on the same fabric and, where nodes are clients and in the job, the same
//! adapters.
//! Not modelled: cores and memory of a node that both want, metadata, LNet routers.

use std::rc::Rc;

use fabriscope_catalog::{Catalog, Interface, Problem, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_engine_storage::Direction;
use fabriscope_lustre::System;
use fabriscope_node::Main;
use fabriscope_platform::path_mtu;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_storage::Mount;
use fabriscope_storage::beside::{Burst, Tally, Traffic, nobody};
use fabriscope_tool::Point;
use fabriscope_tools::Tool;
use fabriscope_training_plan::Spent;
use fabriscope_units::{Bytes, Remedy, Span, Time};
use fabriscope_verbs::{Mtu, Service};

use crate::ResolvedLab;
use crate::error::LabError;
use crate::launch::{Launch, LaunchError, layout_of};
use crate::schedule_programs::{AdaptersOfNodes, SchedulePrograms, programs};
use crate::sweep::head;
use crate::training::job::gpus_of_node;
use crate::training::of_lab::{self, PreparedStep};
use crate::training::shown::ms;
use crate::training::whole::planned;
use crate::workload::beside_storage::BesideStorage;

/// What one run of both gave.
struct Together {
    points: Vec<Point>,
    tally: Tally,
    end: Time,
}

/// Whether the file system and the program exist, and adapters carry its RPCs.
pub(crate) fn check(catalog: &Catalog, parts: &ResolvedCluster, work: &BesideStorage) -> Result<(), Problem> {
    let at = |key: &'static str, (message, help): (String, String)| Problem::at(&["workload", "beside_storage", key], message, help);
    match &work.training {
        Some(step) => {
            of_lab::fits(catalog, parts, step)
                .map_err(|error| at("training", of_lab::of_keys(error).halves("see [workload.beside_storage.training] of the lab")))?;
            if step.transport != Service::Rc || step.any_order {
                let message = "the messages of a step beside storage are of reliable connections, in order".to_owned();
                return Err(at("training", (message, "leave transport and any_order out".to_owned())));
            }
            let (gpus, named) = (step.request().layout.gpus(), work.nodes.among(parts.nodes()).count() as u64);
            let there = named * u64::from(gpus_of_node(parts));
            if gpus > there {
                let message = format!("{gpus} GPUs for the step, and {named} nodes have {there}");
                return Err(at("nodes", (message, "name more nodes".to_owned())));
            }
        }
        None => {
            Tool::by_name(&work.tool).map_err(|error| at("tool", error.halves("`fabriscope bench` lists the tools")))?;
        }
    }
    traffic(catalog, parts, work, 0).map(drop).map_err(|(key, message, help)| {
        let keys: Vec<&str> = ["workload", "beside_storage", "storage"].into_iter().chain(key).collect();
        Problem::at(&keys, message, help)
    })
}

/// What is read or written, in this class; or which key of the storage is wrong, and how.
fn traffic(
    catalog: &Catalog,
    parts: &ResolvedCluster,
    work: &BesideStorage,
    level: u8,
) -> Result<Traffic, (Option<&'static str>, String, String)> {
    let (storage, there) = (&work.storage, parts.nodes());
    let wrong = |key, (message, help): (String, String)| (Some(key), message, help);
    let files = catalog
        .resolve_file_system(&storage.file_system)
        .map_err(|error| wrong("file_system", error.halves("`fabriscope parts --kind file-systems` lists them")))?;
    let clients: Vec<u32> = storage.clients.among(there).collect();
    let servers: Vec<u32> = storage.servers.among(there).collect();
    let mut system = System::new(parts, clients.len() as u32, storage.processes, &files)
        .map_err(|error| wrong("processes", error.halves("use fewer processes")))?;
    let interface = parts.sole().node.nic.interface;
    if !matches!(interface, Interface::Verbs | Interface::Cxi) {
        let message = format!("RPCs need connections of verbs; adapters of `{}` are driven through {interface}", parts.name);
        return Err((None, message, "take a cluster of InfiniBand, RoCE or Slingshot".to_owned()));
    }
    system.oss.servers = servers.len() as u32;
    let mount = Mount { system, files, cluster: parts.name.clone(), node: None };
    let count = storage.stripe_count.map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    let layout = mount.layout(count, None).map_err(|error| wrong("stripe_count", error.halves("use fewer stripes")))?;
    Ok(Traffic {
        system: mount.system,
        layout,
        direction: if storage.read { Direction::Read } else { Direction::Write },
        burst: storage.burst.map(|burst| Burst { bytes: burst.bytes, every: burst.every }),
        clients,
        servers,
        level,
        mtu: mtu_of(parts),
    })
}

fn mtu_of(parts: &ResolvedCluster) -> Mtu {
    path_mtu(u32::try_from(parts.mtu.0).unwrap_or(u32::MAX))
}

/// What runs beside the file system.
enum Program<'l> {
    Tool(Box<Launch<'l>>),
    Step(Box<PreparedStep>),
}

impl<'l> Program<'l> {
    fn new(catalog: &Catalog, lab: &'l ResolvedLab, work: &'l BesideStorage, (chosen, seed): (&'l [u32], u64)) -> Result<Self, LabError> {
        let parts = &lab.cluster;
        if let Some(step) = &work.training {
            return Ok(Program::Step(Box::new(of_lab::prepare_on(catalog, parts, step, chosen.to_vec())?)));
        }
        let tool = Tool::by_name(&work.tool).map_err(|error| LabError::refused(error.in_full(), "`fabriscope bench` lists the tools"))?;
        let per_node = work.per_node.or_else(|| tool.gpus_of_process(&work.args));
        Ok(Program::Tool(Box::new(Launch {
            chosen,
            layout: Some(layout_of(tool, parts, Some(chosen.len() as u32), per_node)),
            seed,
            faults: lab.faults.clone(),
            every_iteration: true,
            ..Launch::new(tool, &work.args, parts)
        })))
    }
    /// Runs it while these do what they do; what it measured, and when it ended.
    fn run(
        &self,
        cluster: &Cluster,
        beside: Vec<(u32, Main)>,
        (options, seed): (&RunOptions, u64),
    ) -> Result<(Vec<Point>, Time), LabError> {
        match self {
            Program::Tool(launch) => {
                let (printed, run) = launch.run_beside(cluster, beside)?;
                Ok((printed.points, run.end))
            }
            Program::Step(step) => {
                let parts = &cluster.parts;
                let nodes = AdaptersOfNodes { nics: parts.sole().node.nics, of_gpus: step.adapters(), mtu: mtu_of(parts) };
                let SchedulePrograms { programs, ops } = programs(&step.schedule(), nodes).map_err(|error| planned(&error.into()))?;
                let job = Job::with_beside(programs.into_iter().unzip(), beside);
                let run = PacketEngine.run(cluster, job, options, seed).map_err(LaunchError::from)?;
                Ok((points(step.spent(&ops.take())), run.end))
            }
        }
    }
}

/// The parts of a step, and the step.
fn points(spent: Spent) -> Vec<Point> {
    let step = [("step", spent.total())];
    let parts = spent.parts().into_iter().filter(|(_, span)| *span > Span::ZERO).chain(step);
    parts.map(|(metric, span)| Point { size: Bytes::ZERO, metric, unit: "ms", value: ms(span) }).collect()
}

/// Runs all settings.
///
/// # Errors
/// The program's options, what the engine says.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, work: &BesideStorage, seed: u64) -> Result<Outcome, LabError> {
    let parts = &lab.cluster;
    let chosen: Vec<u32> = work.nodes.among(parts.nodes()).collect();
    let program = Program::new(catalog, lab, work, (&chosen, seed))?;
    let cluster = Cluster::new(parts.clone()).map_err(LaunchError::from)?;
    let options = RunOptions { faults: lab.faults.clone(), ..RunOptions::default() };
    let of_level = |level: u8| traffic(catalog, parts, work, level).map_err(|(_, message, help)| LabError::refused(message, help));
    let together = |level: u8| -> Result<Together, LabError> {
        let (programs, tally) = of_level(level)?.programs();
        let (points, end) = program.run(&cluster, programs, (&options, seed))?;
        Ok(Together { points, tally: tally.take(), end })
    };
    let (alone, _) = program.run(&cluster, Vec::new(), (&options, seed))?;
    let mut runs = vec![together(0)?];
    if work.storage.has_class() {
        let level = work.storage.level(parts).map_err(|problem| LabError::refused(problem.message, problem.help))?;
        runs.push(together(level)?);
    }
    // As long as it had beside the program.
    let end = runs.iter().map(|run| run.end).max().unwrap_or(Time::ZERO);
    let (programs, tally) = of_level(0)?.programs();
    let job = (vec![chosen[0]], vec![nobody(end.since(Time::ZERO))]);
    PacketEngine.run(&cluster, Job::with_beside(job, programs), &options, seed).map_err(LaunchError::from)?;
    Ok(outcome(lab, work, seed, (&alone, &tally.take(), &runs)))
}

fn outcome(lab: &ResolvedLab, work: &BesideStorage, seed: u64, (alone, undisturbed, runs): (&[Point], &Tally, &[Together])) -> Outcome {
    let storage = &work.storage;
    let program = work.training.as_ref().map_or(work.tool.clone(), |step| format!("a step of {}", step.model));
    let what = format!(
        "{program} on nodes {}, {} on clients {} with servers {}, seed {seed}",
        work.nodes, storage.file_system, storage.clients, storage.servers
    );
    let mut outcome = head(lab, &what);
    outcome.set("seed", seed).keyed_table("program", of_program(alone, runs)).text("\n");
    outcome.keyed_table("storage", of_storage(undisturbed, runs));
    let ended = runs.iter().map(|run| &run.tally).chain([undisturbed]).all(|tally| !tally.rpcs.is_empty());
    if !ended {
        outcome.note("no RPC was over when the program ended: let it run longer, with more iterations");
    }
    outcome.note(format!(
        "{} {}; rates are from the begin to the end of the program, which is {:.3} ms with one class",
        if storage.read { "reads of" } else { "writes of" },
        match &storage.burst {
            Some(burst) => format!("{} a process, every {}", burst.bytes, burst.every),
            None => "files of their own, all the time".to_owned(),
        },
        ms(runs[0].end.since(Time::ZERO)),
    ));
    outcome
}

/// A column of each run together.
const TOGETHER: [(&str, &str); 2] = [("one class", "one_class"), ("own class", "own_class")];

/// The columns of the runs together: a value, and how many times that of alone.
fn beside(runs: &[Together]) -> impl Iterator<Item = Column> {
    let columns = |(name, key): (&str, &str)| [Column::number(name, key), Column::number("/ alone", &format!("{key}_to_alone"))];
    TOGETHER.into_iter().take(runs.len()).flat_map(columns)
}

/// Their cells.
fn cells(value: Option<f64>, digits: usize, alone: Option<f64>) -> [Cell; 2] {
    let ratio = value.zip(alone.filter(|alone| *alone > 0.0)).map(|(value, alone)| value / alone);
    [(value, digits), (ratio, 3)].map(|(number, digits)| number.map_or_else(Cell::none, |number| Cell::number(number, digits)))
}

/// What the program measured: alone and beside the file system.
fn of_program(alone: &[Point], runs: &[Together]) -> Grid {
    let mut grid = Grid::new(
        [
            Column::number("size", "size_bytes").unit("B"),
            Column::words("metric", "metric"),
            Column::words("unit", "unit"),
            Column::number("alone", "alone"),
        ]
        .into_iter()
        .chain(beside(runs)),
    );
    for (number, point) in alone.iter().enumerate() {
        let mut row = vec![Cell::bytes(point.size), Cell::word(point.metric), Cell::word(point.unit), Cell::number(point.value, 2)];
        for run in runs {
            let value = run.points.get(number).map(|other| other.value);
            row.extend(cells(value, 2, Some(point.value)));
        }
        grid.push(row);
    }
    grid
}

/// What the file system did: alone and beside the program.
fn of_storage(alone: &Tally, runs: &[Together]) -> Grid {
    let mut grid = Grid::new(
        [Column::words("file system", "what"), Column::words("unit", "unit"), Column::number("alone", "alone")]
            .into_iter()
            .chain(beside(runs)),
    );
    let quantile = |percent: usize| move |tally: &Tally, _: Time| tally.quantile(percent).map(ms);
    let burst = |percent: usize| move |tally: &Tally, _: Time| tally.burst_quantile(percent).map(ms);
    type Value = Rc<dyn Fn(&Tally, Time) -> Option<f64>>;
    let rows: [(&str, &str, Value); 5] = [
        ("data", "GB/s", Rc::new(|tally: &Tally, end: Time| Some(tally.rate(end) / 1e9))),
        ("RPC, median", "ms", Rc::new(quantile(50))),
        ("RPC, 99 %", "ms", Rc::new(quantile(99))),
        ("burst, median", "ms", Rc::new(burst(50))),
        ("burst, longest", "ms", Rc::new(burst(100))),
    ];
    for (what, unit, value) in rows {
        let Some(of_alone) = value(alone, runs[0].end) else { continue };
        let mut row = vec![Cell::word(what), Cell::word(unit), Cell::number(of_alone, 3)];
        for run in runs {
            // Over the same time, for data that come in bursts.
            row.extend(cells(value(&run.tally, run.end), 3, value(alone, run.end)));
        }
        grid.push(row);
    }
    grid
}
