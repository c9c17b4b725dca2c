//! Queue pairs of schedules over the transports that share something among all peers.
//!
//! XRC has two queue pairs for each peer and one receive queue; DC a pool of initiators and one target; RD, SRD and UET one queue pair,
//! with an end-to-end context (RD) or an address handle for each peer.
//! Not modelled: several ranks at one adapter, partitions, message-passing libraries over these transports.

use std::collections::BTreeMap;

use fabriscope_engine::EngineError;
use fabriscope_schedule::{OpKind, Schedule};
use fabriscope_units::Time;
use fabriscope_verbs::{
    Access, AhAttr, AhId, CqId, EecNum, Lid, Mtu, Nic, PdId, Peer, PostError, QpCap, QpInit, QpNum, QpType, RecvWr, SendWr, Service, Sge,
    SrqId, UdDestination, VerbsError, XrcdId,
};

use crate::Transfers;
use crate::connect::{ANYBODY, Inlet, MEMORY, PeerConnection, Rank, WR_LIMIT, Work, nic, setup};
use crate::world::World;

/// What a request says of its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Address {
    /// Nothing: the queue pair is connected, or a library says it.
    Connected,
    SharedQueue(SrqId),
    Context(EecNum, QpNum),
    Datagram(UdDestination),
}

impl Address {
    /// The request with its destination.
    #[inline]
    pub fn apply(self, wr: SendWr) -> SendWr {
        match self {
            Address::Connected => wr,
            Address::SharedQueue(srq) => wr.to_srq(srq),
            Address::Context(eec, qp) => wr.over(eec, qp, Peer::QKEY),
            Address::Datagram(destination) => wr.to(destination),
        }
    }
}

/// Whether the queue pairs of a service are more than one for each peer, or one for all of them without a library.
pub(crate) const fn shares(service: Service) -> bool {
    !matches!(service, Service::Rc | Service::Uc | Service::Ud | Service::Iwarp | Service::Raw)
}

/// What these transports do not carry.
///
/// # Errors
/// A message-passing library, partitions, SENDs of SRD longer than a packet.
pub(crate) fn check(schedule: &Schedule, mtu: Mtu, how: Transfers, partitioned: bool) -> Result<(), EngineError> {
    if how.library.is_some() {
        return Err(unsuited("a message-passing library runs over reliable connections or datagrams; write transport = \"rc\" or \"ud\""));
    }
    if partitioned {
        return Err(unsuited("partitions are kept apart on reliable and unreliable connections only; write transport = \"rc\""));
    }
    let (packets, one_sided) = match how.service {
        Service::Srd => (true, true),
        Service::UetRudi => (false, true),
        Service::UetUud => (true, false),
        _ => return Ok(()),
    };
    let name = how.service.name();
    let idempotent = how.service == Service::UetRudi;
    for rank in 0..schedule.ranks() {
        for kind in schedule.kinds(rank) {
            let (bytes, most) = (kind.bytes(), mtu.bytes());
            let problem = match kind {
                OpKind::Send { .. } if idempotent => "sends, which may not happen twice",
                OpKind::Send { .. } if packets && bytes > most => "sends more than one packet",
                OpKind::Put { .. } | OpKind::Get { .. } if !one_sided => "writes or reads memory, which takes a reliable transport",
                _ => continue,
            };
            return Err(EngineError::Setup(format!(
                "rank {rank}, {bytes} over {name} with packets of {most}: it {problem}; use another transport"
            )));
        }
    }
    Ok(())
}

/// What a rank has before its peers are known.
struct Half {
    rank: Rank,
    pd: PdId,
    srq: Option<SrqId>,
    /// What the peer sends to, and the end-to-end context, by connection.
    ends: Vec<(QpNum, Option<EecNum>)>,
}

