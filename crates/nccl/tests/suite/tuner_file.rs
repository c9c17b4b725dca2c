//! The file of NCCL's example tuner, and what the library expects of groups of operations.

use crate::catalogued::communicator_with;
use fabriscope_catalog::Catalog;
use fabriscope_nccl::{Algorithm, Operation, Protocol, Rules, Settings, Tuner};
use fabriscope_units::{Bytes, Remedy};
use std::sync::Arc;

/// One DGX A100, whose library chooses by these lines.
fn tuner(lines: &str) -> Tuner {
    let rules = Some(Arc::new(Rules::parse("t.conf", lines).unwrap()));
    Tuner::new(&communicator_with(&Catalog::embedded().unwrap(), ("dgx-a100", 200), 1, Settings { rules, ..Settings::default() }))
}

#[test]
fn lines_are_read_and_written() {
    let text = "# a comment\n\n allreduce , 0 , 65536,tree,simple, 2,1,-1,-1,1\nallreduce,65537,1048576,nvls_tree,ll128,-1,4,32\nreduce,0,10,pat,ll,1,-1,-1,4\n";
    let rules = Rules::parse("t.conf", text).unwrap();
    let written = rules.to_string();
    assert_eq!(
        written,
        "allreduce,0,65536,tree,simple,2,1,-1,-1,1\nallreduce,65537,1048576,nvls_tree,ll128,-1,4,32,-1,-1\nreduce,0,10,pat,ll,1,-1,-1,4,-1\n"
    );
    assert_eq!(Rules::parse("again", &written).unwrap(), rules);
}

#[test]
fn bad_lines_are_refused_with_their_place() {
    let good = "allreduce,0,65536,tree,simple,2,1,-1";
    let rows = [
        ("allreduce,0,65536,tree,simple,2,1", "7 fields, write 8 to 10: collective,min_bytes"),
        ("allreduce,0,65536,tree,simple,2,1,-1,-1,-1,-1", "11 fields"),
        ("allsum,0,65536,tree,simple,2,1,-1", "collective is `allsum`, write one of broadcast, reduce, allgather"),
        ("allreduce,4K,65536,tree,simple,2,1,-1", "min_bytes is `4K`, write bytes as a whole number"),
        ("allreduce,9,8,tree,simple,2,1,-1", "min_bytes 9 is more than max_bytes 8"),
        ("allreduce,0,8,star,simple,2,1,-1", "algorithm is `star`, write one of tree, ring"),
        ("allreduce,0,8,tree,LL,2,1,-1", "protocol is `LL`, write one of ll, ll128, simple"),
        ("allreduce,0,8,tree,ll,0,1,-1", "channels is `0`, write a number from 1 on, or -1"),
        ("allreduce,0,8,tree,ll,2,1,-2", "ranks is `-2`"),
        ("allreduce,0,8,tree,ll,2,1,-1,-1,2", "registered is `2`, write 0, 1 or -1"),
    ];
    for (line, says) in rows {
        let error = Rules::parse("mine.conf", &format!("# first\n{good}\n{line}\n")).unwrap_err().in_full();
        assert!(error.starts_with("mine.conf:3: ") && error.contains(says), "{line}: {error}");
    }
}

