//! The engine for compression in time: when an operation that is posted now has its result in memory.
//!
//! Source: the graph of the node and the parts ([`fabriscope_platform::CompressionTarget`]); mlx5, driver of DPDK for compression: the engine
//! is part of the complex of the adapter's cores, and shares their memory and the slot.
//! Modelled: fetching the work request, reading what it names while the engine is at the operation before, one operation after the other in
//! the engine, writing while it works; a memory in which reads and writes take turns, or a link with a direction for each.
//! Not modelled: several units in one engine, which operations of one queue would share; errors; checksums, which come out beside the data.

use fabriscope_platform::{CompressionTarget, EngineMemory};
use fabriscope_units::{Bytes, Rate, Span, Time};

/// What an operation takes in and puts out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub source: Bytes,
    pub result: Bytes,
}

/// The engine as operations of one kind find it.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    memory: EngineMemory,
    rate: Rate,
    interval: Span,
    latency: Span,
    /// Whether its rate is of what it takes in.
    compresses: bool,
    read_free: Time,
    write_free: Time,
    free: Time,
    /// When it began with the operation before.
    begun: Time,
    busy: Span,
}

impl Engine {
    /// An idle engine; `rate` of what is not compressed.
    pub(super) fn new(target: &CompressionTarget, memory: EngineMemory, rate: Rate, compresses: bool) -> Engine {
        let zero = Time::ZERO;
        let (interval, latency) = (target.interval, target.latency);
        Engine { memory, rate, interval, latency, compresses, read_free: zero, write_free: zero, free: zero, begun: zero, busy: Span::ZERO }
    }

    /// A work request arrives; when its result can be seen in memory.
    ///
    /// `begin = max(request + 2 read_latency, free)` where nothing else is on its way, `end = begin + interval + bytes / rate`.
    pub(super) fn submit(&mut self, at: Time, job: Job) -> Time {
        let EngineMemory { read, write, shared, read_latency, write_latency } = self.memory;
        // The request itself is fetched first, beside all others.
        let asked = (at + read_latency).max(self.read_free).max(self.begun);
        self.read_free = asked + read.time(job.source) + if shared { write.time(job.result) } else { Span::ZERO };
        let here = asked + read_latency;
        let begin = here.max(self.free);
        let work = self.interval + self.rate.time(if self.compresses { job.source } else { job.result });
        // It has not read the last byte before that is here.
        self.free = (begin + work).max(here + read.time(job.source));
        (self.begun, self.busy) = (begin, self.busy + work);
        let written = if shared { self.read_free } else { self.write_free.max(begin + self.latency) + write.time(job.result) };
        self.write_free = written;
        (self.free + self.latency).max(written) + write_latency
    }
    /// When it may take the next operation: when it has begun with the last.
    pub(super) fn ready(&self) -> Time {
        self.begun
    }
    /// How long it worked in all.
    pub(super) fn busy(&self) -> Span {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_catalog::Catalog;
    use fabriscope_platform::{Binding, Layout, Target};

    use super::*;

    fn target() -> CompressionTarget {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.resolve(catalog.cluster("lab-bluefield-2").unwrap(), Some(1)).unwrap();
        Target::of(&parts, Layout { nodes: 1, per_node: 1 }, Binding::default()).compression.unwrap()
    }

    /// One operation alone is the sum of what it passes; many are as far apart as the slowest of these lets them be.
    #[test]
    fn alone_it_is_a_sum_and_in_a_row_the_slowest_bounds() {
        let target = target();
        let job = Job { source: Bytes(16 << 10), result: Bytes(8 << 10) };
        let rate = target.compress.unwrap();
        for memory in [target.dpu.memory, target.host.memory] {
            let mut engine = Engine::new(&target, memory, rate, true);
            let work = target.interval + rate.time(job.source);
            let first = engine.submit(Time::ZERO, job);
            assert_eq!(first.since(Time::ZERO), memory.read_latency * 2 + work + target.latency + memory.write_latency);
            let last = (0..64).map(|_| engine.submit(Time::ZERO, job)).last().unwrap();
            assert_eq!(last.since(first), work * 64);
            assert_eq!(engine.busy(), work * 65);
            // An engine faster than memory waits for it.
            let mut engine = Engine::new(&target, memory, Rate::from_bps(u64::MAX / 1000), true);
            let ends: Vec<Time> = (0..64).map(|_| engine.submit(Time::ZERO, job)).collect();
            let moved =
                if memory.shared { memory.read.time(job.source) + memory.write.time(job.result) } else { memory.read.time(job.source) };
            let apart = ends[63].since(ends[62]);
            assert!(apart >= moved && apart <= moved.max(memory.read_latency) + target.interval * 2, "{apart} {moved}");
        }
    }
}
