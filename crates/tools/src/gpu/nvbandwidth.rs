//! `nvbandwidth`: copies between host and GPUs and among GPUs, by copy engines (CE) and by kernels (SM).
//!
//! Source: NVIDIA nvbandwidth 0.8, README (what each test does, what is counted) and its output: matrices with their sums.
//! Modelled: all bandwidth tests: one way, both ways (with a lane in the opposite direction), all to one and one to all. Kernels read in lines
//! and write in lines, so that requests load the way back.
//! Not modelled: latency tests by pointer chasing, variation between samples.

use std::fmt::Write;

use fabriscope_node::{Memory, Mover, Process, Program, ProgramError, Record};
use fabriscope_tool::arguments::Meaning::{Harmless, Usual};
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use fabriscope_platform::{GpuTarget, PciAddress};

use super::{HELP, Lane, alone, gigabytes, race};

pub(super) const OPTIONS: &[Opt] = &[
    opt('t', "testcase", Takes::Value("name"), Usual, "test by name or number (default: all)"),
    opt('p', "testcasePrefixes", Takes::Value("prefix"), Usual, "tests whose names begin so"),
    opt('b', "bufferSize", Takes::Value("MiB"), Usual, "bytes of a copy in MiB (default 512)"),
    opt('i', "testSamples", Takes::Value("count"), Harmless("every sample is the same"), "samples"),
    opt('l', "list", Takes::Nothing, Usual, "list the tests"),
    opt('v', "verbose", Takes::Nothing, Usual, "least, largest and mean of each matrix"),
    opt('m', "useMean", Takes::Nothing, Harmless("every sample is the same"), "mean instead of median"),
    HELP,
];

/// What is copied in a cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    HostToDevice,
    DeviceToHost,
    /// The GPU of the row has the data of the GPU of the column read, or writes to it.
    Peers {
        reads: bool,
    },
    AllToHost,
    HostToAll,
    AllToOne {
        reads: bool,
    },
    OneToAll {
        reads: bool,
    },
    Local,
}

/// A test: its name without the kind of mover.
#[derive(Debug, Clone, Copy)]
struct Case {
    stem: &'static str,
    pattern: Pattern,
    both_ways: bool,
    about: &'static str,
}

const fn case(stem: &'static str, pattern: Pattern, both_ways: bool, about: &'static str) -> Case {
    Case { stem, pattern, both_ways, about }
}

const CASES: [Case; 15] = [
    case("host_to_device_memcpy", Pattern::HostToDevice, false, "host to each GPU"),
    case("device_to_host_memcpy", Pattern::DeviceToHost, false, "each GPU to the host"),
    case("host_to_device_bidirectional_memcpy", Pattern::HostToDevice, true, "host to each GPU, beside a copy back"),
    case("device_to_host_bidirectional_memcpy", Pattern::DeviceToHost, true, "each GPU to the host, beside a copy back"),
    case("device_to_device_memcpy_read", Pattern::Peers { reads: true }, false, "each GPU reads each other"),
    case("device_to_device_memcpy_write", Pattern::Peers { reads: false }, false, "each GPU writes to each other"),
    case("device_to_device_bidirectional_memcpy_read", Pattern::Peers { reads: true }, true, "two GPUs read each other"),
    case("device_to_device_bidirectional_memcpy_write", Pattern::Peers { reads: false }, true, "two GPUs write to each other"),
    case("all_to_host_memcpy", Pattern::AllToHost, false, "each GPU to the host, beside all others"),
    case("host_to_all_memcpy", Pattern::HostToAll, false, "host to each GPU, beside all others"),
    case("all_to_one_write", Pattern::AllToOne { reads: false }, false, "all others write to each GPU"),
    case("all_to_one_read", Pattern::AllToOne { reads: true }, false, "each GPU reads all others"),
    case("one_to_all_write", Pattern::OneToAll { reads: false }, false, "each GPU writes to all others"),
    case("one_to_all_read", Pattern::OneToAll { reads: true }, false, "all others read each GPU"),
    case("device_local_copy", Pattern::Local, false, "within each GPU"),
];

/// A test by name: CE, or SM where there is a form with kernels.
#[derive(Debug, Clone, Copy)]
struct Test {
    case: Case,
    kernels: bool,
}

impl Test {
    fn name(&self) -> String {
        match self.case.pattern {
            Pattern::Local => self.case.stem.to_owned(),
            _ => format!("{}_{}", self.case.stem, if self.kernels { "sm" } else { "ce" }),
        }
    }
    fn all() -> Vec<Test> {
        let engines = CASES.into_iter().map(|case| Test { case, kernels: case.pattern == Pattern::Local });
        let kernels = CASES.into_iter().filter(|case| case.pattern != Pattern::Local).map(|case| Test { case, kernels: true });
        engines.chain(kernels).collect()
    }
    fn is_square(&self) -> bool {
        matches!(self.case.pattern, Pattern::Peers { .. })
    }
    fn mover(&self, gpu: u32) -> Mover {
        if self.kernels { Mover::Kernel(gpu) } else { Mover::Engine(gpu) }
    }

