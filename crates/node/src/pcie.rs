//! The PCI Express link of a NIC, towards host memory and what else lies behind it ([`crate::dma`]).
//!
//! Source: Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018 (§3:
//! bandwidth after encoding, data-link overhead and per-TLP headers).
//! Modelled: generation and lanes, encoding, ACK/flow-control/skip share, MPS, MRRS, completion size of the root
//! complex, one direction each way as a serial resource, read round trip, posted writes, the opening read-ahead
//! window of a NIC's send queue; tags, so many reads outstanding at most; buses before PCI Express, on which both
//! directions take turns.
//! Not modelled: relaxed ordering; which of two directions a bus serves first.

use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::dma::DmaHops;

/// Speeds and latencies of one NIC's link to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcieTiming {
    /// TLP bytes per second in one direction: lanes × lane rate × encoding × (1 − ACK − flow control − skip).
    pub tlp_rate: Rate,
    /// From issuing a read until the first byte of its completion arrives.
    pub read_latency: Span,
    /// From the last byte of a posted write leaving the NIC until it is visible in memory.
    pub write_latency: Span,
    /// Largest payload of a posted write TLP (MPS).
    pub max_payload: Bytes,
    /// Largest read request (MRRS).
    pub max_read_request: Bytes,
    /// Payload of one read-completion TLP as the root complex splits them.
    pub completion_payload: Bytes,
    /// Framing and header bytes of a posted write TLP.
    pub write_overhead: Bytes,
    /// Framing and header bytes of a read request TLP.
    pub read_overhead: Bytes,
    /// Framing and header bytes of a completion TLP.
    pub completion_overhead: Bytes,
    /// Whether both directions take turns on the wires.
    pub wires: Wires,
    /// Reads outstanding at most; no limit where there is none.
    pub tags: Option<u32>,
}

/// Whose the wires are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wires {
    /// Each direction has its own.
    #[default]
    EachWay,
    /// Both directions take turns on a bus.
    Shared,
}

impl PcieTiming {
    fn on_link(&self, amount: Bytes, chunk: Bytes, overhead: Bytes) -> Span {
        let tlps = amount.0.div_ceil(chunk.0.max(1)).max(1);
        self.tlp_rate.time(Bytes(amount.0 + tlps * overhead.0))
    }
    /// Time that the completions of a read of `amount` occupy the link towards the NIC.
    #[must_use]
    pub fn completion_time(&self, amount: Bytes) -> Span {
        self.on_link(amount, self.completion_payload, self.completion_overhead)
    }
    /// Time that a posted write of `amount` occupies the link towards memory.
    #[must_use]
    pub fn write_time(&self, amount: Bytes) -> Span {
        self.on_link(amount, self.max_payload, self.write_overhead)
    }
    /// Time that the requests for a read of `amount` occupy the link towards memory.
    #[must_use]
    pub fn request_time(&self, amount: Bytes) -> Span {
        let requests = amount.0.div_ceil(self.max_read_request.0.max(1)).max(1);
        self.tlp_rate.time(Bytes(requests * self.read_overhead.0))
    }
}

/// One NIC's link: both directions as serial resources.
#[derive(Debug, Clone)]
pub struct Pcie {
    timing: PcieTiming,
    towards_nic: Time,
    towards_memory: Time,
    /// When a shared bus has carried everything.
    bus: Time,
    /// When all tags have come back.
    tags: Time,
}

impl Pcie {
    /// An idle link.
    #[must_use]
    pub fn new(timing: PcieTiming) -> Pcie {
        Pcie { timing, towards_nic: Time::ZERO, towards_memory: Time::ZERO, bus: Time::ZERO, tags: Time::ZERO }
    }

    /// Speeds and latencies of the link.
    #[must_use]
    pub fn timing(&self) -> &PcieTiming {
        &self.timing
    }

    /// Reads `amount` from memory, asked for at `now`; returns when its last byte is in the NIC.
    ///
    /// `gap` keeps the link idle before the data when it is busy: the NIC's own pause between work requests.
    pub fn read(&mut self, now: Time, amount: Bytes, gap: Span) -> Time {
        self.read_after(self.timing.read_latency, now, amount, gap)
    }

    /// The same from memory at the end of `way`, beyond the link: the last byte has passed the link and every hop.
    pub fn read_over(&mut self, way: &mut DmaHops<'_>, now: Time, amount: Bytes, gap: Span) -> Time {
        let latency = way.path.read_latency;
        let passed = way.read(now, amount) + latency;
        self.read_after(latency, now, amount, gap).max(passed)
    }

    #[inline]
    fn read_after(&mut self, latency: Span, now: Time, amount: Bytes, gap: Span) -> Time {
        let (request, data) = (self.timing.request_time(amount), self.timing.completion_time(amount));
        let asked = now.max(self.towards_memory);
        self.towards_memory = asked + request;
        let first = (now + latency).max(self.towards_nic + gap);
        self.towards_nic = (first + data).max(self.turns(now, request + data)).max(self.tagged(latency, now, amount));
        self.towards_nic
    }

