//! What the rows of a table leave open, said beside them: where nodes stood, GPUs, algorithm, environment, software.
//!
//! A file has one table of settings for each table of measurements, under its name; `"*"` is for all that have none of their own. What a row
//! says itself wins. A setting that the benchmark has no use for refuses the row.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::measured::Row;
use crate::question::{self, Placement, Question};

/// What the rows of one table leave open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the nodes stood: `first`, `same_switch`, `farthest`, `scattered`.
    pub placement: Option<Placement>,
    /// How many nodes the job had.
    pub nodes: Option<u32>,
    /// Ranks on each of them.
    pub ranks_per_node: Option<u32>,
    /// Which GPUs the two ranks of a node had.
    pub gpus: Option<[u32; 2]>,
    /// The algorithm that the library was told to take, by the tool's own name for it.
    pub algorithm: Option<String>,
    /// Environment variables of the run.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The library: a part of the catalogue, or a name in words.
    pub software: Option<String>,
}

impl Settings {
    /// The row with the shape of the job, where it says none.
    #[must_use]
    pub(crate) fn completed(&self, row: &Row) -> Row {
        let mut row = row.clone();
        row.nodes = row.nodes.or(self.nodes);
        let ranks = || Some(row.nodes?.saturating_mul(self.ranks_per_node?));
        row.ranks = row.ranks.or_else(ranks);
        // Outputs of tools may tell how many ranks there were, and not on how many nodes.
        let nodes = || Some(row.ranks?.div_ceil(self.ranks_per_node.filter(|ranks| *ranks > 0)?));
        row.nodes = row.nodes.or_else(nodes);
        row
    }

    /// Puts into a question what the row left open.
    ///
    /// # Errors
    /// A variable that is not modelled, an algorithm for a benchmark without any.
    pub(crate) fn apply(&self, question: &mut Question) -> Result<(), String> {
        if let Some(placement) = self.placement.filter(|_| question.placement == Placement::First) {
            question.placement = placement;
        }
        question.gpus = question.gpus.or(self.gpus);
        question.software = question.software.take().or_else(|| self.software.clone());
        let environment: Vec<(&str, &str)> = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        question::set(question, self.algorithm.as_deref(), &environment)
    }

    /// What is set, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.placement.map(|placement| format!("placement = {}", placement.word())));
        words.extend(self.nodes.map(|nodes| format!("nodes = {nodes}")));
        words.extend(self.ranks_per_node.map(|ranks| format!("ranks_per_node = {ranks}")));
        words.extend(self.gpus.map(|[a, b]| format!("gpus = {a} and {b}")));
        words.extend(self.algorithm.as_ref().map(|algorithm| format!("algorithm = {algorithm}")));
        words.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(self.software.as_ref().map(|software| format!("software = {software}")));
        words.join(", ")
    }
}

/// The settings of a user's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct AllSettings(BTreeMap<String, Settings>);

/// A file of settings or tolerances is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct SettingsError {
    pub(crate) file: String,
    pub(crate) cause: toml::de::Error,
}

impl AllSettings {
    /// Reads a file's text; `file` is the name that messages give it.
    ///
    /// # Errors
    /// Not TOML, an unknown key, a value of the wrong type; the message shows the line.
    pub fn parse(file: &str, text: &str) -> Result<AllSettings, SettingsError> {
        toml::from_str(text).map_err(|cause| SettingsError { file: file.to_owned(), cause })
    }
    /// Those of `table`, or those of all.
    #[must_use]
    pub fn of(&self, table: &str) -> Option<&Settings> {
        self.0.get(table).or_else(|| self.0.get(ALL))
    }
    /// The tables that are named.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| *name != ALL)
    }
}

/// The name that stands for every table.
const ALL: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_its_own_wins_over_that_of_all() {
        let text = "[\"*\"]\nplacement = \"farthest\"\n[mine]\nnodes = 4\nranks_per_node = 2\nenvironment = { NCCL_ALGO = \"Ring\" }\n";
        let all = AllSettings::parse("s.toml", text).unwrap();
        assert_eq!(all.of("other").unwrap().placement, Some(Placement::Farthest));
        let mine = all.of("mine").unwrap();
        assert_eq!((mine.placement, mine.words().as_str()), (None, "nodes = 4, ranks_per_node = 2, NCCL_ALGO=Ring"));
        assert_eq!(all.tables().collect::<Vec<_>>(), ["mine"]);
        assert!(AllSettings::default().of("mine").is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let message = AllSettings::parse("s.toml", "[a]\nnode = 3\n").unwrap_err().to_string();
        assert!(message.contains("s.toml") && message.contains("line 2") && message.contains("node"), "{message}");
    }
}
