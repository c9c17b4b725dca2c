//! `hpl`: the High Performance LINPACK benchmark, step by step of its panel loop.
//!
//! Source: A. Petitet, R. C. Whaley, J. Dongarra, A. Cleary, HPL, "HPL Algorithm" and "HPL Scalability Analysis" (netlib) for the steps
//! and what they send; N. Chalmers et al., "Optimizing high-performance Linpack for exascale accelerated architectures", SC 2023,
//! arXiv 2304.10397, for the split update of GPUs.
//! Modelled: a system of N unknowns dealt in blocks of NB over P x Q processes; at every step the factorisation of a panel with its search for
//! pivots, its broadcast along rows of processes, the swaps of rows along columns, the update of what is left, and what of these the
//! look-ahead of one panel hides, by who moves panels meanwhile; the substitution at the end. Messages cost what two times say: within a
//! node and between nodes.
//! Not modelled: the numbers themselves, processes that are slower than others, memory of the host behind that of a GPU, clocks that fall.

mod broadcast;
mod error;
mod grid;
mod machine;
mod options;
mod problem;
mod report;
mod run;
mod swap;

pub use broadcast::Broadcast;
pub use error::HplError;
pub use grid::{Grid, Mapping};
pub use machine::{Machine, Movers, Path, Processor};
pub use options::{OPTIONS, Options, read};
pub use problem::{Problem, unknowns};
pub use report::printed;
pub use run::{Times, run};
pub use swap::Swap;

/// The program's name.
pub const NAME: &str = "hpl";
/// What the real program is called.
pub const PROGRAM: &str = "xhpl";
/// One line for a list of tools.
pub const ABOUT: &str = "High Performance LINPACK, step by step of its panel loop: what the TOP500 ranks by";
