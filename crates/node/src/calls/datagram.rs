//! Calls of a program to the UDP sockets of its node.

use fabriscope_tcp::kernel::{Awaited, Message, SocketError};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{AppWords, Lid};

use crate::process::Process;
use crate::socket::{DatagramSocket, SocketWait, Waiting};

impl Process {
    /// A socket of UDP at a port, or at one that is free; `buffers` as `SO_SNDBUF` and `SO_RCVBUF`.
    ///
    /// # Errors
    /// No interface there; the port is in use.
    pub fn bind(&self, nic: usize, port: Option<u16>, buffers: Option<Bytes>) -> Result<DatagramSocket, SocketError> {
        let rank = self.rank();
        let id = self.interface(nic, |interface| interface.bind(rank, port, buffers))??;
        self.syscall(nic)?;
        Ok(DatagramSocket { nic, id })
    }
    /// The port of a socket of UDP.
    ///
    /// # Errors
    /// No interface there.
    pub fn datagram_port(&self, socket: DatagramSocket) -> Result<u16, SocketError> {
        self.interface(socket.nic, |interface| interface.port(socket.id))
    }
    /// Room in the send buffer of a socket of UDP.
    ///
    /// # Errors
    /// No interface there.
    pub fn datagram_buffer(&self, socket: DatagramSocket) -> Result<Bytes, SocketError> {
        self.interface(socket.nic, |interface| interface.datagram_buffer(socket.id))
    }
    /// Sends a datagram; returns when the kernel has taken it, for which it waits while the send buffer is full.
    ///
    /// # Errors
    /// No interface there; a datagram longer than IP carries.
    pub async fn send_to(
        &self,
        socket: DatagramSocket,
        (remote, port): (Lid, u16),
        bytes: u32,
        words: Option<AppWords>,
    ) -> Result<(), SocketError> {
        self.syscall(socket.nic)?;
        self.catch_up().await;
        if self.interface(socket.nic, |interface| interface.datagrams_ready_at(socket.id, Awaited::Writable))?.is_none() {
            self.wait_sockets(&[SocketWait::Datagrams(socket, Awaited::Writable)], Waiting::Asleep).await?;
        }
        self.compute(self.cpu().copy(Bytes(bytes.into()), Bytes(2 * u64::from(bytes))));
        let now = self.now();
        let cost = self.interface(socket.nic, |interface| interface.send_to(now, socket.id, (remote.0, port), bytes, words))??;
        self.compute(cost);
        self.pay_for_interrupts(socket)
    }
    /// Waits for a datagram and takes it; `None` if there was none by `until`.
    ///
    /// # Errors
    /// No interface there.
    pub async fn receive_from(&self, socket: DatagramSocket, until: Time) -> Result<Option<Message>, SocketError> {
        self.catch_up().await;
        let awaited = SocketWait::Datagrams(socket, Awaited::Readable);
        let ready = self.interface(socket.nic, |interface| interface.datagrams_ready_at(socket.id, Awaited::Readable))?;
        if ready.is_none() && !self.wait_sockets_until(&[awaited], Waiting::Asleep, until).await? {
            return Ok(None);
        }
        self.syscall(socket.nic)?;
        let now = self.now();
        let message = self.interface(socket.nic, |interface| interface.receive_from(now, socket.id))?;
        // What the adapter wrote is in no cache of the core.
        self.compute(message.map_or(Span::ZERO, |message| self.cpu().copy(Bytes(message.bytes.into()), Bytes(u64::MAX))));
        self.pay_for_interrupts(socket)?;
        Ok(message)
    }
    /// Datagrams that found the buffer of a socket full.
    ///
    /// # Errors
    /// No interface there.
    pub fn dropped(&self, socket: DatagramSocket) -> Result<u64, SocketError> {
        self.interface(socket.nic, |interface| interface.dropped(socket.id))
    }
    /// Core time that interrupts for this program have taken at the interface of a socket of UDP, on whatever core.
    ///
    /// # Errors
    /// No interface there.
    pub fn datagram_interrupt_time(&self, socket: DatagramSocket) -> Result<Span, SocketError> {
        self.interface(socket.nic, |interface| interface.datagram_interrupt_time(socket.id))
    }
    fn pay_for_interrupts(&self, socket: DatagramSocket) -> Result<(), SocketError> {
        self.pay(socket.nic, |interface, now| interface.datagram_busy_until(socket.id, now))
    }
}
