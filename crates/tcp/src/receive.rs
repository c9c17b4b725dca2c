//! The receiving half: what came, what is still missing, when to say so.
//!
//! Source: RFC 9293 §3.10.7.4 and §3.8.6.2.2 (silly windows), RFC 2018 §4 (which blocks), RFC 5681 §4.2 (delayed
//! acknowledgements), RFC 3168 §6.1.3 and RFC 8257 §3.2 (echo of marks).

use std::collections::{BTreeMap, VecDeque};

use fabriscope_units::{Span, Time};
use fabriscope_wire::SackBlocks;

use crate::config::{Algorithm, Config};
use crate::seq::Seq;

/// What became of a segment that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Arrival {
    /// Bytes of its payload that came for the first time, in whatever order.
    pub fresh: u64,
    /// Bytes that can be read now and could not before.
    pub in_order: u64,
    /// Bytes of our stream that it acknowledged first.
    pub acked: u64,
    /// The connection is established by it.
    pub established: bool,
    /// The peer sends no more: all it sent has come.
    pub ended: bool,
    /// The connection is over by force.
    pub reset: bool,
}

/// The receiving half. Positions count from the peer's SYN.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub initial: Seq,
    /// The next position expected.
    pub next: u64,
    /// Ranges beyond it, by their start.
    early: BTreeMap<u64, u64>,
    /// Starts of those ranges, the one that changed last in front.
    recent: VecDeque<u64>,
    /// Up to where the program has read.
    read: u64,
    /// Up to where the sender was told it may send.
    edge: u64,
    fin: Option<u64>,
    capacity: u64,
    mss: u64,
    delay: Span,
    /// So many more are acknowledged at once.
    quick: u32,
    /// Full segments that were not acknowledged.
    owed: u64,
    pub ack_now: bool,
    pub ack_at: Option<Time>,
    /// The last packet was marked, or with classic marks: a mark waits to be confirmed.
    echo: bool,
    accurate: bool,
}

/// What a packet with data says of congestion.
#[derive(Clone, Copy)]
pub struct Mark {
    /// A switch marked it (CE).
    pub marked: bool,
    /// The sender has heard of earlier marks (CWR).
    pub confirmed: bool,
}

impl Receiver {
    pub fn new(config: &Config) -> Receiver {
        Receiver {
            initial: Seq(0),
            next: 0,
            early: BTreeMap::new(),
            recent: VecDeque::new(),
            read: 1,
            edge: 0,
            fin: None,
            capacity: config.receive_buffer.0,
            mss: u64::from(config.mss),
            delay: config.delayed_ack,
            quick: config.quick_acks,
            owed: 0,
            ack_now: false,
            ack_at: None,
            echo: false,
            accurate: config.algorithm == Algorithm::Dctcp,
        }
    }

    /// The peer's SYN.
    pub fn begin(&mut self, initial: Seq) {
        self.initial = initial;
        self.next = 1;
        self.edge = 1 + self.capacity;
        self.ack_now = true;
    }
    /// Bytes that wait for the program.
    pub fn readable(&self) -> u64 {
        self.data_end().saturating_sub(self.read)
    }
    /// Whether the peer's stream ended and all of it came.
    pub fn ended(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }
    /// The program took `bytes`; true if the peer has to hear of the room.
    pub fn take(&mut self, bytes: u64) -> bool {
        self.read += bytes.min(self.readable());
        // As Linux: when at most half the buffer is on offer and the offer would double.
        let (offered, room) = (self.edge.saturating_sub(self.next), self.room());
        let update = 2 * offered <= self.capacity && room >= (2 * offered).max(self.mss.min(self.capacity / 2));
        self.ack_now |= update;
        update
    }

    /// Payload at `position`; `fin`: the stream ends behind it. Returns (fresh, in order).
    pub fn arrive(&mut self, now: Time, position: u64, length: u64, fin: bool) -> (u64, u64) {
        let limit = self.edge.max(self.read + self.capacity);
        let end = (position + length).min(limit);
        if fin && position + length <= limit {
            self.fin = Some(position + length);
        }
        let end = if self.fin == Some(end) { end + 1 } else { end };
        if end <= self.next || position >= limit {
            // A duplicate, or a probe of a closed window.
            self.ack_now = true;
            return (0, 0);
        }
        let start = position.max(self.next);
        let gap = !self.early.is_empty();
        let known = self.overlap(start, end);
        let fresh = end - start - known;
        let before = self.data_end();
        if start > self.next {
            self.remember(start, end);
            self.ack_now = true;
        } else {
            self.next = end;
            self.absorb();
            self.owed += length.div_ceil(self.mss);
            if gap || self.owed >= 2 || self.ended() || self.quick > 0 {
                self.ack_now = true;
                self.quick = self.quick.saturating_sub(1);
            } else {
                self.ack_at.get_or_insert(now + self.delay);
            }
        }
        let fin = u64::from(self.fin.is_some_and(|fin| (start..end).contains(&fin)));
        (fresh.saturating_sub(fin), self.data_end() - before)
    }

    /// A packet with data was marked or not.
    pub fn note_mark(&mut self, Mark { marked, confirmed }: Mark) {
        if self.accurate {
            // RFC 8257 §3.2: the acknowledgements show where marks begin and end.
            self.ack_now |= marked != self.echo;
            self.echo = marked;
        } else {
            self.echo = marked || self.echo && !confirmed;
        }
    }
    /// Whether acknowledgements tell of marks.
    pub fn echoes(&self) -> bool {
        self.echo
    }

    /// The window to advertise, in bytes; the promise is kept afterwards.
    pub fn offer(&mut self, scale: u8) -> u64 {
        let wanted = self.next + self.room();
        // Silly windows: the edge moves by a full segment or half the buffer.
        if wanted >= self.edge + self.mss.min(self.capacity / 2) {
            self.edge = wanted;
        }
        let window = self.edge.saturating_sub(self.next) >> scale << scale;
        window.min(u64::from(u16::MAX) << scale)
    }
    /// What goes into an acknowledgement beside the number.
    pub fn blocks(&self, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for start in self.recent.iter().take(most) {
            if let Some(end) = self.early.get(start) {
                blocks.push(Seq::of(self.initial, *start).0, Seq::of(self.initial, *end).0);
            }
        }
        blocks
    }
    /// An acknowledgement leaves.
    pub fn acknowledged(&mut self) {
        (self.owed, self.ack_now, self.ack_at) = (0, false, None);
    }

    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.readable())
    }
    /// Behind the last byte of data in order.
    fn data_end(&self) -> u64 {
        self.next - u64::from(self.ended())
    }
    fn overlap(&self, start: u64, end: u64) -> u64 {
        let ranges = self.early.iter().map(|(&from, &to)| to.min(end).saturating_sub(from.max(start)));
        ranges.sum()
    }
    /// Keeps a range beyond a gap, joined with those it touches.
    fn remember(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.early.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            (start, end) = (start.min(from), end.max(to));
            self.early.remove(&from);
            self.recent.retain(|known| *known != from);
        }
        self.early.insert(start, end);
        self.recent.push_front(start);
    }
    /// What came early and is in order now.
    fn absorb(&mut self) {
        while let Some((&from, &to)) = self.early.first_key_value().filter(|(from, _)| **from <= self.next) {
            self.next = self.next.max(to);
            self.early.remove(&from);
            self.recent.retain(|known| *known != from);
        }
    }
}
