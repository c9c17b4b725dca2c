//! The NIC.

use fabriscope_units::{Bytes, Time};

use crate::attr::{AhAttr, QpAttr, QpInit};
use crate::error::{PostError, VerbsError};
use crate::event::AsyncEvent;
use crate::ids::*;
use crate::link_layer::LinkLayer;
use crate::memory::Memory;
use crate::mr::{Access, Mr};
use crate::packet::{Packet, Received, Transmit};
use crate::qp::QpStatus;
use crate::side::Side;
use crate::wc::Wc;
use crate::wr::{Posted, RecvWr, SendWr};

/// What a NIC is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NicConfig {
    /// Its address.
    pub lid: Lid,
    /// Decides the size of packets on the wire.
    pub link_layer: LinkLayer,
}

/// An RDMA NIC.
pub struct Nic {
    lid: Lid,
}

#[allow(unused_variables, missing_docs)]
impl Nic {
    pub fn new(config: NicConfig) -> Nic {
        Nic { lid: config.lid }
    }
    pub fn lid(&self) -> Lid {
        self.lid
    }
    pub fn set_memory(&mut self, memory: Box<dyn Memory>) {}
    pub fn alloc_pd(&mut self) -> PdId {
        todo!()
    }
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn reg_mr(&mut self, pd: PdId, addr: u64, length: Bytes, access: Access) -> Result<Mr, VerbsError> {
        todo!()
    }
    pub fn dereg_mr(&mut self, lkey: Lkey) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn create_cq(&mut self, depth: u32) -> Result<CqId, VerbsError> {
        todo!()
    }
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        todo!()
    }
    /// The next delivered completion raises an event: `deliver` returns true.
    pub fn req_notify_cq(&mut self, cq: CqId, solicited_only: bool) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn create_srq(&mut self, pd: PdId, max_wr: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        todo!()
    }
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbsError> {
        todo!()
    }
    /// Arms `SrqLimitReached`.
    pub fn set_srq_limit(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn create_ah(&mut self, pd: PdId, attr: AhAttr) -> Result<AhId, VerbsError> {
        todo!()
    }
    pub fn destroy_ah(&mut self, ah: AhId) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn create_qp(&mut self, init: &QpInit) -> Result<QpNum, VerbsError> {
        todo!()
    }
    pub fn modify_qp(&mut self, qp: QpNum, attr: &QpAttr) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn query_qp(&self, qp: QpNum) -> Result<QpStatus, VerbsError> {
        todo!()
    }
    pub fn destroy_qp(&mut self, qp: QpNum) -> Result<(), VerbsError> {
        todo!()
    }
    pub fn post_send(&mut self, now: Time, qp: QpNum, wr: &SendWr) -> Result<Posted, PostError> {
        todo!()
    }
    pub fn post_recv(&mut self, now: Time, qp: QpNum, wr: &RecvWr) -> Result<(), PostError> {
        todo!()
    }
    pub fn post_srq_recv(&mut self, now: Time, srq: SrqId, wr: &RecvWr) -> Result<(), PostError> {
        todo!()
    }
    /// Completions visible by `now`, at most `max`, appended to `into`; returns how many.
    pub fn poll_cq(&mut self, now: Time, cq: CqId, max: usize, into: &mut Vec<Wc>) -> usize {
        todo!()
    }
    pub fn cq_next_visible(&self, cq: CqId) -> Option<Time> {
        todo!()
    }
    pub fn create_watch(&mut self, addr: u64, length: Bytes) -> WatchId {
        todo!()
    }
    pub fn watch_count(&mut self, watch: WatchId, now: Time) -> u64 {
        todo!()
    }
    /// When the count of `watch` reaches `count`, if that is known already.
    pub fn watch_reaches(&self, watch: WatchId, count: u64) -> Option<Time> {
        todo!()
    }
    pub fn poll_async_event(&mut self) -> Option<AsyncEvent> {
        todo!()
    }
    /// WQEs up to and including `through` may be transmitted.
    pub fn doorbell(&mut self, now: Time, qp: QpNum, through: WqeIndex) {
        todo!()
    }
    pub fn poll_transmit(&mut self, now: Time, side: &mut Side) -> Option<Transmit> {
        todo!()
    }
    /// `packet.ext` is freed.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet, side: &mut Side) -> Received {
        todo!()
    }
    /// Completions ready to be written to host memory (then `deliver`): drain after every call of doorbell, poll_transmit,
    /// handle_packet, handle_timeout, modify_qp, post_recv.
    pub fn poll_completion(&mut self) -> Option<(CqId, Wc)> {
        todo!()
    }
    /// Further `landed` ranges of the last handled packet.
    pub fn poll_landed(&mut self) -> Option<(u64, u32)> {
        todo!()
    }
    /// Not later than the next timeout; an early `handle_timeout` is harmless.
    pub fn poll_timeout(&self) -> Option<Time> {
        todo!()
    }
    pub fn handle_timeout(&mut self, now: Time) {
        todo!()
    }
    /// The CQE is visible from `visible` on. Returns whether it raises a completion event (`req_notify_cq`).
    pub fn deliver(&mut self, visible: Time, cq: CqId, wc: Wc) -> bool {
        todo!()
    }
    pub fn landed(&mut self, visible: Time, addr: u64, length: u32) {
        todo!()
    }
}
