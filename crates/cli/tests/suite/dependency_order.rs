//! Crates depend downwards only, in the order of ARCHITECTURE.md, and no crate or module has a name that says nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A crate may depend on those before it.
const ORDER: [&str; 57] = [
    "prefetch",
    "streams",
    "units",
    "wire",
    "kernel",
    "vswitch",
    "tcp",
    "psm2",
    "verbs",
    "schedule",
    "traces",
    "collectives",
    "fabric",
    "machine",
    "switch",
    "node",
    "nic",
    "catalog",
    "training",
    "inference",
    "nccl",
    "platform",
    "training-plan",
    "traffic",
    "mpi",
    "nccl-runtime",
    "experts",
    "hcl",
    "wafer",
    "tool",
    "lustre",
    "engine-management",
    "engine-storage",
    "storage",
    "krylov",
    "nvme",
    "apps",
    "hpl",
    "rpc",
    "spark",
    "tools",
    "engine",
    "capture",
    "engine-packet",
    "engine-flow",
    "live",
    "timeline",
    "report",
    "lab",
    "explain",
    "diagnose",
    "study",
    "fabriscope",
    "capi",
    "serve",
    "cli",
    "python",
];
/// Those who may see the event queue: what an engine drives takes the time as an argument.
const SEES_THE_QUEUE: [&str; 4] = ["engine-packet", "engine-flow", "engine-storage", "engine-management"];
const SAYS_NOTHING: [&str; 8] = ["common", "core", "util", "utils", "misc", "types", "helpers", "shared"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The crates of this project that each crate is built from. Tests may look upwards: a program is tested on an engine.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(crates()).unwrap() {
        let folder = entry.unwrap();
        let Ok(text) = std::fs::read_to_string(folder.path().join("Cargo.toml")) else { continue };
        let manifest: toml::Table = text.parse().unwrap();
        let mut names = Vec::new();
        for kind in ["dependencies", "build-dependencies"] {
            let Some(table) = manifest.get(kind).and_then(toml::Value::as_table) else { continue };
            names.extend(table.keys().filter_map(|key| key.strip_prefix("fabriscope-")).map(str::to_owned));
            // The face of the library bears the project's name alone.
            names.extend(table.keys().filter(|key| *key == "fabriscope").cloned());
        }
        found.insert(folder.file_name().into_string().unwrap(), names);
    }
    found
}

#[test]
fn crates_depend_downwards_only() {
    let dependencies = dependencies();
    for (name, needs) in &dependencies {
        let place = ORDER.iter().position(|c| c == name).unwrap_or_else(|| panic!("crates/{name} has no place in the order"));
        for needed in needs {
            let below = ORDER.iter().position(|c| c == needed).unwrap_or_else(|| panic!("{name} needs the unknown crate {needed}"));
            assert!(below < place, "{name} must not depend on {needed}: it stands above");
        }
    }
    assert_eq!(dependencies.len(), ORDER.len(), "a crate of the order is missing: {:?}", dependencies.keys());
}

#[test]
fn only_engines_see_the_event_queue() {
    for (name, needs) in dependencies() {
        let sees = needs.iter().any(|needed| needed == "kernel");
        assert!(!sees || SEES_THE_QUEUE.contains(&name.as_str()), "{name} must not depend on kernel: it takes the time as an argument");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in ORDER {
        sources(&crates().join(name).join("src"), &mut found);
    }
    found.sort();
    assert!(found.len() > ORDER.len(), "no sources found");
    found
}

#[test]
fn names_say_something() {
    for path in all_sources() {
        for part in path.strip_prefix(crates()).unwrap().iter() {
            let part = part.to_str().unwrap().trim_end_matches(".rs");
            assert!(!SAYS_NOTHING.contains(&part), "{}: a module needs a name that says what it holds", path.display());
        }
    }
}

#[test]
fn files_stop_at_800_lines_and_main_at_60() {
    for path in all_sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        assert!(lines <= 800, "{} has {lines} lines without its tests; split it", path.display());
        if path.ends_with("cli/src/main.rs") {
            assert!(lines <= 60, "main.rs has {lines} lines; move what is not start-up");
        }
    }
}

#[test]
fn no_file_names_a_place_outside_the_repository() {
    // Spelled in pieces, so that this file does not match itself.
    let foreign = [["/ro", "ot/"].concat(), ["/ho", "me/"].concat(), ["/wo", "rk/"].concat(), ["/t", "mp/"].concat()];
    for path in all_sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        for place in &foreign {
            assert!(!text.contains(place.as_str()), "{} names {place}", path.display());
        }
    }
}
