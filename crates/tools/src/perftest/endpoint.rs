//! One end of a perftest run: its buffer, queues and queue pairs, connected to the other end.
//!
//! Source: the resources perftest creates; addresses and keys travel out of band before the clock counts.
//! Modelled: one protection domain, memory region and pair of completion queues; queue pairs brought to RTS with the
//! settings of the command line; an address handle per peer on UD.
//! Where adapters translate by pages, messages of one-sided programs go through the buffer (`--cycle_buffer`).
//! Not modelled: cycling through the lines of the buffer otherwise, as no cache of the simulated core depends on it.

use std::cell::Cell;
use std::sync::Arc;

use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_platform::{LinkType, path_mtu};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::{
    Access, AhAttr, CqId, Lid, MemoryId, Mr, PdId, Peer, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Remote, Rkey, SendFlags, SendWr,
    Service, Sge, SrqId, UdDestination, VerbsError, WatchId, Wc, WcStatus,
};

use super::extras;
use super::gpu::Accelerator;
use super::header::Address;
use super::report::Failure;
use super::settings::{AtomicType, GRH, Settings};
use super::test::Verb;

/// Which side of the job a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Rank 1: started first, answers.
    Server,
    /// Rank 0: starts the exchange and reports.
    Client,
}

/// What each end has put up for the other, by rank.
pub(crate) type Board = Record<[Vec<Offer>; 2]>;

/// What an end tells the other of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(super) address: Address,
    /// What the other end's requests go to, where that is not the same.
    receiver: QpNum,
    /// The shared receive queue behind it.
    srq: Option<SrqId>,
}

impl Offer {
    /// Where datagrams of a connection manager go.
    pub fn of(lid: Lid, qp: QpNum) -> Offer {
        Offer { address: Address { lid: lid.0, ..Address::default() }, receiver: qp, srq: None }
    }
    /// That place.
    pub fn place(&self) -> (Lid, QpNum) {
        (Lid(self.address.lid), self.receiver)
    }
}

/// One end, ready to run.
pub(crate) struct Endpoint {
    pub process: Process,
    pub settings: Arc<Settings>,
    pub role: Role,
    pub qps: Vec<QpNum>,
    pub send_cq: CqId,
    pub recv_cq: CqId,
    /// Sees messages that land in the receiving half of the buffer.
    pub watch: WatchId,
    /// The request that failed on purpose.
    pub failure: Cell<Option<Failure>>,
    /// Requests posted and completed so far, for what the tool says of a failure.
    pub counts: Cell<[u64; 2]>,
    /// How long binding the memory window took.
    pub(super) bound: Option<Span>,
    pub(super) pd: PdId,
    pub(super) mr: Mr,
    /// Where receives are posted, on transports that have them shared.
    srq: Option<SrqId>,
    receivers: Vec<QpNum>,
    pub(super) remote: Vec<Offer>,
    pub(super) datagrams: Vec<Option<UdDestination>>,
}

