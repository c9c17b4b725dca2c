//! Which memory a packet needs: entries of the adapter's page tables, of regions that are registered by pages, and addresses, where the host
//! translates them once more.
//!
//! Modelled: an entry for each region and one for each of its pages, numbered as they are registered; the entries of the first and the last byte
//! of a packet, in the order in which packets are built or arrive; pages on demand.
//! Not modelled: tables of several levels, regions whose addresses overlap (the one that was registered last counts).

use std::cell::RefCell;
use std::collections::BTreeMap;

use fabriscope_units::Bytes;

use super::Regions;
use crate::error::VerbsError;

/// How a region is translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    /// Size of a page, a power of two.
    pub size: Bytes,
    /// Pages are mapped when they are first used (`IBV_ACCESS_ON_DEMAND`); else when the region is registered.
    pub on_demand: bool,
}

/// An entry of the page tables that a packet needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageUse {
    /// Its number among those of the adapter.
    pub entry: u32,
    /// It may be away.
    pub on_demand: bool,
}

/// The memory that packets needed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Entries of the adapter's page tables.
    pub entries: Vec<PageUse>,
    /// The first and the last byte of each piece, where the host translates addresses.
    pub addresses: Vec<u64>,
}

impl MemoryUse {
    /// Forgets all of it, and keeps the room.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.addresses.clear();
    }
}

/// All that are registered so.
#[derive(Default)]
pub(super) struct PagedRegions {
    /// By the first byte.
    regions: BTreeMap<u64, Paged>,
    entries: u32,
    used: RefCell<MemoryUse>,
    /// The host translates addresses.
    iommu: bool,
}

#[derive(Clone, Copy)]
struct Paged {
    last: u64,
    shift: u32,
    /// The entry of the region; those of its pages follow.
    entry: u32,
    on_demand: bool,
}

impl PagedRegions {
    pub(super) fn forget(&mut self, first: u64) {
        self.regions.remove(&first);
    }

    fn use_bytes(&self, addr: u64, length: u32) {
        let Some((first, region)) = self.regions.range(..=addr).next_back().filter(|(_, region)| addr <= region.last) else { return };
        let page = |addr: u64| region.entry + 1 + ((addr >> region.shift) - (first >> region.shift)) as u32;
        let last = (addr + u64::from(length.max(1) - 1)).min(region.last);
        let used = &mut self.used.borrow_mut().entries;
        used.push(PageUse { entry: region.entry, on_demand: false });
        used.push(PageUse { entry: page(addr), on_demand: region.on_demand });
        if page(last) != page(addr) {
            used.push(PageUse { entry: page(last), on_demand: region.on_demand });
        }
    }
}

impl Regions {
    /// From now on packets that touch the region of `key` need the entries of its pages.
    pub(crate) fn divide(&mut self, key: u32, pages: Pages) -> Result<(), VerbsError> {
        if !pages.size.0.is_power_of_two() || pages.size.0 < SMALLEST {
            return Err(VerbsError::OutOfRange { what: "the size of a page", value: pages.size.0, min: SMALLEST, max: 1 << 40 });
        }
        let (first, last) = {
            let region = self.live_mut(key)?;
            (region.first, region.last)
        };
        let shift = pages.size.0.trailing_zeros();
        let count = (last >> shift) - (first >> shift) + 1;
        let entry = self.paged.entries;
        let next = u64::from(entry) + 1 + count;
        if next > u64::from(MOST_ENTRIES) {
            return Err(VerbsError::OutOfRange { what: "entries of page tables", value: next, min: 1, max: MOST_ENTRIES.into() });
        }
        self.paged.entries = next as u32;
        self.paged.regions.insert(first, Paged { last, shift, entry, on_demand: pages.on_demand });
        self.watched = true;
        Ok(())
    }

    /// A packet reads or writes `length` bytes at `addr`.
    pub(crate) fn use_pages(&self, addr: u64, length: u32) {
        if !self.paged.regions.is_empty() {
            self.paged.use_bytes(addr, length);
        }
        if self.paged.iommu {
            let last = addr.saturating_add(u64::from(length.max(1) - 1));
            self.paged.used.borrow_mut().addresses.extend([addr, last]);
        }
    }
    /// The host translates addresses: packets say which they touch.
    pub(crate) fn follow_addresses(&mut self) {
        (self.paged.iommu, self.watched) = (true, true);
    }

    /// Whether any region is registered by pages, or the host translates addresses.
    #[inline]
    pub(crate) fn is_paged(&self) -> bool {
        self.paged.entries > 0 || self.paged.iommu
    }

    /// The memory that was needed since it was cleared.
    pub(crate) fn memory_used(&mut self) -> &mut MemoryUse {
        self.paged.used.get_mut()
    }
}

/// The smallest page of an adapter. Basis: published, rdma-core (4 KiB).
const SMALLEST: u64 = 4096;
/// Entries that one adapter numbers: 64 GiB of the smallest pages. Basis: assumed.
const MOST_ENTRIES: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, MemoryId};
    use crate::ids::PdId;

    #[test]
    fn packets_need_the_region_and_the_pages_of_both_ends() {
        let mut regions = Regions::default();
        let at = |regions: &mut Regions, addr, length| regions.register(PdId(1), addr, Bytes(length), Access::ALL, MemoryId::HOST).unwrap();
        let (plain, small) = (at(&mut regions, 0x10_0000, 1 << 16), at(&mut regions, 0x1_0800, 1 << 16));
        regions.divide(small.lkey.0, Pages { size: Bytes(4096), on_demand: false }).unwrap();
        // 64 KiB from the middle of a page on touch 17 pages: entries 0 to 17, the next region has 18.
        let large = at(&mut regions, 0x4000_0000, 1 << 22);
        regions.divide(large.lkey.0, Pages { size: Bytes(1 << 21), on_demand: true }).unwrap();
        let mut used = |addr, length| {
            regions.use_pages(addr, length);
            regions.memory_used().entries.drain(..).map(|page| (page.entry, page.on_demand)).collect::<Vec<_>>()
        };
        assert_eq!(used(plain.addr, 4096), []);
        assert_eq!(used(0x1_0800, 0x800), [(0, false), (1, false)]);
        assert_eq!(used(0x1_0800, 0x801), [(0, false), (1, false), (2, false)]);
        assert_eq!(used(0x2_07ff, 1), [(0, false), (17, false)]);
        assert_eq!(used(0x4020_0000, 8), [(18, false), (20, true)]);
        regions.follow_addresses();
        regions.use_pages(0x1_0800, 0x801);
        regions.use_pages(plain.addr, 1);
        assert_eq!(regions.memory_used().addresses, [0x1_0800, 0x1_1000, plain.addr, plain.addr]);
        let wrong = regions.divide(small.lkey.0, Pages { size: Bytes(6000), on_demand: false });
        assert!(matches!(wrong, Err(VerbsError::OutOfRange { value: 6000, .. })));
    }
}
