//! The network as a directed multigraph in flat arrays.
//!
//! Vertices are the endpoints (one per NIC port) and, after them, the switches. A cable is a pair of
//! directed links with the numbers 2k and 2k+1. The outgoing links of a switch lie side by side in port
//! order, so that `(switch, port) -> link` is one addition and one load. Memory is linear in ports.
//!
//! ```text
//!  vertex   0 … e-1      endpoints, one port each
//!           e … e+s-1    switches, any number of ports, some of them unused
//!  link     2k           from the first port given to `Builder::cable` to the second
//!           2k+1         back
//! ```
//!
//! Modelled: parallel cables, unused ports, a rate and a delay for each direction.
//! Not modelled: lanes of a link, endpoints with several ports (use one endpoint per NIC port).

use fabriscope_units::{Rate, Span};

use crate::length::Length;

/// Defines a number that points into one of the flat arrays.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);

        impl $name {
            /// The number as an index into a flat array.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A NIC port at the edge of the fabric, counted from 0.
    EndpointId, u32, "e"
);
id!(
    /// A switch, counted from 0.
    SwitchId, u32, "s"
);
id!(
    /// An endpoint or a switch: endpoints first, switches after them.
    Vertex, u32, "v"
);
id!(
    /// A port of one vertex, counted from 0.
    PortId, u16, "p"
);
id!(
    /// One direction of a cable.
    LinkId, u32, "l"
);

impl LinkId {
    /// The other direction of the same cable.
    #[inline]
    pub const fn reverse(self) -> LinkId {
        LinkId(self.0 ^ 1)
    }
    /// The number of the cable that this link is a direction of.
    #[inline]
    pub const fn cable(self) -> u32 {
        self.0 >> 1
    }
}

/// What a vertex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A NIC port.
    Endpoint(EndpointId),
    /// A switch.
    Switch(SwitchId),
}

/// One port of an endpoint or a switch: where a cable is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Socket {
    /// The endpoint or switch.
    pub node: Node,
    /// Its port.
    pub port: PortId,
}

impl Socket {
    /// The only port of an endpoint.
    pub const fn endpoint(endpoint: u32) -> Socket {
        Socket { node: Node::Endpoint(EndpointId(endpoint)), port: PortId(0) }
    }
    /// A port of a switch.
    pub const fn switch(switch: u32, port: u16) -> Socket {
        Socket { node: Node::Switch(SwitchId(switch)), port: PortId(port) }
    }
}

impl std::fmt::Display for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.node {
            Node::Endpoint(endpoint) => write!(f, "port {} of endpoint {}", self.port.0, endpoint.0),
            Node::Switch(switch) => write!(f, "port {} of switch {}", self.port.0, switch.0),
        }
    }
}

/// What a cable does to the packets on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Data rate of each direction.
    pub rate: Rate,
    /// From the last bit sent to the last bit seen on the other side: propagation and forward error correction.
    pub delay: Span,
    /// Length of the cable where known; it is shown in reports and does not add to `delay`.
    pub length: Option<Length>,
}

impl LinkSpec {
    /// A cable of unstated length.
    pub const fn new(rate: Rate, delay: Span) -> LinkSpec {
        LinkSpec { rate, delay, length: None }
    }
}

/// What becomes of the rate that a cable has when it is given another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRate {
    /// The new rate and delay stand in place of the old ones.
    Replace,
    /// The lower one counts, as between two ports that negotiate; the delay stays.
    Lower,
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it starts.
    pub from: Vertex,
    /// Where it ends.
    pub to: Vertex,
    /// The output port at `from`.
    pub from_port: PortId,
    /// The input port at `to`.
    pub to_port: PortId,
    /// Data rate.
    pub rate: Rate,
    /// Propagation and forward error correction.
    pub delay: Span,
}

/// Endpoints, switches, and the links between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    links: Vec<Link>,
    lengths: Vec<Option<Length>>,
    uplinks: Vec<LinkId>,
    first_port: Vec<u32>,
    outputs: Vec<LinkId>,
}

