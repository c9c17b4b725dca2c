//! Decisions of MPI libraries: MPICH's by hand from its source, and all tables leave nothing out and name only what there is.

use fabriscope_catalog::{AnyPart, Catalog, CollectiveRule, Decisions, Kind, Occasion, select_collective};
use fabriscope_collectives::{Algorithm, Call, Kind as Operation};
use fabriscope_units::Bytes;
use proptest::prelude::*;

fn tables(catalog: &Catalog) -> Vec<&Decisions> {
    catalog.parts().filter_map(|part| if let AnyPart::Decisions(tables) = part { Some(&**tables) } else { None }).collect()
}

fn rows<'d>(tables: &'d Decisions, operation: &str) -> [&'d [CollectiveRule]; 2] {
    let of = |all: &'d std::collections::BTreeMap<String, fabriscope_catalog::CollectiveRules>| -> &'d [CollectiveRule] {
        all.get(operation).map_or(&[], |rules| rules.value.as_slice())
    };
    [of(&tables.mpi.hierarchical), of(&tables.mpi.collectives)]
}

fn occasion(ranks: u32, per_node: u32, size: u64) -> Occasion {
    Occasion { ranks, per_node, size: Bytes(size), width: Bytes(4), in_hosts: true }
}

#[test]
fn mpich_by_its_source() {
    // MPICH 3.3, src/mpi/coll:
    //   bcast      shorter than 12,288 B or fewer than 8 ranks: binomial; shorter than 524,288 B and a power of two: scatter, then
    //              recursive doubling; else scatter, then ring
    //   reduce     more than 2,048 B: reduce-scatter and gather (Rabenseifner)        allreduce   the same limit
    //   allgather  a power of two and less than 524,288 B in all: recursive doubling; less than 81,920 B: Bruck; else ring
    //   alltoall   up to 256 B and 8 ranks or more: Bruck; up to 32,768 B: all posted, 32 at a time; else pairs
    let catalog = Catalog::embedded().unwrap();
    let tables = tables(&catalog);
    let mpich = tables.iter().find(|tables| tables.name == "mpich-3.3").unwrap();
    let table = [
        ("bcast", 16, 12_287, "binomial"),
        ("bcast", 16, 12_288, "scatter_doubling"),
        ("bcast", 12, 12_288, "scatter_ring"),
        ("bcast", 7, 1 << 30, "binomial"),
        ("bcast", 8, 524_287, "scatter_doubling"),
        ("bcast", 8, 524_288, "scatter_ring"),
        ("reduce", 16, 2048, "binomial"),
        ("reduce", 16, 2049, "rabenseifner"),
        ("allreduce", 16, 2048, "recursive_doubling"),
        ("allreduce", 16, 2049, "rabenseifner"),
        // Blocks of 4 KiB: 64 KiB of 16 ranks, 48 KiB of 12, 128 KiB of 32.
        ("allgather", 16, 4096, "recursive_doubling"),
        ("allgather", 12, 4096, "bruck"),
        ("allgather", 24, 4096, "ring"),
        ("allgather", 32, 16_383, "recursive_doubling"),
        ("allgather", 32, 16_384, "ring"),
        ("alltoall", 8, 256, "bruck"),
        ("alltoall", 7, 256, "posted(32)"),
        ("alltoall", 8, 257, "posted(32)"),
        ("alltoall", 8, 32_768, "posted(32)"),
        ("alltoall", 8, 32_769, "pairwise(exclusive_or)"),
    ];
    for (operation, ranks, size, algorithm) in table {
        let [hierarchical, flat] = rows(mpich, operation);
        let chosen = select_collective(hierarchical, flat, occasion(ranks, 1, size));
        assert_eq!(chosen, Some(algorithm), "{operation} of {size} B by {ranks} ranks");
    }
}

#[test]
fn levels_are_for_several_nodes_with_several_ranks() {
    let row = |algorithm: &str| CollectiveRule { algorithm: algorithm.to_owned(), ..CollectiveRule::default() };
    let (levels, flat) = ([row("two_level(ring, ring)")], [row("ring")]);
    // 8 ranks: on one node, on eight nodes, on two nodes; 3 on nodes of 2 are two nodes as well.
    for (ranks, per_node, several) in [(8, 8, false), (8, 1, false), (8, 4, true), (3, 2, true)] {
        let chosen = select_collective(&levels, &flat, occasion(ranks, per_node, 64));
        assert_eq!(chosen, Some(if several { "two_level(ring, ring)" } else { "ring" }), "{ranks} ranks, {per_node} on a node");
    }
}

#[test]
fn elements_that_are_too_few_for_all_ranks() {
    // 28 B are seven elements of 4 B: fewer than eight ranks, not fewer than seven.
    let few =
        CollectiveRule { algorithm: "recursive_doubling".to_owned(), fewer_elements_than_ranks: Some(true), ..CollectiveRule::default() };
    assert!(few.fits(occasion(8, 1, 28)) && !few.fits(occasion(7, 1, 28)));
    // The line of Open MPI: ranks below 0.002 · size + 5.
    let line = CollectiveRule { algorithm: "ring".to_owned(), ranks_below_line: Some([0.002, 5.0]), ..CollectiveRule::default() };
    assert!(line.fits(occasion(6, 1, 1000)) && !line.fits(occasion(7, 1, 1000)));
    // Slots of shared memory hold no data of GPUs.
    let slots = CollectiveRule { algorithm: "two_level(slots, binomial)".to_owned(), ..CollectiveRule::default() };
    assert!(slots.fits(occasion(8, 4, 8)) && !slots.fits(Occasion { in_hosts: false, ..occasion(8, 4, 8) }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every table has an answer for every job, and the answer is an algorithm that brings the result: it is proved for small jobs.
    #[test]
    fn every_library_knows_what_to_do(ranks in 2u32..40, per_node in 1u32..9, exponent in 2u32..22) {
        let catalog = Catalog::embedded().unwrap();
        let size = 1u64 << exponent;
        for tables in tables(&catalog) {
            for word in tables.mpi.collectives.keys() {
                let operation = Operation::of_word(word).unwrap();
                let [hierarchical, flat] = rows(tables, word);
                let size = if operation == Operation::Barrier { 0 } else { size };
                let chosen = select_collective(hierarchical, flat, occasion(ranks, per_node, size));
                let chosen = chosen.unwrap_or_else(|| panic!("{}: nothing for {word} of {size} B by {ranks} ranks", tables.name));
                let algorithm = Algorithm::named(operation, chosen);
                prop_assert!(algorithm.is_ok(), "{}: {}", tables.name, chosen);
                let algorithm = algorithm.unwrap();
                if ranks <= 12 && exponent == 12 && !algorithm.is_in_network() {
                    let call = Call { operation, ranks, per_node, root: ranks - 1, size: Bytes(size), width: Bytes(4) };
                    prop_assert!(algorithm.proof(&call).is_ok(), "{}: {} of {} by {} ranks", tables.name, word, chosen, ranks);
                }
            }
        }
    }
}

#[test]
fn all_tables_know_the_usual_operations() {
    let catalog = Catalog::embedded().unwrap();
    let all = tables(&catalog);
    assert!(all.len() >= 5 && all.len() == catalog.names(Kind::Decisions).len());
    for tables in all {
        for operation in ["allreduce", "bcast", "alltoall", "allgather", "barrier", "reduce"] {
            assert!(tables.mpi.collectives.contains_key(operation), "{} says nothing of {operation}", tables.name);
        }
    }
}
