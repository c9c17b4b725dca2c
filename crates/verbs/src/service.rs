//! The types of queue pairs: the ends that transport services have, and which operations each sends.
//!
//! Source: man pages ibv_create_qp(3), ibv_post_send(3), mlx5dv_create_qp(3) (DC), efadv_create_driver_qp(3) (SRD).
//! Modelled: an end's part of what its [`Service`] promises; `tests/promises.rs` tries that on a channel that loses, repeats and
//! reorders.
//! Not modelled: DC's receives outside shared queues.

use fabriscope_wire::{Delivery, Order, Scale, Service, Transport};

use crate::wr::WrOpcode;

/// The type of a queue pair, `ibv_qp_type`: its transport service, and which end of it.
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
            QpType::XrcSend => "XRC_SEND",
            QpType::XrcRecv => "XRC_RECV",
            QpType::Dci => "DCI",
            QpType::Dct => "DCT",
            QpType::Eec => "EEC",
            _ => self.service().name(),
        }
    }
    /// The service of which it is an end.
    pub const fn service(self) -> Service {
        match self {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::Rd | QpType::Eec => Service::Rd,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
            QpType::Dci | QpType::Dct => Service::Dc,
            QpType::Srd => Service::Srd,
            QpType::Uet => Service::Uet,
            QpType::UetRod => Service::UetRod,
            QpType::UetRudi => Service::UetRudi,
            QpType::UetUud => Service::UetUud,
            QpType::Iwarp => Service::Iwarp,
            QpType::RawPacket => Service::Raw,
        }
    }
    /// What a program posts its requests to that uses a service.
    pub const fn sender_of(service: Service) -> QpType {
        match service {
            Service::Rc => QpType::Rc,
            Service::Uc => QpType::Uc,
            Service::Ud => QpType::Ud,
            Service::Rd => QpType::Rd,
            Service::Xrc => QpType::XrcSend,
            Service::Dc => QpType::Dci,
            Service::Srd => QpType::Srd,
            Service::Uet => QpType::Uet,
            Service::UetRod => QpType::UetRod,
            Service::UetRudi => QpType::UetRudi,
            Service::UetUud => QpType::UetUud,
            Service::Iwarp => QpType::Iwarp,
            Service::Raw => QpType::RawPacket,
        }
    }
    /// The transport service in its packets.
    pub(crate) const fn transport(self) -> Transport {
        match self.service().transport() {
            Some(transport) => transport,
            // No packet of these has an opcode; no opcode with this one takes a message.
            None => Transport::Cnp,
        }
    }
    /// Whether one queue pair has one peer for its life.
    pub const fn is_connected(self) -> bool {
        matches!(self, QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv | QpType::Iwarp | QpType::Eec)
    }
    /// Whether lost packets are sent again.
    pub const fn is_reliable(self) -> bool {
        self.service().is_reliable()
    }
    /// Whether a message may be carried out more than once, which is harmless only if it is idempotent.
    pub const fn repeats(self) -> bool {
        self.service().repeats()
    }
    /// Whether the receiver notices that something was lost.
    pub const fn detects_loss(self) -> bool {
        self.service().detects_loss()
    }
    /// Whether packets carry a checksum from end to end: the ICRC, on iWARP the CRC of the frame; raw packets have what the link has.
    pub const fn detects_corruption(self) -> bool {
        self.service().detects_corruption()
    }
    /// In which order messages arrive.
    pub const fn order(self) -> Order {
        match self {
            // A context carries the messages of all queue pairs in one order.
            QpType::Eec => Order::PerConnection,
            _ => self.service().order(),
        }
    }
    /// How many of them a NIC needs.
    pub const fn scale(self) -> Scale {
        match self {
            QpType::Eec => Scale::One,
            _ => self.service().scale(),
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
        !matches!(self, QpType::Eec) && self.service().shares_contexts()
    }
    /// Whether each request is one packet that leaves at once, without a context.
    pub(crate) const fn sends_datagrams(self) -> bool {
        self.service().sends_datagrams()
    }
    /// How its packets are delivered, if it is of SRD or UET.
    pub const fn delivery(self) -> Delivery {
        self.service().delivery()
    }
    /// Whether its packets have the headers of Ultra Ethernet.
    pub(crate) const fn is_ultra_ethernet(self) -> bool {
        self.service().is_ultra_ethernet()
    }
    /// Whether its packets carry credit of the receiver.
    pub(crate) const fn takes_credit(self) -> bool {
        self.service().takes_credit()
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
