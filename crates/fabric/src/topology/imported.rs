//! A fabric that another tool described, with its forwarding tables where they came along.
//!
//! ```toml
//! [topology.imported]
//! file = "mine.ibnetdiscover"        # as seen from this file
//! tables = "opensm-lfts.dump"        # for routing = "table"
//! ```
//!
//! Modelled: every connected port of a host is an endpoint, sorted by host, adapter and port, those of chosen hosts first; cables run at the rate that
//! the file gives, else at that of the cluster. Ports keep their numbers.
//! Not modelled: aggregation nodes and routers (left out), lengths of cables (those of the cluster).

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Coordinates, Fabric, Family, Links, TopologyError};
use crate::graph::Node;
use crate::import::{ImportError, Plug, Subnet};
use crate::routing::Tables;

/// A fabric that another tool described.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// Whatever `fabriscope import` reads; a path as seen from the file that says so.
    pub file: String,
    /// Forwarding tables of the same fabric: `opensm-lfts.dump` or the output of `dump_fts`, for routing `table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<String>,
    /// Cables from each switch to each switch above it, where the format has none (Slurm). Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub uplinks: Option<u16>,
    /// Where the paths begin.
    #[serde(skip)]
    folder: PathBuf,
    /// How many endpoints send and receive, where not all do.
    #[serde(skip)]
    in_use: Option<u32>,
    /// What the files hold, once they were read.
    #[serde(skip)]
    loaded: Option<Arc<Loaded>>,
}

/// What the files hold.
#[derive(Debug, PartialEq, Eq)]
struct Loaded {
    subnet: Subnet,
    tables: Option<Arc<Tables>>,
}

impl Family for Imported {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        let loaded = self.loaded.as_ref().ok_or_else(|| TopologyError::NotRead { file: self.file.clone() })?;
        let mut fabric = loaded.subnet.fabric(links).map_err(|error| self.wrong(error))?;
        let graph = &fabric.graph;
        for switch in graph.switches() {
            let highest = graph.outputs(switch).map(|(port, _)| u32::from(port.0) + 1).max().unwrap_or(0);
            if highest > radix_limit {
                let switch = fabric.name(Node::Switch(switch));
                return Err(TopologyError::PortBeyond { switch, port: highest, radix: radix_limit });
            }
        }
        if let Coordinates::Irregular(irregular) = &mut fabric.coordinates {
            irregular.tables = loaded.tables.clone();
            irregular.in_use = self.in_use.map_or(irregular.in_use, |endpoints| endpoints.min(irregular.in_use));
        }
        Ok(fabric)
    }
}

impl Imported {
    /// The fabric in `file`, as seen from `folder`.
    pub fn new(file: impl Into<String>, folder: impl Into<PathBuf>) -> Imported {
        Imported { file: file.into(), folder: folder.into(), ..Imported::default() }
    }
    /// Says where the paths begin.
    pub fn set_folder(&mut self, folder: PathBuf) {
        self.folder = folder;
    }
    /// Says that only the first endpoints send and receive: tables need not lead to the others.
    pub fn set_in_use(&mut self, endpoints: u32) {
        self.in_use = Some(endpoints);
    }
    /// The file of the fabric.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.file)
    }
    /// The file of the tables.
    pub fn tables_path(&self) -> Option<PathBuf> {
        Some(self.folder.join(self.tables.as_deref()?))
    }
    fn wrong(&self, error: ImportError) -> TopologyError {
        TopologyError::Imported { file: self.file.clone(), error: Box::new(error) }
    }

    /// Whether the files were read.
    pub fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }
    /// Puts in what the files hold; `uplinks` multiplies the cables between switches of formats that do not count them.
    ///
    /// # Errors
    /// `uplinks` where the file counts its cables, or more cables than a switch can have ports.
    pub fn load(&mut self, subnet: Subnet) -> Result<(), TopologyError> {
        let subnet = match self.uplinks {
            None => subnet,
            Some(0) => {
                let expected = "write at least 1, or leave it out for 1".to_owned();
                return Err(TopologyError::OutOfRange { name: "uplinks", value: 0, expected });
            }
            Some(_) if !subnet.structure_only => {
                return Err(TopologyError::NoEffect { name: "uplinks", why: "the file says which cables there are" });
            }
            Some(uplinks) => subnet.with_uplinks(uplinks).map_err(|error| self.wrong(error))?,
        };
        self.loaded = Some(Arc::new(Loaded { subnet, tables: None }));
        Ok(())
    }
    /// Adds the forwarding tables, read for [`Imported::subnet`].
    pub fn load_tables(&mut self, tables: Tables) {
        if let Some(loaded) = &self.loaded {
            self.loaded = Some(Arc::new(Loaded { subnet: loaded.subnet.clone(), tables: Some(Arc::new(tables)) }));
        }
    }
    /// What the file describes, once it was read.
    pub fn subnet(&self) -> Option<&Subnet> {
        self.loaded.as_deref().map(|loaded| &loaded.subnet)
    }

    /// Makes these ports the first endpoints, in this order: before tables are read, which count endpoints.
    pub fn set_first(&mut self, first: Vec<Plug>) {
        if let Some(loaded) = &self.loaded {
            let subnet = Subnet { first, ..loaded.subnet.clone() };
            self.loaded = Some(Arc::new(Loaded { subnet, tables: loaded.tables.clone() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use fabriscope_units::{Rate, Span};

    use super::*;
    use crate::graph::LinkSpec;
    use crate::import;
    use crate::routing::{Router, Routing};

    fn links() -> Links {
        Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10)))
    }

    #[test]
    fn from_a_file_to_a_fabric_with_its_tables() {
        let text = include_str!("../../../../fabrics/small.ibnetdiscover");
        let mut imported = Imported::new("small.ibnetdiscover", "fabrics");
        let error = imported.build(&links(), 40).unwrap_err().in_full();
        assert!(error.contains("was not read"), "{error}");
        imported.load(import::read(text).unwrap()).unwrap();
        let fabric = imported.build(&links(), 40).unwrap();
        assert_eq!(fabric.counts().endpoints, 12);
        assert!(Router::new(&fabric, Routing::Table).unwrap_err().in_full().contains("no tables came with it"));
        let tables = Tables::min_hop(&fabric, 0).unwrap();
        imported.load_tables(tables);
        assert!(Router::new(&imported.build(&links(), 40).unwrap(), Routing::Table).is_ok());
        let error = imported.build(&links(), 30).unwrap_err().in_full();
        assert!(error.contains("has a cable in port 34"), "{error}");
        let last = imported.subnet().unwrap().wiring().endpoints[11];
        imported.set_first(vec![last]);
        assert_eq!(imported.subnet().unwrap().wiring().endpoints[0], last);
    }

    #[test]
    fn cables_that_slurm_does_not_count() {
        let text = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=a[1-4]\nSwitchName=l2 Nodes=b[1-4]\n";
        let mut imported = Imported { uplinks: Some(4), ..Imported::new("topology.conf", "") };
        imported.load(import::read(text).unwrap()).unwrap();
        assert_eq!(imported.build(&links(), 8).unwrap().counts().to_string(), "8 endpoints, 3 switches, 16 cables");
        imported.uplinks = Some(40_000);
        assert!(imported.load(import::read(text).unwrap()).unwrap_err().in_full().contains("more than 65534 cables"));
        imported.uplinks = Some(2);
        let counted = import::read("a leaf1\nb leaf1\nleaf1 leaf2\nc leaf2\n").unwrap();
        assert!(imported.load(counted).unwrap_err().in_full().contains("the file says which cables there are"));
    }
}
