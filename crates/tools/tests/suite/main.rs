//! The tests of `fabriscope-tools` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod accumulate;
mod columns;
mod compress;
mod efa;
mod experts;
mod hostile;
mod imb;
mod in_network;
mod krylov;
mod machine;
mod offload;
mod omb;
mod perftest;
mod perftest_extras;
mod perftest_gpu;
mod perftest_terms;
mod progress;
mod psm2;
mod rows;
mod shmem;
mod sockets;
mod tenants;
mod triggered;
mod ultra_ethernet;
mod xccl;
