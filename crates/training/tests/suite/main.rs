//! Tests of steps of training.

mod nets;
mod operations;
mod plain;
mod step;
mod told;
