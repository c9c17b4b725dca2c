//! Models that recommend (DLRM): tables of embeddings that GPUs share, and networks of which each has a copy.
//!
//! Source: Naumov et al. (arXiv 1906.00091), §2 to 4: tables in model parallelism, networks in data parallelism, an all-to-all between; Mudigere et
//! al., ISCA 2022 (arXiv 2104.05158), §4: tables whole, or cut by columns; Wang et al. (arXiv 2008.13535) for crossing layers.
//! Modelled: rows gathered and summed at the rate of copies of memory, the all-to-all beside the bottom layers, products of all pairs or crossing
//! layers, the all-reduce beside the update of the tables, tables cut by columns where one is more than an even share, the fullest GPU.
//! Not modelled: the exchange of row numbers, which goes ahead of the step; rows that several samples of a batch share; caches; reading of data.

use fabriscope_catalog::Recommendation;
use fabriscope_units::{Bytes, Span};

use crate::layout::Precision;
use crate::roofline::{Kernel, Roofline};
use crate::times::{CommunicationTimes, Group, Operation};

/// What the fullest GPU has of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Numbers of rows that it reads for a sample.
    pub read: u64,
    /// Numbers that it gives for a sample.
    pub given: u64,
    /// Numbers that it keeps.
    pub kept: u64,
}

/// Parameters of the tables and of the networks.
#[must_use]
pub fn parameters(model: &Recommendation) -> (u64, u64) {
    let dimension = u64::from(model.dimension);
    let tables: u64 = model.rows.iter().map(|rows| u64::from(*rows) * dimension).sum();
    let layers = |layers: &[(u64, u64)]| -> u64 { layers.iter().map(|(inputs, outputs)| (inputs + 1) * outputs).sum() };
    let width = crossed(model);
    let crossing = model.crossing.map_or(0, |of| u64::from(of.layers) * (2 * width * u64::from(of.rank) + width));
    (tables, layers(&bottom(model)) + layers(&top(model)) + crossing)
}

/// Inputs and outputs of the bottom layers.
fn bottom(model: &Recommendation) -> Vec<(u64, u64)> {
    chain(model.dense.into(), &model.bottom)
}

/// Inputs and outputs of the top layers.
fn top(model: &Recommendation) -> Vec<(u64, u64)> {
    let (dimension, features) = (u64::from(model.dimension), features(model));
    let inputs = match model.crossing {
        Some(_) => crossed(model),
        None => dimension + features * (features - 1) / 2,
    };
    chain(inputs, &model.top)
}

fn chain(inputs: u64, outputs: &[u32]) -> Vec<(u64, u64)> {
    let mut before = inputs;
    outputs.iter().map(|outputs| (std::mem::replace(&mut before, (*outputs).into()), u64::from(*outputs))).collect()
}

/// Embeddings of a sample, and the output of the bottom layers.
fn features(model: &Recommendation) -> u64 {
    model.rows.len() as u64 + 1
}

fn crossed(model: &Recommendation) -> u64 {
    features(model) * u64::from(model.dimension)
}

/// How tables are dealt to GPUs: cut by columns until no part is more than a GPU's even share of numbers kept and read, then the largest to the
/// emptiest.
#[must_use]
pub fn fullest(model: &Recommendation, gpus: u32) -> Share {
    let dimension = u64::from(model.dimension);
    let tables = (0..).zip(&model.rows);
    let of = |(number, rows): (usize, &u32)| (u64::from(model.lookups.get(number).copied().unwrap_or(1)), u64::from(*rows));
    let tables: Vec<(u64, u64)> = tables.map(of).collect();
    let even = |all: u64| (all * dimension).div_ceil(u64::from(gpus.max(1)));
    let (read, kept) = (even(tables.iter().map(|(lookups, _)| lookups).sum()), even(tables.iter().map(|(_, rows)| rows).sum()));
    let mut parts = Vec::new();
    for (lookups, rows) in tables {
        let mut columns = dimension;
        while columns >= 2 * FEWEST && columns.is_multiple_of(2) && (lookups * columns > read || rows * columns > kept) {
            columns /= 2;
        }
        let part = Share { read: lookups * columns, given: columns, kept: rows * columns };
        parts.extend(std::iter::repeat_n(part, (dimension / columns) as usize));
    }
    parts.sort_by_key(|part| std::cmp::Reverse((part.kept, part.read)));
    let mut shares = vec![Share::default(); gpus.max(1) as usize];
    for part in parts {
        // Room is scarcer than reads: the emptier first.
        let to = shares.iter_mut().min_by_key(|share| (share.kept / SIMILAR, share.read));
        if let Some(to) = to {
            *to = Share { read: to.read + part.read, given: to.given + part.given, kept: to.kept + part.kept };
        }
    }
    let most = |of: fn(&Share) -> u64| shares.iter().map(of).max().unwrap_or_default();
    Share { read: most(|share| share.read), given: most(|share| share.given), kept: most(|share| share.kept) }
}

/// A step's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecommendationStep {
    /// Rows that are read and summed.
    pub lookup: Span,
    /// The bottom layers, both ways.
    pub bottom: Span,
    /// What joins features, both ways.
    pub interaction: Span,
    /// The top layers, both ways.
    pub top: Span,
    /// Embeddings to samples and gradients back, as far as the bottom layers do not hide them.
    pub all_to_all: Span,
    /// Rows that are changed.
    pub update: Span,
    /// Gradients of the layers, as far as the update does not hide them.
    pub all_reduce: Span,
    /// The optimizer of the layers.
    pub optimizer: Span,
    /// Both all-to-alls, whole.
    pub exchanged: Span,
    /// The all-reduce, whole.
    pub reduced: Span,
}

