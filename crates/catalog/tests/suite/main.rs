//! The tests of `fabriscope-catalog` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod altered;
mod bases;
mod decisions;
mod documents;
mod draft;
mod embedded;
mod groups;
mod hostile;
mod links;
mod listed;
mod machines;
mod messages;
mod node_files;
mod nodes;
mod round_trip;
mod sets;
