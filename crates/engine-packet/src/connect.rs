//! Queue pairs for schedules: one reliable connection for every two ranks that talk.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::DEFAULT_PKEY;
use fabriscope_engine::EngineError;
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Access, AhAttr, AltPath, CqId, Lid, MigState, Mr, Mtu, Nic, PdId, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Sge,
};

use crate::world::World;
use crate::{Service, Transfers};

/// Whole address space: schedules do not say where their data lies.
pub(crate) const MEMORY: Bytes = Bytes(1 << 47);
/// Most bytes under one work request.
pub(crate) const WR_LIMIT: u64 = 1 << 30;

/// One side of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub peer: u32,
    pub qp: QpNum,
    /// Key of the peer's memory.
    pub remote: Mr,
}

/// A rank's end: its memory and its connections, sorted by peer.
#[derive(Debug, Clone)]
pub(crate) struct Rank {
    pub memory: Mr,
    pub sides: Vec<Side>,
    /// Peer by slot of the queue pair.
    pub peers: BTreeMap<u32, u32>,
}

impl Rank {
    pub fn side(&self, peer: u32) -> Option<&Side> {
        self.sides.binary_search_by_key(&peer, |side| side.peer).ok().map(|i| &self.sides[i])
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Work {
    sends: u32,
    receives: u32,
}

/// Connects all ranks of `schedule` that talk to each other; rank *r* is at adapter *r*.
pub(crate) fn connect(worlds: &mut [World<'_>], schedule: &Schedule, mtu: Bytes, how: Transfers) -> Result<Vec<Rank>, EngineError> {
    let setup = |error: &dyn std::fmt::Display| EngineError::Setup(error.to_string());
    let mtu = Mtu::from_bytes(mtu).map_err(|e| setup(&e))?;
    let ranks = schedule.ranks();
    let levels = Arc::clone(&worlds[0].pairs);
    let level = |a: u32, b: u32| {
        let pair = (a.min(b), a.max(b));
        levels.binary_search_by_key(&pair, |entry| entry.0).map_or(how.level, |at| levels[at].1)
    };
    let mut work: Vec<BTreeMap<u32, Work>> = vec![BTreeMap::new(); ranks as usize];
    for rank in 0..ranks {
        for kind in schedule.kinds(rank) {
            let Some(peer) = kind.peer() else { continue };
            let requests = kind.bytes().0.div_ceil(WR_LIMIT).max(1) as u32;
            work[peer as usize].entry(rank).or_default();
            let mine = work[rank as usize].entry(peer).or_default();
            match kind {
                OpKind::Recv { .. } => mine.receives += 1,
                _ => mine.sends += requests,
            }
        }
    }
    let pkeys = Arc::clone(&worlds[0].pkeys);
    let partitioned = !worlds[0].cluster.parts.partitions.is_empty();
    let pkey = |a: u32, b: u32| {
        let pair = (a.min(b), a.max(b));
        let found = pkeys.binary_search_by_key(&pair, |entry| entry.0).map_or(how.pkey, |at| pkeys[at].1);
        partitioned.then_some(if found == 0 { DEFAULT_PKEY as u16 } else { found })
    };
    let mut ends = Vec::with_capacity(ranks as usize);
    for rank in 0..ranks {
        let nic = nic(worlds, rank);
        let pd = nic.alloc_pd();
        let memory = nic.reg_mr(pd, 0, MEMORY, Access::ALL).map_err(|e| setup(&e))?;
        let requests: u32 = work[rank as usize].values().map(|w| w.sends + w.receives).sum();
        let cq = nic.create_cq(requests.max(16)).map_err(|e| setup(&e))?;
        let mut end = Rank { memory, sides: Vec::new(), peers: BTreeMap::new() };
        for (&peer, w) in &work[rank as usize] {
            let qp = create(nic, pd, cq, *w, how.service).map_err(|e| setup(&e))?;
            end.peers.insert(qp.0, peer);
            end.sides.push(Side { peer, qp, remote: memory });
        }
        ends.push(end);
    }
    for rank in 0..ranks {
        for i in 0..ends[rank as usize].sides.len() {
            let Side { peer, qp, .. } = ends[rank as usize].sides[i];
            let other = ends[peer as usize].side(rank).copied().ok_or_else(|| EngineError::Setup("a connection has one end".to_owned()))?;
            ends[rank as usize].sides[i].remote = ends[peer as usize].memory;
            let nic = nic(worlds, rank);
            let options = |attr: QpAttr| QpAttr { any_order: Some(how.any_order), spray: Some(how.spray), ..attr };
            let pkey_index = pkey_index(nic, rank, pkey(rank, peer))?;
            let av = AhAttr { dlid: Lid(peer), sl: level(rank, peer) };
            let (rtr, rts) = match how.service {
                Service::Reliable => (options(QpAttr::rtr_rc(mtu, other.qp, 0, av)), how.recovery(QpAttr::rts_rc(0), av)),
                Service::Unreliable => (QpAttr::rtr_uc(mtu, other.qp, 0, av), QpAttr::rts(0)),
            };
            let steps = [QpAttr { pkey_index: Some(pkey_index), ..QpAttr::init(Access::ALL) }, rtr, rts];
            for step in steps {
                nic.modify_qp(qp, &step).map_err(|e| setup(&e))?;
            }
            let memory = ends[rank as usize].memory;
            let buffer = Sge { addr: 0, length: WR_LIMIT as u32, lkey: memory.lkey };
            for _ in 0..work[rank as usize].get(&peer).map_or(0, |w| w.receives) {
                nic.post_recv(Time::ZERO, qp, &RecvWr::new(0, buffer)).map_err(|e| setup(&e))?;
            }
        }
    }
    Ok(ends)
}

impl Transfers {
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

/// The NIC of a host, in whichever part it is.
fn nic<'a>(worlds: &'a mut [World<'_>], host: u32) -> &'a mut Nic {
    let part = worlds.partition_point(|world| world.first_host <= host) - 1;
    worlds[part].host(host).nic()
}

/// The place of a P_Key in the table of a host.
fn pkey_index(nic: &Nic, host: u32, pkey: Option<u16>) -> Result<u16, EngineError> {
    let Some(pkey) = pkey else { return Ok(0) };
    let unknown = || EngineError::Setup(format!("host {host} is no member of the partition with key {pkey:#06x}; name another partition"));
    nic.pkey_index(pkey).ok_or_else(unknown)
}

fn create(nic: &mut Nic, pd: PdId, cq: CqId, work: Work, service: Service) -> Result<QpNum, fabriscope_verbs::VerbsError> {
    let kind = match service {
        Service::Reliable => QpType::Rc,
        Service::Unreliable => QpType::Uc,
    };
    let cap = QpCap { max_send_wr: work.sends.max(1), max_recv_wr: work.receives.max(1), ..QpCap::default() };
    nic.create_qp(&QpInit { cap, sq_sig_all: false, ..QpInit::new(pd, kind, cq) })
}
