//! What a checkpoint writes, and how long a job stands still for it.
//!
//! Source: Rajbhandari et al., SC 2020, §3 (states of Adam in mixed precision: 2 bytes of a parameter, 12 of master copy and moments);
//! Megatron-LM, megatron/core/dist_checkpointing: each shard is written once, by the first of the ranks that have it.
//! Modelled: who writes what, the node that writes most, a limit of each node and one of the storage; the job waits until all is written.
//! Not modelled: copies to host memory while the job goes on, metadata, servers of the storage.

use fabriscope_catalog::Transformer;
use fabriscope_units::{Bytes, Rate, Span};

use crate::layout::{Layout, Sharding};
use crate::memory;

/// How a job writes checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// After how many steps.
    pub every: u32,
    /// What a node writes.
    pub node: Option<Rate>,
    /// What the storage takes from all nodes.
    pub storage: Option<Rate>,
}

/// What a checkpoint writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Parameters of all ranks.
    pub parameters: Bytes,
    /// States of the optimizer.
    pub optimizer: Bytes,
    /// What the node writes that writes most.
    pub busiest: Bytes,
    /// Nodes that write.
    pub nodes: u32,
}

impl Written {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.parameters + self.optimizer
    }
}

/// Bytes of a parameter, and those of its optimizer.
const STATES: (u64, u64) = (2, 12);

/// What the ranks write, `per_node` of them on each node.
#[must_use]
pub fn written(model: &Transformer, layout: &Layout, per_node: u32) -> Written {
    let (all, experts_all) = (layout.data_group(), layout.expert_data_group());
    let shard = u64::from(layout.shard_group(all).size.max(1));
    let expert_shard = u64::from(layout.shard_group(experts_all).size.max(1));
    // Those who write a share each where something is shared, else the first.
    let share = |sharding: Sharding, bytes: u64, number: u64, ranks: u64| {
        let ranks = if layout.sharding >= sharding { ranks } else { 1 };
        if number < ranks { bytes.div_ceil(ranks) } else { 0 }
    };
    let (mut found, mut node, mut of_node) = (Written::default(), 0, Bytes::ZERO);
    let close = |found: &mut Written, of_node: &mut Bytes| {
        found.busiest = found.busiest.max(*of_node);
        found.nodes += u32::from(*of_node > Bytes::ZERO);
        *of_node = Bytes::ZERO;
    };
    let mut rank = 0u64;
    for stage in 0..layout.pipeline {
        let (common, experts) = memory::parameters_of_stage(model, layout, stage);
        for copy in 0..u64::from(all.size) {
            let among_experts = copy / u64::from(layout.expert.max(1));
            let of = |sharding, bytes| {
                share(sharding, bytes * common, copy, shard) + share(sharding, bytes * experts, among_experts, expert_shard)
            };
            let (parameters, optimizer) = (Bytes(of(Sharding::Parameters, STATES.0)), Bytes(of(Sharding::Optimizer, STATES.1)));
            for _ in 0..layout.tensor {
                if rank / u64::from(per_node.max(1)) != node {
                    close(&mut found, &mut of_node);
                    node = rank / u64::from(per_node.max(1));
                }
                found.parameters += parameters;
                found.optimizer += optimizer;
                of_node += parameters + optimizer;
                rank += 1;
            }
        }
    }
    close(&mut found, &mut of_node);
    found
}

impl Checkpoint {
    /// How long writing takes; nothing where no rate is said.
    #[must_use]
    pub fn time(&self, written: &Written) -> Span {
        let node = self.node.map_or(Span::ZERO, |rate| rate.time(written.busiest));
        node.max(self.storage.map_or(Span::ZERO, |rate| rate.time(written.total())))
    }
    /// What of the time of a job it is, whose step takes so long [0..1].
    #[must_use]
    pub fn share(&self, written: &Written, step: Span) -> f64 {
        let writing = self.time(written).as_s_f64();
        writing / (writing + step.as_s_f64() * f64::from(self.every.max(1))).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape;
    use fabriscope_catalog::{Catalog, Model};

    fn model(name: &str) -> Transformer {
        Model::clone(Catalog::embedded().unwrap().model(name).unwrap()).transformer.unwrap()
    }

    /// 14 bytes of a parameter, whoever shares it; with shares all nodes write, without them the first copy's.
    #[test]
    fn every_parameter_is_written_once() {
        let of = model("llama3-8b");
        let expected = 14.0 * shape::parameters(&of) as f64;
        let layout = |sharding, shard| Layout { tensor: 2, pipeline: 2, data: 8, global_batch: 8, sharding, shard, ..Layout::default() };
        let cases = [
            (layout(Sharding::None, None), 2),
            (layout(Sharding::Optimizer, None), 4),
            (layout(Sharding::Parameters, None), 4),
            (layout(Sharding::Parameters, Some(4)), 2),
        ];
        for (layout, nodes) in cases {
            let found = written(&of, &layout, 8);
            assert!((found.total().0 as f64 / expected - 1.0).abs() < 0.001, "{layout:?}: {found:?} for {expected:e}");
            assert_eq!(found.nodes, nodes, "{layout:?}");
        }
    }

    #[test]
    fn experts_are_written_once() {
        let of = model("mixtral-8x7b");
        let expected = 14.0 * shape::parameters(&of) as f64;
        let layout = Layout { data: 16, expert: 8, global_batch: 16, sharding: Sharding::Optimizer, ..Layout::default() };
        let found = written(&of, &layout, 8);
        assert!((found.total().0 as f64 / expected - 1.0).abs() < 0.001, "{found:?} for {expected:e}");
    }

    /// 8 · 10⁹ bytes at 2 GB/s of the busiest node and 1 GB/s of the storage: 8 s; of 10 steps of 7.2 s a tenth.
    #[test]
    fn the_slower_of_node_and_storage_decides() {
        let written = Written { parameters: Bytes(8_000_000_000), busiest: Bytes(4_000_000_000), ..Written::default() };
        let checkpoint = Checkpoint { every: 10, node: Some(Rate::from_gbps(16)), storage: Some(Rate::from_gbps(8)) };
        assert_eq!(checkpoint.time(&written), Span::from_us(8_000_000));
        assert!((checkpoint.share(&written, Span::from_us(7_200_000)) - 0.1).abs() < 1e-12);
    }
}
