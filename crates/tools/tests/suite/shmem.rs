//! OpenSHMEM on simulated clusters: what calls cost, what they leave in memory, and in which order.

use crate::machine;

use fabriscope_catalog::{ResolvedCluster, SingleElement};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_mpi::shmem::{Job, Operation, Pe, Relation};
use fabriscope_mpi::{OffloadSettings, OffloadState, Width};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_units::{Bytes, Span};
use machine::{column, execute, latency, parts, ri2, run_on, target};

/// A program of each PE of a job that keeps contents.
fn job<F, P>(parts: &ResolvedCluster, pes: u32, program: P) -> Result<(), String>
where
    F: Future<Output = Result<(), ProgramError>> + 'static,
    P: Fn(Pe) -> F + Clone + Send + 'static,
{
    let target = target(parts);
    let (shmem, mpi) = (target.shmem.as_ref().unwrap(), target.mpi.as_ref().unwrap());
    let job = Job::new(shmem, mpi, &target, (pes, 1 << 20), true);
    let main = |_| -> Main {
        let (job, program) = (job.clone(), program.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let pe = Pe::init_all(process, job).await?;
                pe.memory().expose(0, 1 << 20)?;
                pe.synchronise().await?;
                program(pe).await
            })
        })
    };
    execute(parts, (0..pes).map(main).collect()).map(|_| ())
}

fn barrier(pes: u32) -> (Algorithm, Call) {
    let call = Call { operation: Kind::Barrier, ranks: pes, per_node: 1, root: 0, size: Bytes::ZERO, width: Bytes(1) };
    (Algorithm::named(Kind::Barrier, "dissemination").unwrap(), call)
}

async fn barrier_all(pe: &Pe) -> Result<(), ProgramError> {
    let (algorithm, call) = barrier(pe.pes());
    pe.collective(Operation::Barrier, &algorithm, &call).await
}

