//! Collective operations of accelerators behind switches by loads and stores of their kernels: how long one takes.
//!
//! - one-shot: flag to all peers; load their vectors whole, add up
//! - two-shot: flag to all; load a part of each vector, add up; store the sum to all; flag to all
//! - ring: part after part to the next one: store, flag
//! - switch: store the vector once; the switch adds up and stores the sum to all
//!
//! Source: UALink 200G 1.0 (loads and stores between accelerators); Broadcom, Scale-Up Ethernet Framework (put, get) and Tomahawk Ultra
//! (in-network collectives); one-shot and two-shot as FlashInfer, vLLM and MSCCL++ call them.
//! Modelled: the start of the kernels; flags behind the data of the same link, and a load of the own memory that finds them; loads as a way
//! there and back; bytes on the links of all accelerators at once with what transactions and flits add; the switch's pace of packets.
//! Not modelled: adding up by the accelerator, its own memory beside what peers take of it, flits that are not full, losses.

use fabriscope_machine::{Access, Machine, Path, Purpose, Sharing, Step, VertexId, VertexKind};
use fabriscope_platform::ScaleUpSwitches;
use fabriscope_units::{Bytes, Rate, Span, Time};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collective {
    /// The sum of all vectors, at all.
    AllReduce,
    /// The parts of all, at all.
    AllGather,
    /// A part of the sum at each.
    ReduceScatter,
}

impl Collective {
    pub(super) const ALL: [Collective; 3] = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];

    /// As nccl-tests have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
        }
    }
    /// Bytes that cross a link each way, in n-ths of the vector: what nccl-tests call the bus.
    pub(super) const fn crossings(self, accelerators: u64) -> u64 {
        match self {
            Collective::AllReduce => 2 * (accelerators - 1),
            Collective::AllGather | Collective::ReduceScatter => accelerators - 1,
        }
    }
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Everything from all peers at once.
    OneShot,
    /// A part from each, and the sum of it to each.
    TwoShot,
    /// From neighbour to neighbour.
    Ring,
    /// The switch adds up and spreads.
    Switch,
}

impl Algorithm {
    pub(super) const ALL: [Algorithm; 4] = [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::Ring, Algorithm::Switch];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Algorithm::OneShot => "one-shot",
            Algorithm::TwoShot => "two-shot",
            Algorithm::Ring => "ring",
            Algorithm::Switch => "switch",
        }
    }
    /// Whether there is such an operation; two shots are a reduce-scatter and an all-gather.
    pub(super) fn has(self, collective: Collective, switches: &ScaleUpSwitches) -> bool {
        match self {
            Algorithm::TwoShot => collective == Collective::AllReduce,
            Algorithm::Switch => switches.reduction.is_some(),
            Algorithm::OneShot | Algorithm::Ring => true,
        }
    }
}

/// Accelerators behind switches.
pub(super) struct Pod<'m> {
    machine: &'m Machine,
    gpus: Vec<VertexId>,
    switches: &'m ScaleUpSwitches,
    /// From starting a kernel until a core that waits for its end goes on.
    launch: Span,
    /// A store of one to the memory of another, a load the other way with its answer, and a load of the own memory.
    store: Span,
    load: Span,
    poll: Span,
}

