//! What links do beyond carrying bits at their rate: repeat damaged packets themselves, and rest while nothing is to be sent.
//!
//! Source: link-level retry of HPE Slingshot (De Sensi et al., SC 2020, §II-A) and of Ultra Ethernet 1.0 (LLR); IEEE 802.3az
//! (energy-efficient Ethernet: low-power idle and its wake time); InfiniBand Architecture Specification vol. 1 (link width reduction).

use fabriscope_units::{Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// A link repeats damaged packets: nobody else sees a loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRetry {
    /// Share of the bits that are wrong behind error correction [0..1].
    pub bit_errors: f64,
    /// From the arrival of a damaged packet until it is on the wire again, without the way back.
    pub latency: Span,
}

/// A link rests while nothing is to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRest {
    /// It rests after so long without a packet.
    pub after: Span,
    /// How long it takes to be back.
    pub wake: Span,
    /// The share of its lanes that stays awake and carries packets meanwhile; without it nothing is carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Ratio>,
}

/// What all links of a cluster do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Line {
    /// They repeat damaged packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<LinkRetry>,
    /// They rest while nothing is to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<LinkRest>,
}

/// Above this a full packet hardly ever arrives. Basis: 4096 B, one of three packets whole.
const MOST_ERRORS: f64 = 3e-5;

pub(crate) fn check(line: &Line) -> Result<(), Problem> {
    if let Some(errors) = line.retry.as_ref().map(|retry| retry.bit_errors).filter(|errors| !(0.0..=MOST_ERRORS).contains(errors)) {
        let help = format!("use a share of the bits from 0 to {MOST_ERRORS}; links are specified for 1e-12 and less");
        return Err(Problem::at(&["line", "retry", "bit_errors"], format!("a bit error rate of {errors}"), help));
    }
    if line.rest.as_ref().and_then(|rest| rest.lanes).is_some_and(|lanes| lanes.as_f64() == 0.0) {
        return Err(Problem::at(&["line", "rest", "lanes"], "no lane stays awake", "leave `lanes` out, or write for example \"1/4\""));
    }
    Ok(())
}
