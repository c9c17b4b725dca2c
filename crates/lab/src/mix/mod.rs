//! Unequal jobs on one fabric: training beside storage, inference and collective operations; each alone, all together, by placement.
//!
//! Modelled: all messages between nodes of all jobs, by the engine of the lab; nodes dealt side by side, in turn or by lottery.
//! Not modelled: jobs that begin at other times, what they do behind what is measured.

mod served;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fabriscope_catalog::{Catalog, Problem, ResolvedCluster};
use fabriscope_engine::{Cluster, Service};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::operations::{Action, KERNELS, Task, Use};
use fabriscope_training::{Group, Layout, Operation};
use fabriscope_training_plan::Seats;
use fabriscope_units::Remedy;

use crate::ResolvedLab;
use crate::error::LabError;
use crate::sweep::{Runs, head};
use crate::traffic::connections;
use crate::training::job::{gpus_of_node, stages};
use crate::training::of_lab::of_keys;
use crate::training::shown::ms;
use crate::training::tenant::{Planned, Shared, Tenant, Writes, nodes_of_jobs, shared, slowest};
use crate::training::times::ClusterTimes;
use crate::training::whole::at_adapters;
use crate::training::{TrainingRequest, of_lab};
use crate::workload::mix::{GpuCollective, GpuOperation, JobKind, Mix, MixedJob, Placement, Storage};
use served::{Experts, KeysAndValues, Seated};

/// What is the same in all placements.
struct Fixed<'l, 'c> {
    lab: &'l ResolvedLab,
    work: &'l Mix,
    per_node: u32,
    nics: u32,
    seed: u64,
    /// What each job does, and the adapter of each GPU of its nodes.
    done: Vec<(Done<'l, 'c>, Vec<u32>)>,
}

