//! The message of an error says what is wrong; what to do about it is its help (`fabriscope_units::Remedy`), not text after a semicolon.

use std::fs;
use std::path::{Path, PathBuf};

/// All sources of all crates.
fn sources() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with(file!().rsplit('/').next().unwrap()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The texts of all `#[error("…")]`, each with its line.
fn messages(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find("#[error(").map(|next| at + next + "#[error(".len()) {
        let inside = text[next..].trim_start();
        at = text.len() - inside.len();
        if let Some(quoted) = inside.strip_prefix('"') {
            let mut escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            found.push((text[..at].matches('\n').count() + 1, &quoted[..end.unwrap_or(quoted.len())]));
        }
    }
    found
}

#[test]
fn no_message_of_an_error_carries_its_remedy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (line, message) in messages(&text) {
            seen += 1;
            if message.contains("; ") {
                wrong.push(format!("{}:{line}: {message}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(seen > 200, "only {seen} messages found: do sources look otherwise?");
    assert!(wrong.is_empty(), "put what follows the semicolon into #[diagnostic(help(\"…\"))]:\n{}", wrong.join("\n"));
}

#[test]
fn a_remedy_in_a_message_is_found() {
    let text = "#[error(\"a \\\"b\\\"; c\")]\nA,\n#[error(\n  \"d\"\n)]\nB,\n#[error(transparent)]\nC";
    assert_eq!(messages(text), [(1, "a \\\"b\\\"; c"), (4, "d")]);
}
