//! Modules of a crate can be read from the bottom: no cycle of `use` spans more than a quarter of its lines.
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates that hold this; others join as their cycles are opened.
const CRATES: [&str; 1] = ["verbs"];

struct Module {
    lines: usize,
    uses: BTreeSet<Vec<String>>,
}

/// The source files of a crate by their module paths, without tests.
fn modules(name: &str) -> BTreeMap<Vec<String>, Module> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name).join("src");
    let mut texts: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let mut module: Vec<String> =
                path.strip_prefix(&root).unwrap().with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                module.pop();
            }
            if module.last().is_some_and(|last| last == "tests") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").map(|line| line.split("//").next().unwrap());
            texts.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
    let known: BTreeSet<Vec<String>> = texts.keys().cloned().collect();
    texts
        .into_iter()
        .map(|(module, text)| {
            let uses = paths(&text).iter().filter_map(|path| target(&known, &module, path)).filter(|used| *used != module).collect();
            (module, Module { lines: text.lines().count(), uses })
        })
        .collect()
}

/// Every path that a `use` names, braces taken apart, and every path that begins with `crate` or `super`.
fn paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let before = text[..at].rsplit('\n').next().unwrap().trim();
        let begins = before.is_empty() || before == "pub" || before.starts_with("pub(");
        if let Some(end) = text[at..].find(';').filter(|_| begins) {
            expand("", &text[at + 4..at + end], &mut found);
        }
    }
    for (at, _) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        found.push(text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect());
    }
    found
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let (Some(open), Some(close)) = (tree.find('{'), tree.rfind('}')) else {
        return found.push(format!("{prefix}{}", tree.split(" as ").next().unwrap().trim()));
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let (mut depth, mut begin) = (0, open + 1);
    for (at, c) in tree[..close].char_indices().skip_while(|(at, _)| *at <= open).chain([(close, ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &tree[begin..at], found);
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that a path in a module leads to; the root of the crate, which only gathers, is none.
fn target(known: &BTreeSet<Vec<String>>, module: &[String], path: &str) -> Option<Vec<String>> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut base = module.to_vec();
    match *parts.first()? {
        "crate" => (base, parts) = (Vec::new(), parts[1..].to_vec()),
        "self" => parts = parts[1..].to_vec(),
        "super" => {
            while parts.first() == Some(&"super") {
                base.pop();
                parts.remove(0);
            }
        }
        child if known.contains(&[module, &[child.to_owned()]].concat()) => {}
        _ => return None,
    }
    base.extend(parts.iter().map(|part| (*part).to_owned()));
    while !base.is_empty() && !known.contains(&base) {
        base.pop();
    }
    Some(base).filter(|found| !found.is_empty())
}

fn reached(modules: &BTreeMap<Vec<String>, Module>, from: &Vec<String>) -> BTreeSet<Vec<String>> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = open.pop() {
        for used in &modules[&module].uses {
            if seen.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    seen
}

#[test]
fn no_cycle_spans_a_quarter_of_a_crate() {
    for name in CRATES {
        let modules = modules(name);
        let all: usize = modules.values().map(|module| module.lines).sum();
        let reached: BTreeMap<_, _> = modules.keys().map(|module| (module, reached(&modules, module))).collect();
        assert!(modules.len() > 20 && reached.values().any(|others| others.len() > 5), "{name}: modules or their uses were not found");
        for (module, others) in &reached {
            let cycle: Vec<_> = others.iter().filter(|other| reached[*other].contains(*module)).collect();
            let lines: usize = cycle.iter().map(|module| modules[*module].lines).sum();
            let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            assert!(4 * lines <= all, "{name}: {lines} of {all} lines use each other in a cycle: {}", names.join(", "));
        }
    }
}
