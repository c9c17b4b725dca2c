//! How two neighbours talk.
//!
//! Source: NCCL 2.22.3, src/transport/p2p.cc, shm.cc, net.cc (canConnect), src/graph/paths.cc (ncclTopoCheckNet, ncclTopoNeedFlush),
//! src/graph/search.cc (ncclTopoGetNetDev).
//! Modelled: copies between GPUs with NVLink, PCI Express or another GPU between, host memory, the network where it is faster,
//! the adapters of a channel, PXN, GPUDirect at either end, the flush of what came.
//! Not modelled: containers, processes with several GPUs, buffers of users that are registered.

use crate::algorithm::Algorithm;
use crate::communicator::Communicator;
use crate::path_type::PathType;
use crate::settings::Set;
use crate::topology::{Topology, gpudirect, peer_level};

/// How bytes get from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A GPU copies into, or out of, the memory of the other.
    P2p {
        /// Class of the way.
        class: PathType,
        /// The receiver reads, where otherwise the sender writes.
        read: bool,
        /// The rank whose GPU relays.
        relay: Option<u32>,
    },
    /// Both use a buffer in the memory of the host.
    Shm,
    /// By adapters.
    Net(NetWay),
}

/// A way by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetWay {
    /// The sender's adapter, by its number in the machine.
    pub send_adapter: u32,
    /// The rank whose proxy sends: another one with PXN, whose GPU the data crosses.
    pub send_proxy: u32,
    /// Whether the adapter reads the memory of that GPU; the host's otherwise.
    pub send_gpudirect: bool,
    /// The receiver's adapter.
    pub receive_adapter: u32,
    /// Whether it writes the memory of the receiver's GPU.
    pub receive_gpudirect: bool,
    /// Whether the receiver reads back before it tells its GPU that data came.
    pub flush: bool,
    /// Adapters in a row that share each message, at either end.
    pub rails: u32,
}

