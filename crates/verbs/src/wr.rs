//! Work requests, as `ibv_post_send` and `ibv_post_recv` take them.
//!
//! Source: IBA vol. 1 §10.7; man pages ibv_post_send(3), ibv_post_recv(3).
//! Modelled: SEND, WRITE (both with immediate data), READ, FETCH_ADD, CMP_SWAP, both with the masks of mlx5's extended atomics; gather lists; the four send flags.
//! BIND, LOCAL_INV and SEND with invalidate of memory windows, on RC.
//! Not modelled: the longer header of extended atomics, registration by requests, TSO, IP checksum offload.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use fabriscope_units::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::access::Access;
use crate::ids::{AhId, EecNum, Lkey, QpNum, Rkey, SrqId, WqeIndex};
use crate::wc::WcOpcode;
use crate::words::AppWords;

/// What a send work request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WrOpcode {
    /// Into the next receive of the peer.
    Send,
    /// The same, with 32 bits for the completion of the peer.
    SendWithImm,
    /// Into the memory of the peer, unnoticed by its programs.
    RdmaWrite,
    /// The same, and a receive of the peer completes with 32 bits.
    RdmaWriteWithImm,
    /// From the memory of the peer.
    RdmaRead,
    /// Adds to 64 bits of the peer and returns the old value.
    AtomicFetchAndAdd,
    /// Replaces 64 bits of the peer if they equal a value, and returns the old value.
    AtomicCmpAndSwp,
    /// As SEND, and the peer's window of a key closes.
    SendWithInv,
    /// Opens a memory window of this side.
    BindMw,
    /// Closes one.
    LocalInv,
}

impl WrOpcode {
    /// Every opcode that moves data or words, but SEND with invalidate.
    pub const ALL: [WrOpcode; 7] = [
        WrOpcode::Send,
        WrOpcode::SendWithImm,
        WrOpcode::RdmaWrite,
        WrOpcode::RdmaWriteWithImm,
        WrOpcode::RdmaRead,
        WrOpcode::AtomicFetchAndAdd,
        WrOpcode::AtomicCmpAndSwp,
    ];

    /// SEND or SEND with immediate.
    pub const fn is_send(self) -> bool {
        matches!(self, WrOpcode::Send | WrOpcode::SendWithImm | WrOpcode::SendWithInv)
    }
    /// WRITE or WRITE with immediate.
    pub const fn is_write(self) -> bool {
        matches!(self, WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm)
    }
    /// READ.
    pub const fn is_read(self) -> bool {
        matches!(self, WrOpcode::RdmaRead)
    }
    /// FETCH_ADD or CMP_SWAP.
    pub const fn is_atomic(self) -> bool {
        matches!(self, WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp)
    }
    /// Whether it changes who may use which memory.
    pub const fn changes_keys(self) -> bool {
        matches!(self, WrOpcode::SendWithInv | WrOpcode::BindMw | WrOpcode::LocalInv)
    }
    /// Whether it is carried out by the adapter of this side alone.
    pub const fn is_local(self) -> bool {
        matches!(self, WrOpcode::BindMw | WrOpcode::LocalInv)
    }
    /// Whether the peer's completion carries immediate data.
    pub const fn has_immediate(self) -> bool {
        matches!(self, WrOpcode::SendWithImm | WrOpcode::RdmaWriteWithImm)
    }
    /// The opcode its completion shows.
    pub const fn completion(self) -> WcOpcode {
        match self {
            WrOpcode::Send | WrOpcode::SendWithImm | WrOpcode::SendWithInv => WcOpcode::Send,
            WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm => WcOpcode::RdmaWrite,
            WrOpcode::RdmaRead => WcOpcode::RdmaRead,
            WrOpcode::AtomicFetchAndAdd => WcOpcode::FetchAdd,
            WrOpcode::AtomicCmpAndSwp => WcOpcode::CompSwap,
            WrOpcode::BindMw => WcOpcode::BindMw,
            WrOpcode::LocalInv => WcOpcode::LocalInv,
        }
    }
}

/// The flags of a send work request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SendFlags(u8);

