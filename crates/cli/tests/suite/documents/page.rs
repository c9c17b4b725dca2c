//! The Markdown files of the repository: their text, and the computed regions in it.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// All Markdown files of the repository, as paths from its root.
pub(crate) fn documents() -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && !["target", "corpus", "artifacts"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Lines outside fenced blocks, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((number, line))
    })
}

/// Replaces what stands in each region `<!-- name: … -->` of a page by `content(…)`, or says that it is something else.
pub(crate) fn regions(document: &str, name: &str, content: impl Fn(&str) -> String) -> usize {
    let text = read(document);
    let start = format!("<!-- {name}: ");
    let mut pieces = text.split(&start);
    let mut written = pieces.next().unwrap().to_owned();
    let mut count = 0;
    for piece in pieces {
        let (argument, rest) = piece.split_once(" -->\n").unwrap();
        let (present, rest) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{document}: a region `{name}` without an end"));
        let wanted = content(argument);
        assert!(update() || present == wanted, "{document}: UPDATE_GOLDEN=1 writes it anew; `{name}: {argument}` is\n{wanted}");
        written += &format!("{start}{argument} -->\n{wanted}<!-- end -->{rest}");
        count += 1;
    }
    if update() && written != text {
        fs::write(root().join(document), written).unwrap();
    }
    count
}
