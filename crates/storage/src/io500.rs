//! `io500`: the phases of the list, and its score.
//!
//! Source: the rules and the output of IO500 (<https://io500.org>); what each phase runs is in its `config-all.ini`.
//! Modelled: `ior-easy` (own files, 2 MiB a call), `ior-hard` (one file, 47,008 bytes a call, interleaved, on all OSTs), `mdtest-easy` (own
//! directories on the MDT of their parent, empty files), `mdtest-hard` (one directory, 3,901 bytes a file), `find` as looking at every
//! name. 300 s a phase.
//! Not modelled: the random-read phases that do not count.

use std::fmt::Write;

use fabriscope_engine_storage::{DataRun, Direction, MetadataRun, Operation, Sharing, StridedRun, Usage};
use fabriscope_lustre::{Layout, LayoutError};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt};
use fabriscope_tool::{Point, ToolOutput, UsageError};
use fabriscope_units::Bytes;

use crate::directories;
use crate::ior;
use crate::mount::Mount;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('\0', "hard-stripe-count", Takes::Value("count"), Meaning::Usual, "OSTs of the file of ior-hard (default -1: all)"),
    opt('\0', "hard-stripe-size", Takes::Value("bytes"), Meaning::Usual, "bytes on an OST before the next (default 1m)"),
    opt('\0', "mdt-count", Takes::Value("count"), Meaning::Usual, directories::HELP),
    opt('h', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

/// A phase that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Own files, written.
    IorEasyWrite,
    /// Own directories, empty files.
    MdtestEasyWrite,
    /// One file, interleaved.
    IorHardWrite,
    /// One directory, 3,901 bytes.
    MdtestHardWrite,
    /// Every name looked at.
    Find,
    /// Own files, read.
    IorEasyRead,
    /// Attributes of the first.
    MdtestEasyStat,
    /// One file, read.
    IorHardRead,
    /// Attributes of the second.
    MdtestHardStat,
    /// The first removed.
    MdtestEasyDelete,
    /// The second read.
    MdtestHardRead,
    /// The second removed.
    MdtestHardDelete,
}

impl Phase {
    /// In the order of a run.
    pub const ALL: [Phase; 12] = [
        Phase::IorEasyWrite,
        Phase::MdtestEasyWrite,
        Phase::IorHardWrite,
        Phase::MdtestHardWrite,
        Phase::Find,
        Phase::IorEasyRead,
        Phase::MdtestEasyStat,
        Phase::IorHardRead,
        Phase::MdtestHardStat,
        Phase::MdtestEasyDelete,
        Phase::MdtestHardRead,
        Phase::MdtestHardDelete,
    ];
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::IorEasyWrite => "ior-easy-write",
            Phase::MdtestEasyWrite => "mdtest-easy-write",
            Phase::IorHardWrite => "ior-hard-write",
            Phase::MdtestHardWrite => "mdtest-hard-write",
            Phase::Find => "find",
            Phase::IorEasyRead => "ior-easy-read",
            Phase::MdtestEasyStat => "mdtest-easy-stat",
            Phase::IorHardRead => "ior-hard-read",
            Phase::MdtestHardStat => "mdtest-hard-stat",
            Phase::MdtestEasyDelete => "mdtest-easy-delete",
            Phase::MdtestHardRead => "mdtest-hard-read",
            Phase::MdtestHardDelete => "mdtest-hard-delete",
        }
    }
    /// The phase of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
    /// Whether GiB/s are told; thousands of names a second otherwise.
    #[must_use]
    pub const fn is_bandwidth(self) -> bool {
        matches!(self, Phase::IorEasyWrite | Phase::IorHardWrite | Phase::IorEasyRead | Phase::IorHardRead)
    }
}

/// What a phase gave.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseResult {
    /// The phase.
    pub phase: Phase,
    /// GiB/s, or thousands of names a second.
    pub value: f64,
    /// What was at work.
    pub usage: Usage,
}

/// What submitters may set of a file system before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Striping {
    /// The file that all share.
    pub hard: Layout,
    /// MDTs that have directories.
    pub mdts: u32,
}

impl Striping {
    /// The file on so many OSTs (-1: all), directories as the release does it.
    ///
    /// # Errors
    /// More OSTs than there are, a size that is no multiple of 64 KiB.
    pub fn new(mount: &Mount, count: i32, size: Bytes) -> Result<Striping, LayoutError> {
        let mdts = directories::mdts(&mount.system, false, directories::OF_IO500);
        Ok(Striping { hard: mount.layout(Some(count), Some(size))?, mdts })
    }
    /// What the phase would have if it were set otherwise: directories on all MDTs, the shared file as new files are; with its name.
    ///
    /// # Errors
    /// A default layout of the file system that does not fit it.
    pub fn otherwise(&self, phase: Phase, mount: &Mount) -> Result<Option<(&'static str, Striping)>, LayoutError> {
        Ok(match phase {
            Phase::IorEasyWrite | Phase::IorEasyRead => None,
            Phase::IorHardWrite | Phase::IorHardRead => {
                Some(("default stripes", Striping { hard: mount.layout(None, None)?, ..self.clone() }))
            }
            _ => Some(("all MDTs", Striping { mdts: mount.system.mdts(), ..self.clone() })),
        })
    }
}

