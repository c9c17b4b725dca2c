//! A parallel file system beside a job: its RPCs and bulk data as packets, on the fabric and the adapters of the job.
//!
//! Source: Lustre Operations Manual, "Tuning the client I/O RPC stream"; the protocol of ko2iblnd (`o2iblnd-idl.h`): a sink asks with GET_REQ, the
//! source writes by RDMA and says GET_DONE; a source offers with PUT_REQ, the sink answers PUT_ACK, the source writes and says PUT_DONE.
//! Modelled: processes that fill or read pages, RPCs of a client for each OST in flight, requests and replies as messages; servers that fetch
//! or send bulk data fragment by fragment, as peer credits allow; cores and drives of servers; all at once, or a burst after each interval.
//! Not modelled: metadata, extent locks (each process has a file of its own), LNet routers, cores of ranks that threads of the client take.
//!
//! ```text
//! client: pages ─▶ RPC ──request──▶ server: core ──GET_REQ──▶ client ══RDMA write, GET_DONE══▶ server: core ─▶ drives ──reply──▶ client
//! client: ahead ─▶ RPC ──request──▶ server: core ─▶ drives ──PUT_REQ──▶ client ──PUT_ACK──▶ server ══RDMA write, PUT_DONE══▶, reply
//! ```

mod client;
mod link;
mod server;

use std::collections::VecDeque;
use std::sync::Arc;

use fabriscope_engine_storage::Direction;
use fabriscope_lustre::{Layout, System};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::Mtu;

use link::{End, Message};

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
struct Connection {
    client: Option<End>,
    server: Option<End>,
    to_server: VecDeque<Message>,
    to_client: VecDeque<Message>,
}

/// What all programs share.
struct Shared {
    traffic: Traffic,
    connections: Record<Vec<Connection>>,
    /// Programs that have opened their queue pairs, and those that have connected them.
    met: Record<[u32; 2]>,
    tally: Record<Tally>,
}

impl Shared {
    fn place(&self, client: u32, server: u32) -> usize {
        client as usize * self.traffic.servers.len() + server as usize
    }
    /// What a connection of a client to a server has outstanding of RPCs and of fragments.
    fn depth(&self) -> u32 {
        let System { costs, oss, .. } = &self.traffic.system;
        let rpcs = oss.targets.max(1).saturating_mul(*costs.client.max_rpcs_in_flight);
        rpcs.saturating_add(2 * *costs.lnet.peer_credits).saturating_add(8)
    }
    /// Waits until all programs are so far.
    async fn meet(&self, process: &Process, stage: usize) {
        self.met.lock()[stage] += 1;
        let all = (self.traffic.clients.len() + self.traffic.servers.len()) as u32;
        while self.met.lock()[stage] < all {
            process.sleep_until(process.now().saturating_add(LOOK)).await;
        }
    }
}

/// How often a program looks whether all others are there. Basis: assumed; it decides nothing once they are.
const LOOK: Span = Span::from_us(1);

impl Traffic {
    /// The programs of all clients and servers, each with its node, and what they will have counted.
    #[must_use]
    pub fn programs(&self) -> (Vec<(u32, Main)>, Record<Tally>) {
        let pairs = self.clients.len() * self.servers.len();
        let tally = Record::new(Tally::default());
        let connections = Record::new((0..pairs).map(|_| Connection::default()).collect());
        let shared = Arc::new(Shared { traffic: self.clone(), connections, met: Record::new([0; 2]), tally: tally.clone() });
        let mut programs: Vec<(u32, Main)> = Vec::with_capacity(self.clients.len() + self.servers.len());
        for (me, node) in (0..).zip(&self.clients) {
            let shared = Arc::clone(&shared);
            programs.push((*node, Box::new(move |process| Box::pin(async move { client::run(&process, &shared, me).await }))));
        }
        for (me, node) in (0..).zip(&self.servers) {
            let shared = Arc::clone(&shared);
            programs.push((*node, Box::new(move |process| Box::pin(async move { server::run(&process, &shared, me).await }))));
        }
        (programs, tally)
    }
}

/// A job that lasts so long and does nothing: what is beside it is alone.
#[must_use]
pub fn nobody(span: Span) -> Main {
    Box::new(move |process: Process| {
        Box::pin(async move {
            process.sleep_until(Time::ZERO.saturating_add(span)).await;
            Ok::<(), ProgramError>(())
        })
    })
}

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
