//! `MPI_Init`: buffers, queue pairs and rings, and the out-of-band exchange that connects them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fabriscope_catalog::{EagerChannel, TagMatching};
use fabriscope_node::{Devices, Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{
    Access, AhAttr, CqId, Lid, MemoryId, Mr, Nic, PdId, Peer, QpAttr, QpCap, QpInit, QpNum, QpType, UdDestination, VerbsError,
};

use super::buffer::{Buffer, RankLocation};
use super::connection::{Connection, Link};
use super::exchange::{Contact, ContactOf, DomainOf, NodeOf, SeatOf, WindowOf};
use super::layout::{DEVICE, LOCK, MEMORY, SLOT_COUNT, SLOTS, USER_BYTES, WINDOW, receives, ring_bytes, send_depth};
use super::protocol::Protocol;
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
    let mut created: Vec<Vec<(QpNum, u64)>> = vec![Vec::new(); peers.len()];
    for (index, (nic, _)) in home.nics.iter().copied().take(protocol.most_rails as usize).enumerate() {
        let reached = reached(&protocol, &home, index);
        let mut rail = open_rail(process, nic, peers.len(), &protocol, reached)?;
        if protocol.tag_matching == TagMatching::Adapter && rail.device.is_some() {
            rail.lands = buffer;
        }
        let shared_qp = if protocol.unordered { Some(open_shared(process, &rail, peers.len() as u32, shared)?) } else { None };
        for (at, &peer) in peers.iter().enumerate() {
            let ring = rail.mr.addr + at as u64 * ring_bytes(&protocol);
            let own = || process.nic(nic, |n| n.create_qp(&queue_pair(&rail, &protocol, QpType::Rc, 1)));
            let qp = shared_qp.map_or_else(own, Ok)?;
            let contact = Contact {
                lid: process.lid(nic),
                qp,
                rkey: rail.mr.rkey,
                ring,
                user: rail.user,
                device: rail.device.map(|mr| (mr.addr, mr.rkey)),
            };
            exchange.put(me, ContactOf { from: me, to: peer, rail: index }, contact);
            created[at].push((qp, ring));
        }
        if let Some(srq) = rail.srq {
            for _ in 0..protocol.shared_receives {
                process.post_srq_recv(nic, srq, &rail.receive(&protocol))?;
            }
        }
        rails.push(rail);
    }
    if let Some(rail) = rails.first() {
        exchange.put(me, WindowOf { rank: me }, rail.user + WINDOW);
    }
    keep(memory, process, &rails);
    exchange.fence(process).await;
    let mut connections = BTreeMap::new();
    for (at, &peer) in peers.iter().enumerate() {
        let mut links = Vec::new();
        for (index, &(qp, ring)) in created[at].iter().enumerate() {
            let Some(contact) = exchange.get(me, ContactOf { from: peer, to: me, rail: index }) else {
                continue;
            };
            let (rail, nic) = (&rails[index], rails[index].nic);
            let to = if protocol.unordered {
                let av = AhAttr { dlid: contact.lid, sl: 0 };
                let ah = process.nic(nic, |n| n.create_ah(rail.pd, av))?;
                Some(UdDestination { ah, remote_qpn: contact.qp, remote_qkey: Peer::QKEY })
            } else {
                connect(process, nic, qp, contact, shared)?;
                None
            };
            let lid = contact.lid;
            let (peer_ring, peer_user, peer_device) = (contact.ring, contact.user, contact.device);
            let mut link = Link { qp, to, lid, rkey: contact.rkey, peer_ring, peer_user, peer_device, ..Link::unused() };
            if protocol.eager_channel == EagerChannel::RdmaWrite {
                link.watch = process.nic(nic, |n| n.create_watch(ring, Bytes(ring_bytes(&protocol))));
            }
            if !protocol.unordered && rail.srq.is_none() {
                post_receives(process, rail, qp, 1, &protocol)?;
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
    // Places count the memories of GPUs from 1.
    if class <= direct.farthest { u8::try_from(gpu + 1).ok().map(MemoryId) } else { None }
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
        let srq = if peers > 1 && !protocol.unordered { Some(n.create_srq(pd, protocol.shared_receives, 1)?) } else { None };
        Ok(Rail { nic, pd, cq, srq, mr, user: base + rings, device, lands: Buffer::Host })
    })
}

/// The queue pair of a rail that serves all peers, with the receives for all.
fn open_shared(process: &Process, rail: &Rail, peers: u32, shared: &Shared) -> Result<QpNum, ProgramError> {
    let protocol = &shared.protocol;
    let nobody = Peer { lid: Lid(0), qp: QpNum(0), sl: 0, mtu: shared.mtu };
    let init = queue_pair(rail, protocol, QpType::Srd, peers.max(1));
    let open = |n: &mut Nic| -> Result<QpNum, VerbsError> {
        let qp = n.create_qp(&init)?;
        n.connect(qp, &nobody, Access::ALL)?;
        Ok(qp)
    };
    let qp = process.nic(rail.nic, open)?;
    post_receives(process, rail, qp, peers, protocol)?;
    Ok(qp)
}

fn post_receives(process: &Process, rail: &Rail, qp: QpNum, peers: u32, protocol: &Protocol) -> Result<(), ProgramError> {
    (0..receives(protocol).saturating_mul(peers)).try_for_each(|_| Ok(process.post_recv(rail.nic, qp, &rail.receive(protocol))?))
}

fn queue_pair(rail: &Rail, protocol: &Protocol, qp_type: QpType, peers: u32) -> QpInit {
    let cap = QpCap {
        max_send_wr: send_depth(protocol).saturating_mul(peers),
        max_recv_wr: receives(protocol).saturating_mul(peers),
        max_inline_data: Bytes(protocol.inline_limit.into()),
        ..QpCap::default()
    };
    let pd: PdId = rail.pd;
    QpInit { cap, srq: rail.srq, ..QpInit::new(pd, qp_type, rail.cq) }
}

fn connect(process: &Process, nic: usize, qp: QpNum, peer: Contact, shared: &Shared) -> Result<(), VerbsError> {
    let av = AhAttr { dlid: peer.lid, sl: 0 };
    let reads = Some(shared.outstanding_reads);
    process.nic(nic, |n| {
        n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
        n.modify_qp(qp, &QpAttr { max_dest_rd_atomic: reads, ..QpAttr::rtr_rc(shared.mtu, peer.qp, FIRST_PSN, av) })?;
        n.modify_qp(qp, &QpAttr { max_rd_atomic: reads, ..QpAttr::rts_rc(FIRST_PSN) })
    })
}

/// The first packet number of every connection. Basis: assumed; nothing depends on it.
const FIRST_PSN: u32 = 0;
