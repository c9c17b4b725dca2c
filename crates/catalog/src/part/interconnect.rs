//! A link inside a node or between its accelerators: from GPU to GPU, from processor to GPU, from socket to socket, to memory.
//!
//! Source: the parts say it for each.
//! Modelled: the raw rate of one link each way, the share of it that data get, what requests of reads take of the other
//! direction, the latency of one crossing.
//! Not modelled: credits, replay and power states of the link; how the protocol keeps caches the same.

use fabriscope_units::{Rate, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CxlFlit, CxlLink, Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// What kind of link it is: what it may join, and how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InterconnectKind {
    /// NVLink between GPUs and to NVSwitches.
    #[serde(rename = "nvlink")]
    NvLink,
    /// NVLink-C2C between processor and GPU.
    C2c,
    /// xGMI between GPUs, and between processor and GPU.
    Xgmi,
    /// Xe Link between GPUs.
    XeLink,
    /// Between sockets: QPI, UPI, HyperTransport, Infinity Fabric.
    Smp,
    /// UALink between accelerators.
    #[serde(rename = "ualink")]
    UaLink,
    /// Scale-Up Ethernet between accelerators.
    Sue,
    /// CXL to memory.
    Cxl,
    /// Between neighbours on a wafer.
    WaferMesh,
    /// RoCE engines on the accelerator.
    Ethernet,
    /// From block to block of one chip.
    Die,
}

impl InterconnectKind {
    /// What one of them is called in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            InterconnectKind::NvLink => "NVLink",
            InterconnectKind::C2c => "NVLink-C2C",
            InterconnectKind::Xgmi => "xGMI",
            InterconnectKind::XeLink => "Xe Link",
            InterconnectKind::Smp => "link between sockets",
            InterconnectKind::UaLink => "UALink",
            InterconnectKind::Sue => "Scale-Up Ethernet",
            InterconnectKind::Cxl => "CXL",
            InterconnectKind::WaferMesh => "wafer mesh",
            InterconnectKind::Ethernet => "Ethernet",
            InterconnectKind::Die => "wiring of a chip",
        }
    }
}

/// One kind of link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What kind of link it is.
    pub kind: InterconnectKind,
    /// Its generation, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Raw rate of one link, one way.
    pub link_rate: Sourced<Rate>,
    /// Share of the raw rate that data get, one way while the other is idle.
    pub efficiency: Sourced<Ratio>,
    /// What the requests of a read take of the other direction, as a share of the data read.
    pub read_requests: Sourced<Ratio>,
    /// From the last bit at one end to the first at whatever lies behind the other end.
    pub latency: Sourced<Span>,
    /// Flits, ports and credits, where it is CXL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cxl: Option<CxlLink>,
}

impl Interconnect {
    /// What `links` links carry of data, one way while the other is idle.
    pub fn data_rate(&self, links: u32) -> Rate {
        self.efficiency.of(self.raw_rate(links))
    }
    /// What `links` links carry in all, one way.
    pub fn raw_rate(&self, links: u32) -> Rate {
        Rate::from_bps(self.link_rate.as_bps().saturating_mul(u64::from(links)))
    }
}

impl Part for Interconnect {
    const KIND: Kind = Kind::Interconnect;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        if self.data_rate(1).as_bps() == 0 {
            return Err(Problem::at(&["link_rate", "value"], "nothing is left of the link for data", "check the rate and `efficiency`"));
        }
        if self.cxl.as_ref().is_some_and(|cxl| cxl.flit != CxlFlit::Small && self.generation.unwrap_or(1) < 3) {
            return Err(Problem::at(&["cxl", "flit"], "flits of 256 B before CXL 3", "use flit = \"68B\", or generation = 3"));
        }
        Ok(())
    }
}
