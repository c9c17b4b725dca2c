//! The questions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use fabriscope_lab::devices::DeviceOptions;
use pyo3::prelude::*;

use crate::cluster::{Catalog, Cluster};
use crate::errors::{exception, raised};
use crate::outcome::Outcome;
use crate::prototype;
use crate::waiting::answer;

/// Runs the command line of the program, which these words start again; gives its exit status.
#[pyfunction]
pub fn main(py: Python<'_>, program: Vec<OsString>, words: Vec<OsString>) -> u8 {
    py.detach(|| fabriscope_cli::main_as(program, words))
}

/// What a command line of the program finds, without printing it.
#[pyfunction]
#[pyo3(signature = (words, catalog = None))]
pub fn command(py: Python<'_>, words: Vec<OsString>, catalog: Option<&Bound<'_, Catalog>>) -> PyResult<Outcome> {
    let (catalog, ending) = crate::cluster::ended(py, catalog)?;
    let done = answer(py, None, ending, move |_| fabriscope_cli::outcome(words, Arc::new(catalog)))?;
    done.map(Outcome).map_err(|report| exception(py, "FabriscopeError", report.as_ref()))
}

/// Where ranks are within a node, as keyword arguments.
#[derive(FromPyObject)]
pub struct Devices {
    #[pyo3(item)]
    bind: Option<String>,
    #[pyo3(item)]
    intra_node: Option<String>,
    #[pyo3(item)]
    gpu_aware: Option<String>,
    #[pyo3(item)]
    gpudirect: Option<String>,
}

impl From<Devices> for DeviceOptions {
    fn from(given: Devices) -> DeviceOptions {
        let Devices { bind, intra_node, gpu_aware, gpudirect } = given;
        DeviceOptions { bind, intra_node, gpu_aware, gpudirect }
    }
}

/// What a job of a benchmark looks like, as keyword arguments.
#[derive(FromPyObject)]
pub struct Job {
    #[pyo3(item)]
    nodes: Option<u32>,
    #[pyo3(item)]
    ranks_per_node: Option<u32>,
    #[pyo3(item)]
    placement: Option<String>,
    #[pyo3(item)]
    hosts: Option<String>,
    #[pyo3(item)]
    transport: Option<String>,
    #[pyo3(item)]
    noise: Option<String>,
    #[pyo3(item)]
    engine: Option<String>,
    #[pyo3(item)]
    threads: Option<usize>,
    #[pyo3(item)]
    seed: Option<u64>,
}

/// What a benchmark prints on a cluster.
#[pyfunction]
#[pyo3(signature = (tool, cluster, options, job, devices, progress = None))]
pub fn bench(
    py: Python<'_>,
    tool: &str,
    cluster: &Bound<'_, Cluster>,
    options: Vec<String>,
    job: Job,
    devices: Devices,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let (parts, ending) = cluster.get().ended();
    let catalog = Arc::clone(&cluster.get().catalog);
    let mut question = fabriscope::bench(tool, parts).args(options).devices(devices.into());
    question = job.nodes.into_iter().fold(question, fabriscope::Bench::nodes);
    question = job.ranks_per_node.into_iter().fold(question, fabriscope::Bench::ranks_per_node);
    question = job.placement.iter().fold(question, |question, word| question.placement(word));
    question = job.hosts.iter().fold(question, |question, hosts| question.hosts(hosts));
    question = job.transport.iter().fold(question, |question, word| question.transport(word));
    question = job.noise.iter().fold(question, |question, noise| question.noise(noise));
    question = job.engine.iter().fold(question, |question, engine| question.engine(engine));
    question = job.threads.into_iter().fold(question, fabriscope::Bench::threads);
    question = job.seed.into_iter().fold(question, fabriscope::Bench::seed);
    let done = answer(py, progress, ending, move |heard| question.progress(heard).catalog(&catalog).outcome())?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}

