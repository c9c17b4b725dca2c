//! Links, paths of code, and the length of lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::page::{documents, prose, read, root};

/// Targets of the links of a page that lead to files: (path from the root, anchor).
fn links(document: &str) -> Vec<(String, Option<String>)> {
    let text = read(document);
    let folder = Path::new(document).parent().unwrap();
    let mut found = Vec::new();
    for (_, line) in prose(&text) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
            let path = if path.is_empty() { PathBuf::from(document) } else { folder.join(path) };
            found.push((normal(&path), anchor));
        }
    }
    found
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str().unwrap().split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings, as Markdown viewers make them.
fn anchors(document: &str) -> BTreeSet<String> {
    let text = read(document);
    let heading = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    prose(&text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| heading(line)).collect()
}

#[test]
fn links_lead_somewhere() {
    for document in documents() {
        for (path, anchor) in links(&document) {
            assert!(root().join(&path).exists(), "{document} links to {path}");
            if let Some(anchor) = anchor {
                assert!(anchors(&path).contains(&anchor), "{document} links to #{anchor} of {path}, which has {:?}", anchors(&path));
            }
        }
    }
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let mut reached = BTreeSet::from(["README.md".to_owned()]);
    let mut next = vec!["README.md".to_owned()];
    while let Some(document) = next.pop() {
        for (path, _) in links(&document) {
            if path.ends_with(".md") && reached.insert(path.clone()) {
                next.push(path);
            }
        }
    }
    let orphans: Vec<String> = documents().into_iter().filter(|document| !reached.contains(document)).collect();
    assert!(orphans.is_empty(), "no page leads to {orphans:?}");
}

/// `a/{b,c}/d` as `a/b/d` and `a/c/d`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (choices, after) = rest.split_once('}').unwrap_or_else(|| panic!("`{path}` has no closing brace"));
    choices.split(',').flat_map(|choice| expanded(&format!("{before}{}{after}", choice.trim()))).collect()
}

/// Where a page says in which file something is, there is such a file.
#[test]
fn code_is_where_pages_say() {
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|document| document != "CHANGELOG.md") {
        let text = read(&document);
        let lines: Vec<&str> = prose(&text).map(|(_, line)| line).collect();
        let spans = lines.join(" ");
        for span in spans.split('`').skip(1).step_by(2).filter(|span| span.starts_with("crates/")) {
            let named = !span.contains(['<', '…', '*', ':']);
            wrong.extend(
                expanded(span).into_iter().filter(|path| named && !root().join(path).exists()).map(|path| format!("{document}: {path}")),
            );
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
}

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    // The changelog and the table of crates are written by everybody; they are wrapped when a release is made.
    for document in documents().into_iter().filter(|document| !["CHANGELOG.md", "ARCHITECTURE.md"].contains(&document.as_str())) {
        let text = read(&document);
        let wide = prose(&text).filter(|(_, line)| !["|", "    ", "![", "<!--"].iter().any(|start| line.starts_with(start)));
        long.extend(wide.filter(|(_, line)| line.chars().count() > 120).map(|(number, _)| format!("{document}:{number}")));
    }
    assert!(long.is_empty(), "lines above 120 characters outside tables:\n{}", long.join("\n"));
}
