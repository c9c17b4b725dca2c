//! nccl-tests: `all_reduce_perf` and its siblings on simulated GPUs.
//!
//! Source: nccl-tests 2.19.6, src/common.cu and one file an operation: loops, options, output (format: docs/formats.md).
//! Modelled: all operations of one size enqueued, then waited for; several GPUs of one thread, which starts their kernels one after
//! the other; out of place and in place; the choice of the library's tuner, or what variables leave of it;
//! the check of data, by numbers that stand for the elements and go with every slice over links and adapters.
//! Not modelled: CUDA graphs, several operations in a group, rounding.
//!
//! Iterations repeat exactly once the first few are over: those beyond are counted, not simulated. A message of very many steps is
//! run at two lengths with the same chunks, and what a byte more takes gives the rest. A long message whose ranks move the same in place as
//! out of place is measured once; `steady.rs` has what large jobs do, `fewer.rs` those of many nodes.

mod fewer;
mod operation;
mod options;
mod report;
mod steady;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use fabriscope_nccl::{self as nccl, NetWay, Plan, Tuner};
use fabriscope_nccl_runtime::{self as runtime, Communicator, Wire, World};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_platform::nccl::JobLibrary;
use fabriscope_platform::{GpuTarget, Target};
use fabriscope_tool::arguments;
use fabriscope_tool::{Placing, Prepared, Rows, UsageError};
use fabriscope_units::{Bytes, Span, Time};

pub use operation::{Operation, TOOLS};
pub(crate) use options::OPTIONS;

use crate::xccl::{library, refused};
use fewer::Fewer;
use options::Settings;

/// Connections between nodes, with their adapters.
type Wires = Vec<(Wire, Option<NetWay>)>;

/// One size, out of place or in place, at one length: how its kernel is made.
struct Case {
    /// Elements of a block.
    count: u64,
    plan: Option<Arc<Plan>>,
    in_place: bool,
}

/// What a size is measured with: itself, or two shorter messages of the same kind.
struct Row {
    /// As printed.
    bytes: u64,
    count: u64,
    /// Out of place and in place.
    cases: [Vec<Case>; 2],
    choice: Option<String>,
    /// What the library itself expects.
    estimate: Option<Span>,
    /// Loops and iterations are left out.
    heavy: bool,
}

struct Job {
    operation: Operation,
    settings: Settings,
    world: World,
    library: JobLibrary,
    gpu: Option<GpuTarget>,
    per_node: u32,
    rows: Vec<Row>,
    told: Rows,
    /// What was measured of long operations.
    known: Record<steady::Known>,
    /// The connections between nodes, which all ranks name; the first to ask works them out.
    wires: OnceLock<Wires>,
    /// Some of the nodes, where these stand for all.
    fewer: Option<Fewer>,
}

impl Job {
    /// The connections that any operation of the job uses.
    fn wires(&self, ranks: u32) -> Wires {
        let cases = || self.rows.iter().flat_map(|row| row.cases.iter().flatten());
        let plans = cases().filter_map(|case| case.plan.as_deref());
        let mut all: BTreeMap<_, _> = runtime::connections(&self.world, plans).into_iter().collect();
        for case in cases().filter(|case| case.plan.is_none() && !case.in_place) {
            let block = Bytes(case.count * self.settings.element);
            let (senders, lengths) = self.operation.senders(ranks, self.settings.root, block);
            all.extend(runtime::pairs(&self.world, &senders, &lengths));
        }
        all.into_iter().collect()
    }

    /// So many rows are done.
    fn tell(&self, done: usize, results: &Measured) {
        self.told.tell((done, self.rows.len()), || report::report(self, results, done).text);
    }
}

impl Row {
    /// Whether ranks move the same bytes over the same ways in both places of the buffers, and so many that this is not done twice.
    fn measured_once(&self, settings: &Settings) -> bool {
        let alike = |case: &Case| {
            let operation = case.plan.as_ref().map(|plan| plan.choice.operation);
            operation.is_some_and(|operation| !matches!(operation, nccl::Operation::AllGather | nccl::Operation::Broadcast))
        };
        !settings.exact && self.bytes > LONG && self.cases[1].iter().all(alike)
    }
}

