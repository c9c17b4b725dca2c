//! Columns that a study names, and files as seen from it.

use std::path::{Path, PathBuf};

use crate::error::StudyError;

/// Values of the axes that a study names, by their column.
pub type Axes = Vec<(String, String)>;

/// A file that a study names, as seen from its folder.
pub fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

/// The name of a column for the value behind some keys: what its name says, or the last key.
pub fn column_name(given: Option<&String>, keys: &str, file: &str) -> Result<String, StudyError> {
    let name = given.cloned().unwrap_or_else(|| keys.rsplit('.').next().unwrap_or(keys).to_owned());
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit());
    if !plain {
        return Err(StudyError::wrong(
            file,
            format!("a column cannot be called `{name}`"),
            "give it a name of letters, digits and _: name = \"rate\"",
        ));
    }
    if TAKEN.contains(&name.as_str()) {
        let help = format!("give it another name: name = \"{name}_set\"");
        return Err(StudyError::wrong(file, format!("the data set has a column `{name}` of its own"), help));
    }
    Ok(name)
}

/// Columns that every data set has.
const TAKEN: [&str; 19] = [
    "point",
    "cluster",
    "tool",
    "lab",
    "options",
    "nodes",
    "ranks_per_node",
    "placement",
    "transport",
    "engine",
    "seed",
    "size",
    "row",
    "labels",
    "bytes",
    "metric",
    "unit",
    "value",
    "error",
];
