//! How far a table's predictions may lie from its measurements: `validation/tolerances.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::question::Placement;
use crate::statistics::Summary;

/// The limits of every table that has any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Tolerances(BTreeMap<String, Tolerance>);

/// The limits of one table in percent of the measured values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Limit of the median error [%].
    pub median_percent: f64,
    /// Limit of the 90th percentile [%], where one is set.
    pub p90_percent: Option<f64>,
    /// Where the two nodes of the table stood, where the rows do not say it and other data show it.
    #[serde(default)]
    pub nodes: Placement,
    /// Which GPUs the two ranks of a node had, where the rows do not say it and their rates show it.
    #[serde(default)]
    pub gpus: Option<[u32; 2]>,
    /// The algorithm that NCCL was told to take (`NCCL_ALGO`), where the rows do not say it and the publication or their shape does.
    #[serde(default)]
    pub nccl_algo: Option<NcclAlgo>,
    /// Rows that nothing is said about.
    #[serde(default)]
    pub except: Option<Except>,
}

/// Rows that contradict others of the same machine, and why they are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Except {
    /// What their variant contains.
    pub variant: String,
    /// The reason, for people.
    pub because: String,
}

/// A value of `NCCL_ALGO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NcclAlgo {
    /// `Tree`.
    Tree,
    /// `Ring`.
    Ring,
    /// `NVLS`.
    Nvls,
}

impl NcclAlgo {
    /// The variable with its value.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            NcclAlgo::Tree => "NCCL_ALGO=Tree",
            NcclAlgo::Ring => "NCCL_ALGO=Ring",
            NcclAlgo::Nvls => "NCCL_ALGO=NVLS",
        }
    }
}

/// The file of tolerances is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct ToleranceError {
    file: String,
    cause: toml::de::Error,
}

impl Tolerances {
    /// Reads a file's text; `file` is the name that messages give it.
    ///
    /// # Errors
    /// Not TOML, an unknown key, or a limit that is not a number; the message shows the line.
    pub fn parse(file: &str, text: &str) -> Result<Tolerances, ToleranceError> {
        toml::from_str(text).map_err(|cause| ToleranceError { file: file.to_owned(), cause })
    }
    /// The limits of `table`.
    #[must_use]
    pub fn of(&self, table: &str) -> Option<&Tolerance> {
        self.0.get(table)
    }
    /// The tables that have limits, in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Tolerance {
    /// Whether `summary` keeps within the limits.
    #[must_use]
    pub fn holds(&self, summary: &Summary) -> bool {
        summary.median <= self.median_percent && self.p90_percent.is_none_or(|limit| summary.p90 <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_count() {
        let text = "[a]\nmedian_percent = 3\np90_percent = 8\n[b]\nmedian_percent = 5.5\nnodes = \"farthest\"\n";
        let tolerances = Tolerances::parse("t.toml", text).unwrap();
        let summary = |median, p90| Summary { median, p90, max: p90, bias: 0.0 };
        let a = tolerances.of("a").unwrap();
        assert!(a.holds(&summary(3.0, 8.0)) && !a.holds(&summary(3.1, 8.0)) && !a.holds(&summary(1.0, 8.1)));
        assert!(tolerances.of("b").unwrap().holds(&summary(5.0, 90.0)));
        assert_eq!((a.nodes, tolerances.of("b").unwrap().nodes), (Placement::First, Placement::Farthest));
        assert!(tolerances.of("c").is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let message = Tolerances::parse("t.toml", "[a]\nmedian_percent = 3\nmean = 2\n").unwrap_err().to_string();
        assert!(message.contains("t.toml") && message.contains("line 3") && message.contains("mean"), "{message}");
    }
}
