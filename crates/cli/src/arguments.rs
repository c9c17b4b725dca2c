//! The command line: global options and the list of commands.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{Parser, ValueEnum};
use fabriscope_units::{Remedy, UnitError};

use crate::command::Command;

/// Runs the programs that people judge a network by, on networks they do not have.
#[derive(Debug, Parser)]
#[command(name = "fabriscope", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    /// Parts and clusters in this folder override the built-in catalogue.
    #[arg(long, global = true, value_name = "DIR")]
    pub catalog: Option<PathBuf>,
    /// Seed of everything random in a run; 1, or what a lab says.
    #[arg(long, global = true, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Colour in messages.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A quantity with its unit; an error is told in full, as clap has no place for a remedy.
pub fn quantity<Q: FromStr<Err = UnitError>>(text: &str) -> Result<Q, String> {
    text.parse().map_err(|error: UnitError| error.in_full())
}

const EXAMPLES: &str = "\
Examples:
  fabriscope demo                                    the tutorial exercise, beside the published figures
  fabriscope bench osu_bibw --on ri2                 what a benchmark prints on two nodes of RI2
  fabriscope bench ib_write_lat --on ri2 -s 64 -I 0  the tool's own options follow
  fabriscope explain ib_write_lat --on ri2 -s 64     where every nanosecond went
  fabriscope validate                                every published table, with the errors
  fabriscope clusters                                what can follow --on";

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The choice of this process: 0 auto, 1 always, 2 never.
static CHOICE: AtomicU8 = AtomicU8::new(0);

impl Color {
    /// Makes this the choice for everything that is printed from now on.
    pub fn apply(self) {
        CHOICE.store(self as u8, Ordering::Relaxed);
    }
    /// Whether messages on standard error are coloured.
    #[expect(clippy::disallowed_methods, reason = "NO_COLOR is for programs on terminals")]
    pub fn stderr() -> bool {
        match CHOICE.load(Ordering::Relaxed) {
            0 => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            1 => true,
            _ => false,
        }
    }
}
