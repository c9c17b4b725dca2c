//! Physical quantities as types: [`Time`], [`Span`], [`Bytes`], [`Rate`], [`Pace`], [`Power`], [`Energy`].
//!
//! Whole numbers throughout: picoseconds, bytes, bits per second. Text always carries its unit
//! (`"400 Gb/s"`, `"1 MiB"`, `"620 ns"`); `b` is bit, `B` is byte, `k` is 1000 and `Ki` is 1024.
//! A bare number and the ambiguous `KB` are refused with a suggestion.
//!
//! An error of any crate says what is wrong and, apart from it, what to do: [`Remedy`] gives both.
//! [`Form`] lets a struct of parameters stand with bare values in a model and with their origin in a catalogue.

#[cfg(test)]
extern crate self as fabriscope_units;

mod bytes;
mod energy;
mod form;
mod operations;
mod pace;
mod parse;
mod quantity;
mod rate;
mod remedy;
mod spliced;
mod time;

pub use bytes::Bytes;
pub use energy::{Energy, EnergyPerBit, Power};
pub use form::{Form, Plain, Value};
pub use operations::OperationRate;
pub use pace::Pace;
pub use parse::UnitError;
pub use quantity::{Frequency, Ratio};
pub use rate::Rate;
pub use remedy::Remedy;
pub use time::{Span, Time};
