//! What MPI promises between two ranks, over every kind of library and transport: order, tags, wildcards, and who waits for whom.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::{Cluster, Engine, Job, Loss, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Rank, World};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_units::Remedy;
use fabriscope_units::{Span, Time};

/// Clusters whose libraries differ in all that matters here: a ring written by RDMA, sends, tags matched by the adapter (hpcx, cxi), PSM2,
/// SRD that delivers in any order, RoCE, TCP in the adapter.
const CLUSTERS: [&str; 10] =
    ["ri2", "alaska-roce25", "betzy-hdr", "csd3-opa", "lumi-c", "aws-c5n-efa", "oci-optimized3", "lab-iwarp-t6", "lab-cn5000", "lab-bxi"];

/// What a rank does: sends and receives in order, or leaves its core.
#[derive(Debug, Clone)]
enum Act {
    Send {
        to: u32,
        tag: u32,
        size: u32,
    },
    Recv {
        from: Option<u32>,
        tag: Option<u32>,
        size: u32,
    },
    /// Sends that are all posted before any is waited for.
    Sends(Vec<(u32, u32, u32)>),
    /// Receives that are.
    Recvs(Vec<(Option<u32>, Option<u32>, u32)>),
    /// Sends to a rank what it receives from it, all of it posted before any is waited for.
    Exchange {
        peer: u32,
        messages: Vec<(Option<u32>, Option<u32>, u32)>,
    },
    /// Receives that are posted now and waited for at the end.
    Post(Vec<(Option<u32>, Option<u32>, u32)>),
    /// The core is busy elsewhere and makes no progress.
    Away(Span),
    /// Notes the time.
    Clock,
}

use Act::{Away, Clock, Exchange, Post, Recv, Recvs, Send, Sends};

async fn carry_out(rank: &Rank, acts: Vec<Act>, clocks: &Record<Vec<(u32, Time)>>) -> Result<(), ProgramError> {
    let mut open = Vec::new();
    for act in acts {
        match act {
            Exchange { peer, messages } => {
                let mut posted = Vec::new();
                for (_, tag, size) in &messages {
                    posted.push(rank.isend(peer, tag.unwrap_or(0), *size)?);
                }
                for (from, tag, size) in messages {
                    posted.push(rank.irecv(from, tag, size)?);
                }
                rank.wait_all(posted).await?;
            }
            Post(all) => {
                for (from, tag, size) in all {
                    open.push(rank.irecv(from, tag, size)?);
                }
            }
            Send { to, tag, size } => rank.send(to, tag, size).await?,
            Recv { from, tag, size } => rank.recv(from, tag, size).await?,
            Sends(all) => {
                let posted: Result<Vec<_>, _> = all.into_iter().map(|(to, tag, size)| rank.isend(to, tag, size)).collect();
                rank.wait_all(posted?).await?;
            }
            Recvs(all) => {
                let posted: Result<Vec<_>, _> = all.into_iter().map(|(from, tag, size)| rank.irecv(from, tag, size)).collect();
                rank.wait_all(posted?).await?;
            }
            Away(span) => rank.sleep_until(rank.now() + span).await,
            Clock => clocks.lock().push((rank.rank(), rank.now())),
        }
    }
    rank.wait_all(open).await
}

/// Runs what each rank does, each on a node of its own; gives the times noted.
fn play(parts: &ResolvedCluster, acts: Vec<Vec<Act>>) -> Result<Vec<(u32, Time)>, String> {
    play_with(parts, acts, &RunOptions::default())
}

fn play_with(parts: &ResolvedCluster, acts: Vec<Vec<Act>>, options: &RunOptions) -> Result<Vec<(u32, Time)>, String> {
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &machine::target(parts), acts.len() as u32);
    let clocks = Record::new(Vec::new());
    let nodes = (0..acts.len() as u32).collect();
    let mains = acts.into_iter().map(|acts| -> Main {
        let (world, clocks) = (world.clone(), clocks.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                rank.synchronise().await?;
                carry_out(&rank, acts, &clocks).await?;
                rank.synchronise().await
            })
        })
    });
    let job = Job::programs(nodes, mains.collect());
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, options, 1);
    run.map_err(|error| error.in_full())?;
    Ok(clocks.take())
}

