//! Changes of a resolved cluster by what rests on it, an experiment above all: set, and checked as the cluster's own file is.

use fabriscope_fabric::Routing;

use crate::catalog::Catalog;
use crate::cluster::{Cluster, FlowControl, ResolvedCluster};
use crate::document::Document;
use crate::error::Problem;
use crate::link_retry::Line;
use crate::part::Part;

impl Catalog {
    /// The cluster that a larger file describes in a table of its own.
    ///
    /// # Errors
    /// A contradiction in the cluster, parts that do not exist or do not fit together; the path of the problem starts in that table.
    pub fn resolve_inline(&self, cluster: &Cluster) -> Result<ResolvedCluster, Problem> {
        cluster.check()?;
        crate::resolve::resolve(self, cluster, None)
    }
}

impl Cluster {
    /// Notes the folder of the text in which `[topology.imported]` stands; `prefix` leads to the cluster.
    pub fn locate_imported(&mut self, document: &Document<'_>, prefix: &[&str]) {
        crate::imported::locate(document, prefix, self);
    }
}

impl ResolvedCluster {
    /// Routes packets another way.
    ///
    /// # Errors
    /// A routing that does not suit the topology.
    pub fn set_routing(&mut self, routing: Routing) -> Result<(), Problem> {
        self.routing = routing;
        crate::resolve::routes(self)
    }

    /// Controls congestion by the algorithm of that name, or not at all.
    ///
    /// # Errors
    /// No such congestion control.
    pub fn set_congestion(&mut self, catalog: &Catalog, name: Option<&String>) -> Result<(), Problem> {
        self.congestion = crate::resolve::congestion(catalog, name)?;
        Ok(())
    }

    /// Whether the packets of the link layer have a place for the marks of the congestion control.
    ///
    /// # Errors
    /// They have none.
    pub fn check_marks(&self) -> Result<(), Problem> {
        crate::resolve::check_marks(self)
    }

    /// Does `given` where a buffer is full.
    ///
    /// # Errors
    /// A link layer or a switch that cannot.
    pub fn set_flow_control(&mut self, given: FlowControl) -> Result<(), Problem> {
        self.flow_control = crate::resolve::flow_control(self.link_layer, Some(given), self.switch.as_ref())?;
        Ok(())
    }

    /// Whether classes, flow control and routing go together.
    ///
    /// # Errors
    /// Classes that the parts do not have, a routing that does not suit.
    pub fn check_classes(&self) -> Result<(), Problem> {
        crate::qos::check(self)?;
        crate::resolve::routes(self)
    }

    /// Whether the partitions are ones.
    ///
    /// # Errors
    /// Hosts that do not exist, keys that are taken.
    pub fn check_partitions(&self) -> Result<(), Problem> {
        crate::partitions::check(self)
    }

    /// The key of a partition, where all of `members` are in it and may talk to each other; that of the default one without a name.
    ///
    /// # Errors
    /// No such partition, or a host that is no member of it.
    pub fn partition_key(&self, name: Option<&str>, members: impl Iterator<Item = u32>) -> Result<u16, Problem> {
        crate::partitions::chosen(self, name, members)
    }
}

impl Line {
    /// Ranges that types do not hold.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn check(&self) -> Result<(), Problem> {
        crate::link_retry::check(self)
    }
}
