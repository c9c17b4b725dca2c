//! The grid of processes, and how it lies on the nodes.
//!
//! Source: HPL, HPL.dat: `P` rows by `Q` columns of processes, P at most Q where nothing speaks against it.
//! Modelled: each node has a rectangle of the grid, as square as its processes and the grid allow, or, where a mapping is asked for, parts of
//! rows or of columns that follow each other.
//! Not modelled: grids that leave processes of a node without work.

/// In which order processes fill the grid: `PMAP` of HPL.dat, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Row after row.
    Rows,
    /// Column after column.
    Columns,
}

/// Rows and columns of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows of processes.
    pub rows: u32,
    /// Columns of processes.
    pub columns: u32,
}

impl Grid {
    /// The grid of so many processes that is nearest to a square, with no more rows than columns.
    #[must_use]
    pub fn of(processes: u32) -> Grid {
        let processes = processes.max(1);
        let rows = (1..=processes.isqrt()).rev().find(|rows| processes.is_multiple_of(*rows)).unwrap_or(1);
        Grid { rows, columns: processes / rows }
    }
    /// The grid that `nodes` of so many processes each fill as far as they can, at most twice as wide as high: a rectangle on each node, and
    /// as few nodes left over as that allows. Where several do, the one nearest to a square.
    #[must_use]
    pub fn filling(nodes: u32, per_node: u32) -> Grid {
        let (nodes, here) = (nodes.max(1), Grid::of(per_node));
        let of = |rows: u32, columns: u32| Grid { rows: rows * here.rows, columns: columns * here.columns };
        let wide = |grid: &Grid| grid.rows <= grid.columns && grid.columns <= 2 * grid.rows;
        (1..=nodes)
            .map(|rows| of(rows, nodes / rows))
            .chain((1..=nodes.isqrt()).map(|rows| of(rows, (2 * rows * here.rows / here.columns).clamp(1, nodes / rows))))
            .filter(wide)
            .max_by_key(|grid| (grid.processes(), u32::MAX - (grid.columns - grid.rows)))
            .unwrap_or_else(|| of(1, nodes))
    }
    /// How many processes it has.
    #[must_use]
    pub fn processes(self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
    /// What each node with so many processes has of the grid by a mapping: whole rows or columns and what is left of one, or a part of one;
    /// without, [`Grid::within`].
    #[must_use]
    pub fn here(self, per_node: u32, mapping: Option<Mapping>) -> Grid {
        let along = |length: u32| (per_node.min(length).max(1), (per_node / length.max(1)).max(1));
        match mapping {
            None => self.within(per_node),
            Some(Mapping::Rows) => {
                let (columns, rows) = along(self.columns);
                Grid { rows, columns }
            }
            Some(Mapping::Columns) => {
                let (rows, columns) = along(self.rows);
                Grid { rows, columns }
            }
        }
    }
    /// The rectangle of each node with so many processes: the one nearest to a square that divides the grid; a single row or column of
    /// processes otherwise, as far as the grid reaches.
    #[must_use]
    pub fn within(self, per_node: u32) -> Grid {
        let per_node = u64::from(per_node).min(self.processes()) as u32;
        let fits =
            |rows: &u32| per_node.is_multiple_of(*rows) && self.rows.is_multiple_of(*rows) && self.columns.is_multiple_of(per_node / rows);
        (1..=per_node)
            .filter(fits)
            .min_by_key(|rows| rows.abs_diff(per_node / rows))
            .map_or(Grid { rows: 1, columns: per_node.min(self.columns).max(1) }, |rows| Grid { rows, columns: per_node / rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 31 x 32 processes, 32 on a node: a row each, or a column and one more.
    #[test]
    fn a_mapping_says_what_a_node_has() {
        let grid = Grid { rows: 31, columns: 32 };
        assert_eq!(grid.here(32, Some(Mapping::Rows)), Grid { rows: 1, columns: 32 });
        assert_eq!(grid.here(32, Some(Mapping::Columns)), Grid { rows: 31, columns: 1 });
        assert_eq!(grid.here(64, Some(Mapping::Rows)), Grid { rows: 2, columns: 32 });
        assert_eq!(grid.here(4, None), grid.within(4));
    }

    #[test]
    fn grids_are_as_square_as_they_can_be() {
        assert_eq!(Grid::of(64), Grid { rows: 8, columns: 8 });
        assert_eq!(Grid::of(4608 * 6), Grid { rows: 144, columns: 192 });
        assert_eq!(Grid::of(7), Grid { rows: 1, columns: 7 });
        assert_eq!(Grid { rows: 144, columns: 192 }.within(8), Grid { rows: 2, columns: 4 });
        assert_eq!(Grid { rows: 1, columns: 7 }.within(4), Grid { rows: 1, columns: 4 });
        // 1471 is a prime: 16 x 1471 would be of no use, and a few nodes stay idle.
        let grid = Grid::filling(5884, 4);
        assert!(grid.processes() > 23_536 * 99 / 100 && grid.columns <= 2 * grid.rows, "{grid:?}");
        assert_eq!(Grid::filling(1, 8), Grid { rows: 2, columns: 4 });
        assert_eq!(Grid::filling(16, 4), Grid { rows: 8, columns: 8 });
    }
}
