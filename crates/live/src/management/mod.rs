//! Subnet management as programs see it: datagrams to the agents of adapters and switches, and their answers.
//!
//! What an agent says of itself and what a manager writes is in `agent` and `tables`, counters are in `counters`, and programs that answer
//! others, such as OpenSM, in `programs`.
//!
//! Source: InfiniBand Architecture Specification vol. 1, chapters 13 (datagrams) and 14 (directed routes); the kernel's `ib_user_mad.h`.
//! Modelled: datagrams by directed route and by LID; joining multicast groups. A round trip takes 10 us of the hosts and 1 us for each switch
//! (assumed). Not modelled: the datagrams on the wire, queries of paths where no manager runs, other classes: they are answered as what an agent
//! does not have.

mod agent;
mod counters;
mod programs;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use fabriscope_catalog::keys;
use fabriscope_engine::{Cluster, Control};
use fabriscope_fabric::export;
use fabriscope_fabric::import::Plug;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::Lid;

use crate::address::Addresses;
use crate::question::{Answer, Op, Outcome, Question};
use crate::thread::Thread;
use crate::world::{Descriptor, Doing, Host, Key, World};

use agent::{Agents, Refusal};
use counters::{CountersRequest, PortCounters, Reply};
use tables::ForwardingTables;

/// Bytes in front of a datagram, and of one.
const HEAD: usize = 64;
const DATAGRAM: usize = 256;
/// The least that has to be handed over of one: its header and that of RMPP.
const SHORTEST: usize = 36;
/// Where the attribute is in it.
const DATA: usize = 64;
const HOSTS: Span = Span::from_us(10);
const SWITCH: Span = Span::from_us(1);
/// Classes of management: of subnets along LIDs and along directed routes.
const BY_LID: u8 = 0x01;
const DIRECTED: u8 = 0x81;
/// Subnet administration: where the attribute of its datagrams is, and what joins and leaves multicast groups (`MCMemberRecord`).
const ADMINISTRATION: u8 = 0x03;
const RECORD: usize = 56;
const MEMBER: u16 = 0x38;
const DELETE: u8 = 0x15;
/// Methods to read and to write, and their answer.
const GET: u8 = 1;
const SET: u8 = 2;
const RESPONSE: u8 = 0x81;
/// In which the answer to any other method differs from it.
const RESPONSE_BIT: u8 = 0x80;
/// Status of an answer: on its way back; an attribute or a method that is not there; a value that cannot be.
const BACK: u16 = 0x8000;
const UNSUPPORTED: u16 = 0x000c;
const INVALID: u16 = 0x001c;

/// The agents of a fabric, and who waits for their answers.
#[derive(Debug)]
pub(crate) struct Management {
    agents: Agents,
    counters: PortCounters,
    control: Control,
    /// The link that leaves each port.
    links: BTreeMap<Plug, u32>,
    programs: programs::Agents,
    /// Multicast groups that were joined here, and the MLIDs that they were given.
    groups: BTreeMap<[u8; 16], u16>,
    /// The device at which each descriptor was opened.
    opened: BTreeMap<u32, u32>,
    answers: BTreeMap<u32, VecDeque<Due>>,
    next: u32,
    /// Where the last datagram went, if to another program.
    told: Option<u32>,
    /// By device, the file that tells programs of its host where the manager is.
    manager_files: BTreeMap<u32, PathBuf>,
    /// Why the last tables that were written were not taken.
    refused: Option<String>,
}

/// A datagram on its way to a program.
#[derive(Debug)]
struct Due {
    at: Time,
    bytes: Vec<u8>,
    /// Counters that go into it.
    asked: Option<CountersRequest>,
    /// It comes only if this question of a program is not answered before.
    waits_for: Option<u32>,
}

impl Due {
    fn new(at: Time, bytes: Vec<u8>) -> Due {
        Due { at, bytes, asked: None, waits_for: None }
    }
}

/// A word of what stands in front of a datagram.
fn head_word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
fn set_word(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}
/// When a question is given up that is asked so many times, with a timeout in ms.
fn lost_at(now: Time, timeout: u32, tries: u32) -> Time {
    now + Span::from_us(u64::from(timeout).saturating_mul(1000).saturating_mul(tries.into()))
}

