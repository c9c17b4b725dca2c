//! Kinds of jobs: what their tasks do with bytes is in the catalogue.

use fabriscope_catalog::{ShuffleJob, ShuffleLibrary};

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// `GroupByTest` of Spark's examples.
    GroupBy,
    /// The same, sorted.
    SortBy,
    /// TeraSort.
    TeraSort,
}

impl JobKind {
    /// All of them.
    pub const ALL: [JobKind; 3] = [JobKind::GroupBy, JobKind::SortBy, JobKind::TeraSort];
    /// What a command line calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            JobKind::GroupBy => "groupby",
            JobKind::SortBy => "sortby",
            JobKind::TeraSort => "terasort",
        }
    }
    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<JobKind> {
        JobKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
    /// What its tasks do.
    #[must_use]
    pub fn of(self, library: &ShuffleLibrary) -> &ShuffleJob {
        match self {
            JobKind::GroupBy => &library.group_by,
            JobKind::SortBy => &library.sort_by,
            JobKind::TeraSort => &library.tera_sort,
        }
    }
}
