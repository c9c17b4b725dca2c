//! Changes of a resolved cluster by what rests on it, an experiment above all: set, and checked as the cluster's own file is.

use std::sync::Arc;

use fabriscope_fabric::Routing;
use fabriscope_verbs::cc;

use crate::catalog::{AnyPart, Catalog};
use crate::cluster::{Cluster, FlowControl, ResolvedCluster};
use crate::document::Document;
use crate::error::{CatalogError, Problem};
use crate::link_retry::Line;
use crate::part::{Congestion, Kind, Part};
use crate::stop::Stop;

impl Catalog {
    /// The same with what ends the runs of its clusters.
    #[must_use]
    pub fn stopped_by(&self, stop: Stop) -> Catalog {
        Catalog { stop, ..self.clone() }
    }

    /// The same with one more congestion control, an algorithm from outside; where `base` names one of the catalogue, its switches mark
    /// as that says. A name that is there is replaced.
    ///
    /// # Errors
    /// No such congestion control.
    pub fn with_congestion(&self, name: &str, base: &str, prototype: cc::Prototype) -> Result<Catalog, CatalogError> {
        let mut catalog = self.clone();
        if let AnyPart::Congestion(under) = self.part(Kind::Congestion, base)? {
            let (title, notes) = (format!("A prototype over {base}"), String::new());
            let part = Congestion { name: name.to_owned(), title, notes, prototype: Some(prototype), ..Congestion::clone(under) };
            let key = (Kind::Congestion, name.to_owned());
            Arc::make_mut(&mut catalog.parts).insert(key, AnyPart::Congestion(Box::new(part)));
        }
        Ok(catalog)
    }

    /// The same with a cluster that has its parts already; its name comes before that of any other.
    #[must_use]
    pub fn with_cluster(&self, cluster: ResolvedCluster) -> Catalog {
        let mut catalog = self.clone();
        Arc::make_mut(&mut catalog.resolved).insert(cluster.name.clone(), cluster);
        catalog
    }

    /// Whether it has parts that are no text, so that no two runs of a program need have the same.
    #[must_use]
    pub fn has_prototypes(&self) -> bool {
        self.parts().any(|part| matches!(part, AnyPart::Congestion(congestion) if congestion.prototype.is_some()))
    }

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
    /// Routes packets another way, without a prototype.
    ///
    /// # Errors
    /// A routing that does not suit the topology.
    pub fn set_routing(&mut self, routing: Routing) -> Result<(), Problem> {
        (self.routing, self.route_prototype) = (routing, None);
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
