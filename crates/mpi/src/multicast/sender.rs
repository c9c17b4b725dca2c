//! The source: copy a chunk into the pinned buffer, gather header and payload from there, send it to the group. All three go on at once.
//!
//! The core asks for copies as far as the buffer has room, posts a chunk when it is copied and every receiver has given credit for it, and takes
//! a completion for each chunk. It does nothing for a packet that is lost: receivers read that from the pinned buffer.
//! Without the copy (data in the host, or gathered by reads of the GPU) the data stays in the program's buffer: the source then waits until
//! everybody says that he has all of it.

use std::collections::BTreeMap;

use fabriscope_node::{CopyId, Memory, ProgramError};
use fabriscope_verbs::{Mr, SendWr, Sge, WatchId, Wc};

use super::broadcast::{CopyOf, Course};
use super::broadcast_state::Step;
use super::open::{BACKUP, CREDIT, HEADERS, Sending};
use super::settings::{Gather, IMMEDIATE};
use crate::buffer::Buffer;

/// What is in progress of a broadcast at its source. Chunks pass these counts in turn.
pub(super) struct Outgoing<'a> {
    sending: &'a Sending,
    chunks: u32,
    /// The memory out of which chunks are copied first.
    copies: Option<(Memory, Memory)>,
    from: Mr,
    begun: u32,
    copied: u32,
    posted: u32,
    sent: u32,
    /// Everybody has to say that he has all of it, and how many notes there are then.
    finish: Option<u64>,
    finished: bool,
}

