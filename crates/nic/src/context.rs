//! Contexts of queue pairs on a NIC: a cache of them on the chip, all of them in host memory.
//!
//! Source: A. Dragojević et al., "FaRM", NSDI 2014 §3.1, and A. Kalia, M. Kaminsky, D. Andersen, "Datacenter RPCs can be General
//! and Fast", NSDI 2019 (the state of connections that does not fit into a NIC is read over PCIe, and the rate falls).
//! Modelled: one context per queue pair, least recently used is replaced, a miss is a PCIe read before the packet goes on,
//! a limited number of such reads at a time, the write-back of the context that makes room (every packet changes its own).
//! Where a run makes some of the queue pairs only, the others take their share of the chip ([`ContextCache::stand_among`]).
//! Not modelled: caches of completion queues and of work requests; sets of limited associativity. Translations: [`crate::translation`].

use fabriscope_node::Pcie;
use fabriscope_units::{Bytes, Span, Time, parameters};

parameters! {
    /// Contexts of queue pairs: what the adapter knows of each, in host memory, and how many it holds on the chip.
    pub struct ContextLimits as "Contexts" {
        /// How many fit on the chip; a packet of any other queue pair waits for a PCIe read.
        pub cached: u32,
        /// Size of one, in host memory and on the bus.
        pub size: Bytes,
        /// Reads of contexts outstanding at a time.
        pub reads: u32,
    }
}

/// The cache of one NIC, by number of the queue pair. All operations take constant time.
#[derive(Debug, Clone)]
pub struct ContextCache {
    limits: ContextLimits,
    eviction: Eviction,
    /// Contexts that are in use on the adapter, those that a run leaves out among them; zero where it leaves none out.
    among: u32,
    places: Vec<CacheEntry>,
    newest: u32,
    oldest: u32,
    held: u32,
    /// When the last reads are complete, in turn.
    reads: Vec<Time>,
    turn: usize,
    counts: ContextCounts,
}

/// What becomes of an entry that makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Packets changed it: it is written back.
    WriteBack,
    /// It is as it was read.
    Drop,
}

/// How often contexts were needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextCounts {
    /// Packets that needed one.
    pub uses: u64,
    /// Those for which it had to be read.
    pub misses: u64,
}

/// Where a context stands in the order of use.
#[derive(Debug, Clone, Copy)]
struct CacheEntry {
    newer: u32,
    older: u32,
    /// When it is on the chip; [`Time::MAX`] where it is not.
    ready: Time,
    /// A packet needed it before.
    was_used: bool,
}

impl ContextCache {
    /// An empty cache for queue pairs numbered below `contexts`; more are taken as they come.
    #[must_use]
    pub fn new(limits: ContextLimits, contexts: u32) -> ContextCache {
        ContextCache::of(limits, contexts, Eviction::WriteBack)
    }
    /// The same of what the adapter changes, or not.
    pub(crate) fn of(limits: ContextLimits, contexts: u32, eviction: Eviction) -> ContextCache {
        let limits = ContextLimits { cached: limits.cached.max(1), reads: limits.reads.max(1), ..limits };
        ContextCache {
            limits,
            eviction,
            among: 0,
            places: vec![CacheEntry::AWAY; contexts as usize],
            newest: NONE,
            oldest: NONE,
            held: 0,
            reads: vec![Time::ZERO; limits.reads as usize],
            turn: 0,
            counts: ContextCounts::default(),
        }
    }

    /// A run uses some of `contexts` contexts only, all of which are in use otherwise: a context that is needed for the first time is on the chip
    /// with the share that fits there, by its number.
    pub fn stand_among(&mut self, contexts: u32) {
        self.among = contexts;
    }

    /// Whether that was said.
    #[must_use]
    pub fn is_among(&self) -> bool {
        self.among > 0
    }

