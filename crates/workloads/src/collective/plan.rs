//! What a collective benchmark does: operation, sizes, loops; and the algorithm that the library takes for each size.

use fabriscope_catalog::{Mpi, Occasion};
use fabriscope_collectives::alltoall::Rules;
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_units::{Bytes, Span};

use crate::error::UsageError;
use crate::target::Target;

/// How the program calls the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// It waits inside the call.
    Blocking,
    /// It computes between the call and the wait.
    NonBlocking {
        /// How often it asks in between whether the operation is done.
        tests: u32,
    },
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub operation: Kind,
    pub form: Form,
    /// Bytes of a buffer, or of a block, in order.
    pub sizes: Vec<u32>,
    /// Bytes of an element: a reduction does not split it.
    pub width: u32,
    /// The root of a rooted operation.
    pub root: u32,
    /// Given by the user.
    pub iterations: Option<u32>,
    pub warm_up: Option<u32>,
    /// Name of an algorithm instead of the library's choice.
    pub algorithm: Option<String>,
    /// Ranks wait for each other after every iteration, out of band.
    pub separate: bool,
}

impl Plan {
    /// A plan for `operation` with the defaults of `sizes`.
    pub fn new(operation: Kind, sizes: Vec<u32>, separate: bool) -> Plan {
        let (iterations, warm_up, algorithm) = (None, None, None);
        Plan { operation, form: Form::Blocking, sizes, width: 1, root: 0, iterations, warm_up, algorithm, separate }
    }
    pub fn iterations(&self, size: u32) -> u32 {
        self.iterations.unwrap_or(if size > LARGE { 1 } else { ITERATIONS })
    }
    pub fn warm_up(&self, size: u32) -> u32 {
        self.warm_up.unwrap_or(u32::from(size <= LARGE))
    }
    /// The call of a size.
    pub fn call(&self, size: u32, target: &Target) -> Call {
        let layout = target.layout;
        Call {
            operation: self.operation,
            ranks: layout.ranks(),
            per_node: layout.per_node,
            root: self.root,
            size: Bytes(size.into()),
            width: Bytes(self.width.into()),
        }
    }

    /// Looks at what only the machine can tell.
    pub fn check(&self, target: &Target) -> Result<(), UsageError> {
        let ranks = target.layout.ranks();
        if self.root >= ranks {
            let what = format!("root {} is not among the {ranks} ranks of the job, which are numbered from 0", self.root);
            return Err(UsageError::Conflict { what, remedy: format!("use a root up to {}", ranks.saturating_sub(1)) });
        }
        if let Some(size) = self.sizes.iter().find(|size| self.operation.reduces() && **size % self.width != 0) {
            let what = format!("{size} bytes are no whole number of elements of {} bytes", self.width);
            return Err(UsageError::Conflict { what, remedy: format!("use sizes that {} divides, or another -T", self.width) });
        }
        Ok(())
    }

    /// The algorithm for `size`: what was asked for, else what the library takes.
    pub fn choose(&self, tool: &str, size: u32, mpi: &Mpi, target: &Target) -> Result<Algorithm, UsageError> {
        if let Some(name) = &self.algorithm {
            return named(self.operation, name, mpi);
        }
        let occasion = Occasion { ranks: target.layout.ranks(), per_node: target.layout.per_node, size: Bytes(size.into()) };
        let family = self.operation.family();
        let rules = [self.operation, family].iter().find_map(|kind| mpi.collectives.get(kind.word()));
        if let Some(name) = rules.and_then(|rules| fabriscope_catalog::select_collective(rules, occasion)) {
            return named(self.operation, name, mpi);
        }
        match alltoall_rules(mpi).filter(|_| family == Kind::Alltoall) {
            Some(rules) => Ok(Algorithm::Alltoall(rules.select(occasion.ranks, occasion.size))),
            None => Err(UsageError::Conflict {
                what: format!("{tool} needs to know how the library does {}, and the cluster's software does not say", self.operation),
                remedy: format!("name one: --algorithm {}", Algorithm::known(self.operation)),
            }),
        }
    }
}

/// The algorithm of this name, with the library's own ways.
fn named(operation: Kind, name: &str, mpi: &Mpi) -> Result<Algorithm, UsageError> {
    if operation.family() == Kind::Alltoall
        && let Some(algorithm) = alltoall_rules(mpi).and_then(|rules| rules.named(name))
    {
        return Ok(Algorithm::Alltoall(algorithm));
    }
    Algorithm::named(operation, name).map_err(|unknown| UsageError::Conflict { what: unknown.to_string(), remedy: unknown.remedy() })
}

fn alltoall_rules(mpi: &Mpi) -> Option<Rules> {
    mpi.alltoall.as_ref().map(|part| Rules {
        bruck_limit: *part.bruck_limit,
        bruck_ranks: *part.bruck_ranks,
        posted_limit: *part.posted_limit,
        at_a_time: *part.at_a_time,
        exclusive_or: part.exclusive_or,
    })
}

/// Core time per block that is packed or moved, beside its bytes.
pub(super) fn block_overhead(mpi: &Mpi) -> Span {
    mpi.alltoall.as_ref().map_or(Span::ZERO, |part| *part.block_overhead)
}

/// Iterations of sizes up to [`LARGE`]. Basis: assumed; they hardly differ.
const ITERATIONS: u32 = 3;
/// Above, in bytes, one iteration without warm-up is simulated. Basis: assumed; what is cold costs little there.
const LARGE: u32 = 8192;
