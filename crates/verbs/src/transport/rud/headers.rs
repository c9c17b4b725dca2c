//! Sizes of the headers of Ultra Ethernet.

use fabriscope_wire::Operation;

use crate::attr::QpType;

/// Bytes that the headers of Ultra Ethernet have more than those of the opcode table (BTH 12, DETH-like 8, RETH 16, AETH 4,
/// AtomicETH 28).
///
/// Source: Ultra Ethernet specification 1.0, §3.4 and §3.5: request 12 (PDS) and 44 (SES standard header); atomics 24 more;
/// answer with data 12 and 16; acknowledgement 32 (PDS ACK_CC) and 12 (SES response). Basis: standard.
pub(crate) fn more(qp_type: QpType, opcode: u8) -> u16 {
    if !qp_type.is_ultra_ethernet() {
        return 0;
    }
    const BTH: u16 = 12;
    let operation = opcode & 0x1f;
    let acknowledge = Operation::Acknowledge as u8;
    let due: u16 = match operation {
        _ if operation == acknowledge => 32 + 12,
        _ if operation == Operation::CompareSwap as u8 || operation == Operation::FetchAdd as u8 => 12 + 44 + 24,
        _ if operation > Operation::ReadRequest as u8 && operation < acknowledge => 12 + 16,
        _ if operation == Operation::AtomicAcknowledge as u8 => 12 + 16 + 8,
        _ => 12 + 44,
    };
    let counted = fabriscope_wire::Opcode::decode(opcode).map_or(0, |opcode| opcode.extension_bytes() as u16) + BTH;
    due.saturating_sub(counted)
}
