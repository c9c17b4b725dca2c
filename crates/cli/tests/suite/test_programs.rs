//! A crate's tests from outside are one program: each more is linked with the whole simulator once again, and runs alone on one core.
//! So a file of tests is a module of `tests/suite/main.rs`; one that nobody names there would never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
