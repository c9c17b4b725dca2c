//! Unequal jobs on one fabric: training beside storage, inference and collective operations; each alone, all together, by placement.
//!
//! Modelled: all messages between nodes of all jobs, by the engine of the lab; nodes dealt side by side, in turn or by lottery.
//! Not modelled: jobs that begin at other times, what they do behind what is measured.

mod served;

use std::cell::RefCell;
use std::rc::Rc;

use fabriscope_catalog::{Catalog, Problem, ResolvedCluster};
use fabriscope_engine::{Cluster, Service};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_streams::Streams;
use fabriscope_training::operations::{Action, KERNELS, Task, Use, operations};
use fabriscope_training::{Group, Layout, Operation};
use fabriscope_training_plan::Seats;
use fabriscope_units::Remedy;

use crate::ResolvedLab;
use crate::error::LabError;
use crate::sweep::{Runs, head};
use crate::traffic::connections;
use crate::training::job::{Job, of_step, told};
use crate::training::of_lab::{cluster_of, of_keys};
use crate::training::shown::{change, ms};
use crate::training::tenant::{Measured, Planned, Tenant, Writes, measured, schedule};
use crate::training::times::ClusterTimes;
use crate::training::{TrainingRequest, of_lab};
use crate::workload::mix::{GpuCollective, GpuOperation, JobKind, Mix, MixedJob, Placed};
use served::{Experts, KeysAndValues};

/// What is the same in all placements.
struct Fixed<'l, 'c> {
    catalog: &'c Catalog,
    lab: &'l ResolvedLab,
    work: &'l Mix,
    per_node: u32,
    nics: u32,
    seed: u64,
    /// Of each job with operations planned by NCCL: its layout and operations, and its times.
    planned: Vec<Option<Steps<'c>>>,
}

/// Operations of a job's GPUs.
struct Steps<'c> {
    layout: Layout,
    stages: Rc<Vec<Vec<Task>>>,
    times: RefCell<ClusterTimes<'c>>,
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
    let cluster = cluster_of(&cluster);
    let group = lab.cluster.sole();
    let (per_node, nics) = (gpus_of_node(&lab.cluster), group.node.nics);
    let planned = work.jobs.iter().map(|job| steps(catalog, lab, job, per_node)).collect::<Result<_, _>>()?;
    let fixed = Fixed { catalog, lab, work, per_node, nics, seed, planned };
    let runs = Runs::of(lab, &cluster, connections(lab, Service::Rc, work.any_order)?);
    let mut outcome = head(lab, &format!("{} jobs, seed {seed}", work.jobs.len()));
    let mut grid = Grid::new(columns());
    let mut slowest = 0.0_f64;
    for placement in &work.placements {
        let nodes = fixed.nodes(*placement);
        let tenants = fixed.tenants(&nodes)?;
        let all: Vec<&dyn Tenant> = tenants.iter().map(AsRef::as_ref).collect();
        let together = played(&runs, &all, seed)?;
        for (number, (job, beside)) in work.jobs.iter().zip(together).enumerate() {
            let alone = played(&runs, &all[number..=number], seed)?.first().copied().unwrap_or_default();
            let slower = change(beside.mean, alone.mean);
            slowest = slowest.max(slower);
            grid.push(row(*placement, job, nodes[number].len(), (alone, beside, slower)));
        }
    }
    outcome.set("seed", seed).keyed_table("jobs", grid).set("slowest_percent", slowest);
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

fn row(placement: Placed, job: &MixedJob, nodes: usize, (alone, beside, slower): (Measured, Measured, f64)) -> [Cell; 9] {
    [
        Cell::word(name(placement)),
        Cell::word(job.name.clone()),
        Cell::word(job.kind()),
        Cell::count(nodes as u64),
        Cell::word(job.measure()),
        Cell::number(ms(alone.mean), 3),
        Cell::number(ms(beside.mean), 3),
        Cell::number(slower, 2),
        Cell::number(ms(beside.longest), 3),
    ]
}

const fn name(placement: Placed) -> &'static str {
    match placement {
        Placed::Packed => "packed",
        Placed::Interleaved => "interleaved",
        Placed::Random => "random",
    }
}

fn gpus_of_node(parts: &ResolvedCluster) -> u32 {
    parts.sole().node.machine().map_or(0, |machine| machine.gpus().len() as u32)
}

/// How long these take together.
fn played(runs: &Runs<'_>, tenants: &[&dyn Tenant], seed: u64) -> Result<Vec<Measured>, LabError> {
    let (schedule, timed) = schedule(runs.cluster.ranks(), tenants)?;
    let schedule = std::sync::Arc::new(schedule);
    let run = runs.run(std::sync::Arc::clone(&schedule), seed);
    let run = run.map_err(|message| LabError::refused(message, "see the workload and the cluster of the lab"))?;
    Ok(measured(&schedule, &run, &timed))
}