/// Connects all ranks that talk to each other; rank *r* is at adapter *r*.
pub(crate) fn connect(
    worlds: &mut [World<'_>],
    work: &[BTreeMap<u32, Work>],
    mtu: Mtu,
    service: Service,
    level: &dyn Fn(u32, u32) -> u8,
) -> Result<Vec<Rank>, EngineError> {
    let mut halves = Vec::with_capacity(work.len());
    for (rank, work) in work.iter().enumerate() {
        halves.push(make(nic(worlds, rank as u32), work, service, mtu).map_err(setup)?);
    }
    for rank in 0..halves.len() as u32 {
        for i in 0..halves[rank as usize].rank.connections.len() {
            let peer = halves[rank as usize].rank.connections[i].peer;
            let there = &halves[peer as usize];
            let place = there.rank.place(rank).ok_or_else(|| unsuited("a connection has one end"))?;
            let other =
                Other { sends: there.rank.connections[place].qp, receives: there.ends[place].0, eec: there.ends[place].1, srq: there.srq };
            let (memory, sl) = (there.rank.memory, level(rank, peer));
            let half = &mut halves[rank as usize];
            half.rank.connections[i].remote = memory;
            let receives = work[rank as usize].get(&peer).map_or(0, |w| w.receives);
            join(nic(worlds, rank), half, i, other, (sl, mtu, service)).map_err(setup)?;
            post(nic(worlds, rank), &halves[rank as usize], i, receives).map_err(setup)?;
        }
    }
    Ok(halves.into_iter().map(|half| half.rank).collect())
}

/// What a rank needs before its peers are known.
fn make(nic: &mut Nic, work: &BTreeMap<u32, Work>, service: Service, mtu: Mtu) -> Result<Half, MakeError> {
    let pd = nic.alloc_pd();
    let memory = nic.reg_mr(pd, 0, MEMORY, Access::ALL)?;
    let all = work.values().fold(Work::default(), |all, w| Work { sends: all.sends + w.sends, receives: all.receives + w.receives });
    let cq = nic.create_cq((all.sends + all.receives).max(16))?;
    let (mut srq, mut xrcd) = (None, None);
    if service == Service::Xrc {
        let domain = nic.open_xrcd();
        xrcd = Some(domain);
        srq = Some(nic.create_xrc_srq(pd, domain, cq, all.receives.max(1), 1)?);
    } else if service == Service::Dc {
        srq = Some(nic.create_srq(pd, all.receives.max(1), 1)?);
    }
    let inlet = srq.map_or(Inlet::Each, Inlet::Shared);
    let rank = Rank { connections: Vec::with_capacity(work.len()), ..Rank::without_peers(memory, inlet) };
    let mut half = Half { rank, pd, srq, ends: Vec::with_capacity(work.len()) };
    let own = own_queue_pairs(nic, (pd, cq), all, service, srq, (mtu, work.len()))?;
    for (&peer, w) in work {
        let eec = if service == Service::Rd { Some(nic.create_eec(pd, cq)?) } else { None };
        let (qp, receiver) = match &own {
            Some((senders, receiver)) => (senders[half.ends.len() % senders.len()], *receiver),
            None => {
                let sender = create(nic, (pd, cq), *w, QpType::XrcSend, None, None)?;
                (sender, create(nic, (pd, cq), *w, QpType::XrcRecv, None, xrcd)?)
            }
        };
        half.rank.peers.insert(receiver.slot(), if own.is_none() { peer } else { ANYBODY });
        half.rank.connections.push(PeerConnection { peer, qp, remote: memory, ah: AhId(0), address: Address::Connected });
        half.ends.push((receiver, eec));
    }
    Ok(half)
}

/// What serves all peers: what sends, and what the peers send to; nothing of XRC.
fn own_queue_pairs(
    nic: &mut Nic,
    place: (PdId, CqId),
    all: Work,
    service: Service,
    srq: Option<SrqId>,
    (mtu, peers): (Mtu, usize),
) -> Result<Option<(Vec<QpNum>, QpNum)>, MakeError> {
    let nobody = Peer { lid: Lid(0), qp: QpNum(0), sl: 0, mtu };
    let kind = match service {
        Service::Dc | Service::Rd | Service::Srd | Service::Uet | Service::UetRod | Service::UetRudi | Service::UetUud => {
            QpType::sender_of(service)
        }
        _ => return Ok(None),
    };
    let senders = if kind == QpType::Dci { INITIATORS.min(peers).max(1) } else { 1 };
    let senders = (0..senders).map(|_| create(nic, place, all, kind, None, None)).collect::<Result<Vec<_>, _>>()?;
    let receiver = if kind == QpType::Dci { create(nic, place, all, QpType::Dct, srq, None)? } else { senders[0] };
    for qp in &senders {
        nic.connect(*qp, &nobody, Access::ALL)?;
    }
    if !senders.contains(&receiver) {
        nic.connect(receiver, &nobody, Access::ALL)?;
    }
    Ok(Some((senders, receiver)))
}

/// What the peer has for this rank.
struct Other {
    sends: QpNum,
    receives: QpNum,
    eec: Option<EecNum>,
    srq: Option<SrqId>,
}

/// Joins connection `i` to what the peer has for it.
fn join(nic: &mut Nic, half: &mut Half, i: usize, other: Other, (sl, mtu, service): (u8, Mtu, Service)) -> Result<(), MakeError> {
    let connection = half.rank.connections[i];
    let (receiver, eec) = half.ends[i];
    let peer = |qp: QpNum| Peer { lid: Lid(connection.peer), qp, sl, mtu };
    half.rank.connections[i].address = match service {
        Service::Xrc => {
            nic.connect(connection.qp, &peer(other.receives), Access::ALL)?;
            nic.connect(receiver, &peer(other.sends), Access::ALL)?;
            Address::SharedQueue(other.srq.ok_or(MakeError::Queue)?)
        }
        Service::Rd => {
            let (here, there) = (eec.ok_or(MakeError::Queue)?, other.eec.ok_or(MakeError::Queue)?);
            nic.connect(QpNum(here.0), &peer(QpNum(there.0)), Access::ALL)?;
            Address::Context(here, other.receives)
        }
        _ => {
            let ah = nic.create_ah(half.pd, AhAttr { dlid: Lid(connection.peer), sl })?;
            Address::Datagram(UdDestination { ah, remote_qpn: other.receives, remote_qkey: Peer::QKEY })
        }
    };
    Ok(())
}

/// Posts the receives for messages of the peer of connection `i`.
fn post(nic: &mut Nic, half: &Half, i: usize, receives: u32) -> Result<(), MakeError> {
    let wr = RecvWr::new(0, Sge { addr: 0, length: WR_LIMIT as u32, lkey: half.rank.memory.lkey });
    for _ in 0..receives {
        match half.srq {
            Some(srq) => nic.post_srq_recv(Time::ZERO, srq, &wr)?,
            None => nic.post_recv(Time::ZERO, half.ends[i].0, &wr)?,
        }
    }
    Ok(())
}

fn create(
    nic: &mut Nic,
    (pd, cq): (PdId, CqId),
    work: Work,
    kind: QpType,
    srq: Option<SrqId>,
    xrcd: Option<XrcdId>,
) -> Result<QpNum, VerbsError> {
    let cap = QpCap { max_send_wr: work.sends.max(1), max_recv_wr: work.receives.max(1), ..QpCap::default() };
    nic.create_qp(&QpInit { cap, srq, xrcd, ..QpInit::new(pd, kind, cq) })
}

/// Initiators of DC that a rank's requests are spread over. Basis: UCX, `UCX_DC_MLX5_NUM_DCI`, 8 by default.
const INITIATORS: usize = 8;

/// Queue pairs that this work cannot have.
fn unsuited(why: &str) -> EngineError {
    EngineError::Setup(why.to_owned())
}

/// Why queue pairs could not be made.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
enum MakeError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Verbs(#[from] VerbsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Post(#[from] PostError),
    #[error("a peer has no queue for this transport")]
    Queue,
}
