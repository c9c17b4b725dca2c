//! Following single messages: contiguous intervals on the path of their last packet.
//!
//! Only packets with the `TRACED` flag come here, so an ordinary run pays one test of a bit per hop.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use fabriscope_engine::{Followed, MessageTrace, Moment, Stage, StageSpan, Timeline};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::Packet;
use rustc_hash::FxHashMap;

use crate::per_host::PerHost;

/// The intervals of one packet so far.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub node: u32,
    pub bytes: u64,
    pub posted: Time,
    pub at: Time,
    pub stages: Vec<StageSpan>,
    /// The queue pair that sent it, and the adapter that it goes to, once a packet was built.
    pub qp: u32,
    pub to: Option<u32>,
    /// The rank that posted it, where that is known.
    pub rank: Option<u32>,
    /// It is the packet that ends the message.
    pub last: bool,
    /// The rank whose queue pair it came to, where that is known.
    pub reader: Option<u32>,
}

impl Log {
    pub fn mark(&mut self, stage: Stage, until: Time, place: impl FnOnce() -> String) {
        if until > self.at {
            self.stages.push(StageSpan { stage, span: until - self.at, place: place() });
            self.at = until;
        }
    }

    /// A message that `node` began to post at a time.
    pub fn posted(node: u32, posted: Time) -> Log {
        Log { node, bytes: 0, posted, at: posted, stages: Vec::new(), qp: 0, to: None, rank: None, last: false, reader: None }
    }

    fn follow(self) -> Followed {
        let (qp, to, rank) = (self.qp, self.to, self.rank);
        Followed { qp, to, rank, trace: self.end() }
    }

    pub fn end(self) -> MessageTrace {
        MessageTrace { node: self.node, bytes: self.bytes, posted_ps: self.posted.as_ps(), done_ps: self.at.as_ps(), stages: self.stages }
    }
}

/// Destination, queue pair there, sequence number, and whose number that is: a response has the number of the request that it answers, which
/// may be that of a request the other way.
type PacketKey = (u32, u32, u32, bool);

fn key(packet: &Packet) -> PacketKey {
    (packet.dest.0, packet.dest_qp, packet.psn, packet.is_response())
}

/// All traced packets outstanding, and the messages that are complete.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    /// Looked up, never iterated.
    packets: FxHashMap<PacketKey, Log>,
    /// Posted work, by host, queue pair and `wr_id`, which requests without completion share.
    posted: FxHashMap<(u32, u32, u64), VecDeque<Log>>,
    /// READ and atomic requests being answered, by responder and its queue pair.
    answering: FxHashMap<(u32, u32), Log>,
    /// Landed messages that a program has yet to see, by host.
    landed: FxHashMap<u32, VecDeque<Log>>,
    /// Entries of receive header queues that a core has yet to take, by host.
    entries: FxHashMap<u32, Vec<Log>>,
    done: Vec<MessageTrace>,
    /// Landed messages that no program looked for before many others.
    unseen: Vec<MessageTrace>,
    told: Option<Narration>,
}

/// What is told while the run goes.
#[derive(Debug)]
struct Narration {
    timeline: Timeline,
    /// Messages and bytes of each adapter that are posted and not over.
    outstanding: BTreeMap<u32, (u64, Bytes)>,
    /// Who posts to a queue pair, by adapter and number. Looked up, never iterated.
    owners: FxHashMap<(u32, u32), u32>,
    /// How long after a completion a spinning core has seen it, where none is simulated that looks.
    detects: Option<PerHost<Span>>,
}

