//! The same job gives the same picoseconds, whoever runs it and on however many cores; jobs that are mirrored give mirrored times.

use crate::job;
use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_mpi::Rank;
use fabriscope_units::Time;
use job::Notes;
use proptest::prelude::*;

/// Every rank sends to its next and hears from its last, in messages of `sizes`; when each was done with each of them.
fn ring(parts: &ResolvedCluster, layout: (u32, u32), sizes: Vec<u32>) -> Vec<(u32, Time)> {
    let notes = Notes::<(u32, Time)>::default();
    let times = notes.clone();
    job::ranks(parts, layout, move |rank: Rank| {
        let (times, sizes) = (times.clone(), sizes.clone());
        async move {
            let (me, ranks) = (rank.rank(), rank.ranks());
            for size in sizes {
                let requests = vec![rank.irecv(Some((me + ranks - 1) % ranks), Some(0), size)?, rank.isend((me + 1) % ranks, 0, size)?];
                rank.wait_all(requests).await?;
                times.add((me, rank.now()));
            }
            rank.synchronise().await
        }
    })
    .unwrap();
    notes.take()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    /// Twice the same, note by note: times and their order.
    #[test]
    fn a_job_repeats_itself(nodes in 1u32..4, per_node in 1u32..3, sizes in prop::collection::vec(0u32..200_000, 1..6)) {
        prop_assume!(nodes * per_node > 1);
        let parts = machine::ri2(nodes, 1);
        let first = ring(&parts, (nodes, per_node), sizes.clone());
        prop_assert_eq!(first.len(), (nodes * per_node) as usize * sizes.len());
        prop_assert_eq!(first, ring(&parts, (nodes, per_node), sizes));
    }

    /// Nodes on one switch are alike: in a ring where all do the same, all are done at the same time.
    #[test]
    fn equals_are_done_at_once(nodes in 2u32..6, size in 0u32..100_000) {
        let times = ring(&machine::ri2(nodes, 1), (nodes, 1), vec![size]);
        let first = times[0].1;
        prop_assert!(times.iter().all(|(_, time)| *time == first), "{:?}", times);
    }
}

#[test]
fn a_ping_is_as_long_in_either_direction() {
    // Rank 0 pings rank 1, then rank 1 pings rank 0, on nodes that are alike: the same time to the picosecond, short and long.
    for size in [8, 16_000, 100_000] {
        let notes = Notes::<(u32, u64)>::default();
        let times = notes.clone();
        job::ranks(&machine::parts("ri2"), (2, 1), move |rank: Rank| {
            let times = times.clone();
            async move {
                for origin in [0u32, 1, 0, 1] {
                    rank.synchronise().await?;
                    let (begun, peer) = (rank.now(), 1 - rank.rank());
                    if rank.rank() == origin {
                        rank.send(peer, 0, size).await?;
                        rank.recv(Some(peer), Some(0), size).await?;
                        times.add((origin, rank.now().since(begun).as_ps()));
                    } else {
                        rank.recv(Some(peer), Some(0), size).await?;
                        rank.send(peer, 0, size).await?;
                    }
                }
                rank.synchronise().await
            }
        })
        .unwrap();
        // The first of each sets up what is set up once.
        let taken: Vec<u64> = notes.take().into_iter().skip(2).map(|(_, ps)| ps).collect();
        assert_eq!(taken[0], taken[1], "{size} B");
    }
}
