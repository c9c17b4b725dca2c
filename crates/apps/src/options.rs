//! What the command lines of all applications have in common.

use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
pub(crate) use fabriscope_tool::arguments::value;
use fabriscope_tool::arguments::{self, Given, Meaning::Usual, Opt, Parsed, Takes, opt};
use fabriscope_tool::offload::OffloadOptions;
use fabriscope_units::{Bytes, Rate};

/// What is asked for of any application.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Common {
    /// Measured, after one that is not.
    pub iterations: u32,
    /// Threads of a rank.
    pub threads: u32,
    /// What a node would compute for an iteration of the whole problem, in s, where it was measured.
    pub node_seconds: Option<f64>,
    /// Operations of a core in a second, where they may bound it.
    pub compute_rate: Option<f64>,
    /// The same of a core on an adapter.
    pub worker_rate: Option<f64>,
    /// Who carries out what goes on beside computation.
    pub offload: OffloadOptions,
    /// Checkpoints, where there are any.
    pub checkpoint: Option<Checkpoint>,
}

/// How often the job stands still until its state is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Checkpoint {
    /// After so many iterations.
    pub every: u64,
    /// What all ranks write together.
    pub bytes: Bytes,
    /// What that takes, in s.
    pub seconds: f64,
}

pub(crate) const ITERATIONS: Opt = value('i', "iterations", "count", "measured iterations, after one that is not (default 1)");
pub(crate) const THREADS: Opt = value('t', "threads", "count", "threads of each rank, a core each (default 1)");
pub(crate) const NODE_SECONDS: Opt =
    value('\0', "node-seconds", "seconds", "computation of an iteration on one node (default: its bytes at the memory's rate)");
pub(crate) const COMPUTE_RATE: Opt = value('\0', "compute-rate", "Gflop/s", "arithmetic of a core, where it bounds (default: it does not)");
pub(crate) const CHECKPOINT_EVERY: Opt = value('\0', "checkpoint-every", "count", "iterations between two checkpoints (default: none)");
pub(crate) const CHECKPOINT_SIZE: Opt = value('\0', "checkpoint-size", "bytes", "what all ranks write together in a checkpoint");
pub(crate) const CHECKPOINT_SECONDS: Opt =
    value('\0', "checkpoint-seconds", "seconds", "what writing one takes (default: what the file system takes, --fs)");
pub(crate) const DPU_COMPUTE_RATE: Opt =
    value('\0', "dpu-compute-rate", "Gflop/s", "arithmetic of a core of the DPU, where it bounds (default: it does not)");
pub(crate) const HELP: Opt = opt('h', "help", Takes::Nothing, Usual, "show this page");

/// The options of an application and those that all have.
macro_rules! options {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            $crate::options::ITERATIONS,
            $crate::options::THREADS,
            $crate::options::NODE_SECONDS,
            $crate::options::COMPUTE_RATE,
            $crate::options::CHECKPOINT_EVERY,
            $crate::options::CHECKPOINT_SIZE,
            $crate::options::CHECKPOINT_SECONDS,
            $crate::options::HELP,
        ]
    };
}
pub(crate) use options;

/// Below every help page.
const NOTES: &str = "\nTimes are of an iteration: of the last rank in all, and means over ranks by call.\n\
    Calibrate --node-seconds on the smallest run of a machine; what follows is predicted.\n";

