//! `fio`: reads and writes of one client.
//!
//! Source: the options and the output of fio 3.
//! Modelled: sequential and random access, direct or through the page cache, jobs and their depth: each place of the depth is a call that waits.
//! Not modelled: mixes of reads and writes, job files, other engines than those that read and write.

use fabriscope_engine_storage::{DataRun, Direction, Sharing};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt};
use fabriscope_tool::{Point, ToolOutput, UsageError};
use fabriscope_units::Bytes;

use crate::ior;
use crate::mount::Mount;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('\0', "name", Takes::Value("name"), Meaning::Usual, "name of the job (default job)"),
    opt('\0', "rw", Takes::Value("read|write|randread|randwrite"), Meaning::Usual, "what is done (default read)"),
    opt('\0', "bs", Takes::Value("bytes"), Meaning::Usual, "bytes of a call (default 4k)"),
    opt('\0', "size", Takes::Value("bytes"), Meaning::Usual, "bytes of each job (default 1g)"),
    opt('\0', "numjobs", Takes::Value("count"), Meaning::Usual, "jobs (default 1)"),
    opt('\0', "iodepth", Takes::Value("count"), Meaning::Usual, "calls of a job outstanding, where --direct=1 (default 1)"),
    opt('\0', "direct", Takes::Value("0|1"), Meaning::Usual, "past the page cache (default 0)"),
    opt('\0', "runtime", Takes::Value("seconds"), Meaning::Usual, "end after so long"),
    opt('\0', "ioengine", Takes::Value("name"), Meaning::Harmless("--iodepth says how many calls are outstanding"), ""),
    opt('\0', "filename", Takes::Value("path"), Meaning::Harmless("each job has a file"), ""),
    opt('\0', "directory", Takes::Value("path"), Meaning::Harmless("each job has a file"), ""),
    opt('\0', "group_reporting", Takes::Nothing, Meaning::Harmless("jobs are reported together"), ""),
    opt('\0', "time_based", Takes::Nothing, Meaning::Harmless("--runtime ends a run"), ""),
    opt('h', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    let parsed = arguments::parse("fio", OPTIONS, args)?;
    parsed.no_operands("fio")?;
    let (mut name, mut kind) = ("job".to_owned(), "read".to_owned());
    let (mut call, mut size, mut jobs, mut depth, mut direct, mut runtime) = (4096, 1 << 30, 1, 1, false, 0.0);
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "name" => text.clone_into(&mut name),
            "rw" if ["read", "write", "randread", "randwrite"].contains(&text) => text.clone_into(&mut kind),
            "rw" => {
                let known = "read, write, randread, randwrite";
                return Err(UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known });
            }
            "bs" => call = ior::bytes(&given.typed, text)?,
            "size" => size = ior::bytes(&given.typed, text)?,
            "numjobs" => jobs = arguments::number(given, 1, 4096)?,
            "iodepth" => depth = arguments::number(given, 1, 4096)?,
            "direct" => direct = arguments::number(given, 0, 1)? == 1,
            "runtime" => runtime = arguments::number(given, 1, 1 << 32)? as f64,
            "help" => return Err(UsageError::Help { text: arguments::help("fio", crate::StorageTool::Fio.about(), OPTIONS, "") }),
            _ => {}
        }
    }
    let cores = u64::from(mount.system.clients.cores);
    if jobs > cores {
        let what = format!("{jobs} jobs on a client with {cores} cores");
        return Err(UsageError::Conflict { what, remedy: format!("use --numjobs of at most {cores}") });
    }
    if call > size {
        let what = format!("a call of {call} bytes in a file of {size}");
        return Err(UsageError::Conflict { what, remedy: "make --size at least --bs".to_owned() });
    }
    let streams = if direct { jobs * depth } else { jobs };
    let mut system = mount.system.clone();
    system.clients.nodes = 1;
    system.clients.per_node = u32::try_from(streams).unwrap_or(u32::MAX);
    let write = kind.ends_with("write");
    let run = DataRun {
        direction: if write { Direction::Write } else { Direction::Read },
        sharing: Sharing::Own,
        layout: mount.layout(None, None).map_err(ior::refused)?,
        transfer: Bytes(call),
        bytes: Bytes((size / (streams / jobs)).max(call)),
        random: kind.starts_with("rand"),
        direct,
        fsync: true,
    };
    let done = run.run(&system);
    let all = size as f64 * jobs as f64;
    let time = done.time_of(all);
    let (time, all) = if runtime > 0.0 && time > runtime { (runtime, done.rate() * runtime) } else { (time, all) };
    let (rate, calls) = (all / time, all / time / call as f64);
    let amount = |bytes: f64| {
        if bytes >= 1_073_741_824.0 { format!("{:.1}GiB", bytes / 1_073_741_824.0) } else { format!("{:.0}MiB", bytes / 1_048_576.0) }
    };
    let (mib, mb, ms) = (rate / 1_048_576.0, rate / 1e6, (time * 1000.0).round());
    let iops = if calls >= 10_000.0 { format!("{:.1}k", calls / 1000.0) } else { format!("{calls:.0}") };
    let word = if write { "write" } else { "read" };
    let told = format!("{mib:.0}MiB/s ({mb:.0}MB/s)");
    let text = format!(
        "{name}: (g=0): rw={kind}, bs=(R) {0}B-{0}B, (W) {0}B-{0}B, (T) {0}B-{0}B, ioengine=libaio, iodepth={depth}\nfio-3.36\nStarting {jobs} processes\n\n\
         {name}: (groupid=0, jobs={jobs}): err= 0: pid=0: {1}\n  {word}: IOPS={iops}, BW={told}({2}/{ms:.0}msec)\n    clat (usec): avg={3:.2}\n\n\
         Run status group 0 (all jobs):\n  {4:>5}: bw={told}, {mib:.0}MiB/s-{mib:.0}MiB/s ({mb:.0}MB/s-{mb:.0}MB/s), io={2} ({5:.1}GB), run={ms:.0}-{ms:.0}msec\n",
        call,
        ior::EPOCH,
        amount(all),
        streams as f64 / calls * 1e6,
        word.to_uppercase(),
        all / 1e9,
    );
    let points = vec![
        Point { size: Bytes(call), metric: "bandwidth", unit: "MiB/s", value: mib },
        Point { size: Bytes(call), metric: "operation_rate", unit: "ops/s", value: calls },
    ];
    let binds = done.usage.remark();
    Ok(ToolOutput { text, points, remarks: vec![binds], ..ToolOutput::default() })
}
