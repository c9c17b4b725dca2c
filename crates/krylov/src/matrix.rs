//! A sparse matrix of which every rank has some rows, and what each has to hear from the others to multiply it.
//!
//! Source: R. Barrett et al., "Templates for the Solution of Linear Systems", SIAM 1994, §4.3 (compressed rows); the stencils of 7 and 27
//! points that the examples of PETSc and HYPRE and the HPCG benchmark solve.
//! Modelled: a box of points cut into blocks, one for each rank, first direction fastest; rows by number where there is no grid; exact
//! counts of nonzeros and of the elements of neighbours.
//! Not modelled: fill of a preconditioner, several unknowns at a point, rows that are not alike where there is no grid.

use std::fmt;

/// How many points of a grid a row joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stencil {
    /// A point and its neighbours in each direction.
    Seven,
    /// A point and all that touch it, corners too.
    TwentySeven,
}

/// The matrix of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matrix {
    /// Of a stencil on a box of points.
    Grid {
        /// Points in each direction.
        points: [u64; 3],
        /// Blocks in each direction; the ranks, first direction fastest.
        blocks: [u64; 3],
        /// What a row joins.
        stencil: Stencil,
    },
    /// Given by its size.
    Rows {
        /// All rows.
        rows: u64,
        /// Nonzeros of each.
        nonzeros: u64,
        /// Elements that a rank needs of the ranks before and behind it.
        halo: u64,
    },
}

/// What one rank has of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Its rows.
    pub rows: u64,
    /// Their nonzeros.
    pub nonzeros: u64,
    /// Rows that need elements of other ranks.
    pub outer: u64,
    /// Ranks that need elements of this one and have some for it, and how many each way; in the order of their numbers.
    pub neighbours: Vec<(u32, u64)>,
    /// Elements between one row and the farthest one after it that it joins: what two halves of the part need of each other.
    pub reach: u64,
}

/// Why a matrix has no such parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum MatrixError {
    /// More blocks than points.
    #[error("{points} points in direction {axis} for {blocks} blocks: a rank would be without rows")]
    #[diagnostic(help("give at most {points} ranks in direction {axis} (--blocks X,Y,Z cuts the others), or a larger grid"))]
    Thin {
        /// The direction.
        axis: char,
        /// Its points.
        points: u64,
        /// Its blocks.
        blocks: u64,
    },
    /// Blocks and ranks differ.
    #[error("{blocks} blocks for {ranks} ranks")]
    #[diagnostic(help("give --blocks X,Y,Z whose product is {ranks}"))]
    Blocks {
        /// Blocks.
        blocks: u64,
        /// Ranks.
        ranks: u32,
    },
    /// More ranks than rows.
    #[error("{rows} rows for {ranks} ranks: a rank would be without rows")]
    #[diagnostic(help("use at most {rows} ranks, or more rows"))]
    Few {
        /// Rows.
        rows: u64,
        /// Ranks.
        ranks: u32,
    },
    /// The halo is wider than what a rank has.
    #[error("a halo of {halo} elements is wider than the {rows} rows that each rank has")]
    #[diagnostic(help("use --halo of at most {rows}, or fewer ranks"))]
    Wide {
        /// Elements.
        halo: u64,
        /// Rows of the smallest part.
        rows: u64,
    },
}

