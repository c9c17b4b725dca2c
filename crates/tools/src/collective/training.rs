//! `bcast_training`: data-parallel training whose exchange of parameters is broadcasts, every rank a source in turn.
//!
//! Source: F. Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014 (CNTK: each of n nodes owns a stripe of the parameters and sends it to all);
//! the comparison of CA-CNTK in C.-H. Chu et al., ICPP 2017, known from a talk.
//! Modelled: computing of a stated time, then for each layer one broadcast of 1/n of its parameters from each rank, one after the other.
//! Not modelled: the reduction of partial gradients before it, which is the same for all algorithms and left out; overlap of layers with computing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::{self, Meaning::Usual, Opt, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span, Time};

use super::broadcasts::{ALGORITHMS, Casts, asked};
use super::layers::Model;
use super::osu::{ACCELERATOR, on_device};
use crate::omb::Buffers;

pub(super) const OPTIONS: &[Opt] = &[
    opt('\0', "model", Takes::Value("alexnet|vgg16|resnet50"), Usual, "once for each (default: all three)"),
    opt('\0', "layers", Takes::Value("bytes,..."), Usual, "a network of layers with parameters of so many bytes, in the place of --model"),
    opt('b', "batch", Takes::Value("images"), Usual, "images of a GPU in an iteration (default 16)"),
    opt('\0', "image-time", Takes::Value("us"), Usual, "forward and backward of one image (default: that of a die of a K80)"),
    opt('i', "iterations", Takes::Value("count"), Usual, "measured iterations (default 1, after one)"),
    ALGORITHMS,
    ACCELERATOR,
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];
const NOTES: &str = "\nSaved: the share of an iteration that the first algorithm saves against this one.\n";

/// A network that is trained.
struct Network {
    name: &'static str,
    layers: Vec<Bytes>,
    image: Span,
}

impl From<Model> for Network {
    fn from(model: Model) -> Network {
        Network { name: model.name(), layers: model.layers(), image: model.image() }
    }
}

/// What happens.
struct Training {
    models: Vec<Network>,
    batch: u64,
    image: Option<Span>,
    iterations: u32,
}

impl Training {
    fn compute(&self, model: &Network) -> Span {
        self.image.unwrap_or(model.image) * self.batch
    }
}

/// Bytes of a layer that each of `ranks` owns.
fn stripe(layer: Bytes, ranks: u32) -> u32 {
    (layer.0.div_ceil(u64::from(ranks) * 4) * 4) as u32
}

pub(super) fn prepare(tool: &'static str, about: &str, args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let mut training = Training { models: Vec::new(), batch: 16, image: None, iterations: 1 };
    let mut buffers = Buffers::default();
    for given in &parsed.options {
        match given.name {
            "model" => training.models.push(model(given)?.into()),
            "layers" => training.models.push(layers(given)?),
            "batch" => training.batch = arguments::number(given, 1, 100_000)?,
            "image-time" => training.image = Some(Span::from_us(arguments::number(given, 0, 10_000_000)?)),
            "iterations" => training.iterations = arguments::number(given, 1, 1000)? as u32,
            "accelerator" => buffers = on_device(tool, given, target)?,
            "help" => return Err(UsageError::Help { text: arguments::help(tool, about, OPTIONS, NOTES) }),
            _ => {}
        }
    }
    if training.models.is_empty() {
        training.models = Model::ALL.map(Network::from).into();
    }
    let ranks = target.layout.ranks();
    if ranks > MOST_SOURCES {
        let what = format!("{ranks} ranks, each with connections to all others and a group of its own");
        return Err(UsageError::Conflict { what, remedy: format!("use --nodes and --ppn for at most {MOST_SOURCES} ranks") });
    }
    let sizes: BTreeSet<u32> = training.models.iter().flat_map(|model| &model.layers).map(|layer| stripe(*layer, ranks)).collect();
    let casts = Arc::new(Casts::new(tool, &asked(&parsed.options), &sizes, (0, buffers), target)?);
    let training = Arc::new(training);
    let measured: Record<Vec<(Time, Time)>> = Record::new(vec![(Time::MAX, Time::ZERO); training.models.len() * casts.casts.len()]);
    let main = |_| -> Main {
        let (casts, training, measured) = (casts.clone(), training.clone(), measured.clone());
        Box::new(move |process| Box::pin(run(process, casts, training, measured)))
    };
    let mains = (0..ranks).map(main).collect();
    let finish = move || report(&casts, &training, &measured.lock());
    Ok(Prepared {
        placing: Placing::Blocks { per_node: target.layout.per_node },
        mains,
        ties: Ties::Any,
        finish: Box::new(finish),
        rows: Rows::default(),
    })
}

