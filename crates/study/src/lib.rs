//! Studies: parameters × clusters × tools, each point run once, kept, and written as a Parquet data set.
//!
//! A [`Study`] is a TOML file; [`Plan`] lists its points, each with the key of its content: all that its result depends on, and the version
//! of the sources. A [`Store`] keeps results under their keys and writes the files of the data set as their points are done, each file
//! under a temporary name first: whatever ends the process, the next one goes on from there, and the bytes are those of one that was never
//! ended. [`sweep::run`] runs what is missing on all cores; a caller that has other processes or machines asks the plan for a point and
//! gives its result to the store.

mod bench;
mod column;
mod error;
mod file;
mod key;
mod labs;
mod machines;
mod plan;
mod result;
mod store;
pub mod sweep;

pub use error::StudyError;
pub use file::{BenchBlock, Change, LabBlock, Set, Study, study_schema};
pub use key::{Key, VERSION};
pub use plan::{Plan, Point};
pub use result::{PointResult, Sample};
pub use store::Store;