impl Matrix {
    /// All rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        match self {
            Matrix::Grid { points, .. } => points.iter().product(),
            Matrix::Rows { rows, .. } => *rows,
        }
    }

    /// Looks whether each of `ranks` ranks gets something.
    ///
    /// # Errors
    /// A rank without rows; blocks that are not as many as ranks; a halo that reaches past a neighbour.
    pub fn check(&self, ranks: u32) -> Result<(), MatrixError> {
        match self {
            Matrix::Grid { points, blocks, .. } => {
                let all = blocks.iter().product();
                if all != u64::from(ranks) {
                    return Err(MatrixError::Blocks { blocks: all, ranks });
                }
                let thin = points.iter().zip(blocks).zip(['X', 'Y', 'Z']).find(|((points, blocks), _)| points < blocks);
                thin.map_or(Ok(()), |((points, blocks), axis)| Err(MatrixError::Thin { axis, points: *points, blocks: *blocks }))
            }
            Matrix::Rows { rows, halo, .. } => {
                let least = rows / u64::from(ranks.max(1));
                if least == 0 {
                    return Err(MatrixError::Few { rows: *rows, ranks });
                }
                if ranks > 1 && *halo > least {
                    return Err(MatrixError::Wide { halo: *halo, rows: least });
                }
                Ok(())
            }
        }
    }

    /// What `rank` of `ranks` has.
    #[must_use]
    pub fn part(&self, rank: u32, ranks: u32) -> Part {
        match self {
            Matrix::Grid { points, blocks, stencil } => block(*points, *blocks, *stencil, u64::from(rank)),
            Matrix::Rows { rows, nonzeros, halo } => {
                let mine = length(*rows, u64::from(ranks), u64::from(rank));
                let before = rank.checked_sub(1);
                let behind = Some(rank + 1).filter(|behind| *behind < ranks);
                let neighbours: Vec<(u32, u64)> =
                    before.into_iter().chain(behind).map(|neighbour| (neighbour, *halo)).filter(|(_, elements)| *elements > 0).collect();
                let outer = mine.min(neighbours.iter().map(|(_, elements)| elements).sum());
                Part { rows: mine, nonzeros: mine * nonzeros, outer, neighbours, reach: *halo }
            }
        }
    }
}

/// How many of `all` the part `number` of `parts` has: as even as can be, the first ones one more.
fn length(all: u64, parts: u64, number: u64) -> u64 {
    all / parts + u64::from(number < all % parts)
}

fn block(points: [u64; 3], blocks: [u64; 3], stencil: Stencil, rank: u64) -> Part {
    let at = [rank % blocks[0], rank / blocks[0] % blocks[1], rank / blocks[0] / blocks[1]];
    let axes = [0, 1, 2];
    let len = axes.map(|d| length(points[d], blocks[d], at[d]));
    // Whether another block follows on either side, and so how many layers of the block touch one, and how many the end of the box.
    let sides = axes.map(|d| [at[d] > 0, at[d] + 1 < blocks[d]]);
    let touching = sides.map(|sides| sides.into_iter().filter(|side| *side).count() as u64);
    let rows = len.iter().product();
    let nonzeros = match stencil {
        // Each row and, in each direction, two neighbours less those beyond the ends.
        Stencil::Seven => rows + axes.iter().map(|d| (2 * len[*d] - (2 - touching[*d])) * (rows / len[*d])).sum::<u64>(),
        Stencil::TwentySeven => axes.iter().map(|d| 3 * len[*d] - (2 - touching[*d])).product(),
    };
    let inner: u64 = axes.iter().map(|d| len[*d].saturating_sub(touching[*d])).product();
    let mut neighbours = Vec::new();
    for z in -1i64..=1 {
        for y in -1i64..=1 {
            for x in -1i64..=1 {
                let step = [x, y, z];
                let far = step.iter().filter(|step| **step != 0).count();
                if far == 0 || (stencil == Stencil::Seven && far > 1) {
                    continue;
                }
                if axes.iter().any(|d| (step[*d] < 0 && !sides[*d][0]) || (step[*d] > 0 && !sides[*d][1])) {
                    continue;
                }
                let there = axes.map(|d| at[d].wrapping_add_signed(step[d]));
                let elements = axes.iter().filter(|d| step[**d] == 0).map(|d| len[*d]).product();
                let number = (there[2] * blocks[1] + there[1]) * blocks[0] + there[0];
                neighbours.push((number as u32, elements));
            }
        }
    }
    neighbours.sort_unstable();
    let reach = match stencil {
        Stencil::Seven => len[0] * len[1],
        Stencil::TwentySeven => len[0] * len[1] + len[0] + 1,
    };
    Part { rows, nonzeros, outer: rows - inner, neighbours, reach: reach.min(rows) }
}

