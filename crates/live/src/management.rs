//! Subnet management as tools of infiniband-diags see it: datagrams to the agents of adapters and switches, and their answers.
//!
//! Source: InfiniBand Architecture Specification vol. 1, chapters 13 (datagrams) and 14 (directed routes, attributes); the kernel's `ib_user_mad.h`.
//! Modelled: reading by directed route and by LID: NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, PortInfo, P_KeyTable; joining
//! multicast groups. A round trip takes 10 us of the hosts and 1 us for each switch (assumed). Not modelled: the datagrams on the wire,
//! writing, other classes (no counters, no queries of paths): they are answered as what an agent does not have.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_engine::Cluster;
use fabriscope_fabric::export;
use fabriscope_fabric::import::{Kind, Plug, Speed, Subnet};
use fabriscope_units::{Span, Time};
use fabriscope_verbs::Lid;

use crate::address::Addresses;
use crate::device::CAPABILITIES;
use crate::question::{Answer, Op, Outcome, Question};
use crate::thread::Thread;
use crate::world::{Descriptor, Doing, Host, Key, World};

/// Bytes in front of a datagram, and of one.
const HEAD: usize = 64;
const DATAGRAM: usize = 256;
/// Where the attribute is in it.
const DATA: usize = 64;
const HOSTS: Span = Span::from_us(10);
const SWITCH: Span = Span::from_us(1);
/// Classes of management: subnet administration along LIDs and along directed routes.
const BY_LID: u8 = 0x01;
const DIRECTED: u8 = 0x81;
/// Subnet administration: where the attribute of its datagrams is, and what joins and leaves multicast groups (`MCMemberRecord`).
const ADMINISTRATION: u8 = 0x03;
const RECORD: usize = 56;
const MEMBER: u16 = 0x38;
const SET: u8 = 2;
const DELETE: u8 = 0x15;
/// A method to read, and its answer.
const GET: u8 = 1;
const RESPONSE: u8 = 0x81;
/// In which the answer to any other method differs from it.
const RESPONSE_BIT: u8 = 0x80;
/// Status of an answer: on its way back; an attribute or a method that is not there.
const BACK: u16 = 0x8000;
const UNSUPPORTED: u16 = 0x000c;

/// The agents of a fabric, and who waits for their answers.
#[derive(Debug)]
pub(crate) struct Management {
    subnet: Subnet,
    addresses: Addresses,
    /// What is plugged into a port, and at which speed.
    far: BTreeMap<Plug, (Plug, Option<Speed>)>,
    /// Devices by LID.
    lids: BTreeMap<u16, u32>,
    switches: u32,
    /// Multicast groups that were joined here, and the MLIDs that they were given.
    groups: BTreeMap<[u8; 16], u16>,
    /// Answers by open descriptor, with when each is there.
    answers: BTreeMap<u32, VecDeque<(Time, Vec<u8>)>>,
    next: u32,
}

impl Management {
    /// Of a cluster whose hosts are these nodes.
    pub fn new(cluster: &Cluster, hosts: &[Host], seats: &[u32]) -> Management {
        let mut subnet = export::subnet(&cluster.fabric);
        let switches = cluster.fabric.graph.switch_count();
        let endpoints = cluster.fabric.graph.endpoint_count();
        let addresses = Addresses::of(&cluster.parts);
        // Adapters have the numbers that verbs show; switches come after them.
        for (index, device) in (0..).zip(&mut subnet.devices) {
            device.lid = u16::try_from(if index < switches { endpoints + index + 1 } else { index - switches + 1 }).ok();
            if index >= switches {
                device.guid = Some(addresses.guid(Lid(index - switches)));
                device.description = format!("endpoint{} HCA-1", index - switches);
            }
        }
        for (host, seat) in hosts.iter().zip(seats) {
            let endpoints = cluster.parts.endpoints_of(*seat).unwrap_or_default();
            for (endpoint, device) in endpoints.zip(&host.devices) {
                if let Some(of) = subnet.devices.get_mut((switches + endpoint) as usize) {
                    of.description = device.description().to_owned();
                }
            }
        }
        let ends = subnet.cables.iter().flat_map(|cable| {
            let [a, b] = cable.ends;
            [(a, (b, cable.speed)), (b, (a, cable.speed))]
        });
        let far = ends.collect();
        let lids = (0..).zip(&subnet.devices).filter_map(|(index, device)| Some((device.lid?, index))).collect();
        Management { subnet, addresses, far, lids, switches, groups: BTreeMap::new(), answers: BTreeMap::new(), next: 0 }
    }

