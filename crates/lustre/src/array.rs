//! A target's drives: how long an access keeps them.
//!
//! Source: the usual model of a disk, positioning then transfer (Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994);
//! Patterson, Gibson and Katz, "A case for RAID" (1988) for writes of less than a stripe.
//! Modelled: long accesses of many streams at once: each drive moves a chunk, then goes to another stream's; deeper queues shorten the wait
//! for the platters. Short writes of groups with parity read old data and parity first. Flash ends at its operations a second.
//! Not modelled: zones, caches of controllers, garbage collection of flash.

use fabriscope_catalog::{Controller, Drive, ResolvedServers};
use fabriscope_units::{Bytes, Rate, Span};

/// An access to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Data that come to the drives, instead of leaving them.
    pub write: bool,
    /// How much.
    pub bytes: Bytes,
    /// It goes on where the stream's last ended, so that chunks join.
    pub sequential: bool,
}

/// Drives of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// All drives.
    pub drives: u64,
    /// Those with data.
    pub data: u64,
    /// What a drive takes before it turns to something else.
    pub chunk: Bytes,
    /// Long reads and writes of a drive.
    pub rates: [Rate; 2],
    /// A short access by itself.
    pub latencies: [Span; 2],
    /// Between two accesses of 4 KiB; of flash.
    pub intervals: [Span; 2],
    /// To the next track and a turn; of disks.
    pub positioning: Option<(Span, Span)>,
    /// What controllers let through for a target.
    pub controller: Option<[Rate; 2]>,
}

/// What an access takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// How long the drives are taken.
    pub occupied: Span,
    /// What passes besides, while they are free for others.
    pub besides: Span,
}

/// Queued accesses of a drive that its firmware orders. Basis: standard (32 tags of native command queuing).
const DEEPEST: u64 = 32;

impl Array {
    /// The targets of these servers.
    #[must_use]
    pub fn of(servers: &ResolvedServers, chunk: Bytes) -> Array {
        let share = |controller: &Controller| {
            [*controller.read, *controller.write].map(|rate| Rate::from_bps(rate.as_bps() / u64::from(servers.targets.max(1))))
        };
        Array {
            drives: servers.drives.into(),
            data: u64::from(servers.drives - servers.parity.min(servers.drives - 1)),
            chunk,
            controller: servers.controller.as_ref().map(share),
            ..Array::one(&servers.drive)
        }
    }
    /// One drive of flash.
    #[must_use]
    pub fn one(drive: &Drive) -> Array {
        Array {
            drives: 1,
            data: 1,
            chunk: Bytes(1 << 20),
            rates: [*drive.read_rate, *drive.write_rate],
            latencies: [*drive.read_latency, *drive.write_latency],
            intervals: [interval(drive.reads.as_ref()), interval(drive.writes.as_ref())],
            positioning: drive.positioning.as_ref().map(|head| (*head.track_to_track, *head.rotation)),
            controller: None,
        }
    }
    /// Where so many others wait for the same drives.
    #[must_use]
    pub fn service(&self, access: Access, waiting: u64) -> Service {
        let way = usize::from(access.write);
        let (rate, bytes) = (self.rates[way], access.bytes);
        let group = |each: Span, accesses: u64| Span::from_ps(each.as_ps().saturating_mul(accesses) / self.drives.max(1));
        let head = self.positioning.map(|(track, turn)| {
            let deep = 1 + (waiting * self.chunks(bytes) / self.drives.max(1)).min(DEEPEST - 1);
            track + Span::from_ps(turn.as_ps() / (deep + 1))
        });
        let parity = self.drives - self.data;
        let occupied = if access.sequential {
            // Every drive with data has its share, chunk by chunk, the head moving between two.
            let transfer = Rate::from_bps(rate.as_bps().saturating_mul(self.data)).time(bytes);
            let run = self.chunk.0.min(bytes.0 / self.data.clamp(1, STRIPE)).max(1);
            let moves = head.map_or(0, |head| {
                let each = u128::from(head.as_ps()) * u128::from(bytes.0);
                (each / u128::from(run) / u128::from(self.data.max(1))) as u64
            });
            transfer + Span::from_ps(moves)
        } else {
            let pieces = self.chunks(bytes);
            let each = rate.time(Bytes(bytes.0.div_ceil(pieces)));
            let operations = Span::from_ps(self.intervals[way].as_ps().saturating_mul(bytes.0.div_ceil(OPERATION) / pieces.max(1)));
            let one = head.map_or(each.max(operations).max(self.intervals[way]), |head| head + each);
            // Old data and old parity are read, new ones written.
            let accesses = if access.write && parity > 0 { 2 * (pieces + parity.min(MOST_PARITY)) } else { pieces };
            group(one, accesses)
        };
        let through = self.controller.map_or(Span::ZERO, |rates| rates[way].time(bytes));
        let besides = if access.sequential { self.latencies[way] } else { self.latencies[way] + head.unwrap_or_default() };
        Service { occupied: occupied.max(through), besides }
    }
    /// What long accesses of many streams get.
    #[must_use]
    pub fn streaming(&self, write: bool) -> Rate {
        let access = Access { write, bytes: Bytes(self.chunk.0 * self.data), sequential: true };
        Rate::of(access.bytes, self.service(access, DEEPEST).occupied)
    }