    /// When a shared bus has carried what it was asked for, `busy` from `now` on included: it is never idle while something waits.
    #[inline]
    fn turns(&mut self, now: Time, busy: Span) -> Time {
        if self.timing.wires == Wires::Shared {
            self.bus = self.bus.max(now) + busy;
        }
        self.bus
    }

    /// When the reads of `amount` have had a tag each: it is held for a round trip.
    #[inline]
    fn tagged(&mut self, latency: Span, now: Time, amount: Bytes) -> Time {
        if let Some(tags) = self.timing.tags {
            let request = self.timing.max_read_request.min(amount);
            let requests = amount.0.div_ceil(self.timing.max_read_request.0.max(1)).max(1);
            let held = latency + self.timing.completion_time(request);
            let all = held.as_ps().saturating_mul(requests) / u64::from(tags.max(1));
            self.tags = self.tags.max(now) + Span::from_ps(all);
        }
        self.tags
    }

    /// A core stores `amount` into the NIC, blocks of 64 bytes, the last of which would be there at `now` on an idle link; returns
    /// when it is.
    pub fn store(&mut self, now: Time, amount: Bytes) -> Time {
        let blocks = amount.0.div_ceil(64).max(1);
        let busy = self.timing.tlp_rate.time(Bytes(amount.0 + blocks * self.timing.write_overhead.0));
        self.towards_nic = now.max(self.towards_nic + busy).max(self.turns(now.saturating_sub(busy), busy));
        self.towards_nic
    }

    /// Writes `amount` to memory from `now` on; returns when the NIC has sent it and when it is visible.
    pub fn write(&mut self, now: Time, amount: Bytes) -> Written {
        let start = now.max(self.towards_memory);
        let busy = self.timing.write_time(amount);
        let sent = (start + busy).max(self.turns(now, busy));
        self.towards_memory = sent;
        Written { sent, visible: sent + self.timing.write_latency }
    }

    /// The same to memory at the end of `way`, beyond the link: writes go in order, so that a slow hop keeps the link waiting.
    pub fn write_over(&mut self, way: &mut DmaHops<'_>, now: Time, amount: Bytes) -> Written {
        let start = now.max(self.towards_memory);
        let busy = self.timing.write_time(amount);
        let sent = (start + busy).max(way.write(start, amount)).max(self.turns(now, busy));
        self.towards_memory = sent;
        Written { sent, visible: sent + way.path.write_latency }
    }
}

/// The two ends of a posted write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The last byte left the NIC: its buffer is free.
    pub sent: Time,
    /// The data can be seen in memory.
    pub visible: Time,
}

/// How far a NIC reads ahead in a send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// Bytes in flight when the queue was idle before.
    pub initial: Bytes,
    /// Added for every packet fetched while the queue stays busy.
    pub growth: Bytes,
}

/// Payload fetches of one send queue: a window of outstanding reads that opens while the queue stays busy.
///
/// A queue that was idle starts with `initial` bytes in flight, so its data arrives at `initial / round trip`
/// until the window covers the link. Without this, long messages sent alone would be as fast as in a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadStream {
    window: Bytes,
    complete: Time,
}

impl ReadStream {
    /// Fetches `amount` for the next packet, asked for at `now`; returns when it is in the NIC.
    pub fn fetch(&mut self, pcie: &mut Pcie, ahead: ReadAhead, now: Time, amount: Bytes, gap: Span) -> Time {
        let latency = pcie.timing.read_latency;
        let complete = pcie.read(now, amount, gap);
        self.pace(pcie, ahead, (now, latency), amount, complete)
    }

    /// The same from memory at the end of `way`: the window covers its round trip later.
    pub fn fetch_over(&mut self, pcie: &mut Pcie, way: &mut DmaHops<'_>, ahead: ReadAhead, now: Time, amount: Bytes, gap: Span) -> Time {
        let latency = way.path.read_latency;
        let complete = pcie.read_over(way, now, amount, gap);
        self.pace(pcie, ahead, (now, latency), amount, complete)
    }

    /// Whether it is as one that has read nothing yet, for reads from `now` on that take at most `latency`.
    #[must_use]
    pub fn is_over(&self, now: Time, latency: Span) -> bool {
        self.window == Bytes::ZERO || now >= self.complete + latency
    }

