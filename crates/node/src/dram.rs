//! The memory of a node, whose bandwidth its cores share.
//!
//! Source: J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995 (STREAM: a copied
//! byte counts twice, once read and once written; lines that a write has to fetch first are not counted).
//! Modelled: copies of all cores in the order in which they begin, each at the node's rate; programs whose buffers fit into the
//! last caches take nothing from it.
//! Not modelled: sockets and their link, channels, DMA of the NICs, caches other than by their size.

use std::cell::Cell;

use fabriscope_units::{Bytes, Rate, Time};

/// The memory of one node.
#[derive(Debug)]
pub struct Dram {
    /// As STREAM counts it.
    rate: Rate,
    /// What the buffers of one program may take and still be in the last caches.
    cached: Bytes,
    free: Cell<Time>,
}

impl Dram {
    /// Memory that moves `rate` for all cores together; `caches` hold the buffers of `programs` programs.
    #[must_use]
    pub fn new(rate: Rate, caches: Bytes, programs: u32) -> Dram {
        Dram { rate, cached: Bytes(caches.0 / u64::from(programs.max(1))), free: Cell::new(Time::ZERO) }
    }

    /// When `amount` bytes, copied from `now` on by a program that goes through `footprint` bytes, have passed.
    pub fn copied(&self, now: Time, amount: Bytes, footprint: Bytes) -> Time {
        if footprint <= self.cached {
            return now;
        }
        let end = self.free.get().max(now) + self.rate.time(amount * 2);
        self.free.set(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    #[test]
    fn copies_share_the_rate_where_they_miss_the_caches() {
        // 8 Gb/s are 1 B/ns; a copied byte counts twice. Four programs share 4 KiB of cache.
        let dram = Dram::new(Rate::from_gbps(8), Bytes(4096), 4);
        let at = |ns| Time::ZERO + Span::from_ns(ns);
        assert_eq!(dram.copied(at(10), Bytes(100), Bytes(1024)), at(10));
        assert_eq!(dram.copied(at(10), Bytes(100), Bytes(1025)), at(210));
        assert_eq!(dram.copied(at(50), Bytes(50), Bytes(4096)), at(310));
        assert_eq!(dram.copied(at(1000), Bytes(50), Bytes(4096)), at(1100));
    }
}
