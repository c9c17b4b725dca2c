//! A virtual switch at work: which lane a packet takes, when it leaves, what that took of cores.
//!
//! Modelled: a hit goes through the lane of its flow; a miss is an upcall first, for which the packet and those of its flow that follow wait;
//! with the adapter's pipeline, packets go on through a core until the adapter has the rule, one rule after the other; a flow for which the
//! table has no room stays with the core. What waits longer than the adapter's buffer lasts is dropped on arrival.
//! Not modelled: upcalls of further packets of a flow that is being decided about.

use std::sync::Arc;

use fabriscope_units::{Bytes, Span, Time};

use crate::flow::{Flow, FlowTable, Rule};
use crate::pipeline::{Pipeline, Work};
use crate::settings::{Settings, Switcher};

/// What a packet goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The adapter's stages.
    Stages,
    /// A core by its number.
    Core(usize),
}

/// Where a packet goes through, and from when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The lane.
    pub lane: Lane,
    /// Its flow is decided about by then.
    pub from: Time,
}

/// What a virtual switch has taken so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the host's cores.
    pub host: Span,
    /// Of the adapter's cores.
    pub adapter: Span,
    /// Flows that were decided about.
    pub upcalls: u64,
    /// Packets that found the buffer full.
    pub dropped: u64,
}

/// A virtual switch.
#[derive(Debug)]
pub struct VirtualSwitch {
    settings: Arc<Settings>,
    stages: Pipeline,
    cores: Vec<Pipeline>,
    /// When each thread that decides is free.
    handlers: Vec<Time>,
    /// When the adapter takes the next rule.
    inserter: Time,
    table: FlowTable,
    usage: Usage,
}

impl VirtualSwitch {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> VirtualSwitch {
        VirtualSwitch {
            stages: Pipeline::new(settings.stages.iter().copied()),
            cores: Vec::new(),
            handlers: vec![Time::ZERO; settings.software.handlers.max(1) as usize],
            inserter: Time::ZERO,
            table: FlowTable::new(settings.granularity, settings.rules),
            usage: Usage::default(),
            settings,
        }
    }
    /// What it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// What it has taken so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }
    /// A packet of `flow`, which belongs to `machine`, comes at `at`: where it goes through. A miss takes a core's time.
    pub fn decide(&mut self, at: Time, flow: Flow, machine: usize) -> Verdict {
        let rule = match self.table.rule(flow) {
            Some(rule) => rule,
            None => self.upcall(at, flow),
        };
        if self.settings.switcher == Switcher::Pipeline && rule.active <= at {
            return Verdict { lane: Lane::Stages, from: at };
        }
        let core = match self.settings.switcher {
            Switcher::Host => machine,
            Switcher::AdapterCores | Switcher::Pipeline => flow.core(self.settings.software.cores.max(1)),
        };
        if core >= self.cores.len() {
            let stage = self.settings.software.costs.stage();
            self.cores.resize_with(core + 1, || Pipeline::new([stage]));
        }
        let from = at.max(rule.decided) + self.settings.software.costs.wake_up;
        Verdict { lane: Lane::Core(core), from }
    }
    /// Something enters its lane as soon as it can; when it leaves, and what that took of a core.
    pub fn pass(&mut self, verdict: Verdict, work: Work) -> (Time, Span) {
        match verdict.lane {
            Lane::Stages => (self.stages.pass(verdict.from, work), Span::ZERO),
            Lane::Core(core) => {
                let took = self.settings.software.costs.stage().service(work);
                self.charge(took);
                (self.cores.get_mut(core).map_or(verdict.from, |core| core.pass(verdict.from, work)), took)
            }
        }
    }
    /// A segment goes over the ring of a machine, whose packets were brought up before; when it is there, and what that took of a core.
    pub fn pass_ring(&mut self, verdict: Verdict, work: Work) -> (Time, Span) {
        let stage = self.settings.software.costs.over_ring();
        let took = stage.service(work);
        self.charge(took);
        let core = match verdict.lane {
            Lane::Core(core) => self.cores.get_mut(core),
            Lane::Stages => None,
        };
        (core.map_or(verdict.from, |core| core.pass_through(&stage, verdict.from, work)), took)
    }
    /// A packet came from the wire at `at`: when it has passed, and what that took of a core; `None` if it found the buffer full.
    pub fn receive(&mut self, at: Time, flow: Flow, machine: usize, work: Work) -> Option<(Time, Span)> {
        let verdict = self.decide(at, flow, machine);
        if let Some(lane) = self.lane(verdict.lane) {
            let waits = lane.entry(verdict.from, work).since(verdict.from);
            let packets = self.settings.buffer.0 / work.bytes.max(Bytes(1)).0;
            if waits > lane.interval(work) * packets.max(1) {
                self.usage.dropped += 1;
                return None;
            }
        }
        Some(self.pass(verdict, work))
    }
    /// A core of those that switch was busy for so long.
    pub fn charge(&mut self, took: Span) {
        match self.settings.software.of_host {
            true => self.usage.host += took,
            false => self.usage.adapter += took,
        }
    }

