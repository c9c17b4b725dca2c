//! The adapter of a node: contexts of processes, and the send DMA engines that they share.
//!
//! Modelled: contexts with work take turns, one packet each; whatever the adapter tells a process goes through memory.
//! Not modelled: time. Who drives it says when stores arrive, packets leave and entries are in memory.
//!
//! The driver calls
//! - `poll_store` after the process ran, and `arrived` when that store has reached the adapter;
//! - `poll` for each packet that can be built, and `poll_notice` behind it;
//! - `handle` for each packet that comes;
//! - `landed` when an entry or notice of which it was told is in memory.

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Time};

use crate::receive::{Arrival, Receiving};
use crate::send::{Credits, Queue, Queued};
use crate::settings::AdapterSettings;
use fabriscope_wire::psm2::Header;

/// A store of a process on its way to the adapter: a packet, or the doorbell of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// The queue it is for: a context, or an engine.
    pub queue: u32,
    /// Its number there.
    pub store: u64,
    /// When the process began with it, when the last store left the core, and when it is there if the bus is idle.
    pub times: (Time, Time, Time),
    /// Bytes that cross the bus with it.
    pub pushed: Bytes,
    /// Bytes of descriptors that the adapter fetches because of it.
    pub fetched: Bytes,
    /// It is followed through the machine.
    pub traced: bool,
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says.
    pub header: Header,
    /// Bytes on the wire.
    pub wire: u32,
    /// Bytes that the adapter reads from memory for it.
    pub fetch: u32,
    /// The queue it comes from, and the store that brought it.
    pub queue: u32,
    /// The number of that store.
    pub store: u64,
    /// It is the first packet of its store.
    pub first: bool,
    /// It is the last.
    pub last: bool,
}

/// What the adapter writes into the memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// An entry of the receive header queue of a context.
    Entry(u32),
    /// Free blocks of a send context.
    Blocks(u32),
    /// A request of a context that an engine has done.
    Request(u32),
}

/// What an adapter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets dropped because a header queue or eager buffers were full.
    pub overflows: u64,
    /// Blocks of send buffers that hold packets.
    pub blocks_in_use: u64,
}

#[derive(Debug)]
struct Context {
    blocks: Credits,
    requests: Credits,
    receiving: Receiving,
}

/// An adapter.
#[derive(Debug)]
pub struct Adapter {
    lid: u32,
    settings: AdapterSettings,
    contexts: Vec<Context>,
    /// Send contexts, then engines.
    queues: Vec<Queue>,
    turns: VecDeque<u32>,
    stores: VecDeque<Store>,
    notices: VecDeque<Notice>,
}

/// For processes.
impl Adapter {
    /// An adapter with address `lid`.
    #[must_use]
    pub fn new(lid: u32, settings: AdapterSettings) -> Adapter {
        let queues = (0..settings.parameters.contexts + settings.parameters.engines).map(|_| Queue::default()).collect();
        let (contexts, turns, stores, notices) = (Vec::new(), VecDeque::new(), VecDeque::new(), VecDeque::new());
        Adapter { lid, settings, contexts, queues, turns, stores, notices }
    }
    /// Its address.
    #[must_use]
    pub fn lid(&self) -> u32 {
        self.lid
    }
    /// What it was made with.
    #[must_use]
    pub fn settings(&self) -> &AdapterSettings {
        &self.settings
    }
    /// Opens a context; `None` when all are taken.
    pub fn open(&mut self) -> Option<u32> {
        if self.contexts.len() as u32 >= self.settings.parameters.contexts {
            return None;
        }
        let settings = &self.settings;
        self.contexts.push(Context {
            blocks: Credits::new(settings.credits),
            requests: Credits::new(settings.parameters.ring),
            receiving: Receiving::new(settings),
        });
        Some(self.contexts.len() as u32 - 1)
    }
    /// When a process that waits for entries of its header queue, or also for room to send, has something to do.
    #[must_use]
    pub fn next_visible(&self, notice: Notice) -> Option<Time> {
        match notice {
            Notice::Entry(context) => self.contexts.get(context as usize)?.receiving.next_visible(),
            Notice::Blocks(context) => self.contexts.get(context as usize)?.blocks.next_visible(),
            Notice::Request(context) => self.contexts.get(context as usize)?.requests.next_visible(),
        }
    }
    pub(crate) fn take(&mut self, context: u32, now: Time) -> Option<Header> {
        self.receiving(context).take(now)
    }
    pub(crate) fn receiving(&mut self, context: u32) -> &mut Receiving {
        &mut self.contexts[context as usize].receiving
    }
    pub(crate) fn free_blocks(&mut self, context: u32, now: Time) -> u32 {
        self.contexts[context as usize].blocks.free(now)
    }
    pub(crate) fn free_requests(&mut self, context: u32, now: Time) -> u32 {
        self.contexts[context as usize].requests.free(now)
    }
    /// A packet is stored into the send buffer of its sender.
    pub(crate) fn store(&mut self, header: Header, times: (Time, Time, Time)) {
        let context = header.from.context;
        let blocks = AdapterSettings::blocks(header.payload);
        self.contexts[context as usize].blocks.take(blocks);
        let queue = &mut self.queues[context as usize];
        let store = queue.begin();
        queue.push(Queued { header, blocks, first: true, last: true, store });
        let pushed = Bytes(u64::from(blocks) * 64);
        self.stores.push_back(Store { queue: context, store, times, pushed, fetched: Bytes::ZERO, traced: header.traced });
    }
    /// Packets are handed to an engine.
    pub(crate) fn request(&mut self, headers: &[Header], times: (Time, Time, Time)) {
        let Some(head) = headers.first() else { return };
        self.contexts[head.from.context as usize].requests.take(1);
        // The driver spreads destinations and contexts over the engines (hfi1, `sdma_select_user_engine`).
        let number = self.settings.parameters.contexts + (head.to.lid ^ head.from.context) % self.settings.parameters.engines.max(1);
        let queue = &mut self.queues[number as usize];
        let store = queue.begin();
        for (at, header) in headers.iter().enumerate() {
            queue.push(Queued { header: *header, blocks: 0, first: at == 0, last: at + 1 == headers.len(), store });
        }
        let fetched = self.settings.parameters.descriptors * headers.len() as u64;
        let traced = head.traced;
        self.stores.push_back(Store { queue: number, store, times, pushed: Bytes(8), fetched, traced });
    }
}

