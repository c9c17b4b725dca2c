//! Study files: blocks of benchmarks and of labs, each with lists of values that are combined, every one with every other.

use std::path::Path;

use fabriscope_catalog::{CatalogError, Document};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use crate::error::StudyError;

/// A study.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// One line that tells a person what it shows.
    #[serde(default)]
    pub title: String,
    /// Benchmarks on clusters.
    #[serde(default)]
    pub bench: Vec<BenchBlock>,
    /// Experiment files.
    #[serde(default)]
    pub lab: Vec<LabBlock>,
}

/// Benchmarks on clusters: every tool on every cluster with every value of the rest.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchBlock {
    /// The tools.
    pub tools: Vec<String>,
    /// Where they run: names of the catalogue or TOML files, as seen from the study, with `:nodes` or `:group` if you like.
    pub clusters: Vec<String>,
    /// Sizes of messages, each a point of its own: `["8 B", "64 KiB"]`. Default: one point, the sizes of the tool.
    #[serde(default)]
    pub sizes: Vec<String>,
    /// The tool's own options, a line for each value: `["-W 32", "-W 64"]`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Nodes of the job.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// Ranks on each node.
    #[serde(default)]
    pub ranks_per_node: Vec<u32>,
    /// Which nodes: `same_leaf`, `across`, `scattered`.
    #[serde(default)]
    pub placement: Vec<String>,
    /// What the OSU benchmarks run over: `verbs`, `tcp`.
    #[serde(default)]
    pub transport: Vec<String>,
    /// What carries collective benchmarks of MPI: `packet`, `flow`, `auto`.
    #[serde(default)]
    pub engine: Vec<String>,
    /// Seeds of everything random.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Numbers of parts that are changed.
    #[serde(default)]
    pub change: Vec<Change>,
}

/// A number of a part in place of what the catalogue says.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The part, with its kind: `nics/connectx-6`.
    pub part: String,
    /// The keys that lead to the number: `message_rate`, `root_complex.max_payload`.
    pub number: String,
    /// Its values, with units.
    pub values: Vec<String>,
    /// The name of its column in the data set. Default: the last key of `number`.
    #[serde(default)]
    pub name: Option<String>,
}

/// Experiment files: every one with every value.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabBlock {
    /// The files, as seen from the study.
    pub files: Vec<String>,
    /// Seeds of everything random. Default: that of each file.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Keys of the files that are set.
    #[serde(default)]
    pub set: Vec<Set>,
}

/// A key of a lab in place of what its file says.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The keys that lead to it: `workload.incast.size`.
    pub key: String,
    /// Its values.
    #[schemars(with = "Vec<Value>")]
    pub values: Vec<toml::Value>,
    /// The name of its column in the data set. Default: the last key of `key`.
    #[serde(default)]
    pub name: Option<String>,
}

impl Study {
    /// Reads the text of a study; `file` is what messages call it.
    ///
    /// # Errors
    /// Not TOML, an unknown key, a value of the wrong type, with the place; a study without points.
    pub fn parse(file: &str, text: &str) -> Result<Study, StudyError> {
        let document = Document::parse(file, text).map_err(CatalogError::from)?;
        let study: Study = document.read().map_err(CatalogError::from)?;
        let empty = study.bench.iter().all(|block| block.tools.is_empty() || block.clusters.is_empty())
            && study.lab.iter().all(|block| block.files.is_empty());
        if empty {
            let help = "write a [[bench]] with tools and clusters, or a [[lab]] with files; `fabriscope schema study` describes them";
            return Err(StudyError::wrong(file, "there is nothing to run", help));
        }
        Ok(study)
    }

    /// Reads a study from its file.
    ///
    /// # Errors
    /// A file that cannot be read, and as [`Study::parse`].
    pub fn read(path: &Path) -> Result<Study, StudyError> {
        let text = std::fs::read_to_string(path).map_err(|cause| StudyError::Wrong {
            file: path.display().to_string(),
            message: format!("cannot be read: {cause}"),
            help: "name a study, a TOML file; `fabriscope schema study` describes them".to_owned(),
        })?;
        Study::parse(&path.display().to_string(), &text)
    }
}

/// The schema of study files.
#[must_use]
pub fn study_schema() -> Value {
    SchemaGenerator::default().into_root_schema_for::<Study>().to_value()
}
