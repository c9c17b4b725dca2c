//! Fabrics for other tools: writers, one format one file.
//!
//! All of them write a [`Subnet`]: an imported one as it was, or that of any [`Fabric`](crate::Fabric), whose devices get
//! names, GUIDs and LIDs ([`subnet`]).

mod dot;
mod graphml;
mod hostlist;
mod ibnetdiscover;
mod lfts;
mod names;
mod slurm;
mod subnet;

pub use dot::{dot, dot_with_loads};
pub use graphml::{graphml, graphml_with_loads};
pub use hostlist::fold;
pub use ibnetdiscover::{Dialect, ibnetdiscover, ibnetdiscover_notes};
pub use lfts::{lfts, service_levels};
pub use slurm::{slurm_conf, slurm_notes, slurm_yaml};
pub use subnet::subnet;

#[cfg(doc)]
use crate::import::Subnet;
