//! Drives behind PCI Express: when a command is done that comes now.
//!
//! Source: data sheets (rates of long accesses, accesses of 4 KiB a second, what one takes by itself); queueing at one server a drive, so that
//! depth divided by rate is the latency of a full queue (Little's law).
//! Modelled: what limits a drive, bytes or accesses, in each direction apart; a short access that waits for nobody takes what its data sheet
//! says, interrupts and PCI Express included; blocks of a namespace lie on drives in turn.
//! Not modelled: reads and writes that disturb each other, garbage collection, wear, caches that fill.

use fabriscope_catalog::Drive;
use fabriscope_units::{Bytes, Rate, Span, Time};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Data go to the drive.
    pub write: bool,
    /// How much.
    pub bytes: Bytes,
    /// Anywhere: accesses a second count, not bytes alone.
    pub random: bool,
}

#[derive(Clone, Copy, Debug)]
struct Direction {
    rate: Rate,
    interval: Span,
    latency: Span,
}

/// The drives of a node.
#[derive(Clone, Debug)]
pub struct Drives {
    ways: [Direction; 2],
    /// Until when each is taken.
    free: Vec<Time>,
    next: usize,
}

impl Drives {
    /// So many of this model, idle.
    #[must_use]
    pub fn new(drive: &Drive, count: u32) -> Drives {
        let way = |rate: Rate, latency: Span, each: Option<u64>| Direction {
            rate,
            latency,
            interval: each.map_or(Span::ZERO, |each| Span::from_ps(1_000_000_000_000 / each.max(1))),
        };
        let each = |accesses: &Option<fabriscope_catalog::Sourced<u64>>| accesses.as_ref().map(|each| each.value);
        Drives {
            ways: [
                way(*drive.read_rate, *drive.read_latency, each(&drive.reads)),
                way(*drive.write_rate, *drive.write_latency, each(&drive.writes)),
            ],
            free: vec![Time::ZERO; count.max(1) as usize],
            next: 0,
        }
    }
    /// When a command is done that comes to the next drive now: `max(now, free) + latency + (bytes beyond the first 4 KiB) / rate`.
    pub fn submit(&mut self, now: Time, access: Access) -> Time {
        let Direction { rate, interval, latency } = self.ways[usize::from(access.write)];
        let blocks = access.bytes.0.div_ceil(BLOCK).max(1);
        let accesses = if access.random { interval } else { Span::ZERO };
        let taken = rate.time(access.bytes).max(accesses);
        let count = self.free.len();
        let drive = &mut self.free[self.next];
        self.next = (self.next + 1) % count;
        let begun = now.max(*drive);
        *drive = begun.saturating_add(taken);
        begun.saturating_add(latency).saturating_add(rate.time(Bytes((blocks - 1) * BLOCK)))
    }
}

/// What data sheets call an access. Basis: published (all of them count blocks of 4 KiB).
const BLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use fabriscope_catalog::{AnyPart, Catalog};

    use super::*;

    fn drive() -> Drive {
        let catalog = Catalog::embedded().unwrap();
        let found = catalog.parts().find_map(|part| match part {
            AnyPart::Drive(drive) if drive.name == "nvme-gen3" => Some(drive.clone()),
            _ => None,
        });
        Drive::clone(&found.unwrap())
    }

    /// One after the other takes the latency of the data sheet; many at a time are served at its rate.
    #[test]
    fn depth_divided_by_rate_is_the_latency() {
        let access = Access { write: false, bytes: Bytes(4096), random: true };
        let mut one = Drives::new(&drive(), 1);
        let first = one.submit(Time::ZERO, access);
        assert_eq!(first.since(Time::ZERO), Span::from_us(85));
        // A closed loop of 128.
        let mut many = Drives::new(&drive(), 1);
        let mut ends: std::collections::VecDeque<Time> = (0..128).map(|_| many.submit(Time::ZERO, access)).collect();
        let (mut last, mut sum) = (Time::ZERO, Span::ZERO);
        for _ in 0..20_000 {
            let now = ends.pop_front().unwrap();
            last = many.submit(now, access);
            sum += last.since(now);
            ends.push_back(last);
        }
        let rate = 20_128.0 / last.since(Time::ZERO).as_s_f64();
        assert!((rate / 559_500.0 - 1.0).abs() < 0.01, "{rate}");
        let mean = sum.as_us_f64() / 20_000.0;
        assert!((mean - 128.0 / 0.5595).abs() < 4.0, "{mean}");
    }

    /// Long accesses are limited by bytes, and drives share them.
    #[test]
    fn long_accesses_go_at_the_rate() {
        let access = Access { write: true, bytes: Bytes(1 << 20), random: false };
        for (count, seconds) in [(1, 1000.0 * 1.048_576e6 / 1.325e9), (4, 250.0 * 1.048_576e6 / 1.325e9)] {
            let mut drives = Drives::new(&drive(), count);
            let last = (0..1000).map(|_| drives.submit(Time::ZERO, access)).max().unwrap();
            let took = last.since(Time::ZERO).as_s_f64();
            assert!((took / seconds - 1.0).abs() < 0.01, "{count} drives: {took} of {seconds}");
        }
    }
}
