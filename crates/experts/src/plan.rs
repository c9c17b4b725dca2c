//! What each channel of each rank sends where: tokens in their order, with the nodes and GPUs of each.
//!
//! Source: DeepEP, csrc/kernels/internode.cu (`get_channel_task_range`: a channel has a run of tokens).

use crate::merge::set;
use crate::routing::Routing;

/// The channels of all ranks.
#[derive(Debug)]
pub(crate) struct Plan {
    pub channels: u32,
    nodes: u32,
    /// By rank and channel: the nodes of each token, a bit each.
    sent: Vec<Vec<u64>>,
    /// By rank, channel and node: the GPUs there of each token that goes there.
    gpus: Vec<Vec<u32>>,
}

impl Plan {
    pub fn new(routing: &Routing, channels: u32) -> Plan {
        let shape = *routing.shape();
        let lists = (shape.ranks() * channels) as usize;
        let mut plan =
            Plan { channels, nodes: shape.nodes, sent: vec![Vec::new(); lists], gpus: vec![Vec::new(); lists * shape.nodes as usize] };
        let each = shape.tokens.div_ceil(channels).max(1);
        let mut gpus = vec![0u32; shape.nodes as usize];
        for rank in 0..shape.ranks() {
            for token in 0..shape.tokens {
                let list = (rank * channels + token / each) as usize;
                let mut nodes = 0u64;
                for expert in routing.of(rank, token) {
                    let to = shape.rank_of((*expert).into());
                    nodes |= 1 << (to / shape.per_node);
                    gpus[(to / shape.per_node) as usize] |= 1 << (to % shape.per_node);
                }
                plan.sent[list].push(nodes);
                for node in set(nodes) {
                    plan.gpus[list * shape.nodes as usize + node].push(std::mem::take(&mut gpus[node]));
                }
            }
        }
        plan
    }
    /// The nodes of each token of a channel.
    pub fn sent(&self, rank: u32, channel: u32) -> &[u64] {
        &self.sent[(rank * self.channels + channel) as usize]
    }
    /// The GPUs of a node for each token of a channel that goes there.
    pub fn gpus(&self, rank: u32, channel: u32, node: u32) -> &[u32] {
        &self.gpus[((rank * self.channels + channel) * self.nodes + node) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::Shape;

    #[test]
    fn every_token_is_in_one_channel_and_goes_where_its_experts_are() {
        let shape = Shape { nodes: 4, per_node: 8, tokens: 100, topk: 8, groups: 4, experts: 256, hidden: 7168, seed: 3 };
        let routing = Routing::draw(shape);
        let plan = Plan::new(&routing, 12);
        for rank in 0..32 {
            let sent: Vec<u64> = (0..12).flat_map(|channel| plan.sent(rank, channel)).copied().collect();
            assert_eq!(sent.len(), 100);
            assert_eq!(sent.iter().map(|nodes| u64::from(nodes.count_ones())).sum::<u64>(), routing.nodes_of(rank));
        }
        let to = |rank: u32| -> u64 {
            let lists = (0..32).flat_map(|from| (0..12).map(move |channel| (from, channel)));
            let gpu = |gpus: &&u32| **gpus & (1 << (rank % 8)) != 0;
            lists.map(|(from, channel)| plan.gpus(from, channel, rank / 8).iter().filter(gpu).count() as u64).sum()
        };
        assert_eq!((0..32).map(to).collect::<Vec<_>>(), (0..32).map(|rank| routing.received(rank)).collect::<Vec<_>>());
    }
}