impl Graph {
    /// How many endpoints there are.
    #[inline]
    pub fn endpoint_count(&self) -> u32 {
        self.uplinks.len() as u32
    }
    /// How many switches there are.
    #[inline]
    pub fn switch_count(&self) -> u32 {
        self.first_port.len() as u32 - 1
    }
    /// How many directed links there are: two per cable.
    #[inline]
    pub fn link_count(&self) -> u32 {
        self.links.len() as u32
    }
    /// How many cables there are.
    #[inline]
    pub fn cable_count(&self) -> u32 {
        self.lengths.len() as u32
    }
    /// All endpoints in order.
    pub fn endpoints(&self) -> impl DoubleEndedIterator<Item = EndpointId> + ExactSizeIterator + use<> {
        (0..self.endpoint_count()).map(EndpointId)
    }
    /// All switches in order.
    pub fn switches(&self) -> impl DoubleEndedIterator<Item = SwitchId> + ExactSizeIterator + use<> {
        (0..self.switch_count()).map(SwitchId)
    }
    /// All directed links in the order of their numbers.
    #[inline]
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// One directed link.
    #[inline]
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }
    /// Length of the cable that `link` is a direction of, where known.
    pub fn length(&self, link: LinkId) -> Option<Length> {
        self.lengths[link.cable() as usize]
    }
    /// The link from an endpoint into the fabric; its reverse is the link that delivers to the endpoint.
    #[inline]
    pub fn uplink(&self, endpoint: EndpointId) -> LinkId {
        self.uplinks[endpoint.index()]
    }
    /// Gives the cable of an endpoint another rate and delay, in both directions.
    pub fn set_uplink(&mut self, endpoint: EndpointId, spec: LinkSpec, how: SetRate) {
        let uplink = self.uplink(endpoint);
        for link in [uplink, uplink.reverse()] {
            let link = &mut self.links[link.index()];
            match how {
                SetRate::Replace => (link.rate, link.delay) = (spec.rate, spec.delay),
                SetRate::Lower => link.rate = link.rate.min(spec.rate),
            }
        }
    }
    /// How many ports a switch has, used or not.
    #[inline]
    pub fn port_count(&self, switch: SwitchId) -> u16 {
        (self.first_port[switch.index() + 1] - self.first_port[switch.index()]) as u16
    }
    /// The link that leaves a switch by a port; `None` where nothing is plugged in or there is no such port.
    #[inline]
    pub fn out_link(&self, switch: SwitchId, port: PortId) -> Option<LinkId> {
        let slot = self.first_port[switch.index()] + u32::from(port.0);
        let link = if slot < self.first_port[switch.index() + 1] { self.outputs[slot as usize] } else { UNUSED };
        (link != UNUSED).then_some(link)
    }
    /// All ports of a switch with their outgoing links, unused ones left out.
    pub fn outputs(&self, switch: SwitchId) -> impl DoubleEndedIterator<Item = (PortId, LinkId)> + '_ {
        let slots = self.first_port[switch.index()] as usize..self.first_port[switch.index() + 1] as usize;
        let used = |(port, &link): (usize, &LinkId)| (link != UNUSED).then_some((PortId(port as u16), link));
        self.outputs[slots].iter().enumerate().filter_map(used)
    }
    /// Whether a vertex is an endpoint or a switch.
    #[inline]
    pub fn node(&self, vertex: Vertex) -> Node {
        let endpoints = self.endpoint_count();
        if vertex.0 < endpoints { Node::Endpoint(EndpointId(vertex.0)) } else { Node::Switch(SwitchId(vertex.0 - endpoints)) }
    }
    /// The vertex of an endpoint or a switch.
    #[inline]
    pub fn vertex(&self, node: Node) -> Vertex {
        match node {
            Node::Endpoint(endpoint) => Vertex(endpoint.0),
            Node::Switch(switch) => Vertex(self.endpoint_count() + switch.0),
        }
    }
}

/// Why cables and switches do not make a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum GraphError {
    /// The endpoint or switch does not exist.
    #[error("there is no {socket}: the fabric has {endpoints} endpoints and {switches} switches")]
    #[diagnostic(help("numbers start at 0"))]
    NoSuchNode {
        /// The socket named.
        socket: Socket,
        /// Endpoints there are.
        endpoints: u32,
        /// Switches there are.
        switches: u32,
    },
    /// The switch has fewer ports.
    #[error("there is no {socket}: it has {ports} ports, numbered from 0")]
    #[diagnostic(help("use a switch with more ports or fewer cables"))]
    NoSuchPort {
        /// The socket named.
        socket: Socket,
        /// Ports it has.
        ports: u16,
    },
    /// Two cables in one port.
    #[error("{socket} has two cables")]
    #[diagnostic(help("move one of them to another port"))]
    PortUsedTwice {
        /// The socket with two cables.
        socket: Socket,
    },
    /// A cable from a socket to itself.
    #[error("a cable leads from {socket} to itself")]
    #[diagnostic(help("name two different ports"))]
    Loop {
        /// The socket.
        socket: Socket,
    },
    /// A link without a rate.
    #[error("the cable from {from} to {to} has rate 0 b/s")]
    #[diagnostic(help("give it a rate, for example \"400 Gb/s\""))]
    ZeroRate {
        /// One side of the cable.
        from: Socket,
        /// The other side.
        to: Socket,
    },
    /// More ports than this version numbers.
    #[error("the fabric has more than {MOST_PORTS} endpoints or switch ports")]
    #[diagnostic(help("make it smaller"))]
    TooLarge,
    /// An endpoint without a cable.
    #[error("endpoint {endpoint} has no cable")]
    #[diagnostic(help("connect it or lower the number of endpoints"))]
    Unconnected {
        /// The endpoint.
        endpoint: u32,
    },
}

