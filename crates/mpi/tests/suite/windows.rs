//! What one-sided operations leave in memory: puts and gets bring the bytes that were there, and atomics lose no update.

use crate::machine;
use crate::symmetric_heap::word;
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::shmem::{self, Heap, HeapError, Pe};
use fabriscope_mpi::{OneSided, Rank, Width, World};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::Bytes;

fn run(parts: &ResolvedCluster, nodes: Vec<u32>, mains: Vec<Main>) {
    let cluster = Cluster::new(parts.clone()).unwrap();
    PacketEngine.run(&cluster, Job::programs(nodes, mains), &RunOptions::default(), 1).unwrap_or_else(|error| panic!("{error}"));
}

/// Byte `at` of the pattern of a rank.
fn pattern(rank: u32, at: u64) -> u8 {
    (u64::from(rank) * 31 + at * 7 + at / 251) as u8
}

#[test]
fn puts_and_gets_bring_what_was_there() {
    // Both ranks fill 8 KiB. Rank 0 puts bytes 100..3100 of its own to 500.. of rank 1, and gets 4000..8000 of rank 1 to 200... Nothing
    // beside these places changes.
    const LENGTH: u64 = 8192;
    for cluster in ["ri2", "betzy-hdr", "lumi-c", "lab-bxi"] {
        let parts = machine::parts(cluster);
        let world = World::with_contents(parts.sole().software.mpi.as_ref().unwrap(), &machine::target(&parts), 2);
        let after = Record::new([vec![0u8; LENGTH as usize], vec![0u8; LENGTH as usize]]);
        let main = |me: u32| -> Main {
            let (world, after) = (world.clone(), after.clone());
            Box::new(move |process| {
                Box::pin(async move {
                    let rank = Rank::init_all(process, world).await?;
                    rank.expose(0, LENGTH as usize)?;
                    let own: Vec<u8> = (0..LENGTH).map(|at| pattern(me, at)).collect();
                    rank.store(0, &own)?;
                    rank.synchronise().await?;
                    if me == 0 {
                        let put = rank.move_at(OneSided::Put, 1, (100, 500), 3000)?;
                        rank.wait(put).await?;
                        let get = rank.move_at(OneSided::Get, 1, (200, 4000), 4000)?;
                        rank.wait(get).await?;
                    }
                    rank.synchronise().await?;
                    rank.load(0, &mut after.lock()[me as usize])
                })
            })
        };
        run(&parts, vec![0, 1], vec![main(0), main(1)]);
        let after = after.lock();
        for at in 0..LENGTH {
            let got = if (200..4200).contains(&at) { pattern(1, at - 200 + 4000) } else { pattern(0, at) };
            let put = if (500..3500).contains(&at) { pattern(0, at - 500 + 100) } else { pattern(1, at) };
            assert_eq!([after[0][at as usize], after[1][at as usize]], [got, put], "{cluster}: byte {at}");
        }
    }
}

/// A job of OpenSHMEM on some nodes of RI2 with a number of PEs on each.
fn shmem_job(nodes: u32, per_node: u32, heap: u64) -> (ResolvedCluster, shmem::Job) {
    let mut parts = machine::ri2(nodes, 1);
    let software = Catalog::embedded().unwrap().software("openmpi-5-ucx").unwrap().clone();
    parts.sole_mut().software = software;
    let target = Target::of(&parts, Layout { nodes, per_node }, Binding::default());
    let shmem = target.shmem.clone().expect("Open MPI has OpenSHMEM");
    let job = shmem::Job::new(&shmem, parts.sole().software.mpi.as_ref().unwrap(), &target, (nodes * per_node, heap), true);
    (parts, job)
}

/// Runs `program` on every PE.
fn pes<F, R>(nodes: u32, per_node: u32, program: F)
where
    F: Fn(Pe) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), ProgramError>> + 'static,
{
    let (parts, job) = shmem_job(nodes, per_node, 4096);
    let main = || -> Main {
        let (job, program) = (job.clone(), program.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let pe = Pe::init_all(process, job).await?;
                pe.memory().expose(0, 4096)?;
                pe.synchronise().await?;
                program(pe).await
            })
        })
    };
    let placed = (0..nodes * per_node).map(|pe| pe / per_node).collect();
    run(&parts, placed, (0..nodes * per_node).map(|_| main()).collect());
}

