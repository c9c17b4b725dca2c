//! What a run tells while it goes, for those who draw it over time: nothing of it is kept in memory.
//!
//! Messages with their stages, what cores and GPUs do, and samples of queues, links and adapters. A [`Recorder`] hears of each when it is
//! over, so that times do not ascend; the sums of stages are exact ([`MessageTrace`]).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_node::{Activity, Work};
use fabriscope_units::{Bytes, Span, Time};

use crate::stage::MessageTrace;

/// Something that a run tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// A message that arrived, and that a program has seen if it looks.
    Message(Followed),
    /// A core worked for a rank.
    Core {
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// When it was woken.
        from: Time,
        /// When it had nothing more to do.
        until: Time,
    },
    /// A copy, or a message within a node.
    Work(Work),
    /// What a rank says that it did.
    Activity(Activity),
    /// What waited for a link or was on its wire, and what it sent since the sample before.
    Link {
        /// When.
        time: Time,
        /// Number of the link in the fabric's graph.
        link: u32,
        /// What waits.
        queue: Bytes,
        /// What was sent, headers included.
        sent: Bytes,
    },
    /// What an adapter has posted that is not over.
    Adapter {
        /// When.
        time: Time,
        /// Number of the adapter in the fabric.
        adapter: u32,
        /// Messages.
        messages: u64,
        /// Bytes of those whose last packet was built.
        bytes: Bytes,
    },
}

/// A message and its two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Its stages; its `node` is the number of the adapter that sent it.
    pub trace: MessageTrace,
    /// The queue pair that sent it.
    pub qp: u32,
    /// The adapter that it went to; none where no packet of it left.
    pub to: Option<u32>,
    /// The rank that posted it, where programs do that.
    pub rank: Option<u32>,
}

/// Somebody who writes down what a run tells.
pub trait Recorder: Send {
    /// Takes one thing; what cannot be written is told when the recorder is closed.
    fn record(&mut self, moment: Moment);
}

/// Where a run tells what happens.
#[derive(Clone)]
pub struct Timeline {
    recorder: Arc<Mutex<dyn Recorder>>,
    /// From one sample to the next.
    pub step: Span,
}

impl Timeline {
    /// Told to `recorder`, with samples of links and adapters at every `step`.
    #[must_use]
    pub fn new(recorder: Arc<Mutex<dyn Recorder>>, step: Span) -> Timeline {
        Timeline { recorder, step }
    }

    /// Tells one thing.
    pub fn record(&self, moment: Moment) {
        self.lock().record(moment);
    }

    fn lock(&self) -> MutexGuard<'_, dyn Recorder + 'static> {
        // A recorder that panicked has lost its file, which its owner sees; the run goes on.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline").field("step", &self.step).finish_non_exhaustive()
    }
}