/// Collects cables and checks each of them.
#[derive(Clone, Debug)]
pub struct Builder {
    graph: Graph,
}

impl Builder {
    /// A graph of `endpoints` endpoints and one switch for each item of `ports`, the number of its ports.
    ///
    /// # Errors
    /// More ports in total than can be numbered.
    pub fn new(endpoints: u32, ports: impl IntoIterator<Item = u16>) -> Result<Builder, GraphError> {
        let mut first_port = vec![0];
        let mut total = 0u32;
        for count in ports {
            total = total.checked_add(u32::from(count)).filter(|&total| total <= MOST_PORTS).ok_or(GraphError::TooLarge)?;
            first_port.push(total);
        }
        if endpoints > MOST_PORTS {
            return Err(GraphError::TooLarge);
        }
        let outputs = vec![UNUSED; total as usize];
        let uplinks = vec![UNUSED; endpoints as usize];
        Ok(Builder { graph: Graph { links: Vec::new(), lengths: Vec::new(), uplinks, first_port, outputs } })
    }

    /// Makes room for `cables` more cables.
    pub fn reserve(&mut self, cables: u32) {
        self.graph.links.reserve_exact(2 * cables as usize);
        self.graph.lengths.reserve_exact(cables as usize);
    }

    /// Plugs a cable into two sockets; the link returned leads from `from` to `to`.
    ///
    /// # Errors
    /// A socket that does not exist or is taken, a cable from a socket to itself, a rate of zero.
    pub fn cable(&mut self, from: Socket, to: Socket, spec: &LinkSpec) -> Result<LinkId, GraphError> {
        if from == to {
            return Err(GraphError::Loop { socket: from });
        }
        if spec.rate.as_bps() == 0 {
            return Err(GraphError::ZeroRate { from, to });
        }
        for socket in [from, to] {
            if *self.slot(socket)? != UNUSED {
                return Err(GraphError::PortUsedTwice { socket });
            }
        }
        let link = LinkId(self.graph.link_count());
        *self.slot(from)? = link;
        *self.slot(to)? = link.reverse();
        let (start, end) = (self.graph.vertex(from.node), self.graph.vertex(to.node));
        let LinkSpec { rate, delay, length } = *spec;
        self.graph.links.push(Link { from: start, to: end, from_port: from.port, to_port: to.port, rate, delay });
        self.graph.links.push(Link { from: end, to: start, from_port: to.port, to_port: from.port, rate, delay });
        self.graph.lengths.push(length);
        Ok(link)
    }

    /// The finished graph.
    ///
    /// # Errors
    /// An endpoint without a cable.
    pub fn build(self) -> Result<Graph, GraphError> {
        match self.graph.uplinks.iter().position(|&link| link == UNUSED) {
            Some(endpoint) => Err(GraphError::Unconnected { endpoint: endpoint as u32 }),
            None => Ok(self.graph),
        }
    }

    fn slot(&mut self, socket: Socket) -> Result<&mut LinkId, GraphError> {
        let graph = &mut self.graph;
        let (endpoints, switches) = (graph.endpoint_count(), graph.switch_count());
        match socket.node {
            Node::Endpoint(endpoint) if endpoint.0 < endpoints => match socket.port {
                PortId(0) => Ok(&mut graph.uplinks[endpoint.index()]),
                _ => Err(GraphError::NoSuchPort { socket, ports: 1 }),
            },
            Node::Switch(switch) if switch.0 < switches => {
                let ports = graph.port_count(switch);
                if socket.port.0 >= ports {
                    return Err(GraphError::NoSuchPort { socket, ports });
                }
                let slot = graph.first_port[switch.index()] as usize + socket.port.index();
                Ok(&mut graph.outputs[slot])
            }
            _ => Err(GraphError::NoSuchNode { socket, endpoints, switches }),
        }
    }
}

