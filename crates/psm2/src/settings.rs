//! The numbers of an adapter and of the library; the catalogue has them with their sources.

use fabriscope_units::{Bytes, Span};

/// An adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterSettings {
    /// Contexts that processes can open.
    pub contexts: u32,
    /// Blocks of 64 bytes in the send buffer of each: its credits.
    pub credits: u32,
    /// The adapter tells of free blocks when so many are.
    pub credit_return: u32,
    /// Time that a core needs for each further block of a packet.
    pub store_block: Span,
    /// Send DMA engines, shared by all contexts.
    pub engines: u32,
    /// Requests that one context may have at the engines.
    pub ring: u32,
    /// Bytes of descriptors that an engine fetches per packet.
    pub descriptors: Bytes,
    /// Entries of a receive header queue.
    pub header_queue: u32,
    /// Eager buffers of one context.
    pub eager_buffer: Bytes,
    /// TID flows of one context: expected transfers outstanding.
    pub tid_flows: u32,
    /// Largest payload of a packet.
    pub mtu: u32,
    /// Bytes on the wire beside the payload.
    pub overhead: u32,
    /// Packets are a multiple of this on the wire.
    pub flit: u32,
}

impl AdapterSettings {
    /// Bytes on the wire of a packet with `payload`.
    #[must_use]
    pub fn wire_bytes(&self, payload: u32) -> u32 {
        (self.overhead + payload).next_multiple_of(self.flit.max(1))
    }
    /// Blocks of a send buffer that a packet with `payload` takes: one for its headers.
    #[must_use]
    pub fn blocks(payload: u32) -> u32 {
        1 + payload.div_ceil(BLOCK)
    }
    /// Largest payload of a packet that goes through a send buffer: three fit, so that one is written while one leaves (PSM2,
    /// `ips_proto_init`).
    #[must_use]
    pub fn pio_payload(&self) -> u32 {
        let third = (self.credits / 3).max(2) * BLOCK - BLOCK;
        third.min(self.mtu)
    }
}

/// Core time of the steps of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Beginning a send: request, choice of the protocol.
    pub send: Span,
    /// Building the header of a packet that goes through the send buffer, apart from its stores.
    pub packet: Span,
    /// Posting a receive.
    pub post: Span,
    /// Taking an entry of the receive header queue: header checks, flow, dispatch.
    pub receive: Span,
    /// Looking for the other half of a message, apart from the entries that are passed.
    pub matching: Span,
    /// Each entry that is passed.
    pub entry: Span,
    /// Handing a message to the engines: the system call and its driver.
    pub system_call: Span,
    /// Each packet of it: header, descriptors, look-up of the pinned page.
    pub descriptor: Span,
    /// Preparing a window for an expected receive whose pages are registered.
    pub window: Span,
    /// Registering one page that is not.
    pub page: Span,
}

/// The library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Longest message that travels in a header.
    pub tiny: u32,
    /// Longest eager message that the core stores into the adapter, when the program does not wait for the send.
    pub sdma: u32,
    /// The same where it waits.
    pub sdma_blocking: u32,
    /// Longest eager message.
    pub eager: u32,
    /// Longest eager message in the memory of a GPU.
    pub eager_device: u32,
    /// Windows of a message in the memory of a GPU that are copied before they are granted.
    pub prefetch: u32,
    /// Bytes of an expected receive that are granted at a time.
    pub window: u32,
    /// Bytes that one TID covers.
    pub tid: u32,
    /// Packets of a flow that may be in flight without acknowledgement.
    pub credits: u32,
    /// Until a sender asks for a missing acknowledgement, the first time.
    pub timeout: Span,
    /// It doubles up to this.
    pub timeout_max: Span,
    /// Core time of its steps.
    pub costs: Costs,
}

impl Library {
    /// Packets that are sent without asking for an acknowledgement, before one that asks (PSM2, `ips_flow_init`).
    #[must_use]
    pub fn ack_interval(&self) -> u32 {
        (self.credits / 4).saturating_sub(1).max(1)
    }
}

/// A block of a send buffer. Basis: published (hfi1, `pio.h`: PIO_BLOCK_SIZE).
pub(crate) const BLOCK: u32 = 64;
