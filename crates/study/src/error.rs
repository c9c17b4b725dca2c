//! Why a study cannot be read, run or written.

use std::path::PathBuf;

use fabriscope_catalog::CatalogError;
use fabriscope_lab::LabError;
use miette::Diagnostic;

/// Why a study cannot be read, run or written. A point that cannot be run is a row of the data set, not an error.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum StudyError {
    /// The file, or a part that it changes.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
    /// A tool or a lab.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Lab(#[from] LabError),
    /// The file says something that no study can have.
    #[error("{file}: {message}")]
    #[diagnostic(code(study::wrong))]
    Wrong {
        /// The study.
        file: String,
        /// What is wrong, with the values.
        message: String,
        /// What to write instead.
        #[help]
        help: String,
    },
    /// A file or folder of the data set or of the kept results.
    #[error("{}: {cause}", path.display())]
    #[diagnostic(code(study::store), help("choose a folder that you may write to, on a disk with room; what is done so far is kept"))]
    Store {
        /// Where.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A point was run elsewhere with other inputs.
    #[error("point {point} has the key {found} where it ran, and {wanted} here")]
    #[diagnostic(
        code(study::elsewhere),
        help("run the same version on all machines, and give them the same files: clusters, labs and parts lie on a common file system")
    )]
    Elsewhere {
        /// Which one.
        point: usize,
        /// Its key there.
        found: String,
        /// Its key here.
        wanted: String,
    },
}

impl StudyError {
    pub(crate) fn wrong(file: &str, message: impl Into<String>, help: impl Into<String>) -> StudyError {
        StudyError::Wrong { file: file.to_owned(), message: message.into(), help: help.into() }
    }
}
