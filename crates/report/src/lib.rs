//! What a run means for a reader: measured tables, errors, comparisons, stages.
//!
//! Every command gives one [`Outcome`], data from which each format of [`render`] is made.
//! Everything here takes results and gives text or data. Nothing here runs a simulation: predictions come
//! from a [`Predict`] that the caller supplies, so each piece is tested without an engine.
//!
//! ```
//! use fabriscope_report::measured;
//! let csv = "table,cluster,benchmark,message_bytes,metric,unit,value\n\
//!            t,ri2,osu_bw,4096,bandwidth,MB/s,6806.01\n";
//! let table = measured::read("t.csv", csv.as_bytes()).unwrap();
//! assert_eq!(table.rows()[0].value, 6806.01);
//! ```

pub mod compare;
pub mod counters;
pub mod explain;
pub mod figure;
pub mod footprint;
mod grid;
pub mod measured;
pub mod monitor;
mod outcome;
pub mod question;
mod raw;
pub mod render;
pub mod settings;
pub mod statistics;
pub mod table;
pub mod tolerance;
pub mod validate;

pub use figure::Figure;
pub use footprint::{Footprint, Job, Queues};
pub use grid::{Cell, Column, Grid, Holds};
pub use measured::{Measured, MeasuredError, Row};
pub use outcome::{Block, Outcome, Verdict};
pub use question::{Kind, Quantity, Question};
pub use settings::{AllSettings, Settings, SettingsError};
pub use statistics::{Point, Summary};
pub use table::Table;
pub use tolerance::Tolerances;
pub use validate::{Answer, JobShape, Predict, Refusal, Report, TableResult, Terms};
