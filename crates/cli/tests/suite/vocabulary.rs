//! One meaning per word (docs/glossary.md): words that the field says otherwise do not come back.

use std::fs;
use std::path::{Path, PathBuf};

/// A word that is not used, what is said instead, and where it means something else.
struct Word {
    old: &'static str,
    new: &'static str,
    except: &'static [&'static str],
}

const fn word(old: &'static str, new: &'static str) -> Word {
    Word { old, new, except: &[] }
}

/// Matched in lower case, as whole words.
const WORDS: &[Word] = &[
    word("under way", "in flight (packets, bytes), outstanding (requests, messages), in progress (a run, a copy)"),
    Word { old: "circle", new: "cycle", except: &["/picture/", "/figure", "/curve.rs", "svg"] },
    Word { old: "circles", new: "cycles", except: &["/picture/", "/figure", "/curve.rs", "svg"] },
    word("both ways at once", "bidirectional"),
    word("stands there twice", "duplicate entry"),
    word("to rest on", "base part"),
    word("what runs where", "placement"),
    word("beside other pairs", "multi-pair"),
    word("the same, non-blocking", "overlap of communication and computation"),
];

/// Types whose names say nothing, and what such a type is called.
const TYPES: &[(&str, &str)] = &[
    ("Way", "Path, Route, Edge, Candidate"),
    ("Place", "Position, MemoryId, what it is the place of"),
    ("End", "FifoEnd, ConnectionEnd, CloseReason"),
    ("Seat", "RankPlacement"),
    ("Home", "RankLocation"),
    ("Asked", "Request"),
    ("Told", "AckInfo, Explanation"),
    ("Wanted", "Expected"),
    ("Means", "CopyMethod"),
    ("Side", "ExtHeaders, CableEnd"),
    ("Desk", "OffloadState"),
    ("Door", "OffloadClient"),
    ("Sight", "SwitchView"),
    ("Stand", "Location"),
    ("Happening", "EventKind"),
    ("Parcel", "PackedPacket"),
    ("Beyond", "NodeMemories"),
];

/// Sources, parts, labs and documents, but not what this test and the changelog say about words.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut open: Vec<PathBuf> = ["crates", "docs", "catalog", "labs"].map(|folder| root.join(folder)).to_vec();
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|file| root.join(file)).to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let extension = entry.extension().and_then(|extension| extension.to_str());
            if entry.is_dir() {
                open.push(entry);
            } else if matches!(extension, Some("rs" | "md" | "toml")) && !entry.ends_with("vocabulary.rs") {
                found.push(entry);
            }
        }
    }
    found.sort();
    found
}

/// Whether `text` has `word` between characters that belong to no word.
fn has(text: &str, word: &str) -> bool {
    let part_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, found)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + found.len()..].chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[test]
fn words_of_the_field() {
    let mut found = Vec::new();
    for file in files() {
        let (name, text) = (file.display().to_string(), fs::read_to_string(&file).unwrap());
        for (line, number) in text.lines().zip(1..) {
            let lower = line.to_lowercase();
            let words = WORDS.iter().filter(|word| has(&lower, word.old));
            let words = words.filter(|word| !word.except.iter().any(|except| name.contains(except) || lower.contains(except)));
            found.extend(words.map(|word| format!("{name}:{number}: `{}`; write: {}", word.old, word.new)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn types_are_named_after_what_they_hold() {
    let mut found = Vec::new();
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(&file).unwrap();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//")) {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            while let Some(word) = words.next() {
                if matches!(word, "struct" | "enum" | "trait" | "type") {
                    let name = words.next().unwrap_or_default();
                    let old = TYPES.iter().filter(|(old, _)| *old == name);
                    found.extend(old.map(|(old, new)| format!("{}:{number}: type `{old}`; such as: {new}", file.display())));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn whole_words_are_found() {
    assert!(has("no circle here", "circle") && has("(circle)", "circle"));
    assert!(!has("circle_of", "circle") && !has("encircle", "circle"));
}
