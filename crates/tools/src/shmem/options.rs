//! The command lines: `heap` or `global` between pairs, options of collective operations.
//!
//! Source: OMB 7.4, `osu_util_pgas.c`. The tools between pairs have no options: those here set what is fixed there.

use fabriscope_mpi::OffloadSettings;
use fabriscope_mpi::shmem::{LARGEST_HEAP, Operation};
use fabriscope_platform::Target;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Meaning::Usual;
use fabriscope_tool::arguments::{self, Opt, Takes, opt};
use fabriscope_tool::mpi_for;
use fabriscope_tool::offload::{OFFLOAD, OffloadOptions, WORKERS, needs_keys};

use super::benchmark::{Benchmark, Family};
use crate::osu::{self, Repeats};

pub(crate) const OPTIONS: &[Opt] = &[
    osu::message_size("smallest and largest message in bytes"),
    osu::iterations("measured iterations (default 100, 20 above 8192 bytes; the tools' are more)"),
    osu::warm_up("iterations before the measurement (default 10, 2 above 8192 bytes)"),
    osu::full("also print least, most and iterations (collective operations)"),
    osu::pairs("pairs of PEs (message rates and atomics; default 1)"),
    opt('\0', "symmetric-size", Takes::Value("bytes"), Usual, "SHMEM_SYMMETRIC_SIZE (default: the library's)"),
    opt('\0', "algorithm", Takes::Value("name"), Usual, "another algorithm than the library's (collective operations)"),
    OFFLOAD,
    WORKERS,
    osu::HELP,
    osu::VERSION,
    osu::no_memory_limit("no memory is allocated; use -m for the largest message"),
];

const NOTES: &str = "\nPoint-to-point tools take one operand: `heap`, buffers of the symmetric heap, or `global`, static ones. Both are\n\
symmetric and cost the same; the heap has to have room for them.\n";

/// A resolved command line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub benchmark: &'static Benchmark,
    /// Message sizes in bytes, in order.
    pub sizes: Vec<u32>,
    pub repeats: Repeats,
    pub pairs: u32,
    pub full: bool,
    /// Buffers are of the symmetric heap.
    pub heap: bool,
    pub symmetric_size: Option<u64>,
    pub algorithm: Option<String>,
    /// Workers on the DPU that carry out puts and gets.
    pub offload: Option<OffloadSettings>,
}

