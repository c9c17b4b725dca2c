//! Whether an `MPI_Alltoallv` can happen on a cluster.

use fabriscope_units::Bytes;

use super::{AllToAllV, check_transport};
use fabriscope_catalog::{Interface, Problem, ResolvedCluster};
use fabriscope_wire::Service;

pub(super) fn check(exchange: &AllToAllV, cluster: &ResolvedCluster) -> Result<(), Problem> {
    let place = |key| ["workload", "alltoallv", key];
    let wrong = |key, message: String, help: &str| Err(Problem::at(&place(key), message, help));
    let AllToAllV { processes_per_node: each, processes, sizes, vector, transports, iterations } = exchange;
    if cluster.sole().node.nics > 1 {
        let message = format!("a node of this cluster has {} adapters, and processes share one here", cluster.sole().node.nics);
        return Err(Problem::at(&["cluster"], message, "use a cluster with node.nics = 1"));
    }
    if *each == 0 || *each > MOST_PER_NODE {
        return wrong("processes_per_node", format!("{each} processes on a node"), "use 1 to 1024");
    }
    let room = u64::from(cluster.nodes()) * u64::from(*each);
    if processes.is_empty() || processes.len() > MOST_RUNS {
        return wrong("processes", format!("{} jobs", processes.len()), "write 1 to 100 of them: [112, 224, 448, 896]");
    }
    if let Some(count) = processes.iter().find(|count| **count < 2 || u64::from(**count) > room) {
        let message = format!("{count} processes, {each} on each of {} nodes", cluster.nodes());
        return wrong("processes", message, &format!("use 2 to {room} processes, or a larger cluster"));
    }
    if sizes.is_empty() == vector.is_empty() {
        let message = if sizes.is_empty() { "no size of messages" } else { "sizes of all messages and a vector of sizes" };
        return wrong("sizes", message.to_owned(), "write either sizes = [\"4 B\", \"1 KiB\"] or vector = [\"4 B\", \"1 KiB\"]");
    }
    if sizes.len() > MOST_RUNS || vector.len() > MOST_LENGTHS {
        return wrong("sizes", format!("{} sizes", sizes.len().max(vector.len())), "write at most 100 sizes, or a vector of 65536");
    }
    if transports.is_empty() || transports.len() > 2 || transports.contains(&Service::Uc) || transports.first() == transports.get(1) {
        return wrong("transports", "these transports cannot be compared".to_owned(), "write [\"rc\", \"ud\"], or one of them");
    }
    for transport in transports {
        check_transport(*transport, cluster, &place("transports"))?;
    }
    let verbs = cluster.sole().software.interface == Interface::Verbs;
    let Some(mpi) = cluster.sole().software.mpi.as_ref().filter(|mpi| verbs && mpi.connections.is_some()) else {
        let message = format!("`{}` does not say what connections take", cluster.sole().software.name);
        return wrong("transports", message, "use a library with [mpi.connections], for example software = \"mvapich2-2.3.7\"");
    };
    let largest = sizes.iter().chain(vector).copied().max().unwrap_or(Bytes::ZERO);
    let buffer = mpi.connections.as_ref().map_or(Bytes::ZERO, |connections| *connections.buffer);
    let most = Bytes(mpi.eager_limit.as_u64().min(buffer.as_u64().saturating_sub(mpi.header.as_u64())));
    if largest > most {
        let key = if vector.is_empty() { "sizes" } else { "vector" };
        let message = format!("a message of {largest} is longer than the {most} that `{}` sends at once", cluster.sole().software.name);
        return wrong(key, message, "use shorter messages: the rendezvous of longer ones is not modelled here");
    }
    if !(1..=MOST_ITERATIONS).contains(iterations) {
        return wrong("iterations", format!("{iterations} iterations"), "use 1 to 1000");
    }
    Ok(())
}

/// Basis: assumed, more than the threads of any node.
const MOST_PER_NODE: u32 = 1024;
/// Basis: assumed, more than a table of a page.
const MOST_RUNS: usize = 100;
const MOST_LENGTHS: usize = 65_536;
const MOST_ITERATIONS: u32 = 1000;
