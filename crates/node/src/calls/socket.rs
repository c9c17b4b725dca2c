//! Calls of a program to the sockets of its node.

use crate::process::{Process, Wait};
use crate::program_error::ProgramError;
use crate::socket::{Socket, SocketWait, Waiting};
use fabriscope_tcp::kernel::{Awaited, Interface, SocketError, SocketOptions, SocketView, SwitchingUsage};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{AppWords, Lid};

impl Process {
    /// Lets connections come to a port.
    ///
    /// # Errors
    /// No interface there; the port is in use.
    pub fn listen(&self, nic: usize, port: u16, options: SocketOptions) -> Result<(), SocketError> {
        self.interface(nic, |interface| interface.listen(port, options))?
    }
    /// Waits for a connection to a port on which it listens.
    ///
    /// # Errors
    /// No interface there.
    pub async fn accept(&self, nic: usize, port: u16) -> Result<Socket, SocketError> {
        loop {
            let rank = self.rank();
            if let Some(id) = self.interface(nic, |interface| interface.accept(rank, port))? {
                self.syscall(nic)?;
                return Ok(Socket { nic, id });
            }
            self.wait_sockets(&[SocketWait::Accept { nic, port }], Waiting::Asleep).await?;
        }
    }
    /// Connects to a port of another node.
    ///
    /// # Errors
    /// No interface there; options with which nothing could be sent; nobody answers.
    pub async fn connect(&self, nic: usize, remote: Lid, port: u16, options: SocketOptions) -> Result<Socket, SocketError> {
        self.catch_up().await;
        self.syscall(nic)?;
        let (now, rank) = (self.now(), self.rank());
        let id = self.interface(nic, |interface| interface.connect(now, rank, remote.0, port, options))??;
        let socket = Socket { nic, id };
        self.wait_sockets(&[SocketWait::Ready(socket, Awaited::Connected)], Waiting::Asleep).await?;
        self.alive(socket)?;
        Ok(socket)
    }
    /// Writes `bytes`; returns when the kernel has taken them all.
    ///
    /// # Errors
    /// The connection is dead.
    pub async fn write(&self, socket: Socket, bytes: u64) -> Result<(), SocketError> {
        self.syscall(socket.nic)?;
        let mut left = bytes;
        while left > 0 {
            self.catch_up().await;
            self.alive(socket)?;
            let space = self.interface(socket.nic, |interface| interface.space(socket.id))?;
            if space == 0 {
                self.wait_sockets(&[SocketWait::Ready(socket, Awaited::Writable)], Waiting::Asleep).await?;
                continue;
            }
            let taken = left.min(space).min(self.chunk(socket)?);
            self.hand_down(socket, taken)?;
            left -= taken;
        }
        Ok(())
    }
    /// Writes as much of `bytes` as there is room for; returns how much that was.
    ///
    /// # Errors
    /// The connection is dead.
    pub fn try_write(&self, socket: Socket, bytes: u64) -> Result<u64, SocketError> {
        self.syscall(socket.nic)?;
        self.alive(socket)?;
        let space = self.interface(socket.nic, |interface| interface.space(socket.id))?;
        let taken = bytes.min(space);
        let (mut left, longest) = (taken, self.chunk(socket)?);
        while left > 0 {
            let chunk = left.min(longest);
            self.hand_down(socket, chunk)?;
            left -= chunk;
        }
        Ok(taken)
    }
    /// Says `words` with the message that ends at byte `end` of all that is written to the socket; its last byte is yet to be written.
    ///
    /// # Errors
    /// No interface there.
    pub fn say(&self, socket: Socket, end: u64, words: AppWords) -> Result<(), SocketError> {
        self.interface(socket.nic, |interface| interface.say(socket.id, end, words))
    }
    /// What the peer says with the next message that ends by byte `position` of its stream, up to which the program has read.
    ///
    /// # Errors
    /// No interface there.
    pub fn words(&self, socket: Socket, position: u64) -> Result<Option<AppWords>, SocketError> {
        self.interface(socket.nic, |interface| interface.words(socket.id, position))
    }
    /// Waits for data and reads at most `most` bytes of it; 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection is dead.
    pub async fn read(&self, socket: Socket, most: u64) -> Result<u64, SocketError> {
        self.catch_up().await;
        if self.interface(socket.nic, |interface| interface.ready_at(socket.id, Awaited::Readable))?.is_none() {
            self.wait_sockets(&[SocketWait::Ready(socket, Awaited::Readable)], Waiting::Asleep).await?;
        }
        self.alive(socket)?;
        self.try_read(socket, most)
    }
    /// Reads at most `most` bytes of what is there.
    ///
    /// # Errors
    /// No interface there.
    pub fn try_read(&self, socket: Socket, most: u64) -> Result<u64, SocketError> {
        self.syscall(socket.nic)?;
        let there = self.interface(socket.nic, |interface| interface.readable(socket.id))?.min(most);
        // What the adapter wrote is in no cache of the core.
        self.compute(self.cpu().copy(Bytes(there), Bytes(u64::MAX)));
        let now = self.now();
        self.interface(socket.nic, |interface| interface.read(now, socket.id, there))?;
        self.pay_interrupts(socket)?;
        Ok(there)
    }
    /// Reads exactly `bytes`.
    ///
    /// # Errors
    /// The connection is dead, or the stream ends before.
    pub async fn read_exactly(&self, socket: Socket, bytes: u64) -> Result<(), ProgramError> {
        let mut left = bytes;
        while left > 0 {
            match self.read(socket, left).await? {
                0 => return Err(ProgramError(format!("the peer closed the connection {left} bytes too early"))),
                read => left -= read,
            }
        }
        Ok(())
    }
    /// Bytes that can be read by now.
    ///
    /// # Errors
    /// No interface there.
    pub fn readable(&self, socket: Socket) -> Result<u64, SocketError> {
        self.interface(socket.nic, |interface| interface.readable(socket.id))
    }
    /// Since when there is something to read, if there is.
    ///
    /// # Errors
    /// No interface there.
    pub fn readable_since(&self, socket: Socket) -> Result<Option<Time>, SocketError> {
        self.interface(socket.nic, |interface| interface.ready_at(socket.id, Awaited::Readable))
    }
    /// What a call of the kernel takes that does nothing else.
    ///
    /// # Errors
    /// No interface there.
    pub fn call_kernel(&self, nic: usize) -> Result<(), SocketError> {
        self.syscall(nic)
    }
    /// Sends no more.
    ///
    /// # Errors
    /// No interface there.
    pub fn shut_down(&self, socket: Socket) -> Result<(), SocketError> {
        self.syscall(socket.nic)?;
        let now = self.now();
        self.interface(socket.nic, |interface| interface.close(now, socket.id))
    }
    /// What `TCP_INFO` says of a socket.
    ///
    /// # Errors
    /// No interface there.
    pub fn socket_view(&self, socket: Socket) -> Result<SocketView, SocketError> {
        self.interface(socket.nic, |interface| interface.view(socket.id))
    }
    /// Core time that interrupts for this program have taken at the interface of a socket, on whatever core.
    ///
    /// # Errors
    /// No interface there.
    pub fn interrupt_time(&self, socket: Socket) -> Result<Span, SocketError> {
        self.interface(socket.nic, |interface| interface.interrupt_time(socket.id))
    }
    /// What the virtual switch below an interface has taken so far; `None` where there is none.
    ///
    /// # Errors
    /// No interface there.
    pub fn switching(&self, nic: usize) -> Result<Option<SwitchingUsage>, SocketError> {
        self.interface(nic, |interface| interface.switching())
    }
    /// Waits for any of these.
    ///
    /// # Errors
    /// No interface there.
    pub async fn wait_sockets(&self, awaited: &[SocketWait], how: Waiting) -> Result<(), SocketError> {
        self.wait_sockets_until(awaited, how, Time::MAX).await.map(drop)
    }
    /// The same, but gives up at `until` (the timeout of `epoll_wait`): false if nothing was there by then.
    ///
    /// # Errors
    /// No interface there.
    pub async fn wait_sockets_until(&self, awaited: &[SocketWait], how: Waiting, until: Time) -> Result<bool, SocketError> {
        self.catch_up().await;
        let nic = awaited.first().map_or(0, |wait| wait.nic());
        let costs = self.interface(nic, |interface| interface.settings().kernel)?;
        let (mut slept, begun) = (false, self.now());
        while self.ready_at(awaited).is_none() && self.now() < until {
            self.suspend(Wait::Sockets { awaited: awaited.to_vec(), until }).await;
            slept = true;
        }
        let ready = self.ready_at(awaited);
        if let Some(at) = ready {
            self.advance_to(at);
        }
        if how == Waiting::Asleep {
            self.was_away(self.now().since(begun));
        }
        self.compute(match how {
            Waiting::Asleep if slept => costs.wake_up,
            Waiting::Asleep => Span::ZERO,
            Waiting::Asking => costs.syscall,
        });
        Ok(ready.is_some())
    }

