//! Tests of diagnoses from outside.

mod cases;
mod errors;
