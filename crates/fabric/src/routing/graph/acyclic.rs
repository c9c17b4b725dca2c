//! Dependencies between links that never form a cycle: one more is taken only where it closes none.
//!
//! A topological order is kept. A dependency against the order makes a search between its two ends alone, which finds a cycle or
//! puts what it visited in order.
//!
//! Source: D. Pearce, P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", ACM J. Experimental
//! Algorithmics 11, 2007.

/// An acyclic channel dependency graph.
#[derive(Clone, Debug)]
pub(super) struct Acyclic {
    next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// The place of each link in the order.
    place: Vec<u32>,
    seen: Vec<bool>,
}

/// What became of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insertion {
    /// It was there.
    Known,
    /// It is new.
    New,
    /// It would close a cycle.
    Refused,
}

impl Acyclic {
    pub(super) fn new(links: usize) -> Acyclic {
        Acyclic {
            next: vec![Vec::new(); links],
            before: vec![Vec::new(); links],
            place: (0..links as u32).collect(),
            seen: vec![false; links],
        }
    }

    /// Adds that packets on `from` may want `to`, unless that closes a cycle.
    pub(super) fn insert(&mut self, from: u32, to: u32) -> Insertion {
        if self.next[from as usize].contains(&to) {
            return Insertion::Known;
        }
        if from == to || (self.place[to as usize] < self.place[from as usize] && !self.reorder(from, to)) {
            return Insertion::Refused;
        }
        self.next[from as usize].push(to);
        self.before[to as usize].push(from);
        Insertion::New
    }
    /// Adds the dependencies of a path and of its way back, or none of them.
    pub(super) fn insert_all(&mut self, pairs: impl IntoIterator<Item = (u32, u32)>) -> bool {
        let mut new = Vec::new();
        for (from, to) in pairs {
            match self.insert(from, to) {
                Insertion::Known => {}
                Insertion::New => new.push((from, to)),
                Insertion::Refused => {
                    new.into_iter().for_each(|(from, to)| self.remove(from, to));
                    return false;
                }
            }
        }
        true
    }
    /// Takes a dependency away; the order stays one.
    pub(super) fn remove(&mut self, from: u32, to: u32) {
        self.next[from as usize].retain(|next| *next != to);
        self.before[to as usize].retain(|before| *before != from);
    }

    /// Puts `to` and what comes after it behind `from`; whether that is possible.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        let mut after = self.reach(to, |graph, at| &graph.next[at], |place| place <= high);
        if self.seen[from as usize] {
            after.iter().for_each(|at| self.seen[*at as usize] = false);
            return false;
        }
        let mut ahead = self.reach(from, |graph, at| &graph.before[at], |place| place >= low);
        after.iter().chain(&ahead).for_each(|at| self.seen[*at as usize] = false);
        after.sort_by_key(|at| self.place[*at as usize]);
        ahead.sort_by_key(|at| self.place[*at as usize]);
        ahead.append(&mut after);
        let mut places: Vec<u32> = ahead.iter().map(|at| self.place[*at as usize]).collect();
        places.sort_unstable();
        ahead.into_iter().zip(places).for_each(|(at, place)| self.place[at as usize] = place);
        true
    }

    /// Everything that can be reached within a range of places; it stays marked as seen.
    fn reach(&mut self, start: u32, ways: impl Fn(&Acyclic, usize) -> &Vec<u32>, within: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut found = vec![start];
        self.seen[start as usize] = true;
        let mut done = 0;
        while let Some(&at) = found.get(done) {
            done += 1;
            for place in 0..ways(self, at as usize).len() {
                let to = ways(self, at as usize)[place];
                if within(self.place[to as usize]) && !std::mem::replace(&mut self.seen[to as usize], true) {
                    found.push(to);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a path leads from one to another, by plain search.
    fn leads(pairs: &[(u32, u32)], from: u32, to: u32) -> bool {
        let mut seen = vec![from];
        let mut done = 0;
        while let Some(&at) = seen.get(done) {
            done += 1;
            let next: Vec<u32> = pairs.iter().filter(|pair| pair.0 == at).map(|pair| pair.1).collect();
            next.into_iter().for_each(|next| {
                if !seen.contains(&next) {
                    seen.push(next)
                }
            });
        }
        seen.contains(&to)
    }

    #[test]
    fn what_closes_a_cycle_is_refused_and_nothing_else() {
        let (mut graph, mut pairs) = (Acyclic::new(24), Vec::new());
        // Marsaglia's xorshift of 64 bits.
        let mut state = 88_172_645_463_325_252u64;
        let mut counts = [0; 3];
        for step in 0..2000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (from, to) = ((state % 24) as u32, (state / 24 % 24) as u32);
            if step % 5 == 4 && !pairs.is_empty() {
                let (from, to) = pairs.remove((state % pairs.len() as u64) as usize);
                graph.remove(from, to);
                continue;
            }
            let expected = if pairs.contains(&(from, to)) {
                Insertion::Known
            } else if leads(&pairs, to, from) {
                Insertion::Refused
            } else {
                pairs.push((from, to));
                Insertion::New
            };
            assert_eq!(graph.insert(from, to), expected, "step {step}");
            counts[expected as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn all_or_none() {
        let mut graph = Acyclic::new(4);
        assert!(graph.insert_all([(0, 1), (1, 2)]));
        assert!(!graph.insert_all([(2, 3), (3, 0)]));
        assert_eq!(graph.insert(3, 2), Insertion::New);
    }
}