    /// When the bytes are there that the link could have brought by `complete`, for a read at some time with some latency.
    #[inline]
    fn pace(&mut self, pcie: &Pcie, ahead: ReadAhead, (now, latency): (Time, Span), amount: Bytes, mut complete: Time) -> Time {
        let round_trip = latency + pcie.timing.completion_time(pcie.timing.max_read_request.min(amount));
        let busy = self.window > Bytes::ZERO && now < self.complete + latency;
        if busy {
            self.window += ahead.growth;
            let paced = Span::from_ps((round_trip.as_ps() as u128 * amount.0 as u128 / self.window.0.max(1) as u128) as u64);
            complete = complete.max(self.complete + paced);
        } else {
            self.window = ahead.initial;
        }
        self.complete = complete;
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gen3_x16() -> Pcie {
        // 16 × 8 GT/s × 128/130 × (1 − 8/168 − 8/168 − 4/1538) = 113.7 Gb/s
        Pcie::new(PcieTiming {
            tlp_rate: Rate::from_bps(113_700_000_000),
            read_latency: Span::from_ns(350),
            write_latency: Span::from_ns(130),
            max_payload: Bytes(256),
            max_read_request: Bytes(512),
            completion_payload: Bytes(128),
            write_overhead: Bytes(24),
            read_overhead: Bytes(24),
            completion_overhead: Bytes(20),
            wires: Wires::EachWay,
            tags: None,
        })
    }

    #[test]
    fn tags_limit_reads_to_requests_over_the_round_trip() {
        // 8 reads of 512 B, each out for 350 ns and (512 + 4 · 20) B · 8 / 113.7 Gb/s = 41.65 ns: 4096 B in 391.65 ns, 10.46 GB/s.
        let mut link = Pcie::new(PcieTiming { tags: Some(8), ..*gen3_x16().timing() });
        let end = (0..1000).map(|_| link.read(Time::ZERO, Bytes(4096), Span::ZERO)).max().unwrap();
        let rate = Rate::of(Bytes(4096 * 1000), end - Time::ZERO).as_bytes_per_s_f64() / 1e9;
        assert!((rate - 10.46).abs() < 0.02, "{rate} GB/s");
        // A single one is as fast as ever.
        let mut idle = Pcie::new(PcieTiming { tags: Some(8), ..*gen3_x16().timing() });
        assert_eq!(idle.read(Time::ZERO, Bytes(256), Span::ZERO), gen3_x16().read(Time::ZERO, Bytes(256), Span::ZERO));
    }

    #[test]
    fn a_shared_bus_carries_both_directions_in_turn() {
        // PCI-X, 64 bits at 133 MHz: 512 B and 6 clocks of 8 B each way, reads with a request of 6 clocks.
        let clocks = Bytes(48);
        let bus = PcieTiming {
            tlp_rate: Rate::from_bps(64 * 133_333_333),
            max_payload: Bytes(512),
            max_read_request: Bytes(512),
            completion_payload: Bytes(512),
            write_overhead: clocks,
            read_overhead: clocks,
            completion_overhead: clocks,
            wires: Wires::Shared,
            ..*gen3_x16().timing()
        };
        let mut link = Pcie::new(bus);
        let writes = (0..1000).map(|_| link.write(Time::ZERO, Bytes(512)).sent).max().unwrap();
        let both = (0..1000).map(|_| link.read(Time::ZERO, Bytes(512), Span::ZERO)).max().unwrap();
        // (512 + 48) B take 525 ns; a read takes that and 45 ns for its request.
        assert!((writes.as_ps() as f64 / 1e6 - 525.0).abs() < 0.1 && (both.as_ps() as f64 / 1e6 - 525.0 - 570.0).abs() < 0.1, "{both:?}");
    }

    #[test]
    fn an_idle_read_is_a_round_trip_and_the_data() {
        // 256 B in two completions: (256 + 2·20) B · 8 / 113.7 Gb/s = 20.827 ns after the 350 ns round trip.
        assert_eq!(gen3_x16().read(Time::ZERO, Bytes(256), Span::from_ns(22)), Time::from_ps(350_000 + 20_827));
    }

    #[test]
    fn streamed_writes_reach_the_published_gen3_rate() {
        // pcie-model: 12.99 GB/s for writes with MPS 256 on gen 3 x16.
        let mut link = gen3_x16();
        let packets = 1000;
        let mut end = Time::ZERO;
        for _ in 0..packets {
            end = link.write(Time::ZERO, Bytes(4096)).sent;
        }
        let rate = Rate::of(Bytes(4096 * packets), end - Time::ZERO).as_bytes_per_s_f64() / 1e9;
        assert!((rate - 12.99).abs() < 0.05, "{rate} GB/s");
    }

    #[test]
    fn the_read_ahead_window_opens() {
        let ahead = ReadAhead { initial: Bytes(2560), growth: Bytes(192) };
        let (mut link, mut stream) = (gen3_x16(), ReadStream::default());
        let ends: Vec<Time> = (0..40).map(|_| stream.fetch(&mut link, ahead, Time::ZERO, Bytes(4096), Span::ZERO)).collect();
        let step = |i: usize| (ends[i] - ends[i - 1]).as_ps();
        // Round trip 350 ns + 512 B ≈ 391.7 ns; the second packet comes at 4096 / (2752 B / round trip) = 583 ns.
        assert!((580_000..590_000).contains(&step(1)), "{}", step(1));
        assert!(step(4) < step(1));
        // In the end the link is the limit: 4096 B in 128 B completions = 333.2 ns.
        assert!((333_000..334_000).contains(&step(39)), "{}", step(39));
    }
}
