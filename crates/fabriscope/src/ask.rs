//! The four questions, with their options.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use fabriscope_catalog::{Catalog, CatalogError};
use fabriscope_explain::{Changes, ExplainRequest};
use fabriscope_fabric::RoutePrototype;
use fabriscope_lab::LabError;
use fabriscope_lab::bench::{BenchEngine, BenchRequest, Listener, Said, Stack, noise, placement};
use fabriscope_lab::devices::DeviceOptions;
use fabriscope_lab::run::RunSettings;
use fabriscope_report::Outcome;
use fabriscope_units::{Remedy, Span};

use crate::error::Error;
use crate::on_cluster::OnCluster;

/// The catalogue that comes with the library, read once.
///
/// # Errors
/// A fault in it; its tests rule that out.
pub fn embedded() -> Result<&'static Arc<Catalog>, CatalogError> {
    static CATALOG: OnceLock<Result<Arc<Catalog>, CatalogError>> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().map(Arc::new)).as_ref().map_err(Clone::clone)
}

/// Where clusters and parts come from: a catalogue of the caller's, or the one that comes with the library.
pub(crate) fn catalog(given: Option<&Catalog>) -> Result<&Catalog, Error> {
    match given {
        Some(catalog) => Ok(catalog),
        None => Ok(embedded()?),
    }
}

/// What a benchmark program prints on a cluster: `bench("osu_latency", "ri2")`. A cluster is a name of the catalogue or a
/// TOML file, with `:nodes` if another number of nodes is wanted.
#[must_use]
pub fn bench(tool: &str, cluster: impl Into<OnCluster>) -> Bench<'static> {
    Bench { tool: tool.to_owned(), cluster: cluster.into(), ..Bench::default() }
}

/// A benchmark program, to be run; made by [`bench()`].
#[derive(Default)]
pub struct Bench<'a> {
    catalog: Option<&'a Catalog>,
    tool: String,
    cluster: OnCluster,
    args: Vec<String>,
    transport: Option<String>,
    nodes: Option<u32>,
    ranks_per_node: Option<u32>,
    placement: Option<String>,
    hosts: Option<String>,
    devices: DeviceOptions,
    noise: Option<String>,
    file_system: Option<String>,
    engine: Option<String>,
    threads: Option<usize>,
    seed: Option<u64>,
    progress: Option<Box<dyn Fn(usize, usize) + Send>>,
}

impl<'a> Bench<'a> {
    /// The tool's own options, as on its command line.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Bench<'a> {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
    /// What the OSU benchmarks run over: `verbs` or `tcp`.
    #[must_use]
    pub fn transport(mut self, transport: &str) -> Bench<'a> {
        self.transport = Some(transport.to_owned());
        self
    }
    /// Nodes of the job.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Bench<'a> {
        self.nodes = Some(nodes);
        self
    }
    /// Ranks on each node.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Bench<'a> {
        self.ranks_per_node = Some(ranks);
        self
    }
    /// Which nodes: `same_leaf`, `across` or `scattered`.
    #[must_use]
    pub fn placement(mut self, placement: &str) -> Bench<'a> {
        self.placement = Some(placement.to_owned());
        self
    }
    /// The hosts themselves, on an imported fabric: `gpu[01-04],gpu20`.
    #[must_use]
    pub fn hosts(mut self, hosts: &str) -> Bench<'a> {
        self.hosts = Some(hosts.to_owned());
        self
    }
    /// Where ranks are within a node, and how the library moves bytes there.
    #[must_use]
    pub fn devices(mut self, devices: DeviceOptions) -> Bench<'a> {
        self.devices = devices;
        self
    }
    /// Interruptions of every core by the operating system: `1ms:10us` is one every 1 ms that lasts 10 us.
    #[must_use]
    pub fn noise(mut self, noise: &str) -> Bench<'a> {
        self.noise = Some(noise.to_owned());
        self
    }
    /// The file system of an application's checkpoints: a name of the catalogue or a TOML file; the first that the cluster mounts where
    /// nothing is said.
    #[must_use]
    pub fn file_system(mut self, name: &str) -> Bench<'a> {
        self.file_system = Some(name.to_owned());
        self
    }
    /// What carries collective benchmarks of MPI: `packet`, `flow` or `auto`.
    #[must_use]
    pub fn engine(mut self, engine: &str) -> Bench<'a> {
        self.engine = Some(engine.to_owned());
        self
    }
    /// Cores for one run of packets between many ranks; the result does not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Bench<'a> {
        self.threads = Some(threads);
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Bench<'a> {
        self.seed = Some(seed);
        self
    }
    /// Hears how many rows of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Send + 'static) -> Bench<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog<'b>(self, catalog: &'b Catalog) -> Bench<'b>
    where
        'a: 'b,
    {
        Bench { catalog: Some(catalog), ..self }
    }

    /// Runs it.
    ///
    /// # Errors
    /// No such tool or cluster, options that the tool or the cluster does not have.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let request = BenchRequest {
            options: self.args,
            stack: self.transport.as_deref().map(Stack::parse).transpose()?.unwrap_or_default(),
            nodes: self.nodes,
            per_node: self.ranks_per_node,
            placement: self.placement.as_deref().map(placement).transpose()?,
            hosts: self.hosts,
            devices: self.devices,
            noise: self.noise.as_deref().map(noise).transpose()?,
            engine: self.engine.as_deref().map(BenchEngine::parse).transpose()?.unwrap_or_default(),
            threads: self.threads.unwrap_or(1).max(1),
            file_system: self.file_system,
            seed: self.seed.unwrap_or(1),
            ..BenchRequest::named(&self.tool)?
        };
        let listener = self.progress.map(|heard| Box::new(move |said: Said<'_>| heard(said.done, said.all)) as Listener);
        let done = request.set_up(catalog, self.cluster.resolve(catalog)?)?.run_heard(listener)?;
        crate::picture::drawn(catalog, &done)
    }
}