/// Endpoints and switch ports there may be: a bound against slips of the pen, about 600 MB of links, fifteen times the largest machine (assumed).
pub(crate) const MOST_PORTS: u32 = 1 << 24;
/// Marks a port without a cable.
const UNUSED: LinkId = LinkId(u32::MAX);

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    const SPEC: LinkSpec = LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10));

    fn pair() -> Builder {
        Builder::new(2, [4, 2]).unwrap()
    }

    #[test]
    fn two_switches_with_two_parallel_cables() {
        let mut builder = pair();
        builder.cable(Socket::endpoint(0), Socket::switch(0, 0), &SPEC).unwrap();
        builder.cable(Socket::endpoint(1), Socket::switch(0, 3), &SPEC).unwrap();
        let first = builder.cable(Socket::switch(0, 1), Socket::switch(1, 0), &SPEC).unwrap();
        let second = builder.cable(Socket::switch(0, 2), Socket::switch(1, 1), &SPEC).unwrap();
        let graph = builder.build().unwrap();

        assert_eq!((graph.endpoint_count(), graph.switch_count(), graph.cable_count(), graph.link_count()), (2, 2, 4, 8));
        assert_eq!(graph.uplink(EndpointId(1)), LinkId(2));
        assert_eq!(graph.out_link(SwitchId(0), PortId(3)), Some(LinkId(3)));
        assert_eq!(graph.out_link(SwitchId(1), PortId(1)), Some(second.reverse()));
        assert_eq!(graph.node(graph.link(first).to), Node::Switch(SwitchId(1)));
        assert_eq!(graph.link(first).to, graph.link(second).to);
        assert_ne!(graph.link(first).to_port, graph.link(second).to_port);
        let back = graph.link(first.reverse());
        assert_eq!((back.from, back.to_port), (graph.link(first).to, PortId(1)));
    }

    #[test]
    fn an_unused_port_has_no_link() {
        let mut builder = Builder::new(1, [3]).unwrap();
        builder.cable(Socket::endpoint(0), Socket::switch(0, 1), &SPEC).unwrap();
        let graph = builder.build().unwrap();
        assert_eq!(graph.out_link(SwitchId(0), PortId(0)), None);
        assert_eq!(graph.outputs(SwitchId(0)).collect::<Vec<_>>(), [(PortId(1), LinkId(1))]);
        assert_eq!(graph.port_count(SwitchId(0)), 3);
        assert_eq!(graph.out_link(SwitchId(0), PortId(3)), None);
    }

    #[test]
    fn more_ports_than_numbers_are_refused() {
        assert_eq!(Builder::new(1, std::iter::repeat_n(u16::MAX, 1 << 17)).unwrap_err(), GraphError::TooLarge);
        assert_eq!(Builder::new(u32::MAX, []).unwrap_err(), GraphError::TooLarge);
    }

    #[test]
    fn wrong_cables_are_refused_and_leave_no_trace() {
        let mut builder = pair();
        builder.cable(Socket::endpoint(0), Socket::switch(0, 0), &SPEC).unwrap();
        let twice = builder.cable(Socket::endpoint(1), Socket::switch(0, 0), &SPEC).unwrap_err();
        assert_eq!(twice, GraphError::PortUsedTwice { socket: Socket::switch(0, 0) });
        let port = builder.cable(Socket::endpoint(1), Socket::switch(1, 2), &SPEC).unwrap_err();
        assert!(port.to_string().contains("it has 2 ports"), "{port}");
        assert!(builder.cable(Socket::endpoint(2), Socket::switch(1, 0), &SPEC).unwrap_err().in_full().contains("2 endpoints"));
        assert!(matches!(builder.cable(Socket::switch(1, 0), Socket::switch(1, 0), &SPEC), Err(GraphError::Loop { .. })));
        let dead = LinkSpec { rate: Rate::from_bps(0), ..SPEC };
        assert!(matches!(builder.cable(Socket::endpoint(1), Socket::switch(1, 0), &dead), Err(GraphError::ZeroRate { .. })));
        assert_eq!(builder.clone().build().unwrap_err(), GraphError::Unconnected { endpoint: 1 });
        assert_eq!(builder.cable(Socket::endpoint(1), Socket::switch(1, 0), &SPEC), Ok(LinkId(2)));
        assert!(builder.build().is_ok());
    }

    #[test]
    fn a_link_fits_half_a_cache_line() {
        assert_eq!(size_of::<Link>(), 32);
    }
}
