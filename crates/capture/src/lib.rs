//! Packets as other tools see them: capture files from what passed a tap, and messages from capture files.
//!
//! Source: InfiniBand Architecture Specification volume 1 with annex A17 (RoCE version 2); Ultra Ethernet specification 1.0; RFC
//! 5040, 5041, 5044 (iWARP); the pcap and pcapng formats
//! (IETF drafts ietf-opsawg-pcap, ietf-opsawg-pcapng); ERF (Endace extensible record format, type 21).
//! Modelled: every header that stands on the wire, both CRCs of InfiniBand, times in nanoseconds; reassembly by queue pair
//! and sequence number.
//! Not modelled: management datagrams, ARP, the exchange by which connections are set up; MAC addresses that change at
//! routers: a fabric is one Ethernet domain.
//!
//! ```text
//!  sightings -> frame -> write -> FILE -> read -> dissect -> messages -> schedule
//! ```

mod address;
mod dissect;
mod error;
mod frame;
mod ip;
mod messages;
mod read;
mod replay;
mod uet;
mod write;

pub use address::Address;
pub use dissect::{Datagram, dissect};
pub use error::{CaptureError, ReplayError};
pub use frame::{Framing, LARGEST_SUBNET, STAND_IN_SLINGSHOT, STAND_IN_SRD, STAND_IN_ULTRA_ETHERNET};
pub use messages::{Conversation, Kind, Message, conversation};
pub use read::{LinkType, Record, records};
pub use replay::replay;
pub use write::{Format, Interface, write};
