//! Networks that are not transformers: convolutional nets as tables of their layers, and recommendation models.
//!
//! Source: the papers and configuration files that the parts name; He et al., CVPR 2016, figure 5 (bottlenecks); Naumov et al.
//! (arXiv 1906.00091) for DLRM; Wang et al. (arXiv 2008.13535) for crossing layers of low rank.
//! Modelled: convolutions with groups, pools, bottlenecks with their shortcuts, full layers; tables, the two networks and what joins them.
//! Not modelled: networks that branch otherwise; what the weights are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// A network of image classification, layer by layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Convolutional {
    /// Channels of an image.
    pub channels: u32,
    /// Its rows, and columns.
    pub size: u32,
    /// The layers in order.
    pub layers: Vec<NetLayer>,
}

/// One row of the table of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NetLayer {
    /// A convolution with its activation.
    Convolution(Convolution),
    /// The largest of each window.
    Pool(Pool),
    /// The mean of each channel.
    Average {},
    /// Responses divided by those of the neighbouring channels (Krizhevsky et al., §3.3).
    ResponseNormalisation {},
    /// Bottlenecks with shortcuts, one behind the other.
    Bottleneck(Bottleneck),
    /// A full layer.
    Linear(Linear),
}

/// A convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// Channels of its output.
    pub channels: u32,
    /// Rows and columns of its window.
    pub kernel: u32,
    /// From one window to the next.
    #[serde(default = "one")]
    pub stride: u32,
    /// Rows and columns of zeros around the input.
    #[serde(default)]
    pub padding: u32,
    /// Groups of channels that do not see each other.
    #[serde(default = "one")]
    pub groups: u32,
    /// Normalised over the batch, with scale and shift in the place of a bias.
    #[serde(default)]
    pub normalised: bool,
}

/// Windows of which the largest is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Rows and columns of a window.
    pub kernel: u32,
    /// From one window to the next.
    pub stride: u32,
    /// Rows and columns around the input.
    #[serde(default)]
    pub padding: u32,
}

/// Convolutions of 1, 3 and 1 rows beside a shortcut, all normalised over the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Channels inside.
    pub width: u32,
    /// Channels of the output.
    pub channels: u32,
    /// How many there are.
    pub blocks: u32,
    /// Of the first of them.
    #[serde(default = "one")]
    pub stride: u32,
    /// The stride is that of the first convolution, as in the paper; that of the second, where nothing is said.
    #[serde(default)]
    pub strided_first: bool,
}

/// A full layer; an activation follows where another layer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Numbers that come out.
    pub outputs: u32,
}

/// A model that recommends: tables of embeddings, a network for numbers, and one for all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// Numbers of a sample.
    pub dense: u32,
    /// Outputs of the layers for them.
    pub bottom: Vec<u32>,
    /// Outputs of the layers for all of it.
    pub top: Vec<u32>,
    /// Dimensions of an embedding.
    pub dimension: u32,
    /// Rows of each table.
    pub rows: Vec<u32>,
    /// Rows of each table that a sample takes and sums; one of each where nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<u32>,
    /// Embeddings and the output of the bottom layers are crossed by layers of low rank; by products of all pairs, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
}

/// Layers that cross features: `x₀ ∘ (U V x + b) + x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// How many.
    pub layers: u32,
    /// Columns of V, rows of U.
    pub rank: u32,
}

const fn one() -> u32 {
    1
}

