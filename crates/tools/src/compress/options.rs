//! The command line of `dpdk-test-compress-perf`.
//!
//! Source: DPDK, doc/guides/tools/comp_perf.rst (options and what they are without being given).

use fabriscope_platform::{CompressionTarget, EngineUser};
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Parsed, Takes, opt, value};

use super::data;
use super::engine::Job;

pub(super) const OPTIONS: &[Opt] = &[
    value('l', "lcores", "list", "cores; the first starts the others, each of which posts to a queue of its own (default 0,1)"),
    value('\0', "ptest", "throughput/verify", "what is measured: operations from begin to end (default), or sizes alone"),
    value('\0', "driver-name", "name", "driver: that of the engine (default), or compress_zlib, by which cores compress themselves"),
    value('\0', "input-file", "file", "what is compressed"),
    value('\0', "extended-input-sz", "bytes", "the file is repeated up to this size (default: not)"),
    value('\0', "seg-sz", "bytes", "a segment of data (default 2048)"),
    value('\0', "burst-sz", "count", "operations posted at once (default 32)"),
    value('\0', "max-num-sgl-segs", "count", "segments of an operation, where the driver takes several (default 16)"),
    value('\0', "num-iter", "count", "iterations over the data, each as long as the others (default 10000)"),
    value('\0', "operation", "kind", "comp, decomp or comp_and_decomp (default)"),
    value('\0', "huffman-enc", "kind", "dynamic (default)"),
    value('\0', "compress-level", "levels", "one, a list 1,6,9 or a range 1:1:9 (default); an engine has one level"),
    value('\0', "window-sz", "log2", "window of matches: 15, which is 32 KiB"),
    opt('\0', "pool-sz", Takes::Value("count"), Harmless("buffers are always there"), "operations in the pool"),
    opt('\0', "external-mbufs", Takes::Nothing, Harmless("where buffers come from takes no time"), "buffers outside of the pool"),
    opt('\0', "cc-delay-us", Takes::Value("us"), Refused("cycles of a call are not measured apart: use --ptest throughput"), ""),
    opt('a', "allow", Takes::Value("pci"), Harmless("the first adapter is taken"), "adapter"),
    value('\0', "at", "dpu/host", "where the program and its data are (not of the real tool; default dpu)"),
    opt('h', "help", Takes::Nothing, Usual, "this help"),
];

/// Who compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    Engine,
    Zlib,
}

/// What the command line asks for.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub driver: Driver,
    /// Numbers of the cores that post.
    pub cores: Vec<u32>,
    pub verify: bool,
    pub data: Vec<u8>,
    pub size: u64,
    pub segment: u64,
    pub segments: u64,
    pub burst: u64,
    pub iterations: u64,
    pub compresses: bool,
    pub decompresses: bool,
    pub levels: Vec<u32>,
    pub on_host: bool,
}

impl Settings {
    pub(super) fn read(parsed: &Parsed, target: &CompressionTarget) -> Result<Settings, UsageError> {
        let mut s = Settings {
            driver: Driver::Engine,
            cores: vec![1],
            verify: false,
            data: Vec::new(),
            size: 0,
            segment: 2048,
            segments: 16,
            burst: 32,
            iterations: 10_000,
            compresses: true,
            decompresses: true,
            levels: (1..=9).collect(),
            on_host: false,
        };
        let (mut file, mut extended) = (None, None);
        for given in &parsed.options {
            let word = given.value.as_deref().unwrap_or_default();
            match given.name {
                "lcores" => s.cores = cores(given)?,
                "ptest" => s.verify = one_of(given, "throughput, verify", &["throughput", "verify"])? == "verify",
                "driver-name" if word == ZLIB => s.driver = Driver::Zlib,
                "driver-name" if word == target.driver => s.driver = Driver::Engine,
                "driver-name" => {
                    let what = format!("--driver-name {word}: nothing here has that driver");
                    return Err(conflict(what, &format!("use {} or {ZLIB}", target.driver)));
                }
                "input-file" => file = Some(word.to_owned()),
                "extended-input-sz" => extended = Some(arguments::number(given, 1, MOST_DATA)?),
                "seg-sz" => s.segment = arguments::number(given, 8, MOST_SEGMENT)?,
                "burst-sz" => s.burst = arguments::number(given, 1, 512)?,
                "max-num-sgl-segs" => s.segments = arguments::number(given, 1, 256)?,
                "num-iter" => s.iterations = arguments::number(given, 1, 1_000_000)?,
                "operation" => {
                    let kind = one_of(given, "comp, decomp, comp_and_decomp", &["comp", "decomp", "comp_and_decomp"])?;
                    (s.compresses, s.decompresses) = (kind != "decomp", kind != "comp");
                }
                "huffman-enc" if word != "dynamic" => {
                    let what = format!("--huffman-enc {word}: sizes are those of dynamic codes");
                    return Err(conflict(what, "leave it out, or use dynamic"));
                }
                "compress-level" => s.levels = levels(given)?,
                "window-sz" => _ = arguments::number(given, 15, 15)?,
                "at" => s.on_host = one_of(given, "dpu, host", &["dpu", "host"])? == "host",
                _ => {}
            }
        }
        s.take_data(file, extended)?;
        s.check(target)?;
        Ok(s)
    }

