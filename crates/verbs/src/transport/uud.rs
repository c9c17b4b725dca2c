//! Ultra Ethernet's unreliable, unordered mode (UUD): datagrams as those of UD, with its own headers and without the 40 bytes.
//!
//! Source: Ultra Ethernet specification 1.0 §3.5.
//! Modelled: address handles, silent loss. Its packets have the headers of the reliable modes, which hand them on (`rud`).
//! Not modelled: –

use fabriscope_units::Time;

use super::interface::Transport;
use super::{relay, ud::datagram};
use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::Nic;
use crate::packet::{Packet, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::wr::SendWr;

/// Unreliable, unordered.
pub(crate) struct Uud;

impl Transport for Uud {
    #[inline]
    fn claims(_: &Packet) -> bool {
        false
    }
    fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
        relay::addressed(nic, qp, wr).map(Some)
    }
    #[inline]
    fn poll_transmit(qp: &mut Qp, _: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        datagram::poll(qp, port, ext_headers)
    }
}
