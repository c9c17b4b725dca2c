//! Messages out of packets: who sent how much to whom, and when.
//!
//! Source: InfiniBand volume 1, §9.7 (sequence numbers of requests), §9.8 (unreliable service).
//! Modelled: SENDs, WRITEs, READs and atomics of RC, XRC and UC, datagrams; packets in any order, seen twice (taps at both
//! ends of a path) or sent again: the first sighting counts.
//! Not modelled: RD; queue pairs whose number is used again with sequence numbers that continue the old ones.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabriscope_units::{Bytes, Time};
use fabriscope_wire::{Opcode, Psn, Transport};

use crate::dissect::{Datagram, dissect};
use crate::error::CaptureError;
use crate::read::{LinkType, records};

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A SEND.
    Send,
    /// An RDMA WRITE.
    Write,
    /// An RDMA READ, from the responder to the requester.
    Read,
    /// An atomic: eight bytes from the responder to the requester.
    Atomic,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// When its first packet was seen, after the first packet of the capture.
    pub time: Time,
    /// Who asked for it: the sender, or the reader of a READ.
    pub requester: IpAddr,
    /// The other side.
    pub responder: IpAddr,
    /// What it does.
    pub kind: Kind,
    /// Its length.
    pub bytes: Bytes,
}

/// What a capture says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// In the order of time.
    pub messages: Vec<Message>,
    /// RoCE packets.
    pub packets: usize,
    /// Packets of other kinds.
    pub others: usize,
    /// Packets seen before: sent again, or passing a second tap.
    pub repeats: usize,
    /// Messages that the capture holds only in part; they are left out.
    pub incomplete: usize,
    /// Hosts in the order in which they appear.
    pub hosts: Vec<IpAddr>,
}

/// Requests of one queue pair to another: sender, receiver, receiver's queue pair, and the sender's for datagrams.
type Flow = (IpAddr, IpAddr, u32, u32);

/// The request packets of a flow, by sequence number without its wrapping.
#[derive(Default)]
struct Requests {
    latest: Option<i64>,
    packets: BTreeMap<i64, Request>,
}

#[derive(Clone, Copy)]
struct Request {
    time: Time,
    opcode: Opcode,
    payload: u32,
    /// Of the whole transfer, where the packet tells.
    length: Option<u32>,
}

/// Reads a capture of RoCE version 2.
///
/// # Errors
/// Not a capture, cut, damaged, of another kind of link, or without RoCE; the message says where.
pub fn conversation(bytes: &[u8]) -> Result<Conversation, CaptureError> {
    let mut found = Conversation::default();
    let mut flows: BTreeMap<Flow, Requests> = BTreeMap::new();
    let records = records(bytes)?;
    // Taps may be written one after the other.
    let first = records.iter().map(|record| record.time_ns).min().unwrap_or(0);
    for record in &records {
        if record.link != LinkType::ETHERNET {
            return Err(CaptureError::NotEthernet { offset: record.offset, found: record.link.to_string() });
        }
        let told = |cause| CaptureError::NotRoce { offset: record.offset, cause };
        let Some(datagram) = dissect(record.data).map_err(told)? else {
            found.others += 1;
            continue;
        };
        found.packets += 1;
        for host in [datagram.source, datagram.destination] {
            if !found.hosts.contains(&host) {
                found.hosts.push(host);
            }
        }
        let time = Time::from_ps((record.time_ns - first).saturating_mul(1000));
        if !note(&mut flows, &datagram, time) {
            found.repeats += 1;
        }
    }
    if found.packets == 0 {
        return Err(CaptureError::Nothing { packets: found.others });
    }
    for (flow, requests) in &flows {
        assemble(flow, requests, &mut found);
    }
    found.messages.sort_by_key(|message| (message.time, message.requester, message.responder, message.kind, message.bytes));
    Ok(found)
}

/// Notes a request; false if it was seen before. Answers and notifications are no requests.
fn note(flows: &mut BTreeMap<Flow, Requests>, datagram: &Datagram, time: Time) -> bool {
    let bth = &datagram.bth;
    let transport = bth.opcode.transport();
    if bth.opcode.is_response() || matches!(transport, Transport::Cnp | Transport::Rd | Transport::Rud | Transport::Dc) {
        return true;
    }
    let source_qp = datagram.deth.map_or(0, |deth| deth.source_qp);
    let flow = flows.entry((datagram.source, datagram.destination, bth.dest_qp, source_qp)).or_default();
    let psn = match flow.latest {
        None => i64::from(bth.psn.as_u32()),
        Some(latest) => latest + i64::from(bth.psn.distance(Psn::new((latest & 0xFF_FFFF) as u32))),
    };
    flow.latest = Some(flow.latest.map_or(psn, |latest| latest.max(psn)));
    let request = Request { time, opcode: bth.opcode, payload: datagram.payload, length: datagram.reth.map(|reth| reth.length) };
    match flow.packets.entry(psn) {
        std::collections::btree_map::Entry::Vacant(place) => {
            place.insert(request);
            true
        }
        std::collections::btree_map::Entry::Occupied(mut place) => {
            if place.get().time > time {
                place.insert(request);
            }
            false
        }
    }
}

/// A message of which the first packets were seen.
struct Begun {
    time: Time,
    kind: Kind,
    next: i64,
    bytes: u64,
    length: Option<u32>,
}

fn assemble(&(from, to, ..): &Flow, requests: &Requests, found: &mut Conversation) {
    let mut begun: Option<Begun> = None;
    let message = |time, kind, bytes| Message { time, requester: from, responder: to, kind, bytes: Bytes(bytes) };
    for (&psn, request) in &requests.packets {
        let opcode = request.opcode;
        if opcode.is_read_request() || opcode.is_atomic() {
            let kind = if opcode.is_atomic() { Kind::Atomic } else { Kind::Read };
            found.messages.push(message(request.time, kind, request.length.map_or(ATOMIC_BYTES, u64::from)));
            continue;
        }
        if opcode.is_first() {
            found.incomplete += usize::from(begun.take().is_some());
            let kind = if opcode.is_write() { Kind::Write } else { Kind::Send };
            begun = Some(Begun { time: request.time, kind, next: psn, bytes: 0, length: request.length });
        }
        let Some(mut one) = begun.take_if(|one| one.next == psn) else {
            // Its beginning is missing: count the message once, at its end.
            found.incomplete += usize::from(opcode.is_last());
            begun = None;
            continue;
        };
        one.bytes += u64::from(request.payload);
        one.next += 1;
        if !opcode.is_last() {
            begun = Some(one);
        } else if one.length.is_some_and(|length| u64::from(length) != one.bytes) {
            found.incomplete += 1;
        } else {
            found.messages.push(message(one.time, one.kind, one.bytes));
        }
    }
    found.incomplete += usize::from(begun.is_some());
}

/// Basis: standard.
const ATOMIC_BYTES: u64 = 8;
