//! Traces of real programs, and workload files of other simulators, in one neutral form.
//!
//! [`read`] takes files, folders and archives, finds the format of each by its content ([`detect`]) and gives a [`Trace`]: the records of each
//! rank (computation, collectives, messages, waits), what each waits for, and the process groups. A [`Reading`] tells how many records were
//! read, used, and left out for which reason, and what was assumed. [`Trace::check`] matches what several ranks say of the same operation,
//! [`Trace::spread`] extends the trace of one rank to all, [`lower`] makes a [`Schedule`](fabriscope_schedule::Schedule) of it.
//!
//! Formats: `format` has one file for each; `docs/traces.md` says what is kept of each and what is assumed.
//! Clocks of ranks that are apart are set by what the ranks say of the same operations ([`Clock`]).
//! Not modelled: clocks of ranks that run at different rates, programs that would decide
//! otherwise if messages arrived in another order.
//!
//! ```
//! use fabriscope_traces::{Part, Unlowered, lower, read_parts};
//!
//! let text = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 3\n}\nrank 1 {\nl1: recv 8b from 0 tag 3\nl2: calc 100\nl2 requires l1\n}\n";
//! let traces = read_parts(vec![Part::new("two.goal", text.as_bytes().to_vec())]).unwrap();
//! assert_eq!(traces[0].reading.used, 3);
//! let schedule = lower(&traces[0], &Default::default(), &mut Unlowered).unwrap().schedule;
//! assert_eq!(schedule.stats().messages, 1);
//! ```

mod archive;
mod bytes;
mod check;
mod clocks;
mod collective;
mod detect;
mod draft;
mod error;
mod format;
mod group;
mod loggp;
mod lower;
mod open;
mod order;
mod reading;
mod spread;
mod trace;

pub use check::{CheckError, Checked};
pub use clocks::{Clock, Evidence, Waits};
pub use collective::{Collective, Element, Operation};
pub use detect::{Format, detect};
pub use error::{Position, Problem, TraceError};
pub use format::aicb_write::write as write_aicb;
pub use format::chakra::{ChakraFiles, write as write_chakra};
pub use format::goal::{GoalError, binary as goal_binary, text as goal_text};
pub use format::nccl_tuner::{Choice, choices};
pub use format::simai::{WriteError, write as write_simai};
pub use group::{Group, GroupId, Groups, Members};
pub use loggp::{LogGp, LogGpError, LogGpTimes, loggp};
pub use lower::{Call, Gaps, LowerError, LowerOptions, Lowered, Lowering, Unlowered, lower};
pub use open::{Part, read, read_parts};
pub use reading::Reading;
pub use spread::SpreadError;
pub use trace::{After, Kind, Message, RankTrace, Record, RecordId, Trace};
