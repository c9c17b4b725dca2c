//! Nanoseconds per routing decision, and the time to build a fabric.
#![allow(missing_docs)]
fn main() {}
