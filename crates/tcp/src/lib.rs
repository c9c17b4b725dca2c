//! TCP without I/O: one end of a connection, driven by hand.
//!
//! Source: RFC 9293 (TCP), RFC 5681 and RFC 6582 (congestion control, NewReno), RFC 6675 (loss recovery by selective
//! acknowledgements), RFC 6298 (retransmission timer), RFC 7323 (window scale), RFC 2018 (selective acknowledgements),
//! RFC 9438 (CUBIC), RFC 3168 and RFC 8257 (marks, DCTCP), RFC 1122 §4.2.3 (Nagle, delayed acknowledgements, probes).
//! Modelled: the handshake and the close, sequence numbers that wrap, segments of any size up to 64 KiB where an adapter cuts
//! them, everything named above.
//! Not modelled: payload bytes (the caller keeps them by stream position), urgent data, simultaneous open, PAWS, RACK and tail
//! loss probes, proportional rate reduction, HyStart++, pacing, fast open, SYN cookies, keep-alive.
//!
//! The caller hands segments from [`Connection::poll_transmit`] to the network and those of the peer to
//! [`Connection::handle_segment`], and calls [`Connection::handle_timeout`] when [`Connection::poll_timeout`] says.

mod config;
mod connection;
pub mod control;
pub mod kernel;
mod receive;
mod rtt;
mod segment;
mod send;
mod seq;

#[cfg(test)]
mod tests;

pub use config::{Algorithm, Config};
pub use connection::{Connection, State, TcpError};
pub use receive::Arrival;
pub use rtt::Rtt;
pub use segment::Segment;
pub use seq::Seq;
