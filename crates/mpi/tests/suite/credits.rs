//! Eager messages beyond what the receiver has room for: they wait for credits, and leave before their sender waits for others.

use crate::machine;
use fabriscope_catalog::{Shared, Software};
use fabriscope_engine::{Cluster, Engine, Job, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Rank, World};
use fabriscope_node::Main;
use fabriscope_units::Remedy;

/// Rank 0 sends `count` messages of `size` bytes, rank 1 receives them; then both wait for each other.
fn one_way(cluster: &str, software: Option<Shared<Software>>, (count, size): (u32, u32)) -> Result<(), String> {
    let mut parts = machine::parts(cluster);
    if let Some(software) = software {
        parts.sole_mut().software = software;
    }
    let world = World::new(parts.sole().software.mpi.as_ref().unwrap(), &machine::target(&parts), 2);
    let main = |me: u32| -> Main {
        let world = world.clone();
        Box::new(move |process| {
            Box::pin(async move {
                let rank = Rank::init(process, world, &[1 - me]).await?;
                for _ in 0..count {
                    match me {
                        0 => rank.send(1, 7, size).await?,
                        _ => rank.recv(Some(0), Some(7), size).await?,
                    }
                }
                rank.synchronise().await
            })
        })
    };
    let job = Job::programs(vec![0, 1], vec![main(0), main(1)]);
    let run = PacketEngine.run(&Cluster::new(parts).unwrap(), job, &RunOptions::default(), 1);
    run.map(drop).map_err(|error| error.in_full())
}

/// More messages than any library's window, for which the sender is done with each when it is copied.
#[test]
fn copied_messages_leave_before_a_barrier() {
    for cluster in ["alaska-roce25", "ri2", "betzy-hdr", "olivia-turin"] {
        for size in [0, 8, 4096] {
            assert_eq!(one_way(cluster, None, (2000, size)), Ok(()), "{cluster}, {size} bytes");
        }
    }
}

/// Over sockets the room is that of the kernel's buffer: 2000 messages of 4096 bytes are more.
#[test]
fn copied_messages_leave_through_sockets() {
    let catalog = fabriscope_catalog::Catalog::embedded().unwrap();
    let software = catalog.software("openmpi-tcp").unwrap().clone();
    assert_eq!(one_way("alaska-roce25", Some(software), (2000, 4096)), Ok(()));
}
