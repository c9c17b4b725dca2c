//! Why a call has no answer: a code for programs, a text with the remedy for people.

use fabriscope::Error;
use fabriscope_catalog::CatalogError;
use fabriscope_engine::EngineError;
use fabriscope_lab::LabError;
use fabriscope_lab::launch::LaunchError;
use fabriscope_units::Remedy;

/// How a call ended; `fabriscope_status` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// There is an answer.
    Ok = 0,
    /// An argument that no cluster has an answer to.
    InvalidArgument = 1,
    /// No such cluster, or a fault in what describes it.
    Cluster = 2,
    /// This cluster or engine has no model of it, or the job does not fit.
    Refused = 3,
    /// The run did not end well.
    Failed = 4,
    /// A fault of the library.
    Internal = 5,
}

impl Status {
    /// Every status, in the order of the codes.
    pub const ALL: [Status; 6] = [Status::Ok, Status::InvalidArgument, Status::Cluster, Status::Refused, Status::Failed, Status::Internal];
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub status: Status,
    /// What is wrong; what to do about it.
    pub text: String,
}

impl Failure {
    /// An argument that is wrong whatever the cluster.
    pub fn argument(message: impl AsRef<str>, help: impl AsRef<str>) -> Failure {
        Failure::new(Status::InvalidArgument, message.as_ref(), help.as_ref())
    }
    /// What this cluster does not have.
    pub(crate) fn refused(message: impl AsRef<str>, help: impl AsRef<str>) -> Failure {
        Failure::new(Status::Refused, message.as_ref(), help.as_ref())
    }
    fn new(status: Status, message: &str, help: &str) -> Failure {
        Failure { status, text: format!("{message}; {help}") }
    }
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Failure {
        Failure { status: Status::Cluster, text: error.in_full() }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let (status, text) = match &error {
            LabError::Catalog(_) => (Status::Cluster, error.in_full()),
            LabError::Launch(LaunchError::Engine(error)) => (of_engine(error), error.in_full()),
            // The remedy is in it; what help there is beside is that of the command line.
            LabError::Launch(LaunchError::Usage(error)) => (Status::Refused, error.in_full()),
            _ => (Status::Refused, error.in_full()),
        };
        Failure { status, text }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure { status: of_engine(&error), text: error.in_full() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Catalog(error) => error.into(),
            Error::Lab(error) => error.into(),
            other => Failure { status: Status::Refused, text: other.in_full() },
        }
    }
}

/// What was refused before the run, and what ended it.
fn of_engine(error: &EngineError) -> Status {
    match error {
        EngineError::Program { .. } | EngineError::Stalled { .. } | EngineError::Transfer { .. } => Status::Failed,
        _ => Status::Refused,
    }
}
