//! Shown outputs are what the program prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::page::{documents, read, root, update};

/// The golden of each pinned command.
pub(crate) fn goldens() -> BTreeMap<String, PathBuf> {
    let folder = root().join("tests/golden");
    let mut found = BTreeMap::new();
    let cases = fs::read_to_string(folder.join("cases.txt")).unwrap();
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (file, command) = line.split_once(' ').unwrap();
        for (mark, source, extension) in [("@LAB", "labs", ".toml"), ("@TABLE", "validation", ".csv")] {
            for name in fs::read_dir(root().join(source)).unwrap().filter(|_| file.contains(mark)) {
                let name = name.unwrap().file_name().into_string().unwrap();
                if let Some(name) = name.strip_suffix(extension) {
                    found.insert(words(command).replace(mark, name), folder.join(file.replace(mark, name)));
                }
            }
        }
        found.insert(words(command), folder.join(file));
    }
    found
}

fn words(command: &str) -> String {
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A folder in which commands of documents run.
struct Bench(PathBuf);

impl Bench {
    fn new(document: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fabriscope-documents-{}-{}", std::process::id(), document.replace('/', "-")));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for name in ["labs", "fabrics", "validation", "catalog", "examples"] {
            std::os::unix::fs::symlink(root().join(name), folder.join(name)).unwrap();
        }
        for block in read(document).split("```").skip(1).step_by(2) {
            let Some((name, content)) = block.split_once("\n# ").and_then(|(_, rest)| rest.split_once('\n')) else { continue };
            if block.lines().nth(1).is_some_and(|line| line.starts_with("# ")) && !name.contains(' ') && name.contains('.') {
                fs::write(folder.join(name), content).unwrap();
            }
        }
        Self(folder)
    }

    fn run(&self, command: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).current_dir(&self.0).args(command.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether `printed` is `shown`, in which a line `…` stands for any lines.
fn shows(shown: &str, printed: &str) -> bool {
    let mut pieces = shown.split("…\n");
    let Some(mut rest) = printed.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The commands of a page and what it shows of their output.
fn shown(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let mut lines = block.split_inclusive('\n').skip(1).peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ fabriscope ") else { continue };
            let mut output = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                output.push_str(line);
            }
            // An empty line before the next command is not of the output.
            let blank = lines.peek().is_some() && output.ends_with("\n\n");
            output.truncate(output.len() - usize::from(blank));
            found.push((command.trim_end().to_owned(), output));
        }
    }
    found
}

#[test]
fn outputs_are_as_shown() {
    let goldens = goldens();
    let documents = documents();
    let examined = std::sync::atomic::AtomicUsize::new(0);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(document) = documents.get(next.fetch_add(1, order)) {
                    examined.fetch_add(check_outputs(document, &goldens), order);
                }
            });
        }
    });
    assert!(examined.into_inner() >= 30);
}

/// Compares the outputs of one page; how many there were.
fn check_outputs(document: &str, goldens: &BTreeMap<String, PathBuf>) -> usize {
    let mut text = read(document);
    let examples = shown(&text);
    if examples.is_empty() {
        return 0;
    }
    let bench = Bench::new(document);
    for (command, shown) in &examples {
        let printed = goldens.get(&words(command)).map_or_else(|| bench.run(command), |golden| fs::read_to_string(golden).unwrap());
        if shows(shown, &printed) {
            continue;
        }
        assert!(update(), "{document}: UPDATE_GOLDEN=1 writes it anew; `fabriscope {command}` prints\n{printed}");
        let (before, after) = (format!("$ fabriscope {command}\n{shown}"), format!("$ fabriscope {command}\n{printed}"));
        text = text.replacen(&before, &after, 1);
    }
    if update() {
        fs::write(root().join(document), text).unwrap();
    }
    examples.len()
}
