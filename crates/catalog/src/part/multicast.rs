//! Broadcasts by multicast, as a library does them.
//!
//! Modelled: packets with a header in datagrams, chunks that are copied, sent and reused together, the wait for a packet that does not come.
//! Not modelled: groups that a library joins late, a switch point between multicast and other algorithms (a rule of the library names it).

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Broadcasts by multicast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MulticastProtocol {
    /// Bytes in front of the payload of every packet: its number and its source.
    pub header: Sourced<Bytes>,
    /// Bytes that the sender copies into its pinned buffer at a time, and whose room there is given back together.
    pub chunk: Sourced<Bytes>,
    /// Chunks that the pinned buffer holds; receivers have receives for half of them.
    pub depth: Sourced<u32>,
    /// Core time of a packet at each end beside its request and its completion: header, list of what is missing.
    pub packet_overhead: Sourced<Span>,
    /// Until a receiver to which nothing comes asks the sender's buffer what there was; the wait doubles while there is nothing.
    pub timeout: Sourced<Span>,
}

impl MulticastProtocol {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let at = |key: &'static str| ["mpi", "multicast", key, "value"];
        if *self.header < SMALLEST_HEADER || *self.header > LARGEST_HEADER {
            let message = format!("a header of {}", *self.header);
            let help = format!("use {SMALLEST_HEADER} to {LARGEST_HEADER}: it holds the number of the packet");
            return Err(Problem::at(&at("header"), message, help));
        }
        if *self.chunk == Bytes::ZERO || *self.chunk > LARGEST_CHUNK {
            let message = format!("chunks of {}", *self.chunk);
            return Err(Problem::at(&at("chunk"), message, format!("use 1 B to {LARGEST_CHUNK}, for example \"256 KiB\"")));
        }
        if !(2..=1024).contains(&*self.depth) {
            let message = format!("a buffer of {} chunks", *self.depth);
            return Err(Problem::at(&at("depth"), message, "use 2 to 1024: receivers have receives for half of them"));
        }
        if *self.timeout == Span::ZERO {
            return Err(Problem::at(&at("timeout"), "receivers that do not wait", "use for example \"100 us\""));
        }
        Ok(())
    }
}

/// The number of a packet and where its message begins. Basis: assumed.
const SMALLEST_HEADER: Bytes = Bytes(8);
/// Room for payload in the smallest MTU, of 256 B, is left. Basis: assumed.
const LARGEST_HEADER: Bytes = Bytes(128);
/// Basis: assumed; receives for half of the buffer are posted at once.
const LARGEST_CHUNK: Bytes = Bytes(64 << 20);
