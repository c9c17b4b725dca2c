//! From a subnet to a fabric that can be routed and simulated.
//!
//! Endpoints are the connected ports of hosts' adapters, ordered by host, adapter and port as people sort names,
//! after those that are to be the first ones; switches are ordered by level, then name. Aggregation nodes and routers are left out: nothing is sent to them. Cables run at
//! the rate that the file says, else at that of the cluster; their delay is that of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::subnet::{Kind, Plug, Subnet, natural};
use super::{Cable, ImportError};
use crate::graph::{Builder, Graph, LinkSpec, Node, PortId, Socket, Vertex};
use crate::topology::{Coordinates, Fabric, Irregular, Links, Managed};

/// Which device became what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wiring {
    /// Device and port behind each endpoint.
    pub endpoints: Vec<Plug>,
    /// Device behind each switch.
    pub switches: Vec<u32>,
}

impl Subnet {
    /// Which devices become endpoints and switches, in which order.
    pub fn wiring(&self) -> Wiring {
        let connected =
            |device: u32, cable: &Cable| cable.ends.iter().any(|end| self.device(*end).kind == Kind::Switch && end.device != device);
        let mut endpoints: Vec<Plug> = Vec::new();
        for cable in &self.cables {
            for end in cable.ends {
                // Two adapters on one cable have no switch between them: back to back, which is no fabric of switches.
                if self.device(end).kind == Kind::Adapter && connected(end.device, cable) {
                    endpoints.push(end);
                }
            }
        }
        endpoints.sort_by_cached_key(|plug| {
            let device = self.device(*plug);
            // Adapters that no host has named stay beside each other.
            (natural(device.first_word()), natural(device.adapter()), device.id.clone(), plug.port)
        });
        endpoints.dedup();
        if !self.first.is_empty() {
            let rank: BTreeMap<Plug, usize> = self.first.iter().enumerate().map(|(at, plug)| (*plug, at)).collect();
            endpoints.sort_by_key(|plug| rank.get(plug).copied().unwrap_or(usize::MAX));
        }
        let levels = self.levels();
        let mut switches: Vec<u32> = self.of_kind(Kind::Switch).map(|(index, _)| index).collect();
        switches.sort_by_cached_key(|&index| {
            let device = &self.devices[index as usize];
            // Those without a level come last.
            (levels[index as usize].unwrap_or(u32::MAX), natural(device.name()), device.id.clone())
        });
        Wiring { endpoints, switches }
    }

    /// The fabric of hosts and switches.
    ///
    /// # Errors
    /// No connected host; parts that cannot reach each other.
    pub fn fabric(&self, links: &Links) -> Result<Fabric, ImportError> {
        let wiring = self.wiring();
        if wiring.endpoints.is_empty() {
            return Err(ImportError::NoHosts);
        }
        let mut sockets: BTreeMap<Plug, Socket> = BTreeMap::new();
        for (number, plug) in wiring.endpoints.iter().enumerate() {
            sockets.insert(*plug, Socket::endpoint(number as u32));
        }
        let mut number = vec![None; self.devices.len()];
        wiring.switches.iter().enumerate().for_each(|(index, &device)| number[device as usize] = Some(index as u32));
        // Port p of the device is port p - 1 of the switch.
        let socket = |plug: Plug| match number[plug.device as usize] {
            Some(switch) => Some(Socket { node: Node::Switch(crate::SwitchId(switch)), port: PortId(plug.port - 1) }),
            None => sockets.get(&plug).copied(),
        };
        let ports = wiring.switches.iter().map(|&device| self.devices[device as usize].ports);
        let mut builder = Builder::new(wiring.endpoints.len() as u32, ports)?;
        for cable in &self.cables {
            let [Some(a), Some(b)] = cable.ends.map(socket) else { continue };
            let host = [a, b].iter().any(|socket| matches!(socket.node, Node::Endpoint(_)));
            let spec = if host { links.host } else { links.trunk };
            builder.cable(a, b, &LinkSpec { rate: cable.data_rate().unwrap_or(spec.rate), ..spec })?;
        }
        let graph = builder.build()?;
        let endpoint_name = |plug: &Plug| {
            let device = self.device(*plug);
            if device.ports > 1 { format!("{} port {}", device.name(), plug.port) } else { device.name().to_owned() }
        };
        let distinct = self.distinct_switch_names();
        let switch_name = |&device: &u32| distinct[device as usize].clone();
        if let Some((first, count)) = unreachable(&graph) {
            let name = |vertex| match graph.node(vertex) {
                Node::Endpoint(endpoint) => endpoint_name(&wiring.endpoints[endpoint.index()]),
                Node::Switch(switch) => switch_name(&wiring.switches[switch.index()]),
            };
            return Err(ImportError::Disconnected { name: name(first), others: count - 1, from: name(Vertex(0)) });
        }
        let endpoints = wiring.endpoints.iter().map(endpoint_name).collect();
        let mut irregular = Irregular::new(&graph, endpoints, wiring.switches.iter().map(switch_name).collect());
        // The file knows more than the graph: who is above whom, and what is one chassis.
        let levels = self.levels();
        irregular.levels = wiring.switches.iter().map(|&device| levels[device as usize]).collect();
        irregular.managed = self.managed(&wiring, &number).map(Arc::new);
        let radix = graph.switches().map(|switch| u32::from(graph.port_count(switch))).max().unwrap_or(0);
        Ok(Fabric { graph, coordinates: Coordinates::Irregular(irregular), radix })
    }
}

impl Subnet {
    /// What a subnet manager sees beside the graph, where all switches have GUIDs; `number` has those of switches by device.
    fn managed(&self, wiring: &Wiring, number: &[Option<u32>]) -> Option<Managed> {
        let guids = wiring.switches.iter().map(|&device| self.devices[device as usize].guid).collect::<Option<Vec<u64>>>()?;
        let services = self.cables.iter().flat_map(|cable| [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])]);
        let services = services.filter(|(end, _)| self.device(*end).kind == Kind::Aggregation);
        let at = |(_, switch): (Plug, Plug)| Some((crate::SwitchId(number[switch.device as usize]?), PortId(switch.port - 1)));
        let mut services: Vec<(crate::SwitchId, PortId)> = services.filter_map(at).collect();
        services.sort_unstable();
        services.dedup();
        Some(Managed { guids, services })
    }
}

/// The first vertex that endpoint 0 cannot reach, and how many there are.
fn unreachable(graph: &Graph) -> Option<(Vertex, u32)> {
    let mut seen = vec![false; (graph.endpoint_count() + graph.switch_count()) as usize];
    let mut open = vec![Vertex(0), graph.link(graph.uplink(crate::EndpointId(0))).to];
    while let Some(vertex) = open.pop() {
        if !std::mem::replace(&mut seen[vertex.index()], true)
            && let Node::Switch(switch) = graph.node(vertex)
        {
            open.extend(graph.outputs(switch).map(|(_, link)| graph.link(link).to).filter(|to| !seen[to.index()]));
        }
    }
    let first = seen.iter().position(|seen| !seen)?;
    Some((Vertex(first as u32), seen.iter().filter(|seen| !**seen).count() as u32))
}
