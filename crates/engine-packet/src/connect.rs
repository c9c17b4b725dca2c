//! Queue pairs for schedules: one connection for every two ranks that talk, or one queue pair for each rank.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::DEFAULT_PKEY;
use fabriscope_engine::{EngineError, Library};
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Remedy, Time};
use fabriscope_verbs::{
    Access, AhAttr, AhId, AltPath, CqId, Lid, MigState, Mr, Mtu, Nic, PdId, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Service, Sge,
    SrqId, VerbsError, Wc,
};

use crate::Transfers;
use crate::partners::Partners;
use crate::services::{self, Address};
use crate::world::World;

/// Whole address space: schedules do not say where their data lies.
pub(crate) const MEMORY: Bytes = Bytes(1 << 47);
/// Most bytes under one work request.
pub(crate) const WR_LIMIT: u64 = 1 << 30;
/// The Q_Key of all datagrams. Basis: assumed; nothing depends on it.
pub(crate) const QKEY: u32 = 1;

/// What a rank needs to talk to one other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerConnection {
    pub peer: u32,
    /// The queue pair of this connection; for datagrams that of the peer.
    pub qp: QpNum,
    /// Key of the peer's memory.
    pub remote: Mr,
    /// The address of the peer, for datagrams.
    pub ah: AhId,
    /// What requests have to say of their destination.
    pub address: Address,
}

/// A rank's end: its memory and its peers at other adapters, sorted.
#[derive(Debug, Clone)]
pub(crate) struct Rank {
    pub memory: Mr,
    pub connections: Vec<PeerConnection>,
    /// Slot of the first queue pair; the others follow in the order of `connections`.
    pub first_slot: u32,
    /// Where all its messages arrive, if it is one place: a shared receive queue, or the one queue pair of datagrams.
    pub inlet: Inlet,
    /// The ranks by the slots of what receives, where those do not stand in the order of `connections`.
    pub peers: BTreeMap<u32, u32>,
    /// Where connections are on demand, in the place of `connections`: the partners of all ranks, and which rank this is.
    pub partners: Option<(Arc<Partners>, u32)>,
}

/// Where the receives of a rank are posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inlet {
    /// With each connection.
    Each,
    Shared(SrqId),
    Own(QpNum),
}

impl Rank {
    /// One that has no connections yet.
    pub fn without_peers(memory: Mr, inlet: Inlet) -> Rank {
        Rank { memory, connections: Vec::new(), first_slot: 0, inlet, peers: BTreeMap::new(), partners: None }
    }
    pub fn place(&self, peer: u32) -> Option<usize> {
        self.connections.binary_search_by_key(&peer, |connection| connection.peer).ok()
    }
    pub fn connection(&self, peer: u32) -> Option<PeerConnection> {
        match &self.partners {
            None => self.place(peer).map(|place| self.connections[place]),
            Some((partners, rank)) => {
                let qp = Nic::on_demand(partners.place(*rank, peer)?);
                Some(PeerConnection { peer, qp, remote: self.memory, ah: AhId(0), address: Address::Connected })
            }
        }
    }
    /// The rank at the other end of a connection.
    pub fn peer_of(&self, wc: &Wc) -> Option<u32> {
        let qp = wc.qp_num;
        if let Some(peer) = self.peers.get(&qp.slot()) {
            return Some(*peer).filter(|peer| *peer != ANYBODY).or(Some(wc.slid.0));
        }
        let place = qp.slot().wrapping_sub(self.first_slot);
        match &self.partners {
            None => self.connections.get(place as usize).map(|connection| connection.peer),
            Some((partners, rank)) => partners.partner(*rank, place),
        }
    }
}

/// In [`Rank::peers`]: who sent a message is told by its completion.
pub(crate) const ANYBODY: u32 = u32::MAX;

/// Requests of one rank to another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub sends: u32,
    pub receives: u32,
}

