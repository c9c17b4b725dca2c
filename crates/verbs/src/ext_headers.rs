//! What only some packets carry: addresses, operands, immediate data, datagram headers, payload bytes.
//!
//! Modelled: a slab; a packet holds the number of its entry, so packets stay small and are copied freely. Entries of packets between
//! the parts of a divided run are kept by `ext_borders`.
//! Not modelled: the layout on the wire (crate `wire`).

use fabriscope_tcp::Segment;
use fabriscope_tcp::kernel::Datagram;
use fabriscope_wire::Delivery;
use fabriscope_wire::psm2::Header;

use fabriscope_prefetch::prefetch_lines;

use crate::cc::Telemetry;
use crate::ext_borders::{Announcement, Borders, Notice};
use crate::ids::{Lid, QpNum, Rkey};
use crate::payload::PayloadBytes;
use crate::transport::iwarp::frame::Frame;
use crate::words::AppWords;

/// The number of an entry of a [`ExtHeaders`], or [`ExtId::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtId(pub u32);

impl Default for ExtId {
    fn default() -> ExtId {
        ExtId::NONE
    }
}

impl ExtId {
    /// The packet carries nothing beyond its fixed fields.
    pub const NONE: ExtId = ExtId(u32::MAX);

    /// Whether there is no entry.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }
}

/// The extension headers of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ext {
    /// RETH, AtomicETH: first byte at the responder.
    pub remote_addr: u64,
    /// AtomicETH: what is added or compared. AtomicAckETH: the old value.
    pub compare_add: u64,
    /// AtomicETH: what is stored.
    pub swap: u64,
    /// Extended atomics: bits that are not compared, and bits that stay.
    pub masks: (u64, u64),
    /// RETH, AtomicETH: the key.
    pub rkey: Rkey,
    /// RETH: bytes of the whole request.
    pub dma_length: u32,
    /// ImmDt.
    pub imm: u32,
    /// DETH: the key of the destination queue pair.
    pub qkey: u32,
    /// DETH: the sender's queue pair.
    pub src_qp: QpNum,
    /// The sender's address, of the link header of datagrams.
    pub slid: Lid,
    /// XRCETH: the shared receive queue. RDETH: the queue pair. RUD: the first packet of the message, or the packet that is
    /// acknowledged.
    pub context: u32,
    /// DC, RD, RUD: the packet number at which the connection, request or context began.
    pub start: u32,
    /// RUD under receiver credits: what the sender wants in all, or was given.
    pub credit: u32,
    /// What links wrote into the packet on its way, or what is told of it.
    pub links: Telemetry,
    /// BTH: the P_Key, where the port has a table of them.
    pub pkey: u16,
    /// RUD: the delivery mode.
    pub delivery: Delivery,
    /// What is in it.
    pub content: ExtContent,
    /// The payload, when real memory is attached.
    pub data: Option<PayloadBytes>,
    /// The headers of a protocol without base transport header.
    pub foreign: Foreign,
}

/// What an entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExtContent {
    /// Headers.
    #[default]
    Headers,
    /// Nothing but the P_Key.
    KeyOnly,
    /// Headers, and what the program says with the SEND or WRITE that the packet ends, in the place of the operands.
    Words,
}

/// The headers of packets without a base transport header, by protocol.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Foreign {
    /// The packet has a base transport header.
    #[default]
    None,
    /// The kernel's TCP.
    Tcp(Box<Segment>),
    /// The same, and programs say something with messages that end in it, by the position in the stream at which they end.
    TcpSaying(Box<(Segment, Vec<(u64, AppWords)>)>),
    /// The kernel's UDP.
    Udp(Box<Datagram>),
    /// RDMAP over TCP in the adapter.
    Iwarp(Box<Frame>),
    /// PSM2.
    Psm2(Box<Header>),
}

impl Ext {
    /// The segment of a packet of the kernel's TCP.
    #[must_use]
    pub fn segment(&self) -> Option<&Segment> {
        match &self.foreign {
            Foreign::Tcp(segment) => Some(segment),
            Foreign::TcpSaying(saying) => Some(&saying.0),
            _ => None,
        }
    }
    /// The datagram, or the fragment, of a packet of the kernel's UDP.
    #[must_use]
    pub fn datagram(&self) -> Option<&Datagram> {
        match &self.foreign {
            Foreign::Udp(datagram) => Some(datagram),
            _ => None,
        }
    }
    /// What a packet of iWARP carries.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        match &self.foreign {
            Foreign::Iwarp(frame) => Some(frame),
            _ => None,
        }
    }
    /// What the program says with the message that this packet ends.
    #[must_use]
    pub fn words(&self) -> Option<AppWords> {
        (self.content == ExtContent::Words).then_some(AppWords([self.compare_add, self.swap, self.masks.0, self.masks.1]))
    }
    /// Has it say `words`; packets with operands of their own have none.
    pub(crate) fn say(&mut self, words: AppWords) {
        let AppWords([first, second, third, fourth]) = words;
        (self.compare_add, self.swap, self.masks, self.content) = (first, second, (third, fourth), ExtContent::Words);
    }
    /// Nobody reads it any more. What it owns goes now, the rest when it is written again.
    #[inline]
    pub(crate) fn let_go(&mut self) {
        (self.data, self.foreign) = (None, Foreign::None);
        if !self.links.is_empty() {
            self.links = Telemetry::default();
        }
    }
    /// Whether real bytes, if there are any, are as many as the packet says.
    pub(crate) fn holds(&self, payload: u16) -> bool {
        self.data.as_ref().is_none_or(|data| data.len() == usize::from(payload))
    }
}

