//! A server of data: it fetches what is written and sends what is read, fragment by fragment, and keeps its drives at work.
//!
//! Modelled: a core's time before and after the data, fragments to a peer and of all outstanding, drives in the order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use fabriscope_engine_storage::{Cores, Direction, Line, PAGE};
use fabriscope_lustre::Access;
use fabriscope_node::{Process, ProgramError};
use fabriscope_units::{Bytes, Time};

use super::link::{Links, Message, News};
use super::traffic::Shared;
use crate::agenda::Agenda;

/// An RPC that is served.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    client: u32,
    rpc: u32,
    target: u32,
    bytes: u64,
    /// Data that no fragment has been asked or offered for.
    left: u64,
    fragments: u32,
}

/// What a server turns to.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// A thread of the service has the request.
    Arrived(u32),
    /// It has prepared pages.
    Prepared(u32),
    /// It has looked through the data: checksums, mappings.
    Checked(u32),
    /// Drives have done their part.
    Accessed(u32),
}

struct Server<'s> {
    process: &'s Process,
    shared: &'s Arc<Shared>,
    me: u32,
    links: Links,
    agenda: Agenda<Turn>,
    cores: Cores,
    drives: Vec<(Line, u64)>,
    works: Vec<Work>,
    spare: Vec<u32>,
    /// Fragments outstanding to each client, and RPCs whose next must wait.
    peers: Vec<(u32, VecDeque<u32>)>,
    outstanding: u32,
}

/// Until the job is over.
pub(super) async fn run(process: &Process, shared: &Arc<Shared>, me: u32) -> Result<(), ProgramError> {
    let links = Links::open(process, shared, (me, false)).await?;
    let oss = &shared.traffic.system.oss;
    let mut this = Server {
        process,
        shared,
        me,
        links,
        agenda: Agenda::new(),
        cores: Cores::new(oss.cores),
        drives: vec![(Line::default(), 0); oss.targets.max(1) as usize],
        works: Vec::new(),
        spare: Vec::new(),
        peers: vec![(0, VecDeque::new()); shared.traffic.clients.len()],
        outstanding: 0,
    };
    let mut found = Vec::new();
    loop {
        process.wait_any_until(&this.links.cqs, &[], this.agenda.next()).await;
        this.links.news(process, &mut found).await?;
        for (client, news) in found.drain(..) {
            match news {
                News::Came => this.came(client)?,
                News::Written(work) => this.fragment_done(work)?,
            }
        }
        while let Some((at, turn)) = this.agenda.due(process.now()) {
            this.turn(at, turn)?;
        }
    }
}

