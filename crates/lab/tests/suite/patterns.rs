//! Patterns of labs with closed forms: how many messages and bytes there are, and how long the links need for them at least.

use crate::labs::one;

use fabriscope_engine::Run;

fn pattern(cluster: &str, engine: &str, workload: &str) -> Run {
    one(&format!("cluster = \"{cluster}\"\nengine = \"{engine}\"\n[workload.{workload}"))
}

/// Time of so many bytes of payload on a link of 400 Gb/s in packets of 4096 B, in us. A packet of InfiniBand has 8 B LRH, 12 B BTH,
/// 4 B ICRC and 2 B VCRC beside its payload; the first of a write has 16 B RETH, which is less than a thousandth here.
fn on_the_link(bytes: u64) -> f64 {
    let packets = bytes.div_ceil(4096);
    (bytes + packets * 26) as f64 * 8.0 / 400e9 * 1e6
}

fn end(run: &Run) -> f64 {
    run.end.as_ps() as f64 / 1e6
}

#[test]
fn messages_and_bytes_of_each_pattern() {
    // n = 16 hosts on one switch unless said otherwise.
    let table = [
        ("lab-16", "permutation]\nsize = \"4 KiB\"", 16, 4096),
        ("lab-16", "shift]\nby = 5\nsize = \"1 KiB\"", 16, 1024),
        ("lab-16", "ring]\nsize = \"1 KiB\"", 16, 1024),
        ("lab-16", "bit_complement]\nsize = \"1 KiB\"", 16, 1024),
        // All but the diagonal of 4 × 4.
        ("lab-16", "transpose]\nsize = \"1 KiB\"", 12, 1024),
        ("lab-16", "incast]\nsenders = 9\nsize = \"8 KiB\"", 9, 8192),
        // n (n − 1).
        ("lab-16", "all_to_all]\nsize = \"512 B\"", 240, 512),
        // 100 do not divide by 16: each sends ⌈100 / 16⌉ = 7.
        ("lab-16", "uniform]\nmessages = 100\nsize = \"1 KiB\"", 112, 1024),
        ("lab-16", "hot_spot]\ntargets = 2\nshare = 0.5\nmessages = 3\nsize = \"1 KiB\"", 48, 1024),
        // A grid of 4 × 4 with edges: 2 directions · (4 · 3 + 4 · 3) neighbours; around the edges 16 · 4.
        ("lab-16", "halo]\ngrid = [4, 4]\nsize = \"1 KiB\"", 48, 1024),
        ("lab-16", "halo]\ngrid = [4, 4]\nperiodic = true\nsize = \"1 KiB\"", 64, 1024),
        // Two neighbours of a ring of two are one and the same.
        ("lab-16", "halo]\ngrid = [2]\nperiodic = true\nsize = \"1 KiB\"", 2, 1024),
        // 2 (n − 1) steps in which each of n sends a block of S / n = 1 KiB.
        ("lab-16", "ring_all_reduce]\nsize = \"16 KiB\"", 480, 1024),
        // log2 n rounds in which each sends all.
        ("lab-16", "recursive_doubling]\nsize = \"2 KiB\"", 64, 2048),
        ("lab-torus-4x4x4", "tornado]\nsize = \"1 KiB\"", 64, 1024),
        ("lab-dragonfly-72", "adversarial]\nsize = \"1 KiB\"\nany_order = true", 72, 1024),
    ];
    for (cluster, workload, messages, size) in table {
        // Fluids do not look at queues, as the adaptive routing of the dragonfly does.
        let engines: &[&str] = if cluster.contains("dragonfly") { &["packet"] } else { &["packet", "flow"] };
        for engine in engines {
            let stats = pattern(cluster, engine, workload).stats;
            assert_eq!((stats.messages, stats.bytes_delivered), (messages, messages * size), "{engine}: {workload}");
            assert_eq!((stats.drops, stats.bytes_sent), (0, messages * size), "{engine}: {workload}");
        }
    }
}

#[test]
fn every_packet_crosses_the_links_of_its_path() {
    // One switch: two links for each packet and each acknowledgement. 64 KiB are 16 packets of 4096 B; the last asks for one
    // acknowledgement, and so does every sixteenth (ack_interval): the same one.
    let stats = pattern("lab-16", "packet", "permutation]\nsize = \"64 KiB\"").stats;
    assert_eq!((stats.packets, stats.packet_hops), (16 * 17, 2 * 16 * 17));
}

