//! The examples in C and in Python print the same, which is pinned. `make test-long` links the one in C with the static library as well.

#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::path::Path;
use std::process::Command;

use crate::{cc, libraries, of_crate, printed, shared_library};

/// `UPDATE_GOLDEN=1` writes the file anew, as for the pinned outputs of documents.
fn is_as_pinned(output: &str) {
    let golden = of_crate("tests/embed.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, output).unwrap();
    }
    assert_eq!(output, std::fs::read_to_string(&golden).unwrap());
}

/// An example, linked with the library as a user does it.
fn built(name: &str, folder: &Path, linked: &[&str]) -> Command {
    let program = folder.join(name);
    let mut cc = cc();
    cc.arg(of_crate("examples").join(format!("{name}.c"))).arg("-o").arg(&program);
    printed(cc.args(linked));
    Command::new(program)
}

fn shared() -> Vec<String> {
    let folder = libraries().display().to_string();
    vec![format!("-L{folder}"), "-lfabriscope_c".to_owned(), format!("-Wl,-rpath,{folder}")]
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[test]
fn the_example_in_c_prints_what_is_pinned() {
    let folder = tempfile::tempdir().unwrap();
    is_as_pinned(&printed(&mut built("embed", folder.path(), &words(&shared()))));
}

#[test]
fn the_example_in_python_prints_the_same() {
    is_as_pinned(&printed(Command::new("python3").arg(of_crate("examples/embed.py")).arg(shared_library())));
}

/// The program that docs/embed.md shows is compiled and run, and prints what stands below it.
#[test]
fn the_example_of_the_document_prints_what_it_shows() {
    let page = std::fs::read_to_string(of_crate("../../docs/embed.md")).unwrap();
    let block = |kind: &str| page.split_once(&format!("```{kind}\n")).unwrap().1.split_once("```").unwrap().0.to_owned();
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("sizes.c"), folder.path().join("sizes"));
    std::fs::write(&source, block("c")).unwrap();
    printed(cc().arg(&source).arg("-o").arg(&program).args(shared()));
    assert_eq!(printed(&mut Command::new(program)), block("text"));
}

#[test]
fn the_program_that_counts_calls_runs() {
    let folder = tempfile::tempdir().unwrap();
    let counted = printed(built("calls", folder.path(), &words(&shared())).arg("ri2"));
    let rates: Vec<&str> = counted.lines().filter(|line| line.ends_with("calls a second")).collect();
    assert_eq!(rates.len(), 6, "{counted}");
}
