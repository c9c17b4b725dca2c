//! Cores that post operations and look for what is done: the loop of the program, each core with its queue pair and its own data.
//!
//! Source: DPDK, app/test-compress-perf, comp_perf_test_throughput.c (bursts are posted while the queue has room, then as many are taken
//! that are done; at the end of an iteration all are waited for, so that each begins with an idle engine and takes as long as the others).
//! Modelled: core time for building, doorbells and polls; a queue that is full; one engine, which takes from the queues in turn.
//! Not modelled: buffers and operations being taken from pools, caches.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fabriscope_node::CpuCosts;
use fabriscope_units::{Span, Time};

use super::engine::{Engine, Job};

/// Operations in one iteration of every core, and how they are posted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub jobs: &'a [Job],
    pub burst: usize,
    pub queue: usize,
    pub cores: u32,
    pub costs: CpuCosts,
}

/// What an iteration took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Iteration {
    /// Of each core.
    pub times: Vec<Span>,
    /// In which cores built, posted and took, of all together.
    pub handling: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The engine takes the next operation.
    Engine,
    /// A core goes through its loop.
    Core(u32),
}

#[derive(Debug, Default)]
struct Core {
    posted: usize,
    taken: usize,
    /// When doorbells arrived of what the engine has not taken yet.
    waiting: VecDeque<(Time, Job)>,
    /// When each will be seen of what it has taken.
    served: VecDeque<Time>,
    /// It polls for what the engine has not taken yet, since then.
    parked: Option<Time>,
    ended: Time,
}

struct World<'a> {
    load: Load<'a>,
    cores: Vec<Core>,
    engine: &'a mut Engine,
    /// The queue from which the engine took last.
    last: usize,
    /// Whether it has a turn coming.
    turning: bool,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    handling: Span,
}

/// Runs an iteration of every core.
pub(super) fn iterate(load: Load<'_>, engine: &mut Engine) -> Iteration {
    let cores: Vec<Core> = (0..load.cores).map(|_| Core::default()).collect();
    let events = (0..load.cores).map(|core| Reverse((Time::ZERO, Event::Core(core)))).collect();
    let last = cores.len() - 1;
    let mut world = World { load, cores, engine, last, turning: false, events, handling: Span::ZERO };
    while let Some(Reverse((now, event))) = world.events.pop() {
        match event {
            Event::Core(core) => world.turn(now, core as usize),
            Event::Engine => world.serve(now),
        }
    }
    Iteration { times: world.cores.iter().map(|core| core.ended.since(Time::ZERO)).collect(), handling: world.handling }
}

impl World<'_> {
    /// A core posts what there is room for, and takes what is done.
    fn turn(&mut self, now: Time, number: usize) {
        let Load { jobs, burst, queue, costs, .. } = self.load;
        let core = &mut self.cores[number];
        let posting = burst.min(queue - (core.posted - core.taken)).min(jobs.len() - core.posted);
        let mut then = now;
        if posting > 0 {
            then = then + costs.wqe_build * posting as u64 + costs.mmio_busy;
            let there = then + costs.mmio_latency;
            core.waiting.extend(jobs[core.posted..core.posted + posting].iter().map(|job| (there, *job)));
            core.posted += posting;
            if !self.turning {
                self.turning = true;
                self.events.push(Reverse((there.max(self.engine.ready()), Event::Engine)));
            }
        }
        let done = core.served.iter().take(burst).take_while(|there| **there <= then).count();
        core.served.drain(..done);
        core.taken += done;
        then += if done > 0 { costs.poll_hit * done as u64 } else { costs.poll_empty };
        self.handling += if posting + done > 0 { then.since(now) } else { Span::ZERO };
        if core.taken == jobs.len() {
            core.ended = then;
        } else if core.posted < jobs.len() && core.posted - core.taken < queue {
            self.events.push(Reverse((then, Event::Core(number as u32))));
        } else if let Some(there) = core.served.front() {
            // A core that can do nothing but poll does so until the next is there.
            self.events.push(Reverse((then.max(*there), Event::Core(number as u32))));
        } else {
            core.parked = Some(then);
        }
    }

    /// The engine takes an operation of the next queue that has one, and the one after that when it has begun with this.
    fn serve(&mut self, now: Time) {
        let count = self.cores.len();
        let order = (1..=count).map(|step| (self.last + step) % count);
        let heads = order.filter_map(|queue| Some((queue, self.cores[queue].waiting.front()?.0)));
        // Of those that are there the first in turn, otherwise the one that comes first.
        let Some((queue, at)) = heads.min_by_key(|(_, at)| now.max(*at)) else {
            self.turning = false;
            return;
        };
        if at > now {
            self.events.push(Reverse((at, Event::Engine)));
            return;
        }
        let core = &mut self.cores[queue];
        if let Some((at, job)) = core.waiting.pop_front() {
            let there = self.engine.submit(at, job) + self.load.costs.detect;
            core.served.push_back(there);
            if let Some(since) = core.parked.take() {
                self.events.push(Reverse((since.max(there), Event::Core(queue as u32))));
            }
        }
        self.last = queue;
        self.events.push(Reverse((self.engine.ready().max(now), Event::Engine)));
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_catalog::Catalog;
    use fabriscope_platform::{Binding, Layout, Target};
    use fabriscope_units::Bytes;

    use super::*;

    /// Cores have the engine in turns: each takes as long as all of them, and together they are served as one is.
    #[test]
    fn cores_share_the_engine() {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.resolve(catalog.cluster("lab-bluefield-2").unwrap(), Some(1)).unwrap();
        let target = Target::of(&parts, Layout { nodes: 1, per_node: 1 }, Binding::default()).compression.unwrap();
        let jobs = vec![Job { source: Bytes(4096), result: Bytes(2048) }; 96];
        let run = |cores: u32| {
            let mut engine = Engine::new(&target, target.dpu.memory, target.compress.unwrap(), true);
            let load = Load { jobs: &jobs, burst: 32, queue: 64, cores, costs: target.dpu.costs };
            iterate(load, &mut engine)
        };
        let (one, four) = (run(1), run(4));
        let longest = four.times.iter().max().unwrap().as_s_f64();
        let shortest = four.times.iter().min().unwrap().as_s_f64();
        assert!(shortest > 0.95 * longest, "{four:?}");
        let ratio = longest / one.times[0].as_s_f64();
        assert!((3.9..4.05).contains(&ratio), "{ratio}");
    }
}