/// What is measured, by row and place.
#[derive(Default)]
struct Measured {
    /// Mean time of an operation by case, of each rank in their order; of rank 0 alone where some nodes stand for all.
    times: Vec<[Vec<Vec<Span>>; 2]>,
    /// Elements that were kept with other contents than they should have.
    wrong: Vec<[u64; 2]>,
    /// Ranks that are done with each row.
    done: Vec<u32>,
    /// What was left out of each row.
    remarks: Vec<Vec<String>>,
}

type Results = Record<Measured>;

/// GPUs of a process, where the command line says how many threads it has or GPUs each of them.
pub(crate) fn gpus_of_process(operation: Operation, args: &[String]) -> Option<u32> {
    let parsed = arguments::parse(operation.tool(), OPTIONS, args).ok()?;
    let said = parsed.options.iter().any(|given| matches!(given.name, "nthreads" | "ngpus"));
    let settings = Settings::parse(operation, args, &nccl::Settings::default()).ok()?;
    said.then(|| settings.gpus.saturating_mul(settings.threads))
}

/// Reads the command line of a test and makes its programs.
///
/// # Errors
/// A wrong command line; a cluster without NCCL; a job that does not fit its nodes.
pub fn prepare(operation: Operation, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let tool = operation.tool();
    // A wrong command line, and a question for help, come before what the cluster lacks.
    let between = target.nccl_between.as_ref().and_then(|between| between.as_ref().ok()).map(JobLibrary::first);
    let usual = target.nccl.as_ref().or(between).map(|library| library.settings.clone()).unwrap_or_default();
    let settings = Settings::parse(operation, args, &usual)?;
    let library = library(tool, target)?;
    let (nodes, per_node) = (target.layout.nodes, target.layout.per_node);
    let conflict = |what: String, remedy: String| UsageError::Conflict { what, remedy };
    let each = settings.gpus.saturating_mul(settings.threads);
    if each > library.gpus() {
        let what = format!("-t {} -g {}: a process of {each} GPUs on nodes with {}", settings.threads, settings.gpus, library.gpus());
        return Err(conflict(what, format!("give -t 1 -g {} or less", library.gpus())));
    }
    if per_node > library.gpus() {
        let remedy = format!("give --ppn {} or less: each rank has a GPU", library.gpus());
        return Err(conflict(format!("{per_node} ranks on nodes with {} GPUs", library.gpus()), remedy));
    }
    if settings.is_fp8() && operation.reduces() {
        if library.capability().is_some_and(|capability| capability < 90) {
            let what = format!(
                "-d {}: NCCL reduces FP8 on GPUs from compute capability 9.0 on, and {} is of an earlier one",
                settings.type_name,
                library.first().gpu
            );
            return Err(conflict(what, "give another type, or a cluster with newer GPUs".to_owned()));
        }
        if settings.operator == "prod" {
            let what = format!("-d {} -o prod: products of FP8 run over, and nccl-tests leave them out", settings.type_name);
            return Err(conflict(what, "give -o sum, min, max or avg".to_owned()));
        }
    }
    if !per_node.is_multiple_of(each) {
        let what = format!("-t {} -g {}: processes of {each} GPUs do not fill {per_node} GPUs of a node", settings.threads, settings.gpus);
        return Err(conflict(what, "give a -g that divides the GPUs of a node, or leave --ppn out".to_owned()));
    }
    let ranks = nodes * per_node;
    if settings.root >= ranks {
        return Err(conflict(format!("-r {}: there are {ranks} ranks", settings.root), format!("give 0 to {}", ranks - 1)));
    }
    let world = World::new(library.clone(), target, (nodes, per_node), &settings.variables).map_err(|error| refused(tool, &error))?;
    let tuner = Tuner::new(world.plan());
    let rows = |some: bool| -> Result<Vec<Row>, _> {
        settings.sizes.iter().map(|size| row(operation, &settings, (&world, &tuner), *size, some)).collect()
    };
    let of_job = || -> Result<(Vec<Row>, Option<Fewer>), _> {
        if !settings.exact && Fewer::suits(&world) {
            let rows = rows(true)?;
            if let Some(fewer) = Fewer::of(&world, &rows)? {
                return Ok((rows, Some(fewer)));
            }
        }
        Ok((rows(false)?, None))
    };
    let (rows, fewer) = of_job().map_err(|error| refused(tool, &error))?;
    let taken = fewer.as_ref().map_or(nodes, Fewer::nodes);
    let (told, gpu) = (Rows::default(), target.gpu.clone());
    let job = Arc::new(Job {
        operation,
        settings,
        world,
        library,
        gpu,
        per_node,
        rows,
        told: told.clone(),
        wires: OnceLock::new(),
        known: Record::default(),
        fewer,
    });
    let times = job.rows.iter().map(|row| row.cases.each_ref().map(|cases| vec![Vec::new(); cases.len()])).collect();
    let results: Results = Record::new(Measured {
        times,
        wrong: vec![[0; 2]; job.rows.len()],
        done: vec![0; job.rows.len()],
        remarks: vec![Vec::new(); job.rows.len()],
    });
    let mains = (0..taken * per_node).map(|_| -> Main {
        let (job, results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run(process, job, results)))
    });
    let mains = mains.collect();
    let plans = job.rows.iter().flat_map(|row| row.cases.iter().flatten()).filter_map(|case| case.plan.as_ref());
    let ties = job.world.ties(plans.map(|plan| plan.choice.algorithm));
    let finish = move || report::report(&job, &results.lock(), job.rows.len());
    Ok(Prepared { placing: Placing::FirstOf { nodes, per_node }, mains, ties, finish: Box::new(finish), rows: told })
}

