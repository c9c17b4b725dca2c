//! Iterations of a Krylov solver on simulated clusters, against what follows from bytes, bandwidths and messages.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_platform::Layout;
use fabriscope_tools::{Tool, ToolOutput};
use fabriscope_units::Remedy;
use machine::{column, parts, run_on, target};

fn value(output: &ToolOutput, metric: &str) -> f64 {
    output.points.iter().find(|point| point.metric == metric).unwrap_or_else(|| panic!("{metric}: {}", output.text)).value
}

fn refused(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let mut target = target(parts);
    target.layout = Layout { nodes, per_node };
    Tool::Krylov.prepare(&words, &target).map(drop).unwrap_err().in_full()
}

/// Two Broadwell of 48.9 GB/s: y += a x moves 24 B a row, a dot product 16, a norm 8, the product of 7 points 12 B a nonzero and
/// 20 B a row. 200³ points on two ranks are 4,000,000 rows each; of 28,000,000 neighbours, those beyond the box are not there: 2 · 200 · 100
/// in each of two directions, 40,000 in the third, where one side goes on at the other rank.
#[test]
fn operations_take_the_time_of_their_bytes() {
    let (output, _) = run_on(&parts("alaska-roce25"), "krylov -n 200 -i 2");
    let (rows, nonzeros) = (4e6, 28e6 - 4.0 * 20_000.0 - 40_000.0);
    let us = |bytes: f64| bytes / 97.8e9 * 1e6;
    for (metric, bytes) in [("vma", 4.0 * 24.0 * rows), ("dot", (16.0 + 8.0 + 16.0) * rows), ("matvec", 12.0 * nonzeros + 20.0 * rows)] {
        let (found, formula) = (value(&output, metric), us(bytes));
        assert!((found - formula).abs() < 1e-3, "{metric}: {found} us, by the formula {formula}\n{}", output.text);
    }
    let all: f64 = ["vma", "dot", "matvec", "halo", "allreduce"].into_iter().map(|metric| value(&output, metric)).sum();
    assert!((all - value(&output, "iteration")).abs() < 1e-6 * all, "{}", output.text);
    assert!(output.text.contains("memory of 2 sockets"), "{}", output.text);
}

/// One thread moves 18 GB/s of the 97.8; 5,000 rows of CG are in the caches, where a core copies 16 GB/s and so moves 32.
#[test]
fn few_threads_and_small_vectors_are_bound_by_cores() {
    let vma = |line: &str| value(&run_on(&parts("alaska-roce25"), line).0, "vma");
    assert!((vma("krylov --rows 8000000 -t 1 -i 1") - 4.0 * 24.0 * 4e6 / 18e9 * 1e6).abs() < 1e-2);
    assert!((vma("krylov --rows 10000 -t 1 -i 1") - 4.0 * 24.0 * 5e3 / 32e9 * 1e6).abs() < 1e-3);
}

/// The library moves long messages only while it is called: after the inner rows a plane takes what osu_latency says of as many bytes,
/// both ways at a time. A short one has come by then: what is left is to collect it, to send it and to look.
#[test]
fn a_long_halo_takes_the_time_of_its_message_and_a_short_one_hides() {
    let latency = |size: u32| column(&run_on(&parts("alaska-roce25"), &format!("osu_latency -m {size}:{size}")).0, "latency")[0].1;
    let (output, _) = run_on(&parts("alaska-roce25"), "krylov --grid 256,256,64 -i 2");
    let (halo, message) = (value(&output, "halo"), latency(256 * 256 * 8));
    assert!((0.8 * message..1.3 * message).contains(&halo), "{halo} us; a message takes {message}");
    let (output, _) = run_on(&parts("alaska-roce25"), "krylov --grid 16,16,4096 -i 2");
    let (halo, message) = (value(&output, "halo"), latency(16 * 16 * 8));
    assert!(halo < 0.7 * message, "{halo} us; a message takes {message}");
}

/// Three sums of 8 B in an iteration of CG with a preconditioner; ranks that do the same come to them together.
#[test]
fn sums_take_the_time_of_allreduce() {
    let (output, _) = run_on(&parts("alaska-roce25"), "krylov -n 64 -i 4");
    let alone = column(&run_on(&parts("alaska-roce25"), "osu_allreduce -m 8:8").0, "latency")[0].1;
    let found = value(&output, "allreduce");
    assert!((2.0 * alone..4.5 * alone).contains(&found), "{found} us; one takes {alone}");
    let (merged, _) = run_on(&parts("alaska-roce25"), "krylov -n 64 --pc none -i 4");
    assert!(value(&merged, "allreduce") < 0.9 * found, "two sums and three");
}

