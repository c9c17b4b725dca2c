//! The fabric to look at: that of a cluster, or one that another tool described.

use fabriscope_units::Remedy;
use std::path::Path;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_fabric::export;
use fabriscope_fabric::import::{Plug, Subnet};
use fabriscope_fabric::{Fabric, LinkId, LinkSpec, Links, Node, Routing, Vertex};
use fabriscope_units::{Rate, Span};

use super::algorithm::Algorithm;
use crate::context::Context;
use crate::error::Failure;

/// A fabric and what is known of it besides.
pub struct Source {
    /// What the user typed.
    pub name: String,
    pub fabric: Fabric,
    origin: Origin,
}

enum Origin {
    Cluster(Box<ResolvedCluster>),
    File(Box<Subnet>),
}

impl Source {
    /// The fabric of a cluster or a file.
    pub fn read(name: &str, context: &Context) -> Result<Source, Failure> {
        let path = Path::new(name);
        let is_cluster = fabriscope_catalog::is_cluster_file(path) || !path.is_file();
        if is_cluster {
            return Source::of_cluster(name, context.cluster(name)?);
        }
        let subnet = crate::command::import::read(path)?;
        // Cables without a rate of their own get this one.
        let links = Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(25)));
        let fabric = subnet.fabric(&links).map_err(|error| {
            let (message, help) = error.halves("see `fabriscope import FILE`");
            Failure::told(format!("{name}: {message}"), help)
        })?;
        Ok(Source { name: name.to_owned(), fabric, origin: Origin::File(Box::new(subnet)) })
    }

    /// The fabric of a cluster.
    pub fn of_cluster(name: &str, cluster: ResolvedCluster) -> Result<Source, Failure> {
        let fabric = cluster.fabric().map_err(|e| Failure::told(e.in_full(), "correct the topology of the cluster"))?;
        Ok(Source { name: name.to_owned(), fabric, origin: Origin::Cluster(Box::new(cluster)) })
    }

    /// The cluster, where it is one.
    pub fn cluster(&self) -> Option<&ResolvedCluster> {
        match &self.origin {
            Origin::Cluster(cluster) => Some(cluster),
            Origin::File(_) => None,
        }
    }

    /// The routing that belongs to it.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm(self.cluster().map_or(Routing::MinHop, |cluster| cluster.routing))
    }

    /// The devices as tools find them, and the number of each cable's link in the fabric, where it has one.
    pub fn subnet(&self) -> (Subnet, Vec<Option<LinkId>>) {
        match &self.origin {
            Origin::Cluster(_) => {
                let links = (0..self.fabric.graph.cable_count()).map(|cable| Some(LinkId(2 * cable))).collect();
                (export::subnet(&self.fabric), links)
            }
            Origin::File(subnet) => {
                let wiring = subnet.wiring();
                let mut switch = vec![None; subnet.devices.len()];
                wiring.switches.iter().zip(0..).for_each(|(&device, number)| switch[device as usize] = Some(number));
                let graph = &self.fabric.graph;
                // A port of a switch names the link that leaves there.
                let of = |plug: Plug| {
                    let port = fabriscope_fabric::PortId(plug.port.checked_sub(1)?);
                    graph.out_link(fabriscope_fabric::SwitchId(switch[plug.device as usize]?), port)
                };
                let links = subnet.cables.iter().map(|cable| cable.ends.into_iter().find_map(of)).collect();
                (subnet.as_ref().clone(), links)
            }
        }
    }

    /// What a port is called: `leaf 3 port 7`, ports counted from 1 as printed on switches.
    pub fn port(&self, vertex: Vertex, port: fabriscope_fabric::PortId) -> String {
        let graph = &self.fabric.graph;
        let name = self.fabric.name(graph.node(vertex));
        match graph.node(vertex) {
            Node::Switch(_) => format!("{name}:{}", port.0 + 1),
            Node::Endpoint(_) => name,
        }
    }
}
