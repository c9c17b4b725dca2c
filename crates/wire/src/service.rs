//! The transport services: what each promises. Labs, adapters, engines and tools all name them by this one enum.
//!
//! Source: IBA vol. 1 §9.2.2, §9.4 and annex A14 (XRC); man pages mlx5dv_create_qp(3) (DC), efadv_create_driver_qp(3) (SRD);
//! Shalev et al., "A Cloud-Optimized Transport Protocol for Elastic and Scalable HPC", IEEE Micro 40(6), 2020 (SRD); Ultra
//! Ethernet specification 1.0 §3.5 (UET: packet delivery modes RUD, ROD, RUDI, UUD); RFC 5040 (iWARP).
//! Modelled: the properties by which adapters, engines and labs decide; the adapter's tests try them on a channel that loses,
//! repeats and reorders.
//! Not modelled: services of which a program sees no queue pair (TCP of the kernel, PSM2).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Transport;

/// A transport service of queue pairs; text forms have those that a lab can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Reliable connection; on iWARP adapters one over TCP.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams, which the cluster's library makes reliable: it cuts messages, numbers and acknowledges packets.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Reliable datagram.
    Rd,
    /// Dynamically connected transport.
    Dc,
    /// Scalable reliable datagram of EFA.
    Srd,
    /// Ultra Ethernet transport, reliable and unordered (RUD).
    Uet,
    /// Ultra Ethernet, reliable and ordered (ROD): one path.
    UetRod,
    /// Ultra Ethernet for idempotent operations (RUDI): the receiver keeps no state; puts and gets.
    UetRudi,
    /// Ultra Ethernet, unreliable (UUD): messages of one packet.
    UetUud,
    /// A connection of RDMAP over TCP in the adapter: what a program gets that asks an iWARP adapter for RC.
    #[serde(skip)]
    Iwarp,
    /// Packets as they are, without transport.
    #[serde(skip)]
    Raw,
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
    /// Reliable, unordered, by an adapter of EFA (SRD): as RUD, without the headers of Ultra Ethernet.
    Srd,
}

impl Delivery {
    /// Whether packets that are delivered so have the headers of Ultra Ethernet.
    #[must_use]
    pub const fn is_ultra_ethernet(self) -> bool {
        !matches!(self, Delivery::Srd)
    }
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
    #[must_use]
    pub const fn count(self, processes: u64, nodes: u64) -> u64 {
        match self {
            Scale::EachPair => processes * (processes * nodes - 1),
            Scale::EachNode => processes * nodes,
            Scale::EachProcess => processes,
            Scale::One => 1,
        }
    }
}

