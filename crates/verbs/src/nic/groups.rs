//! Groups as the NIC serves them: queue pairs attached to multicast groups, requests to managers of groups and reductions.
//!
//! Source: man pages ibv_attach_mcast(3), rdma_join_multicast(3); libsharp. The requests are in `mcast` and `aggregate`.

use crate::aggregate::GroupRequest;
use crate::attr::QpType;
use crate::error::VerbsError;
use crate::ext_headers::ExtHeaders;
use crate::ids::{Lid, QpNum};
use crate::mcast::Membership;
use crate::nic::Nic;
use crate::packet::Packet;

/// Called by programs.
impl Nic {
    /// From now on a UD queue pair gets the datagrams that arrive for a group.
    ///
    /// # Errors
    /// No such queue pair, it is not UD, the address is not that of a group, it is attached already.
    pub fn attach_mcast(&mut self, qp: QpNum, group: Lid) -> Result<(), VerbsError> {
        let (slot, mlid) = self.to_attach(qp, group)?;
        let slots = self.mcast.attached.entry(mlid).or_default();
        if slots.contains(&slot) {
            return Err(VerbsError::AlreadyAttached { qp });
        }
        slots.push(slot);
        Ok(())
    }

    /// Ends that.
    ///
    /// # Errors
    /// No such queue pair, it is not UD, the address is not that of a group, it is not attached.
    pub fn detach_mcast(&mut self, qp: QpNum, group: Lid) -> Result<(), VerbsError> {
        let (slot, mlid) = self.to_attach(qp, group)?;
        let slots = self.mcast.attached.get_mut(&mlid).ok_or(VerbsError::NotAttached { qp })?;
        let at = slots.iter().position(|other| *other == slot).ok_or(VerbsError::NotAttached { qp })?;
        slots.remove(at);
        if slots.is_empty() {
            self.mcast.attached.remove(&mlid);
        }
        Ok(())
    }

    /// Asks the administration of groups for something; the answer comes to the completion queue of the request.
    pub fn post_membership(&mut self, request: Membership) {
        self.mcast.requests.push_back(request);
    }

    fn to_attach(&self, qp: QpNum, group: Lid) -> Result<(u32, u16), VerbsError> {
        let slot = self.slot_of(qp).ok_or(VerbsError::NoSuchQp { qp })?;
        let qp_type = self.qps[slot].qp_type;
        if qp_type != QpType::Ud {
            return Err(VerbsError::NotDatagram { qp, qp_type });
        }
        Ok((slot as u32, group.mlid().ok_or(VerbsError::NotMulticast { lid: group })?))
    }
}

/// Called by the engine.
impl Nic {
    /// The next request about a group.
    pub fn poll_membership(&mut self) -> Option<Membership> {
        self.mcast.requests.pop_front()
    }

    /// Appends the queue pairs that get a packet addressed to a group: those attached, but for the one that sent it and
    /// does not want it back. Nobody may be listening.
    pub fn mcast_listeners(&self, packet: &Packet, side: &ExtHeaders, into: &mut Vec<QpNum>) {
        let Some(slots) = packet.dest.mlid().and_then(|mlid| self.mcast.attached.get(&mlid)) else { return };
        let sender = side.at(packet.ext).filter(|ext| ext.slid == self.port.lid).map(|ext| ext.src_qp);
        let qps = slots.iter().map(|slot| &self.qps[*slot as usize]);
        into.extend(qps.filter(|qp| !(qp.init.block_mcast_loopback && Some(qp.num) == sender)).map(|qp| qp.num));
    }
}

/// Reductions.
impl Nic {
    /// Asks the aggregation manager for a group; the answer comes to the completion queue of the request.
    pub fn post_group_request(&mut self, request: GroupRequest) {
        self.group_requests.0.push_back(request);
    }
    /// The next request for a group; called by the engine.
    pub fn poll_group_request(&mut self) -> Option<GroupRequest> {
        self.group_requests.0.pop_front()
    }
}
