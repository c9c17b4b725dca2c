//! What can happen, in 32 bytes that are copied into the queue.

use fabriscope_verbs::{Lid, QpNum, WqeIndex};

use crate::packed_packet::PackedPacket;

/// An event as the queue holds it: what happens and where, and a packet or some words.
///
/// A packet travels inside its event: while it is in flight it is nowhere else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    first: u64,
    second: u64,
    third: u64,
    fourth: u32,
    /// The kind in the [`KIND_BITS`] high bits, the place (lane, host, rank) in the others.
    what: u32,
}

/// An event, unpacked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventKind {
    /// The head of a packet reaches the switch at the end of the lane, or its tail has passed the receive pipeline
    /// of the NIC there.
    Arrive { lane: u32, packed: PackedPacket },
    /// Look at the packets waiting for a paced link.
    Pump { link: u32 },
    /// A NIC may build packets again.
    Transmit { host: u32 },
    /// A NIC sees new work.
    Doorbell { host: u32, doorbell: u32 },
    /// New work is in the NIC: its entries are fetched.
    Work { host: u32, qp: QpNum, through: WqeIndex },
    /// A transport timer of a NIC.
    Timer { host: u32 },
    /// A link changes its pace.
    Fault { change: u32 },
    /// A program goes on.
    Wake { slot: u32 },
    /// An operation of a schedule ended.
    Done { rank: u32, op: u32 },
    /// The context that an arrived packet needs is in the NIC.
    Fetched { lane: u32, packed: PackedPacket },
    /// A packet for a group reaches the end of the lane.
    Copies { lane: u32, packed: PackedPacket },
    /// A packet for a group comes back to the NIC that sent it, inside.
    Looped { host: u32, packed: PackedPacket },
    /// Something happens to a group.
    Manage { plan: u32 },
    /// A switch that reduces has a packet for the lane.
    Emit { lane: u32, packed: PackedPacket },
    /// The core of a rank has time for its library.
    Turn { rank: u32 },
    /// The library of a rank looks at its timers.
    Tick { rank: u32 },
    /// A look at the queues.
    Sample,
    /// Computations may have ended, where steady states are skipped.
    Due,
    /// Commands of a NIC whose counters have reached their thresholds.
    Triggered { host: u32 },
}

/// Bits of the kind of an event: 32 kinds.
const KIND_BITS: u32 = 5;
/// Bits of the place of an event.
const PLACE_BITS: u32 = u32::BITS - KIND_BITS;
/// Places (lanes, hosts, ranks) are numbered below this.
pub(crate) const PLACES: u32 = 1 << PLACE_BITS;

const ARRIVE: u32 = 0;
const PUMP: u32 = 1;
const TRANSMIT: u32 = 2;
const DOORBELL: u32 = 3;
const WORK: u32 = 4;
const TIMER: u32 = 5;
const WAKE: u32 = 6;
const DONE: u32 = 7;
const FETCHED: u32 = 8;
const LOOPED: u32 = 9;
const MANAGE: u32 = 10;
const FAULT: u32 = 11;
const TURN: u32 = 12;
const TICK: u32 = 13;
const EMIT: u32 = 14;
const SAMPLE: u32 = 15;
/// The high bit of a kind: an arrival whose packet is addressed to a group. 19 to 31 are free.
const GROUP: u32 = 1 << (KIND_BITS - 1);
const ARRIVE_AT_GROUP: u32 = ARRIVE | GROUP;
const DUE: u32 = 17;
const TRIGGERED: u32 = 18;
/// The high bit of the word with kind and place is that of the address of a group, which [`Event::arrive`] copies.
const _: () = assert!(GROUP << PLACE_BITS == Lid::MULTICAST);

impl Event {
    #[inline(always)]
    const fn new(kind: u32, place: u32, first: u64, second: u64) -> Event {
        Event { first, second, third: 0, fourth: 0, what: kind << PLACE_BITS | place }
    }
    #[inline(always)]
    pub fn arrive(lane: u32, packed: PackedPacket) -> Event {
        // The kind follows from the address without a branch: this is done for every hop.
        let to_group = packed.dest() & Lid::MULTICAST;
        Event::carrying(ARRIVE, to_group | lane, packed)
    }
    pub fn looped(host: u32, packed: PackedPacket) -> Event {
        Event::carrying(LOOPED, host, packed)
    }
    pub fn emit(lane: u32, packed: PackedPacket) -> Event {
        Event::carrying(EMIT, lane, packed)
    }
    pub fn manage(plan: u32) -> Event {
        Event::new(MANAGE, 0, u64::from(plan), 0)
    }
    pub fn fetched(lane: u32, packed: PackedPacket) -> Event {
        Event::carrying(FETCHED, lane, packed)
    }
    #[inline(always)]
    fn carrying(kind: u32, lane: u32, packed: PackedPacket) -> Event {
        let PackedPacket { route, order, sizes, spread } = packed;
        Event { first: route, second: order, third: sizes, fourth: spread, what: kind << PLACE_BITS | lane }
    }
    pub fn pump(link: u32) -> Event {
        Event::new(PUMP, link, 0, 0)
    }
    pub fn transmit(host: u32) -> Event {
        Event::new(TRANSMIT, host, 0, 0)
    }
    pub fn doorbell(host: u32, doorbell: u32) -> Event {
        Event::new(DOORBELL, host, u64::from(doorbell), 0)
    }
    pub fn work(host: u32, qp: QpNum, through: WqeIndex) -> Event {
        Event::new(WORK, host, u64::from(qp.0), through.0)
    }
    pub fn timer(host: u32) -> Event {
        Event::new(TIMER, host, 0, 0)
    }
    pub fn fault(change: u32) -> Event {
        Event::new(FAULT, change, 0, 0)
    }
    pub fn wake(slot: u32) -> Event {
        Event::new(WAKE, slot, 0, 0)
    }
    pub fn done(rank: u32, op: u32) -> Event {
        Event::new(DONE, rank, u64::from(op), 0)
    }