impl Communicator {
    /// How `from` sends to `to` in a channel of an algorithm.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn transport(&self, from: u32, to: u32, channel: u32, algorithm: Algorithm) -> Transport {
        self.inside(from, to).unwrap_or_else(|| {
            let send_adapter = self.channel_adapter(from, channel, algorithm);
            let receive_adapter = self.channel_adapter(to, channel, algorithm);
            self.net(from, to, send_adapter, None, receive_adapter)
        })
    }

    /// The edges of a channel of rings, or of trees up and down, that cross the network, by the ranks whose GPUs are nearest to the adapters that
    /// the library takes, as data get there over the links of the node; `adapters` has the adapter of each GPU.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn edges_between_nodes(&self, adapters: &[u32], channel: u32, algorithm: Algorithm) -> Vec<(u32, u32)> {
        let ranks = 0..self.ranks();
        let crossing = |(from, to)| self.crossing(adapters, (from, to, channel), algorithm);
        if algorithm == Algorithm::Tree {
            let up = ranks.filter_map(|rank| Some((rank, self.tree(channel, rank).up?)));
            return up.flat_map(|(rank, up)| [(rank, up), (up, rank)]).filter_map(crossing).collect();
        }
        ranks.map(|rank| (rank, self.ring(channel, rank).next)).filter_map(crossing).collect()
    }

    /// Between which ranks an edge crosses the network; nothing where both ends are on one node.
    fn crossing(&self, adapters: &[u32], (from, to, channel): (u32, u32, u32), algorithm: Algorithm) -> Option<(u32, u32)> {
        let Transport::Net(way) = self.transport(from, to, channel, algorithm) else { return None };
        let near = |rank: u32, adapter: u32| {
            let ranks = self.ranks_of(self.seat(rank).node).iter().copied();
            let own = |other: &u32| adapters.get(self.seat(*other).gpu as usize) == Some(&adapter);
            ranks.filter(own).min_by_key(|other| *other != rank).unwrap_or(rank)
        };
        Some((near(from, way.send_adapter), near(to, way.receive_adapter)))
    }

    /// How `from` sends to `to` in a channel of point-to-point traffic.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn point_to_point(&self, from: u32, to: u32, channel: u32) -> Transport {
        self.inside(from, to).unwrap_or_else(|| {
            let (send_adapter, relay) = self.peer_adapter(from, to, channel);
            let receive_adapter = self.own_adapter(to, channel);
            self.net(from, to, send_adapter, Some(relay), receive_adapter)
        })
    }

    /// Without the network, where that can be and is not slower.
    fn inside(&self, from: u32, to: u32) -> Option<Transport> {
        let (a, b) = (self.seat(from), self.seat(to));
        if a.node != b.node {
            return None;
        }
        let topology = &self.kind_of(a.node).topology;
        let (class, rate) = topology.between(a.gpu as usize, b.gpu as usize);
        let net_rate = |gpu: u32| {
            let ways = (0..topology.adapters()).map(|adapter| topology.to_adapter(gpu as usize, adapter));
            ways.filter(|(class, _)| *class <= PathType::Pxb).map(|(_, rate)| rate).max().unwrap_or_default()
        };
        // RCCL does not ask.
        let faster = !topology.facts().architecture.is_amd() && net_rate(a.gpu) > rate && net_rate(b.gpu) > rate;
        if class <= peer_level(topology, self.settings()) && !faster {
            // Ampere reads over NVLink.
            let read = class == PathType::Nvl && topology.capability() == 80;
            let relay = topology.relay_between(a.gpu as usize, b.gpu as usize).map(|gpu| self.rank_at(a.node, gpu as u32));
            return Some(Transport::P2p { class, read, relay });
        }
        let shared = self.settings().shared_memory && !faster;
        (shared || topology.adapters() == 0).then_some(Transport::Shm)
    }

    /// The adapter that a graph gives a rank: the first of a channel's GPUs has the first adapter, all others the last.
    fn channel_adapter(&self, rank: u32, channel: u32, algorithm: Algorithm) -> u32 {
        let seat = self.seat(rank);
        let graph = self.graph(seat.node, algorithm);
        if matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree) {
            let own: Vec<u32> =
                graph.channels.iter().filter(|known| known.gpus[0] == seat.gpu).filter_map(|known| Some(known.adapters?[0])).collect();
            return own.get(channel as usize % own.len().max(1)).copied().unwrap_or_else(|| self.own_adapter(rank, channel));
        }
        let (number, reversed) = match algorithm {
            Algorithm::Ring => self.ring_order(seat.node, channel),
            _ => (self.tree_channel(channel), false),
        };
        let known = graph.channels.get(number % graph.channels.len().max(1));
        let ends = known.and_then(|known| Some((known.adapters?, *known.gpus.first()?, *known.gpus.last()?)));
        let Some(([first, last], start, end)) = ends else { return self.own_adapter(rank, channel) };
        let (start, first, last) = if reversed { (end, last, first) } else { (start, first, last) };
        if start == seat.gpu { first } else { last }
    }

    /// The adapter nearest to a rank, for point-to-point traffic.
    fn own_adapter(&self, rank: u32, channel: u32) -> u32 {
        let seat = self.seat(rank);
        let topology = &self.kind_of(seat.node).topology;
        topology.local_net(seat.gpu as usize, channel as usize).map_or(0, |net| topology.adapter_number(net))
    }

    /// The adapter by which `from` sends, and the rank whose proxy does: that of the GPU with the receiver's number, where NVLink leads
    /// to it, so that messages to one rank meet at one adapter.
    fn peer_adapter(&self, from: u32, to: u32, channel: u32) -> (u32, u32) {
        let (seat, peer) = (self.seat(from), self.seat(to));
        let topology = &self.kind_of(seat.node).topology;
        let own = self.own_adapter(from, channel);
        let settings = self.settings();
        let relays = settings.relays(topology.facts().architecture.is_amd());
        let device = self.kind_of(peer.node).topology.device(peer.gpu as usize);
        let alike = (0..topology.gpus()).find(|gpu| topology.device(*gpu) == device);
        let Some(net) =
            alike.and_then(|gpu| topology.local_net(gpu, channel as usize)).filter(|_| relays || settings.cross_nic == Set::Off)
        else {
            return (own, from);
        };
        if relays
            && let Some(near) = topology.local_gpu(net)
            && topology.between(near, seat.gpu as usize).0 <= PathType::Nvl
            && topology.to_adapter(near, net).0 <= PathType::Pxb
        {
            return (topology.adapter_number(net), self.rank_at(seat.node, near as u32));
        }
        if settings.cross_nic == Set::Off { (topology.adapter_number(net), from) } else { (own, from) }
    }

    fn net(&self, from: u32, to: u32, send_adapter: u32, relay: Option<u32>, receive_adapter: u32) -> Transport {
        let (a, b) = (self.seat(from), self.seat(to));
        let (sender, receiver) = (&self.kind_of(a.node).topology, &self.kind_of(b.node).topology);
        let (out, back) = (sender.net_of(send_adapter), receiver.net_of(receive_adapter));
        let send_proxy = relay.unwrap_or_else(|| self.rank_at(a.node, sender.relay(a.gpu as usize, out) as u32));
        let receive_gpudirect = gpudirect(receiver, self.settings(), b.gpu as usize, back, false);
        Transport::Net(NetWay {
            send_adapter,
            send_proxy,
            send_gpudirect: gpudirect(sender, self.settings(), self.seat(send_proxy).gpu as usize, out, true),
            receive_adapter,
            receive_gpudirect,
            flush: receive_gpudirect && (receiver.capability() < 90 || receiver.facts().architecture.is_amd()),
            rails: sender.facts().rails.min(receiver.facts().rails).max(1),
        })
    }
}

impl Topology {
    /// The GPU between two that have no link of their own, where there is one.
    fn relay_between(&self, from: usize, to: usize) -> Option<usize> {
        let path = self.path(self.gpus[from], self.gpus[to]);
        let middle = path.links.first().map(|(vertex, link)| self.vertices[*vertex].links[*link].to).filter(|_| path.links.len() == 2)?;
        self.gpus.iter().position(|gpu| *gpu == middle)
    }
    /// The number of a GPU in its host.
    fn device(&self, gpu: usize) -> u32 {
        self.devices[gpu]
    }
    /// The number in the machine of an adapter.
    fn adapter_number(&self, net: usize) -> u32 {
        match self.vertices[self.nets[net]].kind {
            crate::topology::Kind::Net(number) => number as u32,
            _ => 0,
        }
    }
    /// The adapter with a number in the machine.
    fn net_of(&self, number: u32) -> usize {
        (0..self.nets.len()).find(|net| self.adapter_number(*net) == number).unwrap_or(0)
    }
}
