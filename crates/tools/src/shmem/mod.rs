//! The OSU benchmarks of OpenSHMEM: `osu_oshm_put`, `osu_oshm_get`, …, `osu_oshm_atomics`, `osu_oshm_barrier` and its kin.
//!
//! Source: OMB 7.4, `c/openshmem`: loops, operands, options and output.
//! Modelled: the calls in their order, all sizes of a run in one job. Iterations default to fewer than the tools', because every one repeats
//! exactly here.
//! Not modelled: touching the buffers, the warm-up of the message rates with 4 MiB, which nothing depends on.

mod collective;
mod options;
mod pairs;
mod report;

use std::rc::Rc;

use fabriscope_catalog::{Interface, Mpi, Rdma, Shmem, SingleElement};
use fabriscope_mpi::shmem::{Heap, HeapError, Operation};
use fabriscope_platform::Target;
use fabriscope_tool::{Prepared, UsageError};

use options::Settings;

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `osu_oshm_put`.
    Put,
    /// `osu_oshm_put_nb`.
    PutNb,
    /// `osu_oshm_get`.
    Get,
    /// `osu_oshm_get_nb`.
    GetNb,
    /// `osu_oshm_put_mr`.
    PutRate,
    /// `osu_oshm_put_mr_nb`.
    PutNbRate,
    /// `osu_oshm_get_mr_nb`.
    GetNbRate,
    /// `osu_oshm_put_overlap`.
    Overlap,
    /// `osu_oshm_atomics`.
    Atomics,
    /// `osu_oshm_` and the operation.
    Collective(Operation),
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 14] = [
    Benchmark::Put,
    Benchmark::PutNb,
    Benchmark::PutRate,
    Benchmark::PutNbRate,
    Benchmark::Overlap,
    Benchmark::Get,
    Benchmark::GetNb,
    Benchmark::GetNbRate,
    Benchmark::Atomics,
    Benchmark::Collective(Operation::Barrier),
    Benchmark::Collective(Operation::Broadcast),
    Benchmark::Collective(Operation::Collect),
    Benchmark::Collective(Operation::FCollect),
    Benchmark::Collective(Operation::Reduce),
];

/// What a benchmark is, by the benchmarks that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// One operation at a time.
    Latency,
    /// Many, between pairs.
    Rate,
    /// Beside computation.
    Overlap,
    /// Sixteen operations on elements.
    Atomics,
    /// All PEs.
    Collective(Operation),
}