/// For who drives it.
impl Adapter {
    /// What processes have stored and nobody has taken to the adapter yet.
    pub fn poll_store(&mut self) -> Option<Store> {
        self.stores.pop_front()
    }
    /// The store `store` to `queue`, and all before it, have reached the adapter with what belongs to them.
    pub fn arrived(&mut self, queue: u32, store: u64) {
        let Some(state) = self.queues.get_mut(queue as usize) else { return };
        state.arrive(store);
        if !state.listed && state.is_ready() {
            state.listed = true;
            self.turns.push_back(queue);
        }
    }
    /// The next packet.
    pub fn poll(&mut self) -> Option<Outgoing> {
        let number = self.turns.pop_front()?;
        let queue = &mut self.queues[number as usize];
        let packet = queue.pop()?;
        queue.listed = queue.is_ready();
        if queue.listed {
            self.turns.push_back(number);
        }
        let header = packet.header;
        let pio = number < self.settings.parameters.contexts;
        let context = &mut self.contexts[header.from.context as usize];
        if pio {
            if context.blocks.give_back(packet.blocks, self.settings.credit_return) {
                self.notices.push_back(Notice::Blocks(header.from.context));
            }
        } else if packet.last && context.requests.give_back(1, 1) {
            self.notices.push_back(Notice::Request(header.from.context));
        }
        let fetch = if pio { 0 } else { header.payload };
        let wire = self.settings.wire_bytes(header.payload);
        Some(Outgoing { header, wire, fetch, queue: number, store: packet.store, first: packet.first, last: packet.last })
    }
    /// What it wants to write to the memory of a process because of packets that left.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
    /// A packet came. If an entry belongs to it, `landed` is to be called with [`Notice::Entry`] of its receiver.
    pub fn handle(&mut self, header: Header) -> Arrival {
        match self.contexts.get_mut(header.to.context as usize) {
            Some(context) => context.receiving.arrive(header, &self.settings),
            None => Arrival { dropped: true, ..Arrival::default() },
        }
    }
    /// What `notice` tells is in memory at `visible`; notices of a kind land in their order.
    pub fn landed(&mut self, visible: Time, notice: Notice) {
        let (Notice::Entry(number) | Notice::Blocks(number) | Notice::Request(number)) = notice;
        let Some(context) = self.contexts.get_mut(number as usize) else { return };
        match notice {
            Notice::Entry(_) => context.receiving.landed(visible),
            Notice::Blocks(_) => context.blocks.landed(visible),
            Notice::Request(_) => context.requests.landed(visible),
        }
    }
    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            overflows: self.contexts.iter().map(|context| context.receiving.overflows).sum(),
            blocks_in_use: self.contexts.iter().map(|context| u64::from(context.blocks.in_use())).sum(),
        }
    }
}
