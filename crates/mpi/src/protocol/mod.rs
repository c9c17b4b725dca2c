//! The numbers and choices of an MPI library, as the rest of this module uses them.

pub(crate) mod gpu;
pub(crate) mod local;
pub(crate) mod psm2;
pub(crate) mod slots;
pub(crate) mod transport;

use fabriscope_catalog::{EagerChannel, Mpi, MpiTransport, RailPolicy, Rendezvous, SlotParameters, Slots, TagMatching};
use fabriscope_node::Process;
use fabriscope_units::Span;

use super::wire::Body;
use gpu::{Gpu, Registration};
use local::Local;

/// A library's protocol, resolved from its part in the catalogue; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Core time of a send above the verbs.
    pub send_overhead: Span,
    /// Core time of a one-sided operation above the verbs.
    pub call_overhead: Span,
    /// Core time of matching and completing a receive.
    pub recv_overhead: Span,
    /// Core time of each entry that a search for a message or its receive passes.
    pub match_step: Span,
    /// Core time of one turn of the progress loop.
    pub progress_overhead: Span,
    /// Core time of each side per rendezvous.
    pub rendezvous_overhead: Span,
    /// What registering the memory of a long message costs each time.
    pub registration: Option<Registration>,
    /// Core time of building a work request, where it is not the driver's.
    pub wqe_build: Option<Span>,
    /// Core time of handling a completion, where it is not the driver's.
    pub poll_hit: Option<Span>,
    /// In front of the payload of an eager message.
    pub header: u32,
    /// Size of RTS, CTS, FIN and credit messages.
    pub control: u32,
    /// Who finds the receive that a message belongs to.
    pub tag_matching: TagMatching,
    /// How eager messages travel.
    pub eager_channel: EagerChannel,
    /// Largest payload that takes the ring.
    pub fast_path_limit: u32,
    /// Largest payload that the sender copies.
    pub eager_copy_limit: u32,
    /// Largest eager payload.
    pub eager_limit: u32,
    /// Largest eager payload of a send that the program waits for.
    pub blocking_eager_limit: u32,
    /// Largest payload of such a send that the sender copies.
    pub blocking_copy_limit: u32,
    /// Largest payload of one send.
    pub packet_limit: u32,
    /// How the bytes of long messages travel that are shorter than `read_from`.
    pub rendezvous: Rendezvous,
    /// The shortest that the receiver reads in any case.
    pub read_from: u32,
    /// Bytes that one grant of a rendezvous by send covers.
    pub grant: u32,
    /// The queue pairs of messages between nodes.
    pub transport: MpiTransport,
    /// Messages may overtake each other on their way: they carry numbers, and the receiver puts them in order.
    pub unordered: bool,
    /// Core time per packet at each end, beyond that of a message, where the library acknowledges by itself.
    pub packet_overhead: Span,
    /// Messages of a peer whose buffers are free again before it is told so by a message of its own.
    pub credit_interval: u32,
    /// Bytes in front of each message in its receive.
    pub receive_offset: u32,
    /// Largest message, header included, that is posted inline.
    pub inline_limit: u32,
    /// Which rails a message uses.
    pub rails: RailPolicy,
    /// Above this size a message is cut into one piece per rail.
    pub stripe_limit: u32,
    /// The most rails that a rank opens.
    pub most_rails: u32,
    /// Messages in flight to one peer.
    pub window: u32,
    /// Every so many messages ask for a completion.
    pub signal_interval: u32,
    /// Receives in the queue that all connections of a rank share, where it has several.
    pub shared_receives: u32,
    /// What making a connection takes the manager of the node, where that is left to the first message.
    pub first_use: Option<Span>,
    /// How ranks of one node talk; through the adapter where nothing is said.
    pub local: Option<Local>,
    /// Memory of the node for collective operations, if the library has some.
    pub slots: Option<SlotParameters>,
    /// Messages in the memory of a GPU.
    pub gpu: Option<Gpu>,
}

/// How a message of some size travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// At once.
    Eager {
        /// The sender copies it first and is done.
        copied: bool,
    },
    /// After both sides met.
    Rendezvous,
}

/// The part of a message that takes one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub rail: usize,
    pub offset: u32,
    pub length: u32,
}

