//! What adapters say of themselves to programs: their numbers on the PCI bus, and what a cluster says that their model does not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::ResolvedCluster;
use crate::error::Problem;

/// What adapters say of themselves, where it is not what their model does: for programs that look, no figure depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterIdentity {
    /// The kind of adapter, as `MT4129`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The release of the firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The board, as `MT_0000000838`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// The revision of the hardware, as `0x0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What a subnet manager is told; `{node_name}` is the host, `{idx}` the number of the adapter in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The upper six bytes of GUIDs, as `a088c2:0300:ab`; the number of the node and that of the adapter in it follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid_prefix: Option<GuidPrefix>,
}

/// The upper six bytes of a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct GuidPrefix(u64);

impl TryFrom<String> for GuidPrefix {
    type Error = String;
    fn try_from(text: String) -> Result<GuidPrefix, String> {
        GuidPrefix::parse(&text).ok_or_else(|| format!("`{text}` is not six bytes; write 12 hexadecimal digits, such as \"a088c20300ab\""))
    }
}

impl From<GuidPrefix> for String {
    fn from(prefix: GuidPrefix) -> String {
        format!("{:012x}", prefix.0)
    }
}

impl GuidPrefix {
    /// Twelve hexadecimal digits, with colons between them or without.
    pub fn parse(text: &str) -> Option<GuidPrefix> {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let is_hex = digits.len() == 12 && digits.chars().all(|c| c.is_ascii_hexdigit());
        if is_hex { u64::from_str_radix(&digits, 16).ok().map(GuidPrefix) } else { None }
    }
    /// The GUID of an adapter of a node; that of its port is one more.
    #[must_use]
    pub fn guid(self, node: u32, adapter: u32) -> u64 {
        self.0 << 16 | u64::from(node % MOST_NODES) << 5 | u64::from(adapter % MOST_ADAPTERS) << 1
    }
}

/// Nodes, and adapters of each, for which two bytes have numbers: eleven bits and four, above one that tells ports from adapters.
const MOST_NODES: u32 = 1 << 11;
const MOST_ADAPTERS: u32 = 1 << 4;
/// Bytes that programs have room for, the zero at the end left out.
const LONGEST: usize = 63;

impl AdapterIdentity {
    pub(crate) fn is_empty(&self) -> bool {
        *self == AdapterIdentity::default()
    }
    /// What is wrong before any part is looked up; paths start here.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let texts = [
            ("kind", &self.kind),
            ("firmware", &self.firmware),
            ("board", &self.board),
            ("revision", &self.revision),
            ("description", &self.description),
        ];
        for (key, text) in texts {
            let Some(text) = text else { continue };
            if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
                let message = format!("`{key}` is no line of 1 to {LONGEST} bytes");
                return Err(Problem::at(&["identity", key], message, "shorten it, or leave it out"));
            }
        }
        Ok(())
    }
}

/// Whether there is a GUID for every adapter of a cluster.
pub(crate) fn check(cluster: &ResolvedCluster) -> Result<(), Problem> {
    if cluster.identity.guid_prefix.is_none() {
        return Ok(());
    }
    let most = cluster.groups.iter().map(|group| group.node.nics).max().unwrap_or(0);
    if most > MOST_ADAPTERS || cluster.nodes() > MOST_NODES {
        let message = format!("{} nodes with {most} adapters have more GUIDs than follow one prefix", cluster.nodes());
        let help = format!("use at most {MOST_NODES} nodes with {MOST_ADAPTERS} adapters each, or leave `guid_prefix` out");
        return Err(Problem::at(&["identity", "guid_prefix"], message, help));
    }
    Ok(())
}

/// Vendor and part on the PCI bus by the name of the adapter in the catalogue. Source: the PCI ID database.
const PCI: [(&str, u32, u32); 13] = [
    ("connectx-3", MELLANOX, 4099),
    ("connect-ib", MELLANOX, 4113),
    ("connectx-4", MELLANOX, 4115),
    ("connectx-5", MELLANOX, 4119),
    ("slingshot-10", MELLANOX, 4119),
    ("connectx-6", MELLANOX, 4123),
    ("connectx-7", MELLANOX, 4129),
    ("connectx-8", MELLANOX, 4131),
    ("bluefield-2", MELLANOX, 41_686),
    ("bluefield-3", MELLANOX, 41_692),
    ("chelsio-t5", 0x1425, 0x5401),
    ("chelsio-t6", 0x1425, 0x6401),
    ("thor", 0x14e4, 0x1750),
];
/// As verbs tell it: the vendor's part of GUIDs.
const MELLANOX: u32 = 0x02c9;

/// The numbers of vendor and part by which programs choose settings; no part where no program knows it.
#[must_use]
pub fn pci_identity(nic: &str) -> (u32, u32) {
    PCI.iter().find(|(name, ..)| *name == nic).map_or((MELLANOX, 0), |(_, vendor, part)| (*vendor, *part))
}

/// The kinds of adapters that are called as the kernel does, `MT4129`, with their names in the catalogue.
pub(crate) fn kinds() -> impl Iterator<Item = (String, &'static str)> {
    PCI.iter()
        .filter(|(name, vendor, _)| *vendor == MELLANOX && *name != "slingshot-10")
        .map(|(name, _, part)| (format!("MT{part}"), *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six bytes, eleven bits of the node, four of the adapter, one that is set for ports.
    #[test]
    fn guids_follow_their_prefix() {
        let prefix = GuidPrefix::parse("a088c2:0300:ab").unwrap();
        assert_eq!(prefix.guid(0, 0), 0xa088_c203_00ab_0000);
        assert_eq!(prefix.guid(3, 5), 0xa088_c203_00ab_0000 + 3 * 32 + 5 * 2);
        assert_eq!(String::from(prefix), "a088c20300ab");
        for wrong in ["", "a088", "a088c2:0300:abc", "a088c2:0300:ag", "+a088c20300a"] {
            assert_eq!(GuidPrefix::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn kinds_lead_back_to_their_adapters() {
        assert!(kinds().any(|(kind, name)| kind == "MT4129" && name == "connectx-7"));
        assert!(kinds().all(|(kind, name)| kind == format!("MT{}", pci_identity(name).1)));
        assert_eq!(pci_identity("lab-400g"), (MELLANOX, 0));
    }
}
