//! Sends and receives: in which rounds a rank meets the others, by which channels, in which chunks.
//!
//! `sendrecv`, `alltoall`, `gather`, `scatter` and `hypercube` of nccl-tests are groups of these.
//!
//! Source: NCCL 2.22.3, src/init.cc (p2pSchedule), src/graph/paths.cc (ncclTopoComputeP2pChannels), src/enqueue.cc (addP2pToPlan,
//! scheduleP2pTasksToPlan), src/include/device.h (ncclP2pPartBounds, ncclP2pChannelForPart), channel.h.
//! Modelled: the order of peers, channels of a pair, LL for small messages inside a node, smaller chunks over the network.
//! Not modelled: how many operations share a launch, registered buffers.

use fabriscope_units::Bytes;

use crate::algorithm::Protocol;
use crate::communicator::Communicator;
use crate::path_type::PathType;
use crate::tables;

/// Operations of one launch of a channel at the most (device.h, NCCL_MAX_DEV_WORK_P2P_PER_BATCH).
pub const MOST_AT_ONCE: u32 = 8;

/// Whom a rank meets in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// To whom it may send.
    pub to: u32,
    /// From whom it may receive.
    pub from: u32,
}

/// One direction of a message between two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// LL or Simple.
    pub protocol: Protocol,
    /// Channel and piece of the message for each; the last pieces may be empty.
    pub parts: Vec<Piece>,
    /// Largest chunk; each takes one slot.
    pub chunk: Bytes,
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its channel.
    pub channel: u32,
    /// From the beginning of the message.
    pub offset: Bytes,
    /// Its size.
    pub bytes: Bytes,
}

impl Split {
    /// The chunks of a piece: offset in the message and size. An empty piece is one empty chunk.
    pub fn chunks(&self, piece: Piece) -> impl Iterator<Item = (Bytes, Bytes)> + use<> {
        let chunk = self.chunk.0;
        (0..piece.bytes.0.div_ceil(chunk).max(1)).map(move |number| {
            let at = number * chunk;
            (Bytes(piece.offset.0 + at), Bytes(chunk.min(piece.bytes.0 - at)))
        })
    }
}

/// Rounds and channels of all ranks.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Distances of nodes, and of ranks within a node, by round.
    nodes: Vec<u32>,
    locals: Vec<u32>,
    flat: bool,
    channels: u32,
    per_peer: u32,
    several_nodes: bool,
    chunk: u64,
    ll_chunk: u64,
    ranks: u32,
}

impl Schedule {
    /// The schedule of a communicator.
    #[must_use]
    pub fn new(communicator: &Communicator) -> Schedule {
        let (most, alike) = communicator.locals();
        let (nodes, locals) = if alike { (communicator.nodes(), most) } else { (1, communicator.ranks()) };
        let architecture = communicator.kinds()[0].topology.facts().architecture;
        let limit = tables::most_channels(architecture) as u32;
        let all = communicator.channels();
        let channels = all.next_power_of_two().min(limit);
        let per_peer = per_peer(communicator, all).next_power_of_two().min(channels);
        let settings = communicator.settings();
        let several_nodes = communicator.nodes() > 1;
        let usual = match (several_nodes, communicator.all_linked()) {
            (true, _) => settings.p2p_chunks[2],
            (false, true) => settings.p2p_chunks[0],
            (false, false) => settings.p2p_chunks[1],
        };
        let chunk = usual.0.min(settings.buffer(Protocol::Simple, architecture.is_amd()) / tables::SLOTS);
        let ll_chunk = settings.buffer(Protocol::Ll, architecture.is_amd()) / tables::SLOTS / 2;
        let (nodes, locals) = (distances(nodes), distances(locals));
        Schedule { nodes, locals, flat: !alike, channels, per_peer, several_nodes, chunk, ll_chunk, ranks: communicator.ranks() }
    }

