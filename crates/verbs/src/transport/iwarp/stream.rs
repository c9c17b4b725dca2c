//! One end of a connection: the messages in the stream, and what waits for them.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_tcp::{Config, Connection, Seq};
use fabriscope_wire::{Mpa, ReadRequest, TerminateCode};

use super::frame::Settings;
use super::message::Message;
use crate::ids::QpNum;
use crate::srq::RecvWqe;
use crate::wc::WcStatus;
use crate::words::AppWords;

/// One end of a connection.
pub(crate) struct Stream {
    pub(super) connection: Connection,
    pub(super) mpa: Mpa,
    /// The longest DDP segment, header included.
    pub(super) longest: u32,
    /// It ends: what was begun is sent, and nothing else happens.
    pub(super) ending: bool,

    /// Messages of which not all is acknowledged, in the order of the stream; only the last may have segments not handed to TCP.
    pub(super) messages: VecDeque<Message>,
    /// Bytes of frames handed to TCP, those of them that were sent, and those that the peer has acknowledged.
    pub(super) posted: u64,
    pub(super) sent: u64,
    pub(super) acked: u64,
    /// Requests that were begun and are not complete.
    pub(super) begun: VecDeque<Begun>,
    /// READs of the peer that wait for their turn.
    pub(super) responses: VecDeque<Response>,
    /// The message begun last is a response.
    pub(super) responding: bool,
    /// READs answered and not complete.
    pub(super) answered: u32,
    /// Numbers of the last SEND and of the last READ request.
    pub(super) sends: u32,
    pub(super) reads: u32,

    /// Bytes of the peer's stream that came in order.
    pub(super) delivered: u64,
    /// What to do when the stream is complete up to here, behind a gap.
    pub(super) early: BTreeMap<u64, Delivery>,
    /// Receives taken for messages that are not delivered, and the number of the first.
    pub(super) receives: VecDeque<RecvWqe>,
    pub(super) expected: u32,
}

/// Why a connection is over.
pub(super) enum CloseReason {
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
    pub(crate) fn new(settings: &Settings, own: QpNum, peer: u32) -> Option<Stream> {
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

/// A request that was begun.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begun {
    /// Complete when the peer has acknowledged the stream up to here.
    Data { end: u64 },
    /// Complete when it was answered.
    Read,
}

/// A READ of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) request: ReadRequest,
    pub(super) traced: bool,
}

/// What a segment leads to once everything before it is there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivery {
    /// A SEND of so many bytes ended.
    Received { length: u32, solicited: bool, words: Option<AppWords> },
    /// A WRITE ended with this range.
    Written { addr: u64, length: u32, words: Option<AppWords> },
    /// The peer asks for memory.
    GroupRequests(ReadRequest, bool),
    /// A READ of ours ended.
    Answered,
    /// The segment is refused; so ends its receive, if it is that.
    Refused(TerminateCode, Option<WcStatus>),
    /// The peer refused something.
    Terminated(TerminateCode),
}
