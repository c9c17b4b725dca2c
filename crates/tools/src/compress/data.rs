//! The data of a run: the bytes of a file, cut into operations, and what each of them is when it is compressed.
//!
//! Source: DPDK, app/test-compress-perf, comp_perf_test_common.c (a file is repeated up to the size that is asked for, and cut into
//! segments; an operation has so many of them); RFC 1951.
//! Modelled: each operation is compressed indeed (DEFLATE, dynamic codes, a window of 32 KiB), and its size is that of the result.
//! Not modelled: what an engine finds of matches beside what level 6 finds: BlueField-2 made 86,145,786 B of 100,000,000 of which zlib made
//! 85,890,168 B (docs/models/dpu-pipelines.md).

use std::io::Write;

use fabriscope_units::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::engine::Job;

/// The operations that compress `data`, repeated up to `size` bytes, `each` bytes by operation.
pub(super) fn jobs(data: &[u8], size: u64, each: u64, level: u32) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut piece = Vec::new();
    let mut begin = 0;
    while begin < size {
        let end = (begin + each).min(size);
        piece.clear();
        while begin < end {
            let from = (begin % data.len() as u64) as usize;
            let take = (data.len() - from).min((end - begin) as usize);
            piece.extend_from_slice(&data[from..from + take]);
            begin += take as u64;
        }
        jobs.push(Job { source: Bytes(piece.len() as u64), result: Bytes(deflated(&piece, level)) });
    }
    jobs
}

/// Bytes that DEFLATE makes of these.
fn deflated(piece: &[u8], level: u32) -> u64 {
    let mut counter = DeflateEncoder::new(Counter(0), Compression::new(level));
    // Counting cannot fail.
    let written = counter.write_all(piece).and_then(|()| counter.finish());
    written.map_or(piece.len() as u64, |counter| counter.0)
}

struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_repeat_and_are_cut() {
        let jobs = jobs(b"abcdefghij", 25, 8, 6);
        assert_eq!(jobs.iter().map(|job| job.source.0).collect::<Vec<_>>(), [8, 8, 8, 1]);
        // A thousand bytes alike are a few.
        let alike = super::jobs(&[7; 1000], 1000, 1000, 6);
        assert!(alike[0].result.0 < 20, "{alike:?}");
    }
}
