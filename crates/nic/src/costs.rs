//! What a NIC takes for what it does: the one declaration of these numbers. A part of the catalogue gives each a value and its source.

use fabriscope_node::ReadAhead;
use fabriscope_units::{Bytes, Rate, Span};

use crate::context::ContextLimits;
use fabriscope_verbs::TriggeredLimits;

use crate::translation::TranslationLimits;

/// The parameters of an adapter, each declared here and nowhere else: handed to [`fabriscope_units::bare`] for the model, and to the
/// catalogue for its part, whose keys they are.
#[macro_export]
macro_rules! nic_parameters {
    ($($with:ident)::+ { $($given:tt)* }) => {
        $($with)::+! {
            { $($given)* }
            values {
                /// From having a work request and its first payload to the first byte on the wire.
                tx_latency: Span,
                /// From a packet's arrival to its write towards the host.
                rx_latency: Span,
                /// Time of the send engine per message, all queue pairs together: 1 / message rate.
                message_interval: Span,
                /// Time that one queue pair keeps the send engine busy per work request.
                wqe_interval: Span,
                /// Time of the responder per RDMA READ request.
                read_interval: Span,
                /// Time of the responder to carry out an atomic operation.
                atomic_latency: Span,
                /// Extra time to take a receive work request and write a completion for a SEND.
                recv_latency: Span,
                /// Payload that an idle queue pair may request from the host ahead of the wire.
                read_ahead: Bytes,
                /// By how much that window grows with every packet sent.
                read_ahead_growth: Bytes,
                /// Size of a completion.
                cqe_size: Bytes,
                /// Payload that can wait for the wire.
                tx_buffer: Bytes,
            }
            optional {
                /// What a packet of SRD takes both adapters together beyond a datagram's latency: choice of a path, the record for sending
                /// it again, the check for duplicates.
                srd_latency: Span = Span::ZERO,
                /// Time of the send engine per RDMA WRITE, all queue pairs together, where that is more than `message_interval`.
                write_interval: Span = Span::ZERO,
                /// Time that an atomic operation keeps the unit busy which carries them out one at a time, for all queue pairs together
                /// (IBA vol. 1 §9.4.5: atomic between all queue pairs of the adapter).
                atomic_interval: Span = Span::ZERO,
                /// Payload of a message is read in blocks of this size, whatever the MTU: packets of a block may leave when all of it is in
                /// the adapter. Without it packets are read one by one.
                read_block: Bytes = Bytes::ZERO,
            }
            tables {
                /// Contexts of queue pairs; where nothing is said, all are always at hand.
                contexts: ContextLimits,
                /// Translations of registered memory; where nothing is said, all are always at hand.
                translations: TranslationLimits,
                /// Counting events and triggered operations; where nothing is said, there are none.
                triggered: TriggeredLimits,
            }
        }
    };
}

nic_parameters! {
    fabriscope_units::bare {
        /// Timing of a NIC.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct NicCosts
    }
}

/// The wire that a NIC feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uplink {
    /// Its rate.
    pub rate: Rate,
    /// The largest packet.
    pub packet: Bytes,
}

impl NicCosts {
    /// What may be between fetch and wire where a read takes `latency`: what the wire carries in the time of a fetch, no more than the
    /// NIC holds, and on either side a packet, or a block where memory is read in blocks of more than a packet.
    #[must_use]
    pub fn tx_window(&self, uplink: Uplink, latency: Span) -> Bytes {
        let covered = uplink.rate.amount_in(latency + self.tx_latency + self.srd_latency);
        covered.min(self.tx_buffer) + uplink.packet.max(self.read_block) * 2
    }

    /// How far it reads ahead in a send queue.
    #[must_use]
    pub fn ahead(&self) -> ReadAhead {
        ReadAhead { initial: self.read_ahead, growth: self.read_ahead_growth }
    }

    /// Time of the send engine for a message: of a WRITE, or of anything else.
    #[inline]
    #[must_use]
    pub fn engine_interval(&self, write: bool) -> Span {
        if write { self.message_interval.max(self.write_interval) } else { self.message_interval }
    }

    /// The shortest time between two messages of one send queue.
    #[must_use]
    pub fn message_spacing(&self) -> Span {
        self.message_interval.max(self.wqe_interval)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fabriscope_node::PcieTiming;

    pub(crate) const fn costs() -> NicCosts {
        NicCosts {
            tx_latency: Span::from_ns(100),
            rx_latency: Span::from_ns(100),
            srd_latency: Span::ZERO,
            write_interval: Span::ZERO,
            atomic_interval: Span::ZERO,
            read_block: Bytes::ZERO,
            message_interval: Span::from_ns(10),
            wqe_interval: Span::from_ns(25),
            read_interval: Span::from_ns(40),
            atomic_latency: Span::from_ns(60),
            recv_latency: Span::from_ns(30),
            read_ahead: Bytes(1 << 20),
            read_ahead_growth: Bytes::ZERO,
            cqe_size: Bytes(64),
            tx_buffer: Bytes::from_kib(64),
            contexts: None,
            translations: None,
            triggered: None,
        }
    }

    /// 80 Gb/s of TLPs, 100 ps a byte, without headers; 400 ns for a read, 100 ns for a write.
    pub(crate) fn bus() -> PcieTiming {
        PcieTiming {
            tlp_rate: Rate::from_gbps(80),
            read_latency: Span::from_ns(400),
            write_latency: Span::from_ns(100),
            max_payload: Bytes(256),
            max_read_request: Bytes(4096),
            completion_payload: Bytes(256),
            write_overhead: Bytes::ZERO,
            read_overhead: Bytes::ZERO,
            completion_overhead: Bytes::ZERO,
            wires: fabriscope_node::Wires::EachWay,
            tags: None,
        }
    }

    pub(crate) const UPLINK: Uplink = Uplink { rate: Rate::from_gbps(400), packet: Bytes(4096) };

    #[test]
    fn the_window_covers_a_fetch_up_to_the_buffer() {
        // 400 Gb/s · 500 ns = 25,000 B and two packets; of a slow memory, the buffer and two packets.
        assert_eq!(costs().tx_window(UPLINK, Span::from_ns(400)), Bytes(25_000 + 8192));
        assert_eq!(costs().tx_window(UPLINK, Span::from_us(10)), Bytes(65_536 + 8192));
        let reliable = NicCosts { srd_latency: Span::from_ns(100), ..costs() };
        assert_eq!(reliable.tx_window(UPLINK, Span::from_ns(400)), Bytes(30_000 + 8192));
        // Packets of 1 KiB, read in blocks of 4 KiB.
        let (blocks, small) = (NicCosts { read_block: Bytes::from_kib(4), ..costs() }, Uplink { packet: Bytes::from_kib(1), ..UPLINK });
        assert_eq!(blocks.tx_window(small, Span::from_ns(400)), Bytes(25_000 + 8192));
    }

    #[test]
    fn the_slower_of_engine_and_queue_spaces_messages() {
        assert_eq!(costs().message_spacing(), Span::from_ns(25));
        assert_eq!(NicCosts { message_interval: Span::from_ns(50), ..costs() }.message_spacing(), Span::from_ns(50));
        let writes = NicCosts { write_interval: Span::from_ns(800), ..costs() };
        assert_eq!((writes.engine_interval(false), writes.engine_interval(true)), (Span::from_ns(10), Span::from_ns(800)));
        assert_eq!(costs().engine_interval(true), Span::from_ns(10));
    }
}
