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
        [Purpose::Base, Purpose::Idle, Purpose::Resting].map(|purpose| self.sum.of(purpose)).into_iter().sum::<Energy>().part_of(self.sum.total())
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
mod tests;
