//! perftest: `ib_{send,write,read,atomic}_{lat,bw}` and `raw_ethernet_{lat,bw}` on a simulated NIC.
//!
//! Source: linux-rdma/perftest 6.29: behaviour, options and output (format: docs/formats.md).
//! Modelled: RC, UC and UD; one or all sizes; several queue pairs; both directions; the statistics and the bytes of the
//! client's output. Rank 0 is the client, rank 1 the server.
//! Not modelled: the server's own output; flow steering of raw queue pairs.

mod bw;
mod command_line;
mod defaults;
mod endpoint;
mod extras;
mod gpu;
mod header;
mod iterations;
mod json;
mod lat;
mod options;
mod report;
mod settings;
mod statistics;
mod test;

use std::sync::Arc;

use fabriscope_node::{Main, Process, ProgramError, Record, Ties};

pub use gpu::{Accelerator, Driver};
pub use header::Address;
pub(crate) use options::OPTIONS;
pub use report::{Measured, Row, report};
pub use settings::{AtomicType, CONNECTIONS, Length, Settings, Verbosity};
pub use statistics::{BandwidthRow, LatencyDurationRow, LatencyRow, Stamps};
pub use test::{Kind, TESTS, Test, Verb};

use endpoint::{Board, Endpoint, Role};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Prepared, Rows, ToolOutput, UsageError};
use iterations::Quota;
use lat::Outcome;

/// What the two programs of a run share: everything that is out of band.
struct Shared {
    settings: Arc<Settings>,
    board: Board,
    /// Quotas by size and sending rank.
    quotas: Vec<[Quota; 2]>,
    /// Outcomes of the server by size, for `-b`.
    server: Record<Vec<Option<Outcome>>>,
    measured: Record<Measured>,
    rows: Rows,
}

impl Shared {
    /// So many sizes are done.
    fn tell(&self, done: usize, measured: &Measured) {
        self.rows.tell((done, self.settings.sizes.len()), || report::table(&self.settings, measured).text);
    }
}

/// Reads the command line of `test` and makes its two programs.
///
/// # Errors
/// As [`Settings::parse`].
pub fn prepare(test: Test, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = Arc::new(Settings::parse(test, args, target)?);
    let quota = || Quota::new(settings.length, settings.qps);
    let rows = Rows::default();
    let shared = Arc::new(Shared {
        quotas: settings.sizes.iter().map(|_| [quota(), quota()]).collect(),
        server: Record::new(vec![None; settings.sizes.len()]),
        board: Board::default(),
        measured: Record::default(),
        rows: rows.clone(),
        settings,
    });
    let main = |shared: Arc<Shared>| -> Main { Box::new(move |process| Box::pin(run(process, shared))) };
    let mains = vec![main(shared.clone()), main(shared.clone())];
    let finish = move || -> ToolOutput { report(&shared.settings, &shared.measured.lock()) };
    Ok(Prepared { placing: Placing::TwoNodes, mains, ties: Ties::Any, finish: Box::new(finish), rows })
}

/// One end: all sizes in turn.
async fn run(process: Process, shared: Arc<Shared>) -> Result<(), ProgramError> {
    let s = shared.settings.clone();
    let end = Endpoint::open(process, s.clone(), &shared.board).await?;
    if end.role == Role::Client {
        let mut measured = shared.measured.lock();
        measured.remarks = end.remarks();
        (measured.local, measured.remote) = end.addresses();
        shared.tell(0, &measured);
    }
    let mut landed = 0;
    for (at, &size) in s.sizes.iter().enumerate() {
        let both = s.bidirectional || s.test.kind == Kind::Latency;
        if s.receives() && (both || end.role == Role::Server) {
            bw::post_receives(&end, size)?;
        }
        end.process.barrier().await;
        let sends = both || end.role == Role::Client;
        if s.warm_up && !s.receives() && s.test.kind == Kind::Bandwidth && sends {
            bw::warm_up(&end, size).await?;
        }
        end.process.barrier().await;
        let outcome = match measure(&end, size, &shared.quotas[at], &mut landed).await {
            // The tool ends where its first request ends.
            Err(_) if s.wrong_rkey && end.failure.get().is_some() => {
                shared.measured.lock().failure = end.failure.get();
                end.process.barrier().await;
                return Ok(());
            }
            outcome => outcome?,
        };
        if end.role == Role::Server && s.wrong_rkey {
            end.process.barrier().await;
            return Ok(());
        }
        if end.role == Role::Server {
            shared.server.lock()[at] = outcome;
            end.process.barrier().await;
        } else {
            end.process.barrier().await;
            let theirs = shared.server.lock()[at].take();
            if let Some(row) = outcome.and_then(|mine| row(&s, size, &mine, theirs.as_ref()).map(|row| (row, mine.stamps.posted))) {
                let mut measured = shared.measured.lock();
                measured.rows.push(row);
                shared.tell(at + 1, &measured);
            }
        }
    }
    Ok(())
}

/// One size at one end.
async fn measure(end: &Endpoint, size: u32, quotas: &[Quota; 2], landed: &mut u64) -> Result<Option<Outcome>, ProgramError> {
    let s = &end.settings;
    let (mine, theirs) = if end.role == Role::Client { (&quotas[0], &quotas[1]) } else { (&quotas[1], &quotas[0]) };
    let outcome = match (s.test.kind, end.role) {
        (Kind::Latency, _) => lat::run(end, size, &quotas[0], landed).await?,
        (Kind::Bandwidth, _) if s.bidirectional && s.receives() => bw::exchange(end, size, mine, theirs).await?,
        (Kind::Bandwidth, Role::Server) if !s.bidirectional => {
            if s.receives() {
                bw::receive(end, size, theirs).await?;
            }
            return Ok(None);
        }
        (Kind::Bandwidth, _) => bw::send(end, size, mine).await?,
    };
    Ok(Some(outcome))
}

/// The row that the client prints.
fn row(s: &Settings, size: u32, mine: &Outcome, theirs: Option<&Outcome>) -> Option<Row> {
    let parts = if s.test.is_one_sided_round_trip() { 1.0 } else { 2.0 };
    let bandwidth = |outcome: &Outcome| match outcome.clock.result() {
        Some((messages, window)) => Some(statistics::bandwidth_by_duration(size, messages, window)),
        None => statistics::bandwidth(size, &outcome.stamps, s.post_list as usize, s.peak),
    };
    match (s.test.kind, mine.clock.result()) {
        (Kind::Bandwidth, _) => {
            let row = bandwidth(mine)?;
            let theirs = theirs.filter(|_| s.bidirectional).and_then(bandwidth);
            Some(Row::Bandwidth(theirs.map_or(row, |theirs| statistics::both_ways(row, theirs))))
        }
        (Kind::Latency, None) => statistics::latency(size, &mine.stamps.posted, parts).map(Row::Latency),
        (Kind::Latency, Some((iterations, window))) => {
            let per_second = iterations as f64 / window.as_s_f64();
            let average = 1e6 / per_second / parts;
            Some(Row::LatencyDuration(LatencyDurationRow { size, iterations, average, per_second }))
        }
    }
}

#[cfg(test)]
mod tests;
