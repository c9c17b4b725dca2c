//! Matrices in parts and iterations of solvers, against counting one by one and against the algebra of the methods.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_krylov::{Costs, Matrix, Offload, Operation, Part, Preconditioner, Solver, Stencil, balanced};
use fabriscope_units::{Bytes, Rate, Span};
use proptest::prelude::*;

/// The rank that has each point, and the points of each rank, as blocks of a box: parts as even as can be, longer ones first.
fn owners(points: [u64; 3], blocks: [u64; 3]) -> BTreeMap<[u64; 3], u32> {
    let part = |at: u64, d: usize| {
        let (long, rest) = (points[d] / blocks[d] + 1, points[d] % blocks[d]);
        if at < long * rest { at / long } else { rest + (at - long * rest) / (long - 1) }
    };
    let mut owners = BTreeMap::new();
    for z in 0..points[2] {
        for y in 0..points[1] {
            for x in 0..points[0] {
                let [a, b, c] = [part(x, 0), part(y, 1), part(z, 2)];
                owners.insert([x, y, z], ((c * blocks[1] + b) * blocks[0] + a) as u32);
            }
        }
    }
    owners
}

/// The points that a row joins, itself included.
fn joined(at: [u64; 3], stencil: Stencil) -> impl Iterator<Item = [u64; 3]> {
    (0..27).filter_map(move |n| {
        let step = [n % 3 - 1, n / 3 % 3 - 1, n / 9 - 1];
        let far = step.iter().filter(|step| **step != 0).count();
        if stencil == Stencil::Seven && far > 1 {
            return None;
        }
        let mut there = [0; 3];
        for d in 0..3 {
            there[d] = at[d].checked_add_signed(step[d])?;
        }
        Some(there)
    })
}

/// A part, counted point by point.
fn counted(points: [u64; 3], blocks: [u64; 3], stencil: Stencil, rank: u32) -> (u64, u64, u64, Vec<(u32, u64)>) {
    let owners = owners(points, blocks);
    let (mut rows, mut nonzeros, mut outer) = (0, 0, 0);
    let mut needed: BTreeMap<u32, BTreeSet<[u64; 3]>> = BTreeMap::new();
    for (at, _) in owners.iter().filter(|(_, owner)| **owner == rank) {
        rows += 1;
        let mut beyond = false;
        for there in joined(*at, stencil) {
            let Some(owner) = owners.get(&there) else { continue };
            nonzeros += 1;
            if *owner != rank {
                beyond = true;
                needed.entry(*owner).or_default().insert(there);
            }
        }
        outer += u64::from(beyond);
    }
    (rows, nonzeros, outer, needed.into_iter().map(|(rank, points)| (rank, points.len() as u64)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Rows, nonzeros, rows at the border and elements of each neighbour are what counting finds.
    #[test]
    fn parts_are_as_counted(points in [1u64..7, 1..7, 1..7], blocks in [1u64..4, 1..4, 1..4], wide in any::<bool>()) {
        prop_assume!((0..3).all(|d| blocks[d] <= points[d]));
        let stencil = if wide { Stencil::TwentySeven } else { Stencil::Seven };
        let matrix = Matrix::Grid { points, blocks, stencil };
        let ranks = blocks.iter().product::<u64>() as u32;
        prop_assert!(matrix.check(ranks).is_ok());
        for rank in 0..ranks {
            let Part { rows, nonzeros, outer, neighbours, .. } = matrix.part(rank, ranks);
            prop_assert_eq!((rows, nonzeros, outer, neighbours), counted(points, blocks, stencil, rank), "rank {} of {}", rank, matrix);
        }
    }

    /// Rows without a grid: as even as can be, and what one rank needs of the next the next needs of it.
    #[test]
    fn rows_are_shared_evenly(rows in 1u64..10_000, ranks in 1u32..40, nonzeros in 1u64..50, halo in 0u64..100) {
        let matrix = Matrix::Rows { rows, nonzeros, halo };
        prop_assume!(matrix.check(ranks).is_ok());
        let parts: Vec<Part> = (0..ranks).map(|rank| matrix.part(rank, ranks)).collect();
        prop_assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), rows);
        prop_assert_eq!(parts.iter().map(|part| part.nonzeros).sum::<u64>(), rows * nonzeros);
        let (most, least) = (parts.iter().map(|part| part.rows).max(), parts.iter().map(|part| part.rows).min());
        prop_assert!(most.unwrap() - least.unwrap() <= 1);
        for (rank, part) in parts.iter().enumerate() {
            for (neighbour, elements) in &part.neighbours {
                prop_assert_eq!(neighbour.abs_diff(rank as u32), 1);
                prop_assert!(parts[*neighbour as usize].neighbours.contains(&(rank as u32, *elements)));
            }
        }
    }

    /// Doubling the rows doubles what each operation moves.
    #[test]
    fn bytes_are_linear(rows in 1u64..1 << 30, nonzeros in 1u64..60, read in 1u32..40, written in 0u32..3) {
        for operation in [Operation::MatVec, Operation::Vma { read, written }, Operation::Dot { read, sums: 1 }] {
            let bytes = |times: u64| operation.bytes(times * rows, times * rows * nonzeros).0;
            prop_assert_eq!(bytes(2), 2 * bytes(1));
        }
        // Compressed rows: 12 B for a nonzero, 4 B for a row, 8 B of each of two vectors.
        prop_assert_eq!(Operation::MatVec.bytes(rows, rows * nonzeros).0, rows * (12 * nonzeros + 20));
    }
}

