//! Dependencies between the links that paths of one virtual layer take one after the other, with the paths that make each.
//!
//! Source: W. Dally and C. Seitz, IEEE Trans. Computers 36(5), 1987 (the channel dependency graph).
//! Modelled: links between switches, as ways of the skeleton; those of endpoints are in no cycle.

/// The channel dependency graph of one layer.
#[derive(Clone, Debug)]
pub(super) struct Dependencies {
    /// By way: the ways that packets on it may want next.
    next: Vec<Vec<Dependency>>,
    /// What the search for cycles knows: ways from which none can be reached.
    state: Vec<State>,
}

/// One way after another.
#[derive(Clone, Debug)]
struct Dependency {
    to: u32,
    /// Paths that want it so.
    count: u32,
    /// All paths that ever did.
    paths: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

impl Dependencies {
    pub(super) fn new(ways: usize) -> Dependencies {
        Dependencies { next: vec![Vec::new(); ways], state: vec![State::New; ways] }
    }
    /// Adds a path by its number and its ways.
    pub(super) fn add(&mut self, path: u32, ways: &[u32]) {
        for pair in ways.windows(2) {
            let next = &mut self.next[pair[0] as usize];
            let place = next.iter().position(|dependency| dependency.to == pair[1]).unwrap_or_else(|| {
                next.push(Dependency { to: pair[1], count: 0, paths: Vec::new() });
                next.len() - 1
            });
            next[place].count += 1;
            next[place].paths.push(path);
        }
    }
    /// Takes a path away. What the search for cycles knows stays true.
    pub(super) fn remove(&mut self, ways: &[u32]) {
        for pair in ways.windows(2) {
            if let Some(dependency) = self.next[pair[0] as usize].iter_mut().find(|dependency| dependency.to == pair[1]) {
                dependency.count -= 1;
            }
        }
    }
    /// The dependency of a cycle that the fewest paths make, if there is a cycle: its paths, those that were taken away since included.
    pub(super) fn weakest_of_a_cycle(&mut self) -> Option<Vec<u32>> {
        let cycle = self.cycle()?;
        let pairs = cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1));
        let found = pairs.filter_map(|(from, to)| self.next[from as usize].iter().find(|dependency| dependency.to == to));
        found.min_by_key(|dependency| dependency.count).map(|dependency| dependency.paths.clone())
    }

    /// A cycle, by a depth-first search that passes over what earlier ones left behind as free of any.
    fn cycle(&mut self) -> Option<Vec<u32>> {
        let mut open: Vec<(u32, usize)> = Vec::new();
        for start in 0..self.next.len() as u32 {
            if self.state[start as usize] != State::New {
                continue;
            }
            self.state[start as usize] = State::Open;
            open.push((start, 0));
            while let Some((at, place)) = open.last_mut() {
                let dependency = self.next[*at as usize].get(*place);
                *place += 1;
                match dependency {
                    None => {
                        self.state[*at as usize] = State::Done;
                        open.pop();
                    }
                    Some(Dependency { count: 0, .. }) => {}
                    Some(&Dependency { to, .. }) => match self.state[to as usize] {
                        State::Done => {}
                        State::New => {
                            self.state[to as usize] = State::Open;
                            open.push((to, 0));
                        }
                        State::Open => {
                            open.iter().for_each(|(at, _)| self.state[*at as usize] = State::New);
                            let start = open.iter().position(|(at, _)| *at == to).unwrap_or(0);
                            return Some(open[start..].iter().map(|(at, _)| *at).collect());
                        }
                    },
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_broken_where_the_fewest_paths_go() {
        let mut ring = Dependencies::new(4);
        let paths: [&[u32]; 5] = [&[0, 1, 2], &[1, 2, 3], &[2, 3], &[3, 0], &[0, 1]];
        paths.iter().zip(0..).for_each(|(ways, path)| ring.add(path, ways));
        // 0 to 1 and 1 to 2 have two paths each, 2 to 3 two, 3 to 0 one.
        assert_eq!(ring.weakest_of_a_cycle(), Some(vec![3]));
        ring.remove(paths[3]);
        assert_eq!(ring.weakest_of_a_cycle(), None);
    }
}
