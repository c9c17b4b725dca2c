//! Collective operations as what each rank does: which blocks it copies, whom it sends to and receives from, in what order.
//!
//! Pure functions of rank, number of ranks and size. They run in a library's ranks (`workloads::mpi`, which pays for messages and
//! copies as that library does), or become a schedule for any engine ([`schedule`]). One algorithm is one file; `select` in each
//! operation's folder chooses as a library does.

pub mod alltoall;
mod round;

pub use round::{Copies, Message, Round, schedule};
