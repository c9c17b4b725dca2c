//! The types of queue pairs: the ends that transport services have, and which operations each sends.
//!
//! Source: man pages ibv_create_qp(3), ibv_post_send(3), mlx5dv_create_qp(3) (DC), efadv_create_driver_qp(3) (SRD).
//! Modelled: an end's part of what its [`Service`] promises; `tests/promises.rs` tries that on a channel that loses, repeats and
//! reorders.
//! Not modelled: DC's receives outside shared queues.

use fabriscope_wire::{Delivery, Order, Scale, Service, Transport};

use crate::wr::WrOpcode;

/// What a type of queue pair is: an end of a service.
#[derive(Clone, Copy)]
struct ServiceEnd {
    service: Service,
    /// Its short name, where that of the service is not it.
    name: Option<&'static str>,
    /// What it sends.
    sends: Sends,
    /// One queue pair has one peer for its life.
    connected: bool,
    /// It is an end of a reliable connection as RC has it, made for it or for a while.
    reliable_connection: bool,
    /// Each request names its destination.
    addressed: bool,
    /// It carries the messages of all queue pairs of the NIC.
    carries_all: bool,
}

/// Operations that a type of queue pair sends.
#[derive(Clone, Copy)]
enum Sends {
    Nothing,
    /// All there is, memory windows among it.
    Connection,
    Everything,
    /// SEND, with or without immediate data.
    Messages,
    /// SEND without immediate data.
    Packets,
    /// SEND and WRITE.
    Unanswered,
    /// Everything that goes to the peer but atomics.
    NoAtomics,
    /// Everything but atomics and immediate data.
    Plain,
    /// WRITE and READ without immediate data: what may happen twice.
    Idempotent,
}

impl Sends {
    const fn has(self, opcode: WrOpcode) -> bool {
        match self {
            Sends::Nothing => false,
            // Windows are bound and keys invalidated on connections of InfiniBand.
            _ if opcode.changes_keys() => matches!(self, Sends::Connection),
            Sends::Connection | Sends::Everything => true,
            Sends::Messages => opcode.is_send(),
            Sends::Packets => matches!(opcode, WrOpcode::Send),
            Sends::Unanswered => !opcode.is_read() && !opcode.is_atomic(),
            Sends::NoAtomics => !opcode.is_atomic(),
            Sends::Plain => !opcode.is_atomic() && !opcode.has_immediate(),
            Sends::Idempotent => matches!(opcode, WrOpcode::RdmaWrite | WrOpcode::RdmaRead),
        }
    }
}

/// An end whose requests name their destination: datagrams, and what goes to contexts.
const fn addressed(service: Service, sends: Sends) -> ServiceEnd {
    ServiceEnd { addressed: true, ..connected(service, sends, false) }
}
/// One end of a connection for its life.
const fn connected(service: Service, sends: Sends, reliable_connection: bool) -> ServiceEnd {
    ServiceEnd {
        service,
        name: None,
        sends,
        connected: !service.sends_datagrams() && !service.shares_contexts(),
        reliable_connection,
        addressed: false,
        carries_all: false,
    }
}