/// A slab of [`Ext`].
#[derive(Default)]
pub struct ExtHeaders {
    slots: Vec<Slot>,
    /// The first free slot, one more than its number; 0 where there is none.
    free: u32,
    used: usize,
    /// What other parts of a divided run have to do with it.
    borders: Option<Box<Borders>>,
}

/// A place of the slab, two cache lines. What it holds is written and read where it lies: a copy would cost more than the rest.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    ext: Ext,
    /// Of a slot in use: [`USED`] and how many packets and messages hold it. Of a free one: the next, as [`ExtHeaders::free`] has it.
    state: u32,
    /// The number that packets with it have from now on, once some left for the part of the receiver.
    far: ExtId,
}

/// The slot is in use.
const USED: u32 = 1 << 31;

impl Slot {
    #[inline(always)]
    fn is_used(&self) -> bool {
        self.state & USED != 0
    }
}

impl ExtHeaders {
    /// An empty slab.
    pub fn new() -> ExtHeaders {
        ExtHeaders::default()
    }
    /// An empty slab for one of several parts of a run.
    pub fn of_part(part: u32, parts: u32) -> ExtHeaders {
        ExtHeaders { borders: (parts > 1).then(|| Box::new(Borders::new(part, parts))), ..ExtHeaders::default() }
    }
    /// Stores `ext`.
    pub fn alloc(&mut self, ext: Ext) -> ExtId {
        self.alloc_with(|slot| *slot = ext)
    }
    /// An entry that `fill` writes, over the default one.
    #[inline]
    pub fn alloc_with(&mut self, fill: impl FnOnce(&mut Ext)) -> ExtId {
        self.used += 1;
        if self.free == 0 {
            self.slots.push(Slot::default());
            self.free = u32::try_from(self.slots.len()).expect("fewer than 2^32 packets in flight");
        }
        let index = self.free - 1;
        let slot = &mut self.slots[index as usize];
        self.free = std::mem::replace(&mut slot.state, USED | 1);
        slot.ext = Ext::default();
        fill(&mut slot.ext);
        ExtId(index)
    }
    /// An entry, to be written into; `None` as for [`ExtHeaders::at`].
    #[inline]
    pub fn at_mut(&mut self, id: ExtId) -> Option<&mut Ext> {
        match self.slots.get_mut(id.0 as usize) {
            Some(slot) => slot.is_used().then_some(&mut slot.ext),
            None => self.borders.as_mut()?.at_mut(id),
        }
    }
    /// Looks at an entry; `None` for `ExtId::NONE`, for freed entries and for those of packets that pass this part.
    #[inline]
    pub fn at(&self, id: ExtId) -> Option<&Ext> {
        match self.slots.get(id.0 as usize) {
            Some(slot) => slot.is_used().then_some(&slot.ext),
            None => self.borders.as_ref()?.at(id),
        }
    }
    /// One more packet holds an entry, which nobody writes any more.
    #[inline]
    pub fn share(&mut self, id: ExtId) -> ExtId {
        match self.slots.get_mut(id.0 as usize).filter(|slot| slot.is_used()) {
            Some(slot) => {
                slot.state += 1;
                id
            }
            None => ExtId::NONE,
        }
    }
    /// Takes an entry out; a copy where others hold it too.
    pub fn take(&mut self, id: ExtId) -> Option<Ext> {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else { return self.borders.as_mut()?.take(id) };
        if slot.state > USED | 1 {
            slot.state -= 1;
            return Some(slot.ext.clone());
        }
        let taken = slot.is_used().then(|| std::mem::take(&mut slot.ext))?;
        self.release(id);
        Some(taken)
    }
    /// The slot of an entry in use is free again.
    #[inline]
    fn release(&mut self, id: ExtId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.state = self.free;
        if !slot.far.is_none()
            && let Some(borders) = &mut self.borders
        {
            borders.ends(std::mem::take(&mut slot.far));
        }
        self.free = id.0 + 1;
        self.used -= 1;
    }
    /// Fetches an entry into the cache.
    #[inline(always)]
    pub fn prefetch(&self, id: ExtId) {
        if let Some(slot) = self.slots.get(id.0 as usize) {
            prefetch_lines::<_, 2>(slot);
        } else if let Some(borders) = &self.borders {
            borders.prefetch(id);
        }
    }
    /// Forgets an entry, if nobody else holds it: for a packet that has arrived or is dropped on its way. `ExtId::NONE` is allowed.
    #[inline]
    pub fn free(&mut self, id: ExtId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else {
            if let Some(borders) = &mut self.borders {
                borders.free(id);
            }
            return;
        };
        if slot.state > USED | 1 {
            slot.state -= 1;
        } else if slot.is_used() {
            slot.ext.let_go();
            self.release(id);
        }
    }
    /// A copy of an entry: for a packet that is duplicated.
    pub fn duplicate(&mut self, id: ExtId) -> ExtId {
        match self.at(id) {
            Some(ext) => {
                let copy = ext.clone();
                self.alloc(copy)
            }
            None => ExtId::NONE,
        }
    }
    /// Entries in use.
    pub fn len(&self) -> usize {
        self.used + self.borders.as_ref().map_or(0, |borders| borders.len())
    }
    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Between the parts of a divided run.
impl ExtHeaders {
    /// A packet with the entry `id` leaves for a receiver in part `to`: the number that it has from now on, and the headers themselves
    /// where that part has not got them yet.
    #[inline]
    pub fn export(&mut self, id: ExtId, to: u32) -> (ExtId, Option<Announcement>) {
        let (Some(borders), Some(slot)) = (&mut self.borders, self.slots.get_mut(id.0 as usize).filter(|slot| slot.is_used())) else {
            return (id, None); // it has none, or left another part before
        };
        let last = slot.state == USED | 1;
        let (known, far) = (!slot.far.is_none(), slot.far);
        if known && far.is_for(to) {
            borders.leaves(far);
            if last {
                self.release(id)
            } else {
                slot.state -= 1
            }
            return (far, None);
        }
        let far = borders.place(to);
        if last {
            let ext = std::mem::take(&mut slot.ext);
            self.release(id);
            return (far, Some(Announcement { id: far, packets: 1, ext }));
        }
        slot.state -= 1;
        if !known {
            slot.far = far;
            borders.leaves(far);
        }
        (far, Some(Announcement { id: far, packets: if known { 1 } else { Announcement::MORE }, ext: slot.ext.clone() }))
    }
    /// The part of a sender tells of headers.
    pub fn learn(&mut self, told: Announcement) {
        if let Some(borders) = &mut self.borders {
            borders.learn(told);
        }
    }
    /// Another part tells what became of an entry.
    pub fn hear(&mut self, notice: Notice) {
        if let Some(borders) = &mut self.borders {
            borders.hear(notice);
        }
    }
    /// What other parts have to know: which part, and what.
    pub fn notices(&mut self) -> impl Iterator<Item = (u32, Notice)> + '_ {
        self.borders.iter_mut().flat_map(|borders| borders.notices())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is written with every packet that has one of its own.
    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!((size_of::<Ext>(), size_of::<Slot>()), (112, 128));
    }

