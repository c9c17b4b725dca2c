//! The sweep itself: packets, agents and the manager as events.
//!
//! The manager has at most `window` datagrams in flight. A packet occupies each link for its length, goes before all data and waits for no
//! credits. A switch on a directed route stores the packet and passes it on through its agent; one routed by address goes through the
//! crossbar. An agent serves one packet after the other and holds `buffer` of them; what comes then is dropped. The manager sends a
//! datagram again when no answer has come in `timeout`, `retries` times; it handles answers one after the other. What an answer says
//! leads to the next questions: a node that is new is asked for its ports, a port that is up for its neighbour. So with *n* datagrams
//! that each take a round trip *r*, a window *w* and *h* for an answer, a stage takes about *n* max(*r*/*w*, *h*).

use std::collections::VecDeque;
use std::rc::Rc;

use fabriscope_fabric::{EndpointId, Graph, LinkId, Node, Vertex};
use fabriscope_kernel::EventQueue;
use fabriscope_units::{Bytes, Span, Time};

use crate::mad::{Attribute, Mad, Method, WIRE_BYTES};
use crate::plan::{Costs, Routed, SweepKind, datagrams, stages};
use crate::report::{Stage, StageTime, SweepReport};

/// A subnet and its manager.
#[derive(Debug, Clone, Copy)]
pub struct Subnet<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// Port to port of each switch; of all of them where there is one value.
    pub latencies: &'a [Span],
    /// The endpoint on which the manager runs.
    pub manager: EndpointId,
    /// Whether tables of service levels are set.
    pub service_levels: bool,
    /// How packets find nodes that are known.
    pub routed: Routed,
}

/// What happens.
#[derive(Debug, Clone, Copy, Default)]
enum Event {
    /// The stage goes on: routes are computed.
    #[default]
    Computed,
    /// The head of a packet is at a node.
    Head(Packet),
    /// A packet is whole at an agent.
    AtAgent(Packet),
    /// The agent has served it.
    Served(Packet),
    /// An answer is whole at the manager's adapter.
    Answered(u32),
    /// The manager has handled it.
    Handled(u32),
    /// No answer has come to the attempt of that number.
    TimedOut(u32, u32),
}

/// A packet on its way: after so many links of its route.
#[derive(Debug, Clone, Copy, Default)]
struct Packet {
    datagram: u32,
    hop: u32,
    answer: bool,
}

/// A datagram that was sent.
#[derive(Debug)]
struct Flight {
    mad: Mad,
    route: Rc<[LinkId]>,
    routed: Routed,
    attempts: u32,
    sent: Time,
    answered: bool,
}

/// An agent: of a switch or an adapter.
#[derive(Debug, Clone, Copy, Default)]
struct Agent {
    free: Time,
    holds: u32,
}

struct World<'a> {
    subnet: Subnet<'a>,
    costs: Costs,
    queue: EventQueue<Event>,
    /// Until when each link is occupied, and what it has carried.
    links: Vec<(Time, Bytes)>,
    agents: Vec<Agent>,
    /// The way to each node that is known.
    routes: Vec<Option<Rc<[LinkId]>>>,
    known: Vec<Vertex>,
    flights: Vec<Flight>,
    waiting: VecDeque<Mad>,
    in_flight: u32,
    manager_free: Time,
    report: SweepReport,
}

/// A sweep from its first packet until the last answer is handled.
#[must_use]
pub fn sweep(subnet: Subnet<'_>, costs: &Costs, kind: SweepKind) -> SweepReport {
    let graph = subnet.graph;
    let vertices = (graph.endpoint_count() + graph.switch_count()) as usize;
    let mut world = World {
        subnet,
        costs: Costs { window: costs.window.max(1), buffer: costs.buffer.max(1), ..*costs },
        queue: EventQueue::new(Span::from_ns(100), 1 << 12),
        links: vec![(Time::ZERO, Bytes::ZERO); graph.links().len()],
        agents: vec![Agent::default(); vertices],
        routes: vec![None; vertices],
        known: Vec::new(),
        flights: Vec::new(),
        waiting: VecDeque::new(),
        in_flight: 0,
        manager_free: Time::ZERO,
        report: SweepReport::default(),
    };
    let Some(own) = (subnet.manager.0 < graph.endpoint_count()).then(|| graph.vertex(Node::Endpoint(subnet.manager))) else {
        return world.report;
    };
    world.routes[own.index()] = Some(Rc::from([]));
    world.waiting.push_back(Mad::to(Method::Get, Attribute::NodeInfo, own, 0));
    world.stage(Stage::Discovery);
    for stage in stages(kind, subnet.service_levels) {
        if stage == Stage::Computing {
            world.queue.push(world.queue.now() + world.costs.computing, Event::Computed);
        }
        world.waiting.extend(datagrams(stage, kind, graph, &world.known));
        world.stage(stage);
    }
    world.finish()
}

