//! The version that results are kept under: a hash of the sources of the project, since a number of a model changes more often than a release.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script where it is by its environment")]
fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = own.parent().map(Path::to_owned).unwrap_or_default();
    let mut files = Vec::new();
    collect(&crates, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        hash.update(file.strip_prefix(&crates).unwrap_or(file).to_string_lossy().as_bytes());
        hash.update(fs::read(file)?);
    }
    let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo:rustc-env=FABRISCOPE_SOURCES={hex}");
    println!("cargo:rerun-if-changed={}", crates.display());
    Ok(())
}

/// The sources of all crates: what is beside them (tests, benches) changes no result.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "benches" | "examples") {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(())
}