impl Endpoint {
    /// Creates everything and connects it; returns when both ends are ready.
    pub async fn open(process: Process, settings: Arc<Settings>, board: &Board) -> Result<Endpoint, ProgramError> {
        let nic = settings.nic;
        if nic >= process.nics() {
            return Err(ProgramError(format!(
                "node {} has {} NICs, and `{}` is not one of them",
                process.node(),
                process.nics(),
                settings.device
            )));
        }
        let role = if process.rank() == 0 { Role::Client } else { Role::Server };
        let half = settings.half();
        let place = settings.gpu.as_ref().map_or(MemoryId::HOST, Accelerator::place);
        let base = BUFFER + u64::from(process.rank()) * BETWEEN_BUFFERS;
        let depth = |per_qp: u32| per_qp.max(1) * settings.qps;
        let (pd, mr, send_cq, recv_cq, watch, srq, qps, receivers) = process.nic(nic, |n| -> Result<_, VerbsError> {
            let pd = n.alloc_pd();
            let mr = n.reg_mr_at(pd, base, Bytes(2 * half), Access::ALL | Access::MW_BIND, place)?;
            if let Some(pages) = settings.pages {
                n.translate_by(mr.lkey, pages)?;
            }
            let send_cq = n.create_cq(depth(settings.tx_depth))?;
            let recv_cq = n.create_cq(depth(settings.rx_depth))?;
            let watch = n.create_watch(base + half, Bytes(half));
            let cap = QpCap {
                max_send_wr: settings.tx_depth,
                max_recv_wr: settings.rx_depth,
                max_inline_data: Bytes(settings.inline_size.into()),
                ..QpCap::default()
            };
            let init = QpInit { send_cq, recv_cq, cap, ..QpInit::new(pd, QpType::sender_of(settings.connection), send_cq) };
            // Of a group only what the other end sends is counted.
            let init = QpInit { block_mcast_loopback: settings.multicast, ..init };
            let receives = settings.rx_depth * settings.qps;
            let (mut init, mut srq, mut receiver) = (init, None, init);
            match settings.connection {
                Service::Xrc => {
                    let xrcd = n.open_xrcd();
                    srq = Some(n.create_xrc_srq(pd, xrcd, recv_cq, receives, 1)?);
                    receiver = QpInit { qp_type: QpType::XrcRecv, xrcd: Some(xrcd), ..init };
                }
                Service::Dc => {
                    srq = Some(n.create_srq(pd, receives, 1)?);
                    receiver = QpInit { qp_type: QpType::Dct, srq, ..init };
                }
                _ if settings.use_srq => {
                    srq = Some(n.create_srq(pd, receives, 1)?);
                    init.srq = srq;
                }
                _ => {}
            }
            let two_ends = matches!(settings.connection, Service::Xrc | Service::Dc);
            let (mut qps, mut receivers) = (Vec::new(), Vec::new());
            for _ in 0..settings.qps {
                let qp = n.create_qp(&init)?;
                qps.push(qp);
                receivers.push(if two_ends { n.create_qp(&receiver)? } else { qp });
            }
            Ok((pd, mr, send_cq, recv_cq, watch, srq, qps, receivers))
        })?;
        let lid = process.lid(nic);
        let offer = |(qp, receiver): (&QpNum, &QpNum)| {
            let (psn, gid) = (first_psn(lid, *qp), gid(lid));
            let address = Address { lid: lid.0, qpn: qp.0, psn, rkey: mr.rkey.0, vaddr: base + half, gid };
            Offer { address, receiver: *receiver, srq }
        };
        if settings.rdma_cm && !settings.iwarp {
            extras::meet(&process, &settings, (pd, mr), board).await?;
        }
        board.lock()[process.rank() as usize] = qps.iter().zip(&receivers).map(offer).collect();
        process.barrier().await;
        let remote = board.lock()[1 - process.rank() as usize].clone();
        let datagrams = Vec::new();
        let (failure, counts, bound) = (Cell::default(), Cell::default(), None);
        let mut end = Endpoint {
            process,
            settings,
            role,
            qps,
            send_cq,
            recv_cq,
            watch,
            failure,
            counts,
            bound,
            pd,
            mr,
            srq,
            receivers,
            remote,
            datagrams,
        };
        end.connect()?;
        end.prepare(board).await?;
        end.process.barrier().await;
        Ok(end)
    }

