//! Lists of pages, labs and parts are complete.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;

use super::page::{documents, read, regions, root};

/// The first sentence of a page's first paragraph.
fn summary(document: &str) -> (String, String) {
    let text = read(document);
    let title =
        text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_else(|| panic!("{document} has no title")).to_owned();
    let paragraph: Vec<&str> = text.lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned();
    assert!(sentence.ends_with('.') && !sentence.contains("]("), "{document}: the first sentence says what the page is about: {sentence}");
    (title, sentence)
}

/// docs/README.md lists every page of docs/models under a subject, with its title and its first sentence.
#[test]
fn the_index_has_every_model() {
    let listed = RefCell::new(BTreeSet::new());
    regions("docs/README.md", "models", |names| {
        let mut list = String::new();
        for name in names.split(' ') {
            assert!(listed.borrow_mut().insert(name.to_owned()), "{name} is listed twice");
            let (title, sentence) = summary(&format!("docs/models/{name}.md"));
            list += &format!("- [{title}](models/{name}.md): {sentence}\n");
        }
        wrapped(&list)
    });
    let present = documents().iter().filter_map(|path| Some(path.strip_prefix("docs/models/")?.strip_suffix(".md")?.to_owned())).collect();
    assert_eq!(listed.into_inner(), present, "docs/README.md lists the pages of docs/models");
}

/// labs/README.md lists every lab with its workload and its title, and catalog/README.md every folder of parts.
#[test]
fn the_lists_of_labs_and_parts_are_complete() {
    let names = |folder: &str| -> BTreeSet<String> {
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let rows = |_: &str| {
        let mut table = "| lab | workload | what it shows |\n|---|---|---|\n".to_owned();
        for lab in names("labs").iter().filter_map(|name| name.strip_suffix(".toml")) {
            let text = read(&format!("labs/{lab}.toml"));
            let title = text
                .lines()
                .find_map(|line| line.strip_prefix("title = \"")?.strip_suffix('"'))
                .unwrap_or_else(|| panic!("{lab} has no title"));
            let workload = text.lines().find_map(|line| line.trim_start_matches('[').strip_prefix("workload.")?.split(['.', ']']).next());
            table += &format!("| [{lab}]({lab}.toml) | `{}` | {title} |\n", workload.unwrap_or_else(|| panic!("{lab} has no workload")));
        }
        table
    };
    assert_eq!(regions("labs/README.md", "labs", rows), 1);
    let catalogue = read("catalog/README.md");
    let folders = names("catalog").into_iter().filter(|name| !name.contains('.'));
    let missing: Vec<String> = folders.filter(|folder| !catalogue.contains(&format!("| `{folder}/` |"))).collect();
    assert!(missing.is_empty(), "catalog/README.md does not list {missing:?}");
}

/// docs/dependencies.md says of every library what it does for us.
#[test]
fn every_dependency_has_its_reason() {
    let manifest = read("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]\n").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
    let names =
        section.lines().filter_map(|line| line.split([' ', '=', '.']).next()).filter(|name| !name.is_empty() && !name.starts_with('#'));
    let page = read("docs/dependencies.md");
    let rows: String =
        page.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1)).collect::<Vec<_>>().join(",");
    let known: BTreeSet<&str> = rows.split(',').map(str::trim).collect();
    let missing: Vec<&str> = names.filter(|name| !name.starts_with("fabriscope") && !known.contains(name)).collect();
    assert!(missing.is_empty(), "docs/dependencies.md does not list {missing:?}");
}

/// List items in lines of at most 120 characters.
fn wrapped(list: &str) -> String {
    let mut text = String::new();
    for item in list.lines() {
        let mut line = String::new();
        for word in item.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 120 {
                text += &format!("{line}\n");
                line = format!("  {word}");
            } else {
                line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            }
        }
        text += &format!("{line}\n");
    }
    text
}
