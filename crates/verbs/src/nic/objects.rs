//! Control verbs: making, changing and destroying objects.
//!
//! Source: IBA vol. 1 §11.2; man pages of libibverbs named after the methods.
//! Modelled: protection domains, regions, completion queues, shared receive queues, address handles, queue pairs; an object
//! that is still used is not destroyed.
//! Not modelled: contexts, limits of a device (the engine may check them against the catalog), resizing.

use fabriscope_units::{Bytes, Rate};

use crate::access::{Access, MemoryId};
use crate::attr::{AhAttr, QpAttr, QpCap, QpInit, QpState, QpType};
use crate::cq::Cq;
use crate::error::VerbsError;
use crate::ext_headers::Ext;
use crate::ids::{AhId, CqId, EecNum, FIRST_QP, Lkey, PdId, QpNum, Rkey, SLOT_BITS, SLOT_MASK, SrqId, XrcdId};
use crate::mr::{MemoryUse, Mr, Pages, WindowKind};
use crate::nic::Nic;
use crate::qp::{Qp, QpStatus};
use crate::rate_limit::RateLimit;
use crate::srq::{RecvQueue, Srq};

impl Nic {
    /// Makes a protection domain.
    pub fn alloc_pd(&mut self) -> PdId {
        PdId(insert(&mut self.pds, 0))
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// It does not exist, or something is in it.
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), VerbsError> {
        let users = *self.users_of(pd)?;
        let busy = |user: String| Err(VerbsError::Busy { what: format!("protection domain {pd}"), user });
        if users > 0 {
            return busy(format!("{users} queue pairs, shared receive queues or address handles"));
        }
        if self.port.regions.uses(pd) {
            return busy("memory regions".to_string());
        }
        self.pds[pd.0 as usize] = None;
        Ok(())
    }

    /// Registers host memory beside the NIC.
    ///
    /// # Errors
    /// No such domain, an empty range, or remote rights to change memory without `LOCAL_WRITE`.
    pub fn reg_mr(&mut self, pd: PdId, addr: u64, length: Bytes, access: Access) -> Result<Mr, VerbsError> {
        self.reg_mr_at(pd, addr, length, access, MemoryId::HOST)
    }

    /// From now on memory at `place` can be registered: the NIC has a way there.
    pub fn reach(&mut self, place: MemoryId) {
        self.port.regions.reach(place);
    }

    /// Registers memory of the node that lies at `place`: that of a GPU, or of another socket.
    ///
    /// # Errors
    /// As [`reg_mr`](Self::reg_mr), and a place out of the NIC's reach.
    pub fn reg_mr_at(&mut self, pd: PdId, addr: u64, length: Bytes, access: Access, place: MemoryId) -> Result<Mr, VerbsError> {
        self.users_of(pd)?;
        self.port.regions.register(pd, addr, length, access, place)
    }

    /// The adapter translates the region of `lkey` by pages from now on: packets that touch it need their entries ([`memory_used`](Self::memory_used)).
    /// Transports of RDMA over several paths (RUD) and iWARP do so for what they send only.
    ///
    /// # Errors
    /// No region has the key; a size of pages that is no power of two of 4 KiB or more; more entries than an adapter numbers.
    pub fn translate_by(&mut self, lkey: Lkey, pages: Pages) -> Result<(), VerbsError> {
        self.port.regions.divide(lkey.0, pages)
    }

    /// Whether it translates any region by pages, or the host translates addresses ([`NicConfig::iommu`](crate::NicConfig::iommu)).
    #[inline]
    pub fn translates(&self) -> bool {
        self.port.regions.is_paged()
    }

    /// The memory that packets needed since it was cleared, in order.
    pub fn memory_used(&mut self) -> &mut MemoryUse {
        self.port.regions.memory_used()
    }

