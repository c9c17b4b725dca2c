//! A file for NCCL's example tuner: of each operation and range of sizes what is the fastest of all that the library has on a cluster.
//!
//! Every algorithm and protocol of the library's table is run by packets as nccl-tests run it, with as many channels as the library takes;
//! then the fastest with half and with twice as many. A line reaches from the geometric middle between two sizes to the next one.
//! Not modelled: groups of operations, registered buffers.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::launch::{Launch, layout_of};
use fabriscope_nccl::{Algorithm, Operation, Protocol, Rule, Rules, Tuner};
use fabriscope_platform::Layout;
use fabriscope_platform::nccl::Library;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::Tool;
use fabriscope_units::{Bytes, Remedy, Span};
use rayon::prelude::*;

use crate::ask::catalog;
use crate::error::Error;
use crate::on_cluster::OnCluster;

/// By what NCCL should choose on a cluster: `tuner_file("dgx-h100-ndr").nodes(2)`; made into a file of its example tuner.
#[must_use]
pub fn tuner_file(cluster: impl Into<OnCluster>) -> TunerFile<'static> {
    TunerFile { catalog: None, cluster: cluster.into(), nodes: None, operations: USUAL.to_vec(), sizes: SIZES, progress: None }
}

/// A file for NCCL's example tuner, to be asked for; made by [`tuner_file`].
pub struct TunerFile<'a> {
    catalog: Option<&'a Catalog>,
    cluster: OnCluster,
    nodes: Option<u32>,
    operations: Vec<Operation>,
    sizes: (Bytes, Bytes),
    progress: Option<Box<dyn Fn(usize, usize) + Send + Sync + 'a>>,
}

/// What is run: an operation of a size by an algorithm with a protocol and so many channels.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidate {
    operation: Operation,
    bytes: Bytes,
    algorithm: Algorithm,
    protocol: Protocol,
    channels: u32,
}

/// A size of an operation, with the fastest and what the library would take.
struct Found {
    best: (Candidate, Span),
    own: (Candidate, Option<Span>),
    /// What the library thinks that the fastest takes.
    estimate: Span,
}

/// The library on the nodes of the job.
struct Bench<'a> {
    parts: &'a ResolvedCluster,
    layout: Layout,
    tuner: Tuner,
    most: [u32; 2],
}

impl<'a> TunerFile<'a> {
    /// Nodes of the job (default 1).
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> TunerFile<'a> {
        self.nodes = Some(nodes);
        self
    }
    /// These operations instead of all-reduce, all-gather and reduce-scatter.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> TunerFile<'a> {
        self.operations = operations.into_iter().collect();
        self
    }
    /// From this size to that one, each four times the one before.
    #[must_use]
    pub fn sizes(mut self, least: Bytes, most: Bytes) -> TunerFile<'a> {
        self.sizes = (least, most);
        self
    }
    /// Hears how many runs of all are done.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(usize, usize) + Send + Sync + 'a) -> TunerFile<'a> {
        self.progress = Some(Box::new(progress));
        self
    }
    /// Parts and clusters of this catalogue.
    #[must_use]
    pub fn catalog(mut self, catalog: &'a Catalog) -> TunerFile<'a> {
        self.catalog = Some(catalog);
        self
    }

    /// Answers it: the text is the file.
    ///
    /// # Errors
    /// No such cluster, one without NCCL, more nodes than there are, sizes that are none.
    pub fn outcome(self) -> Result<Outcome, Error> {
        let parts = self.cluster.resolve_alike(catalog(self.catalog)?)?;
        let (least, most) = self.sizes;
        if least.0 < LEAST || least > most || most > MOST {
            return Err(refused(
                format!("sizes from {least} to {most}"),
                &format!("give sizes from {LEAST} bytes to {MOST}, the smaller one first"),
            ));
        }
        let bench = Bench::of(&parts, self.nodes)?;
        let sizes: Vec<Bytes> =
            std::iter::successors(Some(least), |size| Some(Bytes(size.0 * STEP))).take_while(|size| *size <= most).collect();
        let mut found = Vec::new();
        for operation in &self.operations {
            found.push(bench.found(*operation, &sizes, &|done, all| {
                if let Some(progress) = &self.progress {
                    progress(done, all);
                }
            })?);
        }
        Ok(told(&bench, &found))
    }
}