impl Service {
    /// Every service, in the order of tables.
    pub const ALL: [Service; 13] = [
        Service::Rc,
        Service::Xrc,
        Service::Rd,
        Service::Dc,
        Service::Srd,
        Service::Uet,
        Service::UetRod,
        Service::UetRudi,
        Service::UetUud,
        Service::Iwarp,
        Service::Uc,
        Service::Ud,
        Service::Raw,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Service::Rc => "RC",
            Service::Uc => "UC",
            Service::Ud => "UD",
            Service::Xrc => "XRC",
            Service::Rd => "RD",
            Service::Dc => "DC",
            Service::Srd => "SRD",
            Service::Uet => "UET",
            Service::UetRod => "UET_ROD",
            Service::UetRudi => "UET_RUDI",
            Service::UetUud => "UET_UUD",
            Service::Iwarp => "IWARP",
            Service::Raw => "RAW_PACKET",
        }
    }
    /// What stands in the opcodes of its packets; nothing where these have no base transport header.
    #[must_use]
    pub const fn transport(self) -> Option<Transport> {
        match self {
            Service::Rc => Some(Transport::Rc),
            Service::Uc => Some(Transport::Uc),
            Service::Ud => Some(Transport::Ud),
            Service::Rd => Some(Transport::Rd),
            Service::Xrc => Some(Transport::Xrc),
            Service::Dc => Some(Transport::Dc),
            Service::Srd | Service::Uet | Service::UetRod | Service::UetRudi | Service::UetUud => Some(Transport::Rud),
            Service::Iwarp | Service::Raw => None,
        }
    }
    /// Whether lost packets are sent again.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Service::Uc | Service::Ud | Service::UetUud | Service::Raw)
    }
    /// Whether a message may be carried out more than once, which is harmless only if it is idempotent.
    #[must_use]
    pub const fn repeats(self) -> bool {
        matches!(self, Service::UetRudi)
    }
    /// Whether a receiver acknowledges after so many bytes, not after so many packets.
    #[must_use]
    pub const fn counts_bytes(self) -> bool {
        matches!(self, Service::Uet | Service::UetRod)
    }
    /// Whether the receiver notices that something was lost.
    #[must_use]
    pub const fn detects_loss(self) -> bool {
        self.is_reliable() || matches!(self, Service::Uc)
    }
    /// Whether packets carry a checksum from end to end: the ICRC, on iWARP the CRC of the frame; raw packets have what the link has.
    #[must_use]
    pub const fn detects_corruption(self) -> bool {
        !matches!(self, Service::Raw)
    }
    /// In which order messages arrive.
    #[must_use]
    pub const fn order(self) -> Order {
        match self {
            Service::Rc | Service::Xrc | Service::Iwarp => Order::PerConnection,
            Service::Rd | Service::Dc | Service::UetRod => Order::PerDestination,
            Service::Uc => Order::Gaps,
            Service::Ud | Service::Srd | Service::Uet | Service::UetRudi | Service::UetUud | Service::Raw => Order::None,
        }
    }
    /// Whether packets may come in any order without being asked for: contexts and libraries take them as they arrive.
    #[must_use]
    pub const fn any_order(self) -> bool {
        matches!(self.order(), Order::None)
    }
    /// How many queue pairs a NIC needs.
    #[must_use]
    pub const fn scale(self) -> Scale {
        match self {
            Service::Rc | Service::Iwarp | Service::Uc => Scale::EachPair,
            Service::Xrc => Scale::EachNode,
            Service::Raw => Scale::One,
            _ => Scale::EachProcess,
        }
    }
    /// Whether requests go to a context of the destination that all queue pairs of the NIC share.
    #[must_use]
    pub const fn shares_contexts(self) -> bool {
        matches!(self, Service::Rd | Service::Srd | Service::Uet | Service::UetRod | Service::UetRudi)
    }
    /// Whether each request is one packet that leaves at once, without a context.
    #[must_use]
    pub const fn sends_datagrams(self) -> bool {
        matches!(self, Service::Ud | Service::UetUud | Service::Raw)
    }
    /// How its packets are delivered, if it is SRD or of Ultra Ethernet.
    #[must_use]
    pub const fn delivery(self) -> Delivery {
        match self {
            Service::UetRod => Delivery::Rod,
            Service::UetRudi => Delivery::Rudi,
            Service::UetUud => Delivery::Uud,
            Service::Srd => Delivery::Srd,
            _ => Delivery::Rud,
        }
    }
    /// Whether its packets have the headers of Ultra Ethernet.
    #[must_use]
    pub const fn is_ultra_ethernet(self) -> bool {
        matches!(self, Service::Uet | Service::UetRod | Service::UetRudi | Service::UetUud)
    }
    /// Whether its packets carry credit of the receiver, and the wish for it.
    #[must_use]
    pub const fn takes_credit(self) -> bool {
        matches!(self, Service::Srd | Service::Uet | Service::UetRod)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_agree_with_each_other() {
        for service in Service::ALL {
            // A receiver cannot repair what it does not notice, and cannot notice a hole in no order without acknowledging packets.
            assert!(!service.is_reliable() || service.detects_loss(), "{service}");
            assert!(!service.sends_datagrams() || !service.is_reliable(), "{service}: one packet that leaves at once is not repeated");
            assert!(!service.takes_credit() || service.shares_contexts(), "{service}: credit belongs to a context");
            assert_eq!(service.transport() == Some(Transport::Rud), service.is_ultra_ethernet() || service == Service::Srd, "{service}");
            assert!(!service.repeats() || service.delivery() == Delivery::Rudi, "{service}");
        }
    }

    #[test]
    fn every_service_stands_in_the_list_once() {
        let mut names: Vec<&str> = Service::ALL.map(Service::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Service::ALL.len());
        assert!((0..Service::ALL.len()).all(|number| Service::ALL.iter().any(|service| *service as usize == number)));
    }
}
