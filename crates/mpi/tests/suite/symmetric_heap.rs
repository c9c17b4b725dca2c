//! OpenSHMEM: what is in the memory of a target after quiet, fence, barrier and atomics, what a call returns when, and what is refused.

use crate::job;
use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_mpi::Width;
use fabriscope_mpi::shmem::{Heap, HeapError, Pe, Relation};
use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Span};
use job::Notes;
use proptest::prelude::*;

const HEAP: u64 = 1 << 20;

fn ri2(nodes: u32) -> ResolvedCluster {
    job::with_software(machine::ri2(nodes, 1), "openmpi-5-ucx")
}

pub fn word(pe: &Pe, offset: u64) -> Result<u64, ProgramError> {
    let mut bytes = [0; 8];
    pe.memory().load(offset, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn set(pe: &Pe, offset: u64, value: u64) -> Result<(), ProgramError> {
    pe.memory().store(offset, &value.to_ne_bytes())
}

/// PE 0 puts `size` bytes to PE 1, behind all that a test looks at, so that what a first put costs is paid; all leave together.
async fn warm_up(pe: &Pe, size: u32) -> Result<(), ProgramError> {
    if pe.me() == 0 {
        pe.put(1, HEAP - 8, HEAP - 8, 8).await?;
        pe.put(1, 0, 0, size.max(8)).await?;
        pe.quiet().await?;
    }
    pe.synchronise().await
}

/// How long a put of 8 B and its quiet take, the first and the second time.
fn first_and_second_put() -> (Span, Span) {
    let notes = Notes::default();
    let times = notes.clone();
    job::pes(&ri2(2), (2, 1), HEAP, move |pe| {
        let times = times.clone();
        async move {
            for _ in 0..2 {
                pe.synchronise().await?;
                let begun = pe.now();
                if pe.me() == 0 {
                    pe.put(1, 64, 0, 8).await?;
                    pe.quiet().await?;
                    times.add(pe.now().since(begun));
                }
            }
            pe.synchronise().await
        }
    })
    .unwrap();
    let taken = notes.take();
    (taken[0], taken[1])
}

#[test]
fn a_first_put_is_as_fast_as_the_next() {
    // The symmetric heap is registered when it is made (OpenSHMEM 1.5 §9.3, UCX maps it in shmem_init), and 8 B go inline, for which no
    // registration is needed at all: nothing is left that only the first put pays, but for contexts that the adapter fetches (2 us at most).
    let (first, second) = first_and_second_put();
    assert!(first < second + Span::from_us(2), "{first} and {second}");
}

#[test]
fn everything_before_a_quiet_is_there_after_it() {
    // 20 puts of 8 B to 100 KB without waiting, then a quiet, then a word of the next PE by another way: a barrier out of band. All bytes are
    // there, in a ring of four PEs on four nodes, on two and on one.
    const COUNT: u64 = 20;
    for (nodes, per_node) in [(4, 1), (2, 2), (1, 4)] {
        let played = job::pes(&ri2(nodes), (nodes, per_node), HEAP, |pe| async move {
            let next = (pe.me() + 1) % pe.pes();
            for at in 0..COUNT {
                let offset = at * 10_000;
                set(&pe, offset, 1000 * u64::from(pe.me()) + at)?;
                let size = if at % 2 == 0 { 8 } else { 10_000 };
                pe.put_nbi(next, 400_000 + offset, offset, size).await?;
            }
            pe.quiet().await?;
            pe.synchronise().await?;
            let before = (pe.me() + pe.pes() - 1) % pe.pes();
            for at in 0..COUNT {
                assert_eq!(word(&pe, 400_000 + at * 10_000)?, 1000 * u64::from(before) + at, "put {at} of PE {before}");
            }
            pe.synchronise().await
        });
        assert!(played.is_ok(), "{nodes} nodes: {:?}", played.err());
    }
}

#[test]
fn a_put_returns_when_its_source_may_be_used_again() {
    // OpenSHMEM 1.5 §9.6: after shmem_put the source may be changed. It is changed at once here, and the target has the old bytes, inline
    // (8 B), through a buffer of the library (2 KiB) and from where they are (64 KiB).
    for size in [8u32, 2048, 65_536] {
        let played = job::pes(&ri2(2), (2, 1), HEAP, move |pe| async move {
            if pe.me() == 0 {
                pe.memory().store(0, &vec![1; size as usize])?;
                pe.put(1, 0, 0, size).await?;
                pe.memory().store(0, &vec![2; size as usize])?;
                pe.quiet().await?;
            }
            pe.synchronise().await?;
            let mut found = vec![0; size as usize];
            pe.memory().load(0, &mut found)?;
            let expected = if pe.me() == 0 { 2 } else { 1 };
            assert!(found.iter().all(|byte| *byte == expected), "PE {}: {size} B", pe.me());
            pe.synchronise().await
        });
        assert!(played.is_ok(), "{:?}", played.err());
    }
}

#[test]
fn a_get_returns_with_its_bytes() {
    // A get ends with the data here; a get without waiting ends with the next quiet.
    for size in [8u32, 1024, 100_000] {
        let played = job::pes(&ri2(2), (2, 1), HEAP, move |pe| async move {
            pe.memory().store(0, &vec![pe.me() as u8 + 7; size as usize])?;
            pe.synchronise().await?;
            let other = 1 - pe.me();
            let place = 500_000;
            pe.get(other, place, 0, size).await?;
            pe.get_nbi(other, place + u64::from(size), 0, size).await?;
            pe.quiet().await?;
            let mut found = vec![0; 2 * size as usize];
            pe.memory().load(place, &mut found)?;
            assert!(found.iter().all(|byte| *byte == other as u8 + 7), "{size} B");
            pe.synchronise().await
        });
        assert!(played.is_ok(), "{:?}", played.err());
    }
}

#[test]
fn waiting_ends_with_the_first_value_that_holds() {
    // PE 0 sets a word of PE 1 to 1, 2, 3 with 50 us between: "not 0" ends with 1, "at least 2" with 2, "equal 3" with 3, each no earlier
    // than that value was sent.
    let notes = Notes::<(u64, Span)>::default();
    let seen = notes.clone();
    job::pes(&ri2(2), (2, 1), HEAP, move |pe| {
        let seen = seen.clone();
        async move {
            warm_up(&pe, 8).await?;
            let begun = pe.now();
            if pe.me() == 0 {
                for value in 1..=3u64 {
                    pe.memory().sleep_until(begun + Span::from_us(50) * value).await;
                    set(&pe, 0, value)?;
                    pe.put(1, 64, 0, 8).await?;
                    pe.quiet().await?;
                }
            } else {
                for (relation, value) in [(Relation::NotEqual, 0), (Relation::AtLeast, 2), (Relation::Equal, 3)] {
                    let found = pe.wait_until(64, relation, value).await?;
                    seen.add((found, pe.now().since(begun)));
                }
            }
            pe.synchronise().await
        }
    })
    .unwrap();
    let seen = notes.take();
    assert_eq!(seen.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [1, 2, 3]);
    for (value, taken) in seen {
        // The way of a put of 8 B is less than 2 us.
        let sent = Span::from_us(50) * value;
        assert!(taken > sent && taken < sent + Span::from_us(3), "{value} was seen after {taken}");
    }
}

#[test]
fn a_blocking_put_of_a_long_message_waits_for_the_wire() {
    // 1 MB from where it is: the call returns when the target has the bytes, 80 us of EDR at least. The form without waiting returns at once,
    // and the quiet takes what the other saved.
    let taken = |blocking: bool| {
        let notes = Notes::default();
        let times = notes.clone();
        job::pes(&ri2(2), (2, 1), 2 * HEAP, move |pe| {
            let times = times.clone();
            async move {
                warm_up(&pe, 1_000_000).await?;
                let begun = pe.now();
                if pe.me() == 0 {
                    if blocking {
                        pe.put(1, 0, 0, 1_000_000).await?
                    } else {
                        pe.put_nbi(1, 0, 0, 1_000_000).await?
                    }
                    let returned = pe.now().since(begun);
                    pe.quiet().await?;
                    times.add((returned, pe.now().since(begun)));
                }
                pe.synchronise().await
            }
        })
        .unwrap();
        notes.take()[0]
    };
    let ((put, after_put), (started, after_quiet)) = (taken(true), taken(false));
    assert!(put > Span::from_us(80) && started < Span::from_us(1), "{put} and {started}");
    assert!(after_put.as_ps().abs_diff(after_quiet.as_ps()) < 500_000, "{after_put} and {after_quiet}");
}

#[test]
fn counters_of_all_pes_reach_their_sum() {
    // Every PE of four adds its number + 1, 10 times, to a word of every PE, itself included: each word ends as 10 · (1 + 2 + 3 + 4) = 100,
    // whether adapters or cores add, in words of 8 and of 4 bytes.
    for (nodes, per_node) in [(4, 1), (1, 4)] {
        for width in [Width::Eight, Width::Four] {
            let played = job::pes(&ri2(nodes), (nodes, per_node), HEAP, move |pe| async move {
                for _ in 0..10 {
                    for other in 0..pe.pes() {
                        pe.add(other, (128, width), u64::from(pe.me()) + 1).await?;
                    }
                }
                pe.quiet().await?;
                pe.synchronise().await?;
                assert_eq!(pe.fetch(pe.me(), (128, width)).await?, 100, "PE {}", pe.me());
                pe.synchronise().await
            });
            assert!(played.is_ok(), "{nodes} nodes, {width:?}: {:?}", played.err());
        }
    }
}

#[test]
fn a_lock_by_compare_and_swap_lets_one_in_at_a_time() {
    // Mutual exclusion: who has swapped 0 for its number + 1 reads a counter, waits 5 us, writes one more and puts 0 back. With three visits
    // of each of four PEs the counter ends as 12; any two inside at a time would lose one.
    let played = job::pes(&ri2(4), (4, 1), HEAP, |pe| async move {
        let (lock, mine) = ((0, Width::Eight), u64::from(pe.me()) + 1);
        for _ in 0..3 {
            while pe.cswap(0, lock, 0, mine).await? != 0 {}
            pe.get(0, 600, 64, 8).await?;
            let count = word(&pe, 600)?;
            pe.compute(Span::from_us(5));
            set(&pe, 600, count + 1)?;
            pe.put(0, 64, 600, 8).await?;
            pe.quiet().await?;
            assert_eq!(pe.swap(0, lock, 0).await?, mine, "somebody else was inside");
        }
        pe.synchronise().await?;
        if pe.me() == 0 {
            assert_eq!(word(&pe, 64)?, 12);
        }
        pe.synchronise().await
    });
    assert!(played.is_ok(), "{:?}", played.err());
}

#[test]
fn what_no_memory_is_behind_is_refused() {
    // PE 2 of two; a byte beyond the heap, by a put, a get and an atomic; an atomic that is not aligned; a length that overflows.
    type Case = (&'static str, &'static str);
    const CASES: [Case; 5] = [
        ("pe", "PE 2"),
        ("put", "beyond its symmetric heap"),
        ("get", "beyond its symmetric heap"),
        ("atomic", "not aligned"),
        ("far", "beyond"),
    ];
    for (case, words) in CASES {
        let played = job::pes(&ri2(2), (2, 1), 4096, move |pe| async move {
            match case {
                "pe" => pe.put(2, 0, 0, 8).await?,
                "put" => pe.put(1 - pe.me(), 4090, 0, 8).await?,
                "get" => pe.get(1 - pe.me(), 0, 4089, 8).await?,
                "atomic" => pe.add(1 - pe.me(), (4, Width::Eight), 1).await?,
                _ => pe.put(1 - pe.me(), u64::MAX - 3, 0, 8).await?,
            }
            pe.quiet().await
        });
        let error = played.err().unwrap_or_else(|| panic!("`{case}` was not refused"));
        assert!(error.contains(words), "{case}: {error}");
    }
    // The last byte of the heap is inside.
    assert!(job::pes(&ri2(2), (2, 1), 4096, |pe| async move { pe.put(1 - pe.me(), 4088, 0, 8).await }).is_ok());
}

proptest! {
    /// Allocations do not overlap, are aligned, stay inside, and fail only when what is asked for does not fit behind them.
    #[test]
    fn allocations_lie_side_by_side(size in 1u64..10_000, asks in prop::collection::vec((0u64..600, 0u32..9), 1..40)) {
        let (mut heap, mut end) = (Heap::new(Bytes(size)), 0u64);
        for (bytes, power) in asks {
            let alignment = 1u64 << power;
            let first = end.div_ceil(alignment) * alignment;
            match heap.allocate(bytes, alignment) {
                Ok(offset) => {
                    prop_assert_eq!(offset, first);
                    end = offset + bytes;
                    prop_assert!(end <= size);
                }
                Err(HeapError::Full { needed, asked, .. }) => {
                    prop_assert!(first + bytes > size, "{} B fit at {} in {}", bytes, first, size);
                    prop_assert_eq!((needed, asked), (first + bytes, Bytes(bytes)));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    /// A heap made as large as an error says has room.
    #[test]
    fn the_size_that_is_named_suffices(bytes in 1u64..1 << 40, taken in 0u64..64) {
        let fill = |size: u64| {
            let mut heap = Heap::new(Bytes(size));
            heap.allocate(taken, 1).and_then(|_| heap.allocate(bytes, 64))
        };
        let Err(HeapError::Full { needed, .. }) = fill(64) else { return Ok(()) };
        prop_assert!(fill(needed).is_ok());
        prop_assert!(fill(needed - 1).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Random puts and gets between two PEs, a quiet after each, against two arrays of bytes.
    #[test]
    fn memory_is_as_an_array(moves in prop::collection::vec((any::<bool>(), 0u64..3000, 0u64..3000, 1u32..900), 1..10), local in any::<bool>()) {
        const SIZE: usize = 4096;
        let fill = |pe: usize| -> Vec<u8> { (0..SIZE).map(|at| (at * 7 + pe * 101 + at / 256) as u8).collect() };
        let mut expected = [fill(0), fill(1)];
        for (put, here, there, size) in &moves {
            let ([here, there], size) = ([*here as usize, *there as usize], *size as usize);
            let (from, to) = if *put { ((0, here), (1, there)) } else { ((1, there), (0, here)) };
            let bytes = expected[from.0][from.1..from.1 + size].to_vec();
            expected[to.0][to.1..to.1 + size].copy_from_slice(&bytes);
        }
        let notes = Notes::<(u32, Vec<u8>)>::default();
        let (found, start) = (notes.clone(), [fill(0), fill(1)]);
        let layout = if local { (1, 2) } else { (2, 1) };
        let played = job::pes(&ri2(layout.0), layout, SIZE as u64, move |pe| {
            let (found, start, moves) = (found.clone(), start.clone(), moves.clone());
            async move {
                pe.memory().store(0, &start[pe.me() as usize])?;
                pe.synchronise().await?;
                if pe.me() == 0 {
                    for (put, here, there, size) in moves {
                        if put { pe.put(1, there, here, size).await? } else { pe.get(1, here, there, size).await? }
                        pe.quiet().await?;
                    }
                }
                pe.synchronise().await?;
                let mut bytes = vec![0; SIZE];
                pe.memory().load(0, &mut bytes)?;
                found.add((pe.me(), bytes));
                Ok(())
            }
        });
        prop_assert!(played.is_ok(), "{:?}", played.err());
        for (pe, bytes) in notes.take() {
            prop_assert_eq!(&bytes, &expected[pe as usize], "PE {}", pe);
        }
    }
}
