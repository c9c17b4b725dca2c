//! Who keeps the routes of a fabric right when links fail, and how long that takes.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.3.9 (trap 128) and §14.4 (initialisation, sweep); RFC 7938 §7
//! (convergence of routed data centres).
//! Modelled: a port notices, switches that know several ways leave the dead one out by themselves, a manager is told, looks at
//! the whole fabric, computes tables and writes them switch by switch.
//! Not modelled: loss of the manager itself, its own packets on the wire.

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
}

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
        Ok(())
    }
}
