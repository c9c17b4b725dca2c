//! The files of `tests/files`, each from the project that publishes it (see NOTICE there).

use std::path::{Path, PathBuf};

/// The folder of the samples.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// A file of the samples.
pub fn file(name: &str) -> PathBuf {
    folder().join(name)
}

/// All sample files, but those that say whose they are, in the order of their names; an OTF2 archive is a folder.
pub fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder()];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if name == "ping-pong-otf2" {
                found.push(entry);
            } else if entry.is_dir() {
                open.push(entry);
            } else if name != "NOTICE" {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

/// How tests call a sample.
pub fn name(path: &Path) -> String {
    path.strip_prefix(folder()).unwrap().display().to_string()
}

/// Compares with a file of `tests`; `UPDATE_GOLDEN=1` writes it anew.
#[expect(clippy::disallowed_methods, reason = "a person asks for new files")]
pub fn pinned(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "run with UPDATE_GOLDEN=1 if the change was meant");
}
