//! The library over every kind of queue pair: what MPI promises holds over each, and each has the queue pairs that it is said to have.

use crate::machine;
use fabriscope_catalog::{MpiTransport, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Rank, World};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_units::Remedy;

/// RI2 with its library over a transport.
fn over(transport: MpiTransport, nodes: u32) -> ResolvedCluster {
    let mut parts = machine::ri2(nodes, 1);
    parts.sole_mut().software.mpi.as_mut().unwrap().transport = transport;
    parts
}

/// Runs `main` on `nodes` nodes of `per_node` ranks.
fn play<F, R>(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), main: F) -> Run
where
    F: Fn(Rank) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), ProgramError>> + 'static,
{
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &machine::target(parts), nodes * per_node);
    let each = |_| -> Main {
        let (world, main) = (world.clone(), main.clone());
        Box::new(move |process| Box::pin(async move { main(Rank::init_all(process, world).await?).await }))
    };
    let places = (0..nodes * per_node).map(|rank| rank / per_node).collect();
    let job = Job::programs(places, (0..nodes * per_node).map(each).collect());
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &RunOptions::default(), 1);
    run.unwrap_or_else(|error| panic!("{}", error.in_full()))
}

/// All to all, all at once, of lengths on both sides of every limit; receives are in the order of the sends and take no longer message.
async fn exchange(rank: Rank) -> Result<(), ProgramError> {
    const SIZES: [u32; 8] = [0, 8, 1984, 1985, 16_336, 16_337, 70_000, 400_000];
    let others: Vec<u32> = (0..rank.ranks()).filter(|other| *other != rank.rank()).collect();
    let mut requests = Vec::new();
    for size in SIZES {
        for other in &others {
            requests.push(rank.irecv(Some(*other), None, size)?);
            requests.push(rank.isend(*other, size, size)?);
        }
    }
    rank.wait_all(requests).await?;
    rank.synchronise().await
}

#[test]
fn messages_are_whole_and_in_order_over_each() {
    for (word, transport) in MpiTransport::WORDS {
        let run = play(&over(transport, 3), (3, 2), exchange);
        // Six ranks, four others on other nodes.
        let payload: u64 = 6 * 4 * (8 + 1984 + 1985 + 16_336 + 16_337 + 70_000 + 400_000);
        let carried = run.stats.bytes_delivered;
        assert!((payload..payload + payload / 8).contains(&carried), "{word}: {carried} of {payload}");
    }
}

/// M ranks on each of N nodes at one adapter: RC M² (N − 1), XRC 2 M (N − 1), DC as many initiators as peers up to eight, a target, and at it
/// a responder for each initiator that came; the others M.
#[test]
fn queue_pairs_are_as_many_as_the_transport_needs() {
    let pairs = |transport| play(&over(transport, 3), (3, 2), exchange).stats.queue_pairs;
    let found = MpiTransport::WORDS.map(|(word, transport)| (word, pairs(transport)));
    let responders = 2 * 4;
    assert_eq!(found, [("rc", 8), ("rc-srq", 8), ("xrc", 8), ("dc", 2 * (4 + 1) + responders), ("ud", 2), ("srd", 2), ("uet", 2)]);
}

/// Half a round trip of 8 bytes: XRC has a header of 4 bytes more; an initiator of DC that talks to one target alone connects once; a datagram
/// costs both cores a little more than a message over a connection, and so does putting messages in order.
#[test]
fn short_messages_take_about_the_same_over_each() {
    let latency = |transport| {
        let time = Record::new(0.0);
        let noted = time.clone();
        play(&over(transport, 2), (2, 1), move |rank| {
            let noted = noted.clone();
            async move {
                let mut begun = rank.now();
                for turn in 0..20 {
                    if turn == 10 {
                        begun = rank.now();
                    }
                    if rank.rank() == 0 {
                        rank.send(1, 1, 8).await?;
                        rank.recv(Some(1), Some(1), 8).await?;
                    } else {
                        rank.recv(Some(0), Some(1), 8).await?;
                        rank.send(0, 1, 8).await?;
                    }
                }
                if rank.rank() == 0 {
                    *noted.lock() = rank.now().since(begun).as_us_f64() / 20.0;
                }
                rank.synchronise().await
            }
        });
        time.take()
    };
    // Over XRC the ring falls away, and with it a completion: compared with sends over RC from a job too large for rings.
    let xrc = latency(MpiTransport::Xrc);
    for (word, transport) in MpiTransport::WORDS {
        let time = latency(transport);
        assert!((0.8..1.35).contains(&(time / xrc)), "{word}: {time} us, XRC {xrc} us");
    }
    assert!(latency(MpiTransport::Ud) > xrc + 0.04, "two cores handle a packet for 40 ns each, less the acknowledgement");
}