    #[test]
    fn slots_are_used_again() {
        let mut side = ExtHeaders::new();
        let a = side.alloc(Ext { imm: 1, ..Ext::default() });
        let b = side.alloc(Ext { imm: 2, ..Ext::default() });
        assert_eq!(side.take(a).unwrap().imm, 1);
        assert!(side.take(a).is_none() && side.at(a).is_none());
        let c = side.alloc(Ext { imm: 3, ..Ext::default() });
        assert_eq!(c, a);
        assert_eq!((side.at(b).unwrap().imm, side.at(c).unwrap().imm, side.len()), (2, 3, 2));
        side.free(ExtId::NONE);
        let d = side.duplicate(b);
        assert_eq!(side.at(d), side.at(b));
        assert_eq!(side.duplicate(ExtId::NONE), ExtId::NONE);
        side.free(b);
        side.free(c);
        side.free(d);
        assert!(side.is_empty());
    }

    #[test]
    fn an_entry_lives_as_long_as_somebody_holds_it() {
        let mut side = ExtHeaders::new();
        let id = side.alloc(Ext { imm: 7, ..Ext::default() });
        assert_eq!((side.share(id), side.share(id), side.share(ExtId::NONE)), (id, id, ExtId::NONE));
        assert_eq!(side.take(id).unwrap().imm, 7);
        side.free(id);
        assert_eq!((side.at(id).unwrap().imm, side.len()), (7, 1));
        assert_eq!(side.take(id).unwrap().imm, 7);
        assert!(side.is_empty() && side.at(id).is_none() && side.share(id).is_none());
    }
}
