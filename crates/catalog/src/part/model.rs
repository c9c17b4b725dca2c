//! A neural network as jobs train it and ask it: the shape of a transformer, or one of `network`.
//!
//! Source: the papers and configuration files that the parts name.
//! Modelled: dense layers, gated and not, grouped heads, latent attention (MLA), layers of experts with shared ones.
//! Not modelled: what the weights are; vision towers, state-space layers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::network::{Convolutional, Recommendation};
use super::{Kind, Part};
use crate::error::Problem;

/// One neural network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Where its shape is published.
    pub source: String,
    /// The layers of a transformer. A model is one of the three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transformer: Option<Transformer>,
    /// The layers of a convolutional net.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convolutional: Option<Convolutional>,
    /// The tables and layers of a model that recommends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
}

/// A decoder of equal layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    /// Layers.
    pub layers: u32,
    /// Dimensions of a token between layers.
    pub hidden: u32,
    /// Heads of attention.
    pub heads: u32,
    /// Heads of keys and values; as many as heads where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u32>,
    /// Dimensions of a head; `hidden / heads` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<u32>,
    /// Dimensions inside the feed-forward network.
    pub feed_forward: u32,
    /// The feed-forward network has a third matrix, whose output gates the first one's.
    #[serde(default)]
    pub gated: bool,
    /// Tokens that there are.
    pub vocabulary: u32,
    /// Tokens of a sequence in training.
    pub sequence: u32,
    /// The output multiplies by the embedding's own matrix.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Positions have learned vectors.
    #[serde(default)]
    pub learned_positions: bool,
    /// Keys and values are kept as a latent vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Latent>,
    /// Feed-forward networks of which each token takes a few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<Experts>,
}

/// Latent attention (MLA; DeepSeek-V2, arXiv 2405.04434, §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Dimensions of the latent vector of queries; queries are made at once where it is 0.
    pub query_rank: u32,
    /// Dimensions of the latent vector of keys and values.
    pub kv_rank: u32,
    /// Dimensions of a head's query and key without positions.
    pub content: u32,
    /// Dimensions of a head's query, and of the key of all heads, that are rotated by the position.
    pub rotary: u32,
    /// Dimensions of a head's value.
    pub value: u32,
}

/// A layer of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// How many there are.
    pub count: u32,
    /// How many a token takes.
    pub per_token: u32,
    /// Dimensions inside each.
    pub feed_forward: u32,
    /// Experts that every token takes besides.
    #[serde(default)]
    pub shared: u32,
    /// Layers at the start that have a plain feed-forward network instead.
    #[serde(default)]
    pub dense_layers: u32,
}

impl Part for Model {
    const KIND: Kind = Kind::Model;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        match (&self.transformer, &self.convolutional, &self.recommendation) {
            (Some(of), None, None) => of.check(),
            (None, Some(of), None) => of.check(),
            (None, None, Some(of)) => of.check(),
            _ => Err(Problem::at(
                &["name"],
                format!("`{}` is not one network", self.name),
                "say what it is with one of [transformer], [convolutional] and [recommendation]",
            )),
        }
    }
}

impl Transformer {
    fn check(&self) -> Result<(), Problem> {
        let of = self;
        let wrong = |key: &str, message: String, help: &str| Err(Problem::at(&["transformer", key], message, help));
        let counts = [
            ("layers", of.layers),
            ("hidden", of.hidden),
            ("heads", of.heads),
            ("kv_heads", of.kv_heads.unwrap_or(1)),
            ("head_size", of.head_size.unwrap_or(1)),
            ("feed_forward", of.feed_forward),
            ("vocabulary", of.vocabulary),
            ("sequence", of.sequence),
        ];
        if let Some((key, count)) = counts.into_iter().find(|(_, count)| !(1..=MOST).contains(count)) {
            return wrong(key, format!("`{key}` of {count}"), "use 1 to 100000000");
        }
        if of.head_size.is_none() && !of.hidden.is_multiple_of(of.heads) {
            return wrong(
                "heads",
                format!("{} dimensions for {} heads", of.hidden, of.heads),
                "use a divisor of `hidden`, or say `head_size`",
            );
        }
        if !of.heads.is_multiple_of(of.kv_heads.unwrap_or(of.heads)) {
            return wrong("kv_heads", format!("{} heads share {:?} of keys and values", of.heads, of.kv_heads), "use a divisor of `heads`");
        }
        match of.experts {
            Some(experts) if !(1..=experts.count).contains(&experts.per_token) => {
                let message = format!("a token takes {} of {} experts", experts.per_token, experts.count);
                Err(Problem::at(&["transformer", "experts", "per_token"], message, "use 1 to `count`"))
            }
            Some(experts) if experts.dense_layers > of.layers => {
                let message = format!("{} dense layers of {}", experts.dense_layers, of.layers);
                Err(Problem::at(&["transformer", "experts", "dense_layers"], message, "use at most `layers`"))
            }
            _ => Ok(()),
        }
    }
}

/// Basis: assumed, more than any model has.
const MOST: u32 = 100_000_000;
