//! Who talks to whom in a job of rounds, read from the rounds of all ranks once before the run: as much as gives every connection its
//! number, and no more.

use fabriscope_engine::{EngineError, RankRounds};
use fabriscope_verbs::{Lid, Peers};

/// The partners of each rank, in their order.
#[derive(Debug)]
pub(crate) struct Partners {
    of: Vec<Set>,
}

/// The partners of a rank.
#[derive(Debug, PartialEq, Eq)]
enum Set {
    /// Every other rank.
    All,
    /// These.
    These(Box<[u32]>),
}

/// Ranks that talk to each other, and how much at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// Partners.
    pub partners: u64,
    /// The most messages of a round, both ways.
    pub widest: u64,
}

impl Partners {
    /// The partners of all ranks.
    ///
    /// # Errors
    /// A message of a rank to itself, to nobody, or of which only one side is known.
    pub fn new(program: &dyn RankRounds) -> Result<Partners, EngineError> {
        let ranks = program.ranks();
        let mut seen = vec![u32::MAX; ranks as usize];
        let mut of = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let mut found = Vec::new();
            for peer in program.rounds(rank).flat_map(|round| round.peers().collect::<Vec<_>>()) {
                if peer == rank || peer >= ranks {
                    return Err(EngineError::Schedule(format!("rank {rank} exchanges a message with rank {peer} of {ranks}")));
                }
                if std::mem::replace(&mut seen[peer as usize], rank) != rank {
                    found.push(peer);
                }
            }
            if found.len() as u32 + 1 == ranks {
                of.push(Set::All);
            } else {
                found.sort_unstable();
                of.push(Set::These(found.into()));
            }
        }
        let partners = Partners { of };
        partners.check()?;
        Ok(partners)
    }

    /// Whether all partners know of each other.
    fn check(&self) -> Result<(), EngineError> {
        for rank in 0..self.of.len() as u32 {
            for place in 0..self.count_of(rank) {
                let peer = self.partner(rank, place).unwrap_or(rank);
                if self.place(peer, rank).is_none() {
                    return Err(EngineError::Schedule(format!("rank {rank} exchanges messages with rank {peer}, which has none with it")));
                }
            }
        }
        Ok(())
    }

    /// How many partners a rank has.
    pub fn count_of(&self, rank: u32) -> u32 {
        match &self.of[rank as usize] {
            Set::All => self.of.len() as u32 - 1,
            Set::These(these) => these.len() as u32,
        }
    }
    /// The partner of `rank` at a place.
    pub fn partner(&self, rank: u32, place: u32) -> Option<u32> {
        match &self.of[rank as usize] {
            Set::All => Some(place + u32::from(place >= rank)).filter(|peer| *peer < self.of.len() as u32),
            Set::These(these) => these.get(place as usize).copied(),
        }
    }
    /// The place of `peer` among the partners of `rank`.
    pub fn place(&self, rank: u32, peer: u32) -> Option<u32> {
        match &self.of[rank as usize] {
            Set::All => (peer != rank).then(|| peer - u32::from(peer > rank)),
            Set::These(these) => these.binary_search(&peer).ok().map(|place| place as u32),
        }
    }
}

/// Rank *r* is at adapter *r*.
impl Peers for Partners {
    fn count(&self, lid: Lid) -> u32 {
        if (lid.0 as usize) < self.of.len() { self.count_of(lid.0) } else { 0 }
    }
    fn peer(&self, lid: Lid, place: u32) -> Option<(Lid, u32)> {
        let peer = self.partner(lid.0, place)?;
        Some((Lid(peer), self.place(peer, lid.0)?))
    }
}

/// What ranks do together, judged by three of them.
pub(crate) fn talk(program: &dyn RankRounds) -> Talk {
    let ranks = program.ranks();
    let of = |rank: u32| {
        let mut peers = std::collections::BTreeSet::new();
        let mut widest = 0;
        for round in program.rounds(rank) {
            widest = widest.max(round.peers().count() as u64);
            peers.extend(round.peers());
        }
        Talk { partners: peers.len() as u64, widest }
    };
    let most = |most: Talk, this: Talk| Talk { partners: most.partners.max(this.partners), widest: most.widest.max(this.widest) };
    [0, ranks / 3, ranks.saturating_sub(1)].into_iter().map(of).fold(Talk::default(), most)
}

#[cfg(test)]
mod tests {
    use fabriscope_collectives::{Message, Round, Rounds};

    use super::*;

    fn rounds(pairs: &'static [(u32, u32)]) -> impl Fn(u32) -> Rounds + Send + Sync {
        move |rank| {
            let mine = pairs.iter().filter(move |(from, to)| *from == rank || *to == rank);
            Box::new(mine.map(move |&(from, to)| match rank == from {
                true => Round::exchange(None, Some(Message::empty(to))),
                false => Round::exchange(Some(Message::empty(from)), None),
            }))
        }
    }

    #[test]
    fn every_partner_has_a_place_on_both_sides() {
        let partners = Partners::new(&(4, rounds(&[(0, 2), (2, 1), (0, 1), (2, 3)]))).expect("they know of each other");
        assert_eq!(partners.of[2], Set::All);
        assert_eq!(partners.of[3], Set::These([2].into()));
        for rank in 0..4 {
            for place in 0..partners.count_of(rank) {
                let (peer, there) = partners.peer(Lid(rank), place).expect("it is there");
                assert_eq!(partners.peer(peer, there), Some((Lid(rank), place)));
            }
            assert_eq!(partners.partner(rank, partners.count_of(rank)), None);
        }
    }

    #[test]
    fn nobody_talks_to_himself_or_to_nobody() {
        assert!(Partners::new(&(2, rounds(&[(1, 2)]))).is_err());
        let alone = |rank: u32| -> Rounds {
            let to = (rank == 0).then(|| Message::empty(1));
            Box::new(std::iter::once(Round::exchange(None, to)))
        };
        let refused = Partners::new(&(3, alone)).expect_err("rank 1 knows nothing of it");
        assert!(refused.to_string().contains("rank 0 exchanges messages with rank 1, which has none"), "{refused}");
    }
}
