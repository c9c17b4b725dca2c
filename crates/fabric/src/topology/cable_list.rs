//! Any multigraph, written down cable by cable.
//!
//! ```toml
//! [topology.irregular]
//! endpoints = ["a", "b", "c"]
//! switches = [{ name = "left", ports = 8 }, { name = "right" }]
//! cables = [
//!     { between = ["a", "left:1"] },                   # port 1, as printed on the switch
//!     { between = ["b", "left"] },                     # the next free port
//!     { between = ["c", "right"], rate = "100 Gb/s" },
//!     { between = ["left", "right"], count = 2, length = "5 m" },
//! ]
//! ```
//!
//! Modelled: parallel cables, cables with a rate of their own, switches of different sizes.
//! Not modelled: the delay of a cable by its length (cables take the delay of their kind in the cluster).

use std::collections::BTreeMap;

use fabriscope_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Coordinates, Fabric, Family, Irregular, Links, TopologyError};
use crate::graph::{Builder, LinkSpec, Node, Socket};
use crate::length::Length;

/// Endpoints, switches and cables one by one: any network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CableList {
    /// Names of the endpoints, each a NIC port, in the order of their numbers.
    pub endpoints: Vec<String>,
    /// The switches.
    pub switches: Vec<NamedSwitch>,
    /// The cables.
    pub cables: Vec<NamedCable>,
}

/// A switch of a [`CableList`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSwitch {
    /// What it is called.
    pub name: String,
    /// How many of its ports may be used. Default: all that the switch has.
    #[serde(default)]
    pub ports: Option<u16>,
}

/// A cable of a [`CableList`], or several alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedCable {
    /// The two ends: `"name"` for the next free port, `"name:3"` for port 3, counted from 1.
    pub between: [String; 2],
    /// How many parallel cables. Default: 1.
    #[serde(default)]
    pub count: Option<u16>,
    /// Data rate. Default: that of the cluster.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Length, shown in reports.
    #[serde(default)]
    pub length: Option<Length>,
}

/// Why a list of cables makes no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum CableError {
    /// Nobody has this name.
    #[error("a cable ends at `{name}`, which is neither an endpoint nor a switch")]
    #[diagnostic(help("write one of {known}"))]
    Unknown {
        /// The name.
        name: String,
        /// Names there are, the first few.
        known: String,
    },
    /// Two have one name.
    #[error("`{name}` is the name of two endpoints or switches")]
    #[diagnostic(help("give one of them another name"))]
    NamedTwice {
        /// The name.
        name: String,
    },
    /// A name that could not be told from a port.
    #[error("`{name}` is no name of an endpoint or a switch")]
    #[diagnostic(help("write at least one character, without `:`"))]
    Name {
        /// The name.
        name: String,
    },
    /// No number of a port.
    #[error("`{end}` names no port of `{name}`")]
    #[diagnostic(help("write a port from 1 to {ports}, or the name alone for the next free one"))]
    Port {
        /// The end of the cable.
        end: String,
        /// Whose port.
        name: String,
        /// Ports there are.
        ports: u16,
    },
    /// Two cables in one port.
    #[error("port {port} of `{name}` has two cables")]
    #[diagnostic(help("move one of them, or name the switch alone for the next free port"))]
    PortUsedTwice {
        /// The port, counted from 1.
        port: u16,
        /// Whose.
        name: String,
    },
    /// More cables than ports.
    #[error("`{name}` has more cables than its {ports} ports")]
    #[diagnostic(help("remove cables, or raise its `ports`"))]
    Full {
        /// The switch or endpoint.
        name: String,
        /// Its ports.
        ports: u16,
    },
    /// A switch that has fewer ports.
    #[error("`{name}` is given {ports} ports, but the switch of the cluster has {limit}")]
    #[diagnostic(help("lower `ports` or choose a larger switch"))]
    Radix {
        /// The switch.
        name: String,
        /// Ports asked for.
        ports: u16,
        /// Ports there are.
        limit: u32,
    },
    /// Both ends of several cables at one port each.
    #[error("{count} parallel cables cannot share the port `{end}`")]
    #[diagnostic(help("name the switch alone, or write the cables one by one"))]
    Parallel {
        /// Cables.
        count: u16,
        /// The end.
        end: String,
    },
    /// An endpoint that nothing leads to.
    #[error("nothing leads from `{from}` to `{to}`")]
    #[diagnostic(help("add the missing cable"))]
    Disconnected {
        /// One part.
        from: String,
        /// Another part.
        to: String,
    },
}

impl Family for CableList {
    fn build(&self, links: &Links, radix_limit: u32) -> Result<Fabric, TopologyError> {
        if self.endpoints.is_empty() {
            return Err(TopologyError::Empty);
        }
        let names = self.names()?;
        let ports = self.switches.iter().map(|switch| ports_of(switch, radix_limit)).collect::<Result<Vec<u16>, _>>()?;
        let mut panel = Panel::new(self, &ports, &names);
        // Ports that are named come first: a free port is one that no cable names.
        let cables = self.cables.iter().map(|cable| panel.named(cable)).collect::<Result<Vec<_>, CableError>>()?;
        let mut builder = Builder::new(self.endpoints.len() as u32, ports.iter().copied())?;
        for (cable, (from, to)) in self.cables.iter().zip(cables) {
            for _ in 0..cable.count.unwrap_or(1) {
                let (from, to) = (panel.socket(from)?, panel.socket(to)?);
                let is_host = [from, to].iter().any(|socket| matches!(socket.node, Node::Endpoint(_)));
                let kind = if is_host { links.host } else { links.trunk };
                builder.cable(
                    from,
                    to,
                    &LinkSpec { rate: cable.rate.unwrap_or(kind.rate), length: cable.length.or(kind.length), ..kind },
                )?;
            }
        }
        let graph = builder.build()?;
        let switches = self.switches.iter().map(|switch| switch.name.clone()).collect();
        let irregular = Irregular::new(&graph, self.endpoints.clone(), switches);
        let radix = ports.iter().copied().max().unwrap_or(0).into();
        let fabric = Fabric { graph, coordinates: Coordinates::Irregular(irregular), radix };
        match super::conforms(&fabric) {
            Err(super::Defect::Unreachable { node }) => {
                Err(CableError::Disconnected { from: self.endpoints[0].clone(), to: fabric.name(node) }.into())
            }
            _ => Ok(fabric),
        }
    }
}