impl Tracer {
    /// Nothing is followed yet; `timeline` hears of messages when they are over, and none are kept.
    pub fn new(timeline: Option<Timeline>) -> Tracer {
        let told =
            timeline.map(|timeline| Narration { timeline, outstanding: BTreeMap::new(), owners: FxHashMap::default(), detects: None });
        Tracer { told, ..Tracer::default() }
    }
    /// Who hears of what happens.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.told.as_ref().map(|told| &told.timeline)
    }
    /// Messages and bytes of each adapter that are posted and not over, in the order of the adapters.
    pub fn outstanding(&self) -> impl Iterator<Item = (u32, u64, Bytes)> {
        self.told.iter().flat_map(|told| &told.outstanding).map(|(host, (messages, bytes))| (*host, *messages, *bytes))
    }
    /// Rank `rank` posts to a queue pair.
    pub fn owns(&mut self, host: u32, qp: u32, rank: u32) {
        if let Some(told) = &mut self.told {
            told.owners.insert((host, qp), rank);
        }
    }
    /// No programs look at what lands: a core has seen it so long after its completion.
    pub fn detects(&mut self, spans: PerHost<Span>) {
        if let Some(told) = &mut self.told {
            told.detects = Some(spans);
        }
    }
    /// The message is over.
    fn finish(&mut self, log: Log) {
        match &mut self.told {
            None => self.done.push(log.end()),
            Some(told) => {
                if let Some((messages, bytes)) = told.outstanding.get_mut(&log.node) {
                    *messages = messages.saturating_sub(1);
                    *bytes = bytes.saturating_sub(Bytes(log.bytes));
                }
                told.timeline.record(Moment::Message(log.follow()));
            }
        }
    }
    /// The message is in memory, and nobody is told.
    pub fn rest(&mut self, log: Log) {
        if self.told.is_some() && log.last {
            self.finish(log);
        }
    }
    /// The packet that ends a message of `host` with so many bytes was built.
    pub fn build(&mut self, host: u32, message: u64) {
        if let Some((_, bytes)) = self.told.as_mut().and_then(|told| told.outstanding.get_mut(&host)) {
            *bytes += Bytes(message);
        }
    }
    pub fn start(&mut self, packet: &Packet, log: Log) {
        self.packets.insert(key(packet), log);
    }
    pub fn post(&mut self, host: u32, qp: u32, wr_id: u64, mut log: Log) {
        if let Some(told) = &mut self.told {
            told.outstanding.entry(host).or_default().0 += 1;
            log.rank = told.owners.get(&(host, qp)).copied();
        }
        log.qp = qp;
        self.posted.entry((host, qp, wr_id)).or_default().push_back(log);
    }
    pub fn posted(&mut self, host: u32, qp: u32, wr_id: u64, last: bool) -> Option<Log> {
        let Entry::Occupied(mut waiting) = self.posted.entry((host, qp, wr_id)) else { return None };
        if !last {
            return waiting.get().front().cloned();
        }
        let log = waiting.get_mut().pop_front();
        if waiting.get().is_empty() {
            waiting.remove();
        }
        log
    }
    pub fn mark(&mut self, packet: &Packet, stage: Stage, until: Time, place: impl FnOnce() -> String) {
        if let Some(log) = self.packets.get_mut(&key(packet)) {
            log.mark(stage, until, place);
        }
    }
    pub fn take(&mut self, packet: &Packet) -> Option<Log> {
        self.packets.remove(&key(packet))
    }
    pub fn answer(&mut self, host: u32, qp: u32, log: Log) {
        self.answering.insert((host, qp), log);
    }
    pub fn answered(&mut self, host: u32, qp: u32, last: bool) -> Option<Log> {
        if last { self.answering.remove(&(host, qp)) } else { self.answering.get(&(host, qp)).cloned() }
    }
    /// The message is visible at `host`; the program that waits there ends the trace.
    pub fn land(&mut self, (host, qp): (u32, u32), mut log: Log) {
        log.reader = self.told.as_ref().and_then(|told| told.owners.get(&(host, qp)).copied());
        if let Some(detects) = self.told.as_ref().and_then(|told| told.detects.as_ref()) {
            let seen = log.at + detects.of(host);
            log.mark(Stage::Poll, seen, || "core".to_owned());
            return self.finish(log);
        }
        let landed = self.landed.entry(host).or_default();
        landed.push_back(log);
        if landed.len() > MOST_LANDED
            && let Some(log) = landed.pop_front()
        {
            match self.told {
                Some(_) => self.finish(log),
                None => self.unseen.push(log.end()),
            }
        }
    }
    /// The messages that programs saw; where they look for none, those that landed.
    pub fn into_traces(mut self) -> Vec<MessageTrace> {
        if self.told.is_some() {
            let mut left: Vec<Log> = self.landed.drain().flat_map(|(_, logs)| logs).collect();
            left.extend(self.entries.drain().flat_map(|(_, logs)| logs));
            left.sort_by_key(|log| (log.at, log.posted, log.node, log.qp));
            left.into_iter().for_each(|log| self.finish(log));
            return Vec::new();
        }
        if !self.done.is_empty() {
            return self.done;
        }
        let mut hosts: Vec<(u32, VecDeque<Log>)> = self.landed.into_iter().collect();
        hosts.sort_by_key(|(host, _)| *host);
        self.unseen.into_iter().chain(hosts.into_iter().flat_map(|(_, logs)| logs).map(Log::end)).collect()
    }
    /// The same of an entry for a library that handles each of them.
    pub fn land_entry(&mut self, host: u32, log: Log) {
        self.entries.entry(host).or_default().push(log);
    }
    /// The program of a rank of `host` has seen what landed, at `time`; where nobody knows for whom that is, whoever looks first sees it.
    pub fn seen(&mut self, (host, rank): (u32, u32), time: Time) {
        let landed = self.landed.entry(host).or_default();
        let mut seen: Vec<Log> = Vec::new();
        if self.told.is_some() {
            let mine = |log: &Log| log.at <= time && log.reader.is_none_or(|reader| reader == rank);
            let (own, others): (VecDeque<Log>, VecDeque<Log>) = std::mem::take(landed).into_iter().partition(mine);
            *landed = others;
            seen.extend(own);
        }
        while self.told.is_none()
            && landed.front().is_some_and(|log| log.at <= time)
            && let Some(log) = landed.pop_front()
        {
            seen.push(log);
        }
        if let Some(entries) = self.entries.get_mut(&host) {
            seen.extend(entries.extract_if(.., |log| log.at <= time));
        }
        for mut log in seen {
            log.mark(Stage::Poll, time, || "core".to_owned());
            self.finish(log);
        }
    }
}

