//! The binding of the Python package `fabriscope`: turns arguments and results from one language into the other.
//!
//! What users call, with its documentation, is in `python/fabriscope`; nothing is decided here.

mod arrow;
mod ask;
mod cluster;
mod errors;
mod outcome;
mod prototype;
mod rounds;
mod study;
mod waiting;

use pyo3::prelude::*;

/// The compiled half of the package `fabriscope`.
#[pymodule]
mod _fabriscope {
    #[pymodule_export]
    use crate::ask::{bench, command, explain, main, run, validate};
    #[pymodule_export]
    use crate::cluster::{Catalog, Cluster};
    #[pymodule_export]
    use crate::outcome::{Outcome, Table};
    #[pymodule_export]
    use crate::prototype::{Choice, Feedback, Line};
    #[pymodule_export]
    use crate::rounds::rounds;
    #[pymodule_export]
    use crate::study::{Study, sweep, work};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
