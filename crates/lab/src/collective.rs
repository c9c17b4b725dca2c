//! Collective operations as workloads of labs: rounds that ranks make on the way.

use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Demand, Folded, Folding, Job, Placement, RoundsWork, Run, Work};
use fabriscope_units::{Rate, Time};

use crate::engines::engine;
use crate::error::LabError;
use crate::memory::{Memory, rounded};
use crate::traffic::{connections, options, refused};
use crate::{Collective, EngineChoice, ResolvedLab};

/// A collective operation that is ready to run.
pub struct Prepared {
    /// The job.
    pub job: Job,
    /// What to know of it before it runs.
    pub notes: Vec<String>,
    call: Call,
    folding: Folding,
}

/// The workload of a lab as a job for its engine, where the memory allows it.
///
/// # Errors
/// A job that its engine does not model, or that takes more memory than there is.
pub fn prepare(lab: &ResolvedLab, work: &Collective, cluster: &Cluster, memory: Memory) -> Result<Prepared, LabError> {
    // A lab that was read has been checked.
    let (call, algorithm) = work.call(&cluster.parts).map_err(|problem| LabError::refused(problem.message, problem.help))?;
    let program = std::sync::Arc::new((call, algorithm.clone()));
    let folding = if work.fold { Folding::Auto } else { Folding::Never };
    let (rounds, placement) = (RoundsWork { program, folding }, Placement::PerNode(call.per_node));
    let connections = connections(lab, work.transport, work.any_order)?;
    let (engine, options) = (engine(lab.lab.engine), options(lab));
    let demand = Demand::Rounds { work: &rounds, placement: &placement, connections: &connections, options: &options };
    let need = engine.memory(cluster, &demand).map_err(refused)?;
    let job = Job { placement: placement.clone(), connections, work: Work::Rounds(rounds.clone()) };
    let (note, help) = match lab.lab.engine {
        EngineChoice::Flow => {
            (" if every rank runs", "use fewer ranks, an algorithm with fewer outstanding messages, or a machine with more memory")
        }
        EngineChoice::Packet | EngineChoice::TimeLine => {
            ("", "write engine = \"flow\" in the lab, which holds only outstanding messages; or use fewer ranks")
        }
    };
    memory.allow(need, help)?;
    let notes = vec![described(&call, &algorithm), LEFT_OUT.to_owned(), format!("memory: about {}{note}", rounded(need))];
    Ok(Prepared { job, notes, call, folding })
}

/// Messages go between ranks as the algorithm has them, at the costs of the verbs.
const LEFT_OUT: &str =
    "left out: what an MPI library and the cores do (matching, copies, handshakes, arithmetic of reductions); benchmarks of OSU have it";

impl Prepared {
    /// What to know of it after it ran; asked before, as the job is used up by the run.
    pub fn findings(&self) -> impl Fn(&Run) -> Vec<String> + use<> {
        let (call, folding) = (self.call, self.folding);
        move |run: &Run| {
            let Some(Folded { classes, followed }) = run.folded else { return Vec::new() };
            let (ranks, messages) = (call.ranks, run.stats.messages);
            let folded = match (classes, folding) {
                (Some(classes), _) => format!("folded: {classes} classes of {ranks} ranks, {followed} of {messages} messages followed"),
                (None, Folding::Never) => format!("not folded: each of {messages} messages followed"),
                (None, _) => format!("not folded: more than {} classes of {ranks} ranks; each of {messages} messages followed", ranks / 4),
            };
            std::iter::once(folded).chain(bandwidths(&call, run.end).map(told)).collect()
        }
    }
}

fn told((rate, bus): (f64, f64)) -> String {
    format!("algorithm bandwidth {rate:.3} GB/s, bus bandwidth {bus:.3} GB/s, as nccl-tests count them")
}

fn described(call: &Call, algorithm: &Algorithm) -> String {
    let Call { operation, ranks, per_node, size, .. } = call;
    let of = if *operation == Kind::Barrier { String::new() } else { format!(" of {size}") };
    format!("{operation}{of} by {algorithm}: {ranks} ranks, {per_node} on each of {} nodes", ranks.div_ceil(*per_node))
}

/// What nccl-tests call algorithm and bus bandwidth, in GB/s: data over time, and what of that each rank has to send at least.
#[must_use]
pub fn bandwidths(call: &Call, end: Time) -> Option<(f64, f64)> {
    let (n, size) = (u64::from(call.ranks), call.size);
    let (data, numerator) = match call.operation.family() {
        Kind::Allreduce => (size, 2 * (n - 1)),
        Kind::ReduceScatter if call.operation == Kind::ReduceScatter => (size, n - 1),
        Kind::Allgather | Kind::Alltoall | Kind::ReduceScatter => (size * n, n - 1),
        Kind::Bcast | Kind::Reduce => (size, n),
        _ => return None,
    };
    let rate = Rate::of(data, end - Time::ZERO).as_bps() as f64 / 8e9;
    let bus = rate * numerator as f64 / n as f64;
    Some((rate, bus))
}
