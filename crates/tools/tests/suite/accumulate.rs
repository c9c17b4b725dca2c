//! One-sided updates of MPI on simulated clusters: what they cost, and what they leave in memory.

use crate::machine;

use fabriscope_catalog::{Accumulate, ResolvedCluster, SingleElement};
use fabriscope_mpi::{Datatype, Operands, Rank, Reduction, Update, World};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_units::Bytes;
use machine::{column, execute, latency, parts, ri2, run_on, target};

const ALL: [&str; 4] = ["osu_acc_latency", "osu_get_acc_latency", "osu_fop_latency", "osu_cas_latency"];

fn with_ways(mut parts: ResolvedCluster, accumulate: Accumulate, single: SingleElement) -> ResolvedCluster {
    let rules = parts.sole_mut().software.mpi.as_mut().unwrap().one_sided.as_mut().unwrap();
    (rules.accumulate.value, rules.single.value) = (accumulate, single);
    parts
}

/// One atomic of the adapter is what `ib_atomic_lat` times, and a send's and a turn's core time; under the lock it is three of them.
#[test]
fn a_fetch_and_op_is_an_atomic() {
    let machine = ri2(2, 1);
    let (fop, cas) = (latency(&machine, "osu_fop_latency"), latency(&machine, "osu_cas_latency"));
    let atomic = column(&run_on(&machine, "ib_atomic_lat -n 50").0, "latency")[0].1;
    assert!(fop > atomic && fop < atomic + 0.3, "{fop} {atomic}");
    assert!((fop - cas).abs() < 0.01, "{fop} {cas}");
    let locked = latency(&with_ways(machine, Accumulate::LockGetPut, SingleElement::LockedAdapter), "osu_fop_latency");
    assert!((locked / fop - 3.0).abs() < 0.05, "{locked} {fop}");
}

/// lock, get, put, unlock: two atomics, a read and a write of 8 bytes.
#[test]
fn an_accumulate_of_the_origin_is_four_round_trips() {
    let machine = with_ways(ri2(2, 1), Accumulate::LockGetPut, SingleElement::Adapter);
    let of = |tool: &str| latency(&machine, tool);
    let (fop, get, put) = (of("osu_fop_latency"), of("osu_get_latency -m 8:8"), of("osu_put_latency -m 8:8"));
    let accumulate = of("osu_acc_latency -m 8:8");
    assert!((accumulate / (2.0 * fop + get + put) - 1.0).abs() < 0.02, "{accumulate}: {fop} {get} {put}");
}

/// An active message is a message there and one back; the operand of a long one is fetched by rendezvous, and the sum goes through memory.
#[test]
fn an_accumulate_of_the_target_is_a_ping_pong() {
    let machine = with_ways(ri2(2, 1), Accumulate::ActiveMessage, SingleElement::Software);
    let short = latency(&machine, "osu_acc_latency -m 8:8");
    let ping_pong = 2.0 * latency(&machine, "osu_latency -m 8:8");
    assert!(short > 0.9 * ping_pong && short < ping_pong + 0.6, "{short} {ping_pong}");
    // Of 1 MiB: the message one way, three streams of a MiB through a core, and an empty message back.
    let long = latency(&machine, "osu_acc_latency -m 1M:1M -i 4 -x 1");
    let (there, back) = (latency(&machine, "osu_latency -m 1M:1M -i 4 -x 1"), latency(&machine, "osu_latency -m 0:0"));
    let arithmetic = long - there - back;
    let streams = machine.sole().node.cpu.copy_rate_long.time(Bytes((3 << 20) / 2)).as_us_f64();
    assert!((arithmetic / streams - 1.0).abs() < 0.05, "{arithmetic} {streams}");
}

#[test]
fn every_way_ends_with_every_synchronisation() {
    for accumulate in [Accumulate::ActiveMessage, Accumulate::LockGetPut] {
        for single in [SingleElement::Adapter, SingleElement::LockedAdapter, SingleElement::Software] {
            let machine = with_ways(ri2(2, 1), accumulate, single);
            for tool in ALL {
                let of = |sync: &str| latency(&machine, &format!("{tool} -i 3 -x 1 {sync}"));
                let flush = of("-s flush");
                for sync in ["lock", "lock_all", "pscw", "fence"] {
                    let with = of(&format!("-s {sync}"));
                    assert!(with > flush && with < 5.0 * flush, "{tool} {accumulate:?} {single:?} {sync}: {with} {flush}");
                }
            }
        }
    }
}

