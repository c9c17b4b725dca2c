//! Why a question has no answer.

use fabriscope_catalog::CatalogError;
use fabriscope_lab::LabError;
use fabriscope_report::MeasuredError;

/// Why a question has no answer. The message holds the values, the help the remedy.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// A part, a cluster or a lab file.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
    /// What cannot be run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Lab(#[from] LabError),
    /// A table of measurements.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Table(#[from] MeasuredError),
    /// Measurements that no run can answer.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Validate(#[from] fabriscope_report::validate::ValidateError),
    /// A table that does not exist.
    #[error("there is no table `{name}`")]
    #[diagnostic(code(validate::unknown_table), help("the tables are {}", known.join(", ")))]
    UnknownTable {
        /// The name as given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
}