    fn connect(&mut self) -> Result<(), VerbsError> {
        let s = self.settings.clone();
        let (lid, pd) = (self.process.lid(s.nic), self.pd);
        for ((&qp, &receiver), offer) in self.qps.iter().zip(&self.receivers).zip(&self.remote) {
            let peer = offer.address;
            let av = AhAttr { dlid: Lid(peer.lid), sl: s.sl };
            let mtu = path_mtu(s.mtu);
            let peer_qp = QpNum(peer.qpn);
            let destination = self.process.nic(s.nic, |n| -> Result<_, VerbsError> {
                let psn = first_psn(lid, qp);
                n.set_rate_limit(qp, s.rate_limit.map(Rate::from_gbps), Bytes::ZERO)?;
                let there = |qp| Peer { lid: Lid(peer.lid), qp, sl: s.sl, mtu };
                match s.connection {
                    Service::Xrc => {
                        n.connect(qp, &there(offer.receiver), Access::ALL)?;
                        n.connect(receiver, &there(peer_qp), Access::ALL)?;
                    }
                    Service::Rc => {
                        n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
                        n.modify_qp(qp, &QpAttr { max_dest_rd_atomic: Some(s.outs), ..QpAttr::rtr_rc(mtu, peer_qp, peer.psn, av) })?;
                        n.modify_qp(qp, &QpAttr { max_rd_atomic: Some(s.outs), timeout: Some(s.timeout), ..QpAttr::rts_rc(psn) })?;
                    }
                    Service::Uc => {
                        n.modify_qp(qp, &QpAttr::init(Access::ALL))?;
                        n.modify_qp(qp, &QpAttr::rtr_uc(mtu, peer_qp, peer.psn, av))?;
                        n.modify_qp(qp, &QpAttr::rts(psn))?;
                    }
                    Service::Ud => {
                        n.modify_qp(qp, &QpAttr::init_ud(QKEY))?;
                        n.modify_qp(qp, &QpAttr::rtr_ud())?;
                        n.modify_qp(qp, &QpAttr::rts(psn))?;
                        let ah = n.create_ah(pd, av)?;
                        return Ok(Some(UdDestination { ah, remote_qpn: peer_qp, remote_qkey: QKEY }));
                    }
                    // What shares its queue pairs among peers has a handle for each.
                    _ => {
                        n.connect(qp, &there(peer_qp), Access::ALL)?;
                        if receiver != qp {
                            n.connect(receiver, &there(peer_qp), Access::ALL)?;
                        }
                        let ah = n.create_ah(pd, av)?;
                        return Ok(Some(UdDestination { ah, remote_qpn: offer.receiver, remote_qkey: QKEY }));
                    }
                }
                Ok(None)
            })?;
            self.datagrams.push(destination);
        }
        Ok(())
    }

    /// The local and the remote addresses, as the report shows them.
    pub fn addresses(&self) -> (Vec<Address>, Vec<Address>) {
        let nic = self.settings.nic;
        let lid = self.process.lid(nic);
        let local = self.qps.iter().map(|qp| {
            let half = self.mr.length.0 / 2;
            Address { lid: lid.0, qpn: qp.0, psn: first_psn(lid, *qp), rkey: self.mr.rkey.0, vaddr: self.mr.addr + half, gid: gid(lid) }
        });
        let shown = |address: Address| match self.settings.link {
            // LIDs count from 1 on InfiniBand and do not exist on Ethernet; endpoints count from 0.
            LinkType::InfiniBand => Address { lid: address.lid + 1, ..address },
            LinkType::Ethernet => Address { lid: 0, ..address },
        };
        (local.map(shown).collect(), self.remote.iter().map(|offer| shown(offer.address)).collect())
    }

    /// The request of the test for one message of `size` bytes on queue pair number `qp`.
    pub fn request(&self, qp: usize, wr_id: u64, size: u32) -> SendWr {
        let at = self.settings.place(wr_id & MESSAGE, size);
        let length = if self.settings.test.verb == Verb::Raw { size - ETHERNET_HEADER } else { size };
        let sge = Sge { addr: self.mr.addr + at, length, lkey: self.mr.lkey };
        let peer = self.remote[qp].address;
        let rkey = if self.settings.wrong_rkey { peer.rkey ^ 1 } else { peer.rkey };
        let remote = Remote { addr: peer.vaddr + at, rkey: Rkey(rkey) };
        let mut wr = match (self.settings.test.verb, self.settings.atomic) {
            (Verb::Send | Verb::Raw, _) => SendWr::send(wr_id, sge),
            (Verb::Write, _) => SendWr::write(wr_id, sge, remote),
            (Verb::Read, _) => SendWr::read(wr_id, sge, remote),
            (Verb::Atomic, AtomicType::FetchAndAdd) => SendWr::fetch_add(wr_id, sge, remote, 1),
            (Verb::Atomic, AtomicType::CompareAndSwap) => SendWr::cmp_swap(wr_id, sge, remote, 0, 1),
        };
        if let Some(destination) = self.datagrams[qp] {
            wr = wr.to(destination);
        }
        if let (Service::Xrc, Some(srq)) = (self.settings.connection, self.remote[qp].srq) {
            wr = wr.to_srq(srq);
        }
        let inline = !self.settings.test.is_one_sided_round_trip() && size <= self.settings.inline_size;
        if inline { wr.with_flags(SendFlags::INLINE) } else { wr }
    }

