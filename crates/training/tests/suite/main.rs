//! Tests of steps of training.

mod nets;
mod operations;
mod step;
mod told;
