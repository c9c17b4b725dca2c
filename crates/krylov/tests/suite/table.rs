//! The table that the program prints, against the counts of the methods and the geometry of the grid.

use crate::solve;
use proptest::prelude::*;
use solve::{nodes, row, run, value};

/// MatVec, VMA, Dot, Halo, Allreduce: calls of an iteration.
fn calls(line: &str) -> [f64; 5] {
    let (output, _) = run(&nodes("ri2", 2), (2, 1), line);
    ["MatVec", "VMA", "Dot", "Halo", "Allreduce"].map(|operation| row(&output, operation)[0])
}

#[test]
fn calls_are_those_of_the_templates() {
    // Templates, figures 2.5 to 2.10. CG: one product, three multiply-adds, two dot products (with Jacobi one of each more). BiCGSTAB: two
    // products, four dot products or groups of them, four multiply-adds, and two passes of Jacobi. Every product has a halo, every dot
    // product an all-reduce.
    assert_eq!(calls("-n 16 --solver cg --pc none -i 3"), [1.0, 3.0, 2.0, 1.0, 2.0]);
    assert_eq!(calls("-n 16 --solver cg --pc jacobi -i 3"), [1.0, 4.0, 3.0, 1.0, 3.0]);
    assert_eq!(calls("-n 16 --solver bicgstab --pc none -i 3"), [2.0, 4.0, 4.0, 2.0, 4.0]);
    assert_eq!(calls("-n 16 --solver bicgstab --pc jacobi -i 3"), [2.0, 6.0, 4.0, 2.0, 4.0]);
    // GMRES(5) without preconditioner, its five iterations: in each a product, two dot products (Vᵀw and the norm), two multiply-adds
    // (w − V h and the scaling); the last one adds x += V y, a product, an axpy, a norm and a scaling. Means over five.
    let mean = |each: f64, last: f64| each + last / 5.0;
    assert_eq!(
        calls("-n 16 --solver gmres --restart 5 --pc none -i 5"),
        [mean(1.0, 1.0), mean(2.0, 3.0), mean(2.0, 1.0), mean(1.0, 1.0), mean(2.0, 1.0)]
    );
}

#[test]
fn bytes_of_messages_are_the_surface_of_the_blocks() {
    // A box of x · y · z points cut in z between two ranks: each needs one plane of the other, x · y elements of 8 B, with 7 points and with
    // 27. Cut in two directions between four ranks with 7 points: y · z / 2 and x · z / 2; with 27 points also the edge to the rank across.
    let two = |line: &str| row(&run(&nodes("ri2", 2), (2, 1), line).0, "Halo")[1];
    assert_eq!(two("--grid 12,20,8 -i 1"), 12.0 * 20.0 * 8.0);
    assert_eq!(two("--grid 12,20,8 --stencil 27 -i 1"), 12.0 * 20.0 * 8.0);
    let four = |line: &str| row(&run(&nodes("ri2", 4), (4, 1), line).0, "Halo")[1];
    let (x, y, z) = (12.0, 20.0, 8.0);
    let faces = x / 2.0 * z + y / 2.0 * z;
    assert_eq!(four("--grid 12,20,8 --blocks 2,2,1 -i 1"), faces * 8.0);
    assert_eq!(four("--grid 12,20,8 --blocks 2,2,1 --stencil 27 -i 1"), (faces + z) * 8.0);
    // Slabs: the two in the middle have two neighbours, those at the ends one: 1.5 planes on average.
    assert_eq!(four("--grid 12,20,8 -i 1"), 1.5 * x * y * 8.0);
    // Without a grid the halo is what is asked for, from each neighbour.
    assert_eq!(two("--rows 10000 --nonzeros 5 --halo 300 -i 1"), 300.0 * 8.0);
}

#[test]
fn bytes_of_vectors_follow_from_the_rows() {
    // 16³ points on two ranks: 2048 rows each. CG with Jacobi: four passes of three vectors, dot products of 2, 1 and 2 vectors, 8 B an
    // element; sums of 8 B, three times. The product: 12 B for each nonzero, 4 + 8 + 8 B a row. Nonzeros of a rank: 7 · 2048 less the
    // faces of the box: 4 · 16 · 8 (sides) + 16 · 16 (one end).
    let (output, _) = run(&nodes("ri2", 2), (2, 1), "-n 16 -i 2");
    let rows = 2048.0;
    let nonzeros = 7.0 * rows - 4.0 * 128.0 - 256.0;
    let bytes = |operation| row(&output, operation)[1];
    assert_eq!(bytes("VMA"), 4.0 * 3.0 * 8.0 * rows);
    assert_eq!(bytes("Dot"), 5.0 * 8.0 * rows);
    assert_eq!(bytes("Allreduce"), 3.0 * 8.0);
    assert_eq!(bytes("MatVec"), 12.0 * nonzeros + 20.0 * rows);
    let all = ["VMA", "Dot", "MatVec"].map(bytes).iter().sum::<f64>();
    let line = output.text.lines().find(|line| line.starts_with("Iteration")).unwrap();
    assert_eq!(line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap(), all, "{line}");
}

#[test]
fn one_rank_sends_nothing() {
    let (output, run) = run(&nodes("ri2", 2), (1, 1), "-n 32 -i 2");
    assert_eq!((row(&output, "Halo")[1], value(&output, "halo"), value(&output, "allreduce")), (0.0, 0.0, 0.0));
    assert!(run.links.iter().all(|link| link.bytes.0 == 0), "something was on a link");
    assert!(output.text.contains("no neighbours") && output.text.contains("one rank"), "{}", output.text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Times of the phases are all of the iteration, and their percentages a hundred, whatever is solved how.
    #[test]
    fn phases_are_the_whole(
        points in 4u64..40,
        solver in prop::sample::select(vec!["cg", "bicgstab", "gmres"]),
        pc in prop::sample::select(vec!["none", "jacobi"]),
        stencil in prop::sample::select(vec![7, 27]),
        iterations in 1u32..5,
        ranks in 1u32..4,
    ) {
        let line = format!("-n {points} --solver {solver} --pc {pc} --stencil {stencil} -i {iterations}");
        let (output, _) = run(&nodes("ri2", 3), (ranks, 1), &line);
        let whole = value(&output, "iteration");
        let parts: f64 = ["matvec", "vma", "dot", "halo", "allreduce"].map(|metric| value(&output, metric)).iter().sum();
        prop_assert!((parts / whole - 1.0).abs() < 1e-9, "{parts} of {whole} us");
        let percent: f64 = ["MatVec", "VMA", "Dot", "Halo", "Allreduce"].map(|operation| row(&output, operation)[3]).iter().sum();
        // Five numbers with one decimal: half of the last digit each.
        prop_assert!((percent - 100.0).abs() < 0.26, "{percent} %");
    }
}
