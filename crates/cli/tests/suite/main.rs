//! The tests of `fabriscope-cli` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod alltoallv;
mod bad_input;
mod broadcasts;
mod captures;
mod counters;
mod dependency_order;
mod documents;
mod dragonfly_traffic;
mod engines;
mod explain_inside;
mod formats;
mod gpus;
mod imported;
mod imported_cluster;
mod interference;
mod krylov;
mod lab_keys;
mod module_cycles;
mod nccl;
mod nodes;
mod one_face;
mod one_sided;
mod outcome;
mod pictures;
mod qos;
mod remedies;
mod route;
mod same_bytes;
mod slots;
mod strangers;
mod test_programs;
mod timelines;
mod topo;
mod transports;
mod vocabulary;
