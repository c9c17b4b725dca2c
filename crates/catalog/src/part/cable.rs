//! A cable: how fast a signal travels in it, and how long it may be.
//!
//! Modelled: propagation delay. Not modelled: retimers, attenuation.

use fabriscope_fabric::Length;
use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// One kind of cable; its length is a matter of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Time a signal takes for one metre.
    pub propagation_per_metre: Sourced<Span>,
    /// The longest one that is sold.
    pub max_length: Sourced<Length>,
}

impl Cable {
    /// Time a signal takes from end to end of a cable of this length.
    pub fn delay(&self, length: Length) -> Span {
        // Lengths and delays of cables are far below what this can hold: 2^32 mm at 4 us/mm.
        Span::from_ps(self.propagation_per_metre.as_ps().saturating_mul(u64::from(length.as_mm())) / 1000)
    }
}

impl Part for Cable {
    const KIND: Kind = Kind::Cable;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        // Light in vacuum needs 3.33 ns for a metre.
        if *self.propagation_per_metre < Span::from_ps(3_335) {
            let message = format!("{} per metre is faster than light", *self.propagation_per_metre);
            return Err(Problem::at(&["propagation_per_metre", "value"], message, "copper and fibre take about 5 ns"));
        }
        Ok(())
    }
}
