//! The question what a step of training takes on a cluster, and what of it is the network.

mod changes;
mod expected;
mod explained;
mod plan;
mod search;
mod uneven;
mod written;

use fabriscope_catalog::{Catalog, ResolvedCluster, Variable};
use fabriscope_lab::training::hcl::HclTimes;
pub(crate) use fabriscope_lab::training::job::Named;
use fabriscope_lab::training::job::{Job, made};
pub(crate) use fabriscope_lab::training::times::{ClusterTimes, Network};
use fabriscope_lab::training::{TrainingRequest, answered, beside, whole};
use fabriscope_nccl::Settings;
use fabriscope_platform::nccl::{TUNER_FILE, set_variable};
use fabriscope_report::Outcome;
use fabriscope_timeline::sheet::Process;
use fabriscope_training::Layout;
use fabriscope_training::checkpoint::Checkpoint;
use fabriscope_training::stragglers::Unevenness;
use fabriscope_units::Remedy;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
pub use fabriscope_lab::training::Exchange;
pub use fabriscope_lab::training::beside::{Beside, Placement};
pub use fabriscope_lab::training::whole::ByMessages;
pub use written::StepFormat;

/// What a step of training takes: `train("llama3-70b", "azure-ndh100v5:16").layout(layout)`. A model is a name of the catalogue.
#[must_use]
pub fn train(model: &str, cluster: impl Into<OnCluster>) -> Train<'static> {
    Train::of(TrainingRequest::new(model), cluster)
}

/// A step of training, to be asked; made by [`train`].
pub struct Train<'a> {
    catalog: Option<&'a Catalog>,
    request: TrainingRequest,
    cluster: OnCluster,
    searched: bool,
    uneven: Option<Unevenness>,
    checkpoint: Option<Checkpoint>,
    by_messages: Option<ByMessages>,
    beside: Option<Beside>,
    tuner: Option<String>,
    expected: bool,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

impl Train<'static> {
    /// The step that a lab says, on a cluster.
    #[must_use]
    pub fn of(request: TrainingRequest, cluster: impl Into<OnCluster>) -> Train<'static> {
        Train {
            catalog: None,
            request,
            cluster: cluster.into(),
            searched: false,
            uneven: None,
            checkpoint: None,
            by_messages: None,
            beside: None,
            tuner: None,
            expected: false,
            progress: None,
        }
    }
}

