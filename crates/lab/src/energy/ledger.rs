//! The energy of a run: what each part drew, and for what.
//!
//! Each direction of each cable is a link *l* that carried *b* bytes of the time *T* of the run, and so was at work for *b* / rate, rested
//! for *r* and was idle for the rest. It books half a port at its sender and half a port at its receiver in each of the three, one end of
//! its cable while it is up, and the bits at the sender, or at both where those of both count. Devices book their base for all of *T*.

use fabriscope_engine::{LinkLoad, Run};
use fabriscope_fabric::{Graph, LinkId};
use fabriscope_units::{Bytes, Energy, Span, Time};

use super::network::NetworkPower;

/// What energy was drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Devices, whatever their ports do.
    Base,
    /// Ports and cables that carried something.
    Active,
    /// Ports and cables that were up and carried nothing.
    Idle,
    /// Ports at rest.
    Resting,
    /// The bits themselves.
    Bits,
}

impl Purpose {
    /// All, in the order of tables.
    pub const ALL: [Purpose; 5] = [Purpose::Base, Purpose::Active, Purpose::Idle, Purpose::Resting, Purpose::Bits];

    /// What it is called in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Base => "base",
            Purpose::Active => "active",
            Purpose::Idle => "idle",
            Purpose::Resting => "resting",
            Purpose::Bits => "bits",
        }
    }
}

/// What a part drew, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger([Energy; 5]);

impl Ledger {
    /// What was drawn for a purpose.
    #[must_use]
    pub fn of(&self, purpose: Purpose) -> Energy {
        self.0[purpose as usize]
    }
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Energy {
        self.0.iter().copied().sum()
    }
    fn book(&mut self, purpose: Purpose, energy: Energy) {
        self.0[purpose as usize] += energy;
    }
    fn add(&mut self, other: &Ledger) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine += more);
    }
}

/// The energy of a run.
#[derive(Debug, Clone)]
pub struct JobEnergy {
    /// The network.
    pub network: NetworkPower,
    /// What each of its parts drew, in the order of the network; nothing of a part without figures.
    pub parts: Vec<Option<Ledger>>,
    /// All that is known.
    pub sum: Ledger,
    /// How long it took.
    pub took: Span,
    /// Payload that arrived.
    pub delivered: Bytes,
}

impl JobEnergy {
    /// The energy of a run in which the loads of links were noted.
    #[must_use]
    pub fn of(network: NetworkPower, graph: &Graph, run: &Run) -> JobEnergy {
        let took = run.end.since(Time::ZERO);
        let mut loads: Vec<Option<LinkLoad>> = vec![None; network.link_count()];
        for load in &run.links {
            if let Some(place) = loads.get_mut(load.link as usize) {
                *place = Some(*load);
            }
        }
        let mut books = vec![Ledger::default(); network.parts.len()];
        for (part, book) in network.parts.iter().zip(&mut books) {
            if let Some(figures) = part.figures {
                book.book(Purpose::Base, figures.base.saturating_mul(part.count).energy(took));
            }
        }
        for (link, load) in loads.iter().enumerate() {
            let Some(joined) = network.joined(link) else { continue };
            let bytes = load.map_or(Bytes::ZERO, |load| load.bytes);
            let times = Times::of(&network, (took, bytes), load.map(|load| load.rested), graph.link(LinkId(link as u32)).rate);
            for (part, sends) in [(joined.from, true), (joined.to, false)] {
                let Some(figures) = network.parts[part as usize].figures else { continue };
                let book = &mut books[part as usize];
                book.book(Purpose::Active, figures.direction.energy(times.active));
                book.book(Purpose::Idle, figures.direction.energy(times.idle));
                book.book(Purpose::Resting, figures.rests.energy(times.resting));
                if sends || figures.bits == fabriscope_catalog::BitsCounted::Both {
                    book.book(Purpose::Bits, figures.per_bit * bytes);
                }
            }
            if let Some(figures) = network.parts[joined.cable as usize].figures {
                // The two directions of a cable book one end each; its optics do not rest.
                let book = &mut books[joined.cable as usize];
                book.book(Purpose::Active, figures.direction.energy(times.active + times.active));
                book.book(Purpose::Idle, figures.direction.energy(times.idle + times.idle + times.resting + times.resting));
            }
        }
        let parts: Vec<Option<Ledger>> =
            network.parts.iter().zip(books).map(|(part, book)| part.figures.is_some().then_some(book)).collect();
        let mut sum = Ledger::default();
        parts.iter().flatten().for_each(|book| sum.add(book));
        JobEnergy { parts, sum, took, delivered: Bytes(run.stats.bytes_delivered), network }
    }