    pub fn open(&mut self) -> u32 {
        self.next += 1;
        self.answers.insert(self.next, VecDeque::new());
        self.next
    }
    pub fn close(&mut self, open: u32) {
        self.answers.remove(&open);
    }
    pub fn readable_at(&self, open: u32) -> Option<Time> {
        self.answers.get(&open)?.iter().map(|(at, _)| *at).min()
    }
    fn take(&mut self, open: u32, now: Time) -> Option<Vec<u8>> {
        let answers = self.answers.get_mut(&open)?;
        let place = answers.iter().position(|(at, _)| *at <= now)?;
        answers.remove(place).map(|(_, bytes)| bytes)
    }

    /// A datagram from endpoint `endpoint`: what comes back, and when.
    fn send(&mut self, open: u32, (now, endpoint): (Time, u32), sent: &[u8]) -> Result<(), i32> {
        if sent.len() < HEAD + DATAGRAM {
            return Err(libc::EINVAL);
        }
        let (head, mad) = sent.split_at(HEAD);
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (timeout, retries) = (u64::from(word(8)), u64::from(word(12)));
        let mut answer = sent[..HEAD + DATAGRAM].to_vec();
        let lost = now + Span::from_us(timeout.saturating_mul(1000).saturating_mul(retries + 1));
        let (at, status) = match self.reach(endpoint, head, mad) {
            Some((plug, hops)) => {
                self.reply(plug, &mut answer[HEAD..]);
                (now + HOSTS + SWITCH * u64::from(hops), 0)
            }
            // Nobody answers.
            None => (lost, libc::ETIMEDOUT as u32),
        };
        answer[4..8].copy_from_slice(&status.to_ne_bytes());
        answer[16..20].copy_from_slice(&((HEAD + DATAGRAM) as u32).to_ne_bytes());
        if timeout > 0 || status == 0 {
            self.answers.get_mut(&open).ok_or(libc::EBADF)?.push_back((at, answer));
        }
        Ok(())
    }

    /// The device that a datagram comes to, the port through which, and how many switches are on the way.
    fn reach(&self, endpoint: u32, head: &[u8], mad: &[u8]) -> Option<(Plug, u32)> {
        let mut here = Plug { device: self.switches + endpoint, port: 1 };
        match mad[1] {
            DIRECTED => {
                let hops = mad[7];
                for hop in 1..=usize::from(hops) {
                    let out = Plug { device: here.device, port: u16::from(*mad.get(128 + hop)?) };
                    here = self.far.get(&out)?.0;
                }
                Some((here, hops.into()))
            }
            _ => {
                let lid = u16::from_be_bytes([head[28], head[29]]);
                let device = if lid == 0 || lid == 0xffff { here.device } else { *self.lids.get(&lid)? };
                Some((Plug { device, port: if device < self.switches { 0 } else { 1 } }, 2))
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

    /// Turns a request into the answer of the agent at `plug`.
    fn reply(&mut self, plug: Plug, mad: &mut [u8]) {
        let attribute = u16::from_be_bytes([mad[16], mad[17]]);
        let modifier = u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]]);
        let (class, method) = (mad[1], mad[3]);
        if class == ADMINISTRATION && attribute == MEMBER && matches!(method, SET | DELETE) {
            self.membership(mad);
            return;
        }
        let known = matches!(class, BY_LID | DIRECTED) && method == GET;
        let data = if known { self.attribute(plug, attribute, modifier) } else { None };
        let mut status = if data.is_some() { 0 } else { UNSUPPORTED };
        if class == DIRECTED {
            status |= BACK;
        }
        mad[3] = RESPONSE;
        mad[4..6].copy_from_slice(&status.to_be_bytes());
        if let Some(data) = data {
            mad[DATA..DATA + 64].copy_from_slice(&data);
        }
    }

    fn attribute(&self, plug: Plug, attribute: u16, modifier: u32) -> Option<[u8; 64]> {
        let device = self.subnet.devices.get(plug.device as usize)?;
        let is_switch = device.kind == Kind::Switch;
        let guid = device.guid.unwrap_or(0);
        let port_guid = plug.device.checked_sub(self.switches).map_or(guid, |endpoint| self.addresses.interface(Lid(endpoint)));
        let mut data = [0; 64];
        match attribute {
            // NodeDescription
            0x10 => {
                let text = device.description.as_bytes();
                let length = text.len().min(64);
                data[..length].copy_from_slice(&text[..length]);
            }
            // NodeInfo
            0x11 => {
                (data[0], data[1], data[2], data[3]) = (1, 1, if is_switch { 2 } else { 1 }, device.ports as u8);
                for (at, guid) in [(4, guid), (12, guid), (20, port_guid)] {
                    data[at..at + 8].copy_from_slice(&guid.to_be_bytes());
                }
                data[28..30].copy_from_slice(&32_u16.to_be_bytes());
                data[36] = plug.port as u8;
                data[38] = 2;
                data[39] = 0xc9;
            }
            // SwitchInfo
            0x12 if is_switch => {
                data[..2].copy_from_slice(&49_152_u16.to_be_bytes());
                data[4..6].copy_from_slice(&16_384_u16.to_be_bytes());
                data[6..8].copy_from_slice(&(self.subnet.devices.len() as u16).to_be_bytes());
                // Port 0 is an enhanced one.
                data[16] = 8;
            }
            // GUIDInfo
            0x14 if modifier == 0 => data[..8].copy_from_slice(&port_guid.to_be_bytes()),
            // PortInfo
            0x15 => return self.port_info(plug, (modifier & 0xff) as u16),
            // P_KeyTable
            0x16 if modifier & 0xffff == 0 => data[..2].copy_from_slice(&0xffff_u16.to_be_bytes()),
            _ => return None,
        }
        Some(data)
    }

