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

mod message;
mod receiver;
mod sender;

use std::collections::{BTreeMap, VecDeque};

use fabriscope_tcp::{Config, Connection, Segment, Seq, State};
use fabriscope_units::Time;
pub use fabriscope_wire::Mpa;
use fabriscope_wire::{Ddp, ReadRequest, TerminateCode};

use crate::event::AsyncEvent;
use crate::ext_headers::{ExtHeaders, Foreign};
use crate::ids::QpNum;
use crate::packet::{Packet, PacketFlags, Received, Transmit};
use crate::port::Port;
use crate::qp::{Qp, Waiting};
use crate::srq::RecvWqe;
use crate::transport::inbound;
use crate::wc::WcStatus;
use message::Message;
use receiver::Delivery;
use sender::{Begun, Response};

/// What the iWARP of an adapter is made with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How frames are put into the stream.
    pub mpa: Mpa,
    /// Every connection. Segments are records, and short ones leave at once.
    pub tcp: Config,
}

/// What a packet of iWARP carries: a segment of TCP, and the segment of DDP that is its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The segment of TCP.
    pub segment: Segment,
    /// The header of DDP and RDMAP; none without payload.
    pub ddp: Option<Ddp>,
    /// What follows the header besides data.
    pub control: Control,
}

/// The payload of messages that adapters exchange among themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// None: what follows is data of a program.
    Data,
    /// What a READ request asks for.
    Read(ReadRequest),
    /// Why the stream ends.
    Terminate(TerminateCode),
}

/// One end of a connection.
pub(crate) struct Stream {
    connection: Connection,
    mpa: Mpa,
    /// The longest DDP segment, header included.
    longest: u32,
    /// It ends: what was begun is sent, and nothing else happens.
    ending: bool,

    /// Messages of which not all is acknowledged, in the order of the stream; only the last may have segments not handed to TCP.
    messages: VecDeque<Message>,
    /// Bytes of frames handed to TCP, those of them that were sent, and those that the peer has acknowledged.
    posted: u64,
    sent: u64,
    acked: u64,
    /// Requests that were begun and are not complete.
    begun: VecDeque<Begun>,
    /// READs of the peer that wait for their turn.
    responses: VecDeque<Response>,
    /// The message begun last is a response.
    responding: bool,
    /// READs answered and not complete.
    answered: u32,
    /// Numbers of the last SEND and of the last READ request.
    sends: u32,
    reads: u32,

    /// Bytes of the peer's stream that came in order.
    delivered: u64,
    /// What to do when the stream is complete up to here, behind a gap.
    early: BTreeMap<u64, Delivery>,
    /// Receives taken for messages that are not delivered, and the number of the first.
    receives: VecDeque<RecvWqe>,
    expected: u32,
}

/// Why a connection is over.
enum CloseReason {
    /// What the peer sent is refused; a receive ends with it.
    Refused(TerminateCode, Option<(RecvWqe, WcStatus)>),
    /// The peer refused what we sent.
    Terminated(TerminateCode),
    /// A request of ours cannot be carried out.
    Local(WcStatus),
    /// The peer closed or reset the connection.
    Closed,
    /// Nobody answers.
    Silence,
}

impl Stream {
    /// One end of a connection between two queue pairs, whose numbers give the first sequence numbers.
    fn new(settings: &Settings, own: QpNum, peer: u32) -> Option<Stream> {
        let tcp = Config { records: true, no_delay: true, ..settings.tcp };
        let first = |qp: u32| Seq(qp << 8);
        Some(Stream {
            connection: Connection::established(tcp, first(own.0), first(peer)).ok()?,
            mpa: settings.mpa,
            longest: settings.mpa.longest(tcp.mss),
            ending: false,
            messages: VecDeque::new(),
            posted: 0,
            sent: 0,
            acked: 0,
            begun: VecDeque::new(),
            responses: VecDeque::new(),
            responding: false,
            answered: 0,
            sends: 0,
            reads: 0,
            delivered: 0,
            early: BTreeMap::new(),
            receives: VecDeque::new(),
            expected: 1,
        })
    }

    /// The queue pair failed: gives back the receives it had taken. The peer hears of it, by what was begun or by a reset.
    pub(crate) fn give_up(&mut self) -> VecDeque<RecvWqe> {
        if !self.ending {
            self.ending = true;
            self.messages.clear();
            self.connection.abort();
        }
        self.begun.clear();
        self.responses.clear();
        self.early.clear();
        std::mem::take(&mut self.receives)
    }
}

/// The queue pair is connected from now on.
pub(crate) fn open(qp: &mut Qp, port: &Port) {
    qp.stream = port.iwarp.as_ref().and_then(|settings| Stream::new(settings, qp.num, qp.dest_qp)).map(Box::new);
}

/// The next packet.
#[cold]
pub(crate) fn poll(qp: &mut Qp, now: Time, port: &mut Port, side: &mut ExtHeaders) -> Option<Transmit> {
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
pub(crate) fn handle(qp: &mut Qp, now: Time, port: &mut Port, packet: &Packet, side: &mut ExtHeaders, received: &mut Received) {
    let ext = side.take(packet.ext);
    // Where a switch cut the payload off, the check of the frame fails.
    let whole = !packet.flags.contains(PacketFlags::TRIMMED);
    let carried = ext.filter(|_| whole).and_then(|ext| match ext.foreign {
        Foreign::Iwarp(frame) => Some((frame, ext.data, qp.stream.take()?)),
        _ => None,
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
pub(crate) fn handle_timeout(qp: &mut Qp, now: Time, port: &mut Port) {
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
