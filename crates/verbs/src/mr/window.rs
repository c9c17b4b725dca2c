//! Memory windows: a part of a region under a key of its own, which opens and closes by requests in a send queue.
//!
//! Source: IBA vol. 1 §10.6.7 (type 1 and type 2 windows, bind, local and remote invalidate); man pages ibv_alloc_mw(3), ibv_bind_mw(3).
//! Modelled: type 1, bound anew whenever the program likes, by a key that the adapter chooses; type 2, bound under a key whose last byte the
//! program chooses, once, until it is invalidated here or by the peer's SEND; the right to bind, bounds and rights of the region; a region that
//! stays while windows are open on it.
//! Not modelled: that a type 2 window serves one queue pair alone, zero-based windows.

use fabriscope_units::Bytes;

use super::{Refused, Region, Regions};
use crate::access::{Access, MemoryId};
use crate::error::VerbsError;
use crate::ids::{PdId, Rkey};
use crate::wr::Sge;

/// The type of a window, `ibv_mw_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowKind {
    /// Bound by the verb `ibv_bind_mw`; a bind replaces the one before.
    One,
    /// Bound by a request, and not again before it is invalidated.
    Two,
}

/// What a region is as a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    kind: WindowKind,
    /// The region that it is open on, as an index.
    on: Option<u32>,
}

impl Regions {
    /// Makes a window that is closed; its key is good for binding.
    pub(crate) fn allocate_window(&mut self, pd: PdId, kind: WindowKind) -> Result<Rkey, VerbsError> {
        // A region of one byte keeps the slot.
        let key = self.register(pd, 0, Bytes(1), Access::NONE, MemoryId::HOST)?.rkey;
        let slot = &mut self.slots[(key.0 >> 8) as usize];
        (slot.live, slot.window) = (false, Some(Window { kind, on: None }));
        Ok(key)
    }

    /// Ends a window, open or not.
    pub(crate) fn free_window(&mut self, key: Rkey) -> Result<(), VerbsError> {
        let index = (key.0 >> 8) as usize;
        if self.slots.get(index).is_none_or(|slot| slot.window.is_none()) {
            return Err(VerbsError::NoSuchKey { key: key.0 });
        }
        self.close(index);
        let slot = &mut self.slots[index];
        (slot.window, slot.generation) = (None, slot.generation.wrapping_add(1));
        self.free.push(key.0 >> 8);
        Ok(())
    }

    /// Opens the window of `key` on `at`, with the rights `access`; an `at` of no bytes closes one of type 1.
    pub(crate) fn bind(&mut self, key: u32, pd: PdId, at: Sge, access: Access) -> Result<(), Refused> {
        let index = (key >> 8) as usize;
        let slot = *self.slots.get(index).ok_or(Refused)?;
        let window = slot.window.filter(|_| slot.pd == pd).ok_or(Refused)?;
        if window.kind == WindowKind::Two && (slot.live || at.length == 0) {
            return Err(Refused);
        }
        self.close(index);
        if at.length == 0 {
            return Ok(());
        }
        self.check(at.lkey.0, pd, at.addr, u64::from(at.length), Access::MW_BIND)?;
        let region = &mut self.slots[(at.lkey.0 >> 8) as usize];
        let writes = access.contains(Access::REMOTE_WRITE) || access.contains(Access::REMOTE_ATOMIC);
        if region.window.is_some() || writes && !region.access.contains(Access::LOCAL_WRITE) {
            return Err(Refused);
        }
        region.windows += 1;
        let (place, last) = (region.place, at.addr + u64::from(at.length - 1));
        let window = Some(Window { on: Some(at.lkey.0 >> 8), ..window });
        self.slots[index] = Region { first: at.addr, last, access, generation: key as u8, live: true, place, window, ..slot };
        Ok(())
    }

    /// Closes the window of `key`, one of type 2.
    pub(crate) fn invalidate(&mut self, key: u32, pd: PdId) -> Result<(), Refused> {
        let index = (key >> 8) as usize;
        let slot = self.slots.get(index).ok_or(Refused)?;
        let known = slot.live && slot.generation == key as u8 && slot.pd == pd;
        if !known || slot.window.is_none_or(|window| window.kind != WindowKind::Two) {
            return Err(Refused);
        }
        self.close(index);
        Ok(())
    }

