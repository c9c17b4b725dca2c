//! One rank of an application in the packet engine.
//!
//! Modelled: messages that are posted, computation, and then the wait for them; a library moves messages only while it is called, workers
//! on a DPU always.

use std::collections::VecDeque;
use std::sync::Arc;

use fabriscope_mpi::{Buffer, OneSided, Product, Rank, Request, UnderWay, World};
use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_units::{Bytes, Span, Time};

use crate::cause::{ByCause, Cause};
use crate::plan::{Act, Plan, Start};
use crate::report::Spent;
use crate::step::{self, Phase};

/// An iteration that is not measured, then those that are.
pub(crate) async fn run(process: Process, plan: Arc<Plan>, world: World, results: Record<Vec<(u32, Spent)>>) -> Result<(), ProgramError> {
    let me = process.rank();
    let rank = Rank::init(process, world, &plan.peers(me)).await?;
    rank.goes_through(plan.footprint);
    if let Some((_, desk)) = &plan.workers {
        rank.open_offload(desk).await?;
    }
    let (before, measured) = plan.iterations();
    iterations(&rank, &plan, before).await?;
    rank.synchronise().await?;
    let spent = iterations(&rank, &plan, measured).await?;
    rank.synchronise().await?;
    results.lock().push((me, spent));
    Ok(())
}

async fn iterations(rank: &Rank, plan: &Arc<Plan>, count: u32) -> Result<Spent, ProgramError> {
    let begun = rank.now();
    let count_of = Phase::all().count();
    let mut spent = Spent { phases: vec![Span::ZERO; count_of], causes: vec![ByCause::default(); count_of], total: Span::ZERO };
    let mut since: Since = (begun, rank.idle());
    let mut outstanding = VecDeque::new();
    for _ in 0..count {
        for act in plan.acts(rank.rank()) {
            let phase = carry_out(rank, plan, act, (&mut (&mut spent, &mut since), &mut outstanding)).await?;
            lap(rank, &mut (&mut spent, &mut since), phase);
        }
    }
    spent.total = rank.now().since(begun);
    Ok(spent)
}

/// When the last phase ended, and how long the core had waited in all by then.
type Since = (Time, Span);
type Watch<'w> = (&'w mut Spent, &'w mut Since);

/// What has begun and has not been waited for.
enum Outstanding {
    Rounds(UnderWay),
    Requests(Vec<Request>),
}

/// What passed since the last call was for `phase`.
fn lap(rank: &Rank, (spent, since): &mut Watch<'_>, phase: Phase) {
    let (now, idle) = (rank.now(), rank.idle());
    let (begun, waited) = **since;
    let (all, waiting) = (now.since(begun), idle.saturating_sub(waited));
    spent.phases[phase.index()] += all;
    let causes = &mut spent.causes[phase.index()];
    causes[Cause::Waiting as usize] += waiting;
    causes[Cause::Core as usize] += all.saturating_sub(waiting);
    **since = (now, idle);
}

async fn carry_out(
    rank: &Rank,
    plan: &Plan,
    act: Act,
    (watch, outstanding): (&mut Watch<'_>, &mut VecDeque<(Phase, Outstanding)>),
) -> Result<Phase, ProgramError> {
    match act {
        Act::Work(span) => {
            rank.work(span).await;
            Ok(Phase::Compute)
        }
        Act::Rounds(phase, outlines) => {
            rank.carry_out(outlines, plan.packing).await?;
            Ok(phase)
        }
        Act::Exchange(phase, outline, meanwhile) => {
            let under_way = rank.begin(Box::new(std::iter::once(outline)), plan.packing, Buffer::Host)?;
            if meanwhile > Span::ZERO {
                lap(rank, watch, phase);
                rank.work(meanwhile).await;
                lap(rank, watch, Phase::Compute);
            }
            rank.complete(under_way).await?;
            Ok(phase)
        }
        Act::OneSided(phase, one_sided) => {
            rank.wait_all(post(rank, &one_sided)?).await?;
            Ok(phase)
        }
        Act::Begin(phase, start) => {
            let begun = match start {
                Start::Rounds(rounds) => Outstanding::Rounds(rank.begin(rounds, plan.packing, Buffer::Host)?),
                Start::Handed(group, index, call, algorithm) => {
                    Outstanding::Requests(vec![rank.hand_over_among(&group, index, &call, &algorithm)?])
                }
                Start::OneSided(one_sided) => Outstanding::Requests(post(rank, &one_sided)?),
            };
            outstanding.push_back((phase, begun));
            Ok(phase)
        }
        Act::Finish => {
            let (phase, begun) = outstanding.pop_front().ok_or_else(|| ProgramError("nothing has begun that could end".to_owned()))?;
            match begun {
                Outstanding::Rounds(under_way) => rank.complete(under_way).await?,
                Outstanding::Requests(requests) => rank.wait_all(requests).await?,
            }
            Ok(phase)
        }
        Act::Products(products) => {
            let mut requests = Vec::with_capacity(products.len());
            for (step::Product { gets, put, .. }, computes) in products {
                let gets = gets.into_iter().map(|(target, bytes)| Ok((target, length(bytes)?))).collect::<Result<_, ProgramError>>()?;
                requests.push(rank.hand_product(Product { gets, computes, put: (put.0, length(put.1)?) })?);
            }
            rank.wait_all(requests).await?;
            Ok(Phase::Wait)
        }
    }
}

/// Posts reads or writes of windows.
fn post(rank: &Rank, one_sided: &step::OneSided) -> Result<Vec<Request>, ProgramError> {
    let what = if one_sided.is_get { OneSided::Get } else { OneSided::Put };
    let of = |(target, bytes): &(u32, Bytes)| rank.one_sided(what, *target, (Buffer::Host, Buffer::Host), length(*bytes)?);
    one_sided.parts.iter().map(of).collect()
}

fn length(bytes: Bytes) -> Result<u32, ProgramError> {
    u32::try_from(bytes.0).map_err(|_| ProgramError(format!("{} bytes of a window at once", bytes.0)))
}
