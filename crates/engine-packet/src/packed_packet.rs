//! A packet in 28 bytes: the form in which it travels inside its event.
//!
//! Fields are packed into whole words: words stay in registers from hop to hop, while bytes written one by one and read back as part
//! of a word stall the processor until all stores before them are done.

use fabriscope_units::Bytes;
use fabriscope_verbs::{ExtId, Lid, Packet, PacketFlags};

/// The least that remains of a trimmed packet: an Ethernet frame of 64 bytes with preamble and gap (standard).
const TRIMMED_LEAST: Bytes = Bytes(84);
/// Queue pairs and sequence numbers have 24 bits.
const LOW_24: u32 = (1 << 24) - 1;

/// A packet in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedPacket {
    /// From the low end: destination (32 bits), queue pair there (24), low byte of the routing's note.
    pub(crate) route: u64,
    /// From the low end: sequence number (24 bits), high byte of the routing's note, number of the extension headers (32).
    pub(crate) order: u64,
    /// From the low end: wire bytes (16 bits), payload (16), opcode, flags, syndrome, service level (8 each).
    pub(crate) sizes: u64,
    /// Entropy (16 bits), message sequence number (16).
    pub(crate) spread: u32,
}

impl PackedPacket {
    #[inline(always)]
    pub fn new(p: &Packet) -> PackedPacket {
        let bytes = u32::from_le_bytes([p.opcode, p.flags.0, p.syndrome, p.sl]);
        PackedPacket {
            route: u64::from(p.dest.0) | u64::from(p.dest_qp & LOW_24) << 32,
            order: u64::from(p.psn & LOW_24) | u64::from(p.ext.0) << 32,
            sizes: u64::from(p.wire_bytes) | u64::from(p.payload) << 16 | u64::from(bytes) << 32,
            spread: u32::from(p.entropy) | u32::from(p.msn) << 16,
        }
    }
    #[inline(always)]
    pub fn unpack(&self) -> Packet {
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
    pub fn wire_bytes(&self) -> Bytes {
        Bytes(self.sizes & 0xFFFF)
    }
    /// Bytes of payload.
    #[inline(always)]
    pub fn payload(&self) -> Bytes {
        Bytes(self.sizes >> 16 & 0xFFFF)
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
        self.sizes = self.sizes & !0xFFFF_FFFF | headers.max(TRIMMED_LEAST).0;
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
        let packed = PackedPacket::new(&packet);
        assert_eq!(packed.unpack(), packet);
        assert_eq!((packed.dest(), packed.entropy()), (packet.dest.0, 0x1617));
        assert_eq!((packed.wire_bytes(), packed.payload(), packed.ext()), (Bytes(0x0F10), Bytes(0x1112), packet.ext));
        assert!(packed.has(PacketFlags::TRACED) && !packed.has(PacketFlags::ECN_CE));
        let mut to_other = packed;
        to_other.set_dest_qp(0x00FE_DCBA);
        assert_eq!(to_other.unpack(), Packet { dest_qp: 0x00FE_DCBA, ..packet });
        let mut noted = packed;
        noted.set_via(0xABCD);
        assert_eq!((noted.via(), packed.via(), noted.unpack()), (0xABCD, 0, packet));
        noted.set_via(0);
        assert_eq!((noted.route, noted.order), (packed.route, packed.order));
    }
}
