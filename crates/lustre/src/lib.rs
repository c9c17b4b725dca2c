//! Lustre without time passing: how a file lies on targets, who may write where, what an access costs drives, what a system consists of.
//!
//! Source: Lustre Operations Manual, release 2.x; P. Schwan, "Lustre: building a file system for 1000-node clusters" (OLS 2003).
//! Modelled: striping, composite layouts, extent locks that grow, RAID groups of disks and flash, costs of operations from a part.
//! Not modelled: recovery, failover, quotas, data on MDTs.

pub mod array;
pub mod layout;
pub mod locks;
pub mod system;

pub use array::{Access, Array};
pub use layout::{Layout, LayoutError, Piece};
pub use locks::{Extent, Locks, Revoked};
pub use system::{Clients, Costs, ServerGroup, System, SystemError};
