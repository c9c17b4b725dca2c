//! `fabriscope`: the command line. Parsing, dispatch and exit status; everything else has its own file.
//!
//! Exit status: 0 done, 1 a check failed, 2 the input was wrong, 130 an interrupt ended a benchmark.

mod arguments;
mod command;
mod context;
mod counting;
mod devices;
mod error;
mod memory;
mod node;
mod output;
mod progress;
mod records;
mod rows;
mod tap;
mod timeline;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(command::bench::marked(std::env::args_os().collect()));
    arguments.color.apply();
    let mut output = Output::stdout();
    let done = command::run(&arguments, &mut output).and_then(|verdict| output.finish().map(|()| verdict));
    match done {
        Ok(verdict) => error::exit_code(verdict),
        Err(failure) => {
            error::print(&failure.into_report());
            ExitCode::from(2)
        }
    }
}