impl Benchmark {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Put => "osu_oshm_put",
            Benchmark::PutNb => "osu_oshm_put_nb",
            Benchmark::Get => "osu_oshm_get",
            Benchmark::GetNb => "osu_oshm_get_nb",
            Benchmark::PutRate => "osu_oshm_put_mr",
            Benchmark::PutNbRate => "osu_oshm_put_mr_nb",
            Benchmark::GetNbRate => "osu_oshm_get_mr_nb",
            Benchmark::Overlap => "osu_oshm_put_overlap",
            Benchmark::Atomics => "osu_oshm_atomics",
            Benchmark::Collective(Operation::Barrier) => "osu_oshm_barrier",
            Benchmark::Collective(Operation::Broadcast) => "osu_oshm_broadcast",
            Benchmark::Collective(Operation::Collect) => "osu_oshm_collect",
            Benchmark::Collective(Operation::FCollect) => "osu_oshm_fcollect",
            Benchmark::Collective(Operation::Reduce) => "osu_oshm_reduce",
            Benchmark::Collective(Operation::AllToAll) => "osu_oshm_alltoall",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::Put => "an OpenSHMEM put and quiet (OSU Micro-Benchmarks)",
            Benchmark::PutNb => "the same with the non-blocking put",
            Benchmark::Get => "an OpenSHMEM get (OSU Micro-Benchmarks)",
            Benchmark::GetNb => "the same with the non-blocking get, and quiet",
            Benchmark::PutRate => "message rate of OpenSHMEM puts between pairs of PEs (OSU Micro-Benchmarks)",
            Benchmark::PutNbRate => "the same with non-blocking puts",
            Benchmark::GetNbRate => "the same with non-blocking gets",
            Benchmark::Overlap => "how much of an OpenSHMEM put computation hides (OSU Micro-Benchmarks)",
            Benchmark::Atomics => "rate and latency of OpenSHMEM atomics on 4 and 8 bytes (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::Barrier) => "shmem_barrier_all among the PEs of several nodes (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::Broadcast) => "shmem_broadcast32 (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::Collect) => "shmem_collect32 (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::FCollect) => "shmem_fcollect32 (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::Reduce) => "shmem_float_sum_to_all (OSU Micro-Benchmarks)",
            Benchmark::Collective(Operation::AllToAll) => "shmem_alltoall32 (OSU Micro-Benchmarks)",
        }
    }
    pub(super) fn family(self) -> Family {
        match self {
            Benchmark::Put | Benchmark::PutNb | Benchmark::Get | Benchmark::GetNb => Family::Latency,
            Benchmark::PutRate | Benchmark::PutNbRate | Benchmark::GetNbRate => Family::Rate,
            Benchmark::Overlap => Family::Overlap,
            Benchmark::Atomics => Family::Atomics,
            Benchmark::Collective(operation) => Family::Collective(operation),
        }
    }
    /// Whether all PEs of a job of any shape take part.
    #[must_use]
    pub fn is_collective(self) -> bool {
        matches!(self, Benchmark::Collective(_))
    }
}

/// Reads the command line of `benchmark` and makes its programs.
///
/// # Errors
/// A wrong command line; a cluster without an OpenSHMEM library or without RDMA; a symmetric heap that is too small.
pub fn prepare(benchmark: Benchmark, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = Settings::parse(benchmark, args, target)?;
    let (shmem, mpi) = library(benchmark.name(), target)?;
    let size = settings.symmetric_size.unwrap_or(shmem.heap.0);
    let mut heap = Heap::new(fabriscope_units::Bytes(size));
    let full = |error: HeapError| UsageError::Conflict {
        what: format!("{}: {error}", benchmark.name()),
        remedy: "or use `global` buffers, which are not of the heap, where the tool has them".to_owned(),
    };
    for bytes in settings.allocations() {
        heap.allocate(bytes, PAGE).map_err(full)?;
    }
    match benchmark.family() {
        Family::Collective(operation) => collective::prepare(operation, settings, (shmem, mpi), target),
        _ => Ok(pairs::prepare(Rc::new(settings), (shmem, mpi), target)),
    }
}

/// The libraries that the benchmark is linked with.
fn library<'t>(tool: &str, target: &'t Target) -> Result<(&'t Shmem, &'t Mpi), UsageError> {
    let (Some(shmem), Some(mpi)) = (&target.shmem, &target.mpi) else {
        let what = format!("{tool} needs an OpenSHMEM library, and the cluster's software has none");
        return Err(UsageError::Conflict { what, remedy: "choose software with a [shmem] table".to_owned() });
    };
    let several = target.layout.nodes > 1;
    let rdma = matches!(target.interface, Interface::Verbs | Interface::Cxi | Interface::Iwarp | Interface::Efa);
    if several && (!rdma || target.rdma != Rdma::ReadWrite || mpi.psm2.is_some()) {
        let what = format!("{tool}: {} needs adapters that read and write the memory of their peers", shmem.library);
        return Err(UsageError::Conflict { what, remedy: "choose another cluster, or one node: --nodes 1".to_owned() });
    }
    let atomics = matches!(target.interface, Interface::Verbs | Interface::Cxi);
    if several && *shmem.atomics == SingleElement::Adapter && !atomics && tool == Benchmark::Atomics.name() {
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
