//! Damaged copies of every sample, cut at every place and with bytes changed, give a trace or an error that says where; none panics.

use std::path::Path;

use fabriscope_traces::{LowerOptions, Part, Trace, TraceError, Unlowered, lower, read_parts};
use miette::Diagnostic;

use crate::samples;

/// Files up to this size are cut at every byte (bytes). Basis: what a test can do in some seconds.
const SMALL: usize = 4096;

/// Numbers without a pattern, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // A multiplier of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

fn try_read(name: &str, bytes: Vec<u8>) -> Result<Vec<Trace>, TraceError> {
    let read = read_parts(vec![Part::new(name, bytes)]);
    match &read {
        Ok(traces) => {
            for trace in traces {
                assert_eq!(trace.reading.records, trace.reading.used + trace.reading.left_out_in_all(), "{name}");
                // What was read can be checked and lowered, or is refused: it does not panic either.
                let _ = trace.check();
                if trace.ranks.len() < 64 && trace.world < 1 << 16 {
                    let _ = lower(trace, &LowerOptions::default(), &mut Unlowered);
                    let _ = trace.spread(16);
                }
            }
        }
        Err(error) => {
            assert!(error.help().is_some(), "{name}: {error}");
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
    read
}

/// The files to damage: those of the samples, and what is compressed in them.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for path in samples::all().into_iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(&path).unwrap();
        found.push((samples::name(&path), bytes));
    }
    found
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut content).unwrap();
    content
}

/// How many copies of a file of this size are tried.
fn tries(size: usize) -> usize {
    match size {
        0..=SMALL => 400,
        4097..200_000 => 150,
        200_000..4_000_000 => 12,
        _ => 3,
    }
}

fn damage(name: &str, bytes: &[u8]) {
    let mut numbers = Numbers(bytes.len() as u64 ^ 0x7ace);
    if bytes.len() <= SMALL {
        for end in 0..bytes.len() {
            let _ = try_read(name, bytes[..end].to_vec());
        }
    }
    for _ in 0..tries(bytes.len()) {
        let _ = try_read(name, bytes[..numbers.below(bytes.len())].to_vec());
        let mut copy = bytes.to_vec();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(copy.len());
            copy[at] = match numbers.below(4) {
                0 => copy[at] ^ 1 << numbers.below(8),
                1 => 0xff,
                2 => b'9',
                _ => numbers.below(256) as u8,
            };
        }
        let _ = try_read(name, copy);
    }
}

#[test]
fn copies_that_are_cut_or_changed_never_panic() {
    std::thread::scope(|scope| {
        for chunk in files().chunks(8).map(<[_]>::to_vec) {
            scope.spawn(move || {
                for (name, bytes) in chunk {
                    damage(&name, &bytes);
                    if bytes.starts_with(&[0x1f, 0x8b]) {
                        let inner = unpacked(&bytes);
                        damage(name.trim_end_matches(".gz"), &inner);
                    }
                }
            });
        }
    });
}

#[test]
fn a_cut_copy_of_each_sample_gives_a_clear_error() {
    let mut table = String::new();
    for (name, bytes) in files() {
        // What stands after the calls is not needed to read them; text that ends after a row is a shorter file.
        let cut = bytes.len() * 2 / 5 + 1;
        let read = try_read(&name, bytes[..cut].to_vec());
        let short = Path::new(&name).file_name().unwrap().to_string_lossy().into_owned();
        match read {
            Ok(traces) => table += &format!("{short}: read, {} records\n", traces.iter().map(|trace| trace.reading.records).sum::<u64>()),
            Err(error) => table += &format!("{}; {}\n", error.to_string().replace(&name, &short), error.help().unwrap()),
        }
    }
    samples::pinned("damaged.txt", &table);
}
