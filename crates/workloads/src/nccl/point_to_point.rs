//! `ncclSend` and `ncclRecv`, and groups of them: one kernel in which every send and receive has blocks of its own.
//!
//! Source: NCCL, src/enqueue.cc (addP2pToPlan), src/device/sendrecv.h; src/transport/p2p.cc.
//! Modelled: a message is cut over channels, LL for short parts and Simple for long ones, chunks of the size of a slot; sends and receives
//! of a group run side by side, so that no order of theirs can block another.
//! Not modelled: more sends and receives in a group than fit into one kernel.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;

use super::communicator::Communicator;
use super::fifo::FifoId;
use super::kernels::{BlockPlan, Move, Turn};
use super::library::Protocol;
use super::world::{Wire, World};

/// A send or a receive of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The other rank.
    pub peer: u32,
    /// Whether this rank sends.
    pub sends: bool,
    /// The length of the message.
    pub bytes: Bytes,
}

impl Exchange {
    /// `ncclSend`.
    #[must_use]
    pub const fn send(peer: u32, bytes: Bytes) -> Exchange {
        Exchange { peer, sends: true, bytes }
    }
    /// `ncclRecv`.
    #[must_use]
    pub const fn receive(peer: u32, bytes: Bytes) -> Exchange {
        Exchange { peer, sends: false, bytes }
    }
}

/// How a message is cut: the same at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub channels: u32,
    pub part: Bytes,
    pub protocol: Protocol,
    pub chunk: Bytes,
}

impl Cut {
    /// Parts of at least `LEAST_PART` over up to as many channels as a peer gets.
    pub fn of(bytes: Bytes, across: bool) -> Cut {
        let most = if across { NET_CHANNELS } else { CHANNELS };
        let wanted = bytes.0.div_ceil(LEAST_PART.0).clamp(1, u64::from(most));
        let part = Bytes(bytes.0.div_ceil(wanted).next_multiple_of(ALIGN));
        let protocol = if part <= LL_LIMIT { Protocol::Ll } else { Protocol::Simple };
        let chunk = match (protocol, across) {
            (Protocol::Ll, _) => LL_CHUNK,
            (_, true) => NET_CHUNK,
            (_, false) => LOCAL_CHUNK,
        };
        Cut { channels: wanted as u32, part, protocol, chunk }
    }
    /// The bytes of a channel.
    fn of_channel(&self, bytes: Bytes, channel: u32) -> Bytes {
        let begun = self.part.0 * u64::from(channel);
        Bytes(bytes.0.saturating_sub(begun).min(self.part.0))
    }
}

impl Communicator {
    /// Joins the job, and connects these senders and receivers for [`group`](Self::group).
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn init_pairs(process: Process, world: World, pairs: &[(u32, u32)]) -> Result<Communicator, ProgramError> {
        let wires: Vec<Wire> = pairs.iter().flat_map(|&(from, to)| (0..CHANNELS).map(move |channel| Wire { from, to, channel })).collect();
        Communicator::init(process, world, &wires).await
    }

    /// A group of sends and receives as one kernel; messages to the own rank are not given here.
    ///
    /// # Errors
    /// Ranks that are not connected.
    pub fn group(&self, exchanges: &[Exchange]) -> Result<Turn, ProgramError> {
        let mut plans = Vec::new();
        for exchange in exchanges {
            let across = self.world.0.seat_of(exchange.peer)?.node != self.seat.node;
            let cut = Cut::of(exchange.bytes, across);
            for channel in 0..cut.channels {
                let (from, to) = if exchange.sends { (self.rank(), exchange.peer) } else { (exchange.peer, self.rank()) };
                let fifo = self.fifo(Wire { from, to, channel }, cut.protocol)?;
                let moves = moves(fifo, exchange.sends, cut.of_channel(exchange.bytes, channel), cut.chunk);
                plans.push(BlockPlan { pace: self.library().pace(cut.protocol), moves: Box::new(moves) });
            }
        }
        Ok(self.enqueue(plans))
    }
}

/// A part chunk by chunk; one of no bytes is one empty chunk.
fn moves(fifo: FifoId, sends: bool, bytes: Bytes, chunk: Bytes) -> impl Iterator<Item = Move> + use<> {
    let count = bytes.0.div_ceil(chunk.0).max(1);
    (0..count).map(move |index| {
        let length = Bytes((bytes.0 - (index * chunk.0).min(bytes.0)).min(chunk.0));
        let (from, to) = if sends { (Vec::new(), vec![fifo]) } else { (vec![fifo], Vec::new()) };
        Move { from, to, bytes: length, slots: 1, in_place: false }
    })
}

/// Channels of a peer in the node, and of one across. Basis: estimated (NCCL, src/graph/paths.cc, ncclTopoComputeP2pChannels: as many as
/// the links to a peer can fill, a power of two; two for each adapter).
const CHANNELS: u32 = 16;
const NET_CHANNELS: u32 = 2;
/// The least part of a message that gets a channel of its own. Basis: published (NCCL, src/enqueue.cc: half a chunk of 128 KiB).
const LEAST_PART: Bytes = Bytes(64 << 10);
/// Parts up to this go by LL. Basis: published (NCCL, NCCL_P2P_LL_THRESHOLD: 16384).
const LL_LIMIT: Bytes = Bytes(16 << 10);
/// Data of a slot of LL: 512 threads of 8 lines of 8 bytes. Basis: published (NCCL, src/include/device.h).
const LL_CHUNK: Bytes = Bytes(32 << 10);
/// Chunks between GPUs of a node. Basis: published (NCCL, NCCL_P2P_NVL_CHUNKSIZE: 512 KiB).
const LOCAL_CHUNK: Bytes = Bytes(512 << 10);
/// Chunks between nodes. Basis: published (NCCL, NCCL_P2P_NET_CHUNKSIZE: 128 KiB).
const NET_CHUNK: Bytes = Bytes(128 << 10);
/// Parts begin at multiples of so many bytes.
const ALIGN: u64 = 16;