    /// Posts one request.
    pub fn post(&self, qp: usize, wr: &SendWr) -> Result<(), ProgramError> {
        Ok(self.process.post_send(self.settings.nic, self.qps[qp], wr)?)
    }
    /// Posts a list of requests under one doorbell.
    pub fn post_list(&self, qp: usize, wrs: &[SendWr]) -> Result<(), ProgramError> {
        Ok(self.process.post_send_list(self.settings.nic, self.qps[qp], wrs)?)
    }
    /// Posts one receive for messages of up to `size` bytes; datagrams need room for the GRH.
    pub fn post_receive(&self, qp: usize, size: u32) -> Result<(), ProgramError> {
        let extra = if self.settings.connection == Service::Ud { GRH as u32 } else { 0 };
        let sge = Sge { addr: self.mr.addr + self.mr.length.0 / 2, length: size + extra, lkey: self.mr.lkey };
        let wr = RecvWr::new(qp as u64, sge);
        match self.srq {
            Some(srq) => self.process.post_srq_recv(self.settings.nic, srq, &wr)?,
            None => self.process.post_recv(self.settings.nic, self.qps[qp], &wr)?,
        }
        Ok(())
    }
    /// Spins until `cq` has completions, up to `max`.
    pub async fn wait(&self, cq: CqId, max: usize) -> Result<Vec<Wc>, ProgramError> {
        if self.settings.events {
            return self.checked(self.sleep(cq, max).await?);
        }
        self.checked(self.process.wait_cq(self.settings.nic, cq, max).await)
    }
    /// Polls `cq` once.
    pub async fn poll(&self, cq: CqId, max: usize) -> Result<Vec<Wc>, ProgramError> {
        self.checked(self.process.poll_cq(self.settings.nic, cq, max).await)
    }

    fn checked(&self, completions: Vec<Wc>) -> Result<Vec<Wc>, ProgramError> {
        match completions.iter().find(|wc| wc.status != WcStatus::Success) {
            None => Ok(completions),
            Some(bad) => Err(self.failed(
                bad,
                format!(
                    "{} of rank {}: completion with error: {} ({}), wr_id {}",
                    self.settings.test.name(),
                    self.process.rank(),
                    bad.status.text(),
                    bad.status.name(),
                    bad.wr_id
                ),
            )),
        }
    }
}

/// A packet sequence number that looks as random as the tool's and is the same in every run.
fn first_psn(lid: Lid, qp: QpNum) -> u32 {
    let mixed = (u64::from(lid.0) << 24 | u64::from(qp.0)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32
}

/// The GID of a RoCEv2 port over IPv4: `::ffff:10.x.y.z`, counted by endpoint.
fn gid(lid: Lid) -> [u8; 16] {
    let [_, x, y, z] = (lid.0 + 1).to_be_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, x, y, z]
}

/// The bits of a request's number that count messages of its queue pair.
const MESSAGE: u64 = (1 << 40) - 1;
/// What the tool counts of the header of a frame, in bytes, which the adapter does not have to be given here. Basis: standard.
const ETHERNET_HEADER: u32 = 14;
/// Where the buffers lie; it only shows in the report. Basis: assumed, the look of a Linux process.
const BUFFER: u64 = 0x7f2e_5f64_b000;
/// How far apart the two ends' buffers lie; more than two of the largest messages. Basis: assumed, as above.
const BETWEEN_BUFFERS: u64 = 0x14_dbca_d000;
/// Q_Key of the tool (basis: the tool).
pub(super) const QKEY: u32 = 0x1111_1111;
