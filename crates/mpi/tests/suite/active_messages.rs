//! What targets carry out for origins, and what ranks share: each atomic takes effect once, by message or on memory that both share, whatever the links lose, and
//! its origin learns what was there; nodes share nothing but what packets bring.

use crate::job;
use crate::machine;
use fabriscope_engine::Loss;
use fabriscope_mpi::{AtomicOp, Casting, OffloadState, OneSided, Rank, Width, World, shmem};
use fabriscope_node::ProgramError;
use job::Notes;

/// One packet of a hundred is lost on each link.
const LOSSY: Loss = Loss::Random(u32::MAX / 100);
/// Where the element is in the window of rank 0.
const THERE: u64 = 64;
/// Operations of each of three origins.
const TURNS: u64 = 20;

/// Rank 0 stays inside its library until the others say that they are done, as a target has to.
async fn end(rank: &Rank) -> Result<(), ProgramError> {
    if rank.rank() > 0 {
        return rank.send(0, 1, 0).await;
    }
    for origin in 1..rank.ranks() {
        rank.recv(Some(origin), Some(1), 0).await?;
    }
    Ok(())
}

/// What three origins learnt, one of them on the target's node, and what is in the element in the end, when each does `operation` of its rank and turn.
fn learnt(cluster: &str, loss: Loss, operation: fn(u64, u64) -> AtomicOp) -> (Vec<u64>, u64) {
    let notes = Notes::<(u32, u64)>::default();
    let found = notes.clone();
    let parts = machine::parts(cluster);
    job::ranks_losing(loss, &parts, (2, 2), move |rank: Rank| {
        let found = found.clone();
        async move {
            rank.expose(0, 128)?;
            rank.synchronise().await?;
            for turn in (0..TURNS).filter(|_| rank.rank() > 0) {
                let operation = operation(rank.rank().into(), turn);
                let fetch = rank.atomic(operation, 0, (THERE, Width::Eight), false).await?;
                found.add((rank.rank(), rank.fetched(fetch).await?));
            }
            end(&rank).await?;
            let mut bytes = [0; 8];
            rank.load(THERE, &mut bytes)?;
            if rank.rank() == 0 {
                found.add((0, u64::from_ne_bytes(bytes)));
            }
            Ok(())
        }
    })
    .unwrap_or_else(|error| panic!("{cluster}: {error}"));
    let all = notes.take();
    let of = |wanted: fn(u32) -> bool| all.iter().filter(|(rank, _)| wanted(*rank)).map(|(_, value)| *value).collect::<Vec<u64>>();
    let mut old = of(|rank| rank > 0);
    old.sort_unstable();
    (old, of(|rank| rank == 0)[0])
}

#[test]
fn each_atomic_by_message_takes_effect_once() {
    // Sixty additions of 1 find 0, 1, … 59, and leave 60: twenty by a rank of the target's node, forty by messages over rings, sends, datagrams
    // in any order, and iWARP.
    for cluster in ["ri2", "betzy-hdr", "lumi-c", "aws-c5n-efa", "lab-iwarp-t6", "lab-bxi"] {
        for loss in [Loss::None, LOSSY] {
            let (old, left) = learnt(cluster, loss, |_, _| AtomicOp::Add(1));
            assert_eq!((old, left), ((0..3 * TURNS).collect(), 3 * TURNS), "{cluster}, {loss:?}");
        }
    }
}

#[test]
fn a_message_brings_both_operands_of_a_comparison() {
    // Rank 1 finds 0 once and stores 2⁶³ + 1, which no other comparison expects: all others find that. Operands and the old element are whole.
    const STORED: u64 = (1 << 63) + 1;
    let compare = |rank: u64, turn: u64| {
        let expected = if (rank, turn) == (1, 0) { 0 } else { u64::MAX };
        AtomicOp::CompareSwap { compare: expected, swap: if rank == 1 { STORED } else { rank } }
    };
    for cluster in ["ri2", "aws-c5n-efa"] {
        let (old, left) = learnt(cluster, LOSSY, compare);
        assert_eq!(left, STORED, "{cluster}");
        assert!(old.iter().all(|value| [0, STORED].contains(value)) && old[0] == 0 && old.last() == Some(&STORED), "{cluster}: {old:?}");
    }
}

#[test]
fn stores_reach_no_other_node() {
    // Both ranks of node 0 see what rank 0 stores in the window of rank 1; that in the window of rank 2, on another node, changes nothing there.
    let notes = Notes::<(u32, [u8; 8])>::default();
    let found = notes.clone();
    job::ranks(&machine::ri2(2, 1), (2, 2), move |rank: Rank| {
        let found = found.clone();
        async move {
            rank.expose(0, 64)?;
            rank.store(0, &[rank.rank() as u8; 8])?;
            rank.synchronise().await?;
            if rank.rank() == 0 {
                rank.store(0, &[9; 8])?;
                for target in [1, 2] {
                    rank.copy_at(OneSided::Put, target, (0, 0), 8).await?;
                }
            }
            rank.synchronise().await?;
            let mut bytes = [0; 8];
            rank.load(0, &mut bytes)?;
            found.add((rank.rank(), bytes));
            Ok(())
        }
    })
    .unwrap();
    let mut all = notes.take();
    all.sort_unstable();
    assert_eq!(all, [(0, [9; 8]), (1, [9; 8]), (2, [2; 8]), (3, [3; 8])]);
}

/// What ranks of different nodes share may be used by threads side by side: it has no cell of a single thread.
const _: () = {
    const fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<World>();
    is_for_all_threads::<shmem::Job>();
    is_for_all_threads::<OffloadState>();
    is_for_all_threads::<Casting>();
};
