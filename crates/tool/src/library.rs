//! The libraries that a tool is linked with.

use fabriscope_catalog::Mpi;
use fabriscope_platform::Target;

use crate::error::UsageError;

/// The MPI library that `tool` is linked with.
///
/// # Errors
/// The cluster's software has none.
pub fn mpi_for<'t>(tool: &str, target: &'t Target) -> Result<&'t Mpi, UsageError> {
    target.mpi.as_ref().ok_or_else(|| UsageError::Conflict {
        what: format!("{tool} needs an MPI library, and the cluster's software has none"),
        remedy: "choose software with an [mpi] table".to_owned(),
    })
}
