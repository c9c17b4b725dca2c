//! What runs on the parts of a divided fabric: a schedule, or programs.

use fabriscope_engine::EngineError;
use fabriscope_units::Time;

use crate::world::{Client, World};

/// What runs on a part beside others.
pub(crate) trait Divided: Client {
    /// Whether there is nothing left for it to do.
    fn done(&self) -> bool;
    /// Whether something went wrong that ends the run.
    fn failed(&self) -> bool;
    /// Where its ranks stand before a barrier of all ranks.
    fn meeting(&self) -> Meeting;
    /// The last rank of all has come: those of this part go on at `at`.
    fn open(&mut self, world: &mut World<'_>, at: Time);
}

/// Where the ranks of a part stand before a barrier of all ranks, which takes no time: who has come may run no further than others
/// surely do before they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Some are on their way.
    Expected,
    /// All are there; when the last of them came.
    There(Time),
    /// Nobody of this part is waited for.
    Nobody,
}

/// Something to run on a part, in the thread where the part runs.
pub(crate) trait Workload: Send {
    /// What it is while it runs; it stays in its thread.
    type Client: Divided;
    /// What is left of it.
    type WorkloadEnd: Send;
    /// Before the first event of any part.
    fn begin(self, world: &mut World<'_>) -> Result<Self::Client, EngineError>;
    /// After the last one.
    fn end(client: Self::Client) -> Self::WorkloadEnd;
}