impl<'a> Bench<'a> {
    fn of(parts: &'a ResolvedCluster, nodes: Option<u32>) -> Result<Bench<'a>, Error> {
        let library = Library::of(parts).filter(|_| parts.nodes() > 0);
        let library = library.ok_or_else(|| {
            refused(format!("no NCCL runs on the nodes of `{}`", parts.name), "take a cluster with GPUs of NVIDIA or AMD")
        })?;
        let layout = layout_of(tool(Operation::AllReduce)?, parts, nodes, None);
        if layout.nodes > parts.nodes() {
            return Err(refused(
                format!("{} nodes, and `{}` has {}", layout.nodes, parts.name, parts.nodes()),
                "give fewer nodes, or another cluster",
            ));
        }
        let joined = library.join(layout.nodes, layout.per_node, &library.settings);
        let joined = joined.map_err(|error| refused(error.in_full(), "see how the library sees it: fabriscope show nccl"))?;
        Ok(Bench { parts, layout, tuner: Tuner::new(&joined), most: [joined.channels(), joined.nvls_channels()] })
    }

    /// The fastest of each size of an operation.
    fn found(&self, operation: Operation, sizes: &[Bytes], heard: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<Found>, Error> {
        let own = |bytes: Bytes| {
            let choice =
                self.tuner.choose(operation, bytes).map_err(|error| refused(error.in_full(), "leave variables of the library out"))?;
            let (algorithm, protocol, channels) = (choice.algorithm, choice.protocol, choice.channels);
            Ok(Candidate { operation, bytes, algorithm, protocol, channels })
        };
        let own: Vec<Candidate> = sizes.iter().map(|bytes| own(*bytes)).collect::<Result<_, Error>>()?;
        let first = self.timed(&sizes.iter().flat_map(|bytes| self.usual(operation, *bytes)).collect::<Vec<_>>(), heard);
        let fastest = |bytes: Bytes, times: &[(Candidate, Span)]| {
            // Of those that are equally fast, what the library takes.
            let of_size = times.iter().filter(|(candidate, _)| candidate.bytes == bytes);
            of_size.min_by_key(|(candidate, span)| (*span, !own.contains(candidate))).copied()
        };
        let best = sizes.iter().filter_map(|bytes| fastest(*bytes, &first));
        let more: Vec<Candidate> = best.flat_map(|(best, _)| self.other_channels(best)).collect();
        let all: Vec<(Candidate, Span)> = first.iter().copied().chain(self.timed(&more, heard)).collect();
        let found = own.iter().map(|own| {
            let bytes = own.bytes;
            let nothing = || refused(format!("nothing runs {operation} of {bytes} here"), "run it by itself: fabriscope bench");
            let best = fastest(bytes, &all).ok_or_else(nothing)?;
            let time = all.iter().find(|(candidate, _)| candidate == own).map(|(_, span)| *span);
            let estimate = self.tuner.estimate(operation, best.0.algorithm, best.0.protocol, bytes).unwrap_or_default();
            Ok(Found { best, own: (*own, time), estimate })
        });
        found.collect()
    }

    /// All that the library has for a size, with as many channels as it takes.
    fn usual(&self, operation: Operation, bytes: Bytes) -> Vec<Candidate> {
        let pairs = Algorithm::ALL.into_iter().flat_map(|algorithm| Protocol::ALL.map(|protocol| (algorithm, protocol)));
        let made = |(algorithm, protocol)| {
            let channels = self.tuner.with(operation, algorithm, protocol, bytes).ok()?.channels;
            Some(Candidate { operation, bytes, algorithm, protocol, channels })
        };
        pairs.filter_map(made).collect()
    }

    /// The same with half and with twice as many channels, as far as there are so many.
    fn other_channels(&self, of: Candidate) -> impl Iterator<Item = Candidate> + use<> {
        let most = self.most[usize::from(matches!(of.algorithm, Algorithm::Nvls | Algorithm::NvlsTree))];
        let others = [of.channels / 2, (of.channels * 2).min(most)];
        others
            .into_iter()
            .filter(move |channels| *channels > 0 && *channels != of.channels)
            .map(move |channels| Candidate { channels, ..of })
    }

    /// What runs take; those that cannot be run are left out.
    fn timed(&self, all: &[Candidate], heard: &(dyn Fn(usize, usize) + Sync)) -> Vec<(Candidate, Span)> {
        let done = std::sync::atomic::AtomicUsize::new(0);
        let times: Vec<_> = all
            .par_iter()
            .filter_map(|candidate| {
                let time = self.time(*candidate);
                heard(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, all.len());
                Some((*candidate, time?))
            })
            .collect();
        times
    }

    fn time(&self, candidate: Candidate) -> Option<Span> {
        let size = candidate.bytes.0.to_string();
        let line = self.rule(&candidate, (candidate.bytes, candidate.bytes)).to_string();
        let iterations = if candidate.bytes >= LONG { "2" } else { "4" };
        let options = ["-b", &size, "-e", &size, "-n", iterations, "-c", "0", "--tuner-line", &line].map(str::to_owned);
        let launch = Launch { layout: Some(self.layout), ..Launch::new(tool(candidate.operation).ok()?, &options, self.parts) };
        let points = launch.run().ok()?.0.points;
        let us = points.iter().find(|point| point.metric == "time")?.value;
        Some(Span::from_ps((us * 1e6) as u64))
    }

    fn rule(&self, candidate: &Candidate, (least, most): (Bytes, Bytes)) -> Rule {
        Rule {
            operation: candidate.operation,
            least,
            most,
            algorithm: Some(candidate.algorithm),
            protocol: candidate.protocol,
            channels: Some(candidate.channels),
            nodes: Some(self.layout.nodes),
            ranks: Some(self.layout.nodes * self.layout.per_node),
            operations: None,
            registered: None,
        }
    }

    /// Lines for all sizes of an operation; sizes that follow each other and are done alike are one.
    fn rules(&self, found: &[Found]) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        for (at, one) in found.iter().enumerate() {
            let most = if at + 1 == found.len() { u64::MAX } else { one.best.0.bytes.0 * (STEP / 2) };
            let least = rules.last().map_or(0, |last| last.most.0.saturating_add(1));
            let rule = self.rule(&one.best.0, (Bytes(least), Bytes(most)));
            match rules.last_mut() {
                Some(last) if (Rule { least: rule.least, most: rule.most, ..*last }) == rule => last.most = rule.most,
                _ => rules.push(rule),
            }
        }
        rules
    }
}

fn told(bench: &Bench<'_>, found: &[Vec<Found>]) -> Outcome {
    let rules = Rules { rules: found.iter().flat_map(|found| bench.rules(found)).collect() };
    let mut outcome = Outcome::new();
    outcome.text(format!(
        "# {}: {} nodes of {} GPUs, the fastest by simulation\n# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,operations,registered\n{rules}",
        bench.parts.name, bench.layout.nodes, bench.layout.per_node
    ));
    let columns = [("bytes", "bytes"), ("channels", "channels"), ("us", "us"), ("library us", "own_us"), ("expects us", "estimate_us")];
    let words = [("operation", "operation"), ("fastest", "fastest"), ("the library takes", "own")];
    let mut grid = Grid::new(
        words.map(|(title, key)| Column::words(title, key)).into_iter().chain(columns.map(|(title, key)| Column::number(title, key))),
    );
    let named = |candidate: &Candidate| format!("{} {}", candidate.algorithm, candidate.protocol.name());
    for Found { best: (best, time), own: (own, own_time), estimate } in found.iter().flatten() {
        grid.push([
            Cell::word(best.operation.name()),
            Cell::word(named(best)),
            Cell::word(named(own)),
            Cell::bytes(best.bytes),
            Cell::count(best.channels as usize),
            Cell::number(time.as_us_f64(), 2),
            own_time.map_or_else(Cell::none, |span| Cell::number(span.as_us_f64(), 2)),
            Cell::number(estimate.as_us_f64(), 2),
        ]);
    }
    outcome.data_table("choices", grid);
    outcome.set("cluster", bench.parts.name.clone()).set("nodes", bench.layout.nodes);
    outcome
}

fn tool(operation: Operation) -> Result<Tool, Error> {
    let name = match operation {
        Operation::AllReduce => "all_reduce_perf",
        Operation::AllGather => "all_gather_perf",
        Operation::ReduceScatter => "reduce_scatter_perf",
        Operation::Broadcast => "broadcast_perf",
        Operation::Reduce => "reduce_perf",
    };
    Tool::by_name(name).map_err(|error| refused(error.in_full(), "see `fabriscope bench --help`"))
}

fn refused(message: String, help: &str) -> Error {
    Error::Tuner { message, help: help.to_owned() }
}

const USUAL: [Operation; 3] = [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter];
const SIZES: (Bytes, Bytes) = (Bytes(1 << 10), Bytes(256 << 20));
const LEAST: u64 = 64;
const MOST: Bytes = Bytes(16 << 30);
/// From size to size.
const STEP: u64 = 4;
/// From here on fewer operations are measured. Basis: assumed; they differ by less than a hundredth.
const LONG: Bytes = Bytes(16 << 20);