    fn close(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.live = false;
        let Some(on) = slot.window.as_mut().and_then(|window| window.on.take()) else { return };
        self.slots[on as usize].windows -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lkey;

    const PD: PdId = PdId(1);

    /// A region of 4 KiB that windows may be bound to, and how its pieces are named.
    fn region(regions: &mut Regions) -> impl Fn(u64, u32) -> Sge + use<> {
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        let lkey = regions.register(PD, 0x1000, Bytes(0x1000), access, MemoryId::HOST).unwrap().lkey;
        move |addr, length| Sge { addr, length, lkey }
    }

    #[test]
    fn a_window_opens_a_part_of_a_region_that_is_closed_to_peers() {
        let mut regions = Regions::default();
        let at = region(&mut regions);
        let key = regions.allocate_window(PD, WindowKind::Two).unwrap().0;
        let reads = |regions: &Regions, key, addr, length| regions.check(key, PD, addr, length, Access::REMOTE_READ).is_ok();
        assert!(!reads(&regions, key, 0x1800, 1), "not bound");
        regions.bind(key + 1, PD, at(0x1800, 0x100), Access::REMOTE_READ).unwrap();
        assert!(
            reads(&regions, key + 1, 0x1800, 0x100) && !reads(&regions, key + 1, 0x17ff, 1) && !reads(&regions, key + 1, 0x1800, 0x101)
        );
        assert!(!reads(&regions, key, 0x1800, 1), "another key");
        assert!(regions.check(key + 1, PD, 0x1800, 1, Access::REMOTE_WRITE).is_err(), "a right that was not given");
        assert!(!reads(&regions, at(0, 0).lkey.0, 0x1800, 1), "the region itself stays closed");
        let busy = regions.deregister(at(0, 0).lkey.0).unwrap_err();
        assert!(matches!(busy, VerbsError::Busy { .. }), "{busy}");
        assert_eq!(regions.bind(key + 2, PD, at(0x1800, 1), Access::REMOTE_READ), Err(Refused), "bound already");
        regions.invalidate(key + 1, PD).unwrap();
        assert!(!reads(&regions, key + 1, 0x1800, 1) && regions.invalidate(key + 1, PD).is_err());
        regions.bind(key + 2, PD, at(0x1000, 8), Access::REMOTE_READ).unwrap();
        assert!(reads(&regions, key + 2, 0x1000, 8));
        regions.free_window(Rkey(key)).unwrap();
        assert!(!reads(&regions, key + 2, 0x1000, 8) && regions.deregister(at(0, 0).lkey.0).is_ok());
    }

    #[test]
    fn type_1_is_bound_anew_and_closed_by_no_bytes() {
        let mut regions = Regions::default();
        let at = region(&mut regions);
        let key = regions.allocate_window(PD, WindowKind::One).unwrap().0;
        let writes = |regions: &Regions, key, addr| regions.check(key, PD, addr, 8, Access::REMOTE_WRITE).is_ok();
        regions.bind(key + 1, PD, at(0x1000, 64), Access::REMOTE_WRITE).unwrap();
        regions.bind(key + 2, PD, at(0x1400, 64), Access::REMOTE_WRITE).unwrap();
        assert!(writes(&regions, key + 2, 0x1400) && !writes(&regions, key + 1, 0x1000));
        assert!(regions.invalidate(key + 2, PD).is_err(), "LOCAL_INV is for type 2");
        regions.bind(key + 3, PD, at(0, 0), Access::NONE).unwrap();
        assert!(!writes(&regions, key + 2, 0x1400));
    }

    #[test]
    fn what_a_region_does_not_allow_is_not_bound() {
        let mut regions = Regions::default();
        let key = regions.allocate_window(PD, WindowKind::One).unwrap().0;
        let mut of = |access| regions.register(PD, 0x1000, Bytes(64), access, MemoryId::HOST).unwrap().lkey;
        let (closed, read_only) = (of(Access::LOCAL_WRITE), of(Access::MW_BIND));
        let at = |lkey: Lkey, length| Sge { addr: 0x1000, length, lkey };
        assert_eq!(regions.bind(key, PD, at(closed, 8), Access::REMOTE_READ), Err(Refused), "no right to bind");
        assert_eq!(regions.bind(key, PD, at(read_only, 8), Access::REMOTE_WRITE), Err(Refused), "nobody may write there");
        assert_eq!(regions.bind(key, PD, at(read_only, 65), Access::REMOTE_READ), Err(Refused), "beyond its end");
        assert_eq!(regions.bind(key, PdId(2), at(read_only, 8), Access::REMOTE_READ), Err(Refused), "another domain");
        assert_eq!(regions.bind(read_only.0, PD, at(read_only, 8), Access::REMOTE_READ), Err(Refused), "no window");
        assert!(regions.bind(key, PD, at(read_only, 8), Access::REMOTE_READ).is_ok());
    }
}
