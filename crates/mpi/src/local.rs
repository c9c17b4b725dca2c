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
//! Not modelled: a limit of chunks under way, locks of the kernel that several readers of one process wait for, mappings that are given up.

use fabriscope_catalog::{Mechanism, SharedMemory};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};

use super::buffer::Buffer;
use super::matching::Arrival;
use super::request::RequestId;
use super::state::State;
use super::wire::{Body, Channel, Envelope, Source, Wires};

/// Messages through the memory of a node; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// Largest message that is copied in and out at once.
    pub eager_limit: u32,
    /// Size of a chunk of longer ones that go through shared memory.
    pub chunk: u32,
    /// Lines that each side of a message fetches from another core, beside the one that the receiver waits for.
    pub lines: u32,
    /// Payload that travels in that line.
    pub inline: u32,
    /// Long messages are copied by the receiver alone.
    pub single: Option<Single>,
}

/// What a single copy costs beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single {
    /// Its name.
    pub mechanism: Mechanism,
    /// Longer messages are copied so.
    pub above: u32,
    /// The receiver's core time of a message, and of each of its pages.
    pub call: (Span, Span),
    /// The sender's.
    pub declare: (Span, Span),
    /// The receiver's of a buffer that it maps, and of each page that it touches first.
    pub attach: (Span, Span),
}

impl Local {
    /// How a message of `size` bytes is copied once, if it is.
    #[must_use]
    pub fn single(&self, size: u32) -> Option<Single> {
        self.single.filter(|single| size > single.above)
    }
}

impl Single {
    /// The sender's core time: `declare + ⌈size / page⌉ declare_page`.
    #[must_use]
    pub fn declaring(&self, size: u32) -> Span {
        self.declare.0 + self.declare.1 * pages(size)
    }
    /// The receiver's core time before it copies: `call + ⌈size / page⌉ page`, and for what of the buffer is not `attached` yet
    /// `attach + n attach_page`.
    #[must_use]
    pub fn reaching(&self, size: u32, attached: u32) -> Span {
        let fresh = pages(size).saturating_sub(pages(attached));
        let attaching = if fresh > 0 { self.attach.0 + self.attach.1 * fresh } else { Span::ZERO };
        self.call.0 + self.call.1 * pages(size) + attaching
    }
}

impl From<&SharedMemory> for Local {
    fn from(part: &SharedMemory) -> Local {
        let bytes = |size: Bytes| u32::try_from(size.0).unwrap_or(u32::MAX);
        let span = |span: &Option<fabriscope_catalog::Sourced<Span>>| span.as_ref().map_or(Span::ZERO, |span| **span);
        let eager_limit = bytes(*part.eager_limit);
        Local {
            eager_limit,
            chunk: bytes(*part.chunk).max(1),
            lines: *part.lines,
            inline: bytes(*part.inline),
            single: part.costs(part.mechanism).map(|costs| Single {
                mechanism: part.mechanism,
                above: bytes(*costs.above).max(eager_limit),
                call: (*costs.call, *costs.page),
                declare: (span(&costs.declare), span(&costs.declare_page)),
                attach: (span(&costs.attach), span(&costs.attach_page)),
            }),
        }
    }
}

/// Pages of host memory.
fn pages(size: u32) -> u64 {
    u64::from(size.div_ceil(PAGE))
}

/// A page of host memory, in bytes. Basis: standard (x86-64 and Arm base pages).
const PAGE: u32 = 4096;

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
        if let Some(single) = local.single(size) {
            let begun = process.now();
            process.compute(single.declaring(size));
            note(process, begun, &[], || format!("{}: declare {} pages", single.mechanism.name().to_uppercase(), pages(size)));
            self.write_line(process, wires, peer, Body::RequestToSend { tag, size, sender: request, source: Source::Host });
            return Ok(());
        }
        let chunk = if size > local.eager_limit { local.chunk } else { size };
        self.send_chunks(process, wires, chunk, (peer, tag, size), request, |state, process, part, _| {
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
    pub fn flush_local(&mut self, process: &Process, wires: &Wires, peer: u32) -> Result<(), ProgramError> {
        while let Some(message) = self.connection(peer)?.messages.pop_front() {
            self.write_line(process, wires, peer, message.body);
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
            let attaching = if single.attach.0 > Span::ZERO && attached < size { ", mapping the buffer" } else { "" };
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
        let lines = self.protocol.local.map_or(0, |local| local.lines);
        process.compute((process.cpu().detect + process.crossing(self.domain_of(process, peer))) * u64::from(lines));
    }

    /// The way of the first line of a payload that is not in the line of its message: the other core had it last. Those behind it come
    /// while it is copied.
    pub fn fetch_payload(&self, process: &Process, peer: u32, size: u32) {
        if self.protocol.local.is_some_and(|local| size > local.inline) {
            process.compute(process.cpu().detect + process.crossing(self.domain_of(process, peer)));
        }
    }

    pub fn write_line(&self, process: &Process, wires: &Wires, peer: u32, body: Body) {
        let begun = process.now();
        self.fetch_lines(process, peer);
        note(process, begun, &[], || "lines of the receiver's queue".to_owned());
        let visible = process.now() + process.crossing(self.domain_of(process, peer));
        wires.put(self.me, peer, Envelope { rail: 0, channel: Channel::Memory(visible), credits: 0, order: None, body });
        process.tell(peer, visible);
    }

    /// Notes how the line of a message came, which was seen at `seen`.
    pub fn note_line(&self, process: &Process, peer: u32, channel: Channel, seen: Time) {
        let Channel::Memory(visible) = channel else { return };
        let crossing = process.crossing(self.domain_of(process, peer));
        let written = Time::ZERO + visible.since(Time::ZERO).saturating_sub(crossing);
        let parts = [("line crosses between the sockets", crossing), ("line of the message is seen", seen.since(visible))];
        note(process, written, &parts, || "lines of the own queue".to_owned());
    }
}

/// Notes work for `explain`; parts that take no time are left out.
pub(super) fn note(process: &Process, begun: Time, parts: &[(&str, Span)], last: impl FnOnce() -> String) {
    let parts: Vec<(&str, Span)> = parts.iter().copied().filter(|(_, span)| *span > Span::ZERO).collect();
    if process.now() > begun {
        process.note_work(begun, &parts, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_copy_costs_a_call_and_its_pages() {
        let ns = Span::from_ns;
        let cma = Single {
            mechanism: Mechanism::Cma,
            above: 8192,
            call: (ns(500), ns(50)),
            declare: Default::default(),
            attach: Default::default(),
        };
        // 1 MiB are 256 pages, a byte more is another.
        assert_eq!(cma.reaching(1 << 20, 0), ns(500 + 256 * 50));
        assert_eq!(cma.reaching((1 << 20) + 1, 0), ns(500 + 257 * 50));
        assert_eq!(cma.declaring(1 << 20), Span::ZERO);
        let xpmem = Single { mechanism: Mechanism::Xpmem, call: (ns(100), ns(0)), attach: (ns(2000), ns(250)), ..cma };
        // A region is mapped once.
        assert_eq!(xpmem.reaching(8192, 0), ns(100 + 2000 + 2 * 250));
        assert_eq!(xpmem.reaching(8192, 8192), ns(100));
        assert_eq!(xpmem.reaching(12_288, 8192), ns(100 + 2000 + 250));
        let local = Local { eager_limit: 4096, chunk: 4096, lines: 2, inline: 24, single: Some(cma) };
        assert_eq!((local.single(8192), local.single(8193)), (None, Some(cma)));
    }
}
