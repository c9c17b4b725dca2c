//! `dpdk-test-compress-perf`: what the engine for compression of a DPU does, and what cores do in its place.
//!
//! Source: DPDK, app/test-compress-perf (options, loop, table).
//! Modelled: the data of a file, compressed indeed; the engine (`engine`) and the cores that post to it (`cores`); several cores at one
//! engine; compression by the cores themselves at the rate that their part has.
//! Not modelled: cycles of calls (`pmd-cyclecount`), LZ4, checksums, fixed codes, decompression by cores.

mod cores;
mod data;
mod engine;
mod options;

use std::fmt::Write;

use fabriscope_platform::{CompressionTarget, Target};
use fabriscope_tool::arguments::{self, Opt};
use fabriscope_tool::{Measures, Operation, Point, Prepared, Ranks, SizeOption, Suite, ToolOutput, Traits, UsageError};
use fabriscope_units::{Bytes, Span};

use cores::{Iteration, Load};
use engine::{Engine, Job};
use options::{Driver, Settings};

/// The program's name.
pub const NAME: &str = "dpdk-test-compress-perf";
/// One line for a list of tools.
pub const ABOUT: &str = "compression and decompression by the engine of a DPU, or by its cores";
/// Its options.
pub const OPTIONS: &[Opt] = options::OPTIONS;

/// What the program is.
#[must_use]
pub const fn traits() -> Traits {
    let measures = Measures::Bandwidth;
    Traits { measures, ranks: Ranks::One, sizes: SizeOption::Fixed, ..Traits::new(Suite::Dpu, Operation::Compression) }
}

/// Reads the command line and makes the program.
///
/// # Errors
/// A wrong command line, a file that cannot be read; adapters without an engine, or one that does not do what is asked for.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(NAME, OPTIONS, args)?;
    if parsed.options.iter().any(|given| given.name == "help") {
        return Err(UsageError::Help { text: arguments::help(NAME, ABOUT, OPTIONS, NOTES) });
    }
    parsed.no_operands(NAME)?;
    let Some(target) = &target.compression else {
        let what = format!("{NAME}: the adapters here have no engine for compression whose rates are known");
        return Err(UsageError::Conflict { what, remedy: "use a cluster with some, as lab-bluefield-2".to_owned() });
    };
    let settings = Settings::read(&parsed, target)?;
    let (time, output) = run(&settings, target);
    Ok(Prepared::of_known_time(time, output))
}

/// What all iterations took, and what is printed.
fn run(s: &Settings, target: &CompressionTarget) -> (Span, ToolOutput) {
    let jobs = s.jobs();
    let compressed: u64 = jobs.iter().map(|job| job.result.0).sum();
    let mut out = ToolOutput { text: head(s, target), ..ToolOutput::default() };
    let back: Vec<Job> = jobs.iter().map(|job| Job { source: job.result, result: job.source }).collect();
    let (mut time, mut times) = (Span::ZERO, [None, None]);
    for (way, (wanted, jobs)) in [(s.compresses, &jobs), (s.decompresses, &back)].into_iter().enumerate() {
        if wanted && !s.verify {
            let measured = iterate(s, target, jobs, way == 0, &mut out);
            // Once before what is measured, and all of it at each level.
            time += measured.iter().copied().max().unwrap_or_default() * (s.iterations + 1) * s.levels.len() as u64;
            times[way] = Some(measured);
        }
    }
    let ratio = compressed as f64 / s.size as f64 * 100.0;
    for level in &s.levels {
        for (place, core) in s.cores.iter().enumerate() {
            let _ = write!(out.text, "{core:>12}{level:>6}{compressed:>12}{ratio:>17.2}");
            if s.verify {
                out.text.push('\n');
                continue;
            }
            let rates = [0, 1].map(|way| times[way].as_ref().map_or(0.0, |times: &Vec<Span>| gigabits(s.size, times[place])));
            let _ = writeln!(out.text, "{:>15.2}{:>16.2}", rates[0], rates[1]);
            for (metric, rate) in ["compression", "decompression"].into_iter().zip(rates).filter(|(_, rate)| *rate > 0.0) {
                out.points.push(Point { size: Bytes(s.segment * s.segments), metric, unit: "Gb/s", value: rate });
            }
        }
    }
    (time, out)
}

fn head(s: &Settings, target: &CompressionTarget) -> String {
    let mut text = String::new();
    if s.driver == Driver::Engine && !target.scatter_gather {
        text += "Compress device does not support chained mbufs. Max SGL segments set to 1\n";
    }
    let _ = writeln!(text, "Burst size = {}\nInput data size = {}", s.burst, s.size);
    let _ = write!(text, "\n{:>12}{:>6}{:>12}{:>17}", "lcore id", "Level", "Comp size", "Comp ratio [%]");
    text += &if s.verify { "\n".to_owned() } else { format!("{:>15}{:>16}\n", "Comp [Gbps]", "Decomp [Gbps]") };
    text
}

/// What one iteration took each core; what the tool does not say of it goes into remarks.
fn iterate(s: &Settings, target: &CompressionTarget, jobs: &[Job], compresses: bool, out: &mut ToolOutput) -> Vec<Span> {
    let user = s.user(target);
    let cores = s.cores.len() as u32;
    if let Some(rate) = user.deflate.filter(|_| s.driver == Driver::Zlib) {
        out.remarks.push(format!("cores ({}) compress by themselves, and do nothing else", user.title));
        return vec![jobs.iter().map(|job| rate.time(job.source)).sum(); s.cores.len()];
    }
    let (kind, rate) = if compresses { ("compression", target.compress) } else { ("decompression", target.decompress) };
    let queue = target.queue.min(OUTSTANDING) as usize;
    let load = Load { jobs, burst: s.burst as usize, queue, cores, costs: user.costs };
    let mut engine = Engine::new(target, user.memory, rate.unwrap_or_default(), compresses);
    let Iteration { times, handling } = cores::iterate(load, &mut engine);
    let longest = times.iter().copied().max().unwrap_or_default();
    let share = |part: Span, whole: Span| part.as_s_f64() / whole.as_s_f64() * 100.0;
    let (busy, by_cores) = (share(engine.busy(), longest), share(handling, longest * u64::from(cores)));
    out.remarks.push(format!(
        "{kind}: engine of {} {busy:.1} % busy; cores ({}) {by_cores:.1} % in calls, the rest in polls for nothing",
        target.adapter, user.title
    ));
    times
}

/// Gb/s of `bytes` in a time.
fn gigabits(bytes: u64, time: Span) -> f64 {
    bytes as f64 * 8.0 / time.as_s_f64() / 1e9
}

/// Operations that the program has outstanding at most on a queue (basis: DPDK, 512).
const OUTSTANDING: u32 = 512;

const NOTES: &str = "The file is compressed indeed (zlib's level 6, dynamic codes, 32 KiB); an engine makes the same of it at every level.\n\
                     docs/models/dpu-pipelines.md has what is modelled.";
