//! A congestion control with its parameters.
//!
//! The formulas are those of `fabriscope_verbs::cc`; here are the numbers, with their sources.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// InfiniBand congestion control (annex A10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InfiniBandCc {
    /// Added to the index of a flow by a notification.
    pub increase: Sourced<u32>,
    /// The highest index.
    pub limit: Sourced<u32>,
    /// One is taken from the index in this time.
    pub timer: Sourced<Span>,
    /// Entry i of the table delays packets by i times this many packets.
    pub step: Sourced<f64>,
    /// The shortest time between two notifications of a queue pair that has no acknowledgements to carry them.
    pub notification_interval: Sourced<Span>,
}

/// DCQCN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dcqcn {
    /// Weight of the newest notification in α.
    pub g: Sourced<f64>,
    /// α decays once in this time.
    pub alpha_interval: Sourced<Span>,
    /// The rate grows once in this time.
    pub increase_interval: Sourced<Span>,
    /// The rate grows once in so many bytes.
    pub increase_bytes: Sourced<Bytes>,
    /// Steps of fast recovery.
    pub recovery_steps: Sourced<u32>,
    /// Additive increase.
    pub additive: Sourced<Rate>,
    /// Hyper increase.
    pub hyper: Sourced<Rate>,
    /// The lowest rate.
    pub least: Sourced<Rate>,
    /// The shortest time between two notifications of a queue pair.
    pub notification_interval: Sourced<Span>,
}

/// DCTCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dctcp {
    /// Weight of the newest window in α.
    pub g: Sourced<f64>,
}

/// Swift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swift {
    /// Target of the delay above the round trip of an idle network.
    pub target: Sourced<Span>,
    /// Packets added per round trip.
    pub additive: Sourced<f64>,
    /// Weight of the excess in a decrease.
    pub beta: Sourced<f64>,
    /// Largest decrease, as a share of the window.
    pub most_decrease: Sourced<f64>,
    /// Most that flow scaling adds to the target.
    pub scaling_range: Sourced<Span>,
    /// Window in packets at and below which all of it is added.
    pub scaling_least: Sourced<f64>,
    /// Window in packets above which none is added.
    pub scaling_most: Sourced<f64>,
}

/// HPCC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hpcc {
    /// Utilisation to aim for.
    pub utilisation: Sourced<f64>,
    /// Stages of additive increase.
    pub stages: Sourced<u32>,
    /// Flows for which the additive step is sized.
    pub flows: Sourced<f64>,
}

/// NSCC of Ultra Ethernet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nscc {
    /// Target of the queueing delay, as a share of the round trip of an idle network.
    pub target: Sourced<f64>,
    /// Largest decrease, as a share of the window.
    pub most_decrease: Sourced<f64>,
    /// Weight of the excess in a decrease.
    pub gamma: Sourced<f64>,
    /// Packets added per round trip where all flows grow alike.
    pub fair: Sourced<f64>,
    /// Share of what arrives that is added at no delay.
    pub proportional: Sourced<f64>,
    /// How long to wait for an answer before sending again.
    pub timeout: Sourced<Span>,
}

/// Latency-based, as SRD's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Srd {
    /// Queueing delay to stay below, as a share of the round trip of an idle network.
    pub bound: Sourced<f64>,
    /// Packets added per round trip.
    pub additive: Sourced<f64>,
    /// Weight of the excess in a decrease.
    pub beta: Sourced<f64>,
    /// How long to wait for an answer before sending again.
    pub timeout: Sourced<Span>,
}

/// Per-pair back-pressure, as Slingshot's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slingshot {
    /// Bytes waiting for an endpoint above which its sources are held back, as a share of the bandwidth–delay product.
    pub threshold: Sourced<f64>,
    /// Share of what arrives that comes back to the window without congestion.
    pub release: Sourced<f64>,
}

/// RCCC of Ultra Ethernet: receiver credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rccc {
    /// Credit that a sender begins with, in bandwidth–delay products.
    pub initial: Sourced<f64>,
    /// Share of its port's rate that a receiver gives out.
    pub share: Sourced<f64>,
    /// How long to wait for an answer, or for credit, before sending again.
    pub timeout: Sourced<Span>,
    /// NSCC beside it, for queues that are not the receiver's; its `timeout` is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nscc: Option<Nscc>,
}

/// The algorithm with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Algorithm {
    /// InfiniBand congestion control.
    #[serde(rename = "infiniband")]
    InfiniBand(InfiniBandCc),
    /// DCQCN.
    Dcqcn(Dcqcn),
    /// DCTCP.
    Dctcp(Dctcp),
    /// Swift.
    Swift(Swift),
    /// HPCC.
    Hpcc(Hpcc),
    /// NSCC of Ultra Ethernet.
    Nscc(Nscc),
    /// Latency-based, as SRD's.
    Srd(Srd),
    /// Per-pair back-pressure, as Slingshot's.
    Slingshot(Slingshot),
    /// RCCC of Ultra Ethernet.
    Rccc(Rccc),
}

/// One congestion control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Congestion {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Marking by switches that it was published with; takes the place of the switch's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<super::Ecn>,
}

impl Congestion {
    /// Whether senders wait for credit of their receivers.
    #[must_use]
    pub fn gives_credit(&self) -> bool {
        matches!(self.algorithm, Algorithm::Rccc(_))
    }
}

impl Part for Congestion {
    const KIND: Kind = Kind::Congestion;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        let share = |name: &str, value: f64, path: [&str; 4]| {
            if value > 0.0 && value <= 1.0 {
                return Ok(());
            }
            Err(Problem::at(&path, format!("`{name}` of {value} is no share"), "write a number above 0 and up to 1"))
        };
        let check = |key: &'static str, name: &'static str, value: f64| share(name, value, ["algorithm", key, name, "value"]);
        match &self.algorithm {
            Algorithm::Dcqcn(dcqcn) => check("dcqcn", "g", *dcqcn.g),
            Algorithm::Dctcp(dctcp) => check("dctcp", "g", *dctcp.g),
            Algorithm::Swift(swift) => check("swift", "most_decrease", *swift.most_decrease),
            Algorithm::Hpcc(hpcc) => check("hpcc", "utilisation", *hpcc.utilisation),
            Algorithm::Nscc(nscc) => check("nscc", "most_decrease", *nscc.most_decrease),
            Algorithm::Srd(srd) => check("srd", "beta", *srd.beta),
            Algorithm::Slingshot(slingshot) => check("slingshot", "release", *slingshot.release),
            Algorithm::InfiniBand(infiniband) => check("infiniband", "step", *infiniband.step),
            Algorithm::Rccc(rccc) => check("rccc", "share", *rccc.share),
        }?;
        self.ecn.as_ref().map_or(Ok(()), super::switch::check_ecn)
    }
}
