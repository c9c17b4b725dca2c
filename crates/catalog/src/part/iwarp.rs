//! The TCP and the framing of an adapter that does iWARP.
//!
//! The mechanisms are those of `fabriscope_verbs::iwarp`; here are the numbers, with their sources.

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// The congestion control of a TCP in an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OffloadControl {
    /// Slow start after every loss.
    Tahoe,
    /// Half the window after a loss.
    NewReno,
}

/// Connections of RDMAP over TCP in the adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Iwarp {
    /// A marker every 512 bytes of the stream.
    pub markers: Sourced<bool>,
    /// Selective acknowledgements.
    pub sack: Sourced<bool>,
    /// Time stamps, which take 12 bytes of every segment.
    pub timestamps: Sourced<bool>,
    /// Answers to marks of switches.
    pub ecn: Sourced<bool>,
    /// The congestion control.
    pub congestion: Sourced<OffloadControl>,
    /// Bytes of a connection that may wait for their acknowledgement.
    pub send_window: Sourced<Bytes>,
    /// Bytes that a connection offers to take.
    pub receive_window: Sourced<Bytes>,
    /// Congestion window at the start, in segments.
    pub initial_window: Sourced<u32>,
    /// The shortest retransmission timeout.
    pub min_rto: Sourced<Span>,
    /// Retransmissions in a row before a connection is given up.
    pub retries: Sourced<u32>,
}

impl Iwarp {
    pub(super) fn check(&self) -> Result<(), Problem> {
        for (key, window) in [("send_window", *self.send_window), ("receive_window", *self.receive_window)] {
            if window < LEAST_WINDOW || window > LARGEST_WINDOW {
                let message = format!("a window of {window}");
                return Err(Problem::at(&["iwarp", key, "value"], message, format!("use {LEAST_WINDOW} to {LARGEST_WINDOW}")));
            }
        }
        if *self.initial_window == 0 {
            return Err(Problem::at(&["iwarp", "initial_window", "value"], "nothing could be sent", "use at least 1"));
        }
        if *self.min_rto == Span::ZERO {
            return Err(Problem::at(&["iwarp", "min_rto", "value"], "everything would be sent again at once", "use at least \"1 us\""));
        }
        Ok(())
    }
}

/// More than one segment of the largest frames. Basis: assumed.
const LEAST_WINDOW: Bytes = Bytes::from_kib(16);
/// What window scaling can say. Basis: standard, RFC 7323 §2.3.
const LARGEST_WINDOW: Bytes = Bytes::from_mib(1024);
