//! Following single messages: contiguous intervals on the path of their last packet.
//!
//! Only packets with the `TRACED` flag come here, so an ordinary run pays one test of a bit per hop.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use fabriscope_engine::{MessageTrace, Stage, StageSpan};
use fabriscope_units::Time;
use fabriscope_verbs::Packet;
use rustc_hash::FxHashMap;

/// The intervals of one packet so far.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub node: u32,
    pub bytes: u64,
    pub posted: Time,
    pub at: Time,
    pub stages: Vec<StageSpan>,
}

impl Log {
    pub fn mark(&mut self, stage: Stage, until: Time, place: impl FnOnce() -> String) {
        if until > self.at {
            self.stages.push(StageSpan { stage, span: until - self.at, place: place() });
            self.at = until;
        }
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
}

impl Tracer {
    pub fn start(&mut self, packet: &Packet, log: Log) {
        self.packets.insert(key(packet), log);
    }
    pub fn post(&mut self, host: u32, qp: u32, wr_id: u64, log: Log) {
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
    pub fn land(&mut self, host: u32, log: Log) {
        let landed = self.landed.entry(host).or_default();
        landed.push_back(log);
        if landed.len() > MOST_LANDED {
            self.unseen.extend(landed.pop_front().map(Log::end));
        }
    }
    /// The messages that programs saw; where they look for none, those that landed.
    pub fn into_traces(self) -> Vec<MessageTrace> {
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
    /// A program of `host` has seen what landed, at `time`.
    pub fn seen(&mut self, host: u32, time: Time) {
        let landed = self.landed.entry(host).or_default();
        while landed.front().is_some_and(|log| log.at <= time)
            && let Some(mut log) = landed.pop_front()
        {
            log.mark(Stage::Poll, time, || "core".to_owned());
            self.done.push(log.end());
        }
        if let Some(entries) = self.entries.get_mut(&host) {
            for mut log in entries.extract_if(.., |log| log.at <= time) {
                log.mark(Stage::Poll, time, || "core".to_owned());
                self.done.push(log.end());
            }
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
        let log = |bytes| Log { node: 0, bytes, posted: Time::ZERO, at: Time::ZERO, stages: Vec::new() };
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
