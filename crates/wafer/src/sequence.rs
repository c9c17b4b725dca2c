//! When the wavelets of a stream pass a place: runs of consecutive cycles.
//!
//! Modelled: everything that happens to a stream on its way keeps it a list of such runs, as links and ramps take one wavelet a cycle.

/// Cycles of wavelets, in order: each run is its first cycle and how many wavelets follow each other without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence(Vec<(u64, u64)>);

impl Sequence {
    /// `count` wavelets from cycle `first` on.
    #[must_use]
    pub fn from(first: u64, count: u64) -> Sequence {
        Sequence(if count == 0 { Vec::new() } else { vec![(first, count)] })
    }
    /// The runs: first cycle, wavelets.
    #[must_use]
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.0
    }
    /// How many wavelets there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
    /// The cycle behind that of the last one; 0 if there is none.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |(first, count)| first + count)
    }
    /// All of them so many cycles later.
    #[must_use]
    pub fn later(mut self, cycles: u64) -> Sequence {
        for run in &mut self.0 {
            run.0 += cycles;
        }
        self
    }
    /// Through something that takes one a cycle and is free from cycle `free` on.
    #[must_use]
    pub fn through(&self, free: u64) -> Sequence {
        let mut passed = Sequence::default();
        let mut free = free;
        for (first, count) in &self.0 {
            let first = free.max(*first);
            passed.push(first, *count);
            free = first + count;
        }
        passed
    }
    /// The later one of each two wavelets of the same number, where both have as many.
    #[must_use]
    pub fn latest(&self, other: &Sequence) -> Sequence {
        let mut both = Sequence::default();
        let (mut mine, mut theirs) = (self.0.iter().copied(), other.0.iter().copied());
        let (mut a, mut b) = (mine.next(), theirs.next());
        while let (Some((at, left)), Some((other_at, other_left))) = (a, b) {
            let count = left.min(other_left);
            both.push(at.max(other_at), count);
            a = if left == count { mine.next() } else { Some((at + count, left - count)) };
            b = if other_left == count { theirs.next() } else { Some((other_at + count, other_left - count)) };
        }
        both
    }

    fn push(&mut self, first: u64, count: u64) {
        match self.0.last_mut() {
            Some((at, before)) if *at + *before == first => *before += count,
            _ => self.0.push((first, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_closes_up() {
        let mut stream = Sequence::from(5, 3);
        stream.push(20, 2);
        // Free from 7 on: 7, 8, 9, then 20, 21. Free from 19 on: all without a gap.
        assert_eq!(stream.through(7).runs(), [(7, 3), (20, 2)]);
        assert_eq!(stream.through(19).runs(), [(19, 5)]);
        assert_eq!((stream.count(), stream.end()), (5, 22));
    }

    #[test]
    fn the_later_of_each_two() {
        let mut stream = Sequence::from(0, 2);
        stream.push(10, 2);
        // 0, 1, 10, 11 and 3, 4, 5, 6.
        assert_eq!(stream.latest(&Sequence::from(3, 4)).runs(), [(3, 2), (10, 2)]);
    }
}
