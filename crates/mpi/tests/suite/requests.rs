//! When requests are done: what ends without the other side, what needs its core, and what progresses while a core computes.

use crate::job;
use crate::machine;
use fabriscope_catalog::{Rendezvous, ResolvedCluster};
use fabriscope_mpi::Rank;
use fabriscope_units::Span;
use job::Notes;

fn ri2(rendezvous: Rendezvous) -> ResolvedCluster {
    let mut parts = machine::parts("ri2");
    job::library(&mut parts).rendezvous = rendezvous;
    parts
}

#[test]
fn a_copied_message_is_done_when_it_is_posted() {
    // Up to 16,336 B MVAPICH2 copies a message into its own buffer: the sender may change the data at once (MPI 4.1 §3.7.3). Above it the
    // request is open until the receiver has come.
    let notes = Notes::<(u32, bool)>::default();
    let seen = notes.clone();
    job::ranks(&machine::parts("ri2"), (2, 1), move |rank| {
        let seen = seen.clone();
        async move {
            for size in [0, 8, 16_336, 16_337, 1 << 20] {
                rank.synchronise().await?;
                if rank.rank() == 0 {
                    let request = rank.isend(1, 0, size)?;
                    seen.add((size, rank.is_done(&request)));
                    rank.wait(request).await?;
                } else {
                    rank.recv(Some(0), Some(0), size).await?;
                }
            }
            rank.synchronise().await
        }
    })
    .unwrap();
    assert_eq!(notes.take(), [(0, true), (8, true), (16_336, true), (16_337, false), (1 << 20, false)]);
}

#[test]
fn a_receive_is_not_done_before_its_message() {
    // Nothing is sent for 100 us: the receive is open all the time, and looking at it changes nothing.
    let notes = Notes::default();
    let seen = notes.clone();
    job::ranks(&machine::parts("ri2"), (2, 1), move |rank: Rank| {
        let seen = seen.clone();
        async move {
            let begun = rank.now();
            if rank.rank() == 1 {
                let request = rank.irecv(Some(0), Some(3), 64)?;
                for _ in 0..5 {
                    rank.look().await?;
                    seen.add(rank.is_done(&request));
                    rank.sleep_until(rank.now() + Span::from_us(10)).await;
                }
                rank.wait(request).await?;
                assert!(rank.now() > begun + Span::from_us(100), "it was done at {}", rank.now());
            } else {
                rank.sleep_until(begun + Span::from_us(100)).await;
                rank.send(1, 3, 64).await?;
            }
            rank.synchronise().await
        }
    })
    .unwrap();
    assert_eq!(notes.take(), [false; 5]);
}

/// How long rank 1 takes for a receive of 1 MiB and 500 us of computing, of which `computes` says whose core does it: the send and the receive
/// are posted, then the core computes, then it waits.
fn overlapped(rendezvous: Rendezvous, computes: u32) -> Span {
    let notes = Notes::default();
    let times = notes.clone();
    job::ranks(&ri2(rendezvous), (2, 1), move |rank: Rank| {
        let times = times.clone();
        async move {
            rank.synchronise().await?;
            let begun = rank.now();
            let request = if rank.rank() == 0 { rank.isend(1, 0, 1 << 20)? } else { rank.irecv(Some(0), Some(0), 1 << 20)? };
            if rank.rank() == computes {
                rank.work(Span::from_us(500)).await;
            }
            rank.wait(request).await?;
            if rank.rank() == 1 {
                times.add(rank.now().since(begun));
            }
            rank.synchronise().await
        }
    })
    .unwrap();
    notes.take()[0]
}

#[test]
fn a_rendezvous_by_read_needs_the_core_of_the_receiver_alone() {
    // 1 MiB at EDR takes 84.4 us (256 packets of 4122 B at 100 Gb/s). By read the sender's core has said where the bytes are before it
    // computes: the receiver has them after that. A receiver that computes first finds the announcement when it is done: it starts then.
    let wire = Span::from_us(84);
    let sender_computes = overlapped(Rendezvous::Read, 0);
    assert!(sender_computes > wire && sender_computes < Span::from_us(120), "{sender_computes}");
    let receiver_computes = overlapped(Rendezvous::Read, 1);
    assert!(receiver_computes > Span::from_us(500) + wire, "{receiver_computes}");
}

#[test]
fn a_rendezvous_by_write_needs_both_cores() {
    // By write the sender's core has to see the answer: if it computes meanwhile, the bytes leave after that, whoever computes.
    for computes in [0, 1] {
        let taken = overlapped(Rendezvous::Write, computes);
        assert!(taken > Span::from_us(584) && taken < Span::from_us(620), "rank {computes} computes: {taken}");
    }
}

#[test]
fn eager_messages_arrive_while_the_receiver_computes() {
    // 8 KiB are in the ring when the receiver looks: it only copies them, 8 KiB at 5 GB/s or more in less than 2 us.
    let notes = Notes::default();
    let times = notes.clone();
    job::ranks(&machine::parts("ri2"), (2, 1), move |rank: Rank| {
        let times = times.clone();
        async move {
            rank.synchronise().await?;
            let begun = rank.now();
            if rank.rank() == 0 {
                rank.send(1, 0, 8192).await?;
            } else {
                let request = rank.irecv(Some(0), Some(0), 8192)?;
                rank.work(Span::from_us(100)).await;
                rank.wait(request).await?;
                times.add(rank.now().since(begun));
            }
            rank.synchronise().await
        }
    })
    .unwrap();
    let taken = notes.take()[0];
    assert!(taken > Span::from_us(100) && taken < Span::from_us(103), "{taken}");
}

#[test]
fn requests_may_be_waited_for_in_any_order() {
    // MPI 4.1 §3.7.3: the order of waiting does not matter, whatever the order of completion.
    for order in [[0usize, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let played = job::ranks(&machine::parts("ri2"), (2, 1), move |rank: Rank| async move {
            let mut requests = Vec::new();
            for (tag, size) in [(0, 8), (1, 300_000), (2, 10_000), (3, 50_000)] {
                requests.push(Some(if rank.rank() == 0 { rank.isend(1, tag, size)? } else { rank.irecv(Some(0), Some(tag), size)? }));
            }
            for at in order {
                rank.wait(requests[at].take().unwrap()).await?;
            }
            rank.synchronise().await
        });
        assert!(played.is_ok(), "{order:?}: {:?}", played.err());
    }
}

#[test]
fn a_receive_that_nobody_answers_is_named() {
    // Rank 1 waits for a tag that rank 0 never sends: the run ends with an error that says so, and does not hang.
    let played = job::ranks(&machine::parts("ri2"), (2, 1), |rank: Rank| async move {
        if rank.rank() == 0 { rank.send(1, 1, 8).await } else { rank.recv(Some(0), Some(2), 8).await }
    });
    let error = played.expect_err("it cannot end");
    assert!(error.contains('1'), "{error}");
}
