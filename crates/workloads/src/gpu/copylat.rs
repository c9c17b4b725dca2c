//! `gdrcopy_copylat`: what a core needs to store into GPU memory and to load from it, by size.
//!
//! Source: GDRCopy, tests/copylat.cpp: options, loops and the rows of its output.
//! Modelled: stores and loads through the mapping, cuMemcpy with `-c`.
//! Not modelled: addresses, which are printed by the tool and are of no machine here.

use std::fmt::Write;

use fabriscope_node::Memory;
use fabriscope_units::{Bytes, Span};

use super::{GpuTarget, alone, gpus};
use crate::arguments::Meaning::Usual;
use crate::arguments::{self, Opt, Takes};
use crate::error::UsageError;
use crate::output::{Point, ToolOutput};
use crate::target::Target;
use crate::tool::Prepared;

pub(super) const OPTIONS: &[Opt] = &[
    Opt { short: 's', long: "size", takes: Takes::Value("bytes"), meaning: Usual, help: "largest copy (default 16 MiB)" },
    Opt { short: 'd', long: "device", takes: Takes::Value("gpu"), meaning: Usual, help: "GPU (default 0)" },
    Opt { short: 'w', long: "writes", takes: Takes::Value("count"), meaning: Usual, help: "stores of each size (default 10000)" },
    Opt { short: 'r', long: "reads", takes: Takes::Value("count"), meaning: Usual, help: "loads of each size (default 100)" },
    Opt { short: 'c', long: "cumemcpy", takes: Takes::Nothing, meaning: Usual, help: "cuMemcpy as well" },
    Opt { short: 'h', long: "help", takes: Takes::Nothing, meaning: Usual, help: "show this page" },
];

#[derive(Debug, Clone, Copy)]
struct Settings {
    size: u64,
    device: u32,
    writes: u64,
    reads: u64,
    memcpy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    MemcpyIn,
    MemcpyOut,
    Store,
    Load,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::MemcpyIn => "cuMemcpy_H2D",
            Way::MemcpyOut => "cuMemcpy_D2H",
            Way::Store => "gdr_copy_to_mapping",
            Way::Load => "gdr_copy_from_mapping",
        }
    }
}

type Rows = Vec<(Way, u64, Span)>;

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    const TOOL: &str = "gdrcopy_copylat";
    let gpu = gpus(TOOL, target)?;
    let parsed = arguments::parse(TOOL, OPTIONS, args)?;
    if let Some(operand) = parsed.operands.first() {
        return Err(UsageError::Operand { tool: TOOL.to_owned(), operand: operand.clone() });
    }
    let mut s = Settings { size: 1 << 24, device: 0, writes: 10_000, reads: 100, memcpy: false };
    for given in &parsed.options {
        match given.name {
            "size" => s.size = arguments::number(given, 1, 1 << 32)?,
            "device" => s.device = arguments::number(given, 0, u64::from(gpu.count) - 1)? as u32,
            "writes" => s.writes = arguments::number(given, 1, 1_000_000)?,
            "reads" => s.reads = arguments::number(given, 1, 1_000_000)?,
            "cumemcpy" => s.memcpy = true,
            _ => {}
        }
    }
    let run = move |process: fabriscope_node::Process, rows: std::rc::Rc<std::cell::RefCell<Rows>>| -> fabriscope_node::Program {
        Box::pin(async move {
            let home = process.devices()?.home(s.device)?;
            let device = Memory::Device(s.device);
            let ways = if s.memcpy { &[Way::MemcpyIn, Way::MemcpyOut, Way::Store, Way::Load][..] } else { &[Way::Store, Way::Load] };
            for way in ways {
                let mut size = 1;
                while size <= s.size.next_multiple_of(GPU_PAGE) {
                    let begun = process.now();
                    let count = if matches!(way, Way::Store | Way::MemcpyIn) { s.writes } else { s.reads };
                    for _ in 0..count {
                        match way {
                            Way::Store => process.store_to_device(Bytes(size))?,
                            Way::Load => process.load_from_device(Bytes(size))?,
                            Way::MemcpyIn => process.memcpy(home, device, Bytes(size)).await?,
                            Way::MemcpyOut => process.memcpy(device, home, Bytes(size)).await?,
                        }
                    }
                    rows.borrow_mut().push((*way, size, Span::from_ps((process.now() - begun).as_ps() / count)));
                    size *= 2;
                }
            }
            Ok(())
        })
    };
    Ok(alone(run, move |rows: &Rows| report(&s, &gpu, rows)))
}

fn report(s: &Settings, gpu: &GpuTarget, rows: &Rows) -> ToolOutput {
    let mut out = ToolOutput::default();
    for index in 0..gpu.count {
        let _ = writeln!(out.text, "GPU id:{index}; name: {}; Bus id: 0000:{:02x}:00", gpu.title, index + 1);
    }
    let _ = writeln!(out.text, "selecting device {}", s.device);
    let _ = writeln!(out.text, "allocated size: {}", s.size.next_multiple_of(GPU_PAGE));
    let mut last = None;
    for (way, size, span) in rows {
        if last != Some(*way) {
            last = Some(*way);
            let count = if matches!(way, Way::Store | Way::MemcpyIn) { s.writes } else { s.reads };
            let _ = write!(out.text, "\n{} num iters for each size: {count}\n", way.name());
            if *way == Way::Store {
                out.text += "WARNING: Measuring the issue overhead as observed by the CPU. ";
                out.text += "Data might not be ordered all the way to the GPU internal visibility.\n";
            }
            let tabs = if matches!(way, Way::Store | Way::Load) { "\t\t\t" } else { "\t\t" };
            let _ = writeln!(out.text, "Test {tabs} Size(B) \t Avg.Time(us)");
        }
        let _ = writeln!(out.text, "{} \t {size:>8} \t {:>11.4}", way.name(), span.as_us_f64());
        out.points.push(Point { size: Bytes(*size), metric: way.name(), unit: "us", value: span.as_us_f64() });
    }
    out.text += "unmapping buffer\nunpinning buffer\nclosing gdrdrv\n";
    out
}

/// Pages of GPU memory as the driver pins them (basis: GDRCopy).
pub(super) const GPU_PAGE: u64 = 64 << 10;
