//! Attributes of queue pairs and address handles.
//!
//! Source: IBA vol. 1 §11.2.5 (Modify Queue Pair); man pages ibv_create_qp(3), ibv_modify_qp(3).
//! Modelled: the attributes that each transport needs, and four of our own for packet spraying and acknowledgement.
//! Not modelled: several ports, partitions (stored, not checked).

use fabriscope_units::Bytes;
use fabriscope_wire::Mtu;

use crate::access::Access;
use crate::ids::{CqId, Lid, PdId, QpNum, SrqId, XrcdId};

pub use crate::service::QpType;

/// The state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum QpState {
    /// Created; takes nothing.
    #[default]
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// The send queue drains: what has begun is finished, nothing new begins.
    Sqd,
    /// The send queue had an error (UC, UD); receiving goes on.
    Sqe,
    /// Everything is flushed.
    Err,
}

/// An address vector: where packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AhAttr {
    /// The peer's address.
    pub dlid: Lid,
    /// The service level [0..15].
    pub sl: u8,
}

/// The state of path migration, `ibv_mig_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum MigState {
    /// On its path, with no other one ready: the state of new queue pairs.
    #[default]
    Migrated,
    /// It has an alternate path, and waits to hear that the peer has one too.
    Rearm,
    /// Both have: it migrates when its repetitions run out, or when the peer did.
    Armed,
}

/// An alternate path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AltPath {
    /// The peer's address on that path.
    pub av: AhAttr,
    /// Added to what switches tell paths apart by: with several addresses per endpoint (LMC) the next address.
    pub path_bits: u16,
}

/// How much a queue pair holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpCap {
    /// Send requests posted and not yet freed by polling.
    pub max_send_wr: u32,
    /// Receives posted and not yet freed by polling.
    pub max_recv_wr: u32,
    /// Entries of a gather list.
    pub max_send_sge: u32,
    /// Entries of a scatter list.
    pub max_recv_sge: u32,
    /// Bytes that may be posted inline.
    pub max_inline_data: Bytes,
}

impl Default for QpCap {
    /// What suits a benchmark with a few hundred requests in flight.
    fn default() -> QpCap {
        QpCap { max_send_wr: 256, max_recv_wr: 512, max_send_sge: 1, max_recv_sge: 1, max_inline_data: Bytes(0) }
    }
}

/// What `create_qp` needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInit {
    /// Protection domain.
    pub pd: PdId,
    /// Transport.
    pub qp_type: QpType,
    /// Where send requests complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub recv_cq: CqId,
    /// Receives come from here instead of an own queue.
    pub srq: Option<SrqId>,
    /// The domain whose shared receive queues it may use; only of [`QpType::XrcRecv`].
    pub xrcd: Option<XrcdId>,
    /// Sizes.
    pub cap: QpCap,
    /// Every send request completes, signalled or not.
    pub sq_sig_all: bool,
    /// Datagrams that it sends to a group it is attached to do not come back to it (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`).
    pub block_mcast_loopback: bool,
}

impl QpInit {
    /// A queue pair of default sizes with one completion queue for both directions.
    pub fn new(pd: PdId, qp_type: QpType, cq: CqId) -> QpInit {
        QpInit {
            pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap: QpCap::default(),
            sq_sig_all: false,
            block_mcast_loopback: false,
        }
    }
}

/// What `modify_qp` changes; `None` leaves an attribute as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpAttr {
    /// The new state.
    pub qp_state: Option<QpState>,
    /// Index of the partition key.
    pub pkey_index: Option<u16>,
    /// Port, counted from 1.
    pub port_num: Option<u8>,
    /// What the peer may do with our memory.
    pub qp_access_flags: Option<Access>,
    /// The key datagrams must show; of [`QpType::Dct`] the access key.
    pub qkey: Option<u32>,
    /// The path to the peer.
    pub av: Option<AhAttr>,
    /// Another path to the peer, `alt_ah_attr`.
    pub alt_path: Option<AltPath>,
    /// The state of path migration; ARMED cannot be set.
    pub path_mig_state: Option<MigState>,
    /// The largest payload of a packet.
    pub path_mtu: Option<Mtu>,
    /// The peer's queue pair.
    pub dest_qp_num: Option<QpNum>,
    /// The first packet number we expect, 24 bits.
    pub rq_psn: Option<u32>,
    /// The first packet number we send, 24 bits.
    pub sq_psn: Option<u32>,
    /// READs and atomics we may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of the time a peer waits when no receive was posted [0..31].
    pub min_rnr_timer: Option<u8>,
    /// Exponent of the acknowledgement timeout, 4.096 us · 2^timeout [0..31]; 0 waits for ever.
    pub timeout: Option<u8>,
    /// Repetitions without an answer before the queue pair gives up [0..7].
    pub retry_cnt: Option<u8>,
    /// Repetitions for want of a receive before the queue pair gives up [0..7]; 7 never gives up.
    pub rnr_retry: Option<u8>,
    /// Both ends take packets in any order (per-packet spraying). No counterpart in libibverbs.
    pub any_order: Option<bool>,
    /// Every packet gets a new entropy value, so that switches spread them. No counterpart in libibverbs.
    pub spray: Option<bool>,
    /// An acknowledgement is asked for after so many packets of a message; 0 asks at its end only. No counterpart in libibverbs.
    pub ack_interval: Option<u32>,
    /// Packets that may be outstanding, a power of two of at least 64; with `any_order` also the size of the
    /// receiver's bitmap, so both ends take the same. No counterpart in libibverbs.
    pub window: Option<u32>,
}

