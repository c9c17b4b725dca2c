//! A crate's tests from outside are one program: each more is linked with the whole simulator once again, and runs alone on one core.
//! So a file of tests is a module of `tests/suite/main.rs`; one that nobody names there would never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn a_crate_has_one_program_of_tests_and_it_names_every_file() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut suites = 0;
    for tests in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("tests")).filter(|path| path.is_dir()) {
        let programs: Vec<_> = fs::read_dir(&tests)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file())
            .collect();
        assert_eq!(programs.len(), 1, "{}: move all into suite/ and name them in suite/main.rs: {programs:?}", tests.display());
        let suite = tests.join("suite");
        let Ok(main) = fs::read_to_string(suite.join("main.rs")) else { continue };
        let named: BTreeSet<String> =
            main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).map(str::to_owned).collect();
        let present: BTreeSet<String> = fs::read_dir(&suite)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|name| name != "main")
            .collect();
        let missing: Vec<_> = present.difference(&named).collect();
        assert!(missing.is_empty(), "{}: not named, so never run: {missing:?}", suite.join("main.rs").display());
        suites += 1;
    }
    assert!(suites > 10, "only {suites} suites found below {}", crates.display());
}

#[test]
fn examples_in_the_documentation_run_where_there_are_any() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut without = 0;
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.join("src/lib.rs").is_file()) {
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let lib = manifest.get("lib").and_then(toml::Value::as_table);
        if lib.and_then(|lib| lib.get("doctest")).and_then(toml::Value::as_bool) == Some(false) {
            without += 1;
            let example = sources(&folder.join("src")).into_iter().find(|path| {
                let text = fs::read_to_string(path).unwrap();
                text.lines().map(str::trim_start).any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"))
            });
            assert_eq!(example, None, "take `doctest = false` out of {}", folder.join("Cargo.toml").display());
        }
    }
    assert!(without > 0, "nothing is left to check: take this test out");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
