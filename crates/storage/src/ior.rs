//! `ior`: data by many processes, to files of their own or to one that all share.
//!
//! Source: the options and the output of IOR 4.0.
//! Modelled: both directions, own files and a shared one, blocks and segments, direct and random access, collective MPI-IO in two phases
//! (each node's aggregator collects what belongs to its part of the file, then writes it), a time limit.
//! Not modelled: data that the same node still has in memory; other interfaces than POSIX and MPIIO.

use fabriscope_engine_storage::{DataCounts, DataRun, Direction, MetadataRun, Operation, Sharing, StridedRun, Usage};
use fabriscope_lustre::{Layout, System};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt, value};
use fabriscope_tool::{Point, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Rate, Remedy};

use crate::counters::Counted;
use crate::mount::Mount;

const fn switch(short: char, long: &'static str, help: &'static str) -> Opt {
    opt(short, long, Takes::Nothing, Meaning::Usual, help)
}
const fn idle(short: char, long: &'static str, takes: Takes, why: &'static str) -> Opt {
    opt(short, long, takes, Meaning::Harmless(why), "")
}

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    value('a', "api", "POSIX|MPIIO", "interface (default POSIX)"),
    value('b', "blockSize", "bytes", "contiguous bytes of a task in a segment (default 1m)"),
    value('t', "transferSize", "bytes", "bytes of a call (default 256k)"),
    value('s', "segmentCount", "count", "segments (default 1)"),
    value('i', "repetitions", "count", "repetitions of the test (default 1)"),
    switch('w', "writeFile", "write (default: write and read)"),
    switch('r', "readFile", "read"),
    switch('F', "filePerProc", "a file for each task"),
    switch('c', "collective", "collective I/O, with -a MPIIO"),
    switch('e', "fsync", "the time of writing ends when data are on drives"),
    switch('B', "useO_DIRECT", "past the page cache"),
    switch('z', "randomOffset", "calls go anywhere in the file"),
    value('D', "deadlineForStonewalling", "seconds", "end after so long (default 0: never)"),
    value('o', "testFile", "path", "name of the file, for the output (default testFile)"),
    value('\0', "stripe-count", "count", "OSTs of a file, -1 for all (default: that of the file system)"),
    value('\0', "stripe-size", "bytes", "bytes on an OST before the next (default: that of the file system)"),
    idle('C', "reorderTasksConstant", Takes::Nothing, "reads never find data in the memory of the node"),
    idle('Z', "reorderTasksRandom", Takes::Nothing, "reads never find data in the memory of the node"),
    idle('k', "keepFile", Takes::Nothing, "nothing is removed"),
    idle('g', "intraTestBarriers", Takes::Nothing, "all tasks begin together"),
    idle('v', "verbose", Takes::Nothing, "the output is the usual one"),
    idle('m', "multiFile", Takes::Nothing, "files are new in each repetition"),
    idle('E', "useExistingTestFile", Takes::Nothing, "files are there where they are read"),
    idle('N', "numTasks", Takes::Value("count"), "--nodes and --ppn say how many"),
    idle('Q', "taskPerNodeOffset", Takes::Value("count"), "reads never find data in the memory of the node"),
    idle('O', "option", Takes::Value("name=value"), "hints are options here: --stripe-count, --stripe-size"),
    switch('h', "help", "show this page"),
];

/// Through what calls go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Api {
    Posix,
    /// MPI-IO, each task for itself.
    Independent,
    /// MPI-IO, all tasks together.
    Collective,
}

/// What is asked for.
struct Settings {
    api: Api,
    block: u64,
    transfer: u64,
    segments: u64,
    repetitions: u64,
    directions: Vec<Direction>,
    own: bool,
    fsync: bool,
    direct: bool,
    random: bool,
    deadline: f64,
    file: String,
    layout: Layout,
    command: String,
}

