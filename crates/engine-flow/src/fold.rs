//! Ranks that do the same at the same time, found before anything runs: one of each class then runs for all of it.
//!
//! Ranks and links are divided into classes such that
//!
//! - ranks of a class have the same rounds: in each the same number of messages of the same lengths, with ranks of the same classes, over
//!   links of the same classes in the same order, and each is received in the same place of the same round;
//! - through every link of a class go, of each message of each class of ranks, equally many.
//!
//! Then all ranks of a class are always at the same point: they post at the same times, and rates that give all messages of a class the
//! same meet the bottleneck condition of the whole network if they meet it for one link of each class; there is one max-min fair
//! allocation, so these are its rates. A class of *m* ranks whose message crosses *u* of the *n* links of a class takes u · m / n of each.
//!
//! Source: R. Paige, R. Tarjan, "Three partition refinement algorithms", SIAM J. Comput. 16(6), 1987 (coarsest stable partition); for
//! equitable partitions and the programs that they fold: M. Grohe et al., "Dimension reduction via colour refinement", ESA 2014.
//! Classes are told apart by sums of 128-bit hashes. Rounds that a rank repeats are looked at once, with how often.
//! Not modelled: symmetry that begins later in a run, or holds only for part of it.

use fabriscope_collectives::{Round, Rounds};
use fabriscope_engine::{Folding, RankRounds};
use rustc_hash::FxHashMap;

use crate::latency::Latency;
use crate::matching::{Matching, Partner};
use crate::places::Places;

/// The classes of a job.
pub(crate) struct Fold {
    class: Vec<u32>,
    /// How many ranks each class has, and the first of them.
    pub members: Vec<u32>,
    pub leads: Vec<u32>,
    /// The class of the adapter of each class of ranks, and how many there are.
    pub adapter: Vec<u32>,
    pub adapters: u32,
    link_class: Vec<u32>,
    /// One over the number of links of each class.
    link_members: Vec<f64>,
    pub capacities: Vec<f64>,
    /// Where messages of the first ranks of classes are received that are not received in the same place of the same round:
    /// class, round and place there, round and place here.
    elsewhere: FxHashMap<(u32, u32, u32), (u32, u32)>,
}

impl Fold {
    /// The classes of a job, if `folding` wants them.
    pub fn find(places: &Places<'_>, program: &dyn RankRounds, latency: &Latency, folding: Folding) -> Option<Fold> {
        let ranks = places.ranks;
        let most = match folding {
            Folding::Never => return None,
            Folding::Auto => ranks / 4,
            Folding::Always => ranks,
        };
        let mut colours = Colours::new(places, latency);
        // The first rounds tell most apart at little cost.
        let mut limit = FIRST_ROUNDS;
        loop {
            let mut pass = Pass::new(places, program, latency, &colours);
            let complete = pass.run(limit);
            let refined = colours.refined(places, &pass);
            if refined.ranks > most {
                return None;
            }
            let stable = refined.count() == colours.count();
            if stable && complete {
                let elsewhere = pass.elsewhere;
                return Some(Fold::of(places, latency, colours, elsewhere));
            }
            if stable {
                limit = u32::MAX;
            }
            colours = refined;
        }
    }

    fn of(places: &Places<'_>, latency: &Latency, colours: Colours, elsewhere: FxHashMap<(u32, u32, u32), (u32, u32)>) -> Fold {
        let classes = colours.ranks as usize;
        let (mut members, mut leads, mut adapter) = (vec![0; classes], vec![u32::MAX; classes], vec![0; classes]);
        for (rank, class) in (0..).zip(&colours.rank) {
            let class = *class as usize;
            members[class] += 1;
            leads[class] = rank.min(leads[class]);
            adapter[class] = colours.adapter[places.adapter(rank) as usize];
        }
        let (mut count, mut capacities) = (vec![0u32; colours.links as usize], vec![0.0; colours.links as usize]);
        for ((capacity, _), class) in places.links(latency).zip(&colours.link) {
            count[*class as usize] += 1;
            capacities[*class as usize] = capacity;
        }
        Fold {
            class: colours.rank,
            members,
            leads,
            adapter,
            adapters: colours.adapters,
            link_class: colours.link,
            link_members: count.into_iter().map(f64::from).collect(),
            capacities,
            elsewhere,
        }
    }

