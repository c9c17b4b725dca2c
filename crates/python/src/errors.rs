//! Errors as exceptions: the same text and the same remedy as the program tells.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use pyo3::prelude::*;

/// The exception for an error of the library.
pub fn raised(py: Python<'_>, error: &fabriscope::Error) -> PyErr {
    let class = match error {
        fabriscope::Error::Catalog(_) => "CatalogError",
        fabriscope::Error::Lab(_) => "RunError",
        fabriscope::Error::Table(_) | fabriscope::Error::UnknownTable { .. } | fabriscope::Error::UnknownMachine { .. } => "TableError",
        _ => "FabriscopeError",
    };
    exception(py, class, error)
}

/// The exception for a fault of the catalogue or a cluster.
pub fn of_catalog(py: Python<'_>, error: &fabriscope_catalog::CatalogError) -> PyErr {
    exception(py, "CatalogError", error)
}

/// The exception of that class; if the package cannot be read, that is the exception.
pub fn exception(py: Python<'_>, class: &str, error: &dyn Diagnostic) -> PyErr {
    let help = error.help().map(|help| help.to_string());
    let code = error.code().map(|code| code.to_string());
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_width(4000).with_links(false);
    if handler.render_report(&mut text, error).is_err() {
        text = error.to_string();
    }
    let found = py.import("fabriscope._errors").and_then(|module| module.getattr(class));
    let made = found.and_then(|class| class.call1((error.to_string(), help, code, text.trim().to_owned())));
    made.map_or_else(|failed| failed, PyErr::from_value)
}
