//! Multicast: groups of endpoints, and the trees along which switches copy packets to them.
//!
//! ```text
//!  create(MGID) -> MLID 0xC000 …        join, leave                       packet for MLID by link i
//!        │                                 │                                       │
//!     Groups ── Group { members } ── Tree::span ── outputs(switch) = ports ── a copy to each port but i's
//! ```
//!
//! * [`Groups`] is the table of a subnet: it numbers groups, admits members and lets them go ([`MulticastError`]).
//! * [`Tree`] is a tree of shortest paths from one switch. A join grafts a path onto it, the leave of a switch's last
//!   member prunes it; what other members use stays where it is.
//! * [`Snooping`] is the tree of Ethernet: the spanning tree of the whole fabric, from which switches prune what nobody reports.
//! * [`conforms`] follows packets from every sender and demands each receiver exactly once, nobody else, no cycle.
//! * [`cycle`] looks for packets of different trees that wait for each other.
//!
//! Source: InfiniBand Architecture Specification vol. 1, release 1.4, §4.1.1 (addresses), §10.5 (multicast), §15.2.5.17
//! (MCMemberRecord); OpenSM `osm_mcast_mgr.c` (behaviour).
//! Modelled: full members, non-members, senders only; one MLID per group; MTU, Q_Key and P_Key of a group.
//! Not modelled: groups that share an MLID, several partitions of one MGID, routing between subnets.

mod address;
mod conforms;
mod deadlock;
mod error;
mod group;
mod groups;
mod snooping;
mod tree;

pub use address::{Mgid, Mlid};
pub use conforms::{Defect, Delivered, conforms};
pub use deadlock::cycle;
pub use error::MulticastError;
pub use group::{Group, GroupAttr, JoinState};
pub use groups::Groups;
pub use snooping::Snooping;
pub use tree::Tree;
