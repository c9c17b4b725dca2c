//! Packets of Ultra Ethernet as bytes: from the PDS header to the end of the payload.
//!
//! Source: Ultra Ethernet specification 1.0, §3.4 (SES) and §3.5 (PDS); the layouts are in [`fabriscope_wire::ultra`].
//! Modelled: requests of RUD, ROD, RUDI and UUD, READ answers as requests of the way back with a response header, ACK_CC with the map
//! of what has come, NACKs of trimmed packets and of ROD's gaps.
//! Not modelled: what the transport has no model of, and how it is filled in:
//!
//! | field | holds |
//! |---|---|
//! | SPDCID, DPDCID | mode, service level and number of the peer, as both ends would give them |
//! | SYN | set in the packet with which a context begins; adapters set it until the first acknowledgement |
//! | CLEAR_PSN offset | that to the number before the context's first: nothing is cleared |
//! | message id | the low bits of the number of the message's first packet |
//! | PIDonFEP, resource index | lower and upper half of the queue pair's number |
//! | job | the Q_Key |
//! | header data | immediate data |
//! | RETX flag, MPR, state of NSCC, modified length of plain responses | zero |
//! | NACK where no receive was posted | code `NO_RESOURCE` |

use fabriscope_verbs::{Ext, Packet, PacketFlags};
use fabriscope_wire::ultra::{AckState, NextSes, Pdcids, Pds, ReturnCode, SesAtomic, SesOpcode, SesPlace, SesRequest, SesResponse, nack};
use fabriscope_wire::{Delivery, NakCode, Opcode, Operation, Psn, Syndrome, WireError};

/// The bytes behind the UDP header of a packet from `source`.
///
/// # Errors
/// A syndrome that the standard does not define.
pub(crate) fn transport(source: Option<u32>, opcode: Opcode, packet: &Packet, ext: &Ext) -> Result<Vec<u8>, WireError> {
    let pdcids = Pdcids {
        source: pdcid(packet.dest.0, packet.sl, ext.delivery),
        destination: source.map_or(0, |source| pdcid(source, packet.sl, ext.delivery)),
    };
    if opcode.is_ack() {
        return acknowledgement(packet, ext, pdcids);
    }
    let answers = opcode.is_response();
    let next = if answers { NextSes::ResponseData } else { NextSes::Request };
    let mut bytes = match ext.delivery {
        Delivery::Rudi => Pds::Idempotent { response: answers, next, id: packet.psn },
        Delivery::Uud => Pds::Unreliable { next },
        Delivery::Rud | Delivery::Rod | Delivery::Srd => {
            let from_start = Psn::new(packet.psn).distance(Psn::new(ext.start));
            Pds::Request {
                ordered: ext.delivery == Delivery::Rod,
                next,
                ack_request: packet.flags.contains(PacketFlags::ACK_REQ),
                syn: (from_start == 0).then_some(0),
                clear_offset: short(-1 - from_start),
                psn: packet.psn,
                pdcids,
            }
        }
    }
    .encode();
    bytes.extend(if answers { response(opcode, packet, ext) } else { request(opcode, packet, ext) });
    let payload = usize::from(packet.payload);
    match (&ext.data, opcode.operation()) {
        (_, Some(Operation::AtomicAcknowledge)) => bytes.extend(ext.compare_add.to_le_bytes()),
        (_, Some(Operation::FetchAdd)) => bytes.extend(ext.compare_add.to_le_bytes()),
        (Some(data), _) if data.len() == payload => bytes.extend_from_slice(data),
        _ => bytes.resize(bytes.len() + payload, 0),
    }
    Ok(bytes)
}

/// The number of the context that one end has with a peer.
fn pdcid(peer: u32, sl: u8, delivery: Delivery) -> u16 {
    let mode = if delivery == Delivery::Rod { 2 } else { 1 };
    mode << 14 | u16::from(sl & 3) << 12 | (peer.wrapping_add(1) & 0xFFF) as u16
}

