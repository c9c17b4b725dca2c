//! A client: its processes, its RPCs for each OST, its answers to servers.
//!
//! Modelled: as [`crate::beside`] says; costs and limits are those of the engine of RPCs (`fabriscope_engine_storage::data`).

use std::collections::VecDeque;
use std::sync::Arc;

use fabriscope_engine_storage::{Cores, Direction, Line, THREADS, pages_time, read_window};
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Span, Time};

use super::link::{Links, Message, News};
use super::traffic::Shared;
use crate::agenda::Agenda;

/// What a client turns to.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// A process begins its next burst.
    Begin(u32),
    /// Pages of a process are dirty, or it has read what came.
    Pages(u32),
    /// An RPC is ready to be sent.
    Ready(u32),
    /// The server asks for a fragment.
    Asked { server: u32, work: u32, bytes: u32 },
    /// An RPC is over.
    Replied(u32),
}

/// RPCs for one OST.
#[derive(Default)]
struct Osc {
    in_flight: u32,
    dirty: u64,
    pending: VecDeque<u32>,
    /// Processes that wait for room.
    waiting: Vec<u32>,
}

/// A process with its file.
struct Stream {
    begun: Time,
    left: u64,
    made: u64,
    /// RPCs of it that are not over, or not read.
    held: u32,
    reading: Line,
}

#[derive(Clone, Copy)]
struct Rpc {
    stream: u32,
    ost: u32,
    bytes: u64,
    sent: Time,
}

struct Client<'s> {
    process: &'s Process,
    shared: &'s Arc<Shared>,
    me: u32,
    links: Links,
    agenda: Agenda<Turn>,
    threads: Cores,
    pages: Line,
    oscs: Vec<Osc>,
    streams: Vec<Stream>,
    rpcs: Vec<Rpc>,
    spare: Vec<u32>,
}

/// Until the job is over.
pub(super) async fn run(process: &Process, shared: &Arc<Shared>, me: u32) -> Result<(), ProgramError> {
    let links = Links::open(process, shared, (me, true)).await?;
    let system = &shared.traffic.system;
    let stream = || Stream { begun: Time::ZERO, left: 0, made: 0, held: 0, reading: Line::default() };
    let mut this = Client {
        process,
        shared,
        me,
        links,
        agenda: Agenda::new(),
        threads: Cores::new(system.clients.cores.min(THREADS)),
        pages: Line::default(),
        oscs: (0..system.osts()).map(|_| Osc::default()).collect(),
        streams: (0..system.clients.per_node).map(|_| stream()).collect(),
        rpcs: Vec::new(),
        spare: Vec::new(),
    };
    for stream in 0..this.streams.len() as u32 {
        this.agenda.note(process.now(), Turn::Begin(stream));
    }
    let mut found = Vec::new();
    loop {
        process.wait_any_until(&this.links.cqs, &[], this.agenda.next()).await;
        this.links.news(process, &mut found).await?;
        for (server, news) in found.drain(..) {
            if matches!(news, News::Came) {
                this.came(server)?;
            }
        }
        while let Some((at, turn)) = this.agenda.due(process.now()) {
            this.turn(at, turn)?;
        }
    }
}