/// What a size is measured with; `some` nodes of the job stand for it.
fn row(
    operation: Operation,
    s: &Settings,
    (world, tuner): (&World, &Tuner),
    size: u64,
    some: bool,
) -> Result<Row, fabriscope_nccl::NcclError> {
    let channels = world.plan();
    let ranks = u64::from(channels.ranks());
    let blocks = if operation.divides() { ranks } else { 1 };
    let count = size / s.element / blocks;
    let bytes = count * s.element * blocks;
    let Some(known) = operation.planned() else {
        let case = |in_place| vec![Case { count, plan: None, in_place }];
        return Ok(Row { bytes, count, cases: [case(false), case(true)], choice: None, estimate: None, heavy: false });
    };
    let choice = tuner.choose(known, Bytes(bytes.max(1)))?;
    let plan = |count: u64, in_place| Plan::new(channels, choice, count, Bytes(s.element), s.root, in_place).map(Arc::new);
    let counted = |count: u64| {
        if matches!(known, fabriscope_nccl::Operation::AllGather | fabriscope_nccl::Operation::Broadcast) {
            count * s.element
        } else {
            count
        }
    };
    let heavy = some || !s.exact && steady::is_heavy(world, &*plan(counted(count), false)?);
    let cases = |in_place| -> Result<Vec<Case>, fabriscope_nccl::NcclError> {
        let whole = plan(counted(count), in_place)?;
        let steps = most_steps(world, &whole);
        let lengths = if steps > MOST_STEPS && !heavy && !s.exact {
            vec![count / (steps / MOST_STEPS + 1) / 2, count / (steps / MOST_STEPS + 1)]
        } else {
            vec![count]
        };
        let made = |count| Plan::new(channels, choice, counted(count), Bytes(s.element), s.root, in_place);
        let case = |count| Ok(Case { count, plan: Some(Arc::new(made(count)?.with_chunks_of(&whole))), in_place });
        lengths.into_iter().map(case).collect()
    };
    let channels = plan(counted(count), false)?.parts.len();
    let estimate = s.estimate.then_some(choice.estimate);
    let choice =
        format!("{bytes} bytes: {} {}, {channels} channels of {} threads", choice.algorithm.name(), choice.protocol.name(), choice.threads);
    Ok(Row { bytes, count, cases: [cases(false)?, cases(true)?], choice: Some(choice), estimate, heavy })
}

/// Steps of the longest lane of rank 0.
fn most_steps(world: &World, plan: &Plan) -> u64 {
    let lanes = plan.parts.iter().flat_map(|part| plan.lanes(world.plan(), 0, part));
    lanes.map(|lane| lane.steps()).max().unwrap_or(0)
}