/// The operations of a job that NCCL plans.
fn steps<'c>(catalog: &'c Catalog, lab: &ResolvedLab, job: &MixedJob, per_node: u32) -> Result<Option<Steps<'c>>, LabError> {
    match &job.kind {
        JobKind::Training(work) => {
            let request = work.request();
            let of = request.job(catalog, &lab.cluster)?;
            let mut times = request.times(catalog, &of)?;
            let stages = stages(&of, &request.layout, &mut times)?;
            Ok(Some(Steps { layout: request.layout, stages: Rc::new(stages), times: RefCell::new(times) }))
        }
        JobKind::Collective(work) => {
            let gpus = work.nodes * per_node;
            let times = ClusterTimes::new(catalog, lab.cluster.clone(), gpus)?;
            let layout = Layout { data: gpus, global_batch: gpus, ..Layout::default() };
            Ok(Some(Steps { layout, stages: Rc::new(vec![calls(work, gpus)]), times: RefCell::new(times) }))
        }
        _ => Ok(None),
    }
}

fn stages(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Vec<Vec<Task>>, LabError> {
    let within = times.groups_within();
    operations(&job.model.transformer, layout, &job.roofline, times, &|group| within.within(group)).map_err(of_step)
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

impl<'c> Fixed<'_, 'c> {
    /// The nodes of each job.
    fn nodes(&self, placement: Placed) -> Vec<Vec<u32>> {
        let counts: Vec<u32> = self.work.jobs.iter().map(|job| job.nodes(self.per_node)).collect();
        let taken: u32 = counts.iter().sum();
        let mut jobs: Vec<Vec<u32>> = vec![Vec::new(); counts.len()];
        if placement == Placed::Interleaved {
            let mut next = 0;
            for turn in 0..counts.iter().copied().max().unwrap_or(0) {
                for (job, _) in counts.iter().enumerate().filter(|(_, count)| turn < **count) {
                    jobs[job].push(next);
                    next += 1;
                }
            }
            return jobs;
        }
        let mut order: Vec<u32> = (0..if placement == Placed::Random { self.lab.cluster.nodes() } else { taken }).collect();
        if placement == Placed::Random {
            Streams::new(self.seed).stream("nodes of jobs", 0).shuffle(&mut order);
        }
        let mut order = order.into_iter();
        for (job, count) in jobs.iter_mut().zip(counts) {
            job.extend(order.by_ref().take(count as usize));
        }
        jobs
    }

    fn tenants<'t>(&'t self, nodes: &[Vec<u32>]) -> Result<Vec<Box<dyn Tenant + 't>>, LabError> {
        let jobs = self.work.jobs.iter().zip(nodes).zip(&self.planned);
        jobs.map(|((job, own), planned)| self.tenant(job, own, nodes, planned.as_ref())).collect()
    }

    fn tenant<'t>(
        &'t self,
        job: &'t MixedJob,
        own: &[u32],
        nodes: &[Vec<u32>],
        planned: Option<&'t Steps<'c>>,
    ) -> Result<Box<dyn Tenant + 't>, LabError> {
        let parts = &self.lab.cluster;
        let times = |gpus: u32| ClusterTimes::new(self.catalog, parts.clone(), gpus);
        let seats = |times: &ClusterTimes<'_>| Seats::new(own.to_vec(), self.nics, times.adapters.clone());
        Ok(match (&job.kind, planned) {
            (JobKind::Storage(work), _) => {
                let of_nodes = |nodes: &[u32]| {
                    nodes.iter().flat_map(|node| (0..self.nics).map(move |nic| node * self.nics + nic)).collect::<Vec<u32>>()
                };
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
                Box::new(Writes { pairs: clients.iter().enumerate().map(pair).collect(), bytes: work.bytes })
            }
            (JobKind::Inference(work), _) => {
                let of = TrainingRequest::new(&work.model).job(self.catalog, parts)?;
                let times = times(work.tp.saturating_mul(work.pp))?;
                let seats = seats(&times);
                Box::new(KeysAndValues::new(work, &of, times, seats, self.seed)?)
            }
            (JobKind::Experts(work), _) => {
                let of = TrainingRequest::new(&work.model).job(self.catalog, parts)?;
                let gpus = work.nodes * self.per_node;
                let times = times(gpus)?;
                let seats = seats(&times);
                Box::new(Experts::new(work, &of, times, (gpus, seats))?)
            }
            (_, Some(steps)) => {
                let seats = seats(&steps.times.borrow());
                let (layout, stages) = (steps.layout.clone(), Rc::clone(&steps.stages));
                Box::new(Planned { layout, stages, seats, nics: self.nics, times: &steps.times })
            }
            (_, None) => return Err(told(format!("`{}` has no operations", job.name), "give it another kind")),
        })
    }
}
