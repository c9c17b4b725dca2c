//! Applications as programs of computation and communication whose costs are stated: one application, one file.
//!
//! Source: each file names its own; `step.rs` says what a step can be, `plan.rs` what steps cost on a machine.
//! Modelled: what each rank computes and to whom it sends how much, iteration by iteration, in the packet engine or without packets.
//! Not modelled: set-up and output, numbers themselves: an iteration costs the same whatever they are.

mod amg;
mod bspmm;
mod castep;
mod cause;
mod grid;
mod gromacs;
mod hpcg;
mod lammps_reax;
mod opensbli;
mod options;
mod p3dfft;
mod plan;
mod quicksilver;
mod report;
mod run;
mod step;
mod vasp;

use std::sync::Arc;

use fabriscope_mpi::World;
use fabriscope_node::{Main, Record, Ties};
use fabriscope_platform::{Layout, Target};
use fabriscope_tool::Operation::Iteration;
use fabriscope_tool::arguments::{Opt, Parsed};
use fabriscope_tool::{PerNode, Placing, Prepared, Ranks, Rows, SizeOption, Suite, Traits, UsageError, mpi_for};

pub use cause::{ByCause, Cause};
pub use grid::{Grid, block, dims_create};
pub use plan::{Act, Plan, Start};
pub use report::{Spent, report};
pub use step::{Begun, Collective, DOUBLE, Exchange, Handed, Merit, OneSided, Phase, Product, Program, Ran, Step, Steps, Whole, Work};

use options::Common;

/// Declares the applications: a variant and its file.
macro_rules! apps {
    ($($variant:ident: $module:ident;)*) => {
        /// An application.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum App {
            $(#[doc = concat!("`", stringify!($module), "`.")] $variant,)*
        }

        impl App {
            /// Every one.
            pub const ALL: &[App] = &[$(App::$variant,)*];

            /// The name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(App::$variant => $module::NAME,)* }
            }
            /// One line of help.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(App::$variant => $module::ABOUT,)* }
            }
            /// Its options.
            #[must_use]
            pub fn options(self) -> &'static [Opt] {
                match self { $(App::$variant => $module::OPTIONS,)* }
            }
            fn program(self, parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
                match self { $(App::$variant => $module::program(parsed, layout),)* }
            }
        }
    };
}

apps! {
    OpenSbli: opensbli;
    Amg: amg;
    LammpsReax: lammps_reax;
    Vasp: vasp;
    Hpcg: hpcg;
    P3dFft: p3dfft;
    Quicksilver: quicksilver;
    Bspmm: bspmm;
    Gromacs: gromacs;
    Castep: castep;
}

impl App {
    /// What the program is.
    #[must_use]
    pub const fn traits(self) -> Traits {
        Traits { ranks: Ranks::Job(PerNode::Cores), sizes: SizeOption::Fixed, ..Traits::new(Suite::Single, Iteration) }
    }

    /// The application on a machine, as data.
    ///
    /// # Errors
    /// A wrong command line; a problem that does not go onto the ranks; a cluster without MPI or of whose memory nothing is known.
    pub fn plan(self, args: &[String], target: &Target) -> Result<Plan, UsageError> {
        let (common, parsed) = Common::read((self.name(), self.about()), self.options(), args)?;
        let program = self.program(&parsed, target.layout)?;
        Plan::new(self.name(), program, common, target)
    }

    /// Reads the command line and makes the programs.
    ///
    /// # Errors
    /// As [`App::plan`].
    pub fn prepare(self, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
        let plan = Arc::new(self.plan(args, target)?);
        let (ranks, per_node) = (target.layout.ranks(), target.layout.per_node);
        let world = World::of_hosts(mpi_for(self.name(), target)?, target, ranks);
        // Workers on DPUs are groups of the whole fabric.
        let ties = if plan.workers.is_some() { Ties::Any } else { world.ties() };
        let results = Record::new(Vec::new());
        let main = |_| -> Main {
            let (plan, world, results) = (plan.clone(), world.clone(), results.clone());
            Box::new(move |process| Box::pin(run::run(process, plan, world, results)))
        };
        let mains = (0..ranks).map(main).collect();
        let finish = move || {
            // In the order of ranks, whichever ended first.
            let mut spent: Vec<(u32, Spent)> = results.take();
            spent.sort_unstable_by_key(|(rank, _)| *rank);
            let spent: Vec<Spent> = spent.into_iter().map(|(_, spent)| spent).collect();
            report(&plan, &spent)
        };
        Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties, finish: Box::new(finish), rows: Rows::default() })
    }
}
