//! The same library over other queue pairs: what of its protocol that changes.
//!
//! Source: MVAPICH2 2.3 user guide (MV2_USE_XRC, MV2_USE_ONLY_UD: no RDMA into rings over these); IBA vol. 1 §9.8.3 (datagrams of one packet
//! at most, no RDMA) and annex A14; libfabric, efa provider (messages of SRD are packets, long ones are granted in parts).
//! Modelled: rings belong to a connection and fall away; datagrams are cut into packets with a header of their own, acknowledged by the library after
//! as many as it says, and cost a core time each; long messages are sent, or read where messages may overtake each other.
//! Not modelled: repetition of datagrams that are lost (such networks are refused), zero-copy datagrams.

use fabriscope_catalog::{EagerChannel, Mpi, MpiTransport, Rendezvous, TagMatching};
use fabriscope_units::Bytes;

use super::Protocol;

impl Protocol {
    /// Whether requests complete in any order, so that each has a completion of its own.
    pub(crate) fn signals_each(&self) -> bool {
        matches!(self.transport, MpiTransport::Srd | MpiTransport::Uet)
    }
    /// Queue pairs of a rank that talks to all ranks of a job of `nodes` nodes with `per_node` ranks each, on one adapter; over XRC with its share
    /// of those that receive for the node.
    pub(crate) fn queue_pairs_of(&self, nodes: u32, per_node: u32) -> u32 {
        let others = nodes.saturating_sub(1);
        match self.transport {
            MpiTransport::Rc | MpiTransport::RcSrq => others.saturating_mul(per_node),
            MpiTransport::Xrc => others.saturating_mul(2),
            MpiTransport::Dc => 1 + INITIATORS,
            MpiTransport::Ud | MpiTransport::Srd | MpiTransport::Uet => 1,
        }
    }
    /// Whether a completion names the peer by its address: one queue pair here receives from all.
    pub(crate) fn names_peers(&self) -> bool {
        self.transport == MpiTransport::Dc || self.transport.is_datagrams()
    }
    /// Whether its adapters write and read the memory of peers.
    pub(crate) fn has_rdma(&self) -> bool {
        self.transport != MpiTransport::Ud
    }

    /// The same over `transport`, whose packets carry `mtu` bytes at most.
    pub(crate) fn over(self, transport: MpiTransport, part: &Mpi, mtu: u32) -> Protocol {
        let plain = Protocol { transport, ..self };
        let without_rings = Protocol { eager_channel: EagerChannel::Send, ..plain };
        let packets = |header: u32, packet: u32| {
            let payload = packet.min(mtu).saturating_sub(self.header + header).max(1);
            let packet_limit = self.packet_limit.min(payload);
            Protocol { header: self.header + header, packet_limit, unordered: true, tag_matching: TagMatching::Core, ..without_rings }
        };
        match (transport, &part.datagrams) {
            (MpiTransport::Rc | MpiTransport::RcSrq, _) => plain,
            (MpiTransport::Xrc | MpiTransport::Dc, _) => without_rings,
            (MpiTransport::Ud, datagrams) => {
                let stated = datagrams.as_ref();
                let bytes = |of: fn(&fabriscope_catalog::Datagrams) -> Bytes| stated.map_or(0, |stated| of(stated).saturating_u32());
                let cut = packets(bytes(|d| *d.header), stated.map_or(mtu, |d| (*d.mtu).saturating_u32()));
                let window = stated.map_or(self.window, |d| (*d.window).clamp(1, MOST_IN_FLIGHT));
                Protocol {
                    rendezvous: Rendezvous::Send,
                    read_from: u32::MAX,
                    packet_overhead: stated.map_or(self.packet_overhead, |d| *d.packet_overhead),
                    window,
                    credit_interval: stated.map_or(window / 2, |d| (*d.ack_interval).min(window / 2)).max(1),
                    receive_offset: GRH,
                    ..cut
                }
            }
            (MpiTransport::Srd, _) => {
                let cut = packets(0, u32::MAX);
                let grant = cut.packet_limit.saturating_mul(GRANTED).min(self.grant);
                Protocol { rendezvous: Rendezvous::Send, read_from: u32::MAX, grant, ..cut }
            }
            // A message of Ultra Ethernet may have many packets; a WRITE could be overtaken by the word that it is done.
            (MpiTransport::Uet, _) => {
                Protocol { unordered: true, rendezvous: Rendezvous::Read, tag_matching: TagMatching::Core, ..without_rings }
            }
        }
    }
}

/// Datagrams to one rank that may be in flight: each is backed by a receive here, so that none is lost for want of one. Basis: assumed; the libraries
/// have a window of hundreds and let the receiver lose what it has no receive for.
const MOST_IN_FLIGHT: u32 = 128;
/// Initiators of DC that the peers of a rank are spread over. Basis: UCX, `UCX_DC_MLX5_NUM_DCI`, 8 by default.
pub const INITIATORS: u32 = 8;
/// Packets of a grant. Basis: published, libfabric efa provider (as docs/models/transports.md has it).
const GRANTED: u32 = 32;
/// Bytes of a global route header in front of each datagram. Basis: standard.
const GRH: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_have_a_header_more_and_rings_fall_away() {
        let catalog = fabriscope_catalog::Catalog::embedded().unwrap();
        let part = catalog.software("mvapich2-2.3.7").unwrap().mpi.clone().unwrap();
        let over = |transport| Protocol::from(&part).over(transport, &part, 4096);
        let ud = over(MpiTransport::Ud);
        // 2048 B less 48 and 16 B of headers; acknowledged after 64, half of 128 in flight, before the 100 of the library.
        assert_eq!((ud.header, ud.packet_limit, ud.window, ud.credit_interval), (64, 1984, 128, 64));
        assert_eq!((ud.rendezvous, ud.receive_buffer()), (Rendezvous::Send, 40 + 2048));
        let srd = over(MpiTransport::Srd);
        assert_eq!((srd.packet_limit, srd.grant, srd.packet_overhead), (4096 - 48, 32 * 4048, fabriscope_units::Span::ZERO));
        let rings = |transport| over(transport).eager_channel == EagerChannel::RdmaWrite;
        let found: Vec<_> = MpiTransport::WORDS.iter().filter(|(_, transport)| rings(*transport)).map(|(word, _)| *word).collect();
        assert_eq!(found, ["rc", "rc-srq"]);
        assert_eq!(over(MpiTransport::Rc).rendezvous, Rendezvous::Write);
    }
}
