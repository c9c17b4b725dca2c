//! Counters of ports as `perfquery` reads and resets them.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §16.1 (PortCounters, PortCountersExtended).
//! Modelled: what `--counters` counts, by the port that is asked or all of a device together; a reset of those that are selected. Counters of
//! 4 to 32 bits stop at their largest value. `PortXmitWait` counts nanoseconds.
//! Not modelled: multicast packets apart from others, sampling, counters by virtual lane.

use std::collections::BTreeMap;

use fabriscope_engine::control::Ticket;
use fabriscope_engine::{Control, Counter, PortCounts};

use super::DATA;

pub(super) const CLASS: u8 = 0x04;
const CLASS_PORT_INFO: u16 = 0x01;
const PORT_COUNTERS: u16 = 0x12;
const EXTENDED: u16 = 0x1d;
/// There are 64-bit counters, and PortXmitWait.
const CAPABILITIES: u16 = 1 << 9 | 1 << 12;
/// All ports of a device.
const ALL: u8 = 0xff;

/// Where a counter is: its first byte and its bits; which bit selects it; what it counts, and in which unit.
struct Field {
    at: usize,
    bits: u32,
    select: u32,
    counter: Counter,
    unit: u64,
}

const fn field(at: usize, bits: u32, select: u32, counter: Counter, unit: u64) -> Field {
    Field { at, bits, select, counter, unit }
}

/// Data in words of four bytes.
const WORD: u64 = 4;
/// Waiting, which is counted in ps.
const NANOSECOND: u64 = 1000;

const SHORT: [Field; 13] = [
    field(4, 16, 0, Counter::SymbolErrors, 1),
    field(6, 8, 1, Counter::LinkRecoveries, 1),
    field(7, 8, 2, Counter::LinkDowned, 1),
    field(8, 16, 3, Counter::RcvErrors, 1),
    field(12, 16, 5, Counter::RcvDiscards, 1),
    field(14, 16, 6, Counter::XmitDiscards, 1),
    field(16, 8, 7, Counter::XmitConstraints, 1),
    field(17, 8, 8, Counter::RcvConstraints, 1),
    field(24, 32, 12, Counter::XmitBytes, WORD),
    field(28, 32, 13, Counter::RcvBytes, WORD),
    field(32, 32, 14, Counter::XmitPackets, 1),
    field(36, 32, 15, Counter::RcvPackets, 1),
    field(40, 32, 16, Counter::XmitWait, NANOSECOND),
];
const LONG: [Field; 6] = [
    field(8, 64, 0, Counter::XmitBytes, WORD),
    field(16, 64, 1, Counter::RcvBytes, WORD),
    field(24, 64, 2, Counter::XmitPackets, 1),
    field(32, 64, 3, Counter::RcvPackets, 1),
    field(40, 64, 4, Counter::XmitPackets, 1),
    field(48, 64, 5, Counter::RcvPackets, 1),
];

/// What ports had counted when they were reset, by link.
#[derive(Debug, Default)]
pub(super) struct PortCounters {
    before: BTreeMap<u32, PortCounts>,
}

/// A question that the ports of a device have been asked.
#[derive(Debug, Clone)]
pub(super) struct CountersRequest {
    attribute: u16,
    /// Which counters begin anew; none where they are read only.
    reset: u32,
    ports: Vec<(u32, Ticket)>,
}

/// What an agent says to a question.
pub(super) enum Reply {
    /// The datagram is the answer.
    Now,
    /// The counters go into it when they are known.
    Counters(CountersRequest),
    /// There is no such thing.
    Unknown,
}

impl PortCounters {
    /// Reads or resets, as the datagram wants it, the ports of a device: by their numbers, the links that leave them.
    pub fn ask(&self, control: &Control, mad: &mut [u8], sets: bool, ports: &[(u16, u32)]) -> Reply {
        let attribute = u16::from_be_bytes([mad[16], mad[17]]);
        let data = &mut mad[DATA..];
        if attribute == CLASS_PORT_INFO && !sets {
            (data[0], data[1]) = (1, 1);
            data[2..4].copy_from_slice(&CAPABILITIES.to_be_bytes());
            data[7] = 18;
            return Reply::Now;
        }
        if !matches!(attribute, PORT_COUNTERS | EXTENDED) {
            return Reply::Unknown;
        }
        let (port, select) = (data[1], u32::from(u16::from_be_bytes([data[2], data[3]])));
        // Those beyond the sixteenth have a field of their own.
        let more = if attribute == PORT_COUNTERS { u32::from(data[18]) << 16 } else { 0 };
        let reset = if sets { select | more } else { 0 };
        let meant = ports.iter().filter(|(number, _)| port == ALL || *number == u16::from(port));
        let ports: Vec<(u32, Ticket)> = meant.map(|(_, link)| (*link, control.ask(*link))).collect();
        if ports.is_empty() && port != ALL && port != 0 {
            return Reply::Unknown;
        }
        Reply::Counters(CountersRequest { attribute, reset, ports })
    }

    /// Writes what was counted into the datagram.
    pub fn tell(&mut self, control: &Control, asked: &CountersRequest, mad: &mut [u8]) {
        let fields = if asked.attribute == EXTENDED { &LONG[..] } else { &SHORT };
        let data = &mut mad[DATA..];
        if asked.reset == 0 {
            data[4..192].fill(0);
        }
        let mut sums = vec![0_u64; fields.len()];
        for (link, ticket) in &asked.ports {
            let counts = control.take_counts(*ticket);
            let before = self.before.entry(*link).or_default();
            for (sum, field) in sums.iter_mut().zip(fields) {
                let now = counts.get(&field.counter).copied().unwrap_or_default();
                *sum += (now - before.get(&field.counter).copied().unwrap_or_default()) / field.unit;
            }
            for field in fields.iter().filter(|field| asked.reset & 1 << field.select != 0) {
                before.insert(field.counter, counts.get(&field.counter).copied().unwrap_or_default());
            }
        }
        if asked.reset != 0 {
            return;
        }
        for (sum, field) in sums.iter().zip(fields) {
            let most = u64::MAX >> (64 - field.bits);
            let bytes = sum.min(&most).to_be_bytes();
            let length = field.bits as usize / 8;
            data[field.at..field.at + length].copy_from_slice(&bytes[8 - length..]);
        }
    }
}
