//! The command line as a library: what the program `fabriscope` does, for the program itself and for the console script of the Python package.
//!
//! [`main`] is the program. [`outcome`] runs the same command line and gives its result as data, without printing.
//!
//! Exit status: 0 done, 1 a check failed, 2 the input was wrong, 130 an interrupt ended a benchmark; of `exec` that of the programs it ran.

mod arguments;
mod command;
mod context;
mod counting;
mod devices;
mod energy;
mod error;
mod memory;
mod node;
mod output;
mod progress;
mod records;
mod rows;
mod storage;
mod tap;
mod timeline;
mod words;

use std::ffi::OsString;
use std::sync::Arc;

use clap::Parser;
use fabriscope_catalog::Catalog;
use fabriscope_report::Outcome;
use miette::Report;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Failure;
use crate::output::Output;

/// Runs a command line, the name of the program first; gives the exit status.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    main_as(Vec::new(), words)
}

/// The same for a program that is started by these words: an interpreter and what it runs. A server starts itself so again.
pub fn main_as(program: Vec<OsString>, words: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match parsed(words) {
        Ok(arguments) => arguments,
        Err(refused) => {
            // Help goes to standard output, a refusal to standard error; where that is closed there is nobody to tell.
            drop(refused.print());
            return u8::try_from(refused.exit_code()).unwrap_or(WRONG_INPUT);
        }
    };
    arguments.color.apply();
    let mut output = Output::stdout();
    let context = Context::new(&arguments, program);
    let done = command::run(&arguments, &context, &mut output).and_then(|verdict| output.finish().map(|()| verdict));
    match done {
        Ok(verdict) => output.status().unwrap_or(error::exit_status(verdict)),
        Err(failure) => {
            error::print(&failure.into_report());
            WRONG_INPUT
        }
    }
}

/// What a command line finds on a catalogue of the caller, as data; nothing is printed to standard output. A command that prints a file for
/// another program (`schema`, `completions`) has no outcome: its text is one.
///
/// # Errors
/// What the program would tell before it ends with exit status 2.
pub fn outcome(words: impl IntoIterator<Item = OsString>, catalog: Arc<Catalog>) -> Result<Outcome, Report> {
    let arguments = parsed(words).map_err(|refused| {
        let text = refused.to_string();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let help = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        Failure::told(first.trim_start_matches("error: "), help).into_report()
    })?;
    let mut output = Output::kept();
    command::run(&arguments, &Context::on(&arguments, catalog), &mut output).and_then(|_| output.finish()).map_err(Failure::into_report)?;
    Ok(output.into_outcome())
}

fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(command::bench::marked(words.into_iter().collect()))
}

/// Exit status where the input was wrong.
const WRONG_INPUT: u8 = 2;
