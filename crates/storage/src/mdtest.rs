//! `mdtest`: names made, looked at, read and removed.
//!
//! Source: the options and the output of mdtest 4.0.
//! Modelled: a directory for each task (`-u`) or one for all, on the MDTs that the release gives them, files with data, each phase by
//! itself; directories cost what files without objects do. Not modelled: trees of more than one level, phases that find what the same node still knows.

use fabriscope_engine_storage::{MetadataOutcome, MetadataRun, Operation};
use fabriscope_tool::arguments::{self, Meaning, Opt, Takes, opt};
use fabriscope_tool::{Point, ToolOutput, UsageError};
use fabriscope_units::Bytes;

use crate::counters::Counted;
use crate::directories;
use crate::ior;
use crate::mount::Mount;

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('n', "items", Takes::Value("count"), Meaning::Usual, "names of each task (default 100)"),
    opt('u', "unique", Takes::Nothing, Meaning::Usual, "a directory for each task"),
    opt('w', "write-bytes", Takes::Value("bytes"), Meaning::Usual, "bytes written to each file (default 0)"),
    opt('e', "read-bytes", Takes::Value("bytes"), Meaning::Usual, "bytes read from each file (default 0)"),
    opt('\0', "mdt-count", Takes::Value("count"), Meaning::Usual, directories::HELP),
    opt('i', "iterations", Takes::Value("count"), Meaning::Usual, "iterations (default 1)"),
    opt('C', "create-only", Takes::Nothing, Meaning::Usual, "only make names"),
    opt('T', "stat-only", Takes::Nothing, Meaning::Usual, "only look at them"),
    opt('E', "read-only", Takes::Nothing, Meaning::Usual, "only read them"),
    opt('r', "remove-only", Takes::Nothing, Meaning::Usual, "only remove them"),
    opt('F', "files-only", Takes::Nothing, Meaning::Harmless("directories are shown beside files"), ""),
    opt('L', "leaf-only", Takes::Nothing, Meaning::Harmless("trees have one level"), ""),
    opt('P', "print-rate-and-time", Takes::Nothing, Meaning::Harmless("rates are printed"), ""),
    opt('N', "stride", Takes::Value("tasks"), Meaning::Harmless("no task finds what its node still knows"), ""),
    opt('d', "directory", Takes::Value("path"), Meaning::Harmless("names have no place in a simulation"), ""),
    opt('h', "help", Takes::Nothing, Meaning::Usual, "show this page"),
];

/// Runs it.
pub(crate) fn run(args: &[String], mount: &Mount) -> Result<ToolOutput, UsageError> {
    done(args, mount).map(|(output, _)| output)
}

/// The same with what Lustre counted.
pub(crate) fn run_counted(args: &[String], mount: &Mount) -> Result<(ToolOutput, String), UsageError> {
    done(args, mount).map(|(output, counted)| (output, counted.text(mount)))
}

fn done(args: &[String], mount: &Mount) -> Result<(ToolOutput, Counted), UsageError> {
    let parsed = arguments::parse("mdtest", OPTIONS, args)?;
    parsed.no_operands("mdtest")?;
    let (mut names, mut shared, mut written, mut read, mut iterations, mut mdts) = (100, true, 0, 0, 1, None);
    let mut only = Vec::new();
    for given in &parsed.options {
        let text = given.value.as_deref().unwrap_or_default();
        match given.name {
            "items" => names = arguments::number(given, 1, 1 << 40)?,
            "unique" => shared = false,
            "write-bytes" => written = ior::bytes(&given.typed, text)?,
            "read-bytes" => read = ior::bytes(&given.typed, text)?,
            "mdt-count" => mdts = Some(directories::count(&given.typed, text, &mount.system)?),
            "iterations" => iterations = arguments::number(given, 1, 1000)?,
            "create-only" => only.push(Operation::Create),
            "stat-only" => only.push(Operation::Stat),
            "read-only" => only.push(Operation::Read),
            "remove-only" => only.push(Operation::Remove),
            "help" => {
                return Err(UsageError::Help { text: arguments::help("mdtest", crate::StorageTool::Mdtest.about(), OPTIONS, "") });
            }
            _ => {}
        }
    }
    let depth = if shared { directories::SHARED } else { directories::OF_TASKS };
    let mdts = mdts.unwrap_or_else(|| directories::mdts(&mount.system, shared, depth));
    let asked = |operation: Operation| only.is_empty() || only.contains(&operation);
    let tasks = u64::from(mount.system.processes());
    let mut text = format!(
        "-- started at {} --\n\nmdtest-4.0.0 was launched with {tasks} total task(s) on {} node(s)\nCommand line used: mdtest {}\n\n\
         {tasks} tasks, {} files/directories\n\nSUMMARY rate: (of {iterations} iterations)\n   {:<25} {:>14} {:>14} {:>14} {:>14}\n   {:<25} {:>14} {:>14} {:>14} {:>14}\n",
        ior::EPOCH,
        mount.system.clients.nodes,
        args.join(" "),
        tasks.saturating_mul(names),
        "Operation",
        "Max",
        "Min",
        "Mean",
        "Std Dev",
        "---------",
        "---",
        "---",
        "----",
        "-------"
    );
    let (mut output, mut counted) = (ToolOutput::default(), Counted::default());
    for (kind, metric, operation, bytes) in [
        ("File creation", "create_rate", Operation::Create, written),
        ("File stat", "stat_rate", Operation::Stat, 0),
        ("File read", "read_rate", Operation::Read, read),
        ("File removal", "remove_rate", Operation::Remove, 0),
    ] {
        let rate = if asked(operation) {
            let done: MetadataOutcome = MetadataRun { operation, shared, mdts, bytes: Bytes(bytes), names }.run(&mount.system);
            counted.add_names(&done.requests);
            counted.time += done.time.as_s_f64();
            let binds = done.usage.remark();
            output.remarks.push(format!("{kind}: {binds}; {:.3} ms each", done.each.as_us_f64() / 1000.0));
            output.points.push(Point { size: Bytes(bytes), metric, unit: "ops/s", value: done.rate() });
            done.rate()
        } else {
            0.0
        };
        text += &format!("   {kind:<26}:{rate:>15.3} {rate:>14.3} {rate:>14.3} {:>14.3}\n", 0.0);
    }
    output.text = text + &format!("-- finished at {} --\n", ior::EPOCH);
    Ok((output, counted))
}
