//! `fabriscope man`: manual pages, made of the help pages.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::error::{Failure, Verdict};
use crate::output::{Output, write_file};

/// Prints the manual page of the program or of a command, or writes all of them to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A command; the program as a whole where none is named
    command: Option<String>,
    /// Write the pages of the program and of all its commands to this folder, as man looks for them
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope man bench > my-bench.1
  fabriscope man -o ~/.local/share/man/man1    then: man fabriscope-bench";

/// Runs the command.
pub fn run(args: &Args, output: &mut Output) -> Result<Verdict, Failure> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder)
            .map_err(|cause| Failure::told(format!("{}: {cause}", folder.display()), "name a folder that you may write to"))?;
        let mut count = 0;
        for command in std::iter::once(&program).chain(program.get_subcommands().filter(|command| !command.is_hide_set())) {
            let name = page_name(command);
            write_file(&folder.join(format!("{name}.1")), &page(command)?)?;
            count += 1;
        }
        output.text(&format!("{count} pages in {}\n", folder.display()))?;
        return Ok(Verdict::Good);
    }
    let command = match &args.command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
            Failure::told(format!("there is no command `{name}`"), format!("the commands are {}", known.join(", ")))
        })?,
    };
    output.text(&page(command)?)?;
    Ok(Verdict::Good)
}

/// `fabriscope`, or `fabriscope-bench`.
fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// The page, as roff.
fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let page =
        Man::new(command.clone()).title(page_name(command)).manual("Fabriscope").source(concat!("Fabriscope ", env!("CARGO_PKG_VERSION")));
    page.render(&mut bytes).map_err(|cause| Failure::told(format!("a manual page: {cause}"), "read --help"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
