//! `gdsio`: reads and writes of GPU memory, past the memory of the host or through it, on drives of the node or on a file system.
//!
//! Source: NVIDIA GPUDirect Storage, "Benchmarking and Configuration Guide" (options, types of transfer) and the output of gdsio 1.11;
//! A. Rodriguez et al., "GPUDirect Storage: A Direct Path Between Storage and GPU Memory", NVIDIA Technical Blog, 2019 (both paths).
//! Modelled: threads with one call at a time, drives as stations, every byte as a flow over the links of the node that it passes, shared
//! fairly; copies by the GPU's engine behind or in front; adapters, requests and servers where a file system is named (`flows.rs`).
//! Not modelled: cores' time of cuFile and of the kernel, page caches, batches, streams of CUDA, RAID of drives but for blocks in turn.

mod flows;
pub(crate) mod node;
mod paths;

use std::fmt::Write;

use fabriscope_catalog::{Drive, Shared};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt, value};
use fabriscope_tool::{Point, ToolOutput, UsageError, nvme_drive, nvme_names};
use fabriscope_units::Bytes;

use crate::mount::Mount;
use flows::Outcome;
pub use node::StorageNode;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    value('d', "gpu", "index", "GPU; several times for several (default 0)"),
    value('w', "threads", "count", "threads of each GPU (default 1)"),
    value('s', "size", "bytes", "bytes of each GPU's threads together (default 1g)"),
    value('i', "io-size", "bytes", "bytes of a call (default 1m)"),
    value('I', "io-type", "0|1|2|3", "0 read, 1 write, 2 read at random, 3 write at random (default 0)"),
    value('x', "transfer", "0|1|2", "0 GPU direct, 1 host memory alone, 2 through host memory to the GPU (default 0)"),
    value('\0', "drive", "part", "model of the node's drives (default: those of the node part; not of the real tool)"),
    value('\0', "drives", "count", "how many (default: those of the node part, or 1; not of the real tool)"),
    value(
        '\0',
        "under",
        "name",
        "what drives hang below: numa0, a PCI Express switch; in turn with commas (default numa0; not of the real tool)",
    ),
    opt('f', "file", Takes::Value("path"), Meaning::Harmless("each thread has a file"), ""),
    opt('D', "directory", Takes::Value("path"), Meaning::Harmless("each thread has a file"), ""),
    opt('n', "numa", Takes::Value("node"), Meaning::Harmless("the memory nearest to the GPU is taken"), ""),
    opt('T', "duration", Takes::Value("seconds"), Meaning::Harmless("-s says how much is moved"), ""),
    opt('h', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

/// Where the bytes of a call go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Between storage and GPU memory.
    GpuDirect,
    /// Between storage and host memory.
    CpuOnly,
    /// Through host memory.
    CpuGpu,
}