impl Protocol {
    /// The same on the GPUs of a node.
    pub(crate) fn on(self, process: &Process) -> Protocol {
        Protocol { gpu: self.gpu.map(|gpu| gpu.on(process)), ..self }
    }
    /// The path of a message of `size` bytes; `waits`: the program waits for this send and does nothing else.
    pub(crate) fn path(&self, size: u32, waits: bool) -> Path {
        let (eager, copied) =
            if waits { (self.blocking_eager_limit, self.blocking_copy_limit) } else { (self.eager_limit, self.eager_copy_limit) };
        if size <= eager { Path::Eager { copied: size <= copied } } else { Path::Rendezvous }
    }
    /// How the bytes of a long message of `size` bytes travel.
    pub(crate) fn rendezvous_of(&self, size: u32) -> Rendezvous {
        if size >= self.read_from { Rendezvous::Read } else { self.rendezvous }
    }
    /// Whether a long message of `size` bytes is moved by sends, between buffers of the library.
    pub(crate) fn sends(&self, size: u32) -> bool {
        self.rendezvous_of(size) == Rendezvous::Send
    }
    /// Whether a send that is waited for goes by other limits than one that is not.
    pub(crate) fn tells_waiting(&self) -> bool {
        (self.blocking_eager_limit, self.blocking_copy_limit) != (self.eager_limit, self.eager_copy_limit)
    }
    /// Whether a message with `payload` bytes behind its header takes the ring.
    pub(crate) fn takes_ring(&self, payload: u32) -> bool {
        self.eager_channel == EagerChannel::RdmaWrite && payload <= self.fast_path_limit
    }
    /// Bytes of a message on the wire.
    pub(crate) fn length(&self, body: Body) -> u32 {
        body.payload().map_or(self.control, |payload| self.header + payload)
    }
    /// Bytes of one slot of the ring.
    pub(crate) fn slot(&self) -> u64 {
        (u64::from(self.header) + u64::from(self.fast_path_limit)).max(u64::from(self.control)).next_multiple_of(64)
    }
    /// Payload of one packet of a message that is cut.
    pub(crate) fn packet(&self) -> u32 {
        self.eager_limit.min(self.packet_limit).max(1)
    }
    /// Whether the packets of a rendezvous by send are copied first.
    pub(crate) fn copies_data(&self) -> bool {
        self.packet() <= self.eager_copy_limit
    }
    /// Bytes of one posted receive.
    pub(crate) fn receive_buffer(&self) -> u32 {
        self.header.saturating_add(self.blocking_eager_limit.min(self.packet_limit)).max(self.control).saturating_add(self.receive_offset)
    }
    /// The pieces of a long message; `turn` counts messages, for policies that take rails in turn.
    pub(crate) fn pieces(&self, size: u32, rails: usize, turn: u64) -> Vec<Piece> {
        if self.rails != RailPolicy::Stripe || rails < 2 || size <= self.stripe_limit {
            return vec![Piece { rail: self.rail(rails, turn), offset: 0, length: size }];
        }
        let each = size.div_ceil(rails as u32).next_multiple_of(64);
        let piece = |rail: usize| {
            let offset = (each as u64 * rail as u64).min(u64::from(size)) as u32;
            Piece { rail, offset, length: each.min(size - offset) }
        };
        (0..rails).map(piece).filter(|piece| piece.length > 0).collect()
    }
    /// The rail of a whole message.
    pub(crate) fn rail(&self, rails: usize, turn: u64) -> usize {
        if self.rails == RailPolicy::First { 0 } else { (turn % rails.max(1) as u64) as usize }
    }
}

impl From<&Mpi> for Protocol {
    fn from(part: &Mpi) -> Protocol {
        let bytes = fabriscope_units::Bytes::saturating_u32;
        Protocol {
            send_overhead: *part.send_overhead,
            call_overhead: *part.send_overhead,
            recv_overhead: *part.recv_overhead,
            match_step: part.match_step.as_ref().map_or(Span::ZERO, |step| **step),
            progress_overhead: *part.progress_overhead,
            rendezvous_overhead: *part.rendezvous_overhead,
            registration: part.registration.as_ref().map(|each| Registration { call: *each.call, page: *each.page, gpu_page: Span::ZERO }),
            wqe_build: part.wqe_build.as_ref().map(|span| **span),
            poll_hit: part.poll_hit.as_ref().map(|span| **span),
            header: bytes(*part.header),
            control: bytes(*part.control_bytes),
            tag_matching: part.tag_matching,
            eager_channel: part.eager_channel,
            fast_path_limit: bytes(*part.fast_path_limit),
            eager_copy_limit: bytes(*part.eager_copy_limit),
            eager_limit: bytes(*part.eager_limit),
            blocking_eager_limit: bytes(*part.eager_limit).max(part.blocking_eager_limit.as_ref().map_or(0, |limit| bytes(**limit))),
            blocking_copy_limit: bytes(*part.eager_copy_limit).max(part.blocking_copy_limit.as_ref().map_or(0, |limit| bytes(**limit))),
            packet_limit: part.packet_limit.as_ref().map_or(u32::MAX, |limit| bytes(**limit)).max(1),
            rendezvous: part.rendezvous,
            read_from: part.read_from.as_ref().map_or(u32::MAX, |from| bytes(**from)),
            grant: part.grant.as_ref().map_or(u32::MAX, |packets| {
                let packet = part.packet_limit.as_ref().map_or(u32::MAX, |limit| bytes(**limit)).min(bytes(*part.eager_limit));
                packets.saturating_mul(packet.max(1)).max(1)
            }),
            transport: MpiTransport::default(),
            unordered: false,
            packet_overhead: Span::ZERO,
            credit_interval: ((*part.window).max(1) / 2).max(1),
            receive_offset: 0,
            inline_limit: bytes(*part.inline_limit),
            rails: part.rails,
            stripe_limit: bytes(*part.stripe_limit),
            most_rails: part.rails_of(u32::MAX),
            window: (*part.window).max(1),
            signal_interval: (*part.signal_interval).max(1),
            shared_receives: part.connections.as_ref().map_or(SHARED_RECEIVES, |connections| *connections.receives),
            first_use: part.connections.as_ref().and_then(|connections| connections.on_first_use.as_ref()).map(|first| *first.each),
            local: part.shared_memory.as_ref().map(Local::from),
            slots: part.shared_memory.as_ref().and_then(|memory| memory.slots.as_ref()).map(Slots::plain),
            gpu: part.gpu.as_ref().map(Gpu::from),
        }
    }
}

