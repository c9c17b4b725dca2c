//! HCL as software: how it cuts operations among the ports of Gaudi, and what its steps cost beside the bytes that they move.
//!
//! Source: HCL (<https://github.com/HabanaAI/HCL>), hcl/src/platform/gen2_arch_common: slices, pools of buffers; the parts say which.
//! Modelled: the size of a slice, slices that are in progress at a time, the cost of a call and of a step.
//! Not modelled: time to connect, adapters of the host in the place of the ports.

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// What HCL makes of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hcl {
    /// Bytes of a slice for each accelerator that takes part.
    pub slice: Sourced<Bytes>,
    /// Slices in progress at a time: buffers in which parts are added up.
    pub in_flight: Sourced<u32>,
    /// Core time of a call.
    pub call: Sourced<Span>,
    /// From a part's arrival until what waits for it leaves.
    pub step: Sourced<Span>,
}

impl Hcl {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if *self.slice == Bytes::ZERO {
            return Err(Problem::at(&["hcl", "slice", "value"], "slices of nothing", "use for example \"512 KiB\""));
        }
        if *self.in_flight == 0 {
            return Err(Problem::at(&["hcl", "in_flight", "value"], "no slice in flight", "use 1 or more"));
        }
        Ok(())
    }
}
