//! A cluster that a report is about, wired, with its counts and its bisection.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_fabric::analysis::{Backbone, Bisection, Census, bisection, census, distances};
use fabriscope_lab::LabError;
use fabriscope_units::Remedy;

use crate::error::Error;

/// A cluster and what there is to say of its fabric.
pub(super) struct Design {
    /// As the reader named it.
    pub name: String,
    pub parts: ResolvedCluster,
    pub cluster: Cluster,
    pub census: Census,
    pub bisection: Option<Bisection>,
    pub diameter: u32,
}

/// So many switches, in words.
pub(super) fn switches(count: u32) -> String {
    if count == 1 { "1 switch".to_owned() } else { format!("{count} switches") }
}

impl Design {
    pub fn of(catalog: &Catalog, name: &str) -> Result<Design, Error> {
        let design = Design::resolved(catalog.target(name)?)?;
        Ok(Design { name: name.to_owned(), ..design })
    }

    pub fn resolved(parts: ResolvedCluster) -> Result<Design, Error> {
        let wrong =
            |error: fabriscope_fabric::topology::TopologyError| LabError::refused(error.in_full(), "correct the topology of the cluster");
        let cluster = Cluster::new(parts.clone()).map_err(wrong)?;
        let backbone = Backbone::new(&cluster.fabric);
        Ok(Design {
            name: parts.name.clone(),
            census: census(&cluster.fabric),
            bisection: bisection(&cluster.fabric, &backbone),
            diameter: distances(&backbone).diameter(),
            parts,
            cluster,
        })
    }
}
