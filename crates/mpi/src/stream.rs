//! Connections over sockets of the kernel: messages as bytes of a stream, read and written in the progress loop.
//!
//! Source: Open MPI, opal/mca/btl/tcp: sockets that do not block, a header in front of each fragment, polling by `epoll`.
//! Modelled: one socket per peer, writes that find no room go on later, reads of all that is there.
//! Not modelled: several sockets or interfaces per peer, the read of headers apart from payload.

use std::collections::VecDeque;

use fabriscope_node::socket::SocketWait;
use fabriscope_node::{Process, ProgramError, Socket};
use fabriscope_tcp::kernel::Awaited;
use fabriscope_verbs::AppWords;

use super::request::RequestId;

/// A socket and what is known of its two streams.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub socket: Socket,
    /// Bytes read so far.
    pub read: u64,
    /// Bytes that the library wants written, and those the kernel has taken.
    wanted: u64,
    written: u64,
    /// Requests that are done when so many bytes are written.
    finishes: VecDeque<(u64, RequestId)>,
}

impl Stream {
    pub fn new(socket: Socket) -> Stream {
        Stream { socket, read: 0, wanted: 0, written: 0, finishes: VecDeque::new() }
    }
    /// Takes a message of `bytes` that says `words`; `finishes` is done when all of it is written.
    pub fn put(&mut self, process: &Process, bytes: u64, words: AppWords, finishes: Option<RequestId>) -> Result<(), ProgramError> {
        self.wanted += bytes;
        self.finishes.extend(finishes.map(|request| (self.wanted, request)));
        Ok(process.say(self.socket, self.wanted, words)?)
    }
    /// What the next message says, if all of it has been read.
    pub fn next(&self, process: &Process) -> Result<Option<AppWords>, ProgramError> {
        Ok(process.words(self.socket, self.read)?)
    }
    /// Whether the kernel has not taken all yet.
    pub fn has_unwritten(&self) -> bool {
        self.wanted > self.written
    }
    /// Writes what there is room for; the requests that are done with that.
    pub fn write(&mut self, process: &Process) -> Result<Vec<RequestId>, ProgramError> {
        if self.wanted > self.written {
            self.written += process.try_write(self.socket, self.wanted - self.written)?;
        }
        let mut done = Vec::new();
        while let Some(&(end, request)) = self.finishes.front().filter(|(end, _)| *end <= self.written) {
            debug_assert!(end <= self.wanted);
            self.finishes.pop_front();
            done.push(request);
        }
        Ok(done)
    }
    pub fn waits(&self) -> impl Iterator<Item = SocketWait> + use<> {
        let room = (self.wanted > self.written).then_some(SocketWait::Ready(self.socket, Awaited::Writable));
        [SocketWait::Ready(self.socket, Awaited::Readable)].into_iter().chain(room)
    }
}
