//! The OSU benchmarks of OpenSHMEM: `osu_oshm_put`, `osu_oshm_get`, …, `osu_oshm_atomics`, `osu_oshm_barrier` and its kin.
//!
//! Source: OMB 7.4, `c/openshmem`: loops, operands, options and output.
//! Modelled: the calls in their order, all sizes of a run in one job. Iterations default to fewer than the tools', because every one repeats
//! exactly here.
//! Not modelled: touching the buffers, the warm-up of the message rates with 4 MiB, which nothing depends on.

mod benchmark;
mod collective;
mod options;
mod pairs;
mod report;

use std::sync::Arc;

use fabriscope_catalog::{Interface, Mpi, Rdma, Shmem, SingleElement};
use fabriscope_mpi::shmem::{Heap, HeapError};
use fabriscope_platform::Target;
use fabriscope_tool::{Prepared, UsageError};
use fabriscope_units::Remedy;

pub use benchmark::{BENCHMARKS, Benchmark};
pub(crate) use options::OPTIONS;

use benchmark::Family;
use options::Settings;

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; a cluster without an OpenSHMEM library or without RDMA; a symmetric heap that is too small.
pub fn prepare(benchmark: &'static Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = Settings::parse(benchmark, args, target)?;
    let (shmem, mpi) = library(benchmark, target)?;
    let size = settings.symmetric_size.unwrap_or(shmem.heap.0);
    let mut heap = Heap::new(fabriscope_units::Bytes(size));
    let full = |error: HeapError| UsageError::Conflict {
        what: format!("{}: {}", benchmark.name, error.in_full()),
        remedy: "or use `global` buffers, which are not of the heap, where the tool has them".to_owned(),
    };
    for bytes in settings.allocations() {
        heap.allocate(bytes, PAGE).map_err(full)?;
    }
    match benchmark.family {
        Family::Collective(operation) => collective::prepare(operation, settings, (shmem, mpi), target),
        _ => Ok(pairs::prepare(Arc::new(settings), (shmem, mpi), target)),
    }
}

/// The libraries that the benchmark is linked with.
fn library<'t>(benchmark: &Benchmark, target: &'t Target) -> Result<(&'t Shmem, &'t Mpi), UsageError> {
    let tool = benchmark.name;
    let (Some(shmem), Some(mpi)) = (&target.shmem, &target.mpi) else {
        let what = format!("{tool} needs an OpenSHMEM library, and the cluster's software has none");
        return Err(UsageError::Conflict { what, remedy: "choose software with a [shmem] table".to_owned() });
    };
    let several = target.layout.nodes > 1;
    let rdma = matches!(target.interface, Interface::Verbs | Interface::Cxi | Interface::Iwarp | Interface::Efa | Interface::Portals);
    if several && (!rdma || target.rdma != Rdma::ReadWrite || mpi.psm2.is_some()) {
        let what = format!("{tool}: {} needs adapters that read and write the memory of their peers", shmem.library);
        return Err(UsageError::Conflict { what, remedy: "choose another cluster, or one node: --nodes 1".to_owned() });
    }
    if several && *shmem.atomics == SingleElement::Adapter && !target.interface.has_atomics() && benchmark.family == Family::Atomics {
        let what = format!("{tool}: the adapters have no atomics, and {} has no other way", shmem.library);
        return Err(UsageError::Conflict { what, remedy: "choose another cluster".to_owned() });
    }
    if !several && mpi.shared_memory.is_none() {
        let what = format!("{tool}: nothing is known of how {} goes within a node", shmem.library);
        return Err(UsageError::Conflict { what, remedy: "choose software with [mpi.shared_memory], or two nodes".to_owned() });
    }
    Ok((shmem, mpi))
}

/// Alignment of buffers in the heap (basis: the tools, the page of the system).
const PAGE: u64 = 4096;
