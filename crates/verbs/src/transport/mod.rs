//! The transports: how requests become packets and packets become completions. This is their registry.
//!
//! Source: IBA vol. 1 §9.2 (headers), §9.4 (operations), §9.7 (reliable), §9.8 (unreliable).
//! Modelled: RC, and what XRC, RD and DC add to it; UC, UD, raw packets; SRD and UET (`rud`); iWARP. Segmentation (`outbound`) and
//! reassembly (`inbound`) are shared, so is what goes over other objects (`relay`).
//! Not modelled: –

pub(crate) mod inbound;
pub(crate) mod interface;
pub(crate) mod outbound;
mod relay;

use fabriscope_units::Time;

use crate::attr::QpType;
use crate::error::PostError;
use crate::ext_headers::ExtHeaders;
use crate::nic::{Before, Nic};
use crate::packet::{Packet, Received, Transmit};
use crate::port::Port;
use crate::qp::Qp;
use crate::qp::requester::Route;
use crate::wr::SendWr;
use interface::Transport;

/// Declares the transports: the folder or file, the type in it that is a [`Transport`], and the types of its queue pairs.
///
/// A line is all that a transport needs here. The table becomes the modules, and the functions by which the NIC calls them;
/// those that come first are found first.
macro_rules! transports {
    ($($file:ident::$transport:ident: $($qp_type:ident),+;)*) => {
        $(pub(crate) mod $file;)*

        /// A packet arrived.
        #[inline]
        pub(crate) fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
            $(if $file::$transport::claims(packet) {
                return $file::$transport::handle(nic, now, packet, slot, ext_headers);
            })*
            unknown(nic, packet, ext_headers)
        }
        /// The next packet of a queue pair whose turn it is.
        #[inline]
        pub(crate) fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
            match qp.qp_type {
                $($(QpType::$qp_type)|+ => $file::$transport::poll_transmit(qp, now, port, ext_headers),)*
            }
        }
        /// Requests were rung on a queue pair.
        #[inline]
        pub(crate) fn doorbell(nic: &mut Nic, slot: usize) {
            match nic.qps[slot].qp_type {
                $($(QpType::$qp_type)|+ => $file::$transport::doorbell(nic, slot),)*
            }
        }
        /// The timer of a queue pair came up.
        pub(crate) fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
            match qp.qp_type {
                $($(QpType::$qp_type)|+ => $file::$transport::handle_timeout(qp, now, port),)*
            }
        }
        /// Where a request goes, on transports whose requests say it.
        pub(crate) fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
            match qp.qp_type {
                $($(QpType::$qp_type)|+ => $file::$transport::route(nic, qp, wr),)*
            }
        }
    };
}

transports! {
    rc::Rc: Rc;
    uc::Uc: Uc;
    ud::Ud: Ud, UetUud;
    xrc::Xrc: XrcSend, XrcRecv;
    rd::Rd: Rd, Eec;
    dc::Dc: Dci, Dct;
    rud::Rud: Srd, Uet, UetRod, UetRudi;
    iwarp::Iwarp: Iwarp;
    raw::Raw: RawPacket;
}

/// A packet that no transport of the NIC knows.
#[cold]
fn unknown(nic: &mut Nic, packet: &Packet, ext_headers: &mut ExtHeaders) -> Received {
    let mut received = Received { dropped: true, ..Received::default() };
    let before = Before::of(&nic.port);
    ext_headers.free(packet.ext);
    nic.report(before, true, &mut received);
    received
}
