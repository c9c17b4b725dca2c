//! `MPI_Init`: buffers, queue pairs and rings, and the out-of-band exchange that connects them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fabriscope_catalog::{EagerChannel, TagMatching};
use fabriscope_node::{Devices, Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{Access, CqId, MemoryId, Mr, VerbsError};

use super::buffer::{Buffer, RankLocation};
use super::connection::Connection;
use super::exchange::{Contact, ContactOf, DomainOf, NodeOf, SeatOf, WindowOf};
use super::layout::{DEVICE, LOCK, MEMORY, SLOT_COUNT, SLOTS, USER_BYTES, WINDOW, receives, ring_bytes, send_depth};
use super::protocol::Protocol;
use super::queue_pairs::{self, QueuePairs};
use super::sockets;
use super::state::{Rail, State};
use super::world::{NodeMemory, Shared, World};

/// Creates what this rank needs for `peers` and connects it; every rank must name those that name it. `buffer` is where it receives.
pub(super) async fn open(
    process: &Process,
    (world, memory): (&World, &Rc<NodeMemory>),
    peers: &[u32],
    buffer: Buffer,
) -> Result<State, ProgramError> {
    let (shared, exchange) = (&world.0, &world.0.exchange);
    let (me, protocol) = (process.rank(), shared.protocol.on(process));
    exchange.put(me, WindowOf { rank: me }, MEMORY + (u64::from(me) << 40) + WINDOW);
    if protocol.eager_channel == EagerChannel::Stream {
        return sockets::open(process, (shared, memory), peers).await;
    }
    let (near, peers) = apart(process, shared, peers).await;
    let beside = beside(process, shared, &peers);
    let home = shared.home(process);
    let mut rails = Vec::new();
    let mut pairs = Vec::new();
    for (index, (nic, _)) in home.nics.iter().copied().take(protocol.most_rails as usize).enumerate() {
        let reached = reached(&protocol, &home, index);
        let mut rail = open_rail(process, nic, peers.len(), &protocol, reached)?;
        rail.srq = queue_pairs::shared_queue(process, (&protocol, memory), &rail, peers.len())?;
        if protocol.tag_matching == TagMatching::Adapter && rail.device.is_some() {
            rail.lands = buffer;
        }
        let own = QueuePairs::open(process, &rail, peers.len(), shared)?;
        for (at, &peer) in peers.iter().enumerate() {
            let (qp, receiver) = own.of(at, peer);
            let contact = Contact {
                lid: process.lid(nic),
                qp,
                receiver,
                srq: rail.srq,
                rkey: rail.mr.rkey,
                ring: rail.mr.addr + at as u64 * ring_bytes(&protocol),
                user: rail.user,
                device: rail.device.map(|mr| (mr.addr, mr.rkey)),
            };
            exchange.put(me, ContactOf { from: me, to: peer, rail: index }, contact);
        }
        if let Some(srq) = rail.srq {
            for _ in 0..protocol.shared_receives {
                process.post_srq_recv(nic, srq, &rail.receive(&protocol))?;
            }
        }
        rails.push(rail);
        pairs.push(own);
    }
    if let Some(rail) = rails.first() {
        exchange.put(me, WindowOf { rank: me }, rail.user + WINDOW);
    }
    keep(memory, process, &rails);
    exchange.fence(process).await;
    queue_pairs::extend(process, (shared, memory), &peers, &rails, &mut pairs).await?;
    let mut connections = BTreeMap::new();
    for (at, &peer) in peers.iter().enumerate() {
        let mut links = Vec::new();
        for (index, (rail, own)) in rails.iter().zip(&pairs).enumerate() {
            let Some(contact) = exchange.get(me, ContactOf { from: peer, to: me, rail: index }) else {
                continue;
            };
            let mut link = queue_pairs::link(process, (shared, index, rail), own, (at, peer), contact)?;
            if protocol.eager_channel == EagerChannel::RdmaWrite {
                let ring = rail.mr.addr + at as u64 * ring_bytes(&protocol);
                link.watch = process.nic(rail.nic, |n| n.create_watch(ring, Bytes(ring_bytes(&protocol))));
            }
            links.push(link);
        }
        if links.is_empty() {
            return Err(ProgramError(format!("rank {me} wants to talk to rank {peer}, which does not expect it")));
        }
        connections.insert(peer, Connection::over(links, false, protocol.window));
    }
    connections.extend(shared.local(me, near));
    process.barrier().await;
    let mut state = State::new((me, Rc::clone(memory)), protocol, rails, connections, home);
    state.beside = beside;
    Ok(state)
}

/// The peers on the node of this rank, if the library talks to them through its memory, and the others.
pub(super) async fn apart(process: &Process, shared: &Shared, peers: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (me, exchange) = (process.rank(), &shared.exchange);
    exchange.put(me, NodeOf { rank: me }, process.node());
    exchange.put(me, SeatOf { node: process.node(), rank: me }, ());
    exchange.fence(process).await;
    let domain = shared.home(process).numa;
    process.sit(domain);
    exchange.put(me, DomainOf { rank: me }, domain);
    exchange.fence(process).await;
    let beside = beside(process, shared, peers);
    let on_node = |peer: u32| exchange.get(me, NodeOf { rank: peer }) == Some(process.node());
    peers.iter().partition(|peer| shared.protocol.local.is_some() && on_node(**peer) && !beside.contains(peer))
}

/// The peers on the node of this rank that run under another operating system: in another tray of a rack, which only links between
/// GPUs join.
fn beside(process: &Process, shared: &Shared, peers: &[u32]) -> BTreeSet<u32> {
    let (me, exchange) = (process.rank(), &shared.exchange);
    let Ok(machine) = process.devices().map(Devices::machine) else { return BTreeSet::new() };
    let numas = machine.numas();
    let Some(own) = numas.get(process.domain() as usize) else { return BTreeSet::new() };
    let seen = machine.system_of(*own);
    let there = |peer: u32| {
        let domain = exchange.get(me, DomainOf { rank: peer }).and_then(|domain| numas.get(domain as usize));
        exchange.get(me, NodeOf { rank: peer }) == Some(process.node()) && domain.is_some_and(|numa| !seen[numa.index()])
    };
    peers.iter().copied().filter(|peer| there(*peer)).collect()
}

/// Gives the adapters the memory of their node, where contents are kept.
fn keep(memory: &NodeMemory, process: &Process, rails: &[Rail]) {
    let Some(contents) = &memory.contents else { return };
    for rail in rails {
        process.nic(rail.nic, |n| n.set_memory(Box::new(contents.clone())));
        contents.expose(rail.user + WINDOW + SLOTS, 8 * SLOT_COUNT as usize);
        contents.expose(rail.user + WINDOW + LOCK, 8);
    }
}

/// The memory of the rank's GPU, where the adapter of a rail is near enough to read and write it.
pub(super) fn reached(protocol: &Protocol, home: &RankLocation, rail: usize) -> Option<MemoryId> {
    let (gpu, direct, class) = (home.gpu?, protocol.gpu?.direct?, home.nics.get(rail)?.1);
    if class <= direct.farthest { MemoryId::of_gpu(gpu) } else { None }
}

fn open_rail(process: &Process, nic: usize, peers: usize, protocol: &Protocol, reached: Option<MemoryId>) -> Result<Rail, VerbsError> {
    let base = MEMORY + (u64::from(process.rank()) << 40);
    let rings = peers as u64 * ring_bytes(protocol);
    let near = process.place(nic);
    process.nic(nic, |n| {
        let pd = n.alloc_pd();
        let mr: Mr = n.reg_mr_at(pd, base, Bytes(rings + USER_BYTES), Access::ALL, near)?;
        let at = |place| n.reg_mr_at(pd, base + DEVICE, Bytes(USER_BYTES), Access::ALL, place);
        let device = reached.map(at).transpose()?;
        let own = receives(protocol);
        let cq: CqId =
            n.create_cq((send_depth(protocol) + own).saturating_mul(peers.max(1) as u32).saturating_add(protocol.shared_receives))?;
        Ok(Rail { nic, pd, cq, srq: None, mr, user: base + rings, device, lands: Buffer::Host })
    })
}