/// One rank: all sizes in turn.
async fn run(process: Process, job: Arc<Job>, results: Results) -> Result<(), ProgramError> {
    let ranks = process.ranks();
    if process.rank() == 0 {
        job.tell(0, &results.lock());
    }
    if let Some(fewer) = &job.fewer {
        let mut groups = fewer::Groups::new(process, &job, fewer);
        for at in 0..job.rows.len() {
            for place in 0..2 {
                groups.measure(at, place, &results).await?;
            }
            done(&job, at, ranks, &results);
        }
        return Ok(());
    }
    let wires = job.wires.get_or_init(|| job.wires(ranks));
    let c = Communicator::init(process, job.world.clone(), wires).await?;
    c.counts(job.settings.type_name, Bytes(job.settings.element));
    for (at, row) in job.rows.iter().enumerate() {
        for (place, cases) in row.cases.iter().enumerate() {
            let before = c.wrong();
            if let (true, [Case { plan: Some(plan), .. }]) = (row.heavy, &cases[..]) {
                let (spans, skipped) = steady::measure(&c, &job, plan).await?;
                let mut results = results.lock();
                results.times[at][place][0] = spans;
                results.remarks[at] = skipped.remark(row.bytes).into_iter().collect();
            } else if place > 0 && row.measured_once(&job.settings) {
                // All ranks have said what they measured at the other place; whoever comes here first.
                let mut results = results.lock();
                results.times[at][place] = results.times[at][0].clone();
            } else {
                for (number, case) in cases.iter().enumerate() {
                    let span = measure(&c, &job, case).await?;
                    let times = &mut results.lock().times[at][place][number];
                    times.resize(ranks as usize, Span::ZERO);
                    times[c.rank() as usize] = span;
                }
                c.barrier().await?;
            }
            if c.is_first() {
                results.lock().wrong[at][place] += (c.wrong() - before).0.div_ceil(job.settings.element);
            }
        }
        done(&job, at, ranks, &results);
    }
    Ok(())
}

/// This rank is done with a row; the last one tells it.
fn done(job: &Job, row: usize, ranks: u32, results: &Results) {
    let mut results = results.lock();
    results.done[row] += 1;
    if results.done[row] == ranks {
        job.tell(row + 1, &results);
    }
}

/// Mean time of an operation: all are enqueued, then waited for.
async fn measure(c: &Communicator, job: &Job, case: &Case) -> Result<Span, ProgramError> {
    let s = &job.settings;
    c.barrier().await?;
    for _ in 0..if s.exact { s.warm_up } else { s.warm_up.min(1) } {
        let turn = enqueue(c, job, case)?;
        c.synchronise(turn).await?;
    }
    c.barrier().await?;
    let begun = c.now();
    let simulated = s.iterations.min(if s.exact {
        u32::MAX
    } else if case.count * s.element > LONG {
        SIMULATED_LONG
    } else {
        SIMULATED
    });
    let mut turns = Vec::new();
    for _ in 0..simulated {
        turns.push(enqueue(c, job, case)?);
    }
    let mut ends: Vec<Time> = Vec::new();
    for turn in turns {
        ends.push(c.synchronise(turn).await?);
    }
    let total = c.now().since(begun);
    let [.., before, last] = ends[..] else { return Ok(total) };
    Ok((total + last.since(before) * u64::from(s.iterations - simulated)) / u64::from(s.iterations))
}

/// One operation; the GPUs of a thread are served one after the other.
fn enqueue(c: &Communicator, job: &Job, case: &Case) -> Result<runtime::Turn, ProgramError> {
    if let Some(plan) = &case.plan {
        return enqueue_plan(c, job, plan);
    }
    in_order(c, job, || {
        let block = Bytes(case.count * job.settings.element);
        let mut last = None;
        for group in job.operation.groups(c.rank(), c.ranks(), job.settings.root, block, case.in_place) {
            last = Some(c.group(&group)?);
        }
        last.map_or_else(|| c.group(&[]), Ok)
    })
}

/// One collective operation.
fn enqueue_plan(c: &Communicator, job: &Job, plan: &Arc<Plan>) -> Result<runtime::Turn, ProgramError> {
    in_order(c, job, || c.collective(plan))
}

/// A call when those for the GPUs of the thread before this one are over.
fn in_order(
    c: &Communicator,
    job: &Job,
    starts: impl FnOnce() -> Result<runtime::Turn, ProgramError>,
) -> Result<runtime::Turn, ProgramError> {
    let (call, gpus) = (c.library().call, job.settings.gpus);
    let place = c.rank() % gpus;
    c.compute(call * u64::from(place));
    let turn = starts()?;
    c.compute(call * u64::from(gpus - 1 - place));
    Ok(turn)
}

/// Iterations that are simulated, and of messages of more than [`LONG`] bytes. Basis: assumed; the first may differ, no later ones do.
const SIMULATED: u32 = 6;
const SIMULATED_LONG: u32 = 3;
const LONG: u64 = 1 << 20;
/// Steps of a block that are simulated of one message. Basis: assumed; steady after two or three loops.
const MOST_STEPS: u64 = 512;
