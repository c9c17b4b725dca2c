//! A receiver: receives in the program's buffer, posted ahead; numbers that show what is missing; RDMA reads of it; copies that put right what landed elsewhere.
//!
//! A gap in the numbers is a loss: one tree brings packets in order. If nothing comes for a while the receiver reads how far the sender
//! has come, and what should be here by then is lost. Lost packets are read from the sender's buffer into a spare one at once; in the end, when no
//! receive is posted any more, everything goes where it belongs.
//! Receives that no packet used are used up by datagrams to the own queue pair: the next broadcast may have another buffer.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{RecvWr, Remote, SendFlags, SendWr, Sge, WatchId, Wc, WcOpcode};

use super::arrivals::Landing;
use super::broadcast::Course;
use super::open::{BACKUP, CREDIT, HEADERS, PROGRESS, READS, Receiving, SPARE};
use super::relay::Passing;
use super::settings::IMMEDIATE;
use crate::buffer::Buffer;

/// A read that is outstanding.
#[derive(Debug, Clone)]
enum Reading {
    /// Packets that were lost.
    Lost(Range<u32>),
    /// How far the sender was; asked at this time.
    Progress(Time),
}

/// What is in progress of a broadcast at a receiver.
pub(super) struct Incoming<'a> {
    receiving: &'a Receiving,
    pub landing: Landing,
    /// Chunks whose receives are posted, those for which credit went up, those of which nothing more comes by itself, and those that are here.
    credited: u32,
    told: u32,
    past: u32,
    done: u32,
    /// Right chunks that were passed on.
    right: Vec<bool>,
    /// Receives posted and used.
    posted: u64,
    used: u64,
    readings: BTreeMap<u64, Reading>,
    to_read: VecDeque<Range<u32>>,
    next: u64,
    /// Packets for which there is a place in the spare buffer.
    spare: u32,
    /// When anything came last, and how often the wait has doubled since.
    heard: Time,
    patience: u32,
    /// Everything is at its place; everybody below has that, too.
    settled: bool,
    over: bool,
}

