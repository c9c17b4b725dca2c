//! Opcodes of the base transport header: transport ≪ 5 | operation.
//!
//! Source: InfiniBand volume 1, table 38 (opcodes and the headers that follow), annex A14 (XRC), annex A17 (CNP).
//! Modelled: RC, UC, UD, RD, XRC and the RoCE congestion notification; names for those that are used here.
//! Not modelled: manufacturer opcodes 0xC0 to 0xFF, but for two services whose headers are not published or not these: they
//! stand in that range with the operations of RC, so that a packet says what it is.

use std::fmt;

use crate::WireError;

/// The transport service, upper three bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Transport {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification (RoCE).
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
    /// Reliable unordered datagrams: SRD of EFA, RUD of Ultra Ethernet. The number is ours.
    Rud = 6,
    /// Dynamically connected transport. The number is ours.
    Dc = 7,
}

/// The operation, lower five bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the standard's table")]
pub enum Operation {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImm = 0x03,
    SendOnly = 0x04,
    SendOnlyImm = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImm = 0x09,
    WriteOnly = 0x0A,
    WriteOnlyImm = 0x0B,
    ReadRequest = 0x0C,
    ReadResponseFirst = 0x0D,
    ReadResponseMiddle = 0x0E,
    ReadResponseLast = 0x0F,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    Resync = 0x15,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
}

use Operation as Op;

impl Operation {
    /// All operations, by number.
    pub const ALL: [Operation; 24] = [
        Op::SendFirst,
        Op::SendMiddle,
        Op::SendLast,
        Op::SendLastImm,
        Op::SendOnly,
        Op::SendOnlyImm,
        Op::WriteFirst,
        Op::WriteMiddle,
        Op::WriteLast,
        Op::WriteLastImm,
        Op::WriteOnly,
        Op::WriteOnlyImm,
        Op::ReadRequest,
        Op::ReadResponseFirst,
        Op::ReadResponseMiddle,
        Op::ReadResponseLast,
        Op::ReadResponseOnly,
        Op::Acknowledge,
        Op::AtomicAcknowledge,
        Op::CompareSwap,
        Op::FetchAdd,
        Op::Resync,
        Op::SendLastInvalidate,
        Op::SendOnlyInvalidate,
    ];

    const fn is_response(self) -> bool {
        matches!(
            self,
            Op::ReadResponseFirst
                | Op::ReadResponseMiddle
                | Op::ReadResponseLast
                | Op::ReadResponseOnly
                | Op::Acknowledge
                | Op::AtomicAcknowledge
        )
    }
    const fn is_only(self) -> bool {
        matches!(self, Op::SendOnly | Op::SendOnlyImm | Op::SendOnlyInvalidate | Op::WriteOnly | Op::WriteOnlyImm | Op::ReadResponseOnly)
            || !self.has_payload()
    }
    const fn has_payload(self) -> bool {
        !matches!(self, Op::ReadRequest | Op::Acknowledge | Op::AtomicAcknowledge | Op::CompareSwap | Op::FetchAdd | Op::Resync)
    }
    const fn is_atomic(self) -> bool {
        matches!(self, Op::CompareSwap | Op::FetchAdd)
    }
}

/// An opcode of the standard; a value that exists is one of its numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(u8);