    fn port_info(&self, plug: Plug, asked: u16) -> Option<[u8; 64]> {
        let device = self.subnet.devices.get(plug.device as usize)?;
        let is_switch = device.kind == Kind::Switch;
        let port = if asked == 0 && !is_switch { plug.port } else { asked };
        if port > device.ports {
            return None;
        }
        let own = is_switch && port == 0;
        let cable = self.far.get(&Plug { device: plug.device, port });
        let mut data = [0; 64];
        data[8..16].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
        if own || !is_switch {
            data[16..18].copy_from_slice(&device.lid.unwrap_or(0).to_be_bytes());
            data[18..20].copy_from_slice(&1_u16.to_be_bytes());
            data[20..24].copy_from_slice(&CAPABILITIES.to_be_bytes());
        }
        data[28] = plug.port as u8;
        let speed = cable.and_then(|(_, speed)| *speed);
        let width = speed.map_or(2, |speed| match speed.lanes {
            1 => 1,
            8 => 4,
            12 => 8,
            2 => 16,
            _ => 2,
        });
        // Speeds that came later have a field of their own, beside the last of the old ones.
        let (old, new) = match speed.map(|speed| speed.name) {
            Some("SDR") => (1, 0),
            Some("DDR") => (2, 0),
            Some("QDR") => (4, 0),
            Some("FDR") => (4, 1),
            Some("EDR") => (4, 2),
            Some("HDR") => (4, 4),
            Some("NDR" | "XDR") => (4, 8),
            _ => (1, 0),
        };
        (data[29], data[30], data[31]) = (width, width, width);
        let up = own || cable.is_some();
        let (state, physical) = if up { (4, 5) } else { (1, 2) };
        data[32] = 7 << 4 | state;
        data[33] = physical << 4 | 2;
        data[35] = old << 4 | 7;
        data[36] = 5 << 4;
        data[37] = 4 << 4;
        data[41] = 5;
        data[43] = 4 << 4;
        data[51] = 18;
        // Whoever has a speed has those before it.
        let known = if new == 0 { 0 } else { 2 * new - 1 };
        data[62] = new << 4 | known;
        data[63] = known;
        Some(data)
    }
}

impl Thread {
    pub(crate) async fn management(&self, op: Op, question: &Question) -> Answer {
        self.process.catch_up().await;
        let (fd, second) = (question.args[0] as i32, question.args[1]);
        if op == Op::MadOpen {
            return self.open_management(fd);
        }
        let Some(Descriptor::Management(open)) = self.descriptor(fd) else { return Answer::error(libc::EBADF) };
        match op {
            Op::MadSend => self.send_management((open, second as usize), &question.data),
            _ => self.receive_management(open, second != 0).await.map_or_else(Answer::error, |data| Answer { data, ..Answer::number(0) }),
        }
    }

    /// `/dev/infiniband/umadN` was opened.
    fn open_management(&self, fd: i32) -> Answer {
        let mut world = self.shared.world();
        let Some(management) = &mut world.management else { return Answer::error(libc::ENXIO) };
        let open = management.open();
        world.programs[self.program as usize].descriptors.insert(fd, Descriptor::Management(open));
        Answer::number(0)
    }

    fn send_management(&self, (open, nic): (u32, usize), sent: &[u8]) -> Answer {
        let endpoint = self.process.lid(nic).0;
        let mut world = self.shared.world();
        let Some(management) = &mut world.management else { return Answer::error(libc::ENXIO) };
        let done = management.send(open, (self.process.now(), endpoint), sent);
        world.tell(&self.process, Key::Management(open), self.process.now());
        done.map(|()| 0).into()
    }

    async fn receive_management(&self, open: u32, waits: bool) -> Result<Vec<u8>, i32> {
        let wait = (&[Key::Management(open)][..], Doing::WaitsFor("an answer of management"), waits);
        let take = |world: &mut World, now| {
            let Some(management) = &mut world.management else { return Outcome::Failed(libc::ENXIO) };
            match management.take(open, now) {
                Some(data) => Outcome::Done(data),
                None => Outcome::Wait(management.readable_at(open)),
            }
        };
        self.until_done(wait, take).await
    }
}
