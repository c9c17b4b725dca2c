//! The published tables that come with the program, and their limits.

use fabriscope_report::{Measured, Tolerances, measured};
use include_dir::{Dir, include_dir};

use crate::error::LabError;
use crate::leave_out::Priors;

static TABLES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../validation");

/// All tables, in the order of their names.
pub fn tables() -> Result<Vec<Measured>, LabError> {
    tables_with("")
}

/// The tables in whose files a word stands, in the order of their names: fewer to read than all.
///
/// # Errors
/// As [`tables`].
pub fn tables_with(word: &str) -> Result<Vec<Measured>, LabError> {
    let named = |file: &&include_dir::File<'_>| {
        let csv = file.path().extension().is_some_and(|e| e == "csv");
        csv && file.contents_utf8().is_some_and(|text| text.contains(word))
    };
    let mut files: Vec<_> = TABLES.files().filter(named).collect();
    files.sort_by_key(|f| f.path());
    files.iter().map(|f| measured::read(&format!("validation/{}", f.path().display()), f.contents()).map_err(LabError::from)).collect()
}

/// What is promised of the tables, what is known of them, and which are off.
pub fn tolerances() -> Result<Tolerances, LabError> {
    let read = Tolerances::parse("validation/tolerances.toml", text("tolerances.toml"));
    let read = read.and_then(|read| read.with_off("validation/off.toml", text("off.toml")));
    read.map_err(|e| LabError::refused(e.to_string(), "correct the file and build again"))
}

/// What would stand in the catalogue without the published tables.
pub fn priors() -> Result<Priors, LabError> {
    Priors::parse("validation/priors.toml", text("priors.toml"))
}

fn text(name: &str) -> &'static str {
    TABLES.get_file(name).and_then(include_dir::File::contents_utf8).unwrap_or_default()
}
