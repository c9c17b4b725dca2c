//! Flows of measured sizes at random times: what a lab says of them, and whether they can happen on a cluster.

use std::path::Path;

use fabriscope_catalog::{Problem, ResolvedCluster};
use fabriscope_fabric::Routing;
use fabriscope_traffic::sizes::SizeDistribution;
use fabriscope_units::{Bytes, Remedy, Span};
use fabriscope_wire::Service;
use include_dir::{Dir, include_dir};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LARGEST_MESSAGE, LONGEST, OpenPattern, Scheme, check_transport};

/// Flows of random sizes between random hosts at random times (Poisson arrivals); one run for each load and scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// How large they are: `websearch`, `hadoop`, `alistorage`, `googlerpc`, `googlerpc-2008`, or a file of `bytes share` lines as seen
    /// from this file.
    pub sizes: String,
    /// Where they go.
    #[serde(default = "anywhere")]
    pub pattern: OpenPattern,
    /// Offered loads: payload, as shares of what the links of the hosts carry [0..1].
    pub loads: Vec<f64>,
    /// How many flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Instead of `flows`: how long they arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Incasts beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<IncastMix>,
    /// Sizes up to which flows stand in one row of the table; those above the last have a row of their own.
    #[serde(default = "decades")]
    pub bins: Vec<Bytes>,
    /// Transport service, where no schemes say it.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs. Where no schemes say it.
    #[serde(default)]
    pub any_order: bool,
    /// The ways to compare. Default: one, as the lab says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<Scheme>,
    /// Each scheme that names no routing runs with each of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routings: Vec<Routing>,
}

/// Incasts beside other flows: at random times, from random hosts to a random one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncastMix {
    /// How many hosts send at once.
    pub senders: u32,
    /// What each of them sends.
    pub size: Bytes,
    /// Share of what the links of the hosts carry [0..1].
    pub load: f64,
}

fn anywhere() -> OpenPattern {
    OpenPattern::Uniform
}

fn decades() -> Vec<Bytes> {
    vec![Bytes(1_000), Bytes(10_000), Bytes(100_000), Bytes(1_000_000)]
}

static SIZES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../catalog/flow-sizes");

/// The text of a distribution that comes with the program.
fn embedded(name: &str) -> Option<&'static str> {
    SIZES.get_file(format!("{name}.cdf"))?.contents_utf8()
}

/// The names of the distributions that come with the program.
fn names() -> Vec<String> {
    let stem = |file: &include_dir::File<'_>| file.path().file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = SIZES.files().filter_map(stem).collect();
    names.sort_unstable();
    names
}

impl Flows {
    /// A file of sizes stands beside the lab.
    pub(crate) fn locate(&mut self, folder: &Path) {
        if embedded(&self.sizes).is_none() && !self.sizes.is_empty() {
            self.sizes = folder.join(&self.sizes).display().to_string();
        }
    }

    /// How large the flows are.
    ///
    /// # Errors
    /// No such distribution, or a file that is none.
    pub fn distribution(&self) -> Result<SizeDistribution, Problem> {
        let wrong = |message: String, help: String| Problem::at(&["workload", "flows", "sizes"], message, help);
        let text = match embedded(&self.sizes) {
            Some(text) => text.to_owned(),
            None => std::fs::read_to_string(&self.sizes).map_err(|_| {
                let help = format!("use {}, or a file of `bytes share` lines", names().join(", "));
                wrong(format!("there are no sizes called `{}`", self.sizes), help)
            })?,
        };
        SizeDistribution::parse(&text)
            .map_err(|error| wrong(format!("{}: {error}", self.sizes), error.remedy().unwrap_or_default().to_string()))
    }

