//! `--energy`: what a run drew.

use fabriscope_engine::{Cluster, Run, Watch};
use fabriscope_lab::energy::{JobEnergy, NetworkPower};
use fabriscope_report::Outcome;

use crate::context::Context;
use crate::error::Failure;

/// Whether the energy of a run is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct EnergyArgs {
    /// Add the energy of the run: what switches, adapters and cables drew, and for what
    #[arg(long)]
    energy: bool,
}

impl EnergyArgs {
    /// Whether the loads of links are noted.
    pub fn watch(&self) -> Watch {
        if self.energy { Watch::On } else { Watch::Off }
    }
    /// These, or the others where they ask for more.
    pub fn or(&self, other: &EnergyArgs) -> EnergyArgs {
        EnergyArgs { energy: self.energy || other.energy }
    }
    /// Adds the energy to an outcome, where it is asked for.
    pub fn tell(&self, context: &Context, (cluster, run): (&Cluster, &Run), outcome: &mut Outcome) -> Result<(), Failure> {
        if self.energy {
            let network = NetworkPower::of(context.catalog()?, &cluster.parts, &cluster.fabric);
            JobEnergy::of(network, &cluster.fabric.graph, run).tell(outcome);
        }
        Ok(())
    }
}
