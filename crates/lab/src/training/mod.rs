//! A step of training on a cluster: what it takes, what of it is the network, and the same message by message.
//!
//! ```text
//!  request (model, layout) + cluster ─▶ job ─┬─▶ time line: groups as fluids that do not meet     (`made`, `answered`)
//!                                            └─▶ messages of all GPUs between nodes, any engine   (`Messages`)
//! ```
//!
//! Source: [`fabriscope_training`] for the step, `fabriscope_training_plan` for its messages.
//! Modelled: transformers on GPUs with NCCL and on accelerators with HCL, convolutional nets, models that recommend, weights that stream.
//! Not modelled: see each of these.

pub mod beside;
pub mod hcl;
pub mod job;
mod nets;
pub mod of_lab;
pub mod shown;
mod streamed;
pub mod tenant;
pub mod times;
pub mod whole;

use fabriscope_catalog::{Catalog, Kind, PartitionEnforcement, ResolvedCluster};
use fabriscope_report::Outcome;
use fabriscope_training::memory::parameters_of_rank;
use fabriscope_training::roofline::Roofline;
use fabriscope_training::{Layout, Step, step};
use fabriscope_units::Bytes;

use crate::bench::BenchRequest;
use crate::error::LabError;
use hcl::HclTimes;
use job::{Job, Named, On, fits, made, of_step, room, told};
use times::{ClusterTimes, Network};

/// How copies of a convolutional net exchange gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// All-reduces of buckets by the library of the GPUs.
    #[default]
    AllReduce,
    /// Stripes to their owners, and broadcasts from them, by the MPI library (CNTK).
    Broadcast,
}

/// A step as a person asks for it, but for the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRequest {
    /// A name of the catalogue.
    pub model: String,
    /// How the job is laid over its GPUs.
    pub layout: Layout,
    /// Tokens of a sequence; those of the model where nothing is said.
    pub sequence: Option<u32>,
    /// How copies of a convolutional net exchange gradients.
    pub exchange: Exchange,
    /// Nets that are not transformers multiply in 16 bits, instead of 32.
    pub mixed: bool,
    /// Weights stream to the accelerators.
    pub streamed: bool,
    /// Goes on where a GPU has too little memory.
    pub oversized: bool,
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

impl TrainingRequest {
    /// A step of this model on one GPU.
    #[must_use]
    pub fn new(model: &str) -> TrainingRequest {
        TrainingRequest {
            model: model.to_owned(),
            layout: Layout::default(),
            sequence: None,
            exchange: Exchange::default(),
            mixed: false,
            streamed: false,
            oversized: false,
        }
    }

    /// The job on a cluster.
    ///
    /// # Errors
    /// No such model, one that is no transformer, GPUs of which nothing is known.
    pub fn job(&self, catalog: &Catalog, parts: &ResolvedCluster) -> Result<Job, LabError> {
        let mut model = Named::of(catalog, &self.model)?;
        model.transformer.sequence = self.sequence.unwrap_or(model.transformer.sequence);
        let On { parts, gpu, roofline } = on(parts)?;
        Ok(Job { model, parts, gpu, roofline })
    }

    /// The GPUs of the job, if there are as many and they have room.
    ///
    /// # Errors
    /// Too few GPUs, too little memory, a layout that does not divide.
    pub fn room(&self, job: &Job) -> Result<u32, LabError> {
        let gpus = room(&self.layout, &job.parts)?;
        if !self.oversized {
            fits(job, &self.layout)?;
        }
        Ok(gpus)
    }

