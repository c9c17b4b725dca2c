//! How fast the cores of a rank go through vectors: what memories and cores let them.
//!
//! Source: J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995 (STREAM); W. Gropp,
//! D. Kaushik, D. Keyes, B. Smith, "Toward Realistic Performance Bounds for Implicit CFD Codes", Parallel CFD 1999: a sparse product takes
//! the time in which its bytes come from memory.
//! Modelled: threads over the sockets in turn, each with its data near; the sockets' memories; what one core fetches by itself; data that
//! the last caches hold, which come as fast as cores copy; the share of the last caches that a rank has, and no more of them than those
//! whose cores it runs on.
//! Not modelled: arithmetic, which takes less; what threads need to begin and to meet; in [`Processor::pace`], caches that hold a part;
//! huge pages.

use std::fmt;

use fabriscope_catalog::Cpu;
use fabriscope_units::{Bytes, Rate};

/// The processors of a node, or that of an adapter, as vector operations see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// How many.
    pub sockets: u32,
    /// Cores of each.
    pub cores: u32,
    /// What the cores of one move together, as STREAM counts it.
    pub memory: Rate,
    /// What one core moves alone; as much as all where that is not known.
    pub core: Rate,
    /// The same where the last caches hold the data.
    pub cached: Rate,
    /// The last caches of each.
    pub caches: Bytes,
    /// Groups of cores of each, which have their own part of the last caches.
    pub complexes: u32,
}

/// What a rank goes through its data with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes read and written.
    pub rate: Rate,
    /// Because of what.
    pub bound: Bound,
}

/// What it is that does not go faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The memories of so many sockets.
    Memory {
        /// Sockets.
        sockets: u32,
    },
    /// What so many cores have in flight.
    Cores {
        /// Cores.
        cores: u32,
    },
    /// The caches of so many cores.
    Caches {
        /// Cores.
        cores: u32,
    },
}

impl Processor {
    /// What `sockets` processors of a part are; nothing where the part does not say what their memory moves.
    #[must_use]
    pub fn of(cpu: &Cpu, sockets: u32) -> Option<Processor> {
        let memory = cpu.memory.as_ref()?;
        let twice = Rate::from_bps(cpu.copy_rate_long.as_bps().saturating_mul(2));
        Some(Processor {
            sockets,
            cores: cpu.cores,
            memory: *memory.copy_rate,
            core: memory.core_rate.as_ref().map_or(*memory.copy_rate, |rate| **rate),
            cached: twice,
            caches: memory.caches.value,
            complexes: memory.complexes.as_ref().map_or(1, |count| **count).max(1),
        })
    }
    /// Cores of all sockets.
    #[must_use]
    pub fn all_cores(&self) -> u32 {
        self.cores.saturating_mul(self.sockets)
    }
    /// What the last caches hold of the data of each of `ranks` ranks with `threads` threads: an even share of them, and no more than those
    /// of the complexes that the threads run on.
    #[must_use]
    pub fn share(&self, ranks: u32, threads: u32) -> Bytes {
        let all = self.caches.0.saturating_mul(u64::from(self.sockets));
        let (complexes, wide) = (u64::from(self.complexes.max(1)), u64::from((self.cores / self.complexes.max(1)).max(1)));
        let reached = u64::from(threads.max(1)).div_ceil(wide).min(complexes * u64::from(self.sockets));
        Bytes((all / u64::from(ranks.max(1))).min(self.caches.0 / complexes * reached))
    }
    /// What data come at that the last caches hold, for a rank with `threads` threads.
    #[must_use]
    pub fn cached_rate(&self, threads: u32) -> Rate {
        Rate::from_bps(self.cached.as_bps().saturating_mul(u64::from(threads.max(1))))
    }
    /// The pace of each of `ranks` ranks with `threads` threads, all of them at the same operation, each going through `footprint`.
    #[must_use]
    pub fn pace(&self, ranks: u32, threads: u32, footprint: Bytes) -> Pace {
        let (ranks, all) = (ranks.max(1), ranks.max(1).saturating_mul(threads.max(1)));
        let each = |total: u64, bound| Pace { rate: Rate::from_bps(total / u64::from(ranks)), bound };
        if footprint.0.saturating_mul(u64::from(ranks)) <= self.caches.0.saturating_mul(u64::from(self.sockets)) {
            return each(self.cached.as_bps().saturating_mul(u64::from(all)), Bound::Caches { cores: threads });
        }
        let mut total = 0u64;
        let mut held_back = false;
        for socket in 0..self.sockets {
            let here = all / self.sockets + u32::from(socket < all % self.sockets);
            let cores = self.core.as_bps().saturating_mul(u64::from(here));
            held_back |= here > 0 && cores < self.memory.as_bps();
            total = total.saturating_add(cores.min(self.memory.as_bps()));
        }
        let bound = if held_back { Bound::Cores { cores: threads } } else { Bound::Memory { sockets: self.sockets.min(all) } };
        each(total, bound)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |count: u32| if count == 1 { "" } else { "s" };
        match self {
            Bound::Memory { sockets } => write!(f, "memory of {sockets} socket{}", several(*sockets)),
            Bound::Cores { cores } => write!(f, "{cores} core{}", several(*cores)),
            Bound::Caches { cores } => write!(f, "caches of {cores} core{}", several(*cores)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of four cores: 40 B/ns each, 16 by one core, 32 out of caches of 1000 B.
    fn node() -> Processor {
        let gb = |rate: u64| Rate::from_gbps(8 * rate);
        Processor { sockets: 2, cores: 4, memory: gb(40), core: gb(16), cached: gb(32), caches: Bytes(1000), complexes: 2 }
    }

    #[test]
    fn memories_bind_many_cores_and_cores_few() {
        let gb = |rate: u64| Rate::from_gbps(8 * rate);
        let large = Bytes(1 << 30);
        assert_eq!(node().pace(1, 8, large), Pace { rate: gb(80), bound: Bound::Memory { sockets: 2 } });
        assert_eq!(node().pace(8, 1, large), Pace { rate: gb(10), bound: Bound::Memory { sockets: 2 } });
        assert_eq!(node().pace(1, 1, large), Pace { rate: gb(16), bound: Bound::Cores { cores: 1 } });
        // Two on one socket, one on the other.
        assert_eq!(node().pace(1, 3, large), Pace { rate: gb(48), bound: Bound::Cores { cores: 3 } });
        // Three at one socket ask for 48 and get 40; two at the other get 32.
        assert_eq!(node().pace(1, 5, large), Pace { rate: gb(72), bound: Bound::Cores { cores: 5 } });
    }

    /// Two complexes of two cores and 500 B on each of two sockets: 8 ranks have 250 B each; one of one or two threads has the 500 B of its
    /// complex, one of three threads those of two, one of eight all.
    #[test]
    fn a_rank_has_its_share_of_the_caches_that_its_cores_have() {
        assert_eq!(
            [(8, 1), (2, 1), (1, 2), (1, 3), (1, 8)].map(|(ranks, threads)| node().share(ranks, threads).0),
            [250, 500, 500, 1000, 2000]
        );
    }

    #[test]
    fn data_in_caches_come_as_fast_as_cores_take_them() {
        assert_eq!(node().pace(2, 1, Bytes(1000)), Pace { rate: Rate::from_gbps(8 * 32), bound: Bound::Caches { cores: 1 } });
        assert_eq!(node().pace(2, 1, Bytes(1001)).bound, Bound::Cores { cores: 1 });
    }
}
