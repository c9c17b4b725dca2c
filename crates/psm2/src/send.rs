//! The sending half of an adapter: send buffers with credits, and queues of the send DMA engines.
//!
//! Source: hfi1, `pio.c` (`sc_return_credits`, thresholds of `sc_alloc`), `user_sdma.c`.

use std::collections::VecDeque;

use fabriscope_units::Time;

use fabriscope_wire::psm2::Header;

/// A packet in a send buffer or at an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued {
    pub header: Header,
    pub blocks: u32,
    pub first: bool,
    pub last: bool,
    /// Number of the store that brought it.
    pub store: u64,
}

/// Packets of one send context, or of one engine: they leave in order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Queued>,
    stores: u64,
    /// Stores up to this one have reached the adapter.
    arrived: u64,
    /// It waits for its turn.
    pub listed: bool,
}

impl Queue {
    /// The number of the next store.
    pub fn begin(&mut self) -> u64 {
        self.stores += 1;
        self.stores
    }
    pub fn push(&mut self, packet: Queued) {
        self.waiting.push_back(packet);
    }
    pub fn arrive(&mut self, store: u64) {
        self.arrived = self.arrived.max(store);
    }
    pub fn is_ready(&self) -> bool {
        self.waiting.front().is_some_and(|packet| packet.store <= self.arrived)
    }
    pub fn pop(&mut self) -> Option<Queued> {
        if self.is_ready() { self.waiting.pop_front() } else { None }
    }
}

/// Something limited that the process takes and the adapter gives back: blocks, requests.
#[derive(Debug)]
pub(crate) struct Credits {
    total: u32,
    /// What the process knows to be free.
    free: u32,
    /// Given back, and not told of yet.
    unreturned: u32,
    /// On its way to memory.
    returning: VecDeque<u32>,
    /// In memory.
    returned: VecDeque<(Time, u32)>,
}

impl Credits {
    pub fn new(total: u32) -> Credits {
        Credits { total, free: total, unreturned: 0, returning: VecDeque::new(), returned: VecDeque::new() }
    }
    /// How much is known to be free at `now`.
    pub fn free(&mut self, now: Time) -> u32 {
        while let Some(&(visible, amount)) = self.returned.front()
            && visible <= now
        {
            self.returned.pop_front();
            self.free += amount;
        }
        self.free
    }
    pub fn take(&mut self, amount: u32) {
        self.free = self.free.saturating_sub(amount);
    }
    /// The adapter is done with `amount`; true when it tells the process now.
    pub fn give_back(&mut self, amount: u32, threshold: u32) -> bool {
        self.unreturned += amount;
        // Below half of the buffer the process asks for them (PSM2, `ips_spio_transfer_frame`: credit return bit).
        let asked = self.free < self.total / 2;
        if self.unreturned < threshold.max(1) && !asked {
            return false;
        }
        self.returning.push_back(std::mem::take(&mut self.unreturned));
        true
    }
    /// What was told first is in memory at `visible`.
    pub fn landed(&mut self, visible: Time) {
        if let Some(amount) = self.returning.pop_front() {
            self.returned.push_back((visible, amount));
        }
    }
    pub fn next_visible(&self) -> Option<Time> {
        self.returned.front().map(|(visible, _)| *visible)
    }
    /// What is neither free nor on its way back.
    pub fn in_use(&self) -> u32 {
        let known: u32 = self.returning.iter().chain(self.returned.iter().map(|(_, amount)| amount)).sum();
        self.total - self.free - self.unreturned - known
    }
}
