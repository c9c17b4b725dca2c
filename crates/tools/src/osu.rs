//! What the OSU Micro-Benchmarks of all families share: the options that each of them has.
//!
//! Source: OMB 7.4 (docs/formats.md), `osu_util_options.c`. A family's table is these rows and its own.

use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Meaning::{Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};

/// `-m`.
pub(crate) const fn message_size(help: &'static str) -> Opt {
    opt('m', "message-size", Takes::Value("[min:]max"), Usual, help)
}
/// `-i`; the help says how many there are by default.
pub(crate) const fn iterations(help: &'static str) -> Opt {
    opt('i', "iterations", Takes::Value("count"), Usual, help)
}
/// `-x`.
pub(crate) const fn warm_up(help: &'static str) -> Opt {
    opt('x', "warmup", Takes::Value("count"), Usual, help)
}
/// `-f`.
pub(crate) const fn full(help: &'static str) -> Opt {
    opt('f', "full", Takes::Nothing, Usual, help)
}
/// `-W`.
pub(crate) const fn window(help: &'static str) -> Opt {
    opt('W', "window-size", Takes::Value("messages"), Usual, help)
}
/// `-p`.
pub(crate) const fn pairs(help: &'static str) -> Opt {
    opt('p', "pairs", Takes::Value("pairs"), Usual, help)
}
/// `-M`, which no simulated program needs.
pub(crate) const fn no_memory_limit(reason: &'static str) -> Opt {
    opt('M', "mem-limit", Takes::Value("bytes"), Refused(reason), "")
}
/// `-h`.
pub(crate) const HELP: Opt = opt('h', "help", Takes::Nothing, Usual, "show this page");
/// `-v`.
pub(crate) const VERSION: Opt = opt('v', "version", Takes::Nothing, Usual, "print the version whose output this follows");
/// `-z` of families whose iterations hardly differ.
pub(crate) const NO_TAILS: Opt = opt('z', "tail-lat", Takes::Optional("p1,p2,…"), Refused("iterations hardly differ; leave -z out"), "");

/// How often an operation is carried out, as far as the command line says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Repeats {
    /// With `-i`.
    pub iterations: Option<u32>,
    /// With `-x`.
    pub warm_up: Option<u32>,
}

impl Repeats {
    /// Takes `-i` or `-x` of at most `most`.
    ///
    /// # Errors
    /// No number, or one out of range.
    pub fn take(&mut self, given: &Given, most: u64) -> Result<(), UsageError> {
        match given.name {
            "iterations" => self.iterations = Some(arguments::number(given, 1, most)? as u32),
            _ => self.warm_up = Some(arguments::number(given, 0, most)? as u32),
        }
        Ok(())
    }
}

/// `max`, `min:max` or `min:`; the steps double from `min`.
pub(crate) fn size_range(given: &Given, smallest: u32, largest: u32) -> Result<Vec<u32>, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let part = |text: &str| arguments::size(&given.typed, text, u64::from(smallest), MOST_BYTES).map(|size| size as u32);
    let (min, max) = match text.split_once(':') {
        None => (smallest, part(text)?),
        Some((min, "")) => (part(min)?, largest),
        Some((min, max)) => (part(min)?, part(max)?),
    };
    if min > max {
        let what = format!("{} {text}: the smallest message is larger than the largest", given.typed);
        return Err(UsageError::Conflict { what, remedy: format!("give {max}:{min}") });
    }
    let mut steps = Vec::new();
    let mut size = u64::from(min);
    while size <= u64::from(max) {
        steps.push(size as u32);
        size = (size * 2).max(1);
    }
    Ok(steps)
}

/// Largest message that can be asked for, in bytes (basis: the longest RDMA message).
const MOST_BYTES: u64 = 1 << 30;