    fn chunks(&self, bytes: Bytes) -> u64 {
        bytes.0.div_ceil(self.chunk.0.max(1)).clamp(1, self.data.max(1))
    }
}

/// Between two of so many operations a second.
fn interval(each: Option<&fabriscope_catalog::Sourced<u64>>) -> Span {
    each.map_or(Span::ZERO, |count| Span::from_ps(1_000_000_000_000 / count.value.max(1)))
}

/// Parts of data of a stripe; groups spread over more drives have stripes of eight and two as well. Basis: standard (RAID 6 of Lustre).
const STRIPE: u64 = 8;
/// What flash counts as an operation. Basis: standard (data sheets give operations of 4 KiB).
const OPERATION: u64 = 4096;
/// Parts of parity of a stripe. Basis: standard (RAID 6); groups spread over more drives have stripes of eight and two as well.
const MOST_PARITY: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn disks() -> Array {
        Array {
            drives: 10,
            data: 8,
            chunk: Bytes::from_mib(1),
            rates: [Rate::from_bps(8 << 30); 2],
            latencies: [Span::from_us(100); 2],
            intervals: [Span::ZERO; 2],
            positioning: Some((Span::from_us(1000), Span::from_us(8000))),
            controller: None,
        }
    }

    /// A disk moves 1 MiB in 1/1024 s, 977 us, and positions in 1000 + 8000 / 2 us when nobody waits: 5.977 ms for 8 MiB of eight disks.
    /// With 32 in each queue 1000 + 8000 / 33 us.
    #[test]
    fn streams_pay_for_the_head_once_a_chunk() {
        let access = Access { write: true, bytes: Bytes::from_mib(8), sequential: true };
        let us = |waiting| disks().service(access, waiting).occupied.as_us_f64().round();
        assert_eq!([us(0), us(1000)], [5977.0, 2219.0]);
    }

    /// 4 KiB at random: a read is one access of one of ten disks; a write reads and writes data and two of parity, six accesses.
    #[test]
    fn short_writes_of_groups_with_parity_cost_six_accesses() {
        let short = |write| disks().service(Access { write, bytes: Bytes(4096), sequential: false }, 0).occupied.as_us_f64();
        assert!((short(false) - 500.4).abs() < 0.1, "{}", short(false));
        assert!((short(true) / short(false) - 6.0).abs() < 1e-6);
    }

    #[test]
    fn flash_ends_at_its_operations() {
        let flash = Array { drives: 1, data: 1, positioning: None, intervals: [Span::from_us(2), Span::from_us(5)], ..disks() };
        let of = |bytes, write| flash.service(Access { write, bytes: Bytes(bytes), sequential: false }, 0).occupied.as_us_f64();
        assert_eq!([of(4096, false), of(4096, true)].map(|us| (us * 10.0).round() / 10.0), [3.8, 5.0]);
    }
}
