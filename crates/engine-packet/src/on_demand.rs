//! Connections of a job of rounds: queue pairs that are in memory while messages are outstanding on them, or shortly before.
//!
//! Each has the number, the path and the packet numbers of one that is made before the run, so that times are those of a schedule.
//! Not modelled: connections over TCP, datagrams and shared contexts, settings of single connections, losses and faults; such jobs are
//! schedules.

use std::sync::Arc;

use fabriscope_catalog::{FlowControl, PartitionEnforcement, ResolvedCluster};
use fabriscope_engine::{EngineError, RankRounds};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{Access, AhAttr, Lid, Mtu, Nic, OnDemand, QpCap, QpInit, QpNum, QpType, RecvWr, Service, Sge, VerbsError};

use crate::connect::{Inlet, MEMORY, Rank, WR_LIMIT, nic, receive, setup, steps};
use crate::partners::{Partners, Talk, talk};
use crate::world::World;
use crate::{Loss, PER_HOST, Scenario, Transfers};

/// Whether ranks of a job of rounds can make them as they go, over connections on demand; else the rounds are a schedule.
pub(crate) fn suits(parts: &ResolvedCluster, scenario: &Scenario) -> bool {
    let Transfers { service, recovery, rate, per_host, .. } = scenario.transfers;
    let connected = matches!(service, Service::Rc | Service::Uc) && per_host <= 1;
    let plain = parts.partitions.is_empty()
        && parts.partition_enforcement == PartitionEnforcement::Off
        && parts.groups.iter().all(|group| group.node.nic.iwarp.is_none());
    let alike = scenario.levels.is_empty() && scenario.pkeys.is_empty() && scenario.rates.is_empty() && rate.is_none();
    // What sleeps has no timers, and the order of those at one time decides what is lost next.
    let lossless = scenario.faults.is_none() && scenario.loss == Loss::None && parts.flow_control != FlowControl::Lossy;
    connected && plain && alike && lossless && !recovery.alternate_path && !scenario.times
}

/// Connects all ranks that are partners, when they get there.
pub(crate) fn connect(worlds: &mut [World<'_>], partners: &Arc<Partners>, ranks: u32, how: Transfers) -> Result<Vec<Rank>, EngineError> {
    let mtu = Mtu::from_bytes(worlds[0].cluster.parts.mtu).map_err(setup)?;
    let libraries = Arc::clone(&worlds[0].libraries);
    (0..ranks).map(|rank| open(nic(worlds, rank), rank, partners, (mtu, how.of(rank, &libraries))).map_err(setup)).collect()
}

/// The memory and the queues of a rank.
fn open(nic: &mut Nic, rank: u32, partners: &Arc<Partners>, (mtu, how): (Mtu, Transfers)) -> Result<Rank, VerbsError> {
    let pd = nic.alloc_pd();
    let memory = nic.reg_mr(pd, 0, MEMORY, Access::ALL)?;
    let cq = nic.create_cq(COMPLETIONS)?;
    let mut inlet = Inlet::Each;
    if let Some(library) = how.library {
        let srq = nic.create_srq(pd, library.queues.receives, 1)?;
        for _ in 0..library.queues.receives {
            let _ = nic.post_srq_recv(Time::ZERO, srq, &receive(library.queues.buffer, memory));
        }
        inlet = Inlet::Shared(srq);
    }
    let kind = if how.service == Service::Uc { QpType::Uc } else { QpType::Rc };
    let (srq, buffer) = match inlet {
        Inlet::Shared(srq) => (Some(srq), None),
        _ => (None, Some(RecvWr::new(0, Sge { addr: 0, length: WR_LIMIT as u32, lkey: memory.lkey }))),
    };
    let inline = how.library.map_or(QpCap::default().max_inline_data, |library| library.inline_limit);
    let cap = QpCap { max_send_wr: REQUESTS, max_recv_wr: 1, max_inline_data: inline, ..QpCap::default() };
    let av = AhAttr { dlid: Lid(rank), sl: how.level };
    nic.reserve_qps(OnDemand {
        init: QpInit { cap, srq, ..QpInit::new(pd, kind, cq) },
        steps: steps(QpNum(0), mtu, (av, 0), how),
        peers: Arc::clone(partners) as Arc<dyn fabriscope_verbs::Peers>,
        receive: buffer,
    })?;
    let first_slot = Nic::on_demand(0).slot();
    Ok(Rank { partners: Some((Arc::clone(partners), rank)), first_slot, ..Rank::without_peers(memory, inlet) })
}

/// Memory of a job of rounds on a cluster with so many hosts, beside the fabric: for people, before it starts.
pub(crate) fn footprint(hosts: u32, program: &dyn RankRounds) -> Bytes {
    let Talk { partners, widest } = talk(program);
    let awake = partners.min(AWAKE + widest);
    let rank = RANK + awake * QUEUE_PAIR + partners * ASLEEP + widest * MESSAGE;
    Bytes((u64::from(hosts) * PER_HOST).saturating_add(u64::from(program.ranks()).saturating_mul(rank)))
}

// Basis: measured, see docs/performance.md.
/// What a rank has beside its queue pairs, its rounds among it (B).
const RANK: u64 = 2 << 10;
/// A queue pair that is awake (B).
const QUEUE_PAIR: u64 = 1500;
/// A partner, and a queue pair that rests (B).
const ASLEEP: u64 = 16;
/// A message of the round in progress, or one that waits for its round (B).
const MESSAGE: u64 = 600;
/// Entries of a completion queue, which are read when they come. Basis: the most that `create_cq` takes.
const COMPLETIONS: u32 = 1 << 22;
/// Requests of a queue pair. Basis: the most that `create_qp` takes.
const REQUESTS: u32 = 1 << 20;
/// Queue pairs that stay awake, and the next ones. Basis: `fabriscope_verbs::nic::on_demand`.
const AWAKE: u64 = 24;
