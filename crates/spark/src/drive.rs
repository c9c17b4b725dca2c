//! The drive of a node: one access after the other.
//!
//! Source: the part of the catalogue, from data sheets.
//! Modelled: the rate of long accesses, the latency of each, the way of a disk's head to another file.
//! Not modelled: caches, read-ahead, accesses that the firmware orders.

use fabriscope_catalog::Drive;
use fabriscope_units::{Bytes, Rate, Span, Time};

/// A drive with what waits for it.
#[derive(Debug, Clone)]
pub struct DriveQueue {
    read: (Rate, Span),
    write: (Rate, Span),
    /// Of the head of a disk to another file.
    head: Span,
    free: Time,
}

impl DriveQueue {
    /// An idle drive.
    #[must_use]
    pub fn new(drive: &Drive) -> DriveQueue {
        let head = drive.positioning.as_ref().map_or(Span::ZERO, |head| *head.seek + *head.rotation / 2);
        DriveQueue {
            read: (*drive.read_rate, *drive.read_latency),
            write: (*drive.write_rate, *drive.write_latency),
            head,
            free: Time::ZERO,
        }
    }
    /// When bytes of a file are read that were asked for at `now`; calls come in the order of time.
    pub fn read(&mut self, now: Time, bytes: Bytes) -> Time {
        self.access(now, bytes, self.read)
    }
    /// When bytes are written that were handed over at `now`.
    pub fn write(&mut self, now: Time, bytes: Bytes) -> Time {
        self.access(now, bytes, self.write)
    }
    fn access(&mut self, now: Time, bytes: Bytes, (rate, latency): (Rate, Span)) -> Time {
        self.free = self.free.max(now) + self.head + rate.time(bytes);
        self.free + latency
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_catalog::{AnyPart, Catalog};

    use super::*;

    #[test]
    fn accesses_wait_for_each_other() {
        let catalog = Catalog::embedded().unwrap();
        let drive = |name: &str| {
            let found = catalog.parts().find_map(|part| match part {
                AnyPart::Drive(drive) if drive.name == name => Some(DriveQueue::new(drive)),
                _ => None,
            });
            found.unwrap()
        };
        // 3.2 GB/s and 85 us.
        let mut nvme = drive("nvme-gen3");
        let us = |time: Time| time.since(Time::ZERO).as_us_f64();
        assert_eq!(us(nvme.read(Time::ZERO, Bytes(3_200_000))), 1085.0);
        assert_eq!(us(nvme.read(Time::ZERO, Bytes(3_200_000))), 2085.0);
        // A block of 1 MB takes a disk 8.5 ms to seek, half a turn and 5.1 ms to read.
        let mut disk = drive("hdd-7200");
        let took = us(disk.read(Time::ZERO, Bytes(1_000_000)));
        assert!((took - (8500.0 + 4166.5 + 5102.0 + 100.0)).abs() < 1.0, "{took}");
    }
}
