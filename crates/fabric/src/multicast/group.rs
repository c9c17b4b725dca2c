//! One group: who belongs to it, and the tree that serves them.
//!
//! Source: InfiniBand vol. 1 §15.2.5.17 (MCMemberRecord: join states, what members must agree on), §10.5.2.1.

use std::collections::BTreeMap;
use std::fmt;

use fabriscope_units::Bytes;

use super::address::{Mgid, Mlid};
use super::tree::Tree;
use crate::graph::EndpointId;

/// How an endpoint belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JoinState {
    /// Sends and receives, and keeps the group alive.
    Full = 1,
    /// Sends and receives while full members are there.
    NonMember = 2,
    /// Sends while full members are there.
    SendOnly = 4,
    /// Sends only, and keeps the group alive.
    SendOnlyFull = 8,
}

impl JoinState {
    /// Whether packets of the group come to it.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, JoinState::Full | JoinState::NonMember)
    }
    /// Whether the group lives as long as it is there.
    #[must_use]
    pub const fn keeps_alive(self) -> bool {
        matches!(self, JoinState::Full | JoinState::SendOnlyFull)
    }
}

impl fmt::Display for JoinState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinState::Full => "a full member",
            JoinState::NonMember => "a non-member",
            JoinState::SendOnly => "a sender only",
            JoinState::SendOnlyFull => "a full member that only sends",
        })
    }
}

/// What all members of a group agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAttr {
    /// The key that receiving queue pairs must have.
    pub qkey: u32,
    /// The partition.
    pub pkey: u16,
    /// The largest payload of a packet.
    pub mtu: Bytes,
    /// Service level of its packets [0..15].
    pub sl: u8,
}

impl Default for GroupAttr {
    /// The default partition, packets of 2 KiB, which every port takes, and the key that perftest uses.
    fn default() -> GroupAttr {
        GroupAttr { qkey: 0x1111_1111, pkey: 0xFFFF, mtu: Bytes(2048), sl: 0 }
    }
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) mgid: Mgid,
    pub(super) mlid: Mlid,
    pub(super) attr: GroupAttr,
    pub(super) members: BTreeMap<EndpointId, JoinState>,
    pub(super) tree: Option<Tree>,
}

impl Group {
    /// Its name.
    #[must_use]
    pub fn mgid(&self) -> Mgid {
        self.mgid
    }
    /// Its number.
    #[must_use]
    pub fn mlid(&self) -> Mlid {
        self.mlid
    }
    /// What its members agree on.
    #[must_use]
    pub fn attr(&self) -> &GroupAttr {
        &self.attr
    }
    /// Its members in order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (EndpointId, JoinState)> + '_ {
        self.members.iter().map(|(&endpoint, &state)| (endpoint, state))
    }
    /// Members to which packets come, in order.
    pub fn receivers(&self) -> impl Iterator<Item = EndpointId> + '_ {
        self.members().filter(|(_, state)| state.receives()).map(|(endpoint, _)| endpoint)
    }
    /// How `endpoint` belongs to it.
    #[must_use]
    pub fn state(&self, endpoint: EndpointId) -> Option<JoinState> {
        self.members.get(&endpoint).copied()
    }
    /// Its tree; none before the first join, and none where there are no switches.
    #[must_use]
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }
}
