//! What the messages of the library say, and how it travels.
//!
//! The simulated NICs move sizes, not bytes. What a message says rides in its last packet as [`AppWords`]: the receiver finds it with the
//! completion of a send, behind the watch of its ring, or where its last byte is in the stream of a socket. Messages within a node wait in its
//! memory, which both ranks share in truth ([`Wires`]).

use std::cell::RefCell;
use std::collections::VecDeque;

use fabriscope_units::Time;
use fabriscope_verbs::AppWords;
use rustc_hash::FxHashMap;

use super::active_message::Question;
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
    /// Buffers of the other side that its owner may use again.
    pub credits: u32,
    /// Its place among the messages to the same peer; where those overtake each other, among the announcements of messages.
    pub number: Option<u32>,
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
    /// A short message of `size` bytes that asks the target's library for something.
    Ask { asked: Question, size: u32 },
    /// Its answer, with the element that was there.
    Answer { tag: u32, size: u32, old: u64 },
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
        matches!(self, Body::Eager { .. } | Body::RequestToSend { .. } | Body::Ask { .. } | Body::Answer { .. })
    }
    /// Payload behind the header, in bytes; `None` for a control message.
    pub fn payload(self) -> Option<u32> {
        match self {
            Body::Eager { here, .. } => Some(here),
            Body::Part { size, .. } | Body::Data { size, .. } | Body::Ask { size, .. } | Body::Answer { size, .. } => Some(size),
            Body::RequestToSend { .. } | Body::ClearToSend { .. } | Body::Finished { .. } => None,
            Body::Room { .. } | Body::Chunk { .. } | Body::Credits => None,
        }
    }

    /// What kind it is, a number of 22 bits, and five of 32.
    fn fields(self) -> (u8, u32, [u32; 5]) {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        match self {
            Body::Eager { tag, size, here, message } => (0, 0, [tag, size, here, message as u32, (message >> 32) as u32]),
            Body::Part { message, size } => (1, 0, [size, 0, 0, message as u32, (message >> 32) as u32]),
            Body::RequestToSend { tag, size, sender, source } => {
                let (source, gpu) = match source {
                    Source::Host => (0, 0),
                    Source::Device(gpu) => (1, gpu),
                    Source::Staged => (2, 0),
                };
                (2, 0, [tag, size, sender.0, source, gpu])
            }
            Body::ClearToSend { sender, receiver, size, device } => (3, device.into(), [sender.0, receiver.0, size, 0, 0]),
            Body::Finished { request, pieces } => (4, 0, [request.0, pieces, 0, 0, 0]),
            Body::Data { receiver, size } => (5, 0, [receiver.0, size, 0, 0, 0]),
            Body::Room { sender, receiver, chunks, device } => (6, device.into(), [sender.0, receiver.0, chunks, 0, 0]),
            Body::Chunk { receiver, size } => (7, 0, [receiver.0, size, 0, 0, 0]),
            Body::Credits => (8, 0, [0; 5]),
            Body::Ask { asked, size } => {
                // Two operands of 8 bytes at most, and windows end below 2⁴⁰.
                let (kind, wide, offset, [first, second]) = asked.fields().unwrap_or_default();
                let extra = kind | u32::from(wide) << 3 | (size & 31) << 4 | ((offset >> 32) as u32 & 255) << 9;
                let ([a, b], [c, d]) = (halves(first), halves(second));
                (9, extra, [offset as u32, a, b, c, d])
            }
            Body::Answer { tag, size, old } => (10, 0, [tag, size, 0, old as u32, (old >> 32) as u32]),
        }
    }
    fn from_fields(kind: u8, extra: u32, fields: [u32; 5]) -> Option<Body> {
        let [a, b, c, d, e] = fields;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (message, device) = (pair(d, e), extra & 1 != 0);
        Some(match kind {
            0 => Body::Eager { tag: a, size: b, here: c, message },
            1 => Body::Part { message, size: a },
            2 => {
                let source = match d {
                    0 => Source::Host,
                    1 => Source::Device(e),
                    2 => Source::Staged,
                    _ => return None,
                };
                Body::RequestToSend { tag: a, size: b, sender: RequestId(c), source }
            }
            3 => Body::ClearToSend { sender: RequestId(a), receiver: RequestId(b), size: c, device },
            4 => Body::Finished { request: RequestId(a), pieces: b },
            5 => Body::Data { receiver: RequestId(a), size: b },
            6 => Body::Room { sender: RequestId(a), receiver: RequestId(b), chunks: c, device },
            7 => Body::Chunk { receiver: RequestId(a), size: b },
            8 => Body::Credits,
            9 => {
                let offset = pair(a, extra >> 9 & 255);
                let asked = Question::from_fields(extra & 7, extra & 8 != 0, offset, [pair(b, c), pair(d, e)])?;
                Body::Ask { asked, size: extra >> 4 & 31 }
            }
            10 => Body::Answer { tag: a, size: b, old: message },
            _ => return None,
        })
    }
}

