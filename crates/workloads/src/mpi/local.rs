//! Messages between ranks of one node, through its memory.
//!
//! Source: D. Buntinas, G. Mercier, W. Gropp, "Implementation and Evaluation of Shared-Memory Communication and Synchronization
//! Operations in MPICH2 using the Nemesis Communication Subsystem", Parallel Computing 33(9), 2007 (a copy in, a copy out); the
//! same authors with B. Goglin and S. Moreaud, "Cache-Efficient, Intranode, Large-Message MPI Communication with
//! MPICH2-Nemesis", ICPP 2009 (one copy by the receiver, with help of the kernel).
//! Modelled: copies of both cores, chunks that both work on at a time, the single copy with its announcement and its end, the
//! lines that travel between cores, memory bandwidth that all cores share.
//! Not modelled: a limit of chunks under way, sockets, what the kernel locks during a single copy.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Bytes;

use super::buffer::Buffer;
use super::matching::Arrival;
use super::protocol::Local;
use super::request::RequestId;
use super::state::State;
use super::wire::{Body, Channel, Envelope, Source, Wires};

impl State {
    /// How this rank talks to `peer`, if that is on the same node.
    pub fn local(&mut self, peer: u32) -> Result<Option<Local>, ProgramError> {
        let local = self.protocol.local;
        Ok(local.filter(|_| self.connections.get(&peer).is_some_and(|connection| connection.local)))
    }

    /// Sends (peer, tag, size) as `request`.
    pub fn send_local(
        &mut self,
        process: &Process,
        wires: &Wires,
        local: Local,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
    ) -> Result<(), ProgramError> {
        if local.single_copy && size > local.eager_limit {
            self.write_line(process, wires, peer, Body::RequestToSend { tag, size, sender: request, source: Source::Host });
            return Ok(());
        }
        let chunk = if size > local.eager_limit { local.chunk } else { size };
        self.send_chunks(process, wires, chunk, (peer, tag, size), request, |_, process, part, first| {
            process.copy(Bytes(part.into()), if first { Bytes(part.into()) * 2 } else { Bytes(u64::MAX) });
            Ok(())
        })
    }

    /// Writes a message into shared memory in chunks; `bring` brings each of them there.
    pub fn send_chunks(
        &mut self,
        process: &Process,
        wires: &Wires,
        chunk: u32,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
        bring: impl Fn(&State, &Process, u32, bool) -> Result<(), ProgramError>,
    ) -> Result<(), ProgramError> {
        let (message, here) = (self.number(), size.min(chunk));
        bring(self, process, here, true)?;
        self.write_line(process, wires, peer, Body::Eager { tag, size, here, message });
        let mut left = size - here;
        while left > 0 {
            let part = left.min(chunk);
            left -= part;
            bring(self, process, part, false)?;
            self.write_line(process, wires, peer, Body::Part { message, size: part });
        }
        self.requests.at(request).done = true;
        Ok(())
    }

    /// The receiver of a long message copies it out of the sender's memory and says so.
    pub fn copy_across(&mut self, process: &Process, arrival: Arrival, sender: RequestId, request: RequestId) -> Result<(), ProgramError> {
        if arrival.from != Source::Host || self.requests.at(request).buffer != Buffer::Host {
            return self.copy_to_or_from_gpu(process, arrival, sender, request);
        }
        if let Some(local) = self.protocol.local {
            process.compute(local.single_copy_overhead);
        }
        process.copy(Bytes(arrival.size.into()), Bytes(u64::MAX));
        self.requests.at(request).done = true;
        self.say(arrival.source, 0, Body::Finished { request: sender, pieces: 1 }, None)
    }

    /// Writes what waits for a peer on this node.
    pub fn flush_local(&mut self, process: &Process, wires: &Wires, peer: u32) -> Result<(), ProgramError> {
        while let Some(message) = self.connection(peer)?.messages.pop_front() {
            self.write_line(process, wires, peer, message.body);
        }
        Ok(())
    }

    /// What the lines of a queue of this node cost each side of a message.
    pub fn fetch_lines(&self, process: &Process) {
        let lines = self.protocol.local.map_or(0, |local| local.lines);
        process.compute(process.cpu().detect * u64::from(lines));
    }

    pub fn write_line(&self, process: &Process, wires: &Wires, peer: u32, body: Body) {
        self.fetch_lines(process);
        let visible = process.now();
        wires.put(self.me, peer, Envelope { rail: 0, channel: Channel::Memory(visible), credits: 0, order: None, body });
        process.tell(peer, visible);
    }
}
