//! What a packet of PSM2 says.
//!
//! Source: PSM2, `ptl_ips/ips_proto_header.h` and `ips_proto_params.h` (kinds of packets and how each travels).

/// The number of a request in its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// Where a process is: its adapter, and its context there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Address of the adapter.
    pub lid: u32,
    /// Context of the process.
    pub context: u32,
}

/// A sequence of packets between two processes that is acknowledged by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flow {
    /// Through send buffers.
    Pio,
    /// Through the send DMA engines.
    Dma,
}

impl Flow {
    /// Both.
    pub const ALL: [Flow; 2] = [Flow::Pio, Flow::Dma];
}

/// The kind of a packet with what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A part of an eager message of `length` bytes; the first one tells that it comes.
    Message {
        /// Number of the message among those to this peer.
        number: u32,
        /// Its tag.
        tag: u32,
        /// Its length.
        length: u32,
        /// Where the part begins.
        offset: u32,
    },
    /// A long message is ready.
    RequestToSend {
        /// Number of the message among those to this peer.
        number: u32,
        /// Its tag.
        tag: u32,
        /// Its length.
        length: u32,
        /// The sender's request.
        sender: RequestId,
    },
    /// The receiver has prepared a window of it.
    ClearToSend {
        /// The sender's request.
        sender: RequestId,
        /// What is granted.
        window: Window,
        /// What its packets carry.
        generation: u32,
    },
    /// A packet for a window.
    Expected {
        /// Of which window.
        window: Window,
        /// Number of attempts to get the window in order.
        generation: u32,
        /// It is the last one.
        last: bool,
    },
    /// A window is complete.
    Complete {
        /// The sender's request.
        sender: RequestId,
        /// Which window.
        window: Window,
    },
    /// All packets of the flow below the header's number have come.
    Acknowledge,
    /// The packet with the header's number is missing.
    Missing,
    /// Has the packet with the header's number come?
    Check,
    /// What an adapter makes of a packet of a window before which others are missing: it stays in the node.
    Gap {
        /// Of which window.
        window: Window,
    },
    /// The packet of a window with the header's number is missing.
    MissingExpected {
        /// Which window.
        window: Window,
        /// From now on its packets carry this number.
        generation: u32,
    },
    /// Has the window come?
    CheckExpected {
        /// Which window.
        window: Window,
    },
}

impl Kind {
    /// Whether the packet has a place in a flow; others are sent again by nobody.
    #[must_use]
    pub fn sequenced(self) -> bool {
        matches!(self, Kind::Message { .. } | Kind::RequestToSend { .. } | Kind::ClearToSend { .. } | Kind::Complete { .. })
    }
}

/// A part of a long message that is transferred at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its number at the receiver.
    pub id: u32,
    /// The TID flow that checks its order.
    pub flow: u32,
    /// Where in the message it begins.
    pub offset: u32,
    /// Its length.
    pub length: u32,
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub from: Address,
    /// Who is to get it.
    pub to: Address,
    /// What it is.
    pub kind: Kind,
    /// The flow to which `number` belongs.
    pub flow: Flow,
    /// Its place in the flow, or in its window.
    pub number: u32,
    /// The sender wants an acknowledgement.
    pub asks: bool,
    /// Bytes behind the header.
    pub payload: u32,
    /// The memory of the sender's node in which they are; it stays there.
    pub place: u8,
    /// It is followed through the machine.
    pub traced: bool,
}