impl<'m> Pod<'m> {
    /// The first `count` accelerators of a node; none where no switch joins them.
    pub(super) fn new(machine: &'m Machine, count: u32, switches: &'m ScaleUpSwitches, launch: Span) -> Option<Pod<'m>> {
        machine.of(|kind| kind == VertexKind::ScaleUpSwitch).next()?;
        let gpus: Vec<VertexId> = machine.gpus().into_iter().take(count as usize).collect();
        let [first, second, ..] = gpus[..] else { return None };
        let latency = |from, to| machine.path(from, to, Purpose::Copy).map(|path| path.latency(machine));
        let (own, far) = (machine.memory_of(first)?, machine.memory_of(second)?);
        let store = latency(first, far)?;
        let (load, poll) = (store + latency(far, first)?, latency(own, first)?);
        Some(Pod { machine, gpus, switches, launch, store, load, poll })
    }

    /// How long it takes; none where there is no such algorithm.
    pub(super) fn time(&self, collective: Collective, algorithm: Algorithm, bytes: Bytes) -> Option<Span> {
        if !algorithm.has(collective, self.switches) {
            return None;
        }
        let others = self.gpus.len() as u64 - 1;
        let part = Bytes(bytes.0.div_ceil(others + 1));
        let loaded = |amount: Bytes| self.flags(others) + self.load + self.moved(Access::Read, amount);
        let stored = |amount: Bytes| self.moved(Access::Write, amount) + self.flags(others);
        let at_work = match (algorithm, collective) {
            (Algorithm::OneShot, Collective::AllReduce) => loaded(bytes * others),
            (Algorithm::OneShot, Collective::ReduceScatter) => loaded(part * others),
            (Algorithm::OneShot, Collective::AllGather) => stored(part * others),
            (Algorithm::TwoShot, _) => loaded(part * others) + stored(part * others),
            (Algorithm::Ring, _) => (self.moved(Access::Write, part) + self.flags(1)) * collective.crossings(others + 1),
            (Algorithm::Switch, Collective::AllReduce) => self.switched(bytes, bytes)?,
            (Algorithm::Switch, Collective::ReduceScatter) => self.switched(bytes, part)?,
            (Algorithm::Switch, Collective::AllGather) => self.switched(part, part * others)?,
        };
        Some(self.launch + at_work)
    }

    /// The fastest there is.
    pub(super) fn best(&self, collective: Collective, bytes: Bytes) -> Option<(Algorithm, Span)> {
        let each = Algorithm::ALL.into_iter().filter_map(|algorithm| Some((algorithm, self.time(collective, algorithm, bytes)?)));
        each.min_by_key(|(_, time)| *time)
    }

    /// A flag to each of `peers`, until the last sees it.
    fn flags(&self, peers: u64) -> Span {
        self.moved(Access::Write, FLAG * peers) + self.store + self.poll
    }

    /// Every accelerator stores or loads so much, evenly over the others: as much leaves and enters each.
    fn moved(&self, access: Access, bytes: Bytes) -> Span {
        let next = self.gpus.iter().cycle().skip(1);
        let paths = self.gpus.iter().zip(next).filter_map(|(gpu, next)| {
            let far = self.machine.memory_of(*next)?;
            let (from, to) = if access == Access::Read { (far, *gpu) } else { (*gpu, far) };
            self.machine.path(from, to, Purpose::Copy)
        });
        self.flow(paths.map(|path| (path, bytes)), access)
    }

    /// The switches take `up` bytes from each and give `down` to each, in packets.
    fn switched(&self, up: Bytes, down: Bytes) -> Option<Span> {
        let sums = self.switches.reduction?;
        let next = self.gpus.iter().cycle().skip(1);
        let ways = self.gpus.iter().zip(next).filter_map(|(gpu, next)| self.machine.path(*gpu, *next, Purpose::Copy));
        let one = |from: VertexId, to: VertexId, step: Step| Path { from, to, steps: vec![step] };
        let links = ways.flat_map(|path| {
            let (from, to) = (path.from, path.to);
            let ends =
                [path.steps.first().map(|step| (one(from, to, *step), up)), path.steps.last().map(|step| (one(from, to, *step), down))];
            ends.into_iter().flatten()
        });
        let packets = up.max(down).div_ceil(sums.payload).div_ceil(u64::from(self.switches.links.max(1)));
        let moving = self.flow(links, Access::Write).max(sums.interval * packets);
        Some(self.poll + self.store + sums.latency + moving + self.poll)
    }

    /// Until all of these have moved that begin at once.
    fn flow(&self, paths: impl Iterator<Item = (Path, Bytes)>, access: Access) -> Span {
        let mut sharing: Sharing = self.machine.sharing();
        for (path, bytes) in paths {
            sharing.start(Time::ZERO, bytes, self.machine.uses(&path, access), Rate::from_bps(u64::MAX));
        }
        let mut last = Time::ZERO;
        while let Some(end) = sharing.next_end() {
            last = last.max(end);
            sharing.advance(end);
        }
        last - Time::ZERO
    }
}