/// Receives in a shared queue where the library's part does not say. Basis: assumed, as UCX_RC_RX_QUEUE_LEN.
const SHARED_RECEIVES: u32 = 4096;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A library with round numbers, for tests.
    pub(crate) fn example() -> Protocol {
        Protocol {
            send_overhead: Span::from_ns(100),
            call_overhead: Span::from_ns(100),
            recv_overhead: Span::from_ns(80),
            match_step: Span::ZERO,
            progress_overhead: Span::from_ns(20),
            rendezvous_overhead: Span::from_ns(300),
            registration: None,
            wqe_build: None,
            poll_hit: None,
            header: 48,
            control: 96,
            tag_matching: TagMatching::Core,
            eager_channel: EagerChannel::RdmaWrite,
            fast_path_limit: 4096,
            eager_copy_limit: 8192,
            eager_limit: 16_384,
            blocking_eager_limit: 65_536,
            blocking_copy_limit: 8192,
            packet_limit: u32::MAX,
            rendezvous: Rendezvous::Read,
            read_from: u32::MAX,
            grant: u32::MAX,
            transport: MpiTransport::default(),
            unordered: false,
            packet_overhead: Span::ZERO,
            credit_interval: 8,
            receive_offset: 0,
            inline_limit: 128,
            rails: RailPolicy::Stripe,
            stripe_limit: 16_384,
            most_rails: u32::MAX,
            window: 16,
            signal_interval: 8,
            shared_receives: 64,
            first_use: None,
            local: None,
            slots: None,
            gpu: None,
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let protocol = example();
        assert_eq!(protocol.path(8192, false), Path::Eager { copied: true });
        assert_eq!(protocol.path(8193, false), Path::Eager { copied: false });
        assert_eq!(protocol.path(16_385, false), Path::Rendezvous);
        assert_eq!(protocol.path(16_385, true), Path::Eager { copied: false }, "a program that waits would rather not meet");
        assert!(protocol.takes_ring(4096) && !protocol.takes_ring(4097));
        assert_eq!(protocol.slot(), 4160);
    }

    #[test]
    fn long_enough_messages_are_read() {
        let protocol = Protocol { rendezvous: Rendezvous::Send, read_from: 1 << 20, ..example() };
        assert!(protocol.sends((1 << 20) - 1) && !protocol.sends(1 << 20));
        assert_eq!(protocol.rendezvous_of(1 << 20), Rendezvous::Read);
    }

    #[test]
    fn pieces_cover_the_message_once() {
        let protocol = example();
        for (size, rails) in [(16_385, 2), (1 << 20, 2), (100_000, 3), (u32::MAX, 4), (16_500, 8)] {
            let pieces = protocol.pieces(size, rails, 0);
            let mut at = 0;
            for piece in &pieces {
                assert_eq!(piece.offset, at, "{size} over {rails}");
                at += piece.length;
            }
            assert_eq!(at, size);
            assert!(pieces.len() <= rails && pieces.len() > 1);
        }
        // A message at the limit stays whole and takes the rails in turn.
        assert_eq!(protocol.pieces(16_384, 2, 3), [Piece { rail: 1, offset: 0, length: 16_384 }]);
        let first = Protocol { rails: RailPolicy::First, ..protocol };
        assert_eq!(first.pieces(1 << 20, 2, 3), [Piece { rail: 0, offset: 0, length: 1 << 20 }]);
    }
}
