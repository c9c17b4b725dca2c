//! `MPI_Init`: buffers, queue pairs and rings, and the out-of-band exchange that connects them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_catalog::{Accumulate, EagerChannel, Interface, Mpi, SingleElement, TagMatching};
use fabriscope_node::{Process, ProgramError};
use fabriscope_platform::{Binding, Target, path_mtu};
use fabriscope_psm2 as psm2;
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{
    Access, AhAttr, CqId, Lid, Mr, Mtu, Nic, PdId, Peer, Place, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Rkey, Sge, UdDestination,
    VerbsError,
};

use super::accumulate::LOCK;
use super::atomic::{SLOT_COUNT, SLOTS};
use super::buffer::{Buffer, Home};
use super::connection::{Connection, Link};
use super::contents::Contents;
use super::onload;
use super::protocol::Protocol;
use super::service::Services;
use super::state::{Rail, State};
use super::wire::Wires;

/// What the ranks of a job share out of band. Clones are the same world.
#[derive(Debug, Clone)]
pub struct World(pub(super) Rc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub protocol: Protocol,
    mtu: Mtu,
    outstanding_reads: u8,
    pub wires: Wires,
    /// The node of each rank.
    nodes: RefCell<BTreeMap<u32, u32>>,
    /// Its NUMA domain there.
    domains: RefCell<BTreeMap<u32, u32>>,
    contacts: RefCell<BTreeMap<(u32, u32, usize), Contact>>,
    /// Where each rank listens, over sockets.
    pub doors: RefCell<BTreeMap<u32, Lid>>,
    /// (callee, address, port) → caller.
    pub callers: RefCell<BTreeMap<(u32, Lid, u16), u32>>,
    /// PSM2, where the library has it, and where each rank is.
    pub psm2: Option<psm2::Library>,
    pub addresses: RefCell<BTreeMap<u32, psm2::Address>>,
    /// How often ranks were done with everything they had sent.
    pub idle: Cell<u64>,
    /// Which GPU each rank of a node has.
    binding: Binding,
    /// How the library does one-sided operations beyond put and get, if that is known.
    pub one_sided: Option<OneSidedWays>,
    /// Connections have atomics.
    pub atomics: bool,
    /// What the memories of the ranks hold, for programs that look.
    pub contents: Option<Contents>,
    /// Where the window of each rank begins: memory for one-sided operations.
    pub users: RefCell<BTreeMap<u32, u64>>,
    /// What origins have asked of targets, by (origin, target).
    pub services: RefCell<BTreeMap<(u32, u32), Services>>,
    /// Old values by (origin, target, number).
    pub answers: RefCell<BTreeMap<(u32, u32, u64), u64>>,
}

/// How a library does one-sided operations beyond put and get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OneSidedWays {
    pub accumulate: Accumulate,
    pub single: SingleElement,
    pub apply_overhead: Span,
}

/// What a rank tells a peer about one rail.
#[derive(Debug, Clone, Copy)]
struct Contact {
    lid: Lid,
    qp: QpNum,
    rkey: Rkey,
    ring: u64,
    user: u64,
    device: Option<(u64, Rkey)>,
}

impl World {
    /// The world of a job of `ranks` ranks that is linked with the library `mpi` on a machine like `target`.
    #[must_use]
    pub fn new(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        World::with(mpi, target, ranks, (None, None))
    }
    /// The same, and the memories of the ranks hold what is written: what one-sided operations bring and fetch can be looked at.
    #[must_use]
    pub fn with_contents(mpi: &Mpi, target: &Target, ranks: u32) -> World {
        World::with(mpi, target, ranks, (None, Some(Contents::default())))
    }
    /// The world of another library over the same transport, whose one-sided operations take a core `overhead` above the verbs.
    pub(crate) fn of_calls(mpi: &Mpi, target: &Target, ranks: u32, overhead: Span, keeps: bool) -> World {
        World::with(mpi, target, ranks, (Some(overhead), keeps.then(Contents::default)))
    }