impl<'a> Incoming<'a> {
    /// Nothing has come yet.
    pub fn begin(course: &Course<'_>, receiving: &'a Receiving) -> Result<Incoming<'a>, ProgramError> {
        let landing = Landing::new(course.packets, course.multicast.settings.chunk);
        Ok(Incoming {
            receiving,
            right: vec![false; landing.chunks() as usize],
            landing,
            credited: 0,
            told: 0,
            past: 0,
            done: 0,
            posted: 0,
            used: 0,
            readings: BTreeMap::new(),
            to_read: VecDeque::new(),
            next: FIRST_READ,
            spare: 0,
            heard: course.process.now(),
            patience: 0,
            settled: false,
            over: false,
        })
    }

    /// Posts what there is room for, and ends the broadcast when everything is here.
    pub async fn advance(&mut self, course: &Course<'_>, passing: &mut Passing) -> Result<(), ProgramError> {
        if self.over {
            return Ok(());
        }
        while self.done < course.chunks && self.landing.has(self.done) {
            if self.landing.is_right(self.done) {
                self.right[self.done as usize] = true;
                passing.has(self.done);
            }
            self.done += 1;
        }
        // With the spare buffer full, what is in flight comes first.
        if self.spare >= SPARE_PACKETS && self.done == self.credited {
            self.settle(course).await?;
        }
        while self.past < course.chunks && self.landing.next() >= self.landing.packets_of(self.past).end {
            self.past += 1;
        }
        let settings = &course.multicast.settings;
        let ahead = (self.past + settings.ahead()).min(self.done + settings.ahead() + settings.slack());
        while self.credited < course.chunks.min(ahead) && self.spare < SPARE_PACKETS {
            self.grant(course)?;
        }
        while self.readings.len() < MOST_READS
            && let Some(range) = self.to_read.pop_front()
        {
            self.read(course, range)?;
        }
        self.tell(course)?;
        if !self.settled && self.landing.is_complete() && self.readings.is_empty() {
            self.settle(course).await?;
            for chunk in (0..course.chunks).filter(|chunk| !self.right[*chunk as usize]) {
                passing.has(chunk);
            }
            self.settled = true;
        }
        if self.settled && self.told == course.chunks {
            let finish = self.finish(course);
            if finish.is_none_or(|(watch, count)| course.reached(watch, count)) {
                if finish.is_some() {
                    self.write(course, course.multicast.settings.depth.into())?;
                }
                self.over = true;
            }
        }
        Ok(())
    }

    /// Gives credit for the chunks that have receives here and below.
    fn tell(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        while self.told < self.credited {
            let number = course.first.1 + u64::from(self.told);
            let (watch, count) = self.receiving.gathering.credit(number);
            if !course.reached(watch, count) {
                break;
            }
            self.write(course, number % u64::from(course.multicast.settings.depth))?;
            self.told += 1;
        }
        Ok(())
    }

    /// The notes of those below that they have everything, where the source waits for them.
    fn finish(&self, course: &Course<'_>) -> Option<(WatchId, u64)> {
        let gathering = &self.receiving.gathering;
        course.stays().map(|_| (gathering.finished, gathering.kids * course.books(|books| books.finishes)))
    }

    /// What it waits for beside completions.
    pub fn awaited(&self, course: &Course<'_>) -> Option<(usize, WatchId, u64)> {
        let credit = (self.told < self.credited).then(|| self.receiving.gathering.credit(course.first.1 + u64::from(self.told)));
        let finish = if self.settled && !self.over { self.finish(course) } else { None };
        credit.or(finish).map(|(watch, count)| (course.multicast.nic, watch, count))
    }

    /// Posts the receives of the next chunk. After losses the next packet comes to a later place than there are receives.
    fn grant(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        let multicast = course.multicast;
        let (settings, into) = (&multicast.settings, multicast.user(course.buffer)?);
        let (first, count) = course.packets_of(self.credited);
        let skipped = u64::from(self.landing.next()).saturating_sub(self.used);
        while self.posted + skipped < u64::from(first + count) {
            let place = self.posted + skipped;
            let header = Sge { addr: multicast.host.addr + HEADERS, length: GRH + settings.header - IMMEDIATE, lkey: multicast.host.lkey };
            let mut wr = RecvWr::new(place, header);
            wr.sge.push(Sge { addr: into.addr + place * u64::from(settings.payload), length: settings.payload, lkey: into.lkey });
            course.process.post_recv(multicast.nic, self.receiving.ud, &wr)?;
            self.posted += 1;
        }
        self.credited += 1;
        Ok(())
    }

    /// Writes a counter at the rank above: it has one of each below it for each place of the pinned buffer, and one for the end.
    fn write(&mut self, course: &Course<'_>, place: u64) -> Result<(), ProgramError> {
        let multicast = course.multicast;
        let (to, stride) = self.receiving.counters;
        let own = Sge { addr: multicast.host.addr + HEADERS, length: CREDIT as u32, lkey: multicast.host.lkey };
        let wr =
            SendWr::write(COUNTER, own, Remote { addr: to.addr + place * stride, rkey: to.rkey }).with_flags(SendFlags::INLINE).signaled();
        Ok(course.process.post_send(multicast.nic, self.receiving.up, &wr)?)
    }

    /// A wait has ended with nothing: asks how far the source is.
    pub fn ask(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        if self.over || !self.readings.is_empty() || self.landing.is_complete() {
            return Ok(());
        }
        let multicast = course.multicast;
        let (from, now) = (self.receiving.from.host, course.process.now());
        let own = Sge { addr: multicast.host.addr + PROGRESS, length: CREDIT as u32, lkey: multicast.host.lkey };
        course.outcome(|outcome| outcome.probes += 1);
        self.post_read(course, own, Remote { addr: from.addr + PROGRESS, rkey: from.rkey }, Reading::Progress(now))
    }

    /// Reads lost packets, of one chunk, into the spare buffer.
    fn read(&mut self, course: &Course<'_>, range: Range<u32>) -> Result<(), ProgramError> {
        let multicast = course.multicast;
        let settings = &multicast.settings;
        let (chunk, first) = (range.start / settings.chunk, u64::from(range.start) * u64::from(settings.payload));
        let place = (course.first.1 + u64::from(chunk)) % u64::from(settings.depth);
        let within = first - u64::from(chunk) * settings.chunk_bytes();
        let contact = self.receiving.from;
        let (window, offset) = match course.stays() {
            None => (contact.host, BACKUP + place * settings.chunk_bytes() + within),
            Some(Buffer::Device) => {
                (contact.device.ok_or_else(|| ProgramError("the source's GPU is out of reach of its adapter".to_owned()))?, first)
            }
            Some(_) => (contact.host, first),
        };
        let into = multicast.user(course.buffer)?;
        let bytes = course.bytes(range.start, range.end - range.start);
        let addr = into.addr + SPARE + u64::from(self.spare) * u64::from(settings.payload);
        self.spare += range.end - range.start;
        let own = Sge { addr, length: bytes.0 as u32, lkey: into.lkey };
        course.outcome(|outcome| {
            outcome.lost += u64::from(range.end - range.start);
            outcome.gets += 1;
            outcome.got += bytes.0;
        });
        self.post_read(course, own, Remote { addr: window.addr + offset, rkey: window.rkey }, Reading::Lost(range))
    }

    fn post_read(&mut self, course: &Course<'_>, own: Sge, remote: Remote, reading: Reading) -> Result<(), ProgramError> {
        let number = self.next;
        self.next += 1;
        self.readings.insert(number, reading);
        Ok(course.process.post_send(course.multicast.nic, self.receiving.rc, &SendWr::read(number, own, remote).signaled())?)
    }

    /// Packets that will not come: a read for the part of each chunk, as each is somewhere else at the source.
    fn miss(&mut self, course: &Course<'_>, lost: Range<u32>) {
        let chunk = course.multicast.settings.chunk;
        let mut first = lost.start;
        while first < lost.end {
            let end = lost.end.min((first / chunk + 1) * chunk);
            self.to_read.push_back(first..end);
            first = end;
        }
    }

    /// Something has come, or has been read.
    pub fn handle(&mut self, course: &Course<'_>, wc: &Wc) -> Result<(), ProgramError> {
        let now = course.process.now();
        if wc.opcode == WcOpcode::Recv {
            course.process.compute(course.multicast.settings.packet_overhead);
            self.used += 1;
            (self.heard, self.patience) = (now, 0);
            let packet = wc.imm.map(|number| number.wrapping_sub(course.first.0 as u32)).filter(|packet| *packet < course.packets);
            let Some(packet) = packet else {
                // Of an earlier broadcast, in which it was given up.
                self.landing.spoil(wc.wr_id as u32);
                return Ok(());
            };
            let lost = self.landing.land(wc.wr_id as u32, packet);
            self.miss(course, lost);
            return Ok(());
        }
        match self.readings.remove(&wc.wr_id) {
            Some(Reading::Lost(range)) => {
                self.heard = now;
                let settings = &course.multicast.settings;
                for packet in range {
                    let number = course.first.1 + u64::from(packet / settings.chunk);
                    let place = (number % u64::from(settings.depth)) as usize;
                    let is_there = course.stays().is_some() || course.books(|books| books.held.get(place) == Some(&Some(number)));
                    self.landing.fetch(packet, if is_there { packet } else { u32::MAX });
                }
            }
            Some(Reading::Progress(asked)) => {
                let through = course.books(|books| books.sent_by(asked)).saturating_sub(course.first.0);
                // Saturated: a broadcast has fewer packets, and all of them were sent.
                let lost = self.landing.declare(u32::try_from(through).unwrap_or(u32::MAX));
                self.heard = now;
                self.patience = if lost.is_empty() { (self.patience + 1).min(MOST_DOUBLINGS) } else { 0 };
                self.miss(course, lost);
            }
            None => {}
        }
        Ok(())
    }

    /// How long to wait for a packet: not while reads are outstanding, which come.
    pub fn deadline(&self, course: &Course<'_>) -> Time {
        if self.over || !self.readings.is_empty() || self.landing.is_complete() {
            return Time::MAX;
        }
        self.heard + course.multicast.settings.timeout * (1 << self.patience)
    }

    /// Uses up the receives that are left, and moves what lies elsewhere to its place.
    async fn settle(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        self.use_up(course).await?;
        let moves = self.landing.moves();
        if !moves.is_empty() {
            let memory = course.rank.state.borrow().home.memory(course.buffer)?;
            let mut copies = Vec::new();
            let displaced = moves.iter().filter(|run| !run.spare).map(|run| u64::from(run.count)).sum::<u64>();
            course.outcome(|outcome| outcome.moved += displaced);
            // What stands at the place of something else goes through another buffer: places overlap.
            let twice = moves.iter().filter(|run| !run.spare).chain(&moves);
            for run in twice {
                let bytes = course.bytes(run.packet, run.count);
                if course.buffer == Buffer::Host {
                    course.process.copy(bytes, Bytes(u64::MAX));
                } else {
                    copies.push(course.process.begin_copy(memory, memory, bytes)?);
                }
            }
            for id in copies {
                course.process.wait_copy(id).await?;
            }
            self.landing.moved();
        }
        (self.posted, self.spare) = (self.used, 0);
        Ok(())
    }

    async fn use_up(&mut self, course: &Course<'_>) -> Result<(), ProgramError> {
        let (process, multicast) = (course.process, course.multicast);
        while self.used < self.posted {
            for _ in self.used..self.posted {
                let own = Sge { addr: multicast.host.addr + HEADERS, length: 1, lkey: multicast.host.lkey };
                let wr = SendWr::send(COUNTER, own).with_imm(u32::MAX).to(self.receiving.own).signaled();
                process.post_send(multicast.nic, self.receiving.ud, &wr)?;
            }
            // Datagrams may be lost on the way to the switch and back.
            let until = process.now() + multicast.settings.timeout;
            while self.used < self.posted && process.wait_any_until(&[(multicast.nic, multicast.cq)], &[], until).await {
                for wc in process.poll_cq(multicast.nic, multicast.cq, BATCH).await {
                    if wc.opcode == WcOpcode::Recv {
                        self.used += 1;
                        self.landing.spoil(wc.wr_id as u32);
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything is here and at its place.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

/// In front of each datagram, in bytes. Basis: standard.
const GRH: u32 = 40;
/// `wr_id` of requests whose end nobody waits for; those of reads begin behind it.
const COUNTER: u64 = 0;
const FIRST_READ: u64 = 1;
/// Reads outstanding at a time: what the queue takes, beside counters. Basis: assumed.
const MOST_READS: usize = READS as usize / 2;
/// Packets that the spare buffer holds. Basis: assumed.
const SPARE_PACKETS: u32 = 1024;
/// The wait doubles so often at most. Basis: assumed.
const MOST_DOUBLINGS: u32 = 6;
/// Completions taken at a time. Basis: assumed.
const BATCH: usize = 16;
