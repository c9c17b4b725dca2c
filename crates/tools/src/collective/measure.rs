//! The ranks of a collective benchmark: all sizes in turn, each iteration timed.

use std::sync::{Arc, OnceLock};

use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_mpi::{Casting, Multicast, MulticastSettings, OffloadSettings, OffloadState, Packing, Rank, TriggeredState, Unable, World};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Prepared, Rows, ToolOutput, UsageError, mpi_for};
use fabriscope_units::Span;

use super::contents;
use super::plan::{Form, Implementation, Implementations, Offloaded, Plan};
use super::switches::Switches;

/// What a rank measured of a size: the means of its iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mean {
    /// The whole, from the call to the end of the wait.
    pub overall: Span,
    /// Of a non-blocking operation: the same without computing, which is as long as what is computed meanwhile.
    pub pure: Span,
    /// How many they were.
    pub iterations: u32,
}

/// Of all ranks, in no order.
pub(super) type RankMeans = Vec<Mean>;
type Results = Record<Vec<RankMeans>>;

/// The report of the rows that are done: all above the table, and what stands below it with the last row.
pub(super) type Report = Box<dyn Fn(&Plan, &[RankMeans]) -> ToolOutput + Send + Sync>;

/// What is known once the plan met the machine.
struct Job {
    plan: Plan,
    /// By size, as in the plan.
    choices: Vec<(Call, Implementation)>,
    /// The iterations of each size, once switches are known to reduce or not.
    iterations: Vec<OnceLock<u32>>,
    /// How broadcasts by multicast go, where there are some.
    multicast: Option<MulticastSettings>,
    /// What the ranks share for broadcasts by multicast.
    casting: Casting,
    /// Why there are none, where they were asked for.
    unable: Option<Unable>,
    /// What switches do.
    switches: Switches,
    /// What separates iterations: the library's barrier, as the program calls it.
    barrier: Option<(Call, Algorithm)>,
    world: World,
    packing: Packing,
    /// Who carries it out in place of the ranks.
    desk: Option<Carriers>,
    report: Report,
    rows: Rows,
}

/// What ranks share with those that carry out their operations.
enum Carriers {
    /// Workers on the DPU.
    Workers(OffloadSettings, OffloadState),
    /// The adapters.
    Triggered(TriggeredState),
}

impl Job {
    /// The rows of these results are done.
    fn tell(&self, results: &[RankMeans]) {
        self.rows.tell((results.len(), self.choices.len()), || (self.report)(&self.plan, results).text);
    }
}

/// The programs of `plan`, whose results `report` prints.
pub(super) fn programs(tool: &str, plan: Plan, target: &Target, report: Report) -> Result<Prepared, UsageError> {
    let (per_node, ranks) = (target.layout.per_node, target.layout.ranks());
    let mpi = mpi_for(tool, target)?;
    plan.check(target)?;
    let offloaded = plan.offloaded(tool, mpi, target)?;
    let plan = match offloaded {
        Some(Offloaded::Workers(_)) => plan.of_workers(mpi),
        Some(Offloaded::Triggered) => plan.of_adapters(),
        None => plan,
    };
    let Implementations { multicast, unable, each: choices } = plan.choices(tool, mpi, target)?;
    if offloaded.is_some() {
        plan.check_workers(tool, &choices)?;
    }
    if plan.validate {
        contents::check(tool, &choices)?;
    }
    let switches = Switches::new(&plan, &choices, tool, mpi, target)?;
    let barrier = plan.barrier(tool, mpi, target);
    let inline = mpi.inline_limit.saturating_u32().min(target.max_inline);
    let desk = offloaded.map(|offloaded| match offloaded {
        Offloaded::Workers(settings) => Carriers::Workers(settings, OffloadState::new(settings, target, inline)),
        Offloaded::Triggered => Carriers::Triggered(TriggeredState::new(target)),
    });
    let casting = Casting::default();
    let (world, packing) = (plan.buffers.world(mpi, target, ranks), Packing::from(mpi));
    let (iterations, results) = (vec![OnceLock::new(); choices.len()], Record::new(vec![Vec::new(); choices.len()]));
    let rows = Rows::default();
    let told = rows.clone();
    // Switches that reduce, copies of packets and workers on DPUs are groups of the whole fabric.
    let across = multicast.is_some() || desk.is_some() || switches.are_there();
    let ties = if across { Ties::Any } else { world.ties() };
    let job = Arc::new(Job {
        plan,
        choices,
        iterations,
        multicast,
        casting,
        unable,
        switches,
        barrier,
        world,
        packing,
        desk,
        report,
        rows: told,
    });
    let main = || -> Main {
        let (job, results): (Arc<Job>, Results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run(process, job, results)))
    };
    let mains = (0..ranks).map(|_| main()).collect();
    let finish = move || ToolOutput { remarks: remarks(&job), ..(job.report)(&job.plan, &results.lock()) };
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties, finish: Box::new(finish), rows })
}

