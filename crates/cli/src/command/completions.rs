//! `fabriscope completions`: what a shell needs to complete commands and options.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Prints the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope completions bash > ~/.local/share/bash-completion/completions/fabriscope
  fabriscope completions fish > ~/.config/fish/completions/fabriscope.fish
  source <(fabriscope completions zsh)";

/// Runs the command.
pub fn run(args: &Args, output: &mut Output) -> Result<Verdict, Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "fabriscope", &mut bytes);
    output.text(&String::from_utf8_lossy(&bytes))?;
    Ok(Verdict::Good)
}