impl World<'_> {
    /// Runs until all that waits is answered, or given up.
    fn stage(&mut self, stage: Stage) {
        let (begun, before) = (self.queue.now(), self.report.total());
        // Late timeouts of datagrams that were answered count for nothing.
        let mut over = begun;
        self.fill();
        while self.in_flight > 0 || stage == Stage::Computing {
            let Some((now, event)) = self.queue.pop() else { break };
            over = now;
            self.handle(now, event);
            if matches!(event, Event::Computed) {
                break;
            }
        }
        self.report.stages.push(StageTime { stage, took: over.since(begun), mads: self.report.total() - before });
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Computed => {}
            Event::Head(packet) => self.head(now, packet),
            Event::AtAgent(packet) => self.at_agent(now, packet),
            Event::Served(packet) => {
                let at = self.place(packet);
                self.agents[at.index()].holds -= 1;
                let flight = &self.flights[packet.datagram as usize];
                let turns = !packet.answer && packet.hop as usize == flight.route.len();
                self.forward(now, if turns { Packet { hop: 0, answer: true, ..packet } } else { packet });
            }
            Event::Answered(datagram) => {
                let flight = &mut self.flights[datagram as usize];
                // An answer to an attempt before the last one: the datagram is answered all the same, and once.
                if flight.answered {
                    return;
                }
                flight.answered = true;
                self.report.answers += 1;
                self.report.waiting += now.since(flight.sent);
                self.report.handling += self.costs.handling;
                self.manager_free = self.manager_free.max(now) + self.costs.handling;
                self.queue.push(self.manager_free, Event::Handled(datagram));
            }
            Event::Handled(datagram) => {
                self.in_flight -= 1;
                self.learn(datagram);
                self.fill();
            }
            Event::TimedOut(datagram, attempt) => {
                let flight = &mut self.flights[datagram as usize];
                if flight.answered || flight.attempts != attempt {
                    return;
                }
                if flight.attempts > self.costs.retries {
                    flight.answered = true;
                    self.report.unanswered += 1;
                    self.in_flight -= 1;
                    self.fill();
                } else {
                    self.report.retries += 1;
                    self.send(now, datagram);
                }
            }
        }
    }

    /// Sends what the window has room for.
    fn fill(&mut self) {
        while self.in_flight < self.costs.window {
            let Some(mad) = self.waiting.pop_front() else { return };
            *self.report.mads.entry((mad.attribute, mad.method)).or_default() += 1;
            let route = self.routes[mad.known.index()].clone().unwrap_or_default();
            let (route, routed) = match mad.beyond {
                Some(link) => (route.iter().copied().chain([link]).collect(), Routed::Directed),
                None => (route, self.subnet.routed),
            };
            let datagram = self.flights.len() as u32;
            let sent = self.queue.now();
            self.flights.push(Flight { mad, route, routed, attempts: 0, sent, answered: false });
            self.in_flight += 1;
            self.send(sent, datagram);
        }
    }

    fn send(&mut self, now: Time, datagram: u32) {
        let flight = &mut self.flights[datagram as usize];
        flight.attempts += 1;
        flight.sent = now;
        let attempt = flight.attempts;
        self.report.sent += 1;
        self.queue.push(now + self.costs.timeout, Event::TimedOut(datagram, attempt));
        self.forward(now, Packet { datagram, hop: 0, answer: false });
    }

    /// The node at which a packet is.
    fn place(&self, packet: Packet) -> Vertex {
        let (graph, route) = (self.subnet.graph, &self.flights[packet.datagram as usize].route);
        let own = graph.vertex(Node::Endpoint(self.subnet.manager));
        let hops = if packet.answer { route.len() - packet.hop as usize } else { packet.hop as usize };
        hops.checked_sub(1).map_or(own, |last| graph.link(route[last]).to)
    }

    /// Puts a packet on its next link, or hands it over where there is none.
    fn forward(&mut self, now: Time, packet: Packet) {
        let route = &self.flights[packet.datagram as usize].route;
        let (hop, length) = (packet.hop as usize, route.len());
        if hop == length {
            // The manager's own adapter: no link is between.
            let event = if packet.answer { Event::Answered(packet.datagram) } else { Event::AtAgent(packet) };
            self.queue.push(now, event);
            return;
        }
        let link = if packet.answer { route[length - 1 - hop].reverse() } else { route[hop] };
        let spec = self.subnet.graph.link(link);
        let (free, carried) = &mut self.links[link.index()];
        let start = now.max(*free);
        *free = start + spec.rate.time(WIRE_BYTES);
        *carried += WIRE_BYTES;
        self.queue.push(start + spec.delay, Event::Head(Packet { hop: packet.hop + 1, ..packet }));
    }

    /// The head of a packet arrives: it goes on at once through a crossbar, or as a whole to an agent or the manager.
    fn head(&mut self, now: Time, packet: Packet) {
        let flight = &self.flights[packet.datagram as usize];
        let (hop, length, routed) = (packet.hop as usize, flight.route.len(), flight.routed);
        let link = if packet.answer { flight.route[length - hop].reverse() } else { flight.route[hop - 1] };
        let whole = now + self.subnet.graph.link(link).rate.time(WIRE_BYTES);
        if hop == length && packet.answer {
            self.queue.push(whole, Event::Answered(packet.datagram));
        } else if hop == length || routed == Routed::Directed {
            self.queue.push(whole, Event::AtAgent(packet));
        } else {
            let latency = self.latency(self.place(packet));
            self.forward(now + latency, packet);
        }
    }

    fn latency(&self, at: Vertex) -> Span {
        let Node::Switch(switch) = self.subnet.graph.node(at) else { return Span::ZERO };
        let latencies = self.subnet.latencies;
        latencies.get(switch.index()).or(latencies.first()).copied().unwrap_or_default()
    }

    fn at_agent(&mut self, now: Time, packet: Packet) {
        let at = self.place(packet);
        let flight = &self.flights[packet.datagram as usize];
        let answers = !packet.answer && packet.hop as usize == flight.route.len();
        let takes = match (answers, self.subnet.graph.node(at)) {
            (false, _) => self.costs.directed_hop,
            (true, Node::Switch(_)) => self.costs.switch_agent,
            (true, Node::Endpoint(_)) => self.costs.adapter_agent,
        };
        let agent = &mut self.agents[at.index()];
        if agent.holds >= self.costs.buffer {
            self.report.dropped += 1;
            return;
        }
        agent.holds += 1;
        agent.free = agent.free.max(now) + takes;
        self.queue.push(agent.free, Event::Served(packet));
    }

    /// What an answer leads to.
    fn learn(&mut self, datagram: u32) {
        let flight = &self.flights[datagram as usize];
        let (mad, route) = (flight.mad, Rc::clone(&flight.route));
        let graph = self.subnet.graph;
        if mad.method == Method::Set {
            return;
        }
        match mad.attribute {
            Attribute::NodeInfo => {
                let vertex = mad.beyond.map_or(mad.known, |link| graph.link(link).to);
                let new = mad.beyond.is_none() || self.routes[vertex.index()].is_none();
                if !new {
                    return;
                }
                self.routes[vertex.index()] = Some(route);
                self.known.push(vertex);
                let get = |attribute, port| Mad::to(Method::Get, attribute, vertex, port);
                self.waiting.push_back(get(Attribute::NodeDescription, 0));
                match graph.node(vertex) {
                    Node::Endpoint(_) => {
                        self.report.endpoints += 1;
                        self.waiting.extend([get(Attribute::PortInfo, 1), get(Attribute::PKeyTable, 1)]);
                    }
                    Node::Switch(_) => {
                        self.report.switches += 1;
                        self.waiting.extend([get(Attribute::SwitchInfo, 0), get(Attribute::PKeyTable, 0)]);
                    }
                }
            }
            Attribute::SwitchInfo => {
                if let Node::Switch(switch) = graph.node(mad.known) {
                    let ports = (0..=graph.port_count(switch)).map(|port| Mad::to(Method::Get, Attribute::PortInfo, mad.known, port));
                    self.waiting.extend(ports);
                }
            }
            Attribute::PortInfo => {
                let link = match graph.node(mad.known) {
                    Node::Endpoint(endpoint) => Some(graph.uplink(endpoint)),
                    Node::Switch(switch) => {
                        mad.port.checked_sub(1).and_then(|port| graph.out_link(switch, fabriscope_fabric::PortId(port)))
                    }
                };
                // Whoever is at the other end of the way here is known.
                let came = route.last().map(|last| last.reverse());
                if let Some(link) = link.filter(|link| Some(*link) != came) {
                    self.waiting.push_back(Mad::who_is(mad.known, link));
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> SweepReport {
        self.report.end = self.report.stages.iter().fold(Time::ZERO, |end, stage| end + stage.took);
        self.report.busiest = self.links.iter().map(|(_, carried)| *carried).max().unwrap_or_default();
        self.report
    }
}

#[cfg(test)]
#[path = "sweep_test.rs"]
mod tests;
