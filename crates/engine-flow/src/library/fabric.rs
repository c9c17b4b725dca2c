//! What messages share on their way: adapters of nodes, links of the fabric, memories of nodes. Each takes one message at a time.

use fabriscope_engine::{Cluster, EngineError};
use fabriscope_fabric::{EndpointId, LinkId};
use fabriscope_units::Bytes;

use crate::latency::{Latency, SwitchLatency};
use crate::paths::Paths;

/// A way between two adapters: links between switches with the share of a message on each, and the latency of all links and switches.
#[derive(Debug, Clone, Copy, Default)]
struct Route {
    first: u32,
    count: u32,
    latency: u64,
}

/// What becomes of routings that look at queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// They are refused.
    Refused,
    /// They take the paths of an idle network, whatever there is to wait for.
    Empty,
}

/// The way between two nodes, as far as messages share it with others.
pub(super) struct Fabric<'a> {
    pub(super) cluster: &'a Cluster,
    paths: Paths<'a>,
    switch: SwitchLatency,
    latency: Latency,
    /// The first endpoint of each node of the job.
    endpoints: Vec<u32>,
    adapters: u32,
    /// Ways by pair of adapters of the job, where these are few enough; 0 is not known yet.
    table: Vec<u32>,
    routes: Vec<Route>,
    links: Vec<(u32, f64)>,
    /// When links, and the nodes' adapters out, in and both, and their memories are free (ps).
    link_free: Vec<u64>,
    out: Vec<u64>,
    into: Vec<u64>,
    both: Vec<u64>,
    memory: Vec<u64>,
    /// Kinds of pairs within a node.
    kinds: usize,
    /// Picoseconds of a byte on each link.
    per_byte: Vec<f64>,
    path: Vec<(u32, f64)>,
}

impl<'a> Fabric<'a> {
    pub fn new(cluster: &'a Cluster, nodes: &[u32], kinds: usize, queues: Queues) -> Result<Fabric<'a>, EngineError> {
        let parts = &cluster.parts;
        let paths = match queues {
            Queues::Refused => Paths::new(&cluster.fabric, parts.routing)?,
            Queues::Empty => Paths::idle(&cluster.fabric, parts.routing)?,
        };
        let adapters = parts.sole().node.nics.max(1);
        let missing = |node: u32| EngineError::NoSuchNode { rank: 0, node, nodes: parts.nodes() };
        let endpoints: Result<Vec<u32>, EngineError> =
            nodes.iter().map(|node| parts.endpoints_of(*node).map(|range| range.start).ok_or_else(|| missing(*node))).collect();
        let endpoints = endpoints?;
        let graph = &cluster.fabric.graph;
        let per_byte = graph.links().iter().map(|link| 8e12 / link.rate.as_bps().max(1) as f64).collect();
        let latency = Latency::of(cluster);
        let pairs = (endpoints.len() as u64 * u64::from(adapters)).pow(2);
        let count = endpoints.len();
        Ok(Fabric {
            cluster,
            paths,
            switch: latency.switch.clone(),
            latency,
            endpoints,
            adapters,
            table: if pairs <= MOST_PAIRS { vec![0; pairs as usize] } else { Vec::new() },
            routes: vec![Route::default()],
            links: Vec::new(),
            link_free: vec![0; graph.link_count() as usize],
            out: vec![0; count],
            into: vec![0; count],
            both: vec![0; count],
            memory: vec![0; count * kinds],
            kinds,
            per_byte,
            path: Vec::new(),
        })
    }

    /// The number of the way from one adapter of a node to one of another one.
    pub fn way(&mut self, from: (u32, u32), to: (u32, u32)) -> u32 {
        let all = self.endpoints.len() * self.adapters as usize;
        let at = |(node, adapter): (u32, u32)| (node * self.adapters + adapter % self.adapters) as usize;
        let place = at(from) * all + at(to);
        if let Some(known) = self.table.get(place).filter(|known| **known > 0) {
            return *known;
        }
        let ends = [from, to].map(|(node, adapter)| self.endpoints[node as usize] + adapter % self.adapters);
        let graph = &self.cluster.fabric.graph;
        self.paths.path(ends[0], ends[1], ends[0], &mut self.path);
        let (mut count, mut delay) = (0.0, 0.0);
        for &(link, share) in &self.path {
            count += share;
            delay += share * graph.link(LinkId(link)).delay.as_ps() as f64;
        }
        let latency = (delay + self.switch.along(graph, &self.path, count)) as u64;
        if self.table.is_empty() {
            // One way at a time.
            self.routes.truncate(1);
            self.links.clear();
        }
        let (first, up) = (self.links.len() as u32, graph.uplink(EndpointId(ends[0])));
        let down = graph.uplink(EndpointId(ends[1])).reverse();
        self.links.extend(self.path.iter().filter(|(link, _)| ![up, down].contains(&LinkId(*link))));
        self.routes.push(Route { first, count: self.links.len() as u32 - first, latency });
        let number = self.routes.len() as u32 - 1;
        if let Some(place) = self.table.get_mut(place) {
            *place = number;
        }
        number
    }

    /// The latency of a way (ps).
    pub fn latency(&self, way: u32) -> u64 {
        self.routes[way as usize].latency
    }

    /// The time that the host's link needs for a message, on one of all adapters of the node (ps).
    pub fn on_wire(&self, bytes: u64) -> u64 {
        self.latency.rate.time(Bytes(self.latency.wire_bytes(bytes))).as_ps() / u64::from(self.adapters)
    }

    /// How long a message that leaves at `at` waits in all for others, between two nodes; it keeps adapters for `gap`, and for `turn` what
    /// both directions share.
    pub fn cross(&mut self, at: u64, (from, to): (u32, u32), way: u32, bytes: u64, (gap, turn): (u64, u64)) -> u64 {
        let (from, to) = (from as usize, to as usize);
        let mut now = serve(&mut self.out[from], at, gap);
        if turn > 0 {
            now = serve(&mut self.both[from], now, turn);
        }
        let Route { first, count, .. } = self.routes[way as usize];
        let wire = if count > 0 { self.latency.wire_bytes(bytes) as f64 } else { 0.0 };
        for &(link, share) in &self.links[first as usize..(first + count) as usize] {
            let busy = (wire * share * self.per_byte[link as usize]) as u64;
            now = serve(&mut self.link_free[link as usize], now, busy);
        }
        now = serve(&mut self.into[to], now, gap);
        if turn > 0 {
            now = serve(&mut self.both[to], now, turn);
        }
        now - at
    }

    /// How much longer a message within a node takes than the `alone` that it takes by itself; it keeps what pairs of its kind share for `gap`.
    pub fn within(&mut self, at: u64, (node, kind): (u32, u8), gap: u64, alone: u64) -> u64 {
        if gap == 0 {
            return 0;
        }
        let begin = serve(&mut self.memory[node as usize * self.kinds + usize::from(kind)], at, gap);
        (begin + gap).saturating_sub(at + alone)
    }
}

/// When a server begins with what comes at `now`, which keeps it for `busy`.
fn serve(free: &mut u64, now: u64, busy: u64) -> u64 {
    let begin = now.max(*free);
    *free = begin + busy;
    begin
}

/// Pairs of adapters whose ways are kept, 4 B each. Basis: assumed; 4,096 adapters.
const MOST_PAIRS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_takes_one_at_a_time() {
        let mut free = 0;
        assert_eq!([(10, 5), (11, 5), (30, 5)].map(|(now, busy)| serve(&mut free, now, busy)), [10, 15, 30]);
        assert_eq!(free, 35);
    }
}