impl Envelope {
    /// The words that say it: kind and flags, credits, the number, five numbers of the body.
    pub fn words(self) -> AppWords {
        let (kind, extra, [a, b, c, d, e]) = self.body.fields();
        let flags = u32::from(kind) | u32::from(self.number.is_some()) << 8 | extra << 9;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        AppWords([pair(flags, self.credits), pair(self.number.unwrap_or(0), a), pair(b, c), pair(d, e)])
    }
    /// What words say; nothing that this library would.
    pub fn heard(words: AppWords) -> Option<Envelope> {
        let AppWords([first, second, third, fourth]) = words;
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((flags, credits), (number, a), (b, c), (d, e)) = (halves(first), halves(second), halves(third), halves(fourth));
        let body = Body::from_fields(flags as u8, flags >> 9, [a, b, c, d, e])?;
        Some(Envelope { credits, number: (flags & 1 << 8 != 0).then_some(number), body })
    }
}

/// Slots that were filled: from when on that can be seen, and the bytes in them.
type Filled = VecDeque<(Time, u32)>;
/// Messages from one rank to another, and from when on they can be seen.
type Seen = VecDeque<(Time, Envelope)>;

/// What does not travel in packets: messages through the memory of a node.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    /// Messages that the second has not handled, in order.
    in_order: RefCell<FxHashMap<(u32, u32), Seen>>,
    /// Slots that the second has not read yet: from when on it can, and the bytes in them.
    slots: RefCell<FxHashMap<(u32, u32), Filled>>,
}

impl Wires {
    pub fn put(&self, from: u32, to: u32, visible: Time, envelope: Envelope) {
        self.in_order.borrow_mut().entry((from, to)).or_default().push_back((visible, envelope));
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
    /// Whether `to` sees a message of `from` by `now`.
    pub fn has(&self, from: u32, to: u32, now: Time) -> bool {
        self.in_order.borrow().get(&(from, to)).and_then(VecDeque::front).is_some_and(|(visible, _)| *visible <= now)
    }
    /// The next message from `from` to `to` and when it became visible, if that is so by `now`.
    pub fn take(&self, from: u32, to: u32, now: Time) -> Option<(Time, Envelope)> {
        let mut wires = self.in_order.borrow_mut();
        let wire = wires.get_mut(&(from, to))?;
        if wire.front().is_some_and(|(visible, _)| *visible <= now) { wire.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::atomic_op::{AtomicOp, Width};
    use super::*;

    #[test]
    fn words_say_what_was_meant() {
        let (one, two) = (RequestId(7), RequestId(u32::MAX));
        let long = 0xfedc_ba98_7654_3210;
        let element = |operation, width| Question::Element { operation, width, offset: (1 << 40) - 8 };
        let bodies = [
            Body::Eager { tag: 1, size: u32::MAX, here: 3, message: long },
            Body::Part { message: long, size: 9 },
            Body::RequestToSend { tag: 1 << 30, size: 2, sender: one, source: Source::Host },
            Body::RequestToSend { tag: 0, size: 2, sender: two, source: Source::Device(5) },
            Body::RequestToSend { tag: 0, size: 2, sender: one, source: Source::Staged },
            Body::ClearToSend { sender: one, receiver: two, size: 11, device: true },
            Body::ClearToSend { sender: two, receiver: one, size: 11, device: false },
            Body::Finished { request: two, pieces: 12 },
            Body::Data { receiver: one, size: 13 },
            Body::Room { sender: one, receiver: two, chunks: 4, device: true },
            Body::Chunk { receiver: two, size: 14 },
            Body::Credits,
            Body::Ask { asked: Question::Lock, size: 0 },
            Body::Ask { asked: element(AtomicOp::Add(long), Width::Eight), size: 8 },
            Body::Ask { asked: element(AtomicOp::Swap(1), Width::Four), size: 4 },
            Body::Ask { asked: element(AtomicOp::CompareSwap { compare: long, swap: u64::MAX }, Width::Eight), size: 16 },
            Body::Answer { tag: 1 << 29, size: 8, old: long },
        ];
        for body in bodies {
            for (credits, number) in [(0, None), (17, Some(0)), (u32::MAX, Some(u32::MAX))] {
                let envelope = Envelope { credits, number, body };
                assert_eq!(Envelope::heard(envelope.words()), Some(envelope));
            }
        }
        assert_eq!(Envelope::heard(AppWords([11, 0, 0, 0])), None, "no body has this number");
        assert_eq!(Envelope::heard(AppWords([9 | 7 << 9, 0, 0, 0])), None, "no operation has this number");
        assert_eq!(Envelope::heard(AppWords([2, 0, 0, 3])), None, "no source has this number");
    }
}