/// Connects all ranks of `schedule` that talk to each other and do not share an adapter.
pub(crate) fn connect(worlds: &mut [World<'_>], schedule: &Schedule, mtu: Bytes, how: Transfers) -> Result<Vec<Rank>, EngineError> {
    let mtu = Mtu::from_bytes(mtu).map_err(setup)?;
    let levels = Arc::clone(&worlds[0].pairs);
    let level = |a: u32, b: u32| {
        let pair = (a.min(b), a.max(b));
        levels.binary_search_by_key(&pair, |entry| entry.0).map_or(how.level, |at| levels[at].1)
    };
    let pkeys = Arc::clone(&worlds[0].pkeys);
    let partitioned = !worlds[0].cluster.parts.partitions.is_empty();
    let key = |found: u16| partitioned.then_some(if found == 0 { DEFAULT_PKEY as u16 } else { found });
    let pkey = |a: u32, b: u32| {
        let pair = (a.min(b), a.max(b));
        key(pkeys.binary_search_by_key(&pair, |entry| entry.0).map_or(how.pkey, |at| pkeys[at].1))
    };
    let limits = Arc::clone(&worlds[0].rates);
    let limit = |a: u32, b: u32| {
        let pair = (a.min(b), a.max(b));
        limits.binary_search_by_key(&pair, |entry| entry.0).map_or(how.rate, |at| Some(limits[at].1))
    };
    let libraries = Arc::clone(&worlds[0].libraries);
    let work = work(schedule, how.per_host());
    if services::shares(how.service) {
        services::check(schedule, mtu, how, partitioned)?;
        return services::connect(worlds, &work, mtu, how.service, &level);
    }
    let mut ends = Vec::with_capacity(work.len());
    for (rank, work) in work.iter().enumerate() {
        let host = rank as u32 / how.per_host();
        let nic = nic(worlds, host);
        // Connections have a key each; a rank that talks to nobody needs none.
        let shared = how.service == Service::Ud && !work.is_empty();
        let index = if shared { pkey_index(nic, host, key(how.pkey))? } else { 0 };
        let end = open(nic, work, how.of(rank as u32, &libraries), index).map_err(setup)?;
        if let (Inlet::Own(qp), Some(rate)) = (end.inlet, how.rate) {
            nic.set_rate_limit(qp, Some(rate), Bytes::ZERO).map_err(setup)?;
        }
        ends.push(end);
    }
    let numbers: Vec<Option<QpNum>> = ends.iter().map(|end| if let Inlet::Own(qp) = end.inlet { Some(qp) } else { None }).collect();
    for rank in 0..ends.len() as u32 {
        let nic = nic(worlds, rank / how.per_host());
        for i in 0..ends[rank as usize].connections.len() {
            let PeerConnection { peer, qp, .. } = ends[rank as usize].connections[i];
            if let Some(peer_qp) = numbers[peer as usize] {
                ends[rank as usize].connections[i].qp = peer_qp;
                continue;
            }
            let other = ends[peer as usize].connection(rank).ok_or_else(|| EngineError::Setup("a connection has one end".to_owned()))?;
            ends[rank as usize].connections[i].remote = ends[peer as usize].memory;
            let av = AhAttr { dlid: Lid(peer / how.per_host()), sl: level(rank, peer) };
            let pkey_index = pkey_index(nic, rank / how.per_host(), pkey(rank, peer))?;
            join(nic, (qp, other.qp), mtu, (av, pkey_index), how).map_err(setup)?;
            if let Some(rate) = limit(rank, peer) {
                nic.set_rate_limit(qp, Some(rate), Bytes::ZERO).map_err(setup)?;
            }
            if ends[rank as usize].inlet == Inlet::Each {
                let buffer = Sge { addr: 0, length: WR_LIMIT as u32, lkey: ends[rank as usize].memory.lkey };
                for _ in 0..work[rank as usize].get(&peer).map_or(0, |w| w.receives) {
                    nic.post_recv(Time::ZERO, qp, &RecvWr::new(0, buffer)).map_err(setup)?;
                }
            }
        }
    }
    Ok(ends)
}

pub(crate) fn setup(error: impl miette::Diagnostic) -> EngineError {
    EngineError::Setup(error.in_full())
}

/// The requests between every two ranks at different adapters.
fn work(schedule: &Schedule, per_host: u32) -> Vec<BTreeMap<u32, Work>> {
    let ranks = schedule.ranks();
    let mut work: Vec<BTreeMap<u32, Work>> = vec![BTreeMap::new(); ranks as usize];
    for rank in 0..ranks {
        for kind in schedule.kinds(rank) {
            let Some(peer) = kind.peer().filter(|peer| peer / per_host != rank / per_host) else { continue };
            let requests = kind.bytes().0.div_ceil(WR_LIMIT).max(1) as u32;
            work[peer as usize].entry(rank).or_default();
            let mine = work[rank as usize].entry(peer).or_default();
            match kind {
                OpKind::Recv { .. } => mine.receives += 1,
                _ => mine.sends += requests,
            }
        }
    }
    work
}

/// The memory, the queues and the queue pairs of a rank.
fn open(nic: &mut Nic, work: &BTreeMap<u32, Work>, how: Transfers, pkey_index: u16) -> Result<Rank, VerbsError> {
    let pd = nic.alloc_pd();
    let memory = nic.reg_mr(pd, 0, MEMORY, Access::ALL)?;
    let ends = match (how.service, how.library) {
        (Service::Ud, Some(library)) => return open_datagrams(nic, work, (pd, memory, pkey_index), library, how),
        (_, Some(library)) => library.queues.receives + work.len() as u32,
        (_, None) => work.values().map(|w| w.sends + w.receives).sum(),
    };
    let cq = nic.create_cq(ends.max(16))?;
    let mut end = Rank { connections: Vec::with_capacity(work.len()), ..Rank::without_peers(memory, Inlet::Each) };
    if let Some(library) = how.library {
        let srq = nic.create_srq(pd, library.queues.receives, 1)?;
        for _ in 0..library.queues.receives {
            let _ = nic.post_srq_recv(Time::ZERO, srq, &receive(library.queues.buffer, memory));
        }
        end.inlet = Inlet::Shared(srq);
    }
    for (&peer, w) in work {
        let qp = create(nic, (pd, cq), *w, &end, how)?;
        if end.connections.is_empty() {
            end.first_slot = qp.slot();
        }
        end.connections.push(PeerConnection { peer, qp, remote: memory, ah: AhId(0), address: Address::Connected });
    }
    Ok(end)
}

/// The receive that a library keeps posted.
pub(crate) fn receive(buffer: Bytes, memory: Mr) -> RecvWr {
    RecvWr::new(0, Sge { addr: 0, length: buffer.saturating_u32(), lkey: memory.lkey })
}

/// One queue pair for all peers, and the address of each adapter.
fn open_datagrams(
    nic: &mut Nic,
    work: &BTreeMap<u32, Work>,
    (pd, memory, pkey_index): (PdId, Mr, u16),
    library: Library,
    how: Transfers,
) -> Result<Rank, VerbsError> {
    let queues = library.datagrams.map_or(library.queues, |datagrams| datagrams.queues);
    let cq = nic.create_cq(queues.send + queues.receives)?;
    let cap = QpCap { max_send_wr: queues.send, max_recv_wr: queues.receives, max_inline_data: library.inline_limit, ..QpCap::default() };
    let qp = nic.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Ud, cq) })?;
    for step in [QpAttr { pkey_index: Some(pkey_index), ..QpAttr::init_ud(QKEY) }, QpAttr::rtr_ud(), QpAttr::rts(0)] {
        nic.modify_qp(qp, &step)?;
    }
    for _ in 0..queues.receives {
        let _ = nic.post_recv(Time::ZERO, qp, &receive(queues.buffer, memory));
    }
    let mut end =
        Rank { connections: Vec::with_capacity(work.len()), first_slot: qp.slot(), ..Rank::without_peers(memory, Inlet::Own(qp)) };
    let mut address = None;
    for &peer in work.keys() {
        let host = peer / how.per_host();
        let ah = match address {
            Some((known, ah)) if known == host => ah,
            _ => nic.create_ah(pd, AhAttr { dlid: Lid(host), sl: how.level })?,
        };
        address = Some((host, ah));
        end.connections.push(PeerConnection { peer, qp, remote: memory, ah, address: Address::Connected });
    }
    Ok(end)
}

