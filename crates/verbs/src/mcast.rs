//! Multicast as queue pairs see it: attached ones each get a copy of what arrives for the group.
//!
//! Source: IBA vol. 1 §10.5.2 (attach, detach; 0xFFFFFF stands for all attached queue pairs), §15.2.5.17 (joining through
//! the subnet's administration); man pages ibv_attach_mcast(3), rdma_join_multicast(3).
//! Modelled: UD queue pairs at any number of groups, the check of the Q_Key at each of them, copies that come back to the
//! own adapter and their suppression, requests to join and leave with an answer in a completion queue.
//! Not modelled: a limit of attached queue pairs, raw packets, several MGIDs behind one MLID (then adapters compare the MGID).
//!
//! A program joins, learns the number of the group from the answer, and attaches its queue pair. A packet that arrives for
//! a group is given to [`Nic::handle_packet`](crate::Nic::handle_packet) once for each of [`Nic::mcast_listeners`](crate::Nic::mcast_listeners), addressed to it.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{CqId, Lid, QpNum, WqeIndex};
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
    pub(crate) attached: BTreeMap<u16, Vec<u32>>,
    pub(crate) requests: VecDeque<Membership>,
}

impl Mcast {
    /// A group that a queue pair is attached to.
    pub(crate) fn of(&self, slot: u32) -> Option<Lid> {
        self.attached.iter().find(|(_, slots)| slots.contains(&slot)).map(|(mlid, _)| Lid::multicast(*mlid))
    }
}

/// Of every management datagram. Basis: standard.
const MAD_BYTES: u32 = 256;