impl Convolutional {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let wrong = |message: String, help: &str| Err(Problem::at(&["convolutional", "layers"], message, help));
        counts("convolutional", [("channels", self.channels), ("size", self.size)])?;
        let (mut channels, mut size) = (self.channels, self.size);
        for (number, layer) in (1..).zip(&self.layers) {
            let told: Vec<u32> = match *layer {
                NetLayer::Convolution(of) => vec![of.channels, of.kernel, of.stride, of.groups],
                NetLayer::Pool(of) => vec![of.kernel, of.stride],
                NetLayer::Bottleneck(of) => vec![of.width, of.channels, of.blocks, of.stride],
                NetLayer::Linear(of) => vec![of.outputs],
                NetLayer::Average {} | NetLayer::ResponseNormalisation {} => Vec::new(),
            };
            if told.iter().any(|count| !(1..=MOST).contains(count)) {
                return wrong(format!("layer {number} has a number of 0, or above {MOST}"), "use numbers from 1 on");
            }
            let (kernel, padding, stride) = match *layer {
                NetLayer::Convolution(of) => (of.kernel, of.padding, of.stride),
                NetLayer::Pool(of) => (of.kernel, of.padding, of.stride),
                NetLayer::Bottleneck(of) => (1, 0, of.stride),
                _ => (1, 0, 1),
            };
            if padding > MOST || size + 2 * padding < kernel {
                return wrong(
                    format!("layer {number} has a window of {kernel} for {size} rows with {padding} around"),
                    "make the window smaller",
                );
            }
            size = (size + 2 * padding - kernel) / stride + 1;
            match *layer {
                NetLayer::Convolution(of) if !channels.is_multiple_of(of.groups) || !of.channels.is_multiple_of(of.groups) => {
                    return wrong(
                        format!("layer {number} has {} groups for {channels} and {} channels", of.groups, of.channels),
                        "use a divisor of both",
                    );
                }
                NetLayer::Convolution(of) => channels = of.channels,
                NetLayer::Bottleneck(of) => channels = of.channels,
                NetLayer::Linear(of) => (channels, size) = (of.outputs, 1),
                NetLayer::Average {} => size = 1,
                NetLayer::Pool(_) | NetLayer::ResponseNormalisation {} => {}
            }
        }
        if self.layers.is_empty() {
            return wrong("no layers".to_owned(), "list them in order: { convolution = { channels = 64, kernel = 7 } }");
        }
        Ok(())
    }
}

impl Recommendation {
    pub(super) fn check(&self) -> Result<(), Problem> {
        counts("recommendation", [("dense", self.dense), ("dimension", self.dimension)])?;
        for (key, list) in [("bottom", &self.bottom), ("top", &self.top), ("rows", &self.rows), ("lookups", &self.lookups)] {
            let empty = list.is_empty() && key != "lookups";
            if empty || list.len() > 100_000 || list.iter().any(|count| !(1..=MOST_ROWS).contains(count)) {
                let message = format!("`{key}` with {} numbers, of which none may be 0", list.len());
                return Err(Problem::at(&["recommendation", key], message, "list numbers from 1 to 2000000000"));
            }
        }
        if self.bottom.last() != Some(&self.dimension) {
            let message = format!("the last of the bottom layers has {:?} outputs, an embedding {}", self.bottom.last(), self.dimension);
            return Err(Problem::at(&["recommendation", "bottom"], message, "make them equal: they are crossed with each other"));
        }
        if !self.lookups.is_empty() && self.lookups.len() != self.rows.len() {
            let message = format!("{} numbers of lookups for {} tables", self.lookups.len(), self.rows.len());
            return Err(Problem::at(&["recommendation", "lookups"], message, "give one for each table, or none"));
        }
        match self.crossing {
            Some(of) => counts("recommendation", [("crossing", of.layers), ("crossing", of.rank)]),
            None => Ok(()),
        }
    }
}

fn counts(table: &str, counts: [(&str, u32); 2]) -> Result<(), Problem> {
    match counts.into_iter().find(|(_, count)| !(1..=MOST).contains(count)) {
        Some((key, count)) => Err(Problem::at(&[table, key], format!("`{key}` of {count}"), "use 1 to 1000000")),
        None => Ok(()),
    }
}

/// Basis: assumed, more than any layer has.
const MOST: u32 = 1_000_000;
/// Basis: assumed, more than any table has.
const MOST_ROWS: u32 = 2_000_000_000;