impl Transfer {
    const fn name(self) -> &'static str {
        match self {
            Transfer::GpuDirect => "GPUD",
            Transfer::CpuOnly => "CPUONLY",
            Transfer::CpuGpu => "CPU_GPU",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub gpus: Vec<u32>,
    pub threads: u32,
    pub size: Bytes,
    pub call: Bytes,
    pub write: bool,
    pub random: bool,
    pub transfer: Transfer,
    pub drive: Option<Shared<Drive>>,
    pub drives: u32,
    pub under: Vec<String>,
}

/// Runs it: on the file system where there is one, else on the node's drives.
///
/// # Errors
/// What is wrong with the command line, or what the node has not.
pub fn run(args: &[String], node: &StorageNode, mount: Option<&Mount>) -> Result<ToolOutput, UsageError> {
    let settings = read(args, node, mount.is_some())?;
    let done = flows::run(&settings, node, mount)?;
    Ok(printed(&settings, &done))
}

fn conflict<T>(what: String, remedy: impl Into<String>) -> Result<T, UsageError> {
    Err(UsageError::Conflict { what, remedy: remedy.into() })
}

fn read(args: &[String], node: &StorageNode, mounted: bool) -> Result<Settings, UsageError> {
    let parsed = arguments::parse("gdsio", OPTIONS, args)?;
    parsed.no_operands("gdsio")?;
    let mut s = Settings {
        gpus: Vec::new(),
        threads: 1,
        size: Bytes(1 << 30),
        call: Bytes(1 << 20),
        write: false,
        random: false,
        transfer: Transfer::GpuDirect,
        drive: None,
        drives: node.own.as_ref().map_or(1, |(_, count)| *count),
        under: Vec::new(),
    };
    let mut name = node.own.as_ref().map(|(name, _)| name.clone());
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        let size = || arguments::size(&given.typed, text, 4096, 1 << 60).map(Bytes);
        match given.name {
            "gpu" => s.gpus.push(arguments::number(given, 0, 1 << 16)? as u32),
            "threads" => s.threads = arguments::number(given, 1, 1024)? as u32,
            "size" => s.size = size()?,
            "io-size" => s.call = size()?,
            "io-type" => {
                let kind = arguments::number(given, 0, 3)?;
                (s.write, s.random) = (kind % 2 == 1, kind >= 2);
            }
            "transfer" => {
                s.transfer = match arguments::number(given, 0, 2)? {
                    0 => Transfer::GpuDirect,
                    1 => Transfer::CpuOnly,
                    _ => Transfer::CpuGpu,
                }
            }
            "drive" => name = Some(text.to_owned()),
            "drives" => s.drives = arguments::number(given, 1, 256)? as u32,
            "under" => s.under = text.split(',').map(|name| name.trim().to_owned()).collect(),
            "help" => {
                return Err(UsageError::Help { text: arguments::help("gdsio", crate::StorageTool::Gdsio.about(), OPTIONS, NOTES) });
            }
            _ => {}
        }
    }
    if s.gpus.is_empty() {
        s.gpus.push(0);
    }
    let there = node.machine.gpus().len() as u32;
    if let Some(gpu) = s.gpus.iter().find(|gpu| **gpu >= there) {
        return conflict(format!("GPU {gpu} of a node with {there}"), "name one that is there: -d 0, on a cluster with GPUs");
    }
    if s.under.is_empty() {
        s.under.push("numa0".to_owned());
    }
    if s.call > s.size {
        return conflict(format!("a call of {} in {}", s.call, s.size), "make -s at least -i");
    }
    if mounted {
        return Ok(s);
    }
    let Some(name) = name else {
        return conflict(
            "the nodes of this cluster have no drives".to_owned(),
            format!("name a file system with --fs, or drives: --drive {}", nvme_names(&node.drives)),
        );
    };
    s.drive = Some(nvme_drive(&node.drives, &name)?);
    Ok(s)
}

const NOTES: &str = "\nRemarks say which links bytes pass and what binds. Without --fs the drives of the node are read or written.\n";

fn printed(s: &Settings, done: &Outcome) -> ToolOutput {
    let io = match (s.write, s.random) {
        (false, false) => "READ",
        (true, false) => "WRITE",
        (false, true) => "RANDREAD",
        (true, true) => "RANDWRITE",
    };
    let seconds = done.time.as_s_f64();
    let rate = done.bytes.0 as f64 / seconds.max(f64::MIN_POSITIVE);
    let all = s.size.0.saturating_mul(s.gpus.len() as u64);
    // What was not simulated goes on at the same rate.
    let (total, ops) = (all as f64 / rate.max(f64::MIN_POSITIVE), all / s.call.0.max(1));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "IoType: {io} XferType: {} Threads: {} DataSetSize: {2}/{2}(KiB) IOSize: {3}(KiB) Throughput: {4:.6} GiB/sec, \
         Avg_Latency: {5:.6} usecs ops: {ops} total_time {total:.6} secs",
        s.transfer.name(),
        s.threads * s.gpus.len() as u32,
        all >> 10,
        s.call.0 >> 10,
        rate / GIB,
        done.each.as_us_f64(),
    );
    let points = vec![
        Point { size: s.call, metric: "bandwidth", unit: "GiB/s", value: rate / GIB },
        Point { size: s.call, metric: "latency", unit: "us", value: done.each.as_us_f64() },
    ];
    ToolOutput { text, points, remarks: done.remarks.clone(), ..ToolOutput::default() }
}

const GIB: f64 = 1_073_741_824.0;
