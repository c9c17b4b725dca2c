//! What can happen, in 32 bytes that are copied into the queue.

use fabriscope_verbs::{ExtId, Lid, Packet, PacketFlags, QpNum, WqeIndex};

/// An event as the queue holds it: what happens and where, and seven words more.
///
/// A packet travels inside its event: while it is under way it is nowhere else. Its fields are packed into whole words
/// by [`Parcel`], so that no byte is written and read back as part of a word on the way from hop to hop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// Kind in the four high bits, place in the others.
    what: u32,
    words: [u32; 7],
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
    /// A program goes on.
    Wake { rank: u32 },
    /// An operation of a schedule ended.
    Done { rank: u32, op: u32 },
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

impl Event {
    #[inline(always)]
    fn new(kind: u32, place: u32, words: [u32; 7]) -> Event {
        Event { what: kind << 28 | place, words }
    }
    #[inline(always)]
    pub fn arrive(lane: u32, parcel: Parcel) -> Event {
        Event::new(ARRIVE, lane, parcel.0)
    }
    pub fn pump(link: u32) -> Event {
        Event::new(PUMP, link, [0; 7])
    }
    pub fn transmit(host: u32) -> Event {
        Event::new(TRANSMIT, host, [0; 7])
    }
    pub fn doorbell(host: u32, doorbell: u32) -> Event {
        Event::new(DOORBELL, host, [doorbell, 0, 0, 0, 0, 0, 0])
    }
    pub fn work(host: u32, qp: QpNum, through: WqeIndex) -> Event {
        Event::new(WORK, host, [qp.0, through.0 as u32, (through.0 >> 32) as u32, 0, 0, 0, 0])
    }
    pub fn timer(host: u32) -> Event {
        Event::new(TIMER, host, [0; 7])
    }
    pub fn wake(rank: u32) -> Event {
        Event::new(WAKE, rank, [0; 7])
    }
    pub fn done(rank: u32, op: u32) -> Event {
        Event::new(DONE, rank, [op, 0, 0, 0, 0, 0, 0])
    }

    /// The lane and the parcel, if a packet arrives.
    #[inline(always)]
    pub fn arrival(&self) -> Option<(u32, Parcel)> {
        (self.what >> 28 == ARRIVE).then_some((self.what, Parcel(self.words)))
    }

    /// The host, if a NIC may build packets.
    #[inline(always)]
    pub fn transmits(&self) -> Option<u32> {
        (self.what >> 28 == TRANSMIT).then_some(self.what & (PLACES - 1))
    }

    /// What it means.
    #[inline(always)]
    pub fn unpack(self) -> Happening {
        let (place, words) = (self.what & (PLACES - 1), self.words);
        match self.what >> 28 {
            ARRIVE => Happening::Arrive { lane: place, parcel: Parcel(words) },
            PUMP => Happening::Pump { link: place },
            TRANSMIT => Happening::Transmit { host: place },
            DOORBELL => Happening::Doorbell { host: place, doorbell: words[0] },
            WORK => {
                Happening::Work { host: place, qp: QpNum(words[0]), through: WqeIndex(u64::from(words[1]) | u64::from(words[2]) << 32) }
            }
            TIMER => Happening::Timer { host: place },
            WAKE => Happening::Wake { rank: place },
            _ => Happening::Done { rank: place, op: words[0] },
        }
    }
}

/// A packet in seven words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel([u32; 7]);

impl Parcel {
    #[inline(always)]
    pub fn new(p: &Packet) -> Parcel {
        let sizes = u32::from(p.wire_bytes) | u32::from(p.payload) << 16;
        let bytes = u32::from_le_bytes([p.opcode, p.flags.0, p.syndrome, p.sl]);
        Parcel([p.dest.0, p.dest_qp, p.psn, p.ext.0, sizes, bytes, u32::from(p.entropy) | u32::from(p.msn) << 16])
    }
    #[inline(always)]
    pub fn packet(&self) -> Packet {
        let Parcel([dest, dest_qp, psn, ext, sizes, bytes, rest]) = *self;
        let [opcode, flags, syndrome, sl] = bytes.to_le_bytes();
        Packet {
            dest: Lid(dest),
            dest_qp,
            psn,
            ext: ExtId(ext),
            wire_bytes: sizes as u16,
            payload: (sizes >> 16) as u16,
            opcode,
            flags: PacketFlags(flags),
            syndrome,
            sl,
            entropy: rest as u16,
            msn: (rest >> 16) as u16,
        }
    }
    #[inline(always)]
    pub fn dest(&self) -> u32 {
        self.0[0]
    }
    #[inline(always)]
    pub fn dest_qp(&self) -> u32 {
        self.0[1]
    }
    #[inline(always)]
    pub fn entropy(&self) -> u32 {
        self.0[6] & 0xFFFF
    }
    /// Service level.
    #[inline(always)]
    pub fn sl(&self) -> u32 {
        self.0[5] >> 24
    }
    /// Bytes on the wire.
    #[inline(always)]
    pub fn wire_bytes(&self) -> u32 {
        self.0[4] & 0xFFFF
    }
    /// Bytes of payload.
    #[inline(always)]
    pub fn payload(&self) -> u32 {
        self.0[4] >> 16
    }
    #[inline(always)]
    pub fn ext(&self) -> ExtId {
        ExtId(self.0[3])
    }
    #[inline(always)]
    pub fn has(&self, flags: PacketFlags) -> bool {
        PacketFlags((self.0[5] >> 8) as u8).contains(flags)
    }
    #[inline]
    pub fn set(&mut self, flags: PacketFlags) {
        self.0[5] |= u32::from(flags.0) << 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
