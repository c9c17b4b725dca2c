//! A congestion control with its parameters.
//!
//! The formulas and the parameters are those of `fabriscope_verbs::cc`; here are the numbers, with their sources.

use fabriscope_verbs::cc::{self, Credit, Scheme};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Stated;

/// The algorithm, its parameters with their origins.
pub type Algorithm = cc::Algorithm<Stated>;

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
    /// What takes the place of the algorithm, where the program around this library brings one along.
    #[serde(skip)]
    pub prototype: Option<cc::Prototype>,
}

impl Congestion {
    /// Whether senders wait for credit of their receivers.
    #[must_use]
    pub fn gives_credit(&self) -> bool {
        self.prototype.is_none() && self.algorithm.plain().signals().credit == Credit::OfReceivers
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
        self.algorithm.plain().check().map_err(|error| {
            let place = ["algorithm", self.algorithm.name(), error.parameter, "value"];
            Problem::at(&place, error.to_string(), "write a number above 0 and up to 1")
        })?;
        self.ecn.as_ref().map_or(Ok(()), super::switch::check_ecn)
    }
}