impl Management {
    /// Of a cluster whose hosts are these nodes.
    pub fn new(cluster: &Cluster, hosts: &[Host], seats: &[u32], control: Control) -> Management {
        let mut subnet = export::subnet(&cluster.fabric);
        let graph = &cluster.fabric.graph;
        let (switches, endpoints) = (graph.switch_count(), graph.endpoint_count());
        let addresses = Addresses::of(&cluster.parts);
        // Adapters have the numbers that verbs show; switches come after them.
        for (index, device) in (0..).zip(&mut subnet.devices) {
            device.lid = u16::try_from(if index < switches { endpoints + index + 1 } else { index - switches + 1 }).ok();
            if index >= switches {
                device.guid = Some(addresses.guid(Lid(index - switches)));
                device.description = format!("endpoint{} HCA-1", index - switches);
            }
        }
        let mut manager_files = BTreeMap::new();
        for (host, seat) in hosts.iter().zip(seats) {
            let endpoints = cluster.parts.endpoints_of(*seat).unwrap_or_default();
            for (endpoint, device) in endpoints.zip(&host.devices) {
                if let Some(of) = subnet.devices.get_mut((switches + endpoint) as usize) {
                    of.description = device.description().to_owned();
                    manager_files.insert(switches + endpoint, host.folder.join(device.manager_file()));
                }
            }
        }
        let plug = |link: &fabriscope_fabric::Link| {
            let device = match graph.node(link.from) {
                fabriscope_fabric::Node::Switch(switch) => switch.0,
                fabriscope_fabric::Node::Endpoint(endpoint) => switches + endpoint.0,
            };
            Plug { device, port: link.from_port.0 + 1 }
        };
        let links = (0..).zip(graph.links()).map(|(number, link)| (plug(link), number)).collect();
        let mut agents = Agents::new((subnet, addresses), ForwardingTables::new(cluster), switches);
        let partitions = &cluster.parts.partitions;
        if !partitions.is_empty() {
            agents.pkeys = (0..graph.endpoint_count()).map(|endpoint| (switches + endpoint, keys(partitions, endpoint))).collect();
        }
        Management {
            agents,
            counters: PortCounters::default(),
            control,
            links,
            programs: programs::Agents::default(),
            groups: BTreeMap::new(),
            opened: BTreeMap::new(),
            answers: BTreeMap::new(),
            next: 0,
            told: None,
            manager_files,
            refused: None,
        }
    }

    /// Opens the device of an endpoint; a manager that opens its own says that it is there.
    pub fn open(&mut self, endpoint: u32, manages: bool) -> u32 {
        self.next += 1;
        let device = self.agents.switches + endpoint;
        self.opened.insert(self.next, device);
        self.answers.insert(self.next, VecDeque::new());
        if manages {
            self.agents.managers.push(device);
        }
        self.next
    }
    pub fn close(&mut self, open: u32) {
        self.answers.remove(&open);
        self.opened.remove(&open);
        self.programs.leave(open);
    }
    pub fn readable_at(&self, open: u32) -> Option<Time> {
        self.answers.get(&open)?.iter().map(|due| due.at).min()
    }
    /// Why tables that a manager wrote have not taken effect.
    pub fn complaint(&mut self) -> Option<String> {
        self.refused = self.control.take_refused().pop().or(self.refused.take());
        self.refused.take().map(|why| format!("the forwarding tables that were written have no effect: {why}"))
    }

    fn push(&mut self, open: u32, due: Due) {
        if let Some(answers) = self.answers.get_mut(&open) {
            answers.push_back(due);
        }
    }
    /// The first datagram that is there, if it has no more than `room` bytes; else the front of it, and it stays.
    fn take(&mut self, open: u32, now: Time, room: usize) -> Option<(Vec<u8>, bool)> {
        let answers = self.answers.get_mut(&open)?;
        let place = (0..answers.len()).filter(|place| answers[*place].at <= now).min_by_key(|place| answers[*place].at)?;
        if answers[place].bytes.len() > room {
            return Some((answers[place].bytes.get(..HEAD + DATAGRAM)?.to_vec(), false));
        }
        let mut due = answers.remove(place)?;
        if answers.is_empty() {
            // Whatever was written in a row is acknowledged.
            self.settle();
        }
        if let Some(asked) = &due.asked {
            self.counters.tell(&self.control, asked, &mut due.bytes[HEAD..]);
        }
        Some((due.bytes, true))
    }

    fn lid(&self, device: u32) -> u16 {
        self.agents.subnet.devices.get(device as usize).and_then(|device| device.lid).unwrap_or(0)
    }

