//! What may be wrong with a machine: each cause with the amounts that are tried, as changes of what is run.
//!
//! A cause changes numbers and settings that the simulator computes with, never a result. One file holds causes of one place of a
//! machine; [`ALL`] is the table. What no model has yet is not here: relaxed ordering of PCI Express, access control (ACS) beyond the
//! longer way that it forces, power states of links.

mod algorithm;
mod gpu;
mod host_bus;
mod library;
mod link;
mod network;
mod processor;
mod rails;

use fabriscope_catalog::{Catalog, Mpi, ResolvedCluster, ResolvedNode};
use fabriscope_lab::prediction::Setup;
use fabriscope_report::Refusal;
use fabriscope_tools::Suite;

pub use processor::slow_down;

/// Something that may be wrong.
pub struct Cause {
    /// Its name, by which tables and tests call it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What to look at or to set on the machine to be sure.
    pub check: &'static str,
    /// How often it is what is wrong, as others are. Basis: assumed.
    pub weight: f64,
    /// How much of it is tried on a machine; nothing where it cannot be there.
    pub amounts: fn(&Scene<'_>) -> Vec<Amount>,
}

/// A change of one run; a refusal says why there is none.
pub type Made = dyn Fn(&mut Setup) -> Result<(), Refusal> + Sync + Send;

/// One amount of a cause.
pub struct Amount {
    /// How much, in a few words.
    pub what: String,
    /// Makes it to one run.
    pub change: Box<Made>,
}

/// Where causes are looked for.
pub struct Scene<'a> {
    /// Where other parts come from.
    pub catalog: &'a Catalog,
    /// One run of the table, as it should be.
    pub setup: &'a Setup,
}

impl Scene<'_> {
    /// The cluster.
    #[must_use]
    pub fn parts(&self) -> &ResolvedCluster {
        &self.setup.parts
    }
    /// One of its nodes.
    #[must_use]
    pub fn node(&self) -> &ResolvedNode {
        &self.setup.parts.sole().node
    }
    /// The MPI library, where the tool runs over one.
    #[must_use]
    pub fn mpi(&self) -> Option<&Mpi> {
        matches!(self.suite(), Suite::Omb | Suite::Imb).then_some(self.setup.parts.sole().software.mpi.as_ref()).flatten()
    }
    /// Where the tool comes from.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.setup.tool.traits().suite
    }
    /// Whether the tool is one of NCCL.
    #[must_use]
    pub fn is_nccl(&self) -> bool {
        matches!(self.suite(), Suite::NcclTests | Suite::OmbXccl)
    }
    /// Whether anything leaves a node.
    #[must_use]
    pub fn uses_network(&self) -> bool {
        self.setup.layout.nodes > 1 && self.suite() != Suite::Gpu
    }
    /// Whether data are in the memory of GPUs.
    #[must_use]
    pub fn in_gpus(&self) -> bool {
        let place =
            |option: &String| matches!(option.as_str(), "D" | "MD") || option.starts_with("--use_cuda") || option.starts_with("--use_rocm");
        self.node().gpus > 0 && (self.is_nccl() || self.suite() == Suite::Gpu || self.setup.options.iter().any(place))
    }
}

impl Amount {
    /// A change that can always be made.
    fn new(what: impl Into<String>, change: impl Fn(&mut Setup) + Sync + Send + 'static) -> Amount {
        Amount::may(what, move |setup| {
            change(setup);
            Ok(())
        })
    }
    /// A change that is not for every run.
    fn may(what: impl Into<String>, change: impl Fn(&mut Setup) -> Result<(), Refusal> + Sync + Send + 'static) -> Amount {
        Amount { what: what.into(), change: Box::new(change) }
    }
}

/// Why a change is not for a run.
fn not_here(why: impl ToString) -> Refusal {
    Refusal::Skip(why.to_string())
}

/// Every cause, those of the node first.
pub const ALL: &[Cause] = &[
    gpu::GPUDIRECT,
    gpu::MAPPING,
    gpu::FAR,
    host_bus::WIDTH,
    host_bus::GENERATION,
    host_bus::TRANSLATION,
    host_bus::SOCKET,
    processor::FREQUENCY,
    processor::INTERRUPTIONS,
    processor::DOORBELLS,
    library::TRANSPORT,
    library::THRESHOLD,
    library::OUTSTANDING,
    library::REGISTRATION,
    library::SINGLE_COPY,
    algorithm::MPI,
    algorithm::NCCL,
    algorithm::PROTOCOL,
    algorithm::CHANNELS,
    link::MTU,
    link::SPEED,
    rails::MISSING,
    network::UPLINKS,
    network::DISTANCE,
    network::ROUTING,
    network::CONGESTION,
    network::PAUSE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_everything_is_said() {
        for (place, cause) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != cause.name), "{}", cause.name);
            assert!(!cause.title.is_empty() && !cause.check.is_empty() && cause.weight > 0.0);
        }
    }
}
