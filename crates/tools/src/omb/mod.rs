//! OSU Micro-Benchmarks, point to point: `osu_latency`, `osu_bw`, `osu_bibw`, `osu_mbw_mr`, `osu_multi_lat`, one-sided `osu_put_*`, `osu_get_*`,
//! `osu_acc_latency`, `osu_get_acc_latency`, `osu_fop_latency` and `osu_cas_latency`, over
//! [`fabriscope_mpi`].
//!
//! Source: OMB 7.4: behaviour, options and output (format: docs/formats.md).
//! Modelled: the loops of the tools, all sizes of a run in one job, percentiles over the iterations; those that repeat are counted
//! (`periodic.rs`).
//! Not modelled: derived data types, graphs, varying windows; data is never wrong, so validation passes.

mod benchmark;
mod buffers;
mod loops;
mod managed;
mod options;
mod periodic;
mod report;
mod sync;

use std::sync::Arc;

use fabriscope_mpi::{Buffer, OffloadState, Rank, World};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Prepared, Ranks, Rows, ToolOutput, UsageError, mpi_for};
use fabriscope_units::{Bytes, Span};

pub use benchmark::{BENCHMARKS, Benchmark};
pub use buffers::Buffers;
pub(crate) use options::OPTIONS;
pub use options::Settings;
pub use report::{Sample, report};
pub use sync::Sync;

use crate::repeats;
use benchmark::{Body, Seen};
use loops::Pair;
use managed::Managed;
use periodic::Periodic;

/// Iterations by size and sending rank.
type Results = Record<Vec<Vec<Vec<Span>>>>;

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// As [`Settings::parse`].
pub fn prepare(benchmark: &'static Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = Arc::new(Settings::parse(benchmark, args, target)?);
    let mpi = mpi_for(benchmark.name, target)?;
    let world = settings.buffers.world(mpi, target, 2 * settings.pairs);
    let inline = mpi.inline_limit.saturating_u32().min(target.max_inline);
    let desk = settings.offload.map(|offload| OffloadState::new(offload, target, inline));
    let results: Results = Record::new(vec![Vec::new(); settings.sizes.len()]);
    let rows = Rows::default();
    let periodic = Periodic::new(settings.sizes.len(), settings.pairs, target.every_iteration);
    let main = || -> Main {
        let (settings, world, desk) = (settings.clone(), world.clone(), desk.clone());
        let results = (results.clone(), rows.clone(), periodic.clone());
        Box::new(move |process| Box::pin(run(process, (world, desk), settings, results)))
    };
    let mains = (0..2 * settings.pairs).map(|_| main()).collect();
    let placing = match benchmark.ranks {
        Ranks::TwoOnOneNode => Placing::Blocks { per_node: 2 },
        _ if target.layout.nodes == 1 => Placing::Blocks { per_node: 2 * settings.pairs },
        Ranks::Pairs => Placing::Pairs { pairs: settings.pairs },
        _ => Placing::TwoNodes,
    };
    let finish = move || -> ToolOutput {
        let remarks = settings.offload.iter().map(|offload| format!("messages: {offload}")).collect();
        ToolOutput { remarks, ..report(&settings, &samples(&settings, &results.lock())) }
    };
    Ok(Prepared { placing, mains, ties: Ties::Any, finish: Box::new(finish), rows })
}

/// One rank: all sizes in turn.
async fn run(
    process: Process,
    (world, desk): (World, Option<OffloadState>),
    s: Arc<Settings>,
    (results, rows, periodic): (Results, Rows, Periodic),
) -> Result<(), ProgramError> {
    let (me, pairs) = (process.rank(), s.pairs);
    let peer = if me < pairs { me + pairs } else { me - pairs };
    let sends = me < pairs;
    let (buffer, staged) = (s.buffers.of(sends), s.buffers.staged);
    let given = if staged { Buffer::Host } else { buffer };
    let rank = Rank::init_in(process, world, &[peer], given).await?;
    if let Some(desk) = &desk {
        rank.open_offload(desk).await?;
    }
    let there = s.buffers.of(!sends);
    let touched = if s.benchmark.one_sided().is_some() { None } else { s.buffers.touched(sends) };
    let in_flight = if s.benchmark.is_latency() { 1 } else { s.window };
    let managed = touched.map(|by| Managed::new(by, staged, in_flight));
    let taken_off = match s.buffers.kernels(s.benchmark) * u64::from(in_flight) {
        0 => Span::ZERO,
        kernels => rank.kernel()? * kernels,
    };
    let pair = Pair { rank, peer, sends, window: s.window, buffer, there, staged, managed, datatype: s.datatype };
    let tell = |results: &[Vec<Vec<Span>>]| rows.tell((results.len(), s.sizes.len()), || report(&s, &samples(&s, results)).text);
    if me == 0 {
        tell(&[]);
    }
    for (at, &size) in s.sizes.iter().enumerate() {
        pair.rank.synchronise().await?;
        pair.rank.goes_through(Bytes(2 * u64::from(size)));
        let bytes = Bytes(u64::from(size) * u64::from(in_flight));
        let (iterations, warm_up) = (s.iterations(size), s.warm_up(size));
        // Those before the measurement as well.
        let mut spans = Vec::new();
        for iteration in 0..warm_up + iterations {
            if periodic.is_over(at, iteration) {
                break;
            }
            if s.benchmark.seen == Seen::FirstPair {
                pair.rank.synchronise().await?;
            }
            let start = pair.rank.now();
            match s.benchmark.body {
                Body::PingPong => pair.ping_pong(size).await?,
                Body::Window => pair.window(size).await?,
                Body::BothWindows => pair.both_ways(size).await?,
                Body::OneSided(act) => pair.one_sided(act, (in_flight, size), s.sync, s.benchmark).await?,
            }
            // There and back, where both sides take part.
            let turns = if s.benchmark.one_sided().is_some() && s.benchmark.is_latency() && s.sync.is_active() { 2 } else { 1 };
            spans.push(pair.rank.now().since(start).saturating_sub(taken_off) / turns);
            if sends && repeats::are_looked_at(size) {
                periodic.ended(at, (me, bytes), &spans);
            }
        }
        repeats::extend(&mut spans, (warm_up + iterations) as usize, bytes);
        spans.drain(..warm_up as usize);
        let locks = matches!(s.sync, Sync::Lock | Sync::LockAll);
        if s.benchmark.update().is_some() || s.benchmark.one_sided().is_some() && locks {
            pair.end().await?;
        }
        if pair.sends && (s.benchmark.seen == Seen::EveryPair || pair.rank.rank() == 0) {
            let mut results = results.lock();
            results[at].push(spans);
            if s.benchmark.seen != Seen::EveryPair || results[at].len() == pairs as usize {
                tell(&results[..=at]);
            }
        }
    }
    pair.rank.synchronise().await
}

/// What the tool's root has gathered: the mean time of the pairs, and the iterations of the first.
fn samples(s: &Settings, results: &[Vec<Vec<Span>>]) -> Vec<Sample> {
    let sample = |(&size, pairs): (&u32, &Vec<Vec<Span>>)| {
        let iterations = pairs.first()?.clone();
        let total = pairs.iter().flatten().copied().sum::<Span>() / pairs.len() as u64;
        Some(Sample { size, total, iterations })
    };
    s.sizes.iter().zip(results).filter_map(sample).collect()
}