impl CableList {
    /// Who has which name.
    fn names(&self) -> Result<BTreeMap<&str, Node>, CableError> {
        let endpoints = self.endpoints.iter().zip(0..).map(|(name, number)| (name, Node::Endpoint(crate::EndpointId(number))));
        let switches = self.switches.iter().zip(0..).map(|(switch, number)| (&switch.name, Node::Switch(crate::SwitchId(number))));
        let mut names = BTreeMap::new();
        for (name, node) in endpoints.chain(switches) {
            if name.is_empty() || name.contains(':') {
                return Err(CableError::Name { name: name.clone() });
            }
            if names.insert(name.as_str(), node).is_some() {
                return Err(CableError::NamedTwice { name: name.clone() });
            }
        }
        Ok(names)
    }
}

fn ports_of(switch: &NamedSwitch, limit: u32) -> Result<u16, CableError> {
    let most = u16::try_from(limit).unwrap_or(u16::MAX);
    match switch.ports {
        Some(ports) if ports > most => Err(CableError::Radix { name: switch.name.clone(), ports, limit }),
        ports => Ok(ports.unwrap_or(most)),
    }
}

/// One end of a cable.
#[derive(Clone, Copy)]
enum CableEnd {
    /// A port with a number.
    Port(Socket),
    /// The next free one.
    Next(Node),
}

/// Which ports are taken.
struct Panel<'a> {
    list: &'a CableList,
    names: &'a BTreeMap<&'a str, Node>,
    /// By switch, then port.
    taken: Vec<Vec<bool>>,
    endpoints: Vec<bool>,
}

impl<'a> Panel<'a> {
    fn new(list: &'a CableList, ports: &[u16], names: &'a BTreeMap<&'a str, Node>) -> Panel<'a> {
        let taken = ports.iter().map(|&ports| vec![false; ports.into()]).collect();
        Panel { list, names, taken, endpoints: vec![false; list.endpoints.len()] }
    }

    fn named(&mut self, cable: &NamedCable) -> Result<(CableEnd, CableEnd), CableError> {
        let ends = [self.end(cable, &cable.between[0])?, self.end(cable, &cable.between[1])?];
        for end in ends {
            if let CableEnd::Port(socket) = end {
                self.take(socket)?;
            }
        }
        Ok((ends[0], ends[1]))
    }

    fn end(&self, cable: &NamedCable, text: &str) -> Result<CableEnd, CableError> {
        let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        let node = *self.names.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names.keys().take(SHOWN).copied().collect();
            let more = if self.names.len() > SHOWN { ", ..." } else { "" };
            CableError::Unknown { name: name.to_owned(), known: format!("{}{more}", known.join(", ")) }
        })?;
        let Some(port) = port else { return Ok(CableEnd::Next(node)) };
        let ports = self.ports(node);
        match port.parse::<u16>() {
            Ok(_) if cable.count.unwrap_or(1) > 1 => Err(CableError::Parallel { count: cable.count.unwrap_or(1), end: text.to_owned() }),
            Ok(port) if port >= 1 && port <= ports => Ok(CableEnd::Port(Socket { node, port: crate::PortId(port - 1) })),
            _ => Err(CableError::Port { end: text.to_owned(), name: name.to_owned(), ports }),
        }
    }

    fn socket(&mut self, end: CableEnd) -> Result<Socket, CableError> {
        match end {
            CableEnd::Port(socket) => Ok(socket),
            CableEnd::Next(node) => {
                let free = match node {
                    Node::Endpoint(endpoint) => (!self.endpoints[endpoint.index()]).then_some(0),
                    Node::Switch(switch) => self.taken[switch.index()].iter().position(|taken| !taken),
                };
                let free = free.ok_or_else(|| CableError::Full { name: self.name(node), ports: self.ports(node) })?;
                let socket = Socket { node, port: crate::PortId(free as u16) };
                self.take(socket).map(|()| socket)
            }
        }
    }

    fn take(&mut self, socket: Socket) -> Result<(), CableError> {
        let taken = match socket.node {
            Node::Endpoint(endpoint) => &mut self.endpoints[endpoint.index()],
            Node::Switch(switch) => &mut self.taken[switch.index()][socket.port.index()],
        };
        match std::mem::replace(taken, true) {
            true => Err(CableError::PortUsedTwice { port: socket.port.0 + 1, name: self.name(socket.node) }),
            false => Ok(()),
        }
    }
    fn ports(&self, node: Node) -> u16 {
        match node {
            Node::Endpoint(_) => 1,
            Node::Switch(switch) => self.taken[switch.index()].len() as u16,
        }
    }
    fn name(&self, node: Node) -> String {
        match node {
            Node::Endpoint(endpoint) => self.list.endpoints[endpoint.index()].clone(),
            Node::Switch(switch) => self.list.switches[switch.index()].name.clone(),
        }
    }
}

/// Names that an error lists.
const SHOWN: usize = 8;
