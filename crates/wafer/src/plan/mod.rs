//! Who sends what to whom, behind what.

mod line;
mod plane;
#[cfg(test)]
mod proof;

use crate::mesh::{Costs, Mesh};

/// A step of a stream's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Behind which router of the route: 0 is that of the source, 1 the one that the first hop leads to.
    pub after: u32,
    /// The core whose router it leads to.
    pub to: u32,
    /// Whether the core there takes the wavelets, too.
    pub delivers: bool,
}

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The core's own elements, to which those of the streams before have been added.
    Sum,
    /// What came with the streams before, added up; without any, what is there already.
    Copy,
}

/// A stream of wavelets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Its core.
    pub from: u32,
    /// Its first element.
    pub first: u64,
    /// How many there are.
    pub count: u64,
    /// What it carries.
    pub payload: Payload,
    /// Numbers of streams to its core whose same elements it waits for.
    pub after: Vec<u32>,
    /// Its links, each behind the one that leads to it.
    pub route: Vec<Hop>,
}

/// All streams of an operation, in the order in which routers are set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The streams.
    pub flows: Vec<Flow>,
    /// How many streams there are at the end of each phase.
    pub phases: Vec<u32>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sum at the first core.
    Reduce,
    /// What the first core has at all.
    Broadcast,
    /// The sum at all.
    AllReduce,
}

/// How sums come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Each core of a line to its first, one after the other.
    Star,
    /// From neighbour to neighbour.
    Chain,
    /// Binary trees.
    Tree,
    /// Chains in groups of the root of the line's length, then a chain of their first cores.
    TwoPhase,
    /// The best tree by the model, or the best of the others where that is better by the simulation.
    Auto,
    /// Parts around a ring; of all-reduce only.
    Ring,
    /// One chain through all rows, there and back in turn.
    Snake,
}

impl Algorithm {
    /// All, in the order of a list.
    pub const ALL: [Algorithm; 7] =
        [Algorithm::Star, Algorithm::Chain, Algorithm::Tree, Algorithm::TwoPhase, Algorithm::Auto, Algorithm::Ring, Algorithm::Snake];
    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Star => "star",
            Algorithm::Chain => "chain",
            Algorithm::Tree => "tree",
            Algorithm::TwoPhase => "two-phase",
            Algorithm::Auto => "auto",
            Algorithm::Ring => "ring",
            Algorithm::Snake => "snake",
        }
    }
    /// Whether there is an `operation` by it.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        operation == Operation::AllReduce || self != Algorithm::Ring
    }
}

/// How results come back to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Broadcast {
    /// From the sum of all, by routers that copy: down the first column and along all rows at once.
    #[default]
    Flood,
    /// Along the rows behind the sums of rows, along the columns behind those of columns: each line has its own all-reduce.
    Lines,
}

/// A plan that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum PlanError {
    /// No cores, or too many.
    #[error("a mesh of {columns} by {rows} cores")]
    #[diagnostic(help("give from 1 to 65535 columns and rows, and no more than 16777216 cores"))]
    Size {
        /// Cores in a row.
        columns: u32,
        /// Rows.
        rows: u32,
    },
    /// No elements.
    #[error("vectors of no elements")]
    #[diagnostic(help("give 1 or more"))]
    Empty,
    /// A ring that only all-reduces.
    #[error("`ring` has parts of the sum at all cores, not the sum at the first")]
    #[diagnostic(help("use it for all-reduce, or another algorithm"))]
    Ring,
    /// Fewer elements than parts.
    #[error("{elements} elements for the {parts} parts of a ring")]
    #[diagnostic(help("give vectors of as many elements as a line has cores, or another algorithm"))]
    Parts {
        /// Elements.
        elements: u64,
        /// Cores of a line.
        parts: u32,
    },
    /// So many streams that they have no numbers.
    #[error("more than 16777216 streams")]
    #[diagnostic(help("take fewer cores, or another algorithm"))]
    Streams,
}

impl Plan {
    /// The plan of an operation on vectors of `elements` wavelets at each core.
    ///
    /// # Errors
    /// No cores or elements; a ring that is none.
    pub fn new(
        mesh: Mesh,
        costs: Costs,
        operation: Operation,
        (algorithm, broadcast): (Algorithm, Broadcast),
        elements: u64,
    ) -> Result<Plan, PlanError> {
        let side = 1..=u32::from(u16::MAX);
        if !side.contains(&mesh.columns) || !side.contains(&mesh.rows) || u64::from(mesh.columns) * u64::from(mesh.rows) > MOST {
            return Err(PlanError::Size { columns: mesh.columns, rows: mesh.rows });
        }
        if elements == 0 {
            return Err(PlanError::Empty);
        }
        if operation == Operation::Broadcast {
            let mut plan = Plan::default();
            plane::flood(mesh, &mut plan, elements, Vec::new());
            plan.close();
            return Ok(plan);
        }
        let all = operation == Operation::AllReduce;
        match algorithm {
            Algorithm::Ring if !all => Err(PlanError::Ring),
            Algorithm::Ring => plane::rings(mesh, elements),
            Algorithm::Snake => Ok(plane::snake(mesh, elements, all)),
            _ if all && broadcast == Broadcast::Lines => Ok(plane::lines(mesh, costs, algorithm, elements)),
            _ => Ok(plane::reduce(mesh, costs, algorithm, elements, all)),
        }
    }

    fn push(&mut self, flow: Flow) -> u32 {
        self.flows.push(flow);
        self.flows.len() as u32 - 1
    }
    /// A phase ends here.
    fn close(&mut self) {
        let end = self.flows.len() as u32;
        if self.phases.last().copied().unwrap_or(0) != end {
            self.phases.push(end);
        }
    }
}

/// A route without branches: the cores that it passes, the last of which takes what comes.
fn straight(path: &[u32]) -> Vec<Hop> {
    let hop = |(place, to): (usize, &u32)| Hop { after: place as u32, to: *to, delivers: place + 1 == path.len() };
    path.iter().enumerate().map(hop).collect()
}

/// Cores, and streams. Basis: assumed; what there is memory for.
const MOST: u64 = 1 << 24;