/// Lengths on both sides of every limit of the libraries, none twice.
const LENGTHS: [u32; 9] = [0, 8, 900, 5000, 20_000, 70_000, 150_000, 300_000, 1_000_000];

#[test]
fn messages_do_not_overtake_each_other() {
    // MPI 4.1 §3.5: two messages from one rank that fit one receive are received in the order sent. Receives have exactly the length of
    // the message that is theirs: in any other order some message would be longer than its receive, which is an error.
    for cluster in CLUSTERS {
        let parts = machine::parts(cluster);
        let up: Vec<u32> = LENGTHS.to_vec();
        let mixed: Vec<u32> = [3, 8, 0, 6, 1, 7, 2, 5, 4].map(|at| LENGTHS[at]).to_vec();
        for lengths in [up.iter().rev().copied().collect(), up, mixed] {
            let sends = Sends(lengths.iter().map(|size| (1, 7, *size)).collect());
            let one_by_one = lengths.iter().map(|size| Recv { from: Some(0), tag: Some(7), size: *size }).collect();
            let together = vec![Recvs(lengths.iter().map(|size| (None, None, *size)).collect())];
            for receives in [one_by_one, together] {
                let played = play(&parts, vec![vec![sends.clone()], receives]);
                assert_eq!(played, Ok(Vec::new()), "{cluster}: {lengths:?}");
            }
        }
    }
}

/// What a message says is lost with its packet, and comes with the packet that is sent again: order, sizes and tags hold all the same.
#[test]
fn what_messages_say_survives_lost_packets() {
    for cluster in CLUSTERS {
        let parts = machine::parts(cluster);
        let mixed = [3, 0, 7, 1, 5, 2, 6, 4].map(|at| LENGTHS[at]);
        let both =
            |peer| vec![Exchange { peer, messages: mixed.iter().zip(0..).map(|(size, tag)| (Some(peer), Some(tag), *size)).collect() }; 3];
        let lossy = RunOptions { loss: Loss::Random(u32::MAX / 200), ..RunOptions::default() };
        let played = play_with(&parts, vec![both(1), both(0)], &lossy);
        assert_eq!(played, Ok(Vec::new()), "{cluster}");
    }
}

#[test]
fn tags_choose_among_messages_that_wait() {
    // All messages arrive before any receive is posted; then they are received from the last tag to the first.
    for cluster in CLUSTERS {
        let sends = Sends((0..6).map(|tag| (1, tag, LENGTHS[tag as usize])).collect());
        let receives = (0..6).rev().map(|tag| Recv { from: Some(0), tag: Some(tag), size: LENGTHS[tag as usize] });
        let mut late = vec![Away(Span::from_us(500))];
        late.extend(receives);
        assert_eq!(play(&machine::parts(cluster), vec![vec![sends], late]), Ok(Vec::new()), "{cluster}");
    }
}

#[test]
fn a_receive_that_names_less_takes_the_first_that_comes() {
    // Rank 1 posts: any source with tag 2; then tag 1 of rank 0. Rank 0 sends tag 1 first. The first receive must not take it.
    for cluster in CLUSTERS {
        let sends = vec![Send { to: 1, tag: 1, size: 5000 }, Send { to: 1, tag: 2, size: 8 }];
        let receives = vec![Recvs(vec![(None, Some(2), 8), (Some(0), Some(1), 5000)])];
        assert_eq!(play(&machine::parts(cluster), vec![sends, receives]), Ok(Vec::new()), "{cluster}");
    }
}

#[test]
fn any_source_takes_all_of_several() {
    // Three ranks send different lengths to rank 0, whose receives take any source; one that names rank 3 takes that of rank 3.
    let parts = machine::ri2(4, 1);
    let from = |size| vec![Send { to: 0, tag: 5, size }];
    let receives = vec![Recv { from: Some(3), tag: None, size: 30 }, Recvs(vec![(None, None, 40_000), (None, None, 40_000)])];
    assert_eq!(play(&parts, vec![receives, from(40_000), from(20), from(30)]), Ok(Vec::new()));
}