fn word(pe: &Pe, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    pe.memory().load(offset, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

/// Clusters over a reliable connection, over one whose fabric reorders, and over SRD.
fn clusters() -> [ResolvedCluster; 3] {
    let few = |name: &str| {
        let mut cluster = parts(name);
        cluster.sole_mut().node.nics = 1;
        cluster
    };
    [ri2(4, 1), few("olivia-turin"), few("aws-p5")]
}

#[test]
fn every_benchmark_fills_its_table() {
    let machine = ri2(2, 1);
    for tool in ["put", "put_nb", "get", "get_nb", "put_overlap"] {
        let output = run_on(&machine, &format!("osu_oshm_{tool} heap -i 3 -x 1")).0;
        let values = column(&output, "latency");
        assert_eq!(values.len(), 21, "{tool}");
        assert!(values.iter().all(|(_, us)| *us > 0.5 && us.is_finite()), "{tool}: {}", output.text);
    }
    for tool in ["put_mr", "put_mr_nb", "get_mr_nb"] {
        let rates = column(&run_on(&machine, &format!("osu_oshm_{tool} global -i 8 -x 1 -p 2")).0, "message_rate");
        assert_eq!(rates.len(), 23, "{tool}");
        assert!(rates[0].1 > 10.0 * rates[22].1, "{tool}: {rates:?}");
    }
    assert_eq!(column(&run_on(&machine, "osu_oshm_atomics heap -i 10").0, "latency").len(), 16);
    for tool in ["broadcast", "collect", "fcollect", "reduce"] {
        assert_eq!(column(&run_on(&machine, &format!("osu_oshm_{tool} -i 2 -x 1")).0, "latency").len(), 19, "{tool}");
    }
    assert!(latency(&machine, "osu_oshm_barrier") > 1.0);
    // By puts, over one adapter and over many.
    for cluster in ["olivia-turin", "aws-p5"] {
        for tool in ["barrier", "broadcast -m 4096:4096", "collect -m 64:64", "fcollect -m 64:64", "reduce -m 64K:64K"] {
            assert!(latency(&parts(cluster), &format!("osu_oshm_{tool} -i 3 -x 1")) > 1.0, "{cluster} {tool}");
        }
    }
}

/// A dissemination barrier of two PEs is a flag each way: with one round, what a put takes until the target sees it, and a half of the
/// messages of the MPI library beside it where that carries them.
#[test]
fn a_barrier_of_two_is_one_way_of_a_flag() {
    let machine = parts("olivia-turin");
    let (barrier, put) = (latency(&machine, "osu_oshm_barrier"), latency(&machine, "osu_oshm_put heap -m 8:8"));
    // There and acknowledged is a little less than twice one way; the flag is seen, and then its own put completes with the next quiet.
    assert!(barrier > 0.5 * put && barrier < 1.2 * put, "{barrier} {put}");
}

/// A put and a quiet are a write and its acknowledgement; a get is a read; a fetching atomic is an atomic.
#[test]
fn calls_are_verbs_and_little_more() {
    let machine = ri2(2, 1);
    let of = |line: &str| latency(&machine, line);
    let (put, get) = (of("osu_oshm_put heap -m 8:8"), of("osu_oshm_get heap -m 8:8"));
    let (mpi_put, read) = (of("osu_put_latency -m 8:8"), of("ib_read_lat -s 8 -n 50"));
    assert!((put - mpi_put).abs() < 0.2, "{put} {mpi_put}");
    assert!(get > read && get < read + 0.3, "{get} {read}");
    let atomics = column(&run_on(&machine, "osu_oshm_atomics heap").0, "latency");
    let atomic = of("ib_atomic_lat -n 50");
    // Those that fetch wait: fadd, finc, cswap, swap, set, fetch; add and inc do not, and 16 of them are in flight at a time.
    for (at, (_, us)) in atomics.iter().enumerate() {
        let waits = !matches!(at % 8, 2 | 3);
        assert!(if waits { *us > atomic && *us < atomic + 0.3 } else { *us < atomic / 3.0 }, "{at}: {us} {atomic}");
    }
}

/// Through a buffer of the library a put returns before its bytes have left: it costs the caller its copy. A longer one waits.
#[test]
fn short_puts_return_at_once() {
    let times: Record<Vec<Span>> = Record::default();
    let all = times.clone();
    let program = move |pe: Pe| {
        let times = all.clone();
        async move {
            if pe.me() == 0 {
                for size in [8u32, 4096, 65_536] {
                    let begun = pe.now();
                    pe.put(1, 0, 1 << 18, size).await?;
                    times.lock().push(pe.now().since(begun));
                    pe.quiet().await?;
                }
            }
            Ok(())
        }
    };
    job(&ri2(2, 1), 2, program).unwrap();
    let times = times.lock();
    assert!(times[0] < Span::from_ns(400) && times[1] < Span::from_ns(1500), "{times:?}");
    // 64 KiB at 100 Gb/s take 5.2 us.
    assert!(times[2] > Span::from_ns(5200), "{times:?}");
}

/// What is put is there after a quiet and a barrier, what is got is what was there; the source of a put may change when it has returned.
#[test]
fn bytes_arrive() {
    for machine in clusters() {
        let failures: Record<Vec<String>> = Record::default();
        let all = failures.clone();
        let program = move |pe: Pe| {
            let failures = all.clone();
            async move {
                let next = (pe.me() + 1) % pe.pes();
                let mut at = 0u64;
                for size in [8u32, 100, 3000, 40_000, 200_000] {
                    let (from, to) = (600_000, at);
                    pe.memory().store(from, &vec![pe.me() as u8 + 1; size as usize])?;
                    pe.put(next, to, from, size).await?;
                    pe.memory().store(from, &vec![99; size as usize])?;
                    at += u64::from(size);
                }
                barrier_all(&pe).await?;
                let before = (pe.me() + pe.pes() - 1) % pe.pes();
                let mut bytes = vec![0; at as usize];
                pe.memory().load(0, &mut bytes)?;
                if let Some(wrong) = bytes.iter().position(|byte| *byte != before as u8 + 1) {
                    failures.lock().push(format!("PE {}: byte {wrong} is {}", pe.me(), bytes[wrong]));
                }
                // What PE `next` has is of this one.
                pe.get_nbi(next, 500_000, 8, 5000).await?;
                pe.quiet().await?;
                pe.memory().load(500_000, &mut bytes[..5000])?;
                if bytes[..5000].iter().any(|byte| *byte != pe.me() as u8 + 1) {
                    failures.lock().push(format!("PE {} got something else", pe.me()));
                }
                barrier_all(&pe).await
            }
        };
        job(&machine, 3, program).unwrap_or_else(|error| panic!("{}: {error}", machine.name));
        assert!(failures.lock().is_empty(), "{}: {:?}", machine.name, failures.lock());
    }
}

/// Data, fence, flag: who sees the flag sees the data, on every transport.
#[test]
fn a_fence_orders_puts() {
    for machine in clusters() {
        let seen: Record<Vec<u64>> = Record::default();
        let all = seen.clone();
        let program = move |pe: Pe| {
            let seen = all.clone();
            async move {
                for round in 1..=10u64 {
                    if pe.me() == 0 {
                        pe.memory().store(500_000, &vec![round as u8; 100_000])?;
                        pe.memory().store(400_000, &round.to_ne_bytes())?;
                        pe.put_nbi(1, 1024, 500_000, 100_000).await?;
                        pe.fence().await?;
                        pe.put(1, 0, 400_000, 8).await?;
                        pe.wait_until(8, Relation::AtLeast, round).await?;
                    } else {
                        pe.wait_until(0, Relation::Equal, round).await?;
                        seen.lock().push(word(&pe, 1024 + 99_992));
                        pe.memory().store(400_000, &round.to_ne_bytes())?;
                        pe.put(0, 8, 400_000, 8).await?;
                    }
                }
                pe.quiet().await
            }
        };
        job(&machine, 2, program).unwrap_or_else(|error| panic!("{}: {error}", machine.name));
        let expected: Vec<u64> = (1..=10u64).map(|round| u64::from_ne_bytes([round as u8; 8])).collect();
        assert_eq!(*seen.lock(), expected, "{}", machine.name);
    }
}

/// A fence is free where one connection keeps the order; where it does not, it waits until the put has come, as a quiet does.
#[test]
fn a_fence_waits_where_puts_may_overtake() {
    let of = |machine: &ResolvedCluster| {
        let times: Record<Vec<Span>> = Record::default();
        let all = times.clone();
        let program = move |pe: Pe| {
            let times = all.clone();
            async move {
                if pe.me() == 0 {
                    pe.put(1, 0, 4096, 8).await?;
                    let begun = pe.now();
                    pe.fence().await?;
                    let fenced = pe.now();
                    pe.quiet().await?;
                    times.lock().extend([fenced.since(begun), pe.now().since(fenced)]);
                }
                Ok(())
            }
        };
        job(machine, 2, program).unwrap();
        let times = times.lock();
        (times[0], times[1])
    };
    let [connected, adaptive, srd] = clusters();
    let (fence, quiet) = of(&connected);
    assert!(fence == Span::ZERO && quiet > Span::from_ns(800), "{fence:?} {quiet:?}");
    for machine in [adaptive, srd] {
        let (fence, quiet) = of(&machine);
        assert!(fence > Span::from_ns(800) && quiet == Span::ZERO, "{}: {fence:?} {quiet:?}", machine.name);
    }
}

/// Three PEs draw numbers of a counter on PE 0, by the adapter, by messages and within a node; all come once. 32 bits wrap beside a neighbour.
#[test]
fn atomics_are_atomic() {
    let by_messages = {
        let mut machine = ri2(4, 1);
        machine.sole_mut().software.shmem.as_mut().unwrap().atomics.value = SingleElement::Software;
        machine
    };
    for machine in clusters().into_iter().chain([by_messages]) {
        let drawn: Record<Vec<u64>> = Record::default();
        let all = drawn.clone();
        let program = move |pe: Pe| {
            let drawn = all.clone();
            async move {
                if pe.me() > 0 {
                    for _ in 0..5 {
                        let number = pe.finc(0, (64, Width::Eight)).await?;
                        drawn.lock().push(number);
                        pe.add(0, (72, Width::Eight), u64::from(pe.me())).await?;
                    }
                    pe.quiet().await?;
                }
                if pe.me() == 1 {
                    pe.set(2, (80, Width::Four), u64::from(u32::MAX)).await?;
                    pe.set(2, (84, Width::Four), 7).await?;
                    let half = (84, Width::Four);
                    let wrapped = 100 + pe.fadd(2, (80, Width::Four), 1).await? % 10;
                    let whole = 200 + pe.fetch(2, (80, Width::Eight)).await?;
                    let fits = 1000 + pe.cswap(2, half, 7, 9).await?;
                    let differs = 1000 + pe.cswap(2, half, 7, 1).await?;
                    let swapped = 1001 + pe.swap(2, half, 3).await?;
                    drawn.lock().extend([wrapped, whole, fits, differs, swapped]);
                }
                barrier_all(&pe).await?;
                if pe.me() == 0 {
                    drawn.lock().push(300 + word(&pe, 72));
                }
                Ok(())
            }
        };
        job(&machine, 4, program).unwrap_or_else(|error| panic!("{}: {error}", machine.name));
        let mut values = drawn.lock().clone();
        values.sort_unstable();
        // 0 to 14; the counter of PE 2 was 2³² − 1 (ends in 5) and wraps to 0 beside a 7; then 7, 9 and 9 are there; 5 · (1 + 2 + 3) = 30.
        let expected: Vec<u64> = (0..15).chain([105, 330, 1007, 1009, 1010, 200 + (7 << 32)]).collect();
        assert_eq!(values, expected, "{}", machine.name);
    }
}

/// A word that nobody writes, and a barrier that a PE does not enter: the message says what or whom is waited for.
#[test]
fn who_waits_for_whom_is_told() {
    let machine = ri2(3, 1);
    let alone = |pe: Pe| async move { if pe.me() == 0 { pe.wait_until(16, Relation::Equal, 5).await.map(|_| ()) } else { Ok(()) } };
    let error = job(&machine, 2, alone).unwrap_err();
    let told = "rank 0 on node 0 waits for the word at offset 16 of its symmetric heap to be equal to 5; it is 0, and nobody writes it";
    assert!(error.contains(told), "{error}");
    for cluster in [ri2(3, 1), parts("olivia-turin")] {
        let without = |pe: Pe| async move { if pe.me() == 1 { Ok(()) } else { barrier_all(&pe).await } };
        let error = job(&cluster, 3, without).unwrap_err();
        // Dissemination: PE 2 hears of PE 1 first.
        assert!(error.contains("rank 2 on node 2 waits for rank 1 in shmem_barrier_all"), "{error}");
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let machine = ri2(2, 1);
    let far = job(&machine, 2, |pe| async move { pe.put(2, 0, 0, 8).await }).unwrap_err();
    assert!(far.contains("PE 2 is not among the 2 of the job"), "{far}");
    let beyond = job(&machine, 2, |pe| async move { pe.get(1 - pe.me(), 0, (1 << 20) - 4, 8).await }).unwrap_err();
    assert!(beyond.contains("beyond its symmetric heap of 1048576 bytes"), "{beyond}");
    let odd = job(&machine, 2, |pe| async move { pe.inc(1 - pe.me(), (12, Width::Eight)).await }).unwrap_err();
    assert!(odd.contains("an atomic of 8 bytes at offset 12, which is not aligned"), "{odd}");
}

/// Workers on the DPU move bytes between the places that were named, both ways.
#[test]
fn workers_put_and_get_where_they_should() {
    let parts = parts("lab-bluefield-2");
    let target = target(&parts);
    let (shmem, mpi) = (target.shmem.clone().unwrap(), target.mpi.clone().unwrap());
    let mut settings = OffloadSettings::of(mpi.offload.as_ref().unwrap(), false);
    settings.everything = true;
    let (job, desk) = (Job::new(&shmem, &mpi, &target, (2, 1 << 20), true), OffloadState::new(settings, &target, 64));
    let main = |_| -> Main {
        let (job, desk) = (job.clone(), desk.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let pe = Pe::init_all(process, job).await?;
                pe.memory().expose(0, 1 << 20)?;
                pe.memory().open_offload(&desk).await?;
                let mine = [u8::try_from(pe.me() + 1).unwrap(); 64];
                pe.memory().store(256, &mine)?;
                pe.synchronise().await?;
                let peer = 1 - pe.me();
                pe.put(peer, 4096, 256, 64).await?;
                pe.get_nbi(peer, 8192, 256, 64).await?;
                pe.quiet().await?;
                pe.synchronise().await?;
                for place in [4096, 8192] {
                    let mut found = [0; 66];
                    pe.memory().load(place - 1, &mut found)?;
                    let theirs = u8::try_from(peer + 1).unwrap();
                    assert!(found[1..65].iter().all(|byte| *byte == theirs) && found[0] == 0 && found[65] == 0, "{place}: {found:?}");
                }
                pe.synchronise().await
            })
        })
    };
    execute(&parts, (0..2).map(main).collect()).unwrap();
}
