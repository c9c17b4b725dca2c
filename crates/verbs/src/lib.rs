//! A sans-I/O RDMA NIC with the semantics of InfiniBand verbs.
//!
//! Source: InfiniBand Architecture Specification vol. 1, release 1.6, chapters 9 to 11; manual pages of libibverbs; for the other
//! services see `fabriscope_wire::Service`.
//! Modelled: protection domains, memory regions, completion queues, shared receive queues, address handles, partition keys,
//! multicast groups; queue pairs of type RC, XRC, RD, DC, SRD, UET, iWARP, UC, UD and raw with their state machines, transports,
//! path migration, retransmission and errors; congestion control and rate limits.
//! The kernel's sockets and PSM2 are not in it: the adapter of a node joins them (`fabriscope_node::adapter`).
//! Not modelled: memory windows, end-to-end credits, several ports.

#[macro_use]
mod registry;

mod access;
mod aggregate;
pub mod attr;
pub mod cc;
mod counts;
mod cq;
pub mod error;
pub mod event;
pub(crate) mod ext_borders;
pub mod ext_headers;
pub mod ids;
mod mcast;
pub mod memory;
pub mod mr;
pub mod nic;
pub mod packet;
mod payload;
mod port;
pub mod qp;
mod rate_limit;
pub mod service;
mod srq;
mod transport;
mod watch;
pub mod wc;
pub mod words;
pub mod wr;

pub use access::{Access, MemoryId};
pub use aggregate::{Denied, GroupRequest};
pub use attr::{AhAttr, AltPath, MigState, Peer, QpAttr, QpCap, QpInit, QpState, QpType};
pub use counts::NicCounts;
pub use error::{PostError, VerbsError};
pub use event::AsyncEvent;
pub use ext_borders::{Announcement, Notice};
pub use ext_headers::{Ext, ExtContent, ExtHeaders, ExtId, Foreign};
pub use fabriscope_wire::{Delivery, LinkLayer, Mtu, Order, Scale, Service};
pub use ids::{AhId, CounterId, CqId, EecNum, Lid, Lkey, PdId, QpNum, Rkey, SrqId, WatchId, WqeIndex, XrcdId};
pub use mcast::{Change, JoinState, Membership};
pub use memory::Memory;
pub use mr::{MemoryUse, Mr, PageUse, Pages, WindowKind};
pub use nic::on_demand::{OnDemand, Peers};
pub use nic::shortening::Outstanding;
pub use nic::triggered::{TriggeredAction, TriggeredLimits, TriggeredWr};
pub use nic::{Nic, NicConfig};
pub use packet::{Body, IwarpKind, Landed, Packet, PacketFlags, Received, Transmit};
pub use payload::{Lender, PayloadBytes};
pub use qp::QpStatus;
pub use transport::AckCoalescing;
pub use wc::{Wc, WcOpcode, WcStatus};
pub use words::{AppWords, WordsId};
pub use wr::{Atomic, Posted, RecvWr, Remote, SendFlags, SendWr, Sge, SgeList, UdDestination, WrOpcode};

/// What engines and captures know of iWARP.
pub mod iwarp {
    pub use fabriscope_wire::Mpa;

    pub use crate::transport::iwarp::frame::{Control, Frame, Settings};
}
