//! `bcast_stream`: frames of one source at a rate to all other ranks, as analytics of streams have them.
//!
//! Source: the streaming benchmark of C.-H. Chu et al. (COMHPC 2016, ICPP 2017), known from a talk: a data source, MPI_Bcast every interval, computing.
//! Modelled: frames at fixed times, begun when the one before has left; receivers that compute between frames; latency from the time a frame is due
//! until the last rank has it.
//! Not modelled: a source of data before the sender, frames that are left out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use fabriscope_mpi::Buffer;
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::{self, Meaning::Usual, Opt, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span, Time};

use super::broadcasts::{ALGORITHMS, Casts, asked};
use super::osu::{ACCELERATOR, on_device};
use crate::omb::Buffers;
use crate::osu;

pub(super) const OPTIONS: &[Opt] = &[
    opt('m', "frame-size", Takes::Value("[min:]max"), Usual, "smallest and largest frame in bytes (default 1048576)"),
    opt('n', "frames", Takes::Value("count"), Usual, "frames of each size (default 20)"),
    opt('\0', "interval", Takes::Value("us"), Usual, "from the start of one frame to the next (default 0: as fast as possible)"),
    opt('\0', "compute", Takes::Value("us"), Usual, "what receivers compute for each frame (default 0)"),
    opt('\0', "from", Takes::Value("gpu|host"), Usual, "where the source has its frames (default: as all others)"),
    ALGORITHMS,
    opt('\0', "root", Takes::Value("rank"), Usual, "the source (default 0)"),
    ACCELERATOR,
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];
const NOTES: &str = "\nSaved: the share of this latency that the first algorithm saves. A frame is late if the last rank has it after the next one is due.\n";

/// What happens.
#[derive(Debug, Clone, Copy)]
struct Stream {
    frames: u32,
    interval: Span,
    compute: Span,
    root: u32,
    from: Buffer,
}

/// One size by one algorithm.
#[derive(Debug, Clone, Default)]
struct Measured {
    /// When each frame was due, and when the last rank had it.
    frames: Vec<(Time, Time)>,
    lost: u64,
    gets: u64,
}

impl Measured {
    fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.frames.iter().map(|(due, ended)| ended.since(*due))
    }
    fn mean(&self) -> Span {
        self.spans().sum::<Span>() / (self.frames.len() as u64).max(1)
    }
}

pub(super) fn prepare(tool: &'static str, about: &str, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let (mut sizes, mut buffers, mut from) = (vec![1 << 20], Buffers::default(), None);
    let mut stream = Stream { frames: 20, interval: Span::ZERO, compute: Span::ZERO, root: 0, from: Buffer::Host };
    for given in &parsed.options {
        let us = || Ok::<Span, UsageError>(Span::from_us(arguments::number(given, 0, 10_000_000)?));
        match given.name {
            "frame-size" => sizes = osu::size_range(given, 1, 1 << 30)?,
            "frames" => stream.frames = arguments::number(given, 1, 1_000_000)? as u32,
            "interval" => stream.interval = us()?,
            "compute" => stream.compute = us()?,
            "from" => from = Some(place(given)?),
            "root" => stream.root = arguments::number(given, 0, u64::from(u32::MAX))? as u32,
            "accelerator" => buffers = on_device(tool, given, target)?,
            "help" => return Err(UsageError::Help { text: arguments::help(tool, about, OPTIONS, NOTES) }),
            _ => {}
        }
    }
    stream.from = from.unwrap_or(buffers.sender);
    if stream.from == Buffer::Device && buffers.sender == Buffer::Host {
        let what = "--from gpu, and the receivers have their data in the host".to_owned();
        return Err(UsageError::Conflict { what, remedy: "add -d cuda".to_owned() });
    }
    let all: BTreeSet<u32> = sizes.iter().copied().collect();
    let casts = Arc::new(Casts::new(tool, &asked(&parsed.options), &all, (stream.root, buffers), target)?);
    let measured: Record<Vec<Measured>> = Record::new(vec![Measured::default(); sizes.len() * casts.casts.len()]);
    let sizes = Arc::new(sizes);
    let main = |_| -> Main {
        let (casts, measured, sizes) = (casts.clone(), measured.clone(), sizes.clone());
        Box::new(move |process| Box::pin(run(process, casts, stream, sizes, measured)))
    };
    let mains = (0..target.layout.ranks()).map(main).collect();
    let finish = move || report(&casts, stream, &sizes, &measured.lock());
    Ok(Prepared {
        placing: Placing::Blocks { per_node: target.layout.per_node },
        mains,
        ties: Ties::Any,
        finish: Box::new(finish),
        rows: Rows::default(),
    })
}

fn place(given: &arguments::Given) -> Result<Buffer, UsageError> {
    match given.value.as_deref().unwrap_or_default() {
        "gpu" => Ok(Buffer::Device),
        "host" => Ok(Buffer::Host),
        other => Err(UsageError::NotOneOf { option: given.typed.clone(), value: other.to_owned(), known: "gpu, host" }),
    }
}

