//! The question what a step of training takes on a cluster, and what of it is the network.

mod beside;
mod changes;
mod expected;
mod explained;
mod hcl;
mod job;
mod nets;
mod plan;
mod search;
mod shown;
mod streamed;
mod times;
mod uneven;
mod whole;
mod written;

use fabriscope_catalog::{Catalog, Kind, ResolvedCluster, Variable};
use fabriscope_nccl::Settings;
use fabriscope_platform::nccl::{TUNER_FILE, set_variable};
use fabriscope_report::Outcome;
use fabriscope_timeline::sheet::Process;
use fabriscope_training::checkpoint::Checkpoint;
use fabriscope_training::memory::parameters_of_rank;
use fabriscope_training::roofline::Roofline;
use fabriscope_training::stragglers::Unevenness;
use fabriscope_training::{Layout, step};
use fabriscope_units::{Bytes, Remedy};

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
pub use beside::{Beside, Placement};
pub(crate) use job::Named;
use job::{Job, On, fits, made, of_step, room, told};
pub(crate) use times::{ClusterTimes, Network};
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
        exchange: Exchange::AllReduce,
        mixed: false,
        streamed: false,
        searched: false,
        oversized: false,
        uneven: None,
        checkpoint: None,
        by_messages: None,
        beside: None,
        tuner: None,
        expected: false,
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
    exchange: Exchange,
    mixed: bool,
    streamed: bool,
    searched: bool,
    oversized: bool,
    uneven: Option<Unevenness>,
    checkpoint: Option<Checkpoint>,
    by_messages: Option<ByMessages>,
    beside: Option<Beside>,
    tuner: Option<String>,
    expected: bool,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

/// How copies of a convolutional net exchange gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// All-reduces of buckets by the library of the GPUs.
    #[default]
    AllReduce,
    /// Stripes to their owners, and broadcasts from them, by the MPI library (CNTK).
    Broadcast,
}

