//! Extension headers of packets between the parts of a divided run: an account for each message, not for each packet.
//!
//! ```text
//!   part of the sender             part of the receiver
//!   slot ── headers, place ──────▶ import: headers, packets that are done with, packets that there are
//!        ── how many packets ────▶   │
//!        ◀── the place is free ──────┘
//! ```
//! The sender's part picks the place, so that packets carry their final number when they leave it; it tells of the headers with the
//! first packet of a message and of the number of packets with the last. Parts in between pass packets on. What one part tells in a
//! window another hears at the beginning of the next, before any packet can be there.
//! Not modelled: nothing of this is in a network; it is how the memory of a run is shared out.

use fabriscope_prefetch::prefetch_lines;

use crate::ext_headers::{Ext, ExtId};

/// Headers that a part tells of.
#[derive(Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The number that packets have there.
    pub(crate) id: ExtId,
    /// How many packets have it, or [`Announcement::MORE`].
    pub(crate) packets: u32,
    pub(crate) ext: Ext,
}

impl Announcement {
    /// How many is not known yet.
    pub(crate) const MORE: u32 = u32::MAX;
}

/// What a part tells of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// To the receiver's part: so many packets have it.
    Packets(ExtId, u32),
    /// To the receiver's part: one of them was dropped on its way.
    Dropped(ExtId),
    /// To the sender's part: its place is free.
    Free(ExtId),
}

/// What a part knows of the entries of others.
pub(crate) struct Borders {
    part: u32,
    /// Places that it gives in each part.
    places: Vec<Places>,
    /// What each part told of.
    imports: Vec<Vec<Import>>,
    /// Imports in use.
    used: usize,
    notices: Vec<(u32, Notice)>,
}

/// Places that one part gives in another.
#[derive(Default)]
struct Places {
    free: Vec<u32>,
    /// How many packets left with the headers in each.
    packets: Vec<u32>,
}

/// Headers of another part, two cache lines.
#[derive(Default)]
#[repr(align(64))]
struct Import {
    ext: Ext,
    /// Packets that are done with it.
    done: u32,
    /// Packets that there are, or [`Announcement::MORE`]; 0 where the place is free.
    packets: u32,
}

impl ExtId {
    /// The number of an entry that packets from part `from` to part `to` have.
    fn foreign(from: u32, to: u32, place: u32) -> ExtId {
        assert!(place < PLACES, "fewer than 2^23 messages on their way between two parts");
        ExtId(FOREIGN | to << TO | from << FROM | place)
    }
    #[inline(always)]
    fn to(self) -> u32 {
        self.0 >> TO & PARTS
    }
    #[inline(always)]
    fn from(self) -> u32 {
        self.0 >> FROM & PARTS
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self.0 & PLACES) as usize
    }
    /// Whether its packets go to part `to`.
    pub(crate) fn is_for(self, to: u32) -> bool {
        self.to() == to
    }
}

impl Borders {
    pub(crate) fn new(part: u32, parts: u32) -> Borders {
        let each = || 0..parts;
        Borders {
            part,
            places: each().map(|_| Places::default()).collect(),
            imports: each().map(|_| Vec::new()).collect(),
            used: 0,
            notices: Vec::new(),
        }
    }

    /// A place in part `to`, for headers of this one.
    pub(crate) fn place(&mut self, to: u32) -> ExtId {
        let places = &mut self.places[to as usize];
        let place = places.free.pop().unwrap_or_else(|| {
            places.packets.push(0);
            places.packets.len() as u32 - 1
        });
        ExtId::foreign(self.part, to, place)
    }
    /// A packet leaves with the entry `id` of another part, and more of them may.
    pub(crate) fn leaves(&mut self, id: ExtId) {
        self.places[id.to() as usize].packets[id.place()] += 1;
    }
    /// No more packets leave with the entry `id` of another part.
    pub(crate) fn ends(&mut self, id: ExtId) {
        let packets = std::mem::take(&mut self.places[id.to() as usize].packets[id.place()]);
        self.notices.push((id.to(), Notice::Packets(id, packets)));
    }

