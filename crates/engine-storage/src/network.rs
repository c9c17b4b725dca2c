//! Adapters, cables and routers: how long bulk data are in flight.
//!
//! Modelled: every adapter's two directions apart, transfers cut through from one to the next, pools of cables and routers.
//! Not modelled: packets; switches between (their cables are `uplinks`).

use fabriscope_lustre::{ServerGroup, System};
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::station::Line;
use crate::usage::{Resource, Usage};

/// Which way bulk data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Server,
    Client,
}

/// Adapters of all ends and what lies between.
pub(crate) struct Network {
    clients: Vec<[Line; 2]>,
    client_adapters: u32,
    client_rate: Rate,
    servers: Vec<[Line; 2]>,
    server_adapters: u32,
    server_rate: Rate,
    between: Vec<(Resource, Rate, Vec<[Line; 2]>)>,
    resource: Resource,
}

impl Network {
    pub fn new(system: &System, side: &ServerGroup, resource: Resource) -> Network {
        let pool = |resource, part: &Option<(Rate, u32)>| {
            part.as_ref().map(|(rate, count)| (resource, *rate, vec![[Line::default(); 2]; (*count).max(1) as usize]))
        };
        let between = [pool(Resource::Uplinks, &system.uplinks), pool(Resource::Routers, &system.routers)];
        Network {
            clients: vec![[Line::default(); 2]; (system.clients.nodes * system.clients.adapters) as usize],
            client_adapters: system.clients.adapters,
            client_rate: system.clients.rate,
            servers: vec![[Line::default(); 2]; (side.servers * side.adapters) as usize],
            server_adapters: side.adapters,
            server_rate: side.rate,
            between: between.into_iter().flatten().collect(),
            resource,
        }
    }
    /// When the last byte is there.
    pub fn transfer(&mut self, now: Time, (client, server, number): (u32, u32, u32), towards: Towards, bytes: Bytes) -> Time {
        let way = usize::from(towards == Towards::Client);
        let mut begins = now;
        let mut ends = now;
        let mut pass = |line: &mut Line, rate: Rate| {
            let span = rate.time(bytes);
            begins = line.begins(begins);
            ends = begins.saturating_add(span).max(ends);
            line.hold(ends, span);
        };
        let client = &mut self.clients[(client * self.client_adapters + number % self.client_adapters) as usize][way];
        let server = &mut self.servers[(server * self.server_adapters + number % self.server_adapters) as usize][way];
        let (first, last) = match towards {
            Towards::Server => ((client, self.client_rate), (server, self.server_rate)),
            Towards::Client => ((server, self.server_rate), (client, self.client_rate)),
        };
        pass(first.0, first.1);
        for (_, rate, lines) in &mut self.between {
            let line = number as usize % lines.len();
            pass(&mut lines[line][way], *rate);
        }
        pass(last.0, last.1);
        ends
    }
    /// Adds how long each was at work.
    pub fn tell(&self, usage: &mut Usage, all: Span) {
        let busy = |lines: &[Line; 2]| lines[0].busy().max(lines[1].busy());
        usage.add(Resource::ClientAdapters, self.clients.iter().map(busy), all);
        for (resource, _, lines) in &self.between {
            usage.add(*resource, lines.iter().map(busy), all);
        }
        usage.add(self.resource, self.servers.iter().map(busy), all);
    }
}
