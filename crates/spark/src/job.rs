//! What all programs of the job know, and where each of them is.

use std::collections::VecDeque;

use fabriscope_catalog::{Drive, Shared, ShuffleLibrary};
use fabriscope_node::Record;
use fabriscope_rpc::channel::{Contacts, Over, Terms};
use fabriscope_units::{Bytes, Rate, Time};

use crate::drive::DriveQueue;
use crate::fetcher::Limits;
use crate::options::{Fetch, Settings};
use crate::task::TaskRecord;

/// A way to fetch blocks, with the library that does it.
#[derive(Debug, Clone)]
pub struct Stack {
    pub fetch: Fetch,
    pub over: Over,
    pub library: ShuffleLibrary,
    pub terms: Terms,
    pub limits: Limits,
    /// Of a reduce task on a core.
    pub reduce_rate: Rate,
    pub writes_output: bool,
}

/// The second stage over one transport.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    pub begin: Option<Time>,
    pub tasks: Vec<TaskRecord>,
}

/// The job.
#[derive(Debug)]
pub struct Job {
    pub settings: Settings,
    pub stacks: Vec<Stack>,
    pub executors: u32,
    /// Threads of an executor that fetch, and as many that serve.
    pub threads: u32,
    pub contacts: Contacts,
    /// By partition, the block of each map task.
    pub blocks: Vec<Bytes>,
    pub maps: Vec<TaskRecord>,
    pub drive: Option<Shared<Drive>>,
    /// By executor.
    pub drives: Vec<Record<Option<DriveQueue>>>,
    /// Partitions that no task has yet.
    pub waiting: Record<VecDeque<u32>>,
    /// By transport.
    pub stages: Vec<Record<Stage>>,
}

/// What a program of the job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A thread that fetches for the tasks of some cores.
    Fetches(u32),
    /// A thread that serves blocks.
    Serves(u32),
}

impl Job {
    /// What a program is, and on which executor.
    #[must_use]
    pub fn role(&self, rank: u32) -> (u32, Role) {
        let (executor, thread) = (rank / (2 * self.threads), rank % (2 * self.threads));
        (executor, if thread < self.threads { Role::Fetches(thread) } else { Role::Serves(thread - self.threads) })
    }
    /// The programs at the other ends of a program's connections, by executor.
    #[must_use]
    pub fn peers(&self, executor: u32, role: Role) -> Vec<u32> {
        let thread = match role {
            Role::Fetches(thread) => self.threads + thread,
            Role::Serves(thread) => thread,
        };
        (0..self.executors).filter(|other| *other != executor).map(|other| other * 2 * self.threads + thread).collect()
    }
    /// Map tasks that ran on an executor.
    #[must_use]
    pub fn maps_of(&self, executor: u32) -> u32 {
        maps_of(executor, self.executors, self.settings.maps)
    }
    /// Begins the second stage anew.
    pub fn begin(&self) {
        *self.waiting.lock() = (0..self.settings.reducers).collect();
        for drive in &self.drives {
            *drive.lock() = self.drive.as_ref().map(|drive| DriveQueue::new(drive));
        }
    }
}

/// Map tasks are dealt to executors in turn.
#[must_use]
pub fn maps_of(executor: u32, executors: u32, maps: u32) -> u32 {
    maps / executors + u32::from(executor < maps % executors)
}

/// Kinds of messages: a request for blocks, its handle, a request for one block, a block, its index, the end.
pub const OPEN: u32 = 1;
pub const HANDLE: u32 = 2;
pub const CHUNK: u32 = 3;
pub const BLOCK: u32 = 4;
pub const INDEX: u32 = 5;
pub const END: u32 = 6;
