//! Memory regions: what the NIC may touch, and for whom.
//!
//! Source: IBA vol. 1 §10.6; man page ibv_reg_mr(3).
//! Modelled: keys with a generation, bounds, protection domains, the four access rights, other addresses for peers (`iova`), in which
//! memory of the node a region lies; memory windows of both types (`window`); of regions that are registered by pages, which pages requests
//! use (`pages`): the time that takes is the adapter's.
//! Not modelled: regions that are registered by requests, zero-based windows.

use fabriscope_units::Bytes;

use crate::access::{Access, MemoryId};
use crate::error::VerbsError;
use crate::ids::{Lkey, PdId, Rkey};
use crate::memory::each_piece;
use crate::mr::pages::PagedRegions;
use crate::mr::window::Window;
use crate::wr::Sge;

mod pages;
mod window;

pub use pages::{MemoryUse, PageUse, Pages};
pub use window::WindowKind;

/// The keys of a registered region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mr {
    /// For local requests.
    pub lkey: Lkey,
    /// For the peer.
    pub rkey: Rkey,
    /// First byte.
    pub addr: u64,
    /// Length.
    pub length: Bytes,
}

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused;

/// All regions of a NIC. A key is `index << 8 | generation`.
#[derive(Default)]
pub(crate) struct Regions {
    slots: Vec<Region>,
    free: Vec<u32>,
    /// A region was registered in other memory than that beside the NIC.
    elsewhere: bool,
    /// That, or one by pages: packets are looked at.
    watched: bool,
    /// Those that were registered by pages.
    paged: PagedRegions,
    /// Peers have another address for a region than its own.
    moved: bool,
    /// Whether the NIC reaches each place but the first, which it always does.
    reached: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Region {
    first: u64,
    last: u64,
    pd: PdId,
    access: Access,
    generation: u8,
    live: bool,
    place: MemoryId,
    /// To be added to what peers call an address of it, modulo 2^64.
    shift: u64,
    /// Windows that are open on it.
    windows: u32,
    /// What it is as a window, if it is one.
    window: Option<Window>,
}

/// Whether a region may have this range and these rights.
fn may_be(addr: u64, length: Bytes, access: Access) -> Result<(), VerbsError> {
    if !access.contains(Access::LOCAL_WRITE) && (access.contains(Access::REMOTE_WRITE) || access.contains(Access::REMOTE_ATOMIC)) {
        return Err(VerbsError::AccessNeedsLocalWrite { access });
    }
    if length.0 == 0 || addr.checked_add(length.0 - 1).is_none() {
        return Err(VerbsError::BadRange { addr, length });
    }
    Ok(())
}

impl Regions {
    pub(crate) fn register(&mut self, pd: PdId, addr: u64, length: Bytes, access: Access, place: MemoryId) -> Result<Mr, VerbsError> {
        if place != MemoryId::HOST && self.reached.get(usize::from(place.0) - 1) != Some(&true) {
            return Err(VerbsError::OutOfReach { place: place.0 });
        }
        may_be(addr, length, access)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let dead = Region { first: 0, last: 0, pd, access, generation: 0, live: false, place, shift: 0, windows: 0, window: None };
                if self.slots.is_empty() {
                    self.slots.push(dead); // index 0 is never given out, so a zeroed key is wrong
                }
                self.slots.push(dead);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^24 regions")
            }
        };
        let slot = &mut self.slots[index as usize];
        let generation = slot.generation;
        let last = addr + (length.0 - 1);
        *slot = Region { first: addr, last, pd, access, generation, live: true, place, shift: 0, windows: 0, window: None };
        self.elsewhere |= place != MemoryId::HOST;
        self.watched |= self.elsewhere;
        let key = index << 8 | u32::from(slot.generation);
        Ok(Mr { lkey: Lkey(key), rkey: Rkey(key), addr, length })
    }

    /// Gives a region another domain, range or rights under the same key.
    pub(crate) fn reregister(&mut self, key: u32, pd: PdId, addr: u64, length: Bytes, access: Access) -> Result<(), VerbsError> {
        may_be(addr, length, access)?;
        let region = self.live_mut(key)?;
        *region = Region { first: addr, last: addr + (length.0 - 1), pd, access, shift: 0, ..*region };
        Ok(())
    }

    /// Peers call the first byte of a region `iova` from now on.
    pub(crate) fn set_iova(&mut self, key: u32, iova: u64) -> Result<(), VerbsError> {
        let region = self.live_mut(key)?;
        if iova.checked_add(region.last - region.first).is_none() {
            return Err(VerbsError::BadRange { addr: iova, length: Bytes((region.last - region.first).saturating_add(1)) });
        }
        region.shift = region.first.wrapping_sub(iova);
        self.moved |= region.shift != 0;
        Ok(())
    }

    fn live_mut(&mut self, key: u32) -> Result<&mut Region, VerbsError> {
        let region = self.slots.get_mut((key >> 8) as usize).filter(|region| region.live && region.generation == key as u8);
        region.ok_or(VerbsError::NoSuchKey { key })
    }

    /// Whether peers ever had another address for a region than its own.
    #[inline]
    pub(crate) fn is_moved(&self) -> bool {
        self.moved
    }

    /// The address of what peers call `addr` in the region of `key`.
    #[cold]
    pub(crate) fn address_of(&self, key: u32, addr: u64) -> u64 {
        self.slots.get((key >> 8) as usize).map_or(addr, |region| addr.wrapping_add(region.shift))
    }

    /// Regions may lie at `place`.
    pub(crate) fn reach(&mut self, place: MemoryId) {
        let Some(index) = usize::from(place.0).checked_sub(1) else { return };
        self.reached.resize(self.reached.len().max(index + 1), false);
        self.reached[index] = true;
    }

    pub(crate) fn deregister(&mut self, key: u32) -> Result<(), VerbsError> {
        let region = self.live_mut(key)?;
        if region.windows > 0 || region.window.is_some() {
            let (what, user) = (format!("memory region {key:#x}"), format!("{} windows", region.windows));
            return Err(VerbsError::Busy { what, user });
        }
        region.live = false;
        region.generation = region.generation.wrapping_add(1);
        let first = region.first;
        self.paged.forget(first);
        self.free.push(key >> 8);
        Ok(())
    }

    pub(crate) fn uses(&self, pd: PdId) -> bool {
        self.slots.iter().any(|region| region.live && region.pd == pd)
    }

    /// Whether `key` opens `length` bytes at `addr` to `pd` with the rights `needed`.
    #[inline]
    pub(crate) fn check(&self, key: u32, pd: PdId, addr: u64, length: u64, needed: Access) -> Result<(), Refused> {
        if length == 0 {
            return Ok(());
        }
        let region = self.slots.get((key >> 8) as usize).ok_or(Refused)?;
        let last = addr.checked_add(length - 1).ok_or(Refused)?;
        let known = region.live && region.generation == key as u8 && region.pd == pd;
        if known && region.first <= addr && last <= region.last && region.access.contains(needed) { Ok(()) } else { Err(Refused) }
    }

    /// The domain of the first region in a gather or scatter list that was checked before.
    pub(crate) fn domain_of(&self, list: &[Sge]) -> PdId {
        let key = list.first().map_or(0, |piece| piece.lkey.0 >> 8);
        self.slots.get(key as usize).map_or(PdId(0), |region| region.pd)
    }

    /// Whether memory other than that beside the NIC was ever registered, or some by pages.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Where the region of `key` lies.
    #[inline]
    pub(crate) fn place_of(&self, key: u32) -> MemoryId {
        if self.elsewhere { self.look_up(key) } else { MemoryId::HOST }
    }

    /// Where most of the `length` bytes from `offset` on of a gather or scatter list lie.
    #[inline]
    pub(crate) fn place_in(&self, list: &[Sge], offset: u64, length: u32) -> MemoryId {
        if self.watched { self.look_in(list, offset, length as usize) } else { MemoryId::HOST }
    }

    #[cold]
    fn look_up(&self, key: u32) -> MemoryId {
        self.slots.get((key >> 8) as usize).map_or(MemoryId::HOST, |region| region.place)
    }

    #[cold]
    fn look_in(&self, list: &[Sge], offset: u64, length: usize) -> MemoryId {
        let (mut most, mut place) = (0, MemoryId::HOST);
        each_piece(list, offset, length, |piece, begin, range| {
            self.use_pages(begin, range.len() as u32);
            if range.len() > most {
                (most, place) = (range.len(), self.look_up(piece.lkey.0));
            }
        });
        place
    }

    /// [`check`](Self::check) for each piece of a local gather or scatter list.
    #[inline]
    pub(crate) fn check_list(&self, pd: PdId, list: &[Sge], needed: Access) -> Result<(), Refused> {
        list.iter().try_for_each(|piece| self.check(piece.lkey.0, pd, piece.addr, u64::from(piece.length), needed))
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    const PD: PdId = PdId(1);

    #[test]
    fn bounds_rights_and_domain_are_checked() {
        let mut regions = Regions::default();
        let mr = regions.register(PD, 0x1000, Bytes(0x100), Access::LOCAL_WRITE | Access::REMOTE_READ, MemoryId::HOST).unwrap();
        let check = |addr, length, needed| regions.check(mr.rkey.0, PD, addr, length, needed);
        assert!(check(0x1000, 0x100, Access::REMOTE_READ).is_ok());
        assert!(check(0x10ff, 1, Access::LOCAL_WRITE).is_ok());
        assert!(check(0xfff, 1, Access::NONE).is_err());
        assert!(check(0x1000, 0x101, Access::NONE).is_err());
        assert!(check(u64::MAX, 2, Access::NONE).is_err());
        assert!(check(0x1000, 1, Access::REMOTE_WRITE).is_err());
        assert!(regions.check(mr.rkey.0, PdId(2), 0x1000, 1, Access::NONE).is_err());
        assert!(check(0, 0, Access::REMOTE_WRITE).is_ok(), "nothing is touched");
        assert!(regions.check(0, PD, 0x1000, 1, Access::NONE).is_err());
    }

    #[test]
    fn a_stale_key_fails_even_when_its_slot_is_used_again() {
        let mut regions = Regions::default();
        let old = regions.register(PD, 0x1000, Bytes(64), Access::ALL, MemoryId::HOST).unwrap();
        regions.deregister(old.lkey.0).unwrap();
        let new = regions.register(PD, 0x1000, Bytes(64), Access::ALL, MemoryId::HOST).unwrap();
        assert_ne!(old.rkey, new.rkey);
        assert!(regions.check(old.rkey.0, PD, 0x1000, 1, Access::NONE).is_err());
        assert!(regions.check(new.rkey.0, PD, 0x1000, 1, Access::NONE).is_ok());
        assert!(regions.deregister(old.lkey.0).is_err());
    }

    #[test]
    fn packets_lie_where_most_of_their_bytes_lie() {
        let mut regions = Regions::default();
        regions.reach(MemoryId(1));
        regions.reach(MemoryId(2));
        let mut at = |addr, place| regions.register(PD, addr, Bytes(0x1000), Access::ALL, place).unwrap().lkey;
        let (host, near, far) = (at(0, MemoryId::HOST), at(0x1000, MemoryId(1)), at(0x2000, MemoryId(2)));
        let piece = |addr, length, lkey| Sge { addr, length, lkey };
        let list = [piece(0, 40, host), piece(0x1000, 4096, near), piece(0x2000, 100, far)];
        let places = [(0, 40), (0, 79), (0, 81), (40, 4096), (4096, 80), (4096, 81), (4096, 140), (4300, 0)];
        let found: Vec<u8> = places.map(|(offset, length)| regions.place_in(&list, offset, length).0).into();
        assert_eq!(found, [0, 0, 1, 1, 1, 2, 2, 0]);
        assert_eq!(
            (regions.place_of(far.0), regions.place_of(host.0), regions.place_of(77 << 8)),
            (MemoryId(2), MemoryId::HOST, MemoryId::HOST)
        );
    }

    #[test]
    fn peers_may_have_another_address_for_a_region() {
        let mut regions = Regions::default();
        let mr = regions.register(PD, 0x1000, Bytes(0x100), Access::ALL, MemoryId::HOST).unwrap();
        let check = |regions: &Regions, addr, length| {
            regions.check(mr.rkey.0, PD, regions.address_of(mr.rkey.0, addr), length, Access::REMOTE_READ).is_ok()
        };
        for iova in [0, 0x10, 0x9000_0000_0000] {
            regions.set_iova(mr.rkey.0, iova).unwrap();
            assert_eq!(regions.address_of(mr.rkey.0, iova + 8), 0x1008);
            assert!(check(&regions, iova, 0x100) && !check(&regions, iova, 0x101) && !check(&regions, iova.wrapping_sub(1), 1));
        }
        assert!(regions.set_iova(mr.rkey.0, u64::MAX - 0xfe).is_err() && regions.set_iova(mr.rkey.0 + 1, 0).is_err());
        regions.reregister(mr.rkey.0, PD, 0x2000, Bytes(8), Access::ALL).unwrap();
        assert!(check(&regions, 0x2000, 8), "a new range has its own address");
    }

    #[test]
    fn remote_writing_needs_local_writing() {
        let mut regions = Regions::default();
        for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let error = regions.register(PD, 0, Bytes(1), access, MemoryId::HOST).unwrap_err();
            assert!(error.in_full().contains("LOCAL_WRITE"), "{error}");
        }
        assert!(regions.register(PD, u64::MAX, Bytes(2), Access::NONE, MemoryId::HOST).is_err());
        assert!(regions.register(PD, 0, Bytes(0), Access::NONE, MemoryId::HOST).is_err());
    }
}
