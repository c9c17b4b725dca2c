//! What messages of a schedule cost where a message-passing library carries them, resolved from the catalogue.
//!
//! Modelled: eager messages of the library's point-to-point protocol, over connections with a shared receive queue or over
//! datagrams that the library makes reliable. Not modelled: the rendezvous; programs over `mpi` have it.

use fabriscope_catalog::{NodeGroup, ResolvedCluster, Software};
use fabriscope_node::datagram::Window;
use fabriscope_units::{Bytes, Span};

/// Costs and limits of a library on the cluster's processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Core time of a send above the verbs.
    pub send: Span,
    /// Core time of a receive above the verbs.
    pub receive: Span,
    /// Core time of one turn of the progress loop.
    pub progress: Span,
    /// Core time of building a work request.
    pub wqe_build: Span,
    /// Core time of handling a completion.
    pub poll_hit: Span,
    /// Bytes in front of the payload of a message.
    pub header: Bytes,
    /// Largest message that the sender copies.
    pub copy_limit: Bytes,
    /// Largest message, header included, that travels in its work request.
    pub inline_limit: Bytes,
    /// Every so many sends ask for a completion.
    pub signal_interval: u32,
    /// Queues of connections.
    pub queues: Queues,
    /// What it does to make datagrams reliable.
    pub datagrams: Option<DatagramCosts>,
}

/// Queues of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Requests in a send queue.
    pub send: u32,
    /// Receives kept posted.
    pub receives: u32,
    /// Size of the buffer of each.
    pub buffer: Bytes,
}

/// What a library pays to make datagrams reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramCosts {
    /// Core time per packet at each end.
    pub packet: Span,
    /// Largest payload of a packet, without the library's header.
    pub payload: Bytes,
    /// The library's header.
    pub header: Bytes,
    /// Window, acknowledgements and timeout.
    pub window: Window,
    /// How often it looks at them.
    pub tick: Span,
    /// Queues of the one queue pair of a process.
    pub queues: Queues,
}

/// The library of the cluster, if its part says what connections take.
#[must_use]
pub fn library(parts: &ResolvedCluster) -> Option<Library> {
    let group = parts.uniform()?;
    library_on(&group.software, group, parts.mtu)
}

/// A library on the nodes of a group, with packets of `mtu`, if its part says what connections take.
#[must_use]
pub fn library_on(software: &Software, group: &NodeGroup, mtu: Bytes) -> Option<Library> {
    let (mpi, cpu) = (software.mpi.as_ref()?, &group.node.cpu);
    let connections = mpi.connections.as_ref()?;
    let datagrams = mpi.datagrams.as_ref().map(|d| {
        let packet = d.mtu.value.min(mtu);
        DatagramCosts {
            packet: d.packet_overhead.value,
            payload: packet - d.header.value,
            header: d.header.value,
            window: Window {
                most: d.window.value,
                ack_interval: d.ack_interval.value,
                retry: d.retry_timeout.value,
                retries: d.retries.value,
            },
            tick: d.tick.value,
            queues: Queues { send: d.send_queue.value, receives: d.receives.value, buffer: packet + GRH },
        }
    });
    Some(Library {
        send: mpi.send_overhead.value,
        receive: mpi.recv_overhead.value,
        progress: mpi.progress_overhead.value,
        wqe_build: mpi.wqe_build.as_ref().map_or(cpu.wqe_build.value, |build| build.value),
        poll_hit: mpi.poll_hit.as_ref().map_or(cpu.poll_hit.value, |hit| hit.value),
        header: mpi.header.value,
        copy_limit: mpi.eager_copy_limit.value,
        inline_limit: mpi.inline_limit.value.min(group.node.nic.max_inline.value),
        signal_interval: mpi.signal_interval.value,
        queues: Queues { send: connections.send_queue.value, receives: connections.receives.value, buffer: connections.buffer.value },
        datagrams,
    })
}

/// Room that a receive of a datagram leaves for a global header. Basis: standard (IBA vol. 1 §11.4.1.2).
const GRH: Bytes = Bytes(40);