impl SendFlags {
    /// No flag.
    pub const NONE: SendFlags = SendFlags(0);
    /// A completion is wanted.
    pub const SIGNALED: SendFlags = SendFlags(1);
    /// Starts only when all earlier READs and atomics are complete.
    pub const FENCE: SendFlags = SendFlags(2);
    /// The peer's completion raises an event even when it asked for solicited ones only.
    pub const SOLICITED: SendFlags = SendFlags(4);
    /// The data is copied when the request is posted.
    pub const INLINE: SendFlags = SendFlags(8);
    /// The simulator traces the packets of this message. No counterpart in libibverbs.
    pub const TRACED: SendFlags = SendFlags(16);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: SendFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for SendFlags {
    type Output = SendFlags;
    fn bitor(self, other: SendFlags) -> SendFlags {
        SendFlags(self.0 | other.0)
    }
}
impl BitOrAssign for SendFlags {
    fn bitor_assign(&mut self, other: SendFlags) {
        self.0 |= other.0;
    }
}
impl fmt::Debug for SendFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (SendFlags::SIGNALED, "SIGNALED"),
            (SendFlags::FENCE, "FENCE"),
            (SendFlags::SOLICITED, "SOLICITED"),
            (SendFlags::INLINE, "INLINE"),
            (SendFlags::TRACED, "TRACED"),
        ];
        f.debug_list().entries(names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| name)).finish()
    }
}

/// A piece of local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// First byte.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the region it lies in.
    pub lkey: Lkey,
}

/// Pieces of local memory, gathered or scattered in order.
pub type SgeList = SmallVec<[Sge; 1]>;

/// A piece of the peer's memory; its length is that of the gather list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remote {
    /// First byte.
    pub addr: u64,
    /// Key of the region it lies in.
    pub rkey: Rkey,
}

/// The operands of an atomic. The masks are those of the extended atomics of mlx5 adapters; without bits in them it is one of the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Atomic {
    /// What FETCH_ADD adds; what CMP_SWAP compares with.
    pub compare_add: u64,
    /// What CMP_SWAP stores.
    pub swap: u64,
    /// Bits that CMP_SWAP does not compare; all of them: it swaps whatever is there.
    pub ignore: u64,
    /// Bits that stay as they are; the upper half of the word, for an operand of 32 bits.
    pub keep: u64,
}

