//! A channel of DRAM with its controller.
//!
//! Source: JEDEC JESD79-4 and JESD79-5 for what the times are; S. Rixner et al., "Memory Access Scheduling", ISCA 2000, for a controller
//! that takes the oldest access whose bank is free.
//! Modelled: the bus, banks that take a row cycle for each access, refresh of all banks, writes that are gathered and the bus that turns
//! round for them, a queue of writes that fills.
//! Not modelled: rows left open (each access opens its own, as many threads see it), ranks, power-down.

use std::collections::VecDeque;

use fabriscope_platform::loads::Dram;
use fabriscope_units::{Span, Time};

/// An access that waits; `held` is what it keeps elsewhere until it is served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access<H> {
    pub id: u32,
    pub bank: u32,
    pub held: Option<H>,
}

/// One channel.
#[derive(Debug)]
pub(super) struct Channel<H> {
    reads: VecDeque<Access<H>>,
    writes: VecDeque<Access<H>>,
    /// Writes for which the queue has no room.
    blocked: VecDeque<Access<H>>,
    banks: Vec<Time>,
    free: Time,
    writing: bool,
    /// Writes that are left of a batch.
    batch: u32,
    /// When refreshes begin, apart from other channels.
    phase: Span,
}

/// What a channel does at a moment.
pub(super) enum Turn<H> {
    /// It serves an access; a line that is read is there at this time. The number is that of a write that has found room.
    Serve(Access<H>, Option<Time>, Option<u32>),
    /// Nothing before this time.
    Later(Time),
    /// Nothing waits.
    Idle,
}

impl<H: Copy> Channel<H> {
    pub(super) fn new(dram: &Dram, number: u32) -> Channel<H> {
        let phase = Span::from_ps(dram.refresh_interval.as_ps() / u64::from(dram.channels.max(1)) * u64::from(number));
        Channel {
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            blocked: VecDeque::new(),
            banks: vec![Time::ZERO; dram.banks as usize],
            free: Time::ZERO,
            writing: false,
            batch: 0,
            phase,
        }
    }
    pub(super) fn read(&mut self, access: Access<H>) {
        self.reads.push_back(access);
    }
    /// Whether the write has a place in the queue and needs no answer any more.
    pub(super) fn write(&mut self, dram: &Dram, access: Access<H>) -> bool {
        let room = self.writes.len() < (QUEUE * dram.write_batch) as usize;
        if room {
            self.writes.push_back(access)
        } else {
            self.blocked.push_back(access)
        }
        room
    }

    /// What is to be done at `now`.
    pub(super) fn poll(&mut self, dram: &Dram, now: Time) -> Turn<H> {
        if self.reads.is_empty() && self.writes.is_empty() {
            return Turn::Idle;
        }
        if now < self.free {
            return Turn::Later(self.free);
        }
        if let Some(end) = refreshed(dram, now, self.phase) {
            return Turn::Later(end);
        }
        let gathered = self.writes.len() >= dram.write_batch as usize;
        if self.batch == 0 && (gathered || self.reads.is_empty()) {
            self.batch = (self.writes.len() as u32).min(dram.write_batch);
        }
        let writes = self.batch > 0;
        if writes != self.writing {
            self.writing = writes;
            self.free = now + dram.turnaround;
            return Turn::Later(self.free);
        }
        let queue = if writes { &mut self.writes } else { &mut self.reads };
        let near = queue.iter().take(WINDOW);
        let Some(at) = near.clone().position(|access| self.banks[access.bank as usize] <= now) else {
            let soonest = near.map(|access| self.banks[access.bank as usize]).min().unwrap_or(now);
            return Turn::Later(soonest);
        };
        let Some(access) = queue.remove(at) else { return Turn::Idle };
        self.banks[access.bank as usize] = now + dram.row_cycle;
        self.free = now + dram.line;
        if !writes {
            return Turn::Serve(access, Some(now + dram.access + dram.line), None);
        }
        self.batch -= 1;
        let admitted = self.blocked.pop_front();
        self.writes.extend(admitted);
        Turn::Serve(access, None, admitted.map(|access| access.id))
    }
}

/// The end of the refresh that is going on, if one is.
fn refreshed(dram: &Dram, now: Time, phase: Span) -> Option<Time> {
    let interval = dram.refresh_interval.as_ps();
    if interval == 0 {
        return None;
    }
    let since = (now.as_ps() + phase.as_ps()) % interval;
    (since < dram.refresh_time.as_ps()).then(|| now + Span::from_ps(dram.refresh_time.as_ps() - since))
}

/// Accesses among which the controller chooses. Basis: assumed, a usual queue.
const WINDOW: usize = 32;

/// Batches of writes that the queue holds. Basis: assumed.
const QUEUE: u32 = 4;
