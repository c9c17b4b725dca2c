//! How times of an iteration change with rows, ranks, threads and iterations, and that messages of the links are those of the halo.

use crate::solve;
use fabriscope_platform::Layout;
use proptest::prelude::*;
use solve::{nodes, run, target, value};

#[test]
fn what_links_carry_is_the_halo_and_the_sums() {
    // Two more iterations of CG with Jacobi on two ranks: 2 planes of 128 · 128 elements of 8 B leave each node, by rendezvous: 32 packets of
    // 4096 B each with 26 B of headers and 16 B of RETH a message. The other messages (RTS or CTS, FIN, three sums of two ranks, acknowledgements)
    // have less than 200 B each, and there are less than 40 in an iteration.
    let parts = nodes("ri2", 2);
    let carried = |iterations: u32| {
        let (_, run) = run(&parts, (2, 1), &format!("--grid 128,128,64 -i {iterations}"));
        let mut bytes: Vec<u64> = run.links.iter().map(|link| link.bytes.0).filter(|bytes| *bytes > 0).collect();
        bytes.sort_unstable();
        bytes
    };
    let (fewer, more) = (carried(2), carried(4));
    // There and back, to the switch and from it.
    assert_eq!((fewer.len(), more.len()), (4, 4));
    let plane = 128 * 128 * 8;
    let halo = 2 * (plane + 32 * 26);
    for (fewer, more) in fewer.iter().zip(&more) {
        let grown = more - fewer;
        assert!(grown >= halo && grown < halo + 2 * 40 * 200, "{grown} B more, the halo has {halo}");
    }
}

#[test]
fn iterations_are_alike() {
    // Means over more iterations are the same: each does the same, and no rank is ahead.
    let parts = nodes("ri2", 2);
    let taken = |iterations: u32| value(&run(&parts, (2, 1), &format!("-n 48 -i {iterations}")).0, "iteration");
    let (few, many) = (taken(2), taken(12));
    assert!((few / many - 1.0).abs() < 0.02, "{few} and {many} us");
}

#[test]
fn twice_the_rows_take_twice_the_memory_time() {
    // 128³ points on two ranks do not fit any cache (8 vectors · 8 MB): time of vectors is proportional to rows; the halo has the same plane.
    let parts = nodes("ri2", 2);
    let of = |z: u32| run(&parts, (2, 1), &format!("--grid 128,128,{z} -i 1")).0;
    let (one, two) = (of(128), of(256));
    for metric in ["vma", "dot"] {
        let ratio = value(&two, metric) / value(&one, metric);
        assert!((ratio - 2.0).abs() < 1e-6, "{metric}: {ratio}");
    }
    // The box has two planes without a neighbour fewer for each row: a little more than twice the nonzeros.
    let ratio = value(&two, "matvec") / value(&one, "matvec");
    assert!(ratio > 2.0 && ratio < 2.01, "{ratio}");
}

#[test]
fn weak_scaling_costs_messages_alone() {
    // 64 planes for each rank, on 2, 4 and 8 nodes: vectors take the same; sums have log2 n rounds: 1, 2 and 3 times, to a third of it.
    let parts = nodes("ri2", 8);
    let of = |ranks: u32| run(&parts, (ranks, 1), &format!("--grid 96,96,{} -i 2 --algorithm recursive_doubling", 64 * ranks)).0;
    let table = [2, 4, 8].map(of);
    for output in &table[1..] {
        for metric in ["vma", "dot"] {
            assert!((value(output, metric) / value(&table[0], metric) - 1.0).abs() < 1e-9, "{metric}");
        }
    }
    let rounds = table.each_ref().map(|output| value(output, "allreduce"));
    assert!(rounds[0] < rounds[1] && rounds[1] < rounds[2], "{rounds:?}");
}

#[test]
fn strong_scaling_divides_memory_time() {
    let parts = nodes("ri2", 4);
    let of = |ranks: u32| run(&parts, (ranks, 1), "-n 160 -i 1 --pc none").0;
    let (one, four) = (of(1), of(4));
    for metric in ["vma", "dot"] {
        let ratio = value(&one, metric) / value(&four, metric);
        assert!((ratio - 4.0).abs() < 1e-6, "{metric}: {ratio}");
    }
    assert!(value(&one, "halo") == 0.0 && value(&four, "halo") > 0.0);
    assert!(value(&four, "iteration") < value(&one, "iteration"));
}

#[test]
fn threads_help_until_the_memory_is_full() {
    // A core of RI2 moves 18 GB/s and two sockets 97.8 GB/s: 1 and 2 threads are bound by cores and divide the time; beyond six threads nothing
    // is gained.
    let parts = nodes("ri2", 2);
    let of = |threads: u32| value(&run(&parts, (2, 1), &format!("-n 160 -i 1 -t {threads}")).0, "vma");
    let (one, two, eight, all) = (of(1), of(2), of(8), of(28));
    assert!((one / two - 2.0).abs() < 1e-3, "{one} and {two}");
    assert!((eight / all - 1.0).abs() < 0.25 && all <= eight, "{eight} and {all}");
    assert!((one / all - 97.8 / 18.0).abs() < 0.01, "{one} and {all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Command lines of numbers in any size: an answer or an error that says what to do, and never a panic.
    #[test]
    fn any_numbers_are_answered(
        option in prop::sample::select(vec!["-n", "--rows", "--nonzeros", "--halo", "--restart", "-i", "-t", "--share"]),
        other in prop::sample::select(vec!["--grid 4,4,4", "--rows 100", "--solver gmres", "--blocks 2,1,1", "--stencil 27", ""]),
        number in prop_oneof![any::<u64>().prop_map(|n| n.to_string()), (0u64..40).prop_map(|n| n.to_string()), "-?[0-9a-z.]{0,6}"],
        nodes in 1u32..3,
        per_node in 1u32..5,
    ) {
        let parts = solve::nodes("ri2", 2);
        let words: Vec<String> = format!("{other} {option} {number}").split_whitespace().map(str::to_owned).collect();
        let layout = Layout { nodes, per_node };
        if let Err(error) = fabriscope_krylov::prepare(&words, &target(&parts, (layout.nodes, layout.per_node))) {
            let message = error.to_string();
            prop_assert!(message.len() > 15, "{:?}: {}", words, message);
        }
    }
}