#[test]
fn wrong_requests_say_what_to_do() {
    let alaska = parts("alaska-roce25");
    for (layout, line, words) in [
        ((2, 4), "--grid 64,64,4", "4 points in direction Z for 8 blocks: a rank would be without rows; give at most 4 ranks"),
        ((2, 1), "--blocks 1,1,3", "3 blocks for 2 ranks; give --blocks X,Y,Z whose product is 2"),
        ((2, 1), "--grid 64,64", "write --grid 64,64,128"),
        ((2, 1), "--rows 1000 --stencil 27", "--rows is for a matrix without a grid, and --stencil speaks of one"),
        ((2, 1), "--nonzeros 5", "give --rows"),
        ((2, 1), "--restart 5", "use --solver gmres"),
        ((2, 16), "-t 3", "16 ranks of 3 threads on the 32 cores of a node; use --threads of at most 2"),
        ((2, 1), "--solver cgs", "cg, bicgstab, gmres"),
        ((2, 1), "-i 0", "out of range"),
        ((2, 1), "--grid 16384,16384,64", "a message has less than 2 GiB"),
    ] {
        let message = refused(&alaska, layout, line);
        assert!(message.contains(words), "{line}: {message}");
    }
    let mut silent = alaska.clone();
    silent.sole_mut().node.cpu.memory = None;
    assert!(refused(&silent, (2, 1), "").contains("[memory]"));
    let mut without = alaska.clone();
    without.sole_mut().software.mpi = None;
    assert!(refused(&without, (2, 1), "").contains("[mpi]"));
    assert!(refused(&alaska, (2, 1), "--algorithm nothing").contains("recursive_doubling"));
}

/// Lines of a run with help: what is saved, in percent; the whole and the host alone, in us.
fn helped(cluster: &str, options: &str) -> (f64, f64, f64) {
    let (output, _) = run_on(&parts(cluster), &format!("krylov -i 2 {options}"));
    (value(&output, "saved"), value(&output, "iteration"), value(&output, "alone"))
}

/// Rows that stay where they are and both end together: the rates add up, 57.3 GB/s of two channels of DDR5 to the 97.8 of two Broadwell and
/// the 494.0 of two Sapphire Rapids. What is saved is 57.3 / (57.3 + host), less what messages take.
#[test]
fn rates_of_host_and_adapter_add_up_where_data_stays() {
    for (cluster, host) in [("lab-bluefield-3-broadwell", 97.8), ("lab-bluefield-3-spr", 494.0)] {
        let (saved, with, alone) = helped(cluster, "-n 200 --offload hybrid-onload");
        let ideal = 100.0 * 57.3 / (57.3 + host);
        assert!(saved < ideal && saved > 0.97 * ideal, "{cluster}: {saved} %, at best {ideal}");
        assert!((100.0 * (1.0 - with / alone) - saved).abs() < 1e-9);
    }
}

/// Results of 8 B a row that come back over the bus of the host take longer than the 24 B in the adapter's memory, and the more the faster the
/// host is; vectors that all go there and back take many times as long as the host alone.
#[test]
fn data_that_moves_costs_what_is_saved() {
    let saved = |mode: &str| helped("lab-bluefield-3-broadwell", &format!("-n 128 --offload {mode}")).0;
    let (onload, hybrid, naive) = (saved("hybrid-onload"), saved("hybrid"), saved("naive"));
    assert!(onload > hybrid + 5.0 && hybrid > 10.0, "{onload} and {hybrid}");
    // An axpy: 24 B in 0.245 ns a row; 16 B there and 8 B back over 12 to 13 B/ns and a pass in between: 2.2 ns and more.
    assert!(naive < -400.0 && naive > -1200.0, "{naive}");
}

/// What comes out of the search is no worse than any other share; and where handing over takes longer than the work, the host does it alone.
#[test]
fn the_share_is_the_best_there_is() {
    for mode in ["hybrid", "hybrid-onload"] {
        let best = helped("lab-bluefield-3-broadwell", &format!("-n 100 --offload {mode}")).1;
        for share in [5, 15, 25, 30, 35, 40, 45, 60] {
            let (_, other, _) = helped("lab-bluefield-3-broadwell", &format!("-n 100 --offload {mode} --share {share}"));
            assert!(best <= 1.01 * other, "{mode}: {best} us, and {other} with {share} %");
        }
    }
    let (output, _) = run_on(&parts("lab-bluefield-3-broadwell"), "krylov -n 8 --offload hybrid -i 2");
    assert_eq!((value(&output, "share"), value(&output, "saved")), (0.0, 0.0), "{}", output.text);
}

#[test]
fn help_that_cannot_be_is_refused() {
    for (cluster, layout, line, words) in [
        ("alaska-roce25", (2, 1), "--offload hybrid", "needs cores on the adapters, and those here have none"),
        ("lab-bluefield-3-broadwell", (2, 1), "--offload all", "none, naive, hybrid, hybrid-onload"),
        ("lab-bluefield-3-broadwell", (2, 1), "--share 10", "use --offload hybrid or hybrid-onload"),
        ("lab-bluefield-3-broadwell", (2, 1), "--offload naive --share 10", "use --offload hybrid or hybrid-onload"),
        ("lab-bluefield-3-broadwell", (2, 2), "--offload hybrid --blocks 2,1,2", "leave --blocks out"),
        ("lab-bluefield-3-broadwell", (2, 17), "--offload hybrid", "use --ppn of at most 16"),
        ("lab-bluefield-3-broadwell", (2, 1), "--offload naive -n 1024", "do not go into the 32 GiB"),
    ] {
        let message = refused(&parts(cluster), layout, line);
        assert!(message.contains(words), "{line}: {message}");
    }
}
