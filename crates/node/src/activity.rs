//! What a program says that it did, and when: calls of its library and kernels on its GPU. Noted for timelines alone.

use fabriscope_units::{Bytes, Time};

use crate::process::Process;

/// Something that a rank did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The rank.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// When it began.
    pub begun: Time,
    /// When it was over.
    pub done: Time,
    /// What it was.
    pub doing: Doing,
}

/// What a rank did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// It was in a call of its library.
    Call {
        /// The call, as the benchmark names it.
        name: String,
        /// The size that the benchmark prints.
        bytes: Bytes,
    },
    /// A kernel of a communication library ran on its GPU.
    Kernel(Kernel),
}

/// A kernel of NCCL or RCCL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The GPU of its node.
    pub gpu: u32,
    /// The function of the library, without `nccl`: `AllReduce`; `SendRecv` where ranks send to each other.
    pub operation: &'static str,
    /// Algorithm and protocol, as the library names them; none where ranks send to each other.
    pub choice: Option<(&'static str, &'static str)>,
    /// The type of the elements, as the benchmark names it.
    pub datatype: &'static str,
    /// Bytes of an element.
    pub element: u64,
    /// Elements as the call counts them.
    pub count: u64,
    /// Elements of the rank that go in, and that come out.
    pub elements: (u64, u64),
    /// Whom the rank sends to (true) and receives from, with the bytes, where ranks send to each other.
    pub exchanges: Vec<(u32, bool, Bytes)>,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Nodes of the communicator.
    pub nodes: u32,
    /// Its number on the communicator, from 0.
    pub sequence: u64,
}

impl Process {
    /// From now on, activities are kept until somebody takes them.
    pub fn keep_activities(&self) {
        self.work_log(|log| _ = log.activities.get_or_insert_default());
    }

    /// Whether anybody asks for activities.
    #[must_use]
    pub fn keeps_activities(&self) -> bool {
        self.work_log(|log| log.activities.is_some()).unwrap_or(false)
    }

    /// Notes what the rank did from `begun` to `done`, where anybody asks for it.
    pub fn note_activity(&self, (begun, done): (Time, Time), doing: impl FnOnce() -> Doing) {
        let (rank, node) = (self.rank(), self.node());
        self.work_log(|log| {
            if let Some(activities) = &mut log.activities {
                activities.push(Activity { rank, node, begun, done, doing: doing() });
            }
        });
    }

    /// What has been noted since this was last asked.
    #[must_use]
    pub fn take_activities(&self) -> Vec<Activity> {
        self.work_log(|log| log.activities.as_mut().map(std::mem::take)).flatten().unwrap_or_default()
    }
}