    fn with(mpi: &Mpi, target: &Target, ranks: u32, (call, contents): (Option<Span>, Option<Contents>)) -> World {
        let mtu = path_mtu(target.mtu);
        let mut protocol = Protocol { unordered: target.interface == Interface::Efa, ..Protocol::from(mpi) };
        protocol.call_overhead = call.unwrap_or(protocol.call_overhead);
        if ranks > RING_RANKS && protocol.eager_channel == EagerChannel::RdmaWrite {
            protocol.eager_channel = EagerChannel::Send;
        }
        World(Rc::new(Shared {
            protocol,
            mtu,
            outstanding_reads: target.max_outstanding_reads,
            wires: Wires::default(),
            nodes: RefCell::default(),
            domains: RefCell::default(),
            contacts: RefCell::default(),
            doors: RefCell::default(),
            callers: RefCell::default(),
            psm2: mpi.psm2.as_ref().map(|part| onload::library(part, mpi.gpu.as_ref())),
            addresses: RefCell::default(),
            idle: Cell::default(),
            binding: target.binding.clone(),
            one_sided: mpi.one_sided.as_ref().map(|rules| OneSidedWays {
                accumulate: *rules.accumulate,
                single: *rules.single,
                apply_overhead: *rules.apply_overhead,
            }),
            atomics: matches!(target.interface, Interface::Verbs | Interface::Cxi),
            contents,
            users: RefCell::default(),
            services: RefCell::default(),
            answers: RefCell::default(),
        }))
    }
}