/// Brings one side of a connection up.
fn join(nic: &mut Nic, (qp, peer): (QpNum, QpNum), mtu: Mtu, (av, pkey_index): (AhAttr, u16), how: Transfers) -> Result<(), VerbsError> {
    steps(peer, mtu, (av, pkey_index), how).iter().try_for_each(|step| nic.modify_qp(qp, step))
}

/// What brings one side of a connection to RTS.
pub(crate) fn steps(peer: QpNum, mtu: Mtu, (av, pkey_index): (AhAttr, u16), how: Transfers) -> [QpAttr; 3] {
    let options = |attr: QpAttr| QpAttr { any_order: Some(how.any_order), spray: Some(how.spray), ..attr };
    let (rtr, rts) = match how.service {
        Service::Uc => (QpAttr::rtr_uc(mtu, peer, 0, av), QpAttr::rts(0)),
        _ => (options(QpAttr::rtr_rc(mtu, peer, 0, av)), how.recovery(QpAttr::rts_rc(0), av)),
    };
    [QpAttr { pkey_index: Some(pkey_index), ..QpAttr::init(Access::ALL) }, rtr, rts]
}

impl Transfers {
    /// The same for a rank, which may have a library of its own.
    pub(crate) fn of(self, rank: u32, libraries: &[(u32, Library)]) -> Transfers {
        let own = libraries.binary_search_by_key(&rank, |entry| entry.0).ok().map(|at| libraries[at].1);
        Transfers { library: own.or(self.library), ..self }
    }
    /// The attributes with what was asked for of repetitions.
    fn recovery(&self, attr: QpAttr, av: AhAttr) -> QpAttr {
        let attr =
            QpAttr { timeout: self.recovery.timeout.or(attr.timeout), retry_cnt: self.recovery.retry_cnt.or(attr.retry_cnt), ..attr };
        if !self.recovery.alternate_path {
            return attr;
        }
        QpAttr { alt_path: Some(AltPath { av, path_bits: 1 }), path_mig_state: Some(MigState::Rearm), ..attr }
    }
}

