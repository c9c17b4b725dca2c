//! Unreliable datagrams: one packet, one message, any destination.
//!
//! Source: IBA vol. 1 §9.8.3 (unreliable datagram service), §10.2.5 (Q_Keys), §11.4.1.2 (GRH in receive buffers).
//! Modelled: Q_Keys, address handles, groups, the 40 bytes in front of every received message, silent loss.
//! Not modelled: the contents of the GRH (the 40 bytes are counted, not written).

pub(crate) mod datagram;

use fabriscope_units::Time;
use fabriscope_wire::Transport as Code;

use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::Nic;
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::transport::interface::{Transport, to_queue_pair};
use crate::transport::relay;
use crate::wr::SendWr;

/// Unreliable datagram.
pub(crate) struct Ud;

impl Transport for Ud {
    const CODE: Option<Code> = Some(Code::Ud);

    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        relay::addressed(nic, qp, wr).map(Some)
    }
    #[inline]
    fn poll_transmit(qp: &mut Qp, _: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        datagram::poll(qp, port, ext_headers)
    }
    #[inline]
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        to_queue_pair(nic, now, packet, slot, ext_headers, |qp, port, ext_headers, received| {
            datagram::handle(qp, port, packet, ext_headers, received);
            true
        })
    }
}
