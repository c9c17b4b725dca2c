//! What the library of one process knows: its peers, requests, windows and what waits; the other modules say what happens to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabriscope_units::Time;

use crate::flow::{Receiver, Sender};
use crate::matching::{Matching, PendingWindow};
use crate::request::Requests;
use crate::settings::Library;
use fabriscope_wire::psm2::{Address, Flow, Header, RequestId, Window};

/// A copy between the memory of a GPU and host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Of this request.
    pub request: RequestId,
    /// Bytes.
    pub length: u32,
    /// What it is for.
    pub step: Step,
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A window that leaves.
    Out,
    /// A window that came.
    In,
    /// A whole eager message that came.
    Eager,
}

/// A window outstanding to this process.
#[derive(Debug)]
pub(crate) struct Session {
    pub peer: usize,
    pub request: RequestId,
    pub sender: RequestId,
    pub window: Window,
}

/// A window that a peer granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub window: Window,
    pub generation: u32,
    pub request: RequestId,
    pub sender: Sender,
}

/// An eager message that was announced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming {
    pub request: Option<RequestId>,
    pub length: u32,
    pub got: u32,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum Psm2Error {
    /// All contexts of the adapter are in use.
    #[error("all {contexts} contexts of the adapter are in use")]
    #[diagnostic(help("run fewer processes on the node"))]
    NoContext {
        /// How many there are.
        contexts: u32,
    },
    /// Nobody connected to that process.
    #[error("rank {rank} is not a peer")]
    #[diagnostic(help("name it when the job starts"))]
    NoPeer {
        /// The process.
        rank: u32,
    },
    /// A message is longer than the buffer of its receive.
    #[error("a message of {length} B came for a receive of {size} B")]
    #[diagnostic(help("give the receive a larger buffer"))]
    Truncated {
        /// The message.
        length: u32,
        /// The buffer.
        size: u32,
    },
}

/// Another process.
#[derive(Debug)]
pub(crate) struct Peer {
    pub rank: u32,
    pub address: Address,
    /// Messages sent to it.
    pub sent: u32,
    /// Messages of it that were announced.
    pub announced: u32,
    /// Packets of messages that overtook others on the other flow, by message.
    pub early: BTreeMap<u32, Vec<Header>>,
    pub senders: [Sender; 2],
    pub receivers: [Receiver; 2],
}

/// Something that waits for an acknowledgement: a flow to a peer, or a window that a peer granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unacknowledged {
    Flow(usize, Flow),
    Grant(usize, u32),
}

/// The library in one process.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) me: Address,
    pub(crate) library: Library,
    pub(crate) peers: Vec<Peer>,
    pub(crate) ranks: BTreeMap<u32, usize>,
    pub(crate) addresses: BTreeMap<Address, usize>,
    pub(crate) requests: Requests,
    pub(crate) matching: Matching,
    /// Eager messages of which not all has come or whose receive is not known, by peer and number.
    pub(crate) incoming: BTreeMap<(usize, u32), Incoming>,
    /// Windows outstanding to this process, by TID flow.
    pub(crate) sessions: BTreeMap<u32, Session>,
    pub(crate) wanted: VecDeque<PendingWindow>,
    pub(crate) windows: u32,
    /// Bytes of the receive buffers for each peer whose pages have TIDs.
    pub(crate) registered: BTreeMap<usize, u32>,
    /// Windows that peers granted, by peer and their number.
    pub(crate) grants: BTreeMap<(usize, u32), Grant>,
    /// Copies to ask for, and granted windows that wait for theirs, by the sender's request and their index.
    pub(crate) copies: VecDeque<Copy>,
    pub(crate) parked: BTreeMap<(RequestId, u32), (usize, u32)>,
    /// Packets outside of flows that found no room.
    pub(crate) control: VecDeque<Header>,
    /// Acknowledgements due at the end of this turn.
    pub(crate) owing: Vec<(usize, Flow)>,
    /// What waits for room at the adapter.
    pub(crate) blocked: BTreeSet<Unacknowledged>,
    pub(crate) deadlines: BTreeSet<(Time, Unacknowledged)>,
    pub(crate) armed: BTreeMap<Unacknowledged, Time>,
    /// When the call that is being carried out began.
    pub(crate) began: Option<Time>,
}
