//! A benchmark program or a step of training while a parallel file system is used on the same fabric.

use fabriscope_catalog::{HostSet, Problem, QosRequest, ResolvedCluster};
use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::training::Training;

/// A benchmark program or a step of training alone, and while clients of a file system read or write on the same fabric: what both lose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BesideStorage {
    /// Name of the program: `osu_allreduce`, `hpcg`, `opensbli` …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// A step of training instead of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Box<Training>>,
    /// Its nodes, in the order of its ranks or GPUs: `"0-7"`.
    pub nodes: HostSet,
    /// Its ranks on each. Default: one for each core, or GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
    /// What is read or written meanwhile.
    pub storage: StorageTraffic,
}

/// Clients that read or write files of their own on a parallel file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageTraffic {
    /// The file system, of whose servers of data there are as many as `servers` has nodes: targets, drives, cores, software.
    pub file_system: String,
    /// Nodes of the clients, which may be those of the program: `"0-7"`.
    pub clients: HostSet,
    /// Nodes that are servers of data: `"12-15"`.
    pub servers: HostSet,
    /// Processes of each client, each with a file. Default: 1.
    #[serde(default = "one")]
    pub processes: u32,
    /// Whether they read instead of writing.
    #[serde(default)]
    pub read: bool,
    /// OSTs of a file. Default: as the file system has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_count: Option<u32>,
    /// Data come in bursts, such as checkpoints. Default: all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstOf>,
    /// InfiniBand's service level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_level: Option<u32>,
    /// Ethernet's priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// DSCP, which gives the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u32>,
    /// Name of the class, of `[qos.slingshot]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<String>,
}

/// Data that come in bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstOf {
    /// What each process reads or writes in a burst.
    pub bytes: Bytes,
    /// From the begin of one to that of the next; it takes longer where the data do.
    pub every: Span,
}

fn one() -> u32 {
    1
}

impl StorageTraffic {
    /// The service level, priority or class of its packets.
    ///
    /// # Errors
    /// What it asks for does not exist on the cluster.
    pub fn level(&self, cluster: &ResolvedCluster) -> Result<u8, Problem> {
        let traffic_class = self.traffic_class.as_deref();
        QosRequest { service_level: self.service_level, priority: self.priority, dscp: self.dscp, traffic_class }.level(cluster)
    }
    /// Whether it is in a class of its own.
    #[must_use]
    pub fn has_class(&self) -> bool {
        self.service_level.is_some() || self.priority.is_some() || self.dscp.is_some() || self.traffic_class.is_some()
    }
}

/// Whether the nodes are there, and servers are nothing else.
pub(crate) fn check(work: &BesideStorage, cluster: &ResolvedCluster) -> Result<(), Problem> {
    const AT: [&str; 2] = ["workload", "beside_storage"];
    let told = |keys: &[&str], message: String, help: &str| Problem::at(&[&AT, keys].concat(), message, help);
    match &work.training {
        None if work.tool.is_empty() => {
            let help = "write for example tool = \"osu_allreduce\", or training = { model = \"llama3-8b\", dp = 16 }";
            return Err(told(&["tool"], "neither a benchmark nor a step of training".to_owned(), help));
        }
        Some(_) if !work.tool.is_empty() || !work.args.is_empty() || work.per_node.is_some() => {
            let message = "a step of training, and a benchmark or what belongs to one".to_owned();
            return Err(told(&["training"], message, "leave tool, args and per_node out, or the step"));
        }
        _ => {}
    }
    let (there, storage) = (cluster.nodes(), &work.storage);
    let sets = [(&["nodes"][..], &work.nodes), (&["storage", "clients"], &storage.clients), (&["storage", "servers"], &storage.servers)];
    for (keys, set) in sets {
        if let Some(node) = set.beyond(there) {
            return Err(told(keys, format!("node {node} of a cluster with nodes 0 to {}", there.max(1) - 1), "name nodes of the cluster"));
        }
        let mut all: Vec<u32> = set.among(there).collect();
        all.sort_unstable();
        if all.is_empty() {
            return Err(told(keys, "no node is named".to_owned(), "write numbers and ranges: \"0-7\""));
        }
        if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(told(keys, format!("node {} is named twice", pair[0]), "name each node once"));
        }
    }
    let servers: Vec<u32> = storage.servers.among(there).collect();
    if let Some(node) = work.nodes.among(there).chain(storage.clients.among(there)).find(|node| servers.contains(node)) {
        let message = format!("node {node} is a server, and a client or a node of the program too");
        return Err(told(&["storage", "servers"], message, "let servers be nodes of their own"));
    }
    if storage.processes == 0 {
        return Err(told(&["storage", "processes"], "clients without processes".to_owned(), "use at least 1"));
    }
    if let Some(burst) = &storage.burst
        && (burst.bytes == Bytes::ZERO || burst.every == Span::ZERO)
    {
        return Err(told(
            &["storage", "burst"],
            "a burst of nothing, or without end".to_owned(),
            "write { bytes = \"64 MiB\", every = \"20 ms\" }",
        ));
    }
    storage.level(cluster).map_err(|problem| problem.under("storage").under(AT[1]).under(AT[0])).map(drop)
}
