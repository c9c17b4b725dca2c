//! Why a group does not do what was asked.

use super::address::{Mgid, Mlid};
use super::group::JoinState;
use crate::graph::{EndpointId, SwitchId};

/// Why a request about a group was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum MulticastError {
    /// The address is not that of a group.
    #[error("{mgid} does not name a group")]
    #[diagnostic(help("use ff12::… on InfiniBand, 224.0.0.0 to 239.255.255.255 or ff…:: on RoCE"))]
    NotMulticast {
        /// The address.
        mgid: Mgid,
    },
    /// The group exists.
    #[error("group {mgid} exists already, as {mlid}")]
    #[diagnostic(help("join it, or delete it first"))]
    Exists {
        /// The group.
        mgid: Mgid,
        /// Its number.
        mlid: Mlid,
    },
    /// The group does not exist.
    #[error("there is no group {mgid}")]
    #[diagnostic(help("create it first"))]
    NoSuchGroup {
        /// The group.
        mgid: Mgid,
    },
    /// All numbers are taken.
    #[error("all {} multicast LIDs are taken", Mlid::COUNT)]
    #[diagnostic(help("delete a group"))]
    Full,
    /// The endpoint does not exist.
    #[error("there is no endpoint {endpoint}: the fabric has {endpoints}, counted from 0")]
    #[diagnostic(help("name one of them"))]
    NoSuchEndpoint {
        /// The endpoint named.
        endpoint: EndpointId,
        /// Endpoints there are.
        endpoints: u32,
    },
    /// The endpoint is a member in the same way.
    #[error("{endpoint} is {state} of group {mgid} already")]
    #[diagnostic(help("leave first, or join in another state"))]
    AlreadyJoined {
        /// The endpoint.
        endpoint: EndpointId,
        /// How it joined.
        state: JoinState,
        /// The group.
        mgid: Mgid,
    },
    /// The endpoint is not a member.
    #[error("{endpoint} is no member of group {mgid}")]
    #[diagnostic(help("join before leaving"))]
    NotJoined {
        /// The endpoint.
        endpoint: EndpointId,
        /// The group.
        mgid: Mgid,
    },
    /// A group lives by its full members.
    #[error("group {mgid} has no full member, and {endpoint} would be {state}")]
    #[diagnostic(help("let a full member join first"))]
    NoFullMember {
        /// The group.
        mgid: Mgid,
        /// Who asked.
        endpoint: EndpointId,
        /// In which state.
        state: JoinState,
    },
    /// No path leads there.
    #[error("no path leads from {root} to {endpoint}")]
    #[diagnostic(help("connect the two halves of the fabric, or make a group for each"))]
    Apart {
        /// The endpoint.
        endpoint: EndpointId,
        /// The root of the tree.
        root: SwitchId,
    },
}
