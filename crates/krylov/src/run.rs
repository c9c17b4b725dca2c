//! One rank of the solver.
//!
//! Modelled: elements that neighbours need are collected by the cores and sent, the rows that need none of theirs go on meanwhile, the others
//! afterwards, as PETSc's MatMult_MPIAIJ does; a library that moves messages only while it is called moves none of them meanwhile.
//! Not modelled: threads of progress, messages straight out of the vector.

use std::sync::Arc;

use fabriscope_mpi::Rank;
use fabriscope_node::{Core, Process, ProgramError, Record};
use fabriscope_platform::processor::Pace;

use super::adapter::{ConnectionEnd, EndKind};
use super::job::{Helper, Job, Outcome, Phase, Spent, Watch, all_reduce, halo, of_rows};
use super::matrix::Part;
use super::share;
use super::solver::Operation;

/// One rank: an iteration that is not measured, then those that are; the same again with its helper, if it has one.
pub(super) async fn run(process: Process, job: Arc<Job>, results: Record<Vec<(u32, Outcome)>>) -> Result<(), ProgramError> {
    let me = process.rank();
    let part = &job.parts[me as usize];
    let mut peers: Vec<u32> = part.neighbours.iter().map(|(neighbour, _)| *neighbour).collect();
    peers.extend(job.reductions.values().flat_map(|(call, algorithm)| algorithm.peers(call, me)));
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process.clone(), job.world.clone(), &peers).await?;
    rank.goes_through(job.settings.solver.footprint(job.settings.preconditioner, part.rows, part.nonzeros));
    let helper = job.helpers.get(me as usize);
    let end = match helper {
        None => None,
        Some(helper) => {
            let (bridge, job) = (job.bridge, job.clone());
            process.spawn(Core::Adapter(0), Box::new(move |cores| Box::pin(help(cores, job, me))));
            Some((helper, ConnectionEnd::open(process, &helper.board, EndKind::Host, bridge).await?))
        }
    };
    let measured = 0..job.settings.iterations;
    iterations(&rank, &job, 0..1, None).await?;
    rank.synchronise().await?;
    let mut outcome = Outcome { alone: iterations(&rank, &job, measured.clone(), None).await?, together: None };
    rank.synchronise().await?;
    if let Some((helper, end)) = &end {
        helper.begin(end, &job, part).await?;
        rank.synchronise().await?;
        let with = helper.helps().then_some((*helper, end));
        iterations(&rank, &job, 0..1, with).await?;
        rank.synchronise().await?;
        outcome.together = Some(iterations(&rank, &job, measured, with).await?);
        rank.synchronise().await?;
    }
    results.lock().push((me, outcome));
    Ok(())
}

/// The program on the adapter that helps rank `rank`; it meets the ranks wherever they wait for each other.
async fn help(process: Process, job: Arc<Job>, rank: u32) -> Result<(), ProgramError> {
    let Some(helper) = job.helpers.get(rank as usize) else { return Ok(()) };
    let part = &job.parts[rank as usize];
    let end = ConnectionEnd::open(process, &helper.board, EndKind::Cores, job.bridge).await?;
    end.process().barrier().await;
    end.process().barrier().await;
    helper.answer(&end).await?;
    for numbers in [0..1, 0..job.settings.iterations] {
        end.process().barrier().await;
        for number in numbers.filter(|_| helper.helps()) {
            for operation in job.settings.solver.iteration(job.settings.preconditioner, number) {
                share::cores(helper, &end, part, operation).await?;
            }
        }
    }
    end.process().barrier().await;
    Ok(())
}

async fn iterations(
    rank: &Rank,
    job: &Job,
    numbers: std::ops::Range<u32>,
    with: Option<(&Helper, &ConnectionEnd)>,
) -> Result<Spent, ProgramError> {
    let (part, pace) = (&job.parts[rank.rank() as usize], job.paces[rank.rank() as usize]);
    let begun = rank.now();
    let mut watch = Watch { rank, spent: Spent::default(), since: begun };
    for number in numbers {
        for operation in job.settings.solver.iteration(job.settings.preconditioner, number) {
            match (with, operation) {
                (Some(with), _) => share::host(job, with, &mut watch, (part, pace), operation).await?,
                (None, Operation::MatVec) => product(&mut watch, part, pace).await?,
                (None, _) => {
                    rank.work(pace.rate.time(operation.bytes(part.rows, part.nonzeros))).await;
                    watch.lap(Phase::of(operation));
                    if let Operation::Dot { sums, .. } = operation {
                        all_reduce(rank, job, sums).await?;
                        watch.lap(Phase::Allreduce);
                    }
                }
            }
        }
    }
    watch.spent.total = rank.now().since(begun);
    Ok(watch.spent)
}

/// The product with the matrix: halo, inner rows, the rest.
async fn product(watch: &mut Watch<'_>, part: &Part, pace: Pace) -> Result<(), ProgramError> {
    let rank = watch.rank;
    let all = Operation::MatVec.bytes(part.rows, part.nonzeros);
    let outer = of_rows(all, part.outer, part.rows);
    let requests = halo(rank, part, pace).await?;
    watch.lap(Phase::Halo);
    rank.work(pace.rate.time(all - outer)).await;
    watch.lap(Phase::MatVec);
    rank.wait_all(requests).await?;
    watch.lap(Phase::Halo);
    rank.work(pace.rate.time(outer)).await;
    watch.lap(Phase::MatVec);
    Ok(())
}
