//! What the NIC asks of a transport.
//!
//! Everything is called through the registry (`transport::mod`), which knows the transport of a queue pair by its type and that of
//! a packet by [`Transport::claims`]; no call is dynamic.

use fabriscope_units::Time;
use fabriscope_wire::Transport as Code;

use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::{Before, Nic, note_mark};
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::wr::SendWr;

/// A transport. Defaults suit those whose requests go to the peer of a connection, and that need no timer.
pub(crate) trait Transport {
    /// The code in the opcodes of its packets, where they have one.
    const CODE: Option<Code> = None;
    /// Whether a packet is one of it.
    #[inline]
    fn claims(packet: &Packet) -> bool {
        Self::CODE.is_some_and(|code| packet.opcode >> 5 == code as u8)
    }
    /// Where a request goes, if requests say so: called when it is posted.
    ///
    /// # Errors
    /// The request does not say it, or names what is not there.
    fn route(_: &Nic, _: &Qp, _: &SendWr) -> Result<Option<Route>, PostError> {
        Ok(None)
    }
    /// Requests were rung on the queue pair at `slot`.
    #[inline]
    fn doorbell(nic: &mut Nic, slot: usize) {
        nic.qps[slot].want_requests(&mut nic.port);
    }
    /// The next packet of the requests of a queue pair whose turn it is.
    #[inline]
    fn poll_transmit(_qp: &mut Qp, _now: Time, _port: &mut Port, _ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        None
    }
    /// A packet arrived that is one of it; at `slot` is the queue pair that it names, if there is one and it speaks this transport.
    fn handle(_nic: &mut Nic, _now: Time, packet: &Packet, _slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        ext_headers.free(packet.ext);
        Received { dropped: true, ..Received::default() }
    }
    /// The timer of a queue pair came up.
    fn handle_timeout(_qp: &mut Qp, _now: Time, _port: &mut Port) {}
}

/// A packet for the queue pair at `slot`, which `take` takes: it says whether what completes follows the packet's payload. Without a
/// queue pair it is dropped.
#[inline(always)]
pub(crate) fn to_queue_pair(
    nic: &mut Nic,
    now: Time,
    packet: &Packet,
    slot: Option<usize>,
    ext_headers: &mut ExtHeaders,
    take: impl FnOnce(&mut Qp, &mut Port, &mut ExtHeaders, &mut Received) -> bool,
) -> Received {
    let mut received = Received::default();
    let Some(slot) = slot else {
        ext_headers.free(packet.ext);
        received.dropped = true;
        return received;
    };
    let Nic { qps, port, .. } = nic;
    let before = Before::of(port);
    let qp = &mut qps[slot];
    if packet.flags.contains(PacketFlags::ECN_CE) {
        note_mark(qp, now, port);
    }
    let follows_payload = take(qp, port, ext_headers, &mut received);
    before.report(port, follows_payload, &mut received);
    received
}
