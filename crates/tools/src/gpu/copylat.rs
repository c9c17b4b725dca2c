//! `gdrcopy_copylat`: what a core needs to store into GPU memory and to load from it, by size.
//!
//! Source: GDRCopy, tests/copylat.cpp: options, loops and the rows of its output.
//! Modelled: stores and loads through the mapping, cuMemcpy with `-c`.
//! Not modelled: addresses, which are printed by the tool and are of no machine here.

use std::fmt::Write;

use fabriscope_node::{Memory, Process, Program, Record};
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{Opt, Parsed, Takes, opt};
use fabriscope_tool::{Point, Prepared, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span};

use super::gdrcopy::{CLOSING, Copies, DEVICE, READS, WRITES};
use fabriscope_platform::GpuTarget;

use super::{HELP, alone};

pub(super) const OPTIONS: &[Opt] = &[
    opt('s', "size", Takes::Value("bytes"), Usual, "largest copy (default 16 MiB)"),
    DEVICE,
    WRITES,
    READS,
    opt('c', "cumemcpy", Takes::Nothing, Usual, "cuMemcpy as well"),
    HELP,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyDirection {
    MemcpyIn,
    MemcpyOut,
    Store,
    Load,
}

impl CopyDirection {
    fn name(self) -> &'static str {
        match self {
            CopyDirection::MemcpyIn => "cuMemcpy_H2D",
            CopyDirection::MemcpyOut => "cuMemcpy_D2H",
            CopyDirection::Store => "gdr_copy_to_mapping",
            CopyDirection::Load => "gdr_copy_from_mapping",
        }
    }
    fn times(self, copies: Copies) -> u64 {
        if matches!(self, CopyDirection::Store | CopyDirection::MemcpyIn) { copies.writes } else { copies.reads }
    }
}

type Rows = Vec<(CopyDirection, u64, Span)>;

pub(super) fn prepare(parsed: &Parsed, gpu: GpuTarget) -> Result<Prepared, UsageError> {
    let copies = Copies::parse(&parsed.options, 1 << 24, &gpu)?;
    let memcpy = parsed.options.iter().any(|given| given.name == "cumemcpy");
    let run = move |process: Process, rows: Record<Rows>| -> Program {
        Box::pin(async move {
            let home = process.devices()?.home(copies.device)?;
            let device = Memory::Device(copies.device);
            let ways = if memcpy {
                &[CopyDirection::MemcpyIn, CopyDirection::MemcpyOut, CopyDirection::Store, CopyDirection::Load][..]
            } else {
                &[CopyDirection::Store, CopyDirection::Load]
            };
            for way in ways {
                let mut size = 1;
                while size <= copies.rounded() {
                    let begun = process.now();
                    let count = way.times(copies);
                    for _ in 0..count {
                        match way {
                            CopyDirection::Store => process.store_to_device(Bytes(size))?,
                            CopyDirection::Load => process.load_from_device(Bytes(size))?,
                            CopyDirection::MemcpyIn => process.memcpy(home, device, Bytes(size)).await?,
                            CopyDirection::MemcpyOut => process.memcpy(device, home, Bytes(size)).await?,
                        }
                    }
                    rows.lock().push((*way, size, Span::from_ps((process.now() - begun).as_ps() / count)));
                    size *= 2;
                }
            }
            Ok(())
        })
    };
    Ok(alone(run, move |rows: &Rows| report(copies, &gpu, rows)))
}

fn report(copies: Copies, gpu: &GpuTarget, rows: &Rows) -> ToolOutput {
    let mut out = ToolOutput { text: copies.opening(gpu), ..ToolOutput::default() };
    let _ = writeln!(out.text, "allocated size: {}", copies.rounded());
    let mut last = None;
    for (way, size, span) in rows {
        if last != Some(*way) {
            last = Some(*way);
            let count = way.times(copies);
            let _ = write!(out.text, "\n{} num iters for each size: {count}\n", way.name());
            if *way == CopyDirection::Store {
                out.text += "WARNING: Measuring the issue overhead as observed by the CPU. ";
                out.text += "Data might not be ordered all the way to the GPU internal visibility.\n";
            }
            let tabs = if matches!(way, CopyDirection::Store | CopyDirection::Load) { "\t\t\t" } else { "\t\t" };
            let _ = writeln!(out.text, "Test {tabs} Size(B) \t Avg.Time(us)");
        }
        let _ = writeln!(out.text, "{} \t {size:>8} \t {:>11.4}", way.name(), span.as_us_f64());
        out.points.push(Point { size: Bytes(*size), metric: way.name(), unit: "us", value: span.as_us_f64() });
    }
    out.text += CLOSING;
    out
}
