//! Multicast as queue pairs see it: attached ones each get a copy of what arrives for the group.
//!
//! Source: IBA vol. 1 §10.5.2 (attach, detach; 0xFFFFFF stands for all attached queue pairs), §15.2.5.17 (joining through
//! the subnet's administration); man pages ibv_attach_mcast(3), rdma_join_multicast(3).
//! Modelled: UD queue pairs at any number of groups, the check of the Q_Key at each of them, copies that come back to the
//! own adapter and their suppression, requests to join and leave with an answer in a completion queue.
//! Not modelled: a limit of attached queue pairs, raw packets, several MGIDs behind one MLID (then adapters compare the MGID).
//!
//! A program joins, learns the number of the group from the answer, and attaches its queue pair. A packet that arrives for
//! a group is given to [`Nic::handle_packet`] once for each of [`Nic::mcast_listeners`], addressed to it.

use std::collections::{BTreeMap, VecDeque};

use crate::attr::QpType;
use crate::error::VerbsError;
use crate::ext_headers::ExtHeaders;
use crate::ids::{CqId, Lid, QpNum, WqeIndex};
use crate::nic::Nic;
use crate::packet::Packet;
use crate::wc::{Wc, WcOpcode, WcStatus};

/// How an adapter asks to belong to a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JoinState {
    /// To send and receive, and keep the group alive; makes it where there is none.
    Full,
    /// To send and receive while full members are there.
    NonMember,
    /// To send while full members are there.
    SendOnly,
    /// To send only, and keep the group alive; makes it where there is none.
    SendOnlyFull,
}

/// What an adapter asks of the administration of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// To join; where that makes the group, with this Q_Key.
    Join {
        /// How.
        state: JoinState,
        /// The key of the group.
        qkey: u32,
    },
    /// To leave.
    Leave,
}

/// A request about a group; the answer is a completion with the request's `wr_id` and the group's MLID as immediate data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// The group.
    pub mgid: [u8; 16],
    /// What is asked.
    pub change: Change,
    /// Where the answer goes.
    pub cq: CqId,
    /// Comes back with the answer.
    pub wr_id: u64,
}

impl Membership {
    /// The completion that answers it: the MLID of the group, or nothing where it was refused.
    #[must_use]
    pub fn answer(&self, mlid: Option<u16>) -> Wc {
        let status = if mlid.is_some() { WcStatus::Success } else { WcStatus::RemInvReqErr };
        Wc {
            byte_len: MAD_BYTES,
            imm: mlid.map(u32::from),
            src_qp: QpNum::GENERAL_SERVICES,
            ..Wc::of(QpNum::GENERAL_SERVICES, self.wr_id, status, WcOpcode::Recv, WqeIndex(0))
        }
    }
}

/// The queue pairs of an adapter at groups, and what it has asked for.
#[derive(Default)]
pub(crate) struct Mcast {
    /// Slots in the order of attaching, by MLID.
    attached: BTreeMap<u16, Vec<u32>>,
    asked: VecDeque<Membership>,
}

impl Mcast {
    /// A group that a queue pair is attached to.
    pub(crate) fn of(&self, slot: u32) -> Option<Lid> {
        self.attached.iter().find(|(_, slots)| slots.contains(&slot)).map(|(mlid, _)| Lid::multicast(*mlid))
    }
}

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
        self.mcast.asked.push_back(request);
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
        self.mcast.asked.pop_front()
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

/// Of every management datagram. Basis: standard.
const MAD_BYTES: u32 = 256;
