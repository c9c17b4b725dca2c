//! `p2pBandwidthLatencyTest`: bandwidth and latency of copies among all pairs of GPUs.
//!
//! Source: NVIDIA CUDA samples, p2pBandwidthLatencyTest: which matrices there are and what is counted.
//! Modelled: peers that reach each other (by their own links or PCI Express), and copies that the driver leads through host memory instead;
//! latency as the time from one small copy to the next.
//! Not modelled: the latency that the CPU sees.

use std::fmt::Write;

use fabriscope_machine::Purpose;
use fabriscope_node::{Memory, Mover, Process, Program, ProgramError, Record};
use fabriscope_tool::arguments::Meaning::{Harmless, Usual};
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use fabriscope_platform::{GpuTarget, PciAddress};

use super::{HELP, Lane, alone, gigabytes, race};

pub(super) const OPTIONS: &[Opt] = &[
    opt('\0', "p2p_read", Takes::Nothing, Usual, "peers read instead of writing"),
    opt('\0', "sm_copy", Takes::Nothing, Usual, "kernels copy instead of engines"),
    opt('\0', "numElems", Takes::Value("count"), Usual, "integers of a copy (default 40000000)"),
    opt('\0', "device", Takes::Value("list"), Harmless("all pairs are shown"), "GPUs"),
    HELP,
];

#[derive(Debug, Clone, Copy)]
struct Settings {
    reads: bool,
    kernels: bool,
    bytes: Bytes,
}

/// By GPU and GPU.
type Matrix = Vec<Vec<f64>>;

#[derive(Debug, Default)]
struct Results {
    reach: Vec<Vec<bool>>,
    /// Without peers and with them: bandwidth one way, both ways, and latency.
    without: [Matrix; 3],
    with: [Matrix; 3],
}

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let mut s = Settings { reads: false, kernels: false, bytes: Bytes(160_000_000) };
    for given in &parsed.options {
        match given.name {
            "p2p_read" => s.reads = true,
            "sm_copy" => s.kernels = true,
            "numElems" => s.bytes = Bytes(4 * arguments::number(given, 1, 1 << 32)?),
            _ => {}
        }
    }
    let count = gpu.count;
    let run = move |process: Process, results: Record<Results>| -> Program {
        Box::pin(async move {
            let measured = measure(&process, s, count).await?;
            *results.lock() = measured;
            Ok(())
        })
    };
    Ok(alone(run, move |results: &Results| report(&gpu, s, results)))
}

async fn measure(process: &Process, s: Settings, count: u32) -> Result<Results, ProgramError> {
    let mut results = Results::default();
    for from in 0..count {
        let row = (0..count).map(|to| from == to || reaches(process, from, to)).collect();
        results.reach.push(row);
    }
    for peers in [false, true] {
        let mut all = [Matrix::new(), Matrix::new(), Matrix::new()];
        for from in 0..count {
            let mut rows = [Vec::new(), Vec::new(), Vec::new()];
            for to in 0..count {
                let direct = from == to || (peers && results.reach[from as usize][to as usize]);
                let one = lanes(process, s, from, to, direct)?;
                let both: Vec<Lane> = one.iter().copied().chain(lanes(process, s, to, from, direct)?).collect();
                let slowest = |spans: Vec<Span>| spans.into_iter().max().unwrap_or_default();
                let alone = slowest(race(process, &one).await?);
                rows[0].push(gigabytes(LOOPS * s.bytes.0 * if from == to { 2 } else { 1 }, alone));
                let together = slowest(race(process, &both).await?);
                rows[1].push(gigabytes(2 * LOOPS * s.bytes.0 * if from == to { 2 } else { 1 }, together));
                let small: Vec<Lane> = one.iter().map(|lane| Lane { bytes: Bytes(16), times: 1, ..*lane }).collect();
                let moved: Span = race(process, &small).await?.into_iter().sum();
                let start = process.devices()?.costs().calls.copy_start * small.len() as u64;
                rows[2].push((start + moved).as_us_f64());
            }
            for (matrix, row) in all.iter_mut().zip(rows) {
                matrix.push(row);
            }
        }
        *(if peers { &mut results.with } else { &mut results.without }) = all;
    }
    Ok(results)
}