macro_rules! opcodes {
    ($($name:ident = $transport:ident $operation:ident;)*) => {
        impl Opcode {
            $(
                #[doc = concat!("`", stringify!($operation), "` of the transport `", stringify!($transport), "`.")]
                pub const $name: Opcode = Opcode::join(Transport::$transport, Operation::$operation);
            )*
            /// The opcodes that have a name here.
            pub const NAMED: &[Opcode] = &[$(Opcode::$name,)* Opcode::CNP];

            /// The constant's name, for opcodes that have one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Opcode::$name => Some(stringify!($name)),)*
                    Opcode::CNP => Some("CNP"),
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    RC_SEND_FIRST = Rc SendFirst;
    RC_SEND_MIDDLE = Rc SendMiddle;
    RC_SEND_LAST = Rc SendLast;
    RC_SEND_LAST_IMM = Rc SendLastImm;
    RC_SEND_ONLY = Rc SendOnly;
    RC_SEND_ONLY_IMM = Rc SendOnlyImm;
    RC_WRITE_FIRST = Rc WriteFirst;
    RC_WRITE_MIDDLE = Rc WriteMiddle;
    RC_WRITE_LAST = Rc WriteLast;
    RC_WRITE_LAST_IMM = Rc WriteLastImm;
    RC_WRITE_ONLY = Rc WriteOnly;
    RC_WRITE_ONLY_IMM = Rc WriteOnlyImm;
    RC_READ_REQUEST = Rc ReadRequest;
    RC_READ_RESPONSE_FIRST = Rc ReadResponseFirst;
    RC_READ_RESPONSE_MIDDLE = Rc ReadResponseMiddle;
    RC_READ_RESPONSE_LAST = Rc ReadResponseLast;
    RC_READ_RESPONSE_ONLY = Rc ReadResponseOnly;
    RC_ACKNOWLEDGE = Rc Acknowledge;
    RC_ATOMIC_ACKNOWLEDGE = Rc AtomicAcknowledge;
    RC_COMPARE_SWAP = Rc CompareSwap;
    RC_FETCH_ADD = Rc FetchAdd;
    RC_SEND_LAST_INVALIDATE = Rc SendLastInvalidate;
    RC_SEND_ONLY_INVALIDATE = Rc SendOnlyInvalidate;
    UC_SEND_FIRST = Uc SendFirst;
    UC_SEND_MIDDLE = Uc SendMiddle;
    UC_SEND_LAST = Uc SendLast;
    UC_SEND_LAST_IMM = Uc SendLastImm;
    UC_SEND_ONLY = Uc SendOnly;
    UC_SEND_ONLY_IMM = Uc SendOnlyImm;
    UC_WRITE_FIRST = Uc WriteFirst;
    UC_WRITE_MIDDLE = Uc WriteMiddle;
    UC_WRITE_LAST = Uc WriteLast;
    UC_WRITE_LAST_IMM = Uc WriteLastImm;
    UC_WRITE_ONLY = Uc WriteOnly;
    UC_WRITE_ONLY_IMM = Uc WriteOnlyImm;
    UD_SEND_ONLY = Ud SendOnly;
    UD_SEND_ONLY_IMM = Ud SendOnlyImm;
}

impl Opcode {
    /// Congestion notification packet of RoCE.
    pub const CNP: Opcode = Opcode(0x81);

    /// Stands for a raw packet, which has no transport header; no packet on the wire says so.
    pub const RAW: u8 = 0x9F;

    /// The opcode of this operation on this transport.
    ///
    /// # Errors
    /// The transport does not have the operation.
    pub const fn new(transport: Transport, operation: Operation) -> Result<Opcode, WireError> {
        Opcode::decode((transport as u8) << 5 | operation as u8)
    }
    /// Reads the byte of a BTH.
    ///
    /// # Errors
    /// A number that the standard does not define.
    pub const fn decode(byte: u8) -> Result<Opcode, WireError> {
        let operation = byte & 0x1F;
        let known = match byte >> 5 {
            0 | 5 => operation <= 0x17 && operation != 0x15,
            6 | 7 => operation <= 0x17,
            1 => operation <= 0x0B,
            2 => operation <= 0x15,
            3 => operation == 0x04 || operation == 0x05,
            _ => byte == Opcode::CNP.0,
        };
        if known {
            Ok(Opcode(byte))
        } else {
            Err(WireError::Code {
                what: "an opcode",
                value: byte as u32,
                allowed: "the opcodes of RC, UC, RD, UD, XRC, RUD, DC and the CNP 0x81",
            })
        }
    }
    /// The byte on the wire.
    #[inline]
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self.0
    }
    /// The transport service.
    #[inline]
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self.0 >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            2 => Transport::Rd,
            3 => Transport::Ud,
            5 => Transport::Xrc,
            6 => Transport::Rud,
            7 => Transport::Dc,
            _ => Transport::Cnp,
        }
    }
    /// The operation; `None` for the congestion notification.
    #[inline]
    #[must_use]
    pub const fn operation(self) -> Option<Operation> {
        if self.0 == Opcode::CNP.0 { None } else { Some(Operation::ALL[(self.0 & 0x1F) as usize]) }
    }
    /// The same operation on another transport.
    ///
    /// # Errors
    /// That transport does not have it.
    pub const fn on(self, transport: Transport) -> Result<Opcode, WireError> {
        Opcode::decode((transport as u8) << 5 | self.0 & 0x1F)
    }

    /// Whether a message (or READ response) starts with this packet.
    #[inline]
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.has(FIRST)
    }
    /// Whether a message (or READ response) ends with this packet.
    #[inline]
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.has(LAST)
    }
    /// Whether the packet is a whole message.
    #[inline]
    #[must_use]
    pub const fn is_only(self) -> bool {
        self.has(FIRST) && self.has(LAST)
    }
    /// Whether the packet may carry payload.
    #[inline]
    #[must_use]
    pub const fn has_payload(self) -> bool {
        self.has(PAYLOAD)
    }
    /// Whether immediate data (ImmDt) follows.
    #[inline]
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        self.has(IMMEDIATE)
    }
    /// Whether a key to invalidate (IETH) follows.
    #[inline]
    #[must_use]
    pub const fn has_invalidate(self) -> bool {
        matches!(self.operation(), Some(Op::SendLastInvalidate | Op::SendOnlyInvalidate))
    }
    /// Whether an address, key and length (RETH) follow.
    #[inline]
    #[must_use]
    pub const fn has_reth(self) -> bool {
        self.has(RETH)
    }
    /// Whether a syndrome (AETH) follows.
    #[inline]
    #[must_use]
    pub const fn has_aeth(self) -> bool {
        self.has(AETH)
    }
    /// Whether the packet goes from responder to requester: acknowledgements and READ responses.
    #[inline]
    #[must_use]
    pub const fn is_response(self) -> bool {
        self.has(RESPONSE)
    }
    /// Whether it is an acknowledgement without data.
    #[inline]
    #[must_use]
    pub const fn is_ack(self) -> bool {
        matches!(self.operation(), Some(Op::Acknowledge))
    }
    /// Whether it belongs to a SEND.
    #[inline]
    #[must_use]
    pub const fn is_send(self) -> bool {
        self.has(SEND)
    }
    /// Whether it belongs to an RDMA WRITE.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        self.has(WRITE)
    }
    /// Whether it is an RDMA READ request.
    #[inline]
    #[must_use]
    pub const fn is_read_request(self) -> bool {
        matches!(self.operation(), Some(Op::ReadRequest))
    }
    /// Whether it belongs to an RDMA READ response.
    #[inline]
    #[must_use]
    pub const fn is_read_response(self) -> bool {
        self.has(RESPONSE) && self.has(PAYLOAD)
    }
    /// Whether it is an atomic request.
    #[inline]
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self.operation(), Some(Op::CompareSwap | Op::FetchAdd))
    }
    /// Whether the packet uses up a receive request at the responder: the last of a SEND, a WRITE with immediate data.
    #[inline]
    #[must_use]
    pub const fn takes_receive(self) -> bool {
        (self.has(SEND) && self.has(LAST)) || self.has(IMMEDIATE)
    }
    /// Bytes of the headers between BTH and payload (with the 16 reserved bytes of a CNP).
    #[inline]
    #[must_use]
    pub const fn extension_bytes(self) -> u32 {
        EXTENSIONS[self.0 as usize] as u32
    }

    #[inline]
    const fn has(self, property: u16) -> bool {
        PROPERTIES[self.0 as usize] & property != 0
    }
    /// For the table of names, where an undefined combination stops the compilation.
    const fn join(transport: Transport, operation: Operation) -> Opcode {
        match Opcode::new(transport, operation) {
            Ok(opcode) => opcode,
            Err(_) => panic!("a name stands for an opcode that the standard does not define"),
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.operation()) {
            (Some(name), _) => f.pad(name),
            (None, Some(operation)) => f.pad(&format!("{:?} {operation:?}", self.transport())),
            (None, None) => write!(f, "{:#04x}", self.0),
        }
    }
}
impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({self})")
    }
}