#[test]
fn the_first_line_that_fits_and_can_be_done_counts() {
    let own = tuner("").choose(Operation::AllReduce, Bytes(1 << 20)).unwrap();
    assert_eq!((own.algorithm, own.protocol), (Algorithm::Ring, Protocol::Ll));
    let tree = (Algorithm::Tree, Protocol::Ll, 3);
    let mine = (own.algorithm, own.protocol, own.channels);
    let rows = [
        ("allreduce,0,1048576,tree,ll,3,-1,-1", tree, "a size that is in"),
        ("allreduce,0,1048575,tree,ll,3,-1,-1", mine, "too small a range"),
        ("allgather,0,1048576,ring,ll,3,-1,-1", mine, "another operation"),
        ("allreduce,0,1048576,tree,ll,3,1,8,1,0", tree, "these nodes, ranks, one operation, no registered buffers"),
        ("allreduce,0,1048576,tree,ll,3,2,-1", mine, "other nodes"),
        ("allreduce,0,1048576,tree,ll,3,-1,16", mine, "other ranks"),
        ("allreduce,0,1048576,tree,ll,3,-1,-1,4", mine, "several operations"),
        ("allreduce,0,1048576,tree,ll,3,-1,-1,-1,1", mine, "registered buffers"),
        ("allreduce,0,1048576,nvls,simple,3,-1,-1\nallreduce,0,1048576,tree,ll,3,-1,-1", tree, "no NVLS on this GPU: the next line"),
        ("allreduce,0,1048576,pat,simple,3,-1,-1\nallreduce,0,1048576,tree,ll,3,-1,-1", tree, "PAT is not there"),
        ("allreduce,0,1048576,tree,ll,3,-1,-1\nallreduce,0,1048576,ring,simple,5,-1,-1", tree, "the first of two"),
        ("allreduce,0,1048576,tree,ll,99,-1,-1", (Algorithm::Tree, Protocol::Ll, 24), "no more channels than there are"),
    ];
    for (lines, expected, what) in rows {
        let choice = tuner(lines).choose(Operation::AllReduce, Bytes(1 << 20)).unwrap();
        assert_eq!((choice.algorithm, choice.protocol, choice.channels), expected, "{what}");
    }
    // As many channels as the library takes where the line says -1.
    let usual = tuner("").with(Operation::AllReduce, Algorithm::Tree, Protocol::Ll, Bytes(4096)).unwrap();
    let choice = tuner("allreduce,0,4096,tree,ll,-1,-1,-1").choose(Operation::AllReduce, Bytes(4096)).unwrap();
    assert_eq!(choice, usual);
    // What users leave out no line brings back.
    let mut settings = Settings { rules: Some(Arc::new(Rules::parse("t", rows[0].0).unwrap())), ..Settings::default() };
    settings.set("NCCL_ALGO", "Ring").unwrap();
    let rings = Tuner::new(&communicator_with(&Catalog::embedded().unwrap(), ("dgx-a100", 200), 1, settings));
    assert_eq!(rings.choose(Operation::AllReduce, Bytes(1 << 20)).unwrap().algorithm, Algorithm::Ring);
}

#[test]
fn groups_are_expected_as_the_library_says() {
    // One DGX A100. 64 MiB go by a ring with Simple: 56 us of latency, 137,142.857 B/us; 4 KiB by a ring with LL: 6.6 + 14 · 0.6 us, and
    // 87,700 · 8 / 14 B/us, as `tuning.rs` derives them. 24 channels.
    let tuner = tuner("");
    let mib64 = f64::from(64 << 20);
    let ring = |operations: f64, bytes: f64| 56.0 * operations + bytes / 137_142.857_142_857;
    let one = (Operation::AllReduce, Bytes(64 << 20));
    let told = |operations: &[(Operation, Bytes)]| tuner.estimate_group(operations).unwrap();
    let near = |found: f64, expected: f64, what: &str| assert!((found - expected).abs() < 0.001, "{what}: {found} us, not {expected}");
    near(told(&[one]).as_told().as_us_f64(), ring(1.0, mib64), "one");
    near(told(&[one; 2]).as_told().as_us_f64(), ring(1.0, 2.0 * mib64), "two are one of the sum, one for each channel");
    near(told(&[one; 48]).as_told().as_us_f64(), ring(2.0, 48.0 * mib64), "two for each channel pay twice");
    assert_eq!(told(&[]).as_told().as_us_f64(), 0.0);
    // Sizes within a factor of four are together, others apart; the library tells the last part, which is the largest.
    let mixed = told(&[one, (Operation::AllReduce, Bytes(1024)), (Operation::AllReduce, Bytes(3072))]);
    let parts: Vec<(u32, u64)> = mixed.parts.iter().map(|part| (part.operations, part.bytes.0)).collect();
    assert_eq!(parts, [(2, 4096), (1, 64 << 20)]);
    near(mixed.as_told().as_us_f64(), ring(1.0, mib64), "the last");
    let small = tuner.choose(Operation::AllReduce, Bytes(4096)).unwrap();
    assert_eq!((small.algorithm, small.protocol), (Algorithm::Ring, Protocol::Ll));
    near(small.estimate.as_us_f64(), 15.0 + 4096.0 / (87_700.0 * 8.0 / 14.0), "4 KiB");
    near(mixed.sum().as_us_f64(), ring(1.0, mib64) + small.estimate.as_us_f64(), "the sum");
    // Kinds are looked at in the order of their traffic, the most first: the all-gather comes last.
    let kinds = told(&[(Operation::AllGather, Bytes(64 << 20)), one]);
    assert_eq!(kinds.parts.iter().map(|part| part.choice.operation).collect::<Vec<_>>(), [Operation::AllReduce, Operation::AllGather]);
    assert_eq!(kinds.as_told(), tuner.choose(Operation::AllGather, Bytes(64 << 20)).unwrap().estimate);
}