    pub fn turn(rank: u32) -> Event {
        Event::new(TURN, rank, 0, 0)
    }
    pub fn tick(rank: u32) -> Event {
        Event::new(TICK, rank, 0, 0)
    }
    pub fn due() -> Event {
        Event::new(DUE, 0, 0, 0)
    }
    pub fn triggered(host: u32) -> Event {
        Event::new(TRIGGERED, host, 0, 0)
    }
    pub fn sample() -> Event {
        Event::new(SAMPLE, 0, 0, 0)
    }

    #[inline(always)]
    fn place(&self) -> u32 {
        self.what & (PLACES - 1)
    }
    #[inline(always)]
    fn packed(&self) -> PackedPacket {
        PackedPacket { route: self.first, order: self.second, sizes: self.third, spread: self.fourth }
    }
    /// The lane and the packed, if a packet arrives.
    #[inline(always)]
    pub fn arrival(&self) -> Option<(u32, PackedPacket)> {
        (self.what >> PLACE_BITS == ARRIVE).then(|| (self.place(), self.packed()))
    }
    /// The host, if a NIC may build packets.
    #[inline(always)]
    pub fn transmits(&self) -> Option<u32> {
        (self.what >> PLACE_BITS == TRANSMIT).then(|| self.place())
    }

    /// The link, if the packets that wait for it are looked at.
    #[inline(always)]
    pub fn pumps(&self) -> Option<u32> {
        (self.what >> PLACE_BITS == PUMP).then(|| self.place())
    }

    /// What it means.
    #[inline(always)]
    pub fn unpack(self) -> EventKind {
        let place = self.place();
        match self.what >> PLACE_BITS {
            ARRIVE => EventKind::Arrive { lane: place, packed: self.packed() },
            PUMP => EventKind::Pump { link: place },
            TRANSMIT => EventKind::Transmit { host: place },
            DOORBELL => EventKind::Doorbell { host: place, doorbell: self.first as u32 },
            WORK => EventKind::Work { host: place, qp: QpNum(self.first as u32), through: WqeIndex(self.second) },
            TIMER => EventKind::Timer { host: place },
            WAKE => EventKind::Wake { slot: place },
            ARRIVE_AT_GROUP => EventKind::Copies { lane: place, packed: self.packed() },
            LOOPED => EventKind::Looped { host: place, packed: self.packed() },
            MANAGE => EventKind::Manage { plan: self.first as u32 },
            TURN => EventKind::Turn { rank: place },
            TICK => EventKind::Tick { rank: place },
            FETCHED => EventKind::Fetched { lane: place, packed: self.packed() },
            FAULT => EventKind::Fault { change: place },
            SAMPLE => EventKind::Sample,
            DUE => EventKind::Due,
            TRIGGERED => EventKind::Triggered { host: place },
            EMIT => EventKind::Emit { lane: place, packed: self.packed() },
            _ => EventKind::Done { rank: place, op: self.first as u32 },
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_verbs::Packet;

    use super::*;

    #[test]
    fn addresses_of_groups_make_another_kind_of_event() {
        for (dest, to_group) in [(Lid(0x0102_0304), false), (Lid::multicast(0xC005), true)] {
            let event = Event::arrive(77, PackedPacket::new(&Packet { dest, ..Packet::default() }));
            assert_eq!(event.arrival().is_none(), to_group);
            match event.unpack() {
                EventKind::Arrive { lane: 77, packed } if !to_group => assert_eq!(packed.unpack().dest, dest),
                EventKind::Copies { lane: 77, packed } if to_group => assert_eq!(packed.unpack().dest, dest),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_event_is_32_bytes() {
        assert_eq!(size_of::<Event>(), 32);
    }

    /// Every kind comes out as it went in, at the last place that there is: kinds and places do not touch each other.
    #[test]
    fn kinds_and_places_are_apart() {
        let (last, packed) = (PLACES - 1, PackedPacket::new(&Packet { dest: Lid(7), ..Packet::default() }));
        let to_group = PackedPacket::new(&Packet { dest: Lid::multicast(0xC001), ..Packet::default() });
        let events = [
            (Event::arrive(last, packed), "Arrive"),
            (Event::arrive(last, to_group), "Copies"),
            (Event::pump(last), "Pump"),
            (Event::transmit(last), "Transmit"),
            (Event::doorbell(last, 1), "Doorbell"),
            (Event::work(last, QpNum(1), WqeIndex(2)), "Work"),
            (Event::timer(last), "Timer"),
            (Event::wake(last), "Wake"),
            (Event::done(last, 1), "Done"),
            (Event::fetched(last, packed), "Fetched"),
            (Event::looped(last, packed), "Looped"),
            (Event::fault(last), "Fault"),
            (Event::turn(last), "Turn"),
            (Event::tick(last), "Tick"),
            (Event::emit(last, packed), "Emit"),
            (Event::triggered(last), "Triggered"),
        ];
        for (event, kind) in events {
            assert_eq!(event.place(), last);
            let unpacked = format!("{:?}", event.unpack());
            assert!(unpacked.starts_with(kind) && unpacked.contains(&last.to_string()), "{unpacked}");
        }
        assert!(matches!(Event::manage(9).unpack(), EventKind::Manage { plan: 9 }));
    }
}
