//! The memory of a host, for runs that move real bytes.
//!
//! Modelled: reading and writing at an address of whoever has a protection domain; gather and scatter lists.
//! Not modelled: translation and faults (regions are checked before any access).

use crate::ids::{Lid, PdId};
use crate::payload::PayloadBytes;
use crate::wr::Sge;

/// Memory the NIC reads and writes. Without it no bytes move and only their number is
/// counted. A run may move between threads, and its memory with it. Processes of a host have the same addresses: whose one is
/// meant, the protection domain says.
pub trait Memory: Send {
    /// Fills `into` from `addr` on.
    fn read(&self, pd: PdId, addr: u64, into: &mut [u8]);
    /// Stores `from` at `addr`.
    fn write(&mut self, pd: PdId, addr: u64, from: &[u8]);
    /// The same bytes where they are, for packets that carry them until their request completes; none where they must be copied.
    fn lend(&self, pd: PdId, addr: u64, length: usize) -> Option<PayloadBytes> {
        let _ = (pd, addr, length);
        None
    }
    /// What stands in front of a datagram of so many bytes, where anybody looks at it.
    fn global_header(&self, from: Lid, to: Lid, bytes: u32) -> Option<[u8; 40]> {
        let _ = (from, to, bytes);
        None
    }
}

/// Reads `length` bytes of a gather list from `offset` on.
pub(crate) fn gather(memory: &dyn Memory, pd: PdId, list: &[Sge], offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    each_piece(list, offset, length, |_, addr, range| memory.read(pd, addr, &mut bytes[range]));
    bytes
}

/// The same bytes, lent where they lie in one piece and the memory can.
pub(crate) fn lend(memory: &dyn Memory, pd: PdId, list: &[Sge], offset: u64, length: usize) -> PayloadBytes {
    let lent = match list {
        [piece] if offset + length as u64 <= u64::from(piece.length) => memory.lend(pd, piece.addr + offset, length),
        _ => None,
    };
    lent.unwrap_or_else(|| gather(memory, pd, list, offset, length).into())
}

/// Writes `bytes` to a scatter list from `offset` on.
pub(crate) fn scatter(memory: &mut dyn Memory, pd: PdId, list: &[Sge], offset: u64, bytes: &[u8]) {
    each_piece(list, offset, bytes.len(), |_, addr, range| memory.write(pd, addr, &bytes[range]));
}

/// Calls `visit` with each piece, the address within it, and the part of the `length` bytes it holds.
pub(crate) fn each_piece(list: &[Sge], offset: u64, length: usize, mut visit: impl FnMut(&Sge, u64, std::ops::Range<usize>)) {
    let mut skip = offset;
    let mut done = 0;
    for piece in list {
        let size = u64::from(piece.length);
        if skip >= size {
            skip -= size;
            continue;
        }
        let part = usize::try_from(size - skip).expect("a piece has less than 4 GiB").min(length - done);
        if part == 0 {
            break;
        }
        visit(piece, piece.addr + skip, done..done + part);
        done += part;
        skip = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lkey;

    struct Ram(Vec<u8>);
    impl Memory for Ram {
        fn read(&self, _: PdId, addr: u64, into: &mut [u8]) {
            into.copy_from_slice(&self.0[addr as usize..][..into.len()]);
        }
        fn write(&mut self, _: PdId, addr: u64, from: &[u8]) {
            self.0[addr as usize..][..from.len()].copy_from_slice(from);
        }
    }

    #[test]
    fn lists_are_walked_across_pieces() {
        let mut ram = Ram((0..32).collect());
        let piece = |addr, length| Sge { addr, length, lkey: Lkey(0) };
        let list = [piece(0, 3), piece(10, 0), piece(20, 4)];
        assert_eq!(gather(&ram, PdId(0), &list, 0, 7), [0, 1, 2, 20, 21, 22, 23]);
        assert_eq!(gather(&ram, PdId(0), &list, 2, 3), [2, 20, 21]);
        scatter(&mut ram, PdId(0), &list, 2, &[90, 91, 92]);
        assert_eq!((ram.0[2], ram.0[20], ram.0[21], ram.0[22]), (90, 91, 92, 22));
    }
}
