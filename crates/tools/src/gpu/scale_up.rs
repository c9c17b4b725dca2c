//! `scaleup_perf`: collective operations of the accelerators of a pod, with the columns of nccl-tests.
//!
//! Source: [`super::pod`]; nccl-tests, doc/PERFORMANCE.md for the two bandwidths. No such program is published for UALink or Scale-Up
//! Ethernet, so it has a name of its own.
//! Modelled: the accelerators of one node, of all its trays.
//! Not modelled: the network between nodes.

use std::fmt::Write;

use fabriscope_node::{Process, Program, ProgramError, Record};
use fabriscope_platform::GpuTarget;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::pod::{Algorithm, Collective, Pod};
use super::{HELP, alone};

pub(super) const OPTIONS: &[Opt] = &[
    opt('b', "minbytes", Takes::Value("bytes"), Usual, "smallest size (default 8)"),
    opt('e', "maxbytes", Takes::Value("bytes"), Usual, "largest size (default 1G)"),
    opt('f', "stepfactor", Takes::Value("factor"), Usual, "from size to size (default 8)"),
    opt('g', "ngpus", Takes::Value("count"), Usual, "accelerators (default: all of a node)"),
    opt('o', "op", Takes::Value("name"), Usual, "all_reduce, all_gather or reduce_scatter (default all_reduce)"),
    opt('a', "algorithm", Takes::Value("name"), Usual, "one-shot, two-shot, ring, switch, all, or auto: the fastest (default auto)"),
    HELP,
];

pub(super) const NOTES: &str = "
Examples:
  fabriscope bench scaleup_perf --on lab-ualink-64 -b 8 -e 1G
  fabriscope bench scaleup_perf --on lab-sue-64 --algorithm all -b 8 -e 64K
";

/// A resolved command line.
#[derive(Debug, Clone)]
struct Settings {
    sizes: Vec<Bytes>,
    collective: Collective,
    /// None for the fastest.
    algorithms: Option<Vec<Algorithm>>,
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    bytes: Bytes,
    algorithm: Algorithm,
    time: Span,
}

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let settings = Settings::of(parsed, &gpu)?;
    let (s, target) = (settings.clone(), gpu.clone());
    let run = move |process: Process, results: Record<Vec<Row>>| -> Program {
        Box::pin(async move {
            let rows = measure(&process, &s, &target)?;
            process.compute(rows.iter().map(|row| row.time).sum());
            *results.lock() = rows;
            Ok(())
        })
    };
    Ok(alone(run, move |rows: &Vec<Row>| report(&gpu, &settings, rows)))
}

impl Settings {
    fn of(parsed: &Parsed, gpu: &GpuTarget) -> Result<Settings, UsageError> {
        let (mut least, mut most, mut factor, mut count) = (8, 1 << 30, 8, gpu.count);
        let (mut collective, mut named) = (Collective::AllReduce, "auto".to_owned());
        for given in &parsed.options {
            let text = given.value.as_deref().unwrap_or_default();
            match given.name {
                "minbytes" => least = arguments::size(&given.typed, text, 1, LARGEST)?,
                "maxbytes" => most = arguments::size(&given.typed, text, 1, LARGEST)?,
                "stepfactor" => factor = arguments::number(given, 2, 1024)?,
                "ngpus" => count = arguments::number(given, 2, u64::from(gpu.count.max(2)))? as u32,
                "op" => {
                    let found = Collective::ALL.into_iter().find(|known| known.name() == text);
                    collective = found.ok_or_else(|| unknown("operation", text, &Collective::ALL.map(Collective::name), ""))?;
                }
                "algorithm" => text.clone_into(&mut named),
                _ => {}
            }
        }
        let Some(switches) = &gpu.switches else {
            let what = "scaleup_perf needs accelerators behind switches, and those of this cluster have none".to_owned();
            return Err(UsageError::Conflict { what, remedy: "choose for example lab-ualink-64, lab-sue-64 or dgx-gb200-ndr".to_owned() });
        };
        if least > most || count < 2 {
            let what = format!("sizes from {least} to {most} B on {count} accelerators");
            return Err(UsageError::Conflict { what, remedy: "give -e no less than -b, and two accelerators or more".to_owned() });
        }
        let algorithms = match named.as_str() {
            "auto" => None,
            "all" => Some(Algorithm::ALL.into_iter().filter(|algorithm| algorithm.has(collective, switches)).collect()),
            text => {
                let found = Algorithm::ALL.into_iter().find(|known| known.name() == text);
                let found = found.ok_or_else(|| unknown("algorithm", text, &Algorithm::ALL.map(Algorithm::name), ", all, auto"))?;
                if !found.has(collective, switches) {
                    let what = format!("{} by `{text}`, which these switches or this operation do not have", collective.name());
                    return Err(UsageError::Conflict {
                        what,
                        remedy: "give --algorithm all, or [scale_up.switched.reduction] of the node".to_owned(),
                    });
                }
                Some(vec![found])
            }
        };
        let next = |size: &u64| size.checked_mul(factor).filter(|size| *size <= most);
        let sizes = std::iter::successors(Some(least), next).map(Bytes).collect();
        Ok(Settings { sizes, collective, algorithms, count })
    }
}