    /// The lanes of a cell; the first `counted` of them count.
    fn lanes(&self, process: &Process, (row, column): (u32, u32), count: u32, bytes: Bytes) -> Result<(Vec<Lane>, usize), ProgramError> {
        let devices = process.devices()?;
        let device = Memory::Device;
        let lane = |gpu: u32, from, to| Lane { mover: self.mover(gpu), from, to, bytes, times: LOOPS };
        let others = |gpu: u32| (0..count).filter(move |other| *other != gpu);
        // The lane in the other direction is twice as long, so that it is there to the end.
        let beside = |gpu, from, to| Lane { times: 2 * LOOPS, ..lane(gpu, from, to) };
        let home = devices.home(column)?;
        Ok(match self.case.pattern {
            Pattern::HostToDevice => {
                let back = self.case.both_ways.then(|| beside(column, device(column), home));
                (std::iter::once(lane(column, home, device(column))).chain(back).collect(), 1)
            }
            Pattern::DeviceToHost => {
                let back = self.case.both_ways.then(|| beside(column, home, device(column)));
                (std::iter::once(lane(column, device(column), home)).chain(back).collect(), 1)
            }
            Pattern::Peers { reads } => {
                let one = |here: u32, there: u32| match reads {
                    true => lane(here, device(there), device(here)),
                    false => lane(here, device(here), device(there)),
                };
                let back = self.case.both_ways.then(|| one(column, row));
                let lanes: Vec<Lane> = std::iter::once(one(row, column)).chain(back).collect();
                let counted = lanes.len();
                (lanes, counted)
            }
            Pattern::AllToHost | Pattern::HostToAll => {
                let mut lanes = Vec::new();
                for gpu in std::iter::once(column).chain(others(column)) {
                    let home = devices.home(gpu)?;
                    let (from, to) = if self.case.pattern == Pattern::AllToHost { (device(gpu), home) } else { (home, device(gpu)) };
                    lanes.push(if gpu == column { lane(gpu, from, to) } else { beside(gpu, from, to) });
                }
                (lanes, 1)
            }
            Pattern::AllToOne { reads } => {
                let mover = |other| if reads { column } else { other };
                let lanes: Vec<Lane> = others(column).map(|other| lane(mover(other), device(other), device(column))).collect();
                let counted = lanes.len();
                (lanes, counted)
            }
            Pattern::OneToAll { reads } => {
                let mover = |other| if reads { other } else { column };
                let lanes: Vec<Lane> = others(column).map(|other| lane(mover(other), device(column), device(other))).collect();
                let counted = lanes.len();
                (lanes, counted)
            }
            Pattern::Local => (vec![lane(column, device(column), device(column))], 1),
        })
    }

    fn head(&self) -> String {
        let by = if self.kernels { "SM" } else { "CE" };
        let what = match (self.case.pattern, self.case.both_ways) {
            (Pattern::HostToDevice | Pattern::DeviceToHost, true) => "CPU(row) <-> GPU(column)",
            (Pattern::HostToDevice | Pattern::HostToAll, _) => "CPU(row) -> GPU(column)",
            (Pattern::DeviceToHost | Pattern::AllToHost, _) => "CPU(row) <- GPU(column)",
            (Pattern::Peers { .. }, true) => "GPU(row) <-> GPU(column) Total",
            (Pattern::Peers { reads: true } | Pattern::AllToOne { reads: true } | Pattern::OneToAll { reads: false }, _) => {
                "GPU(row) -> GPU(column)"
            }
            (Pattern::Peers { .. } | Pattern::AllToOne { .. } | Pattern::OneToAll { .. }, _) => "GPU(row) <- GPU(column)",
            (Pattern::Local, _) => return "memcpy local GPU(column) bandwidth (GB/s)".to_owned(),
        };
        format!("memcpy {by} {what} bandwidth (GB/s)")
    }
}

/// GB/s by row and column; none where there is nothing to measure.
type Matrix = Vec<Vec<Option<f64>>>;

