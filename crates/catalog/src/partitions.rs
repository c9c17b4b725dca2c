//! Partitions of InfiniBand: who may talk to whom.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §9.2.3, §10.9 (P_Keys: 15 bits and the bit of full membership; two
//! ends match when the 15 bits are equal and at least one is a full member); OpenSM, partitions.conf (names, full and limited).
//! Modelled: partitions by host, the default partition 0x7FFF, choice of partition by a workload or job.
//! Not modelled: partitions of IPoIB multicast groups, tables of several ports of an adapter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::{LinkLayer, ResolvedCluster};
use crate::error::Problem;
use crate::hosts::HostSet;

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Partition {
    /// Its key, 0x0001 to 0x7FFE; the partition named `default` has 0x7FFF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pkey: Option<u32>,
    /// Hosts that may talk to all members.
    pub full: HostSet,
    /// Hosts that may talk to full members only.
    pub limited: HostSet,
}

/// At which ports of switches packets of other partitions are dropped: those to which adapters are plugged, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitionEnforcement {
    /// Nowhere: adapters alone look at keys.
    #[default]
    Off,
    /// Where they come from an adapter.
    In,
    /// Where they are to go to an adapter.
    Out,
    /// Both ways.
    Both,
}

/// Partitions by name.
pub type Partitions = BTreeMap<String, Partition>;

/// Key of the default partition (standard).
pub const DEFAULT_PKEY: u32 = 0x7FFF;
/// The bit of full membership (standard).
pub const FULL: u16 = 0x8000;
/// Name of the default partition.
const DEFAULT: &str = "default";

impl Partition {
    fn key(&self, name: &str) -> u32 {
        self.pkey.unwrap_or(if name == DEFAULT { DEFAULT_PKEY } else { 0 })
    }
    /// Full member, limited member, or none.
    fn membership(&self, host: u32) -> Option<bool> {
        if self.full.contains(host) {
            return Some(true);
        }
        self.limited.contains(host).then_some(false)
    }
}

/// The keys of a host, that of the default partition first where it is a member.
pub fn keys(partitions: &Partitions, host: u32) -> Vec<u16> {
    let of = |(name, partition): (&String, &Partition)| {
        let full = partition.membership(host)?;
        Some(partition.key(name) as u16 | if full { FULL } else { 0 })
    };
    let mut keys: Vec<u16> = partitions.iter().filter_map(of).collect();
    if !partitions.contains_key(DEFAULT) {
        keys.push(DEFAULT_PKEY as u16 | FULL);
    }
    keys.sort_by_key(|key| u32::from(*key & !FULL) != DEFAULT_PKEY);
    keys
}

/// Whether the partitions fit each other and the cluster.
pub(crate) fn check(cluster: &ResolvedCluster) -> Result<(), Problem> {
    let hosts = cluster.endpoints();
    if cluster.link_layer != LinkLayer::InfiniBand && !cluster.partitions.is_empty() {
        let help = "remove [partitions], or choose an InfiniBand cluster";
        return Err(Problem::at(&["partitions"], "partitions on Ethernet links, which have no P_Keys", help));
    }
    if cluster.link_layer != LinkLayer::InfiniBand && cluster.partition_enforcement != PartitionEnforcement::Off {
        let help = "remove `partition_enforcement`, or choose an InfiniBand cluster";
        return Err(Problem::at(&["partition_enforcement"], "switches that look at P_Keys on Ethernet links, which have none", help));
    }
    let mut seen: Vec<(u32, &str)> = Vec::new();
    for (name, partition) in &cluster.partitions {
        let told = |key: &str, message: String, help: &str| Problem::at(&["partitions", name, key], message, help);
        let key = partition.key(name);
        match (name.as_str(), partition.pkey) {
            (DEFAULT, Some(key)) if key != DEFAULT_PKEY => {
                return Err(told("pkey", format!("the default partition with key {key:#06x}"), "leave `pkey` out: it is 0x7fff"));
            }
            (DEFAULT, _) => {}
            (_, None) => return Err(told("pkey", format!("the partition `{name}` has no key"), "add pkey = 0x0001 to 0x7ffe")),
            (_, Some(0)) => return Err(told("pkey", format!("the partition `{name}` has key 0"), "use 0x0001 to 0x7ffe")),
            (_, Some(DEFAULT_PKEY)) => {
                return Err(told(
                    "pkey",
                    format!("the partition `{name}` has the key 0x7fff"),
                    "that is the partition `default`; use 0x0001 to 0x7ffe",
                ));
            }
            (_, Some(key)) if key > DEFAULT_PKEY => {
                let help = "use 0x0001 to 0x7ffe; the highest bit says who is a full member";
                return Err(told("pkey", format!("the partition `{name}` has the key {key:#06x}"), help));
            }
            _ => {}
        }
        if let Some((_, other)) = seen.iter().find(|(other, _)| *other == key) {
            return Err(told("pkey", format!("`{other}` and `{name}` have the same key {key:#06x}"), "give each a key of its own"));
        }
        seen.push((key, name));
        for (kind, set) in [("full", &partition.full), ("limited", &partition.limited)] {
            if let Some(host) = set.beyond(hosts) {
                return Err(told(
                    kind,
                    format!("the partition `{name}` has host {host}, the cluster has hosts 0 to {}", hosts.max(1) - 1),
                    "name hosts of the cluster",
                ));
            }
        }
        if let Some(host) = partition.limited.among(hosts).find(|&host| partition.full.contains(host)) {
            return Err(told("limited", format!("host {host} is a full and a limited member of `{name}`"), "name it once"));
        }
        if partition.full.is_empty() && partition.limited.is_empty() && name != DEFAULT {
            return Err(told("full", format!("the partition `{name}` has no member"), "write full = \"0-7\", or \"all\""));
        }
    }
    Ok(())
}

/// The key of a partition, where all of `members` are in it and may talk to each other; that of the default one without a name.
pub(crate) fn chosen(cluster: &ResolvedCluster, name: Option<&str>, members: impl Iterator<Item = u32>) -> Result<u16, Problem> {
    let partitions = &cluster.partitions;
    let Some(partition) = partitions.get(name.unwrap_or(DEFAULT)) else {
        let Some(name) = name.filter(|name| *name != DEFAULT) else { return Ok(DEFAULT_PKEY as u16) };
        let known: Vec<String> = partitions.keys().map(|name| format!("`{name}`")).collect();
        let help = if known.is_empty() {
            "add [partitions.name] to the lab or cluster".to_owned()
        } else {
            format!("use one of {}", known.join(", "))
        };
        return Err(Problem::at(&["partition"], format!("there is no partition `{name}`"), help));
    };
    let name = name.unwrap_or(DEFAULT);
    let mut limited = None;
    for host in members {
        match partition.membership(host) {
            None => {
                let message = format!("host {host} takes part, but is no member of the partition `{name}`");
                return Err(Problem::at(&["partition"], message, "name another partition, or make the host a member"));
            }
            Some(true) => {}
            Some(false) => {
                if let Some(other) = limited.filter(|other| *other != host) {
                    let message = format!("hosts {other} and {host} are both limited members of `{name}` and cannot talk to each other");
                    return Err(Problem::at(&["partition"], message, "make one of them a full member"));
                }
                limited = Some(host);
            }
        }
    }
    Ok(partition.key(name) as u16)
}
