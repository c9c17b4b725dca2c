//! What the tools of all families have in common: their command lines, what can be wrong with these, the job that comes of them and its output.
//!
//! A tool reads its [`arguments`], looks at the machine as [`fabriscope_platform::Target`] shows it, and answers with a [`Prepared`] job or
//! a [`UsageError`]; after the run there is a [`ToolOutput`].

mod algorithm;
pub mod arguments;
mod drives;
mod error;
mod library;
mod nearest_rank;
pub mod offload;
mod output;
mod prepared;
mod rows;
mod traits;

pub use algorithm::algorithm;
pub use drives::{nvme_drive, nvme_names};
pub use error::UsageError;
pub use library::mpi_for;
pub use nearest_rank::nearest_rank;
pub use output::{DataTable, Datum, Point, SideFile, Spending, ToolOutput};
pub use prepared::{Finish, Placing, Prepared};
pub use rows::{Listener, Rows, Said};
pub use traits::{Data, Direction, Exchange, Measures, Operation, PerNode, Ranks, SizeOption, Suite, Traits};
