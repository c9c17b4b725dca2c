//! OpenSHMEM: symmetric heap, puts and gets, atomics, fence and quiet, waiting, collective operations.
//!
//! Source: OpenSHMEM 1.5; Open MPI `oshmem/mca/spml/ucx`, `atomic/ucx`, `scoll/mpi`; Sandia OpenSHMEM; the parts say which number is whose.
//! Modelled: processing elements (PEs) on cores of the cluster's nodes, connected as the MPI library of the same transport is; what
//! [`Pe`] documents call by call; contents of the heap, where a job keeps them.
//! Not modelled: contexts and teams, threads, locks, strided puts and gets, memory of GPUs, what `shmem_malloc` costs.
//!
//! A [`Job`] is what the PEs share, a [`Pe`] what a program holds after `shmem_init`. docs/models/one-sided.md tells the longer story.

mod atomics;
mod collective;
mod heap;
mod order;
mod pe;
mod wait;

pub use collective::Operation;
pub use heap::{Heap, HeapError};
pub use pe::{Job, LARGEST_HEAP, Pe};
pub use wait::Relation;
