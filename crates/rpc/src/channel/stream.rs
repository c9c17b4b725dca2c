//! Messages over sockets: an event loop that reads and writes what it can, and sleeps in `epoll_wait` otherwise.
//!
//! Source: epoll(7).
//! Modelled: writes as far as there is room, reads of as much as one offers room for, the wake-up of a thread that sleeps, a system call for
//! each wait.
//! Not modelled: edge-triggered events, several threads on one socket.

use std::collections::VecDeque;

use fabriscope_node::socket::SocketWait;
use fabriscope_node::{Process, ProgramError, Socket, Waiting};
use fabriscope_tcp::kernel::{Awaited, SocketOptions};
use fabriscope_units::{Bytes, Time};

use super::contact::Contacts;
use super::{Arrival, ConnectionEnd, Header, NIC, Terms};

/// One connection.
#[derive(Debug)]
struct Stream {
    socket: Socket,
    /// Bytes of all messages so far, and of those what the kernel has not taken yet.
    written: u64,
    unsent: u64,
    /// Bytes read so far.
    read: u64,
}

/// All sockets of a thread.
#[derive(Debug)]
pub struct StreamPort {
    streams: Vec<Stream>,
    arrived: VecDeque<Arrival>,
    read_size: Bytes,
}

impl StreamPort {
    pub(super) async fn open(
        process: &Process,
        end: ConnectionEnd,
        peers: &[u32],
        contacts: &Contacts,
        terms: Terms,
    ) -> Result<StreamPort, ProgramError> {
        let me = process.rank();
        let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
        let listens = end == ConnectionEnd::Called && !peers.is_empty();
        if listens {
            process.listen(NIC, port_of(me)?, options)?;
            contacts.listens(me, process.lid(NIC));
        }
        process.barrier().await;
        let mut sockets = vec![None; peers.len()];
        if end == ConnectionEnd::Caller {
            for (at, &peer) in peers.iter().enumerate() {
                let address = contacts.listener(peer).ok_or_else(|| nobody(me, peer))?;
                let socket = process.connect(NIC, address, port_of(peer)?, options).await?;
                contacts.calls(me, process.lid(NIC), process.socket_view(socket)?.port);
                sockets[at] = Some(socket);
            }
        }
        process.barrier().await;
        if listens {
            for _ in peers {
                let socket = process.accept(NIC, port_of(me)?).await?;
                let view = process.socket_view(socket)?;
                let caller = contacts.caller(view.remote, view.remote_port);
                let at = caller.and_then(|caller| peers.iter().position(|peer| *peer == caller));
                let at = at.ok_or_else(|| ProgramError(format!("program {me}: a connection from nobody")))?;
                sockets[at] = Some(socket);
            }
        }
        process.barrier().await;
        let open = |(at, socket): (usize, Option<Socket>)| {
            let socket = socket.ok_or_else(|| nobody(me, peers[at]))?;
            Ok(Stream { socket, written: 0, unsent: 0, read: 0 })
        };
        let streams = sockets.into_iter().enumerate().map(open).collect::<Result<_, ProgramError>>()?;
        Ok(StreamPort { streams, arrived: VecDeque::new(), read_size: terms.read_size })
    }

    pub(super) async fn send(&mut self, process: &Process, connection: usize, header: Header, bytes: Bytes) -> Result<(), ProgramError> {
        process.catch_up().await;
        let stream = &mut self.streams[connection];
        stream.written += bytes.0.max(1);
        process.say(stream.socket, stream.written, header.words(0))?;
        stream.unsent += bytes.0.max(1);
        stream.flush(process)
    }

    pub(super) async fn next(&mut self, process: &Process, until: Time) -> Result<Option<Arrival>, ProgramError> {
        loop {
            if let Some(arrival) = self.arrived.pop_front() {
                return Ok(Some(arrival));
            }
            process.catch_up().await;
            for at in 0..self.streams.len() {
                self.read(process, at)?;
                if self.streams[at].unsent > 0 {
                    self.streams[at].flush(process)?;
                }
            }
            if !self.arrived.is_empty() {
                continue;
            }
            if process.now() >= until {
                return Ok(None);
            }
            let readable = self.streams.iter().map(|stream| SocketWait::Ready(stream.socket, Awaited::Readable));
            let blocked = self.streams.iter().filter(|stream| stream.unsent > 0);
            let writable = blocked.map(|stream| SocketWait::Ready(stream.socket, Awaited::Writable));
            let awaited: Vec<SocketWait> = readable.chain(writable).collect();
            process.call_kernel(NIC)?;
            if !process.wait_sockets_until(&awaited, Waiting::Asleep, until).await? {
                return Ok(None);
            }
        }
    }

    /// Reads from a socket what is there, at most as much as fits.
    fn read(&mut self, process: &Process, at: usize) -> Result<(), ProgramError> {
        let stream = &mut self.streams[at];
        if process.readable(stream.socket)? == 0 {
            return Ok(());
        }
        let (visible, begun) = (process.readable_since(stream.socket)?, process.now());
        stream.read += process.try_read(stream.socket, self.read_size.0)?;
        let (visible, read) = (visible.unwrap_or(begun).min(begun), process.now());
        while let Some(words) = process.words(stream.socket, stream.read)? {
            let (header, _) = Header::read(words);
            self.arrived.push_back(Arrival { connection: at, header, visible, begun, read });
        }
        Ok(())
    }
}

impl Stream {
    /// Hands the kernel what it has room for.
    fn flush(&mut self, process: &Process) -> Result<(), ProgramError> {
        self.unsent -= process.try_write(self.socket, self.unsent)?;
        Ok(())
    }
}

fn nobody(me: u32, peer: u32) -> ProgramError {
    ProgramError(format!("program {me} wants to talk to program {peer}, which does not expect it"))
}

fn port_of(rank: u32) -> Result<u16, ProgramError> {
    let port = u64::from(FIRST_PORT) + u64::from(rank);
    u16::try_from(port).map_err(|_| ProgramError(format!("program {rank} has no port of its own; use fewer threads or nodes")))
}

/// Where the first program listens. Basis: assumed; below the ports of callers.
const FIRST_PORT: u16 = 10_051;
