//! Why a step is no schedule.

use fabriscope_nccl::NcclError;
use fabriscope_schedule::ScheduleError;

/// Why a step is no schedule.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum PlanError {
    /// The library has no plan for a group.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Library(#[from] NcclError),
    /// What came out is no schedule.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Schedule(#[from] ScheduleError),
    /// Adapters that act as one.
    #[error("{rails} adapters of a GPU that its library uses as one")]
    #[diagnostic(help("take a cluster with one adapter for each GPU, or ask without --engine"))]
    Rails {
        /// How many.
        rails: u32,
    },
    /// Ranks of a group that do not call the same.
    #[error("GPU {gpu} begins operation {number} of a group of {size}, and others of it do not")]
    #[diagnostic(help("use a layout whose stages have as many layers each"))]
    Alone {
        /// The GPU.
        gpu: u32,
        /// Which operation of the group.
        number: u32,
        /// Ranks of the group.
        size: u32,
    },
    /// How long something within a node takes is not known.
    #[error("{what}")]
    #[diagnostic(help("ask without --engine to see what is missing"))]
    Times {
        /// What the cluster said.
        what: String,
    },
}