fn read(args: &[String], mount: &Mount) -> Result<Settings, UsageError> {
    let parsed = arguments::parse("ior", OPTIONS, args)?;
    parsed.no_operands("ior")?;
    let mut settings = Settings {
        api: Api::Posix,
        block: 1 << 20,
        transfer: 256 << 10,
        segments: 1,
        repetitions: 1,
        directions: Vec::new(),
        own: false,
        fsync: false,
        direct: false,
        random: false,
        deadline: 0.0,
        file: "testFile".to_owned(),
        layout: mount.layout(None, None).map_err(refused)?,
        command: format!("ior {}", args.join(" ")).trim_end().to_owned(),
    };
    let (mut count, mut size) = (None, None);
    let (mut mpiio, mut collective) = (false, false);
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "api" => {
                mpiio = match text.to_ascii_uppercase().as_str() {
                    "POSIX" => false,
                    "MPIIO" => true,
                    _ => return Err(UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known: "POSIX, MPIIO" }),
                }
            }
            "blockSize" => settings.block = bytes(&given.typed, text)?,
            "transferSize" => settings.transfer = bytes(&given.typed, text)?,
            "segmentCount" => settings.segments = arguments::number(given, 1, 1 << 40)?,
            "repetitions" => settings.repetitions = arguments::number(given, 1, 1000)?,
            "writeFile" => settings.directions.push(Direction::Write),
            "readFile" => settings.directions.push(Direction::Read),
            "filePerProc" => settings.own = true,
            "collective" => collective = true,
            "fsync" => settings.fsync = true,
            "useO_DIRECT" => settings.direct = true,
            "randomOffset" => settings.random = true,
            "deadlineForStonewalling" => settings.deadline = arguments::number(given, 0, 1 << 32)? as f64,
            "testFile" => text.clone_into(&mut settings.file),
            "stripe-count" => count = Some(stripes(&given.typed, text)?),
            "stripe-size" => size = Some(Bytes(bytes(&given.typed, text)?)),
            "help" => return Err(UsageError::Help { text: arguments::help("ior", crate::StorageTool::Ior.about(), OPTIONS, NOTES) }),
            _ => {}
        }
    }
    settings.layout = mount.layout(count, size).map_err(refused)?;
    if settings.directions.is_empty() {
        settings.directions = vec![Direction::Write, Direction::Read];
    }
    settings.directions.sort_by_key(|direction| *direction == Direction::Read);
    settings.directions.dedup();
    if !settings.block.is_multiple_of(settings.transfer) {
        let what = format!("a block of {} is no multiple of a transfer of {}", settings.block, settings.transfer);
        return Err(UsageError::Conflict { what, remedy: "make -b a multiple of -t".to_owned() });
    }
    settings.api = match (mpiio, collective) {
        (false, false) => Api::Posix,
        (true, false) => Api::Independent,
        (true, true) => Api::Collective,
        (false, true) => {
            let what = "collective I/O needs MPI-IO, and the interface is POSIX".to_owned();
            return Err(UsageError::Conflict { what, remedy: "add -a MPIIO".to_owned() });
        }
    };
    Ok(settings)
}

const NOTES: &str = "\nReads find no data in the memory of the node. Long runs are simulated until their rate is steady; the line below the
table says so. --on CLUSTER --fs FILE-SYSTEM say where, --nodes and --ppn how many tasks.\n";

pub(crate) fn bytes(option: &str, text: &str) -> Result<u64, UsageError> {
    // IOR takes t for 2^40 as well.
    if let Some(digits) = text.strip_suffix(['t', 'T'])
        && let Ok(count) = digits.parse::<u64>()
    {
        return arguments::size(option, &count.saturating_mul(1 << 40).to_string(), 1, 1 << 60);
    }
    arguments::size(option, text, 1, 1 << 60)
}

pub(crate) fn stripes(option: &str, text: &str) -> Result<i32, UsageError> {
    match text.parse::<i32>() {
        Ok(count) if count == -1 || count > 0 => Ok(count),
        _ => Err(UsageError::NotANumber { option: option.to_owned(), value: text.to_owned() }),
    }
}

pub(crate) fn refused(error: impl Remedy + std::fmt::Display) -> UsageError {
    let (what, remedy) = error.halves("see --help");
    UsageError::Conflict { what, remedy }
}