/// What a flag takes: a line. Basis: assumed.
const FLAG: Bytes = Bytes(64);

#[cfg(test)]
mod tests {
    use fabriscope_machine::{Link, LinkKind, Vertex};
    use fabriscope_platform::Reduction;

    use super::*;

    /// 1 B/ns links of 50 ns to a switch; memories of 1000 B/ns and 10 ns.
    fn machine(count: u32) -> Machine {
        let mut builder = Machine::builder();
        let switch = builder.vertex(Vertex::new(VertexKind::ScaleUpSwitch, "scale-up"));
        for index in 0..count {
            let gpu = builder.vertex(Vertex::new(VertexKind::Gpu, format!("gpu{index}")));
            let memory = builder.vertex(Vertex::new(VertexKind::DeviceMemory, format!("gpu{index}-memory")));
            builder.link(Link::new(gpu, memory, LinkKind::Memory, Rate::from_gbps(8000), Span::from_ns(10)));
            builder.link(Link::new(gpu, switch, LinkKind::UaLink { links: 1 }, Rate::from_gbps(8), Span::from_ns(50)));
        }
        builder.build().unwrap()
    }

    #[test]
    fn each_algorithm_is_its_closed_form() {
        let machine = machine(4);
        let sums = Reduction { latency: Span::from_ns(20), payload: Bytes(1000), interval: Span::from_ns(2000) };
        let (plain, adding) =
            (ScaleUpSwitches { count: 1, links: 1, reduction: None }, ScaleUpSwitches { count: 1, links: 1, reduction: Some(sums) });
        let launch = Span::from_us(1);
        let time = |switches: &ScaleUpSwitches, collective, algorithm| {
            let pod = Pod::new(&machine, 4, switches, launch).unwrap();
            pod.time(collective, algorithm, Bytes(40_000)).map(|span| span.as_ps() / 1000)
        };
        use Algorithm::{OneShot, Ring, Switch, TwoShot};
        use Collective::{AllGather, AllReduce, ReduceScatter};
        // A store 50 + 50 + 10, a load as long there and again back, a poll 10; three flags take 192 ns of the link, one 64.
        let (flags, flag, load) = (192 + 110 + 10, 64 + 110 + 10, 220);
        assert_eq!(time(&plain, AllReduce, OneShot), Some(1000 + flags + load + 3 * 40_000));
        assert_eq!(time(&plain, AllReduce, TwoShot), Some(1000 + flags + load + 30_000 + 30_000 + flags));
        assert_eq!(time(&plain, AllReduce, Ring), Some(1000 + 6 * (10_000 + flag)));
        assert_eq!(time(&plain, AllGather, OneShot), Some(1000 + 30_000 + flags));
        assert_eq!(time(&plain, ReduceScatter, OneShot), Some(1000 + flags + load + 30_000));
        assert_eq!(time(&plain, AllReduce, Switch), None);
        // Once over each link at the same time, but 40 packets at 2 us: loaded, there, added up, found.
        assert_eq!(time(&adding, AllReduce, Switch), Some(1000 + 10 + 110 + 20 + 80_000 + 10));
        assert_eq!(time(&adding, AllGather, Switch), Some(1000 + 10 + 110 + 20 + 60_000 + 10));
        let pod = Pod::new(&machine, 4, &plain, launch).unwrap();
        assert_eq!(pod.best(AllReduce, Bytes(4)).map(|(algorithm, _)| algorithm), Some(OneShot));
        assert_eq!(pod.best(AllReduce, Bytes(1 << 20)).map(|(algorithm, _)| algorithm), Some(TwoShot));
    }

    #[test]
    fn one_accelerator_or_none_behind_a_switch_is_no_pod() {
        let switches = ScaleUpSwitches { count: 1, links: 1, reduction: None };
        assert!(Pod::new(&machine(4), 1, &switches, Span::ZERO).is_none());
        assert!(Pod::new(&Machine::default(), 4, &switches, Span::ZERO).is_none());
    }
}