/// One rank: all sizes in turn.
async fn run(process: Process, job: Arc<Job>, results: Results) -> Result<(), ProgramError> {
    let me = process.rank();
    let choices = job.choices.iter().filter_map(|(call, way)| match way {
        Implementation::Rounds(algorithm) => Some((call, algorithm)),
        Implementation::Multicast(_) => None,
    });
    let choices = choices.chain(job.switches.by_hosts(&job.choices));
    let calls = choices.chain(job.barrier.as_ref().map(|(call, barrier)| (call, barrier)));
    let mut peers: Vec<u32> = calls.flat_map(|(call, algorithm)| algorithm.peers(call, me)).collect();
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process, job.world.clone(), &peers).await?;
    let multicast = match job.multicast {
        Some(settings) => Some(Multicast::open(&rank, settings, &job.casting, &[job.plan.root]).await?),
        None => None,
    };
    job.switches.join(&rank, &job.choices).await?;
    match &job.desk {
        Some(Carriers::Workers(_, desk)) => rank.open_offload(desk).await?,
        Some(Carriers::Triggered(state)) => {
            // A barrier has one size, and one algorithm.
            if let Some((call, Implementation::Rounds(algorithm))) = job.choices.first() {
                rank.open_triggered(state, call, algorithm).await?;
            }
        }
        None => {}
    }
    if me == 0 {
        job.tell(&[]);
    }
    for (at, (call, way)) in job.choices.iter().enumerate() {
        let way = job.switches.taken(at, way);
        rank.goes_through(call.footprint());
        rank.synchronise().await?;
        let iterations = *job.iterations[at].get_or_init(|| job.plan.iterations(way, call));
        let blocking = mean_of(&rank, &job, call, (way, &multicast), iterations, None).await?;
        let mean = match job.plan.form {
            Form::Blocking => Mean { overall: blocking, iterations, ..Mean::default() },
            Form::NonBlocking { tests } => {
                let overall = mean_of(&rank, &job, call, (way, &multicast), iterations, Some((blocking, tests))).await?;
                Mean { overall, pure: blocking, iterations }
            }
        };
        let mut results = results.lock();
        results[at].push(mean);
        if results[at].len() == rank.ranks() as usize {
            job.tell(&results[..=at]);
        }
    }
    rank.synchronise().await
}

/// The mean of the iterations; with `meanwhile`, the rank computes so long between the call and the wait, and asks so often.
async fn mean_of(
    rank: &Rank,
    job: &Job,
    call: &Call,
    (way, multicast): (&Implementation, &Option<Multicast>),
    iterations: u32,
    meanwhile: Option<(Span, u32)>,
) -> Result<Span, ProgramError> {
    let warm_up = job.plan.warm_up(iterations);
    let size = call.size.0 as u32;
    let mut total = Span::ZERO;
    for iteration in 0..warm_up + iterations {
        let start = rank.now();
        if size > 0 || call.works_on_nothing() {
            match (way, multicast) {
                (Implementation::Rounds(algorithm), _) => rounds(rank, job, call, algorithm, meanwhile).await?,
                (Implementation::Multicast(_), Some(multicast)) => {
                    multicast.broadcast(rank, call.root, job.plan.buffers.sender, size).await?
                }
                (Implementation::Multicast(_), None) => {}
            }
        }
        rank.note_call(start, || (format!("{} {}", call.operation, call.size), call.size));
        if iteration >= warm_up {
            total += rank.now().since(start);
        }
        match &job.barrier {
            Some((call, barrier)) => rank.carry_out(barrier.outlines(call, rank.rank()), job.packing).await?,
            None if job.plan.separate => rank.synchronise().await?,
            None => {}
        }
    }
    Ok(total / u64::from(iterations))
}