#[test]
fn a_message_longer_than_its_receive_is_an_error() {
    // MPI_ERR_TRUNCATE, eager and rendezvous, whichever comes first.
    for cluster in ["ri2", "alaska-roce25", "csd3-opa", "lumi-c", "lab-cn5000", "lab-bxi"] {
        for size in [100, 300_000] {
            for wait in [Span::ZERO, Span::from_us(300)] {
                let receives = vec![Away(wait), Recv { from: Some(0), tag: Some(0), size: size - 1 }];
                let played = play(&machine::parts(cluster), vec![vec![Send { to: 1, tag: 0, size }], receives]);
                assert!(played.is_err(), "{cluster}: {size} bytes into {}, after {wait}", size - 1);
            }
        }
    }
}

#[test]
fn shorter_messages_fit() {
    for cluster in CLUSTERS {
        let acts = vec![vec![Send { to: 1, tag: 0, size: 10 }], vec![Recv { from: None, tag: None, size: 1_000_000 }]];
        assert_eq!(play(&machine::parts(cluster), acts), Ok(Vec::new()), "{cluster}");
    }
}

/// The largest message that a library sends before the receiver is asked.
fn eager_limit(parts: &ResolvedCluster) -> u32 {
    let mpi = parts.sole().software.mpi.as_ref().unwrap();
    let waited = mpi.blocking_eager_limit.as_ref().map_or(0, |limit| limit.0).max(mpi.eager_limit.0);
    mpi.psm2.as_ref().map_or(waited, |psm2| psm2.eager_limit.0) as u32
}

#[test]
fn eager_sends_end_without_a_receive_and_rendezvous_wait_for_it() {
    // The receiver's core is away for 2 ms. A message at the limit is sent and forgotten: its bytes take less than 200 us on the slowest
    // of these links (25 Gb/s: 256 KiB in 86 us). One byte more needs the receiver's answer.
    for cluster in CLUSTERS {
        let parts = machine::parts(cluster);
        let limit = eager_limit(&parts);
        // With PSM2 the receiver's core acknowledges: only what is copied whole into the adapter is gone at once.
        let onload = parts.sole().software.mpi.as_ref().unwrap().psm2.is_some();
        let at_limit = if onload { 1024 } else { limit };
        for (size, waits) in [(8, false), (at_limit, false), (limit + 1, true), (4 * limit, true)] {
            let sender = vec![Clock, Send { to: 1, tag: 0, size }, Clock];
            let receiver = vec![Away(Span::from_us(2000)), Recv { from: Some(0), tag: Some(0), size }];
            let clocks = play(&parts, vec![sender, receiver]).unwrap();
            let taken = clocks[1].1 - clocks[0].1;
            assert_eq!(taken > Span::from_us(1900), waits, "{cluster}: {size} B with a limit of {limit} B take {taken}");
            assert!(waits || taken < Span::from_us(200), "{cluster}: {size} B take {taken}");
        }
    }
}

#[test]
fn both_may_send_first() {
    // MPI 4.1 §3.7: non-blocking operations in both directions, all posted before any is waited for, end whatever their length.
    for cluster in CLUSTERS {
        let side = |peer: u32| {
            let messages = LENGTHS.iter().map(|size| (Some(peer), Some(3), *size)).collect();
            vec![Exchange { peer, messages }]
        };
        assert_eq!(play(&machine::parts(cluster), vec![side(1), side(0)]), Ok(Vec::new()), "{cluster}");
    }
}

#[test]
fn a_rank_may_send_to_many_and_hear_from_many() {
    // All to all of four ranks with lengths by pair: 1000 · sender + 37 · receiver, so that no two are alike.
    let parts = machine::ri2(4, 1);
    let length = |from: u32, to: u32| 1000 * from + 37 * to;
    let acts = (0..4u32).map(|me| {
        let others = (0..4u32).filter(|peer| *peer != me);
        let receives = others.clone().map(|peer| (Some(peer), None, length(peer, me))).collect();
        let sends = others.map(|peer| Send { to: peer, tag: me, size: length(me, peer) });
        let mut acts = vec![Post(receives)];
        acts.extend(sends);
        acts
    });
    assert_eq!(play(&parts, acts.collect()), Ok(Vec::new()));
}
