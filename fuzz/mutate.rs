//! A mutation fuzzer for the readers of files: no coverage, no special compiler, the same inputs every time.
//!
//! It takes the files of the repository, changes them at random but with a feeling for lines, keys and fields, and
//! gives them to the targets. A panic is an error: the input is written to `fuzz/artifacts/`. So is an input that
//! takes longer than `PATIENCE`. `FABRISCOPE_FUZZ_SECONDS` says how long to go on; without it a short run is a test.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program of its own, which tells what it did and how long it took")]

mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use targets::{TARGETS, Target};

/// No reader of a file of a few kilobytes may take longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Length of a run that is part of the tests.
const SHORT: Duration = Duration::from_secs(2);

fn main() {
    let seconds = std::env::var("FABRISCOPE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = seconds.map_or(SHORT, Duration::from_secs);
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed = false;
    for target in TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{} has no files to begin with", target.name);
        let (runs, found) = fuzz(target, &corpus, length / TARGETS.len() as u32);
        println!("{}: {runs} inputs from {} files{}", target.name, corpus.len(), if found.is_some() { "" } else { ", no panic" });
        if let Some(Finding { input, what }) = found {
            failed = true;
            println!("{}: {what}; the input is {}", target.name, keep(target, &input).display());
        }
    }
    if failed {
        std::process::exit(1);
    }
}

struct Finding {
    input: Vec<u8>,
    what: String,
}

/// Runs mutated inputs until the time is up or one of them fails.
fn fuzz(target: &Target, corpus: &[Vec<u8>], length: Duration) -> (u64, Option<Finding>) {
    let mut random = Random(0x5eed);
    let started = Instant::now();
    let mut runs = 0;
    while started.elapsed() < length {
        let input = if runs < corpus.len() as u64 { corpus[runs as usize].clone() } else { mutate(corpus, &mut random) };
        runs += 1;
        let begun = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default();
            return (runs, Some(Finding { input, what: format!("panic: {text}") }));
        }
        if begun.elapsed() > PATIENCE {
            return (runs, Some(Finding { input, what: format!("took {:?}", begun.elapsed()) }));
        }
    }
    (runs, None)
}

/// One to six changes of a file, each of a kind drawn at random.
fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.one_of(corpus).clone();
    for _ in 0..=random.below(5) {
        match random.below(9) {
            0 => flip(&mut bytes, random),
            1 => remove(&mut bytes, random),
            2 => insert(&mut bytes, random),
            3 => replace_token(&mut bytes, random),
            4 => lines(&mut bytes, random),
            5 => {
                let other: &Vec<u8> = random.one_of(corpus);
                splice(&mut bytes, other, random);
            }
            6 => bytes.truncate(random.below(bytes.len() + 1)),
            7 => repeat(&mut bytes, random),
            _ => replace_token(&mut bytes, random),
        }
    }
    bytes.truncate(1 << 16);
    bytes
}

/// Words that readers of numbers, units, quotes and nesting trip over.
#[rustfmt::skip]
const WORDS: [&str; 48] = [
    "0", "-1", "1", "2", "65535", "4294967296", "1099511627776", "18446744073709551615", "18446744073709551616", "-9223372036854775808",
    "1e308", "1e-400", "NaN", "inf", "-0.0", "0.000000000001", "true", "\"\"", "\"0 B\"", "\"1 TiB\"", "\"400 Gb/s\"", "\"0 b/s\"",
    "\"18446744073709551615 s\"", "\"99999999999999999999 ns\"", "\"4 KB\"", "\"1.5 m\"", "\"64/66\"", "\"1/0\"", "\"\u{fffd}µs\"", "[]",
    "[[]]", "{}", "{ value = \"1 ns\", basis = \"assumed\", source = \"x\" }", "[a]", "[[a]]", "[topology.fat_tree]", "=", ",", "\"", "'''", "\"\"\"",
    "#", "\n", "\r\n", "\t", "\0", "\u{feff}", "include = [\"x.toml\"]",
];

fn flip(bytes: &mut [u8], random: &mut Random) {
    let length = bytes.len();
    if length > 0 {
        bytes[random.below(length)] ^= 1 << random.below(8);
    }
}

fn range(length: usize, longest: usize, random: &mut Random) -> std::ops::Range<usize> {
    let start = random.below(length + 1);
    start..(start + random.below(longest)).min(length)
}

fn remove(bytes: &mut Vec<u8>, random: &mut Random) {
    let range = range(bytes.len(), 40, random);
    bytes.drain(range);
}

fn insert(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, random.one_of(&WORDS).bytes());
}

/// Puts a word in the place of what stands between two separators: a value of TOML, a field of CSV.
fn replace_token(bytes: &mut Vec<u8>, random: &mut Random) {
    let separator = |b: &u8| matches!(b, b',' | b'=' | b'\n' | b'[' | b']' | b'{' | b'}');
    let at = random.below(bytes.len() + 1);
    let start = bytes[..at].iter().rposition(separator).map_or(0, |p| p + 1);
    let end = bytes[at..].iter().position(separator).map_or(bytes.len(), |p| at + p);
    bytes.splice(start..end, random.one_of(&WORDS).bytes());
}

/// Swaps, doubles or removes whole lines.
fn lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(a, b),
        1 => lines.insert(a, lines[b].clone()),
        _ => drop(lines.remove(a)),
    }
    *bytes = lines.join(&b'\n');
}

fn splice(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let taken = other[range(other.len(), 400, random)].to_vec();
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, taken);
}

/// Repeats a short piece many times: deep nesting, long names, many fields.
fn repeat(bytes: &mut Vec<u8>, random: &mut Random) {
    let piece = bytes[range(bytes.len(), 6, random)].to_vec();
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, piece.repeat(1 << random.below(11)));
}

/// SplitMix64: a fixed sequence, so that a finding can be found again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
    fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len())]
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files to begin with, in the order of their names.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    for folder in target.folders {
        collect(&root().join(folder), target.extension, &mut paths);
    }
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, extension, paths);
        } else if path.extension().is_some_and(|e| e == extension) {
            paths.push(path);
        }
    }
}

fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let name = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let folder = root().join("fuzz/artifacts").join(target.name);
    let path = folder.join(format!("panic-{name:016x}"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    if let Err(cause) = written {
        println!("{}: cannot be written: {cause}", path.display());
    }
    path
}
