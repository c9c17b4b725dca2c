//! `fabriscope`: the command line. Parsing, dispatch and exit status; everything else has its own file.
//!
//! Exit status: 0 done, 1 a check failed, 2 the input was wrong.

mod arguments;
mod breakage;
mod busy;
mod chain;
mod change;
mod collective;
mod command;
mod context;
mod counting;
mod devices;
mod error;
mod inside;
mod launch;
mod memory;
mod node;
mod output;
mod prediction;
mod progress;
mod published;
mod sweep;
mod tap;
mod traffic;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.color.apply();
    let mut output = Output::stdout();
    let done = command::run(&arguments, &mut output).and_then(|verdict| output.finish().map(|()| verdict));
    match done {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            error::print(&failure.into_report());
            ExitCode::from(2)
        }
    }
}
