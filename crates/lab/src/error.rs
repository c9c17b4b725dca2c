//! Why an experiment did not run.

use fabriscope_catalog::CatalogError;
use miette::Diagnostic;

use crate::launch::LaunchError;

/// Why an experiment did not run.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum LabError {
    /// The lab, its cluster or a part.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
    /// A tool did not run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Launch(#[from] LaunchError),
    /// A published table.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Table(#[from] fabriscope_report::MeasuredError),
    /// A layout that does not fit its model.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Layout(#[from] fabriscope_training::LayoutError),
    /// A run of HPL that cannot be.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hpl(#[from] fabriscope_hpl::HplError),
    /// A job of training that cannot be.
    #[error("{message}")]
    #[diagnostic(code(train::impossible), help("{help}"))]
    Training {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// What was asked for cannot be done here.
    #[error("{message}")]
    Refused {
        /// What cannot be done, with the values.
        message: String,
        /// What to do instead.
        #[help]
        help: String,
    },
}

impl LabError {
    /// A refusal in words, with its remedy.
    pub fn refused(message: impl Into<String>, help: impl Into<String>) -> LabError {
        LabError::Refused { message: message.into(), help: help.into() }
    }
}
