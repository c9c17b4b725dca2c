//! Queue pairs, memory and membership of one rank.

use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_units::Bytes;
use fabriscope_verbs::{Access, Change, CqId, JoinState, Lid, Membership, Mr, PdId, QpAttr, QpInit, QpNum, QpType, RecvWr, Sge, WcStatus};

use super::sample::Board;
use super::{Config, failed};

/// One rank, ready to send or to receive.
pub(super) struct Member {
    pub process: Process,
    pub pd: PdId,
    pub mr: Mr,
    pub cq: CqId,
    pub qp: QpNum,
    /// The address of the group, where there is one.
    pub group: Option<Lid>,
}

/// Makes what a rank needs, joins, and waits for the others.
pub(super) async fn open(process: Process, board: &Record<Board>, config: Config) -> Result<Member, ProgramError> {
    let sends = process.rank() == 0;
    let receives = config.packets().saturating_mul(config.messages).min(DEPTH);
    let made = process.nic(0, |nic| {
        let pd = nic.alloc_pd();
        let mr = nic.reg_mr(pd, 0, MEMORY, Access::ALL)?;
        let control = nic.create_cq(1)?;
        let cq = nic.create_cq(DEPTH * 2)?;
        let mut init = QpInit::new(pd, QpType::Ud, cq);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (DEPTH, DEPTH);
        let qp = nic.create_qp(&init)?;
        let pkey_index = config.pkey.map_or(Some(0), |pkey| nic.pkey_index(pkey));
        for step in [QpAttr { pkey_index, ..QpAttr::init_ud(QKEY) }, QpAttr::rtr_ud(), QpAttr::rts(0)] {
            nic.modify_qp(qp, &step)?;
        }
        nic.set_rate_limit(qp, config.rate, Bytes::ZERO)?;
        Ok((pd, mr, control, cq, qp))
    });
    let (pd, mr, control, cq, qp) = made.map_err(|error: fabriscope_verbs::VerbsError| failed(error))?;
    let mut end = Member { process, pd, mr, cq, qp, group: None };
    let rank = end.process.rank() as usize;
    board.lock().ends[rank] = Some((end.process.lid(0), qp));
    for _ in 0..if sends { 0 } else { receives } {
        end.post_receive(config)?;
    }
    // Whoever joins as a full member makes the group; the sender wants nothing back.
    if let Some(mgid) = config.group {
        let asked = end.process.now();
        let change = Change::Join { state: if sends { JoinState::SendOnlyFull } else { JoinState::Full }, qkey: QKEY };
        end.process.nic(0, |nic| nic.post_membership(Membership { mgid, change, cq: control, wr_id: 0 }));
        let answer = end.process.wait_cq(0, control, 1).await;
        let answer = answer.first().filter(|wc| wc.status == WcStatus::Success).and_then(|wc| wc.imm);
        let mlid = answer.ok_or_else(|| ProgramError("the subnet manager refused to let a rank join the group".to_owned()))?;
        let group = Lid::multicast(mlid as u16);
        if !sends {
            end.process.nic(0, |nic| nic.attach_mcast(qp, group)).map_err(failed)?;
        }
        end.group = Some(group);
        board.lock().joins[rank] = end.process.now() - asked;
    }
    end.process.barrier().await;
    Ok(end)
}

impl Member {
    /// Posts a receive for one datagram and the header in front of it.
    pub fn post_receive(&self, config: Config) -> Result<(), ProgramError> {
        let sge = Sge { addr: 0, length: config.mtu.as_u64() as u32 + GRH, lkey: self.mr.lkey };
        Ok(self.process.post_recv(0, self.qp, &RecvWr::new(0, sge))?)
    }
}

/// Entries of a queue. Basis: assumed; most of what adapters offer.
pub(super) const DEPTH: u32 = 8192;
/// The key of the group, and of queue pairs that are reached one by one. Basis: what perftest uses.
pub(super) const QKEY: u32 = 0x1111_1111;
/// In front of each datagram, in bytes. Basis: standard.
const GRH: u32 = 40;
/// All of it is one buffer: contents do not matter.
const MEMORY: Bytes = Bytes(1 << 31);
