//! The packets of InfiniBand and RoCE as bytes, and the encoded values of the standard.
//!
//! Source: InfiniBand Architecture Specification volume 1, release 1.6 (IBTA), with annexes A16 and A17
//! for RoCE; IEEE 802.3 for the Ethernet framing.
//! Modelled: transport headers, opcodes, PSN arithmetic, both CRCs, the bytes a packet occupies on a link; Ethernet, IPv4
//! and UDP as far as RoCE needs them; TCP with its options; priority pause frames.
//! Not modelled: management datagrams, raw packets, VLAN tags, lane coding and forward error correction.
//!
//! [`Service`] is the one list of transport services, with what each promises.
//!
//! [`ultra`] has those of Ultra Ethernet, packet delivery and semantics.
//!
//! [`psm2`] has the headers of that protocol as far as adapters and library go by them.
//!
//! Codes such as MTU 5 or timeout 14 are spelled out here and nowhere else; everyone above holds
//! [`Mtu`], [`AckTimeout`], [`RnrTimer`] and [`Syndrome`].

mod aggregation;
mod bth;
mod code;
mod crc;
mod error;
mod ethernet;
mod extended;
mod global;
mod internet;
mod iwarp;
mod link_layer;
mod local;
mod opcode;
mod part;
pub mod psm2;
mod psn;
mod service;
mod syndrome;
mod tcp;
pub mod ultra;
mod words;

pub use aggregation::{Collective, Element, Reducer, Task};
pub use bth::Bth;
pub use code::{AckTimeout, Mtu, RnrTimer};
pub use crc::{icrc, vcrc};
pub use error::WireError;
pub use ethernet::{Ethernet, PriorityPause};
pub use extended::{Aeth, AtomicAckEth, AtomicEth, Deth, Ieth, ImmDt, Reth};
pub use global::Grh;
pub use internet::{Ipv4, Udp, checksum};
pub use iwarp::{Ddp, Mpa, Placement, RdmapOpcode, ReadRequest, TerminateCode, crc32c};
pub use link_layer::{LinkLayer, pad};
pub use local::{Lrh, NextHeader};
pub use opcode::{Opcode, Operation, Transport};
pub use part::Part;
pub use psn::Psn;
pub use service::{Delivery, Order, Scale, Service};
pub use syndrome::{Credits, NakCode, Syndrome};
pub use tcp::{SackBlocks, Tcp, TcpFlags};
pub use words::AppWords;
