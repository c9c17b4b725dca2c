//! Messages between ranks of one node, through its memory.
//!
//! Source: D. Buntinas, G. Mercier, W. Gropp, "Implementation and Evaluation of Shared-Memory Communication and Synchronization
//! Operations in MPICH2 using the Nemesis Communication Subsystem", Parallel Computing 33(9), 2007 (a copy in, a copy out); the
//! same authors with B. Goglin and S. Moreaud, "Cache-Efficient, Intranode, Large-Message MPI Communication with
//! MPICH2-Nemesis", ICPP 2009 (one copy by the receiver, with help of the kernel); S. Chakraborty, H. Subramoni, D. K. Panda,
//! "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", CLUSTER 2017 (a call, n pages, the bytes).
//! Modelled: copies of both cores, chunks that both work on at a time, the single copy (CMA, KNEM, XPMEM) with its announcement and its
//! end, the lines that travel between cores and sockets (copied bytes were in no cache of the core: the other one had them last), memory bandwidth and socket links that all cores share. Cells of the FIFO lie
//! with the sender.
//! Not modelled: a limit of chunks in progress, locks of the kernel that several readers of one process wait for, mappings that are given up.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};

use super::buffer::Buffer;
use super::matching::Arrival;
use super::protocol::local::{Local, pages};
use super::request::RequestId;
use super::state::State;
use super::trace::note;
use super::wire::{Body, Envelope, Source};

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
        local: Local,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
    ) -> Result<(), ProgramError> {
        if let Some(single) = local.single(size) {
            let begun = process.now();
            process.compute(single.declaring(size));
            note(process, begun, &[], || format!("{}: declare {} pages", single.mechanism.name().to_uppercase(), pages(size)));
            self.write_line(process, peer, Body::RequestToSend { tag, size, sender: request, source: Source::Host });
            return Ok(());
        }
        let chunk = if size > local.memory.eager_limit { local.memory.chunk } else { size };
        self.send_chunks(process, chunk, (peer, tag, size), request, |state, process, part, _| {
            let begun = process.now();
            state.fetch_payload(process, peer, part);
            process.copy(Bytes(part.into()), Bytes(u64::MAX));
            note(process, begun, &[], || "copy into shared memory".to_owned());
            Ok(())
        })
    }

    /// Writes a message into shared memory in chunks; `bring` brings each of them there.
    pub fn send_chunks(
        &mut self,
        process: &Process,
        chunk: u32,
        (peer, tag, size): (u32, u32, u32),
        request: RequestId,
        bring: impl Fn(&State, &Process, u32, bool) -> Result<(), ProgramError>,
    ) -> Result<(), ProgramError> {
        let (message, here) = (self.number(), size.min(chunk));
        bring(self, process, here, true)?;
        self.write_line(process, peer, Body::Eager { tag, size, here, message });
        let mut left = size - here;
        while left > 0 {
            let part = left.min(chunk);
            left -= part;
            bring(self, process, part, false)?;
            self.write_line(process, peer, Body::Part { message, size: part });
        }
        self.requests.at(request).done = true;
        Ok(())
    }

    /// The receiver of a long message copies it out of the sender's memory and says so.
    pub fn copy_across(&mut self, process: &Process, arrival: Arrival, sender: RequestId, request: RequestId) -> Result<(), ProgramError> {
        if arrival.from != Source::Host || self.requests.at(request).buffer != Buffer::Host {
            return self.copy_to_or_from_gpu(process, arrival, sender, request);
        }
        self.reach_into(process, arrival.source, arrival.size)?;
        let begun = process.now();
        let there = self.domain_of(process, arrival.source);
        process.copy_between(Bytes(arrival.size.into()), Bytes(u64::MAX), (there, process.domain()));
        self.has_copied = true;
        note(process, begun, &[], || "one copy, out of the sender's memory".to_owned());
        self.requests.at(request).done = true;
        self.say(arrival.source, 0, Body::Finished { request: sender, pieces: 1 }, None)
    }

    /// Writes what waits for a peer on this node.
    pub fn flush_local(&mut self, process: &Process, peer: u32) -> Result<(), ProgramError> {
        while let Some(message) = self.connection(peer)?.messages.pop_front() {
            self.write_line(process, peer, message.body);
        }
        Ok(())
    }

    /// The receiver of a long message gets at the sender's memory.
    pub fn reach_into(&mut self, process: &Process, peer: u32, size: u32) -> Result<(), ProgramError> {
        let Some(single) = self.protocol.local.and_then(|local| local.single) else { return Ok(()) };
        let connection = self.connection(peer)?;
        let (begun, attached) = (process.now(), connection.attached);
        connection.attached = attached.max(size);
        process.compute(single.reaching(size, attached));
        note(process, begun, &[], || {
            let attaching =
                if single.costs.attach.is_some_and(|attach| attach > Span::ZERO) && attached < size { ", mapping the buffer" } else { "" };
            format!("{}: call, {} pages{attaching}", single.mechanism.name().to_uppercase(), pages(size))
        });
        Ok(())
    }

    /// The NUMA domain in whose memory a message from `source` is: that of the sender, if it is on this node.
    pub fn domain_of(&self, process: &Process, source: u32) -> u32 {
        self.connections.get(&source).filter(|connection| connection.local).map_or(process.domain(), |connection| connection.domain)
    }

    /// What the lines of a queue that is shared with `peer` cost each side of a message.
    pub fn fetch_lines(&self, process: &Process, peer: u32) {
        let lines = self.protocol.local.map_or(0, |local| local.memory.lines);
        process.compute((process.cpu().detect + process.crossing(self.domain_of(process, peer))) * u64::from(lines));
    }

    /// The way of the first line of a payload that is not in the line of its message: the other core had it last. Those behind it come
    /// while it is copied.
    pub fn fetch_payload(&self, process: &Process, peer: u32, size: u32) {
        if self.protocol.local.is_some_and(|local| size > local.memory.inline) {
            process.compute(process.cpu().detect + process.crossing(self.domain_of(process, peer)));
        }
    }

    pub fn write_line(&self, process: &Process, peer: u32, body: Body) {
        let begun = process.now();
        self.fetch_lines(process, peer);
        note(process, begun, &[], || "lines of the receiver's queue".to_owned());
        let visible = process.now() + process.crossing(self.domain_of(process, peer));
        self.memory.wires.put(self.me, peer, visible, Envelope { credits: 0, number: None, body });
        process.tell(peer, visible);
    }

    /// Notes how the line of a message came, which could be seen from `visible` on and was at `seen`.
    pub fn note_line(&self, process: &Process, peer: u32, (visible, seen): (Time, Time)) {
        let crossing = process.crossing(self.domain_of(process, peer));
        let written = Time::ZERO + visible.since(Time::ZERO).saturating_sub(crossing);
        let parts = [("line crosses between the sockets", crossing), ("line of the message is seen", seen.since(visible))];
        note(process, written, &parts, || "lines of the own queue".to_owned());
    }
}
