//! A job: its model, the cluster, the GPU, and whether its GPUs have room.

use fabriscope_catalog::{Catalog, Gpu, ResolvedCluster, Shared, Transformer};
use fabriscope_training::memory::{fullest, memory};
use fabriscope_training::operations::{Task, operations};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::{Layout, Recompute, Sharding, Step, StepError, step};
use fabriscope_units::Bytes;

use super::shown::{by_use, gb};
use super::times::ClusterTimes;
use crate::error::LabError;

/// A transformer with its name.
#[derive(Clone)]
pub struct Named {
    /// Its name in the catalogue.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The model.
    pub transformer: Transformer,
}

impl Named {
    /// Of the catalogue.
    ///
    /// # Errors
    /// No such model, or one that is no transformer.
    pub fn of(catalog: &Catalog, name: &str) -> Result<Named, LabError> {
        let model = catalog.model(name)?;
        let transformer = model
            .transformer
            .clone()
            .ok_or_else(|| told(format!("`{name}` is no transformer"), "name another model: fabriscope parts --kind models"))?;
        Ok(Named { name: model.name.clone(), title: model.title.clone(), transformer })
    }
}

/// What a job runs on.
pub struct On {
    /// The cluster.
    pub parts: ResolvedCluster,
    /// Its GPU.
    pub gpu: Shared<Gpu>,
    /// What the GPU computes.
    pub roofline: Roofline,
}

/// A job with all that it rests on.
pub struct Job {
    /// What is trained.
    pub model: Named,
    /// The cluster.
    pub parts: ResolvedCluster,
    /// Its GPU.
    pub gpu: Shared<Gpu>,
    /// What the GPU computes.
    pub roofline: Roofline,
}

impl Job {
    /// What it runs on.
    #[must_use]
    pub fn on(&self) -> On {
        On { parts: self.parts.clone(), gpu: self.gpu.clone(), roofline: self.roofline.clone() }
    }
}

/// What cannot be.
pub(crate) fn told(message: String, help: &str) -> LabError {
    LabError::Training { message, help: help.to_owned() }
}

/// The GPUs of a job, if there are so many.
///
/// # Errors
/// There are fewer.
pub fn room(layout: &Layout, parts: &ResolvedCluster) -> Result<u32, LabError> {
    let (gpus, there) = (layout.gpus(), gpus_on(parts));
    u32::try_from(gpus).ok().filter(|gpus| *gpus <= there).ok_or_else(|| LabError::Training {
        message: format!("{gpus} GPUs for the job, and `{}` has {there}", parts.name),
        help: "make tensor · pipeline · data · context as many as there are, or take more nodes: CLUSTER:NODES".to_owned(),
    })
}

/// GPUs of its cluster.
#[must_use]
pub fn gpus_of(job: &Job) -> u32 {
    gpus_on(&job.parts)
}

fn gpus_on(parts: &ResolvedCluster) -> u32 {
    parts.nodes() * gpus_of_node(parts)
}

/// GPUs of each node of a cluster.
pub(crate) fn gpus_of_node(parts: &ResolvedCluster) -> u32 {
    parts.sole().node.machine().map_or(0, |machine| machine.gpus().len() as u32)
}

/// Whether the fullest GPU has room.
///
/// # Errors
/// It has not, or the layout does not divide.
pub fn fits(job: &Job, layout: &Layout) -> Result<(), LabError> {
    let model = &job.model.transformer;
    layout.check(model)?;
    let (found, room) = (fullest(model, layout), *job.gpu.memory.size);
    let kept = found.memory;
    if kept.total() <= room {
        return Ok(());
    }
    let over = kept.total().0 - room.0;
    let largest = [
        ("parameters", kept.parameters),
        ("gradients", kept.gradients),
        ("the optimizer", kept.optimizer),
        ("activations", kept.activations),
        ("layers gathered", kept.gathered),
    ]
    .into_iter()
    .max_by_key(|(_, bytes)| *bytes)
    .map_or("", |(name, _)| name);
    let output = if found.output > Bytes::ZERO { format!(", of them scores of the output {}", gb(found.output)) } else { String::new() };
    let message = format!(
        "{} on the fullest GPU, which has {}: {}{output}; {} too much, at stage {} of {}, with {} layers, {:.2} billion parameters a GPU \
         and activations of {} micro-batches; most of it is {largest}",
        gb(kept.total()),
        gb(room),
        by_use(&kept),
        gb(Bytes(over)),
        found.stage,
        layout.pipeline,
        found.layers,
        found.parameters as f64 / 1e9,
        found.in_flight,
    );
    let fitting: Vec<String> = remedies(layout)
        .into_iter()
        .filter(|(_, other)| other.check(model).is_ok())
        .map(|(name, other)| (name, memory(model, &other).total()))
        .filter(|(_, total)| *total <= room)
        .map(|(name, total)| format!("{name} ({})", gb(total)))
        .collect();
    let help = match fitting.is_empty() {
        true => "share more (--tp, --pp, --sharding), keep less (--recompute, --micro-batch), or go on anyway: --oversize".to_owned(),
        false => format!("these have room: {}; or go on anyway: --oversize", fitting.join(", ")),
    };
    Err(LabError::Training { message, help })
}

/// Layouts that keep less, each otherwise in one thing, or in two.
fn remedies(layout: &Layout) -> Vec<(&'static str, Layout)> {
    let with = |change: &dyn Fn(&mut Layout)| {
        let mut other = layout.clone();
        change(&mut other);
        other
    };
    let mut found = vec![
        ("--sharding optimizer", with(&|other| other.sharding = other.sharding.max(Sharding::Optimizer))),
        ("--sharding parameters", with(&|other| other.sharding = Sharding::Parameters)),
        ("--recompute full", with(&|other| other.recompute = Recompute::Full)),
        ("--micro-batch 1", with(&|other| other.micro_batch = 1)),
        ("--sequence-parallel", with(&|other| other.sequence_parallel = true)),
        (
            "--sharding optimizer with --recompute full",
            with(&|other| {
                other.sharding = other.sharding.max(Sharding::Optimizer);
                other.recompute = Recompute::Full;
            }),
        ),
        (
            "--sharding parameters with --recompute full",
            with(&|other| {
                other.sharding = Sharding::Parameters;
                other.recompute = Recompute::Full;
            }),
        ),
    ];
    found.retain(|(_, other)| other != layout);
    found
}

/// The operations of each stage, in which those of groups within nodes are but times.
///
/// # Errors
/// A layout that does not divide, what the cluster cannot do.
pub fn stages(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Vec<Vec<Task>>, LabError> {
    let within = times.groups_within();
    operations(&job.model.transformer, layout, &job.roofline, times, &|group| within.within(group)).map_err(of_step)
}

/// Its step in a layout.
///
/// # Errors
/// A layout that does not divide, what the cluster cannot do.
pub fn made(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Step, LabError> {
    step(&job.model.transformer, layout, &job.roofline, times).map_err(of_step)
}

/// Why there is no step.
#[must_use]
pub fn of_step(error: StepError<LabError>) -> LabError {
    match error {
        StepError::Times(error) => error,
        StepError::Layout(error) => error.into(),
    }
}