/// What a job does, on whatever nodes.
enum Done<'l, 'c> {
    /// Operations of its GPUs that NCCL plans.
    Planned {
        layout: Layout,
        stages: Rc<Vec<Vec<Task>>>,
        times: Box<RefCell<ClusterTimes<'c>>>,
    },
    KeysAndValues(KeysAndValues),
    Experts(Experts),
    /// What others move.
    Storage(&'l Storage),
}

/// Whether the jobs can be on the cluster.
pub(crate) fn check(catalog: &Catalog, parts: &ResolvedCluster, work: &Mix) -> Result<(), Problem> {
    if parts.uniform().is_none() {
        return Err(Problem::at(&["cluster"], "a mix of jobs on unlike nodes", "name one group of nodes: CLUSTER:GROUP"));
    }
    let per_node = gpus_of_node(parts);
    let taken = work.jobs.iter().map(|job| u64::from(job.nodes(per_node))).sum::<u64>();
    if per_node == 0 {
        return Err(Problem::at(
            &["cluster"],
            format!("the nodes of `{}` have no GPUs", parts.name),
            "take a cluster with GPUs: fabriscope clusters",
        ));
    }
    if taken > u64::from(parts.nodes()) {
        let message = format!("{taken} nodes for the jobs, and `{}` has {}", parts.name, parts.nodes());
        return Err(Problem::at(&["workload", "mix", "jobs"], message, "take more nodes, CLUSTER:NODES, or fewer jobs"));
    }
    for (number, job) in work.jobs.iter().enumerate() {
        let place = number.to_string();
        let at = ["workload", "mix", "jobs", &place, "kind"];
        let refused = |error: LabError| {
            let (message, help) = of_keys(error).halves("see the jobs of the lab");
            Problem::at(&at, format!("`{}`: {message}", job.name), help)
        };
        match &job.kind {
            JobKind::Training(work) => of_lab::fits(catalog, parts, work).map_err(refused)?,
            JobKind::Inference(work) => drop(TrainingRequest::new(&work.model).job(catalog, parts).map_err(refused)?),
            JobKind::Experts(work) => drop(TrainingRequest::new(&work.model).job(catalog, parts).map_err(refused)?),
            JobKind::Storage(_) | JobKind::Collective(_) => {}
        }
    }
    Ok(())
}

/// Runs the jobs each alone and all together, in each placement.
///
/// # Errors
/// What a job cannot do on the cluster, what the engine refuses.
pub fn run(catalog: &Catalog, lab: &ResolvedLab, work: &Mix, seed: u64) -> Result<Outcome, LabError> {
    let cluster =
        Cluster::new(lab.cluster.clone()).map_err(|error| LabError::refused(error.in_full(), "correct the topology of the cluster"))?;
    let cluster = at_adapters(&cluster);
    let group = lab.cluster.sole();
    let (per_node, nics) = (gpus_of_node(&lab.cluster), group.node.nics);
    let done = work.jobs.iter().map(|job| done(catalog, lab, job, (per_node, seed))).collect::<Result<_, _>>()?;
    let fixed = Fixed { lab, work, per_node, nics, seed, done };
    let runs = Runs::of(lab, &cluster, connections(lab, Service::Rc, work.any_order)?);
    let mut outcome = head(lab, &format!("{} jobs, seed {seed}", work.jobs.len()));
    let mut grid = Grid::new(columns());
    let mut most = 0.0_f64;
    for placement in &work.placements {
        let nodes = fixed.nodes(*placement);
        let tenants = fixed.tenants(&nodes);
        let all: Vec<&dyn Tenant> = tenants.iter().map(AsRef::as_ref).collect();
        let found = shared(cluster.ranks(), &all, |schedule| {
            runs.run(Arc::clone(schedule), seed)
                .map_err(|message| LabError::refused(message, "see the workload and the cluster of the lab"))
        })?;
        most = most.max(slowest(&found));
        for ((job, nodes), found) in work.jobs.iter().zip(&nodes).zip(&found) {
            grid.push(row(*placement, job, nodes.len(), found));
        }
    }
    outcome.set("seed", seed).keyed_table("jobs", grid).set("slowest_percent", most);
    outcome.note(format!(
        "all begin at once, by {}s; of several requests or iterations the mean, and the longest together in the last column",
        runs.engine.name()
    ));
    Ok(outcome)
}

fn columns() -> [Column; 9] {
    [
        Column::words("placement", "placement"),
        Column::words("job", "job"),
        Column::words("kind", "kind"),
        Column::number("nodes", "nodes"),
        Column::words("what", "what"),
        Column::number("alone ms", "alone_ms"),
        Column::number("together ms", "together_ms"),
        Column::number("slower %", "slower_percent"),
        Column::number("longest ms", "longest_ms"),
    ]
}

fn row(placement: Placement, job: &MixedJob, nodes: usize, of: &Shared) -> [Cell; 9] {
    let Shared { alone, together, slower } = *of;
    [
        Cell::word(placement.name()),
        Cell::word(job.name.clone()),
        Cell::word(job.kind()),
        Cell::count(nodes as u64),
        Cell::word(job.measure()),
        Cell::number(ms(alone.mean), 3),
        Cell::number(ms(together.mean), 3),
        Cell::number(slower, 2),
        Cell::number(ms(together.longest), 3),
    ]
}

/// What a job does, and the adapter of each GPU of its nodes.
fn done<'l, 'c>(
    catalog: &'c Catalog,
    lab: &ResolvedLab,
    job: &'l MixedJob,
    (per_node, seed): (u32, u64),
) -> Result<(Done<'l, 'c>, Vec<u32>), LabError> {
    let parts = &lab.cluster;
    let times = |gpus: u32| ClusterTimes::new(catalog, parts.clone(), gpus);
    let served = |model: &str| TrainingRequest::new(model).job(catalog, parts);
    match &job.kind {
        JobKind::Training(work) => {
            let request = work.request();
            let of = request.job(catalog, parts)?;
            let mut times = request.times(catalog, &of)?;
            let (stages, adapters) = (Rc::new(stages(&of, &request.layout, &mut times)?), times.adapters.clone());
            Ok((Done::Planned { layout: request.layout, stages, times: Box::new(RefCell::new(times)) }, adapters))
        }
        JobKind::Collective(work) => {
            let gpus = work.nodes * per_node;
            let times = times(gpus)?;
            let layout = Layout { data: gpus, global_batch: gpus, ..Layout::default() };
            let (stages, adapters) = (Rc::new(vec![calls(work, gpus)]), times.adapters.clone());
            Ok((Done::Planned { layout, stages, times: Box::new(RefCell::new(times)) }, adapters))
        }
        JobKind::Inference(work) => {
            let times = times(work.tp.saturating_mul(work.pp))?;
            let adapters = times.adapters.clone();
            let of = KeysAndValues::new(work, &served(&work.model)?, times, adapters.len().max(1) as u32, seed)?;
            Ok((Done::KeysAndValues(of), adapters))
        }
        JobKind::Experts(work) => {
            let gpus = work.nodes * per_node;
            let times = times(gpus)?;
            let adapters = times.adapters.clone();
            Ok((Done::Experts(Experts::new(work, &served(&work.model)?, times, gpus)?), adapters))
        }
        JobKind::Storage(work) => Ok((Done::Storage(work), Vec::new())),
    }
}

/// Calls of a collective operation one after the other.
fn calls(work: &GpuCollective, gpus: u32) -> Vec<Task> {
    let operation = match work.operation {
        GpuOperation::AllReduce => Operation::AllReduce,
        GpuOperation::AllGather => Operation::AllGather,
        GpuOperation::ReduceScatter => Operation::ReduceScatter,
        GpuOperation::AllToAll => Operation::AllToAll,
    };
    let group = Group { size: gpus, stride: 1 };
    let call = |number: u32| Task {
        action: Action::Together(operation, work.size, group),
        part: Use::Data,
        stream: KERNELS,
        after: number.checked_sub(1).into_iter().collect(),
        name: format!("call {number}"),
    };
    (0..work.times).map(call).collect()
}

impl Fixed<'_, '_> {
    /// The nodes of each job.
    fn nodes(&self, placement: Placement) -> Vec<Vec<u32>> {
        let wanted: Vec<u32> = self.work.jobs.iter().map(|job| job.nodes(self.per_node)).collect();
        nodes_of_jobs(&wanted, placement, self.lab.cluster.nodes(), self.seed)
    }