fn model(given: &arguments::Given) -> Result<Model, UsageError> {
    let word = given.value.as_deref().unwrap_or_default();
    let unknown = || UsageError::NotOneOf { option: given.typed.clone(), value: word.to_owned(), known: Model::NAMES };
    Model::named(word).ok_or_else(unknown)
}

/// A network by its layers' bytes; nothing is computed where no time of an image is given.
fn layers(given: &arguments::Given) -> Result<Network, UsageError> {
    let word = given.value.as_deref().unwrap_or_default();
    let layer = |bytes: &str| bytes.parse().ok().filter(|bytes| (1..=u64::from(u32::MAX)).contains(bytes)).map(Bytes);
    let layers: Option<Vec<Bytes>> = word.split(',').map(layer).collect();
    let known = "1 to 4294967295 bytes for each layer, as 4096,65536";
    let layers = layers.ok_or_else(|| UsageError::NotOneOf { option: given.typed.clone(), value: word.to_owned(), known })?;
    Ok(Network { name: "layers", layers, image: Span::ZERO })
}

/// One rank: every model by every algorithm, once before it is measured.
async fn run(
    process: Process,
    casts: Arc<Casts>,
    training: Arc<Training>,
    measured: Record<Vec<(Time, Time)>>,
) -> Result<(), ProgramError> {
    let ranks = process.ranks();
    let sources: Vec<u32> = (0..ranks).collect();
    let (rank, multicasts) = casts.join(process, &sources).await?;
    let mut at = 0;
    for model in &training.models {
        let stripes: Vec<u32> = model.layers.iter().map(|layer| stripe(*layer, ranks)).collect();
        for cast in casts.casts.iter().zip(&multicasts) {
            // Buffers are registered and mapped.
            let largest = stripes.iter().copied().max().unwrap_or(1);
            for root in &sources {
                casts.broadcast(&rank, cast, (*root, largest), casts.buffers.sender).await?;
            }
            rank.synchronise().await?;
            let begun = rank.now();
            for _ in 0..training.iterations {
                rank.compute(training.compute(model));
                for size in &stripes {
                    for root in &sources {
                        casts.broadcast(&rank, cast, (*root, *size), casts.buffers.sender).await?;
                    }
                }
            }
            let known = &mut measured.lock()[at];
            *known = (known.0.min(begun), known.1.max(rank.now()));
            at += 1;
        }
        rank.synchronise().await?;
    }
    Ok(())
}

fn report(casts: &Casts, training: &Training, measured: &[(Time, Time)]) -> ToolOutput {
    let mut text = format!(
        "\n# Data-parallel training{}: {} ranks, {} images each, a broadcast of each layer's stripe from every rank in turn\n",
        casts.buffers.suffix(),
        casts.target.layout.ranks(),
        training.batch
    );
    let width = casts.casts.iter().map(|cast| cast.asked.len()).max().unwrap_or(0).max(9);
    let _ = writeln!(
        text,
        "{:<10}{:<width$}{:>16}{:>14}{:>14}{:>15}{:>10}",
        "# Model", "Algorithm", "Parameters(MB)", "Compute(ms)", "Exchange(ms)", "Iteration(ms)", "Saved(%)"
    );
    let mut points = Vec::new();
    for (model, found) in training.models.iter().zip(measured.chunks(casts.casts.len().max(1))) {
        let bytes: Bytes = model.layers.iter().copied().sum();
        let compute = training.compute(model).as_us_f64() / 1e3;
        let times: Vec<f64> =
            found.iter().map(|(begun, ended)| ended.since(*begun).as_us_f64() / 1e3 / f64::from(training.iterations)).collect();
        for (cast, time) in casts.casts.iter().zip(&times) {
            let saved = 100.0 * (1.0 - times[0] / time);
            let _ = writeln!(
                text,
                "{:<10}{:<width$}{:>16.1}{compute:>14.2}{:>14.2}{time:>15.2}{saved:>10.1}",
                model.name,
                cast.asked,
                bytes.0 as f64 / 1e6,
                time - compute
            );
            points.push(Point { size: bytes, metric: "iteration", unit: "ms", value: *time });
            points.push(Point { size: bytes, metric: "saved", unit: "%", value: saved });
        }
    }
    ToolOutput { text, points, remarks: casts.remarks(), ..ToolOutput::default() }
}

/// Ranks that all have connections and groups. Basis: assumed, what a run holds in memory.
const MOST_SOURCES: u32 = 256;