impl Atomic {
    /// What CMP_SWAP, or FETCH_ADD where `adds`, makes of `old`.
    #[must_use]
    pub const fn apply(self, adds: bool, old: u64) -> u64 {
        let new = if adds {
            old.wrapping_add(self.compare_add)
        } else if (old ^ self.compare_add) & !self.ignore == 0 {
            self.swap
        } else {
            return old;
        };
        old & self.keep | new & !self.keep
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdDestination {
    /// The address handle of the peer's NIC.
    pub ah: AhId,
    /// The peer's queue pair.
    pub remote_qpn: QpNum,
    /// The Q_Key the peer's queue pair was given.
    pub remote_qkey: u32,
}

/// A send work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: WrOpcode,
    /// Local memory: source of SEND and WRITE, destination of READ and atomics.
    pub sge: SgeList,
    /// The flags.
    pub flags: SendFlags,
    /// The peer's memory, for WRITE, READ and atomics.
    pub remote: Option<Remote>,
    /// Immediate data, for the opcodes with it.
    pub imm: Option<u32>,
    /// Operands, for atomics.
    pub atomic: Option<Atomic>,
    /// Destination, on UD, SRD, UET and raw packets; on DC target and access key; on RD queue pair and key.
    pub ud: Option<UdDestination>,
    /// The peer's shared receive queue, on XRC.
    pub remote_srqn: Option<SrqId>,
    /// The end-to-end context to the peer, on RD.
    pub eec: Option<EecNum>,
    /// The rights of a memory window, for BIND.
    pub window: Option<Access>,
    /// What the program says with a SEND or WRITE. No counterpart in libibverbs, where it is in the bytes.
    pub words: Option<AppWords>,
}

impl SendWr {
    /// A request without flags, remote memory or immediate data.
    pub fn new(wr_id: u64, opcode: WrOpcode, sge: Sge) -> SendWr {
        SendWr {
            wr_id,
            opcode,
            sge: smallvec![sge],
            flags: SendFlags::NONE,
            remote: None,
            imm: None,
            atomic: None,
            ud: None,
            remote_srqn: None,
            eec: None,
            window: None,
            words: None,
        }
    }
    /// SEND.
    pub fn send(wr_id: u64, sge: Sge) -> SendWr {
        SendWr::new(wr_id, WrOpcode::Send, sge)
    }
    /// WRITE.
    pub fn write(wr_id: u64, sge: Sge, remote: Remote) -> SendWr {
        SendWr { remote: Some(remote), ..SendWr::new(wr_id, WrOpcode::RdmaWrite, sge) }
    }
    /// READ.
    pub fn read(wr_id: u64, sge: Sge, remote: Remote) -> SendWr {
        SendWr { remote: Some(remote), ..SendWr::new(wr_id, WrOpcode::RdmaRead, sge) }
    }
    /// FETCH_ADD of `add`; `sge` is where the old value goes.
    pub fn fetch_add(wr_id: u64, sge: Sge, remote: Remote, add: u64) -> SendWr {
        let atomic = Some(Atomic { compare_add: add, ..Atomic::default() });
        SendWr { remote: Some(remote), atomic, ..SendWr::new(wr_id, WrOpcode::AtomicFetchAndAdd, sge) }
    }
    /// CMP_SWAP; `sge` is where the old value goes.
    pub fn cmp_swap(wr_id: u64, sge: Sge, remote: Remote, compare: u64, swap: u64) -> SendWr {
        let atomic = Some(Atomic { compare_add: compare, swap, ..Atomic::default() });
        SendWr { remote: Some(remote), atomic, ..SendWr::new(wr_id, WrOpcode::AtomicCmpAndSwp, sge) }
    }
    /// BIND: what lies at `sge` can be reached by peers under `rkey`, a key of a window, with the rights `access`; a window of no bytes is closed.
    pub fn bind(wr_id: u64, rkey: Rkey, sge: Sge, access: Access) -> SendWr {
        let remote = Some(Remote { addr: sge.addr, rkey });
        SendWr { remote, window: Some(access), ..SendWr::new(wr_id, WrOpcode::BindMw, sge) }
    }
    /// LOCAL_INV: the window of `rkey` closes.
    pub fn invalidate(wr_id: u64, rkey: Rkey) -> SendWr {
        SendWr { remote: Some(Remote { addr: 0, rkey }), sge: SgeList::new(), ..SendWr::new(wr_id, WrOpcode::LocalInv, Sge::default()) }
    }
    /// The same SEND, which closes the peer's window of `rkey`.
    pub fn invalidating(self, rkey: Rkey) -> SendWr {
        SendWr { opcode: WrOpcode::SendWithInv, remote: Some(Remote { addr: 0, rkey }), ..self }
    }
    /// The same atomic with masks: `ignore` are bits that are not compared, `keep` bits that stay. Other requests stay as they are.
    pub fn masked(mut self, ignore: u64, keep: u64) -> SendWr {
        self.atomic = self.atomic.map(|atomic| Atomic { ignore, keep, ..atomic });
        self
    }
    /// The same SEND or WRITE with immediate data; other opcodes stay as they are.
    pub fn with_imm(mut self, imm: u32) -> SendWr {
        self.opcode = match self.opcode {
            WrOpcode::Send => WrOpcode::SendWithImm,
            WrOpcode::RdmaWrite => WrOpcode::RdmaWriteWithImm,
            other => other,
        };
        self.imm = Some(imm);
        self
    }
    /// The same SEND or WRITE, which says `words`.
    pub fn saying(mut self, words: AppWords) -> SendWr {
        self.words = Some(words);
        self
    }
    /// The same request with more flags.
    pub fn with_flags(mut self, flags: SendFlags) -> SendWr {
        self.flags |= flags;
        self
    }
    /// The same request with a completion.
    pub fn signaled(self) -> SendWr {
        self.with_flags(SendFlags::SIGNALED)
    }
    /// The same request to a shared receive queue of the peer (XRC).
    pub fn to_srq(mut self, srqn: SrqId) -> SendWr {
        self.remote_srqn = Some(srqn);
        self
    }
    /// The same request over an end-to-end context (RD); its destination has no address handle.
    pub fn over(mut self, eec: EecNum, remote_qpn: QpNum, remote_qkey: u32) -> SendWr {
        self.eec = Some(eec);
        self.ud = Some(UdDestination { ah: AhId(0), remote_qpn, remote_qkey });
        self
    }
    /// The same request to a datagram destination.
    pub fn to(mut self, ud: UdDestination) -> SendWr {
        self.ud = Some(ud);
        self
    }
    /// Bytes of the gather list.
    pub fn length(&self) -> Bytes {
        total(&self.sge)
    }
}

/// A receive work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes; on UD the first 40 bytes take the GRH.
    pub sge: SgeList,
}

