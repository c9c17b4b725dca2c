//! Maximum flow between two vertices, and the cut that bounds it.
//!
//! Source: E. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet
//! Math. Doklady 11, 1970: layers by breadth-first search, then flow along them until every path has a full arc.

/// A network under construction.
#[derive(Clone, Debug)]
pub(super) struct Network {
    vertices: u32,
    /// Ends and what fits through, there and back.
    arcs: Vec<(u32, u32, u64, u64)>,
}

impl Network {
    pub(super) fn new(vertices: u32) -> Network {
        Network { vertices, arcs: Vec::new() }
    }
    /// The same capacity in both directions.
    pub(super) fn join(&mut self, one: u32, other: u32, capacity: u64) {
        self.arcs.push((one, other, capacity, capacity));
    }
    /// Capacity in one direction only.
    pub(super) fn lead(&mut self, from: u32, to: u32, capacity: u64) {
        self.arcs.push((from, to, capacity, 0));
    }
    /// The network with the arcs of each vertex side by side.
    pub(super) fn ready(self) -> Ready {
        let mut first = vec![0u32; self.vertices as usize + 1];
        for &(one, other, ..) in &self.arcs {
            first[one as usize + 1] += 1;
            first[other as usize + 1] += 1;
        }
        for vertex in 1..first.len() {
            first[vertex] += first[vertex - 1];
        }
        let mut next = first.clone();
        let arcs = 2 * self.arcs.len();
        let (mut to, mut back, mut full) = (vec![0; arcs], vec![0; arcs], vec![0; arcs]);
        for (one, other, there, again) in self.arcs {
            let (here, away) = (next[one as usize], next[other as usize]);
            next[one as usize] += 1;
            // An arc from a vertex to itself takes two places there.
            let away = if one == other { away + 1 } else { away };
            next[other as usize] += 1;
            (to[here as usize], back[here as usize], full[here as usize]) = (other, away, there);
            (to[away as usize], back[away as usize], full[away as usize]) = (one, here, again);
        }
        let vertices = self.vertices as usize;
        Ready { first, to, back, left: full.clone(), full, layer: vec![0; vertices], turn: vec![0; vertices], queue: Vec::new() }
    }
}

/// A network that flows can be sought in, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    first: Vec<u32>,
    to: Vec<u32>,
    /// The arc that leads back.
    back: Vec<u32>,
    full: Vec<u64>,
    /// What still fits.
    left: Vec<u64>,
    /// Distance from the source, counted from 1; 0 where it does not reach.
    layer: Vec<u32>,
    /// The next arc to try.
    turn: Vec<u32>,
    queue: Vec<u32>,
}

impl Ready {
    /// The most that flows from one vertex to another.
    pub(super) fn most(&mut self, source: u32, sink: u32) -> u64 {
        self.left.copy_from_slice(&self.full);
        let mut flow = 0u64;
        if source == sink {
            return flow;
        }
        while self.layers(source, sink) {
            self.turn.copy_from_slice(&self.first[..self.first.len() - 1]);
            flow = flow.saturating_add(self.block(source, sink));
        }
        flow
    }

    /// After [`Ready::most`]: whether a vertex is on the side of the source of the cut that is full.
    pub(super) fn near(&self, vertex: u32) -> bool {
        self.layer[vertex as usize] != 0
    }

    /// Whether the sink can still be reached; numbers the layers up to it.
    fn layers(&mut self, source: u32, sink: u32) -> bool {
        self.layer.fill(0);
        self.layer[source as usize] = 1;
        self.queue.clear();
        self.queue.push(source);
        let mut done = 0;
        while let Some(&at) = self.queue.get(done) {
            done += 1;
            for arc in self.first[at as usize] as usize..self.first[at as usize + 1] as usize {
                let to = self.to[arc] as usize;
                if self.left[arc] > 0 && self.layer[to] == 0 {
                    self.layer[to] = self.layer[at as usize] + 1;
                    if to == sink as usize {
                        return true;
                    }
                    self.queue.push(to as u32);
                }
            }
        }
        false
    }

    /// Fills paths along the layers, one after the other, until none is left.
    fn block(&mut self, source: u32, sink: u32) -> u64 {
        let mut total = 0u64;
        let mut path: Vec<usize> = Vec::new();
        let mut at = source;
        loop {
            if at == sink {
                let narrow = path.iter().map(|&arc| self.left[arc]).min().unwrap_or(0);
                total = total.saturating_add(narrow);
                // Back to before the first arc that is full now.
                let mut keep = path.len();
                for (place, &arc) in path.iter().enumerate() {
                    self.left[arc] -= narrow;
                    self.left[self.back[arc] as usize] = self.left[self.back[arc] as usize].saturating_add(narrow);
                    if self.left[arc] == 0 && keep == path.len() {
                        keep = place;
                    }
                }
                at = self.to[self.back[path[keep]] as usize];
                path.truncate(keep);
                continue;
            }
            let arc = self.turn[at as usize] as usize;
            if arc < self.first[at as usize + 1] as usize {
                let to = self.to[arc];
                if self.left[arc] > 0 && self.layer[to as usize] == self.layer[at as usize] + 1 {
                    path.push(arc);
                    at = to;
                } else {
                    self.turn[at as usize] += 1;
                }
            } else if let Some(arc) = path.pop() {
                at = self.to[self.back[arc] as usize];
                self.turn[at as usize] += 1;
            } else {
                return total;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_books() {
        // Cormen et al., "Introduction to Algorithms", figure 24.6: 23.
        let mut network = Network::new(6);
        for (from, to, capacity) in [(0, 1, 16), (0, 2, 13), (1, 3, 12), (2, 1, 4), (2, 4, 14), (3, 2, 9), (3, 5, 20), (4, 3, 7), (4, 5, 4)]
        {
            network.lead(from, to, capacity);
        }
        let mut ready = network.ready();
        assert_eq!(ready.most(0, 5), 23);
        assert_eq!(ready.most(0, 5), 23);
        assert!(ready.near(0) && !ready.near(5));
        assert_eq!(ready.most(5, 0), 0);
        assert_eq!(ready.most(3, 3), 0);
    }

    proptest! {
        /// Ford and Fulkerson 1956: the most that flows is the least that any cut lets through.
        #[test]
        fn most_flow_is_least_cut(arcs in proptest::collection::vec((0u32..7, 0u32..7, 0u64..9, any::<bool>()), 0..24)) {
            let mut network = Network::new(7);
            for &(from, to, capacity, both) in &arcs {
                if both { network.join(from, to, capacity) } else { network.lead(from, to, capacity) }
            }
            let side = |set: u32, vertex: u32| set >> vertex & 1 == 1;
            let through = |set: u32| arcs.iter().map(|&(from, to, capacity, both)| {
                let there = side(set, from) && !side(set, to);
                let back = both && side(set, to) && !side(set, from);
                if there || back { capacity } else { 0 }
            }).sum::<u64>();
            let least = (0..128).filter(|&set| side(set, 0) && !side(set, 6)).map(through).min();
            let mut ready = network.ready();
            let most = ready.most(0, 6);
            prop_assert_eq!(Some(most), least);
            let set = (0..7).filter(|&vertex| ready.near(vertex)).fold(0, |set, vertex| set | 1 << vertex);
            prop_assert_eq!(through(set), most);
        }
    }
}