    /// A datagram from endpoint `endpoint`: what comes back, and when.
    fn send(&mut self, open: u32, (now, endpoint): (Time, u32), sent: &[u8]) -> Result<(), i32> {
        self.told = None;
        if sent.len() < HEAD + SHORTEST {
            return Err(libc::EINVAL);
        }
        if !self.answers.contains_key(&open) {
            return Err(libc::EBADF);
        }
        if self.answer_of_program(now, sent) {
            return Ok(());
        }
        // What is left out of a datagram is zero.
        let mut whole = Vec::new();
        let sent = if sent.len() < HEAD + DATAGRAM {
            whole.extend(sent);
            whole.resize(HEAD + DATAGRAM, 0);
            &whole[..]
        } else {
            sent
        };
        let (head, mad) = sent.split_at(HEAD);
        let (timeout, tries) = (head_word(head, 8), head_word(head, 12).saturating_add(1));
        let mut answer = sent[..HEAD + DATAGRAM].to_vec();
        set_word(&mut answer, 16, (HEAD + DATAGRAM) as u32);
        let Some((plug, hops)) = self.reach(endpoint, head, mad) else {
            // Nobody answers.
            set_word(&mut answer, 4, libc::ETIMEDOUT as u32);
            if timeout > 0 {
                self.push(open, Due::new(lost_at(now, timeout, tries), answer));
            }
            return Ok(());
        };
        if self.ask_program(open, now, (self.agents.switches + endpoint, plug.device, hops), sent) {
            return Ok(());
        }
        let asked = self.reply(plug, &mut answer[HEAD..]);
        set_word(&mut answer, 4, 0);
        self.push(open, Due { asked, ..Due::new(now + HOSTS + SWITCH * u64::from(hops), answer) });
        Ok(())
    }

    /// The device that a datagram comes to, the port through which, and how many switches are on the way.
    fn reach(&self, endpoint: u32, head: &[u8], mad: &[u8]) -> Option<(Plug, u32)> {
        let mut here = Plug { device: self.agents.switches + endpoint, port: 1 };
        match mad[1] {
            DIRECTED => {
                let hops = mad[7];
                for hop in 1..=usize::from(hops) {
                    let out = Plug { device: here.device, port: u16::from(*mad.get(128 + hop)?) };
                    here = self.agents.far.get(&out)?.0;
                }
                Some((here, hops.into()))
            }
            _ => {
                let lid = u16::from_be_bytes([head[28], head[29]]);
                let device = if lid == 0 || lid == 0xffff { here.device } else { *self.agents.lids.get(&lid)? };
                Some((Plug { device, port: if device < self.agents.switches { 0 } else { 1 } }, 2))
            }
        }
    }

    /// Joins or leaves a group: its MLID is told. The port is a member once a queue pair is attached.
    fn membership(&mut self, mad: &mut [u8]) {
        let mut gid = [0; 16];
        gid.copy_from_slice(&mad[RECORD..RECORD + 16]);
        let next = 0xc000 | (self.groups.len() as u16 & 0x3fff);
        let mlid = *self.groups.entry(gid).or_insert(next);
        mad[RECORD + 36..RECORD + 38].copy_from_slice(&mlid.to_be_bytes());
        // A set is answered like a get.
        mad[3] = if mad[3] == SET { RESPONSE } else { mad[3] | RESPONSE_BIT };
    }

    /// Turns a request into the answer of the agent at `plug`; counters go in when they are known.
    fn reply(&mut self, plug: Plug, mad: &mut [u8]) -> Option<CountersRequest> {
        let attribute = u16::from_be_bytes([mad[16], mad[17]]);
        let modifier = u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]]);
        let (class, method) = (mad[1], mad[3]);
        let managed = matches!(class, BY_LID | DIRECTED);
        if !(managed && method == SET && agent::writes_tables(attribute)) {
            self.settle();
        }
        if class == ADMINISTRATION && attribute == MEMBER && matches!(method, SET | DELETE) {
            self.membership(mad);
            return None;
        }
        let mut asked = None;
        let done = match (class, method) {
            (BY_LID | DIRECTED, GET) => self.agents.read(plug, attribute, modifier).map(Some),
            (BY_LID | DIRECTED, SET) => {
                let mut data = [0; 64];
                data.copy_from_slice(&mad[DATA..DATA + 64]);
                let done = self.agents.write(plug, (attribute, modifier), data).map(Some);
                if agent::names_manager(attribute) {
                    self.tell_manager(plug.device);
                }
                done
            }
            (counters::CLASS, GET | SET) => {
                let own = Plug { device: plug.device, port: 0 }..=Plug { device: plug.device, port: u16::MAX };
                let ports: Vec<(u16, u32)> = self.links.range(own).map(|(plug, link)| (plug.port, *link)).collect();
                match self.counters.ask(&self.control, mad, method == SET, &ports) {
                    Reply::Now => Ok(None),
                    Reply::Counters(of) => {
                        asked = Some(of);
                        Ok(None)
                    }
                    Reply::Unknown => Err(Refusal::Unsupported),
                }
            }
            _ => Err(Refusal::Unsupported),
        };
        let mut status = match done {
            Ok(_) => 0,
            Err(Refusal::Unsupported) => UNSUPPORTED,
            Err(Refusal::Invalid) => INVALID,
        };
        if class == DIRECTED {
            status |= BACK;
        }
        mad[3] = RESPONSE;
        mad[4..6].copy_from_slice(&status.to_be_bytes());
        if let Ok(Some(data)) = done {
            mad[DATA..DATA + 64].copy_from_slice(&data);
        }
        asked
    }

    /// Lets packets follow what a manager has written, if it leads everywhere.
    fn settle(&mut self) {
        self.refused = self.control.take_refused().pop().or(self.refused.take());
        if std::mem::take(&mut self.agents.tables.changed) {
            self.refused = None;
            let tables = self.agents.tables.whole(&self.agents.lids, &self.agents.far);
            self.control.set_tables(tables);
        }
    }

    /// Programs of a host look into a file where the manager is; one that cannot be written stays as it is.
    fn tell_manager(&self, device: u32) {
        if let (Some(file), Some(lid)) = (self.manager_files.get(&device), self.agents.manager_of(device)) {
            drop(std::fs::write(file, format!("{lid:#x}\n")));
        }
    }
}