    /// Makes a memory window (`ibv_alloc_mw`): nothing can be reached by its key before it is bound.
    ///
    /// # Errors
    /// The protection domain does not exist.
    pub fn alloc_mw(&mut self, pd: PdId, kind: WindowKind) -> Result<Rkey, VerbsError> {
        self.users_of(pd)?;
        self.port.regions.allocate_window(pd, kind)
    }

    /// Ends a memory window (`ibv_dealloc_mw`), bound or not; any of its keys names it.
    ///
    /// # Errors
    /// No window has the key.
    pub fn dealloc_mw(&mut self, rkey: Rkey) -> Result<(), VerbsError> {
        self.port.regions.free_window(rkey)
    }

    /// Gives a region another domain, range or rights; its keys stay, as adapters keep them that change translations in place.
    ///
    /// # Errors
    /// As [`reg_mr`](Self::reg_mr), and no region that has the key; then it stays as it was.
    pub fn rereg_mr(&mut self, lkey: Lkey, pd: PdId, addr: u64, length: Bytes, access: Access) -> Result<(), VerbsError> {
        self.users_of(pd)?;
        self.port.regions.reregister(lkey.0, pd, addr, length, access)
    }

    /// Peers call the first byte of a region `iova` from now on, as `ibv_reg_mr_iova` has it, on all transports of InfiniBand but RUD;
    /// requests of this side name it by its address. A region that is registered again has its address for peers as well.
    ///
    /// # Errors
    /// No region has the key, or the range does not end before 2^64.
    pub fn set_iova(&mut self, lkey: Lkey, iova: u64) -> Result<(), VerbsError> {
        self.port.regions.set_iova(lkey.0, iova)
    }

    /// Deregisters memory; its keys are refused from now on.
    ///
    /// # Errors
    /// No region has the key.
    pub fn dereg_mr(&mut self, lkey: Lkey) -> Result<(), VerbsError> {
        self.port.regions.deregister(lkey.0)
    }

    /// Makes a completion queue of `depth` entries.
    ///
    /// # Errors
    /// A depth of 0 or above 2^22.
    pub fn create_cq(&mut self, depth: u32) -> Result<CqId, VerbsError> {
        in_range("depth of the completion queue", depth, 1, MAX_CQ_DEPTH)?;
        Ok(CqId(insert(&mut self.cqs, Cq::new(depth))))
    }