/// What one direction took.
pub(crate) struct Done {
    /// Data.
    pub bytes: f64,
    /// Seconds of data, of opening.
    pub time: f64,
    pub open: f64,
    pub whole: bool,
    pub usage: Usage,
    /// What Lustre counted, where that is wanted and done.
    pub counts: Option<DataCounts>,
}

/// How long all processes open a new file each, in s.
pub(crate) fn open_time(mount: &Mount) -> f64 {
    let names = MetadataRun { operation: Operation::Create, shared: false, mdts: 1, bytes: Bytes(0), names: 1 };
    names.run(&mount.system).time.as_s_f64()
}

impl Settings {
    /// Every direction; files are opened alike in all of them.
    fn all(&self, mount: &Mount, counted: bool) -> Vec<(Direction, Done)> {
        let open = open_time(mount);
        self.directions.iter().map(|direction| (*direction, self.done(*direction, open, (mount, counted)))).collect()
    }

    fn done(&self, direction: Direction, open: f64, (mount, counted): (&Mount, bool)) -> Done {
        let mut counts = None;
        let system = &mount.system;
        let each = self.block.saturating_mul(self.segments);
        let all = each as f64 * f64::from(system.processes());
        let (rate, whole, usage, time) = if self.api == Api::Collective {
            let (rate, whole, usage) = collective(direction, system, &self.layout, each);
            (rate, whole, usage, all / rate)
        } else if !self.own && self.segments > 1 && self.block <= STRIDED {
            let run = StridedRun { direction, layout: self.layout.clone(), transfer: Bytes(self.block), segments: self.segments };
            let done = run.run(system);
            (done.rate(), false, done.usage.clone(), all / done.rate())
        } else {
            let sharing = if self.own { Sharing::Own } else { Sharing::Shared };
            let run = DataRun {
                direction,
                sharing,
                layout: self.layout.clone(),
                transfer: Bytes(self.transfer),
                bytes: Bytes(each),
                random: self.random,
                direct: self.direct,
                fsync: self.fsync,
            };
            let done = if counted {
                let (done, found) = run.run_counted(system);
                counts = Some(found);
                done
            } else {
                run.run(system)
            };
            (done.rate(), done.whole, done.usage.clone(), done.time_of(all))
        };
        if self.deadline > 0.0 && time > self.deadline {
            return Done { bytes: rate * self.deadline, time: self.deadline, open, whole: false, usage, counts };
        }
        Done { bytes: all, time, open, whole, usage, counts }
    }
}

/// Blocks of segments up to here are written in turns; beyond, each is a stream of its own. Basis: assumed (a few RPCs).
const STRIDED: u64 = 16 << 20;

/// Two phases: an aggregator on each node gets what belongs to its part of the file from all ranks, then writes it in one stream.
fn collective(direction: Direction, system: &System, layout: &Layout, each: u64) -> (f64, bool, Usage) {
    let mut aggregators = system.clone();
    aggregators.clients.per_node = 1;
    let per_node = each.saturating_mul(system.clients.per_node.into());
    let run = DataRun {
        direction,
        sharing: Sharing::Shared,
        layout: layout.clone(),
        transfer: BUFFER,
        bytes: Bytes(per_node),
        random: false,
        direct: false,
        fsync: true,
    };
    let done = run.run(&aggregators);
    // What other nodes have of a part passes adapters once more; what the own node has is copied.
    let nodes = f64::from(system.clients.nodes);
    let adapters = f64::from(system.clients.adapters) * seconds(system.clients.rate);
    let copies = seconds(system.clients.copy);
    let exchange = per_node as f64 * ((nodes - 1.0) / nodes / adapters + 1.0 / nodes / copies);
    let total = per_node as f64 * nodes;
    (total / (done.time_of(total) + exchange), done.whole, done.usage)
}

fn seconds(rate: Rate) -> f64 {
    rate.as_bytes_per_s_f64()
}

