//! What is read or written, what is counted of it, and what its programs share.

use std::collections::VecDeque;

use fabriscope_engine_storage::Direction;
use fabriscope_lustre::{Layout, System};
use fabriscope_node::{Process, Record};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::Mtu;

use super::link::{Message, QueuePairEnd};

/// Data that come in bursts, such as checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// What a process reads or writes in each.
    pub bytes: Bytes,
    /// From the begin of one to that of the next, or as long as it takes.
    pub every: Span,
}

/// What is read or written beside a job.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Clients and servers; of servers of data as many as there are hosts for them.
    pub system: System,
    /// How files lie on OSTs.
    pub layout: Layout,
    /// Which way.
    pub direction: Direction,
    /// All the time where it is none.
    pub burst: Option<Burst>,
    /// Nodes of the clients.
    pub clients: Vec<u32>,
    /// Nodes of the servers.
    pub servers: Vec<u32>,
    /// Service level, priority or class of all packets.
    pub level: u8,
    /// The largest payload of a packet.
    pub mtu: Mtu,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// RPCs with data: when each was sent, when its reply was there, and what it moved.
    pub rpcs: Vec<(Time, Time, Bytes)>,
    /// Bursts of processes: begin and end.
    pub bursts: Vec<(Time, Time)>,
}

impl Tally {
    /// Bytes a second from the begin until `end`.
    #[must_use]
    pub fn rate(&self, end: Time) -> f64 {
        let bytes: u64 = self.rpcs.iter().filter(|(_, done, _)| *done <= end).map(|(.., bytes)| bytes.0).sum();
        bytes as f64 / end.since(Time::ZERO).as_s_f64().max(f64::MIN_POSITIVE)
    }
    /// The time of an RPC that so many of a hundred do not exceed; nothing where none ended.
    #[must_use]
    pub fn quantile(&self, percent: usize) -> Option<Span> {
        quantile(self.rpcs.iter().map(|(sent, done, _)| done.since(*sent)).collect(), percent)
    }
    /// The same of bursts.
    #[must_use]
    pub fn burst_quantile(&self, percent: usize) -> Option<Span> {
        quantile(self.bursts.iter().map(|(begin, end)| end.since(*begin)).collect(), percent)
    }
}

fn quantile(mut spans: Vec<Span>, percent: usize) -> Option<Span> {
    spans.sort_unstable();
    spans.get((spans.len() * percent / 100).min(spans.len().checked_sub(1)?)).copied()
}

/// A client and a server: their queue pairs, and what is in their messages, which come in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub client: Option<QueuePairEnd>,
    pub server: Option<QueuePairEnd>,
    pub to_server: VecDeque<Message>,
    pub to_client: VecDeque<Message>,
}

/// What all programs share.
pub(super) struct Shared {
    pub traffic: Traffic,
    pub connections: Record<Vec<Connection>>,
    /// Programs that have opened their queue pairs, and those that have connected them.
    pub met: Record<[u32; 2]>,
    pub tally: Record<Tally>,
}

impl Shared {
    pub fn place(&self, client: u32, server: u32) -> usize {
        client as usize * self.traffic.servers.len() + server as usize
    }
    /// What a connection of a client to a server has outstanding of RPCs and of fragments.
    pub fn depth(&self) -> u32 {
        let System { costs, oss, .. } = &self.traffic.system;
        let rpcs = oss.targets.max(1).saturating_mul(*costs.client.max_rpcs_in_flight);
        rpcs.saturating_add(2 * *costs.lnet.peer_credits).saturating_add(8)
    }
    /// Waits until all programs are so far.
    pub async fn meet(&self, process: &Process, stage: usize) {
        self.met.lock()[stage] += 1;
        let all = (self.traffic.clients.len() + self.traffic.servers.len()) as u32;
        while self.met.lock()[stage] < all {
            process.sleep_until(process.now().saturating_add(LOOK)).await;
        }
    }
}

/// How often a program looks whether all others are there. Basis: assumed; it decides nothing once they are.
const LOOK: Span = Span::from_us(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_none_are_none() {
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        let tally = Tally { rpcs: vec![(at(0), at(4), Bytes(1 << 20)), (at(2), at(10), Bytes(1 << 20))], bursts: Vec::new() };
        assert_eq!((tally.quantile(0), tally.quantile(99)), (Some(Span::from_us(4)), Some(Span::from_us(8))));
        assert_eq!(tally.burst_quantile(50), None);
        assert!((tally.rate(at(1_000_000)) - 2_097_152.0).abs() < 1.0);
    }
}
