//! The tests of `fabriscope-nccl-runtime` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod contents;
mod gpus;
mod monotone;
mod pipelines;
mod terms;
