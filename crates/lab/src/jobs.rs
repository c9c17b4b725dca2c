//! Several jobs that share the network, each in a class and a partition of its own.

use fabriscope_units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fabriscope_catalog::{HostSet, Problem, QosRequest, ResolvedCluster};

/// Who of a job sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobPattern {
    /// The first half sends to the second half, the first host to the first there.
    Pairs,
    /// Every host sends to the next one, the last to the first.
    Ring,
    /// All send to the first.
    Incast,
    /// Every host sends to every other.
    AllToAll,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its hosts, in the order of its ranks.
    pub hosts: HostSet,
    /// Who sends to whom.
    pub pattern: JobPattern,
    /// Size of each message.
    pub size: Bytes,
    /// How many messages go from a host to each of its receivers.
    pub messages: u32,
    /// How many of them are in flight at once.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Name of the MPI library that carries its messages, or "own" for that of its nodes; without one, hosts post to the verbs themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
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
    /// Bits per second that each of its connections sends at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Rate>,
    /// Name of the partition; the default one where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}

fn one() -> u32 {
    1
}

impl Job {
    /// Sender and receiver of each of its streams of messages, among `hosts` hosts.
    pub fn streams(&self, hosts: u32) -> Vec<(u32, u32)> {
        let members: Vec<u32> = self.hosts.among(hosts).collect();
        let count = members.len();
        match self.pattern {
            JobPattern::Pairs => (0..count / 2).map(|at| (members[at], members[at + count / 2])).collect(),
            JobPattern::Ring => (0..count).map(|at| (members[at], members[(at + 1) % count])).collect(),
            JobPattern::Incast => members.iter().skip(1).map(|&from| (from, members[0])).collect(),
            JobPattern::AllToAll => {
                // Every host starts with the next one.
                let others = |at: usize| (1..count).map(move |step| (at, (at + step) % count));
                (0..count).flat_map(others).map(|(from, to)| (members[from], members[to])).collect()
            }
        }
    }
    /// The service level, priority or class of its packets.
    ///
    /// # Errors
    /// What it asks for does not exist on the cluster.
    pub fn level(&self, cluster: &ResolvedCluster) -> Result<u8, Problem> {
        let traffic_class = self.traffic_class.as_deref();
        QosRequest { service_level: self.service_level, priority: self.priority, dscp: self.dscp, traffic_class }.level(cluster)
    }
    /// The P_Key of its queue pairs, without the bit of membership.
    ///
    /// # Errors
    /// A partition that does not exist, or that its hosts are not in.
    pub fn pkey(&self, cluster: &ResolvedCluster) -> Result<u16, Problem> {
        cluster.partition_key(self.partition.as_deref(), self.hosts.among(cluster.endpoints()))
    }
}

/// Jobs that share the network: each runs alone, all together without classes, and all together in their classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<Job>,
}

/// Basis: assumed; below it a packet takes longer than any timeout.
pub(crate) const LEAST_RATE: Rate = Rate::from_bps(1_000_000);
/// Messages of all jobs together. Basis: assumed; a few gigabytes of memory.
const MOST_MESSAGES: u64 = 10_000_000;

pub(crate) fn check(work: &Jobs, cluster: &ResolvedCluster, largest: Bytes) -> Result<(), Problem> {
    let hosts = cluster.endpoints();
    if work.jobs.is_empty() || work.jobs.len() > 1000 {
        let message = format!("{} jobs", work.jobs.len());
        return Err(Problem::at(&["jobs"], message, "write 1 to 1000 of them, each as [[workload.jobs.jobs]]"));
    }
    let mut messages = 0u64;
    let mut taken: std::collections::BTreeMap<(u32, u32), (usize, u8, u16)> = std::collections::BTreeMap::new();
    for (number, job) in work.jobs.iter().enumerate() {
        let place = number.to_string();
        let told = |key: &str, message: String, help: String| Problem::at(&["jobs", &place, key], message, help);
        if work.jobs[..number].iter().any(|other| other.name == job.name) {
            return Err(told("name", format!("there are two jobs `{}`", job.name), "give each a name of its own".to_owned()));
        }
        if let Some(host) = job.hosts.beyond(hosts) {
            let message = format!("`{}` has host {host}, the cluster has hosts 0 to {}", job.name, hosts.max(1) - 1);
            return Err(told("hosts", message, "name hosts of the cluster".to_owned()));
        }
        let mut members: Vec<u32> = job.hosts.among(hosts).collect();
        members.sort_unstable();
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(told("hosts", format!("`{}` has host {} twice", job.name, pair[0]), "name each host once".to_owned()));
        }
        if members.len() < 2 {
            return Err(told("hosts", format!("`{}` has {} hosts", job.name, members.len()), "name at least 2".to_owned()));
        }
        if job.size == Bytes::ZERO || job.size > largest {
            return Err(told("size", format!("a message of {} cannot be sent", job.size), format!("use 1 B to {largest}")));
        }
        if let Some(rate) = job.rate_limit.filter(|rate| rate.as_bps() < LEAST_RATE.as_bps()) {
            return Err(told("rate_limit", format!("a limit of {rate}"), format!("use at least {LEAST_RATE}")));
        }
        if job.messages == 0 || job.outstanding == 0 {
            let key = if job.messages == 0 { "messages" } else { "outstanding" };
            return Err(told(key, format!("`{}` sends nothing", job.name), "use at least 1".to_owned()));
        }
        let within = |problem: Problem| problem.under(&place).under("jobs");
        let (level, pkey) = (job.level(cluster).map_err(within)?, job.pkey(cluster).map_err(within)?);
        let streams = job.streams(hosts);
        messages = messages.saturating_add(streams.len() as u64 * u64::from(job.messages));
        for (from, to) in streams {
            let pair = (from.min(to), from.max(to));
            let (first, ..) = *taken.entry(pair).or_insert((number, level, pkey));
            if taken[&pair] != (first, level, pkey) {
                let message = format!(
                    "`{}` and `{}` both have messages between hosts {} and {}, in different classes or partitions",
                    work.jobs[first].name, job.name, pair.0, pair.1
                );
                return Err(told(
                    "hosts",
                    message,
                    "two hosts share one connection: give the jobs other hosts, or the same class".to_owned(),
                ));
            }
        }
    }
    if messages > MOST_MESSAGES {
        let message = format!("{messages} messages in all");
        return Err(Problem::at(&["jobs"], message, format!("send at most {MOST_MESSAGES}")));
    }
    Ok(())
}