/// Runs these phases.
///
/// # Errors
/// A default layout of the file system that does not fit it.
pub fn phases(asked: &[Phase], striping: &Striping, mount: &Mount) -> Result<Vec<PhaseResult>, UsageError> {
    let easy = mount.layout(None, None).map_err(ior::refused)?;
    let run = |phase: Phase| {
        let system = &mount.system;
        let easy = |direction| {
            let run = DataRun {
                direction,
                sharing: Sharing::Own,
                layout: easy.clone(),
                transfer: EASY,
                bytes: Bytes(1 << 50),
                random: false,
                direct: false,
                fsync: true,
            };
            let done = run.run(system);
            (done.rate() / GIB, done.usage)
        };
        let hard = |direction| {
            let done = StridedRun { direction, layout: striping.hard.clone(), transfer: HARD, segments: 1 << 40 }.run(system);
            (done.rate() / GIB, done.usage)
        };
        let names = |operation, shared, bytes| {
            let done = MetadataRun { operation, shared, mdts: striping.mdts, bytes: Bytes(bytes), names: 1 << 40 }.run(system);
            (done.rate() / 1000.0, done.usage)
        };
        let (value, usage) = match phase {
            Phase::IorEasyWrite => easy(Direction::Write),
            Phase::IorEasyRead => easy(Direction::Read),
            Phase::IorHardWrite => hard(Direction::Write),
            Phase::IorHardRead => hard(Direction::Read),
            Phase::MdtestEasyWrite => names(Operation::Create, false, 0),
            Phase::MdtestEasyStat | Phase::Find => names(Operation::Stat, false, 0),
            Phase::MdtestEasyDelete => names(Operation::Remove, false, 0),
            Phase::MdtestHardWrite => names(Operation::Create, true, HARD_FILE),
            Phase::MdtestHardStat => names(Operation::Stat, true, HARD_FILE),
            Phase::MdtestHardRead => names(Operation::Read, true, HARD_FILE),
            Phase::MdtestHardDelete => names(Operation::Remove, true, HARD_FILE),
        };
        PhaseResult { phase, value, usage }
    };
    Ok(asked.iter().map(|phase| run(*phase)).collect())
}

/// Bandwidth, thousands of operations a second, and the score: geometric means of four, of eight, of both.
#[must_use]
pub fn score(results: &[PhaseResult]) -> (f64, f64, f64) {
    let product = |bandwidth: bool| results.iter().filter(|r| r.phase.is_bandwidth() == bandwidth).map(|r| r.value).product::<f64>();
    let (bandwidth, operations) = (product(true).sqrt().sqrt(), product(false).sqrt().sqrt().sqrt());
    (bandwidth, operations, (bandwidth * operations).sqrt())
}

/// Basis: standard (rules of IO500).
const EASY: Bytes = Bytes(2 << 20);
/// Basis: standard (rules of IO500).
pub(crate) const HARD: Bytes = Bytes(47_008);
/// Basis: standard (rules of IO500).
const HARD_FILE: u64 = 3901;
/// Basis: standard (rules of IO500: seconds that a phase creates for).
const STONEWALL: f64 = 300.0;
const GIB: f64 = 1_073_741_824.0;

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    let parsed = arguments::parse("io500", OPTIONS, args)?;
    parsed.no_operands("io500")?;
    let (mut count, mut size, mut mdts) = (-1, Bytes(1 << 20), None);
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "hard-stripe-count" => count = ior::stripes(&given.typed, text)?,
            "hard-stripe-size" => size = Bytes(ior::bytes(&given.typed, text)?),
            "mdt-count" => mdts = Some(directories::count(&given.typed, text, &mount.system)?),
            _ => return Err(UsageError::Help { text: arguments::help("io500", crate::StorageTool::Io500.about(), OPTIONS, "") }),
        }
    }
    let usual = Striping::new(mount, count, size).map_err(ior::refused)?;
    let striping = Striping { mdts: mdts.unwrap_or(usual.mdts), ..usual };
    let results = phases(&Phase::ALL, &striping, mount)?;
    let mut output = ToolOutput { text: "IO500 version io500-isc24_v3 (standard)\n".to_owned(), ..ToolOutput::default() };
    let value = |phase: Phase| results.iter().find(|result| result.phase == phase).map_or(0.0, |result| result.value);
    for result in &results {
        let unit = if result.phase.is_bandwidth() { "GiB/s" } else { "kIOPS" };
        // What was written in 300 s is read, looked at and removed.
        let made = match result.phase {
            Phase::IorEasyRead => value(Phase::IorEasyWrite),
            Phase::IorHardRead => value(Phase::IorHardWrite),
            Phase::MdtestEasyStat | Phase::MdtestEasyDelete => value(Phase::MdtestEasyWrite),
            Phase::MdtestHardStat | Phase::MdtestHardRead | Phase::MdtestHardDelete => value(Phase::MdtestHardWrite),
            Phase::Find => value(Phase::MdtestEasyWrite) + value(Phase::MdtestHardWrite),
            _ => result.value,
        };
        let seconds = STONEWALL * made / result.value.max(f64::MIN_POSITIVE);
        let _ = writeln!(output.text, "[RESULT] {:>20} {:>15.6} {unit} : time {seconds:.3} seconds", result.phase.name(), result.value);
        output.points.push(Point { size: Bytes(0), metric: result.phase.name(), unit, value: result.value });
        let binds = result.usage.remark();
        output.remarks.push(format!("{}: {binds}", result.phase.name()));
    }
    let (bandwidth, operations, total) = score(&results);
    let _ = writeln!(output.text, "[SCORE ] Bandwidth {bandwidth:.6} GiB/s : IOPS {operations:.6} kiops : TOTAL {total:.6}");
    output.points.push(Point { size: Bytes(0), metric: "score", unit: "", value: total });
    Ok(output)
}