    /// Ends a completion queue.
    ///
    /// # Errors
    /// It does not exist, or a queue pair uses it.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        let users = self.cq(cq)?.users;
        if users > 0 {
            return Err(VerbsError::Busy { what: format!("completion queue {cq}"), user: format!("{users} queues") });
        }
        self.cqs[cq.0 as usize] = None;
        Ok(())
    }

    /// Asks for an event at the next completion, or the next solicited one: `deliver` will return true, and
    /// [`take_cq_event`](Self::take_cq_event) gives it.
    ///
    /// # Errors
    /// No such completion queue.
    pub fn req_notify_cq(&mut self, cq: CqId, solicited_only: bool) -> Result<(), VerbsError> {
        self.cq(cq)?.request_notification(solicited_only);
        Ok(())
    }

    /// Whether a completion queue overflowed and lost entries.
    ///
    /// # Errors
    /// No such completion queue.
    pub fn cq_overflowed(&mut self, cq: CqId) -> Result<bool, VerbsError> {
        Ok(self.cq(cq)?.overflowed())
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// No such domain, a size of 0 or too large.
    pub fn create_srq(&mut self, pd: PdId, max_wr: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        in_range("max_wr", max_wr, 1, MAX_WR)?;
        in_range("max_sge", max_sge, 1, MAX_SGE)?;
        *self.users_of(pd)? += 1;
        let srq = Srq { queue: RecvQueue::new(max_wr, max_sge), pd, users: 0, xrc: None, limit: 0 };
        Ok(SrqId(insert(&mut self.port.srqs, srq)))
    }

    /// Makes an XRC domain, as `ibv_open_xrcd` does.
    pub fn open_xrcd(&mut self) -> XrcdId {
        self.xrcds += 1;
        XrcdId(self.xrcds - 1)
    }

    /// Makes a shared receive queue that extended connections of `xrcd` may name; its receives complete in `cq`.
    ///
    /// # Errors
    /// No such domain or completion queue, a size of 0 or too large.
    pub fn create_xrc_srq(&mut self, pd: PdId, xrcd: XrcdId, cq: CqId, max_wr: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        in_range("xrcd", xrcd.0, 0, self.xrcds.wrapping_sub(1))?;
        self.cq(cq)?;
        let srq = self.create_srq(pd, max_wr, max_sge)?;
        self.srq(srq)?.xrc = Some((xrcd, cq));
        self.cq(cq)?.users += 1;
        Ok(srq)
    }

    /// Makes an end-to-end context of RD. It is connected like an RC queue pair, with `modify_qp` and the same number.
    ///
    /// # Errors
    /// No such domain or completion queue.
    pub fn create_eec(&mut self, pd: PdId, cq: CqId) -> Result<EecNum, VerbsError> {
        let cap = QpCap { max_recv_wr: 0, ..QpCap::default() };
        self.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Eec, cq) }).map(|num| EecNum(num.0))
    }

    /// Contexts of SRD and UET that were made so far, one for each peer.
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Responders that targets of DC have made, one for each initiator that ever connected.
    pub fn dc_responders(&self) -> usize {
        self.responders.len()
    }

    /// The responder of the target at `slot` for a new initiator.
    pub(crate) fn make_responder(&mut self, slot: usize, ext: &Ext) -> Option<usize> {
        let target = &self.qps[slot];
        let (home, init, attr, mtu) = (target.num, target.init, target.attr, target.mtu_shift);
        let num = self.create_qp(&init).ok()?;
        let place = self.slot_of(num)?;
        let qp = &mut self.qps[place];
        (qp.state, qp.home, qp.attr, qp.mtu_shift) = (QpState::Rts, home, attr, mtu);
        (qp.dest, qp.dest_qp) = (ext.slid, ext.src_qp.0);
        qp.entropy = crate::qp::modify::entropy(self.port.lid, ext.slid, num.0);
        qp.responder.max_reads = RESPONDER_READS;
        Some(place)
    }

    /// Ends a shared receive queue.
    ///
    /// # Errors
    /// It does not exist, or a queue pair uses it.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbsError> {
        let (users, pd, xrc) = self.srq(srq).map(|srq| (srq.users, srq.pd, srq.xrc))?;
        if users > 0 {
            return Err(VerbsError::Busy { what: format!("shared receive queue {srq}"), user: format!("{users} queue pairs") });
        }
        self.port.srqs[srq.0 as usize] = None;
        if let Some((_, cq)) = xrc {
            self.cq(cq)?.users -= 1;
        }
        *self.users_of(pd)? -= 1;
        Ok(())
    }

    /// Asks for an event once fewer than `limit` receives are posted.
    ///
    /// # Errors
    /// No such shared receive queue.
    pub fn set_srq_limit(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbsError> {
        self.srq(srq)?.limit = limit;
        Ok(())
    }

    /// Makes an address handle.
    ///
    /// # Errors
    /// No such domain, a service level above 15.
    pub fn create_ah(&mut self, pd: PdId, attr: AhAttr) -> Result<AhId, VerbsError> {
        in_range("sl", u32::from(attr.sl), 0, 15)?;
        *self.users_of(pd)? += 1;
        Ok(AhId(insert(&mut self.ahs, (pd, attr))))
    }

    /// Ends an address handle.
    ///
    /// # Errors
    /// It does not exist.
    pub fn destroy_ah(&mut self, ah: AhId) -> Result<(), VerbsError> {
        let slot = self.ahs.get_mut(ah.0 as usize).ok_or(VerbsError::NoSuchAh { ah })?;
        let (pd, _) = slot.take().ok_or(VerbsError::NoSuchAh { ah })?;
        *self.users_of(pd)? -= 1;
        Ok(())
    }

    /// Makes a queue pair in state RESET. On an adapter of iWARP a reliable connection is of type [`QpType::Iwarp`].
    ///
    /// # Errors
    /// An object it needs does not exist, or a size is out of range.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<QpNum, VerbsError> {
        // What programs ask an iWARP adapter for is RC, and what they get is that.
        let iwarp = self.port.iwarp.is_some();
        let init = &QpInit { qp_type: if iwarp && init.qp_type == QpType::Rc { QpType::Iwarp } else { init.qp_type }, ..*init };
        let cap = &init.cap;
        in_range("max_send_wr", cap.max_send_wr, 1, MAX_WR)?;
        in_range("max_recv_wr", cap.max_recv_wr, 0, MAX_WR)?;
        in_range("max_send_sge", cap.max_send_sge, 0, MAX_SGE)?;
        in_range("max_recv_sge", cap.max_recv_sge, 0, MAX_SGE)?;
        check_kind(init, iwarp)?;
        self.users_of(init.pd)?;
        self.cq(init.send_cq)?;
        self.cq(init.recv_cq)?;
        if let Some(srq) = init.srq {
            self.srq(srq)?.users += 1;
        }
        // The receiving end of XRC has the domain and the queue of whatever shared queue it was lent last.
        let lent = init.qp_type == QpType::XrcRecv;
        if !lent {
            *self.users_of(init.pd)? += 1;
            self.cq(init.recv_cq)?.users += 1;
        }
        self.cq(init.send_cq)?.users += 1;
        if let Some(slot) = self.free_qps.pop() {
            let old = self.qps[slot as usize].num.0;
            let num = QpNum(old.wrapping_add(1 << SLOT_BITS) & 0xff_ffff);
            self.qps[slot as usize] = Qp::new(num, slot, init);
            return Ok(num);
        }
        // Those on demand have all the numbers.
        let most = if self.reserved.is_some() { 0 } else { SLOT_MASK - FIRST_QP };
        let slot = self.qps.len() as u32;
        in_range("number of queue pairs", slot, 0, most)?;
        let num = QpNum(slot + FIRST_QP);
        if self.qps.len() == self.qps.capacity() {
            // Most adapters have one, and it is large.
            self.qps.reserve_exact(self.qps.len().max(1));
        }
        self.qps.push(Qp::new(num, slot, init));
        Ok(num)
    }

    /// Changes attributes and state of a queue pair; nothing changes when it fails. In RESET its completions not yet polled are gone.
    ///
    /// # Errors
    /// No such transition, an attribute it needs is missing, one it does not take is given, or a value is out of range.
    pub fn modify_qp(&mut self, qp: QpNum, attr: &QpAttr) -> Result<(), VerbsError> {
        let slot = self.slot_of(qp).ok_or(VerbsError::NoSuchQp { qp })?;
        let lid = self.lid();
        self.qps[slot].modify(attr, lid, &mut self.port)?;
        if attr.qp_state == Some(QpState::Reset) {
            self.drop_completions(slot);
        }
        Ok(())
    }

    /// Completions of a queue pair that were not polled are gone, as the libraries of adapters take them out of their queues.
    fn drop_completions(&mut self, slot: usize) {
        let (qp, init) = (self.qps[slot].num, self.qps[slot].init);
        self.port.completions.retain(|(_, wc)| wc.qp_num != qp);
        for cq in [init.send_cq, init.recv_cq] {
            let Ok(queue) = self.cq(cq) else { continue };
            let mut said = Vec::new();
            let receives = queue.purge(qp, &mut said);
            for words in said {
                self.port.words.take(words);
            }
            if let Some(Some(srq)) = init.srq.and_then(|srq| self.port.srqs.get_mut(srq.0 as usize)) {
                (0..receives).for_each(|_| srq.queue.free_one());
            }
        }
    }

    /// The state and attributes of a queue pair.
    ///
    /// # Errors
    /// No such queue pair.
    pub fn query_qp(&self, qp: QpNum) -> Result<QpStatus, VerbsError> {
        self.slot_of(qp).map(|slot| self.qps[slot].status()).ok_or(VerbsError::NoSuchQp { qp })
    }

    /// Ends a queue pair: its requests never complete, its completions not yet polled are gone.
    ///
    /// # Errors
    /// No such queue pair, or it is attached to a group.
    pub fn destroy_qp(&mut self, qp: QpNum) -> Result<(), VerbsError> {
        let slot = self.slot_of(qp).ok_or(VerbsError::NoSuchQp { qp })?;
        if let Some(lid) = self.mcast.of(slot as u32) {
            return Err(VerbsError::Busy { what: format!("queue pair {qp}"), user: format!("the multicast group at address {lid}") });
        }
        let init = self.qps[slot].init;
        if self.qps[slot].qp_type == QpType::Dct {
            let own: Vec<_> = self.responders.iter().filter(|(key, _)| key.2 == qp).map(|(key, place)| (*key, *place)).collect();
            for (key, place) in own {
                self.responders.remove(&key);
                let num = self.qps[place as usize].num;
                self.destroy_qp(num)?;
            }
        }
        self.contexts.forget(qp, &mut self.port);
        self.qps[slot].reset(&mut self.port);
        self.qps[slot].live = false;
        self.free_qps.push(slot as u32);
        self.drop_completions(slot);
        let lent = init.qp_type == QpType::XrcRecv;
        for (cq, counts) in [(init.send_cq, true), (init.recv_cq, !lent)] {
            let Ok(queue) = self.cq(cq) else { continue };
            queue.users -= u32::from(counts);
        }
        if lent {
            return Ok(());
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?.users -= 1;
        }
        *self.users_of(init.pd)? -= 1;
        Ok(())
    }

    /// Has a queue pair keep to a rate, with bursts of at most so many bytes beyond a packet; `None` lifts the limit.
    ///
    /// # Errors
    /// No such queue pair, a rate of 0.
    pub fn set_rate_limit(&mut self, qp: QpNum, rate: Option<Rate>, burst: Bytes) -> Result<(), VerbsError> {
        let slot = self.slot_of(qp).ok_or(VerbsError::NoSuchQp { qp })?;
        if rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(VerbsError::OutOfRange { what: "rate_limit", value: 0, min: 1, max: u64::MAX });
        }
        self.qps[slot].limit = rate.map(|rate| Box::new(RateLimit::new(rate, burst)));
        Ok(())
    }

    /// Connects two types of queue pairs the usual way: RESET, INIT, RTR, RTS with the defaults of [`QpAttr`].
    ///
    /// # Errors
    /// See [`Nic::modify_qp`].
    pub fn connect(&mut self, qp: QpNum, peer: &crate::Peer, access: Access) -> Result<(), VerbsError> {
        let qp_type = self.query_qp(qp)?.init.qp_type;
        let av = AhAttr { dlid: peer.lid, sl: peer.sl };
        let (init, rtr, rts) = match qp_type {
            QpType::Rc | QpType::Iwarp => (QpAttr::init(access), QpAttr::rtr_rc(peer.mtu, peer.qp, 0, av), QpAttr::rts_rc(0)),
            QpType::Uc => (QpAttr::init(access), QpAttr::rtr_uc(peer.mtu, peer.qp, 0, av), QpAttr::rts(0)),
            QpType::XrcSend | QpType::XrcRecv | QpType::Eec => {
                (QpAttr::init(access), QpAttr::rtr_rc(peer.mtu, peer.qp, 0, av), QpAttr::rts_rc(0))
            }
            QpType::Ud | QpType::UetUud => (QpAttr::init_ud(crate::Peer::QKEY), QpAttr::rtr_ud(), QpAttr::rts(0)),
            kind if kind.shares_contexts() => (QpAttr::init_datagram(crate::Peer::QKEY, access), QpAttr::rtr_ud(), QpAttr::rts(0)),
            QpType::Dci => (QpAttr::init_plain(), QpAttr::rtr_dc(peer.mtu), QpAttr::rts_rc(0)),
            QpType::Dct => {
                self.modify_qp(qp, &QpAttr::init_datagram(crate::Peer::QKEY, access))?;
                return self.modify_qp(qp, &QpAttr::rtr_dc(peer.mtu));
            }
            _ => (QpAttr::init_plain(), QpAttr::rtr_ud(), QpAttr { qp_state: Some(QpState::Rts), ..QpAttr::default() }),
        };
        self.modify_qp(qp, &init)?;
        self.modify_qp(qp, &rtr)?;
        self.modify_qp(qp, &rts)
    }

    fn users_of(&mut self, pd: PdId) -> Result<&mut u32, VerbsError> {
        self.pds.get_mut(pd.0 as usize).and_then(Option::as_mut).ok_or(VerbsError::NoSuchPd { pd })
    }
    fn cq(&mut self, cq: CqId) -> Result<&mut Cq, VerbsError> {
        self.cqs.get_mut(cq.0 as usize).and_then(Option::as_mut).ok_or(VerbsError::NoSuchCq { cq })
    }
    fn srq(&mut self, srq: SrqId) -> Result<&mut Srq, VerbsError> {
        self.port.srqs.get_mut(srq.0 as usize).and_then(Option::as_mut).ok_or(VerbsError::NoSuchSrq { srq })
    }
}