/// Basis: published (cb_buffer_size of ROMIO, 16 MiB).
const BUFFER: Bytes = Bytes(16 << 20);

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    finished(args, mount, false).map(|(output, _)| output)
}

/// The same with what Lustre counted.
pub(crate) fn run_counted(args: &[String], mount: &Mount) -> Result<(ToolOutput, String), UsageError> {
    let (output, done) = finished(args, mount, true)?;
    let mut counted = Counted::default();
    for (direction, done) in done {
        let Some(counts) = done.counts else {
            let what = "RPCs of collective and of strided runs are not counted".to_owned();
            return Err(UsageError::Conflict { what, remedy: "use files of their own (-F) or one block for each task".to_owned() });
        };
        counted.time += counts.time.as_s_f64();
        counted.data.push((direction, counts));
    }
    Ok((output, counted.text(mount)))
}

fn finished(args: &[String], mount: &Mount, counted: bool) -> Result<(ToolOutput, Vec<(Direction, Done)>), UsageError> {
    let settings = read(args, mount)?;
    let done = settings.all(mount, counted);
    let mut output = ToolOutput { text: header(&settings, mount), ..ToolOutput::default() };
    for repetition in 0..settings.repetitions {
        for (direction, done) in &done {
            output.text += &row(&settings, *direction, done, mount, repetition);
        }
    }
    output.text += &summary(&settings, &done, mount);
    for (direction, done) in &done {
        let metric = if *direction == Direction::Write { "write_bandwidth" } else { "read_bandwidth" };
        output.points.push(Point { size: Bytes(settings.transfer), metric, unit: "MiB/s", value: mib(done) });
        let how = if done.whole { "every RPC was simulated" } else { "simulated until the rate was steady" };
        let binds = done.usage.remark();
        output.remarks.push(format!("{}: {how}; {binds}", word(*direction)));
    }
    Ok((output, done))
}

/// What binds each direction that a command line asks for.
pub(crate) fn usages(args: &[String], mount: &Mount) -> Result<Vec<(&'static str, f64, Usage)>, UsageError> {
    let settings = read(args, mount)?;
    Ok(settings.all(mount, false).into_iter().map(|(direction, done)| (word(direction), mib(&done), done.usage)).collect())
}

const fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Write => "write",
        Direction::Read => "read",
    }
}

/// IOR's figure: data over all of the time, opening included.
fn mib(done: &Done) -> f64 {
    done.bytes / (done.time + done.open) / MIB
}

const MIB: f64 = 1_048_576.0;
/// What programs print where no clock is.
pub(crate) const EPOCH: &str = "Thu Jan  1 00:00:00 1970";

fn scaled(bytes: f64) -> (f64, &'static str) {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut left = bytes;
    while left >= 1024.0 && unit + 1 < units.len() {
        left /= 1024.0;
        unit += 1;
    }
    (left, units[unit])
}

fn human(bytes: f64) -> String {
    let (left, unit) = scaled(bytes);
    if (left - left.round()).abs() < 1e-9 { format!("{left:.0} {unit}") } else { format!("{left:.2} {unit}") }
}