impl<'a> Train<'a> {
    /// How the job is laid over its GPUs.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Train<'a> {
        self.request.layout = layout;
        self
    }
    /// Tokens of a sequence; those of the model by default.
    #[must_use]
    pub fn sequence(mut self, tokens: u32) -> Train<'a> {
        self.request.sequence = Some(tokens);
        self
    }
    /// How copies of a convolutional net exchange gradients.
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange) -> Train<'a> {
        self.request.exchange = exchange;
        self
    }
    /// Multiplies in 16 bits in nets that are not transformers, which otherwise take 32.
    #[must_use]
    pub fn mixed(mut self) -> Train<'a> {
        self.request.mixed = true;
        self
    }
    /// Weights stream to the accelerators, each of which has a copy of the model's activations alone.
    #[must_use]
    pub fn streamed(mut self) -> Train<'a> {
        self.request.streamed = true;
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
        self.request.oversized = true;
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
    /// The library chooses by this file of NCCL's example tuner.
    #[must_use]
    pub fn tuner(mut self, file: &str) -> Train<'a> {
        self.tuner = Some(file.to_owned());
        self
    }
    /// Says what the library itself expects of the collective operations of the step, beside what they take.
    #[must_use]
    pub fn expected(mut self) -> Train<'a> {
        self.expected = true;
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
        let parts = self.parts(catalog)?;
        if let Some(outcome) = self.request.other_kinds(catalog, &parts, self.searched)? {
            return Ok(outcome);
        }
        let job = self.request.job(catalog, &parts)?;
        if self.searched {
            return search::search(catalog, &job, &self.request.layout, &self.heard());
        }
        if let Some(outcome) = self.request.by_hcl(catalog, &job)? {
            return Ok(outcome);
        }
        if let Some(beside) = self.beside {
            self.has_operations()?;
            let times = self.request.times(catalog, &job)?;
            let by = self.by_messages.unwrap_or(ByMessages::Flows);
            return Ok(beside::outcome(&job, &self.request.layout, times, (beside, by))?);
        }
        Ok(self.answered(catalog, &job, false)?.0)
    }

    /// Answers it, with what every stage does when.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome); nets that are no transformers, weights that stream, and accelerators whose ports are their own have no plan.
    pub fn planned(self) -> Result<(Outcome, Vec<Process>), Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        if self.request.streamed || HclTimes::drives(&job.parts) {
            return Err(told("a timeline of a step that has none".to_owned(), "leave --trace out, or take a cluster of GPUs"));
        }
        self.answered(catalog, &job, true)
    }

    /// Whether all that is asked is among the operations of a step one by one.
    fn has_operations(&self) -> Result<(), Error> {
        if self.request.layout.shard.is_some() {
            return Err(told(
                "shares of some ranks only, message by message".to_owned(),
                "leave --shard out, or --engine, --jobs and --write-trace",
            ));
        }
        Ok(())
    }

    fn answered(&self, catalog: &Catalog, job: &Job, planned: bool) -> Result<(Outcome, Vec<Process>), Error> {
        if self.by_messages.is_some() {
            self.has_operations()?;
        }
        let mut times = self.request.times(catalog, job)?;
        let (step, mut outcome) = answered(job, &self.request.layout, &mut times)?;
        if self.expected {
            outcome.text("\n").keyed_table("expected", expected::table(&mut times)?);
        }
        if let Some(uneven) = &self.uneven {
            uneven::steps(&step, &self.request.layout, uneven, &mut outcome)?;
        }
        if let Some(checkpoint) = &self.checkpoint {
            uneven::checkpoints(job, &self.request.layout, checkpoint, step.parts.total(), &mut outcome);
        }
        if let Some(by) = self.by_messages {
            whole::add(&mut outcome, job, &self.request.layout, (&step, by), &mut times)?;
        }
        let processes = if planned { plan::processes(&step, &self.request.layout) } else { Vec::new() };
        Ok((outcome, processes))
    }

    /// Explains the step: what it is made of, what binds it, and what single changes and other layouts would give, where they are asked for.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub fn explained(self, changes: bool) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let gpus = self.request.room(&job)?;
        let asked = explained::Extent { changes, layouts: self.searched };
        let mut outcome = explained::explain(catalog, &job, &self.request.layout, gpus, asked, &self.heard())?;
        if self.expected {
            let mut times = self.request.times(catalog, &job)?;
            made(&job, &self.request.layout, &mut times)?;
            outcome.text("\n").keyed_table("expected", expected::table(&mut times)?);
        }
        Ok(outcome)
    }

    fn heard(&self) -> impl Fn(usize, usize) + '_ {
        |done, all| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        }
    }

    /// The step as files of other simulators, by name and content.
    ///
    /// # Errors
    /// As [`outcome`](Train::outcome), and operations that the format has no form for.
    pub fn files(self, format: StepFormat) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.has_operations()?;
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let mut times = self.request.times(catalog, &job)?;
        written::files(&job, &self.request.layout, &mut times, format)
    }

    fn job(&self, catalog: &Catalog) -> Result<Job, Error> {
        Ok(self.request.job(catalog, &self.parts(catalog)?)?)
    }

    /// The cluster, whose library chooses as it is told to.
    fn parts(&self, catalog: &Catalog) -> Result<ResolvedCluster, Error> {
        let mut parts = self.cluster.resolve_alike(catalog)?;
        if let Some(file) = &self.tuner {
            tuned(&mut parts, file)?;
        }
        Ok(parts)
    }
}

/// What cannot be.
fn told(message: String, help: &str) -> Error {
    Error::Training { message, help: help.to_owned() }
}

/// Lets the library of a cluster choose by a tuner's file.
fn tuned(parts: &mut ResolvedCluster, file: &str) -> Result<(), Error> {
    set_variable(&mut Settings::default(), TUNER_FILE, file)
        .map_err(|error| told(error.in_full(), "see the form of the file: fabriscope export CLUSTER --nccl-tuner -"))?;
    let none = told(format!("no NCCL runs on the nodes of `{}`", parts.name), "leave --tuner out");
    let library = parts.sole_mut().nccl.as_mut().and_then(|software| software.nccl.as_mut()).ok_or(none)?;
    library.environment.push(Variable { name: TUNER_FILE.to_owned(), value: file.to_owned(), source: "the command line".to_owned() });
    Ok(())
}