    /// Where the message in a place of a round of a class is received.
    pub fn receive(&self, class: u32, round: u32, place: u32, peer: u32) -> (u32, u32, u32) {
        let (round, place) = self.elsewhere.get(&(class, round, place)).copied().unwrap_or((round, place));
        (self.class[peer as usize], round, place)
    }
    /// A path of one rank as what all `members` of its class take of one link of each class.
    pub fn gather(&self, members: u32, path: &mut Vec<(u32, f64)>) {
        let mut kept = 0;
        for index in 0..path.len() {
            let (link, weight) = path[index];
            let class = self.link_class[link as usize];
            let weight = weight * f64::from(members) / self.link_members[class as usize];
            match path[..kept].iter_mut().find(|(known, _)| *known == class) {
                Some((_, sum)) => *sum += weight,
                None => {
                    path[kept] = (class, weight);
                    kept += 1;
                }
            }
        }
        path.truncate(kept);
    }
    /// What holds for classes as what holds for ranks.
    pub fn spread<T: Copy>(&self, of_classes: &[T]) -> Vec<T> {
        self.class.iter().map(|class| of_classes[*class as usize]).collect()
    }
    pub fn classes(&self) -> u32 {
        self.leads.len() as u32
    }
}

/// A division into classes.
struct Colours {
    rank: Vec<u32>,
    ranks: u32,
    link: Vec<u32>,
    links: u32,
    /// Of adapters that ranks use; those that nobody shares say nothing.
    adapter: Vec<u32>,
    adapters: u32,
    shared: bool,
}

impl Colours {
    /// What can be told apart before anything happens: the place in the node, what a link carries and where it is.
    fn new(places: &Places<'_>, latency: &Latency) -> Colours {
        let shared = (0..places.ranks).any(|rank| places.turn(rank) > 0);
        let (rank, ranks) = numbered((0..places.ranks).map(|rank| places.local(rank)));
        let (link, links) = numbered(places.links(latency).map(|(capacity, kind)| (capacity.to_bits(), kind)));
        let count = places.nodes() as usize * places.nics();
        Colours { rank, ranks, link, links, adapter: vec![0; count], adapters: 1, shared }.with_adapters(places)
    }

    fn count(&self) -> (u32, u32, u32) {
        (self.ranks, self.links, self.adapters)
    }

    fn refined(&self, places: &Places<'_>, pass: &Pass<'_>) -> Colours {
        let of_rank = |rank: usize| {
            let adapter = if self.shared { self.adapter[places.adapter(rank as u32) as usize] } else { 0 };
            (self.rank[rank], adapter, pass.rank[rank])
        };
        let (rank, ranks) = numbered((0..self.rank.len()).map(of_rank));
        let (link, links) = numbered(self.link.iter().copied().zip(pass.link.iter().copied()));
        Colours { rank, ranks, link, links, adapter: self.adapter.clone(), ..*self }.with_adapters(places)
    }

    /// Adapters by the ranks that they have.
    fn with_adapters(mut self, places: &Places<'_>) -> Colours {
        let mut sums = vec![0u128; self.adapter.len()];
        for (rank, colour) in (0..).zip(&self.rank) {
            let sum = &mut sums[places.adapter(rank) as usize];
            *sum = sum.wrapping_add(hash([u64::from(*colour) + 1]));
        }
        (self.adapter, self.adapters) = numbered(sums.into_iter());
        self
    }
}

/// Equal things get equal numbers, in the order in which they first come.
fn numbered<T: Eq + std::hash::Hash>(of: impl Iterator<Item = T>) -> (Vec<u32>, u32) {
    let mut known: FxHashMap<T, u32> = FxHashMap::default();
    let numbers = of
        .map(|thing| {
            let next = known.len() as u32;
            *known.entry(thing).or_insert(next)
        })
        .collect();
    (numbers, known.len() as u32)
}

