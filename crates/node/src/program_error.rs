//! Why a program ended before its end.

use fabriscope_units::Remedy;
use fabriscope_verbs::{PostError, VerbsError};

/// Why a program gave up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProgramError(pub String);

impl From<PostError> for ProgramError {
    fn from(error: PostError) -> ProgramError {
        ProgramError(error.in_full())
    }
}

impl From<VerbsError> for ProgramError {
    fn from(error: VerbsError) -> ProgramError {
        ProgramError(error.in_full())
    }
}