impl Server<'_> {
    fn came(&mut self, client: u32) -> Result<(), ProgramError> {
        let place = self.shared.place(client, self.me);
        let Some(message) = self.shared.connections.lock()[place].to_server.pop_front() else { return Ok(()) };
        match message {
            Message::Request { rpc, target, bytes } => {
                let work = Work { client, rpc, target, bytes, left: bytes, fragments: 0 };
                let place = self.spare.pop().unwrap_or_else(|| {
                    self.works.push(work);
                    self.works.len() as u32 - 1
                });
                self.works[place as usize] = work;
                let later = *self.shared.traffic.system.costs.lnet.message;
                self.agenda.note(self.process.now().saturating_add(later), Turn::Arrived(place));
                Ok(())
            }
            Message::GetDone { work } => self.fragment_done(work),
            Message::PutAck { work, bytes } => {
                let client = self.works[work as usize].client;
                self.shared.connections.lock()[place].to_client.push_back(Message::PutDone);
                self.links.write(self.process, client, (bytes, Message::PutDone), Some(work))
            }
            _ => Ok(()),
        }
    }
    fn tell(&self, client: u32, message: Message) -> Result<(), ProgramError> {
        self.shared.connections.lock()[self.shared.place(client, self.me)].to_client.push_back(message);
        self.links.send(self.process, client, message)
    }
    fn writes(&self) -> bool {
        self.shared.traffic.direction == Direction::Write
    }

    fn turn(&mut self, now: Time, turn: Turn) -> Result<(), ProgramError> {
        match turn {
            Turn::Arrived(work) => {
                let ready = self.cores.take(now, *self.shared.traffic.system.costs.oss.rpc);
                self.agenda.note(ready, Turn::Prepared(work));
                Ok(())
            }
            Turn::Prepared(work) if self.writes() => self.moves(work),
            Turn::Prepared(work) => {
                self.access(now, work);
                Ok(())
            }
            Turn::Checked(work) if self.writes() => {
                self.access(now, work);
                Ok(())
            }
            Turn::Checked(work) => self.moves(work),
            Turn::Accessed(work) => {
                let target = self.works[work as usize].target as usize;
                self.drives[target].1 -= 1;
                if self.writes() {
                    return self.reply(work);
                }
                self.check(now, work);
                Ok(())
            }
        }
    }
    fn check(&mut self, now: Time, work: u32) {
        let pages = self.works[work as usize].bytes.div_ceil(PAGE);
        let ready = self.cores.take(now, *self.shared.traffic.system.costs.oss.page * pages);
        self.agenda.note(ready, Turn::Checked(work));
    }
    fn access(&mut self, now: Time, work: u32) {
        let Work { target, bytes, .. } = self.works[work as usize];
        let access = Access { write: self.writes(), bytes: Bytes(bytes), sequential: true };
        let (line, waiting) = &mut self.drives[target as usize];
        let service = self.shared.traffic.system.oss.array.service(access, *waiting);
        *waiting += 1;
        let end = line.take(now, service.occupied).saturating_add(service.besides);
        self.agenda.note(end, Turn::Accessed(work));
    }
    /// Its data may go, as far as credits let them.
    fn moves(&mut self, work: u32) -> Result<(), ProgramError> {
        let client = self.works[work as usize].client;
        self.peers[client as usize].1.push_back(work);
        self.pump(client)
    }
    fn pump(&mut self, client: u32) -> Result<(), ProgramError> {
        let lnet = &self.shared.traffic.system.costs.lnet;
        loop {
            let (used, waiting) = &mut self.peers[client as usize];
            if *used >= *lnet.peer_credits || self.outstanding >= *lnet.credits {
                return Ok(());
            }
            let Some(place) = waiting.front().copied() else { return Ok(()) };
            let work = &mut self.works[place as usize];
            let bytes = work.left.min(lnet.fragment.0);
            work.left -= bytes;
            work.fragments += 1;
            *used += 1;
            self.outstanding += 1;
            if work.left == 0 {
                waiting.pop_front();
            }
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let message = if self.writes() { Message::GetReq { work: place, bytes } } else { Message::PutReq { work: place, bytes } };
            self.tell(client, message)?;
        }
    }
    /// A fragment is at its place.
    fn fragment_done(&mut self, place: u32) -> Result<(), ProgramError> {
        let work = &mut self.works[place as usize];
        let client = work.client;
        work.fragments -= 1;
        let all = work.left == 0 && work.fragments == 0;
        self.peers[client as usize].0 -= 1;
        let full = self.outstanding >= *self.shared.traffic.system.costs.lnet.credits;
        self.outstanding -= 1;
        self.pump(client)?;
        if full {
            // Others may have waited for the interface.
            (0..self.peers.len() as u32).try_for_each(|client| self.pump(client))?;
        }
        match (all, self.writes()) {
            (true, true) => {
                self.check(self.process.now(), place);
                Ok(())
            }
            (true, false) => self.reply(place),
            (false, _) => Ok(()),
        }
    }
    fn reply(&mut self, work: u32) -> Result<(), ProgramError> {
        let Work { client, rpc, .. } = self.works[work as usize];
        self.spare.push(work);
        self.tell(client, Message::Reply { rpc })
    }
}
