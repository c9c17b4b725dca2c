//! What an iteration of a Krylov method does, as data: products with the matrix, dot products, multiply-adds of vectors.
//!
//! Source: R. Barrett et al., "Templates for the Solution of Linear Systems", SIAM 1994, figures 2.5 (conjugate gradients), 2.6 (GMRES) and
//! 2.10 (BiCGSTAB), all with a preconditioner; Y. Saad, "Iterative Methods for Sparse Linear Systems", 2nd edition, SIAM 2003, §6.5 and §9.3.
//! Modelled: vectors that each operation reads and writes, and the sums that ranks add up together; classical Gram-Schmidt in GMRES, as
//! PETSc does by default; preconditioning by the diagonal (Jacobi) or none.
//! Not modelled: set-up, other preconditioners, convergence: an iteration costs the same whatever the numbers are.

use fabriscope_units::Bytes;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// Conjugate gradients.
    Cg,
    /// Biconjugate gradients, stabilised.
    BiCgStab,
    /// Generalised minimal residuals, begun again after so many iterations.
    Gmres {
        /// That number.
        restart: u32,
    },
}

/// How the residual is preconditioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preconditioner {
    /// Not at all.
    None,
    /// By the diagonal: each element times another.
    Jacobi,
}

/// What all ranks do at a time, each with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The matrix times a vector; elements of neighbours are needed.
    MatVec,
    /// Multiply-adds and copies of vectors: so many are read, so many written.
    Vma {
        /// Vectors read.
        read: u32,
        /// Vectors written.
        written: u32,
    },
    /// Sums over products of elements, which all ranks add up and need before they go on.
    Dot {
        /// Different vectors read.
        read: u32,
        /// Sums.
        sums: u32,
    },
}

impl Operation {
    /// Vectors that it writes.
    #[must_use]
    pub fn written(self) -> u32 {
        match self {
            Operation::MatVec => 1,
            Operation::Vma { written, .. } => written,
            Operation::Dot { .. } => 0,
        }
    }
    /// Vectors that it reads.
    #[must_use]
    pub fn read(self) -> u32 {
        match self {
            Operation::MatVec => 1,
            Operation::Vma { read, .. } | Operation::Dot { read, .. } => read,
        }
    }
    /// What it moves between memory and cores for so many rows with so many nonzeros.
    ///
    /// A matrix in compressed rows has 8 B of value and 4 B of index for a nonzero and 4 B for a row; the vector that it is multiplied
    /// with is read once, as rows in order use what was fetched again. Lines that a write fetches first do not count, as in STREAM.
    #[must_use]
    pub fn bytes(self, rows: u64, nonzeros: u64) -> Bytes {
        let vectors = u64::from(self.read() + self.written()) * ELEMENT * rows;
        match self {
            Operation::MatVec => Bytes(vectors + nonzeros * (ELEMENT + INDEX) + rows * INDEX),
            Operation::Vma { .. } | Operation::Dot { .. } => Bytes(vectors),
        }
    }
}

impl Solver {
    /// The operations of iteration `number`, counted from 0, in order.
    #[must_use]
    pub fn iteration(self, preconditioner: Preconditioner, number: u32) -> Vec<Operation> {
        use Operation::{Dot, MatVec, Vma};
        // z = M⁻¹ r: the diagonal and r are read; without it z is r.
        let precondition = (preconditioner == Preconditioner::Jacobi).then_some(Vma { read: 2, written: 1 });
        let axpy = Vma { read: 2, written: 1 };
        match self {
            Solver::Cg => {
                // q = A p, α = ρ / (p, q), x += α p, r -= α q, ‖r‖, z = M⁻¹ r, ρ = (r, z), p = z + β p.
                let residual = match precondition {
                    // ρ is the square of the norm.
                    None => vec![Dot { read: 1, sums: 1 }],
                    Some(apply) => vec![Dot { read: 1, sums: 1 }, apply, Dot { read: 2, sums: 1 }],
                };
                [vec![MatVec, Dot { read: 2, sums: 1 }, axpy, axpy], residual, vec![axpy]].concat()
            }
            Solver::BiCgStab => {
                // ρ = (r̂, r); p = r + β (p - ω v): three are read.
                let mut all = vec![Dot { read: 2, sums: 1 }, Vma { read: 3, written: 1 }];
                // v = A M⁻¹ p, α = ρ / (r̂, v), s = r - α v.
                all.extend(precondition);
                all.extend([MatVec, Dot { read: 2, sums: 1 }, axpy]);
                // t = A M⁻¹ s, ω = (t, s) / (t, t).
                all.extend(precondition);
                all.extend([MatVec, Dot { read: 2, sums: 2 }]);
                // x += α p + ω s, r = s - ω t, ‖r‖.
                all.extend([Vma { read: 3, written: 1 }, axpy, Dot { read: 1, sums: 1 }]);
                all
            }
            Solver::Gmres { restart } => {
                // w = A M⁻¹ v, h = Vᵀ w, w -= V h, ‖w‖, v = w / ‖w‖, with the k vectors found since it began again.
                let k = number % restart.max(1) + 1;
                let mut all: Vec<Operation> = precondition.into_iter().collect();
                all.extend([MatVec, Dot { read: k + 1, sums: k }, Vma { read: k + 1, written: 1 }]);
                all.extend([Dot { read: 1, sums: 1 }, Vma { read: 1, written: 1 }]);
                if k == restart {
                    // x += V y, and the residual to begin again with.
                    all.extend([Vma { read: k + 1, written: 1 }, MatVec, axpy, Dot { read: 1, sums: 1 }, Vma { read: 1, written: 1 }]);
                }
                all
            }
        }
    }

