//! What ranks tell each other before their first message.
//!
//! Source: as [`fabriscope_node::exchange`].

use fabriscope_node::exchange_keys;
use fabriscope_psm2::Address;
use fabriscope_verbs::{Lid, QpNum, Rkey, SrqId};

/// The store of a job.
pub(crate) type Exchange = fabriscope_node::exchange::Exchange<Tables>;

exchange_keys! {
    /// The node of a rank.
    nodes: NodeOf { rank: u32 } => u32;
    /// The ranks of a node.
    seats: SeatOf { node: u32, rank: u32 } => ();
    /// The NUMA domain of a rank in its node.
    domains: DomainOf { rank: u32 } => u32;
    /// What a rank tells a peer about one rail.
    contacts: ContactOf { from: u32, to: u32, rail: usize } => Contact;
    /// What a rank sends from to the adapter of a peer, which makes the other end, over XRC.
    senders: SenderOf { from: u32, to: u32, rail: usize } => QpNum;
    /// That end, by the adapter.
    receivers: ReceiverOf { sender: u32, at: Lid, rail: usize } => QpNum;
    /// Where a rank listens, over sockets.
    listeners: ListenerOf { rank: u32 } => Lid;
    /// Who calls a rank from this address and port.
    callers: CallerOf { callee: u32, address: Lid, port: u16 } => u32;
    /// Where a rank is, over PSM2.
    addresses: AddressOf { rank: u32 } => Address;
    /// Where the window of a rank begins: memory for one-sided operations.
    windows: WindowOf { rank: u32 } => u64;
}

/// What a rank tells a peer about one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contact {
    pub lid: Lid,
    /// What it sends from.
    pub qp: QpNum,
    /// What it receives with.
    pub receiver: QpNum,
    /// Its shared receive queue, where requests name it.
    pub srq: Option<SrqId>,
    pub rkey: Rkey,
    pub ring: u64,
    pub user: u64,
    pub device: Option<(u64, Rkey)>,
}
