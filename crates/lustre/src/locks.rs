//! Extent locks of one object, as its server keeps them.
//!
//! Source: the policy of extent locks in the sources of Lustre (`ldlm_extent.c`): a lock grows to where others hold theirs, and by at most
//! `LDLM_MAX_GROWN_EXTENT` where many do; whoever is in the way gives his up whole.
//! Modelled: locks to write, a client has one for all its processes; whoever asks waits until those in the way are gone.
//! Not modelled: group locks, lock ahead, locks to read beside locks to write.

use std::collections::BTreeMap;

use fabriscope_units::Time;

/// Bytes of an object from `begin` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first.
    pub begin: u64,
    /// The one behind the last.
    pub end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    end: u64,
    client: u32,
    dirty: u64,
    until: Time,
}

/// A lock that somebody else wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Whose it was.
    pub client: u32,
    /// What is not written yet under it.
    pub dirty: u64,
    /// When the last write under it is done.
    pub until: Time,
}

/// The locks of an object.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    granted: BTreeMap<u64, Granted>,
}

/// Clients with locks on an object from which on grants grow no further than they may. Basis: published (32 in `ldlm_extent.c`).
const CONTENDED: usize = 32;

impl Locks {
    /// Whether `client` may write there, because it holds a lock over all of it.
    #[must_use]
    pub fn holds(&self, client: u32, extent: Extent) -> bool {
        self.at(extent.begin).is_some_and(|(_, lock)| lock.client == client && lock.end >= extent.end)
    }
    /// Says that `bytes` under the lock there are not written yet, and that they are in pages at `until`.
    pub fn dirties(&mut self, at: u64, bytes: u64, until: Time) {
        if let Some((begin, _)) = self.at(at)
            && let Some(lock) = self.granted.get_mut(&begin)
        {
            lock.dirty += bytes;
            lock.until = lock.until.max(until);
        }
    }
    /// Takes the locks that are in the way of `client`.
    pub fn revoke(&mut self, client: u32, extent: Extent) -> Vec<Revoked> {
        let first = self.at(extent.begin).map_or(extent.begin, |(begin, _)| begin);
        let inside: Vec<u64> = self.granted.range(first..extent.end).filter(|(_, lock)| lock.end > extent.begin).map(|(b, _)| *b).collect();
        let gone = inside.into_iter().filter_map(|begin| self.granted.remove(&begin));
        gone.filter(|lock| lock.client != client || lock.dirty > 0)
            .map(|Granted { client, dirty, until, .. }| Revoked { client, dirty, until })
            .collect()
    }
    /// Gives `client` a lock over `extent`, and as much around it as nobody else holds or waits for; at most `grown` behind it where many
    /// hold some.
    pub fn grant(&mut self, client: u32, extent: Extent, grown: u64, waiting: impl Iterator<Item = Extent>) -> Extent {
        let mut begin = self.granted.range(..extent.begin).next_back().map_or(0, |(_, lock)| lock.end.min(extent.begin));
        let mut next = self.granted.range(extent.end..).next().map_or(u64::MAX, |(begin, _)| *begin);
        for other in waiting {
            if other.begin >= extent.end {
                next = next.min(other.begin);
            } else if other.end <= extent.begin {
                begin = begin.max(other.end);
            }
        }
        let end = if self.granted.len() > CONTENDED { next.min(extent.end.saturating_add(grown)) } else { next };
        self.granted.insert(begin, Granted { end, client, dirty: 0, until: Time::ZERO });
        Extent { begin, end }
    }
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.granted.len()
    }

    fn at(&self, byte: u64) -> Option<(u64, Granted)> {
        self.granted.range(..=byte).next_back().filter(|(_, lock)| lock.end > byte).map(|(begin, lock)| (*begin, *lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn gone(client: u32, dirty: u64) -> Revoked {
        Revoked { client, dirty, until: Time::ZERO }
    }
    const fn extent(begin: u64, end: u64) -> Extent {
        Extent { begin, end }
    }

    /// The first to come gets all; the next takes it away, dirty pages and all, and gets all in turn: ping-pong.
    #[test]
    fn a_lone_lock_grows_over_the_object() {
        let mut locks = Locks::default();
        assert_eq!(locks.grant(0, extent(100, 200), 1000, std::iter::empty()), extent(0, u64::MAX));
        assert!(locks.holds(0, extent(5000, 6000)) && !locks.holds(1, extent(100, 200)));
        locks.dirties(100, 100, Time::ZERO);
        assert_eq!(locks.revoke(1, extent(200, 300)), [gone(0, 100)]);
        assert_eq!(locks.grant(1, extent(200, 300), 1000, std::iter::empty()), extent(0, u64::MAX));
    }

    /// Where others wait, a lock ends where the next of them wants to begin.
    #[test]
    fn a_lock_leaves_room_for_those_who_wait() {
        let mut locks = Locks::default();
        let waiting = [extent(0, 100), extent(500, 600)];
        assert_eq!(locks.grant(0, extent(200, 300), 1000, waiting.into_iter()), extent(100, 500));
    }

    /// Blocks of their own: once both hold one, neither disturbs the other.
    #[test]
    fn a_lock_ends_where_others_begin() {
        let mut locks = Locks::default();
        locks.grant(0, extent(0, 100), 1000, std::iter::empty());
        assert_eq!(locks.revoke(1, extent(500, 600)), [gone(0, 0)]);
        assert_eq!(locks.grant(1, extent(500, 600), 1000, std::iter::empty()), extent(0, u64::MAX));
        assert_eq!(locks.revoke(0, extent(0, 100)), [gone(1, 0)]);
        locks.granted.insert(500, Granted { end: 600, client: 1, dirty: 0, until: Time::ZERO });
        assert_eq!(locks.grant(0, extent(0, 100), 1000, std::iter::empty()), extent(0, 500));
        assert_eq!((locks.revoke(1, extent(520, 530)), locks.count()), (vec![], 1));
    }
}