/// Messages that may wait for a program to look: as many as one turn of a progress loop finds. Basis: assumed.
const MOST_LANDED: usize = 64;

#[cfg(test)]
mod tests {
    use fabriscope_units::Span;
    use fabriscope_wire::Opcode;

    use super::*;

    /// A request of one end, and the response to one of the other, with the same number on the same queue pair (IBA vol. 1, §9.7.2: each
    /// direction has numbers of its own).
    #[test]
    fn the_two_directions_of_a_connection_are_kept_apart() {
        let packet = |opcode: Opcode| Packet { psn: 7, dest_qp: 2, opcode: opcode.as_u8(), ..Packet::default() };
        let log = |bytes| {
            let mut log = Log::posted(0, Time::ZERO);
            log.bytes = bytes;
            log
        };
        let (request, response) = (packet(Opcode::RC_READ_REQUEST), packet(Opcode::RC_READ_RESPONSE_ONLY));
        let mut tracer = Tracer::default();
        tracer.start(&request, log(1));
        tracer.start(&response, log(2));
        tracer.mark(&response, Stage::Switch, Time::ZERO + Span::from_ns(5), || "switch 0".to_owned());
        let (request, response) = (tracer.take(&request).unwrap(), tracer.take(&response).unwrap());
        assert_eq!((request.bytes, request.stages.len()), (1, 0));
        assert_eq!((response.bytes, response.stages.len()), (2, 1));
    }
}
