//! The queue pairs of a rank on one rail, by transport.
//!
//! Source: IBA vol. 1 §9.8, annex A14 (XRC: a connection of each process to each adapter, receives of a domain's shared queues); H. Subramoni et al.,
//! "Designing MPI Library with Dynamic Connected Transport (DCT) of InfiniBand", ISC 2014 (a pool of initiators, one target).
//! Modelled: RC one queue pair for each peer; XRC one that sends for each adapter elsewhere, and one that receives for each rank elsewhere and all
//! ranks here; DC initiators that peers are spread over by their number, so that messages to one stay in order, and one target; UD, SRD and
//! UET one for all.
//! Not modelled: pools that grow, initiators that are taken by what is idle.

use std::collections::BTreeMap;

use fabriscope_catalog::MpiTransport;
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;
use fabriscope_verbs::{Access, AhAttr, Lid, Nic, Peer, QpAttr, QpCap, QpInit, QpNum, QpType, SrqId, UdDestination, VerbsError, XrcdId};

use super::connection::{Link, Named};
use super::exchange::{Contact, ContactOf, Exchange, ReceiverOf, SenderOf};
use super::layout::{receives, send_depth};
use super::protocol::Protocol;
use super::protocol::transport::INITIATORS;
use super::state::Rail;
use super::world::{NodeMemory, Shared};

/// Those of one rail.
#[derive(Debug)]
pub(super) enum QueuePairs {
    /// One for each peer, in the order of the peers.
    Each(Vec<QpNum>),
    /// Over XRC: what sends, by the adapter of the peer.
    Adapters(BTreeMap<Lid, QpNum>),
    /// What sends to all, and what receives from all.
    Shared(Vec<QpNum>, QpNum),
}

impl QueuePairs {
    /// Makes those that need to know nothing of the peers.
    pub(super) fn open(process: &Process, rail: &Rail, peers: usize, shared: &Shared) -> Result<QueuePairs, ProgramError> {
        let (protocol, most) = (&shared.protocol, u32::try_from(peers.max(1)).unwrap_or(u32::MAX));
        let nobody = Peer { lid: Lid(0), qp: QpNum(0), sl: 0, mtu: shared.mtu };
        let init = |kind, peers| queue_pair(rail, protocol, kind, peers);
        let own = |n: &mut Nic, kind| -> Result<QpNum, VerbsError> {
            let init = init(kind, most);
            let qp = n.create_qp(&if kind == QpType::Dci { QpInit { srq: None, ..init } } else { init })?;
            n.connect(qp, &nobody, Access::ALL)?;
            Ok(qp)
        };
        let kind = match protocol.transport {
            MpiTransport::Xrc => return Ok(QueuePairs::Adapters(BTreeMap::new())),
            MpiTransport::Rc | MpiTransport::RcSrq => {
                let each = |_| process.nic(rail.nic, |n| n.create_qp(&init(QpType::Rc, 1)));
                return Ok(QueuePairs::Each((0..peers).map(each).collect::<Result<_, _>>()?));
            }
            MpiTransport::Dc => {
                let pair = process.nic(rail.nic, |n| -> Result<_, VerbsError> {
                    let senders = (0..INITIATORS.min(most)).map(|_| own(n, QpType::Dci)).collect::<Result<_, _>>()?;
                    Ok(QueuePairs::Shared(senders, own(n, QpType::Dct)?))
                })?;
                return Ok(pair);
            }
            MpiTransport::Ud => QpType::Ud,
            MpiTransport::Srd => QpType::Srd,
            MpiTransport::Uet => QpType::Uet,
        };
        let qp = process.nic(rail.nic, |n| own(n, kind))?;
        post_receives(process, rail, qp, most, protocol)?;
        Ok(QueuePairs::Shared(vec![qp], qp))
    }

    /// What sends to the peer `peer`, the `at`th, and what receives from it; over XRC that is not known yet.
    pub(super) fn of(&self, at: usize, peer: u32) -> (QpNum, QpNum) {
        match self {
            QueuePairs::Each(all) => (all[at], all[at]),
            QueuePairs::Adapters(_) => (QpNum(0), QpNum(0)),
            QueuePairs::Shared(senders, receiver) => (senders[peer as usize % senders.len()], *receiver),
        }
    }
}

