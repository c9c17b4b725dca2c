//! The send engine: how fast a NIC begins messages, and how far it reads ahead in each queue.
//!
//! Modelled: one engine for all queues with a message rate; an interval between the work requests of one queue, and one between READ
//! responses; a pause of the bus between fetches of different messages; read-ahead per queue (`node::pcie`).
//! Not modelled: several engines in parallel, arbitration between queues (`verbs` picks them in turn).

use fabriscope_node::ReadStream;
use fabriscope_prefetch::prefetch;
use fabriscope_units::{Span, Time};

use crate::costs::NicCosts;

/// The engine and its queues: requester and responder side of each queue pair.
#[derive(Debug, Clone)]
pub struct SendEngine {
    /// When it may begin a message.
    free: Time,
    /// The queue that was fetched for last.
    last: usize,
    queues: Vec<Queue>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    reads: ReadStream,
    /// When it may begin a message.
    free: Time,
}

/// When the engine begins with a packet, and how long the bus pauses before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The first moment.
    pub at: Time,
    /// The pause.
    pub gap: Span,
}

impl SendEngine {
    /// An engine that is idle.
    #[must_use]
    pub fn new() -> SendEngine {
        SendEngine { free: Time::ZERO, last: usize::MAX, queues: Vec::new() }
    }

    /// Knows `queue` from now on.
    #[inline]
    pub fn ensure(&mut self, queue: usize) {
        if queue >= self.queues.len() {
            self.queues.resize(queue + 1, Queue::default());
        }
    }

    /// Begins a message of `queue` at `now`, or as soon as engine and queue may; the queue takes `interval` for it.
    #[inline]
    pub fn begin(&mut self, costs: &NicCosts, now: Time, queue: usize, interval: Span) -> Begin {
        let begun = now.max(self.free);
        self.free = begun + costs.message_interval;
        let at = begun.max(self.queues[queue].free);
        self.queues[queue].free = at + interval;
        Begin { at, gap: if self.last == queue { interval } else { costs.message_interval } }
    }

    /// Payload is fetched for `queue`: what it has read so far.
    #[inline]
    pub(crate) fn reads(&mut self, queue: usize) -> ReadStream {
        self.last = queue;
        self.queues[queue].reads
    }
    #[inline]
    pub(crate) fn set_reads(&mut self, queue: usize, reads: ReadStream) {
        self.queues[queue].reads = reads;
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if let Some(queue) = self.queues.get(self.last) {
            prefetch(queue);
        }
    }
}

impl Default for SendEngine {
    fn default() -> SendEngine {
        SendEngine::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::costs;

    #[test]
    fn one_queue_keeps_its_interval_and_many_the_message_rate() {
        let (costs, wqe) = (costs(), Span::from_ns(25));
        let mut engine = SendEngine::new();
        engine.ensure(3);
        let begin = |engine: &mut SendEngine, queue| engine.begin(&costs, Time::ZERO, queue, wqe).at.as_ps() / 1000;
        // 25 ns apart in one queue.
        assert_eq!([begin(&mut engine, 0), begin(&mut engine, 0), begin(&mut engine, 0)], [0, 25, 50]);
        // 10 ns apart over all: the engine was asked three times.
        assert_eq!([begin(&mut engine, 1), begin(&mut engine, 2), begin(&mut engine, 3)], [30, 40, 50]);
    }

    #[test]
    fn a_change_of_queue_pauses_the_bus_by_the_message_interval() {
        let mut engine = SendEngine::new();
        engine.ensure(1);
        let costs = costs();
        let _ = engine.reads(0);
        assert_eq!(engine.begin(&costs, Time::ZERO, 0, costs.wqe_interval).gap, costs.wqe_interval);
        assert_eq!(engine.begin(&costs, Time::ZERO, 1, costs.wqe_interval).gap, costs.message_interval);
    }
}