    fn ready_at(&self, awaited: &[SocketWait]) -> Option<Time> {
        awaited.iter().filter_map(|wait| self.adapter(wait.nic(), |adapter| wait.ready_at(adapter))).min()
    }
    pub(super) fn interface<R>(&self, nic: usize, call: impl FnOnce(&mut Interface) -> R) -> Result<R, SocketError> {
        self.adapter(nic, |adapter| adapter.sockets().map(call)).ok_or(SocketError::NoInterface { nic })
    }
    pub(super) fn syscall(&self, nic: usize) -> Result<(), SocketError> {
        let syscall = self.interface(nic, |interface| interface.settings().kernel.syscall)?;
        self.compute(syscall);
        Ok(())
    }
    /// What one segment holds, in bytes: the copy of the next overlaps with the sending of this.
    fn chunk(&self, socket: Socket) -> Result<u64, SocketError> {
        self.interface(socket.nic, |interface| u64::from(interface.settings().longest(true)))
    }
    /// Copies bytes into the kernel and sends them.
    fn hand_down(&self, socket: Socket, bytes: u64) -> Result<(), SocketError> {
        // The kernel's copies of what is not acknowledged lie between one use of a page and the next.
        let held = self.interface(socket.nic, |interface| interface.unacknowledged(socket.id))?;
        self.compute(self.cpu().copy(Bytes(bytes), Bytes(held + 2 * bytes)));
        let now = self.now();
        let cost = self.interface(socket.nic, |interface| interface.write(now, socket.id, bytes))?;
        self.compute(cost);
        self.pay_interrupts(socket)
    }
    fn pay_interrupts(&self, socket: Socket) -> Result<(), SocketError> {
        self.pay(socket.nic, |interface, now| interface.busy_until(socket.id, now))
    }
    /// Pays what interrupts took from this core since the last call, as `stolen` says.
    pub(super) fn pay(&self, nic: usize, stolen: impl FnOnce(&mut Interface, Time) -> Span) -> Result<(), SocketError> {
        let now = self.now();
        let stolen = self.interface(nic, |interface| stolen(interface, now))?;
        self.compute(stolen);
        self.was_away(stolen);
        Ok(())
    }
    fn alive(&self, socket: Socket) -> Result<(), SocketError> {
        match self.interface(socket.nic, |interface| interface.error(socket.id))? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
