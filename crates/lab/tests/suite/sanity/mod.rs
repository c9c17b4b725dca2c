//! Numbers that no machine can give: point-to-point benchmarks on every cluster of the catalogue, between two nodes and within one.
//!
//! Each rule is a bound that holds for any hardware (a link carries no more than its rate, a longer message does not arrive sooner), or an order
//! of two measurements of one machine. A rate may fall where a limit of the library's part lies. What breaks a rule today is listed by name in
//! `known.txt`; a test fails on anything that is not there.
//! `UPDATE_GOLDEN=1 cargo test -p fabriscope-lab --test suite sanity -- --include-ignored` writes the list anew.
//!
//! Not examined: collective operations, several pairs, sizes that are no powers of two.

#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the list anew")]

mod curves;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fabriscope_catalog::{Kind, ResolvedCluster};

use crate::labs::catalog;
use curves::{Curves, Extent};
use rules::Violation;

/// Every cluster of the catalogue, those of unlike nodes group by group; as few nodes as show both ways through a fabric.
fn clusters() -> Vec<ResolvedCluster> {
    let catalog = catalog();
    let mut found = Vec::new();
    for name in catalog.names(Kind::Cluster) {
        // Two nodes of it, where its wiring can be that small: what lies between two of many takes no longer to run, but to wire.
        let parts = catalog.target(&format!("{name}:2")).or_else(|_| catalog.target(name)).unwrap();
        match parts.uniform() {
            Some(_) => found.push(parts),
            None => {
                let groups: Vec<String> = parts.groups.iter().map(|group| format!("{name}:{}", group.name)).collect();
                found.extend(groups.iter().map(|group| catalog.target(group).unwrap()));
            }
        }
    }
    found
}

/// What breaks a rule, by name.
fn violations(extent: Extent) -> BTreeMap<String, Violation> {
    let clusters = clusters();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(parts) = clusters.get(next.fetch_add(1, Ordering::Relaxed)) {
            let broken = rules::examine(&Curves::of(parts, extent));
            found.lock().unwrap().extend(broken.into_iter().map(|violation| (violation.name(), violation)));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap()
}

fn known() -> (PathBuf, BTreeSet<String>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suite/sanity/known.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let names = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    (path.clone(), names.map(|line| line.split(": ").next().unwrap().to_owned()).collect())
}

fn check(extent: Extent) {
    let (path, known) = known();
    let found = violations(extent);
    if extent == Extent::Long && std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: String = found.iter().map(|(name, violation)| format!("{name}: {}\n", violation.what)).collect();
        std::fs::write(&path, format!("{HEAD}{lines}")).unwrap();
        return;
    }
    let new: Vec<String> =
        found.iter().filter(|(name, _)| !known.contains(*name)).map(|(name, violation)| format!("{name}: {}", violation.what)).collect();
    assert!(new.is_empty(), "{} new violations; mend the model, or list them in {}\n{}", new.len(), path.display(), new.join("\n"));
}

const HEAD: &str = "\
# Predictions that no machine can give, by cluster, benchmark, rule and size; mod.rs says how this list is written. What is mended can leave it.
";

#[test]
fn point_to_point_is_sane_on_every_cluster() {
    check(Extent::Short);
}

#[test]
#[ignore = "every tool at every size on every cluster takes minutes"]
fn every_tool_is_sane_on_every_cluster() {
    check(Extent::Long);
}
