//! `ncclSend` and `ncclRecv`, and groups of them: one kernel in which every send and receive has blocks of its own.
//!
//! Source: NCCL, src/enqueue.cc (addP2pToPlan), src/device/sendrecv.h; `fabriscope_nccl::point_to_point` for channels and chunks.
//! Modelled: sends and receives of a group side by side, so that no order of theirs can block another; messages to the own rank.
//! Not modelled: more sends and receives in a group than fit into one kernel; proxies of other ranks (PXN).

use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_nccl::NetWay;
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;

use super::communicator::Communicator;
use super::contents::{self, Contents};
use super::fifo::FifoId;
use super::kernels::{BlockPlan, Move, Turn};
use super::world::{Wire, WireKind, World};

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

/// The connections between these senders and receivers for messages of these lengths, with the adapters of those to other nodes.
pub fn pairs(world: &World, pairs: &[(u32, u32)], lengths: &[Bytes]) -> Vec<(Wire, Option<NetWay>)> {
    let (plan, schedule) = (world.plan(), &world.0.schedule);
    let mut found = BTreeMap::new();
    for &(from, to) in pairs.iter().filter(|(from, to)| plan.seat(*from).node != plan.seat(*to).node) {
        let round = schedule.round(plan, from, to);
        for piece in lengths.iter().flat_map(|bytes| schedule.split(round, *bytes, true).parts) {
            let wire = Wire { from, to, channel: piece.channel, kind: WireKind::PointToPoint };
            found.insert(wire, world.0.net_way(from, to, piece.channel));
        }
    }
    found.into_iter().collect()
}

impl Communicator {
    /// Joins the job, and connects these senders and receivers for messages of these lengths.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub async fn init_pairs(
        process: Process,
        world: World,
        senders: &[(u32, u32)],
        lengths: &[Bytes],
    ) -> Result<Communicator, ProgramError> {
        let wires = pairs(&world, senders, lengths);
        Communicator::init(process, world, &wires).await
    }

    /// A group of sends and receives as one kernel. What a rank sends to itself is copied once, when it is sent.
    ///
    /// # Errors
    /// Ranks that are not connected.
    pub fn group(&self, exchanges: &[Exchange]) -> Result<Turn, ProgramError> {
        let (plan, schedule) = (self.proxy.world.plan(), &self.proxy.world.0.schedule);
        let mut plans = Vec::new();
        for exchange in exchanges {
            let own = exchange.peer == self.rank();
            if own && !exchange.sends {
                continue;
            }
            let (from, to) = if exchange.sends { (self.rank(), exchange.peer) } else { (exchange.peer, self.rank()) };
            let (shared, me) = (&self.proxy.world.0, self.rank());
            let across = shared.seat_of(me, from)?.node != shared.seat_of(me, to)?.node;
            let split = schedule.split(schedule.round(plan, from, to), exchange.bytes, across);
            for piece in &split.parts {
                let wire = Wire { from, to, channel: piece.channel, kind: WireKind::PointToPoint };
                let fifo = if own { None } else { Some(self.fifo(wire, split.protocol)?) };
                let sends = exchange.sends;
                let contents = move |at| if own { Contents::default() } else { contents::of_message(from, to, at, sends) };
                let moves = split.chunks(*piece).map(move |(at, bytes)| step(fifo, sends, bytes, contents(at)));
                plans.push(BlockPlan { pace: self.library().pace(split.protocol), moves: Box::new(moves) });
            }
        }
        let launch = self.launch(plans);
        self.note_group(launch, exchanges);
        Ok(launch.0)
    }
}

fn step(fifo: Option<FifoId>, sends: bool, bytes: Bytes, contents: Contents) -> Move {
    let (ends, none): (Rc<[FifoId]>, Rc<[FifoId]>) = (fifo.into_iter().collect(), Rc::from([]));
    let (from, to) = if sends { (none, ends) } else { (ends, none) };
    Move { from, to, bytes, slots: 1, in_place: false, contents, ..Move::default() }
}
