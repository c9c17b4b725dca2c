//! The numbers of PSM2 in an MPI library: where its protocols change, and what its steps take on the core.
//!
//! They are those of [`LibraryParameters`]; here they have their sources.

use fabriscope_psm2::LibraryParameters;
use fabriscope_units::{Bytes, Span};

use crate::error::Problem;
use crate::sourced::Stated;

/// PSM2 below an MPI library.
pub type Psm2 = LibraryParameters<Stated>;

pub(super) fn check(psm2: &Psm2) -> Result<(), Problem> {
    let at = |key: &'static str| ["mpi", "psm2", key, "value"];
    if *psm2.flow_credits < 4 {
        let message = format!("{} packets without acknowledgement: no packet would ask for one in time", *psm2.flow_credits);
        return Err(Problem::at(&at("flow_credits"), message, "use at least 4"));
    }
    for (key, size) in [("window", &psm2.window), ("tid", &psm2.tid)] {
        if **size == Bytes::ZERO {
            return Err(Problem::at(&at(key), format!("`{key}` is zero: long messages could not be received"), "use at least one byte"));
        }
    }
    if *psm2.timeout == Span::ZERO || *psm2.timeout_max < *psm2.timeout {
        let message = format!("a timeout of {} that becomes {}", *psm2.timeout, *psm2.timeout_max);
        return Err(Problem::at(&at("timeout_max"), message, "make `timeout` positive and `timeout_max` at least as long"));
    }
    if *psm2.tiny_limit > *psm2.eager_limit {
        let message = format!("`tiny_limit` of {} lies above `eager_limit` of {}", *psm2.tiny_limit, *psm2.eager_limit);
        return Err(Problem::at(&at("tiny_limit"), message, "make it at most `eager_limit`"));
    }
    Ok(())
}