impl QpAttr {
    /// To INIT for RC and UC.
    pub fn init(access: Access) -> QpAttr {
        QpAttr { qp_state: Some(QpState::Init), pkey_index: Some(0), port_num: Some(1), qp_access_flags: Some(access), ..QpAttr::default() }
    }
    /// To INIT for UD.
    pub fn init_ud(qkey: u32) -> QpAttr {
        QpAttr { qp_state: Some(QpState::Init), pkey_index: Some(0), port_num: Some(1), qkey: Some(qkey), ..QpAttr::default() }
    }
    /// To INIT for datagrams that reach memory of the peer (RD, SRD, UET) and for targets of DC.
    pub fn init_datagram(qkey: u32, access: Access) -> QpAttr {
        QpAttr { qp_access_flags: Some(access), ..QpAttr::init_ud(qkey) }
    }
    /// To INIT for initiators of DC and raw packets.
    pub fn init_plain() -> QpAttr {
        QpAttr { qp_state: Some(QpState::Init), pkey_index: Some(0), port_num: Some(1), ..QpAttr::default() }
    }
    /// To RTR for DC: the path comes with each request, or from the peer.
    pub fn rtr_dc(path_mtu: Mtu) -> QpAttr {
        QpAttr { path_mtu: Some(path_mtu), min_rnr_timer: Some(12), ..QpAttr::rtr_ud() }
    }
    /// To RTR for RC: as perftest sets it, 16 READs and a receiver-not-ready timer of 0.64 ms (code 12).
    pub fn rtr_rc(path_mtu: Mtu, peer: QpNum, rq_psn: u32, av: AhAttr) -> QpAttr {
        QpAttr { max_dest_rd_atomic: Some(16), min_rnr_timer: Some(12), ..QpAttr::rtr_uc(path_mtu, peer, rq_psn, av) }
    }
    /// To RTR for UC.
    pub fn rtr_uc(path_mtu: Mtu, peer: QpNum, rq_psn: u32, av: AhAttr) -> QpAttr {
        QpAttr {
            qp_state: Some(QpState::Rtr),
            path_mtu: Some(path_mtu),
            dest_qp_num: Some(peer),
            rq_psn: Some(rq_psn),
            av: Some(av),
            ..QpAttr::default()
        }
    }
    /// To RTR for UD.
    pub fn rtr_ud() -> QpAttr {
        QpAttr { qp_state: Some(QpState::Rtr), ..QpAttr::default() }
    }
    /// To RTS for RC: as perftest sets it, 16 READs, timeout 14 (67 ms), 7 repetitions of both kinds.
    pub fn rts_rc(sq_psn: u32) -> QpAttr {
        QpAttr { max_rd_atomic: Some(16), timeout: Some(14), retry_cnt: Some(7), rnr_retry: Some(7), ..QpAttr::rts(sq_psn) }
    }
    /// To RTS for UC and UD.
    pub fn rts(sq_psn: u32) -> QpAttr {
        QpAttr { qp_state: Some(QpState::Rts), sq_psn: Some(sq_psn), ..QpAttr::default() }
    }
    /// To a state that needs no attribute: RESET, SQD, ERR.
    pub fn to(state: QpState) -> QpAttr {
        QpAttr { qp_state: Some(state), ..QpAttr::default() }
    }
}

/// The other end of a connection, for [`crate::Nic::connect`]. UD needs none of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its address.
    pub lid: Lid,
    /// Its queue pair.
    pub qp: QpNum,
    /// Service level of the path.
    pub sl: u8,
    /// MTU of the path.
    pub mtu: Mtu,
}

impl Peer {
    /// The Q_Key that UD queue pairs get from `connect`. Basis: what perftest uses.
    pub const QKEY: u32 = 0x1111_1111;
}