impl Thread {
    pub(crate) async fn management(&self, op: Op, question: &Question) -> Answer {
        self.process.catch_up().await;
        let (fd, args) = (question.args[0] as i32, &question.args[1..]);
        if op == Op::MadOpen {
            return self.open_management(fd, args[0] as usize, args[1] != 0);
        }
        let Some(Descriptor::Management(open)) = self.descriptor(fd) else { return Answer::error(libc::EBADF) };
        match op {
            Op::MadRegister => {
                let methods = u128::from(args[2] as u64) | u128::from(args[3] as u64) << 64;
                self.with_management(|of, _| of.register(open, (args[0] as u32, args[1] as u8), methods))
            }
            Op::MadUnregister => self.with_management(|of, _| of.programs.unregister(open, args[0] as u32)),
            Op::MadSend => self.send_management((open, args[0] as usize), &question.data),
            _ => self.receive_management(open, args[0] != 0, args[1] as usize).await,
        }
    }

    fn with_management(&self, act: impl FnOnce(&mut Management, Time)) -> Answer {
        let now = self.process.now();
        match &mut self.shared.world().management {
            Some(management) => {
                act(management, now);
                Answer::number(0)
            }
            None => Answer::error(libc::ENXIO),
        }
    }

    /// `/dev/infiniband/umadN` or `issmN` was opened.
    fn open_management(&self, fd: i32, nic: usize, manages: bool) -> Answer {
        if nic >= self.process.nics() {
            return Answer::error(libc::ENXIO);
        }
        let endpoint = self.process.lid(nic).0;
        let mut world = self.shared.world();
        let Some(management) = &mut world.management else { return Answer::error(libc::ENXIO) };
        let open = management.open(endpoint, manages);
        world.programs[self.program as usize].descriptors.insert(fd, Descriptor::Management(open));
        Answer::number(0)
    }

    fn send_management(&self, (open, nic): (u32, usize), sent: &[u8]) -> Answer {
        if nic >= self.process.nics() {
            return Answer::error(libc::ENXIO);
        }
        let (now, endpoint) = (self.process.now(), self.process.lid(nic).0);
        let mut world = self.shared.world();
        let Some(management) = &mut world.management else { return Answer::error(libc::ENXIO) };
        let done = management.send(open, (now, endpoint), sent);
        let told = management.told.take();
        for open in told.into_iter().chain([open]) {
            world.tell(&self.process, Key::Management(open), now);
        }
        done.map(|()| 0).into()
    }

    async fn receive_management(&self, open: u32, waits: bool, room: usize) -> Answer {
        let wait = (&[Key::Management(open)][..], Doing::WaitsFor("an answer of management"), waits);
        let take = |world: &mut World, now| {
            let Some(management) = &mut world.management else { return Outcome::Failed(libc::ENXIO) };
            match management.take(open, now, room) {
                Some(taken) => Outcome::Done(taken),
                None => Outcome::Wait(management.readable_at(open)),
            }
        };
        match self.until_done(wait, take).await {
            Ok((data, whole)) => Answer { data, ..Answer::number(if whole { 0 } else { -i64::from(libc::ENOSPC) }) },
            Err(errno) => Answer::error(errno),
        }
    }
}
