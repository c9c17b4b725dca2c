//! What an adapter counts that nobody outside can see.
//!
//! Source: documentation of the counters of mlx5 adapters (`ports/N/hw_counters`).
//! Modelled: what the counters of this kind hold, each only ever growing.
//! Not modelled: what packets tell from outside; engines count that.

use crate::wc::{Wc, WcStatus};

/// Counts since the adapter was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NicCounts {
    /// Acknowledgements that did not come in time.
    pub ack_timeouts: u64,
    /// Answers that showed that those of an earlier READ or atomic are lost.
    pub implied_naks: u64,
    /// Send requests that ended in error, flushed ones not counted.
    pub request_errors: u64,
    /// Send requests flushed after an error.
    pub request_flushes: u64,
    /// Receive requests that ended in error, flushed ones not counted.
    pub receive_errors: u64,
    /// Receive requests flushed after an error.
    pub receive_flushes: u64,
    /// Connections that took their alternate path.
    pub migrations: u64,
    /// Packets of another partition.
    pub pkey_violations: u64,
    /// Packets of a context (SRD, UET) that came before their turn.
    pub out_of_order: u64,
    /// Packets of a context that had come already.
    pub duplicates: u64,
}

impl NicCounts {
    /// Counts a completion that is no success.
    #[cold]
    pub(crate) fn failed(&mut self, wc: &Wc) {
        let count = match (wc.opcode.is_recv(), wc.status == WcStatus::WrFlushErr) {
            (false, false) => &mut self.request_errors,
            (false, true) => &mut self.request_flushes,
            (true, false) => &mut self.receive_errors,
            (true, true) => &mut self.receive_flushes,
        };
        *count += 1;
    }
}