impl fmt::Display for Stencil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stencil::Seven => "7-point",
            Stencil::TwentySeven => "27-point",
        })
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matrix::Grid { points: [x, y, z], blocks: [a, b, c], stencil } => {
                write!(f, "{stencil} stencil on {x} x {y} x {z} points in {a} x {b} x {c} blocks")
            }
            Matrix::Rows { rows, nonzeros, halo } => write!(f, "{rows} rows of {nonzeros} nonzeros, {halo} elements of each neighbour"),
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    /// Rows joined to `row` of a box, counted one by one.
    fn counted(points: [u64; 3], stencil: Stencil) -> u64 {
        let inside = |at: i64, d: usize| at >= 0 && at < points[d] as i64;
        let mut found = 0;
        for row in 0..points.iter().product::<u64>() as i64 {
            let at = [row % points[0] as i64, row / points[0] as i64 % points[1] as i64, row / (points[0] * points[1]) as i64];
            for n in 0..27 {
                let step = [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1];
                let far = step.iter().filter(|s| **s != 0).count();
                found += u64::from((stencil == Stencil::TwentySeven || far < 2) && (0..3).all(|d| inside(at[d] + step[d], d)));
            }
        }
        found
    }

    #[test]
    fn parts_add_up_to_the_matrix() {
        for (stencil, blocks) in [
            (Stencil::Seven, [1, 1, 3]),
            (Stencil::Seven, [2, 2, 2]),
            (Stencil::TwentySeven, [1, 1, 3]),
            (Stencil::TwentySeven, [2, 3, 1]),
            (Stencil::TwentySeven, [1, 1, 1]),
        ] {
            let points = [5, 4, 7];
            let matrix = Matrix::Grid { points, blocks, stencil };
            let ranks = blocks.iter().product::<u64>() as u32;
            matrix.check(ranks).unwrap();
            let parts: Vec<Part> = (0..ranks).map(|rank| matrix.part(rank, ranks)).collect();
            assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 140);
            assert_eq!(parts.iter().map(|part| part.nonzeros).sum::<u64>(), counted(points, stencil), "{matrix}");
            // What one needs of another, that one sends.
            for (rank, part) in parts.iter().enumerate() {
                for (neighbour, elements) in &part.neighbours {
                    assert!(parts[*neighbour as usize].neighbours.contains(&(rank as u32, *elements)), "{matrix}: {rank} and {neighbour}");
                }
            }
        }
    }

    #[test]
    fn the_middle_of_three_slabs_talks_to_both_and_the_middle_of_27_blocks_to_26() {
        let slabs = Matrix::Grid { points: [5, 4, 9], blocks: [1, 1, 3], stencil: Stencil::Seven };
        assert_eq!(
            slabs.part(1, 3),
            Part { rows: 60, nonzeros: 60 * 7 - 2 * 12 - 2 * 15, outer: 40, neighbours: vec![(0, 20), (2, 20)], reach: 20 }
        );
        let blocks = Matrix::Grid { points: [9; 3], blocks: [3; 3], stencil: Stencil::TwentySeven };
        let middle = blocks.part(13, 27);
        assert_eq!((middle.rows, middle.nonzeros, middle.outer, middle.neighbours.len()), (27, 27 * 27, 26, 26));
        // A corner, an edge, a face.
        assert_eq!([middle.neighbours[0], middle.neighbours[1], middle.neighbours[4]], [(0, 1), (1, 3), (4, 9)]);
        let rows = Matrix::Rows { rows: 100, nonzeros: 5, halo: 4 };
        assert_eq!(rows.part(1, 3), Part { rows: 33, nonzeros: 165, outer: 8, neighbours: vec![(0, 4), (2, 4)], reach: 4 });
    }

    #[test]
    fn ranks_without_rows_are_refused() {
        let says = |matrix: Matrix, ranks| {
            let error = matrix.check(ranks).unwrap_err();
            error.in_full()
        };
        let grid = |blocks| Matrix::Grid { points: [64, 64, 4], blocks, stencil: Stencil::Seven };
        assert!(says(grid([1, 1, 8]), 8).starts_with("4 points in direction Z for 8 blocks"), "{}", says(grid([1, 1, 8]), 8));
        assert!(says(grid([1, 1, 2]), 8).contains("whose product is 8"));
        assert!(says(Matrix::Rows { rows: 3, nonzeros: 1, halo: 0 }, 4).contains("at most 3 ranks"));
        assert!(says(Matrix::Rows { rows: 40, nonzeros: 1, halo: 11 }, 4).contains("at most 10"));
        assert!(Matrix::Rows { rows: 40, nonzeros: 1, halo: 11 }.check(1).is_ok());
    }
}
