//! An operating system as TCP sees it: what the core pays, how packets wait for interrupts, the defaults of sockets.
//!
//! The mechanisms are those of `fabriscope_tcp::kernel`; here are the numbers, with their sources.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// The congestion control of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpAlgorithm {
    /// NewReno.
    Reno,
    /// CUBIC.
    #[default]
    Cubic,
    /// DCTCP: ends that answer to marks.
    Dctcp,
}

/// One kernel with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the kernel, and a key of the file")]
pub struct Kernel {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Core time of a system call, apart from what it does.
    pub syscall: Sourced<Span>,
    /// Core time of sending one segment, however long: TCP, IP, driver, doorbell.
    pub send_segment: Sourced<Span>,
    /// Core time of cutting one packet off a segment where the adapter does not.
    pub send_packet: Sourced<Span>,
    /// Core time of taking one packet from the adapter and trying to merge it.
    pub receive_packet: Sourced<Span>,
    /// Core time of bringing one merged segment through IP and TCP to its socket.
    pub receive_segment: Sourced<Span>,
    /// From the adapter's interrupt to the handling of the first packet.
    pub interrupt: Sourced<Span>,
    /// From data in a socket to the program that slept on it.
    pub wake_up: Sourced<Span>,
    /// Core time of handling one page of payload, beside its copy: allocation, mapping for the adapter, release.
    pub page: Sourced<Span>,
    /// Rate of checksums by the core.
    pub checksum_rate: Sourced<Rate>,
    /// The adapter cuts segments (TSO, LSO).
    pub segmentation_offload: bool,
    /// The core merges packets (GRO).
    pub receive_offload: bool,
    /// The adapter computes and checks checksums.
    pub checksum_offload: bool,
    /// An interrupt comes so long after the first packet; the largest value where it follows the load.
    pub interrupt_delay: Sourced<Span>,
    /// An interrupt comes with this packet.
    pub interrupt_frames: Sourced<u32>,
    /// The delay follows the load.
    pub interrupt_adaptive: bool,
    /// Interrupts of a connection are handled by its program's core (accelerated receive flow steering).
    pub flow_steering: bool,
    /// Room for data that was not acknowledged.
    pub send_buffer: Sourced<Bytes>,
    /// Room for data that was not read.
    pub receive_buffer: Sourced<Bytes>,
    /// The congestion control.
    #[serde(default)]
    pub congestion: TcpAlgorithm,
    /// Marks are asked for and answered.
    #[serde(default)]
    pub ecn: bool,
    /// Congestion window at the start, in segments.
    pub initial_window: Sourced<u32>,
    /// How long the acknowledgement of a single segment may wait.
    pub delayed_ack: Sourced<Span>,
    /// The shortest retransmission timeout.
    pub min_rto: Sourced<Span>,
}

impl Part for Kernel {
    const KIND: Kind = Kind::Kernel;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        for (key, bytes) in [("send_buffer", *self.send_buffer), ("receive_buffer", *self.receive_buffer)] {
            if bytes < LEAST_BUFFER {
                let message = format!("a `{key}` of {bytes} closes the window: nothing could be sent");
                return Err(Problem::at(&[key, "value"], message, format!("use at least \"{LEAST_BUFFER}\"")));
            }
        }
        for (key, count) in [("interrupt_frames", *self.interrupt_frames), ("initial_window", *self.initial_window)] {
            if count == 0 {
                return Err(Problem::at(&[key, "value"], format!("`{key}` is zero"), "use at least 1"));
            }
        }
        if self.checksum_rate.as_bps() == 0 {
            return Err(Problem::at(
                &["checksum_rate", "value"],
                "`checksum_rate` is zero: a checksum would never end",
                "use the rate of one core",
            ));
        }
        if self.congestion == TcpAlgorithm::Dctcp && !self.ecn {
            return Err(Problem::at(&["congestion"], "DCTCP without marks", "add ecn = true, or choose \"cubic\""));
        }
        Ok(())
    }
}

/// Two of the largest packets of IP over InfiniBand.
const LEAST_BUFFER: Bytes = Bytes::from_kib(128);
