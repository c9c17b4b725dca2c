//! The question what a step of training takes on a cluster, and what of it is the network.

mod changes;
mod explained;
mod job;
mod plan;
mod search;
mod shown;
mod times;
mod uneven;

use fabriscope_catalog::{Catalog, Kind, Model};
use fabriscope_report::Outcome;
use fabriscope_timeline::sheet::Process;
use fabriscope_training::Layout;
use fabriscope_training::checkpoint::Checkpoint;
use fabriscope_training::memory::parameters_of_rank;
use fabriscope_training::roofline::Roofline;
use fabriscope_training::stragglers::Unevenness;
use fabriscope_units::Bytes;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
use job::{Job, fits, gpus_of, made};
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
        let asked = explained::Extent { changes, layouts: self.searched };
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
