//! Ranks on a grid of processes, and the blocks of a mesh that they have.
//!
//! Source: MPI 4.1, §8.5.2 (`MPI_Dims_create`: numbers as close to each other as possible, not ascending) and §8.5.1 (row-major order).
//! Modelled: any number of ranks and points; the first blocks have one point more where it does not divide.

/// So many numbers whose product is `ranks`, as close to each other as possible, not ascending.
#[must_use]
pub fn dims_create<const N: usize>(ranks: u32) -> [u32; N] {
    let mut best: Option<[u32; N]> = None;
    let mut now = [1; N];
    factors(ranks.max(1), 0, &mut now, &mut best);
    best.unwrap_or([1; N])
}

/// The grid of `ranks` that divides a box of these sides into bricks of the least surface, which is what is sent. LAMMPS and GROMACS do so; on
/// a tilted cell LAMMPS finds others that are nearly as good.
#[must_use]
pub fn least_surface(sides: [f64; 3], ranks: u32) -> [u32; 3] {
    let mut best = ([ranks, 1, 1], f64::INFINITY);
    for x in (1..=ranks).filter(|x| ranks.is_multiple_of(*x)) {
        let rest = ranks / x;
        for y in (1..=rest).filter(|y| rest.is_multiple_of(*y)) {
            let dims = [x, y, rest / y];
            let [a, b, c]: [f64; 3] = std::array::from_fn(|d| sides[d] / f64::from(dims[d]));
            let surface = a * b + b * c + c * a;
            if surface < best.1 {
                best = (dims, surface);
            }
        }
    }
    best.0
}

/// Tries every product in not ascending order; the best has the least difference, first among the outer, then among the inner.
fn factors<const N: usize>(rest: u32, place: usize, now: &mut [u32; N], best: &mut Option<[u32; N]>) {
    if place + 1 == N {
        now[place] = rest;
        if place > 0 && rest > now[place - 1] {
            return;
        }
        let spread = |dims: &[u32; N]| (dims[0] - dims[N - 1], dims[0]);
        if best.as_ref().is_none_or(|best| spread(now) < spread(best)) {
            *best = Some(*now);
        }
        return;
    }
    let most = if place == 0 { rest } else { now[place - 1] };
    let mut divisor = 1;
    while u64::from(divisor) * u64::from(divisor) <= u64::from(rest) {
        if rest.is_multiple_of(divisor) {
            for factor in [divisor, rest / divisor] {
                if factor <= most {
                    now[place] = factor;
                    factors(rest / factor, place + 1, now, best);
                }
            }
        }
        divisor += 1;
    }
}

/// A grid of processes, the last direction counted fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Ranks in each direction.
    pub dims: [u32; 3],
    /// Whether the last is a neighbour of the first.
    pub periodic: bool,
}

impl Grid {
    /// Ranks in all.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.dims.iter().product()
    }
    /// Where `rank` is.
    #[must_use]
    pub fn coordinates(&self, rank: u32) -> [u32; 3] {
        let [_, y, z] = self.dims;
        [rank / (y * z), rank / z % y, rank % z]
    }
    /// Who is there.
    #[must_use]
    pub fn rank(&self, [x, y, z]: [u32; 3]) -> u32 {
        (x * self.dims[1] + y) * self.dims[2] + z
    }
    /// The rank so far away in each direction, where there is one.
    #[must_use]
    pub fn neighbour(&self, rank: u32, step: [i32; 3]) -> Option<u32> {
        let at = self.coordinates(rank);
        let mut there = [0; 3];
        for direction in 0..3 {
            let size = i64::from(self.dims[direction]);
            let to = i64::from(at[direction]) + i64::from(step[direction]);
            if !self.periodic && !(0..size).contains(&to) {
                return None;
            }
            there[direction] = to.rem_euclid(size) as u32;
        }
        Some(self.rank(there))
    }
}

/// Points of block `number` when so many are cut into so many blocks.
#[must_use]
pub fn block(points: u64, blocks: u32, number: u32) -> u64 {
    let blocks = u64::from(blocks.max(1));
    points / blocks + u64::from(u64::from(number) < points % blocks)
}

/// All neighbours of a block, and itself.
pub const DIRECTIONS: [[i32; 3]; 27] = {
    let mut all = [[0; 3]; 27];
    let mut number = 0;
    while number < 27 {
        all[number] = [number as i32 / 9 - 1, number as i32 / 3 % 3 - 1, number as i32 % 3 - 1];
        number += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_close_to_each_other() {
        assert_eq!(dims_create::<3>(512), [8, 8, 8]);
        assert_eq!(dims_create::<3>(96), [6, 4, 4]);
        assert_eq!(dims_create::<2>(6), [3, 2]);
        assert_eq!(dims_create::<3>(7), [7, 1, 1]);
        assert_eq!(dims_create::<3>(1), [1, 1, 1]);
        assert_eq!(dims_create::<3>(32_768), [32, 32, 32]);
    }

    #[test]
    fn neighbours_face_each_other() {
        let grid = Grid { dims: [4, 3, 2], periodic: true };
        for rank in 0..grid.ranks() {
            assert_eq!(grid.rank(grid.coordinates(rank)), rank);
            let up = grid.neighbour(rank, [0, 1, 0]).unwrap();
            assert_eq!(grid.neighbour(up, [0, -1, 0]), Some(rank));
        }
        assert_eq!(Grid { periodic: false, ..grid }.neighbour(0, [-1, 0, 0]), None);
        assert_eq!((0..3).map(|number| block(10, 3, number)).collect::<Vec<_>>(), [4, 3, 3]);
    }
}
