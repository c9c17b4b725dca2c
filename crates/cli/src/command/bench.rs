//! `fabriscope bench`: a tool, on a cluster, with its own options; its own bytes on standard output.

use std::path::{Path, PathBuf};

use fabriscope_report::Table;
use fabriscope_workloads::{Tool, UsageError};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::launch::{Launch, LaunchError};
use crate::output::{Output, write_file};
use crate::progress::Progress;

/// Runs a benchmark and prints what the real program would print.
///
/// The tool's own options follow its name. Both ends of the connection are simulated, so no server name is given.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    /// Cluster to run on: a name of `fabriscope clusters` or a TOML file; `:N` takes N nodes of it
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tell on standard error what runs where
    #[arg(long)]
    verbose: bool,
    /// Print help: of the tool, where one is named
    #[arg(long, short)]
    help: bool,
    /// The tool
    tool: Option<String>,
    /// The tool's own options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope bench                                    the tools
  fabriscope bench ib_write_bw --on ri2 -a            all sizes, as perftest prints them
  fabriscope bench ib_send_lat --on ri2 -s 64 -I 0    without inline data
  fabriscope bench osu_bibw --on betzy-hdr -m 1:4194304
  fabriscope bench osu_latency --on my-cluster.toml:4
  fabriscope bench ib_read_lat --help                 the options of a tool";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let Some(name) = &args.tool else {
        let text = if args.help { long_help() } else { tools() };
        output.text(&text)?;
        return Ok(Verdict::Good);
    };
    let tool = Tool::by_name(name).map_err(|e| Failure::told(e.to_string(), "`fabriscope bench` lists the tools"))?;
    let (ours, mut options) = ours_and_theirs(&args.options);
    if args.help {
        options.push("--help".to_owned());
    }
    let wants_help = options.iter().any(|o| o == "--help" || o == "-h");
    let on = match ours.or_else(|| args.on.clone()) {
        Some(on) => on,
        // The help of a tool does not depend on the machine.
        None if wants_help => "ri2".to_owned(),
        None => {
            return Err(Failure::told(
                "no cluster is named",
                format!("say where: fabriscope bench {name} --on ri2; `fabriscope clusters` lists them"),
            ));
        }
    };
    let parts = context.cluster(&on)?;
    if args.verbose && !wants_help {
        tell(&format!("# {} on {}: {}; MTU {}, {}\n", tool.name(), parts.name, parts.title, parts.mtu, parts.software.title));
    }
    let spinner = Progress::spinner("running");
    let launch = Launch { tool, options: &options, parts: &parts, nodes: parts.placement, seed: context.seed(), traced: false };
    let result = launch.run();
    drop(spinner);
    let (result, _) = match result {
        Err(LaunchError::Usage(UsageError::Help { text })) => {
            output.text(&text)?;
            return Ok(Verdict::Good);
        }
        other => other.map_err(Failure::of)?,
    };
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    output.text(&result.text)?;
    for file in &result.files {
        write_file(Path::new(&file.name), &file.text)?;
    }
    Ok(Verdict::Good)
}

/// `--on` may also stand behind options of the tool; no tool has an option of that name.
fn ours_and_theirs(words: &[String]) -> (Option<String>, Vec<String>) {
    let (mut ours, mut theirs) = (None, Vec::new());
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix("--on") {
            Some("") => ours = rest.next().cloned(),
            Some(joined) if joined.starts_with('=') => ours = Some(joined[1..].to_owned()),
            _ => theirs.push(word.clone()),
        }
    }
    (ours, theirs)
}

fn tools() -> String {
    let mut table = Table::new(["tool", "measures"]).words(1);
    for tool in Tool::all() {
        table.push([tool.name().to_owned(), tool.about().to_owned()]);
    }
    format!("{table}\n# fabriscope bench TOOL --on CLUSTER runs one; fabriscope clusters lists the clusters\n")
}

fn long_help() -> String {
    use clap::CommandFactory;
    let mut command = crate::arguments::Arguments::command();
    command.build();
    match command.find_subcommand_mut("bench") {
        Some(bench) => format!("{}", bench.render_long_help()),
        None => String::new(),
    }
}

fn tell(text: &str) {
    use std::io::Write;
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_may_stand_behind_the_tools_options() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(ours_and_theirs(&words("-a --on ri2 -s 64")), (Some("ri2".to_owned()), words("-a -s 64")));
        assert_eq!(ours_and_theirs(&words("-a --on=ri2:4 --only")), (Some("ri2:4".to_owned()), words("-a --only")));
    }
}
