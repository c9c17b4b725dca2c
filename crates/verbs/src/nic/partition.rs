//! Partitions: which packets a NIC takes.
//!
//! Source: IBA vol. 1 §10.9.3 (two P_Keys match when their low 15 bits are equal, are not zero, and at least one has the bit of full
//! membership), §9.6.1.4 (a packet that does not match is dropped without an answer), §14.2.5.6 (PKeyViolations).
//! Modelled: a table for the port, an index for each queue pair, the check of every packet that arrives.
//! Not modelled: the trap to the subnet manager.

use fabriscope_units::Time;
use fabriscope_wire::Transport;

use crate::ext_headers::{Ext, ExtContent, ExtHeaders, ExtId};
use crate::ids::QpNum;
use crate::nic::Nic;
use crate::packet::{Packet, Received, Transmit};
use crate::qp::Qp;

/// The bit of full membership (standard).
const FULL: u16 = 0x8000;

/// Whether packets with key `a` reach a queue pair with key `b`.
#[must_use]
pub fn matches(a: u16, b: u16) -> bool {
    (a ^ b) & !FULL == 0 && a & !FULL != 0 && (a | b) & FULL != 0
}

impl Nic {
    /// Gives the port a table of P_Keys, each with the bit of membership. Without one all are full members of one partition, and
    /// packets carry no key.
    pub fn set_pkeys(&mut self, keys: Vec<u16>) {
        self.port.pkeys = keys;
    }

    /// The index of the key whose low 15 bits are those of `pkey`.
    #[must_use]
    pub fn pkey_index(&self, pkey: u16) -> Option<u16> {
        let place = self.port.pkeys.iter().position(|key| (key ^ pkey) & !FULL == 0)?;
        u16::try_from(place).ok()
    }

    fn pkey_of(&self, qp: &Qp) -> u16 {
        self.port.pkeys.get(usize::from(qp.attr.pkey_index.unwrap_or(0))).copied().unwrap_or(0)
    }

    /// Writes the key of the queue pair into a packet that leaves.
    #[cold]
    pub(crate) fn stamp(&self, transmit: &mut Transmit, side: &mut ExtHeaders) {
        let pkey = self.qps.get(self.slot_of(transmit.qp).unwrap_or(usize::MAX)).map_or(0, |qp| self.pkey_of(qp));
        match side.at_mut(transmit.packet.ext) {
            Some(ext) => ext.pkey = pkey,
            None => transmit.packet.ext = side.alloc(Ext { pkey, content: ExtContent::KeyOnly, ..Ext::default() }),
        }
    }

    /// Takes a packet whose key matches that of its queue pair, and drops any other.
    #[cold]
    pub(crate) fn handle_partitioned(&mut self, now: Time, packet: &Packet, side: &mut ExtHeaders) -> Received {
        let (pkey, key_only) = side.at(packet.ext).map_or((0, false), |ext| (ext.pkey, ext.content == ExtContent::KeyOnly));
        let mut packet = *packet;
        if key_only {
            side.free(packet.ext);
            packet.ext = ExtId::NONE;
        }
        let slot = self.slot_of(QpNum(packet.dest_qp));
        let admitted = packet.opcode >> 5 == Transport::Cnp as u8 || slot.is_none_or(|slot| matches(pkey, self.pkey_of(&self.qps[slot])));
        if admitted {
            return self.handle_admitted(now, &packet, side);
        }
        self.port.counts.pkey_violations += 1;
        side.free(packet.ext);
        Received { dropped: true, ..Received::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_when_one_end_is_a_full_member() {
        assert!(matches(0x8001, 0x8001) && matches(0x0001, 0x8001) && matches(0x8001, 0x0001));
        assert!(!matches(0x0001, 0x0001), "two limited members");
        assert!(!matches(0x8001, 0x8002) && !matches(0x8000, 0x8000), "other partitions, and the key that is none");
    }
}
