//! A generation of PCI Express: lane rate, encoding, and the bytes that are not payload.
//!
//! Source: PCI Express Base Specification; the shares of link-layer packets as in pcie-model
//! (Neugebauer et al., SIGCOMM 2018), for 256 B payloads on 16 lanes.
//! Modelled: a constant share of the link for acknowledgements, flow control and skip sets; PCI and PCI-X as buses on which both
//! directions take turns, with the clocks that every burst takes beside its data.
//! Not modelled: replay, credits of the link itself, power states, the dependence of the shares on width.

use fabriscope_units::{Bytes, Rate, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bus, Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// One generation of PCI Express.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The generation; 0 for a bus before PCI Express.
    #[serde(default)]
    pub generation: u32,
    /// The bus, where it is one: both directions share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<Bus>,
    /// Data of the longest burst of a bus, in place of what root complexes of PCI Express take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Sourced<Bytes>>,
    /// Reads outstanding that the protocol has names for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Sourced<u32>>,
    /// Signalling rate of one lane, one way.
    pub lane_rate: Sourced<Rate>,
    /// Payload bits per line bits.
    pub encoding: Sourced<Ratio>,
    /// Bytes of a memory write TLP beside its payload.
    pub write_overhead: Sourced<Bytes>,
    /// Bytes of a completion TLP beside its payload.
    pub completion_overhead: Sourced<Bytes>,
    /// Bytes of a read request TLP.
    pub read_request: Sourced<Bytes>,
    /// Share of the link that acknowledgements take.
    pub dllp_ack: Sourced<Ratio>,
    /// Share of the link that flow-control updates take.
    pub dllp_flow_control: Sourced<Ratio>,
    /// Share of the link that skip sets take.
    pub skip: Sourced<Ratio>,
}

impl Pcie {
    /// What `lanes` lanes leave for TLPs, one way: lanes × rate × encoding × (1 − ack − flow control − skip).
    pub fn tlp_rate(&self, lanes: u32) -> Rate {
        let raw = self.encoding.of(Rate::from_bps(self.lane_rate.as_bps().saturating_mul(u64::from(lanes))));
        let lost = [&self.dllp_ack, &self.dllp_flow_control, &self.skip].map(|share| share.of(raw).as_bps());
        Rate::from_bps(lost.into_iter().fold(raw.as_bps(), u64::saturating_sub))
    }
}

impl Part for Pcie {
    const KIND: Kind = Kind::Pcie;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if self.tlp_rate(1).as_bps() == 0 {
            return Err(Problem::at(&["lane_rate", "value"], "nothing is left of the lane for data", "check the rate and the shares"));
        }
        if (self.generation == 0) != self.bus.is_some() {
            return Err(Problem::at(&["generation"], "neither a generation nor a bus, or both", "write `generation`, or `bus`"));
        }
        if self.burst.as_ref().is_some_and(|burst| !(16..=4096).contains(&burst.as_u64())) {
            return Err(Problem::at(&["burst", "value"], "a burst that no bus carries", "use 16 B to 4096 B"));
        }
        if self.tags.as_ref().is_some_and(|tags| **tags == 0) {
            return Err(Problem::at(&["tags", "value"], "a protocol without reads", "use at least 1"));
        }
        Ok(())
    }
}
