//! The transport services: what each promises, and which operations it has.
//!
//! Source: IBA vol. 1 §9.2.2, §9.4 and annex A14 (XRC); man pages ibv_create_qp(3), ibv_post_send(3), mlx5dv_create_qp(3) (DC),
//! efadv_create_driver_qp(3) (SRD); Shalev et al., "A Cloud-Optimized Transport Protocol for Elastic and Scalable HPC",
//! IEEE Micro 40(6), 2020 (SRD); Ultra Ethernet specification 1.0 §3.5 (UET: packet delivery modes RUD, ROD, RUDI, UUD); RFC 5040
//! (iWARP).
//! Modelled: the properties by which the rest of this crate decides; `tests/promises.rs` tries them on a channel that loses,
//! repeats and reorders.
//! Not modelled: DC's receives outside shared queues.

use fabriscope_wire::Transport;

use crate::wr::WrOpcode;

/// The transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Reliable datagram: messages to any queue pair over the end-to-end context of its NIC.
    Rd,
    /// The sending end of an extended reliable connection (`IBV_QPT_XRC_SEND`).
    XrcSend,
    /// The receiving end of an extended reliable connection, for all processes of a node (`IBV_QPT_XRC_RECV`).
    XrcRecv,
    /// Initiator of dynamically connected transport: one connection at a time, to whichever target a request names.
    Dci,
    /// Target of dynamically connected transport.
    Dct,
    /// Scalable reliable datagram of EFA.
    Srd,
    /// Ultra Ethernet transport: reliable, unordered, connectionless (RUD).
    Uet,
    /// Ultra Ethernet, reliable and ordered (ROD).
    UetRod,
    /// Ultra Ethernet, reliable and unordered for idempotent operations (RUDI): the receiver keeps no state.
    UetRudi,
    /// Ultra Ethernet, unreliable and unordered (UUD).
    UetUud,
    /// A connection of RDMAP over TCP, in the adapter: what programs get that ask an iWARP adapter for RC.
    Iwarp,
    /// Packets as they are, without transport (`IBV_QPT_RAW_PACKET`).
    RawPacket,
    /// An end-to-end context of RD, made by `create_eec`; programs post to RD queue pairs instead.
    Eec,
}

/// How the packets of Ultra Ethernet, and of SRD, are delivered (PDS: packet delivery modes).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Delivery {
    /// Reliable, unordered.
    #[default]
    Rud,
    /// Reliable, ordered: one path, and what comes too early is dropped.
    Rod,
    /// Reliable, unordered, without state at the receiver: what happens twice does no harm.
    Rudi,
    /// Unreliable, unordered: one packet each.
    Uud,
}

/// In which order messages arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// As they were posted, on each connection.
    PerConnection,
    /// As they were posted, from one queue pair to each of its destinations.
    PerDestination,
    /// What arrives is in the order in which it was posted; there may be gaps.
    Gaps,
    /// In any order.
    None,
}

/// How many queue pairs (or connections) a NIC holds so that M processes on each of N nodes reach all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scale {
    /// M²·N: one for each process here and each process there.
    EachPair,
    /// M·N: one for each process here and each node.
    EachNode,
    /// M: one for each process.
    EachProcess,
    /// 1: one for the node.
    One,
}

impl Scale {
    /// The number, for `processes` on each of `nodes`. A process needs none to itself; those to its own node count.
    pub const fn count(self, processes: u64, nodes: u64) -> u64 {
        match self {
            Scale::EachPair => processes * (processes * nodes - 1),
            Scale::EachNode => processes * nodes,
            Scale::EachProcess => processes,
            Scale::One => 1,
        }
    }
}

impl QpType {
    /// Those that programs make, in the order of the tables.
    pub const ALL: [QpType; 15] = [
        QpType::Rc,
        QpType::XrcSend,
        QpType::XrcRecv,
        QpType::Rd,
        QpType::Dci,
        QpType::Dct,
        QpType::Srd,
        QpType::Uet,
        QpType::UetRod,
        QpType::UetRudi,
        QpType::UetUud,
        QpType::Iwarp,
        QpType::Uc,
        QpType::Ud,
        QpType::RawPacket,
    ];