    /// Fetches an import into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, id: ExtId) {
        if let Some(import) = self.imports.get(id.from() as usize).and_then(|imports| imports.get(id.place())) {
            prefetch_lines::<_, 2>(import);
        }
    }
    pub(crate) fn at(&self, id: ExtId) -> Option<&Ext> {
        self.imports
            .get(id.from() as usize)?
            .get(id.place())
            .filter(|import| import.packets > 0 && id.is_for(self.part))
            .map(|import| &import.ext)
    }
    pub(crate) fn at_mut(&mut self, id: ExtId) -> Option<&mut Ext> {
        self.import(id).map(|import| &mut import.ext)
    }
    fn import(&mut self, id: ExtId) -> Option<&mut Import> {
        let part = self.part;
        self.imports.get_mut(id.from() as usize)?.get_mut(id.place()).filter(|import| import.packets > 0 && id.is_for(part))
    }

    /// A packet with the entry `id` is done with it; here, or it was dropped on its way through this part.
    pub(crate) fn free(&mut self, id: ExtId) {
        if id.is_none() {
            return;
        }
        if !id.is_for(self.part) {
            return self.notices.push((id.to(), Notice::Dropped(id)));
        }
        let Some(import) = self.import(id) else { return };
        import.done += 1;
        if import.done == import.packets {
            self.forget(id);
        }
    }
    /// The same, with a copy of the headers.
    pub(crate) fn take(&mut self, id: ExtId) -> Option<Ext> {
        let import = self.import(id)?;
        let last = import.done + 1 == import.packets;
        let ext = if last { std::mem::take(&mut import.ext) } else { import.ext.clone() };
        self.free(id);
        Some(ext)
    }
    /// All packets with the entry `id` are done with it.
    fn forget(&mut self, id: ExtId) {
        if let Some(import) = self.import(id) {
            import.ext.let_go();
            import.packets = 0;
            self.used -= 1;
            self.notices.push((id.from(), Notice::Free(id)));
        }
    }

    pub(crate) fn learn(&mut self, Announcement { id, packets, ext }: Announcement) {
        let imports = &mut self.imports[id.from() as usize];
        if imports.len() <= id.place() {
            imports.resize_with(id.place() + 1, Import::default);
        }
        imports[id.place()] = Import { ext, done: 0, packets };
        self.used += 1;
    }
    pub(crate) fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Free(id) => self.places[id.to() as usize].free.push(id.0 & PLACES),
            Notice::Dropped(id) => self.free(id),
            Notice::Packets(id, packets) => {
                let Some(import) = self.import(id) else { return };
                import.packets = packets;
                if import.done == packets {
                    self.forget(id);
                }
            }
        }
    }
    pub(crate) fn notices(&mut self) -> impl Iterator<Item = (u32, Notice)> + '_ {
        self.notices.drain(..)
    }
    /// Imports in use.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// The bit of numbers that packets between parts have; slots of a part are numbered below it.
const FOREIGN: u32 = 1 << 31;
/// Where the parts stand in a number.
const TO: u32 = 27;
const FROM: u32 = 23;
/// Parts are numbered from 0 up to this.
const PARTS: u32 = 15;
/// Places are numbered below this.
const PLACES: u32 = (1 << FROM) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext_headers::ExtHeaders;

    #[test]
    fn an_import_is_two_cache_lines() {
        assert_eq!(size_of::<Import>(), 128);
    }

    fn hand_over(from: &mut ExtHeaders, to: &mut ExtHeaders, part: u32) {
        for (part_of, notice) in from.notices().collect::<Vec<_>>() {
            assert_eq!(part_of, part);
            to.hear(notice);
        }
    }

    /// Three packets of a message, of which one is dropped on its way: told of once, forgotten when the last is done with.
    #[test]
    fn a_message_is_told_of_once() {
        let [mut sender, mut between, mut receiver] = [0, 1, 2].map(|part| ExtHeaders::of_part(part, 3));
        let id = sender.alloc(Ext { imm: 7, ..Ext::default() });
        sender.share(id);
        sender.share(id);
        let (far, told) = sender.export(id, 2);
        receiver.learn(told.expect("the first packet tells"));
        assert_eq!(sender.export(id, 2), (far, None));
        assert_eq!((between.export(far, 2), between.at(far)), ((far, None), None));
        assert_eq!((receiver.at(far).unwrap().imm, receiver.len()), (7, 1));
        receiver.free(far);
        between.free(far);
        hand_over(&mut between, &mut receiver, 2);
        assert_eq!(sender.export(id, 2), (far, None));
        assert!(sender.is_empty());
        assert_eq!(receiver.take(far).unwrap().imm, 7, "how many there are is not known here");
        hand_over(&mut sender, &mut receiver, 2);
        assert!(receiver.is_empty() && receiver.at(far).is_none());
        hand_over(&mut receiver, &mut sender, 0);
        let next = sender.alloc(Ext::default());
        let (again, told) = sender.export(next, 2);
        assert_eq!(again, far, "its place is free");
        receiver.learn(told.expect("another message"));
        receiver.free(again);
        assert!(sender.is_empty() && receiver.is_empty() && sender.notices().next().is_none());
    }

    #[test]
    fn no_headers_stay_none() {
        let mut side = ExtHeaders::of_part(1, 2);
        assert_eq!(side.export(ExtId::NONE, 0), (ExtId::NONE, None));
        side.free(ExtId::NONE);
        assert!(side.at(ExtId::NONE).is_none() && side.take(ExtId::NONE).is_none() && side.notices().next().is_none());
    }
}
