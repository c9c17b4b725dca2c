//! The devices of a fabric that was built here, as tools would find them.
//!
//! GUIDs are locally administered (the second bit of the first byte is set), so that they meet no real ones; LIDs count
//! from 1, switches first, as long as there are unicast LIDs.

use crate::graph::{Node, Vertex};
use crate::import::{Cable, Device, Kind, Plug, Speed, Subnet};
use crate::topology::{Coordinates, Fabric};

/// The subnet of `fabric`: switch *s* is device *s*, endpoint *e* comes after the switches.
///
/// Ports count from 1, as tools count them. Cables get the width and speed whose data rate they have.
pub fn subnet(fabric: &Fabric) -> Subnet {
    let graph = &fabric.graph;
    let switches = graph.switch_count();
    let digits = graph.endpoint_count().saturating_sub(1).to_string().len().max(2);
    let named = matches!(fabric.coordinates, Coordinates::Irregular(_));
    let lid = |number: u32| u16::try_from(number).ok().filter(|&lid| lid <= LAST_UNICAST);
    let device = |(index, node): (u32, Node)| {
        let name = fabric.name(node);
        let (kind, ports, description) = match node {
            Node::Switch(switch) => (Kind::Switch, graph.port_count(switch), if named { name } else { name.replace(' ', "-") }),
            Node::Endpoint(endpoint) if named => (Kind::Adapter, 1, fabric.name(Node::Endpoint(endpoint))),
            Node::Endpoint(endpoint) => (Kind::Adapter, 1, format!("host{:0digits$} HCA-1", endpoint.0)),
        };
        let guid = match kind {
            Kind::Switch => FIRST_SWITCH + u64::from(index),
            _ => FIRST_ADAPTER + u64::from(index - switches),
        };
        let letter = if kind == Kind::Switch { 'S' } else { 'H' };
        Device {
            id: format!("{letter}-{guid:016x}"),
            guid: Some(guid),
            kind,
            description,
            ports,
            lid: lid(index + 1),
            system: None,
            line: 0,
        }
    };
    let nodes = graph.switches().map(Node::Switch).chain(graph.endpoints().map(Node::Endpoint));
    let devices = nodes.enumerate().map(|(index, node)| device((index as u32, node))).collect();
    let plug = |vertex: Vertex, port: u16| match graph.node(vertex) {
        Node::Switch(switch) => Plug { device: switch.0, port: port + 1 },
        Node::Endpoint(endpoint) => Plug { device: switches + endpoint.0, port: port + 1 },
    };
    let cable = |link: &crate::Link| {
        let (a, b) = (plug(link.from, link.from_port.0), plug(link.to, link.to_port.0));
        let speed = Speed::of_rate(link.rate);
        let rate = if speed.is_some() { None } else { Some(link.rate) };
        Cable { ends: [a.min(b), a.max(b)], speed, rate, seen_twice: true, line: 0 }
    };
    Subnet { devices, cables: graph.links().iter().step_by(2).map(cable).collect(), ..Subnet::default() }
}

/// The first GUIDs given.
pub(super) const FIRST_SWITCH: u64 = 0x0200_0000_0010_0000;
pub(super) const FIRST_ADAPTER: u64 = 0x0200_0000_1000_0000;
/// The last unicast LID (InfiniBand Architecture Specification vol. 1, §4.1.3).
const LAST_UNICAST: u16 = 0xBFFF;
