//! BabelStream: STREAM's kernels, and a dot product, on the memory of a GPU.
//!
//! Source: T. Deakin, J. Price, M. Martineau, S. McIntosh-Smith, "GPU-STREAM v2.0", ISC High Performance Workshops 2016; its output.
//! Modelled: what each kernel reads and writes; bytes written cost more, as the bus to the stacks turns round; start and end of a kernel.
//! Not modelled: arrays that fit into the caches.

use std::fmt::Write;

use fabriscope_node::{Process, Program, Record};
use fabriscope_tool::arguments::Meaning::{Harmless, Usual};
use fabriscope_tool::arguments::{self, Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Rate, Span};

use fabriscope_platform::GpuTarget;

use super::{HELP, alone};

pub(super) const OPTIONS: &[Opt] = &[
    opt('s', "arraysize", Takes::Value("elements"), Usual, "elements of an array (default 33554432)"),
    opt('n', "numtimes", Takes::Value("count"), Usual, "runs of each kernel (default 100)"),
    opt('\0', "float", Takes::Nothing, Usual, "4 bytes an element instead of 8"),
    opt('\0', "device", Takes::Value("gpu"), Harmless("all are alike"), "GPU"),
    HELP,
];

/// Name, arrays read, arrays written.
const KERNELS: [(&str, u64, u64); 5] = [("Copy", 1, 1), ("Mul", 1, 1), ("Add", 2, 1), ("Triad", 2, 1), ("Dot", 2, 0)];

/// Time of a kernel that reads and writes so much: (read + (1 + c) written) / rate, between its start and its end.
fn time(gpu: &GpuTarget, read: Bytes, written: Bytes) -> Span {
    let moved = Bytes(read.0 + written.0 + written.0 * u64::from(gpu.write_cost) / 1000);
    gpu.launch + if gpu.read_rate == Rate::default() { Span::ZERO } else { gpu.read_rate.time(moved) }
}

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let (mut elements, mut times, mut width) = (1u64 << 25, 100u64, 8u64);
    for given in &parsed.options {
        match given.name {
            "arraysize" => elements = arguments::number(given, 1024, 1 << 36)?,
            "numtimes" => times = arguments::number(given, 2, 1_000_000)?,
            "float" => width = 4,
            "device" => drop(arguments::number(given, 0, u64::from(gpu.count) - 1)?),
            _ => {}
        }
    }
    let array = Bytes(elements * width);
    let kernel_gpu = gpu.clone();
    let run = move |process: Process, spans: Record<Vec<Span>>| -> Program {
        Box::pin(async move {
            for (_, read, written) in KERNELS {
                let begun = process.now();
                for _ in 0..times {
                    process.compute(time(&kernel_gpu, array * read, array * written));
                }
                spans.lock().push(Span::from_ps((process.now() - begun).as_ps() / times));
            }
            Ok(())
        })
    };
    let report = move |spans: &Vec<Span>| {
        let mut out = ToolOutput::default();
        let megabytes = |bytes: u64| (bytes as f64 / 1e6, bytes as f64 / 1e9);
        let ((one, one_g), (all, all_g)) = (megabytes(array.0), megabytes(array.0 * 3));
        let precision = if width == 8 { "double" } else { "float" };
        let _ = write!(
            out.text,
            "BabelStream\nVersion: 5.0\nImplementation: CUDA\nRunning kernels {times} times\nPrecision: {precision}\n\
             Array size: {one:.1} MB (={one_g:.1} GB)\nTotal size: {all:.1} MB (={all_g:.1} GB)\nUsing CUDA device {}\n",
            gpu.title
        );
        let _ = writeln!(out.text, "{:<12}{:<12}{:<12}{:<12}{:<12}", "Function", "MBytes/sec", "Min (sec)", "Max", "Average");
        for ((name, read, written), span) in KERNELS.into_iter().zip(spans) {
            let seconds = span.as_s_f64();
            let rate = (array.0 * (read + written)) as f64 / 1e6 / seconds;
            let _ = writeln!(out.text, "{name:<12}{rate:<12.3}{seconds:<12.5}{seconds:<12.5}{seconds:<12.5}");
            out.points.push(Point { size: array, metric: name, unit: "MB/s", value: rate });
        }
        out
    };
    Ok(alone(run, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_cost_more_and_a_kernel_takes_its_start() {
        // 1 B/ns read; a written byte counts 1.2.
        let (title, read_rate) = (String::new(), Rate::from_gbps(8));
        let (launch, buses) = (Span::from_us(5), Vec::new());
        let gpu = GpuTarget { title, count: 1, own: 1, switches: None, buses, read_rate, write_cost: 200, launch };
        assert_eq!(time(&gpu, Bytes(2_000_000), Bytes::ZERO), Span::from_us(2005));
        assert_eq!(time(&gpu, Bytes(2_000_000), Bytes(1_000_000)), Span::from_us(3205));
    }
}
