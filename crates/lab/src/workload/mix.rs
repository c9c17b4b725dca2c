//! Unequal jobs on one fabric, as a lab says them.

use fabriscope_catalog::Problem;
use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Training;

/// Jobs of several kinds beside each other, each on nodes of its own: what each takes alone and beside the others, by placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Which nodes the jobs get, `random` any of the cluster by the seed; one row of results for each.
    #[serde(default = "packed")]
    pub placements: Vec<Placement>,
    /// The jobs.
    pub jobs: Vec<MixedJob>,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

/// Which nodes jobs get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each job's side by side.
    #[default]
    Packed,
    /// In turn.
    Interleaved,
    /// Any.
    Random,
}

impl Placement {
    /// The word of files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Packed => "packed",
            Placement::Interleaved => "interleaved",
            Placement::Random => "random",
        }
    }
}

/// One of the jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixedJob {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: JobKind,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a lab holds a few of these")]
pub enum JobKind {
    /// A step of training.
    Training(Training),
    /// Nodes that others write to, or read from.
    Storage(Storage),
    /// A collective operation of all its GPUs, by their library.
    Collective(GpuCollective),
    /// A served model: keys and values from nodes that read prompts to nodes that generate.
    Inference(Served),
    /// A served model whose experts are shared by all its GPUs: tokens to them and back.
    Experts(ExpertRounds),
}

/// Nodes that others write to, or read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Nodes with the data.
    pub nodes: u32,
    /// What each adapter of the others moves.
    pub bytes: Bytes,
    /// The others read instead of writing.
    #[serde(default)]
    pub read: bool,
    /// Names of the jobs that do so. Default: all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
}

/// A collective operation of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuCollective {
    /// Nodes, with all their GPUs.
    pub nodes: u32,
    /// The operation.
    pub operation: GpuOperation,
    /// Bytes of a GPU's buffer.
    pub size: Bytes,
    /// How often, one after the other.
    #[serde(default = "super::one")]
    pub times: u32,
}

/// A collective operation of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuOperation {
    /// Everybody has the sum.
    AllReduce,
    /// Everybody has all parts.
    AllGather,
    /// Everybody has its part of the sum.
    ReduceScatter,
    /// Everybody sends a part to everybody.
    AllToAll,
}

/// A served model in two pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// The model: a name of `fabriscope parts --kind models`.
    pub model: String,
    /// GPUs that share the matrices of a layer.
    #[serde(default = "super::one")]
    pub tp: u32,
    /// Stages of the pipeline.
    #[serde(default = "super::one")]
    pub pp: u32,
    /// Nodes that read prompts.
    pub reading: u32,
    /// Nodes that generate.
    pub generating: u32,
    /// How many requests.
    pub requests: u32,
    /// Requests a second, by Poisson; 0 for all at once.
    #[serde(default)]
    pub rate: f64,
    /// Tokens of a prompt.
    pub input: u64,
    /// Linear layers multiply in 8 bits.
    #[serde(default)]
    pub fp8: bool,
}

/// A served model whose experts are shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertRounds {
    /// The model: one with experts.
    pub model: String,
    /// Nodes, with all their GPUs.
    pub nodes: u32,
    /// Tokens of a GPU in an iteration.
    pub tokens: u32,
    /// Tokens behind each.
    pub context: u64,
    /// How many iterations.
    #[serde(default = "super::one")]
    pub iterations: u32,
    /// Linear layers multiply in 8 bits, and tokens go to experts so.
    #[serde(default)]
    pub fp8: bool,
}

fn packed() -> Vec<Placement> {
    vec![Placement::Packed]
}