    fn take_data(&mut self, file: Option<String>, extended: Option<u64>) -> Result<(), UsageError> {
        let Some(file) = file else {
            return Err(conflict("nothing to compress".to_owned(), "name a file: --input-file FILE"));
        };
        let unreadable = |error: std::io::Error| conflict(format!("--input-file {file}: {error}"), "name a file that can be read");
        let found = std::fs::metadata(&file).map_err(unreadable)?;
        if !found.is_file() || found.len() == 0 || found.len() > MOST_DATA {
            let what = format!("--input-file {file}: no file of 1 B to 1 GiB");
            return Err(conflict(what, "name a file with data"));
        }
        self.data = std::fs::read(&file).map_err(unreadable)?;
        self.size = extended.unwrap_or_default().max(self.data.len() as u64);
        Ok(())
    }

    /// What the engine, or the cores, cannot do.
    fn check(&mut self, target: &CompressionTarget) -> Result<(), UsageError> {
        let (user, adapter) = (self.user(target), &target.adapter);
        let last = self.cores.iter().max().copied().unwrap_or_default();
        if last >= user.cores {
            return Err(conflict(format!("-l: there is no core {last} here"), &format!("use 0 to {}", user.cores - 1)));
        }
        if self.driver == Driver::Zlib {
            if user.deflate.is_none() {
                let what = format!("--driver-name {ZLIB}: what a core of {} compresses is not known", user.title);
                return Err(conflict(what, "use the engine, or add `deflate` to its part"));
            }
            if self.decompresses {
                let what = format!("--driver-name {ZLIB}: what cores decompress is not known");
                return Err(conflict(what, "use --operation comp"));
            }
            if self.levels != [LEVEL] {
                let what = format!("--driver-name {ZLIB}: what cores compress is known of level {LEVEL} alone");
                return Err(conflict(what, "use --compress-level 6"));
            }
            return Ok(());
        }
        for (wanted, rate, kind, other) in
            [(self.compresses, target.compress, "compress", "decomp"), (self.decompresses, target.decompress, "decompress", "comp")]
        {
            if wanted && rate.is_none() {
                let what = format!("the engine of {adapter} does not {kind}");
                return Err(conflict(what, &format!("use --operation {other}, or {ZLIB}")));
            }
        }
        if !target.scatter_gather {
            self.segments = 1;
        }
        Ok(())
    }

    /// Whose cores and memory it is.
    pub(super) fn user<'t>(&self, target: &'t CompressionTarget) -> &'t EngineUser {
        if self.on_host { &target.host } else { &target.dpu }
    }
    /// The operations that compress the data.
    pub(super) fn jobs(&self) -> Vec<Job> {
        data::jobs(&self.data, self.size, self.segment * self.segments, LEVEL)
    }
}

/// `-l 0-3`, `-l 0,2`: the first starts the others.
fn cores(given: &Given) -> Result<Vec<u32>, UsageError> {
    let word = given.value.as_deref().unwrap_or_default();
    let wrong = || conflict(format!("-l {word} is no list of cores"), "write 0,1 or 0-4");
    let mut found = Vec::new();
    for part in word.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
        if from > to || to > MOST_CORE {
            return Err(wrong());
        }
        found.extend(from..=to);
    }
    found.sort_unstable();
    found.dedup();
    if found.len() < 2 {
        return Err(conflict(format!("-l {word}: one core starts the others"), "name two cores or more"));
    }
    found.remove(0);
    Ok(found)
}

/// `6`, `1,6,9` or `1:1:9`: from, step, to.
fn levels(given: &Given) -> Result<Vec<u32>, UsageError> {
    let word = given.value.as_deref().unwrap_or_default();
    let wrong = || conflict(format!("--compress-level {word} is no list of levels"), "write 6, 1,6,9 or 1:1:9, of 1 to 9");
    let number = |text: &str| text.parse().ok().filter(|level| (1..=9).contains(level)).ok_or_else(wrong);
    match *word.split(':').collect::<Vec<_>>() {
        [from, step, to] => Ok((number(from)?..=number(to)?).step_by(number(step)? as usize).collect()),
        [list] => list.split(',').map(number).collect(),
        _ => Err(wrong()),
    }
}

fn one_of(given: &Given, known: &'static str, words: &[&'static str]) -> Result<&'static str, UsageError> {
    let word = given.value.as_deref().unwrap_or_default();
    let unknown = || UsageError::NotOneOf { option: given.typed.clone(), value: word.to_owned(), known };
    words.iter().find(|known| **known == word).copied().ok_or_else(unknown)
}

fn conflict(what: String, remedy: &str) -> UsageError {
    UsageError::Conflict { what, remedy: remedy.to_owned() }
}

/// The driver by which cores compress themselves.
const ZLIB: &str = "compress_zlib";
/// The level whose sizes are those of engines. Basis: BlueField-2 comes within 0.3 % of it.
const LEVEL: u32 = 6;
/// The most that a segment holds (basis: DPDK, 65535 B less what precedes data).
const MOST_SEGMENT: u64 = 65_407;
/// The most data. Basis: ours, what a run compresses in about a minute.
const MOST_DATA: u64 = 1 << 30;
/// Cores of a list have numbers below this. Basis: ours.
const MOST_CORE: u32 = 4095;
