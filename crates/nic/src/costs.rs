//! What a NIC takes for what it does: the one declaration of these numbers, beside the part in the catalogue that holds them.

use fabriscope_node::ReadAhead;
use fabriscope_units::{Bytes, Rate, Span};

use crate::context::ContextLimits;

/// Timing of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicCosts {
    /// From the last byte of a packet in the NIC until its first bit is on the wire.
    pub tx_latency: Span,
    /// From the tail of a packet on the wire to the transport.
    pub rx_latency: Span,
    /// What a packet of a scalable reliable datagram (SRD) takes beyond `tx_latency`; nothing on adapters without these.
    pub srd_latency: Span,
    /// Between two messages of the NIC, whatever their queues: the inverse of its message rate.
    pub message_interval: Span,
    /// Between two work requests of one send queue.
    pub wqe_interval: Span,
    /// Between two READ responses of one queue pair.
    pub read_interval: Span,
    /// What the atomic unit takes for an operand that it has.
    pub atomic_latency: Span,
    /// What a receive takes that consumes an entry of a receive queue.
    pub recv_latency: Span,
    /// How far it reads ahead in a send queue.
    pub read_ahead: ReadAhead,
    /// Size of a completion queue entry.
    pub cqe: Bytes,
    /// What it holds between fetch and wire at most.
    pub tx_buffer: Bytes,
    /// Contexts of queue pairs that it holds; all of them where nothing is said.
    pub contexts: Option<ContextLimits>,
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
    /// NIC holds, and a packet on either side.
    #[must_use]
    pub fn tx_window(&self, uplink: Uplink, latency: Span) -> Bytes {
        let covered = uplink.rate.amount_in(latency + self.tx_latency + self.srd_latency);
        covered.min(self.tx_buffer) + uplink.packet * 2
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
            message_interval: Span::from_ns(10),
            wqe_interval: Span::from_ns(25),
            read_interval: Span::from_ns(40),
            atomic_latency: Span::from_ns(60),
            recv_latency: Span::from_ns(30),
            read_ahead: ReadAhead { initial: Bytes(1 << 20), growth: Bytes::ZERO },
            cqe: Bytes(64),
            tx_buffer: Bytes::from_kib(64),
            contexts: None,
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
    }

    #[test]
    fn the_slower_of_engine_and_queue_spaces_messages() {
        assert_eq!(costs().message_spacing(), Span::from_ns(25));
        assert_eq!(NicCosts { message_interval: Span::from_ns(50), ..costs() }.message_spacing(), Span::from_ns(50));
    }
}