    /// The part of the energy that ports and cables drew while they carried nothing, and devices whatever their ports did [0..1].
    #[must_use]
    pub fn without_traffic(&self) -> Option<f64> {
        [Purpose::Base, Purpose::Idle, Purpose::Resting]
            .map(|purpose| self.sum.of(purpose))
            .into_iter()
            .sum::<Energy>()
            .part_of(self.sum.total())
    }
}

/// How long a link was in each state.
struct Times {
    active: Span,
    idle: Span,
    resting: Span,
}

impl Times {
    fn of(network: &NetworkPower, (took, bytes): (Span, Bytes), rested: Option<Span>, rate: fabriscope_units::Rate) -> Times {
        let active = if bytes == Bytes::ZERO { Span::ZERO } else { rate.time(bytes).min(took) };
        let left = took.saturating_sub(active);
        let resting = match (&network.rest, rested) {
            (None, _) => Span::ZERO,
            (Some(_), Some(rested)) => rested.min(left),
            // It carried nothing: awake at first, it rests once nothing has come for long enough.
            (Some(rest), None) => left.saturating_sub(rest.after),
        };
        Times { active, idle: left.saturating_sub(resting), resting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::{PartKind, State};
    use fabriscope_catalog::{Catalog, LinkRest, ResolvedCluster};
    use fabriscope_fabric::Fabric;
    use fabriscope_units::{Power, Ratio};

    /// Two hosts with ConnectX-5 at a switch of EDR, copper: figures of `catalog/power`.
    fn ri2(rest: Option<LinkRest>) -> (Catalog, ResolvedCluster, Fabric) {
        let catalog = Catalog::embedded().unwrap();
        let mut cluster = catalog.target("ri2").unwrap();
        cluster.line.rest = rest;
        let fabric = cluster.fabric().unwrap();
        (catalog, cluster, fabric)
    }

    fn run(bytes: u64, took: Span, rested: Span) -> Run {
        // Host 0 sends to host 1: up its own cable, link 0, and down the other, link 3.
        let load = |link| LinkLoad { link, packets: 1, bytes: Bytes(bytes), rested };
        let stats = fabriscope_engine::Stats { bytes_delivered: bytes, ..Default::default() };
        Run { end: Time::ZERO + took, links: vec![load(0), load(3)], stats, ..Run::default() }
    }

    fn energy(bytes: u64, took: Span, (rest, rested): (Option<LinkRest>, Span)) -> JobEnergy {
        let (catalog, cluster, fabric) = ri2(rest);
        JobEnergy::of(NetworkPower::of(&catalog, &cluster, &fabric), &fabric.graph, &run(bytes, took, rested))
    }

    fn joules(energy: Energy) -> f64 {
        energy.as_joules_f64()
    }

    /// 1 s, 6.25 GB at 100 Gb/s from host to host: half a second at work on two of four directions.
    ///
    /// Switch: 136 W less 36 · 0.9 W and 34 % of 36 · 100 Gb/s · 5 pJ/b are 97.48 W. Adapters: 14 W less 0.9 W and 2 · 100 Gb/s · 10 pJ/b
    /// are 11.1 W each. A direction of a port is 0.45 W, and there are 8 of them, 4 half the time at work. Bits: 50 Gb · 5 pJ in the switch,
    /// 50 Gb · 10 pJ in each adapter.
    #[test]
    fn a_run_books_base_ports_and_bits() {
        let energy = energy(6_250_000_000, Span::from_us(1_000_000), (None, Span::ZERO));
        let near = |purpose: Purpose, expected: f64| {
            let found = joules(energy.sum.of(purpose));
            assert!((found - expected).abs() < 1e-9, "{}: {found} and {expected}", purpose.name());
        };
        near(Purpose::Base, 97.48 + 2.0 * 11.1);
        // Ends of cables draw 0.1 W: two cables of two, each with one direction of two at work half the time.
        near(Purpose::Active, 4.0 * 0.45 / 2.0 + 4.0 * 0.1 / 4.0);
        near(Purpose::Idle, 8.0 * 0.45 - 4.0 * 0.45 / 2.0 + 4.0 * 0.1 * 3.0 / 4.0);
        near(Purpose::Bits, 50e9 * (5e-12 + 2.0 * 10e-12));
        near(Purpose::Resting, 0.0);
        let total = 97.48 + 22.2 + 8.0 * 0.45 + 0.4 + 1.25;
        assert!((energy.sum.total().mean_watts(energy.took).unwrap() - total).abs() < 1e-9);
        let per_bit = energy.sum.total().picojoules_per_bit(energy.delivered).unwrap();
        assert!((per_bit - total / 50e9 * 1e12).abs() < 1e-6, "{per_bit}");
        let share = energy.without_traffic().unwrap();
        assert!((share - (total - 1.25 - 1.0) / total).abs() < 1e-9, "{share}");
    }

    /// A run in which nothing is carried draws what the network draws idle, and one that fills all links what it draws at full load.
    #[test]
    fn power_of_the_network_is_energy_of_a_run() {
        let (catalog, cluster, fabric) = ri2(None);
        let network = NetworkPower::of(&catalog, &cluster, &fabric);
        let second = Span::from_us(1_000_000);
        let nothing = Run { end: Time::ZERO + second, ..Run::default() };
        let full = (0..4).map(|link| LinkLoad { link, packets: 1, bytes: Bytes(12_500_000_000), rested: Span::ZERO }).collect();
        for (state, run) in [(State::Idle, nothing), (State::Full, Run { end: Time::ZERO + second, links: full, ..Run::default() })] {
            let drawn = network.draws(state);
            let energy = JobEnergy::of(network.clone(), &fabric.graph, &run);
            assert_eq!(energy.sum.total(), drawn.energy(second), "{state:?}");
            assert_eq!(energy.sum.of(Purpose::Active) > Energy::ZERO, state == State::Full);
        }
    }

    /// Links that rest: a direction at rest draws a tenth of 0.45 W, with a quarter of its lanes awake 0.045 + (0.45 − 0.045) / 4 W.
    /// Two of four links carried something and rested 0.3 s; the others nothing, and rest after 0.1 s for 0.9 s.
    #[test]
    fn rest_saves_the_ports_and_not_the_rest() {
        for (lanes, watts) in [(None, 0.045), (Ratio::new(1, 4), 0.14625)] {
            let rest = LinkRest { after: Span::from_us(100_000), wake: Span::from_us(4), lanes };
            let energy = energy(1_250_000_000, Span::from_us(1_000_000), (Some(rest), Span::from_us(300_000)));
            let resting = joules(energy.sum.of(Purpose::Resting));
            assert!((resting - 4.0 * (0.3 + 0.9) * watts).abs() < 1e-6, "{resting}");
            // 0.1 s of each link that carried something it was at work, the others were awake for 0.1 s.
            let idle = joules(energy.sum.of(Purpose::Idle));
            let cables = 0.2 * (0.9 * 2.0 + 1.0 * 2.0) / 2.0;
            assert!((idle - (4.0 * 0.6 * 0.45 + 4.0 * 0.1 * 0.45 + cables)).abs() < 1e-9, "{idle}");
        }
    }

    /// A part without figures is named, and in no sum.
    #[test]
    fn parts_without_figures_are_unknown() {
        let catalog = Catalog::embedded().unwrap();
        let cluster = catalog.target("lab-qdr").unwrap();
        let fabric = cluster.fabric().unwrap();
        let network = NetworkPower::of(&catalog, &cluster, &fabric);
        assert!(network.unknown().any(|part| part.kind == PartKind::Switch));
        let known = network.parts.iter().filter_map(|part| part.draws(State::Idle, false)).fold(Power::ZERO, Power::saturating_add);
        assert_eq!(network.draws(State::Idle), known);
        let text = format!("{:?}", network.outcome("lab-qdr"));
        assert!(text.contains("unknown"), "{text}");
    }
}
