//! Which experts each token goes to.
//!
//! Source: DeepEP, tests/test_internode.py and test_low_latency.py: random scores; the nodes with the best scores are a token's groups, and its
//! experts the best among those. Only the order of scores counts, so that any continuous distribution gives the same choice.
//! Modelled: the draw by chance, and with it that some ranks get more than others. Not modelled: gates that learned to prefer some experts.

use fabriscope_streams::{Stream, Streams};

/// The job's shape and the draw's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub per_node: u32,
    /// Tokens of each GPU.
    pub tokens: u32,
    /// Experts of a token.
    pub topk: u32,
    /// Nodes that a token goes to at most.
    pub groups: u32,
    /// Experts of all.
    pub experts: u32,
    /// Elements of a token.
    pub hidden: u32,
    /// Seed of the draw.
    pub seed: u64,
}

impl Shape {
    /// GPUs of the job.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.nodes * self.per_node
    }
    /// Experts of a GPU.
    #[must_use]
    pub fn local_experts(&self) -> u32 {
        self.experts / self.ranks().max(1)
    }
    /// Whose an expert is.
    #[must_use]
    pub fn rank_of(&self, expert: u32) -> u32 {
        expert / self.local_experts().max(1)
    }
}

/// The experts of all tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    shape: Shape,
    /// By rank, token and place among the best.
    choices: Vec<u16>,
}

impl Routing {
    /// Draws the experts of all tokens: every rank from a stream of its own.
    #[must_use]
    pub fn draw(shape: Shape) -> Routing {
        let streams = Streams::new(shape.seed);
        let mut choices = Vec::with_capacity((shape.ranks() * shape.tokens * shape.topk) as usize);
        let mut scores = Vec::new();
        for rank in 0..shape.ranks() {
            let mut stream = streams.stream("experts of tokens", rank.into());
            for _ in 0..shape.tokens {
                if shape.groups < shape.nodes {
                    limited(&shape, &mut stream, &mut scores, &mut choices);
                } else {
                    distinct(&shape, &mut stream, &mut choices);
                }
            }
        }
        Routing { shape, choices }
    }
    /// The experts of a token.
    #[must_use]
    pub fn of(&self, rank: u32, token: u32) -> &[u16] {
        let topk = self.shape.topk as usize;
        let first = (rank as usize * self.shape.tokens as usize + token as usize) * topk;
        &self.choices[first..first + topk]
    }
    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// How many nodes the tokens of a rank go to, the own one among them, all tokens together.
    #[must_use]
    pub fn nodes_of(&self, rank: u32) -> u64 {
        self.count(rank, |expert| self.shape.rank_of(expert) / self.shape.per_node)
    }
    /// How many tokens come to a rank, each counted once.
    #[must_use]
    pub fn received(&self, rank: u32) -> u64 {
        let mine = |expert: &u16| self.shape.rank_of((*expert).into()) == rank;
        let of = |from| (0..self.shape.tokens).filter(move |token| self.of(from, *token).iter().any(mine)).count() as u64;
        (0..self.shape.ranks()).map(of).sum()
    }
    fn count(&self, rank: u32, place: impl Fn(u32) -> u32) -> u64 {
        let distinct = |token| {
            let mut places: Vec<u32> = self.of(rank, token).iter().map(|expert| place((*expert).into())).collect();
            places.sort_unstable();
            places.dedup();
            places.len() as u64
        };
        (0..self.shape.tokens).map(distinct).sum()
    }
}

/// The best of all experts: any of them, none twice.
fn distinct(shape: &Shape, stream: &mut Stream, choices: &mut Vec<u16>) {
    let first = choices.len();
    while choices.len() - first < shape.topk as usize {
        let expert = stream.below(shape.experts.into()) as u16;
        if !choices[first..].contains(&expert) {
            choices.push(expert);
        }
    }
}

/// The best of the experts on the nodes with the best ones.
fn limited(shape: &Shape, stream: &mut Stream, scores: &mut Vec<(u64, u16)>, choices: &mut Vec<u16>) {
    scores.clear();
    scores.extend((0..shape.experts as u16).map(|expert| (stream.next_u64(), expert)));
    let of_node = (shape.experts / shape.nodes) as usize;
    let mut nodes: Vec<(u64, usize)> = scores
        .chunks(of_node)
        .enumerate()
        .map(|(node, scores)| (scores.iter().map(|(score, _)| *score).max().unwrap_or(0), node))
        .collect();
    nodes.sort_unstable_by(|one, other| other.cmp(one));
    let mut best: Vec<(u64, u16)> =
        nodes[..shape.groups as usize].iter().flat_map(|(_, node)| &scores[node * of_node..(node + 1) * of_node]).copied().collect();
    let last = (shape.topk as usize).min(best.len()) - 1;
    best.select_nth_unstable_by(last, |one, other| other.cmp(one));
    choices.extend(best[..=last].iter().map(|(_, expert)| *expert));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(nodes: u32, groups: u32) -> Shape {
        Shape { nodes, per_node: 8, tokens: 512, topk: 8, groups, experts: 256, hidden: 7168, seed: 1 }
    }

    #[test]
    fn a_token_goes_to_as_many_nodes_as_chance_says() {
        // 8 of 256 experts on 4 nodes of 64: a node is left out with C(192, 8) / C(256, 8) = 0.0953, so 4 · 0.9047 = 3.62 nodes a token.
        let routing = Routing::draw(shape(4, 4));
        let mean = (0..32).map(|rank| routing.nodes_of(rank)).sum::<u64>() as f64 / (32.0 * 512.0);
        assert!((mean - 3.62).abs() < 0.02, "{mean}");
        // A rank has 8 of 256 experts: 1 − C(248, 8) / C(256, 8) = 0.2259 of the tokens of all.
        let come = (0..32).map(|rank| routing.received(rank)).sum::<u64>() as f64 / (32.0 * 32.0 * 512.0);
        assert!((come - 0.2259).abs() < 0.003, "{come}");
    }

    #[test]
    fn groups_limit_nodes() {
        let routing = Routing::draw(shape(8, 2));
        for rank in 0..64 {
            assert!(routing.nodes_of(rank) <= 2 * 512);
        }
        assert_eq!(routing, Routing::draw(shape(8, 2)));
        for token in 0..512 {
            let mut experts = routing.of(3, token).to_vec();
            experts.sort_unstable();
            experts.dedup();
            assert_eq!(experts.len(), 8);
        }
    }
}