const FIRST: u16 = 1;
const LAST: u16 = 1 << 1;
const PAYLOAD: u16 = 1 << 2;
const IMMEDIATE: u16 = 1 << 3;
const RETH: u16 = 1 << 4;
const AETH: u16 = 1 << 5;
const RESPONSE: u16 = 1 << 6;
const SEND: u16 = 1 << 7;
const WRITE: u16 = 1 << 8;

/// The answers to all questions above, by opcode: they are asked for every packet.
const PROPERTIES: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Ok(opcode) = Opcode::decode(byte as u8) {
            table[byte] = properties(opcode);
        }
        byte += 1;
    }
    table
};
const EXTENSIONS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Ok(opcode) = Opcode::decode(byte as u8) {
            table[byte] = extension_bytes(opcode);
        }
        byte += 1;
    }
    table
};

const fn properties(opcode: Opcode) -> u16 {
    let Some(op) = opcode.operation() else { return FIRST | LAST };
    let mut set = 0;
    if op.is_only() || matches!(op, Op::SendFirst | Op::WriteFirst | Op::ReadResponseFirst) {
        set |= FIRST;
    }
    if op.is_only()
        || matches!(op, Op::SendLast | Op::SendLastImm | Op::SendLastInvalidate | Op::WriteLast | Op::WriteLastImm | Op::ReadResponseLast)
    {
        set |= LAST;
    }
    if op.has_payload() {
        set |= PAYLOAD;
    }
    if matches!(op, Op::SendLastImm | Op::SendOnlyImm | Op::WriteLastImm | Op::WriteOnlyImm) {
        set |= IMMEDIATE;
    }
    if matches!(op, Op::WriteFirst | Op::WriteOnly | Op::WriteOnlyImm | Op::ReadRequest) {
        set |= RETH;
    }
    if op.is_response() {
        set |= RESPONSE;
    }
    if op.is_response() && !matches!(op, Op::ReadResponseMiddle) {
        set |= AETH;
    }
    if (op as u8) < Op::WriteFirst as u8 || matches!(op, Op::SendLastInvalidate | Op::SendOnlyInvalidate) {
        set |= SEND;
    }
    if op as u8 >= Op::WriteFirst as u8 && op as u8 <= Op::WriteOnlyImm as u8 {
        set |= WRITE;
    }
    set
}