fn header(settings: &Settings, mount: &Mount) -> String {
    let System { clients, .. } = &mount.system;
    let tasks = mount.system.processes();
    let all = settings.block as f64 * settings.segments as f64 * f64::from(tasks);
    let capacity = mount.system.oss.capacity.0 as f64 * f64::from(mount.system.osts());
    let (size, unit) = scaled(capacity);
    let access = if settings.own { "file-per-process" } else { "single-shared-file" };
    let kind = if settings.api == Api::Collective { "collective" } else { "independent" };
    let order = if settings.random { "random" } else { "sequential" };
    let mut text = format!(
        "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nBegan               : {EPOCH}\nCommand line        : {}\n\
         Machine             : Linux {}\nTestID              : 0\nStartTime           : {EPOCH}\nPath                : {}\n\
         FS                  : {:.1} {}   Used FS: 0.0%   Inodes: 0.0 Mi   Used Inodes: 0.0%\n\nOptions: \n",
        settings.command, mount.cluster, settings.file, size, unit,
    );
    for (name, told) in [
        ("api", if settings.api != Api::Posix { "MPIIO".to_owned() } else { "POSIX".to_owned() }),
        ("apiVersion", String::new()),
        ("test filename", settings.file.clone()),
        ("access", access.to_owned()),
        ("type", kind.to_owned()),
        ("segments", settings.segments.to_string()),
        ("ordering in a file", order.to_owned()),
        ("ordering inter file", "constant task offset".to_owned()),
        ("task offset", "1".to_owned()),
        ("nodes", clients.nodes.to_string()),
        ("tasks", tasks.to_string()),
        ("clients per node", clients.per_node.to_string()),
        ("repetitions", settings.repetitions.to_string()),
        ("xfersize", human(settings.transfer as f64)),
        ("blocksize", human(settings.block as f64)),
        ("aggregate filesize", human(all)),
    ] {
        text += &format!("{name:<20}: {told}\n");
    }
    if settings.deadline > 0.0 {
        text += &format!("{:<20}: {:.0}\n", "stonewallingTime", settings.deadline);
    }
    text + "\nResults: \n\n\
        access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter\n\
        ------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----\n"
}

fn row(settings: &Settings, direction: Direction, done: &Done, mount: &Mount, repetition: u64) -> String {
    let calls = done.bytes / settings.transfer as f64 / done.time;
    let latency = f64::from(mount.system.processes()) / calls;
    format!(
        "{:<9} {:<10} {:<10} {:<11} {:<10} {:<10} {:<10} {:<10} {:<10} {:<10} {:<4}\n",
        word(direction),
        columns(mib(done)),
        columns(calls),
        columns(latency),
        columns(settings.block as f64 / 1024.0),
        columns(settings.transfer as f64 / 1024.0),
        columns(done.open),
        columns(done.time),
        "0.000100",
        columns(done.time + done.open),
        repetition
    )
}

/// As IOR writes numbers into ten columns: six decimals below one, two below 3600, else none.
fn columns(value: f64) -> String {
    let decimals = if value < 1.0 {
        6
    } else if value < 3600.0 {
        2
    } else {
        0
    };
    format!("{value:.decimals$}")
}

fn summary(settings: &Settings, done: &[(Direction, Done)], mount: &Mount) -> String {
    let mut text = "\n".to_owned();
    for (direction, done) in done {
        let name = if *direction == Direction::Write { "Max Write:" } else { "Max Read: " };
        text += &format!("{name} {:.2} MiB/sec ({:.2} MB/sec)\n", mib(done), mib(done) * MIB / 1e6);
    }
    text += "\nSummary of all tests:\nOperation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    \
        Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum\n";
    for (direction, done) in done {
        let (rate, calls) = (mib(done), mib(done) * MIB / settings.transfer as f64);
        let (stonewall, moved) = if settings.deadline > 0.0 {
            (format!("{:.2}", done.time), format!("{:.2}", done.bytes / MIB))
        } else {
            ("NA".into(), "NA".into())
        };
        text += &format!(
            "{:<9} {rate:>10.2} {rate:>10.2} {rate:>10.2} {:>10.2} {calls:>10.2} {calls:>10.2} {calls:>10.2} {:>10.2} {:>10.5} {stonewall:>12} \
             {moved:>14} {:>5} {:>6} {:>3} {:>4} {:>3} {:>5} {:>8} {:>9} {:>4} {:>6} {:>8} {:>8} {:>9.1} {:>5} {:>6}\n",
            word(*direction),
            0.0,
            0.0,
            done.time + done.open,
            0,
            mount.system.processes(),
            mount.system.clients.per_node,
            settings.repetitions,
            u8::from(settings.own),
            1,
            1,
            0,
            0,
            settings.segments,
            settings.block,
            settings.transfer,
            done.bytes / MIB,
            if settings.api != Api::Posix { "MPIIO" } else { "POSIX" },
            0,
        );
    }
    text + &format!("Finished            : {EPOCH}\n")
}