/// What happens in an experiment file.
#[pyfunction]
#[pyo3(signature = (lab, settings, catalog = None))]
pub fn run(py: Python<'_>, lab: PathBuf, settings: RunOptions, catalog: Option<&Bound<'_, Catalog>>) -> PyResult<Outcome> {
    let (catalog, ending) = crate::cluster::ended(py, catalog)?;
    let trouble = ending.trouble.clone();
    let mut question = fabriscope::run(lab);
    question = settings.routing.into_iter().fold(question, |question, choose| question.routed(prototype::routing(choose, trouble.clone())));
    question = settings.seed.into_iter().fold(question, fabriscope::Run::seed);
    question = settings.threads.into_iter().fold(question, fabriscope::Run::threads);
    question = settings.step.iter().fold(question, |question, step| question.series(step));
    let done = answer(py, None, ending, move |_| question.catalog(&catalog).outcome())?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}

/// How a lab is run, as keyword arguments.
#[derive(FromPyObject)]
pub struct RunOptions {
    #[pyo3(item)]
    seed: Option<u64>,
    #[pyo3(item)]
    threads: Option<usize>,
    #[pyo3(item)]
    step: Option<String>,
    #[pyo3(item)]
    routing: Option<Py<PyAny>>,
}

/// Where the time of one message goes.
#[pyfunction]
#[pyo3(signature = (tool, cluster, options, job, devices, changes, progress = None))]
#[expect(clippy::too_many_arguments, reason = "the Python half of the package calls it, with all that it knows")]
pub fn explain(
    py: Python<'_>,
    tool: &str,
    cluster: &Bound<'_, Cluster>,
    options: Vec<String>,
    job: ExplainJob,
    devices: Devices,
    changes: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let (parts, ending) = cluster.get().ended();
    let (catalog, tool) = (Arc::clone(&cluster.get().catalog), tool.to_owned());
    let devices = DeviceOptions::from(devices);
    let done = answer(py, progress, ending, move |heard| {
        let mut question = fabriscope::explain(&tool, parts).args(options).devices(devices).progress(heard);
        question = job.size.into_iter().fold(question, fabriscope::Explain::size);
        question = job.nodes.into_iter().fold(question, fabriscope::Explain::nodes);
        question = job.ranks_per_node.into_iter().fold(question, fabriscope::Explain::ranks_per_node);
        question = job.seed.into_iter().fold(question, fabriscope::Explain::seed);
        if !changes {
            question = question.without_changes();
        }
        question.catalog(&catalog).outcome()
    })?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}

/// What is explained, as keyword arguments.
#[derive(FromPyObject)]
pub struct ExplainJob {
    #[pyo3(item)]
    size: Option<u64>,
    #[pyo3(item)]
    nodes: Option<u32>,
    #[pyo3(item)]
    ranks_per_node: Option<u32>,
    #[pyo3(item)]
    seed: Option<u64>,
}

/// What a comparison is of, as keyword arguments.
#[derive(FromPyObject)]
pub struct Comparison {
    #[pyo3(item)]
    measured: Option<PathBuf>,
    #[pyo3(item)]
    settings: Option<PathBuf>,
    #[pyo3(item)]
    on: Option<String>,
    #[pyo3(item)]
    long: bool,
    #[pyo3(item)]
    points: bool,
    #[pyo3(item)]
    seed: Option<u64>,
}

/// How far predictions are from measurements.
#[pyfunction]
#[pyo3(signature = (tables, given, catalog = None, progress = None))]
pub fn validate(
    py: Python<'_>,
    tables: Vec<String>,
    given: Comparison,
    catalog: Option<&Bound<'_, Catalog>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let (catalog, ending) = crate::cluster::ended(py, catalog)?;
    let done = answer(py, progress, ending, move |heard| {
        let mut question = fabriscope::validate(tables).progress(heard);
        question = given.measured.into_iter().fold(question, fabriscope::Validate::measured);
        question = given.settings.into_iter().fold(question, fabriscope::Validate::settings);
        question = given.on.iter().fold(question, |question, on| question.on(on));
        question = given.seed.into_iter().fold(question, fabriscope::Validate::seed);
        if given.long {
            question = question.with_long_rows();
        }
        if given.points {
            question = question.with_points();
        }
        question.catalog(&catalog).outcome()
    })?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}