impl Client<'_> {
    fn came(&mut self, server: u32) -> Result<(), ProgramError> {
        let place = self.shared.place(self.me, server);
        let Some(message) = self.shared.connections.lock()[place].to_client.pop_front() else { return Ok(()) };
        let (now, later) = (self.process.now(), *self.shared.traffic.system.costs.lnet.message);
        match message {
            Message::GetReq { work, bytes } => self.agenda.note(now.saturating_add(later), Turn::Asked { server, work, bytes }),
            // The LND answers by itself.
            Message::PutReq { work, bytes } => self.tell(server, Message::PutAck { work, bytes })?,
            Message::Reply { rpc } => self.agenda.note(now.saturating_add(later), Turn::Replied(rpc)),
            _ => {}
        }
        Ok(())
    }
    fn tell(&self, server: u32, message: Message) -> Result<(), ProgramError> {
        self.shared.connections.lock()[self.shared.place(self.me, server)].to_server.push_back(message);
        self.links.send(self.process, server, message)
    }

    fn turn(&mut self, now: Time, turn: Turn) -> Result<(), ProgramError> {
        match turn {
            Turn::Begin(stream) => {
                let own = &mut self.streams[stream as usize];
                own.begun = now;
                own.left = self.shared.traffic.burst.map_or(u64::MAX, |burst| burst.bytes.0);
                self.goes_on(now, stream);
            }
            Turn::Pages(stream) => self.pages_done(now, stream),
            Turn::Ready(rpc) => {
                let Rpc { ost, bytes, .. } = self.rpcs[rpc as usize];
                let targets = self.shared.traffic.system.oss.targets.max(1);
                self.rpcs[rpc as usize].sent = now;
                self.tell(ost / targets, Message::Request { rpc, target: ost % targets, bytes })?;
            }
            Turn::Asked { server, work, bytes } => {
                let message = Message::GetDone { work };
                self.shared.connections.lock()[self.shared.place(self.me, server)].to_server.push_back(message);
                self.links.write(self.process, server, (bytes, message), None)?;
            }
            Turn::Replied(rpc) => self.replied(now, rpc),
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        self.shared.traffic.direction == Direction::Write
    }
    /// Whether the pages of one more RPC may be dirty for an OST.
    fn has_room(&self, ost: u32) -> bool {
        let client = &self.shared.traffic.system.costs.client;
        self.oscs[ost as usize].dirty.saturating_add(client.max_pages_per_rpc.0) <= client.max_dirty.0
    }
    fn rpc_bytes(&self) -> u64 {
        self.shared.traffic.system.costs.client.max_pages_per_rpc.0.max(1)
    }

    /// A process fills its next pages, or asks for what it will read.
    fn goes_on(&mut self, now: Time, stream: u32) {
        let bytes = self.rpc_bytes().min(self.streams[stream as usize].left);
        if self.writes() {
            if bytes > 0 {
                let (own, shared) = pages_time(&self.shared.traffic.system, bytes, true);
                let shared = self.pages.take(now, shared);
                self.agenda.note(now.saturating_add(own).max(shared), Turn::Pages(stream));
            }
            return;
        }
        let ahead = self.shared.traffic.system.costs.client.max_read_ahead.0;
        let window = read_window(ahead, self.rpc_bytes());
        while self.streams[stream as usize].held < window && self.streams[stream as usize].left > 0 {
            self.make(now, stream);
        }
    }
    fn pages_done(&mut self, now: Time, stream: u32) {
        if !self.writes() {
            self.streams[stream as usize].held -= 1;
            self.goes_on(now, stream);
            self.may_end(now, stream);
            return;
        }
        let ost = self.make(now, stream);
        if self.has_room(ost) {
            self.goes_on(now, stream);
        } else {
            self.oscs[ost as usize].waiting.push(stream);
        }
    }
    /// The next RPC of a process: of its file's objects in turn.
    fn make(&mut self, now: Time, stream: u32) -> u32 {
        let (layout, per_node) = (&self.shared.traffic.layout, u64::from(self.shared.traffic.system.clients.per_node));
        let file = u64::from(self.me) * per_node + u64::from(stream);
        let most = self.rpc_bytes();
        let own = &mut self.streams[stream as usize];
        let bytes = most.min(own.left);
        let object = (own.made % u64::from(layout.objects().max(1))) as u32;
        own.made += 1;
        own.held += 1;
        if own.left != u64::MAX {
            own.left -= bytes;
        }
        let ost = layout.target(file, object);
        let rpc = Rpc { stream, ost, bytes, sent: now };
        let place = self.spare.pop().unwrap_or_else(|| {
            self.rpcs.push(rpc);
            self.rpcs.len() as u32 - 1
        });
        self.rpcs[place as usize] = rpc;
        let osc = &mut self.oscs[ost as usize];
        osc.dirty += bytes;
        osc.pending.push_back(place);
        self.pump(now, ost);
        ost
    }
    /// Sends what may be in flight for an OST.
    fn pump(&mut self, now: Time, ost: u32) {
        let client = &self.shared.traffic.system.costs.client;
        let osc = &mut self.oscs[ost as usize];
        while osc.in_flight < *client.max_rpcs_in_flight {
            let Some(rpc) = osc.pending.pop_front() else { return };
            osc.in_flight += 1;
            let bytes = Bytes(self.rpcs[rpc as usize].bytes);
            let checksum = if self.shared.traffic.direction == Direction::Write { client.checksum_rate.time(bytes) } else { Span::ZERO };
            self.agenda.note(self.threads.take(now, *client.rpc + checksum), Turn::Ready(rpc));
        }
    }

    fn replied(&mut self, now: Time, rpc: u32) {
        let Rpc { stream, ost, bytes, sent } = self.rpcs[rpc as usize];
        self.spare.push(rpc);
        self.shared.tally.lock().rpcs.push((sent, now, Bytes(bytes)));
        let osc = &mut self.oscs[ost as usize];
        osc.in_flight -= 1;
        osc.dirty -= bytes;
        if self.writes() {
            let waiting = if self.has_room(ost) { std::mem::take(&mut self.oscs[ost as usize].waiting) } else { Vec::new() };
            self.streams[stream as usize].held -= 1;
            self.pump(now, ost);
            waiting.into_iter().for_each(|waiting| self.goes_on(now, waiting));
            self.may_end(now, stream);
            return;
        }
        // Checksums of what came are the work of a thread, copies that of the process.
        let checked = self.threads.take(now, self.shared.traffic.system.costs.client.checksum_rate.time(Bytes(bytes)));
        let (own, shared) = pages_time(&self.shared.traffic.system, bytes, false);
        let shared = self.pages.take(checked, shared);
        let read = self.streams[stream as usize].reading.take(checked, own).max(shared);
        self.agenda.note(read, Turn::Pages(stream));
        self.pump(now, ost);
    }
    /// A burst whose data are all on drives, or read, is over.
    fn may_end(&mut self, now: Time, stream: u32) {
        let own = &mut self.streams[stream as usize];
        let Some(burst) = self.shared.traffic.burst.filter(|_| own.left == 0 && own.held == 0) else { return };
        self.shared.tally.lock().bursts.push((own.begun, now));
        let next = own.begun.saturating_add(burst.every).max(now);
        self.agenda.note(next, Turn::Begin(stream));
    }
}
