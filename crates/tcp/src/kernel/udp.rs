//! What system calls on sockets of UDP do; [`super::datagram`] has the sockets.

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::AppWords;

use super::datagram::{DatagramSocket, DatagramSocketId, Message};
use super::interface::{Action, Interface};
use super::socket::{Awaited, SocketError};

/// For programs. Times are those of the program's clock, which may run ahead.
impl Interface {
    /// `socket` and `bind` by the program `owner`, to a port that is free if none is given; `buffers` as `SO_SNDBUF` and `SO_RCVBUF`.
    ///
    /// # Errors
    /// The port is in use.
    pub fn bind(&mut self, owner: u32, port: Option<u16>, buffers: Option<Bytes>) -> Result<DatagramSocketId, SocketError> {
        let port = match port {
            Some(port) if self.bound.contains_key(&port) => return Err(SocketError::PortInUse { port }),
            Some(port) => port,
            None => self.free_port(),
        };
        let id = DatagramSocketId(self.datagram_sockets.len() as u32);
        let buffer = buffers.map_or(self.settings.kernel.datagram_buffer, |asked| Bytes(2 * asked.0));
        let queue = self.queue(owner);
        self.datagram_sockets.push(DatagramSocket::new(port, queue, buffer.0));
        self.bound.insert(port, id);
        Ok(id)
    }
    /// The port of a socket.
    #[must_use]
    pub fn port(&self, socket: DatagramSocketId) -> u16 {
        self.datagram_sockets[socket.0 as usize].port
    }
    /// What `SO_SNDBUF` says: room in the send buffer.
    #[must_use]
    pub fn datagram_buffer(&self, socket: DatagramSocketId) -> Bytes {
        Bytes(self.datagram_sockets[socket.0 as usize].send_buffer)
    }
    /// `sendto` of `bytes` that were copied until `now`; returns the core time of sending them: once for itself, once for each fragment
    /// beyond the first.
    ///
    /// # Errors
    /// More bytes than a datagram of IP holds.
    pub fn send_to(
        &mut self,
        now: Time,
        socket: DatagramSocketId,
        (remote, port): (u32, u16),
        bytes: u32,
        words: Option<AppWords>,
    ) -> Result<Span, SocketError> {
        if bytes > LONGEST_DATAGRAM {
            return Err(SocketError::LongDatagram { bytes, most: LONGEST_DATAGRAM });
        }
        let settings = &self.settings;
        let (whole, packets) = self.datagram_sockets[socket.0 as usize].give(settings.mtu, port, bytes, words);
        let costs = &settings.kernel;
        let cost = costs.send_datagram + costs.send_packet * (packets - 1) + settings.payload(bytes.into());
        self.act(now + cost, Action::SendTo(socket, remote, whole));
        Ok(cost)
    }
    /// `recvfrom`: the oldest datagram that had arrived by `now`, if there is one.
    pub fn receive_from(&mut self, now: Time, socket: DatagramSocketId) -> Option<Message> {
        self.datagram_sockets[socket.0 as usize].take(now)
    }
    /// Since when the condition holds, if it does.
    #[must_use]
    pub fn datagrams_ready_at(&self, socket: DatagramSocketId, awaited: Awaited) -> Option<Time> {
        self.datagram_sockets.get(socket.0 as usize)?.ready_at(awaited)
    }
    /// The program of a socket is busy until `now`; returns what interrupts took from its core since it last said so.
    pub fn datagram_busy_until(&mut self, socket: DatagramSocketId, now: Time) -> Span {
        self.queues[self.datagram_sockets[socket.0 as usize].queue].busy_until(now)
    }
    /// Core time that interrupts for the program of a socket have taken so far, on whatever core.
    #[must_use]
    pub fn datagram_interrupt_time(&self, socket: DatagramSocketId) -> Span {
        self.queues[self.datagram_sockets[socket.0 as usize].queue].handled
    }
    /// Datagrams that found the receive buffer full.
    #[must_use]
    pub fn dropped(&self, socket: DatagramSocketId) -> u64 {
        self.datagram_sockets[socket.0 as usize].dropped
    }
}

/// The most bytes of a datagram: the largest packet of IPv4 less both headers. Basis: standard, RFC 791.
pub const LONGEST_DATAGRAM: u32 = 65_507;
