//! Collective operations as what each rank does: which pieces it moves, whom it sends to and receives from, in what order.
//!
//! Pure functions of rank, number of ranks and sizes. They run in a library's ranks (`mpi`, which pays for messages,
//! copies and reductions as that library does), or become a schedule for any engine ([`schedule`]). One algorithm is one file;
//! [`proof`] shows for each that every contribution arrives once, at the right place, whatever the timing.

#![warn(missing_docs)]

mod algorithm;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
mod blocks;
mod fold;
pub mod gather;
pub mod group;
mod halving;
mod kind;
pub mod names;
mod operation;
mod piece;
pub mod proof;
#[cfg(test)]
mod rank_counts;
pub mod reduce;
pub mod reduce_scatter;
mod reduction;
mod registry;
mod ring;
mod round;
pub mod scan;
pub mod scatter;
pub mod tree;
pub mod two_level;

pub use algorithm::{Algorithm, Call, TwoLevel, UnknownAlgorithm};
pub use blocks::{Blocks, Turned, Vector};
pub use group::{Group, Nodes};
pub use kind::Kind;
pub use operation::{Expected, Operation, received};
pub use piece::{Action, Buffer, Message, Move, Piece};
pub use round::{Amount, Joint, Outline, Outlines, Round, Rounds, add_rounds, data_schedule, schedule};
