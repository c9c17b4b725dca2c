//! Cores in rows and columns, and the links between their routers.

/// Cycles of what happens on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From a core to its router, and back.
    pub ramp: u64,
    /// From a router to the next.
    pub hop: u64,
    /// From a wavelet at the core until what is made of it may leave.
    pub add: u64,
}

/// A rectangle of cores, numbered row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mesh {
    /// Cores in a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
}

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    East,
    West,
    South,
    North,
}

impl Mesh {
    /// Cores.
    #[must_use]
    pub fn cores(self) -> u32 {
        self.columns * self.rows
    }
    /// The core at a place.
    pub(crate) fn at(self, column: u32, row: u32) -> u32 {
        row * self.columns + column
    }
    /// Numbers of links: four a core.
    pub(crate) fn links(self) -> usize {
        4 * self.cores() as usize
    }
    /// The link from a core to a neighbour.
    pub(crate) fn link(self, from: u32, to: u32) -> u32 {
        let direction = match i64::from(to) - i64::from(from) {
            1 if self.columns > 1 => Direction::East,
            -1 if self.columns > 1 => Direction::West,
            step if step > 0 => Direction::South,
            _ => Direction::North,
        };
        4 * from + direction as u32
    }
    /// The cores from one to another, first along the row, then along the column; without the first.
    pub(crate) fn path(self, from: u32, to: u32) -> Vec<u32> {
        let (mut column, mut row) = (from % self.columns, from / self.columns);
        let (last_column, last_row) = (to % self.columns, to / self.columns);
        let mut path = Vec::new();
        let step = |at: &mut u32, goal: u32| {
            *at = if *at < goal { *at + 1 } else { *at - 1 };
        };
        while column != last_column {
            step(&mut column, last_column);
            path.push(self.at(column, row));
        }
        while row != last_row {
            step(&mut row, last_row);
            path.push(self.at(column, row));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_along_the_row_first() {
        let mesh = Mesh { columns: 4, rows: 3 };
        assert_eq!(mesh.path(0, 6), [1, 2, 6]);
        assert_eq!(mesh.path(11, 8), [10, 9, 8]);
        // Links of a core are its own.
        assert_eq!([mesh.link(5, 6), mesh.link(5, 4), mesh.link(5, 9), mesh.link(5, 1)], [20, 21, 22, 23]);
        let column = Mesh { columns: 1, rows: 3 };
        assert_eq!([column.link(1, 2), column.link(1, 0)], [6, 7]);
    }
}