/// Without RDMA and without atomics the target does everything.
#[test]
fn adapters_without_atomics_send_messages() {
    for cluster in ["aws-c5n-efa", "lab-iwarp-t6"] {
        for tool in ALL {
            assert!(latency(&parts(cluster), &format!("{tool} -i 3 -x 1")) > 1.0, "{cluster} {tool}");
        }
    }
}

/// A program of each rank, with the contents of all memories kept.
fn job<F, P>(parts: &ResolvedCluster, ranks: u32, program: P) -> Result<(), String>
where
    F: Future<Output = Result<(), ProgramError>> + 'static,
    P: Fn(Rank) -> F + Clone + Send + 'static,
{
    let world = World::with_contents(parts.sole().software.mpi.as_ref().unwrap(), &target(parts), ranks);
    let main = |_| -> Main {
        let (world, program) = (world.clone(), program.clone());
        Box::new(move |process| Box::pin(async move { program(Rank::init_all(process, world).await?).await }))
    };
    execute(parts, (0..ranks).map(main).collect()).map(|_| ())
}

const WAYS: [(Accumulate, SingleElement); 4] = [
    (Accumulate::ActiveMessage, SingleElement::Adapter),
    (Accumulate::ActiveMessage, SingleElement::Software),
    (Accumulate::LockGetPut, SingleElement::LockedAdapter),
    (Accumulate::LockGetPut, SingleElement::Software),
];

/// Where operands, results and the target's elements are.
const HERE: u64 = 0;
const RESULT: u64 = 4096;
const THERE: u64 = 8192;

fn operands(datatype: Datatype, reduction: Reduction, size: u32) -> Operands {
    Operands { datatype, reduction, size, here: HERE, result: RESULT, there: THERE, compare: 0 }
}

/// All but rank 0 say that they are done; rank 0 is inside its library until then.
async fn end(rank: &Rank) -> Result<(), ProgramError> {
    if rank.rank() > 0 {
        return rank.send(0, 7, 0).await;
    }
    for other in 1..rank.ranks() {
        rank.recv(Some(other), Some(7), 0).await?;
    }
    Ok(())
}

/// Six origins fetch and add one to a counter of rank 0, five times each: every value from 0 to 29 comes once, whichever way it goes.
#[test]
fn a_counter_gives_every_number_once() {
    for (accumulate, single) in WAYS {
        let machine = with_ways(ri2(7, 1), accumulate, single);
        let seen: Record<Vec<u64>> = Record::default();
        let all = seen.clone();
        let program = move |rank: Rank| {
            let drawn = all.clone();
            async move {
                rank.expose(HERE, 16384)?;
                rank.store(HERE, &1u64.to_ne_bytes())?;
                rank.synchronise().await?;
                for _ in 0..if rank.rank() == 0 { 0 } else { 5 } {
                    let fetch = rank.update(Update::FetchAndOp, 0, operands(Datatype::LongLong, Reduction::Sum, 8)).await?;
                    let old = rank.fetched(fetch).await?;
                    drawn.lock().push(old);
                }
                end(&rank).await
            }
        };
        job(&machine, 7, program).unwrap();
        let mut values = seen.lock().clone();
        values.sort_unstable();
        assert_eq!(values, (0..30).collect::<Vec<u64>>(), "{accumulate:?} {single:?}");
    }
}

