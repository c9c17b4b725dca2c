//! Routing on fabrics of groups: dragonfly and dragonfly+.
//!
//! [`layout`] computes links and lanes, [`walk`] is the way to another group and to the destination that all share,
//! and each algorithm has a file. The equations and the order of the lanes are told in `docs/models/dragonfly.md`.

mod detour;
mod layout;
mod walk;

use super::family::family;
use crate::topology::Groups;

family! {
    /// A routing of fabrics of groups on one of them.
    pub(super) enum Router of Groups {
        adaptive: Adaptive => adaptive::Adaptive, Flowlet => adaptive::Adaptive;
        ecmp: Ecmp => minimal::Minimal<ecmp::ByFlow>;
        minimal: Minimal => minimal::Minimal<minimal::ByDestination>;
        spray: Spray => minimal::Minimal<spray::ByPacket>;
        ugal: UgalL => ugal::Ugal<false>, UgalG => ugal::Ugal<true>;
        valiant: Valiant => valiant::Valiant;
    }
}