/// Whether a GPU may reach into another: its own links lead there, or PCI Express without the link between sockets.
fn reaches(process: &Process, from: u32, to: u32) -> bool {
    let Ok(devices) = process.devices() else { return false };
    let (Ok(from), Ok(to)) = (devices.vertex(Memory::Device(from)), devices.vertex(Memory::Device(to))) else { return false };
    let machine = devices.machine();
    machine.path(from, to, Purpose::Copy).is_some_and(|path| machine.class_of(&path) < fabriscope_machine::PathClass::Sys)
}

fn lanes(process: &Process, s: Settings, from: u32, to: u32, direct: bool) -> Result<Vec<Lane>, ProgramError> {
    let (source, target) = (Memory::Device(from), Memory::Device(to));
    let lane = |mover, from, to| Lane { mover, from, to, bytes: s.bytes, times: LOOPS as u32 };
    if direct {
        let gpu = if s.reads { to } else { from };
        return Ok(vec![lane(if s.kernels { Mover::Kernel(gpu) } else { Mover::Engine(gpu) }, source, target)]);
    }
    // The driver leads it through host memory in pieces: both halves run at once.
    let home = process.devices()?.home(from)?;
    Ok(vec![lane(Mover::Engine(from), source, home), lane(Mover::Engine(to), home, target)])
}

fn report(gpu: &GpuTarget, s: Settings, results: &Results) -> ToolOutput {
    let mut out = ToolOutput { text: "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n".to_owned(), ..ToolOutput::default() };
    let count = results.reach.len();
    for (index, PciAddress { domain, bus, device }) in gpu.addresses().into_iter().enumerate() {
        let title = &gpu.title;
        let _ = writeln!(out.text, "Device: {index}, {title}, pciBusID: {bus:x}, pciDeviceID: {device:x}, pciDomainID:{domain:x}");
    }
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let can = if results.reach[from][to] { "CAN" } else { "CANNOT" };
            let _ = writeln!(out.text, "Device={from} {can} Access Peer Device={to}");
        }
    }
    out.text += "\nP2P Connectivity Matrix\n     D\\D";
    out.text.extend((0..count).map(|to| format!("{to:>6}")));
    out.text.push('\n');
    for (from, row) in results.reach.iter().enumerate() {
        let _ = write!(out.text, "     {from}\t");
        out.text.extend(row.iter().map(|reached| format!("{:>6}", u8::from(*reached))));
        out.text.push('\n');
    }
    let way = if s.reads { "P2P Reads" } else { "P2P Writes" };
    let heads = [
        ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)".to_owned(), &results.without[0]),
        (format!("Unidirectional P2P=Enabled Bandwidth ({way}) Matrix (GB/s)"), &results.with[0]),
        ("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)".to_owned(), &results.without[1]),
        ("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)".to_owned(), &results.with[1]),
        ("P2P=Disabled Latency Matrix (us)".to_owned(), &results.without[2]),
        (format!("P2P=Enabled Latency ({way}) Matrix (us)"), &results.with[2]),
    ];
    for (head, matrix) in heads {
        let corner = if head.contains("Latency") { "   GPU" } else { "   D\\D" };
        let _ = write!(out.text, "{head}\n{corner}");
        out.text.extend((0..count).map(|to| format!("{to:>6} ")));
        out.text.push('\n');
        for (from, row) in matrix.iter().enumerate() {
            let _ = write!(out.text, "{from:>6} ");
            out.text.extend(row.iter().map(|value| format!("{value:>6.2} ")));
            out.text.push('\n');
        }
    }
    out.text += "\nNOTE: The CUDA Samples are not meant for performance measurements. Results may vary when GPU Boost is enabled.\n";
    for (metric, unit, matrix) in [("bandwidth", "GB/s", &results.with[0]), ("latency", "us", &results.with[2])] {
        if let Some(value) = matrix.first().and_then(|row| row.get(1)) {
            out.points.push(Point { size: s.bytes, metric, unit, value: *value });
        }
    }
    out
}

/// Copies in a row (basis: assumed; the tool's 5, and more).
const LOOPS: u64 = 5;