async fn measure(process: &Process, test: Test, gpu: &GpuTarget, bytes: Bytes) -> Result<Matrix, ProgramError> {
    let mut matrix = Vec::new();
    for row in 0..if test.is_square() { gpu.count } else { 1 } {
        let mut cells = Vec::new();
        for column in 0..gpu.count {
            let alone = matches!(test.case.pattern, Pattern::AllToOne { .. } | Pattern::OneToAll { .. }) && gpu.count == 1;
            if (test.is_square() && row == column) || alone {
                cells.push(None);
                continue;
            }
            let (lanes, counted) = test.lanes(process, (row, column), gpu.count, bytes)?;
            let spans = race(process, &lanes).await?;
            let total = lanes
                .iter()
                .zip(&spans)
                .take(counted)
                .map(|(lane, span): (&Lane, &Span)| gigabytes(lane.bytes.0 * u64::from(lane.times), *span));
            cells.push(Some(total.sum()));
        }
        matrix.push(cells);
    }
    Ok(matrix)
}

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let mut chosen: Vec<Test> = Vec::new();
    let (mut bytes, mut verbose) = (Bytes::from_mib(512), false);
    let mut take = |name: &str, prefix: bool| {
        let found: Vec<Test> = Test::all()
            .into_iter()
            .enumerate()
            .filter(|(index, test)| if prefix { test.name().starts_with(name) } else { test.name() == name || index.to_string() == name })
            .map(|(_, test)| test)
            .collect();
        if found.is_empty() {
            let what = format!("nvbandwidth has no test `{name}`");
            return Err(UsageError::Conflict { what, remedy: "`fabriscope bench nvbandwidth -l` lists them".to_owned() });
        }
        chosen.extend(found);
        Ok(())
    };
    for given in &parsed.options {
        let value = given.value.as_deref().unwrap_or_default();
        match given.name {
            "testcase" => take(value, false)?,
            "testcasePrefixes" => take(value, true)?,
            "bufferSize" => bytes = Bytes::from_mib(arguments::number(given, 1, 1 << 20)?),
            "verbose" => verbose = true,
            "list" => return Err(UsageError::Help { text: list() }),
            _ => {}
        }
    }
    // As the tool, further names may follow the first.
    for name in &parsed.operands {
        take(name, false)?;
    }
    let tests = if chosen.is_empty() { Test::all() } else { chosen };
    let (named, measured_gpu) = (tests.clone(), gpu.clone());
    let run = move |process: Process, results: Record<Vec<Matrix>>| -> Program {
        Box::pin(async move {
            for test in tests {
                let matrix = measure(&process, test, &measured_gpu, bytes).await?;
                results.lock().push(matrix);
            }
            Ok(())
        })
    };
    let report = move |matrices: &Vec<Matrix>| {
        let mut out = ToolOutput { text: format!("nvbandwidth Version: v0.8\n\n{}\n", devices(&gpu)), ..ToolOutput::default() };
        for (test, matrix) in named.iter().zip(matrices) {
            print(&mut out, test, matrix, bytes, verbose);
        }
        out.text += "NOTE: The reported results may not reflect the full capabilities of the platform.\n";
        out.text += "Performance can vary with software drivers, hardware clocks, and system topology.\n\n";
        out
    };
    Ok(alone(run, report))
}

fn devices(gpu: &GpuTarget) -> String {
    let line =
        |(index, PciAddress { domain, bus, device })| format!("Device {index}: {} ({domain:08x}:{bus:02x}:{device:02x})\n", gpu.title);
    gpu.addresses().into_iter().enumerate().map(line).collect()
}

fn list() -> String {
    let lines = Test::all().into_iter().enumerate().map(|(index, test)| format!("{index}, {}:\n\t{}\n\n", test.name(), test.case.about));
    format!("Index, Name:\n\tDescription\n=======================\n{}", lines.collect::<String>())
}

fn print(out: &mut ToolOutput, test: &Test, matrix: &Matrix, bytes: Bytes, verbose: bool) {
    let total = test.is_square() && test.case.both_ways;
    let key = format!("{}{}", test.name(), if total { "_total" } else { "" });
    let _ = write!(out.text, "Running {}.\n{}\n  ", test.name(), test.head());
    for column in 0..matrix.first().map_or(0, Vec::len) {
        let _ = write!(out.text, "{column:>10}");
    }
    out.text.push('\n');
    for (row, cells) in matrix.iter().enumerate() {
        let _ = write!(out.text, "{row:>2}");
        for cell in cells {
            let _ = match cell {
                Some(value) => write!(out.text, "{value:>10.2}"),
                None => write!(out.text, "{:>10}", "N/A"),
            };
        }
        out.text.push('\n');
    }
    let values: Vec<f64> = matrix.iter().flatten().flatten().copied().collect();
    let sum: f64 = values.iter().sum();
    let _ = write!(out.text, "\nSUM {key} {sum:.2}\n");
    if verbose && !values.is_empty() {
        let (least, most) = values.iter().fold((f64::MAX, 0.0f64), |(least, most), value| (least.min(*value), most.max(*value)));
        let _ = write!(out.text, "MIN {key} {least:.2}\nMAX {key} {most:.2}\nAVG {key} {:.2}\n", sum / values.len() as f64);
    }
    out.text.push('\n');
    if let Some(value) = values.first() {
        out.points.push(Point { size: bytes, metric: "bandwidth", unit: "GB/s", value: *value });
    }
}

/// Copies in a row of each lane (basis: the tool).
const LOOPS: u32 = 16;
