//! Reliable unordered delivery: what stands behind queue pairs of SRD and Ultra Ethernet.
//!
//! Source: Shalev et al., "A Cloud-Optimized Transport Protocol for Elastic and Scalable HPC", IEEE Micro 40(6), 2020 (SRD: a
//! context for each peer adapter that all queue pairs share, packets sprayed over paths, acknowledged by hardware, delivered in
//! any order); Ultra Ethernet specification 1.0, §3.5 (packet delivery contexts made on demand, modes RUD, ROD, RUDI and UUD,
//! selective acknowledgement of 64 packets, after so many bytes, NACK of trimmed packets).
//!
//! | mode | state at the receiver | out of order | lost |
//! |---|---|---|---|
//! | RUD | which packets arrived | taken | repeated alone |
//! | ROD | the next packet; one path | dropped, NACK | everything from there on again |
//! | RUDI | none: each packet is carried out whenever it comes, and answered alone | taken | repeated alone |
//! | UUD | none | taken | lost |
//!
//! Modelled: one context for each peer, service level and mode, made by the first message or packet, without a handshake; packet
//! numbers, windows, selective repetition, congestion control; every packet is placed when it arrives, every message is
//! delivered when its last packet has, whatever came before it; READs and atomics as a request and an answer that is as
//! reliable as the request.
//! Not modelled: closing idle contexts, UET's tag matching and security.
//!
//! ```text
//!   QP  QP  QP        queue pairs of processes: requests, receives, completions
//!     \  |  /
//!   contexts          one per peer: `sender` numbers and repeats, `receiver` places and acknowledges
//!        |
//!      packets
//! ```

pub mod coalescing;
pub(crate) mod context;
pub(crate) mod contexts;
pub(crate) mod headers;
mod idempotent;
pub(crate) mod message;
mod receiver;
mod receiving;
mod sender;
mod sending;
mod shortening;

use fabriscope_units::Time;
use fabriscope_wire::{Operation, Psn, Transport as Code};

use crate::attr::QpType;
use crate::error::PostError;
use crate::ext_headers::{ExtHeaders, ExtId};
use crate::ids::QpNum;
use crate::nic::{Before, Nic};
use crate::packet::{Packet, Received};
use crate::qp::Qp;
use crate::qp::requester::{Route, Wqe};
use crate::transport::interface::Transport;
use crate::transport::outbound::OPERATION;
use crate::transport::relay;
use crate::wr::SendWr;
use message::{Kind, Message, Origin};

/// SRD and the reliable modes of Ultra Ethernet.
pub(crate) struct Rud;

impl Transport for Rud {
    const CODE: Option<Code> = Some(Code::Rud);

    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        relay::addressed(nic, qp, wr).map(Some)
    }
    fn doorbell(nic: &mut Nic, slot: usize) {
        relay::hand_over(nic, slot, post);
    }
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        let mut received = Received::default();
        let before = Before::of(&nic.port);
        let Nic { qps, port, contexts, .. } = nic;
        contexts.handle(slot.map(|slot| &mut qps[slot]), now, port, packet, ext_headers, &mut received);
        let follows_payload = packet.opcode & OPERATION != Operation::Acknowledge as u8;
        nic.report(before, follows_payload, &mut received);
        received
    }
}

/// To the context of the peer.
fn post(nic: &mut Nic, wqe: Wqe, qp_type: QpType, receiver_retries: u8) {
    let Some(route) = wqe.route.as_deref().copied() else { return };
    let origin = Origin {
        qp: route.owner,
        cq: route.cq,
        index: route.index,
        wr_id: wqe.wr_id,
        signaled: wqe.signaled,
        opcode: wqe.opcode.completion(),
        length: wqe.length,
    };
    let kind = if wqe.waits_for_response() { Kind::Request(wqe.opcode) } else { Kind::Data(wqe.opcode) };
    let message = Message {
        kind,
        origin: Some(origin),
        qp_type,
        from: route.owner,
        to: QpNum(route.to),
        qkey: route.qkey,
        remote: wqe.remote,
        imm: wqe.opcode.has_immediate().then_some(wqe.imm),
        extra: wqe.extra,
        length: wqe.length,
        sge: wqe.sge,
        inline: wqe.inline,
        flags: wqe.flags,
        first: Psn::default(),
        packets: 0,
        headers: ExtId::NONE,
        arrived: 0,
        done: false,
        receiver_retries,
    };
    nic.contexts.post(route.dest, route.sl, message, &mut nic.port);
}
