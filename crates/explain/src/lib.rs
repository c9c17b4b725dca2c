//! Where the time of one message goes, what binds, and what a change would save.
//!
//! [`explain`] takes a request and gives an outcome. [`chain`] joins followed messages to one exchange without gaps, [`busy`] says
//! how long a message keeps each resource, [`inside`] follows it through the memories of a node, and [`change`] varies one thing at a
//! time. Nothing here prints.

pub mod busy;
pub mod chain;
pub mod change;
mod collective;
mod gpu_copies;
pub mod inside;
mod message;
mod request;

pub use request::{Changes, ExplainRequest, explain};