/// What happens in an experiment file: `run("labs/incast-8.toml")`.
#[must_use]
pub fn run(lab: impl Into<PathBuf>) -> Run<'static> {
    Run { catalog: None, lab: lab.into(), settings: RunSettings::default(), step: None, routing: None }
}

/// An experiment, to be run; made by [`run`].
#[derive(Debug, Clone)]
pub struct Run<'a> {
    catalog: Option<&'a Catalog>,
    lab: PathBuf,
    settings: RunSettings,
    step: Option<String>,
    routing: Option<RoutePrototype>,
}

impl<'a> Run<'a> {
    /// Seed of everything random; the lab's by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Run<'a> {
        self.settings.seed = Some(seed);
        self
    }
    /// Cores for one run of the packet engine on a large fabric; the result does not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Run<'a> {
        self.settings.threads = threads.max(1);
        self
    }
    /// Packets go where this says, among the ways of the routing of the lab's cluster; schemes with a routing of their own keep that.
    #[must_use]
    pub fn routed(mut self, prototype: RoutePrototype) -> Run<'a> {
        self.routing = Some(prototype);
        self
    }
    /// Looks at queues and rates at every step of this length, such as `1us`; the outcome has the table `series`.
    #[must_use]
    pub fn series(mut self, step: &str) -> Run<'a> {
        self.step = Some(step.to_owned());
        self
    }
    /// Adds pictures of the links; a pattern is run a second time for their loads over time.
    #[must_use]
    pub fn drawn(mut self) -> Run<'a> {
        self.settings.drawn = true;
        self
    }
    /// All that can be said of a run.
    #[must_use]
    pub fn settings(mut self, settings: RunSettings) -> Run<'a> {
        self.settings = settings;
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog<'b>(self, catalog: &'b Catalog) -> Run<'b>
    where
        'a: 'b,
    {
        Run { catalog: Some(catalog), ..self }
    }

    /// Runs it.
    ///
    /// # Errors
    /// A fault in the file, or what the engine does not do.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let mut lab = fabriscope_lab::load(catalog, &self.lab)?;
        lab.cluster.route_prototype = self.routing.or(lab.cluster.route_prototype);
        let mut settings = self.settings;
        if let Some(step) = &self.step {
            let told = |help: String| LabError::refused(format!("a series with steps of `{step}`"), help);
            let step = Span::parse(step).map_err(|error| told(error.in_full()))?;
            if step == Span::ZERO {
                return Err(told("write a time such as 10us".to_owned()).into());
            }
            settings.series = Some(step);
        }
        Ok(fabriscope_lab::run::run(catalog, &lab, &settings)?.outcome(&lab))
    }
}

/// Where the time of one message or of a whole operation of a tool goes on a cluster: `explain("ib_write_lat", "ri2")`.
#[must_use]
pub fn explain(tool: &str, cluster: impl Into<OnCluster>) -> Explain<'static> {
    let request = ExplainRequest { tool: tool.to_owned(), seed: 1, ..ExplainRequest::default() };
    Explain { catalog: None, cluster: cluster.into(), request, progress: None }
}

/// A message, to be explained; made by [`explain`].
pub struct Explain<'a> {
    catalog: Option<&'a Catalog>,
    cluster: OnCluster,
    request: ExplainRequest,
    progress: Option<Box<dyn Fn(usize, usize) + 'a>>,
}

impl<'a> Explain<'a> {
    /// The tool's own options.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Explain<'a> {
        self.request.options.extend(args.into_iter().map(Into::into));
        self
    }
    /// Message size in bytes.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Explain<'a> {
        self.request.size = Some(bytes);
        self
    }
    /// Nodes of the job.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Explain<'a> {
        self.request.nodes = Some(nodes);
        self
    }
    /// Ranks on each node, of collective operations of MPI.
    #[must_use]
    pub fn ranks_per_node(mut self, ranks: u32) -> Explain<'a> {
        self.request.per_node = Some(ranks);
        self
    }
    /// Where ranks are within a node, and how the library moves bytes there.
    #[must_use]
    pub fn devices(mut self, devices: DeviceOptions) -> Explain<'a> {
        self.request.devices = devices;
        self
    }
    /// The library beside which an application is set, as `library=cray-mpich-ucx`.
    #[must_use]
    pub fn against(mut self, library: &str) -> Explain<'a> {
        self.request.against = Some(library.to_owned());
        self
    }
    /// Which engine runs an application: `packet`, `flow` or `auto`.
    ///
    /// # Errors
    /// There is no such engine.
    pub fn engine(mut self, engine: &str) -> Result<Explain<'a>, Error> {
        self.request.engine = BenchEngine::parse(engine)?;
        Ok(self)
    }
    /// Skips the runs with one thing changed at a time.
    #[must_use]
    pub fn without_changes(mut self) -> Explain<'a> {
        self.request.changes = Changes::Left;
        self
    }
    /// Seed of everything random; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Explain<'a> {
        self.request.seed = seed;
        self
    }
    /// Hears how many runs of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + 'a) -> Explain<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> Explain<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Explains it.
    ///
    /// # Errors
    /// No such tool or cluster, a tool that cannot be followed.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let catalog = catalog(self.catalog)?;
        let parts = self.cluster.resolve_alike(catalog)?;
        let heard = |done: usize, all: usize| {
            if let Some(progress) = &self.progress {
                progress(done, all);
            }
        };
        Ok(fabriscope_explain::explain(&self.request, catalog, &parts, &heard)?)
    }
}
