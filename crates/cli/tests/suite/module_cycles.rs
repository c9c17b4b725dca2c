//! Modules of a crate can be read from the bottom up: no cycle of `use` among its files has more than a quarter of its lines.
//!
//! A file depends on the files that it names in `use` declarations and in paths that begin with `crate` or `super`; tests and comments do
//! not count, nor does the root of a crate, which names its modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Of a crate's lines, what one cycle may have at most: one in so many.
const SHARE: usize = 4;

/// The files of a crate below `src`, each as the path of its module, without tests.
fn modules(source: &Path) -> BTreeMap<Vec<String>, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![source.to_owned()];
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !name.ends_with("_test") && name != "tests" {
                let mut module: Vec<String> =
                    path.strip_prefix(source).unwrap().with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if module.last().is_some_and(|last| last == "mod") {
                    module.pop();
                }
                found.insert(module, without_tests(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// The text up to a module of tests at its end, without comments.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).fold(String::new(), |all, line| all + line + "\n")
}

/// The paths that a text names, with their groups in braces written out: `crate::a::{b, c::d}` is `crate::a::b` and `crate::a::c::d`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let starts = |word: &str| text.match_indices(word).map(|(at, _)| at).collect::<Vec<_>>();
    let mut found = Vec::new();
    for at in ["crate::", "super::"].iter().flat_map(|word| starts(word)) {
        let before = text[..at].chars().next_back();
        if !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
            let mut rest = &text[at..];
            expand(&mut rest, Vec::new(), &mut found);
        }
    }
    found
}

/// Reads one path or group from the front of `rest`.
fn expand(rest: &mut &str, mut so_far: Vec<String>, found: &mut Vec<Vec<String>>) {
    loop {
        *rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner;
            while !rest.is_empty() && !rest.starts_with('}') {
                expand(rest, so_far.clone(), found);
                *rest = rest.trim_start().trim_start_matches(',').trim_start();
            }
            *rest = rest.strip_prefix('}').unwrap_or(rest);
            return;
        }
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        if end == 0 {
            // Something else than a path, such as `*`: the path so far.
            *rest = rest.get(1..).unwrap_or("");
            break;
        }
        so_far.push(rest[..end].to_owned());
        *rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => *rest = next,
            None => break,
        }
    }
    // `name as other`.
    if let Some(other) = rest.trim_start().strip_prefix("as ") {
        let end = other.find([',', '}', ';']).unwrap_or(other.len());
        *rest = &other[end..];
    }
    found.push(so_far);
}

/// The modules that each one depends on.
fn dependencies(modules: &BTreeMap<Vec<String>, String>) -> BTreeMap<&[String], BTreeSet<&[String]>> {
    let module_of = |path: &[String]| {
        (1..=path.len()).rev().find_map(|length| modules.get_key_value(&path[..length])).map(|(module, _)| module.as_slice())
    };
    let of = |module: &[String], text: &str| {
        let absolute = |path: Vec<String>| {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let mut whole = if ups == 0 { Vec::new() } else { module[..module.len().saturating_sub(ups)].to_vec() };
            whole.extend(path.into_iter().skip(ups.max(1)));
            whole
        };
        let targets = paths(text).into_iter().filter_map(|path| module_of(&absolute(path)));
        targets.filter(|target| *target != module && *target != ["lib"]).collect()
    };
    modules.iter().map(|(module, text)| (module.as_slice(), of(module, text))).collect()
}

/// The modules that reach each other, for each module that others reach back from.
fn cycles<'a>(graph: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>) -> Vec<BTreeSet<&'a [String]>> {
    let reached = |from: &'a [String]| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(graph.get(module).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let reach: BTreeMap<&[String], BTreeSet<&[String]>> = graph.keys().map(|module| (*module, reached(module))).collect();
    let mut found: Vec<BTreeSet<&[String]>> = Vec::new();
    for (module, seen) in &reach {
        let cycle: BTreeSet<&[String]> = seen.iter().copied().filter(|other| reach[other].contains(module)).collect();
        if cycle.len() > 1 && !found.contains(&cycle) {
            found.push(cycle);
        }
    }
    found
}

fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    all.retain(|source| source.is_dir());
    all.sort();
    all
}

#[test]
fn no_cycle_has_more_than_a_quarter_of_a_crate() {
    let mut wrong = Vec::new();
    for source in crates() {
        let modules = modules(&source);
        let lines = |module: &[String]| modules[module].lines().count();
        let all: usize = modules.keys().map(|module| lines(module)).sum();
        for cycle in cycles(&dependencies(&modules)) {
            let own: usize = cycle.iter().map(|module| lines(module)).sum();
            if own * SHARE > all {
                let names: Vec<String> = cycle.iter().map(|module| module.join("/")).collect();
                let name = source.parent().unwrap().file_name().unwrap().to_string_lossy();
                wrong.push(format!("{name}: {own} of {all} lines in a cycle of {}", names.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "move what several need to a module below them:\n{}", wrong.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let text = |uses: &str| format!("use {uses};\nfn f() {{}}\n");
    let modules: BTreeMap<Vec<String>, String> =
        [("a", text("crate::{b::{self, B as C}, d}")), ("b", text("super::c::x")), ("c", text("crate::a::Y")), ("d", text("std::fmt"))]
            .map(|(name, text)| (vec![name.to_owned()], text))
            .into();
    let found = cycles(&dependencies(&modules));
    let names: Vec<Vec<String>> = found.iter().map(|cycle| cycle.iter().map(|module| module.join("/")).collect()).collect();
    assert_eq!(names, [["a", "b", "c"]]);
}
