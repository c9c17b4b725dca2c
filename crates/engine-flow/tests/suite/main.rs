//! The tests of `fabriscope-engine-flow` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod agrees;
mod closed_forms;
mod fat_tree;
mod library;
mod network;
mod rounds;
mod switch_levels;
mod textbook;
mod unlike_nodes;