    fn lane(&self, lane: Lane) -> Option<&Pipeline> {
        match lane {
            Lane::Stages => Some(&self.stages),
            Lane::Core(core) => self.cores.get(core),
        }
    }
    /// The first thread that is free decides; then the adapter, if it switches and has room, takes the rule.
    fn upcall(&mut self, at: Time, flow: Flow) -> Rule {
        let costs = self.settings.software.costs;
        let mut decided = at;
        if let Some(free) = self.handlers.iter_mut().min() {
            decided = at.max(*free) + costs.upcall;
            *free = decided;
        }
        let mut rule = Rule { decided, active: Time::MAX };
        if self.settings.switcher == Switcher::Pipeline && self.table.has_room() {
            self.inserter = self.inserter.max(decided) + self.settings.insertion;
            rule.active = self.inserter;
        }
        self.table.insert(flow, rule);
        self.usage.upcalls += 1;
        self.charge(costs.upcall);
        rule
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Rate;

    use super::*;
    use crate::flow::Granularity;
    use crate::pipeline::Stage;
    use crate::settings::{CoreCosts, SoftwareCores};
    use crate::tunnel::Encapsulation;

    const FLOW: Flow = Flow { peer: 3, ports: (40_000, 5201), protocol: 6, outbound: false };
    const fn ns(ns: u64) -> Span {
        Span::from_ns(ns)
    }
    fn at(nanoseconds: u64) -> Time {
        Time::ZERO + ns(nanoseconds)
    }
    fn packet() -> Work {
        Work::packet(Bytes(1500))
    }
    /// Upcalls of 50 us, a rule 10 us later, a core with 400 ns a packet, 1 us away; stages with 15 ns and 200 ns.
    fn switch(switcher: Switcher, rules: u64) -> VirtualSwitch {
        let costs = CoreCosts {
            packet: ns(400),
            ring: Span::ZERO,
            copy: None,
            cipher: None,
            upcall: ns(50_000),
            crossing: ns(1000),
            wake_up: Span::ZERO,
        };
        VirtualSwitch::new(Arc::new(Settings {
            switcher,
            encapsulation: Encapsulation::default(),
            granularity: Granularity::Connection,
            software: SoftwareCores { costs, cores: 1, handlers: 1, of_host: false },
            stages: vec![Stage::table(ns(15), ns(100)), Stage::table(ns(10), ns(100))],
            rules,
            insertion: ns(10_000),
            buffer: Bytes(15_000),
        }))
    }

    #[test]
    fn only_the_first_packets_of_a_flow_take_a_core() {
        let mut switch = switch(Switcher::Pipeline, 10);
        // Upcall 50 us, then 0.4 us of the core and 1 us of the way.
        assert_eq!(switch.receive(at(0), FLOW, 0, packet()), Some((at(51_400), ns(400))));
        // Before the adapter has the rule, through the core; afterwards through the stages.
        assert_eq!(switch.receive(at(59_000), FLOW, 0, packet()), Some((at(60_400), ns(400))));
        assert_eq!(switch.receive(at(60_000), FLOW, 0, packet()), Some((at(60_200), Span::ZERO)));
        assert_eq!(switch.receive(at(60_000), FLOW, 0, packet()), Some((at(60_215), Span::ZERO)));
        assert_eq!(switch.usage(), Usage { adapter: ns(50_800), upcalls: 1, ..Usage::default() });
    }

    #[test]
    fn a_full_table_leaves_flows_to_the_core() {
        let mut switch = switch(Switcher::Pipeline, 1);
        let other = Flow { ports: (40_001, 5201), ..FLOW };
        for flow in [FLOW, other] {
            switch.receive(at(0), flow, 0, packet());
        }
        assert_eq!(switch.receive(at(1_000_000), FLOW, 0, packet()), Some((at(1_000_200), Span::ZERO)));
        assert_eq!(switch.receive(at(1_000_000), other, 0, packet()), Some((at(1_001_400), ns(400))));
    }

    #[test]
    fn a_core_bounds_the_rate_and_a_full_buffer_drops() {
        let mut switch = switch(Switcher::AdapterCores, 0);
        switch.receive(at(0), FLOW, 0, packet());
        // Ten packets of 1500 B fit: the eleventh behind the first waits too long.
        let out: Vec<_> = (0..13).map(|_| switch.receive(at(100_000), FLOW, 0, packet()).map(|(out, _)| out)).collect();
        for (number, out) in out.iter().enumerate() {
            assert_eq!(*out, (number <= 10).then(|| at(100_000 + 1400 + 400 * number as u64)), "packet {number}");
        }
        assert_eq!(switch.usage().dropped, 2);
    }

    #[test]
    fn an_engine_in_the_pipeline_bounds_bytes() {
        let engine = Stage { rate: Some(Rate::from_gbps(100)), ..Stage::table(Span::ZERO, ns(300)) };
        let mut pipeline = Pipeline::new([Stage::table(ns(15), ns(100)), engine]);
        let out: Vec<_> = (0..3).map(|_| pipeline.pass(at(0), packet())).collect();
        // 1500 B at 12.5 B/ns take 120 ns.
        assert_eq!(out, [at(400), at(520), at(640)]);
    }
}
