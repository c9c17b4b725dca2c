//! A switch: its ports, the delay of its crossbar, its buffers and its flow control.
//!
//! Modelled: a fixed port-to-port delay of the first byte, input buffers per port and virtual lane,
//! priority flow control and ECN thresholds for Ethernet.
//! Not modelled: dynamic thresholds for pauses, internal speed-up below one, ASICs of several stages.

use fabriscope_switch::{EcnLimits, PauseThresholds, SharedBuffer};
use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aggregation, Kind, Layer, Part};
use crate::error::Problem;
use crate::sourced::{Sourced, Stated};

/// When a switch starts to send a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// As soon as the header is read, where the output is not faster than the input.
    #[default]
    CutThrough,
    /// After the last byte arrived.
    StoreAndForward,
}

/// Thresholds of priority flow control (IEEE 802.1Qbb), per port and priority.
pub type Pfc = PauseThresholds<Stated>;
/// Thresholds of congestion marking (RFC 3168), per queue.
pub type Ecn = EcnLimits<Stated>;
/// A buffer that all ports have in common.
pub type Shared = SharedBuffer<Stated>;

/// One model of switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Number of ports.
    pub ports: u32,
    /// Names of the link speeds its ports can run at.
    pub speeds: Vec<String>,
    /// What its ports speak.
    pub layer: Layer,
    /// When it starts to send a packet.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// From the first byte in to the first byte out, on an idle output.
    pub latency: Sourced<Span>,
    /// Input buffer per port and virtual lane (priority): what credits are granted from.
    pub buffer: Sourced<Bytes>,
    /// Number of virtual lanes (or lossless priorities).
    pub vls: Sourced<u32>,
    /// Between the copies of a packet that is sent to several ports; without it all are made at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<Sourced<Span>>,
    /// What it reduces by itself; nothing without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<Aggregation>,
    /// The buffer that ports have in common, where packets are dropped; without it each has `buffer` for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// What does not fit into a buffer loses its payload, and its header goes on ahead of all others; else it is dropped whole.
    #[serde(default)]
    pub trims: bool,
    /// Priority flow control; without it an Ethernet switch drops what does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Pfc>,
    /// An Ethernet switch that can grant credits for its buffers in the place of pauses (CBFC of Ultra Ethernet).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub credits: bool,
    /// An Ethernet switch that forwards packets with a short header in the place of Ethernet's, IP's and UDP's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub short_header: bool,
    /// Congestion marking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ecn>,
}

impl Part for Switch {
    const KIND: Kind = Kind::Switch;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if self.ports < 2 {
            return Err(Problem::at(&["ports"], format!("a switch with {} ports", self.ports), "give it at least 2 ports"));
        }
        if self.speeds.is_empty() {
            return Err(Problem::at(&["speeds"], "a switch without a link speed", "name at least one file of links/"));
        }
        if *self.vls == 0 {
            return Err(Problem::at(&["vls", "value"], "`vls` is zero", "use at least 1"));
        }
        if *self.buffer < Bytes(256) {
            let message = format!("a buffer of {} holds no packet", *self.buffer);
            return Err(Problem::at(&["buffer", "value"], message, "make it at least one MTU and its headers"));
        }
        if self.pfc.is_some() && self.layer == Layer::InfiniBand {
            return Err(Problem::at(&["pfc"], "priority flow control on InfiniBand", "remove `pfc`: InfiniBand uses credits"));
        }
        if let Some((key, _)) =
            [("credits", self.credits), ("short_header", self.short_header)].iter().find(|(_, has)| *has && self.layer == Layer::InfiniBand)
        {
            return Err(Problem::at(&[key], format!("`{key}` on InfiniBand, which has its own"), "remove it"));
        }
        if let Some(pfc) = &self.pfc {
            check_pfc(pfc, *self.buffer)?;
        }
        if let Some(ecn) = &self.ecn {
            check_ecn(ecn)?;
        }
        if let Some(aggregation) = &self.aggregation {
            aggregation.check()?;
        }
        if let Some(alpha) = self.shared.as_ref().map(|shared| *shared.alpha).filter(|alpha| !(*alpha > 0.0 && *alpha <= 256.0)) {
            return Err(Problem::at(&["shared", "alpha", "value"], format!("`alpha` of {alpha}"), "use a number above 0 and up to 256"));
        }
        Ok(())
    }
}

fn check_pfc(pfc: &Pfc, buffer: Bytes) -> Result<(), Problem> {
    if *pfc.xon > *pfc.xoff {
        let message = format!("`xon` of {} lies above `xoff` of {}", *pfc.xon, *pfc.xoff);
        return Err(Problem::at(&["pfc", "xon", "value"], message, "set `xon` to at most `xoff`"));
    }
    let needed = pfc.xoff.as_u64().saturating_add(pfc.headroom.as_u64());
    if needed > buffer.as_u64() {
        let message = format!("`xoff` of {} and `headroom` of {} exceed the buffer of {buffer}", *pfc.xoff, *pfc.headroom);
        let help = format!("set `buffer` to at least {}, or lower `xoff`", Bytes(needed));
        return Err(Problem::at(&["pfc", "xoff", "value"], message, help));
    }
    Ok(())
}

pub(crate) fn check_ecn(ecn: &Ecn) -> Result<(), Problem> {
    if *ecn.kmin > *ecn.kmax {
        let message = format!("`kmin` of {} lies above `kmax` of {}", *ecn.kmin, *ecn.kmax);
        return Err(Problem::at(&["ecn", "kmin", "value"], message, "set `kmin` to at most `kmax`"));
    }
    if !(0.0..=1.0).contains(&*ecn.pmax) {
        return Err(Problem::at(&["ecn", "pmax", "value"], format!("`pmax` of {} is not a share", *ecn.pmax), "use 0.0 to 1.0"));
    }
    Ok(())
}
