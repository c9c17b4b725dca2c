//! Tests of diagnoses from outside.

mod errors;
