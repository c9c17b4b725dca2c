//! `gdrcopy_copybw`: a core's stores into GPU memory and loads from it at one size.
//!
//! Source: GDRCopy, tests/copybw.cpp: options and the two results.
//! Modelled: both directions. Not modelled: offsets within a line, which the tool allows.

use std::fmt::Write;

use fabriscope_node::{Process, Program, Record};
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::gdrcopy::{CLOSING, Copies, DEVICE, READS, WRITES};
use fabriscope_platform::GpuTarget;

use super::{HELP, alone};

pub(super) const OPTIONS: &[Opt] =
    &[opt('s', "size", Takes::Value("bytes"), Usual, "bytes of a copy (default 131072)"), DEVICE, WRITES, READS, HELP];

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let copies = Copies::parse(&parsed.options, 128 << 10, &gpu)?;
    let Copies { size, writes, reads, .. } = copies;
    let run = move |process: Process, spans: Record<[Span; 2]>| -> Program {
        Box::pin(async move {
            let begun = process.now();
            for _ in 0..writes {
                process.store_to_device(Bytes(size))?;
            }
            let middle = process.now();
            for _ in 0..reads {
                process.load_from_device(Bytes(size))?;
            }
            *spans.lock() = [middle - begun, process.now() - middle];
            Ok(())
        })
    };
    let report = move |spans: &[Span; 2]| {
        let mut out = ToolOutput { text: copies.opening(&gpu), ..ToolOutput::default() };
        let _ = writeln!(out.text, "testing size: {size}\nrounded size: {}", copies.rounded());
        for ((what, word), (count, span)) in
            [("writing", "write"), ("reading", "read")].into_iter().zip([writes, reads].into_iter().zip(spans))
        {
            // The tool calls 2^20 bytes a MB.
            let rate = (size * count) as f64 / f64::from(1 << 20) / span.as_s_f64();
            let _ = writeln!(out.text, "{what} test, size={size} offset=0 num_iters={count}");
            let _ = writeln!(out.text, "{word} BW: {} MB/s", significant(rate));
            let metric = if word == "write" { "write_bandwidth" } else { "read_bandwidth" };
            out.points.push(Point { size: Bytes(size), metric, unit: "MiB/s", value: rate });
        }
        out.text += CLOSING;
        out
    };
    Ok(alone(run, report))
}

/// Six significant digits, as C++ streams print.
fn significant(value: f64) -> String {
    let before = format!("{:.0}", value.abs().trunc()).len();
    let text = format!("{value:.*}", 6usize.saturating_sub(before));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
