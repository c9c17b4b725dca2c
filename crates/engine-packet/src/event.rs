//! What can happen, in 32 bytes that are copied into the queue.

use fabriscope_verbs::{ExtId, Lid, Packet, PacketFlags, QpNum, WqeIndex};

/// An event as the queue holds it: what happens and where, and a packet or some words.
///
/// A packet travels inside its event: while it is under way it is nowhere else. Its fields are packed into whole words
/// by [`Parcel`]: words stay in registers from hop to hop, while bytes written one by one and read back as part of a
/// word stall the processor until all stores before them are done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    first: u64,
    second: u64,
    third: u64,
    fourth: u32,
    /// Kind in the four high bits, place in the others.
    what: u32,
}

/// An event, unpacked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening {
    /// The head of a packet reaches the switch at the end of the lane, or its tail has passed the receive pipeline
    /// of the NIC there.
    Arrive { lane: u32, parcel: Parcel },
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
    Wake { rank: u32 },
    /// An operation of a schedule ended.
    Done { rank: u32, op: u32 },
    /// The context that an arrived packet needs is in the NIC.
    Fetched { lane: u32, parcel: Parcel },
    /// A packet for a group reaches the end of the lane.
    Copies { lane: u32, parcel: Parcel },
    /// A packet for a group comes back to the NIC that sent it, inside.
    Looped { host: u32, parcel: Parcel },
    /// Something happens to a group.
    Manage { plan: u32 },
    /// A switch that reduces has a packet for the lane.
    Emit { lane: u32, parcel: Parcel },
    /// The core of a rank has time for its library.
    Turn { rank: u32 },
    /// The library of a rank looks at its timers.
    Tick { rank: u32 },
}

/// Places (lanes, hosts, ranks) are numbered below this.
pub(crate) const PLACES: u32 = 1 << 28;

const ARRIVE: u32 = 0;
const PUMP: u32 = 1;
const TRANSMIT: u32 = 2;
const DOORBELL: u32 = 3;
const WORK: u32 = 4;
const TIMER: u32 = 5;
const WAKE: u32 = 6;
const DONE: u32 = 7;
/// An arrival whose address is that of a group: the kind of [`ARRIVE`] with the top bit of the address.
const COPIES: u32 = 8;
const FETCHED: u32 = 9;
const LOOPED: u32 = 10;
const MANAGE: u32 = 11;
const FAULT: u32 = 12;
const TURN: u32 = 13;
const TICK: u32 = 14;
const EMIT: u32 = 15;