    /// Whether they can happen on the cluster.
    pub(crate) fn check(&self, cluster: &ResolvedCluster) -> Result<(), Problem> {
        let wrong = |key: &str, message: String, help: &str| Err(Problem::at(&["workload", "flows", key], message, help));
        let hosts = cluster.endpoints();
        if hosts < 2 {
            let message = format!("a workload between hosts needs two, the cluster has {hosts}");
            return Err(Problem::at(&["cluster"], message, "use a cluster of at least 2 nodes"));
        }
        self.distribution()?;
        if self.loads.is_empty() || self.loads.len() > 1000 {
            return wrong("loads", format!("{} loads", self.loads.len()), "write 1 to 1000 of them: [0.3, 0.5, 0.8]");
        }
        if let Some(load) = self.loads.iter().find(|load| !(**load > 0.0 && **load <= 1.0)) {
            return wrong("loads", format!("a load of {load}"), "write shares of the link above 0 and up to 1");
        }
        match (self.flows, self.duration) {
            (Some(_), Some(_)) => return wrong("duration", "both `flows` and `duration`".to_owned(), "write one of them"),
            (None, None) => return wrong("flows", "no number of flows".to_owned(), "write flows = 2000, or duration = \"1 ms\""),
            (Some(count), None) if count == 0 || count > MOST_FLOWS => {
                return wrong("flows", format!("{count} flows"), "use 1 to 10000000");
            }
            (None, Some(duration)) if duration == Span::ZERO || duration > LONGEST => {
                return wrong("duration", format!("flows that arrive for {duration}"), "use more than 0 and at most 1 s");
            }
            _ => {}
        }
        if let Some(mix) = &self.incast {
            if mix.senders == 0 || mix.senders >= hosts {
                let message = format!("{} senders and a receiver do not fit into {hosts} hosts", mix.senders);
                return wrong("incast", message, "use at least 1 and fewer than there are hosts");
            }
            if mix.size == Bytes::ZERO || mix.size > LARGEST_MESSAGE || !(0.0..=1.0).contains(&mix.load) {
                let message = format!("an incast of {} at a load of {}", mix.size, mix.load);
                return wrong("incast", message, "use a size of 1 B to 2 GiB and a load from 0 to 1");
            }
        }
        if self.bins.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("bins", "bounds that do not grow".to_owned(), "write them in order: [\"10 kB\", \"1 MB\"]");
        }
        if matches!(self.transport, Service::Ud | Service::UetUud) {
            let message = format!("{} does not write memory, and flows are written", self.transport.name());
            return wrong("transport", message, "use transport = \"rc\", or another one that is reliable");
        }
        if self.any_order {
            super::check_order(self.transport, &["workload", "flows", "any_order"])?;
        }
        check_schemes("flows", &self.schemes)?;
        check_transport(self.transport, cluster, &["workload", "flows", "transport"])
    }

    /// The ways to compare.
    #[must_use]
    pub fn compared(&self, cluster: &ResolvedCluster) -> Vec<Scheme> {
        if self.schemes.is_empty() {
            let congestion = cluster.congestion.as_ref().map(|congestion| congestion.name.clone());
            let own = Scheme { congestion, any_order: self.any_order, transport: self.transport, ..Scheme::default() };
            return with_routings(&[own], &self.routings);
        }
        with_routings(&self.schemes, &self.routings)
    }
}

/// Whether there are not too many schemes.
pub(crate) fn check_schemes(name: &str, schemes: &[Scheme]) -> Result<(), Problem> {
    if schemes.len() > 1000 {
        let message = format!("{} schemes", schemes.len());
        return Err(Problem::at(&["workload", name, "schemes"], message, "write up to 1000 of them: [{ congestion = \"dcqcn\" }]"));
    }
    Ok(())
}

/// Each scheme, or where it names no routing, the scheme with each of `routings`: receivers of connections take packets in any order
/// where the routing may reorder them.
#[must_use]
pub fn with_routings(schemes: &[Scheme], routings: &[Routing]) -> Vec<Scheme> {
    let with = |scheme: &Scheme| -> Vec<Scheme> {
        if routings.is_empty() || scheme.routing.is_some() {
            return vec![scheme.clone()];
        }
        let takes = |routing: Routing| scheme.any_order || routing.overtakes() && scheme.transport == Service::Rc;
        routings.iter().map(|&routing| Scheme { routing: Some(routing), any_order: takes(routing), ..scheme.clone() }).collect()
    };
    schemes.iter().flat_map(with).collect()
}

/// The most flows of a run. Basis: assumed; some gigabytes of memory.
const MOST_FLOWS: u32 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_is_one_and_has_the_mean_of_its_points() {
        let mean = |name: &str| SizeDistribution::parse(embedded(name).unwrap()).unwrap().mean();
        assert_eq!(names(), ["alistorage", "googlerpc", "googlerpc-2008", "hadoop", "websearch"]);
        for name in names() {
            let text = embedded(&name).unwrap();
            assert!(text.contains("# source: ") && text.contains("# points: "), "{name} says where it is from");
            assert!(mean(&name) > 100.0, "{name}");
        }
        // The file of Homa's artifact begins with its mean, 1001.269 bytes; here shares have eight digits, whose last is worth 0.1 bytes
        // of flows of 12 MB.
        assert!((mean("googlerpc") - 1001.269).abs() < 0.1, "{}", mean("googlerpc"));
        // 0.15 · 5 kB + 0.05 · 15 kB + 0.1 · 25 kB + 0.1 · 40 kB + 0.13 · 65 kB + 0.07 · 140 kB + 0.1 · 600 kB + 0.1 · 1.5 MB
        // + 0.1 · 3.5 MB + 0.07 · 7.5 MB + 0.03 · 20 MB.
        assert!((mean("websearch") - 1_711_250.0).abs() < 0.5, "{}", mean("websearch"));
    }
}