    /// Its short name.
    pub const fn name(self) -> &'static str {
        match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
            QpType::Ud => "UD",
            QpType::Rd => "RD",
            QpType::XrcSend => "XRC_SEND",
            QpType::XrcRecv => "XRC_RECV",
            QpType::Dci => "DCI",
            QpType::Dct => "DCT",
            QpType::Srd => "SRD",
            QpType::Uet => "UET",
            QpType::UetRod => "UET_ROD",
            QpType::UetRudi => "UET_RUDI",
            QpType::UetUud => "UET_UUD",
            QpType::Iwarp => "IWARP",
            QpType::RawPacket => "RAW_PACKET",
            QpType::Eec => "EEC",
        }
    }
    /// The transport service in its packets.
    pub(crate) const fn transport(self) -> Transport {
        match self {
            QpType::Rc => Transport::Rc,
            QpType::Uc => Transport::Uc,
            QpType::Ud => Transport::Ud,
            QpType::Rd | QpType::Eec => Transport::Rd,
            QpType::XrcSend | QpType::XrcRecv => Transport::Xrc,
            QpType::Dci | QpType::Dct => Transport::Dc,
            QpType::Srd | QpType::Uet | QpType::UetRod | QpType::UetRudi | QpType::UetUud => Transport::Rud,
            QpType::Iwarp | QpType::RawPacket => Transport::Cnp,
        }
    }
    /// Whether one queue pair has one peer for its life.
    pub const fn is_connected(self) -> bool {
        matches!(self, QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv | QpType::Iwarp | QpType::Eec)
    }
    /// Whether lost packets are sent again.
    pub const fn is_reliable(self) -> bool {
        !matches!(self, QpType::Uc | QpType::Ud | QpType::UetUud | QpType::RawPacket)
    }
    /// Whether a message may be carried out more than once, which is harmless only if it is idempotent.
    pub const fn repeats(self) -> bool {
        matches!(self, QpType::UetRudi)
    }
    /// Whether the receiver notices that something was lost.
    pub const fn detects_loss(self) -> bool {
        self.is_reliable() || matches!(self, QpType::Uc)
    }
    /// Whether packets carry a checksum from end to end: the ICRC, on iWARP the CRC of the frame; raw packets have what the link has.
    pub const fn detects_corruption(self) -> bool {
        !matches!(self, QpType::RawPacket)
    }
    /// In which order messages arrive.
    pub const fn order(self) -> Order {
        match self {
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv | QpType::Iwarp | QpType::Eec => Order::PerConnection,
            QpType::Rd | QpType::Dci | QpType::Dct | QpType::UetRod => Order::PerDestination,
            QpType::Uc => Order::Gaps,
            QpType::Ud | QpType::Srd | QpType::Uet | QpType::UetRudi | QpType::UetUud | QpType::RawPacket => Order::None,
        }
    }
    /// How many of them a NIC needs.
    pub const fn scale(self) -> Scale {
        match self {
            QpType::Rc | QpType::Iwarp | QpType::Uc => Scale::EachPair,
            QpType::XrcSend | QpType::XrcRecv => Scale::EachNode,
            QpType::RawPacket | QpType::Eec => Scale::One,
            _ => Scale::EachProcess,
        }
    }
    /// Whether a message is one packet at most: SENDs of SRD too, whose RDMA may be longer.
    pub const fn message_is_packet(self, opcode: WrOpcode) -> bool {
        match self {
            QpType::Ud | QpType::UetUud | QpType::RawPacket => true,
            QpType::Srd => opcode.is_send(),
            _ => false,
        }
    }
    /// Whether each request names its destination.
    pub const fn is_addressed(self) -> bool {
        matches!(self, QpType::Rd | QpType::Dci) || self.sends_datagrams() || self.shares_contexts()
    }
    /// Whether requests go to a context of the destination that all queue pairs of the NIC share.
    pub(crate) const fn shares_contexts(self) -> bool {
        matches!(self, QpType::Rd | QpType::Srd | QpType::Uet | QpType::UetRod | QpType::UetRudi)
    }
    /// Whether each request is one packet that leaves at once, without a context.
    pub(crate) const fn sends_datagrams(self) -> bool {
        matches!(self, QpType::Ud | QpType::UetUud | QpType::RawPacket)
    }
    /// How its packets are delivered, if it is of SRD or UET.
    pub const fn delivery(self) -> Delivery {
        match self {
            QpType::UetRod => Delivery::Rod,
            QpType::UetRudi => Delivery::Rudi,
            QpType::UetUud => Delivery::Uud,
            _ => Delivery::Rud,
        }
    }
    /// Whether its packets have the headers of Ultra Ethernet.
    pub(crate) const fn is_ultra_ethernet(self) -> bool {
        matches!(self, QpType::Uet | QpType::UetRod | QpType::UetRudi | QpType::UetUud)
    }
    /// Whether its packets carry credit of the receiver.
    pub(crate) const fn takes_credit(self) -> bool {
        matches!(self, QpType::Srd | QpType::Uet | QpType::UetRod)
    }
    /// Whether it is an end of a reliable connection, made for it or for a while.
    pub(crate) const fn is_reliable_connection(self) -> bool {
        matches!(self, QpType::Rc | QpType::XrcSend | QpType::XrcRecv | QpType::Dci | QpType::Dct | QpType::Eec)
    }
    /// Whether a queue pair of this type sends the operation.
    pub const fn has(self, opcode: WrOpcode) -> bool {
        match self {
            QpType::Rc | QpType::XrcSend | QpType::Dci | QpType::Rd | QpType::Uet | QpType::UetRod => true,
            QpType::Uc => !opcode.is_read() && !opcode.is_atomic(),
            QpType::Srd => !opcode.is_atomic(),
            QpType::Iwarp => !opcode.is_atomic() && !opcode.has_immediate(),
            QpType::UetRudi => matches!(opcode, WrOpcode::RdmaWrite | WrOpcode::RdmaRead),
            QpType::Ud | QpType::UetUud => opcode.is_send(),
            QpType::RawPacket => matches!(opcode, WrOpcode::Send),
            QpType::XrcRecv | QpType::Dct | QpType::Eec => false,
        }
    }
}
