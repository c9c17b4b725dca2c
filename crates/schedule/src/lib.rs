//! The waist between workloads and engines: WHAT happens, as plain data.
//!
//! A [`Schedule`] lists for every rank its operations (send, receive, put, get, compute) and what each of
//! them waits for. It says nothing of nodes, links or time: a cluster does, and an engine brings both together.
//!
//! Source: the operation graphs of GOAL (T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly
//! Language", ICPP 2009), with one-sided operations and with units.
//! Modelled: order after the end and after the start of another operation, two-sided messages matched by
//! (source, destination, tag) in order, one-sided messages.
//! Not modelled: wildcard receives, the processor core or NIC that runs an operation, data-dependent control flow.
//!
//! ```
//! use fabriscope_schedule::{Builder, Schedule};
//! use fabriscope_units::Bytes;
//!
//! let mut builder = Builder::new(2);
//! builder.send(0, 1, Bytes(4096), 7);
//! let arrived = builder.recv(1, 0, Bytes(4096), 7);
//! let reply = builder.put(1, 0, Bytes(8));
//! builder.requires(1, reply, arrived);
//! let schedule = builder.build().unwrap();
//! assert_eq!(Schedule::parse(&schedule.to_string()).unwrap(), schedule);
//! ```

mod builder;
mod check;
mod error;
mod hash;
mod lexer;
mod op;
mod plain;
mod reader;
mod schedule;
mod writer;

pub use builder::Builder;
pub use check::Match;
pub use error::{ScheduleError, TextError, TextProblem};
pub use hash::ScheduleHash;
pub use op::{After, At, Op, OpId, OpKind};
pub use schedule::{Schedule, Stats};
