//! Benchmarks of collective operations on all PEs.
//!
//! Source: OMB 7.4, `osu_oshm_barrier.c`, `osu_oshm_broadcast.c` and their kin: a `shmem_barrier_all` after every iteration, beside the measured time.
//! Modelled: that; the mean of each PE, and their mean, least and most.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::{CollectiveRules, Mpi, Shmem, ShmemCollectives};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_mpi::shmem::{Job, Operation, Pe};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::Span;

use super::options::Settings;
use super::report;
use crate::collective::Plan;

/// What all PEs share.
struct Shared {
    settings: Settings,
    operation: Operation,
    job: Job,
    /// Of each size.
    choices: Vec<(Call, Algorithm)>,
    barrier: (Call, Algorithm),
}

pub(super) fn prepare(
    operation: Operation,
    mut settings: Settings,
    (shmem, mpi): (&Shmem, &Mpi),
    target: &Target,
) -> Result<Prepared, UsageError> {
    let tool = settings.benchmark.name;
    if operation == Operation::Barrier {
        settings.sizes = vec![0];
    }
    let rules = own_rules(shmem, mpi);
    let plan = |kind: Kind, algorithm: Option<String>| {
        let width = if kind.reduces() { 4 } else { 1 };
        Plan { width, algorithm, ..Plan::new(kind, Vec::new(), false) }
    };
    let asked = plan(operation.kind(), settings.algorithm.clone());
    let choose = |size: &u32| Ok((asked.call(*size, target), asked.choose(tool, *size, &rules, target)?));
    let choices = settings.sizes.iter().map(choose).collect::<Result<Vec<_>, UsageError>>()?;
    let between = plan(Kind::Barrier, None);
    // A library whose part does not say does as most.
    let fallback = |_| plan(Kind::Barrier, Some("dissemination".to_owned())).choose(tool, 0, &rules, target);
    let barrier = (between.call(0, target), between.choose(tool, 0, &rules, target).or_else(fallback)?);
    let pes = target.layout.ranks();
    let job = Job::new(shmem, mpi, target, (pes, settings.symmetric_size.unwrap_or(shmem.heap.0)), false);
    let by = if *shmem.collectives_by == ShmemCollectives::Puts { "puts" } else { "messages" };
    let mut remarks = vec![format!("{}: collective operations by {by}", shmem.library)];
    for ((_, algorithm), size) in choices.iter().zip(&settings.sizes) {
        let line = format!("{}: {algorithm} from {size} bytes on", operation.name());
        let same = |before: &String| before.split(" from ").next() == line.split(" from ").next();
        if !remarks.last().is_some_and(same) {
            remarks.push(line);
        }
    }
    let results: Record<Vec<Vec<Span>>> = Record::new(vec![Vec::new(); settings.sizes.len()]);
    let rows = Rows::default();
    let shared = Arc::new(Shared { settings, operation, job, choices, barrier });
    let main = || -> Main {
        let (shared, results) = (shared.clone(), (results.clone(), rows.clone()));
        Box::new(move |process| Box::pin(run(process, shared, results)))
    };
    let mains = (0..pes).map(|_| main()).collect();
    let ties = shared.job.ties();
    let finish = move || ToolOutput { remarks, ..report::collective(&shared.settings, &results.lock()) };
    Ok(Prepared { placing: Placing::Blocks { per_node: target.layout.per_node }, mains, ties, finish: Box::new(finish), rows })
}

/// The rules of the MPI library, with those that the OpenSHMEM library has itself in their place.
fn own_rules(shmem: &Shmem, mpi: &Mpi) -> Mpi {
    let mut rules = mpi.clone();
    let own: &BTreeMap<String, CollectiveRules> = &shmem.collectives;
    for (word, rows) in own {
        rules.collectives.insert(word.clone(), rows.clone());
        rules.hierarchical.remove(word);
    }
    rules
}

async fn run(process: Process, shared: Arc<Shared>, (results, rows): (Record<Vec<Vec<Span>>>, Rows)) -> Result<(), ProgramError> {
    let me = process.rank();
    let calls = shared.choices.iter().chain([&shared.barrier]);
    let mut peers: Vec<u32> = calls.flat_map(|(call, algorithm)| algorithm.peers(call, me)).collect();
    peers.sort_unstable();
    peers.dedup();
    let pe = Pe::init(process, shared.job.clone(), &peers).await?;
    let barrier = || pe.collective(Operation::Barrier, &shared.barrier.1, &shared.barrier.0);
    let settings = &shared.settings;
    let tell = |done: &[Vec<Span>]| rows.tell((done.len(), settings.sizes.len()), || report::collective(settings, done).text);
    if me == 0 {
        tell(&[]);
    }
    for (row, ((call, algorithm), size)) in shared.choices.iter().zip(&shared.settings.sizes).enumerate() {
        pe.memory().goes_through(call.footprint());
        pe.synchronise().await?;
        let (iterations, warm_up) = (shared.settings.iterations(*size), shared.settings.warm_up(*size));
        let mut measured = Span::ZERO;
        for iteration in 0..warm_up + iterations {
            let begun = pe.now();
            pe.collective(shared.operation, algorithm, call).await?;
            if iteration >= warm_up {
                measured += pe.now().since(begun);
            }
            if shared.operation != Operation::Barrier {
                barrier().await?;
            }
        }
        let mut results = results.lock();
        results[row].push(measured / u64::from(iterations));
        if results[row].len() == pe.pes() as usize {
            tell(&results[..=row]);
        }
    }
    pe.synchronise().await
}