impl RecvWr {
    /// A request with one buffer.
    pub fn new(wr_id: u64, sge: Sge) -> RecvWr {
        RecvWr { wr_id, sge: smallvec![sge] }
    }
}

/// What posting a send work request took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// Its position in the send queue; `doorbell` takes it.
    pub wqe: WqeIndex,
    /// Bytes of the message.
    pub bytes: Bytes,
    /// Whether the data was copied into the queue.
    pub inline: bool,
    /// Entries of its gather list.
    pub sges: u32,
}

/// Bytes of a gather list.
pub(crate) fn total(sge: &[Sge]) -> Bytes {
    sge.iter().map(|piece| Bytes(u64::from(piece.length))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::QpType;

    #[test]
    fn opcodes_by_queue_pair_type() {
        // RC, UC, UD: the table of ibv_post_send(3). XRC: as RC. RD: IBA vol. 1 table 34. DC: as RC (mlx5dv). SRD: efadv has SEND,
        // READ and WRITE. UET: the operations of libfabric, atomics among them. iWARP: RFC 5040. Raw: SEND.
        let golden = "\
            RC         Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            XRC_SEND   Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            XRC_RECV   -    -           -         -                -        -                 -\n\
            RD         Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            DCI        Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            DCT        -    -           -         -                -        -                 -\n\
            SRD        Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead -                 -\n\
            UET        Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            UET_ROD    Send SendWithImm RdmaWrite RdmaWriteWithImm RdmaRead AtomicFetchAndAdd AtomicCmpAndSwp\n\
            UET_RUDI   -    -           RdmaWrite -                RdmaRead -                 -\n\
            UET_UUD    Send SendWithImm -         -                -        -                 -\n\
            IWARP      Send -           RdmaWrite -                RdmaRead -                 -\n\
            UC         Send SendWithImm RdmaWrite RdmaWriteWithImm -        -                 -\n\
            UD         Send SendWithImm -         -                -        -                 -\n\
            RAW_PACKET Send -           -         -                -        -                 -\n";
        let mut table = String::new();
        for &qp in QpType::ALL {
            let mut line = format!("{:<10}", qp.name());
            for opcode in WrOpcode::ALL {
                let name = format!("{opcode:?}");
                line += &format!(" {:<1$}", if qp.has(opcode) { &name } else { "-" }, name.len());
            }
            table += line.trim_end();
            table += "\n";
        }
        assert_eq!(table, golden);
    }

    #[test]
    fn masks_choose_bits() {
        let plain = Atomic { compare_add: 7, swap: 9, ..Atomic::default() };
        assert_eq!([plain.apply(true, 5), plain.apply(false, 7), plain.apply(false, 5)], [12, 9, 5]);
        // A swap compares nothing; 32 bits leave the upper half alone, a carry too.
        let low = Atomic { keep: !0 << 32, ..plain };
        assert_eq!(Atomic { ignore: !0, ..plain }.apply(false, 5), 9);
        assert_eq!(Atomic { compare_add: 1, ..low }.apply(true, 0xab_ffff_ffff), 0xab_0000_0000);
        assert_eq!(Atomic { ignore: !0 << 32, ..low }.apply(false, 0xab_0000_0007), 0xab_0000_0009);
    }

    #[test]
    fn flags_combine() {
        let flags = SendFlags::SIGNALED | SendFlags::FENCE;
        assert!(flags.contains(SendFlags::FENCE) && !flags.contains(SendFlags::INLINE));
        assert_eq!(format!("{flags:?}"), r#"["SIGNALED", "FENCE"]"#);
    }
}
