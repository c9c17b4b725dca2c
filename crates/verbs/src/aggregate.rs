//! Reductions in the network as adapters see them: groups are asked for, messages go over reliable connections.
//!
//! A program makes a queue pair, asks for a group with it, and connects it to the address in the answer. It writes its contribution there
//! as an RDMA WRITE whose address is the header ([`fabriscope_wire::Task`]); the result comes as a SEND, in the order of the operations.
//! Who gets no data (a reduction to another root) is sent an empty message.
//!
//! Source: libsharp (`sharp_coll_init`, `sharp_coll_comm_init`: all members at the same time, answers of the aggregation manager).
//! Modelled: requests of all members, one answer to each, the reasons of a refusal.
//! Not modelled: names of jobs and keys, several ports of one member.

use std::collections::VecDeque;
use std::fmt;

use crate::ids::{CqId, QpNum, WqeIndex};
use crate::wc::{Wc, WcOpcode, WcStatus};

/// A request for a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupRequest {
    /// What the members have in common; nobody is answered before all have asked.
    pub job: u64,
    /// Which member this is, from 0.
    pub member: u32,
    /// How many there are.
    pub members: u32,
    /// Operations that may be outstanding.
    pub slots: u32,
    /// The queue pair to which results come.
    pub qp: QpNum,
    /// Where the answer goes.
    pub cq: CqId,
    /// Comes back with the answer.
    pub wr_id: u64,
}

/// Why there is no group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Denied {
    /// The switches do not reduce.
    NoUnit,
    /// One member alone.
    TooFew,
    /// An adapter is there twice, or members disagree.
    Twice,
    /// No path joins the members.
    Apart,
    /// All trees are taken.
    Trees,
    /// All groups of a switch are taken.
    Groups,
    /// A switch has no room for the operations.
    Slots,
    /// Too many members below one switch.
    Children,
}

impl Denied {
    const ALL: [Denied; 8] =
        [Denied::NoUnit, Denied::TooFew, Denied::Twice, Denied::Apart, Denied::Trees, Denied::Groups, Denied::Slots, Denied::Children];
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denied::NoUnit => "the switches do not reduce",
            Denied::TooFew => "there are not two nodes to reduce over",
            Denied::Twice => "members of the group disagree about it",
            Denied::Apart => "no path of switches joins all members",
            Denied::Trees => "all trees of the fabric are taken",
            Denied::Groups => "all groups of a switch are taken",
            Denied::Slots => "a switch has no room for more operations",
            Denied::Children => "a switch would have more children than it reduces",
        })
    }
}

impl GroupRequest {
    /// The completion that answers it: the number of the group, or why there is none.
    #[must_use]
    pub fn answer(&self, group: Result<u32, Denied>) -> Wc {
        let (status, imm) = match group {
            Ok(number) => (WcStatus::Success, number),
            Err(denied) => (WcStatus::RemInvReqErr, denied as u32),
        };
        let wc = Wc::of(QpNum::GENERAL_SERVICES, self.wr_id, status, WcOpcode::Recv, WqeIndex(0));
        Wc { imm: Some(imm), src_qp: QpNum::GENERAL_SERVICES, ..wc }
    }
    /// What an answer says.
    ///
    /// # Errors
    /// Why there is no group.
    pub fn read(answer: &Wc) -> Result<u32, Denied> {
        let said = answer.imm.unwrap_or_default();
        if answer.status == WcStatus::Success {
            return Ok(said);
        }
        Err(Denied::ALL.get(said as usize).copied().unwrap_or(Denied::NoUnit))
    }
}

/// What an adapter has asked for.
#[derive(Default)]
pub(crate) struct GroupRequests(pub(crate) VecDeque<GroupRequest>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        let request = GroupRequest { job: 1, member: 0, members: 2, slots: 4, qp: QpNum(7), cq: CqId(0), wr_id: 9 };
        for said in std::iter::once(Ok(77)).chain(Denied::ALL.map(Err)) {
            assert_eq!(GroupRequest::read(&request.answer(said)), said);
        }
    }
}
