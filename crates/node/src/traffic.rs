//! DMA of a node's adapters where it meets copies by the node's GPUs: both share links, uplinks and host bridges max-min fair.
//!
//! Source: docs/models/gpudirect.md; max-min as in `fabriscope_machine::sharing`.
//! Modelled: a stream for each adapter, memory and direction. What it moves is counted; copies give way to as much of it as is fair, and while
//! there are copies it takes its turn at the rate that is fair for it, as at a hop of its own.
//! Not modelled: shares within `EPOCH`: a stream that begins is not felt by copies before, and one that ended is felt for up to three.

use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_machine::Access;
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::copies::Copies;
use crate::device::Devices;
use crate::dma::DmaPath;

/// For so long the bytes of a stream are counted. Basis: assumed, some tens of packets at 100 Gb/s.
pub(crate) const EPOCH: Span = Span::from_us(5);

/// The streams of one node, and the copies that they meet.
#[derive(Debug)]
pub struct Traffic {
    copies: Arc<Mutex<Copies>>,
    /// The number of the stream of each adapter, place and direction.
    numbers: Vec<Option<u32>>,
    places: usize,
    streams: Vec<Stream>,
    /// Until then nothing changes.
    look: Time,
}

#[derive(Debug)]
struct Stream {
    /// What was asked for since.
    bytes: Bytes,
    since: Time,
    /// What is fair, where copies are in progress that it meets.
    fair: Option<Rate>,
    /// When what it asked for has passed at that rate.
    free: Time,
}

/// The streams of one adapter to and from one place.
#[derive(Debug)]
pub struct Meeting<'a> {
    traffic: &'a mut Traffic,
    /// The number of its reads among all that there may be; writes come next.
    first: usize,
}

impl Traffic {
    /// No traffic yet, of so many adapters to so many places; it meets the copies of `devices`.
    #[must_use]
    pub fn new(devices: &Devices, adapters: usize, places: usize) -> Traffic {
        let numbers = vec![None; adapters * places * 2];
        Traffic { copies: devices.shared_copies(), numbers, places, streams: Vec::new(), look: Time::ZERO }
    }

    /// A copy was asked for: what is fair may change.
    pub fn look_again(&mut self) {
        self.look = Time::ZERO;
    }

    /// The streams of an adapter to and from a place.
    pub fn meeting(&mut self, adapter: usize, place: usize) -> Meeting<'_> {
        Meeting { first: (adapter * self.places + place) * 2, traffic: self }
    }

    #[cold]
    fn begin(&mut self, now: Time, place: usize, path: &DmaPath, access: Access) -> usize {
        let number = self.streams.len();
        self.numbers[place] = Some(number as u32);
        self.streams.push(Stream { bytes: Bytes::ZERO, since: now, fair: None, free: Time::ZERO });
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let direction = usize::from(access == Access::Write);
        copies.join(Arc::clone(&path.takes[direction]), path.own[direction]);
        self.look = Time::ZERO;
        number
    }

    /// Tells copies what streams moved, and streams what is fair.
    #[cold]
    fn look(&mut self, now: Time) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.advance(now);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let span = now.since(stream.since);
            if span >= EPOCH {
                let moved = Rate::of(stream.bytes, span);
                // Who takes what is fair may want more.
                let full = stream.fair.is_some_and(|fair| moved.as_bps() >= fair.as_bps() - fair.as_bps() / 16);
                copies.wants(number, if full { Rate::from_bps(u64::MAX) } else { moved }, now + EPOCH * 2);
                (stream.bytes, stream.since) = (Bytes::ZERO, now);
            }
        }
        let fair = copies.fair(now);
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.fair = fair.get(number).copied().flatten();
        }
        self.look = copies.next_change().map_or(now + EPOCH, |change| change.min(now + EPOCH)).max(now + Span::from_ps(1));
    }
}

impl Meeting<'_> {
    /// When the last of `amount` bytes that are asked for at `now` has passed what they share with copies.
    #[inline]
    pub(crate) fn pass(&mut self, path: &DmaPath, access: Access, now: Time, amount: Bytes) -> Time {
        let place = self.first + usize::from(access == Access::Write);
        let number = match self.traffic.numbers[place] {
            Some(number) => number as usize,
            None => self.traffic.begin(now, place, path, access),
        };
        if now >= self.traffic.look {
            self.traffic.look(now);
        }
        let stream = &mut self.traffic.streams[number];
        stream.bytes += amount;
        let Some(fair) = stream.fair else { return now };
        stream.free = now.max(stream.free) + fair.time(amount);
        stream.free
    }
}
