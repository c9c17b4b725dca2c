//! Hosts, links and memories, and the way of an access through them.
//!
//! Source: `fabriscope_platform::loads`.
//! Modelled: each way of each link, memories of each domain and of each expander, the stages between them: what an access waits for is the
//! sum of its stages and of the queues it meets.
//! Not modelled: the mesh inside a processor as a queue; coherence between cores of a host.

use fabriscope_platform::loads::{Dram, Expander, Loads, PlainLink};
use fabriscope_units::{Rate, Span};

use super::flits::{Message, Packer};

/// A stage on the way of an access.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hop {
    /// It takes so long, however many there are.
    Wait(Span),
    /// A message on a CXL link.
    Cxl(usize, Message),
    /// So long on a link of another protocol.
    Plain(usize, Span),
    /// An access of a memory.
    Read(usize),
    /// The same, whose data stay there.
    Write(usize),
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct CxlWay {
    pub packer: Packer,
    pub rate: Rate,
    /// From a place that is free at the receiver to the sender that knows it.
    pub credit: Span,
}

/// What accesses go through.
#[derive(Debug)]
pub(super) struct System {
    loads: Loads,
    hosts: u32,
    pub cxl: Vec<CxlWay>,
    /// Directions of other links.
    pub plain: usize,
    pub memories: Vec<Dram>,
}

/// A link of CXL, in order of their numbers: those of hosts, of devices behind a switch, of the accelerator.
#[derive(Debug, Clone, Copy)]
enum CxlPort {
    Host(u32, u32),
    Device(u32),
    Peer,
}

impl System {
    /// So many hosts with all they have; of a pool all expanders and the accelerator.
    pub(super) fn new(loads: &Loads, hosts: u32) -> System {
        let nodes = loads.nodes();
        let mut memories = vec![loads.dram; (nodes * hosts) as usize];
        let mut cxl = Vec::new();
        if let Some(expander) = &loads.expander {
            memories.extend(vec![expander.dram; devices(loads, expander) as usize]);
            let links = hosts * loads.far() + if switched(expander) { devices(loads, expander) + 1 } else { 0 };
            for _ in 0..2 * links {
                let packer = Packer::new(expander.link.flit, expander.link.credits);
                let rate = expander.link.rate;
                let credit = packer.time(rate) + expander.link.retimers;
                cxl.push(CxlWay { packer, rate, credit });
            }
        }
        System { loads: loads.clone(), hosts, cxl, plain: (hosts * loads.sockets * loads.sockets) as usize, memories }
    }

    /// The way of a load, or of a line that is written back, from a core of a domain to a node.
    pub(super) fn access(&self, host: u32, from: u32, to: u32, write: bool) -> Vec<Hop> {
        let nodes = self.loads.nodes();
        let mut hops = vec![Hop::Wait(self.loads.on_die)];
        if to < nodes {
            self.across(&mut hops, host, (from, to), write);
            let memory = (host * nodes + to) as usize;
            hops.push(if write { Hop::Write(memory) } else { Hop::Read(memory) });
            self.across(&mut hops, host, (to, from), !write);
        } else if let Some(expander) = &self.loads.expander {
            let port = to - nodes;
            let under = expander.under.get(port as usize).copied().unwrap_or(0);
            self.across(&mut hops, host, (from, under), write);
            hops.push(Hop::Wait(expander.link.host_port));
            let device = self.device(expander, port);
            let message = if write { Message::Write } else { Message::Request };
            self.down(&mut hops, expander, CxlPort::Host(host, port), device, message);
            self.at_device(&mut hops, expander, device, write);
            let message = if write { Message::Completion } else { Message::Data };
            self.up(&mut hops, expander, CxlPort::Host(host, port), device, message);
            hops.push(Hop::Wait(expander.link.host_port));
            self.across(&mut hops, host, (under, from), !write);
        }
        hops.push(Hop::Wait(self.loads.on_die));
        hops
    }

    /// A load, or a store's wish to own a line, while another host has it: the expander asks for it back before it answers.
    pub(super) fn shared(&self, other: u32, modified: bool) -> Option<Vec<Hop>> {
        let expander = self.loads.expander.as_ref()?;
        let (directory, snoop) = expander.pool.as_ref()?.sharing?;
        let device = self.device(expander, 0);
        let mut hops = vec![Hop::Wait(self.loads.on_die), Hop::Wait(expander.link.host_port)];
        self.down(&mut hops, expander, CxlPort::Host(0, 0), device, Message::Request);
        hops.extend([Hop::Wait(expander.controller), Hop::Wait(directory)]);
        self.up(&mut hops, expander, CxlPort::Host(other, 0), device, Message::Snoop);
        hops.extend([Hop::Wait(expander.link.host_port), Hop::Wait(snoop), Hop::Wait(expander.link.host_port)]);
        let answer = if modified { Message::Write } else { Message::Answer };
        self.down(&mut hops, expander, CxlPort::Host(other, 0), device, answer);
        hops.push(Hop::Wait(expander.controller));
        let memory = self.device_memory(device);
        if modified {
            hops.push(Hop::Write(memory));
        }
        hops.extend([Hop::Read(memory), Hop::Wait(expander.controller)]);
        self.up(&mut hops, expander, CxlPort::Host(0, 0), device, Message::Data);
        hops.extend([Hop::Wait(expander.link.host_port), Hop::Wait(self.loads.on_die)]);
        Some(hops)
    }