fn unknown(what: &str, text: &str, known: &[&str], more: &str) -> UsageError {
    UsageError::Conflict { what: format!("there is no {what} `{text}`"), remedy: format!("give one of {}{more}", known.join(", ")) }
}

fn measure(process: &Process, s: &Settings, gpu: &GpuTarget) -> Result<Vec<Row>, ProgramError> {
    let switches = gpu.switches.as_ref().ok_or_else(|| ProgramError("accelerators without switches".to_owned()))?;
    let pod = Pod::new(process.devices()?.machine(), s.count, switches, gpu.launch)
        .ok_or_else(|| ProgramError(format!("no switch joins the first {} accelerators of the node", s.count)))?;
    let mut rows = Vec::new();
    for &bytes in &s.sizes {
        let timed = |algorithm: &Algorithm| Some((*algorithm, pod.time(s.collective, *algorithm, bytes)?));
        let found: Vec<(Algorithm, Span)> = match &s.algorithms {
            None => pod.best(s.collective, bytes).into_iter().collect(),
            Some(algorithms) => algorithms.iter().filter_map(timed).collect(),
        };
        rows.extend(found.into_iter().map(|(algorithm, time)| Row { bytes, algorithm, time }));
    }
    Ok(rows)
}

fn report(gpu: &GpuTarget, s: &Settings, rows: &[Row]) -> ToolOutput {
    let mut out = ToolOutput::default();
    let switches = gpu.switches.as_ref().map_or(0, |switches| switches.count);
    let _ = writeln!(out.text, "# {} of {} accelerators behind {switches} switches: {}", s.collective.name(), s.count, gpu.title);
    let _ = writeln!(out.text, "#{:>12}{:>12}{:>14}{:>12}{:>12}", "size", "algorithm", "time", "algbw", "busbw");
    let _ = writeln!(out.text, "#{:>12}{:>12}{:>14}{:>12}{:>12}", "(B)", "", "(us)", "(GB/s)", "(GB/s)");
    for row in rows {
        let micros = row.time.as_us_f64();
        let rate = row.bytes.0 as f64 / micros.max(1e-9) / 1e3;
        let bus = rate * s.collective.crossings(u64::from(s.count)) as f64 / f64::from(s.count);
        let _ = writeln!(out.text, "{:>13}{:>12}{micros:>14.3}{rate:>12.2}{bus:>12.2}", row.bytes.0, row.algorithm.name());
    }
    for bytes in &s.sizes {
        let least = rows.iter().filter(|row| row.bytes == *bytes).map(|row| row.time).min();
        out.points.extend(least.map(|time| Point { size: *bytes, metric: "latency", unit: "us", value: time.as_us_f64() }));
    }
    out
}

/// Largest vector, in bytes. Basis: assumed; more than an accelerator holds.
const LARGEST: u64 = 1 << 40;
