//! The tests of `fabriscope-mpi` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod active_messages;
mod bandwidth;
mod collectives;
mod credits;
mod gpu_mpi;
mod job;
mod latency_terms;
mod machine;
mod matching_order;
mod multicast_gdr;
mod repeatable;
mod requests;
mod semantics;
mod symmetric_heap;
mod transports;
mod triggered;
mod window_updates;
mod windows;
mod within_a_node;