impl Common {
    /// Reads the options of all applications; others are left to the application.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read((tool, about): (&str, &str), options: &[Opt], args: &[String]) -> Result<(Common, Parsed), UsageError> {
        let parsed = arguments::parse(tool, options, args)?;
        parsed.no_operands(tool)?;
        let (node_seconds, compute_rate, worker_rate, checkpoint) = (None, None, None, None);
        let offload = OffloadOptions::default();
        let mut common = Common { iterations: 1, threads: 1, node_seconds, compute_rate, worker_rate, offload, checkpoint };
        let (mut every, mut bytes, mut seconds) = (None, None, None);
        for given in &parsed.options {
            match given.name {
                "iterations" => common.iterations = arguments::number(given, 1, 100_000)? as u32,
                "threads" => common.threads = arguments::number(given, 1, 65_536)? as u32,
                "node-seconds" => common.node_seconds = Some(positive(given)?),
                "compute-rate" => common.compute_rate = Some(positive(given)? * 1e9),
                "checkpoint-every" => every = Some(arguments::number(given, 1, 1 << 40)?),
                "checkpoint-size" => {
                    let text = given.value.as_deref().unwrap_or_default();
                    bytes = Some(Bytes(arguments::size(&given.typed, text, 1, 1 << 60)?));
                }
                "checkpoint-seconds" => seconds = Some(positive(given)?),
                "dpu-compute-rate" => common.worker_rate = Some(positive(given)? * 1e9),
                "offload" | "workers" => common.offload.take(given)?,
                "help" => return Err(UsageError::Help { text: arguments::help(tool, about, options, NOTES) }),
                _ => {}
            }
        }
        common.checkpoint = match (every, bytes, seconds) {
            (None, None, None) => None,
            (Some(every), Some(bytes), Some(seconds)) => Some(Checkpoint { every, bytes, seconds }),
            (Some(_), Some(_), None) => {
                let what = "a checkpoint without a file system".to_owned();
                return Err(conflict(what, "name one with --fs, or say --checkpoint-seconds"));
            }
            _ => {
                let what = "a checkpoint needs to be said how often and how large".to_owned();
                return Err(conflict(what, "write --checkpoint-every 100 --checkpoint-size 64g, and --fs"));
            }
        };
        Ok((common, parsed))
    }

    /// Whether the threads have cores.
    ///
    /// # Errors
    /// They have not.
    pub fn check(&self, layout: Layout, cores: u32) -> Result<(), UsageError> {
        let most = (cores / layout.per_node.max(1)).max(1);
        if self.threads > most {
            let what = format!("{} ranks of {} threads on the {cores} cores of a node", layout.per_node, self.threads);
            return Err(conflict(what, &format!("use --threads of at most {most}, or fewer ranks (--ppn)")));
        }
        Ok(())
    }

    /// The time of so many operations by so many threads, where arithmetic may bound.
    pub fn arithmetic(&self, flops: u64) -> f64 {
        self.compute_rate.map_or(0.0, |rate| flops as f64 / rate / f64::from(self.threads))
    }
    /// The same on a core of a DPU.
    pub fn worker_arithmetic(&self, flops: u64) -> f64 {
        self.worker_rate.map_or(0.0, |rate| flops as f64 / rate)
    }
}

pub(crate) fn conflict(what: String, remedy: &str) -> UsageError {
    UsageError::Conflict { what, remedy: remedy.to_owned() }
}

/// A number above zero.
pub(crate) fn positive(given: &Given) -> Result<f64, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() && number < MOST => Ok(number),
        _ => Err(conflict(format!("{} takes a number above zero, not `{text}`", given.typed), &format!("write {} 1.5", given.typed))),
    }
}

/// Three numbers with commas or crosses between them, or one that stands for all.
pub(crate) fn three(given: &Given, most: u64) -> Result<[u64; 3], UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let words: Vec<&str> = text.split([',', 'x']).collect();
    let (x, y, z) = match *words.as_slice() {
        [all] => (all, all, all),
        [x, y, z] => (x, y, z),
        _ => return Err(conflict(format!("{} {text} is not three numbers", given.typed), &format!("write {} 64,64,128", given.typed))),
    };
    let one = |word: &str| arguments::number(&Given { value: Some(word.trim().to_owned()), ..given.clone() }, 1, most);
    Ok([one(x)?, one(y)?, one(z)?])
}

/// A rate in bytes as a time of one byte, in s.
pub(crate) fn per_byte(rate: Rate) -> f64 {
    1.0 / rate.as_bytes_per_s_f64().max(1.0)
}

/// Of numbers on the command line. Basis: assumed; seconds beyond it do not fit into whole picoseconds.
const MOST: f64 = 1e6;