    /// Whether a context that the run has not used yet happens to be on the chip.
    fn happens_to_be_here(&self, context: u32) -> bool {
        let mixed = (u64::from(context) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed * u64::from(self.among) < u64::from(self.limits.cached) << 32
    }

    /// A packet needs `context` at `now`: when it is there. A miss reads it, and writes back the one used longest ago.
    pub fn touch(&mut self, now: Time, context: u32, pcie: &mut Pcie) -> Time {
        self.counts.uses += 1;
        if context as usize >= self.places.len() {
            self.places.resize(context as usize + 1, CacheEntry::AWAY);
        }
        let ready = self.places[context as usize].ready;
        if ready.is_known() {
            if self.newest != context {
                self.unlink(context);
                self.link(context);
            }
            return now.max(ready);
        }
        let here = self.among > 0 && !self.places[context as usize].was_used && self.happens_to_be_here(context);
        self.counts.misses += u64::from(!here);
        if self.held == self.limits.cached {
            let oldest = self.oldest;
            self.unlink(oldest);
            self.places[oldest as usize].ready = Time::MAX;
            if self.eviction == Eviction::WriteBack && !here {
                let _ = pcie.write(now, self.limits.size);
            }
        } else {
            self.held += 1;
        }
        let ready = if here { now } else { self.read(now, pcie) };
        let place = &mut self.places[context as usize];
        (place.ready, place.was_used) = (ready, true);
        self.link(context);
        ready
    }

    /// How often contexts were needed so far.
    #[must_use]
    pub fn counts(&self) -> ContextCounts {
        self.counts
    }

    /// The link carries the context now; the latency starts when one of the reads before is complete.
    fn read(&mut self, now: Time, pcie: &mut Pcie) -> Time {
        let carried = pcie.read(now, self.limits.size, Span::ZERO);
        let free = self.reads[self.turn];
        let timing = pcie.timing();
        let ready = carried.max(free + timing.read_latency + timing.completion_time(self.limits.size));
        self.reads[self.turn] = ready;
        self.turn = (self.turn + 1) % self.reads.len();
        ready
    }

    fn link(&mut self, context: u32) {
        let newest = std::mem::replace(&mut self.newest, context);
        let place = &mut self.places[context as usize];
        (place.newer, place.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = context,
            newest => self.places[newest as usize].newer = context,
        }
    }

    fn unlink(&mut self, context: u32) {
        let CacheEntry { newer, older, .. } = self.places[context as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
    }
}

impl CacheEntry {
    const AWAY: CacheEntry = CacheEntry { newer: NONE, older: NONE, ready: Time::MAX, was_used: false };
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_node::PcieTiming;
    use fabriscope_units::Rate;

    /// 100 Gb/s: 80 ps per byte. A context of 256 B is three completions of 128 B at most: 256 + 2·20 B = 23.68 ns.
    fn pcie() -> Pcie {
        Pcie::new(PcieTiming {
            tlp_rate: Rate::from_gbps(100),
            read_latency: Span::from_ns(400),
            write_latency: Span::from_ns(100),
            max_payload: Bytes(256),
            max_read_request: Bytes(512),
            completion_payload: Bytes(128),
            write_overhead: Bytes(24),
            read_overhead: Bytes(24),
            completion_overhead: Bytes(20),
            wires: fabriscope_node::Wires::EachWay,
            tags: None,
        })
    }
    const MISS: u64 = 400_000 + 23_680;

    fn limits(entries: u32, reads: u32) -> ContextLimits {
        ContextLimits { cached: entries, size: Bytes(256), reads }
    }

    /// Misses of `rounds` rounds over `contexts` contexts, the first round left out.
    fn misses(entries: u32, contexts: u32, rounds: u64) -> u64 {
        let (mut cache, mut link) = (ContextCache::new(limits(entries, 4), contexts), pcie());
        let mut now = Time::ZERO;
        let mut first = 0;
        for round in 0..=rounds {
            for context in 0..contexts {
                now = cache.touch(now, context, &mut link);
            }
            if round == 0 {
                first = cache.counts().misses;
            }
        }
        assert_eq!((first, cache.counts().uses), (u64::from(contexts), (rounds + 1) * u64::from(contexts)));
        cache.counts().misses - first
    }

    #[test]
    fn what_fits_never_misses_and_one_more_in_a_cycle_always_does() {
        for entries in [1, 2, 7, 64] {
            assert_eq!(misses(entries, entries, 5), 0);
            assert_eq!(misses(entries, entries + 1, 5), 5 * u64::from(entries + 1));
        }
    }

    #[test]
    fn random_use_misses_as_often_as_contexts_are_away() {
        // Each of N contexts is as likely: it is among the C held with C / N. 1 − 1000/4000 = 75 %.
        let (mut cache, mut link) = (ContextCache::new(limits(1000, 4), 4000), pcie());
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cache.touch(Time::ZERO, ((state >> 33) % 4000) as u32, &mut link);
        }
        let share = cache.counts().misses as f64 / cache.counts().uses as f64;
        assert!((share - 0.75).abs() < 0.01, "{share}");
    }

    /// A run that uses each of 4,000 contexts once, of 16,000 that are in use: a quarter of a quarter is on the chip.
    #[test]
    fn contexts_that_a_run_leaves_out_take_their_share_of_the_chip() {
        let (mut cache, mut link) = (ContextCache::new(limits(1000, 4), 4000), pcie());
        cache.stand_among(16_000);
        for context in 0..4000 {
            cache.touch(Time::ZERO, context, &mut link);
        }
        let share = cache.counts().misses as f64 / cache.counts().uses as f64;
        assert!((share - 15.0 / 16.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn reads_overlap_up_to_their_number() {
        // Two at a time: the link carries the second 23.68 ns after the first; the third waits for the first to end, and
        // takes a latency of its own.
        let (mut cache, mut link) = (ContextCache::new(limits(8, 2), 8), pcie());
        let at: Vec<u64> = (0..4).map(|context| cache.touch(Time::ZERO, context, &mut link).as_ps()).collect();
        assert_eq!(at, [MISS, MISS + 23_680, 2 * MISS, 2 * MISS + 23_680]);
        // A context in flight is waited for, not read again; one that is there costs nothing.
        assert_eq!(cache.touch(Time::from_ps(5), 0, &mut link).as_ps(), MISS);
        assert_eq!(cache.touch(Time::from_ps(MISS + 9), 0, &mut link).as_ps(), MISS + 9);
        assert_eq!(cache.counts(), ContextCounts { uses: 6, misses: 4 });
    }

    #[test]
    fn making_room_writes_back_and_keeps_the_order_of_use() {
        let (mut cache, mut link) = (ContextCache::new(limits(2, 1), 3), pcie());
        for context in [0, 1, 0, 2] {
            cache.touch(Time::ZERO, context, &mut link);
        }
        // Context 1 had to go: 0 and 2 are there, 1 is read again.
        let before = cache.counts().misses;
        cache.touch(Time::ZERO, 0, &mut link);
        cache.touch(Time::ZERO, 2, &mut link);
        assert_eq!(cache.counts().misses, before);
        cache.touch(Time::ZERO, 1, &mut link);
        assert_eq!(cache.counts().misses, before + 1);
        // Two contexts were written back: 2 · (256 + 24) B, and four requests of 24 B, at 80 ps per byte.
        assert_eq!(link.write(Time::ZERO, Bytes::ZERO).sent.as_ps(), 80 * (2 * 280 + 4 * 24 + 24));
    }
}
