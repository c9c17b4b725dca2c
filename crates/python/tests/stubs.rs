//! The type stubs of the package name all that the compiled module gives. (That there is a test also has the module built with the others.)

use std::path::Path;

#[test]
fn stubs_name_all_that_the_module_exports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let module = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let stubs = std::fs::read_to_string(root.join("../../python/fabriscope/_fabriscope.pyi")).unwrap();
    let uses = module.lines().filter_map(|line| line.trim().strip_prefix("use crate::")?.split_once("::"));
    let names: Vec<&str> = uses.flat_map(|(_, names)| names.trim_matches(['{', '}', ';']).split(", ")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let stands = [format!("def {name}("), format!("class {name}:")].iter().any(|line| stubs.contains(line.as_str()));
        assert!(stands, "`{name}` is missing from the stubs: make python-stubs writes them anew");
    }
}