    /// Vectors that the method holds, the right-hand side and the diagonal among them.
    #[must_use]
    pub fn vectors(self, preconditioner: Preconditioner) -> u32 {
        let own = match self {
            // x, b, r, p, q.
            Solver::Cg => 5,
            // x, b, r, r̂, p, v, s, t.
            Solver::BiCgStab => 8,
            // x, b, w and one more than it goes on with.
            Solver::Gmres { restart } => restart + 4,
        };
        own + match preconditioner {
            Preconditioner::None => 0,
            // The diagonal and z.
            Preconditioner::Jacobi => 2,
        }
    }

    /// Memory of vectors and matrix of so many rows.
    #[must_use]
    pub fn footprint(self, preconditioner: Preconditioner, rows: u64, nonzeros: u64) -> Bytes {
        let vectors = u64::from(self.vectors(preconditioner)) * ELEMENT * rows;
        Bytes(vectors + nonzeros * (ELEMENT + INDEX) + rows * INDEX)
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Solver::Cg => "cg",
            Solver::BiCgStab => "bicgstab",
            Solver::Gmres { .. } => "gmres",
        }
    }
}

/// A number of a vector or of the matrix: IEEE double. Basis: standard (PetscScalar, HYPRE_Real).
pub const ELEMENT: u64 = 8;
/// An index. Basis: standard (PetscInt and HYPRE_Int as they are built by default).
pub const INDEX: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(solver: Solver, preconditioner: Preconditioner, number: u32) -> [usize; 3] {
        let all = solver.iteration(preconditioner, number);
        let of = |wanted: fn(&Operation) -> bool| all.iter().filter(|operation| wanted(operation)).count();
        [
            of(|operation| *operation == Operation::MatVec),
            of(|operation| matches!(operation, Operation::Dot { .. })),
            of(|operation| matches!(operation, Operation::Vma { .. })),
        ]
    }

    /// Templates, table 2.1: inner products, multiply-adds and products of an iteration; the norm for the test of convergence comes on top.
    #[test]
    fn iterations_do_what_the_templates_count() {
        assert_eq!(counts(Solver::Cg, Preconditioner::None, 0), [1, 2, 3]);
        // Preconditioning is one more pass over vectors.
        assert_eq!(counts(Solver::Cg, Preconditioner::Jacobi, 0), [1, 3, 4]);
        assert_eq!(counts(Solver::BiCgStab, Preconditioner::None, 0), [2, 4, 4]);
        assert_eq!(counts(Solver::BiCgStab, Preconditioner::Jacobi, 0), [2, 4, 6]);
        // The i-th of GMRES has i + 1 inner products, here in two reductions.
        let third = Solver::Gmres { restart: 30 }.iteration(Preconditioner::None, 2);
        assert_eq!(third[1], Operation::Dot { read: 4, sums: 3 });
        assert_eq!(Solver::Gmres { restart: 30 }.iteration(Preconditioner::None, 32), third);
        assert_eq!(counts(Solver::Gmres { restart: 30 }, Preconditioner::None, 29), [2, 3, 5]);
    }

    #[test]
    fn operations_move_what_they_read_and_write() {
        // y += a x: two read, one written: 24 B an element. A dot product: 16 B, a norm 8 B.
        assert_eq!(Operation::Vma { read: 2, written: 1 }.bytes(1000, 0), Bytes(24_000));
        assert_eq!(Operation::Dot { read: 2, sums: 1 }.bytes(1000, 0), Bytes(16_000));
        assert_eq!(Operation::Dot { read: 1, sums: 1 }.bytes(1000, 0), Bytes(8000));
        // 7 nonzeros a row: 7 · 12 + 4 + 8 + 8 = 104 B a row.
        assert_eq!(Operation::MatVec.bytes(1000, 7000), Bytes(104_000));
    }
}
