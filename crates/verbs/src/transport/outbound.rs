//! Segmentation: how requests become packets, and what keeps them from it.
//!
//! Source: IBA vol. 1 §9.2 (headers), §9.4 (operations), §9.7 (reliable), §9.8 (unreliable).
//! Modelled: packets of SENDs and WRITEs, their extension headers, the checks of local memory; reassembly is in `inbound`.
//! Not modelled: –

use fabriscope_units::Bytes;
use fabriscope_wire::{Operation, Part, Psn};

use crate::access::Access;
use crate::attr::QpType;
use crate::ext_headers::{Ext, ExtHeaders, ExtId};
use crate::ids::{PdId, WqeIndex};
use crate::memory;
use crate::packet::{Packet, PacketFlags, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::{Extra, Wqe};
use crate::wc::WcStatus;
use crate::wr::{SendFlags, WrOpcode};

/// Packet `number` of the SEND or WRITE at `position` of the queue, for RC and UC.
#[inline(always)] // Returned through memory, its bytes would be read back as words before they are stored.
pub(crate) fn data_packet(
    qp: &mut Qp,
    port: &Port,
    side: &mut ExtHeaders,
    position: usize,
    number: u32,
    mut flags: PacketFlags,
) -> Transmit {
    let entropy = qp.next_entropy();
    let requester = &qp.requester;
    let wqe = &requester.queue[position];
    let offset = number << qp.mtu_shift;
    let (first, last) = (number == 0, number + 1 == wqe.packets);
    let payload = if last { wqe.length - offset } else { qp.mtu() } as u16;
    let tells = last && wqe.tells;
    let opcode = qp.service | operation(wqe.opcode, (first, last).into()) as u8;
    let inline = wqe.flags.contains(SendFlags::INLINE);
    let reliable = qp.qp_type != QpType::Uc;
    let bare = !(tells || port.memory.is_some() || port.congestion.telemetry || first && wqe.opcode.is_write() || wqe.route.is_some());
    let ext =
        if bare { ExtId::NONE } else { side.alloc(routed(data_ext(qp.init.pd, wqe, port, (offset, payload), reliable), qp, wqe, port)) };
    flags.insert(qp.path_flag);
    if wqe.flags.contains(SendFlags::TRACED) {
        flags.insert(PacketFlags::TRACED);
    }
    if last && wqe.flags.contains(SendFlags::SOLICITED) {
        flags.insert(PacketFlags::SE);
    }
    Transmit {
        packet: Packet {
            dest: qp.dest,
            dest_qp: qp.dest_qp,
            psn: (wqe.first_psn + number).as_u32(),
            ext,
            wire_bytes: port.wire_bytes(opcode, payload),
            payload,
            opcode,
            flags,
            syndrome: 0,
            sl: qp.sl,
            entropy,
            msn: 0,
        },
        qp: qp.num,
        fetch: if inline { Bytes::ZERO } else { Bytes(u64::from(payload)) },
        place: port.regions.place_in(&wqe.sge, u64::from(offset), u32::from(payload)),
        responder: false,
        read_response: false,
        starts_message: first,
        ends_message: last,
        inline,
        retransmission: false,
        wqe: WqeIndex(requester.front + position as u64),
        wr_id: wqe.wr_id,
        message_bytes: wqe.length,
    }
}

/// Adds to what a packet carries where its request goes, for XRC, DC and RD.
#[inline]
pub(crate) fn routed(ext: Ext, qp: &Qp, wqe: &Wqe, port: &Port) -> Ext {
    let Some(route) = &wqe.route else { return ext };
    let start = qp.dynamic.as_ref().map_or(wqe.first_psn, |dynamic| dynamic.start).as_u32();
    Ext { context: route.to, qkey: route.qkey, src_qp: route.owner, slid: port.lid, start, ..ext }
}

/// The operation of a packet of a SEND or WRITE.
pub(crate) fn operation(opcode: WrOpcode, part: Part) -> Operation {
    let imm = opcode.has_immediate();
    match (opcode.is_write(), part) {
        (false, Part::First) => Operation::SendFirst,
        (false, Part::Middle) => Operation::SendMiddle,
        (false, Part::Last) if opcode.changes_keys() => Operation::SendLastInvalidate,
        (false, Part::Only) if opcode.changes_keys() => Operation::SendOnlyInvalidate,
        (false, Part::Last) if imm => Operation::SendLastImm,
        (false, Part::Last) => Operation::SendLast,
        (false, Part::Only) if imm => Operation::SendOnlyImm,
        (false, Part::Only) => Operation::SendOnly,
        (true, Part::First) => Operation::WriteFirst,
        (true, Part::Middle) => Operation::WriteMiddle,
        (true, Part::Last) if imm => Operation::WriteLastImm,
        (true, Part::Last) => Operation::WriteLast,
        (true, Part::Only) if imm => Operation::WriteOnlyImm,
        (true, Part::Only) => Operation::WriteOnly,
    }
}

/// What a packet of a SEND or WRITE carries besides its fixed fields; of a `reliable` one the bytes stay where they are.
pub(crate) fn data_ext(pd: PdId, wqe: &Wqe, port: &Port, (offset, payload): (u32, u16), reliable: bool) -> Ext {
    let (offset, payload) = (offset as usize, payload as usize);
    let data = match (&wqe.inline, &port.memory) {
        (Some(inline), _) => Some(inline[offset..offset + payload].into()),
        (None, Some(memory)) if reliable => Some(memory::lend(memory.as_ref(), pd, &wqe.sge, offset as u64, payload)),
        (None, Some(memory)) => Some(memory::gather(memory.as_ref(), pd, &wqe.sge, offset as u64, payload).into()),
        (None, None) => None,
    };
    let mut ext = Ext { remote_addr: wqe.remote.addr, rkey: wqe.remote.rkey, dma_length: wqe.length, imm: wqe.imm, data, ..Ext::default() };
    if let Extra::Words(words) = wqe.extra
        && offset + payload == wqe.length as usize
    {
        ext.say(words);
    }
    ext
}

/// What keeps the request at the cursor from being sent: too long, or local memory it has no right to.
pub(crate) fn local_error(qp: &Qp, port: &Port, longest: u32) -> Option<WcStatus> {
    let wqe = qp.requester.at_cursor()?;
    if wqe.length > longest || wqe.opcode.is_atomic() && wqe.length != ATOMIC_BYTES {
        return Some(WcStatus::LocLenErr);
    }
    if wqe.flags.contains(SendFlags::INLINE) {
        return None;
    }
    let needed = match wqe.waits_for_response() {
        false => Access::NONE,
        // To iWARP the response is a WRITE of the peer (RFC 5040 §5.4).
        true if qp.qp_type == QpType::Iwarp => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        true => Access::LOCAL_WRITE,
    };
    port.regions.check_list(qp.init.pd, &wqe.sge, needed).err().map(|_| WcStatus::LocProtErr)
}

/// Gives the request at the cursor its packet numbers.
#[inline]
pub(crate) fn assign(qp: &mut Qp) {
    let shift = qp.mtu_shift;
    let requester = &mut qp.requester;
    let psn: Psn = requester.next_psn;
    let wqe = &mut requester.queue[(requester.cursor - requester.front) as usize];
    wqe.first_psn = psn;
    wqe.packets = if wqe.opcode.is_atomic() { 1 } else { (wqe.length.saturating_sub(1) >> shift) + 1 };
    requester.next_psn = psn + wqe.packets;
    requester.assigned += 1;
}

/// Whether a packet of a reliable connection answers a request.
#[inline]
pub(crate) const fn is_response(opcode: u8) -> bool {
    let operation = opcode & OPERATION;
    operation >= Operation::ReadResponseFirst as u8 && operation <= Operation::AtomicAcknowledge as u8
}

/// The bits of an opcode that say the operation. Basis: standard.
pub(crate) const OPERATION: u8 = 0x1f;
/// Bytes of an atomic. Basis: standard.
pub(crate) const ATOMIC_BYTES: u32 = 8;
/// The longest message. Basis: standard, IBA vol. 1 §9.4: 2^31 bytes.
pub(crate) const LONGEST_MESSAGE: u32 = 1 << 31;
/// Packet numbers one message may take, so that with a full window all of them stay distinguishable: 2^31 bytes at an
/// MTU of 512 B, but only 2^30 at 256 B.
pub(crate) const MOST_PACKETS: u32 = 1 << 22;
