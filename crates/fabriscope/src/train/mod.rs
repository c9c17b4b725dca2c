//! The question what a step of training takes on a cluster, and what of it is the network.

mod changes;
mod explained;
mod plan;
mod search;
mod shown;
mod times;
mod uneven;

use fabriscope_catalog::{Catalog, Gpu, Kind, Model, ResolvedCluster};
use fabriscope_report::Outcome;
use fabriscope_timeline::sheet::Process;
use fabriscope_training::checkpoint::Checkpoint;
use fabriscope_training::memory::{fullest, memory, parameters_of_rank};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::stragglers::Unevenness;
use fabriscope_training::{Layout, Recompute, Sharding, Step, StepError, step};
use fabriscope_units::Bytes;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
use shown::{by_use, gb};
use times::{ClusterTimes, Network};

/// What a step of training takes: `train("llama3-70b", "azure-ndh100v5:16").layout(layout)`. A model is a name of the catalogue.
#[must_use]
pub fn train(model: &str, cluster: impl Into<OnCluster>) -> Train<'static> {
    Train {
        catalog: None,
        model: model.to_owned(),
        cluster: cluster.into(),
        layout: Layout::default(),
        sequence: None,
        searched: false,
        oversized: false,
        uneven: None,
        checkpoint: None,
        progress: None,
    }
}

/// A step of training, to be asked; made by [`train`].
pub struct Train<'a> {
    catalog: Option<&'a Catalog>,
    model: String,
    cluster: OnCluster,
    layout: Layout,
    sequence: Option<u32>,
    searched: bool,
    oversized: bool,
    uneven: Option<Unevenness>,
    checkpoint: Option<Checkpoint>,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

/// A job with all that it rests on.
struct Job {
    model: Model,
    parts: ResolvedCluster,
    gpu: Gpu,
    roofline: Roofline,
}

impl<'a> Train<'a> {
    /// How the job is laid over its GPUs.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Train<'a> {
        self.layout = layout;
        self
    }
    /// Tokens of a sequence; those of the model by default.
    #[must_use]
    pub fn sequence(mut self, tokens: u32) -> Train<'a> {
        self.sequence = Some(tokens);
        self
    }
    /// Looks for the best layouts of all GPUs of the cluster; batch, precision and attention are those of the layout given.
    #[must_use]
    pub fn searched(mut self) -> Train<'a> {
        self.searched = true;
        self
    }
    /// Goes on where a GPU has too little memory.
    #[must_use]
    pub fn oversized(mut self) -> Train<'a> {
        self.oversized = true;
        self
    }
    /// Many steps of ranks that are not equally fast.
    #[must_use]
    pub fn uneven(mut self, uneven: Unevenness) -> Train<'a> {
        self.uneven = Some(uneven);
        self
    }
    /// The job writes checkpoints.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Train<'a> {
        self.checkpoint = Some(checkpoint);
        self
    }
    /// Hears how many layouts of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + 'a) -> Train<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Train<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Answers it.
    ///
    /// # Errors
    /// No such model or cluster, GPUs of which nothing is known, a layout that does not divide, too few GPUs, too little memory.
    pub fn outcome(self) -> Result<Outcome, Error> {
        if self.searched {
            let catalog = catalog(self.catalog)?;
            return search::search(catalog, &self.job(catalog)?, &self.layout, &self.heard());
        }
        Ok(self.answered(false)?.0)
    }

    /// Answers it, with what every stage does when.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub fn planned(self) -> Result<(Outcome, Vec<Process>), Error> {
        self.answered(true)
    }

    fn answered(self, planned: bool) -> Result<(Outcome, Vec<Process>), Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let gpus = self.room(&job)?;
        let mut times = ClusterTimes::new(catalog, job.parts.clone(), gpus)?;
        let step = made(&job, &self.layout, &mut times)?;
        let gradients = Bytes(2 * parameters_of_rank(&job.model.transformer, &self.layout).0);
        let mut with = |network| {
            times.on(network);
            made(&job, &self.layout, &mut times)
        };
        let others = [with(Network::TwiceAsFast)?.parts.total(), with(Network::None)?.parts.total()];
        times.on(Network::AsItIs);
        let compared = times.compared(self.layout.data_group(), gradients)?;
        let mut outcome = shown::outcome(&job, &self.layout, &step, (others, compared));
        if let Some(uneven) = &self.uneven {
            uneven::steps(&step, &self.layout, uneven, &mut outcome)?;
        }
        if let Some(checkpoint) = &self.checkpoint {
            uneven::checkpoints(&job, &self.layout, checkpoint, step.parts.total(), &mut outcome);
        }
        let processes = if planned { plan::processes(&step, &self.layout) } else { Vec::new() };
        Ok((outcome, processes))
    }

    /// Explains the step: what it is made of, what binds it, and what single changes and other layouts would give, where they are asked for.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub fn explained(self, changes: bool) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let gpus = self.room(&job)?;
        let asked = explained::Asked { changes, layouts: self.searched };
        explained::explain(catalog, &job, &self.layout, gpus, asked, &self.heard())
    }

    fn heard(&self) -> impl Fn(usize, usize) + '_ {
        |done, all| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        }
    }

    /// The GPUs of the job, if there are as many and they have room.
    fn room(&self, job: &Job) -> Result<u32, Error> {
        let (gpus, there) = (self.layout.gpus(), gpus_of(job));
        let gpus = u32::try_from(gpus).ok().filter(|gpus| *gpus <= there).ok_or_else(|| Error::Training {
            message: format!("{gpus} GPUs for the job, and `{}` has {there}", job.parts.name),
            help: "make tensor · pipeline · data · context as many as there are, or take more nodes: CLUSTER:NODES".to_owned(),
        })?;
        if !self.oversized {
            fits(job, &self.layout)?;
        }
        Ok(gpus)
    }

    fn job(&self, catalog: &Catalog) -> Result<Job, Error> {
        let mut model = Model::clone(catalog.model(&self.model)?);
        model.transformer.sequence = self.sequence.unwrap_or(model.transformer.sequence);
        let parts = self.cluster.resolve_alike(catalog)?;
        let gpu = parts.sole().node.gpu.clone();
        let gpu = gpu.ok_or_else(|| Error::Training {
            message: format!("the nodes of `{}` have no GPUs", parts.name),
            help: "take a cluster with GPUs: fabriscope clusters".to_owned(),
        })?;
        let roofline = Roofline::of(&gpu).ok_or_else(|| Error::Training {
            message: format!("it is not known what `{}` computes", gpu.name),
            help: format!("add [compute] to its part: fabriscope show {} {}", Kind::Gpu, gpu.name),
        })?;
        Ok(Job { model, parts, gpu, roofline })
    }
}

fn gpus_of(job: &Job) -> u32 {
    let node = &job.parts.sole().node;
    job.parts.nodes() * node.machine().map_or(0, |machine| machine.gpus().len() as u32)
}

/// Whether the fullest GPU has room.
fn fits(job: &Job, layout: &Layout) -> Result<(), Error> {
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
    Err(Error::Training { message, help })
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

fn made(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Step, Error> {
    step(&job.model.transformer, layout, &job.roofline, times).map_err(|error| match error {
        StepError::Times(error) => error,
        StepError::Layout(error) => error.into(),
    })
}
