//! Packets of the transports that are neither RC, UC nor UD, on their way to what takes them.
//!
//! Source: IBA vol. 1 §9.6 (packet validation).
//! Modelled: contexts of SRD and UET, connections of iWARP, raw packets, answers to requests, extended connections, end-to-end contexts, and a
//! responder for each initiator that is connected to a target of DC.
//! Not modelled: –

use fabriscope_units::Time;
use fabriscope_wire::{Opcode, Operation, Transport};

use crate::attr::{QpState, QpType};
use crate::ext_headers::ExtHeaders;
use crate::nic::{Before, Nic, note_mark};
use crate::packet::{Body, IwarpKind, Packet, PacketFlags, Received};
use crate::qp::responder::Silence;
use crate::transport::inbound::Refusal;
use crate::transport::outbound::OPERATION;
use crate::transport::{dc, iwarp, raw, rc::requester as rc_requester, rc::responder as rc_responder};

impl Nic {
    /// A packet of a transport that is neither RC, UC nor UD arrived.
    pub(crate) fn handle_other(&mut self, now: Time, packet: &Packet, slot: Option<usize>, side: &mut ExtHeaders, received: &mut Received) {
        let before = Before::of(&self.port);
        let (transport, operation) = (packet.opcode >> 5, packet.opcode & OPERATION);
        let answer = (Operation::ReadResponseFirst as u8..=Operation::AtomicAcknowledge as u8).contains(&operation);
        let body = packet.body();
        let empty = matches!(body, Body::Iwarp { kind: IwarpKind::Segment, .. }) && packet.payload == 0;
        let follows_payload = operation != Operation::Acknowledge as u8 && !empty;
        let Nic { qps, port, contexts, .. } = self;
        if transport == Transport::Rud as u8 {
            contexts.handle(slot.map(|slot| &mut qps[slot]), now, port, packet, side, received);
        } else if let (Body::Iwarp { .. }, Some(slot)) = (body, slot) {
            iwarp::handle(&mut qps[slot], now, port, packet, side, received);
        } else if packet.opcode == Opcode::RAW {
            raw::handle(qps, port, packet, side, received);
        } else if let Some(slot) = slot.filter(|_| answer) {
            rc_requester::handle(&mut qps[slot], now, port, packet, side, received);
        } else if let Some(slot) = self.responder_of(packet, slot, side) {
            let Nic { qps, port, .. } = self;
            if packet.flags.contains(PacketFlags::ECN_CE) {
                note_mark(&mut qps[slot], now, port);
            }
            let lends = matches!(qps[slot].qp_type, QpType::XrcRecv | QpType::Eec);
            if lends && !super::relay::lend(qps, slot, port, packet, side.at(packet.ext)) {
                side.free(packet.ext);
                received.dropped = true;
                rc_responder::refuse(&mut qps[slot], port, Refusal::Invalid);
            } else {
                rc_responder::handle(&mut qps[slot], port, packet, side, received);
            }
            if qps[slot].qp_type == QpType::Eec {
                super::relay::give_back(qps, slot, port);
            }
        } else {
            side.free(packet.ext);
            received.dropped = true;
        }
        self.run_errands();
        before.report(&mut self.port, follows_payload, received);
    }

    /// The queue pair whose responder takes a request: of a target of DC the one for the initiator, made with its first packet.
    fn responder_of(&mut self, packet: &Packet, slot: Option<usize>, side: &ExtHeaders) -> Option<usize> {
        let slot = slot?;
        if self.qps[slot].qp_type != QpType::Dct {
            return Some(slot).filter(|_| self.qps[slot].qp_type != QpType::Dci);
        }
        let ext = side.at(packet.ext)?;
        let receives = matches!(self.qps[slot].state, QpState::Rtr | QpState::Rts);
        if !receives {
            return None;
        }
        let key = dc::key(packet, ext);
        let place = match self.responders.get(&key) {
            Some(place) => *place as usize,
            None => {
                let place = self.make_responder(slot, ext)?;
                self.responders.insert(key, place as u32);
                place
            }
        };
        let fits = self.qps[slot].attr.qkey == Some(ext.qkey);
        let qp = &mut self.qps[place];
        if !dc::connect(qp, ext, packet.sl) || packet.opcode & OPERATION == Operation::Resync as u8 {
            return None;
        }
        if !fits && qp.responder.silence == Silence::Not {
            rc_responder::refuse(qp, &mut self.port, Refusal::RemoteAccess);
        }
        fits.then_some(place)
    }
}
