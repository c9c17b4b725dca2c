//! The kernels of a run of an NCCL program, kept until it is over: some for each rank and size, however many messages there are.

use fabriscope_engine::{Moment, Recorder};
use fabriscope_node::{Activity, Doing, Kernel};
use fabriscope_units::{Span, Time};

/// A kernel that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRun {
    /// The rank.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// When it began and ended.
    pub begun: Time,
    /// When it ended.
    pub done: Time,
    /// What it did.
    pub kernel: Kernel,
}

impl KernelRun {
    /// How long it ran.
    #[must_use]
    pub fn span(&self) -> Span {
        self.done.since(self.begun)
    }
}

/// Keeps kernels.
#[derive(Debug, Default)]
pub struct KernelLog {
    runs: Vec<KernelRun>,
}

impl KernelLog {
    /// The kernels, those of each rank in turn, in the order of time; nothing is left.
    pub fn take(&mut self) -> Vec<KernelRun> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_by_key(|run| (run.rank, run.begun, run.kernel.sequence));
        runs
    }
}

impl Recorder for KernelLog {
    fn record(&mut self, moment: Moment) {
        if let Moment::Activity(Activity { rank, node, begun, done, doing: Doing::Kernel(kernel) }) = moment {
            self.runs.push(KernelRun { rank, node, begun, done, kernel });
        }
    }
}