#[test]
fn no_increment_is_lost() {
    // Each of n PEs adds one k times to a word of PE 0. What they fetch are the numbers 0 to n k − 1, each once, in rising order for each
    // of them; the word ends as n k. On nodes of their own (the adapter adds) and on one node (the core adds).
    for (nodes, per_node) in [(4, 1), (1, 4), (2, 2)] {
        let seen = Record::new(Vec::new());
        let last = Record::new(0);
        let (of_all, at_end) = (seen.clone(), last.clone());
        pes(nodes, per_node, move |pe| {
            let (seen, last) = (of_all.clone(), at_end.clone());
            async move {
                let mut before = None;
                for _ in 0..5 {
                    let old = pe.finc(0, (64, Width::Eight)).await?;
                    assert!(before.is_none_or(|before| old > before), "a PE sees its own updates");
                    before = Some(old);
                    seen.lock().push(old);
                }
                pe.synchronise().await?;
                if pe.me() == 0 {
                    *last.lock() = word(&pe, 64)?;
                }
                Ok(())
            }
        });
        let mut all = seen.take();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<u64>>(), "{nodes} nodes");
        assert_eq!(*last.lock(), 20, "{nodes} nodes");
    }
}

#[test]
fn one_of_all_wins_a_swap() {
    // All try to put their number (and one) where zero is: one of them finds zero, the others find the winner.
    let found = Record::new(Vec::new());
    let of_all = found.clone();
    pes(4, 1, move |pe| {
        let found = of_all.clone();
        async move {
            let mine = u64::from(pe.me()) + 1;
            let old = pe.cswap(0, (8, Width::Eight), 0, mine).await?;
            found.lock().push((mine, old));
            pe.synchronise().await
        }
    });
    let found = found.take();
    let winners: Vec<u64> = found.iter().filter(|(_, old)| *old == 0).map(|(mine, _)| *mine).collect();
    assert_eq!(winners.len(), 1, "{found:?}");
    assert!(found.iter().all(|(mine, old)| *mine == winners[0] || *old == winners[0]), "{found:?}");
}

#[test]
fn operations_on_a_word() {
    // set 40; add 2 → 42; swap 7 gives 42; cswap with another condition leaves 7; fetch gives 7. Elements of 4 bytes have neighbours
    // that stay as they are.
    pes(2, 1, move |pe| async move {
        if pe.me() == 1 {
            for (at, width) in [(16, Width::Eight), (32, Width::Four), (36, Width::Four)] {
                pe.set(0, (at, width), 40).await?;
                pe.add(0, (at, width), 2).await?;
                pe.quiet().await?;
                assert_eq!(pe.swap(0, (at, width), 7).await?, 42, "at {at}");
                assert_eq!(pe.cswap(0, (at, width), 8, 9).await?, 7, "at {at}");
                assert_eq!(pe.fadd(0, (at, width), 3).await?, 7, "at {at}");
                assert_eq!(pe.fetch(0, (at, width)).await?, 10, "at {at}");
            }
            // The four bytes before were written first, and are still there.
            assert_eq!(pe.fetch(0, (32, Width::Four)).await?, 10);
        }
        pe.synchronise().await
    });
}

#[test]
fn a_flag_behind_a_put_is_seen_after_its_data() {
    // put, fence, put of a flag: who waits for the flag finds the data (OpenSHMEM 1.5 §9.12).
    pes(2, 1, move |pe| async move {
        const LENGTH: u32 = 1024;
        if pe.me() == 0 {
            let data: Vec<u8> = (0..u64::from(LENGTH)).map(|at| pattern(3, at)).collect();
            pe.memory().store(0, &data)?;
            pe.memory().store(2048, &1u64.to_ne_bytes())?;
            pe.put_nbi(1, 0, 0, LENGTH).await?;
            pe.fence().await?;
            pe.put_nbi(1, 2048, 2048, 8).await?;
            pe.quiet().await?;
        } else {
            assert_eq!(pe.wait_until(2048, shmem::Relation::Equal, 1).await?, 1);
            let mut data = vec![0; LENGTH as usize];
            pe.memory().load(0, &mut data)?;
            assert!(data.iter().zip(0..).all(|(byte, at)| *byte == pattern(3, at)), "data came before its flag");
        }
        pe.synchronise().await
    });
}

#[test]
fn the_heap_is_symmetric_and_bounded() {
    // 1000 B at multiples of 8, 64 and 256: 0, 1024 (after 1000), 2048; 4096 − 3048 = 1048 B are left.
    let mut heap = Heap::new(Bytes(4096));
    assert_eq!([heap.allocate(1000, 8), heap.allocate(1000, 64), heap.allocate(1000, 256)], [Ok(0), Ok(1024), Ok(2048)]);
    // One byte more than is left: 3048 + 1049.
    assert!(matches!(heap.allocate(1049, 8), Err(HeapError::Full { needed: 4097, .. })));
    assert!(matches!(heap.allocate(8, 24), Err(HeapError::Alignment(24))));
    assert_eq!(heap.allocate(1048, 8), Ok(3048));
}