/// The types of queue pairs of all transports. Programs make the first ones, in the order of the tables; the first of a service is what
/// requests are posted to.
macro_rules! queue_pair_types {
    ({$($file:ident::$transport:ident { $($(#[$about:meta])* $name:ident = $end:expr;)* }
        $([ $($(#[$own_about:meta])* $own:ident = $own_end:expr;)* ])?)*} {$($test_file:ident::$test:ident { $($test_name:ident = $test_end:expr;)* })*}) => {
        /// The type of a queue pair, `ibv_qp_type`: its transport service, and which end of it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum QpType {
            $($($(#[$about])* $name,)*)*
            $($($($(#[$own_about])* $own,)*)?)*
            $($(#[cfg(test)] #[expect(missing_docs, reason = "in tests only")] $test_name,)*)*
        }

        impl QpType {
            /// Those that programs make, in the order of the tables.
            pub const ALL: &[QpType] = &[$($(QpType::$name,)*)*];

            #[inline]
            const fn end(self) -> ServiceEnd {
                match self {
                    $($(QpType::$name => const { $end },)*)*
                    $($($(QpType::$own => const { $own_end },)*)?)*
                    $($(#[cfg(test)] QpType::$test_name => const { $test_end },)*)*
                }
            }
        }
    };
}

transports!(queue_pair_types);

impl QpType {
    /// Its short name.
    pub const fn name(self) -> &'static str {
        let end = self.end();
        match end.name {
            Some(name) => name,
            None => end.service.name(),
        }
    }
    /// The service of which it is an end.
    pub const fn service(self) -> Service {
        self.end().service
    }
    /// What a program posts its requests to that uses a service.
    pub const fn sender_of(service: Service) -> QpType {
        let mut at = 0;
        while at + 1 < QpType::ALL.len() && QpType::ALL[at].service() as u8 != service as u8 {
            at += 1;
        }
        QpType::ALL[at]
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
        self.end().connected
    }
    /// Whether lost packets are sent again.
    pub const fn is_reliable(self) -> bool {
        self.service().is_reliable()
    }
    /// Whether a message may be carried out more than once, which is harmless only if it is idempotent.
    pub const fn repeats(self) -> bool {
        self.service().repeats()
    }
    /// Whether a receiver acknowledges after so many bytes, not after so many packets.
    pub const fn counts_bytes(self) -> bool {
        self.service().counts_bytes()
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
        // A context carries the messages of all queue pairs in one order.
        if self.end().carries_all { Order::PerConnection } else { self.service().order() }
    }
    /// How many of them a NIC needs.
    pub const fn scale(self) -> Scale {
        if self.end().carries_all { Scale::One } else { self.service().scale() }
    }
    /// Whether a message is one packet at most: SENDs of SRD too, whose RDMA may be longer.
    pub const fn message_is_packet(self, opcode: WrOpcode) -> bool {
        self.sends_datagrams() || matches!(self.service(), Service::Srd) && opcode.is_send()
    }
    /// Whether each request names its destination.
    pub const fn is_addressed(self) -> bool {
        self.end().addressed
    }
    /// Whether requests go to a context of the destination that all queue pairs of the NIC share.
    pub(crate) const fn shares_contexts(self) -> bool {
        !self.end().carries_all && self.service().shares_contexts()
    }
    /// Whether each request is one packet that leaves at once, without a context.
    pub(crate) const fn sends_datagrams(self) -> bool {
        self.service().sends_datagrams()
    }
    /// Whether what a program says with its SENDs and WRITEs travels with them ([`AppWords`](crate::AppWords)).
    pub const fn carries_words(self) -> bool {
        !(matches!(self.service(), Service::Raw) || self.repeats())
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
        self.end().reliable_connection
    }
    /// Whether a queue pair of this type sends the operation.
    pub const fn has(self, opcode: WrOpcode) -> bool {
        self.end().sends.has(opcode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_an_end_to_post_to() {
        for service in Service::ALL {
            let sender = QpType::sender_of(service);
            assert_eq!(sender.service(), service);
            assert!(sender.has(WrOpcode::Send) || sender.has(WrOpcode::RdmaWrite), "{service}");
        }
    }

    #[test]
    fn requests_name_their_destination_where_there_is_no_connection() {
        for &qp_type in QpType::ALL {
            let receives_only = !qp_type.has(WrOpcode::Send) && !qp_type.has(WrOpcode::RdmaWrite);
            assert!(qp_type.is_addressed() != qp_type.is_connected() || receives_only, "{}", qp_type.name());
            assert!(!qp_type.shares_contexts() || qp_type.is_addressed(), "{}", qp_type.name());
        }
    }
}