/// Over XRC, once ranks know of each other's adapters: makes what sends to each adapter, and for those of the peers that chose this rank to
/// make the other end, that.
pub(super) async fn extend(
    process: &Process,
    (shared, memory): (&Shared, &NodeMemory),
    peers: &[u32],
    rails: &[Rail],
    pairs: &mut [QueuePairs],
) -> Result<(), ProgramError> {
    let (me, exchange, protocol) = (process.rank(), &shared.exchange, &shared.protocol);
    if protocol.transport != MpiTransport::Xrc {
        return Ok(());
    }
    for (index, (rail, pairs)) in rails.iter().zip(pairs.iter_mut()).enumerate() {
        // The peers by the adapter that they are at; the first of them makes the other end.
        let mut adapters: BTreeMap<Lid, Vec<u32>> = BTreeMap::new();
        for peer in peers {
            if let Some(contact) = exchange.get(me, ContactOf { from: *peer, to: me, rail: index }) {
                adapters.entry(contact.lid).or_default().push(*peer);
            }
        }
        let mut senders = BTreeMap::new();
        for (lid, there) in adapters {
            let init = QpInit { srq: None, ..queue_pair(rail, protocol, QpType::XrcSend, there.len() as u32) };
            let qp = process.nic(rail.nic, |n| n.create_qp(&init))?;
            let first = there.into_iter().min().unwrap_or_default();
            exchange.put(me, SenderOf { from: me, to: first, rail: index }, qp);
            senders.insert(lid, qp);
        }
        *pairs = QueuePairs::Adapters(senders);
    }
    exchange.fence(process).await;
    for (index, rail) in rails.iter().enumerate() {
        let here = process.lid(rail.nic);
        for peer in peers {
            let sender = exchange.get(me, SenderOf { from: *peer, to: me, rail: index });
            let contact = exchange.get(me, ContactOf { from: *peer, to: me, rail: index });
            let (Some(sender), Some(contact)) = (sender, contact) else { continue };
            let xrcd = domain(process, memory, rail.nic);
            let init = QpInit { srq: None, xrcd: Some(xrcd), ..queue_pair(rail, protocol, QpType::XrcRecv, 1) };
            let there = Peer { lid: contact.lid, qp: sender, sl: 0, mtu: shared.mtu };
            let qp = process.nic(rail.nic, |n| -> Result<QpNum, VerbsError> {
                let qp = n.create_qp(&init)?;
                n.connect(qp, &there, Access::ALL)?;
                Ok(qp)
            })?;
            exchange.put(me, ReceiverOf { sender: *peer, at: here, rail: index }, qp);
        }
    }
    exchange.fence(process).await;
    for (index, (rail, pairs)) in rails.iter().zip(pairs.iter()).enumerate() {
        let QueuePairs::Adapters(senders) = pairs else { continue };
        for (lid, qp) in senders {
            let Some(receiver) = exchange.get(me, ReceiverOf { sender: me, at: *lid, rail: index }) else { continue };
            let there = Peer { lid: *lid, qp: receiver, sl: 0, mtu: shared.mtu };
            process.nic(rail.nic, |n| n.connect(*qp, &there, Access::ALL))?;
        }
    }
    Ok(())
}

/// The link to a peer that said `contact`.
pub(super) fn link(
    process: &Process,
    (shared, index, rail): (&Shared, usize, &Rail),
    pairs: &QueuePairs,
    (at, peer): (usize, u32),
    contact: Contact,
) -> Result<Link, ProgramError> {
    let (me, exchange, protocol) = (process.rank(), &shared.exchange, &shared.protocol);
    let (mut qp, receiver) = pairs.of(at, peer);
    let (mut to, mut srq, mut named) = (None, None, Named::Own(receiver));
    match pairs {
        QueuePairs::Each(_) => {
            connect(process, rail.nic, qp, contact, shared)?;
            if rail.srq.is_none() {
                post_receives(process, rail, qp, 1, protocol)?;
            }
        }
        QueuePairs::Adapters(senders) => {
            let missing = || ProgramError(format!("rank {me} found no connection to the adapter of rank {peer}"));
            qp = *senders.get(&contact.lid).ok_or_else(missing)?;
            srq = contact.srq;
            named = Named::Own(receiver_of(exchange, me, peer, (process.lid(rail.nic), index)).ok_or_else(missing)?);
        }
        QueuePairs::Shared(..) => {
            let av = AhAttr { dlid: contact.lid, sl: 0 };
            let ah = process.nic(rail.nic, |n| n.create_ah(rail.pd, av))?;
            to = Some(UdDestination { ah, remote_qpn: contact.receiver, remote_qkey: Peer::QKEY });
            named = Named::Peer(contact.lid, contact.qp);
        }
    }
    let (peer_ring, peer_user, peer_device) = (contact.ring, contact.user, contact.device);
    Ok(Link { qp, to, srq, named, rkey: contact.rkey, peer_ring, peer_user, peer_device, ..Link::unused() })
}

fn receiver_of(exchange: &Exchange, me: u32, sender: u32, (at, rail): (Lid, usize)) -> Option<QpNum> {
    exchange.get(me, ReceiverOf { sender, at, rail })
}

/// The XRC domain that all ranks of a node have at an adapter.
pub(super) fn domain(process: &Process, memory: &NodeMemory, nic: usize) -> XrcdId {
    *memory.domains.borrow_mut().entry(nic).or_insert_with(|| process.nic(nic, Nic::open_xrcd))
}

/// The shared receive queue of a rail, where the transport has one.
pub(super) fn shared_queue(
    process: &Process,
    (protocol, memory): (&Protocol, &NodeMemory),
    rail: &Rail,
    peers: usize,
) -> Result<Option<SrqId>, VerbsError> {
    let depth = protocol.shared_receives;
    match protocol.transport {
        MpiTransport::RcSrq if peers > 1 => process.nic(rail.nic, |n| n.create_srq(rail.pd, depth, 1)).map(Some),
        MpiTransport::Dc => process.nic(rail.nic, |n| n.create_srq(rail.pd, depth, 1)).map(Some),
        MpiTransport::Xrc => {
            let xrcd = domain(process, memory, rail.nic);
            process.nic(rail.nic, |n| n.create_xrc_srq(rail.pd, xrcd, rail.cq, depth, 1)).map(Some)
        }
        _ => Ok(None),
    }
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
    QpInit { cap, srq: rail.srq, ..QpInit::new(rail.pd, qp_type, rail.cq) }
}

fn connect(process: &Process, nic: usize, qp: QpNum, peer: Contact, shared: &Shared) -> Result<(), VerbsError> {
    let av = AhAttr { dlid: peer.lid, sl: 0 };
    let reads = Some(shared.outstanding_reads);
    process.nic(nic, |n| {
        n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
        n.modify_qp(qp, &QpAttr { max_dest_rd_atomic: reads, ..QpAttr::rtr_rc(shared.mtu, peer.receiver, FIRST_PSN, av) })?;
        n.modify_qp(qp, &QpAttr { max_rd_atomic: reads, ..QpAttr::rts_rc(FIRST_PSN) })
    })
}

/// The first packet number of every connection. Basis: assumed; nothing depends on it.
const FIRST_PSN: u32 = 0;
