//! Collective operations as workloads of labs: the same rounds as flows made on the way, or as a schedule of packets.

use std::time::Instant;

use crate::{Collective, EngineChoice, ResolvedLab};
use fabriscope_collectives::{Algorithm, Call, Kind, Rounds, schedule};
use fabriscope_engine::{Cluster, EngineError, Run};
use fabriscope_engine_flow::{FlowEngine, Folding, JobRun, RoundsJob};
use fabriscope_schedule::Schedule;
use fabriscope_units::{Rate, Time};

use crate::error::LabError;
use crate::memory::{Memory, of_schedule, rounded};

/// A run of the flow engine, what to know of it, and its real time in seconds.
pub struct Carried {
    /// What happened.
    pub run: Run,
    /// What to know of it.
    pub notes: Vec<String>,
    /// Real time in seconds.
    pub wall_s: f64,
}

fn called(work: &Collective, cluster: &Cluster) -> Result<(Call, Algorithm), LabError> {
    // A lab that was read has been checked.
    work.call(&cluster.parts).map_err(|problem| LabError::refused(problem.message, problem.help))
}

fn refused(error: EngineError) -> LabError {
    let text = error.to_string();
    let (message, help) = text.split_once("; ").unwrap_or((&text, "see the workload and the cluster of the lab"));
    LabError::refused(message, help)
}

/// Runs the workload of a lab in the flow engine.
pub fn flow(lab: &ResolvedLab, work: &Collective, cluster: &Cluster, memory: Memory) -> Result<Carried, LabError> {
    crate::traffic::transfers(lab, work.transport, work.any_order)?;
    let (call, algorithm) = called(work, cluster)?;
    let rounds = |rank: u32| -> Rounds { algorithm.rounds(&call, rank) };
    let folding = if work.fold { Folding::Auto } else { Folding::Never };
    let job = RoundsJob { ranks: call.ranks, per_node: call.per_node, rounds: &rounds, folding };
    let need = FlowEngine::memory(cluster, &job).map_err(refused)?;
    memory.allow(need, "use fewer ranks, an algorithm with fewer messages under way at a time, or a machine with more memory")?;
    let started = Instant::now();
    let JobRun { run, classes, followed } = FlowEngine::rounds(cluster, &job).map_err(refused)?;
    let wall_s = started.elapsed().as_secs_f64();
    let mut notes = vec![described(&call, &algorithm), format!("memory: about {} if every rank runs", rounded(need))];
    let (ranks, messages) = (call.ranks, run.stats.messages);
    notes.push(match classes {
        Some(classes) => format!("folded: {classes} classes of {ranks} ranks, {followed} of {messages} messages followed"),
        None if work.fold => format!("not folded: more than {} classes of {ranks} ranks; each of {messages} messages followed", ranks / 4),
        None => format!("not folded: each of {messages} messages followed"),
    });
    notes.extend(bandwidth(&call, run.end));
    Ok(Carried { run, notes, wall_s })
}

/// The messages of the workload for the packet engine, and what to know of them.
pub fn packets(work: &Collective, cluster: &Cluster, memory: Memory) -> Result<(Schedule, Vec<String>), LabError> {
    let (call, algorithm) = called(work, cluster)?;
    let (messages, pairs) = counted(&call, &algorithm);
    let need = of_schedule(EngineChoice::Packet, cluster.ranks().into(), messages, pairs);
    memory.allow(need, "write engine = \"flow\" in the lab, which holds only messages under way; or use fewer ranks")?;
    let schedule = schedule(call.ranks, |rank| algorithm.rounds(&call, rank)).map_err(|error| {
        let help = "write engine = \"flow\" in the lab, which makes messages when they are sent";
        LabError::refused(error.to_string(), help)
    })?;
    Ok((schedule, vec![described(&call, &algorithm), format!("memory: about {}", rounded(need))]))
}

fn described(call: &Call, algorithm: &Algorithm) -> String {
    let Call { operation, ranks, per_node, size, .. } = call;
    let of = if *operation == Kind::Barrier { String::new() } else { format!(" of {size}") };
    format!("{operation}{of} by {algorithm}: {ranks} ranks, {per_node} on each of {} nodes", ranks.div_ceil(*per_node))
}

/// How many messages there are, and how many pairs of ranks exchange some: as for a few ranks.
fn counted(call: &Call, algorithm: &Algorithm) -> (u64, u64) {
    let sample = [0, call.ranks / 3, call.ranks - 1];
    let of = |rank: u32| {
        let mut peers = std::collections::BTreeSet::new();
        let mut messages = 0u64;
        for round in algorithm.rounds(call, rank) {
            messages += round.sends.len() as u64;
            peers.extend(round.sends.iter().map(|send| send.peer));
        }
        (messages, peers.len() as u64)
    };
    let (messages, peers) = sample.into_iter().map(of).fold((0, 0), |most: (u64, u64), this| (most.0.max(this.0), most.1.max(this.1)));
    (messages * u64::from(call.ranks), peers * u64::from(call.ranks))
}

/// What nccl-tests call algorithm and bus bandwidth: data over time, and what of that each rank has to send at least.
fn bandwidth(call: &Call, end: Time) -> Option<String> {
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
    Some(format!("algorithm bandwidth {rate:.3} GB/s, bus bandwidth {bus:.3} GB/s, as nccl-tests count them"))
}
