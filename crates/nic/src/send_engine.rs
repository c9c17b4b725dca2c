//! The send engine: how fast a NIC begins messages, and how far it reads ahead in each queue.
//!
//! Modelled: one engine for all queues with a message rate, which may be lower for WRITEs; an interval between the work requests of one queue, and one between READ
//! responses; a pause of the bus between fetches of different messages; read-ahead per queue (`node::pcie`). What is known of the queues
//! of a NIC with many is forgotten when it makes no difference any more. Packets smaller than what is read at a time wait for their block.
//! Not modelled: several engines in parallel, arbitration between queues (`verbs` picks them in turn).

use fabriscope_node::ReadStream;
use fabriscope_prefetch::prefetch;
use fabriscope_units::{Span, Time};
use rustc_hash::FxHashMap;

/// The engine and its queues: requester and responder side of each queue pair.
#[derive(Debug, Clone, Default)]
pub struct SendEngine {
    /// When it may begin a message.
    free: Time,
    /// The queue that was fetched for last.
    last: Option<usize>,
    /// Those numbered below [`DIRECT`].
    queues: Vec<Queue>,
    /// Of the others those that were busy of late.
    others: FxHashMap<usize, Queue>,
    /// How many of these there are when it is looked which are not.
    most: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    reads: ReadStream,
    /// When it may begin a message.
    free: Time,
    block: Block,
}

/// What has been read of a message whose packets are smaller than the blocks that are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    /// Bytes of the message that are not asked for.
    left: u32,
    /// Bytes that are read and have not left.
    ahead: u32,
    /// When they are in the adapter.
    complete: Time,
}

impl Block {
    /// A message of so many bytes begins.
    pub(crate) fn begin(&mut self, bytes: u32) {
        (self.left, self.ahead) = (bytes, 0);
    }
    /// A packet is sent again, which is read by itself; those behind it are as well, up to the next block.
    pub(crate) fn again(&mut self) {
        self.ahead = 0;
    }
    /// A packet of `payload` bytes is built: when it is in the adapter, if it was read with one before it.
    pub(crate) fn take(&mut self, payload: u32) -> Option<Time> {
        self.ahead = self.ahead.checked_sub(payload)?;
        Some(self.complete)
    }
    /// How much is read for a packet of `payload` bytes that was not.
    pub(crate) fn next(&self, block: u32, payload: u32) -> u32 {
        block.min(self.left).max(payload)
    }
    /// `amount` is read for a packet of `payload` bytes and those behind it.
    pub(crate) fn read(&mut self, amount: u32, payload: u32, complete: Time) {
        *self = Block { left: self.left.saturating_sub(amount), ahead: amount - payload, complete };
    }
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
        SendEngine::default()
    }

    #[inline]
    fn queue(&mut self, queue: usize) -> &mut Queue {
        if queue >= DIRECT {
            return self.others.entry(queue).or_default();
        }
        if queue >= self.queues.len() {
            self.queues.resize(queue + 1, Queue::default());
        }
        &mut self.queues[queue]
    }

    /// Forgets queues that are as if they had never been used.
    #[cold]
    fn forget(&mut self, now: Time) {
        self.others.retain(|_, queue| queue.free > now || !queue.reads.is_over(now, LONGEST_READ));
        self.most = (2 * self.others.len()).max(FEW);
    }

    /// Begins a message of `queue` at `now`, or as soon as engine and queue may; they take `engine` and `interval` for it.
    #[inline]
    pub fn begin(&mut self, now: Time, queue: usize, (engine, interval): (Span, Span)) -> Begin {
        let begun = now.max(self.free);
        self.free = begun + engine;
        if self.others.len() > self.most {
            self.forget(now);
        }
        let own = self.queue(queue);
        let at = begun.max(own.free);
        own.free = at + interval;
        Begin { at, gap: if self.last == Some(queue) { interval } else { engine } }
    }

    /// Payload is fetched for `queue`: what it has read so far.
    #[inline]
    pub(crate) fn reads(&mut self, queue: usize) -> ReadStream {
        self.last = Some(queue);
        self.queue(queue).reads
    }
    #[inline]
    pub(crate) fn set_reads(&mut self, queue: usize, reads: ReadStream) {
        self.queue(queue).reads = reads;
    }

    /// What has been read of the message of `queue`.
    pub(crate) fn block(&mut self, queue: usize) -> &mut Block {
        &mut self.queue(queue).block
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if let Some(queue) = self.last.and_then(|last| self.queues.get(last)) {
            prefetch(queue);
        }
    }
}

/// Queues that have a place each. Basis: assumed; both sides of 128 queue pairs.
const DIRECT: usize = 256;
/// Others that are kept without a look at them. Basis: assumed.
const FEW: usize = 48;
/// Longer than a read takes. Basis: assumed, a hundred times a read over PCIe.
const LONGEST_READ: Span = Span::from_us(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::tests::costs;

    #[test]
    fn one_queue_keeps_its_interval_and_many_the_message_rate() {
        let spans = (costs().message_interval, Span::from_ns(25));
        let mut engine = SendEngine::new();
        let begin = |engine: &mut SendEngine, queue| engine.begin(Time::ZERO, queue, spans).at.as_ps() / 1000;
        // 25 ns apart in one queue.
        assert_eq!([begin(&mut engine, 0), begin(&mut engine, 0), begin(&mut engine, 0)], [0, 25, 50]);
        // 10 ns apart over all: the engine was asked three times.
        assert_eq!([begin(&mut engine, 1), begin(&mut engine, 2), begin(&mut engine, 3)], [30, 40, 50]);
    }

    /// Thousands of queues in turn: each is as if all were kept, and those that rest take no room.
    #[test]
    fn queues_that_rest_are_forgotten() {
        let wqe = Span::from_ns(25);
        let spans = (costs().message_interval, wqe);
        let mut engine = SendEngine::new();
        for round in 0..20_000u64 {
            let now = Time::from_ps(round * 10_000_000);
            let queue = DIRECT + (round % 5_000) as usize;
            assert_eq!(engine.begin(now, queue, spans).at, now);
            assert_eq!(engine.begin(now, queue, spans).at, now + wqe, "its interval is kept");
            assert!(engine.others.len() <= FEW + 1);
        }
    }

    #[test]
    fn a_change_of_queue_pauses_the_bus_by_the_message_interval() {
        let mut engine = SendEngine::new();
        let costs = costs();
        let spans = (costs.message_interval, costs.wqe_interval);
        let _ = engine.reads(0);
        assert_eq!(engine.begin(Time::ZERO, 0, spans).gap, costs.wqe_interval);
        assert_eq!(engine.begin(Time::ZERO, 1, spans).gap, costs.message_interval);
    }
}
