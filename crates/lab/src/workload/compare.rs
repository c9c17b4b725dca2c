//! Patterns under several ways to control congestion and to route: what a lab says of them.

use fabriscope_catalog::{Problem, ResolvedCluster};
use fabriscope_fabric::Routing;
use fabriscope_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Scheme;
use super::flows::{check_schemes, with_routings};

/// A pattern of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedPattern {
    /// Every host sends one message to another; nobody receives two.
    Permutation,
    /// Several hosts send to one.
    Incast,
    /// Every host sends one message to every other.
    AllToAll,
    /// Every host sends almost half way around each dimension of the topology.
    Tornado,
}

/// Patterns, each under several ways to control congestion and to route; one run for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// What is sent.
    pub patterns: Vec<ComparedPattern>,
    /// Size of each message; of an all-to-all, what a host sends in all.
    pub size: Bytes,
    /// How many hosts send in an incast. Default: all but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u32>,
    /// The ways to compare.
    pub schemes: Vec<Scheme>,
    /// Each scheme that names no routing runs with each of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routings: Vec<Routing>,
}

impl Compare {
    /// The ways to compare.
    #[must_use]
    pub fn compared(&self) -> Vec<Scheme> {
        with_routings(&self.schemes, &self.routings)
    }

    /// Whether it can happen on the cluster.
    pub(crate) fn check(&self, cluster: &ResolvedCluster) -> Result<(), Problem> {
        let wrong = |key: &str, message: String, help: &str| Err(Problem::at(&["workload", "compare", key], message, help));
        let hosts = cluster.endpoints();
        if hosts < 2 {
            let message = format!("a workload between hosts needs two, the cluster has {hosts}");
            return Err(Problem::at(&["cluster"], message, "use a cluster of at least 2 nodes"));
        }
        if self.patterns.is_empty() || self.patterns.len() > 1000 {
            return wrong(
                "patterns",
                format!("{} patterns", self.patterns.len()),
                "write 1 to 1000 of them: [\"permutation\", \"incast\"]",
            );
        }
        if self.size == Bytes::ZERO || self.size > super::LARGEST_MESSAGE {
            return wrong("size", format!("a message of {} cannot be sent", self.size), "use 1 B to 2 GiB");
        }
        if let Some(senders) = self.senders.filter(|senders| *senders == 0 || *senders >= hosts) {
            return wrong(
                "senders",
                format!("{senders} senders and a receiver on {hosts} hosts"),
                "use at least 1 and fewer than there are hosts",
            );
        }
        if self.schemes.is_empty() {
            return wrong("schemes", "no schemes".to_owned(), "write some: [{ congestion = \"dcqcn\" }]");
        }
        check_schemes("compare", &self.schemes)
    }
}
