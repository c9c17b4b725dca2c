//! Libraries of remote procedure calls: what a call costs beside its transport, and what its messages carry beside their data.
//!
//! Source: RFC 9113 (HTTP/2) and gRPC's protocol over it; RFC 8166 (RPC over RDMA). The parts say which number is from where.
//! Modelled: core time of a call at both ends, marshalling by the call and by the byte, frames, messages that are copied and those that the
//! receiver reads, calls outstanding on a connection.
//! Not modelled: compression, encryption, name resolution, load balancing.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// Calls as frames of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsOverStreams {
    /// The header of a frame.
    pub frame_header: Sourced<Bytes>,
    /// What a frame of data holds at most.
    pub frame_limit: Sourced<Bytes>,
    /// Core time of making or reading a frame.
    pub frame: Sourced<Span>,
    /// What stands before a message within its frames.
    pub message_prefix: Sourced<Bytes>,
    /// The compressed header fields of a request, once both ends know them.
    pub request_fields: Sourced<Bytes>,
    /// The same of a reply.
    pub reply_fields: Sourced<Bytes>,
    /// The fields behind a reply: its status.
    pub trailer_fields: Sourced<Bytes>,
    /// What a thread reads at once.
    pub read_size: Sourced<Bytes>,
}

/// Calls as messages of queue pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsOverRdma {
    /// The header of a message.
    pub header: Sourced<Bytes>,
    /// Messages with their header up to this are copied into the receiver's buffers; longer ones it reads from the sender's memory.
    pub eager_limit: Sourced<Bytes>,
    /// Core time of handling a message.
    pub message: Sourced<Span>,
}

/// What a library of remote procedure calls costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RpcLibrary {
    /// Core time of the client for a call, beside its messages.
    pub call: Sourced<Span>,
    /// Core time of the server for a call, beside its messages and what is asked for.
    pub handle: Sourced<Span>,
    /// From the thread that reads messages to a worker that sleeps.
    pub handoff: Sourced<Span>,
    /// Core time of writing or reading the fields of a message.
    pub marshal: Sourced<Span>,
    /// Bytes of a message that a core writes.
    pub serialise_rate: Sourced<Rate>,
    /// Bytes of a message that a core reads.
    pub parse_rate: Sourced<Rate>,
    /// Calls outstanding on a connection.
    pub outstanding: Sourced<u32>,
    /// Its messages on a stream, if it uses sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<CallsOverStreams>,
    /// Its messages on queue pairs, if it uses verbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<CallsOverRdma>,
}

impl RpcLibrary {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if *self.outstanding == 0 {
            return Err(Problem::at(&["rpc", "outstanding", "value"], "no call may be outstanding", "use 1 or more"));
        }
        for (key, rate) in [("serialise_rate", &self.serialise_rate), ("parse_rate", &self.parse_rate)] {
            if rate.as_bps() == 0 {
                return Err(Problem::at(
                    &["rpc", key, "value"],
                    format!("`{key}` is zero: no message would end"),
                    "use for example \"10 Gb/s\"",
                ));
            }
        }
        if let Some(streams) = &self.streams {
            for (key, bytes) in [("frame_limit", &streams.frame_limit), ("read_size", &streams.read_size)] {
                if **bytes == Bytes::ZERO {
                    return Err(Problem::at(&["rpc", "streams", key, "value"], format!("`{key}` is zero"), "use for example \"16 KiB\""));
                }
            }
        }
        if self.streams.is_none() && self.rdma.is_none() {
            return Err(Problem::at(&["rpc"], "calls without messages", "add [rpc.streams] or [rpc.rdma]"));
        }
        if let Some(rdma) = self.rdma.as_ref().filter(|rdma| *rdma.eager_limit < *rdma.header) {
            let message = format!("a header of {} does not fit into an eager message of {}", *rdma.header, *rdma.eager_limit);
            return Err(Problem::at(&["rpc", "rdma", "eager_limit", "value"], message, "use at least as much as `header`"));
        }
        Ok(())
    }
}
