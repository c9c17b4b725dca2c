//! A job that is ready to be simulated: programs, where they belong, and what prints their results.

use fabriscope_node::{Main, Ties};
use fabriscope_units::Span;

use crate::output::ToolOutput;
use crate::rows::Rows;

/// Makes the output after the run.
pub type Finish = Box<dyn FnOnce() -> ToolOutput>;

/// Where the ranks of a job belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// Rank 0 on one node, rank 1 on another.
    TwoNodes,
    /// Ranks `0..pairs` on one node, rank `i + pairs` facing rank `i` on another, one core each.
    Pairs {
        /// Number of pairs.
        pairs: u32,
    },
    /// Ranks fill the nodes of the job one after the other.
    Blocks {
        /// Ranks on each node.
        per_node: u32,
    },
    /// The same on the first nodes of a job: nothing runs on the others.
    FirstOf {
        /// Nodes of the job.
        nodes: u32,
        /// Ranks on each node.
        per_node: u32,
    },
}

impl Placing {
    /// Which node of the job holds `rank`, and which of its cores.
    #[must_use]
    pub fn seat(self, rank: u32) -> (u32, u32) {
        let each = match self {
            Placing::TwoNodes => 1,
            Placing::Pairs { pairs: each } | Placing::Blocks { per_node: each } | Placing::FirstOf { per_node: each, .. } => each.max(1),
        };
        (rank / each, rank % each)
    }
    /// How many nodes a job of so many programs has.
    #[must_use]
    pub fn nodes(self, ranks: u32) -> u32 {
        let taken = self.seat(ranks.saturating_sub(1)).0 + 1;
        if let Placing::FirstOf { nodes, .. } = self { nodes.max(taken) } else { taken }
    }
}

/// A job that is ready to be simulated: run `mains` (one per rank) once, then call `finish`.
pub struct Prepared {
    /// Where the ranks belong.
    pub placing: Placing,
    /// One program per rank; all message sizes of the command line run in it, one after the other.
    pub mains: Vec<Main>,
    /// What programs of different nodes know of each other.
    pub ties: Ties,
    /// The tool's output, once every program has ended.
    pub finish: Finish,
    /// Where a listener hears of rows before; tools without rows tell nothing.
    pub rows: Rows,
}

impl Prepared {
    /// A program of one rank without messages, whose time was found before it starts: it lasts so long.
    #[must_use]
    pub fn of_known_time(time: Span, output: ToolOutput) -> Prepared {
        let main: Main = Box::new(move |process| {
            Box::pin(async move {
                process.compute(time);
                Ok(())
            })
        });
        let placing = Placing::Blocks { per_node: 1 };
        Prepared { placing, mains: vec![main], ties: Ties::Any, finish: Box::new(move || output), rows: Rows::default() }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("placing", &self.placing).field("ranks", &self.mains.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_face_each_other() {
        assert_eq!([0, 1].map(|rank| Placing::TwoNodes.seat(rank)), [(0, 0), (1, 0)]);
        assert_eq!([0, 3, 4, 7].map(|rank| Placing::Pairs { pairs: 4 }.seat(rank)), [(0, 0), (0, 3), (1, 0), (1, 3)]);
        assert_eq!(
            [Placing::Blocks { per_node: 4 }, Placing::FirstOf { nodes: 64, per_node: 4 }].map(|placing| placing.nodes(12)),
            [3, 64]
        );
        assert_eq!([0, 3, 8, 11].map(|rank| Placing::Blocks { per_node: 4 }.seat(rank)), [(0, 0), (0, 3), (2, 0), (2, 3)]);
    }
}
