//! A link speed: lanes, signalling rate, encoding, and what is left for data.
//!
//! Source: InfiniBand Architecture Specification volume 2; IEEE 802.3; ITU-T I.432 and RFC 2684 for ATM; INCITS FC-FS for Fibre Channel.
//! Modelled: the data rate after encoding, the delay that error correction adds at every receiver, the frames or cells that IP packets are
//! cut into where they are not those of Ethernet or InfiniBand.
//! Not modelled: bit errors, retraining, lanes that fail.

use fabriscope_units::{Bytes, Rate, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Layer, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// One speed at which a port can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpeed {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What runs on it.
    pub layer: Layer,
    /// Number of lanes.
    pub lanes: u32,
    /// Signalling rate of one lane.
    pub lane_rate: Sourced<Rate>,
    /// Payload bits per line bits, error correction included.
    pub encoding: Sourced<Ratio>,
    /// What is left for packets: lanes × lane rate × encoding.
    pub data_rate: Sourced<Rate>,
    /// Delay that forward error correction adds at each receiver.
    pub fec_latency: Sourced<Span>,
    /// The year from which it could be bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    /// The error correction, by name: `RS(544,514)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub correction: String,
    /// What a short message took from program to program when it was new, for people: no model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_latency: Option<Box<Sourced<Span>>>,
    /// What IP packets are cut into, where it is neither Ethernet nor InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Box<LinkFrame>>,
}

/// The frames or cells of a link that carry an IP packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkFrame {
    /// Bytes that every packet gets besides: headers and trailer of the adaptation layer.
    pub encapsulation: Sourced<Bytes>,
    /// Largest payload of a frame.
    pub payload: Sourced<Bytes>,
    /// Bytes of a frame beside its payload.
    pub overhead: Sourced<Bytes>,
    /// Every frame is full: the last one is padded.
    #[serde(default)]
    pub filled: bool,
    /// The largest IP packet.
    pub mtu: Sourced<Bytes>,
}

impl LinkSpeed {
    /// What is left for packets.
    pub fn data_rate(&self) -> Rate {
        *self.data_rate
    }
}

impl Part for LinkSpeed {
    const KIND: Kind = Kind::Link;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if let Some(frame) = &self.frame
            && (frame.payload.as_u64() == 0 || !(252..=65_535).contains(&frame.mtu.as_u64()))
        {
            return Err(Problem::at(&["frame"], "frames without payload, or an MTU that is none", "use 1 B or more, and 252 B to 65535 B"));
        }
        if !matches!(self.lanes, 1 | 2 | 3 | 4 | 8 | 12) {
            return Err(Problem::at(&["lanes"], format!("a link has no {} lanes", self.lanes), "use 1, 2, 3, 4, 8 or 12"));
        }
        let Some(line) = self.lane_rate.as_bps().checked_mul(u64::from(self.lanes)) else {
            return Err(Problem::at(&["lane_rate", "value"], "the lanes together are faster than a rate can be", "lower `lane_rate`"));
        };
        let derived = self.encoding.of(Rate::from_bps(line));
        // Written rates are rounded; a thousandth is more than any rounding.
        if derived.as_bps().abs_diff(self.data_rate.as_bps()) > derived.as_bps() / 1000 || derived.as_bps() == 0 {
            let message = format!(
                "{} lanes of {} with encoding {} carry {derived}, not {}",
                self.lanes, *self.lane_rate, *self.encoding, *self.data_rate
            );
            return Err(Problem::at(&["data_rate", "value"], message, "correct whichever of the four numbers is wrong"));
        }
        Ok(())
    }
}