/// Carries out the operation once.
async fn rounds(rank: &Rank, job: &Job, call: &Call, algorithm: &Algorithm, meanwhile: Option<(Span, u32)>) -> Result<(), ProgramError> {
    if let Some(desk) = &job.desk {
        let request = match desk {
            Carriers::Workers(..) => rank.hand_over(call, algorithm)?,
            Carriers::Triggered(_) => rank.triggered_barrier().await?,
        };
        if let Some((compute, tests)) = meanwhile {
            for _ in 0..tests {
                rank.compute(compute / u64::from(tests + 1));
                rank.look().await?;
            }
            rank.compute(compute / u64::from(tests + 1));
        }
        return rank.wait(request).await;
    }
    let mut under_way = rank.begin(algorithm.outlines(call, rank.rank()), job.packing, job.plan.buffers.sender)?;
    if let Some((compute, tests)) = meanwhile {
        for _ in 0..tests {
            rank.compute(compute / u64::from(tests + 1));
            rank.test(&mut under_way).await?;
        }
        rank.compute(compute / u64::from(tests + 1));
    }
    rank.complete(under_way).await
}

/// Mean, least and most of what the ranks measured, in µs.
pub(super) fn statistics(spans: impl Iterator<Item = Span> + Clone) -> (f64, f64, f64) {
    let us = |span: Option<Span>| span.map_or(0.0, |span| span.as_us_f64());
    let sum: Span = spans.clone().sum();
    (sum.as_us_f64() / spans.clone().count().max(1) as f64, us(spans.clone().min()), us(spans.max()))
}

/// A line for each algorithm in the order of the sizes: `allreduce: ring from 4096 to 1048576 bytes`.
pub(super) fn runs<'a>(operation: Kind, ways: impl Iterator<Item = (u64, &'a Implementation)>) -> Vec<String> {
    let mut runs: Vec<(&Implementation, u64, u64)> = Vec::new();
    for (size, way) in ways {
        match runs.last_mut() {
            Some((last, _, end)) if *last == way => *end = size,
            _ => runs.push((way, size, size)),
        }
    }
    let line = |(algorithm, first, end): (&Implementation, u64, u64)| match first == end {
        true if first == 0 => format!("{operation}: {algorithm}"),
        true => format!("{operation}: {algorithm} at {first} bytes"),
        false => format!("{operation}: {algorithm} from {first} to {end} bytes"),
    };
    runs.into_iter().map(line).collect()
}

/// What there is to say of a run.
fn remarks(job: &Job) -> Vec<String> {
    let operation = job.plan.operation;
    let ways = job.choices.iter().enumerate().map(|(at, (call, way))| (call.size.0, job.switches.taken(at, way)));
    let runs = runs(operation, ways);
    let instead = |unable: &Unable| {
        let asked = job.plan.algorithm.as_deref().unwrap_or_default();
        format!("{operation}: {asked} was asked for, but {unable}; the library's own choice instead")
    };
    let outcome = job.casting.outcome();
    let repaired = (outcome.lost > 0).then(|| {
        let (lost, gets, got) = (outcome.lost, outcome.gets, outcome.got);
        format!("{operation}: {lost} packets were lost and fetched from the root by {gets} reads of {got} bytes in all")
    });
    let offloaded = job.desk.as_ref().map(|desk| match desk {
        Carriers::Workers(settings, _) => format!("{operation}: {settings}"),
        Carriers::Triggered(_) => format!("{operation}: triggered operations of the adapters"),
    });
    let refused = job.switches.remark().map(|why| format!("{operation}: {why}"));
    job.unable.iter().map(instead).chain(refused).chain(offloaded).chain(runs).chain(repaired).collect()
}
