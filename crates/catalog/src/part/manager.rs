//! Who keeps the routes of a fabric right when links fail, and how long that takes.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.3.9 (trap 128) and §14.4 (initialisation, sweep); RFC 7938 §7
//! (convergence of routed data centres).
//! Modelled: a port notices, switches that know several ways leave the dead one out by themselves, a manager is told, looks at
//! the whole fabric, computes tables and writes them switch by switch.
//! A subnet manager of InfiniBand may say what its packets cost (`[sweep]`): `engine-management` has them one by one.
//! Not modelled: loss of the manager itself; in runs with faults its own packets on the wire.

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// How a fabric reacts to links that go down and come back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manager {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// From the loss of the signal until the port says that it is down.
    pub detection: Sourced<Span>,
    /// From there until a switch that knows several ways leaves the dead one out; without it switches wait for new tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Sourced<Span>>,
    /// From the detection until whoever computes tables knows.
    pub report: Sourced<Span>,
    /// Looking at one switch or adapter; a sweep looks at all, one after the other.
    pub discovery: Sourced<Span>,
    /// Computing the ways of one switch to one endpoint.
    pub computing: Sourced<Span>,
    /// Writing one block of 64 table entries into a switch; switches are written one after the other.
    pub programming: Sourced<Span>,
    /// How a subnet manager sends its packets, and what they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SubnetSweep>,
}

/// How a subnet manager sends its packets, and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubnetSweep {
    /// Packets that it has on the wire at most.
    pub window: Sourced<u32>,
    /// How long it waits for an answer.
    pub timeout: Sourced<Span>,
    /// How often it sends a packet again.
    pub retries: Sourced<u32>,
    /// What it takes for an answer, from the adapter to the next packet.
    pub handling: Sourced<Span>,
    /// What the agent of a switch takes to answer.
    pub switch_agent: Sourced<Span>,
    /// What the agent of an adapter takes to answer.
    pub adapter_agent: Sourced<Span>,
    /// What a switch takes to pass a packet with a directed route on.
    pub directed_hop: Sourced<Span>,
    /// Packets that a device holds for its agent.
    pub buffer: Sourced<u32>,
}

impl SubnetSweep {
    fn check(&self) -> Result<(), Problem> {
        for (key, count) in [("window", *self.window), ("buffer", *self.buffer)] {
            if count == 0 {
                return Err(Problem::at(&["sweep", key, "value"], format!("`{key}` is zero: nothing is ever answered"), "use at least 1"));
            }
        }
        if *self.retries > MOST_RETRIES {
            let help = format!("use at most {MOST_RETRIES}");
            return Err(Problem::at(&["sweep", "retries", "value"], format!("{} retries", *self.retries), help));
        }
        for (key, value) in [
            ("timeout", *self.timeout),
            ("handling", *self.handling),
            ("switch_agent", *self.switch_agent),
            ("adapter_agent", *self.adapter_agent),
            ("directed_hop", *self.directed_hop),
        ] {
            if value > Span::from_us(10_000_000) {
                return Err(Problem::at(&["sweep", key, "value"], format!("`{key}` takes {value}"), "write at most \"10 s\""));
            }
        }
        Ok(())
    }
}

/// More would keep a sweep busy with a dead node for minutes. Basis: assumed.
const MOST_RETRIES: u32 = 100;

impl Part for Manager {
    const KIND: Kind = Kind::Manager;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        for (key, value) in [("report", *self.report), ("discovery", *self.discovery), ("computing", *self.computing)] {
            if value > Span::from_us(60_000_000) {
                return Err(Problem::at(&[key, "value"], format!("`{key}` takes {value}"), "write at most \"60 s\""));
            }
        }
        self.sweep.as_ref().map_or(Ok(()), SubnetSweep::check)
    }
}