/// Six origins add vectors of doubles, two of them longer than an eager message; the sum and every fetched prefix are what they must be.
#[test]
fn sums_are_complete_and_prefixes_in_order() {
    for (accumulate, single) in WAYS {
        let machine = with_ways(ri2(4, 1), accumulate, single);
        let failures: Record<Vec<String>> = Record::default();
        let all = failures.clone();
        let count = 100_000u32;
        let program = move |rank: Rank| {
            let failures = all.clone();
            async move {
                let (here, result, there) = (0u64, 1 << 20, 2 << 20);
                rank.expose(0, 3 << 20)?;
                let mine: Vec<u8> = (0..count).flat_map(|at| (f64::from(at) * f64::from(rank.rank())).to_ne_bytes()).collect();
                rank.store(here, &mine)?;
                rank.synchronise().await?;
                let sum = Operands { here, result, there, ..operands(Datatype::Double, Reduction::Sum, 8 * count) };
                if rank.rank() > 0 {
                    let fetch = rank.update(Update::GetAccumulate, 0, sum).await?;
                    rank.fetched(fetch).await?;
                }
                let mut word = [0; 8];
                rank.load(result + 8, &mut word)?;
                // What was at element 1 before: the sum of some of the ranks 1 to 3.
                if rank.rank() > 0 && !(0..=6).contains(&(f64::from_ne_bytes(word) as i64)) {
                    failures.lock().push(format!("rank {} fetched {}", rank.rank(), f64::from_ne_bytes(word)));
                }
                end(&rank).await?;
                if rank.rank() == 0 {
                    for at in [0, 1, 511, count - 1] {
                        rank.load(there + 8 * u64::from(at), &mut word)?;
                        // 1 + 2 + 3 times the index.
                        if f64::from_ne_bytes(word) != 6.0 * f64::from(at) {
                            failures.lock().push(format!("element {at} is {}", f64::from_ne_bytes(word)));
                        }
                    }
                }
                Ok(())
            }
        };
        job(&machine, 4, program).unwrap();
        assert!(failures.lock().is_empty(), "{accumulate:?} {single:?}: {:?}", failures.lock());
    }
}

/// Three ranks compare and swap a word that is 5: one of them finds it, the others find what that one stored.
#[test]
fn one_comparison_wins() {
    for (accumulate, single) in WAYS {
        let machine = with_ways(ri2(4, 1), accumulate, single);
        let seen: Record<Vec<u64>> = Record::default();
        let all = seen.clone();
        let program = move |rank: Rank| {
            let found = all.clone();
            async move {
                rank.expose(HERE, 16384)?;
                rank.store(HERE, &u64::from(100 + rank.rank()).to_ne_bytes())?;
                rank.store(THERE, &5u64.to_ne_bytes())?;
                rank.synchronise().await?;
                if rank.rank() > 0 {
                    let swap = Operands { compare: 5, ..operands(Datatype::LongLong, Reduction::Replace, 8) };
                    let fetch = rank.update(Update::CompareAndSwap, 0, swap).await?;
                    let old = rank.fetched(fetch).await?;
                    found.lock().push(old);
                }
                end(&rank).await
            }
        };
        job(&machine, 4, program).unwrap();
        let values = seen.lock().clone();
        let winners = values.iter().filter(|value| **value == 5).count();
        let stored: Vec<u64> = values.iter().copied().filter(|value| *value != 5).collect();
        assert!(winners == 1 && stored[0] == stored[1] && (101..=103).contains(&stored[0]), "{accumulate:?} {single:?}: {values:?}");
    }
}

/// A target that has left the library answers nobody: the message says who waits for whom.
#[test]
fn a_target_outside_the_library_is_named() {
    let machine = with_ways(ri2(2, 1), Accumulate::ActiveMessage, SingleElement::Software);
    let program = |rank: Rank| async move {
        if rank.rank() == 1 {
            return Ok(());
        }
        let fetch = rank.update(Update::Accumulate, 1, operands(Datatype::Char, Reduction::Sum, 8)).await?;
        rank.fetched(fetch).await.map(|_| ())
    };
    let error = job(&machine, 2, program).unwrap_err();
    assert!(error.contains("rank 0 on node 0 waits for the end of an operation on the memory of rank 1"), "{error}");
}

