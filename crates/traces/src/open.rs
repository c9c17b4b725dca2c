//! Files, folders and archives: what is in them, and which of it belongs together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::detect::format_of;
use crate::draft::join;
use crate::error::{Position, Problem, TraceError};
use crate::format::{self, Companion};
use crate::{Format, Trace};

/// What one file holds, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name; of a member of an archive that of the archive as well.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Part {
    /// A file of this name and content.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Part {
        Part { name: name.into(), bytes }
    }
}

/// Reads the traces that `paths` hold: files, folders, archives, compressed or not. Files of one name but for the number of their rank are one
/// trace; a `.meta` file of DUMPI stands for the files of all its ranks.
///
/// # Errors
/// The first file that cannot be read, with its position and what to do.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Trace>, TraceError> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(parts(path)?);
    }
    read_parts(all)
}

/// The same of what files hold. Compressed content and archives are unpacked.
///
/// # Errors
/// As [`read`].
pub fn read_parts(parts: Vec<Part>) -> Result<Vec<Trace>, TraceError> {
    let mut unpacked = Vec::new();
    let first = parts.first().map_or_else(|| "no file".to_owned(), |part| part.name.clone());
    for part in parts {
        unpack(part, &mut unpacked)?;
    }
    let alone = unpacked.len() == 1;
    let mut companions = Vec::new();
    let mut jobs: BTreeMap<(String, Format), RankedParts> = BTreeMap::new();
    let mut strangers = Vec::new();
    for part in unpacked {
        if let Some(companion) = format::companion(&part) {
            companions.push((part.name, companion?));
            continue;
        }
        let format = match format_of(&part) {
            Ok(format) => format,
            Err(error) if alone => return Err(error),
            Err(error) => {
                strangers.push(error);
                continue;
            }
        };
        let (name, rank) = name_and_rank(&part.name);
        let name = if format::one_file_each(format) { stem(&part.name) } else { name };
        jobs.entry((name, format)).or_default().push((part, rank));
    }
    if jobs.is_empty() {
        return Err(strangers.into_iter().next().unwrap_or_else(|| TraceError::new(&first, Position::Whole, Problem::NoTrace)));
    }
    let mut traces = Vec::new();
    for ((name, format), parts) in jobs {
        traces.push(join(&name, format, format::read(format, parts, &companions)?)?);
    }
    if let Some(first) = traces.first_mut() {
        for stranger in strangers {
            first.reading.note(format!("a file of another kind was left out: {}", stranger.file));
        }
    }
    Ok(traces)
}

/// What a path holds; folders are taken as they are, without those in them.
pub(crate) fn parts(path: &Path) -> Result<Vec<Part>, TraceError> {
    let mut found = Vec::new();
    for file in files(path)? {
        let name = file.display().to_string();
        let bytes = std::fs::read(&file).map_err(|error| unreadable(&name, &error))?;
        unpack(Part::new(name, bytes), &mut found)?;
    }
    Ok(found)
}

fn unreadable(name: &str, error: &std::io::Error) -> TraceError {
    TraceError::new(name, Position::Whole, Problem::Unreadable { what: error.to_string() })
}

/// The files of a folder in the order of their names, those of a `.meta` file, or the file itself.
fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let name = path.display().to_string();
    let meta = path.extension().is_some_and(|extension| extension == "meta");
    if !path.is_dir() && !meta {
        return Ok(vec![path.to_owned()]);
    }
    let folder = if meta { path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")) } else { path };
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(&name, &error))?;
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in entries {
        found.push(entry.map_err(|error| unreadable(&name, &error))?.path());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let of_meta = |file: &Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(&stem).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".bin"))
    };
    found.retain(|file| file.is_file() && (!meta || of_meta(file)));
    if meta {
        found.push(path.to_owned());
    }
    found.sort();
    if found.is_empty() { Err(TraceError::new(&name, Position::Whole, Problem::Empty)) } else { Ok(found) }
}

/// Unpacks a file; members of an archive each become one.
fn unpack(part: Part, into: &mut Vec<Part>) -> Result<(), TraceError> {
    let bytes = archive::unpacked(&part.name, part.bytes)?;
    if !archive::is_tar(&bytes) {
        into.push(Part::new(part.name, bytes));
        return Ok(());
    }
    for (member, content) in archive::members(&part.name, &bytes)? {
        // Extended attributes that tar of macOS keeps as files of their own.
        if !base(&member).starts_with("._") {
            let name = format!("{}/{member}", part.name);
            into.push(Part::new(name.clone(), archive::unpacked(&name, content)?));
        }
    }
    Ok(())
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The last part of a path without what says its kind.
fn stem(name: &str) -> String {
    let mut stem = base(name);
    for extension in [".gz", ".tgz", ".tar", ".et", ".json", ".bin", ".txt", ".log", ".goal", ".csv", ".jsonl"] {
        stem = stem.strip_suffix(extension).unwrap_or(stem);
    }
    stem.to_owned()
}

/// The name of the job and the rank of a file: `chakra.3.et`, `trace-0003.bin`, `pmpi-trace-rank-3.txt`, `rank3.json`. Numbers of versions
/// (`1.0.2-chakra.0.0.4.json`) are no ranks.
pub(crate) fn name_and_rank(name: &str) -> (String, Option<u32>) {
    let stem = stem(name);
    let rest = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = &stem[rest.len()..];
    let before = rest.strip_suffix(['.', '-', '_']);
    let named = rest.ends_with("rank");
    let version = before.is_some_and(|before| {
        let outer = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
        rest.ends_with('.') && outer.len() < before.len() && outer.ends_with('.')
    });
    match digits.parse() {
        Ok(rank) if named || (before.is_some() && !version) => {
            let job = rest.trim_end_matches(['.', '-', '_']);
            (job.strip_suffix("rank").unwrap_or(job).trim_end_matches(['.', '-', '_']).to_owned(), Some(rank))
        }
        _ => (stem, None),
    }
}

/// The files of a job, each with the rank that its name says.
pub(crate) type RankedParts = Vec<(Part, Option<u32>)>;
/// Files that belong to a trace and are none: process groups of Chakra, `.meta` of DUMPI.
pub(crate) type Companions = [(String, Companion)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_names_and_versions_are_not() {
        let found = |name| name_and_rank(name);
        assert_eq!(found("a/chakra.3.et"), ("chakra".to_owned(), Some(3)));
        assert_eq!(found("testtrace-0002.bin"), ("testtrace".to_owned(), Some(2)));
        assert_eq!(found("pmpi-trace-rank-11.txt"), ("pmpi-trace".to_owned(), Some(11)));
        assert_eq!(found("rank5.json.gz"), (String::new(), Some(5)));
        assert_eq!(found("1.0.2-chakra.0.0.4.json").1, None);
        assert_eq!(found("linear_et.json.gz"), ("linear_et".to_owned(), None));
        assert_eq!(found("model7b.json").1, None);
    }
}
