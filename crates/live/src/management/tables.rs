//! Forwarding tables of switches, as a subnet manager reads and writes them: blocks of 64 ports by LID.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.2.5.6 (linear forwarding tables; 255 for no way).
//! Modelled: before anybody writes, tables hold the way that the routing of the cluster takes where all queues are empty, and the way with the
//! fewest hops to switches, which no routing has. What is written replaces the routing of the packets once it leads everywhere.
//! Not modelled: switches that follow one after the other while a manager writes.

use std::collections::BTreeMap;

use fabriscope_engine::Cluster;
use fabriscope_fabric::import::{Plug, Speed};
use fabriscope_fabric::{EndpointId, Head, Idle, LinkId, Route, Router, SwitchId, Tables};

/// What is plugged into a port, and at which speed.
pub(super) type Far = BTreeMap<Plug, (Plug, Option<Speed>)>;

const BLOCK: u16 = 64;
/// No way.
const NONE: u8 = 255;

/// The tables of all switches.
#[derive(Debug)]
pub(super) struct ForwardingTables {
    switches: u32,
    endpoints: u32,
    router: Option<Router>,
    /// By switch, a link that comes in.
    inputs: Vec<LinkId>,
    /// By link, the port that it leaves, counted from 1.
    ports: Vec<u16>,
    /// By a switch that is a destination, the ports that lead there.
    toward: BTreeMap<u32, Vec<u8>>,
    /// By switch and block.
    written: BTreeMap<(u32, u16), [u8; BLOCK as usize]>,
    /// Something was written that no packet follows yet.
    pub changed: bool,
}

impl ForwardingTables {
    pub fn new(cluster: &Cluster) -> ForwardingTables {
        let graph = &cluster.fabric.graph;
        let inputs = graph.switches().map(|at| graph.outputs(at).next().map_or(LinkId(0), |(_, out)| out.reverse())).collect();
        ForwardingTables {
            switches: graph.switch_count(),
            endpoints: graph.endpoint_count(),
            router: Router::new(&cluster.fabric, cluster.parts.routing).ok(),
            inputs,
            ports: graph.links().iter().map(|link| link.from_port.0 + 1).collect(),
            toward: BTreeMap::new(),
            written: BTreeMap::new(),
            changed: false,
        }
    }

    /// A block of the table of a switch; `devices` are those with a LID.
    pub fn block(&mut self, (switch, block): (u32, u16), devices: &BTreeMap<u16, u32>, far: &Far) -> [u8; BLOCK as usize] {
        if let Some(written) = self.written.get(&(switch, block)) {
            return *written;
        }
        let first = block.saturating_mul(BLOCK);
        let mut ports = [NONE; BLOCK as usize];
        for (port, lid) in ports.iter_mut().zip(first..) {
            if let Some(device) = devices.get(&lid) {
                *port = self.present(switch, *device, far);
            }
        }
        ports
    }

    pub fn write(&mut self, at: (u32, u16), ports: [u8; BLOCK as usize]) {
        self.changed |= self.written.insert(at, ports) != Some(ports);
    }

    /// The port by which a switch forwards to a device as long as nobody has written anything.
    fn present(&mut self, switch: u32, device: u32, far: &Far) -> u8 {
        if device == switch {
            return 0;
        }
        if device < self.switches {
            if !self.toward.contains_key(&device) {
                let ports = self.shortest(device, far);
                self.toward.insert(device, ports);
            }
            return self.toward[&device][switch as usize];
        }
        let Some(router) = &self.router else { return NONE };
        let head = Head { dest: EndpointId(device - self.switches), entropy: 0, input: self.inputs[switch as usize], vl: 0, via: 0 };
        let out = router.output(SwitchId(switch), head, &mut Idle::new()).link;
        self.ports.get(out.index()).and_then(|port| u8::try_from(*port).ok()).unwrap_or(NONE)
    }

    /// The first port of every switch on a way with the fewest hops to a switch.
    fn shortest(&self, to: u32, far: &Far) -> Vec<u8> {
        let mut ports = vec![NONE; self.switches as usize];
        let (mut open, mut next) = (vec![to], Vec::new());
        ports[to as usize] = 0;
        while !open.is_empty() {
            for device in open.drain(..) {
                let own = Plug { device, port: 0 }..=Plug { device, port: u16::MAX };
                for (_, (there, _)) in far.range(own) {
                    let known = ports.get(there.device as usize).is_none_or(|port| *port != NONE);
                    if let (false, Ok(port)) = (known, u8::try_from(there.port)) {
                        ports[there.device as usize] = port;
                        next.push(there.device);
                    }
                }
            }
            std::mem::swap(&mut open, &mut next);
        }
        ports
    }

    /// What the tables say of all endpoints, whose LIDs are these.
    pub fn whole(&mut self, lids: &BTreeMap<u16, u32>, far: &Far) -> Tables {
        let mut tables = Tables::new(self.switches, self.endpoints, 0);
        let endpoints: Vec<(u16, u32)> =
            lids.iter().filter(|(_, device)| **device >= self.switches).map(|(lid, device)| (*lid, *device)).collect();
        for switch in 0..self.switches {
            for (lid, device) in &endpoints {
                let (block, place) = (lid / BLOCK, usize::from(lid % BLOCK));
                let written = self.written.get(&(switch, block)).map(|ports| ports[place]);
                let port = written.unwrap_or_else(|| self.present(switch, *device, far));
                if port != NONE && port > 0 {
                    tables.set(SwitchId(switch), EndpointId(device - self.switches), 0, port - 1);
                }
            }
        }
        tables
    }
}
