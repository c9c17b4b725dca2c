//! Work completions, as `ibv_poll_cq` gives them.
//!
//! Source: IBA vol. 1 §11.6.2; man page ibv_poll_cq(3).
//! Modelled: every status of `enum ibv_wc_status` by name; those of RC, UC and UD occur.
//! Not modelled: time stamps, tag matching, path bits.

use std::fmt;

use crate::ids::{Lid, QpNum, SrqId, WqeIndex};
use crate::words::WordsId;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $ibv:literal, $text:literal;)*) => {
        /// How a work request ended: the values of `enum ibv_wc_status`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum WcStatus { $($(#[$doc])* $name = $code,)* }

        impl WcStatus {
            /// Every status.
            pub const ALL: &'static [WcStatus] = &[$(WcStatus::$name,)*];
            /// The constant of libibverbs.
            pub const fn name(self) -> &'static str {
                match self { $(WcStatus::$name => $ibv,)* }
            }
            /// The text of `ibv_wc_status_str`.
            pub const fn text(self) -> &'static str {
                match self { $(WcStatus::$name => $text,)* }
            }
        }
    };
}

statuses! {
    /// Done.
    Success = 0, "IBV_WC_SUCCESS", "success";
    /// The local buffer does not hold the message, or the message is too long for the transport.
    LocLenErr = 1, "IBV_WC_LOC_LEN_ERR", "local length error";
    /// An internal error of the local queue pair.
    LocQpOpErr = 2, "IBV_WC_LOC_QP_OP_ERR", "local QP operation error";
    /// An internal error of the local end-to-end context.
    LocEecOpErr = 3, "IBV_WC_LOC_EEC_OP_ERR", "local EE context operation error";
    /// A local key is wrong, or the memory lies outside its region, or the right is missing.
    LocProtErr = 4, "IBV_WC_LOC_PROT_ERR", "local protection error";
    /// The queue pair went to the error state before the request was carried out.
    WrFlushErr = 5, "IBV_WC_WR_FLUSH_ERR", "Work Request Flushed Error";
    /// A memory window could not be bound.
    MwBindErr = 6, "IBV_WC_MW_BIND_ERR", "memory management operation error";
    /// The peer's answer makes no sense.
    BadRespErr = 7, "IBV_WC_BAD_RESP_ERR", "bad response error";
    /// A protection error on a local buffer of WRITE with immediate.
    LocAccessErr = 8, "IBV_WC_LOC_ACCESS_ERR", "local access error";
    /// The peer found the request invalid: receive buffer too small, operation not supported, misaligned atomic.
    RemInvReqErr = 9, "IBV_WC_REM_INV_REQ_ERR", "remote invalid request error";
    /// The peer's key, bounds or rights refused the access.
    RemAccessErr = 10, "IBV_WC_REM_ACCESS_ERR", "remote access error";
    /// The peer could not carry out the request.
    RemOpErr = 11, "IBV_WC_REM_OP_ERR", "remote operation error";
    /// No answer after `retry_cnt` repetitions.
    RetryExcErr = 12, "IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded";
    /// The peer had no receive posted after `rnr_retry` repetitions.
    RnrRetryExcErr = 13, "IBV_WC_RNR_RETRY_EXC_ERR", "RNR retry counter exceeded";
    /// RD only.
    LocRddViolErr = 14, "IBV_WC_LOC_RDD_VIOL_ERR", "local RDD violation error";
    /// RD only.
    RemInvRdReqErr = 15, "IBV_WC_REM_INV_RD_REQ_ERR", "remote invalid RD request";
    /// The peer aborted the operation.
    RemAbortErr = 16, "IBV_WC_REM_ABORT_ERR", "aborted error";
    /// RD only.
    InvEecnErr = 17, "IBV_WC_INV_EECN_ERR", "invalid EE context number";
    /// RD only.
    InvEecStateErr = 18, "IBV_WC_INV_EEC_STATE_ERR", "invalid EE context state";
    /// An error of the device.
    FatalErr = 19, "IBV_WC_FATAL_ERR", "fatal error";
    /// The peer did not answer in time (extended connections).
    RespTimeoutErr = 20, "IBV_WC_RESP_TIMEOUT_ERR", "response timeout error";
    /// Anything else.
    GeneralErr = 21, "IBV_WC_GENERAL_ERR", "general error";
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WcOpcode {
    /// SEND.
    Send,
    /// WRITE.
    RdmaWrite,
    /// READ.
    RdmaRead,
    /// CMP_SWAP.
    CompSwap,
    /// FETCH_ADD.
    FetchAdd,
    /// BIND of a memory window.
    BindMw,
    /// LOCAL_INV.
    LocalInv,
    /// A receive, filled by SEND.
    Recv,
    /// A receive, taken by WRITE with immediate.
    RecvRdmaWithImm,
}

impl WcOpcode {
    /// Whether a receive completed.
    pub const fn is_recv(self) -> bool {
        matches!(self, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm)
    }
}

/// A work completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wc {
    /// Of the work request.
    pub wr_id: u64,
    /// How it ended; when not `Success`, only `wr_id`, `qp_num` and `vendor_err` are to be relied on.
    pub status: WcStatus,
    /// What completed.
    pub opcode: WcOpcode,
    /// Bytes received, read, or returned by an atomic; on UD 40 bytes of GRH are counted.
    pub byte_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The local queue pair.
    pub qp_num: QpNum,
    /// The sender's queue pair, on UD receives.
    pub src_qp: QpNum,
    /// The sender's address, on UD receives.
    pub slid: Lid,
    /// The sender's service level, on UD receives.
    pub sl: u8,
    /// The sender asked for a solicited event.
    pub solicited: bool,
    /// The first 40 bytes of the buffer belong to the GRH.
    pub grh: bool,
    /// A device's own error code; 0 here.
    pub vendor_err: u32,
    /// Position of the work request in its queue: polling frees the slots up to it.
    pub wqe: WqeIndex,
    /// The shared queue that a receive came from.
    pub srq: Option<SrqId>,
    /// What the sender said with the message: [`Nic::words`](crate::Nic::words) gives it until the queue is polled again.
    pub words: WordsId,
}

impl Wc {
    /// A completion with nothing but its request.
    #[must_use]
    pub fn of(qp_num: QpNum, wr_id: u64, status: WcStatus, opcode: WcOpcode, wqe: WqeIndex) -> Wc {
        Wc {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm: None,
            qp_num,
            src_qp: QpNum(0),
            slid: Lid(0),
            sl: 0,
            solicited: false,
            grh: false,
            vendor_err: 0,
            wqe,
            srq: None,
            words: WordsId::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every completion is moved several times: words stay where they arrived.
    #[test]
    fn a_completion_is_64_bytes() {
        assert_eq!(size_of::<Wc>(), 64);
    }

    #[test]
    fn statuses_are_those_of_libibverbs() {
        assert_eq!(WcStatus::RetryExcErr as u8, 12);
        assert_eq!(WcStatus::GeneralErr as u8, 21);
        assert_eq!(WcStatus::WrFlushErr.to_string(), "Work Request Flushed Error");
        for (code, status) in WcStatus::ALL.iter().enumerate() {
            assert_eq!(*status as usize, code, "{}", status.name());
        }
    }
}