/// Rounds of a rank that are all alike.
#[derive(Default)]
struct Repeated {
    round: Round,
    partners: [Vec<Partner>; 2],
    first: u32,
    times: u32,
}

/// One look at what all ranks do.
struct Pass<'a> {
    places: &'a Places<'a>,
    program: &'a dyn RankRounds,
    latency: &'a Latency,
    colours: &'a Colours,
    /// Sums of hashes.
    rank: Vec<u128>,
    link: Vec<u128>,
    elsewhere: FxHashMap<(u32, u32, u32), (u32, u32)>,
    /// Of each class, its first rank.
    leads: Vec<u32>,
    path: Vec<(u32, f64)>,
}

impl<'a> Pass<'a> {
    fn new(places: &'a Places<'a>, program: &'a dyn RankRounds, latency: &'a Latency, colours: &'a Colours) -> Pass<'a> {
        let mut leads = vec![u32::MAX; colours.ranks as usize];
        for (rank, class) in (0..).zip(&colours.rank) {
            leads[*class as usize] = leads[*class as usize].min(rank);
        }
        let ranks = places.ranks as usize;
        Pass {
            places,
            program,
            latency,
            colours,
            rank: vec![0; ranks],
            link: vec![0; colours.link.len()],
            elsewhere: FxHashMap::default(),
            leads,
            path: Vec::new(),
        }
    }

    /// Looks at so many rounds of each rank; whether those were all.
    fn run(&mut self, limit: u32) -> bool {
        let ranks = self.places.ranks;
        let mut left: Vec<Option<Rounds>> = (0..ranks).map(|rank| Some(self.program.rounds(rank))).collect();
        let mut repeated: Vec<Repeated> = (0..ranks).map(|_| Repeated::default()).collect();
        let mut matching = Matching::default();
        let mut rounds: Vec<Round> = Vec::new();
        let mut number = 0;
        let complete = loop {
            rounds.clear();
            let mut any = false;
            for rounds_left in &mut left {
                let round = rounds_left.as_mut().and_then(Iterator::next);
                match &round {
                    Some(_) => any = true,
                    None => *rounds_left = None,
                }
                rounds.push(round.unwrap_or_default());
            }
            if !any {
                break true;
            }
            if number >= limit {
                break false;
            }
            matching.step(number, &rounds);
            for late in matching.late.drain(..) {
                let ((from, sent, at), (to, received, place)) = (late.sent, late.received);
                self.message(from, to, late.bytes, sent, 1, at, (received, place));
                self.heard(to, from, late.bytes, received, 1, place, (sent, at));
                let class = self.colours.rank[from as usize];
                if self.leads[class as usize] == from {
                    self.elsewhere.insert((class, sent, at), (received, place));
                }
            }
            for (rank, known) in (0..ranks).zip(&mut repeated) {
                let (round, partners) = (&mut rounds[rank as usize], &mut matching.partners[rank as usize]);
                if known.times > 0 && known.first + known.times == number && alike(known, round, partners) {
                    known.times += 1;
                    continue;
                }
                self.over(rank, known);
                std::mem::swap(&mut known.round, round);
                std::mem::swap(&mut known.partners, partners);
                (known.first, known.times) = (number, 1);
            }
            number += 1;
        };
        for (rank, known) in (0..ranks).zip(&repeated) {
            self.over(rank, known);
        }
        complete
    }

    /// Rounds of `rank` that are all alike have been seen to their end.
    fn over(&mut self, rank: u32, rounds: &Repeated) {
        let Repeated { round, partners: [receives, sends], first, times } = rounds;
        if *times == 0 {
            return;
        }
        let shape = hash([SHAPE, u64::from(*first), u64::from(*times), round.receives.len() as u64, round.sends.len() as u64]);
        self.rank[rank as usize] = self.rank[rank as usize].wrapping_add(shape);
        for ((place, send), partner) in (0..).zip(&round.sends).zip(sends) {
            if let Partner::At(there) = partner {
                self.message(rank, send.peer, send.piece.bytes.0, *first, *times, place, (*first, *there));
                let class = self.colours.rank[rank as usize];
                if *there != place && self.leads[class as usize] == rank {
                    for number in *first..first + times {
                        self.elsewhere.insert((class, number, place), (number, *there));
                    }
                }
            }
        }
        for ((place, receive), partner) in (0..).zip(&round.receives).zip(receives) {
            if let Partner::At(there) = partner {
                self.heard(rank, receive.peer, receive.piece.bytes.0, *first, *times, place, (*first, *there));
            }
        }
    }

    /// What a message tells of its sender, and of the links that it takes.
    #[expect(clippy::too_many_arguments, reason = "all of them are numbers that go into one hash")]
    fn message(&mut self, from: u32, to: u32, bytes: u64, round: u32, times: u32, place: u32, there: (u32, u32)) {
        let of = [from, to].map(|rank| u64::from(self.colours.rank[rank as usize]));
        let mut path = std::mem::take(&mut self.path);
        let wire = self.latency.wire_bytes(bytes);
        let way = self.places.way(from, to, bytes, wire, &self.latency.switch, &mut path);
        let this = hash([SENT, of[0], u64::from(round), u64::from(times), u64::from(place)]);
        let mut sent = hash([bytes, of[1], u64::from(there.0), u64::from(there.1), way.latency, u64::from(way.inside)]);
        sent = step(step(sent, self.places.read(from).as_ps()), way.write.as_ps());
        let (mut bits, mut taken) = (0, 0);
        for (link, weight) in &path {
            let class = self.colours.link[*link as usize];
            // Most links of a path are taken with the same weight.
            if weight.to_bits() != bits {
                bits = weight.to_bits();
                taken = step(this, bits) | 1;
                sent = step(sent, bits);
            }
            sent = step(sent, u64::from(class));
            let sum = &mut self.link[*link as usize];
            *sum = sum.wrapping_add(taken);
        }
        let sum = &mut self.rank[from as usize];
        *sum = sum.wrapping_add(this.wrapping_mul(sent | 1));
        self.path = path;
    }

    /// What a message tells of its receiver.
    #[expect(clippy::too_many_arguments, reason = "all of them are numbers that go into one hash")]
    fn heard(&mut self, rank: u32, from: u32, bytes: u64, round: u32, times: u32, place: u32, there: (u32, u32)) {
        let of = u64::from(self.colours.rank[from as usize]);
        let numbers = [RECEIVED, bytes, of, u64::from(round), u64::from(times), u64::from(place), u64::from(there.0), u64::from(there.1)];
        let sum = &mut self.rank[rank as usize];
        *sum = sum.wrapping_add(hash(numbers));
    }
}

/// Whether a round does what those before it did.
fn alike(known: &Repeated, round: &Round, partners: &[Vec<Partner>; 2]) -> bool {
    let same = |one: &[fabriscope_collectives::Message], other: &[fabriscope_collectives::Message]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.peer == other.peer && one.piece.bytes == other.piece.bytes)
    };
    same(&known.round.receives, &round.receives) && same(&known.round.sends, &round.sends) && known.partners == *partners
}

fn hash<const N: usize>(numbers: [u64; N]) -> u128 {
    numbers.into_iter().fold(FACTOR, step)
}

fn step(hash: u128, number: u64) -> u128 {
    let mixed = (hash ^ u128::from(number)).wrapping_mul(FACTOR);
    mixed ^ (mixed >> 67)
}

/// A multiplier with well mixed bits, that of PCG's 128-bit generator (O'Neill 2014).
const FACTOR: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
/// What a hash is of.
const SHAPE: u64 = 1;
const SENT: u64 = 2;
const RECEIVED: u64 = 3;

/// Rounds that are looked at first. Basis: assumed.
const FIRST_ROUNDS: u32 = 4;
