//! Explanations of messages on clusters of the catalogue, as they are or with a part changed.

use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_explain::{Changes, ExplainRequest, explain};
use fabriscope_report::{Block, Outcome};
use serde_json::Value;

/// The catalogue, read once.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

pub fn parts(cluster: &str) -> ResolvedCluster {
    catalog().target(cluster).unwrap()
}

/// The message of `line`, which is the tool and its own options.
pub fn request(line: &str, size: Option<u64>, changes: Changes) -> ExplainRequest {
    let mut words = line.split_whitespace().map(str::to_owned);
    ExplainRequest { tool: words.next().unwrap(), options: words.collect(), size, changes, seed: 1, ..ExplainRequest::default() }
}

/// What is told of it.
pub struct Explained(pub Outcome);

pub fn tell(parts: &ResolvedCluster, line: &str, size: u64) -> Explained {
    tell_all(parts, request(line, Some(size), Changes::Left))
}

pub fn tell_all(parts: &ResolvedCluster, request: ExplainRequest) -> Explained {
    Explained(explain(&request, catalog(), parts, &|_, _| ()).unwrap_or_else(|error| panic!("{request:?} on {}: {error}", parts.name)))
}

fn ps(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no picoseconds: {value}"))
}

impl Explained {
    pub fn total(&self) -> u64 {
        ps(self.0.get("total_ps").unwrap())
    }
    /// The words around the tables.
    pub fn text(&self) -> String {
        let words = |block: &Block| match block {
            Block::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.0.blocks().iter().filter_map(words).collect()
    }
    /// Stages in order, with their picoseconds.
    pub fn stages(&self) -> Vec<(String, u64)> {
        let rows = self.0.get("stages").and_then(Value::as_array).unwrap();
        rows.iter().map(|row| (row["stage"].as_str().unwrap().to_owned(), ps(&row["ps"]))).collect()
    }
    /// All that a stage takes, where it comes once or several times.
    pub fn of(&self, stage: &str) -> u64 {
        self.stages().iter().filter(|(name, _)| name == stage).map(|(_, ps)| ps).sum()
    }
    pub fn has(&self, stage: &str) -> bool {
        self.stages().iter().any(|(name, _)| name == stage)
    }
    /// Changes that were tried, by their words.
    pub fn changes(&self) -> Vec<(String, u64)> {
        let rows = self.0.get("changes").and_then(Value::as_array).unwrap();
        rows.iter().filter(|row| row["ps"].is_u64()).map(|row| (row["change"].as_str().unwrap().to_owned(), ps(&row["ps"]))).collect()
    }
    pub fn change(&self, words: &str) -> u64 {
        let found = self.changes().into_iter().find(|(what, _)| what.contains(words));
        found.unwrap_or_else(|| panic!("no `{words}` in {:?}", self.changes())).1
    }
}
