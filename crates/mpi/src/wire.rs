//! What the messages of the library say.
//!
//! The simulated NICs move sizes, not bytes. The words of a message therefore wait in a queue beside the wire until
//! the NIC shows that the packets arrived: a reliable connection delivers in order, so the first words of the queue
//! always belong to the first arrival. Over SRD a packet carries the number of its words as immediate data.

use std::cell::RefCell;
use std::collections::VecDeque;

use fabriscope_units::Time;
use rustc_hash::FxHashMap;

use super::request::RequestId;

/// How a message shows at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// RDMA write into the ring that the receiver polls.
    Ring,
    /// Send: the receiver polls its completion queue.
    Send,
    /// Memory of the node that both share, from this time on.
    Memory(Time),
}

/// One message of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub rail: usize,
    pub channel: Channel,
    /// Buffers of the other side that its owner may use again.
    pub credits: u32,
    /// Its place among the announcements of messages to the same peer.
    pub order: Option<u32>,
    pub body: Body,
}

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// A short message of `size` bytes with the first `here` of them; the rest comes in parts.
    Eager { tag: u32, size: u32, here: u32, message: u64 },
    /// The next part of a short message.
    Part { message: u64, size: u32 },
    /// A long message is ready to be fetched.
    RequestToSend { tag: u32, size: u32, sender: RequestId, source: Source },
    /// The buffer for the next `size` bytes of a long message is ready.
    ClearToSend { sender: RequestId, receiver: RequestId, size: u32, device: bool },
    /// One of `pieces` pieces of a long message has been moved.
    Finished { request: RequestId, pieces: u32 },
    /// A part of a long message, payload included.
    Data { receiver: RequestId, size: u32 },
    /// There is room for the next `chunks` chunks of a message that goes through host memory; `device`: on the receiver's GPU.
    Room { sender: RequestId, receiver: RequestId, chunks: u32, device: bool },
    /// The next chunk of such a message has been written.
    Chunk { receiver: RequestId, size: u32 },
    /// Nothing but credits.
    Credits,
}

/// Where a long message can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In host memory.
    Host,
    /// In the memory of this GPU of the sender's node.
    Device(u32),
    /// Nowhere: the sender takes it through host memory.
    Staged,
}

impl Body {
    /// Whether it announces a message: these are handled in the order in which they were sent.
    pub fn announces(self) -> bool {
        matches!(self, Body::Eager { .. } | Body::RequestToSend { .. })
    }
    /// Payload behind the header, in bytes; `None` for a control message.
    pub fn payload(self) -> Option<u32> {
        match self {
            Body::Eager { here, .. } => Some(here),
            Body::Part { size, .. } | Body::Data { size, .. } => Some(size),
            Body::RequestToSend { .. } | Body::ClearToSend { .. } | Body::Finished { .. } => None,
            Body::Room { .. } | Body::Chunk { .. } | Body::Credits => None,
        }
    }
}

/// Slots that were filled: from when on that can be seen, and the bytes in them.
type Filled = VecDeque<(Time, u32)>;

/// The words in flight between all pairs of ranks.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    in_order: RefCell<FxHashMap<(u32, u32), VecDeque<Envelope>>>,
    /// Where messages overtake each other: those of each pair by their numbers.
    numbered: RefCell<FxHashMap<(u32, u32), Numbered>>,
    /// Slots that the second has not read yet: from when on it can, and the bytes in them.
    slots: RefCell<FxHashMap<(u32, u32), Filled>>,
}

/// Words that carry numbers.
#[derive(Debug, Default)]
struct Numbered {
    next: u32,
    waiting: FxHashMap<u32, Envelope>,
}

impl Wires {
    pub fn put(&self, from: u32, to: u32, envelope: Envelope) {
        self.in_order.borrow_mut().entry((from, to)).or_default().push_back(envelope);
    }
    /// Gives the words the number that their packet carries.
    pub fn number(&self, from: u32, to: u32, envelope: Envelope) -> u32 {
        let mut wires = self.numbered.borrow_mut();
        let wire = wires.entry((from, to)).or_default();
        wire.waiting.insert(wire.next, envelope);
        wire.next = wire.next.wrapping_add(1);
        wire.next.wrapping_sub(1)
    }
    /// The words whose packet has arrived.
    pub fn numbered(&self, from: u32, to: u32, number: u32) -> Option<Envelope> {
        self.numbered.borrow_mut().get_mut(&(from, to))?.waiting.remove(&number)
    }
    /// Fills a slot of `from` for `to`, which sees it from `visible` on.
    pub fn fill_slot(&self, from: u32, to: u32, visible: Time, bytes: u32) {
        self.slots.borrow_mut().entry((from, to)).or_default().push_back((visible, bytes));
    }
    /// Whether `to` sees a full slot of `from` by `now`.
    pub fn has_slot(&self, from: u32, to: u32, now: Time) -> bool {
        self.slots.borrow().get(&(from, to)).and_then(VecDeque::front).is_some_and(|(visible, _)| *visible <= now)
    }
    /// Reads that slot: the bytes in it.
    pub fn take_slot(&self, from: u32, to: u32) -> Option<u32> {
        self.slots.borrow_mut().get_mut(&(from, to))?.pop_front().map(|(_, bytes)| bytes)
    }
    /// The next words from `from` to `to`, if `arrived` says that their packets are there.
    pub fn take(&self, from: u32, to: u32, arrived: impl FnOnce(&Envelope) -> bool) -> Option<Envelope> {
        let mut wires = self.in_order.borrow_mut();
        let wire = wires.get_mut(&(from, to))?;
        if wire.front().is_some_and(arrived) { wire.pop_front() } else { None }
    }
}
