//! The transports: how requests become packets and packets become completions; `registry` lists them.
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
pub use rud::coalescing::AckCoalescing;

/// The modules of the transports, and the functions by which the NIC calls them; those that come first are found first.
macro_rules! calls {
    ({$($file:ident::$transport:ident { $($(#[$about:meta])* $name:ident = $end:expr;)* }
        $([ $($(#[$own_about:meta])* $own:ident = $own_end:expr;)* ])?)*} {$($test_file:ident::$test:ident { $($test_name:ident = $test_end:expr;)* })*}) => {
        $(pub(crate) mod $file;)*
        $(#[cfg(test)] mod $test_file;)*

        /// A packet arrived.
        #[inline]
        pub(crate) fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
            $(if $file::$transport::claims(packet) {
                return $file::$transport::handle(nic, now, packet, slot, ext_headers);
            })*
            $(#[cfg(test)] if $test_file::$test::claims(packet) {
                return $test_file::$test::handle(nic, now, packet, slot, ext_headers);
            })*
            unknown(nic, packet, ext_headers)
        }
        /// The next packet of a queue pair whose turn it is.
        #[inline]
        pub(crate) fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
            match qp.qp_type {
                $($(QpType::$name)|+ $($(| QpType::$own)+)? => $file::$transport::poll_transmit(qp, now, port, ext_headers),)*
                $(#[cfg(test)] $(QpType::$test_name)|+ => $test_file::$test::poll_transmit(qp, now, port, ext_headers),)*
            }
        }
        /// Requests were rung on a queue pair.
        #[inline]
        pub(crate) fn doorbell(nic: &mut Nic, slot: usize) {
            match nic.qps[slot].qp_type {
                $($(QpType::$name)|+ $($(| QpType::$own)+)? => $file::$transport::doorbell(nic, slot),)*
                $(#[cfg(test)] $(QpType::$test_name)|+ => $test_file::$test::doorbell(nic, slot),)*
            }
        }
        /// The timer of a queue pair came up.
        pub(crate) fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
            match qp.qp_type {
                $($(QpType::$name)|+ $($(| QpType::$own)+)? => $file::$transport::handle_timeout(qp, now, port),)*
                $(#[cfg(test)] $(QpType::$test_name)|+ => $test_file::$test::handle_timeout(qp, now, port),)*
            }
        }
        /// Where a request goes, on transports whose requests say it.
        pub(crate) fn route(nic: &Nic, qp: &Qp, wr: &SendWr) -> Result<Option<Route>, PostError> {
            match qp.qp_type {
                $($(QpType::$name)|+ $($(| QpType::$own)+)? => $file::$transport::route(nic, qp, wr),)*
                $(#[cfg(test)] $(QpType::$test_name)|+ => $test_file::$test::route(nic, qp, wr),)*
            }
        }
    };
}

transports!(calls);

/// A packet that no transport of the NIC knows.
#[cold]
fn unknown(nic: &mut Nic, packet: &Packet, ext_headers: &mut ExtHeaders) -> Received {
    let mut received = Received { dropped: true, ..Received::default() };
    let before = Before::of(&nic.port);
    ext_headers.free(packet.ext);
    nic.report(before, true, &mut received);
    received
}