impl MixedJob {
    /// Nodes that it takes, of so many GPUs each.
    #[must_use]
    pub fn nodes(&self, per_node: u32) -> u32 {
        match &self.kind {
            JobKind::Training(work) => u32::try_from(work.request().layout.gpus()).unwrap_or(u32::MAX).div_ceil(per_node.max(1)),
            JobKind::Storage(work) => work.nodes,
            JobKind::Collective(work) => work.nodes,
            JobKind::Inference(work) => work.reading.saturating_add(work.generating),
            JobKind::Experts(work) => work.nodes,
        }
    }
    /// The word of files.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match &self.kind {
            JobKind::Training(_) => "training",
            JobKind::Storage(_) => "storage",
            JobKind::Collective(_) => "collective",
            JobKind::Inference(_) => "inference",
            JobKind::Experts(_) => "experts",
        }
    }
    /// What is measured.
    #[must_use]
    pub const fn measure(&self) -> &'static str {
        match &self.kind {
            JobKind::Training(_) => "step",
            JobKind::Storage(_) => "all moved",
            JobKind::Collective(_) => "all done",
            JobKind::Inference(_) => "keys and values of a request",
            JobKind::Experts(_) => "iteration",
        }
    }

    /// The first number that makes no sense.
    fn wrong(&self) -> Option<(&'static str, String)> {
        let count =
            |what: &'static str, count: u64, most: u64| (!(1..=most).contains(&count)).then(|| (what, format!("{what} of {count}")));
        match &self.kind {
            JobKind::Training(_) => None,
            JobKind::Storage(work) => count("nodes", work.nodes.into(), MOST).or_else(|| count("bytes", work.bytes.0, MOST_BYTES)),
            JobKind::Collective(work) => (work.nodes < 2)
                .then(|| ("nodes", format!("a collective operation between {} nodes", work.nodes)))
                .or_else(|| count("times", work.times.into(), MOST))
                .or_else(|| count("size", work.size.0, MOST_BYTES)),
            JobKind::Inference(work) => count("reading", work.reading.into(), MOST)
                .or_else(|| count("generating", work.generating.into(), MOST))
                .or_else(|| count("requests", work.requests.into(), MOST))
                .or_else(|| count("input", work.input, MOST))
                .or_else(|| (!(0.0..1e9).contains(&work.rate)).then(|| ("rate", format!("{} requests a second", work.rate)))),
            JobKind::Experts(work) => (work.nodes < 2)
                .then(|| ("nodes", format!("experts on {} nodes", work.nodes)))
                .or_else(|| count("tokens", work.tokens.into(), 4096))
                .or_else(|| count("iterations", work.iterations.into(), 1000)),
        }
    }
}

/// Basis: assumed, more than any job has.
const MOST: u64 = 100_000;
/// A TiB. Basis: assumed; a few gigabytes of memory for its pieces.
const MOST_BYTES: u64 = 1 << 40;

/// Whether the jobs can be, but for what the catalogue says of their models.
pub(crate) fn check(work: &Mix) -> Result<(), Problem> {
    let path = ["workload", "mix"];
    let told = |key: &str, message: String, help: &str| Problem::at(&[path[0], path[1], key], message, help);
    if work.jobs.is_empty() || work.jobs.len() > 1000 {
        return Err(told("jobs", format!("{} jobs", work.jobs.len()), "write 1 to 1000 of them, each as [[workload.mix.jobs]]"));
    }
    if work.placements.is_empty() {
        return Err(told("placements", "no placement".to_owned(), "write some: [\"packed\", \"interleaved\", \"random\"]"));
    }
    for (number, job) in work.jobs.iter().enumerate() {
        let place = number.to_string();
        let at = |key: &str, message: String, help: &str| Problem::at(&[path[0], path[1], "jobs", &place, key], message, help);
        if work.jobs[..number].iter().any(|other| other.name == job.name) {
            return Err(at("name", format!("there are two jobs `{}`", job.name), "give each a name of its own"));
        }
        if let Some((key, message)) = job.wrong() {
            return Err(at(
                "kind",
                format!("`{}`: {message}", job.name),
                &format!("use another `{key}`, at least 1; 2 nodes of what is between nodes"),
            ));
        }
        if let JobKind::Storage(storage) = &job.kind {
            let unknown = storage.clients.iter().find(|name| !work.jobs.iter().any(|other| other.name == **name && other.name != job.name));
            if let Some(name) = unknown {
                return Err(at(
                    "kind",
                    format!("`{}` has a client `{name}`, and there is no such job beside it", job.name),
                    "name other jobs",
                ));
            }
            if work.jobs.iter().all(|other| matches!(other.kind, JobKind::Storage(_))) {
                return Err(at("kind", format!("nobody writes to `{}`", job.name), "add a job that computes"));
            }
        }
    }
    Ok(())
}