impl Settings {
    /// # Errors
    /// An unknown, refused or contradictory option; neither `heap` nor `global`.
    pub fn parse(benchmark: &'static Benchmark, args: &[String], target: &Target) -> Result<Settings, UsageError> {
        let (tool, family) = (benchmark.name, benchmark.family);
        let parsed = arguments::parse(tool, OPTIONS, args)?;
        let (smallest, largest) = match family {
            Family::Rate => (1, LARGEST_RATE),
            Family::Collective(_) => (WORD, LARGEST),
            _ => (1, LARGEST),
        };
        let sizes = |min: u32, max: u32| (0..32).map(|power| 1 << power).filter(|size| (min..=max).contains(size)).collect();
        let mut s = Settings {
            benchmark,
            sizes: sizes(smallest, largest),
            repeats: Repeats::default(),
            pairs: 1,
            full: false,
            heap: true,
            symmetric_size: None,
            algorithm: None,
            offload: None,
        };
        let mut asked = OffloadOptions::default();
        let only = |typed: &str, what: &str| UsageError::Conflict {
            what: format!("{typed} is an option of {what}"),
            remedy: "leave it out".to_owned(),
        };
        let collective = benchmark.is_collective();
        for given in &parsed.options {
            match given.name {
                "message-size" if !benchmark.has_sizes() => {
                    return Err(only(&given.typed, "tools with messages"));
                }
                "message-size" => {
                    s.sizes = osu::size_range(given, smallest, largest)?;
                    s.sizes.retain(|size| !collective || size % WORD == 0);
                }
                "iterations" | "warmup" => s.repeats.take(given, MOST)?,
                "full" if collective => s.full = true,
                "full" => return Err(only(&given.typed, "the collective operations")),
                "pairs" if matches!(family, Family::Rate | Family::Atomics) => s.pairs = arguments::number(given, 1, 1024)? as u32,
                "pairs" => return Err(only(&given.typed, "the message rates and of osu_oshm_atomics")),
                "symmetric-size" => {
                    let text = given.value.as_deref().unwrap_or_default();
                    s.symmetric_size = Some(arguments::size(&given.typed, text, 1, LARGEST_HEAP)?);
                }
                "offload" | "workers" if matches!(family, Family::Atomics | Family::Collective(_)) => {
                    return Err(only(&given.typed, "puts and gets, which workers on a DPU carry out"));
                }
                "offload" | "workers" => asked.take(given)?,
                "algorithm" if collective => s.algorithm = given.value.clone(),
                "algorithm" => return Err(only(&given.typed, "the collective operations")),
                "help" => {
                    return Err(UsageError::Help { text: arguments::help(tool, benchmark.about, OPTIONS, NOTES) });
                }
                "version" => return Err(UsageError::Help { text: super::report::title(benchmark) }),
                _ => {}
            }
        }
        if asked != OffloadOptions::default() {
            s.offload = asked.settle(tool, (false, true), s.pairs, mpi_for(tool, target)?, target)?;
        }
        if s.offload.is_some_and(|offload| offload.staged) {
            return Err(needs_keys(tool));
        }
        if s.sizes.is_empty() {
            let what = format!("{tool}: none of the sizes is a whole number of elements of {WORD} bytes");
            return Err(UsageError::Conflict { what, remedy: format!("give -m {WORD}: for sizes from {WORD} bytes on") });
        }
        match (collective, parsed.operands.as_slice()) {
            (true, []) => {}
            (true, [other, ..]) => return Err(UsageError::Operand { tool: tool.to_owned(), operand: other.clone() }),
            (false, [word]) if word == "heap" => {}
            (false, [word]) if word == "global" => s.heap = false,
            (false, operands) => {
                let given = if operands.is_empty() { "nothing".to_owned() } else { format!("`{}`", operands.join(" ")) };
                let what = format!("{tool} takes one operand, heap or global, not {given}");
                return Err(UsageError::Conflict { what, remedy: format!("for example: {tool} heap") });
            }
        }
        if collective && target.layout.ranks() < 2 {
            let what = format!("{tool} requires at least two PEs");
            return Err(UsageError::Conflict { what, remedy: "give --nodes and --ppn for more".to_owned() });
        }
        Ok(s)
    }

    /// Bytes of each buffer that the tool takes of the heap.
    pub fn allocations(&self) -> Vec<u64> {
        let largest = u64::from(self.sizes.last().copied().unwrap_or(0));
        match self.benchmark.family {
            _ if !self.heap => Vec::new(),
            Family::Latency | Family::Overlap => vec![BUFFER; 2],
            Family::Rate => vec![u64::from(LARGEST_RATE) * RATE_BUFFERS + PAGE],
            Family::Atomics => vec![ELEMENTS * 8],
            Family::Collective(Operation::Barrier) => Vec::new(),
            Family::Collective(_) => vec![largest; 2],
        }
    }
    /// Measured iterations of a size.
    pub fn iterations(&self, size: u32) -> u32 {
        self.repeats.iterations.unwrap_or(if size > LARGE { FEW } else { MANY })
    }
    /// Iterations before those.
    pub fn warm_up(&self, size: u32) -> u32 {
        self.repeats.warm_up.unwrap_or(if size > LARGE { FEW } else { MANY } / 10)
    }
}

/// Largest message between two PEs and of collective operations, and of message rates, in bytes (basis: the tools).
const LARGEST: u32 = 1 << 20;
const LARGEST_RATE: u32 = 4 << 20;
/// Buffers of the largest message that the message rates take (basis: the tools).
const RATE_BUFFERS: u64 = 50;
const PAGE: u64 = 4096;
/// A buffer of the latency tools, in bytes (basis: the tools).
const BUFFER: u64 = 4 << 20;
/// Elements of the atomics tool (basis: the tool).
const ELEMENTS: u64 = 500;
/// Bytes of an element of collective operations (basis: the tools).
const WORD: u32 = 4;
/// Where messages are large, in bytes (basis: the tools).
const LARGE: u32 = 8192;
/// Iterations. Basis: assumed, as those of the MPI benchmarks.
const MANY: u32 = 100;
const FEW: u32 = 20;
const MOST: u64 = 100_000_000;