    /// Channels for point-to-point traffic.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.channels
    }
    /// Channels of a pair of ranks at the most.
    #[must_use]
    pub fn channels_per_peer(&self) -> u32 {
        self.per_peer
    }

    /// Whom a rank meets in a round; there are as many rounds as ranks, and in the first it meets itself.
    ///
    /// # Panics
    /// If there is no such round or rank.
    #[must_use]
    pub fn pair(&self, communicator: &Communicator, rank: u32, round: u32) -> Pair {
        let (nodes, locals) = (self.nodes.len() as u32, self.locals.len() as u32);
        let (node, local) = (self.nodes[(round / locals) as usize], self.locals[(round % locals) as usize]);
        if self.flat {
            return Pair { to: (rank + local) % locals, from: (rank + locals - local) % locals };
        }
        let seat = communicator.seat(rank);
        let place = communicator.place(rank);
        let at = |node: u32, local: u32| communicator.placed(node % nodes, local % locals);
        Pair { to: at(seat.node + node, place + local), from: at(seat.node + nodes - node, place + locals - local) }
    }

    /// The round in which `rank` sends to `to`.
    #[must_use]
    pub fn round(&self, communicator: &Communicator, rank: u32, to: u32) -> u32 {
        let (nodes, locals) = (self.nodes.len() as u32, self.locals.len() as u32);
        let find = |distances: &[u32], wanted: u32| distances.iter().position(|distance| *distance == wanted).unwrap_or(0) as u32;
        if self.flat {
            return find(&self.locals, (to + locals - rank) % locals);
        }
        let (a, b) = (communicator.seat(rank), communicator.seat(to));
        let local = (communicator.place(to) + locals - communicator.place(rank)) % locals;
        find(&self.nodes, (b.node + nodes - a.node) % nodes) * locals + find(&self.locals, local)
    }

    /// How a message of a round is split. `network` says that it goes by adapters.
    #[must_use]
    pub fn split(&self, round: u32, bytes: Bytes, network: bool) -> Split {
        let small = bytes.0 <= u64::from(self.per_peer) * tables::P2P_LL.0;
        // Connections over the network have no buffers for LL.
        let protocol = if small && !network { Protocol::Ll } else { Protocol::Simple };
        let slot = match protocol {
            Protocol::Ll => 2 * self.ll_chunk,
            _ => self.chunk,
        };
        let mut chunk = if protocol == Protocol::Ll { self.ll_chunk } else { self.chunk };
        if network {
            if bytes.0 < slot {
                chunk /= 4;
            } else if bytes.0 < 8 * slot {
                chunk /= 2;
            }
        }
        let count = self.count(bytes.0, slot);
        let each = bytes.0.div_ceil(u64::from(count)).next_multiple_of(4 << 10);
        let part = |number: u32| {
            let offset = (u64::from(number) * each).min(bytes.0);
            Piece { channel: self.channel(round, number), offset: Bytes(offset), bytes: Bytes(each.min(bytes.0 - offset)) }
        };
        Split { protocol, parts: (0..count).map(part).collect(), chunk: Bytes(chunk.max(1)) }
    }

    /// Channels of a message.
    fn count(&self, bytes: u64, slot: u64) -> u32 {
        if bytes == 0 {
            return 1;
        }
        let mut usual = self.per_peer;
        while usual > 1 && u64::from(usual) * u64::from(self.ranks) > u64::from(self.channels) {
            usual /= 2;
        }
        let (least, most) = if self.several_nodes { (slot / 2, slot) } else { (slot / 8, slot * 32) };
        let mut count = u64::from(usual).min(bytes.div_ceil(least.max(1)));
        let mut part = least.max(bytes.div_ceil(count));
        while part > most && count <= u64::from(self.per_peer) / 2 {
            count *= 2;
            part = bytes.div_ceil(count);
        }
        count as u32
    }

    /// The channel of a piece in a round.
    fn channel(&self, round: u32, part: u32) -> u32 {
        let bits = self.channels.trailing_zeros();
        let locals = self.locals.len() as u32;
        let base = if self.several_nodes { round / locals * locals.div_ceil(MOST_AT_ONCE) + round % locals / MOST_AT_ONCE } else { round };
        (mirrored(base, bits) + mirrored(part, bits)) & (self.channels - 1)
    }
}

/// Distances by round: sums of 1, 2, 3, … modulo a power of two, those that are less than `count`.
fn distances(count: u32) -> Vec<u32> {
    let size = count.next_power_of_two();
    let sums = (1..=size).scan(0u32, |sum, step| {
        let here = *sum;
        *sum = (*sum + step) & (size - 1);
        Some(here)
    });
    sums.filter(|distance| *distance < count).collect()
}

/// The lowest `bits` of a number in the opposite order.
fn mirrored(value: u32, bits: u32) -> u32 {
    if bits == 0 { 0 } else { value.reverse_bits() >> (32 - bits) }
}

/// Channels of a pair: two for each link of the slowest pair, two over the network and fewer with many ranks.
fn per_peer(communicator: &Communicator, channels: u32) -> u32 {
    let mut least = channels;
    for kind in communicator.kinds() {
        let topology = &kind.topology;
        let link = topology.facts().architecture.link_rate().as_bps().max(1);
        for a in 0..topology.gpus() {
            for b in (0..topology.gpus()).filter(|b| *b != a) {
                let (class, rate) = topology.between(b, a);
                let links = if class == PathType::Nvl { (rate.as_bps() / link).max(1) as u32 } else { 1 };
                least = least.min(2 * links);
            }
            if communicator.nodes() > 1 {
                let far = communicator.settings().channels_per_net_peer.map(|count| count as u32).unwrap_or_else(|| {
                    let mut far = 2;
                    while far > 1 && far * communicator.ranks() > channels.next_power_of_two() * 4 {
                        far /= 2;
                    }
                    far.max(topology.adapters_for_rate(a))
                });
                least = least.min(far);
            }
        }
    }
    least.max(1)
}