/// What a type of queue pair needs, or cannot have.
fn check_kind(init: &QpInit, iwarp: bool) -> Result<(), VerbsError> {
    let qp_type = init.qp_type;
    let wrong = |what, remedy| Err(VerbsError::DoesNotFit { qp_type, what, remedy });
    match qp_type {
        QpType::Iwarp if !iwarp => wrong("an adapter that has no TCP of its own", "use RC"),
        _ if iwarp && qp_type != QpType::Iwarp => wrong("an adapter of iWARP, which has connections and nothing else", "use RC"),
        QpType::Dct if init.srq.is_none() => wrong("no shared receive queue", "targets of DC receive from one: give `srq`"),
        QpType::XrcRecv if init.xrcd.is_none() => wrong("no XRC domain", "take one from open_xrcd and give `xrcd`"),
        QpType::XrcSend | QpType::XrcRecv | QpType::Dci | QpType::RawPacket if init.srq.is_some() => {
            wrong("a shared receive queue", "leave `srq` out")
        }
        _ if init.srq.is_some() && qp_type.transport() == fabriscope_wire::Transport::Rud => {
            wrong("a shared receive queue", "leave `srq` out")
        }
        _ if init.xrcd.is_some() && qp_type != QpType::XrcRecv => wrong("an XRC domain", "leave `xrcd` out, or make it XRC_RECV"),
        _ => Ok(()),
    }
}

/// Appends an object; numbers of destroyed ones are not used again.
fn insert<T>(slots: &mut Vec<Option<T>>, object: T) -> u32 {
    slots.push(Some(object));
    slots.len() as u32 - 1
}

fn in_range(what: &'static str, value: u32, min: u32, max: u32) -> Result<(), VerbsError> {
    let (value, min, max) = (u64::from(value), u64::from(min), u64::from(max));
    if value < min || value > max { Err(VerbsError::OutOfRange { what, value, min, max }) } else { Ok(()) }
}

/// READs and atomics that an initiator of DC may have outstanding at a target. Basis: as perftest sets it for RC.
const RESPONDER_READS: u32 = 16;
// Sizes that keep memory within reason; devices of today have smaller limits. Basis: assumed.
const MAX_CQ_DEPTH: u32 = 1 << 22;
const MAX_WR: u32 = 1 << 20;
const MAX_SGE: u32 = 64;