impl RecommendationStep {
    /// All parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Span); 8] {
        [
            ("rows of tables read", self.lookup),
            ("bottom layers", self.bottom),
            ("interaction", self.interaction),
            ("top layers", self.top),
            ("embeddings, exposed", self.all_to_all),
            ("rows of tables changed", self.update),
            ("gradients, exposed", self.all_reduce),
            ("optimizer", self.optimizer),
        ]
    }
    /// The step.
    #[must_use]
    pub fn total(&self) -> Span {
        self.parts().into_iter().map(|(_, span)| span).sum()
    }
}

/// A step of `gpus` with `batch` samples each.
///
/// # Errors
/// What the cluster cannot do.
pub fn step<T: CommunicationTimes>(
    model: &Recommendation,
    (batch, gpus): (u64, u32),
    precision: Precision,
    roofline: &Roofline,
    times: &mut T,
) -> Result<RecommendationStep, T::Error> {
    let share = fullest(model, gpus);
    let (all, width) = (batch * u64::from(gpus), precision.width());
    let group = Group { size: gpus, stride: 1 };
    let layers = |layers: &[(u64, u64)], given: bool| full(layers, batch, precision, roofline, given);
    let (bottom_there, bottom_back) = layers(&bottom(model), false);
    let (top_there, top_back) = layers(&top(model), true);
    // Tables are kept in 32 bits; what is summed is sent as it is computed with.
    let rows = all * share.read * TABLE_WIDTH;
    let sums = all * share.given * width;
    let sent = Bytes(sums);
    let there = times.time(Operation::AllToAll, sent, group)?;
    let back = times.time(Operation::AllToAll, sent, group)?;
    let (_, parameters) = parameters(model);
    let reduced = times.time(Operation::AllReduce, Bytes(parameters * width), group)?;
    // A row is read, changed and written, by the gradient of its sum.
    let update = roofline.stream(Bytes(2 * rows + sums));
    Ok(RecommendationStep {
        lookup: roofline.stream(Bytes(rows + sums)),
        bottom: bottom_there + bottom_back,
        interaction: interaction(model, batch, precision, roofline),
        top: top_there + top_back,
        all_to_all: there.saturating_sub(bottom_there) + back.saturating_sub(bottom_back),
        update,
        all_reduce: reduced.saturating_sub(update),
        optimizer: roofline.stream(Bytes(SGD_BYTES * parameters)),
        exchanged: there + back,
        reduced,
    })
}

/// Layers one behind the other: forward, backward.
fn full(layers: &[(u64, u64)], batch: u64, precision: Precision, roofline: &Roofline, gradient: bool) -> (Span, Span) {
    let (mut there, mut back) = (Span::ZERO, Span::ZERO);
    for (number, (inputs, outputs)) in layers.iter().enumerate() {
        let matrix = |m, n, k| roofline.time(&Kernel::Matrix { m, n, k, batch: 1, precision });
        let activation = roofline.stream(Bytes(2 * batch * outputs * precision.width()));
        there += matrix(batch, *outputs, *inputs) + activation;
        back += matrix(*inputs, *outputs, batch) + activation * 3 / 2;
        if number > 0 || gradient {
            back += matrix(batch, *inputs, *outputs);
        }
    }
    (there, back)
}

/// Products of all pairs of features, or crossing layers, both ways.
fn interaction(model: &Recommendation, batch: u64, precision: Precision, roofline: &Roofline) -> Span {
    let (features, dimension, width) = (features(model), u64::from(model.dimension), precision.width());
    let all = batch * features * dimension * width;
    let matrix = |m, n, k, batch| roofline.time(&Kernel::Matrix { m, n, k, batch, precision });
    let copied = roofline.stream(Bytes(2 * all));
    match model.crossing {
        // Features side by side, products, half of which is kept; backward two products.
        None => copied * 2 + matrix(features, features, dimension, batch) + matrix(features, dimension, features, batch) * 2,
        Some(of) => {
            let (across, rank) = (features * dimension, u64::from(of.rank));
            let product = |m, n, k| matrix(m, n, k, 1);
            let there = product(batch, rank, across) + product(batch, across, rank) + roofline.stream(Bytes(4 * all));
            let back = product(batch, across, rank)
                + product(batch, rank, across)
                + product(across, rank, batch)
                + product(rank, across, batch)
                + roofline.stream(Bytes(6 * all));
            copied * 2 + (there + back) * u64::from(of.layers)
        }
    }
}

/// Columns of a part of a table at least: 64 bytes, what memory gives at once. Basis: estimated.
const FEWEST: u64 = 16;
/// Bytes of a number of a table. Basis: published, MLPerf's reference.
const TABLE_WIDTH: u64 = 4;
/// Numbers that do not make a GPU fuller than another: a hundredth of what one has room for. Basis: assumed.
const SIMILAR: u64 = 100_000_000;
/// Bytes of a parameter that plain descent reads and writes: parameter there and back, gradient.
const SGD_BYTES: u64 = 12;
