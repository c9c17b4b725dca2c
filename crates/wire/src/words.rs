//! Words of a program that travel in packets.
//!
//! Simulated adapters move sizes, not bytes. What a library has to tell the other end, its envelope, rides in a packet as words that nobody on
//! the way reads. Not modelled: bytes on the wire for them; the header of the library counts as payload.

/// What a program says with a message: as many bytes as the operands of an extended atomic, in whose place they travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppWords(pub [u64; 4]);
