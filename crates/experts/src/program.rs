//! A GPU of the job as a program: one kernel after the other.

use std::sync::Arc;

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Span, Time};

use crate::job::{Exchange, Job, Phase};
use crate::rank::Rank;
use crate::{forwarded, gathered, scattered};

/// Runs the kernels of a job on one of its GPUs.
///
/// # Errors
/// Nodes without GPUs, adapters that refuse what is posted.
pub async fn run(process: Process, job: Arc<Job>) -> Result<(), ProgramError> {
    let mut rank = Rank::seated(process, job).await?;
    for (number, kernel) in rank.job.clone().kernels.iter().enumerate() {
        rank.kernel = number as u32;
        rank.process.barrier().await;
        rank.shared.borrow_mut().last[rank.gpu as usize] = Time::ZERO;
        rank.process.barrier().await;
        let begun = rank.process.now();
        let own = match (kernel.exchange, kernel.way) {
            (Exchange::Scattered, _) => scattered::run(&mut rank, kernel, begun).await?,
            (Exchange::Forwarded { chunk, .. }, Phase::Dispatch) => forwarded::run(&mut rank, (kernel, chunk), begun).await?,
            (Exchange::Forwarded { chunk, .. }, Phase::Combine) => gathered::run(&mut rank, (kernel, chunk), begun).await?,
        };
        rank.process.barrier().await;
        let last = rank.shared.borrow().last[rank.gpu as usize];
        let begin = *rank.job.library.begin;
        let floor = rank.job.library.call.as_ref().map_or(Span::ZERO, |call| **call);
        let span = (own.max(last).max(begun).since(begun) + begin).max(floor);
        rank.job.measured.lock()[number][rank.me as usize] = span;
    }
    Ok(())
}