#[test]
fn more_bytes_take_their_time_on_the_link() {
    // Latencies are the same for both sizes; what differs is the time of the bytes on the busiest link.
    // Into the receiver of an incast come all messages; in a shift one; in a periodic halo of two dimensions four.
    let difference = |workload: &str, engine: &str, small: u64| {
        let of = |kib: u64| end(&pattern("lab-16", engine, &workload.replace("SIZE", &format!("{kib} KiB"))));
        of(2 * small) - of(small)
    };
    let table = [
        ("shift]\nby = 3\nsize = \"SIZE\"", 1024, 1),
        ("incast]\nsenders = 8\nsize = \"SIZE\"", 512, 8),
        ("halo]\ngrid = [4, 4]\nperiodic = true\nsize = \"SIZE\"", 512, 4),
        ("all_to_all]\nsize = \"SIZE\"", 128, 15),
    ];
    for (workload, kib, messages) in table {
        for engine in ["packet", "flow"] {
            let (found, expected) = (difference(workload, engine, kib), on_the_link((messages * kib) << 10));
            assert!((found / expected - 1.0).abs() < 0.02, "{engine}: {workload}: {found:.3} us, not {expected:.3} us");
        }
    }
}

#[test]
fn all_reduce_by_its_formula() {
    // Ring: 2 (n − 1) steps of S / n, so that S more bytes take 2 (n − 1) / n · S / β. Recursive doubling: log2 n steps of S.
    let of = |workload: &str, mib: u64| end(&pattern("lab-16", "flow", &format!("{workload}]\nsize = \"{mib} MiB\"")));
    let ring = of("ring_all_reduce", 32) - of("ring_all_reduce", 16);
    let expected = 30.0 * on_the_link(1 << 20);
    assert!((ring / expected - 1.0).abs() < 0.02, "ring: {ring:.3} us, not {expected:.3} us");
    let doubling = of("recursive_doubling", 4) - of("recursive_doubling", 2);
    let expected = 4.0 * on_the_link(2 << 20);
    assert!((doubling / expected - 1.0).abs() < 0.02, "recursive doubling: {doubling:.3} us, not {expected:.3} us");
}

#[test]
fn collectives_by_their_formulas() {
    // n = 16, S = 1 MiB, β = 400 Gb/s on one switch. What the busiest link carries, as S grows by 1 MiB:
    //   ring            2 (n − 1) / n · S      Rabenseifner    2 (n − 1) / n · S
    //   binomial bcast  log2 n · S at the root; its last message waits for all before: the depth is 4 rounds
    let of = |operation: &str, algorithm: &str, mib: u64| {
        let text = format!("collective]\noperation = \"{operation}\"\nalgorithm = \"{algorithm}\"\nsize = \"{mib} MiB\"");
        end(&pattern("lab-16", "flow", &text))
    };
    let table = [
        ("allreduce", "ring", 30.0 / 16.0),
        ("allreduce", "rabenseifner", 30.0 / 16.0),
        ("allreduce", "recursive_doubling", 4.0),
        ("bcast", "binomial", 4.0),
        // Its size is that of the block that a rank gets: n − 1 of them pass a link.
        ("reduce_scatter_block", "ring", 15.0),
    ];
    for (operation, algorithm, times) in table {
        let found = of(operation, algorithm, 16) - of(operation, algorithm, 8);
        let expected = times * on_the_link(8 << 20);
        assert!((found / expected - 1.0).abs() < 0.03, "{operation} by {algorithm}: {found:.1} us, not {expected:.1} us");
    }
}

#[test]
fn nobody_is_faster_than_the_links() {
    // Half of the hosts send across a tapered fabric: four hosts at a leaf, one cable up. A shift by four makes all of a leaf share it.
    let cluster = "[cluster]\nbase = \"lab-16\"\ntopology.leaf_spine = { leaves = 4, down = 4, spines = 1 }\n";
    let tapered = |engine: &str| end(&one(&format!("engine = \"{engine}\"\n{cluster}[workload.shift]\nby = 4\nsize = \"1 MiB\"\n")));
    let bound = on_the_link(4 << 20);
    for engine in ["packet", "flow"] {
        let taken = tapered(engine);
        assert!(taken > bound && taken < 1.1 * bound, "{engine}: {taken:.2} us, bound {bound:.2} us");
    }
    // A shift by one has only one host of each leaf that leaves it: a quarter.
    let inside = end(&one(&format!("{cluster}[workload.shift]\nby = 1\nsize = \"1 MiB\"\n")));
    assert!(inside < 1.2 * on_the_link(1 << 20), "{inside:.2} us");
}

#[test]
fn losses_are_repaired() {
    // One packet in a thousand is lost, on every link: all messages arrive all the same, and what was sent again shows.
    let fault = "[[fault]]\nat = \"0 us\"\nkind.loss = { share = 0.001 }\n";
    let run = one(&format!("cluster = \"lab-16\"\n{fault}[workload.permutation]\nsize = \"4 MiB\"\n"));
    let breakage = run.breakage.unwrap();
    // 16 messages of 1024 packets over two links: 32,768 crossings and as many chances, about 33 losses.
    let lost = breakage.faults[0].packets_lost;
    assert!((10..80).contains(&lost), "{lost} lost");
    assert_eq!((run.stats.messages, breakage.failed), (16, 0));
    assert!(breakage.repeated >= lost / 2 && run.stats.bytes_sent > 16 << 22, "{breakage:?}");
}
