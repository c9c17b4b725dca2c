//! A parallel file system: its servers, what they store on, and how clients reach them.
//!
//! Source: descriptions of installed systems; the Lustre Operations Manual for the roles.
//! Modelled: servers of data and metadata with targets and drives, their adapters, routers between fabrics, cables to the fabric of the
//! clients, striping where nothing is said.
//! Not modelled: failover, pools of targets by name.

use fabriscope_units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// Servers of one role, all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// How many.
    pub servers: Sourced<u32>,
    /// Targets of each: OSTs, MDTs.
    pub targets: Sourced<u32>,
    /// Drives of a target.
    pub drives: Sourced<u32>,
    /// Those of them that hold parity, or copies.
    pub parity: Sourced<u32>,
    /// The drive, a part.
    pub drive: String,
    /// The speed of an adapter, a part.
    pub link: String,
    /// Adapters of a server.
    pub adapters: Sourced<u32>,
    /// The processor, a part.
    pub cpu: String,
    /// Processors of a server.
    pub sockets: u32,
    /// What the enclosure or the RAID controller of a server moves, where less than its drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
}

/// What lies between a server and its drives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Reads, of a server.
    pub read: Sourced<Rate>,
    /// Writes, of a server.
    pub write: Sourced<Rate>,
}

/// Computers that pass messages on between the fabric of the clients and that of the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Routers {
    /// How many.
    pub routers: Sourced<u32>,
    /// The slower of their two sides, a part of the kind `links`.
    pub link: String,
    /// Adapters on that side.
    pub adapters: Sourced<u32>,
}

/// Cables between the fabric of the clients and the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uplinks {
    /// How many.
    pub cables: Sourced<u32>,
    /// Their speed, a part of the kind `links`.
    pub link: String,
}

/// A parallel file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The release of Lustre, a part of the kind `software`.
    pub software: String,
    /// Servers of data.
    pub oss: Servers,
    /// Servers of metadata.
    pub mds: Servers,
    /// Between two fabrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routers: Option<Routers>,
    /// To the fabric of the clients; where nothing is said, cables do not bind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplinks: Option<Uplinks>,
    /// OSTs of a new file; all of them are -1.
    pub stripe_count: Sourced<i32>,
    /// What goes to an OST before the next.
    pub stripe_size: Sourced<Bytes>,
    /// Clusters that mount it, by the names of the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounted_by: Vec<String>,
    /// What its operators or vendors say it does; reached or missed, never used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedRates>,
}

/// What is said of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRates {
    /// Data in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Sourced<Rate>>,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Sourced<Bytes>>,
}

impl Servers {
    fn check(&self, role: &str) -> Result<(), Problem> {
        let counts = [("servers", *self.servers), ("targets", *self.targets), ("drives", *self.drives), ("adapters", *self.adapters)];
        for (key, count) in counts {
            if !(1..=100_000).contains(&count) {
                return Err(Problem::at(&[role, key, "value"], format!("`{key}` of {count}"), "write at least 1 and at most 100000"));
            }
        }
        if *self.parity >= *self.drives {
            let message = format!("{} drives of parity among {}", *self.parity, *self.drives);
            return Err(Problem::at(&[role, "parity", "value"], message, "leave at least one drive for data"));
        }
        if !(1..=8).contains(&self.sockets) {
            return Err(Problem::at(&[role, "sockets"], format!("{} processors in a server", self.sockets), "write 1 to 8"));
        }
        Ok(())
    }
    /// Targets of all servers.
    #[must_use]
    pub fn all_targets(&self) -> u32 {
        self.servers.value.saturating_mul(*self.targets)
    }
}

impl Part for FileSystem {
    const KIND: Kind = Kind::FileSystem;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        self.oss.check("oss")?;
        self.mds.check("mds")?;
        if *self.stripe_count == 0 || *self.stripe_count < -1 {
            let message = format!("`stripe_count` of {}", *self.stripe_count);
            return Err(Problem::at(&["stripe_count", "value"], message, "write -1 for all OSTs, or how many"));
        }
        if i64::from(*self.stripe_count) > i64::from(self.oss.all_targets()) {
            let message = format!("{} stripes on {} OSTs", *self.stripe_count, self.oss.all_targets());
            return Err(Problem::at(&["stripe_count", "value"], message, "write -1 for all OSTs, or fewer"));
        }
        if self.stripe_size.0 == 0 || !self.stripe_size.0.is_multiple_of(65_536) {
            let message = format!("`stripe_size` of {}", *self.stripe_size);
            return Err(Problem::at(&["stripe_size", "value"], message, "write a multiple of 64 KiB, such as \"1 MiB\""));
        }
        Ok(())
    }
}