/// Lengths in bytes. Basis: standard, table 38 and §9.3 to §9.4.
const fn extension_bytes(opcode: Opcode) -> u8 {
    let Some(op) = opcode.operation() else { return 16 };
    let set = properties(opcode);
    let per_transport = match (opcode.transport(), op.is_response()) {
        (Transport::Ud, _) => 8,         // DETH
        (Transport::Rd, false) => 4 + 8, // RDETH, DETH
        (Transport::Rd, true) => 4,      // RDETH
        (Transport::Xrc, false) => 4,    // XRCETH
        (Transport::Rud, _) => 8,        // as DETH: the layout of SRD is not published
        (Transport::Dc, false) => 8,     // the 64-bit access key; the layout is not published
        _ => 0,
    };
    let mut bytes = per_transport;
    if set & RETH != 0 {
        bytes += 16;
    }
    if set & AETH != 0 {
        bytes += 4;
    }
    if set & IMMEDIATE != 0 || opcode.has_invalidate() {
        bytes += 4;
    }
    if op.is_atomic() {
        bytes += 28;
    }
    if matches!(op, Op::AtomicAcknowledge) {
        bytes += 8;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_standard() {
        for (opcode, byte) in [
            (Opcode::RC_SEND_ONLY, 0x04),
            (Opcode::RC_WRITE_ONLY, 0x0A),
            (Opcode::RC_READ_REQUEST, 0x0C),
            (Opcode::RC_READ_RESPONSE_ONLY, 0x10),
            (Opcode::RC_ACKNOWLEDGE, 0x11),
            (Opcode::RC_FETCH_ADD, 0x14),
            (Opcode::RC_SEND_ONLY_INVALIDATE, 0x17),
            (Opcode::UC_WRITE_FIRST, 0x26),
            (Opcode::UD_SEND_ONLY, 0x64),
            (Opcode::UD_SEND_ONLY_IMM, 0x65),
            (Opcode::CNP, 0x81),
        ] {
            assert_eq!(opcode.as_u8(), byte, "{opcode}");
        }
        assert_eq!(Opcode::new(Transport::Xrc, Operation::SendOnly).unwrap().as_u8(), 0xA4);
        assert_eq!(Opcode::new(Transport::Rd, Operation::Resync).unwrap().as_u8(), 0x55);
        assert!(Opcode::new(Transport::Ud, Operation::WriteOnly).is_err());
        assert!(Opcode::new(Transport::Uc, Operation::ReadRequest).is_err());
        assert_eq!(Opcode::RC_SEND_ONLY.on(Transport::Uc), Ok(Opcode::UC_SEND_ONLY));
        // RC 23, UC 12, RD 22, UD 2, CNP 1, XRC 23, RUD 24, DC 24.
        assert_eq!((0..=255).filter(|byte| Opcode::decode(*byte).is_ok()).count(), 131);
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }

    #[test]
    fn questions_about_packets() {
        let first = [Opcode::RC_SEND_FIRST, Opcode::RC_WRITE_FIRST, Opcode::RC_READ_RESPONSE_FIRST];
        let middle = [Opcode::RC_SEND_MIDDLE, Opcode::RC_WRITE_MIDDLE, Opcode::RC_READ_RESPONSE_MIDDLE];
        let last = [Opcode::RC_SEND_LAST, Opcode::RC_SEND_LAST_IMM, Opcode::RC_WRITE_LAST, Opcode::RC_READ_RESPONSE_LAST];
        let only = [Opcode::RC_SEND_ONLY, Opcode::UD_SEND_ONLY_IMM, Opcode::RC_ACKNOWLEDGE, Opcode::RC_READ_REQUEST, Opcode::CNP];
        assert!(first.iter().all(|opcode| opcode.is_first() && !opcode.is_last()));
        assert!(middle.iter().all(|opcode| !opcode.is_first() && !opcode.is_last()));
        assert!(last.iter().all(|opcode| !opcode.is_first() && opcode.is_last()));
        assert!(only.iter().all(|opcode| opcode.is_only()));
        assert!(!Opcode::RC_ACKNOWLEDGE.has_payload() && !Opcode::CNP.has_payload() && Opcode::RC_READ_RESPONSE_LAST.has_payload());
        assert!(Opcode::RC_WRITE_LAST_IMM.takes_receive() && Opcode::RC_SEND_LAST.takes_receive());
        assert!(!Opcode::RC_WRITE_LAST.takes_receive() && !Opcode::RC_SEND_FIRST.takes_receive());
        assert!(Opcode::RC_READ_RESPONSE_FIRST.is_response() && !Opcode::RC_READ_REQUEST.is_response());
    }
}
