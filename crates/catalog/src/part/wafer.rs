//! The mesh of a wafer as its cores see it: how many there are in a row, how long a cycle is, what a router passes in one.
//!
//! Source: Cerebras SDK; Luczynski et al., Near-Optimal Wafer-Scale Reduce (HPDC 2024); the parts say which.
//! Modelled: columns and rows that programs have, the cycle, the way between a core and its router, a wavelet.
//! Not modelled: colours beyond those that an operation needs, cores that are left out as they do not work.

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// The cores of a wafer and the routers between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wafer {
    /// Cores in a row.
    pub columns: Sourced<u32>,
    /// Rows.
    pub rows: Sourced<u32>,
    /// A cycle of cores and routers.
    pub cycle: Sourced<Span>,
    /// Cycles from a core to its router, and back.
    pub ramp: Sourced<u32>,
    /// Cycles from router to router.
    pub hop: Sourced<u32>,
    /// Cycles from a wavelet at the core until its sum may leave.
    pub add: Sourced<u32>,
    /// A wavelet: what a link takes in a cycle, each way.
    pub wavelet: Sourced<Bytes>,
}

impl Wafer {
    pub(super) fn check(&self) -> Result<(), Problem> {
        for (key, zero) in [
            ("columns", *self.columns == 0),
            ("rows", *self.rows == 0),
            ("cycle", *self.cycle == Span::ZERO),
            ("hop", *self.hop == 0),
            ("wavelet", *self.wavelet == Bytes::ZERO),
        ] {
            if zero {
                return Err(Problem::at(&["wafer", key, "value"], format!("`{key}` of 0"), "use more"));
            }
        }
        if u64::from(*self.columns) * u64::from(*self.rows) > MOST {
            let message = format!("a wafer of {} by {} cores", *self.columns, *self.rows);
            return Err(Problem::at(&["wafer", "columns", "value"], message, "use up to 16777216 cores"));
        }
        Ok(())
    }
}

/// Cores of a wafer. Basis: assumed; what a simulation has memory for.
const MOST: u64 = 1 << 24;
