//! The question what a served model gives: times to tokens and between them by load, and what of it is the network.

mod shown;
mod times;

use fabriscope_catalog::{Catalog, Gpu, Kind, ResolvedCluster, Shared};
use fabriscope_engine::Cluster;
use fabriscope_engine_flow::adapters_of_gpus;
use fabriscope_fabric::routing::{Routing, Sharing};
use fabriscope_inference::iteration::Costs;
use fabriscope_inference::memory::{Room, room};
use fabriscope_inference::{Arrivals, Lengths, Pools, Request, Serving, Transfer, request, simulate, trace, transfer};
use fabriscope_report::Outcome;
use fabriscope_units::Time;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;
use crate::train::{Named, Network};
use times::{MessagePaths, PoolTimes, Wires};

/// What a served model gives: `infer("llama3-70b", "azure-ndh100v5:1").serving(serving)`. A model is a name of the catalogue.
#[must_use]
pub fn infer(model: &str, cluster: impl Into<OnCluster>) -> Infer<'static> {
    Infer {
        catalog: None,
        model: model.to_owned(),
        cluster: cluster.into(),
        serving: Serving::default(),
        second: None,
        transfer: Transfer::default(),
        shifted: false,
        library: false,
        loads: Vec::new(),
        lengths: Lengths { input: 1024, output: 128, spread: 0.0 },
        requests: 500,
        trace: None,
        seed: 1,
        progress: None,
    }
}

/// A served model, to be asked; made by [`infer`].
pub struct Infer<'a> {
    catalog: Option<&'a Catalog>,
    model: String,
    cluster: OnCluster,
    serving: Serving,
    second: Option<(u32, u32, Serving)>,
    transfer: Transfer,
    shifted: bool,
    library: bool,
    loads: Vec<Load>,
    lengths: Lengths,
    requests: u32,
    trace: Option<(String, String)>,
    seed: u64,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

/// How many requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Requests that are made up.
    Made(Arrivals),
    /// Those of the trace, so many times as fast as they came.
    Traced(f64),
}

/// A served model with all that it rests on.
struct Job {
    model: Named,
    parts: ResolvedCluster,
    gpu: Shared<Gpu>,
    /// The routing in whose place fluids are spread.
    spread: Option<Routing>,
    gpus: u32,
    per_node: u32,
    serving: Serving,
    room: Room,
    second: Option<Second>,
}

/// The pool that generates.
struct Second {
    /// Its first GPU.
    from: u32,
    serving: Serving,
    room: Room,
}

