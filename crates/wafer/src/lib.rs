//! Collective operations on the mesh of a wafer, cycle by cycle.
//!
//! Source: Luczynski et al., "Near-Optimal Wafer-Scale Reduce" (HPDC 2024, arXiv 2404.15888): router, core, algorithms, model; Cerebras SDK:
//! wavelets of 32 bits, routes that are set up before, routers that copy a wavelet to several outputs in one cycle.
//! Modelled: streams of wavelets ([`Flow`]) along their routes, one a cycle on each link each way, in the order in which routers are set;
//! ramps between core and router, one a cycle each way; sums element by element as wavelets come, so that a chain is a pipeline. Streams
//! are kept as runs of consecutive cycles ([`Sequence`]): the work does not grow with the length of the vectors. [`estimate`] is the paper's
//! model of the same plan, by depth, distance, energy and contention.
//! Not modelled: queues of routers that are full (what waits, waits in the queue before its link; a test has the same with queues of four
//! for the algorithms here), instructions between two streams of a core, how many colours there are, the memory of a core.
//!
//! Two steps: a [`Plan`] says who sends what to whom behind what; [`simulate`] says when. [`Outcome`] has the cycles.

mod auto;
mod estimate;
mod mesh;
#[cfg(test)]
mod naive;
mod plan;
mod sequence;
mod simulate;

pub use estimate::{Estimate, estimate};
pub use mesh::{Costs, Mesh};
pub use plan::{Algorithm, Broadcast, Flow, Operation, Payload, Plan, PlanError};
pub use sequence::Sequence;
pub use simulate::{Outcome, simulate};