impl Event {
    #[inline(always)]
    const fn new(kind: u32, place: u32, first: u64, second: u64) -> Event {
        Event { first, second, third: 0, fourth: 0, what: kind << 28 | place }
    }
    #[inline(always)]
    pub fn arrive(lane: u32, parcel: Parcel) -> Event {
        // The kind follows from the address without a branch: this is done for every hop.
        let to_group = parcel.dest() & Lid::MULTICAST;
        Event::carrying(ARRIVE, to_group | lane, parcel)
    }
    pub fn looped(host: u32, parcel: Parcel) -> Event {
        Event::carrying(LOOPED, host, parcel)
    }
    pub fn emit(lane: u32, parcel: Parcel) -> Event {
        Event::carrying(EMIT, lane, parcel)
    }
    pub fn manage(plan: u32) -> Event {
        Event::new(MANAGE, 0, u64::from(plan), 0)
    }
    pub fn fetched(lane: u32, parcel: Parcel) -> Event {
        Event::carrying(FETCHED, lane, parcel)
    }
    #[inline(always)]
    fn carrying(kind: u32, lane: u32, parcel: Parcel) -> Event {
        let Parcel { route, order, sizes, spread } = parcel;
        Event { first: route, second: order, third: sizes, fourth: spread, what: kind << 28 | lane }
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
    pub fn wake(rank: u32) -> Event {
        Event::new(WAKE, rank, 0, 0)
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

    #[inline(always)]
    fn place(&self) -> u32 {
        self.what & (PLACES - 1)
    }
    #[inline(always)]
    fn parcel(&self) -> Parcel {
        Parcel { route: self.first, order: self.second, sizes: self.third, spread: self.fourth }
    }
    /// The lane and the parcel, if a packet arrives.
    #[inline(always)]
    pub fn arrival(&self) -> Option<(u32, Parcel)> {
        (self.what >> 28 == ARRIVE).then(|| (self.place(), self.parcel()))
    }
    /// The host, if a NIC may build packets.
    #[inline(always)]
    pub fn transmits(&self) -> Option<u32> {
        (self.what >> 28 == TRANSMIT).then(|| self.place())
    }

    /// What it means.
    #[inline(always)]
    pub fn unpack(self) -> Happening {
        let place = self.place();
        match self.what >> 28 {
            ARRIVE => Happening::Arrive { lane: place, parcel: self.parcel() },
            PUMP => Happening::Pump { link: place },
            TRANSMIT => Happening::Transmit { host: place },
            DOORBELL => Happening::Doorbell { host: place, doorbell: self.first as u32 },
            WORK => Happening::Work { host: place, qp: QpNum(self.first as u32), through: WqeIndex(self.second) },
            TIMER => Happening::Timer { host: place },
            WAKE => Happening::Wake { rank: place },
            COPIES => Happening::Copies { lane: place, parcel: self.parcel() },
            LOOPED => Happening::Looped { host: place, parcel: self.parcel() },
            MANAGE => Happening::Manage { plan: self.first as u32 },
            TURN => Happening::Turn { rank: place },
            TICK => Happening::Tick { rank: place },
            FETCHED => Happening::Fetched { lane: place, parcel: self.parcel() },
            FAULT => Happening::Fault { change: place },
            EMIT => Happening::Emit { lane: place, parcel: self.parcel() },
            _ => Happening::Done { rank: place, op: self.first as u32 },
        }
    }
}

/// The least that remains of a trimmed packet: an Ethernet frame of 64 bytes with preamble and gap (standard).
const TRIMMED_LEAST: u32 = 84;
/// Queue pairs and sequence numbers have 24 bits.
const LOW_24: u32 = (1 << 24) - 1;

/// A packet in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    /// From the low end: destination (32 bits), queue pair there (24), low byte of the routing's note.
    route: u64,
    /// From the low end: sequence number (24 bits), high byte of the routing's note, number of the extension headers (32).
    order: u64,
    /// From the low end: wire bytes (16 bits), payload (16), opcode, flags, syndrome, service level (8 each).
    sizes: u64,
    /// Entropy (16 bits), message sequence number (16).
    spread: u32,
}

impl Parcel {
    #[inline(always)]
    pub fn new(p: &Packet) -> Parcel {
        let bytes = u32::from_le_bytes([p.opcode, p.flags.0, p.syndrome, p.sl]);
        Parcel {
            route: u64::from(p.dest.0) | u64::from(p.dest_qp & LOW_24) << 32,
            order: u64::from(p.psn & LOW_24) | u64::from(p.ext.0) << 32,
            sizes: u64::from(p.wire_bytes) | u64::from(p.payload) << 16 | u64::from(bytes) << 32,
            spread: u32::from(p.entropy) | u32::from(p.msn) << 16,
        }
    }
    #[inline(always)]
    pub fn packet(&self) -> Packet {
        let [opcode, flags, syndrome, sl] = ((self.sizes >> 32) as u32).to_le_bytes();
        Packet {
            dest: Lid(self.dest()),
            dest_qp: self.dest_qp(),
            psn: self.order as u32 & LOW_24,
            ext: self.ext(),
            wire_bytes: self.sizes as u16,
            payload: (self.sizes >> 16) as u16,
            opcode,
            flags: PacketFlags(flags),
            syndrome,
            sl,
            entropy: self.spread as u16,
            msn: (self.spread >> 16) as u16,
        }
    }
    #[inline(always)]
    pub fn dest(&self) -> u32 {
        self.route as u32
    }
    #[inline(always)]
    pub fn dest_qp(&self) -> u32 {
        (self.route >> 32) as u32 & LOW_24
    }
    /// Writes the queue pair it goes to.
    pub fn set_dest_qp(&mut self, qp: u32) {
        self.route = self.route & !(u64::from(LOW_24) << 32) | u64::from(qp & LOW_24) << 32;
    }
    /// What the routing wrote into the packet at the switch before.
    #[inline(always)]
    pub fn via(&self) -> u16 {
        (self.route >> 56) as u16 & 0xFF | (self.order >> 16) as u16 & 0xFF00
    }
    /// Writes the note for the next switch.
    #[inline(always)]
    pub fn set_via(&mut self, via: u16) {
        self.route = self.route & !(0xFF << 56) | u64::from(via & 0xFF) << 56;
        self.order = self.order & !(0xFF << 24) | u64::from(via >> 8) << 24;
    }
    #[inline(always)]
    pub fn entropy(&self) -> u32 {
        self.spread & 0xFFFF
    }
    /// Service level.
    #[inline(always)]
    pub fn sl(&self) -> u32 {
        (self.sizes >> 56) as u32
    }
    /// Bytes on the wire.
    #[inline(always)]
    pub fn wire_bytes(&self) -> u32 {
        (self.sizes & 0xFFFF) as u32
    }
    /// Bytes of payload.
    #[inline(always)]
    pub fn payload(&self) -> u32 {
        (self.sizes >> 16 & 0xFFFF) as u32
    }
    #[inline(always)]
    pub fn ext(&self) -> ExtId {
        ExtId((self.order >> 32) as u32)
    }
    /// Writes the number of the extension headers.
    pub fn set_ext(&mut self, ext: ExtId) {
        self.order = self.order & u64::from(u32::MAX) | u64::from(ext.0) << 32;
    }
    #[inline(always)]
    pub fn has(&self, flags: PacketFlags) -> bool {
        PacketFlags((self.sizes >> 40) as u8).contains(flags)
    }
    /// Cuts the payload off.
    pub fn trim(&mut self) {
        let headers = self.wire_bytes() - self.payload();
        self.sizes = self.sizes & !0xFFFF_FFFF | u64::from(headers.max(TRIMMED_LEAST));
        self.set(PacketFlags::TRIMMED);
    }
    #[inline]
    pub fn set(&mut self, flags: PacketFlags) {
        self.sizes |= u64::from(flags.0) << 40;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_groups_make_another_kind_of_event() {
        for (dest, to_group) in [(Lid(0x0102_0304), false), (Lid::multicast(0xC005), true)] {
            let event = Event::arrive(77, Parcel::new(&Packet { dest, ..Packet::default() }));
            assert_eq!(event.arrival().is_none(), to_group);
            match event.unpack() {
                Happening::Arrive { lane: 77, parcel } if !to_group => assert_eq!(parcel.packet().dest, dest),
                Happening::Copies { lane: 77, parcel } if to_group => assert_eq!(parcel.packet().dest, dest),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_event_is_32_bytes() {
        assert_eq!(size_of::<Event>(), 32);
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let packet = Packet {
            dest: Lid(0x0102_0304),
            dest_qp: 0x05_0607,
            psn: 0x08_090A,
            ext: ExtId(0x0B0C_0D0E),
            wire_bytes: 0x0F10,
            payload: 0x1112,
            opcode: 0x13,
            flags: PacketFlags::TRACED,
            syndrome: 0x14,
            sl: 0x15,
            entropy: 0x1617,
            msn: 0x1819,
        };
        let parcel = Parcel::new(&packet);
        assert_eq!(parcel.packet(), packet);
        assert_eq!((parcel.dest(), parcel.entropy()), (packet.dest.0, 0x1617));
        assert_eq!((parcel.wire_bytes(), parcel.payload(), parcel.ext()), (0x0F10, 0x1112, packet.ext));
        assert!(parcel.has(PacketFlags::TRACED) && !parcel.has(PacketFlags::ECN_CE));
        let mut to_other = parcel;
        to_other.set_dest_qp(0x00FE_DCBA);
        assert_eq!(to_other.packet(), Packet { dest_qp: 0x00FE_DCBA, ..packet });
        let mut noted = parcel;
        noted.set_via(0xABCD);
        assert_eq!((noted.via(), parcel.via(), noted.packet()), (0xABCD, 0, packet));
        noted.set_via(0);
        assert_eq!((noted.route, noted.order), (parcel.route, parcel.order));
    }
}