impl<'a> Infer<'a> {
    /// How the model is laid over GPUs, and the limits of the server; of the pool that reads prompts, where there are two.
    #[must_use]
    pub fn serving(mut self, serving: Serving) -> Infer<'a> {
        self.serving = serving;
        self
    }
    /// Two pools: so many nodes read prompts, so many generate, with as many copies as they have room for.
    #[must_use]
    pub fn pools(mut self, reading: u32, generating: u32, serving: Serving) -> Infer<'a> {
        self.second = Some((reading, generating, serving));
        self
    }
    /// When keys and values leave for the second pool.
    #[must_use]
    pub fn transfer(mut self, transfer: Transfer) -> Infer<'a> {
        self.transfer = transfer;
        self
    }
    /// Ranks of the second pool lie half a node further than those that send to them, and tokens go straight to the GPUs of their experts:
    /// messages change rails.
    #[must_use]
    pub fn across_rails(mut self) -> Infer<'a> {
        self.shifted = true;
        self
    }
    /// The library of collectives sums within nodes as well, instead of kernels of the server.
    #[must_use]
    pub fn by_library(mut self) -> Infer<'a> {
        self.library = true;
        self
    }
    /// How many requests come; one row each.
    #[must_use]
    pub fn loads(mut self, loads: impl IntoIterator<Item = Load>) -> Infer<'a> {
        self.loads = loads.into_iter().collect();
        self
    }
    /// How long they are, and how many.
    #[must_use]
    pub fn requests(mut self, lengths: Lengths, count: u32) -> Infer<'a> {
        (self.lengths, self.requests) = (lengths, count);
        self
    }
    /// Requests as they came somewhere: the name and the text of a trace. No more than the number of requests are taken.
    #[must_use]
    pub fn trace(mut self, file: impl Into<String>, text: impl Into<String>) -> Infer<'a> {
        self.trace = Some((file.into(), text.into()));
        self
    }
    /// The seed of arrivals and lengths.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Infer<'a> {
        self.seed = seed;
        self
    }
    /// Hears how many loads of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + 'a) -> Infer<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Infer<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Answers it.
    ///
    /// # Errors
    /// No such model or cluster, GPUs of which nothing is known, a layout that does not divide, too few GPUs, too little memory, a trace that
    /// cannot be read.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let job = self.job(catalog)?;
        let trace = self.trace.as_ref().map(|(file, text)| trace::read(file, text)).transpose()?;
        let default = if trace.is_some() { Load::Traced(1.0) } else { Load::Made(Arrivals::Poisson(1.0)) };
        let loads = if self.loads.is_empty() { vec![default] } else { self.loads.clone() };
        let (mut first, mut second) = self.costs(catalog, &job)?;
        let mut rows = Vec::new();
        for (done, load) in loads.iter().enumerate() {
            self.heard(done, loads.len());
            let (requests, most) = self.made(*load, trace.as_ref());
            rows.push((*load, requests.len(), self.run(&job, (&mut first, second.as_mut()), (&requests, most))?));
        }
        let Some((last, _, outcome)) = rows.last() else { return Ok(Outcome::new()) };
        let mut others = Vec::new();
        let (requests, most) = self.made(*last, trace.as_ref());
        for network in [Network::TwiceAsFast, Network::None, Network::AsItIs] {
            first.change(|times| times.on(network));
            if let Some(second) = &mut second {
                second.change(|times| times.on(network));
            }
            if network != Network::AsItIs {
                others.push(self.run(&job, (&mut first, second.as_mut()), (&requests, most))?);
            }
        }
        let shown = shown::Results { rows: &rows, others: &others, trace: trace.as_ref(), requests: &requests };
        let iterations = shown::iterations(outcome, &requests, (&mut first, second.as_mut()))?;
        Ok(shown.outcome(&job, iterations))
    }

    fn heard(&self, done: usize, all: usize) {
        if let Some(progress) = &self.progress {
            progress(done, all);
        }
    }

    fn job(&self, catalog: &Catalog) -> Result<Job, Error> {
        let model = Named::of(catalog, &self.model)?;
        let (parts, spread) = spread(self.cluster.resolve_alike(catalog)?);
        let node = &parts.sole().node;
        let per_node = node.machine().map_or(0, |machine| machine.gpus().len() as u32);
        let gpu = node.gpu.clone().ok_or_else(|| Error::Inference {
            message: format!("the nodes of `{}` have no GPUs", parts.name),
            help: "take a cluster with GPUs: fabriscope clusters".to_owned(),
        })?;
        if gpu.compute.is_none() {
            return Err(Error::Inference {
                message: format!("it is not known what `{}` computes", gpu.name),
                help: format!("add [compute] to its part: fabriscope show {} {}", Kind::Gpu, gpu.name),
            });
        }
        let there = parts.nodes() * per_node;
        let mut serving = self.serving.clone();
        let mut second = None;
        let mut gpus = serving.gpus();
        if let Some((reading, generating, other)) = &self.second {
            serving.copies = copies(&serving, *reading, per_node)?;
            let other = Serving { copies: copies(other, *generating, per_node)?, ..other.clone() };
            gpus = u64::from(reading.saturating_add(*generating)) * u64::from(per_node);
            other.check(&model.transformer)?;
            let room = room(&model.transformer, &other, &gpu)?;
            second = Some(Second { from: reading.saturating_mul(per_node), serving: other, room });
        }
        serving.check(&model.transformer)?;
        let gpus = u32::try_from(gpus).ok().filter(|gpus| *gpus <= there).ok_or_else(|| Error::Inference {
            message: format!("{gpus} GPUs for the server, and `{}` has {there}", parts.name),
            help: "make tensor · pipeline · copies, or the nodes of both pools, at most as many as there are; or take more nodes: CLUSTER:NODES"
                .to_owned(),
        })?;
        let room = room(&model.transformer, &serving, &gpu)?;
        Ok(Job { model, gpu, spread, gpus, per_node, serving, room, second, parts })
    }

    /// What iterations of both pools take.
    fn costs<'j>(&self, catalog: &'j Catalog, job: &'j Job) -> Result<(Costs<'j, PoolTimes<'j>>, Option<Costs<'j, PoolTimes<'j>>>), Error> {
        let model = &job.model.transformer;
        let unknown = || Error::Inference {
            message: format!("it is not known what `{}` computes", job.gpu.name),
            help: format!("add [compute] to its part: fabriscope show {} {}", Kind::Gpu, job.gpu.name),
        };
        let pool = |serving: &'j Serving, wires| {
            // A job has its groups side by side.
            let gpus = u32::try_from(serving.gpus()).unwrap_or(u32::MAX);
            let ways = MessagePaths { direct: !self.library, crossed: self.shifted, wires };
            let times = PoolTimes::new(catalog, &job.parts, (&job.gpu, gpus, job.per_node), ways)?;
            Costs::new(model, serving, &job.gpu, times).ok_or_else(unknown)
        };
        let Some(second) = &job.second else { return Ok((pool(&job.serving, None)?, None)) };
        let ways = transfer::ways(model, &job.serving, &second.serving, self.shifted);
        let copies = (job.serving.gpus_of_copy(), second.serving.gpus_of_copy());
        let wires = Wires::new(&job.parts, (job.gpus, job.per_node, second.from), copies, ways)?;
        Ok((pool(&job.serving, Some(wires))?, Some(pool(&second.serving, None)?)))
    }

    /// The requests of a load.
    fn made(&self, load: Load, trace: Option<&trace::Trace>) -> (Vec<Request>, Option<u32>) {
        match (load, trace) {
            (Load::Traced(faster), Some(trace)) => {
                let sooner =
                    |request: &Request| Request { arrival: Time::from_ps((request.arrival.as_ps() as f64 / faster) as u64), ..*request };
                (trace.requests.iter().take(self.requests as usize).map(sooner).collect(), None)
            }
            (Load::Made(arrivals), Some(trace)) => {
                // Lengths of the trace, other arrivals.
                let made = request::requests(arrivals, self.lengths, self.requests.min(trace.requests.len() as u32), self.seed);
                let lengths = made.iter().zip(&trace.requests);
                (lengths.map(|(made, traced)| Request { arrival: made.arrival, ..*traced }).collect(), arrivals.most())
            }
            (Load::Made(arrivals), None) => (request::requests(arrivals, self.lengths, self.requests, self.seed), arrivals.most()),
            (Load::Traced(_), None) => (Vec::new(), None),
        }
    }

    fn run<'j>(
        &self,
        job: &'j Job,
        (first, second): (&mut Costs<'j, PoolTimes<'j>>, Option<&mut Costs<'j, PoolTimes<'j>>>),
        (requests, most): (&[Request], Option<u32>),
    ) -> Result<fabriscope_inference::Outcome, Error> {
        let blocks = job.second.as_ref().map_or(0, |second| second.room.blocks);
        let second = second.map(|costs| (costs, blocks));
        let pools = Pools { model: &job.model.transformer, first, blocks: job.room.blocks, second, transfer: self.transfer };
        simulate(requests, most, pools)
    }
}

/// Where routing looks at queues, fluids take the shortest paths alone, and no detours around links that are full: what they move is a lower
/// bound.
fn spread(mut parts: ResolvedCluster) -> (ResolvedCluster, Option<Routing>) {
    let own = parts.routing;
    if !matches!(own.sharing(), Sharing::Load | Sharing::Pause) {
        return (parts, None);
    }
    for routing in [Routing::Spray, Routing::Minimal] {
        parts.routing = routing;
        if Cluster::new(parts.clone()).is_ok_and(|cluster| adapters_of_gpus(&cluster, 1).is_ok()) {
            return (parts, Some(own));
        }
    }
    parts.routing = own;
    (parts, None)
}

/// Copies that nodes have room for.
fn copies(serving: &Serving, nodes: u32, per_node: u32) -> Result<u32, Error> {
    let (gpus, each) = (nodes.saturating_mul(per_node), serving.gpus_of_copy());
    if each == 0 || gpus == 0 || !gpus.is_multiple_of(each) {
        return Err(Error::Inference {
            message: format!("copies of {each} GPUs in a pool of {nodes} nodes with {per_node} each"),
            help: "make --tp times --pp a divisor of the GPUs of each pool".to_owned(),
        });
    }
    Ok(gpus / each)
}
