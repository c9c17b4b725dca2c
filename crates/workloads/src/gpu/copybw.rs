//! `gdrcopy_copybw`: a core's stores into GPU memory and loads from it at one size.
//!
//! Source: GDRCopy, tests/copybw.cpp: options and the two results.
//! Modelled: both directions. Not modelled: offsets within a line, which the tool allows.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use fabriscope_node::{Process, Program};
use fabriscope_units::{Bytes, Span};

use super::{alone, gpus};
use crate::arguments::Meaning::Usual;
use crate::arguments::{self, Opt, Takes};
use crate::error::UsageError;
use crate::output::{Point, ToolOutput};
use crate::target::Target;
use crate::tool::Prepared;

pub(super) const OPTIONS: &[Opt] = &[
    Opt { short: 's', long: "size", takes: Takes::Value("bytes"), meaning: Usual, help: "bytes of a copy (default 131072)" },
    Opt { short: 'd', long: "device", takes: Takes::Value("gpu"), meaning: Usual, help: "GPU (default 0)" },
    Opt { short: 'w', long: "writes", takes: Takes::Value("count"), meaning: Usual, help: "stores (default 10000)" },
    Opt { short: 'r', long: "reads", takes: Takes::Value("count"), meaning: Usual, help: "loads (default 100)" },
    Opt { short: 'h', long: "help", takes: Takes::Nothing, meaning: Usual, help: "show this page" },
];

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    const TOOL: &str = "gdrcopy_copybw";
    let gpu = gpus(TOOL, target)?;
    let parsed = arguments::parse(TOOL, OPTIONS, args)?;
    if let Some(operand) = parsed.operands.first() {
        return Err(UsageError::Operand { tool: TOOL.to_owned(), operand: operand.clone() });
    }
    let (mut size, mut device, mut writes, mut reads) = (128 << 10, 0, 10_000, 100);
    for given in &parsed.options {
        match given.name {
            "size" => size = arguments::number(given, 1, 1 << 32)?,
            "device" => device = arguments::number(given, 0, u64::from(gpu.count) - 1)? as u32,
            "writes" => writes = arguments::number(given, 1, 1_000_000)?,
            "reads" => reads = arguments::number(given, 1, 1_000_000)?,
            _ => {}
        }
    }
    let run = move |process: Process, spans: Rc<RefCell<[Span; 2]>>| -> Program {
        Box::pin(async move {
            let begun = process.now();
            for _ in 0..writes {
                process.store_to_device(Bytes(size))?;
            }
            let middle = process.now();
            for _ in 0..reads {
                process.load_from_device(Bytes(size))?;
            }
            *spans.borrow_mut() = [middle - begun, process.now() - middle];
            Ok(())
        })
    };
    let report = move |spans: &[Span; 2]| {
        let mut out = ToolOutput::default();
        for index in 0..gpu.count {
            let _ = writeln!(out.text, "GPU id:{index}; name: {}; Bus id: 0000:{:02x}:00", gpu.title, index + 1);
        }
        let _ = writeln!(
            out.text,
            "selecting device {device}\ntesting size: {size}\nrounded size: {}",
            size.next_multiple_of(super::copylat::GPU_PAGE)
        );
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
        out.text += "unmapping buffer\nunpinning buffer\nclosing gdrdrv\n";
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
