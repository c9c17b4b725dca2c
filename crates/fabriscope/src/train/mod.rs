//! The question what a step of training takes on a cluster, and what of it is the network.

mod beside;
mod search;
mod shown;
mod times;
mod whole;
mod written;

use fabriscope_catalog::{Catalog, Gpu, Kind, Model, ResolvedCluster};
use fabriscope_report::Outcome;
use fabriscope_training::memory::{memory, parameters_of_rank};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::{Layout, Step, StepError, step};
use fabriscope_units::Bytes;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
pub use beside::{Beside, Placement};
use shown::{by_use, gb};
use times::{ClusterTimes, Network};
pub use whole::ByMessages;
pub use written::StepFormat;

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
        by_messages: None,
        beside: None,
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
    by_messages: Option<ByMessages>,
    beside: Option<Beside>,
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
    /// Runs the step message by message as well.
    #[must_use]
    pub fn by_messages(mut self, by: ByMessages) -> Train<'a> {
        self.by_messages = Some(by);
        self
    }
    /// Runs several such jobs beside each other, message by message.
    #[must_use]
    pub fn beside(mut self, beside: Beside) -> Train<'a> {
        self.beside = Some(beside);
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
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        if self.searched {
            let heard = |done: usize, all: usize| {
                if let Some(progress) = &self.progress {
                    progress(done, all);
                }
            };
            return search::search(catalog, &job, &self.layout, &heard);
        }
        let mut times = self.times(catalog, &job)?;
        if let Some(beside) = self.beside {
            let by = self.by_messages.unwrap_or(ByMessages::Flows);
            return beside::outcome(&job, &self.layout, &mut times, (beside, by));
        }
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
        if let Some(by) = self.by_messages {
            whole::add(&mut outcome, &job, &self.layout, (&step, by), &mut times)?;
        }
        Ok(outcome)
    }

    /// The step as files of other simulators, by name and content.
    ///
    /// # Errors
    /// As [`outcome`](Train::outcome), and operations that the format has no form for.
    pub fn files(self, format: StepFormat) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let mut times = self.times(catalog, &job)?;
        written::files(&job, &self.layout, &mut times, format)
    }

    /// The times of a job that there is room for.
    fn times<'c>(&self, catalog: &'c Catalog, job: &Job) -> Result<ClusterTimes<'c>, Error> {
        let (gpus, there) = (self.layout.gpus(), gpus_of(job));
        let gpus = u32::try_from(gpus).ok().filter(|gpus| *gpus <= there).ok_or_else(|| Error::Training {
            message: format!("{gpus} GPUs for the job, and `{}` has {there}", job.parts.name),
            help: "make tensor · pipeline · data · context as many as there are, or take more nodes: CLUSTER:NODES".to_owned(),
        })?;
        if !self.oversized {
            fits(job, &self.layout)?;
        }
        ClusterTimes::new(catalog, job.parts.clone(), gpus)
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
    layout.check(&job.model.transformer)?;
    let (kept, room) = (memory(&job.model.transformer, layout), *job.gpu.memory.size);
    if kept.total() <= room {
        return Ok(());
    }
    Err(Error::Training {
        message: format!("{} on the fullest GPU, which has {}: {}", gb(kept.total()), gb(room), by_use(&kept)),
        help: "share more (--tp, --pp, --sharding), keep less (--recompute, --micro-batch), or go on anyway: --oversize".to_owned(),
    })
}

fn made(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<Step, Error> {
    step(&job.model.transformer, layout, &job.roofline, times).map_err(stepped)
}

fn stepped(error: StepError<Error>) -> Error {
    match error {
        StepError::Times(error) => error,
        StepError::Layout(error) => error.into(),
    }
}