/// The place of a P_Key in the table of a host.
fn pkey_index(nic: &Nic, host: u32, pkey: Option<u16>) -> Result<u16, EngineError> {
    let Some(pkey) = pkey else { return Ok(0) };
    let unknown = || EngineError::Setup(format!("host {host} is no member of the partition with key {pkey:#06x}; name another partition"));
    nic.pkey_index(pkey).ok_or_else(unknown)
}

/// The NIC of a host, in whichever part it is.
pub(crate) fn nic<'a>(worlds: &'a mut [World<'_>], host: u32) -> &'a mut Nic {
    let part = worlds.partition_point(|world| world.hosts.first <= host) - 1;
    worlds[part].host(host).nic()
}

fn create(nic: &mut Nic, (pd, cq): (PdId, CqId), work: Work, end: &Rank, how: Transfers) -> Result<QpNum, VerbsError> {
    let kind = match how.service {
        Service::Uc => QpType::Uc,
        _ => QpType::Rc,
    };
    let srq = if let Inlet::Shared(srq) = end.inlet { Some(srq) } else { None };
    let inline = how.library.map_or(QpCap::default().max_inline_data, |library| library.inline_limit);
    let cap = QpCap { max_send_wr: work.sends.max(1), max_recv_wr: work.receives.max(1), max_inline_data: inline, ..QpCap::default() };
    nic.create_qp(&QpInit { cap, srq, sq_sig_all: false, ..QpInit::new(pd, kind, cq) })
}