    /// The times of a job that there is room for.
    ///
    /// # Errors
    /// As [`room`](Self::room); GPUs without a library, a fabric that its switches cannot form.
    pub fn times<'c>(&self, catalog: &'c Catalog, job: &Job) -> Result<ClusterTimes<'c>, LabError> {
        let gpus = self.room(job)?;
        ClusterTimes::new(catalog, job.parts.clone(), gpus)
    }

    /// Whether its step is messages between GPUs of transformers by NCCL, which engines run one by one.
    ///
    /// # Errors
    /// No such model.
    pub fn has_messages(&self, catalog: &Catalog, parts: &ResolvedCluster) -> Result<bool, LabError> {
        let transformer = catalog.model(&self.model)?.transformer.is_some();
        Ok(transformer && !self.streamed && !HclTimes::drives(parts))
    }

    /// The step of what is no transformer on GPUs by NCCL or HCL: nets, models that recommend, weights that stream.
    ///
    /// # Errors
    /// As [`time_line`](Self::time_line).
    pub fn other_kinds(&self, catalog: &Catalog, parts: &ResolvedCluster, searched: bool) -> Result<Option<Outcome>, LabError> {
        let (exchange, mixed, oversized) = (self.exchange, self.mixed, self.oversized);
        let question = Question { catalog, layout: &self.layout, exchange, mixed, searched, oversized };
        let model = catalog.model(&self.model)?;
        if model.convolutional.is_some() || model.recommendation.is_some() {
            let on = on(parts)?;
            self.has_room(&on)?;
            if let Some(net) = &model.convolutional {
                return nets::convolutional(&question, &on, net, &model.title).map(Some);
            }
            if let Some(of) = &model.recommendation {
                return nets::recommends(&question, &on, of, &model.title).map(Some);
            }
        }
        if exchange == Exchange::Broadcast || mixed {
            return Err(told(
                "--exchange broadcast, or --mixed, with a transformer".to_owned(),
                "take a convolutional net: alexnet, resnet-50",
            ));
        }
        if !self.streamed {
            return Ok(None);
        }
        let job = self.job(catalog, parts)?;
        streamed::outcome(&question, &job.on(), &job.model.transformer, &job.model.title).map(Some)
    }

    /// A step on accelerators whose ports are their own; nothing on others.
    ///
    /// # Errors
    /// As [`time_line`](Self::time_line).
    pub fn by_hcl(&self, catalog: &Catalog, job: &Job) -> Result<Option<Outcome>, LabError> {
        if !HclTimes::drives(&job.parts) {
            return Ok(None);
        }
        let gpus = self.room(job)?;
        let of = |network| {
            let mut times = HclTimes::new(catalog, &job.parts, gpus, network)?;
            step(&job.model.transformer, &self.layout, &job.roofline, &mut times).map_err(of_step)
        };
        let made = of(Network::AsItIs)?;
        let others = [of(Network::TwiceAsFast)?.parts.total(), of(Network::None)?.parts.total()];
        Ok(Some(shown::outcome(job, &self.layout, &made, (others, None))))
    }

    /// The step by the time line, part by part.
    ///
    /// # Errors
    /// No such model, GPUs of which nothing is known, a layout that does not divide, too few GPUs, too little memory.
    pub fn time_line(&self, catalog: &Catalog, parts: &ResolvedCluster) -> Result<Outcome, LabError> {
        if let Some(outcome) = self.other_kinds(catalog, parts, false)? {
            return Ok(outcome);
        }
        let job = self.job(catalog, parts)?;
        if let Some(outcome) = self.by_hcl(catalog, &job)? {
            return Ok(outcome);
        }
        let mut times = self.times(catalog, &job)?;
        Ok(answered(&job, &self.layout, &mut times)?.1)
    }

    /// Whether the cluster has room for the job, whose nets are not transformers.
    fn has_room(&self, on: &On) -> Result<(), LabError> {
        if self.streamed {
            return Err(told("weights that stream, of a net that is no transformer".to_owned(), "take a transformer: gpt3-xl"));
        }
        room(&self.layout, &on.parts).map(|_| ())
    }
}

/// A step by the time line, and as people and programs read it.
///
/// # Errors
/// A layout that does not divide, what the cluster cannot do.
pub fn answered(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>) -> Result<(Step, Outcome), LabError> {
    let step = made(job, layout, times)?;
    let gradients = Bytes(2 * parameters_of_rank(&job.model.transformer, layout).0);
    let mut with = |network| {
        times.on(network);
        made(job, layout, times)
    };
    let others = [with(Network::TwiceAsFast)?.parts.total(), with(Network::None)?.parts.total()];
    times.on(Network::AsItIs);
    let compared = times.compared(layout.data_group(), gradients)?;
    let outcome = shown::outcome(job, layout, &step, (others, compared));
    Ok((step, outcome))
}

/// What a job runs on: GPUs of one kind, of which it is known what they compute.
fn on(parts: &ResolvedCluster) -> Result<On, LabError> {
    if parts.uniform().is_none() {
        return Err(told(format!("a job on the unlike nodes of `{}`", parts.name), "take one of its groups: CLUSTER:GROUP"));
    }
    let gpu = parts.sole().node.gpu.clone();
    let gpu = gpu.ok_or_else(|| LabError::Training {
        message: format!("the nodes of `{}` have no GPUs", parts.name),
        help: "take a cluster with GPUs: fabriscope clusters".to_owned(),
    })?;
    let roofline = Roofline::of(&gpu).ok_or_else(|| LabError::Training {
        message: format!("it is not known what `{}` computes", gpu.name),
        help: format!("add [compute] to its part: fabriscope show {} {}", Kind::Gpu, gpu.name),
    })?;
    Ok(On { parts: parts.clone(), gpu, roofline })
}

/// What a benchmark prints on nodes that nobody shares.
fn benched(
    catalog: &Catalog,
    tool: &str,
    parts: &ResolvedCluster,
    (nodes, each): (u32, u32),
    options: Vec<String>,
) -> Result<Outcome, LabError> {
    // Keys of partitions take no time, and a benchmark asks for the default one.
    let mut parts = parts.clone();
    parts.partitions.clear();
    parts.partition_enforcement = PartitionEnforcement::Off;
    let request = BenchRequest { options, nodes: Some(nodes), per_node: Some(each), ..BenchRequest::named(tool)? };
    Ok(request.set_up(catalog, parts)?.run()?.outcome())
}
