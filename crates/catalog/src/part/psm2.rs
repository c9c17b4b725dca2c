//! The numbers of PSM2 in an MPI library: where its protocols change, and what its steps take on the core.
//!
//! Source: opa-psm2, `psm_config.h`, `ptl_ips/ips_proto_params.h` (the defaults of its environment variables).

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// PSM2 below an MPI library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Psm2 {
    /// Longest message that travels in a header.
    pub tiny_limit: Sourced<Bytes>,
    /// Longest eager message that the core stores into the adapter (PSM2_MQ_EAGER_SDMA_SZ), if the program does not wait for it.
    pub sdma_limit: Sourced<Bytes>,
    /// The same for sends that the program waits for.
    pub sdma_limit_blocking: Sourced<Bytes>,
    /// Longest eager message (PSM2_MQ_RNDV_HFI_THRESH).
    pub eager_limit: Sourced<Bytes>,
    /// Bytes that a receiver grants at a time (PSM2_MQ_RNDV_HFI_WINDOW).
    pub window: Sourced<Bytes>,
    /// Bytes that one TID covers.
    pub tid: Sourced<Bytes>,
    /// Packets of a flow without acknowledgement (PSM2_FLOW_CREDITS).
    pub flow_credits: Sourced<u32>,
    /// Until a sender asks for a missing acknowledgement.
    pub timeout: Sourced<Span>,
    /// The longest that this becomes by doubling.
    pub timeout_max: Sourced<Span>,
    /// Core time of beginning a send.
    pub send: Sourced<Span>,
    /// Core time of the header of a packet that the core stores, apart from the stores.
    pub packet: Sourced<Span>,
    /// Core time of posting a receive.
    pub post: Sourced<Span>,
    /// Core time of taking a packet out of the receive header queue.
    pub receive: Sourced<Span>,
    /// Core time of a search in the matched queues.
    pub matching: Sourced<Span>,
    /// Core time of each entry that a search passes.
    pub entry: Sourced<Span>,
    /// Core time of the system call that hands packets to an engine, or registers pages.
    pub system_call: Sourced<Span>,
    /// Core time of each packet of it.
    pub descriptor: Sourced<Span>,
    /// Core time of granting a window whose pages are registered.
    pub grant: Sourced<Span>,
    /// Core time of registering a page that is not.
    pub page: Sourced<Span>,
}

impl Psm2 {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let at = |key: &'static str| ["mpi", "psm2", key, "value"];
        if *self.flow_credits < 4 {
            let message = format!("{} packets without acknowledgement: no packet would ask for one in time", *self.flow_credits);
            return Err(Problem::at(&at("flow_credits"), message, "use at least 4"));
        }
        for (key, size) in [("window", &self.window), ("tid", &self.tid)] {
            if **size == Bytes::ZERO {
                return Err(Problem::at(
                    &at(key),
                    format!("`{key}` is zero: long messages could not be received"),
                    "use at least one byte",
                ));
            }
        }
        if *self.timeout == Span::ZERO || *self.timeout_max < *self.timeout {
            let message = format!("a timeout of {} that becomes {}", *self.timeout, *self.timeout_max);
            return Err(Problem::at(&at("timeout_max"), message, "make `timeout` positive and `timeout_max` at least as long"));
        }
        if *self.tiny_limit > *self.eager_limit {
            let message = format!("`tiny_limit` of {} lies above `eager_limit` of {}", *self.tiny_limit, *self.eager_limit);
            return Err(Problem::at(&at("tiny_limit"), message, "make it at most `eager_limit`"));
        }
        Ok(())
    }
}