impl<'a> Outgoing<'a> {
    /// Nothing is sent yet.
    pub fn begin(course: &Course<'_>, sending: &'a Sending) -> Result<Outgoing<'a>, ProgramError> {
        let multicast = course.multicast;
        let copied = course.buffer == Buffer::Device && multicast.settings.gather == Gather::Pipeline;
        let chunks = if sending.gathering.kids == 0 { 0 } else { course.chunks };
        let copies = if copied && chunks > 0 {
            let home = &course.rank.state.borrow().home;
            Some((home.memory(Buffer::Device)?, home.memory(Buffer::Host)?))
        } else {
            None
        };
        let finish = (!copied && chunks > 0).then(|| {
            course.books(|books| {
                books.finishes += 1;
                books.finishes * sending.gathering.kids
            })
        });
        course.books(|books| books.stays = [books.stays[1], (course.first.2, (!copied).then_some(course.buffer))]);
        Ok(Outgoing {
            sending,
            chunks,
            copies,
            from: if copied { multicast.host } else { multicast.user(course.buffer)? },
            begun: 0,
            copied: if copied { 0 } else { chunks },
            posted: 0,
            sent: 0,
            finished: finish.is_none(),
            finish,
        })
    }

    /// Asks for the copies and posts the chunks for which there is room.
    pub fn advance(&mut self, course: &Course<'_>, copies: &mut BTreeMap<CopyId, CopyOf>) -> Result<(), ProgramError> {
        let process = course.process;
        while let Some((device, host)) = self.copies
            && self.begun < self.chunks
            && self.reuse(course).is_none_or(|(watch, count)| course.reached(watch, count))
        {
            let (number, depth) = (self.number(course, self.begun), u64::from(course.multicast.settings.depth));
            course.books(|books| books.held[(number % depth) as usize] = Some(number));
            self.note(course, Step::Copy, self.begun);
            let (first, count) = course.packets_of(self.begun);
            copies.insert(process.begin_copy(device, host, course.bytes(first, count))?, CopyOf::Staged);
            self.begun += 1;
        }
        while self.posted < self.copied && self.posted - self.sent < course.multicast.settings.under_way() && self.is_granted(course) {
            // The core looks at the counters of those that write to it.
            process.compute(process.cpu().poll_empty * (self.sending.gathering.kids * CREDIT).div_ceil(LINE));
            self.post(course, self.posted)?;
            self.posted += 1;
        }
        if let Some(count) = self.finish.filter(|_| self.sent == self.chunks) {
            self.finished = course.reached(self.sending.gathering.finished, count);
        }
        Ok(())
    }

    fn number(&self, course: &Course<'_>, chunk: u32) -> u64 {
        course.first.1 + u64::from(chunk)
    }

    fn is_granted(&self, course: &Course<'_>) -> bool {
        let (watch, count) = self.sending.gathering.credit(self.number(course, self.posted));
        course.reached(watch, count)
    }

    /// The credits that say that every receiver has the chunk which is in the place of the next one: they are for one that comes later.
    fn reuse(&self, course: &Course<'_>) -> Option<(WatchId, u64)> {
        let settings = &course.multicast.settings;
        let held = self.number(course, self.begun).checked_sub(settings.depth.into())?;
        Some(self.sending.gathering.credit(held + u64::from(settings.ahead() + settings.slack())))
    }

    fn post(&self, course: &Course<'_>, chunk: u32) -> Result<(), ProgramError> {
        let (process, multicast) = (course.process, course.multicast);
        let Some(to) = self.sending.to else { return Ok(()) };
        let settings = &multicast.settings;
        let (first, count) = course.packets_of(chunk);
        let place = self.number(course, chunk) % u64::from(settings.depth);
        let base = if self.copies.is_some() {
            multicast.host.addr + BACKUP + place * settings.chunk_bytes()
        } else {
            self.from.addr + u64::from(first) * u64::from(settings.payload)
        };
        self.note(course, Step::Post, chunk);
        let mut list = Vec::with_capacity(BATCH as usize);
        for packet in first..first + count {
            let header = Sge { addr: multicast.host.addr + HEADERS, length: settings.header - IMMEDIATE, lkey: multicast.host.lkey };
            let addr = base + u64::from(packet - first) * u64::from(settings.payload);
            let mut wr = SendWr::send(SENT | u64::from(chunk), header).with_imm((course.first.0 + u64::from(packet)) as u32).to(to);
            wr.sge.push(Sge { addr, length: course.bytes(packet, 1).0 as u32, lkey: self.from.lkey });
            let last = packet + 1 == first + count;
            list.push(if last { wr.signaled() } else { wr });
            if last || list.len() == BATCH as usize {
                process.compute(settings.packet_overhead * list.len() as u64);
                process.post_send_list(multicast.nic, self.sending.ud, &list)?;
                list.clear();
            }
        }
        Ok(())
    }

    /// A chunk has been copied: the engine serves in turn.
    pub fn staged(&mut self) {
        self.copied += 1;
    }

    /// The packets of a chunk have left.
    pub fn handle(&mut self, course: &Course<'_>, wc: &Wc) {
        self.note(course, Step::Sent, wc.wr_id as u32);
        self.sent += 1;
        let (first, count) = course.packets_of(wc.wr_id as u32);
        let through = course.first.0 + u64::from(first + count);
        let now = course.process.now();
        course.books(|books| books.sent.push((now, through)));
    }

    fn note(&self, course: &Course<'_>, step: Step, chunk: u32) {
        if course.multicast.board.noting {
            let step = (course.source, step, self.number(course, chunk), course.process.now());
            course.outcome(|outcome| outcome.steps.push(step));
        }
    }

    /// What the source waits for beside completions and copies.
    pub fn awaited(&self, course: &Course<'_>) -> Vec<(usize, WatchId, u64)> {
        let grant = (self.posted < self.copied).then(|| self.sending.gathering.credit(self.number(course, self.posted)));
        let reuse = self.copies.filter(|_| self.begun < self.chunks).and_then(|_| self.reuse(course));
        let finish = self.finish.map(|count| (self.sending.gathering.finished, count));
        let awaited = grant.into_iter().chain(reuse).chain(finish);
        awaited
            .filter(|(watch, count)| !course.reached(*watch, *count))
            .map(|(watch, count)| (course.multicast.nic, watch, count))
            .collect()
    }

    /// Everything has left, and nobody needs the program's buffer any more.
    pub fn is_over(&self) -> bool {
        self.sent == self.chunks && self.finished
    }
}

impl Course<'_> {
    /// So many messages have landed in a watched range by now.
    pub(super) fn reached(&self, watch: WatchId, count: u64) -> bool {
        let now = self.process.now();
        self.process.nic(self.multicast.nic, |n| n.watch_count(watch, now)) >= count
    }
}

/// `wr_id` of the last packet of a chunk, with the number of the chunk; those of receivers are below.
pub(super) const SENT: u64 = 1 << 32;
/// Requests under one doorbell. Basis: assumed.
const BATCH: u32 = 32;
/// A line of a cache, in bytes.
const LINE: u64 = 64;