    /// A read by the accelerator at the switch: straight to the expander, or through host 0.
    pub(super) fn peer(&self, straight: bool) -> Option<Vec<Hop>> {
        let expander = self.loads.expander.as_ref()?;
        let pool = expander.pool.as_ref()?;
        let (_, port, host) = pool.peer?;
        let (half, turn) = (Span::from_ps(port.as_ps() / 2), Span::from_ps(host.as_ps() / 2));
        let through = self.through(expander);
        let device = self.device(expander, 0);
        let mut hops = vec![Hop::Wait(half)];
        if straight {
            self.down(&mut hops, expander, CxlPort::Peer, device, Message::Request);
            self.at_device(&mut hops, expander, device, false);
            self.up(&mut hops, expander, CxlPort::Peer, device, Message::Data);
        } else {
            // Its request and its data cross the host's link the other way than those of a load.
            hops.extend([Hop::Cxl(self.down_link(CxlPort::Peer), Message::Request), Hop::Wait(through)]);
            hops.extend([
                Hop::Cxl(self.up_link(CxlPort::Host(0, 0)), Message::Completion),
                Hop::Wait(expander.link.host_port),
                Hop::Wait(turn),
            ]);
            hops.push(Hop::Wait(expander.link.host_port));
            self.down(&mut hops, expander, CxlPort::Host(0, 0), device, Message::Request);
            self.at_device(&mut hops, expander, device, false);
            self.up(&mut hops, expander, CxlPort::Host(0, 0), device, Message::Data);
            hops.extend([Hop::Wait(expander.link.host_port), Hop::Wait(turn), Hop::Wait(expander.link.host_port)]);
            hops.extend([Hop::Cxl(self.down_link(CxlPort::Host(0, 0)), Message::Write), Hop::Wait(through)]);
            hops.push(Hop::Cxl(self.up_link(CxlPort::Peer), Message::Data));
        }
        hops.push(Hop::Wait(half));
        Some(hops)
    }

    fn at_device(&self, hops: &mut Vec<Hop>, expander: &Expander, device: u32, write: bool) {
        let memory = self.device_memory(device);
        let access = if write { Hop::Write(memory) } else { Hop::Read(memory) };
        hops.extend([Hop::Wait(expander.controller), access, Hop::Wait(expander.controller)]);
    }

    fn device_memory(&self, device: u32) -> usize {
        (self.loads.nodes() * self.hosts + device) as usize
    }

    /// The expander that a host reaches at a port: that of the pool, or its own, where it is the only host.
    fn device(&self, expander: &Expander, port: u32) -> u32 {
        match &expander.pool {
            Some(pool) => port % pool.devices.max(1),
            None => port,
        }
    }

    /// One way through all switches.
    fn through(&self, expander: &Expander) -> Span {
        let switch = expander.pool.as_ref().and_then(|pool| Some(pool.switch? * u64::from(pool.levels)));
        switch.unwrap_or(Span::ZERO) + expander.link.retimers
    }

    /// Towards a device: the sender's link, the switch, the device's link.
    fn down(&self, hops: &mut Vec<Hop>, expander: &Expander, from: CxlPort, device: u32, message: Message) {
        hops.extend([Hop::Cxl(self.down_link(from), message), Hop::Wait(self.through(expander))]);
        if switched(expander) {
            hops.extend([Hop::Cxl(self.down_link(CxlPort::Device(device)), message), Hop::Wait(expander.link.retimers)]);
        }
    }

    /// From a device.
    fn up(&self, hops: &mut Vec<Hop>, expander: &Expander, to: CxlPort, device: u32, message: Message) {
        if switched(expander) {
            hops.extend([Hop::Cxl(self.up_link(CxlPort::Device(device)), message), Hop::Wait(self.through(expander))]);
        }
        hops.extend([Hop::Cxl(self.up_link(to), message), Hop::Wait(expander.link.retimers)]);
    }

    fn down_link(&self, end: CxlPort) -> usize {
        let devices = self.loads.expander.as_ref().map_or(0, |expander| devices(&self.loads, expander));
        let number = match end {
            CxlPort::Host(host, port) => host * self.loads.far() + port,
            CxlPort::Device(device) => self.hosts * self.loads.far() + device,
            CxlPort::Peer => self.hosts * self.loads.far() + devices,
        };
        2 * number as usize
    }
    fn up_link(&self, end: CxlPort) -> usize {
        self.down_link(end) + 1
    }

    /// The link between the sockets of two domains, if they are two: with a line, or with a request or an answer without one.
    fn across(&self, hops: &mut Vec<Hop>, host: u32, (from, to): (u32, u32), line: bool) {
        let socket = |domain: u32| domain / self.loads.domains.max(1);
        let (from, to) = (socket(from), socket(to));
        if from == to {
            return;
        }
        if let Some(PlainLink { line: full, request, latency }) = self.loads.socket_link {
            let sockets = self.loads.sockets;
            let way = (host * sockets * sockets + from * sockets + to) as usize;
            hops.extend([Hop::Plain(way, if line { full } else { request }), Hop::Wait(latency)]);
        }
    }
}

/// Expanders: those of the pool, or one for each link of the host.
fn devices(loads: &Loads, expander: &Expander) -> u32 {
    expander.pool.as_ref().map_or(loads.far(), |pool| pool.devices)
}

/// Whether they are behind a switch.
fn switched(expander: &Expander) -> bool {
    expander.pool.as_ref().is_some_and(|pool| pool.switch.is_some())
}
