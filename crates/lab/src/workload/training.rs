//! One iteration of training a transformer: what a lab says of it, and whether it fits a cluster.

use fabriscope_catalog::{Problem, ResolvedCluster};
use fabriscope_traffic::Training as Layout;
use fabriscope_units::{Bytes, Span};
use fabriscope_wire::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LARGEST_MESSAGE, check_transport};

/// One iteration of training a transformer, in tensor, pipeline and data parallelism: what passes between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// GPUs that share the tensors of a layer; their messages count as computation.
    pub tensor: u32,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Copies of the model.
    pub data: u32,
    /// Transformer layers, a multiple of `pipeline`.
    pub layers: u32,
    /// Dimensions of a word.
    pub hidden: u32,
    /// Words of a sequence.
    pub sequence: u32,
    /// Words that there are.
    pub vocabulary: u32,
    /// Micro-batches of an iteration, for each copy of the model.
    pub micro_batches: u32,
    /// Sequences of a micro-batch.
    #[serde(default = "super::one")]
    pub micro_batch: u32,
    /// 10⁹ operations per second that a GPU reaches, messages of tensor parallelism included.
    pub gigaflops: u64,
    /// Transport service.
    #[serde(default)]
    pub transport: Service,
    /// Packets may be taken in any order: what spraying needs.
    #[serde(default)]
    pub any_order: bool,
}

impl Training {
    /// The same as the generator of its messages takes it.
    pub(crate) fn layout(&self) -> Layout {
        let Training { tensor, pipeline, data, layers, hidden, sequence, vocabulary, micro_batches, micro_batch, gigaflops, .. } = *self;
        Layout { tensor, pipeline, data, layers, hidden, sequence, vocabulary, micro_batches, micro_batch, gigaflops }
    }

    /// What a person should know of it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let (layout, last) = (self.layout(), self.pipeline - 1);
        let ms = |span: Span| span.as_us_f64() / 1000.0;
        vec![
            format!("{} GPUs: {} share tensors, {} stages, {} copies", layout.ranks(), self.tensor, self.pipeline, self.data),
            format!(
                "a micro-batch takes {:.3} ms forward at {} Tflop/s, {:.3} ms at the last stage; a GPU hands on {} and has {} of gradients",
                ms(layout.forward(0)),
                self.gigaflops as f64 / 1000.0,
                ms(layout.forward(last)),
                layout.activation(),
                layout.gradients(0),
            ),
        ]
    }
}

pub(super) fn check(training: &Training, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let wrong = |key, message: String, help: &str| Err(Problem::at(&["workload", "training", key], message, help));
    let counts = [
        ("tensor", training.tensor),
        ("pipeline", training.pipeline),
        ("data", training.data),
        ("layers", training.layers),
        ("hidden", training.hidden),
        ("sequence", training.sequence),
        ("vocabulary", training.vocabulary),
        ("micro_batches", training.micro_batches),
        ("micro_batch", training.micro_batch),
    ];
    if let Some((key, count)) = counts.into_iter().find(|(_, count)| !(1..=MOST).contains(count)) {
        return wrong(key, format!("`{key}` of {count}"), "use 1 to 1000000");
    }
    if training.gigaflops == 0 {
        return wrong("gigaflops", "a GPU that does nothing".to_owned(), "write what a GPU reaches, for example 135000");
    }
    if !training.layers.is_multiple_of(training.pipeline) {
        let message = format!("{} layers in {} stages", training.layers, training.pipeline);
        return wrong("layers", message, "use a multiple of `pipeline`");
    }
    let (layout, hosts) = (training.layout(), cluster.endpoints());
    if layout.ranks() < 2 || layout.ranks() > u64::from(hosts) {
        let message = format!("{} GPUs on {hosts} hosts", layout.ranks());
        return wrong("data", message, &format!("make tensor · pipeline · data 2 to {hosts}, or use a larger cluster"));
    }
    let part = Bytes(layout.gradients(0).0.div_ceil(training.data.into()));
    if part.max(layout.activation()) > LARGEST_MESSAGE {
        return wrong("hidden", format!("a message of {}", part.max(layout.activation())), "share the model among more GPUs");
    }
    check_transport(training.transport, cluster, &["workload", "training", "transport"])
}

/// Basis: assumed, more than any model has.
const MOST: u32 = 1_000_000;