#[test]
fn all_methods_multiply_as_often_as_published() {
    // Templates, table 2.1: products with the matrix and inner products of an iteration. GMRES has i + 1 inner products in iteration i,
    // all but the norm in one reduction.
    let sums = |solver: Solver, number: u32| {
        let all = solver.iteration(Preconditioner::None, number);
        let products = all.iter().filter(|operation| **operation == Operation::MatVec).count();
        let dots: u32 = all.iter().map(|operation| if let Operation::Dot { sums, .. } = operation { *sums } else { 0 }).sum();
        (products, dots)
    };
    assert_eq!(sums(Solver::Cg, 5), (1, 2));
    // Four, and the norm by which it is stopped.
    assert_eq!(sums(Solver::BiCgStab, 5), (2, 5));
    for number in 0..8 {
        assert_eq!(sums(Solver::Gmres { restart: 30 }, number), (1, number + 2), "iteration {number}");
    }
    // Iterations begin again after a restart: the same as the first.
    let gmres = Solver::Gmres { restart: 5 };
    assert_eq!(gmres.iteration(Preconditioner::Jacobi, 5), gmres.iteration(Preconditioner::Jacobi, 0));
}

#[test]
fn memory_of_the_methods() {
    // 1000 rows of 7 nonzeros: the matrix has 7000 · 12 + 4000 B = 88,000 B, a vector 8,000 B.
    let table = [
        (Solver::Cg, Preconditioner::None, 5),
        (Solver::Cg, Preconditioner::Jacobi, 7),
        (Solver::BiCgStab, Preconditioner::None, 8),
        (Solver::Gmres { restart: 30 }, Preconditioner::None, 34),
    ];
    for (solver, preconditioner, vectors) in table {
        let bytes = solver.footprint(preconditioner, 1000, 7000);
        assert_eq!(bytes, Bytes(88_000 + 8_000 * vectors), "{} with {preconditioner:?}", solver.name());
    }
}

proptest! {
    /// Cores that are faster get no fewer rows, a longer hand-over gives them no more, and never more than all.
    #[test]
    fn shares_follow_the_rates(host in 50u64..200, there in 5u64..100, faster in 0u64..100, cost in 0u64..2000) {
        let gb = |rate: u64| Rate::from_gbps(8 * rate);
        let costs = |there: u64, cost: u64| Costs { host: gb(host), dpu: gb(there), link: gb(10), hand_over: Span::from_us(cost) };
        let all = [Operation::MatVec, Operation::Dot { read: 2, sums: 1 }];
        let rows = 1_000_000;
        let share = |there, cost| balanced(Offload::Onload, &all, (rows, 7 * rows), costs(there, cost));
        prop_assert!(share(there, cost) <= rows);
        prop_assert!(share(there, cost) <= share(there + faster, cost));
        prop_assert!(share(there, cost) <= share(there, 0));
    }
}
