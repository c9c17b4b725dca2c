//! The numbers of an adapter and of the library, declared here alone; the catalogue gives them with their sources.
//!
//! Source of the library's: opa-psm2, `psm_config.h`, `ptl_ips/ips_proto_params.h` (the defaults of its environment variables);
//! libfabric, prov/opx (`fi_opx_endpoint.h`, `fi_opx(7)`: replay buffers, an acknowledgement for every 64 packets).

use fabriscope_units::{Bytes, Ratio, Span, parameters};

parameters! {
    /// What an adapter without a transport of its own offers to a library on the core: send buffers, send DMA, receive queues.
    pub struct AdapterParameters as "Onload" {
        /// Memory of the send buffers, in blocks of 64 bytes; contexts share it evenly.
        pub pio_memory: Bytes,
        /// Largest send buffer of one context.
        pub pio_context_limit: Bytes,
        /// Send contexts of the kernel, which take a share as well.
        pub kernel_contexts: u32,
        /// Contexts in all.
        pub contexts: u32,
        /// Share of a send buffer that is free before the adapter says so.
        pub credit_return: Ratio,
        /// Time that a core needs for each further block of a packet that it stores.
        pub store_block: Span,
        /// Send DMA engines.
        pub engines: u32,
        /// Requests that one process may have at the engines.
        pub ring: u32,
        /// Bytes of descriptors that an engine fetches per packet.
        pub descriptors: Bytes,
        /// Entries of a receive header queue.
        pub header_queue: u32,
        /// Eager buffers of one context.
        pub eager_buffer: Bytes,
        /// Expected transfers of one context outstanding.
        pub tid_flows: u32,
        /// Largest payload of a packet of the library.
        pub mtu: u32 from Bytes,
        /// Bytes on the wire beside the payload.
        pub overhead: u32 from Bytes,
        /// Packets are a multiple of this on the wire.
        pub flit: u32 from Bytes,
    }
}

impl AdapterParameters {
    /// Send buffer of each process on a node with so many cores: the driver opens a context per core.
    #[must_use]
    pub fn pio_buffer(&self, cores: u32) -> Bytes {
        let contexts = u64::from(cores.saturating_add(self.kernel_contexts).max(1));
        Bytes((self.pio_memory.as_u64() / contexts).min(self.pio_context_limit.as_u64()))
    }
}

/// An adapter on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdapterSettings {
    /// Its numbers.
    pub parameters: AdapterParameters,
    /// Blocks of 64 bytes in the send buffer of each context: its credits.
    pub credits: u32,
    /// The adapter tells of free blocks when so many are.
    pub credit_return: u32,
}

impl AdapterSettings {
    /// An adapter on a node with so many cores.
    #[must_use]
    pub fn new(parameters: AdapterParameters, cores: u32) -> AdapterSettings {
        let credits = (parameters.pio_buffer(cores).saturating_u32() / BLOCK).max(3 * AdapterSettings::blocks(BLOCK));
        AdapterSettings { parameters, credits, credit_return: parameters.credit_return.of_count(credits) }
    }
    /// Bytes on the wire of a packet with `payload`.
    #[must_use]
    pub fn wire_bytes(&self, payload: u32) -> u32 {
        (self.parameters.overhead + payload).next_multiple_of(self.parameters.flit.max(1))
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
        third.min(self.parameters.mtu)
    }
}

parameters! {
    /// PSM2, or libfabric's OPX provider, below an MPI library.
    pub struct LibraryParameters as "Psm2" {
        /// Longest message that travels in a header.
        pub tiny_limit: u32 from Bytes,
        /// Longest eager message that the core stores into the adapter (PSM2_MQ_EAGER_SDMA_SZ), if the program does not wait for it.
        pub sdma_limit: u32 from Bytes,
        /// The same for sends that the program waits for.
        pub sdma_limit_blocking: u32 from Bytes,
        /// Longest eager message (PSM2_MQ_RNDV_HFI_THRESH).
        pub eager_limit: u32 from Bytes,
        /// Bytes that a receiver grants at a time (PSM2_MQ_RNDV_HFI_WINDOW).
        pub window: u32 from Bytes,
        /// Bytes that one TID covers.
        pub tid: u32 from Bytes,
        /// Packets of a flow without acknowledgement (PSM2_FLOW_CREDITS).
        pub flow_credits: u32,
        /// Until a sender asks for a missing acknowledgement.
        pub timeout: Span,
        /// The longest that this becomes by doubling.
        pub timeout_max: Span,
        /// Core time of beginning a send.
        pub send: Span,
        /// Core time of the header of a packet that the core stores, apart from the stores.
        pub packet: Span,
        /// Core time of posting a receive.
        pub post: Span,
        /// Core time of taking a packet out of the receive header queue.
        pub receive: Span,
        /// Core time of a search in the matched queues.
        pub matching: Span,
        /// Core time of each entry that a search passes.
        pub entry: Span,
        /// Core time of the system call that hands packets to an engine, or registers pages.
        pub system_call: Span,
        /// Core time of each packet of it.
        pub descriptor: Span,
        /// Core time of granting a window whose pages are registered.
        pub grant: Span,
        /// Core time of registering a page that is not.
        pub page: Span,
        /// The core keeps a copy of what it stores until that is acknowledged (OPX): eager sends are done when they are stored, and ask for
        /// nothing. Without it (PSM2) the last packet of a message asks, and a send that nobody waits for is done when the answer comes.
        #[serde(default)]
        choice pub replay: bool,
    }
}

/// The library, and what the one above it says of messages in the memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Library {
    /// Its numbers.
    pub parameters: LibraryParameters,
    /// Longest eager message in the memory of a GPU.
    pub eager_device: u32,
    /// Windows of a message in the memory of a GPU that are copied before they are granted.
    pub prefetch: u32,
}

impl Library {
    /// Packets that are sent without asking for an acknowledgement, before one that asks (PSM2, `ips_flow_init`).
    #[must_use]
    pub fn ack_interval(&self) -> u32 {
        (self.parameters.flow_credits / 4).saturating_sub(1).max(1)
    }
}

/// A block of a send buffer. Basis: published (hfi1, `pio.h`: PIO_BLOCK_SIZE).
pub(crate) const BLOCK: u32 = 64;
