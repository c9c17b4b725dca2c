//! A hash of a schedule that is the same on every machine and in every version.
//!
//! Source: FNV-1a with 128 bits (draft-eastlake-fnv). It names results; it does not protect them.

use std::fmt;

use crate::{After, OpKind, Schedule};

/// The name of a schedule's content, printed as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleHash(pub u128);

impl Schedule {
    /// The stable hash: equal schedules have equal hashes, on every machine.
    #[must_use]
    pub fn stable_hash(&self) -> ScheduleHash {
        let mut hash = Fnv(OFFSET);
        hash.add(1, &[u64::from(self.ranks())]);
        for rank in 0..self.ranks() {
            hash.add(2, &[self.kinds(rank).len() as u64]);
            for op in self.ops(rank) {
                match op.kind {
                    OpKind::Send { to, bytes, tag } => hash.add(3, &[to.into(), bytes.0, tag.into()]),
                    OpKind::Recv { from, bytes, tag } => hash.add(4, &[from.into(), bytes.0, tag.into()]),
                    OpKind::Put { to, bytes } => hash.add(5, &[to.into(), bytes.0]),
                    OpKind::Get { from, bytes } => hash.add(6, &[from.into(), bytes.0]),
                    OpKind::Compute { span } => hash.add(7, &[span.as_ps()]),
                }
                for after in op.after {
                    match after {
                        After::End(op) => hash.add(8, &[op.0.into()]),
                        After::Start(op) => hash.add(9, &[op.0.into()]),
                    }
                }
            }
        }
        ScheduleHash(hash.0)
    }
}

impl fmt::Display for ScheduleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

struct Fnv(u128);

impl Fnv {
    /// Adds a record: its kind, then its fields in little-endian order.
    fn add(&mut self, kind: u8, fields: &[u64]) {
        self.byte(kind);
        fields.iter().flat_map(|field| field.to_le_bytes()).for_each(|byte| self.byte(byte));
    }
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
    }
}

/// Basis: standard, draft-eastlake-fnv §5.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 1 << 88 | 0x13b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of the draft: the empty string and "a".
        let mut hash = Fnv(OFFSET);
        assert_eq!(ScheduleHash(hash.0).to_string(), "6c62272e07bb014262b821756295c58d");
        hash.byte(b'a');
        assert_eq!(ScheduleHash(hash.0).to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }
}