/// One rank: every algorithm with every size.
async fn run(
    process: Process,
    casts: Arc<Casts>,
    stream: Stream,
    sizes: Arc<Vec<u32>>,
    measured: Record<Vec<Measured>>,
) -> Result<(), ProgramError> {
    let (rank, multicasts) = casts.join(process, &[stream.root]).await?;
    let buffer = if rank.rank() == stream.root { stream.from } else { casts.buffers.sender };
    let mut at = 0;
    for size in sizes.iter() {
        for cast in casts.casts.iter().zip(&multicasts) {
            // Once before: buffers are registered and mapped.
            casts.broadcast(&rank, cast, (stream.root, *size), buffer).await?;
            rank.synchronise().await?;
            let (begun, before) = (rank.now(), cast.0.outcome());
            for frame in 0..stream.frames {
                let due = begun + stream.interval * u64::from(frame);
                let mut wanted = Time::MAX;
                if rank.rank() == stream.root {
                    rank.sleep_until(due).await;
                    // Without an interval a frame is due when the source gets to it.
                    wanted = if stream.interval > Span::ZERO { due } else { rank.now() };
                }
                casts.broadcast(&rank, cast, (stream.root, *size), buffer).await?;
                note(&mut measured.lock()[at], frame, (wanted, rank.now()));
                if rank.rank() != stream.root {
                    rank.compute(stream.compute);
                }
            }
            rank.synchronise().await?;
            let outcome = cast.0.outcome();
            let place = &mut measured.lock()[at];
            (place.lost, place.gets) = (place.lost.max(outcome.lost - before.lost), place.gets.max(outcome.gets - before.gets));
            at += 1;
        }
    }
    Ok(())
}

fn note(measured: &mut Measured, frame: u32, (due, ended): (Time, Time)) {
    match measured.frames.get_mut(frame as usize) {
        Some(known) => *known = (known.0.min(due), known.1.max(ended)),
        None => measured.frames.push((due, ended)),
    }
}

fn report(casts: &Casts, stream: Stream, sizes: &[u32], measured: &[Measured]) -> ToolOutput {
    let ranks = casts.target.layout.ranks();
    let place = if stream.from == Buffer::Host { "the host" } else { "a GPU" };
    let paced = if stream.interval > Span::ZERO { format!("one every {}", stream.interval) } else { "back to back".to_owned() };
    let mut text = format!(
        "\n# Streaming broadcast{}: {} frames of each size, {paced}, from {place} of rank {} to {} others\n",
        casts.buffers.suffix(),
        stream.frames,
        stream.root,
        ranks.saturating_sub(1)
    );
    let width = casts.casts.iter().map(|cast| cast.asked.len()).max().unwrap_or(0).max(9);
    let _ = writeln!(
        text,
        "{:<10}  {:<width$}{:>18}{:>18}{:>10}{:>10}{:>14}{:>14}{:>10}{:>8}",
        "# Size", "Algorithm", "Avg Latency(us)", "Max Latency(us)", "Saved(%)", "Late", "Frames/s", "MB/s", "Lost", "Gets"
    );
    let mut points = Vec::new();
    for (&size, found) in sizes.iter().zip(measured.chunks(casts.casts.len().max(1))) {
        let first = found.first().map_or(Span::ZERO, Measured::mean);
        let mut least_saved: Option<f64> = None;
        for (at, (cast, found)) in casts.casts.iter().zip(found).enumerate() {
            let (mean, most) = (found.mean(), found.spans().max().unwrap_or_default());
            let saved = 100.0 * (1.0 - first.as_us_f64() / mean.as_us_f64().max(f64::MIN_POSITIVE));
            let late = if stream.interval > Span::ZERO { found.spans().filter(|span| *span > stream.interval).count() } else { 0 };
            let whole = found.frames.first().zip(found.frames.last()).map_or(Span::ZERO, |(first, last)| last.1.since(first.0));
            let per_second = if whole > Span::ZERO { found.frames.len() as f64 / (whole.as_us_f64() / 1e6) } else { 0.0 };
            let rate = per_second * f64::from(size) / 1e6;
            let _ = writeln!(
                text,
                "{size:<10}  {:<width$}{:>18.2}{:>18.2}{saved:>10.1}{late:>10}{per_second:>14.1}{rate:>14.2}{:>10}{:>8}",
                cast.asked,
                mean.as_us_f64(),
                most.as_us_f64(),
                found.lost,
                found.gets
            );
            points.push(Point { size: Bytes(size.into()), metric: "latency", unit: "us", value: mean.as_us_f64() });
            points.push(Point { size: Bytes(size.into()), metric: "bandwidth", unit: "MB/s", value: rate });
            if at > 0 {
                least_saved = Some(least_saved.map_or(saved, |least| least.min(saved)));
            }
        }
        // Against the best of the others.
        points.extend(least_saved.map(|value| Point { size: Bytes(size.into()), metric: "saved", unit: "%", value }));
    }
    ToolOutput { text, points, remarks: casts.remarks(), ..ToolOutput::default() }
}
