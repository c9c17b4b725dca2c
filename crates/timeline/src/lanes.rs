//! Slices of one track must not overlap: those that do are put side by side, each in the first lane that is free.

/// The lanes of one thing, with the end of the last slice in each (ps).
#[derive(Debug, Default)]
pub(crate) struct Lanes(Vec<u64>);

impl Lanes {
    /// The lane of a slice. Slices come in any order of their begins: a lane is free when all that it has ended before.
    pub(crate) fn place(&mut self, begun: u64, done: u64) -> usize {
        match self.0.iter().position(|end| *end <= begun) {
            Some(lane) => {
                self.0[lane] = done;
                lane
            }
            None => {
                self.0.push(done);
                self.0.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_side_by_side() {
        let mut lanes = Lanes::default();
        assert_eq!([(0, 10), (5, 15), (10, 12), (11, 20), (20, 21)].map(|(begun, done)| lanes.place(begun, done)), [0, 1, 0, 2, 0]);
    }
}