/// What each operation takes on two nodes of RI2, beside what it is made of, as the tools measure that on the same machine: a an atomic under a flush
/// (`osu_fop_latency`), r(n) and w(n) a get and a put of n bytes, m(n) a message one way, c(n) a core's pass over n bytes for a copy, half as much
/// again for a reduction; o what the target's library does for an active message. Bytes are 8 and 1 MiB.
#[test]
fn every_way_is_made_of_its_parts() {
    let ways = |accumulate, single| with_ways(ri2(2, 1), accumulate, single);
    let adapter = ways(Accumulate::ActiveMessage, SingleElement::Adapter);
    let of = |machine: &ResolvedCluster, tool: &str, size: &str| {
        let size = if size.is_empty() { String::new() } else { format!("-m {size}:{size} -i 8 -x 2") };
        latency(machine, &format!("{tool} {size}"))
    };
    let a = of(&adapter, "osu_fop_latency", "");
    let [r, w, m] = ["osu_get_latency", "osu_put_latency", "osu_latency"].map(|tool| of(&adapter, tool, "8"));
    let [long_r, long_w, long_m] = ["osu_get_latency", "osu_put_latency", "osu_latency"].map(|tool| of(&adapter, tool, "1M"));
    let nothing = latency(&adapter, "osu_latency -m 0:0");
    let c = adapter.sole().node.cpu.copy_rate_long.time(Bytes(1 << 20)).as_us_f64();
    let o = adapter.sole().software.mpi.as_ref().unwrap().one_sided.as_ref().unwrap().apply_overhead.as_us_f64();
    let (message, lock) = (Accumulate::ActiveMessage, Accumulate::LockGetPut);
    let (software, locked) = (SingleElement::Software, SingleElement::LockedAdapter);
    let rows = [
        ("fetch_and_op, adapter", of(&adapter, "osu_fop_latency", ""), "a", a),
        ("fetch_and_op, locked_adapter", of(&ways(lock, locked), "osu_fop_latency", ""), "3 a", 3.0 * a),
        ("fetch_and_op, lock_get_put", of(&ways(lock, software), "osu_fop_latency", ""), "2 a + r + w", 2.0 * a + r + w),
        ("fetch_and_op, active_message", of(&ways(message, software), "osu_fop_latency", ""), "2 m(8) + o", 2.0 * m + o),
        ("accumulate 8 B, lock_get_put", of(&ways(lock, locked), "osu_acc_latency", "8"), "2 a + r + w", 2.0 * a + r + w),
        ("accumulate 8 B, active_message", of(&adapter, "osu_acc_latency", "8"), "m(8) + o + m(0)", m + o + nothing),
        (
            "accumulate 1 MiB, lock_get_put",
            of(&ways(lock, locked), "osu_acc_latency", "1M"),
            "2 a + R + W + 1.5 c",
            2.0 * a + long_r + long_w + 1.5 * c,
        ),
        ("accumulate 1 MiB, active_message", of(&adapter, "osu_acc_latency", "1M"), "M + o + 1.5 c + m(0)", long_m + o + 1.5 * c + nothing),
        ("get_accumulate 1 MiB, active_message", of(&adapter, "osu_get_acc_latency", "1M"), "2 M + o + 2.5 c", 2.0 * long_m + o + 2.5 * c),
    ];
    let line = |(what, us, parts, sum): &(&str, f64, &str, f64)| format!("{what:<38}{us:>9.2}  {parts:<22}{sum:>9.2}\n");
    let table: String = rows.iter().map(line).collect();
    assert_eq!(table, GOLDEN, "\n{table}");
    assert!(rows.iter().all(|(_, us, _, sum)| (us / sum - 1.0).abs() < 0.01), "{table}");
}

const GOLDEN: &str = "\
fetch_and_op, adapter                      2.20  a                          2.20
fetch_and_op, locked_adapter               6.59  3 a                        6.59
fetch_and_op, lock_get_put                 8.11  2 a + r + w                8.10
fetch_and_op, active_message               2.47  2 m(8) + o                 2.45
accumulate 8 B, lock_get_put               8.11  2 a + r + w                8.10
accumulate 8 B, active_message             2.43  m(8) + o + m(0)            2.42
accumulate 1 MiB, lock_get_put           286.47  2 a + R + W + 1.5 c      286.30
accumulate 1 MiB, active_message         194.31  M + o + 1.5 c + m(0)     194.14
get_accumulate 1 MiB, active_message     353.30  2 M + o + 2.5 c          353.13
";