/// A difference of packet numbers in 16 bits.
fn short(distance: i32) -> i16 {
    distance.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// First and last packet of its message.
fn ends(opcode: Opcode, delivery: Delivery) -> (bool, bool) {
    use Operation as Op;
    // Every packet of RUDI is a request of its own.
    if delivery == Delivery::Rudi {
        return (true, true);
    }
    match opcode.operation() {
        Some(Op::SendFirst | Op::WriteFirst | Op::ReadResponseFirst) => (true, false),
        Some(Op::SendMiddle | Op::WriteMiddle | Op::ReadResponseMiddle) => (false, false),
        Some(Op::SendLast | Op::SendLastImm | Op::WriteLast | Op::WriteLastImm | Op::ReadResponseLast) => (false, true),
        _ => (true, true),
    }
}

/// Where the payload belongs in its message: all packets but the last are equally long.
fn offset(packet: &Packet, ext: &Ext, (start, end): (bool, bool)) -> u32 {
    let number = Psn::new(packet.psn).distance(Psn::new(ext.context)).max(0) as u32;
    match (start, end) {
        (true, _) => 0,
        (false, true) => ext.dma_length.saturating_sub(packet.payload.into()),
        (false, false) => number.saturating_mul(packet.payload.into()),
    }
}

fn message_id(packet: &Packet, ext: &Ext) -> u16 {
    let first = matches!(ext.delivery, Delivery::Rud | Delivery::Rod);
    (if first { ext.context } else { packet.psn }) as u16
}

fn request(opcode: Opcode, packet: &Packet, ext: &Ext) -> Vec<u8> {
    use Operation as Op;
    let at = ends(opcode, ext.delivery);
    let (operation, atomic) = match opcode.operation() {
        Some(Op::ReadRequest) => (SesOpcode::Read, None),
        Some(Op::FetchAdd) => (SesOpcode::FetchingAtomic, Some(SesAtomic::Add)),
        Some(Op::CompareSwap) => (SesOpcode::FetchingAtomic, Some(SesAtomic::CompareSwap { compare: ext.compare_add, swap: ext.swap })),
        _ if opcode.is_write() => (SesOpcode::Write, None),
        _ if opcode.is_send() && ext.delivery == Delivery::Uud => (SesOpcode::DatagramSend, None),
        _ if opcode.is_send() => (SesOpcode::Send, None),
        _ => (SesOpcode::NoOp, None),
    };
    let remote = !matches!(operation, SesOpcode::Send | SesOpcode::DatagramSend | SesOpcode::NoOp);
    let place = match at.0 {
        true => SesPlace::Start { header_data: (opcode.has_immediate() || ext.imm != 0).then_some(ext.imm.into()) },
        false => SesPlace::Inner { payload: packet.payload, offset: offset(packet, ext, at) },
    };
    let length = if atomic.is_some() { ATOMIC_BYTES } else { ext.dma_length };
    SesRequest {
        opcode: operation,
        place,
        end: at.1,
        message: message_id(packet, ext),
        job: ext.qkey,
        pid: (packet.dest_qp & 0xFFF) as u16,
        index: (packet.dest_qp >> 12 & 0xFFF) as u16,
        buffer_offset: if remote { ext.remote_addr } else { 0 },
        initiator: ext.src_qp.0,
        key: if remote { ext.rkey.0.into() } else { 0 },
        length: if ext.delivery == Delivery::Uud { packet.payload.into() } else { length },
        atomic,
    }
    .encode()
}

fn response(opcode: Opcode, packet: &Packet, ext: &Ext) -> Vec<u8> {
    let atomic = matches!(opcode.operation(), Some(Operation::AtomicAcknowledge));
    // The answer to a packet of RUDI has its number; other answers say which request they are for.
    let request = if ext.delivery == Delivery::Rudi { packet.psn as u16 } else { ext.swap as u16 };
    let payload = if atomic { ATOMIC_BYTES as u16 } else { packet.payload };
    let whole = atomic || ext.delivery == Delivery::Rudi;
    let length = if whole { payload.into() } else { ext.dma_length };
    let at = if whole { 0 } else { offset(packet, ext, ends(opcode, ext.delivery)) };
    let message = message_id(packet, ext);
    SesResponse { code: ReturnCode::Ok, message, job: ext.qkey, length, data: Some((request, payload, at)) }.encode()
}

fn acknowledgement(packet: &Packet, ext: &Ext, pdcids: Pdcids) -> Result<Vec<u8>, WireError> {
    let asked = ext.context;
    let marked = packet.flags.contains(PacketFlags::BECN);
    let refused = |code| Pds::Nack { code, marked, psn: asked, pdcids }.encode();
    if packet.flags.contains(PacketFlags::TRIMMED) {
        return Ok(refused(nack::TRIMMED));
    }
    let code = match Syndrome::decode(packet.syndrome)? {
        Syndrome::RnrNak(_) => return Ok(refused(nack::NO_RESOURCE)),
        Syndrome::Nak(NakCode::PsnSequenceError) => return Ok(refused(nack::ROD_OOO)),
        Syndrome::Nak(NakCode::RemoteAccessError) => ReturnCode::PermViolation,
        Syndrome::Nak(NakCode::RemoteOperationalError) => ReturnCode::Uncor,
        Syndrome::Nak(_) => ReturnCode::OpViolation,
        _ => ReturnCode::Ok,
    };
    let response = SesResponse { code, message: asked as u16, job: 0, length: 0, data: None }.encode();
    let next = NextSes::Response;
    let mut bytes = match ext.delivery {
        Delivery::Rudi => Pds::Idempotent { response: true, next, id: asked },
        _ => Pds::Ack {
            next,
            marked,
            ack_offset: short(Psn::new(asked).distance(Psn::new(packet.psn))),
            cumulative: packet.psn,
            pdcids,
            // The map begins so far behind the first that is missing, which is one behind the cumulative number.
            state: AckState {
                sack_offset: short((ext.swap as u32 as i32).saturating_add(1)),
                sack_bits: ext.compare_add,
                credit: (ext.credit > 0).then_some(ext.credit),
            },
        },
    }
    .encode();
    bytes.extend(response);
    Ok(bytes)
}

/// The operand and the old value of an atomic.
const ATOMIC_BYTES: u32 = 8;
