//! What ports and adapters counted, under the names that the cluster's machines have for it.

use fabriscope_catalog::{Interface, Layer, ResolvedCluster};
use fabriscope_engine::{Cluster, CounterPlace, Run};
use fabriscope_fabric::{EndpointId, LinkId, Node};
use fabriscope_platform::device;
use fabriscope_report::counters::{At, Dialect, Readings, Site};

use crate::error::LabError;

/// The counters of a run; nothing where none were counted.
///
/// # Errors
/// More intervals than a file holds.
pub fn readings(cluster: &Cluster, run: &Run) -> Result<Option<Readings>, LabError> {
    let Some(counters) = &run.counters else { return Ok(None) };
    Readings::new(counters, dialect(&cluster.parts), run.end.as_ps(), |place| site(cluster, place))
        .map(Some)
        .map_err(|many| LabError::refused(many.to_string(), "take a longer --every, or leave it out"))
}

/// The names that the adapters of a cluster have for what they count.
pub(crate) fn dialect(parts: &ResolvedCluster) -> Dialect {
    let interface = parts.groups.first().map_or(Interface::Verbs, |group| group.node.nic.interface);
    let alike = parts.groups.iter().all(|group| group.node.nic.interface == interface);
    match (if alike { interface } else { Interface::Verbs }, parts.link_layer.layer()) {
        (Interface::Cxi, _) => Dialect::Slingshot,
        (Interface::Efa, _) => Dialect::Efa,
        (Interface::Psm2, _) => Dialect::OmniPath,
        (_, Layer::InfiniBand) => Dialect::InfiniBand,
        (_, Layer::Ethernet) => Dialect::Roce,
    }
}

/// What a place of the run is called.
pub(crate) fn site(cluster: &Cluster, place: CounterPlace) -> Site {
    let graph = &cluster.fabric.graph;
    let adapter = |EndpointId(endpoint): EndpointId| {
        let found = cluster.parts.adapter_at(endpoint);
        let (group, node, nic) = found.unwrap_or((0, endpoint, 0));
        (format!("node {node}"), device(cluster.parts.groups[group].node.nic.interface, nic))
    };
    match place {
        CounterPlace::Adapter(endpoint) => {
            let (instance, device) = adapter(EndpointId(endpoint));
            let rate = graph.link(graph.uplink(EndpointId(endpoint))).rate.as_bps();
            Site { at: At::Adapter, instance, device, port: String::new(), rate }
        }
        CounterPlace::Port(link) => {
            let link = graph.link(LinkId(link));
            let rate = link.rate.as_bps();
            match graph.node(link.from) {
                Node::Endpoint(endpoint) => {
                    let (instance, device) = adapter(endpoint);
                    Site { at: At::AdapterPort, instance, device, port: "1".to_owned(), rate }
                }
                node => {
                    let port = link.from_port.0.to_string();
                    Site { at: At::SwitchPort, instance: cluster.fabric.name(node), device: String::new(), port, rate }
                }
            }
        }
    }
}