/// What is asked of nets that are not transformers, and of wafers.
struct Question<'q> {
    catalog: &'q Catalog,
    layout: &'q Layout,
    exchange: Exchange,
    mixed: bool,
    searched: bool,
    oversized: bool,
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
    /// How copies of a convolutional net exchange gradients.
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange) -> Train<'a> {
        self.exchange = exchange;
        self
    }
    /// Multiplies in 16 bits in nets that are not transformers, which otherwise take 32.
    #[must_use]
    pub fn mixed(mut self) -> Train<'a> {
        self.mixed = true;
        self
    }
    /// Weights stream to the accelerators, each of which has a copy of the model's activations alone.
    #[must_use]
    pub fn streamed(mut self) -> Train<'a> {
        self.streamed = true;
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
        let question = Question {
            catalog,
            layout: &self.layout,
            exchange: self.exchange,
            mixed: self.mixed,
            searched: self.searched,
            oversized: self.oversized,
        };
        let model = catalog.model(&self.model)?;
        if let Some(net) = &model.convolutional {
            let on = self.on(catalog)?;
            return self.has_room(&on).and_then(|()| nets::convolutional(&question, &on, net, &model.title));
        }
        if let Some(of) = &model.recommendation {
            let on = self.on(catalog)?;
            return self.has_room(&on).and_then(|()| nets::recommends(&question, &on, of, &model.title));
        }
        if self.exchange == Exchange::Broadcast || self.mixed {
            return Err(told(
                "--exchange broadcast, or --mixed, with a transformer".to_owned(),
                "take a convolutional net: alexnet, resnet-50",
            ));
        }
        let job = self.job(catalog)?;
        if self.streamed {
            return streamed::outcome(&question, &job.on(), &job.model.transformer, &job.model.title);
        }
        if self.searched {
            return search::search(catalog, &job, &self.layout, &self.heard());
        }
        if hcl::HclTimes::drives(&job.parts) {
            let gpus = self.room(&job)?;
            return self.by_hcl(catalog, &job, gpus);
        }
        if let Some(beside) = self.beside {
            self.has_operations()?;
            let mut times = self.times(catalog, &job)?;
            let by = self.by_messages.unwrap_or(ByMessages::Flows);
            return beside::outcome(&job, &self.layout, &mut times, (beside, by));
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
        if self.streamed || hcl::HclTimes::drives(&job.parts) {
            return Err(told("a timeline of a step that has none".to_owned(), "leave --trace out, or take a cluster of GPUs"));
        }
        self.answered(catalog, &job, true)
    }

    /// Whether all that is asked is among the operations of a step one by one.
    fn has_operations(&self) -> Result<(), Error> {
        if self.layout.shard.is_some() {
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
        let mut times = self.times(catalog, job)?;
        let step = made(job, &self.layout, &mut times)?;
        let expected = if self.expected { Some(expected::table(&mut times)?) } else { None };
        let gradients = Bytes(2 * parameters_of_rank(&job.model.transformer, &self.layout).0);
        let mut with = |network| {
            times.on(network);
            made(job, &self.layout, &mut times)
        };
        let others = [with(Network::TwiceAsFast)?.parts.total(), with(Network::None)?.parts.total()];
        times.on(Network::AsItIs);
        let compared = times.compared(self.layout.data_group(), gradients)?;
        let mut outcome = shown::outcome(job, &self.layout, &step, (others, compared));
        if let Some(expected) = expected {
            outcome.text("\n").keyed_table("expected", expected);
        }
        if let Some(uneven) = &self.uneven {
            uneven::steps(&step, &self.layout, uneven, &mut outcome)?;
        }
        if let Some(checkpoint) = &self.checkpoint {
            uneven::checkpoints(job, &self.layout, checkpoint, step.parts.total(), &mut outcome);
        }
        if let Some(by) = self.by_messages {
            whole::add(&mut outcome, job, &self.layout, (&step, by), &mut times)?;
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
        let mut outcome = explained::explain(catalog, &job, &self.layout, gpus, asked, &self.heard())?;
        if self.expected {
            let mut times = self.times(catalog, &job)?;
            made(&job, &self.layout, &mut times)?;
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

    /// The GPUs of the job, if there are as many and they have room.
    fn room(&self, job: &Job) -> Result<u32, Error> {
        let gpus = room(&self.layout, &job.parts)?;
        if !self.oversized {
            fits(job, &self.layout)?;
        }
        Ok(gpus)
    }

    /// A step on accelerators whose ports are their own.
    fn by_hcl(&self, catalog: &Catalog, job: &Job, gpus: u32) -> Result<Outcome, Error> {
        let of = |network| {
            let mut times = hcl::HclTimes::new(catalog, &job.parts, gpus, network)?;
            step(&job.model.transformer, &self.layout, &job.roofline, &mut times).map_err(of_step)
        };
        let made = of(Network::AsItIs)?;
        let others = [of(Network::TwiceAsFast)?.parts.total(), of(Network::None)?.parts.total()];
        Ok(shown::outcome(job, &self.layout, &made, (others, None)))
    }

    /// The step as files of other simulators, by name and content.
    ///
    /// # Errors
    /// As [`outcome`](Train::outcome), and operations that the format has no form for.
    pub fn files(self, format: StepFormat) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.has_operations()?;
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let mut times = self.times(catalog, &job)?;
        written::files(&job, &self.layout, &mut times, format)
    }

    /// The times of a job that there is room for.
    fn times<'c>(&self, catalog: &'c Catalog, job: &Job) -> Result<ClusterTimes<'c>, Error> {
        let gpus = self.room(job)?;
        ClusterTimes::new(catalog, job.parts.clone(), gpus)
    }

    fn job(&self, catalog: &Catalog) -> Result<Job, Error> {
        let mut model = Named::of(catalog, &self.model)?;
        model.transformer.sequence = self.sequence.unwrap_or(model.transformer.sequence);
        let On { parts, gpu, roofline } = self.on(catalog)?;
        Ok(Job { model, parts, gpu, roofline })
    }

    fn on(&self, catalog: &Catalog) -> Result<On, Error> {
        let mut parts = self.cluster.resolve_alike(catalog)?;
        if let Some(file) = &self.tuner {
            tuned(&mut parts, file)?;
        }
        let gpu = parts.sole().node.gpu.clone();
        let gpu = gpu.ok_or_else(|| Error::Training {
            message: format!("the nodes of `{}` have no GPUs", parts.name),
            help: "take a cluster with GPUs: fabriscope clusters".to_owned(),
        })?;
        let roofline = Roofline::of(&gpu).ok_or_else(|| Error::Training {
            message: format!("it is not known what `{}` computes", gpu.name),
            help: format!("add [compute] to its part: fabriscope show {} {}", Kind::Gpu, gpu.name),
        })?;
        Ok(On { parts, gpu, roofline })
    }

    /// Whether the cluster has room for the job, whose nets are not transformers.
    fn has_room(&self, on: &On) -> Result<(), Error> {
        if self.streamed {
            return Err(told("weights that stream, of a net that is no transformer".to_owned(), "take a transformer: gpt3-xl"));
        }
        room(&self.layout, &on.parts).map(|_| ())
    }
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
