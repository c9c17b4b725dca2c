//! Numbers that name the objects of a NIC.
//!
//! Source: InfiniBand Architecture Specification (IBA) vol. 1 §10 and §11; the names follow libibverbs.
//! Modelled: flat numbers; queue pair numbers and memory keys carry a generation, so stale ones are refused.
//! Not modelled: contexts, devices, ports with several partitions.

use std::num::NonZeroU32;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A network address: the number of an endpoint of the fabric.
    Lid(u32)
);
id!(
    /// A queue pair number, 24 bits. Its low bits are the slot in the NIC's table.
    QpNum(u32)
);
id!(
    /// A completion queue.
    CqId(u32)
);
id!(
    /// A protection domain.
    PdId(u32)
);
id!(
    /// A shared receive queue.
    SrqId(u32)
);
id!(
    /// An XRC domain: the shared receive queues that extended connections may name.
    XrcdId(u32)
);
id!(
    /// An end-to-end context of RD: the connection of two NICs that all their RD queue pairs share.
    EecNum(u32)
);
id!(
    /// An address handle: where a datagram goes.
    AhId(u32)
);
id!(
    /// The key that lets the local NIC touch a memory region.
    Lkey(u32)
);
id!(
    /// The key that lets a remote NIC touch a memory region.
    Rkey(u32)
);
id!(
    /// A watch on a range of memory.
    WatchId(u32)
);
id!(
    /// A counter of messages.
    CounterId(u32)
);
id!(
    /// The position of a work request in its queue, counted from the creation of the queue; never wraps.
    WqeIndex(u64)
);

impl Lid {
    /// Set in the address of a group, beside its number: endpoints have smaller ones, whatever the size of the fabric.
    pub const MULTICAST: u32 = 1 << 31;

    /// The address of the multicast group with this MLID.
    #[inline]
    pub const fn multicast(mlid: u16) -> Lid {
        Lid(Lid::MULTICAST | mlid as u32)
    }
    /// The MLID, where it is the address of a multicast group.
    #[inline]
    pub const fn mlid(self) -> Option<u16> {
        if self.0 & Lid::AGGREGATE == Lid::MULTICAST { Some(self.0 as u16) } else { None }
    }

    /// Whether packets to `other` pass no router, where so many adapters, numbered one subnet after the other, are a subnet; groups are within
    /// one.
    #[must_use]
    pub const fn shares_subnet(self, other: Lid, adapters: NonZeroU32) -> bool {
        other.0 >= Lid::MULTICAST || self.0 / adapters.get() == other.0 / adapters.get()
    }

    /// Set in the address of a group whose contributions switches reduce, beside its number.
    pub const AGGREGATE: u32 = 3 << 30;

    /// The address of the group of reductions with this number.
    #[inline]
    pub const fn aggregate(group: u32) -> Lid {
        Lid(Lid::AGGREGATE | group)
    }
    /// The number of the group of reductions, where it is the address of one.
    #[inline]
    pub const fn aggregation(self) -> Option<u32> {
        if self.0 & Lid::AGGREGATE == Lid::AGGREGATE { Some(self.0 & !Lid::AGGREGATE) } else { None }
    }
}

impl CqId {
    /// Set in the number of a queue's events.
    const EVENTS: u32 = 1 << 30;

    /// What a program waits for that asked a queue for an event, instead of the queue itself.
    #[inline]
    #[must_use]
    pub const fn events(self) -> CqId {
        CqId(self.0 | CqId::EVENTS)
    }
    /// The queue whose events these are.
    #[inline]
    pub(crate) const fn raised_by(self) -> Option<CqId> {
        if self.0 & CqId::EVENTS != 0 { Some(CqId(self.0 & !CqId::EVENTS)) } else { None }
    }
}

impl QpNum {
    /// What datagrams for a group name as their queue pair. Basis: standard.
    pub const MULTICAST: QpNum = QpNum(0xff_ffff);
    /// The queue pair of general services, through which adapters and management talk. Basis: standard.
    pub const GENERAL_SERVICES: QpNum = QpNum(1);

    /// Where commands that wait for counters are rung for; no queue pair has this number.
    pub const TRIGGERED: QpNum = QpNum(0xff_fffe);

    /// The low bits: its place in the NIC's table. Numbers of queue pairs that exist at the same time differ in it.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 & SLOT_MASK
    }
}

/// The place of a queue pair number in the table.
#[inline]
pub(crate) const fn slot_number(qp: u32) -> usize {
    (qp & SLOT_MASK).wrapping_sub(FIRST_QP) as usize
}

/// Queue pairs a NIC can hold; the other bits of the 24 tell generations apart.
pub(crate) const SLOT_BITS: u32 = 18;
pub(crate) const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// 0 and 1 are the management queue pairs. Basis: standard, IBA vol. 1 §3.5.3.
pub(crate) const FIRST_QP: u32 = 2;
