//! What the messages of the library say.
//!
//! The simulated NICs move sizes, not bytes. The words of a message therefore wait in a queue beside the wire until
//! the NIC shows that the packets arrived: a reliable connection delivers in order, so the first words of the queue
//! always belong to the first arrival.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use super::request::RequestId;

/// How a message shows at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// RDMA write into the ring that the receiver polls.
    Ring,
    /// Send: the receiver polls its completion queue.
    Send,
}

/// One message of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub rail: usize,
    pub channel: Channel,
    /// Buffers of the other side that its owner may use again.
    pub credits: u32,
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
    RequestToSend { tag: u32, size: u32, sender: RequestId },
    /// The buffer for a long message is ready.
    ClearToSend { sender: RequestId, receiver: RequestId },
    /// One of `pieces` pieces of a long message has been moved.
    Finished { request: RequestId, pieces: u32 },
    /// A part of a long message, payload included.
    Data { receiver: RequestId, size: u32 },
    /// Nothing but credits.
    Credits,
}

impl Body {
    /// Payload behind the header, in bytes; `None` for a control message.
    pub fn payload(self) -> Option<u32> {
        match self {
            Body::Eager { here, .. } => Some(here),
            Body::Part { size, .. } | Body::Data { size, .. } => Some(size),
            Body::RequestToSend { .. } | Body::ClearToSend { .. } | Body::Finished { .. } | Body::Credits => None,
        }
    }
}

/// The words under way between all pairs of ranks.
#[derive(Debug, Default)]
pub(crate) struct Wires(RefCell<BTreeMap<(u32, u32), VecDeque<Envelope>>>);

impl Wires {
    pub fn put(&self, from: u32, to: u32, envelope: Envelope) {
        self.0.borrow_mut().entry((from, to)).or_default().push_back(envelope);
    }
    /// The next words from `from` to `to`, if `arrived` says that their packets are there.
    pub fn take(&self, from: u32, to: u32, arrived: impl FnOnce(&Envelope) -> bool) -> Option<Envelope> {
        let mut wires = self.0.borrow_mut();
        let wire = wires.get_mut(&(from, to))?;
        if wire.front().is_some_and(arrived) { wire.pop_front() } else { None }
    }
}
