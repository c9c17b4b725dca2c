//! Reading a text file that a person named: every way it can go wrong is an error with a remedy.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::CatalogError;

/// The largest file that is read, in bytes: hundreds of times the largest part.
const LARGEST: u64 = 1 << 20;

/// The text of the file at `path`.
///
/// # Errors
/// A file that cannot be read, is far too large, or is not text.
pub fn read(path: &Path) -> Result<String, CatalogError> {
    let unreadable = |reason: String| CatalogError::Unreadable { path: path.to_owned(), reason };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if metadata.is_dir() {
        return Err(unreadable("is a folder, not a file".to_owned()));
    }
    if metadata.len() > LARGEST {
        return Err(CatalogError::TooLarge { path: path.to_owned(), size: metadata.len(), limit: LARGEST });
    }
    let mut bytes = Vec::new();
    // A pipe or a device has no length: stop reading one byte beyond the limit.
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(CatalogError::TooLarge { path: path.to_owned(), size: bytes.len() as u64, limit: LARGEST });
    }
    String::from_utf8(bytes).map_err(|error| CatalogError::NotText { path: path.to_owned(), offset: error.utf8_error().valid_up_to() })
}

/// What a folder holds, sorted by name, hidden entries left out.
pub(crate) fn entries(folder: &Path) -> Result<Vec<(PathBuf, String)>, CatalogError> {
    let unreadable = |error: std::io::Error| CatalogError::Unreadable { path: folder.to_owned(), reason: error.to_string() };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            entries.push((entry.path(), name));
        }
    }
    entries.sort();
    Ok(entries)
}
