//! Translations of an adapter: a cache on the chip of what page of a region lies where, all of it in host memory; and pages that are not
//! there yet.
//!
//! Source: A. Dragojević et al., "FaRM", NSDI 2014 §3.1 (page tables of an adapter that do not fit into its cache are read over PCIe, and the
//! rate falls; large pages); I. Lesokhin et al., "Page Fault Support for Network Controllers", ASPLOS 2017 (on-demand paging: the adapter
//! asks the driver, which maps the page and tells it).
//! Modelled: one entry per region (MPT) and one per page (MTT), of 8 to a line or as the part says; the line used longest ago is replaced; a
//! miss is a PCIe read before the bytes are read or written, a limited number of them at a time; of a region on demand, a fault at the first use of
//! each page, which the driver of the node handles one after the other.
//! Not modelled: that a responder refuses what needs an absent page (RNR NAK) and the peer sends it again: the packet waits instead; pages
//! that the system takes away again, prefetching, page tables of several levels; a packet needs the pages of its first and its last byte.

use std::collections::BTreeSet;

use fabriscope_node::Pcie;
use fabriscope_units::{Bytes, Span, Time, parameters};
use fabriscope_verbs::PageUse;

use crate::context::{ContextCache, ContextCounts, ContextLimits, Eviction};

parameters! {
    /// Translations of registered memory: how many lines of them the adapter holds on the chip.
    pub struct TranslationLimits as "Translations" {
        /// Lines that fit on the chip.
        pub cached: u32,
        /// Entries in a line.
        pub entries: u32,
        /// Size of a line, in host memory and on the bus.
        pub size: Bytes,
        /// Reads of lines outstanding at a time.
        pub reads: u32,
        /// From the use of a page that is not there, in a region on demand, until the driver has mapped it and told the adapter.
        pub fault: Span,
    }
}

/// The cache of one adapter.
#[derive(Debug, Clone)]
pub struct TranslationCache {
    limits: TranslationLimits,
    lines: ContextCache,
    /// Pages of regions on demand that are mapped.
    present: BTreeSet<u32>,
    /// When the driver has handled the faults so far.
    driver_free: Time,
    faults: u64,
}

/// How often translations were needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TranslationCounts {
    /// Entries that were needed.
    pub uses: u64,
    /// Those whose line had to be read.
    pub misses: u64,
    /// Pages that were not there.
    pub faults: u64,
}

impl TranslationCache {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: TranslationLimits) -> TranslationCache {
        let lines = ContextLimits { cached: limits.cached, size: limits.size, reads: limits.reads };
        TranslationCache {
            limits: TranslationLimits { entries: limits.entries.max(1), ..limits },
            lines: ContextCache::of(lines, 0, Eviction::Drop),
            present: BTreeSet::new(),
            driver_free: Time::ZERO,
            faults: 0,
        }
    }

    /// A packet needs a page at `now`: when its translation is there.
    pub fn touch(&mut self, now: Time, page: PageUse, pcie: &mut Pcie) -> Time {
        let mut ready = now;
        if page.on_demand && self.present.insert(page.entry) {
            self.faults += 1;
            self.driver_free = self.driver_free.max(now) + self.limits.fault;
            ready = self.driver_free;
        }
        ready.max(self.lines.touch(now, page.entry / self.limits.entries, pcie))
    }

    /// How often translations were needed so far.
    #[must_use]
    pub fn counts(&self) -> TranslationCounts {
        let ContextCounts { uses, misses } = self.lines.counts();
        TranslationCounts { uses, misses, faults: self.faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::bus;

    fn limits(cached: u32) -> TranslationLimits {
        TranslationLimits { cached, entries: 8, size: Bytes(64), reads: 4, fault: Span::from_us(200) }
    }
    fn page(entry: u32) -> PageUse {
        PageUse { entry, on_demand: false }
    }

    /// Misses of three rounds over `pages` pages, `stride` apart.
    fn misses(cached: u32, pages: u32, stride: u32) -> u64 {
        let (mut cache, mut link, mut now) = (TranslationCache::new(limits(cached)), Pcie::new(bus()), Time::ZERO);
        for _ in 0..3 {
            for at in 0..pages {
                now = cache.touch(now, page(at * stride), &mut link);
            }
        }
        cache.counts().misses
    }

    #[test]
    fn what_fits_is_read_once_and_more_in_a_cycle_always() {
        // 64 pages are 8 lines; one page in eight is a line of its own.
        assert_eq!((misses(8, 64, 1), misses(8, 8, 8)), (8, 8));
        assert_eq!((misses(7, 64, 1), misses(7, 8, 8)), (3 * 8, 3 * 8));
    }

    #[test]
    fn a_miss_is_a_read_over_the_bus() {
        let (mut cache, mut link) = (TranslationCache::new(limits(8)), Pcie::new(bus()));
        // 400 ns and 64 B at 100 ps; then it is there.
        let ready = Time::ZERO + Span::from_ps(406_400);
        assert_eq!(cache.touch(Time::ZERO, page(3), &mut link), ready);
        assert_eq!(cache.touch(ready, page(7), &mut link), ready, "in the same line");
    }

    #[test]
    fn faults_wait_for_one_driver_and_happen_once() {
        let (mut cache, mut link) = (TranslationCache::new(limits(8)), Pcie::new(bus()));
        let absent = |entry| PageUse { entry, on_demand: true };
        let at: Vec<u64> = [1, 2, 1].map(|entry| cache.touch(Time::ZERO, absent(entry), &mut link).as_ps() / 1_000_000).into();
        assert_eq!(at, [200, 400, 0]);
        assert_eq!(cache.counts().faults, 2);
    }
}
