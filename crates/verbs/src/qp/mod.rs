//! Queue pairs.

use crate::attr::{QpAttr, QpInit, QpState};
use crate::ids::QpNum;

/// What `query_qp` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatus {
    /// Its number.
    pub qp_num: QpNum,
    /// Its state.
    pub state: QpState,
    /// What it was made with.
    pub init: QpInit,
    /// Its attributes; `qp_state` is the state now, `sq_psn` and `rq_psn` are the next packet numbers.
    pub attr: QpAttr,
    /// Send requests posted and not complete.
    pub send_outstanding: u32,
    /// Receives posted and not taken.
    pub recv_posted: u32,
}
