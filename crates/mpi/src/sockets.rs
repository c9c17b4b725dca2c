//! Ranks that talk over sockets: their connections, and their share of the progress loop.
//!
//! Source: as `stream.rs`.

use std::collections::BTreeMap;
use std::rc::Rc;

use fabriscope_node::socket::SocketWait;
use fabriscope_node::{Process, ProgramError, Socket, Waiting};
use fabriscope_tcp::kernel::SocketOptions;
use fabriscope_verbs::Lid;

use super::connection::{Connection, Link};
use super::exchange::{CallerOf, ListenerOf};
use super::state::State;
use super::stream::Stream;
use super::world::{NodeMemory, Shared};

impl State {
    /// Spins until there is data or room on a socket, then reads and writes what can be.
    pub fn awaited_streams(&self) -> Vec<SocketWait> {
        let links = self.connections.values().flat_map(|connection| &connection.links);
        links.filter_map(|link| link.stream.as_ref()).flat_map(Stream::waits).collect()
    }

    /// Reads all that came and writes what there is room for.
    pub fn serve_streams(&mut self, process: &Process) -> Result<(), ProgramError> {
        for connection in self.connections.values_mut() {
            for link in &mut connection.links {
                let Some(stream) = &mut link.stream else { continue };
                if process.readable(stream.socket)? > 0 {
                    stream.read += process.try_read(stream.socket, u64::MAX)?;
                }
                for request in stream.write(process)? {
                    self.requests.at(request).done = true;
                }
            }
        }
        Ok(())
    }
}

/// Waits as a progress loop does.
pub(super) async fn wait(process: &Process, awaited: &[SocketWait]) -> Result<(), ProgramError> {
    Ok(process.wait_sockets(awaited, Waiting::Asking).await?)
}

/// Connects this rank to `peers`: the lower rank of each pair calls the other.
pub(super) async fn open(process: &Process, (shared, memory): (&Shared, &Rc<NodeMemory>), peers: &[u32]) -> Result<State, ProgramError> {
    const NIC: usize = 0;
    let me = process.rank();
    let port_of = |rank: u32| u16::try_from(u64::from(FIRST_PORT) + u64::from(rank)).map_err(|_| too_many(rank));
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    process.listen(NIC, port_of(me)?, options)?;
    let exchange = &shared.exchange;
    exchange.put(me, ListenerOf { rank: me }, process.lid(NIC));
    exchange.fence(process).await;
    let mut sockets = BTreeMap::new();
    for &peer in peers.iter().filter(|peer| **peer > me) {
        let listener = exchange.get(me, ListenerOf { rank: peer });
        let listener = listener.ok_or_else(|| ProgramError(format!("rank {me} wants to talk to rank {peer}, which does not expect it")))?;
        let socket = process.connect(NIC, listener, port_of(peer)?, options).await?;
        let port = process.socket_view(socket)?.port;
        exchange.put(me, CallerOf { callee: peer, address: process.lid(NIC), port }, me);
        sockets.insert(peer, socket);
    }
    exchange.fence(process).await;
    for _ in peers.iter().filter(|peer| **peer < me) {
        let socket = process.accept(NIC, port_of(me)?).await?;
        let view = process.socket_view(socket)?;
        let caller = exchange.get(me, CallerOf { callee: me, address: Lid(view.remote), port: view.remote_port });
        let caller = caller.ok_or_else(|| ProgramError(format!("rank {me}: a connection from nobody")))?;
        sockets.insert(caller, socket);
    }
    process.barrier().await;
    let protocol = shared.protocol.on(process);
    let connection = |socket: Socket| Connection::over(vec![Link::over(Stream::new(socket))], false, protocol.window);
    let connections = sockets.into_iter().map(|(peer, socket)| (peer, connection(socket))).collect();
    Ok(State::new((me, Rc::clone(memory)), protocol, Vec::new(), connections, shared.home(process)))
}

fn too_many(rank: u32) -> ProgramError {
    ProgramError(format!("rank {rank} has no port of its own; use at most {} ranks over sockets", u32::from(u16::MAX - FIRST_PORT)))
}

/// Where rank 0 listens. Basis: published (Open MPI, btl_tcp_port_min_v4 1024, moved out of the way of services).
const FIRST_PORT: u16 = 10_000;
