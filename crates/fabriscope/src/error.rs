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
    /// A study.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Study(#[from] fabriscope_study::StudyError),
    /// A diagnosis of nothing.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Diagnosis(#[from] fabriscope_diagnose::DiagnoseError),
    /// A job of training that cannot be.
    #[error("{message}")]
    #[diagnostic(code(train::impossible), help("{help}"))]
    Training {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// A model that cannot be served so.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Serving(#[from] fabriscope_inference::ServingError),
    /// A trace of requests.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Requests(#[from] fabriscope_inference::trace::TraceError),
    /// A server that cannot be.
    #[error("{message}")]
    #[diagnostic(code(infer::impossible), help("{help}"))]
    Inference {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// A trace that cannot be run.
    #[error("{trace}: {message}")]
    #[diagnostic(code(trace::replay), help("{help}"))]
    Replay {
        /// Its name.
        trace: String,
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// A tuner's file that cannot be made.
    #[error("{message}")]
    #[diagnostic(code(tuner::impossible), help("{help}"))]
    Tuner {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// A command line of a program on a file system.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Usage(#[from] fabriscope_tools::UsageError),
    /// A file system that cannot be used so.
    #[error("{message}")]
    #[diagnostic(code(storage::impossible), help("{help}"))]
    Storage {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// A table that does not exist.
    #[error("there is no table `{name}`")]
    #[diagnostic(code(validate::unknown_table), help("the tables are {}", known.join(", ")))]
    UnknownTable {
        /// The name as given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Measurements that name no cluster, without one to compare with.
    #[error("{file}: the outputs of {} do not say on which cluster they were measured", tables.join(", "))]
    #[diagnostic(
        code(validate::no_cluster),
        help("give it: --on CLUSTER, a name of `fabriscope clusters` or a TOML file of your own; CLUSTER:N for N nodes of it")
    )]
    NoCluster {
        /// The file.
        file: String,
        /// Tables of it without a cluster.
        tables: Vec<String>,
    },
    /// A machine without published tables.
    #[error("there are no tables of a machine `{name}`")]
    #[diagnostic(code(validate::unknown_machine), help("there are tables of {}; `each` takes one after the other", known.join(", ")))]
    UnknownMachine {
        /// The name as given.
        name: String,
        /// The machines that have tables.
        known: Vec<String>,
    },
}
