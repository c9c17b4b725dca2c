//! Where the time of one message goes, its bottleneck, and what a change would save.
//!
//! [`explain`] takes a request and gives an outcome. [`critical_path`] joins followed messages to one exchange without gaps, [`occupancy`] says
//! how long a message keeps each resource, [`data_path`] follows it through the memories of a node, and [`what_if`] varies one thing at a
//! time. Whole operations ([`explain`] of collectives and of programs on sockets) are run again with each change. Nothing here prints.

mod application;
mod collective;
pub mod critical_path;
pub mod data_path;
mod explanation;
mod gpu_copies;
mod message;
pub mod occupancy;
mod operation;
mod request;
mod savings;
mod twice;
pub mod what_if;

pub use explanation::explain;
pub use request::{Changes, ExplainRequest};
pub use twice::{double, double_lanes, double_links};