    fn tenants<'t>(&'t self, nodes: &[Vec<u32>]) -> Vec<Box<dyn Tenant + 't>> {
        let jobs = self.work.jobs.iter().zip(nodes).zip(&self.done);
        jobs.map(|((job, own), (done, adapters))| {
            let seats = Seats::new(own.clone(), self.nics, adapters.clone());
            let tenant: Box<dyn Tenant + 't> = match done {
                Done::Planned { layout, stages, times } => {
                    Box::new(Planned { layout: layout.clone(), stages: Rc::clone(stages), seats, nics: self.nics, times })
                }
                Done::KeysAndValues(of) => Box::new(Seated { of, seats }),
                Done::Experts(of) => Box::new(Seated { of, seats }),
                Done::Storage(work) => Box::new(self.moved(job, work, (own, nodes))),
            };
            tenant
        })
        .collect()
    }

    /// What other jobs write to nodes with data, or read from them.
    fn moved(&self, job: &MixedJob, work: &Storage, (own, nodes): (&[u32], &[Vec<u32>])) -> Writes {
        let of_nodes =
            |nodes: &[u32]| nodes.iter().flat_map(|node| (0..self.nics).map(move |nic| node * self.nics + nic)).collect::<Vec<u32>>();
        let wants = |other: &MixedJob| match work.clients.as_slice() {
            [] => !matches!(other.kind, JobKind::Storage(_)),
            names => names.contains(&other.name),
        };
        let others = self.work.jobs.iter().zip(nodes).filter(|(other, _)| other.name != job.name && wants(other));
        let clients: Vec<u32> = others.flat_map(|(_, nodes)| of_nodes(nodes)).collect();
        let servers = of_nodes(own);
        let pair = |(number, client): (usize, &u32)| {
            let server = servers[number % servers.len()];
            if work.read { (server, *client) } else { (*client, server) }
        };
        Writes { pairs: clients.iter().enumerate().map(pair).collect(), bytes: work.bytes }
    }
}