/// Creates what this rank needs for `peers` and connects it; every rank must name those that name it. `buffer` is where it receives.
pub(super) async fn open(process: &Process, world: &World, peers: &[u32], buffer: Buffer) -> Result<State, ProgramError> {
    let shared = &world.0;
    let (me, protocol) = (process.rank(), shared.protocol.on(process));
    shared.users.borrow_mut().insert(me, MEMORY + (u64::from(me) << 40) + WINDOW);
    if protocol.eager_channel == EagerChannel::Stream {
        return super::stream::open(process, shared, peers).await;
    }
    let (near, peers) = apart(process, shared, peers).await;
    let home = shared.home(process);
    let mut rails = Vec::new();
    let mut created: Vec<Vec<(QpNum, u64)>> = vec![Vec::new(); peers.len()];
    for (index, (nic, _)) in home.nics.iter().copied().take(protocol.most_rails as usize).enumerate() {
        let reached = reached(&protocol, &home, index);
        let mut rail = open_rail(process, nic, peers.len(), &protocol, reached).map_err(failed)?;
        if protocol.tag_matching == TagMatching::Adapter && rail.device.is_some() {
            rail.lands = buffer;
        }
        let shared_qp = if protocol.unordered { Some(open_shared(process, &rail, peers.len() as u32, shared)?) } else { None };
        for (at, &peer) in peers.iter().enumerate() {
            let ring = rail.mr.addr + at as u64 * ring_bytes(&protocol);
            let own = || process.nic(nic, |n| n.create_qp(&queue_pair(&rail, &protocol, QpType::Rc, 1)));
            let qp = shared_qp.map_or_else(own, Ok).map_err(failed)?;
            let contact = Contact {
                lid: process.lid(nic),
                qp,
                rkey: rail.mr.rkey,
                ring,
                user: rail.user,
                device: rail.device.map(|mr| (mr.addr, mr.rkey)),
            };
            shared.contacts.borrow_mut().insert((me, peer, index), contact);
            created[at].push((qp, ring));
        }
        if let Some(srq) = rail.srq {
            for _ in 0..protocol.shared_receives {
                process.post_srq_recv(nic, srq, &receive(&rail, &protocol))?;
            }
        }
        rails.push(rail);
    }
    if let Some(rail) = rails.first() {
        shared.users.borrow_mut().insert(me, rail.user + WINDOW);
    }
    shared.keep(process, &rails);
    process.barrier().await;
    let mut connections = BTreeMap::new();
    for (at, &peer) in peers.iter().enumerate() {
        let mut links = Vec::new();
        for (index, &(qp, ring)) in created[at].iter().enumerate() {
            let Some(contact) = shared.contacts.borrow().get(&(peer, me, index)).copied() else {
                continue;
            };
            let (rail, nic) = (&rails[index], rails[index].nic);
            let to = if protocol.unordered {
                let av = AhAttr { dlid: contact.lid, sl: 0 };
                let ah = process.nic(nic, |n| n.create_ah(rail.pd, av)).map_err(failed)?;
                Some(UdDestination { ah, remote_qpn: contact.qp, remote_qkey: Peer::QKEY })
            } else {
                connect(process, nic, qp, contact, shared).map_err(failed)?;
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
    connections.extend(shared.local(near));
    process.barrier().await;
    Ok(State::new(me, protocol, rails, connections, home))
}

/// The peers on the node of this rank, if the library talks to them through its memory, and the others.
pub(super) async fn apart(process: &Process, shared: &Shared, peers: &[u32]) -> (Vec<u32>, Vec<u32>) {
    shared.nodes.borrow_mut().insert(process.rank(), process.node());
    process.barrier().await;
    let domain = shared.home(process).numa;
    process.sit(domain);
    shared.domains.borrow_mut().insert(process.rank(), domain);
    process.barrier().await;
    let here = |peer: &u32| shared.protocol.local.is_some() && shared.nodes.borrow().get(peer) == Some(&process.node());
    peers.iter().partition(|peer| here(peer))
}

impl Shared {
    /// Gives the adapters the memory of the ranks, where contents are kept.
    fn keep(&self, process: &Process, rails: &[Rail]) {
        let Some(contents) = &self.contents else { return };
        for rail in rails {
            process.nic(rail.nic, |n| n.set_memory(Box::new(contents.clone())));
            contents.expose(rail.user + WINDOW + SLOTS, 8 * SLOT_COUNT as usize);
            contents.expose(rail.user + WINDOW + LOCK, 8);
        }
    }
    /// Where a rank sits in its node, once all have said where they are.
    pub fn home(&self, process: &Process) -> Home {
        let nodes = self.nodes.borrow();
        let before = nodes.range(..process.rank()).filter(|(_, node)| **node == process.node()).count();
        Home::of(process, &self.binding, before as u32)
    }
    /// Connections to peers on the same node.
    pub fn local(&self, peers: Vec<u32>) -> Vec<(u32, Connection)> {
        let (domains, window) = (self.domains.borrow(), self.protocol.window);
        let to = |peer| {
            let domain = domains.get(&peer).copied().unwrap_or(0);
            (peer, Connection { domain, ..Connection::over(vec![Link::unused()], true, window) })
        };
        peers.into_iter().map(to).collect()
    }
}

/// The memory of the rank's GPU, where the adapter of a rail is near enough to read and write it.
pub(super) fn reached(protocol: &Protocol, home: &Home, rail: usize) -> Option<Place> {
    let (gpu, direct, class) = (home.gpu?, protocol.gpu?.direct?, home.nics.get(rail)?.1);
    // Places count the memories of GPUs from 1.
    if class <= direct.farthest { u8::try_from(gpu + 1).ok().map(Place) } else { None }
}

fn open_rail(process: &Process, nic: usize, peers: usize, protocol: &Protocol, reached: Option<Place>) -> Result<Rail, VerbsError> {
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
    let qp = process.nic(rail.nic, open).map_err(failed)?;
    post_receives(process, rail, qp, peers, protocol)?;
    Ok(qp)
}

fn post_receives(process: &Process, rail: &Rail, qp: QpNum, peers: u32, protocol: &Protocol) -> Result<(), ProgramError> {
    (0..receives(protocol).saturating_mul(peers)).try_for_each(|_| Ok(process.post_recv(rail.nic, qp, &receive(rail, protocol))?))
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

/// The receive that is posted for every message that comes by send.
pub(super) fn receive(rail: &Rail, protocol: &Protocol) -> RecvWr {
    let (addr, lkey) = rail.at(rail.lands);
    let sge = Sge { addr, length: protocol.receive_buffer(), lkey };
    RecvWr::new(super::state::RECEIVE, sge)
}

/// Slots of a ring: one per credit, and some for messages that need no credit.
pub(super) fn slots(protocol: &Protocol) -> u64 {
    u64::from(protocol.window) + u64::from(RESERVE)
}

/// Room in the send queue of one connection.
pub(super) fn send_depth(protocol: &Protocol) -> u32 {
    (4 * protocol.window).max(256)
}

fn receives(protocol: &Protocol) -> u32 {
    protocol.window + RESERVE
}

/// What a ring takes; nothing where the library has none.
fn ring_bytes(protocol: &Protocol) -> u64 {
    if protocol.eager_channel == EagerChannel::RdmaWrite { slots(protocol) * protocol.slot() } else { 0 }
}

fn failed(error: VerbsError) -> ProgramError {
    ProgramError(error.to_string())
}

/// Jobs of more ranks use no rings: polling them would take longer than a completion. Basis: assumed, as MVAPICH2's polling set.
const RING_RANKS: u32 = 64;
/// Messages of credits that may be under way beyond the window. At most three are: each stands for half a window
/// of buffers, and the credits themselves are never more than the window.
const RESERVE: u32 = 4;
/// Where a rank's memory lies. Basis: assumed; no bytes are moved.
const MEMORY: u64 = 0x1000_0000_0000;
/// Where that of its GPU lies, from there. Basis: assumed.
const DEVICE: u64 = 1 << 39;
/// Where windows begin, from the user buffers on: behind the longest message that tools send. Basis: assumed.
pub(super) const WINDOW: u64 = 1 << 30;
/// Room for user buffers: more than the longest message, 2³² − 1 bytes.
const USER_BYTES: u64 = 1 << 33;
/// The first packet number of every connection. Basis: assumed; nothing depends on it.
const FIRST_PSN: u32 = 0;
