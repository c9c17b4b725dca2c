//! iWARP: connections of RDMAP over a TCP that runs in the adapter.
//!
//! Source: RFC 5040 (RDMAP), RFC 5041 (DDP), RFC 5044 (MPA); Linux, drivers/infiniband/hw/cxgb4 and providers/cxgb4 of rdma-core
//! (when requests complete, what an adapter of today does not have).
//! Modelled: SEND, WRITE, READ request and response, Terminate as DDP segments of one MPA frame and one TCP segment each; payload
//! placed as it arrives, messages delivered in the order of the stream; a SEND or WRITE completes when TCP has the acknowledgement of
//! its last byte, a READ when all of its response is here; loss recovery and congestion control of crate `tcp`.
//! Not modelled: the exchange that opens a connection (queue pairs are connected before the clock counts), SEND with invalidate, the
//! answer to segments for a queue pair that is gone (they end in silence), bind and invalidate of STags.
//!
//! ```text
//!   requests, READ responses      `message`: one message, cut into segments
//!            |
//!         `sender`                frames into the stream, acknowledged bytes into completions
//!            |
//!      TCP connection             windows, repetition
//!            |
//!        `receiver`               placement at once, delivery in order, refusal by Terminate
//! ```

pub(crate) mod frame;
mod message;
mod receiver;
mod sender;
pub(crate) mod stream;

use fabriscope_tcp::{Connection, State};
use fabriscope_units::Time;
use fabriscope_wire::TerminateCode;

use crate::event::AsyncEvent;
use crate::ext_headers::{ExtHeaders, Foreign};
use crate::nic::{Before, Nic};
use crate::packet::{Body, IwarpKind, Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::{Qp, Waiting};
use crate::transport::inbound;
use crate::transport::interface::Transport;
use crate::wc::WcStatus;
use stream::CloseReason;

/// iWARP.
pub(crate) struct Iwarp;

impl Transport for Iwarp {
    #[inline]
    fn claims(packet: &Packet) -> bool {
        matches!(packet.body(), Body::Iwarp { .. })
    }
    fn poll_transmit(qp: &mut Qp, now: Time, port: &mut Port, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        poll(qp, now, port, ext_headers)
    }
    fn handle(nic: &mut Nic, now: Time, packet: &Packet, slot: Option<usize>, ext_headers: &mut ExtHeaders) -> Received {
        let mut received = Received::default();
        let before = Before::of(&nic.port);
        match slot {
            Some(slot) => arrived(&mut nic.qps[slot], now, &mut nic.port, packet, ext_headers, &mut received),
            None => {
                ext_headers.free(packet.ext);
                received.dropped = true;
            }
        }
        let empty = matches!(packet.body(), Body::Iwarp { kind: IwarpKind::Segment, .. }) && packet.payload == 0;
        nic.report(before, !empty, &mut received);
        received
    }
    fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
        timed_out(qp, now, port);
    }
}

/// The next packet.
#[cold]
fn poll(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
    let mut stream = qp.stream.take()?;
    let outcome = stream.poll(qp, now, port, side);
    qp.stream = Some(stream);
    let sent = match outcome {
        Ok(sent) => sent,
        Err(end) => {
            finish(qp, end, port);
            None
        }
    };
    if sent.is_some() {
        qp.want_requests(port);
    }
    arm(qp, port);
    sent
}

/// A packet arrived.
#[cold]
fn arrived(qp: &mut Qp, now: Time, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    let ext = side.take(packet.ext);
    // Where a switch cut the payload off, the check of the frame fails.
    let whole = !packet.flags.contains(PacketFlags::TRIMMED);
    let carried = ext.filter(|_| whole).and_then(|ext| {
        let words = ext.words();
        match ext.foreign {
            Foreign::Iwarp(frame) => Some((frame, (ext.data, words), qp.stream.take()?)),
            _ => None,
        }
    });
    let Some((frame, data, mut stream)) = carried else {
        received.dropped = true;
        return;
    };
    inbound::established(qp, port);
    let end = stream.arrived(qp, now, port, packet, &frame, data, received);
    qp.stream = Some(stream);
    if let Some(end) = end {
        finish(qp, end, port);
    }
    qp.want_requests(port);
    arm(qp, port);
}

/// The timer of the connection came up.
fn timed_out(qp: &mut Qp, now: Time, port: &mut Port) {
    let Some(stream) = &mut qp.stream else { return };
    stream.connection.handle_timeout(now);
    if stream.connection.error().is_some() {
        finish(qp, CloseReason::Silence, port);
    }
    qp.want_requests(port);
    arm(qp, port);
}

/// Has the port look at the connection's timer.
fn arm(qp: &mut Qp, port: &mut Port) {
    let deadline = qp.stream.as_ref().map(|stream| &stream.connection).filter(|connection| connection.state() != State::TimeWait);
    match deadline.and_then(Connection::poll_timeout) {
        Some(deadline) => qp.timer.start(Waiting::Acknowledgement, deadline, qp.slot, port),
        None => qp.timer.stop(),
    }
}

/// The connection is over: the oldest request says why, everything else is flushed.
fn finish(qp: &mut Qp, end: CloseReason, port: &mut Port) {
    let Some(stream) = &mut qp.stream else { return };
    if stream.ending {
        return;
    }
    let outstanding = !stream.begun.is_empty();
    let status = match end {
        CloseReason::Refused(code, receive) => {
            stream.terminate(code);
            let event = if is_access(code) { AsyncEvent::QpAccessError } else { AsyncEvent::QpRequestError };
            port.events.push_back(event(qp.num));
            if let Some((wqe, status)) = receive {
                qp.fail_receive(wqe, status, port);
            }
            return qp.enter_error(port);
        }
        CloseReason::Terminated(code) => {
            stream.close();
            status_of(code)
        }
        CloseReason::Local(status) => return qp.fail(status, port),
        CloseReason::Closed => WcStatus::WrFlushErr,
        CloseReason::Silence => WcStatus::RetryExcErr,
    };
    if outstanding {
        qp.fail_front(status, port);
    } else {
        port.events.push_back(AsyncEvent::QpFatal(qp.num));
    }
    qp.enter_error(port);
}

/// Whether a code means that memory was not the peer's to touch.
fn is_access(code: TerminateCode) -> bool {
    use TerminateCode::{AccessRights, BaseOrBounds, InvalidStag, StagNotAssociated};
    matches!(code, InvalidStag | BaseOrBounds | AccessRights | StagNotAssociated)
}

/// The status by which a request ends that the peer refused.
fn status_of(code: TerminateCode) -> WcStatus {
    match code {
        _ if is_access(code) => WcStatus::RemAccessErr,
        TerminateCode::StreamCatastrophic => WcStatus::RemOpErr,
        _ => WcStatus::RemInvReqErr,
    }
}
