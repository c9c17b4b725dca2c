//! The published tables that come with the program, and their limits.

use fabriscope_report::{Measured, Tolerances, measured};
use include_dir::{Dir, include_dir};

use crate::error::LabError;

static TABLES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../validation");

/// All tables, in the order of their names.
pub fn tables() -> Result<Vec<Measured>, LabError> {
    let mut files: Vec<_> = TABLES.files().filter(|f| f.path().extension().is_some_and(|e| e == "csv")).collect();
    files.sort_by_key(|f| f.path());
    files.iter().map(|f| measured::read(&format!("validation/{}", f.path().display()), f.contents()).map_err(LabError::from)).collect()
}

/// The limits of the tables.
pub fn tolerances() -> Result<Tolerances, LabError> {
    let text = TABLES.get_file("tolerances.toml").and_then(include_dir::File::contents_utf8).unwrap_or_default();
    Tolerances::parse("validation/tolerances.toml", text).map_err(|e| LabError::refused(e.to_string(), "correct the file and build again"))
}
